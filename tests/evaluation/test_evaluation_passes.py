"""Passes over a log: caps, resampling, and the error of a figure over several passes, by hand."""

import numpy as np
import pytest
from scipy import stats

from disco.belief import BasketModel
from disco.evaluation.log import random_log
from disco.evaluation.passes import (
    FigureOverPasses,
    PassResult,
    PassRules,
    bootstrap_rows,
    play,
    presented_rows,
    read_batch_limits,
    starting_belief,
)
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence


def _play(log, rows, policy, *, start, seed, **rules):
    return play(log, rows, policy, PassRules(**rules), start=start, seed=seed)


def model_of(log):
    bought = log.bought
    return BasketModel().update(log.context[bought], log.depth[bought], log.full_price[bought])


@pytest.mark.parametrize("policy", [Thompson(), UpperConfidence(), EpsilonGreedy(), Greedy(), Random()], ids=repr)
def test_every_policy_keeps_the_caps_of_every_batch(log, policy):
    limits = read_batch_limits({0.1: 0.25, 0.3: 30}, depths=log.depths, batch=500, rows=1200, revenue_weight=3.0)
    start = starting_belief(model_of(log), log, learn_engagement=False)
    played = _play(
        log, np.arange(1200), policy, start=start, limits=limits, seed=4, learning=True, learn_engagement=False
    )
    for batch, most in ((0, (125, 500, 30)), (1, (125, 500, 30)), (2, (50, 200, 12))):
        counts = np.bincount(played.choice[(played.batch == batch) & (played.choice >= 0)], minlength=3)
        assert (counts <= most).all()


def test_resampling_makes_a_skewed_log_uniform_and_keeps_the_population(offline):
    rng = np.random.default_rng(8)
    x = offline.customers(rng, 60_000)
    law = offline.logging_policy(x)
    place = (rng.random((60_000, 1)) > law.cumsum(axis=1)[:, :2]).sum(axis=1)
    log = random_log(
        x, offline.GRID[place], np.ones(60_000), propensity=offline.at_choice(law, place), check_balance=False
    )
    rows = presented_rows(log, skew="resample", seed=1, repeat=0)
    assert rows.size < 60_000
    counts = np.bincount(log.place[rows], minlength=3)
    assert (np.abs(counts - rows.size / 3) < 4 * np.sqrt(rows.size * 2 / 9)).all()
    for column in range(3):
        mean = log.context[rows[log.place[rows] == column]].mean(axis=0)
        assert (np.abs(mean) < 4 / np.sqrt(counts[column])).all()
    assert presented_rows(log, skew="weight", seed=1, repeat=0).size == 60_000


def test_customers_are_resampled_with_all_their_rows(make_log):
    log = make_log(600, customer_id=np.arange(600) % 200)
    times = np.bincount(bootstrap_rows(log, np.arange(600), seed=1, repeat=1), minlength=600)
    assert (times[:200] == times[200:400]).all()
    assert (times[:200] == times[400:]).all()
    assert times[:200].sum() == 200


def test_a_policy_that_gives_no_code_earns_nothing_for_certain(log):
    choices = np.full(1200, -1)
    limits = read_batch_limits(None, depths=log.depths, batch=400, rows=1200, revenue_weight=None)
    nothing = PassResult.of(log, np.arange(1200), choices, np.zeros(1200), batch=400, skew="weight")
    figures = nothing.figures(nothing, limits)
    assert "basket" not in figures
    for name in ("revenue ips", "revenue snips", "revenue dr"):
        value, terms = figures[name]
        assert value == 0
        assert not terms.any()


def test_the_error_of_a_mean_over_passes_by_hand():
    """Four passes; customers account for A, draws for D of what passes differ by, resampled logs vary by V."""
    values, rng = [10.0, 12.0, 10.0, 12.0], np.random.default_rng(1)
    terms = [0.05 * rng.normal(size=100) for _ in values]
    resampled = np.array([8.0, 14.0, 8.0, 14.0, 11.0])
    figure = FigureOverPasses()
    for value, term in zip(values, terms, strict=True):
        figure.add(value, term - term.mean())
    found = figure.estimate(resampled, level=0.95)
    centred = [term - term.mean() for term in terms]
    alone = np.mean([100 / 99 * (term**2).sum() for term in centred])
    average = sum(centred) / 4
    by_customer = 100 / 99 * (average**2).sum()
    by_draws = np.var(values, ddof=1) - (alone - by_customer) * 4 / 3
    by_way = np.var(resampled, ddof=1) - alone - by_draws * 3 / 4
    assert found.value == 11
    assert found.standard_error == pytest.approx(np.sqrt(by_customer + by_way))
    assert by_way / (by_customer + by_way) > 0.8
    assert found.upper - 11 > stats.t.ppf(0.975, 9) * found.standard_error
    alone = FigureOverPasses()
    alone.add(values[0], centred[0])
    assert alone.estimate(np.array([]), level=0.95).standard_error == pytest.approx(
        np.sqrt(100 / 99 * (centred[0] ** 2).sum())
    )
    assert FigureOverPasses().estimate(resampled, level=0.95) is None
