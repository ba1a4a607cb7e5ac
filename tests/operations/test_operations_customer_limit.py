"""The most markdown per customer over a period: who may get which depth, at the plan, late and in explanations."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals

from disco.adapters.engines.local import LocalEngine
from disco.allocation import allocate
from disco.campaign import expected_costs, values_of
from disco.operations.explain import explain
from disco.operations.launch import launch, recall
from disco.operations.outcomes import ingest
from disco.operations.plan import plan_id
from disco.operations.replay import add_propensities
from disco.policy import Thompson
from disco.records.decisions import Audience, Offer
from disco.records.errors import InfeasibleError, PlanError, StateError
from disco.records.wording import money

DEPTHS = np.array([0.1, 0.3])
LIMIT = {"customer_limit": {"markdown": 3.0, "days": 60}}


@pytest.fixture
def shop(shop):
    """After a campaign that gave half of 200 customers a code, at the expectations of a belief, a month before."""
    shop.clock = replace(shop.clock, moment=datetime(2027, 2, 1, 9, tzinfo=UTC))
    launch_before(shop, "winter")
    shop.clock = replace(shop.clock, moment=datetime(2027, 3, 8, 15, tzinfo=UTC))
    return shop


def launch_before(shop, name, *, start="2027-02-20", seed=3):
    valid = {"customers": {"as_of": "2027-01-01"}, "valid": {"from": start, "days": 14}}
    caps = {"depths": {0.1: {"at_most": 60}, 0.3: {"at_most": 40}}, "control": {"share": 0}, "holdout": {"share": 0}}
    return launch(
        shop.store,
        shop.planned(
            shop.plan(campaign=name, policy={"name": "random"}, seed=seed, **caps, **valid), belief=knowing(shop)
        ),
        clock=shop.clock,
        secret=shop.secret,
    )


def knowing(shop):
    return shop.knowledge(spread=1.0)


def decisions(shop, name):
    with shop.store.reading() as transaction:
        return transaction.decisions.of(name)


def expected_of(shop, name="winter"):
    """By customer: the expected markdown of their code."""
    rows = [row for row in decisions(shop, name).to_pylist() if row["code"]]
    return {row["customer_id"]: row["depth"] * row["expected_full_price"] * row["expected_engagement"] for row in rows}


def costs_of(shop, people):
    offer = Offer(depths=(0.1, 0.3), caps=(None, None), revenue_weight=3.0)
    return expected_costs(people, belief=knowing(shop), offer=offer)


def test_the_decided_group_is_the_optimum_among_what_is_left_for_each_customer(shop):
    people, spent = shop.people(), expected_of(shop)
    left = np.array([3.0 - spent.get(name, 0.0) for name in range(200)])
    allowed = costs_of(shop, people) <= left[:, None]
    assert 10 < (~allowed).any(axis=1).sum() < 190
    assert (~allowed).all(axis=1).sum() > 0
    plan = shop.plan(control={"share": 0}, holdout={"share": 0}, **LIMIT)
    planned = shop.planned(plan, people, belief=knowing(shop))
    worth = values_of(
        people, belief=knowing(shop), depths=DEPTHS, revenue_weight=3.0, policy=Thompson(), seed=4, campaign="spring"
    )
    best = allocate(worth, [60, 20], depths=DEPTHS.tolist(), eligible=allowed, ids=people.ids)
    assert planned.solution.value == pytest.approx(best.value, rel=1e-12)
    depth = np.nan_to_num(planned.decisions["depth"].to_numpy())
    np.testing.assert_array_equal(depth, np.append(DEPTHS, 0.0)[best.choice])
    free = shop.planned(shop.plan(control={"share": 0}, holdout={"share": 0}), people, belief=knowing(shop))
    assert free.solution.value > planned.solution.value
    again = shop.planned(plan, people, belief=knowing(shop), engine=LocalEngine(threads=2))
    assert again.decisions.equals(planned.decisions)
    assert again.plan_id == planned.plan_id
    none, some = int((~allowed).all(axis=1).sum()), int((~allowed).any(axis=1).sum())
    words = f"leaves no code for {none} customers, and only some depths for {some - none}."
    assert any(words in one for one in planned.summary.warnings)


def test_random_codes_keep_the_limit_and_their_propensities_know_it(shop):
    people, spent = shop.people(), expected_of(shop)
    planned = shop.planned(shop.plan(policy={"name": "random"}, **LIMIT), people, belief=knowing(shop))
    costs = costs_of(shop, people)
    for row, cost in zip(planned.decisions.to_pylist(), costs, strict=True):
        if row["depth"] is not None:
            assert cost[DEPTHS.tolist().index(row["depth"])] <= 3.0 - spent.get(row["customer_id"], 0.0)
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    add_propensities(shop.store, "spring", prior=knowing(shop), draws=3)
    rows = [row for row in decisions(shop, "spring").to_pylist() if row["arm"] == "decided"]
    left = {name: 3.0 - spent.get(name, 0.0) for name in range(200)}
    nowhere = [row for row in rows if (costs[row["customer_id"]] > left[row["customer_id"]]).all()]
    assert nowhere
    assert {row["propensity"] for row in nowhere} == {1.0}
    shallow = [row["propensity"] for row in rows if row["depth"] == 0.1]
    may = sum(costs[row["customer_id"]][0] <= left[row["customer_id"]] for row in rows)
    assert set(np.round(shallow, 12)) == {round(len(shallow) / may, 12)}


def test_a_floor_that_the_limit_leaves_no_room_for_is_named(shop):
    floors = {
        "depths": {0.1: {"at_least": 150}, 0.3: {"at_most": 20}},
        "customer_limit": {"markdown": 0.01, "days": 60},
    }
    with pytest.raises(InfeasibleError, match="or raise customer_limit"):
        shop.planned(shop.plan(**floors), belief=knowing(shop))
    with pytest.raises(InfeasibleError, match=r"cannot hold with 0 eligible customers.*or raise customer_limit"):
        shop.planned(shop.plan(policy={"name": "random"}, **floors), belief=knowing(shop))


def test_a_campaign_that_is_over_counts_with_what_was_bought(shop):
    launched = launch_before(shop, "autumn", start="2027-01-08", seed=9)
    codes = [row for row in launched.decisions.to_pylist() if row["code"]]
    bought = codes[0]
    rows = shop.outcomes([bought], campaign_id=["autumn"], full_price=[200.0]).set_column(
        4, "ordered_at", pa.array([datetime(2027, 1, 9)], pa.timestamp("us"))
    )
    counts = ingest(shop.store, "autumn", rows, source="test", clock=shop.clock)
    assert counts.counts.applied == 1
    planned = shop.planned(shop.plan(control={"share": 0}, holdout={"share": 0}, **LIMIT), belief=knowing(shop))
    by_customer = {row["customer_id"]: row["depth"] for row in planned.decisions.to_pylist()}
    assert by_customer[bought["customer_id"]] is None  # 200 at 10% or 30% is more than the limit
    winter = expected_of(shop)
    others = [row["customer_id"] for row in codes[1:] if row["customer_id"] not in winter]
    before = shop.planned(
        shop.plan(campaign="spring", control={"share": 0}, holdout={"share": 0}, **LIMIT), belief=knowing(shop)
    )
    assert before.inputs["customer_limit"] == planned.inputs["customer_limit"]
    assert sum(by_customer[name] is not None for name in others) > 0  # codes that nobody used spent nothing


def test_a_launch_compares_what_was_spent(shop):
    planned = shop.planned(shop.plan(**LIMIT), belief=knowing(shop))
    launch_before(shop, "between", seed=11)
    with pytest.raises(StateError, match="markdown of other campaigns, which customer_limit counts"):
        launch(shop.store, planned, clock=shop.clock, secret=shop.secret)


def test_late_arrivals_and_explanations_keep_to_the_same_limit(shop):
    small = {"customer_limit": {"markdown": 1.5, "days": 60}, "reserve": {"share": "50%"}}
    planned = shop.planned(shop.plan(control={"share": 0}, holdout={"share": 0}, **small), belief=knowing(shop))
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    late = replace(shop.people(40, ids=np.arange(1000, 1040), seed=6), known=np.zeros(40, bool))
    decided = decide_late_arrivals(
        shop.store, "spring", late, network=shop.network, prior=knowing(shop), clock=shop.clock, secret=shop.secret
    )
    costs, coded = costs_of(shop, late), 0
    for row, cost in zip(decided.to_pylist(), costs, strict=True):
        if row["depth"] is not None:
            coded += 1
            assert cost[DEPTHS.tolist().index(row["depth"])] <= 1.5
    assert coded
    all_costs = costs_of(shop, shop.people())
    spent = expected_of(shop)
    nothing_left = next(name for name in spent if (all_costs[name] > 1.5 - spent[name]).all())
    why = explain(shop.store, "spring", nothing_left, prior=knowing(shop))
    assert why.depth is None
    left = max(1.5 - spent[nothing_left], 0.0)
    rest = money(left, full=True)
    said = (
        f"Of the limit of £1.50 of markdown per customer in 60 days, {rest} was left, and a code of 10% off or 30% off"
    )
    assert any(said in one for one in why.words), "\n".join((said, *why.words))
    assert why.words[-1] == "So they got no code."
    assert why.runner_up is None
    free = next(name for name in range(200) if name not in spent and (all_costs[name] <= 1.5).all())
    assert not any("Of the limit" in one for one in explain(shop.store, "spring", free, prior=knowing(shop)).words)


def test_an_explanation_knows_the_limit_as_it_was_at_the_launch(shop):
    alone = {"control": {"share": 0}, "holdout": {"share": 0}, **LIMIT}
    planned = shop.planned(shop.plan(**alone), belief=knowing(shop))
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    spent, costs = expected_of(shop), costs_of(shop, shop.people())
    deep = next(name for name in spent if costs[name][0] <= 3.0 - spent[name] < costs[name][1])
    before = explain(shop.store, "spring", deep, prior=knowing(shop)).words
    assert any("and a code of 30% off was expected to cost more" in one for one in before)
    assert not any("No code was worth" in one or "no other depth was offered" in one for one in before)
    recall(shop.store, "winter", clock=replace(shop.clock, moment=shop.clock.moment + timedelta(hours=1)))
    assert explain(shop.store, "spring", deep, prior=knowing(shop)).words == before


def test_before_anything_is_learned_the_plan_says_that_the_limit_does_not_bind(shop):
    planned = shop.planned(shop.plan(policy={"name": "random"}, **LIMIT), belief=shop.prior)
    assert any("Nothing was learned yet, so no markdown is expected" in one for one in planned.summary.warnings)


def test_a_plan_without_the_key_keeps_its_bytes(shop):
    plain = shop.plan()
    assert "customer_limit" not in plain.model_dump_json(by_alias=True)
    assert plan_id(plain, {}) != plan_id(shop.plan(**LIMIT), {})
    assert "customer_limit" not in shop.planned(plain, belief=knowing(shop)).inputs


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"markdown": 0, "days": 365}, "customer_limit.markdown: found 0"),
        ({"markdown": 60}, "customer_limit.days: found nothing"),
        ({"markdown": 60, "days": 0}, "customer_limit.days: found 0"),
        ({"markdown": 60, "days": 365, "dayz": 1}, "Did you mean days?"),
        ({"markdown": float("nan"), "days": 365}, "customer_limit.markdown"),
    ],
)
def test_a_limit_that_cannot_be_is_named(shop, given, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(customer_limit=given)
    assert words in str(refused.value)


def test_what_is_left_is_an_amount():
    with pytest.raises(Exception, match="markdown_left"):
        Audience(ids=[1], context=[[0.0]], known=[True], markdown_left=[np.nan])
