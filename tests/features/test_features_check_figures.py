"""Diagnostics see a changed world, and only a changed one."""

from dataclasses import replace

import numpy as np
import pytest

from disco.features import ContextNetwork
from disco.features.check import (
    PSI_ALARM,
    PSI_WATCH,
    clipped_shares,
    dead_units,
    drift,
    missing_shares,
    rescaled_columns,
    stability_index,
)


def rows(count, *, seed, shift=0.0):
    X = np.random.default_rng(seed).normal(size=(count, 3))
    X[:, 1] += shift
    return np.exp(X)


@pytest.fixture(scope="module")
def embedding():
    X = rows(4000, seed=0)
    return ContextNetwork(heads="level", max_epochs=2).fit(X, np.log(X[:, 0]) + 4).embedding_


def test_stability_index_by_hand_and_its_symmetry():
    q, p = np.array([0.2, 0.3, 0.5]), np.array([0.4, 0.4, 0.2])
    by_hand = 0.2 * np.log(2) + 0.1 * np.log(4 / 3) - 0.3 * np.log(0.4)
    assert stability_index(q, p) == pytest.approx(by_hand)
    assert stability_index(p, q) == pytest.approx(by_hand)
    assert stability_index(q, q) == 0
    assert np.isfinite(stability_index(q, np.array([0.0, 0.0, 1.0])))


def test_drift_is_small_for_the_same_law_and_names_the_feature_that_moved(embedding):
    same = drift(embedding, rows(4000, seed=1))
    assert max(same.values()) < PSI_WATCH / 5
    moved = drift(embedding, rows(4000, seed=2, shift=1.0))
    assert next(iter(moved)) == "x1"
    assert moved["x1"] > PSI_ALARM
    assert moved["x0"] < PSI_WATCH


def test_missing_values_are_a_drift_too(embedding):
    X = rows(4000, seed=1)
    X[:1000, 2] = np.nan
    assert missing_shares(embedding, X)["x2"] == (0, 0.25)
    assert drift(embedding, X)["x2"] > PSI_ALARM


def test_rescaled_columns_have_their_factor(embedding):
    X = rows(4000, seed=3)
    assert rescaled_columns(embedding, X) == ()
    X[:, 2] *= 100
    ((name, factor),) = rescaled_columns(embedding, X)
    assert name == "x2"
    assert factor == pytest.approx(100, rel=0.2)
    assert rescaled_columns(embedding, X[:500]) == ()


def test_recencies_may_jump_after_a_campaign_to_everybody(embedding):
    X = rows(4000, seed=3)
    X[:, 2] *= 100
    renamed = replace(
        embedding, feature_names=(*embedding.feature_names[:2], "days_since_last_code", *embedding.feature_names[3:])
    )
    assert rescaled_columns(renamed, X) == ()


def test_clipped_shares_and_dead_units(embedding):
    assert dead_units(embedding) == ()
    context = embedding.context(rows(4000, seed=4))
    assert clipped_shares(context).max() < 0.02
    assert clipped_shares(np.empty((0, 6))).tolist() == [0.0] * 6
