"""Money follows from a basket in one place; by hand, and against the identities it must keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco import objective
from disco.records.errors import InputError

prices = st.floats(0.01, 1e6)
depths = st.floats(0.0, 0.99)


@given(prices, depths)
def test_revenue_and_markdown_add_to_the_full_price_and_reward_is_their_difference(price, depth):
    f, a = np.array([price]), np.array([depth])
    assert objective.revenue(f, a) + objective.markdown(f, a) == pytest.approx(f, rel=1e-12)
    assert objective.reward(f, a) == pytest.approx(objective.revenue(f, a) - objective.markdown(f, a), abs=1e-9 * price)


@given(prices, depths, st.floats(0.0, 1.0), st.floats(0.01, 50.0))
def test_value_is_w_times_revenue_minus_markdown_times_engagement(price, depth, rate, w):
    a = np.array([depth])
    value = objective.values(np.full((2, 1), price), a, np.array([rate]), revenue_weight=w)
    by_hand = (w * price * (1 - depth) - price * depth) * rate
    assert value[:, 0] == pytest.approx([by_hand] * 2, rel=1e-9, abs=1e-9 * price * w)


@settings(deadline=None)  # the first call compiles
@given(st.integers(0, 2**32 - 1))
def test_customers_own_rates_give_the_values_of_each_by_itself(seed):
    rng = np.random.default_rng(seed)
    a, rates, price = np.array([0.1, 0.2, 0.45]), rng.random((5, 3)), np.exp(rng.normal(3, 1, (5, 3)))
    one_by_one = [
        objective.values(price[row : row + 1].copy(), a, rates[row], revenue_weight=2.5)[0] for row in range(5)
    ]
    value = objective.values(np.asfortranarray(price), a, np.asfortranarray(rates), revenue_weight=2.5)
    np.testing.assert_allclose(value, one_by_one, rtol=1e-14)
    per_unit = objective.weights(a, rates, revenue_weight=2.5)
    np.testing.assert_allclose(price * per_unit, one_by_one, rtol=1e-14)
    costs = objective.expected_markdown(price, a, rates)
    np.testing.assert_allclose(costs, price * a * rates, rtol=1e-14)


@pytest.mark.parametrize("shape", [(4, 3), (5, 2), (2,), (1, 3)])
def test_rates_of_another_shape_are_refused(shape):
    with pytest.raises(InputError, match="engagement"):
        objective.values(np.ones((5, 3)), np.array([0.1, 0.2, 0.3]), np.full(shape, 0.1), revenue_weight=3.0)


def test_values_keep_the_callers_memory_and_order():
    figures = np.ones((5, 3), np.float32, order="F")
    value = objective.values(figures, np.array([0.1, 0.2, 0.3]), np.full(3, 0.5), revenue_weight=2.0)
    assert value is figures
    assert value.dtype == np.float32
    assert value.flags.f_contiguous


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_a_revenue_weight_that_is_no_positive_number_is_refused(weight):
    with pytest.raises(InputError, match="revenue_weight"):
        objective.weights(np.array([0.1]), np.array([0.1]), revenue_weight=weight)


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan])
def test_engagement_outside_a_share_is_refused(rate):
    with pytest.raises(InputError, match="engagement"):
        objective.weights(np.array([0.1]), np.array([rate]), revenue_weight=3.0)
    with pytest.raises(InputError, match="engagement"):
        objective.values(np.ones((2, 1)), np.array([0.1]), np.array([[0.5], [rate]]), revenue_weight=3.0)
