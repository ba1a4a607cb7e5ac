"""The projection onto non-decreasing curves."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from disco.belief import BasketModel, RadialBasis
from disco.belief.algebra import make_monotone, pool_adjacent
from disco.policy import Thompson

numbers = st.lists(st.floats(-5, 5), min_size=1, max_size=9)


def test_by_hand():
    assert pool_adjacent(np.array([3.0, 1.0, 2.0, 5.0]), np.array([1.0, 1.0, 2.0, 1.0])).tolist() == [2, 2, 2, 5]


@settings(max_examples=200, deadline=None)
@given(values=numbers, seed=st.integers(0, 1000))
def test_agrees_with_scikit_learn_and_is_a_projection(values, seed):
    weights = np.random.default_rng(seed).uniform(0.1, 3, len(values))
    found = pool_adjacent(np.array(values), weights)
    expected = IsotonicRegression().fit_transform(np.arange(len(values)), values, sample_weight=weights)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (np.diff(found) >= 0).all()
    np.testing.assert_array_equal(pool_adjacent(found, weights), found)


def test_monotone_curves_are_left_alone_to_the_bit():
    prices = np.exp(np.sort(np.random.default_rng(1).normal(size=(4, 100)), axis=0))
    before = prices.copy()
    make_monotone(prices, np.arange(4))
    np.testing.assert_array_equal(prices, before)


def test_a_million_drawn_curves_without_one_violation():
    generator = np.random.default_rng(6)
    context = generator.normal(size=(300, 2)).clip(-4, 4)
    depth = generator.choice([0.2, 0.5], 300)
    model = BasketModel(encoding=RadialBasis(gamma=20), monotone=True, noise_sd=0.8)
    model = model.update(context, depth, np.exp(3 + 0.3 * generator.normal(size=300)))
    half = 500_000  # of the million, in each precision
    customers = generator.normal(size=(half, 2)).clip(-4, 4)
    offered = [0.45, 0.15, 0.25, 0.35]  # in any order
    for dtype in (np.float64, np.float32):
        served = Thompson().full_prices(
            model, customers, offered, ids=np.arange(half), seed=1, campaign=str(dtype), dtype=dtype
        )
        assert np.count_nonzero(np.diff(served[:, np.argsort(offered)], axis=1) < 0) == 0
    free = BasketModel(encoding=model.encoding, noise_sd=0.8).add(model.evidence)
    raw = Thompson().full_prices(free, customers[:1000], offered, ids=np.arange(1000), seed=1, campaign="c")
    assert np.count_nonzero(np.diff(raw[:, np.argsort(offered)], axis=1) < 0) > 100  # there was something to do
