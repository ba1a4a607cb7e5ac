"""Predictions and choices beside the truth: by hand, against SciPy, scikit-learn, plain loops and full enumeration."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import spearmanr
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from disco.belief import BasketModel, monotone_shares
from disco.evaluation.accuracy import accuracy, judge, monotonicity
from disco.policy import Greedy
from disco.records.errors import InputError

columns = arrays(np.float64, 12, elements=st.integers(-40, 40).map(lambda n: n / 8))


def test_accuracy_by_hand():
    result = accuracy(np.array([1.0, 2.0, 2.0]), np.array([2.0, 4.0, 2.0]))
    assert (result.wape, result.mae, result.mse, result.rows) == (3 / 8, 1.0, 5 / 3, 3)
    assert result.r2 == pytest.approx(1 - (5 / 3) / (8 / 9))


@given(columns, columns)
@settings(max_examples=60, deadline=None)
def test_against_independent_references(predicted, observed):
    result = accuracy(predicted, observed)
    assert result.mae == pytest.approx(mean_absolute_error(observed, predicted))
    assert result.mse == pytest.approx(mean_squared_error(observed, predicted))
    if observed.std():
        assert result.r2 == pytest.approx(r2_score(observed, predicted))
        if predicted.std():
            assert result.spearman == pytest.approx(spearmanr(predicted, observed).statistic, abs=1e-12)


def test_a_constant_prediction_ranks_nothing():
    assert accuracy(np.ones(3), np.array([1.0, 2.0, 3.0])).spearman == 0


@pytest.mark.parametrize(
    ("predicted", "observed"), [([], []), ([1.0], [1.0, 2.0]), ([np.nan], [1.0]), ([1.0], [np.inf])]
)
def test_what_cannot_be_compared_is_refused(predicted, observed):
    with pytest.raises(InputError, match="accuracy"):
        accuracy(np.array(predicted), np.array(observed))


# ---- monotonicity ----------------------------------------------------------------------------------------------------


@given(arrays(np.float64, (5, 4), elements=st.integers(1, 6).map(float)))
@settings(max_examples=60, deadline=None)
def test_against_plain_loops(curves):
    steps = [row[place + 1] >= row[place] for row in curves for place in range(3)]
    whole = [all(row[place + 1] >= row[place] for place in range(3)) for row in curves]
    falls = [1 - row[p + 1] / row[p] for row in curves for p in range(3) if row[p + 1] < row[p]]
    found = monotonicity(curves, [0.1, 0.2, 0.3, 0.4])
    assert found.steps == pytest.approx(np.mean(steps))
    assert found.curves == pytest.approx(np.mean(whole))
    assert found.mean_fall == pytest.approx(np.mean(falls) if falls else 0.0)


def test_depths_are_sorted_first():
    curves = np.array([[3.0, 1.0, 2.0]])
    assert monotonicity(curves, [0.3, 0.1, 0.2]).curves == 1
    assert monotonicity(curves, [0.1, 0.2, 0.3]).curves == 0


def test_agrees_with_the_beliefs_own_share():
    rng = np.random.default_rng(1)
    x, depth = rng.normal(size=(200, 2)).clip(-4, 4), rng.choice([0.1, 0.4], 200)
    model = BasketModel().update(x, depth, rng.lognormal(3, 0.6, 200))
    offered = np.linspace(0.05, 0.5, 10)
    prices = Greedy().full_prices(model, x, offered, ids=np.arange(200), seed=1, campaign="c")
    at_mean, _ = monotone_shares(model, x, offered, keys=np.arange(200))
    assert 0 < at_mean < 1
    assert monotonicity(prices, offered).steps == pytest.approx(at_mean)


@pytest.mark.parametrize(
    ("curves", "depths"),
    [
        (np.ones((2, 1)), [0.1]),
        (np.ones((2, 3)), [0.1, 0.2]),
        (np.ones((0, 2)), [0.1, 0.2]),
        ([[1.0, np.nan]], [0.1, 0.2]),
        (np.ones((2, 2)), [0.1, 0.1]),
        (np.ones((2, 2)), [10, 20]),
    ],
)
def test_bad_input_is_refused(curves, depths):
    with pytest.raises(InputError):
        monotonicity(np.asarray(curves), depths)


# ---- choices, by a known truth ---------------------------------------------------------------------------------------


DEPTHS = (0.1, 0.3)


def truth(rows=5, seed=4):
    rng = np.random.default_rng(seed)
    return {
        "full_price": rng.uniform(50, 150, (rows, 2)),
        "purchase_probability": rng.uniform(0.1, 0.4, (rows, 2)),
        "depths": DEPTHS,
        "revenue_weight": 3.0,
    }


def worth(choice, known):
    total = 0.0
    for row, column in enumerate(choice):
        if column >= 0:
            depth = DEPTHS[column]
            money = known["full_price"][row, column] * known["purchase_probability"][row, column]
            total += money * (3 * (1 - depth) - depth)
    return total


def test_against_all_ways_to_give_the_same_codes():
    known, choice = truth(), np.array([0, -1, 1, 0, -1])
    every = [worth(way, known) for way in set(permutations(choice.tolist()))]
    result = judge(choice, **known)
    assert result.objective == pytest.approx(worth(choice, known))
    assert result.random_objective == pytest.approx(np.mean(every))
    assert result.oracle_objective == pytest.approx(max(every))
    shuffled = [worth(way, known) for way in ((0, -1, 1, 0, -1), (1, -1, 0, 0, -1), (0, -1, 0, 1, -1))]
    assert result.shuffled_objective == pytest.approx(np.mean(shuffled))
    assert (1 + result.uplift_by_whom) * (1 + result.uplift_by_depth) == pytest.approx(1 + result.objective_uplift)


def test_the_oracle_itself_goes_the_whole_way():
    known = truth()
    best = max(set(permutations([0, 1, -1, -1, 1])), key=lambda way: worth(way, known))
    assert judge(np.array(best), **known).share_of_possible == pytest.approx(1.0)
