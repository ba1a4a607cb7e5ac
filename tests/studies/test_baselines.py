"""Four models on one split: each learns what it can, and none sees the other's rows."""

import numpy as np
import pyarrow as pa
import pytest
from studies.baselines import (
    LEAST_SQUARES,
    LIGHT_GBM,
    NETWORK,
    RANDOM_FOREST,
    Effort,
    comparison,
    fit_models,
    group_importance,
)

from disco.features import ContextNetwork, TrainingSet


def orders(count, *, seed, kind):
    """ln basket linear or bent in spend; visits say nothing."""
    rng = np.random.default_rng(seed)
    spend, visits = rng.normal(100, 20, count), rng.poisson(5, count).astype(float)
    signal = {"linear": spend / 50, "bent": 1.5 * (np.abs(spend - 100) > 15)}[kind]
    spend[rng.random(count) < 0.02] = np.nan
    X = pa.table({"spend_365d": spend, "visits_365d": visits, "orders_365d": np.ones(count)})
    ids = np.arange(count)
    return TrainingSet(ids, X, 3 + signal + rng.normal(0, 0.2, count), np.zeros(count), np.zeros(count, bool))


def mse(predicted, observed):
    return float(np.mean((predicted - observed) ** 2))


@pytest.fixture(scope="module")
def bent():
    training, test = orders(2000, seed=1, kind="bent"), orders(1000, seed=2, kind="bent")
    effort = Effort(boosting_rounds=60, forest_trees=20)
    network = ContextNetwork(heads="level", max_epochs=25, seed=0)
    return fit_models(training, effort=effort, network=network), test


def test_only_least_squares_misses_what_is_bent(bent):
    models, test = bent
    table = comparison(models, test, metrics={"mse": mse, "bias": lambda p, y: float(np.mean(p - y))})
    assert table.column_names == ["model", "mse", "bias"]
    errors = dict(zip(table["model"].to_pylist(), table["mse"].to_pylist(), strict=True))
    assert set(errors) == {LEAST_SQUARES, LIGHT_GBM, RANDOM_FOREST, NETWORK}
    assert errors[LEAST_SQUARES] > 0.9 * test.log_full_price.var()
    for name in (LIGHT_GBM, RANDOM_FOREST, NETWORK):
        assert errors[name] < 0.4 * errors[LEAST_SQUARES], name


def test_least_squares_agrees_with_the_normal_equations():
    training, test = orders(800, seed=3, kind="linear"), orders(200, seed=4, kind="linear")
    models = fit_models(
        training, effort=Effort(boosting_rounds=2, forest_trees=2), network=ContextNetwork(heads="level", max_epochs=1)
    )

    def design(rows):
        spend = rows.X["spend_365d"].to_numpy()
        middle = np.nanmedian(training.X["spend_365d"].to_numpy())
        return np.column_stack(
            [np.ones(len(rows)), np.where(np.isnan(spend), middle, spend), rows.X["visits_365d"].to_numpy()]
        )

    A = design(training)
    weights = np.linalg.solve(A.T @ A, A.T @ training.log_full_price)
    assert models[LEAST_SQUARES](test.X) == pytest.approx(design(test) @ weights, abs=1e-8)


def test_shuffling_a_group_hurts_only_where_it_matters(bent):
    models, test = bent
    importance = group_importance(models[LIGHT_GBM], test, metric=mse)
    assert list(importance) == ["purchases", "returns", "codes", "site"]
    assert importance["purchases"] > 0.1
    assert importance["returns"] == importance["codes"] == 0
    assert abs(importance["site"]) < 0.01
