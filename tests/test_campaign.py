"""The pipe end to end on small worlds: decisions respect limits, do not depend on chunking, and learning is exact."""

import numpy as np
import pytest

from disco.adapters.engines import LocalEngine
from disco.belief import BasketModel, Engagement, EngagementCounts, RadialBasis
from disco.campaign import CHUNK_ROWS, Belief, decide, learn
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
from disco.records.decisions import Audience, Offer, Purchases
from disco.records.errors import InfeasibleError, InputError

DEPTHS = (0.1, 0.2, 0.4)
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
    spent = np.nansum(result.expected_full_price * result.depth * np.append(result.engagement, 0)[result.choice])
    assert 0.9 * 120.0 < spent <= 120.0 * (1 + 1e-12)


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


def test_learning_in_batches_in_any_order_gives_the_same_belief():
    context, rng = world(300, seed=9)
    depth, full_price = rng.choice(DEPTHS, 300), np.exp(rng.normal(3, 0.5, 300))
    parts = [slice(0, 90), slice(90, 91), slice(91, 300)]

    def taught(order):
        known = Belief(basket=BasketModel(), engagement=Engagement())
        for place in order:
            rows = parts[place]
            counts = EngagementCounts.of(depth[rows], np.ones(depth[rows].size, bool))
            purchases = Purchases(context=context[rows], depth=depth[rows], full_price=full_price[rows])
            known = learn(known, purchases, campaign="c", codes=counts)
        return known

    first, second = taught([0, 1, 2]), taught([2, 0, 1])
    assert first.basket.hash == second.basket.hash
    assert first.engagement.counts == second.engagement.counts


def test_learning_changes_only_what_it_returns():
    before = belief()
    kept = before.basket.hash
    context, rng = world(10, seed=9)
    learn(
        before,
        Purchases(context=context, depth=np.full(10, 0.2), full_price=np.exp(rng.normal(3, 1, 10))),
        campaign="d",
    )
    assert before.basket.hash == kept


def test_depths_in_per_cent_are_asked_about_before_anything_is_decided():
    with pytest.raises(InputError, match=r"Did you mean 0\.20\?"):
        Offer(depths=(20, 30), caps=(1, 2), revenue_weight=3.0)


def test_lists_do_as_well_as_arrays():
    offer = Offer(depths=list(DEPTHS), caps=[10, 5, 2], revenue_weight=3.0)
    assert offer == Offer(depths=DEPTHS, caps=(10, 5, 2), revenue_weight=3.0)
    people = audience(40)
    lists = Audience(ids=people.ids.tolist(), context=people.context.tolist(), known=people.known.tolist())
    assert np.array_equal(run(lists, offer, Thompson()).choice, run(people, offer, Thompson()).choice)
