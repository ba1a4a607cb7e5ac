"""The loop end to end on small worlds: decisions respect limits, do not depend on chunking, and learning is exact."""

from dataclasses import replace
from functools import reduce
from itertools import permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from disco.adapters.engines import LocalEngine
from disco.belief import BasketModel, Engagement, EngagementCounts, Evidence, RadialBasis
from disco.belief.model_file import to_bytes
from disco.campaign import Belief, Lesson, decide, learn, values_of
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
from disco.records.chunks import CHUNK_ROWS
from disco.records.decisions import Audience, Offer, Purchases
from disco.records.errors import InfeasibleError, InputError, SchemaMismatchError
from disco.records.score import EngagementHead, ScoreBins

DEPTHS = (0.1, 0.2, 0.4)
OFFER = Offer(depths=DEPTHS, caps=(1, 1, 1), revenue_weight=3.0)
POLICIES = [Thompson(), Thompson(scope="round"), UpperConfidence(), EpsilonGreedy(), Greedy(), Random()]


def world(rows, seed=1):
    rng = np.random.default_rng(seed)
    context = np.round(rng.normal(size=(rows, 2)).clip(-4, 4) * 65536) / 65536
    return context, rng


def belief(rows=4000):
    context, rng = world(rows, seed=5)
    depth = rng.choice(DEPTHS, rows)
    full_price = np.exp(3 + 0.4 * context[:, 0] + (0.5 + 0.3 * context[:, 1]) * depth + rng.normal(0, 0.6, rows))
    basket = BasketModel(encoding=RadialBasis(centres=(0.1, 0.4), gamma=5)).update(context, depth, full_price)
    counts = EngagementCounts(np.array(DEPTHS), np.array([500, 500, 500]), np.array([50, 60, 80]))
    return Belief(basket=basket, engagement=Engagement(counts=counts))


def audience(rows, seed=2):
    context, _ = world(rows, seed)
    return Audience(ids=np.arange(rows), context=context, known=np.ones(rows, bool))


def run(people, offer, policy, **more):
    return decide(people, belief=belief(), offer=offer, policy=policy, campaign="c", seed=3, **more)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_every_policy_fills_the_caps_and_never_breaks_them(policy):
    offer = Offer(depths=DEPTHS, caps=(100, 50, 25), revenue_weight=3.0)
    result = run(audience(400), offer, policy)
    assert (result.counts <= (100, 50, 25)).all()
    assert result.counts.sum() == 175  # all values are positive at this weight, so no code is left over
    assert result.status == "OPTIMAL"
    assert result.value.sum() == pytest.approx(result.bound, rel=1e-12)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_decision_depends_on_the_customers_and_not_on_their_order_or_chunks(policy):
    rows = CHUNK_ROWS + 1_000  # two chunks
    offer = Offer(depths=DEPTHS, caps=(rows // 4, rows // 8, rows // 16), revenue_weight=3.0)
    people = audience(rows)
    whole = run(people, offer, policy)
    order = np.random.default_rng(7).permutation(rows)
    shuffled = run(people.take(order), offer, policy, engine=LocalEngine(threads=2))
    assert np.array_equal(shuffled.choice, whole.choice[order])
    assert np.array_equal(shuffled.prices, whole.prices)


def test_the_budget_holds_for_the_posterior_mean_markdown():
    offer = Offer(depths=DEPTHS, caps=(None, None, None), revenue_weight=3.0, budget=120.0)
    people = audience(300)
    result = run(people, offer, Greedy())
    spent = np.nansum(result.expected_full_price * result.depth * result.engagement)
    assert 0.9 * 120.0 < spent <= 120.0 * (1 + 1e-12)


# ---- customers' own engagement ---------------------------------------------------------------------------------------

# those who answer spend less, so that the two goals differ
HEAD = EngagementHead([0.0, -1.0, 0.5], ScoreBins.of(np.random.default_rng(1).normal(0, 1.1, 5000), count=16))


def personal(rows=20_000):
    context, rng = world(rows, seed=6)
    score, depth = HEAD.scores(context), rng.choice(DEPTHS, rows)
    used = rng.random(rows) < 1 / (1 + np.exp(-(-2 + 2 * depth + score)))
    counts = EngagementCounts.of(depth, used, score=score, bins=HEAD.bins)
    return Belief(basket=belief().basket, engagement=Engagement(counts=counts), head=HEAD)


PERSONAL = personal()


def decided(people, known=PERSONAL, policy=POLICIES[0], **offer):
    limits = {"depths": DEPTHS, "caps": (40, 30, 20), "revenue_weight": 3.0, **offer}
    return decide(people, belief=known, offer=Offer(**limits), policy=policy, campaign="c", seed=3)


def test_codes_go_to_those_who_answer():
    people = audience(1000)
    own = decided(people, policy=Greedy())
    alike = decided(people, known=replace(PERSONAL, head=None), policy=Greedy())
    score = HEAD.scores(people.context)
    assert score[own.choice >= 0].mean() > score[alike.choice >= 0].mean() + 0.5
    # each decision says the rate it counted with
    rates = PERSONAL.engagement.rates_of(score, DEPTHS)
    chosen = own.choice >= 0
    np.testing.assert_array_equal(own.engagement[chosen], rates[chosen, own.choice[chosen]])
    assert np.isnan(own.engagement[~chosen]).all()
    everybody = PERSONAL.engagement.rates(np.array(DEPTHS))
    np.testing.assert_array_equal(alike.engagement[chosen & (alike.choice >= 0)] > 0, True)
    assert set(np.unique(alike.engagement[alike.choice >= 0])) <= set(everybody)


def test_a_value_is_the_drawn_price_times_the_drawn_rate():
    people, policy, depths = audience(50), Thompson(), np.array(DEPTHS)
    named = {"ids": people.ids, "seed": 3, "campaign": "c"}
    prices = policy.full_prices(PERSONAL.basket, people.context, depths, **named)
    rates = policy.rates(PERSONAL.engagement, HEAD.scores(people.context), depths, **named)
    expected = prices * rates * (3.0 * (1 - depths) - depths)
    found = values_of(people, belief=PERSONAL, depths=depths, revenue_weight=3.0, policy=policy, seed=3, campaign="c")
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_with_own_engagement_neither_order_nor_chunks_change_a_decision(policy):
    rows = CHUNK_ROWS + 500
    people, order = audience(rows), np.random.default_rng(7).permutation(rows)
    offer = Offer(depths=DEPTHS, caps=(rows // 4, rows // 8, rows // 16), revenue_weight=3.0, budget=20_000.0)
    same = {"belief": PERSONAL, "offer": offer, "policy": policy, "campaign": "c", "seed": 3}
    whole = decide(people, **same)
    shuffled = decide(people.take(order), engine=LocalEngine(threads=2), **same)
    assert np.array_equal(shuffled.choice, whole.choice[order])
    assert shuffled.engagement.tobytes() == whole.engagement[order].tobytes()


def test_the_budget_counts_each_customers_own_rate():
    people = audience(500)
    free = {"caps": (None, None, None), "budget": 100.0, "policy": Greedy()}
    result = decided(people, **free)
    spent = np.nansum(result.expected_full_price * result.depth * result.engagement)
    assert 97.0 < spent <= 100.0 * (1 + 1e-12)
    careful = decided(people, cost_factors=(1.0, 1.0, 2.0), **free)
    counted = careful.depth * np.where(careful.depth == 0.4, 2.0, 1.0)
    spent = np.nansum(careful.expected_full_price * counted * careful.engagement)
    assert 97.0 < spent <= 100.0 * (1 + 1e-12)


def test_scores_that_an_audience_brings_come_before_the_heads():
    people = audience(300)
    turned = -HEAD.scores(people.context)
    by_hand = replace(people, score=turned)
    assert np.array_equal(PERSONAL.scores(by_hand), turned)
    assert np.array_equal(PERSONAL.scores(people), -turned)
    assert np.array_equal(PERSONAL.scores(people, slice(3, 9)), -turned[3:9])
    assert replace(PERSONAL, head=None).scores(people) is None
    not_by_score = replace(PERSONAL, engagement=Engagement(counts=PERSONAL.engagement.counts.margin))
    assert not_by_score.scores(by_hand) is None  # `decide` then has one rate per depth, and so has an explanation
    without_head = replace(PERSONAL, head=None)
    assert np.array_equal(decided(by_hand).choice, decided(by_hand, known=without_head).choice)
    assert (decided(by_hand).choice != decided(people).choice).any()
    assert np.array_equal(by_hand.take([5, 7]).score, turned[[5, 7]])


@pytest.mark.parametrize("score", [[0.1], [[0.1]] * 300, ["a"] * 300, [np.inf] * 300])
def test_scores_that_are_none_are_refused(score):
    with pytest.raises(InputError, match="score"):
        replace(audience(300), score=score)


def test_a_head_alone_tells_customers_apart_before_any_code_has_matured():
    fresh = Belief(basket=belief().basket, engagement=Engagement(), head=HEAD)
    people = audience(1000)
    score = HEAD.scores(people.context)
    result = decided(people, known=fresh, policy=Greedy())
    assert score[result.choice >= 0].mean() > score.mean() + 0.5
    rates = fresh.rates(people, np.array(DEPTHS))
    assert np.corrcoef(score, np.log(rates[:, 0] / (1 - rates[:, 0])))[0, 1] > 0.99


def test_counts_of_other_bins_are_refused():
    other = EngagementHead(HEAD.weights, ScoreBins([0.0], [-1.0, 1.0]))
    with pytest.raises(SchemaMismatchError, match="another network"):
        replace(PERSONAL, head=other)
    codes = EngagementCounts.of([0.1], [True], score=[0.3], bins=other.bins)
    with pytest.raises(SchemaMismatchError, match="bins"):
        learn(PERSONAL, Lesson.of("c", purchases(5), codes))
    right = EngagementCounts.of([0.1], [True], score=[0.3], bins=HEAD.bins)
    after = learn(PERSONAL, Lesson.of("c", purchases(5), right))
    assert after.head == HEAD
    assert after.engagement.counts == PERSONAL.engagement.counts + right
    with pytest.raises(InputError, match="head"):
        Belief(basket=BasketModel(), engagement=Engagement(), head="network")


def test_codes_counted_without_scores_give_one_rate_per_depth_also_beside_a_head():
    plain = replace(PERSONAL.engagement, counts=PERSONAL.engagement.counts.margin)
    old, people = replace(PERSONAL, engagement=plain), audience(300)
    assert np.array_equal(old.rates(people, np.array(DEPTHS)), plain.rates(DEPTHS))
    without = decided(people, known=replace(old, head=None))
    assert decided(people, known=old).value.tobytes() == without.value.tobytes()


@pytest.mark.parametrize("factors", [(1.0,), (1.0, 0.0, 1.0), (1.0, np.nan, 1.0), "abc"])
def test_cost_factors_are_one_positive_number_per_depth(factors):
    with pytest.raises(InputError, match="cost_factors"):
        Offer(depths=DEPTHS, caps=(1, 1, 1), revenue_weight=3.0, cost_factors=factors)
    assert "cost" not in repr(Offer(depths=DEPTHS, caps=(1, 1, 1), revenue_weight=3.0, cost_factors=(1, 2, 3)))


def test_floors_that_ask_for_more_customers_than_there_are_stop_the_campaign_with_the_reason():
    offer = Offer(depths=DEPTHS, caps=(None, None, None), revenue_weight=3.0, floors=(30, 0, 0))
    with pytest.raises(InfeasibleError, match="campaign c"):
        run(audience(20), offer, Greedy())


def test_an_empty_audience_is_refused():
    offer = Offer(depths=DEPTHS, caps=(1, 1, 1), revenue_weight=3.0)
    with pytest.raises(InputError, match="no customers"):
        run(audience(0), offer, Greedy())


def test_a_customer_whom_every_code_would_cost_money_gets_none():
    offer = Offer(depths=(0.9,), caps=(None,), revenue_weight=3.0)  # 3·0.1 − 0.9 < 0
    result = run(audience(10), offer, Greedy())
    assert (result.choice == -1).all()
    assert result.value.sum() == 0


def purchases(rows, seed=9):
    context, rng = world(rows, seed)
    return Purchases(context=context, depth=rng.choice(DEPTHS, rows), full_price=np.exp(rng.normal(3, 0.5, rows)))


def lesson(campaign, seen, rows):
    part = Purchases(context=seen.context[rows], depth=seen.depth[rows], full_price=seen.full_price[rows])
    return Lesson.of(campaign, part, EngagementCounts.of(part.depth, np.ones(len(part), bool)))


NOTHING = Belief(basket=BasketModel(), engagement=Engagement())


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_however_rows_are_cut_into_lessons_and_whatever_their_order_the_belief_has_the_same_bits(order):
    seen = purchases(300)
    parts = [lesson("c", seen, rows) for rows in (slice(0, 90), slice(90, 91), slice(91, 300))]
    whole = learn(NOTHING, [lesson("c", seen, slice(None))])
    at_once = learn(NOTHING, [parts[place] for place in order])
    one_by_one = reduce(lambda known, place: learn(known, parts[place]), order, NOTHING)
    for found in (at_once, one_by_one):
        assert to_bytes(found.basket) == to_bytes(whole.basket)
        assert found.engagement == whole.engagement


def test_a_belief_is_the_prior_and_the_sum_of_its_lessons():
    prior, seen = belief(), purchases(50)
    after = learn(prior, [lesson("spring", seen, slice(0, 20)), lesson("autumn", seen, slice(20, 50))])
    by_hand = prior.basket.update(seen.context[:20], seen.depth[:20], seen.full_price[:20], campaign="spring")
    by_hand = by_hand.update(seen.context[20:], seen.depth[20:], seen.full_price[20:], campaign="autumn")
    assert to_bytes(after.basket) == to_bytes(by_hand)
    assert list(after.basket.campaigns) == ["", "spring", "autumn"]
    assert after.engagement.counts.sent.sum() == 1500 + 50
    assert after.engagement.counts.redeemed.sum() == 190 + 50


def test_a_lesson_without_codes_leaves_engagement_alone_and_one_without_purchases_the_baskets():
    prior, seen = belief(), purchases(10)
    assert learn(prior, [Lesson.of("d", seen)]).engagement == prior.engagement
    unused = EngagementCounts.of([0.1] * 40, np.zeros(40, bool))
    after = learn(prior, [Lesson(campaign="d", baskets=Evidence.empty(2), codes=unused)])
    assert after.basket.hash == prior.basket.hash
    assert after.engagement.counts.sent.tolist() == [540, 500, 500]


def test_no_lessons_teach_nothing():
    before = belief()
    assert learn(before, []) == before


def test_learning_changes_only_what_it_returns():
    before = belief()
    kept = before.basket.hash
    assert learn(before, [Lesson.of("d", purchases(10))]).basket.hash != kept
    assert before.basket.hash == kept


def test_contexts_of_another_size_are_refused():
    three = Purchases(context=np.zeros((1, 3)), depth=np.array([0.1]), full_price=np.array([20.0]))
    with pytest.raises(SchemaMismatchError, match="contexts of 3 features; expected the 2"):
        learn(belief(), [Lesson.of("d", three)])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: learn(belief().basket, []), "prior: found a BasketModel; expected a disco.Belief"),
        (lambda: learn(belief(), pd.DataFrame({"depth": [0.1]})), "lessons: found a DataFrame; expected lessons"),
        (lambda: learn(belief(), [purchases(3)]), "lessons: found a list with a Purchases; expected lessons, such as"),
        (lambda: learn(belief(), purchases(3)), "lessons: found a Purchases; expected lessons, such as"),
        (lambda: learn(belief(), None), "lessons: found None; expected lessons"),
        (lambda: Lesson.of("", purchases(3)), "campaign: found ''; expected the name of a campaign"),
        (lambda: Lesson.of(7, purchases(3)), "campaign: found 7; expected the name of a campaign"),
        (lambda: Lesson.of("c", pd.DataFrame({"depth": [0.1]})), "purchases: found a DataFrame; expected a disco.Pur"),
        (lambda: Lesson.of("c", purchases(3), {0.1: 3}), "codes: found a dict; expected a disco.EngagementCounts"),
        (lambda: run(audience(4), OFFER, "thompson"), r"policy: found 'thompson'; expected a policy object"),
        (lambda: run(audience(4), OFFER, Thompson), "not its name or class"),
        (
            lambda: decide(audience(4), belief=belief(), offer=OFFER, policy=Greedy(), campaign=None, seed=1),
            "campaign: found None; expected the name of a campaign",
        ),
        (lambda: run(pd.DataFrame({"id": [1]}), OFFER, Greedy()), "audience: found a DataFrame; expected a disco.Aud"),
        (lambda: run(audience(4), {"caps": 3}, Greedy()), "offer: found a dict; expected a disco.Offer"),
        (
            lambda: decide(audience(4), belief=belief().basket, offer=OFFER, policy=Greedy(), campaign="c", seed=1),
            "belief: found a BasketModel; expected a disco.Belief",
        ),
    ],
)
def test_a_wrong_kind_of_argument_is_named_in_a_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call()


def named(columns, rows=40, seed=9):
    """Purchases and an audience whose contexts have these names."""
    seen = purchases(rows, seed)
    table = pd.DataFrame(seen.context, columns=columns)
    people = audience(rows)
    return (
        Purchases(context=table, depth=seen.depth, full_price=seen.full_price),
        Audience(ids=people.ids, context=pd.DataFrame(people.context, columns=columns), known=True),
    )


@pytest.mark.parametrize("as_given", [lambda table: table, pa.Table.from_pandas])
def test_swapped_columns_are_refused_in_learning_and_deciding_as_in_updating_and_predicting(as_given):
    seen, people = named(["x1", "x2"])
    learned = learn(NOTHING, [Lesson.of("spring", seen)])
    assert learned.basket.context_names == ("x1", "x2")
    decide(people, belief=learned, offer=OFFER, policy=Greedy(), campaign="c", seed=1)
    swapped = as_given(pd.DataFrame({"x2": seen.context[:, 1], "x1": seen.context[:, 0]}))
    other = Purchases(context=swapped, depth=seen.depth, full_price=seen.full_price)
    strangers = Audience(ids=people.ids, context=swapped, known=True)
    for call in (
        lambda: learned.basket.update(swapped, seen.depth, seen.full_price),
        lambda: learned.basket.predict(swapped, 0.1),
        lambda: learn(learned, [Lesson.of("autumn", other)]),
        lambda: learn(NOTHING, [Lesson.of("spring", seen), Lesson.of("autumn", other)]),
        lambda: decide(strangers, belief=learned, offer=OFFER, policy=Greedy(), campaign="c", seed=1),
        lambda: decide(strangers.take([1, 0]), belief=learned, offer=OFFER, policy=Greedy(), campaign="c", seed=1),
    ):
        with pytest.raises(SchemaMismatchError) as refused:
            call()
        assert str(refused.value) == (
            "context columns: found x2, x1; expected x1, x2. "
            "Give the columns in the order in which the model has learned them."
        )


def test_names_of_columns_change_no_belief_and_arrays_need_none():
    (seen, people), plain = named(["x1", "x2"]), purchases(40)
    with_names, without = learn(NOTHING, [Lesson.of("d", seen)]), learn(NOTHING, [Lesson.of("d", plain)])
    assert with_names.basket.hash == without.basket.hash
    arrays = Audience(ids=people.ids, context=people.context, known=True)
    assert arrays.context_names is None
    found = [
        decide(rows, belief=learned, offer=OFFER, policy=Greedy(), campaign="c", seed=1).choice
        for rows in (people, arrays)
        for learned in (with_names, without)
    ]
    assert all(np.array_equal(found[0], other) for other in found)


def test_audiences_and_purchases_read_in_a_line():
    assert repr(audience(40)) == "Audience(40 customers, 2 context features)"
    assert repr(purchases(40)) == "Purchases(40 rows, context of shape (40, 2))"


def test_a_belief_reads_in_a_line_and_help_says_what_a_lesson_holds():
    assert len(repr(belief())) < 100
    assert repr(belief()).startswith("Belief(purchases: 4,000, campaigns: 1, codes sent: 1,500, model: ")
    for field in ("campaign", "baskets", "codes", "context_names"):
        assert f"{field}: " in Lesson.__doc__


def test_depths_in_per_cent_are_asked_about_before_anything_is_decided():
    with pytest.raises(InputError, match=r"Did you mean 0\.20\?"):
        Offer(depths=(20, 30), caps=(1, 2), revenue_weight=3.0)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"caps": (0.25, 1, 1)}, r"caps: found 0\.25; expected a whole number of customers.*times the share"),
        ({"caps": (-1, 1, 1)}, "caps: found -1"),
        ({"caps": (True, 1, 1)}, "caps: found True"),
        ({"caps": (1, 1)}, "caps: found 2 caps; expected one per depth: 3"),
        ({"caps": {0.9: 5}}, r"caps: found depth 0\.9; expected one of"),
        ({"caps": None}, "caps: found None"),
        ({"floors": (1.5, 0, 0)}, r"floors: found 1\.5"),
        ({"floors": (None, 0, 0)}, "floors: found None"),
        ({"floors": (1,)}, "floors: found 1 floors"),
        ({"revenue_weight": "3"}, "revenue_weight: found '3'; expected a finite number above 0"),
        ({"revenue_weight": float("nan")}, "revenue_weight: found nan"),
        ({"revenue_weight": 0}, "revenue_weight: found 0"),
        ({"budget": -1.0}, r"budget: found -1\.0; expected a finite number, 0 or more"),
        ({"budget": "all"}, "budget: found 'all'"),
    ],
)
def test_limits_weight_and_budget_of_an_offer_are_numbers_that_can_be_used(limits, words):
    with pytest.raises(InputError, match=words):
        Offer(**{"depths": DEPTHS, "caps": (1, 1, 1), "revenue_weight": 3.0} | limits)


def test_an_audience_has_one_of_each_per_customer():
    context, _ = world(3)
    for flag in ({}, {"known": True}):
        assert Audience(ids=[1, 2, 3], context=context, **flag).known.tolist() == [True] * 3
    with pytest.raises(InputError, match="3 ids, 2 contexts and 3 known flags"):
        Audience(ids=[1, 2, 3], context=context[:2], known=np.ones(3, bool))
    with pytest.raises(InputError, match=r"audience, context: found shape \(3,\)"):
        Audience(ids=[1, 2, 3], context=context[:, 0], known=True)


def test_decisions_read_in_a_line_and_as_a_table():
    found = run(audience(40), Offer(depths=DEPTHS, caps=(10, 5, 2), revenue_weight=3.0), Greedy())
    assert repr(found) == "Decisions(c, 40 customers, codes {0.1: 10, 0.2: 5, 0.4: 2}, OPTIMAL)"
    table = found.to_pandas()
    assert table["customer_id"].tolist() == list(range(40))
    assert table["depth"].value_counts().to_dict() == {0.1: 10, 0.2: 5, 0.4: 2}
    assert table["expected_full_price"].isna().sum() == table["depth"].isna().sum() == 23
    np.testing.assert_array_equal(table["value"], found.value)


def test_lists_do_as_well_as_arrays_and_one_cap_stands_for_all():
    assert Offer(depths=DEPTHS, caps="20%", revenue_weight=3.0).caps == ("20%",) * 3
    assert Offer(depths=DEPTHS, caps=7, revenue_weight=3.0).caps == (7, 7, 7)
    offer = Offer(depths=list(DEPTHS), caps=[10, 5, 2], revenue_weight=3.0)
    assert offer == Offer(depths=DEPTHS, caps=(10, 5, 2), revenue_weight=3.0)
    people = audience(40)
    lists = Audience(ids=people.ids.tolist(), context=people.context.tolist(), known=people.known.tolist())
    assert np.array_equal(run(lists, offer, Thompson()).choice, run(people, offer, Thompson()).choice)


def test_forgetting_is_chosen_from_the_lessons_where_a_belief_asks_for_it():
    """The response to depth fades: codes of early campaigns are misleading, and only they."""
    prior = Belief(basket=BasketModel(), engagement=Engagement(), learns_forgetting=True)
    none = Evidence.empty(1)
    sent = np.full(3, 4000)
    rates = [0.15 + np.array([0.0, 0.05, 0.15]) * 0.7**place for place in range(9)]
    counts = [EngagementCounts([0.1, 0.2, 0.3], sent, np.rint(sent * rate).astype(np.int64)) for rate in rates]
    lessons = [Lesson(campaign=f"c{place}", baskets=none, codes=one) for place, one in enumerate(counts)]
    found = learn(prior, lessons)
    assert found.engagement.forgetting < 1.0 == found.basket.forgetting
    assert learn(learn(prior, lessons[:5]), lessons[5:]) == found  # whatever was learned in between
    assert learn(replace(prior, learns_forgetting=False), lessons).engagement.forgetting == 1.0
