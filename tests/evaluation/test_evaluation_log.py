"""Logs of random campaigns: what is read, what is refused, and what is warned about."""

import warnings

import numpy as np
import pytest

from disco.evaluation.log import RandomisationWarning, imbalance, random_log, unevenness
from disco.evaluation.replay import replay
from disco.policy import Greedy
from disco.records.errors import InputError

DEPTHS = np.array([0.1, 0.2, 0.4])


def columns(rows=600, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 2)), rng.choice(DEPTHS, rows), rng.lognormal(3, 0.5, rows)


def test_depths_places_and_purchases():
    context, depth, price = columns()
    price[::3] = np.nan
    log = random_log(context, depth, price, customer_id=[f"c{row % 300}" for row in range(600)])
    assert log.depths == (0.1, 0.2, 0.4)
    np.testing.assert_array_equal(log.depth, depth)
    assert log.bought.sum() == 400
    assert log.is_uniform
    assert len(np.unique(log.customer)) == 300
    assert log.customer[5] == log.customer[305]
    assert log.warnings == ()


def test_observed_shares_within_strata():
    context, _, price = columns(8)
    log = random_log(
        context,
        [0.1, 0.1, 0.1, 0.2, 0.1, 0.2, 0.2, 0.2],
        price[:8],
        strata=["a"] * 4 + ["b"] * 4,
        check_balance=False,
    )
    assert log.propensity.tolist() == [0.75, 0.75, 0.75, 0.25, 0.25, 0.75, 0.75, 0.75]
    assert not log.is_uniform


def test_a_random_log_gives_no_warning_and_a_sorted_one_a_loud_one():
    alarms = 0
    for seed in range(300):
        context, depth, price = columns(rows=200, seed=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            random_log(context, depth, price)
        alarms += bool(caught)
    assert alarms <= 4  # two tests at 0.1 % each: more than four of 300 has probability below 0.1 %
    order = np.argsort(context[:, 1])
    with pytest.warns(RandomisationWarning, match="context feature 2"):
        log = random_log(context, np.sort(depth)[np.argsort(order)], price)
    assert "do not look random" in log.warnings[0]


def test_strata_explain_an_imbalance():
    rng = np.random.default_rng(2)
    context = rng.normal(size=(4000, 2))
    stratum = (context[:, 0] > 0).astype(int)
    depth = np.where(rng.random(4000) < np.where(stratum, 0.7, 0.3), 0.1, 0.3)
    price = rng.lognormal(3, 0.5, 4000)
    with pytest.warns(RandomisationWarning, match="context feature 1"):
        random_log(context, depth, price)
    assert random_log(context, depth, price, strata=stratum).warnings == ()
    known = np.where(depth == 0.1, np.where(stratum, 0.7, 0.3), np.where(stratum, 0.3, 0.7))
    assert random_log(context, depth, price, propensity=known).warnings == ()


def test_unequal_frequencies_are_warned_about_unless_observed():
    rng = np.random.default_rng(3)
    context, price = rng.normal(size=(900, 1)), rng.lognormal(3, 0.5, 900)
    depth = rng.choice(DEPTHS, 900, p=[0.6, 0.3, 0.1])
    with pytest.warns(RandomisationWarning, match="not as frequent as their propensities"):
        random_log(context, depth, price)
    assert random_log(context, depth, price, propensity="observed").warnings == ()


def test_the_balance_statistic_against_a_plain_loop():
    rng = np.random.default_rng(4)
    context, place, stratum = rng.normal(size=(50, 2)), rng.integers(0, 2, 50), rng.integers(0, 3, 50)
    propensity = np.where(place == 0, 0.4, 0.6)
    found = imbalance(context, place, stratum, propensity, depths=2)
    terms = [
        ((place[i] == found.depth) / propensity[i] - 1)
        * (context[i, found.feature] - context[stratum == stratum[i], found.feature].mean())
        for i in range(50)
    ]
    p = 0.4 if found.depth == 0 else 0.6
    centred = [term / ((place[i] == found.depth) / propensity[i] - 1) for i, term in enumerate(terms)]
    variance = (1 / p - 1) * sum(x**2 for x in centred)  # under the null, whatever was seen
    assert found.z == pytest.approx(sum(terms) / np.sqrt(variance))
    largest = max(1 / p - 1, 1.0) * max(map(abs, centred))
    u = largest * abs(sum(terms)) / variance
    bennett = np.exp(-variance / largest**2 * ((1 + u) * np.log1p(u) - u))
    assert found.p_value == pytest.approx(min(1.0, 4 * 2 * bennett))


@pytest.mark.parametrize("carriers", [1, 3, 20])
def test_a_rare_column_of_a_uniform_log_raises_no_alarm(carriers):
    """Of 300 logs: at a true rate of 0.1% more than three have a probability below 0.1%."""
    rng = np.random.default_rng(carriers)
    alarms = 0
    for _ in range(300):
        context = np.zeros((1000, 1))
        context[rng.choice(1000, carriers, replace=False)] = 1
        place = rng.integers(0, 8, 1000)
        alarms += imbalance(context, place, np.zeros(1000, int), np.full(1000, 1 / 8), depths=8).p_value < 1e-3
    assert alarms <= 3


def softmax_log(rng, rows=1500, spread=2.0, depths=6):
    context = rng.normal(size=(rows, 3)).clip(-4, 4)
    scores = context @ rng.normal(size=(3, depths)) * spread
    law = np.exp(scores - scores.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    place = (law.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    return context, np.linspace(0.05, 0.3, depths)[place], rng.lognormal(3, 0.5, rows), law[np.arange(rows), place]


def test_true_but_skewed_propensities_are_accepted_and_cut():
    rng = np.random.default_rng(11)
    doubted, least = 0, 1.0
    for _ in range(150):
        context, depth, price, chance = softmax_log(rng)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            log = random_log(context, depth, price, propensity=chance)
        doubted += any("random" in note or "frequent" in note for note in log.warnings)
        least = min(least, chance.min())
        assert log.propensity.min() >= 1 / np.sqrt(1500) - 1e-12
        assert (log.propensity >= chance).all()
        if chance.min() < 1 / np.sqrt(1500):
            assert "as if it had been" in log.warnings[0]
            assert "worth about" in log.warnings[0]
    assert least < 1e-4
    assert doubted <= 3


def test_propensities_that_vary_and_cannot_be_are_refused():
    context, depth, price, chance = softmax_log(np.random.default_rng(12), spread=0.3)
    with pytest.raises(InputError, match="a mean of 1 at most"):
        random_log(context, depth, price, propensity=chance / 2)


def test_unevenness_has_its_level():
    rng = np.random.default_rng(5)
    runs = 2000
    alarms = sum(
        unevenness(rng.choice(3, 400, p=[0.2, 0.3, 0.5]), np.ones(400), depths=3).p_value < 0.05 for _ in range(3)
    )
    assert alarms == 3  # propensity 1 for everything is plainly wrong
    alarms = 0
    for _ in range(runs):
        place = rng.choice(3, 400, p=[0.2, 0.3, 0.5])
        alarms += unevenness(place, np.array([0.2, 0.3, 0.5])[place], depths=3).p_value < 0.05
    assert 0.02 * runs < alarms < 0.05 * runs  # an exact test and Bonferroni: a little below its level


GOOD = {"context": [[0.5], [1.0], [0.2], [0.1]], "depth": [0.1, 0.2, 0.1, 0.2], "full_price": [20.0, np.nan, 5.0, 6.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": np.zeros((0, 2))}, "not empty"),
        ({"context": [[np.nan], [1.0], [0.2], [0.1]]}, "row 1, context"),
        ({"depth": [0.1, 20, 0.1, 0.2]}, "row 2, depth: found 20"),
        ({"depth": [0.1, np.nan, 0.1, 0.2]}, "row 2, depth"),
        ({"depth": [0.1]}, "one figure for each of 4 rows"),
        ({"full_price": [20.0, 0.0, 5.0, 6.0]}, "row 2, full_price: found 0"),
        ({"full_price": ["a", "b", "c", "d"]}, "full_price: found text; expected an array of numbers"),
        ({"propensity": [0.5, 0.0, 0.5, 0.5]}, "row 2, propensity: found 0"),
        ({"propensity": [0.5, 0.4, 0.5, 0.4]}, "sum to 0.9"),
        ({"propensity": "guess"}, "'observed'"),
        ({"strata": [1, 2, 1, 1]}, "its propensity there is 0"),
        ({"strata": [1, 2]}, "one label for each of 4 rows"),
        ({"customer_id": [1, 2]}, "customer_id"),
    ],
)
def test_bad_logs_are_refused_by_name(change, message):
    given = {**GOOD, **change}
    with pytest.raises(InputError, match=message):
        random_log(given.pop("context"), given.pop("depth"), given.pop("full_price"), check_balance=False, **given)


def test_propensities_that_vary_by_row_must_sum_to_one_on_average():
    rng = np.random.default_rng(6)
    context = rng.normal(size=(3000, 1))
    chance = 1 / (1 + np.exp(-context[:, 0]))
    first = rng.random(3000) < chance
    depth, propensity = np.where(first, 0.1, 0.2), np.where(first, chance, 1 - chance)
    assert random_log(context, depth, np.ones(3000), propensity=propensity).warnings == ()
    with pytest.raises(InputError, match="sum to one"):
        random_log(context, depth, np.ones(3000), propensity=propensity * 0.7)


def test_figures_the_model_would_refuse_are_refused_at_the_door_with_their_row():
    context, depth, price = np.zeros((600, 2)), np.tile([0.1, 0.2], 300), np.full(600, 30.0)
    context[450, 1] = 5.0
    with pytest.raises(InputError, match="row 451, context column 2"):
        replay(random_log(context, depth, price, check_balance=False), [Greedy()], batch=300, repeats=0)
    context[450, 1], price[450] = 0.0, 1e20
    with pytest.raises(InputError, match="row 451, full_price"):
        random_log(context, depth, price, check_balance=False)


@pytest.mark.parametrize("spread", [1e-7, 0.05])
def test_likely_depths_alone_are_doubted(spread):
    rows = 600
    rng = np.random.default_rng(1)
    chances = rng.uniform(0.4 - spread, 0.4 + spread, rows)  # of three depths: the sum is about 1.2
    with pytest.warns(RandomisationWarning, match="may not sum to one: inverse propensities have the mean 2.5"):
        random_log(np.zeros((rows, 1)), rng.choice([0.1, 0.2, 0.3], rows), np.full(rows, 30.0), propensity=chances)


def test_engagement_scores_are_kept_on_the_grid_and_may_be_unknown():
    context, depth, price = columns()
    score = np.where(np.arange(600) % 5 == 0, np.nan, context[:, 0])
    log = random_log(context, depth, price, score=score, check_balance=False)
    assert log.score is not None
    np.testing.assert_array_equal(np.isnan(log.score), np.isnan(score))
    np.testing.assert_allclose(log.score, score, atol=2**-17)
    assert random_log(context, depth, price, check_balance=False).score is None


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (np.full(600, np.nan), "no score in any row"),
        (np.r_[np.zeros(599), np.inf], "row 600, score"),
        (np.r_[70.0, np.zeros(599)], "log odds, within ±32"),
        (np.zeros(599), "599"),
    ],
)
def test_scores_that_are_none_are_refused(score, message):
    with pytest.raises(InputError, match=message):
        random_log(*columns(), score=score, check_balance=False)


@pytest.mark.parametrize(
    "change",
    [
        {"context": [[np.nan]] * 4},
        {"full_price": [-1.0, 2.0, 3.0, 4.0]},
        {"propensity": [0.0, 0.5, 0.5, 0.5]},
        {"propensity": [0.9, 0.9, 0.9, 0.9]},
        {"propensity": "guessed"},
        {"strata": ["a", "b", "b", "b"]},
        {"score": [np.nan] * 4},
    ],
)
def test_a_refused_log_says_what_would_make_it_acceptable(change):
    given = {"context": [[1.0]] * 4, "depth": [0.1, 0.2, 0.1, 0.2], "full_price": [1.0, 2.0, 3.0, 4.0]} | change
    with pytest.raises(InputError) as refused:
        random_log(given.pop("context"), given.pop("depth"), given.pop("full_price"), check_balance=False, **given)
    assert refused.value.fix
