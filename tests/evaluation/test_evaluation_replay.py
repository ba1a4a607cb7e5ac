"""Replay: against a plain loop and a second implementation, against the retailer's truth, and at its edges."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment

from disco.belief import BasketModel, Engagement, EngagementCounts, OneHotDepth, SmoothSpline
from disco.campaign import Belief
from disco.evaluation.log import random_log
from disco.evaluation.passes import (
    PassRules,
    UnconstrainedLearner,
    play,
    read_batch_limits,
    starting_belief,
    with_scores,
)
from disco.evaluation.replay import known_at_start, replay
from disco.policy import Greedy, Random, Thompson
from disco.records.errors import InputError, LimitError, SchemaMismatchError
from disco.records.score import EngagementHead, ScoreBins


def _play(log, rows, policy, *, start, seed, **rules):
    return play(log, rows, policy, PassRules(**rules), start=start, seed=seed)


def model_of(log):
    bought = log.bought
    return BasketModel().update(log.context[bought], log.depth[bought], log.full_price[bought])


# ---- what it does ----------------------------------------------------------------------------------------------------


def test_a_fixed_policy_against_a_plain_loop(offline, log):
    found = replay(log, offline.FixedPolicy(), batch=400, passes=1, repeats=0).policies["fixed"]
    chosen = offline.fixed_choice(log.context)
    accepted = [row for row in range(1200) if chosen[row] == log.place[row]]
    revenue = [log.full_price[row] * (1 - log.depth[row]) for row in accepted if log.bought[row]]
    assert (found.presented, found.accepted, found.purchasers) == (1200, len(accepted), len(revenue))
    assert found.average_basket_value.value == pytest.approx(np.mean(revenue))
    error = np.std(revenue) / np.sqrt(len(revenue)) * np.sqrt(1200 / 1199)
    assert found.average_basket_value.standard_error == pytest.approx(error)
    assert found.revenue.ips.value == pytest.approx(3 * sum(revenue) / 1200)
    assert found.revenue.snips.value == pytest.approx(sum(revenue) / len(accepted))
    assert found.codes.tolist() == np.bincount(chosen, minlength=3).tolist()
    assert found.series.presented.tolist() == [400, 400, 400]
    assert found.series.accepted.sum() == len(accepted)
    first = [value for value, row in zip(revenue, (r for r in accepted if log.bought[r]), strict=True) if row < 400]
    assert found.series.average_basket_value[0] == pytest.approx(np.mean(first))


def test_customers_without_a_code_are_counted_and_never_accepted(offline, log):
    found = replay(log, offline.FixedPolicy(), batch=400, caps={0.1: 0, 0.2: 100, 0.3: 0}, passes=1, repeats=0)
    one = found.policies["fixed"]
    assert (one.no_code, one.codes.tolist()) == (900, [0, 300, 0])
    assert one.accepted <= 300


def test_only_accepted_rows_are_learned_from(log):
    """Outcomes of rows that the policy did not accept may be anything; nothing that follows changes."""
    first = replay(log, Thompson(), belief=model_of(log), batch=300, passes=1, repeats=0, seed=3)
    limits = read_batch_limits(None, depths=log.depths, batch=300, rows=1200, revenue_weight=None)
    start = starting_belief(model_of(log), log, learn_engagement=False)
    played = _play(
        log, np.arange(1200), Thompson(), start=start, limits=limits, seed=3, learning=True, learn_engagement=False
    )
    prices = log.full_price.copy()
    prices[~played.accepted & log.bought] = 1e6
    other = random_log(log.context, log.depth, prices, check_balance=False)
    again = replay(other, Thompson(), belief=model_of(log), batch=300, passes=1, repeats=0, seed=3)
    assert again.policies["thompson"].average_basket_value == first.policies["thompson"].average_basket_value


def test_learning_changes_later_batches_only(log):
    wise, blind = (
        replay(log, Greedy(), batch=300, passes=1, repeats=0, learning=learning).policies["greedy"]
        for learning in (True, False)
    )
    assert wise.series.accepted[0] == blind.series.accepted[0]
    assert wise.codes.tolist() != blind.codes.tolist()


def test_warm_and_cold_start_differ_from_the_first_batch(log):
    cold, warm = (
        replay(log, Greedy(), belief=belief, batch=600, passes=1, repeats=0).policies["greedy"]
        for belief in (None, model_of(log))
    )
    assert cold.series.accepted[0] != warm.series.accepted[0]


def test_the_unconstrained_learner_learns_without_caps_and_earns_within_them(log):
    """With a cap of 0 on two depths the consumer plays one depth; its learner still hears of the others."""
    caps = {0.1: 0, 0.3: 0}
    ulcc = UnconstrainedLearner(policy=Thompson())
    found = replay(log, [ulcc, Thompson()], belief=model_of(log), batch=300, caps=caps, passes=1, repeats=0)
    assert found.policies["ulcc"].codes.tolist() == [0, 1200, 0]
    free = replay(log, [ulcc, Thompson()], belief=model_of(log), batch=300, passes=1, repeats=0).policies
    # without caps learner and consumer are one: the same draws, the same rows, the same belief
    assert free["ulcc"].average_basket_value == free["thompson"].average_basket_value


def test_equal_seeds_give_equal_results_and_random_is_the_unit(log):
    one, two = (replay(log, [Thompson(), Random()], batch=600, repeats=3, seed=5) for _ in range(2))
    assert one.policies["thompson"].average_basket_value == two.policies["thompson"].average_basket_value
    assert one.policies["random"].relative_to_random.value == 1
    assert one.policies["random"].relative_to_random.standard_error == 0
    other = replay(log, Thompson(), batch=600, repeats=3, seed=6).policies["thompson"]
    assert other.average_basket_value != one.policies["thompson"].average_basket_value


def test_revenue_weight_prefers_shallow_depths(log):
    deep, shallow = (
        replay(log, Greedy(), belief=model_of(log), batch=600, passes=1, repeats=0, revenue_weight=w).policies["greedy"]
        for w in (50.0, 0.6)
    )
    assert (shallow.codes @ [0.1, 0.2, 0.3]) / max(shallow.codes.sum(), 1) < (deep.codes @ [0.1, 0.2, 0.3]) / 1200
    assert deep.objective is not None
    assert deep.objective.ips.value == pytest.approx(
        50 * deep.revenue.ips.value - markdown_per_customer(log, deep), rel=1e-9
    )


def markdown_per_customer(log, found):
    """Recovered from revenue alone: R = F(1−a) and C = F·a, summed over the accepted rows of each depth."""
    limits = read_batch_limits(None, depths=log.depths, batch=600, rows=1200, revenue_weight=50.0)
    start = starting_belief(model_of(log), log, learn_engagement=False)
    played = _play(
        log, np.arange(1200), Greedy(), start=start, limits=limits, seed=0, learning=True, learn_engagement=False
    )
    rows = played.accepted & log.bought
    assert rows.sum() == found.purchasers
    return 3 * float((log.full_price[rows] * log.depth[rows]).sum()) / 1200


def test_engagement_is_learned_when_asked(log):
    fixed, learned = (
        replay(log, Greedy(), belief=model_of(log), batch=300, passes=1, repeats=0, learn_engagement=flag).policies[
            "greedy"
        ]
        for flag in (False, True)
    )
    assert fixed.codes.tolist() != learned.codes.tolist()


# ---- skewed logs -----------------------------------------------------------------------------------------------------


def test_resampling_and_weighting_agree_with_the_truth_on_a_skewed_log(offline, make_log):
    revenue, purchases = offline.fixed_policy_truth()
    shares = (0.55, 0.3, 0.15)
    log = make_log(30_000, seed=9, shares=shares, propensity="observed")
    for skew in ("resample", "weight"):
        found = replay(log, offline.FixedPolicy(), batch=10_000, passes=1, repeats=0, skew=skew).policies["fixed"]
        assert (
            abs(found.average_basket_value.value - revenue / purchases) < 4 * found.average_basket_value.standard_error
        )
        for estimate in (found.revenue.ips, found.revenue.snips, found.revenue.dr):
            assert abs(estimate.value - revenue) < 4 * estimate.standard_error
    naive = make_log(30_000, seed=9, shares=shares)  # taken for uniform
    wrong = replay(naive, offline.FixedPolicy(), batch=10_000, passes=1, repeats=0).policies["fixed"].revenue.ips
    assert abs(wrong.value - revenue) > 4 * wrong.standard_error


# ---- calibration -----------------------------------------------------------------------------------------------------


def test_the_interval_covers_the_truth_at_its_rate(offline):
    runs = 200
    low, high = offline.band(runs, 0.95)
    assert low <= offline.replay_coverage(runs, rows=1500) / runs <= high


@pytest.fixture(scope="module")
def capped(offline):
    """By whether the policy learns: a simulated retailer, the case, and what it is truly worth."""

    @cache
    def made(learning):
        shop = offline.Shop.simulate(size=5000)
        shop = shop.beginner() if learning else shop
        case = offline.CappedCase(learning=learning, batch=500)
        return shop, case, shop.true_value(case, runs=80)

    return made


@pytest.mark.parametrize(("learning", "runs", "repeats"), [(False, 60, 0), (True, 60, 0), (True, 10, 5)])
def test_under_caps_the_interval_covers_the_simulated_retailers_truth(offline, capped, learning, runs, repeats):
    shop, case, truth = capped(learning)
    low, high = offline.band(runs, 0.95)
    covered = offline.capped_replay_coverage(shop, case, runs, passes=2, repeats=repeats, truth=truth)
    assert low <= covered / runs <= high


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"batch": 5000}, InputError, "more than the 1,200 rows"),
        ({"batch": 0}, InputError, "batch: found 0; expected a whole number, 1 or more"),
        ({"caps": {0.15: 10}}, LimitError, "depth 0.15, which the log never played"),
        ({"caps": {0.1: -1}}, LimitError, "negative"),
        ({"caps": {0.1: 1.5}}, LimitError, "share of the batch"),
        ({"caps": {0.1: "many"}}, LimitError, "a count"),
        ({"caps": {0.1: 0, 0.2: 0, 0.3: 0}}, InputError, "no code for any of 1,200"),
        ({"revenue_weight": -1.0}, InputError, "revenue_weight"),
        ({"skew": "ignore"}, InputError, "'resample' or 'weight'"),
        ({"repeats": -1}, InputError, "repeats"),
        ({"level": 95}, InputError, "level"),
        ({"policies": []}, InputError, "at least one"),
        ({"policies": [Greedy(), Greedy()]}, InputError, "each name once"),
        ({"belief": BasketModel(encoding=OneHotDepth((0.1, 0.2)))}, InputError, "0.3"),
        (
            {"belief": BasketModel(encoding=SmoothSpline()).update([[1.0]], [0.1], [9.0])},
            SchemaMismatchError,
            "1",
        ),
    ],
)
def test_what_cannot_be_replayed_is_refused(log, settings, error, message):
    given = {"batch": 400, "passes": 1, "repeats": 0, **settings}
    with pytest.raises(error, match=message):
        replay(log, given.pop("policies", Greedy()), **given)


def test_a_log_of_one_purchase_is_replayed_without_an_error_bar():
    log = random_log([[0.1], [0.2], [0.3]], [0.1, 0.2, 0.1], [20.0, np.nan, np.nan], check_balance=False)
    found = replay(log, Greedy(), batch=3, repeats=30).policies["greedy"]
    assert found.revenue.ips.ends == (-np.inf, np.inf)


def test_a_policy_without_an_accepted_purchase_does_not_stop_the_others(log):
    """Nobody bought at depth 0.1, which is all that may be given."""
    price = np.where(log.depth == log.depths[0], np.nan, log.full_price)
    barren = replace(log, full_price=price)
    found = replay(barren, Greedy(), batch=400, caps=dict.fromkeys(log.depths[1:], 0), repeats=2)
    greedy = found.policies["greedy"]
    assert greedy.accepted > 0
    assert (greedy.purchasers, greedy.average_basket_value, greedy.relative_to_random) == (0, None, None)
    assert greedy.revenue.ips.value == 0
    assert greedy.revenue.ips.upper == np.inf  # no purchase was seen, which does not prove that there are none
    assert "no accepted purchase" in found.summary()
    assert pd.isna(found.to_pandas().set_index("policy").loc["greedy", "average_basket_value"])


def test_figures_are_means_over_passes_with_the_luck_of_the_draws_told(log):
    alone = [replay(log, Thompson(), batch=300, passes=1, repeats=0, seed=5 + number) for number in range(4)]
    found = replay(log, Thompson(), batch=300, passes=4, repeats=0, seed=5).policies["thompson"]
    values = [one.policies["thompson"].revenue.dr.value for one in alone]
    assert found.revenue.dr.value == pytest.approx(np.mean(values))
    assert found.draw_error == pytest.approx(np.std(values, ddof=1) / 2)
    gains = [one.policies["thompson"].revenue_against_random.value for one in alone]
    assert found.revenue_against_random.value == pytest.approx(np.mean(gains))


def test_forgetting_is_felt_from_batch_to_batch(log):
    """With every batch a campaign of its own, older batches weigh less than newer ones."""
    kept, forgetful = (
        replay(log, Greedy(), belief=BasketModel(forgetting=forgetting), batch=100, passes=1, repeats=0)
        for forgetting in (1.0, 0.3)
    )
    assert kept.policies["greedy"].codes.tolist() != forgetful.policies["greedy"].codes.tolist()


def test_a_policy_that_forgets_follows_a_change_of_demand():
    """Deep codes are worth most at first, shallow ones later: whoever forgets gives fewer deep codes after a while."""
    rng = np.random.default_rng(8)
    rows, depths = 4000, np.array([0.1, 0.4])
    depth = rng.choice(depths, rows)
    response = np.where(np.arange(rows) < rows // 2, 4.0, -4.0)
    price = np.exp(3.5 + response * depth + 0.3 * rng.normal(size=rows))
    changing = random_log(rng.normal(size=(rows, 1)), depth, price, check_balance=False)
    limits = read_batch_limits(None, depths=changing.depths, batch=200, rows=rows, revenue_weight=None)
    late = {}
    for forgetting in (1.0, 0.5):
        basket = BasketModel(forgetting=forgetting).update(changing.context[:100], depth[:100], price[:100])
        start = Belief(basket=basket, engagement=Engagement(override=dict.fromkeys(changing.depths, 1.0)))
        settings = {"start": start, "limits": limits, "seed": 1, "learning": True, "learn_engagement": False}
        played = _play(changing, np.arange(rows), Greedy(), **settings)
        late[forgetting] = (played.choice[rows * 9 // 16 : rows * 5 // 8] == 1).mean()
    assert late[1.0] > 0.9
    assert late[0.5] < 0.1


# ---- how it reads ----------------------------------------------------------------------------------------------------


def test_it_reads_in_a_line_in_words_and_as_a_table(log):
    found = replay(log, [Greedy(), Thompson()], batch=400, passes=1, repeats=0)
    assert repr(log) == f"RandomLog(1,200 rows, {log.bought.sum():,} purchases, depths 0.1, 0.2, 0.3)"
    assert repr(found) == "Replay(greedy, thompson on 1,200 rows in batches of 400, 0 repeats)"
    assert repr(found.random).startswith("PolicyReplay(Random(): ")
    assert repr(found.random.series).startswith("BatchSeries(3 batches, ")
    assert [line.split(":")[0] for line in found.summary().splitlines()] == ["greedy", "thompson", "random"]
    assert ["against random" in line for line in found.summary().splitlines()] == [True, True, False]
    table = found.to_pandas().set_index("policy")
    greedy = found.policies["greedy"]
    assert table.loc["greedy", "average_basket_value"] == greedy.average_basket_value.value
    assert table.loc["greedy", "relative_to_random_lower"] == greedy.relative_to_random.lower
    assert table.loc["random", "accepted"] == found.random.accepted
    assert greedy.series.to_pandas()["presented"].tolist() == [400, 400, 400]


def test_columns_of_model_log_and_earlier_log_must_have_one_order(log):
    def named(names):
        frame = pd.DataFrame(log.context, columns=names)
        return random_log(frame, log.depth, log.full_price, check_balance=False)

    names = [f"x{column}" for column in range(log.context.shape[1])]
    assert named(names).context_names == tuple(names)
    assert log.context_names is None
    for other in (log, named(names)):
        assert replay(named(names), Greedy(), batch=400, passes=1, repeats=0, warm=other).rows == 1200
    swapped = named(names[1::-1] + names[2:])
    with pytest.raises(SchemaMismatchError, match=r"context columns: found x1, x0.*expected x0, x1"):
        replay(named(names), Greedy(), batch=400, passes=1, repeats=0, warm=swapped)
    learned = BasketModel(context_names=tuple(names))
    with pytest.raises(SchemaMismatchError, match=r"context columns: found x1, x0.*expected x0, x1"):
        replay(swapped, Greedy(), batch=400, passes=1, repeats=0, belief=learned)


# ---- engagement scores -----------------------------------------------------------------------------------------------


def scored_log(rows=4000, seed=3, *, informative=True):
    """Half of the customers use codes ten times as often, which their score tells and their context does not."""
    rng = np.random.default_rng(seed)
    eager = rng.random(rows) < 0.5
    place = rng.integers(0, 3, rows)
    bought = rng.random(rows) < np.where(eager, 0.5, 0.05)
    price = np.exp(3 + 0.3 * rng.normal(size=rows))
    score = np.where(eager, 0.0, -3.0) + 0.1 * rng.normal(size=rows)
    score[::50] = np.nan
    return random_log(
        rng.normal(size=(rows, 2)).clip(-3, 3),
        np.array([0.1, 0.2, 0.3])[place],
        np.where(bought, price, np.nan),
        score=score if informative else rng.normal(size=rows),
        check_balance=False,
    ), eager


@pytest.mark.parametrize("policy", [Greedy(), Thompson()], ids=repr)
def test_scores_bring_codes_to_those_who_use_them(policy):
    log, eager = scored_log()
    caps = {0.1: 0.1, 0.2: 0.1, 0.3: 0.1}
    shares = {}
    for name, played in (("scores", log), ("none", replace(log, score=None))):
        limits = read_batch_limits(caps, depths=log.depths, batch=1000, rows=4000, revenue_weight=3.0)
        start, played = known_at_start(None, played, None, learn_engagement=True, first=np.arange(limits.batch))
        done = _play(
            played, np.arange(4000), policy, start=start, limits=limits, seed=4, learning=True, learn_engagement=True
        )
        coded = done.choice[1000:] >= 0
        shares[name] = eager[1000:][coded].mean()
    assert shares["scores"] > 0.9
    assert abs(shares["none"] - 0.5) < 0.1


def test_with_scores_a_policy_earns_more_per_customer():
    log, _ = scored_log()
    caps = {0.1: 0.1, 0.2: 0.1, 0.3: 0.1}
    with_scores, without = (
        replay(one, Greedy(), batch=1000, caps=caps, revenue_weight=3.0, passes=1, repeats=0, learn_engagement=True)
        for one in (log, replace(log, score=None))
    )
    better, plain = (found.policies["greedy"].revenue.dr.value for found in (with_scores, without))
    assert better > 1.3 * plain


def test_bins_come_from_the_earlier_log_or_the_first_batch_and_stay(monkeypatch):
    log, _ = scored_log()
    warm = replace(scored_log(seed=8)[0], score=np.linspace(-9, 9, 4000))
    made = []
    of = ScoreBins.of
    monkeypatch.setattr(ScoreBins, "of", lambda scores: made.append(np.sort(scores)) or of(scores))
    for earlier in (None, warm):
        replay(log, Greedy(), batch=1000, passes=2, repeats=2, learn_engagement=True, warm=earlier)
    first, earlier = made  # once for each replay, whatever its policies and passes
    known = log.score[:1000][~np.isnan(log.score[:1000])]
    np.testing.assert_allclose(first, np.sort(known - known.mean()), atol=2**-16)
    np.testing.assert_allclose(earlier, np.linspace(-9, 9, 4000), atol=2**-16)


def test_without_learned_engagement_scores_change_nothing():
    log, _ = scored_log(rows=900)
    found = [
        replay(one, Thompson(), batch=300, caps={0.1: 0.2}, passes=1, repeats=0).to_arrow()
        for one in (log, replace(log, score=None))
    ]
    assert found[0].equals(found[1])


@pytest.mark.parametrize("learn_engagement", [False, True])
def test_a_log_without_scores_has_those_of_the_beliefs_head(learn_engagement):
    """Predictions, counts and decisions: all of them as if the log had brought the head's scores itself."""
    log = replace(scored_log(rows=900)[0], score=None)
    head = EngagementHead([0.0, 0.9, -0.2], ScoreBins.of(np.random.default_rng(1).normal(size=500), count=6))
    counts = EngagementCounts.of(log.depth, log.bought, score=head.scores(log.context), bins=head.bins)
    belief = Belief(basket=BasketModel(), engagement=Engagement(counts=counts), head=head)
    limits = read_batch_limits({0.3: 0.2}, depths=log.depths, batch=300, rows=900, revenue_weight=3.0)
    scored = replace(log, score=head.scores(log.context))
    passes = [
        _play(one, np.arange(900), Greedy(), start=belief, limits=limits, seed=4, learning=True,
             learn_engagement=learn_engagement)
        for one in (log, scored)
    ]  # fmt: skip
    np.testing.assert_array_equal(passes[0].choice, passes[1].choice)
    np.testing.assert_array_equal(passes[0].predicted, passes[1].predicted)
    more = {"batch": 300, "repeats": 0, "learn_engagement": learn_engagement, "belief": belief}
    found, given = (replay(one, Greedy(), warm=one, **more).policies["greedy"] for one in (log, scored))
    assert found.revenue == given.revenue
    one_rate = Belief(basket=BasketModel(), engagement=Engagement(counts=counts.margin), head=head)
    assert with_scores(log, one_rate) is log, "codes that were counted without scores stay so"


def test_scores_that_cannot_be_used_are_refused():
    log, _ = scored_log(rows=900)
    late = replace(log, score=np.where(np.arange(900) < 300, np.nan, 0.5))
    with pytest.raises(InputError, match="no score in the first batch"):
        replay(late, Greedy(), batch=300, passes=1, repeats=0, learn_engagement=True)
    with pytest.raises(InputError, match="warm"):
        replay(log, Greedy(), batch=300, passes=1, repeats=0, learn_engagement=True, warm=replace(log, score=None))
    counts = EngagementCounts.of(log.depth, log.bought)
    counted = Belief(basket=BasketModel(), engagement=Engagement(counts=counts))
    with pytest.raises(InputError, match="counted without engagement scores"):
        replay(log, Greedy(), belief=counted, batch=300, passes=1, repeats=0, learn_engagement=True)
    with_bins, _ = known_at_start(None, log, None, learn_engagement=True, first=np.arange(300))
    with pytest.raises(InputError, match="no engagement scores"):
        replay(
            replace(log, score=None), Greedy(), belief=with_bins, batch=300, passes=1, repeats=0, learn_engagement=True
        )


def test_without_scores_of_its_own_a_log_has_those_of_the_beliefs_head():
    """`decide` takes the head's scores for such customers, so what is learned and predicted must count them alike."""
    log, _ = scored_log(rows=900)
    head = EngagementHead([0.1, 1.0, -0.5], ScoreBins([0.0], [-1.0, 1.0]))
    start = Belief(basket=BasketModel(), engagement=Engagement(), head=head)
    limits = read_batch_limits({0.1: 0.4}, depths=log.depths, batch=300, rows=900, revenue_weight=3.0)
    played = [
        _play(one, np.arange(900), Thompson(), start=start, limits=limits, seed=4, learning=True, learn_engagement=True)
        for one in (replace(log, score=None), replace(log, score=head.scores(log.context)))
    ]
    assert played[0].choice.tobytes() == played[1].choice.tobytes()
    assert played[0].predicted.tobytes() == played[1].predicted.tobytes()


# ---- two policies ----------------------------------------------------------------------------------------------------


def test_the_difference_of_two_policies_is_paired_and_turns_with_their_order(log):
    found = replay(log, [Thompson(), Greedy()], batch=400, revenue_weight=3.0, passes=2, repeats=3, seed=2)
    one, two = found.policies["thompson"], found.policies["greedy"]
    ahead = found.difference("thompson", "greedy")
    assert ahead.revenue.value == pytest.approx(one.revenue.dr.value - two.revenue.dr.value)
    assert ahead.objective.value == pytest.approx(one.objective.dr.value - two.objective.dr.value)
    back = found.difference("greedy", "thompson")
    assert (back.revenue.lower, back.revenue.upper) == (-ahead.revenue.upper, -ahead.revenue.lower)
    assert found.difference("greedy", "random").revenue == two.revenue_against_random
    assert found.difference("random", "greedy").objective.value == -two.objective_against_random.value
    assert list(found.differences) == [("thompson", "greedy")]


def test_a_difference_has_no_limits_where_one_of_the_policies_shows_no_spread():
    """At most one accepted purchase of random codes: their value is not known, so no gain over them is."""
    rng = np.random.default_rng(2)
    context, depth = rng.normal(size=(60, 2)), rng.choice([0.1, 0.3], 60)
    price = np.where((rng.random(60) < 0.12) & (depth == 0.1), rng.lognormal(3, 0.3, 60), np.nan)
    log = random_log(context, depth, price, check_balance=False)
    found = replay(log, Greedy(), batch=30, passes=1, repeats=0, seed=2)
    greedy = found.policies["greedy"]
    assert (greedy.purchasers, found.random.purchasers) == (4, 1)
    assert np.isfinite(greedy.revenue.dr.upper)
    for against in (greedy.revenue_against_random, found.difference("greedy", "random").revenue):
        assert against.ends == (-np.inf, np.inf)


def test_a_policy_differs_from_itself_under_another_name_by_nothing(offline, log):
    """The same choices on the same rows cancel term by term, so the difference is exactly 0."""

    class Twin(offline.FixedPolicy):
        name = "twin"

    found = replay(log, [offline.FixedPolicy(), Twin()], batch=400, passes=1, repeats=0).difference("fixed", "twin")
    assert (found.revenue.value, found.revenue.standard_error, found.objective) == (0, 0, None)


@pytest.mark.parametrize(("names", "said"), [(("greedy", "ucb"), "ucb"), (("greedy", "greedy"), "greedy twice")])
def test_a_difference_with_a_policy_that_was_not_replayed_is_refused(log, names, said):
    found = replay(log, Greedy(), batch=600, passes=1, repeats=0)
    with pytest.raises(InputError, match=said):
        found.difference(*names)


def test_without_learning_and_caps_resampled_passes_add_no_error(log):
    """What resampled logs vary by beyond the customers' own spread is then noise, and would only widen the interval."""
    plain, more = (
        replay(log, Greedy(), belief=model_of(log), batch=400, learning=False, passes=2, repeats=repeats)
        for repeats in (0, 3)
    )
    assert more.policies["greedy"].revenue == plain.policies["greedy"].revenue
    assert more.policies["greedy"].average_basket_value == plain.policies["greedy"].average_basket_value


# ---- a second implementation -----------------------------------------------------------------------------------------


DEPTHS, CENTRES, GAMMA = (0.1, 0.2, 0.35), (0.25, 0.5, 0.75), 20.0
WEIGHT, BATCH = 3.0, 60


def draw_log(seed: int, rows: int) -> tuple[np.ndarray, ...]:
    """Contexts and ln prices on the grid of the evidence, so that rounding plays no part."""
    rng = np.random.default_rng(seed)
    context = np.round(rng.normal(size=(rows, 2)).clip(-3.9, 3.9) * 2**12) / 2**12
    depth = rng.choice(DEPTHS, rows)
    logs = 3.5 + 0.4 * context[:, 0] + depth * (1 + 2 * context[:, 1]) + 0.5 * rng.normal(size=rows)
    price = np.exp(np.round(logs * 2**12) / 2**12)
    return context, depth, np.where(rng.random(rows) < 0.7, price, np.nan)


def features(context: np.ndarray, depth: float) -> np.ndarray:
    """ψ = [1, ψ1, ψ2, ψ1 × ψ2] of every customer at one depth."""
    bumps = np.exp(-GAMMA * (depth - np.array(CENTRES)) ** 2)
    return np.array([np.concatenate([[1.0], x, bumps, np.outer(x, bumps).ravel()]) for x in context])


def reference(log, warm, caps) -> dict[str, float]:
    """A second implementation that shares no code with replay: ridge regression, an assignment solver, loops."""
    context, depth, price = log
    seen_x = [features(x[None], a)[0] for x, a, f in zip(*warm, strict=True) if f == f]
    seen_y = [np.log(f) for f in warm[2] if f == f]
    prior = np.diag([1e-6] + [1.0] * (len(seen_x[0]) - 1))
    accepted = purchasers = codes = 0
    revenue = objective = 0.0
    for first in range(0, len(depth), BATCH):
        here = range(first, min(first + BATCH, len(depth)))
        design = np.array(seen_x)
        theta = np.linalg.solve(prior + design.T @ design, design.T @ np.array(seen_y))
        worth = np.column_stack(
            [(WEIGHT * (1 - a) - a) * np.exp(features(context[list(here)], a) @ theta) for a in DEPTHS]
        )
        slots = [k for k, cap in enumerate(caps) for _ in range(cap * len(here) // BATCH)]
        values = np.column_stack([worth[:, slots], np.zeros((len(here), len(here)))])
        _, taken = linear_sum_assignment(values, maximize=True)
        for row, slot in zip(here, taken, strict=True):
            if slot >= len(slots):
                continue
            codes += 1
            if DEPTHS[slots[slot]] != depth[row]:
                continue
            accepted += 1
            if price[row] == price[row]:
                purchasers += 1
                revenue += price[row] * (1 - depth[row])
                objective += price[row] * (WEIGHT * (1 - depth[row]) - depth[row])
                seen_x.append(features(context[row : row + 1], depth[row])[0])
                seen_y.append(np.log(price[row]))
    return {
        "codes": codes,
        "accepted": accepted,
        "purchasers": purchasers,
        "basket": revenue / purchasers,
        "ips": len(DEPTHS) * objective / len(depth),
        # of customers with a code as the accepted ones, of all others 0 for certain
        "snips": len(DEPTHS) * objective / (len(DEPTHS) * accepted + len(depth) - codes),
    }


@pytest.mark.parametrize("seed", range(10))
def test_ten_random_logs_against_the_second_implementation(seed):
    log, warm = draw_log(seed, 220), draw_log(seed + 100, 80)
    caps = (25, 20, 10)
    found = replay(
        random_log(*log, check_balance=False),
        Greedy(),
        warm=random_log(*warm, check_balance=False),
        batch=BATCH,
        caps=dict(zip(DEPTHS, caps, strict=True)),
        revenue_weight=WEIGHT,
        passes=1,
        repeats=0,
    ).policies["greedy"]
    expected = reference(log, warm, caps)
    assert found.objective is not None
    assert found.objective.snips is not None
    assert {
        "codes": int(found.codes.sum()),
        "accepted": found.accepted,
        "purchasers": found.purchasers,
        "basket": found.average_basket_value.value,
        "ips": found.objective.ips.value,
        "snips": found.objective.snips.value,
    } == pytest.approx(expected, rel=1e-9)
