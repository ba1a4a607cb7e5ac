"""The engagement score and its bins: a function of the context's row alone, frozen edges, equal by their bytes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco.records.errors import InputError, SchemaMismatchError
from disco.records.score import EngagementHead, ScoreBins

BINS = ScoreBins([-0.5, 0.5], [-1.0, 0.0, 1.0])
HEAD = EngagementHead([0.1, 0.7, -0.4, 0.2], BINS)


def test_the_score_is_linear_in_the_context_and_on_the_grid():
    context = np.random.default_rng(1).uniform(-4, 4, (1000, 3))
    rounded = np.rint(context * 65536) / 65536
    expected = 0.1 + rounded @ np.array([0.7, -0.4, 0.2])
    scores = HEAD.scores(context)
    np.testing.assert_allclose(scores, expected, atol=0.51 / 65536)
    assert (scores * 65536 == np.rint(scores * 65536)).all()


def test_a_context_of_zeros_has_no_score():
    scores = HEAD.scores([[0.0, 0.0, 0.0], [0.0, -0.0, 1e-9], [0.0, 1.0, 0.0]])
    assert np.isnan(scores).tolist() == [True, True, False]
    assert BINS.places(scores).tolist() == [3, 3, 1]


def test_a_row_has_the_same_score_alone_and_in_any_chunk():
    context = np.random.default_rng(2).uniform(-4, 4, (257, 3))
    whole = HEAD.scores(context)
    assert np.concatenate([HEAD.scores(context[i : i + 1]) for i in range(257)]).tobytes() == whole.tobytes()
    assert HEAD.scores(np.asfortranarray(context)).tobytes() == whole.tobytes()


def test_places_are_those_of_a_sorted_search():
    bins = ScoreBins.of(np.random.default_rng(3).normal(size=5000))
    scores = np.concatenate([np.random.default_rng(4).normal(size=2000), bins.edges, [np.inf, -np.inf]])
    assert (bins.places(scores) == np.searchsorted(bins.edges, scores, side="right")).all()
    assert bins.places([np.nan, 0.0]).tolist()[0] == bins.count


def test_bins_hold_equal_shares_and_the_mean_of_their_scores():
    scores = np.rint(np.random.default_rng(5).normal(size=64_000) * 65536) / 65536
    bins = ScoreBins.of(scores)
    places = bins.places(scores)
    assert bins.count == 32
    assert (np.abs(np.bincount(places) - 2000) <= 5).all()
    means = np.bincount(places, weights=scores) / np.bincount(places)
    np.testing.assert_allclose(bins.centres, means, atol=1 / 65536)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.integers(1, 9), st.randoms())
def test_no_bin_is_empty_and_the_order_of_scores_does_not_matter(values, count, random):
    scores = np.array(values, float)
    bins = ScoreBins.of([*scores, np.nan], count=count)
    assert bins.count <= count
    assert (np.bincount(bins.places(scores), minlength=bins.count) > 0).all()
    random.shuffle(values)
    assert ScoreBins.of(np.array(values, float), count=count) == bins


def test_equal_by_bytes_and_kept_in_json():
    again = EngagementHead.from_json(json.loads(json.dumps(HEAD.to_json())))
    assert again == HEAD
    assert hash(again) == hash(HEAD)
    assert again.bins == BINS
    assert EngagementHead([0.1, 0.7, -0.4, 0.3], BINS) != HEAD
    assert EngagementHead(HEAD.weights, ScoreBins([-0.5, 0.6], BINS.centres)) != HEAD
    assert BINS != "bins"


def test_nothing_can_be_changed_in_place():
    for array in (BINS.edges, BINS.centres, HEAD.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScoreBins([0.0], [1.0]),
        lambda: ScoreBins([0.0, 0.0], [-1.0, 0.0, 1.0]),
        lambda: ScoreBins([0.0], [1.0, 2.0]),
        lambda: ScoreBins([np.nan], [1.0, 2.0]),
        lambda: ScoreBins.of([]),
        lambda: ScoreBins.of([np.nan]),
        lambda: ScoreBins.of([1.0, np.inf]),
        lambda: ScoreBins.of([1.0], count=0),
        lambda: EngagementHead([0.1], BINS),
        lambda: EngagementHead([0.1, np.inf], BINS),
        lambda: EngagementHead([0.1, 1.0], None),
        lambda: HEAD.scores([[0.0, np.nan, 0.0]]),
        lambda: EngagementHead.from_json({"weights": [0.1, 1.0]}),
        lambda: EngagementHead.from_json([1.0]),
        lambda: EngagementHead.from_json({**HEAD.to_json(), "weights": ["a", "b"]}),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(InputError):
        make()


def test_contexts_of_another_network_are_refused():
    with pytest.raises(SchemaMismatchError, match="3 columns"):
        HEAD.scores(np.zeros((2, 4)))
