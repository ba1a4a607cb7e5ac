"""Odd arguments of every public function of the room end in an error that names them, never in a traceback."""

import numpy as np
import pytest

import disco
from disco.evaluation.accuracy import accuracy, judge, monotonicity
from disco.evaluation.estimates import Look, Mean, compare, uplift
from disco.evaluation.log import random_log
from disco.evaluation.off_policy import off_policy, target_probabilities
from disco.evaluation.power import Design
from disco.evaluation.replay import replay
from disco.records.errors import InputError

ARMS = (["decided"] * 3 + ["control"] * 3, [0.1] * 6, [50, 70, np.nan, 40, np.nan, np.nan])
WEIGHTED = {"propensity": [0.5] * 4, "target": [0, 1, 1, 0]}


def small_log(full_price=None):
    rng = np.random.default_rng(1)
    prices = rng.lognormal(3, 0.5, 200) if full_price is None else np.full(200, full_price)
    return random_log(rng.normal(size=(200, 2)).clip(-4, 4), np.tile([0.1, 0.3], 100), prices, check_balance=False)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"shares": {"tset": 0.5, "control": 0.5}}, "shares: found .*tset"),
        ({"shares": {"decided": "half", "control": 0.5}}, "share of decided: found 'half'"),
        ({"shares": {"decided": None, "control": 0.5}}, "share of decided: found None"),
        ({"shares": {"decided": np.nan, "control": 0.5}}, "share of decided: found nan"),
        ({"shares": {"decided": 1.0}}, "shares: found"),
        ({"shares": [0.5, 0.5]}, "shares: found"),
        ({"before": ["a"] * 6}, "before: found text; expected an array of numbers"),
        ({"before": ["1"] * 6}, "before: found text; expected an array of numbers"),
        ({"before": [[1], [1, 2], [1], [1], [1], [1]]}, "before: found a list; expected an array of numbers"),
        ({"before": np.zeros((6, 0))}, "before: found shape"),
        ({"before": [np.inf] * 6}, "before: found NaN or infinite"),
        ({"planned_purchasers": "10"}, "planned_purchasers: found '10'"),
        ({"planned_purchasers": np.nan}, "planned_purchasers: found nan"),
        ({"planned_purchasers": 0}, "planned_purchasers: found 0"),
        ({"revenue_weight": "3"}, "revenue_weight: found '3'"),
        ({"revenue_weight": True}, "revenue_weight: found True"),
        ({"level": "95%"}, "level: found '95%'"),
        ({"final": "no"}, "final: found 'no'"),
    ],
)
def test_an_ab_test_names_what_it_cannot_read(change, named):
    with pytest.raises(InputError, match=named):
        disco.ab_test(*ARMS, **change)


def test_an_ab_test_refuses_amounts_that_are_no_baskets():
    with pytest.raises(InputError, match="full_price, row 2"):
        disco.ab_test(ARMS[0], ARMS[1], [1, 1e200, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"log": "log.parquet"}, "log: found 'log.parquet'; expected a log made by"),
        ({"warm": "log.parquet"}, "warm: found 'log.parquet'"),
        ({"belief": "x"}, "belief: found 'x'"),
        ({"revenue_weight": "3"}, "revenue_weight: found '3'"),
        ({"policies": "greedy"}, "policies: found 'greedy'"),
        ({"policies": ["greedy"]}, "policies: found 'greedy'"),
        ({"policies": disco.Greedy}, "policies: found .*class"),
        ({"policies": None}, "policies: found None"),
        ({"policies": disco.UnconstrainedLearner(policy="thompson")}, "policies: found 'thompson'"),
        ({"caps": [1, 2]}, "caps: found"),
        ({"seed": "a"}, "seed: found 'a'"),
        ({"seed": 1.5}, "seed: found 1.5"),
        ({"repeats": 2.0}, "repeats: found 2.0"),
        ({"level": "high"}, "level: found 'high'"),
        ({"log": small_log(np.nan)}, "log: found no purchase in any of its 200 rows"),
    ],
)
def test_a_replay_names_what_it_cannot_read(change, named):
    arguments = {"log": small_log(), "policies": disco.Greedy(), "batch": 100, "repeats": 0} | change
    with pytest.raises(InputError, match=named):
        replay(arguments.pop("log"), arguments.pop("policies"), **arguments)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: random_log([[1], [1, 2]], [0.1, 0.2], [3, 4]), "log, context"),
        (lambda: random_log([["a"], ["b"]], [0.1, 0.2], [3, 4]), "log, context"),
        (lambda: random_log([[1.0], [2]], ["0.1", "0.2"], [3, 4]), "log, depth"),
        (lambda: random_log([[1.0], [2]], [0.1, 0.2], [3, 4], customer_id=["a", None]), "log, customer_id, row 2"),
        (lambda: random_log([[1.0], [2]], [0.1, 0.2], [3, 4], strata=[np.nan, 1.0]), "log, strata, row 1"),
        (lambda: accuracy(["a"], ["b"]), "accuracy, predicted"),
        (lambda: monotonicity([[1, 2], [3]], [0.1, 0.2]), "monotonicity, full_price"),
        (lambda: off_policy(["a"] * 4, **WEIGHTED), "off_policy, figure"),
        (lambda: off_policy([1.0] * 4, **WEIGHTED, customers=[1, 2]), "off_policy, customers"),
        (lambda: target_probabilities([[0, 1.0]], [[0.5, 0.5]], [7]), "place, row 1: found 7"),
        (lambda: target_probabilities([[1.0]], [[0.5, 0.5]], [0]), "shapes"),
        (lambda: target_probabilities([[0, 1.0], [np.nan, 1]], [[0.5, 0.5]] * 2, [1, 1]), "row 2"),
        (lambda: Design(baseline="a", sd=1), "baseline: found 'a'"),
        (lambda: Design(baseline=1, sd=1, control_share="half"), "control_share: found 'half'"),
        (lambda: Design(baseline=1, sd=1).power("1%", customers=100), "uplift: found '1%'"),
        (lambda: Design(baseline=1, sd=1).power(0.01, customers=np.inf), "customers: found inf"),
        (lambda: Design(baseline=1, sd=1).customers(1e-300), "uplift: found 1e-300"),
        (lambda: Design(baseline=1, sd=1).detectable_uplift(customers=np.nan), "customers: found nan"),
        (lambda: uplift(["a", "b"], [1, 2]), "decided arm"),
        (
            lambda: compare(Mean(2.0, 1.0, 9), Mean(1.0, 1.0, 9), look=Look(information="x")),
            "information: found 'x'",
        ),
        (
            lambda: judge(
                np.array([5]),
                full_price=np.ones((1, 2)),
                purchase_probability=np.ones((1, 2)),
                depths=(0.1, 0.2),
                revenue_weight=3.0,
            ),
            "choices up to 5",
        ),
    ],
)
def test_every_door_has_a_name(call, named):
    with pytest.raises(InputError, match=named):
        call()


def test_lists_are_read_as_arrays_are():
    arrays = {name: np.array(values, float) for name, values in WEIGHTED.items()}
    assert off_policy([1.0, 0, 3, 4], **WEIGHTED) == off_policy(np.array([1.0, 0, 3, 4]), **arrays)
    labels = off_policy([1.0, 0, 3, 4], **WEIGHTED, customers=["b", "a", "a", "b"])
    assert labels == off_policy([1.0, 0, 3, 4], **WEIGHTED, customers=[1, 0, 0, 1])


def test_a_stratum_that_missed_a_depth_is_fine_where_propensities_are_given():
    context, depth = np.zeros((5, 1)), [0.1, 0.2, 0.1, 0.2, 0.1]
    strata = ["a", "a", "a", "a", "b"]
    log = random_log(context, depth, [3.0] * 5, propensity=[0.5] * 5, strata=strata, check_balance=False)
    assert log.propensity.tolist() == [0.5] * 5
    with pytest.raises(InputError, match=r"no row at depth 0\.2"):
        random_log(context, depth, [3.0] * 5, strata=strata, check_balance=False)
