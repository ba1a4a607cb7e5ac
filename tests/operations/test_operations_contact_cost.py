"""What sending a code costs: in the objective, the forecast and the results, and in no budget."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from arriving import decide_late_arrivals

from disco.campaign import decide, values_of
from disco.operations.explain import explain
from disco.operations.plan import plan_id
from disco.operations.replay import add_propensities
from disco.operations.results import read_out
from disco.policy import Greedy, Thompson
from disco.records.decisions import Audience, Offer
from disco.records.errors import InputError, PlanError
from disco.records.plan import read_plan
from disco.records.wording import money

CHANNELS = np.array(["sms", "e-mail"], object)


def people(shop, rows=300, **labels):
    return replace(shop.people(rows, **labels), channel=CHANNELS[np.arange(rows) % 2])


COST = 0.125  # of a code by sms, exact in binary


def by_channel(shop, **more):
    return shop.plan(channel={"column": "channel"}, contact_cost={"sms": COST}, **more)


def test_the_value_is_less_by_the_cost_whatever_the_chance_to_buy(make_shop):
    customers, belief = make_shop.people(50), make_shop.knowledge()
    how = {"belief": belief, "depths": np.array([0.1, 0.3]), "revenue_weight": 3.0, "campaign": "c", "seed": 1}
    for seed, policy in enumerate([Thompson(), Thompson(scope="round"), Greedy()]):
        costs = np.random.default_rng(seed).exponential(5, 50)
        free = values_of(customers, policy=policy, **how)
        paid = values_of(replace(customers, contact_cost=costs), policy=policy, **how)
        np.testing.assert_array_equal(paid, free - costs[:, None])


def test_who_is_not_worth_the_sending_gets_no_code_and_saves_its_cost(make_shop):
    """By hand: with a cost between the values of two customers, one of them keeps the code that both had."""
    customers, belief = make_shop.people(2), make_shop.knowledge(spread=1.0)
    offer = Offer(depths=(0.1,), caps=(None,), revenue_weight=3.0)
    how = {"belief": belief, "offer": offer, "policy": Greedy(), "campaign": "c", "seed": 1}
    free = decide(customers, **how)
    assert (free.choice == 0).all()
    between = float(free.value.mean())
    paid = decide(replace(customers, contact_cost=np.full(2, between)), **how)
    assert paid.choice.tolist() == [0 if value > between else -1 for value in free.value]
    assert paid.value.sum() == pytest.approx(free.value.max() - between, rel=1e-12)


def test_a_plan_without_costs_keeps_its_bytes_and_one_that_costs_nothing_its_decisions(shop):
    plain, free = shop.plan(channel="sms"), shop.plan(channel="sms", contact_cost={"sms": 0.0})
    assert "contact_cost" not in plain.model_dump_json(by_alias=True)
    assert plan_id(plain, {}) != plan_id(free, {})
    assert shop.planned(free).decisions.equals(shop.planned(plain).decisions)
    assert shop.planned(plain).arms["decided"].contact_cost is None


def test_each_customer_costs_what_their_own_channel_costs(shop):
    limits = {"depths": {0.1: {"at_most": 40}, 0.3: {"at_most": 20}}, "control": {"share": 0}, "budget": 60.0}
    plain = shop.planned(shop.plan(channel={"column": "channel"}, **limits), people(shop))
    dear = shop.planned(by_channel(shop, **limits), people(shop))

    def sms(planned):
        return int(np.sum((planned.decisions["channel"].to_numpy() == "sms") & planned.decisions["depth"].is_valid()))

    assert 0 < sms(dear) < sms(plain)
    assert dear.arms["decided"].contact_cost == COST * sms(dear)
    assert dear.arms["holdout"].contact_cost == 0.0
    assert dear.total.markdown.value <= 60.0 * (1 + 1e-9)
    codes, cost = sum(dear.arms["decided"].codes.values()), money(COST * sms(dear))
    assert [note for note in dear.summary.warnings if note.startswith("Sending ")] == [
        f"Sending {codes} codes costs {cost}, used or not. It is no markdown: no budget counts it."
    ]


def test_results_explanations_late_arrivals_and_propensities_count_the_same_cost(shop):
    launched = shop.launch(by_channel(shop, reserve={"share": "30%"}), people(shop))
    sent = shop.sent(launched)
    read = read_out(shop.store, "spring", as_of=date(2027, 4, 1), orders=None)
    by_sms = sum(row["channel"] == "sms" for row in sent)
    assert sum(group.contact_cost for group in read.arms.values()) == COST * by_sms
    assert any(f"Sending {len(sent)} codes cost {money(COST * by_sms)}, used or not." in words for words in read.words)
    for channel in CHANNELS:
        row = next(one for one in sent if one["arm"] == "decided" and one["channel"] == channel)
        why = explain(shop.store, "spring", row["customer_id"], prior=shop.knowledge())
        figure = next(one for one in why.figures if one.depth == row["depth"])
        unit = (3.0 * (1 - row["depth"]) - row["depth"]) * figure.drawn_engagement
        cost = COST if channel == "sms" else 0.0
        assert figure.value == pytest.approx(figure.drawn_full_price * unit - cost, rel=1e-9)
        assert figure.value == pytest.approx(row["value"], rel=1e-9)
    assert add_propensities(shop.store, "spring", prior=shop.knowledge(), draws=5).decisions == 300
    with shop.store.reading() as transaction:
        found = transaction.decisions.of("spring").to_pylist()
    assert min(row["propensity"] for row in found if row["arm"] == "decided") > 0
    late = Audience(
        ids=np.arange(1000, 1040),
        context=np.zeros((40, 2)),
        known=np.zeros(40, bool),
        channel=CHANNELS[np.arange(40) % 2],
    )
    decided = decide_late_arrivals(
        shop.store, "spring", late, network=shop.network, prior=shop.knowledge(), clock=shop.clock, secret=shop.secret
    )
    assert decided.num_rows == 40
    free = values_of(
        late,
        belief=shop.knowledge(),
        depths=np.array([0.1, 0.3]),
        revenue_weight=3.0,
        policy=Thompson(),
        seed=4,
        campaign="spring",
    )
    compared = 0
    for row, values in zip(decided.to_pylist(), free, strict=True):
        if row["depth"] is not None:
            assert row["arm"] == "decided"
            compared += 1
            worth = values[0 if row["depth"] == 0.1 else 1] - (COST if row["channel"] == "sms" else 0.0)
            assert row["value"] == pytest.approx(worth, rel=1e-9)
    assert compared


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"contact_cost": {"on-site": -1}}, "plan, contact_cost.on-site: found -1"),
        ({"contact_cost": {"on-site": float("inf")}}, "contact_cost.on-site"),
        ({"contact_cost": {"on-site": "3"}}, "contact_cost.on-site"),
        ({"contact_cost": {"on-site": 1e7}}, "contact_cost.on-site"),
        ({"contact_cost": {}}, "`{email: 0.002, sms: 0.04}`"),
        ({"contact_cost": 0.04}, "`{email: 0.002, sms: 0.04}`"),
        ({"contact_cost": {" ": 0.1}}, "`{email: 0.002, sms: 0.04}`"),
        ({"contact_cost": {"sms": 0.04}}, "of the plan's channel, on-site, and not of sms"),
    ],
)
def test_a_cost_that_cannot_be_is_named(shop, more, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(**more)
    assert words in str(refused.value)


def test_a_channel_that_nobody_has_is_refused(shop):
    plan = shop.plan(channel={"column": "channel"}, contact_cost={"smss": 0.04})
    with pytest.raises(InputError, match="smss, which no customer of the plan has as a channel"):
        shop.planned(plan, people(shop))


@pytest.mark.parametrize("costs", [[-1.0, 0.0], [np.nan, 0.0], [np.inf, 0.0], [1.0]])
def test_costs_of_an_audience_are_amounts(shop, costs):
    with pytest.raises(InputError, match="audience, contact_cost"):
        replace(shop.people(2), contact_cost=np.array(costs))


def test_a_plan_with_costs_reads_back_equal(shop):
    plan = shop.plan(channel="sms", contact_cost={"sms": 0.04})
    again = read_plan(plan.model_dump(by_alias=True))
    assert again == plan
    assert again.contact_cost == {"sms": 0.04}
