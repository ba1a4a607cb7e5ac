"""What policies will earn after learning from a log: against a plain loop, the belief's promise, and edges."""

import numpy as np
import pytest

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.forecasting import _folds, forecast_policies
from disco.evaluation.log import random_log
from disco.evaluation.passes import FigureOverPasses
from disco.policy import Greedy, Random, Thompson
from disco.records.decisions import Audience, Offer, Purchases
from disco.records.errors import InputError


def make_log(rows=900, features=6, seed=2, **more):
    """Depths change nothing and features mean nothing: no policy earns more than another."""
    rng = np.random.default_rng(seed)
    x, depth = rng.normal(size=(rows, features)).clip(-4, 4), rng.choice([0.1, 0.2, 0.3], rows)
    price = np.where(rng.random(rows) < 0.5, rng.lognormal(3, 0.6, rows), np.nan)
    return random_log(x, depth, price / (1 - depth), check_balance=False, **more)


def test_against_a_plain_loop():
    log, folds, seed = make_log(), 3, 4
    found = forecast_policies(log, Greedy(), folds=folds, passes=1, seed=seed)["greedy"]
    fold, terms = _folds(log, folds, seed), np.zeros(len(log))
    for part in range(folds):
        learned, judged = fold != part, np.flatnonzero(fold == part)
        bought = learned & log.bought
        seen = Purchases(context=log.context[bought], depth=log.depth[bought], full_price=log.full_price[bought])
        codes = EngagementCounts.of(log.depth[learned], log.bought[learned])
        start = Belief(basket=BasketModel(), engagement=Engagement(override=dict.fromkeys(log.depths, 1.0)))
        belief = learn(start, [Lesson.of("log", seen, codes)])
        audience = Audience(ids=np.arange(judged.size), context=log.context[judged], known=np.ones(judged.size, bool))
        offer = Offer(depths=log.depths, caps=(None,) * 3, revenue_weight=1e9)
        made = decide(audience, belief=belief, offer=offer, policy=Greedy(), campaign="batch 0", seed=seed)
        rates = Engagement(counts=codes).rates(np.asarray(log.depths))
        for place, row in enumerate(judged):
            choice = made.choice[place]
            expected = made.expected_full_price[place] * rates[choice] * (1 - log.depths[choice])
            terms[row] = expected
            if log.place[row] == choice:
                paid = 0.0 if np.isnan(log.full_price[row]) else log.full_price[row] * (1 - log.depth[row])
                terms[row] += 3 * (paid - expected)
    assert found.revenue.value == pytest.approx(terms.mean())


def test_the_promise_is_too_large_where_there_is_nothing_to_find_and_the_forecast_is_not():
    gaps = []
    for seed in range(6):
        found = forecast_policies(make_log(seed=seed), Greedy(), passes=1)["greedy"]
        assert found.promised_against_random > 0
        gaps.append(found.revenue_against_random.value)
    error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps)) < 5 * error


def test_customers_stay_together_and_folds_have_equal_sizes():
    log = make_log(customer_id=np.arange(900) // 3)
    fold = _folds(log, 5, 1)
    assert all(len(set(fold[log.customer == one])) == 1 for one in range(300))
    assert np.bincount(fold).tolist() == [180] * 5


def test_several_policies_under_caps_with_a_weight_and_equal_seeds():
    log = make_log()
    one, two = (
        forecast_policies(log, [Thompson(), Random()], caps={0.3: 0.2}, revenue_weight=3.0, passes=2, seed=3)
        for _ in range(2)
    )
    assert list(one) == ["thompson", "random"]
    assert one["thompson"] == two["thompson"]
    assert one["random"].objective_against_random.value == pytest.approx(0, abs=1e-12)
    assert "against random" in repr(one["thompson"])


def test_a_log_without_purchases_has_no_interval_of_one_point():
    rng = np.random.default_rng(1)
    log = random_log(rng.normal(size=(60, 1)), rng.choice([0.1, 0.2], 60), np.full(60, np.nan), check_balance=False)
    found = forecast_policies(log, Greedy(), folds=2, passes=1)["greedy"]
    assert found.revenue.covers(1e6) or found.revenue.standard_error > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"folds": 1}, "folds"),
        ({"folds": 600}, "fewer folds"),
        ({"policies": []}, "at least one"),
        ({"policies": [Greedy(), Greedy()]}, "each name once"),
        ({"belief": 3}, "BasketModel"),
        ({"log": 3}, "random_log"),
        ({"batch": 10_000}, "batch"),
    ],
)
def test_what_cannot_be_forecast_is_refused(change, said):
    given = {"log": make_log(), "policies": Greedy()} | change
    with pytest.raises(InputError, match=said):
        forecast_policies(given.pop("log"), given.pop("policies"), **given)


def test_an_interval_reaches_further_on_the_side_of_the_tail():
    skewed, turned = FigureOverPasses(), FigureOverPasses()
    terms = np.random.default_rng(6).lognormal(0, 1.2, 300)
    terms = (terms - terms.mean()) / terms.size
    skewed.add(5.0, terms)
    turned.add(5.0, -terms)
    even = skewed.estimate(np.array([]), level=0.95)
    found, other = (one.estimate(np.array([]), level=0.95, skewed=True) for one in (skewed, turned))
    assert (found.value, found.lower, found.standard_error) == (even.value, even.lower, even.standard_error)
    assert found.upper > even.upper
    assert other.upper == even.upper
    assert other.value - other.lower == pytest.approx(found.upper - found.value)


def test_means_of_skewed_terms_are_covered_more_often():
    rng, plain, reaching = np.random.default_rng(9), 0, 0
    truth = float(np.exp(1.2**2 / 2))
    for _ in range(800):
        drawn = rng.lognormal(0, 1.2, 120)
        figure = FigureOverPasses()
        figure.add(float(drawn.mean()), (drawn - drawn.mean()) / drawn.size)
        plain += figure.estimate(np.array([]), level=0.95).covers(truth)
        reaching += figure.estimate(np.array([]), level=0.95, skewed=True).covers(truth)
    assert plain + 8 < reaching <= 0.97 * 800
