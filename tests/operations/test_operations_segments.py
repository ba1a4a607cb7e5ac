"""Limits on one column of the customers table, from the plan to late arrivals, counted again in plain Python."""

from collections import Counter
from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals

from disco.operations.arms import assign_at_random
from disco.operations.explain import explain
from disco.operations.forecast import PastForecasts
from disco.operations.launch import launch
from disco.operations.plan import plan_id
from disco.operations.replay import add_propensities
from disco.records.decisions import Audience, Offer, SegmentLimits
from disco.records.errors import InfeasibleError, PlanError, StateError
from disco.records.plan import read_plan
from disco.records.plan_summary import Calibration

REGIONS = ("North", "South", "West", "")


def regions(rows=400):
    return np.array([REGIONS[row % 7 % 4] for row in range(rows)], object)


def people(shop, rows=400, ids=None):
    return replace(shop.people(rows, ids=ids), segment=regions(rows))


def limits(**more):
    return {
        "segments": {"column": "region", "limits": {"North": {0.3: {"at_most": 9}}, "South": {0.1: {"at_least": 30}}}},
        **more,
    }


def codes(table):
    """(segment, depth) → codes, over the rows as they are exported."""
    return Counter((row["segment"], row["depth"]) for row in table.to_pylist() if row["depth"] is not None)


@pytest.mark.parametrize("policy", ["thompson", "random"])
@pytest.mark.parametrize("budget", [None, 150])
def test_caps_and_floors_of_segments_hold_beside_those_of_all(shop, policy, budget):
    planned = shop.planned(shop.plan(**limits(policy={"name": policy}, budget=budget)), people(shop))
    given, rows = codes(planned.decisions), planned.decisions.to_pylist()
    assert 0 < given["North", 0.3] <= 9
    assert given["South", 0.1] >= 30
    assert sum(count for (_, depth), count in given.items() if depth == 0.1) <= 60
    assert sum(count for (_, depth), count in given.items() if depth == 0.3) <= 20
    assert [row["segment"] for row in rows] == [region or None for region in regions()]
    if budget is not None:
        cost = sum(
            row["depth"] * row["expected_full_price"] * row["expected_engagement"] for row in rows if row["depth"]
        )
        assert cost <= budget


def test_control_gets_its_own_part_of_a_segments_codes(shop):
    planned = shop.planned(shop.plan(**limits()), people(shop))
    control = planned.decisions.filter(pa.compute.equal(planned.decisions["arm"], "control"))
    members = Counter(row["segment"] for row in control.to_pylist())
    reachable = Counter(row["segment"] for row in planned.decisions.to_pylist() if row["arm"] != "holdout")
    assert codes(control)["South", 0.1] >= int(30 * members["South"] / reachable["South"]) > 0
    assert codes(control)["North", 0.3] <= 1 + 9 * members["North"] / reachable["North"]


def test_a_share_is_of_the_segments_own_customers():
    plan = read_plan(
        {
            "campaign": "c",
            "customers": {"as_of": date(2027, 3, 1)},
            "depths": {0.1: {}, 0.3: {}},
            "objective": {"revenue_weight": 3},
            "valid": {"from": date(2027, 3, 8), "days": 14},
            "segments": {"column": "region", "limits": {True: {0.3: {"at_most": "10%"}}, 7: {0.1: {"at_least": 5}}}},
        }
    )
    found = plan.segment_limits({"true": 50, "7": 20})
    assert found == {
        "true": SegmentLimits(caps=(None, 5), floors=(0, 0)),
        "7": SegmentLimits(caps=(None, None), floors=(5, 0)),
    }


def test_a_plan_without_segments_keeps_its_bytes(shop):
    plan = shop.plan()
    assert "segments" not in plan.model_dump_json(by_alias=True)
    assert plan_id(plan, {"customers": "x"}) == "7c453c0a0a506d28"
    summary = shop.planned(plan).record().summary
    assert type(summary).from_json(summary.to_json()) == summary


@pytest.mark.parametrize(
    ("segments", "words"),
    [
        ({"column": "region", "limits": {"North": {0.5: {"at_most": 9}}}}, "depths on offer (0.1, 0.3), not for 0.5"),
        ({"column": "region", "limits": {"North": {0.3: {"at_mots": 9}}}}, "Did you mean at_most?"),
        ({"column": "region", "limits": {None: {0.3: {"at_most": 9}}}}, "customers without a value have no limits"),
        ({"column": "region", "limits": {1: {0.3: {}}, "1": {0.3: {}}}}, "each value once"),
        ({"colum": "region", "limits": {"North": {0.3: {}}}}, "Did you mean column?"),
    ],
)
def test_segments_that_cannot_be_read_are_named(shop, segments, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(segments=segments)
    assert words in str(refused.value)


def test_conflicts_name_the_plans_own_numbers(shop):
    region = {"column": "region", "limits": {"South": {0.1: {"at_least": 200}}}}
    with pytest.raises(InfeasibleError) as refused:
        shop.planned(shop.plan(segments=region), people(shop))
    south = sum(
        row["segment"] == "South" and row["arm"] != "holdout"
        for row in shop.planned(shop.plan(**limits()), people(shop)).decisions.to_pylist()
    )
    assert f"at least 200 codes in South, but only {south} customers" in str(refused.value)
    assert "at least 200 codes in all segments together, and at most 60" in str(refused.value)


def test_a_budget_below_the_floors_names_one_that_does(shop):
    plan = {"depths": {0.1: {"at_most": 60, "at_least": 40}, 0.3: {"at_most": 20}}, "budget": 1}
    with pytest.raises(InfeasibleError) as refused:
        shop.planned(shop.plan(**plan), shop.people(400))
    assert "the budget of £1" in str(refused.value)
    enough = int(str(refused.value).split("Raise the budget to ")[1].split(",")[0])
    planned = shop.planned(shop.plan(**plan | {"budget": enough}), shop.people(400))
    given = Counter(row["depth"] for row in planned.decisions.to_pylist())
    assert given[0.1] >= 40
    with pytest.raises(InfeasibleError):
        shop.planned(shop.plan(**plan | {"budget": 0.9 * enough}), shop.people(400))


def test_a_launch_refuses_codes_beyond_a_segments_limit(shop):
    planned = shop.planned(shop.plan(**limits()), people(shop))
    others = np.roll(regions(), 1)
    moved = pa.array([label or None for label in others], pa.string())
    place = planned.decisions.schema.get_field_index("segment")
    changed = replace(planned, decisions=planned.decisions.set_column(place, "segment", moved))
    with pytest.raises(StateError, match="have another segment than planned"):
        launch(shop.store, changed, clock=shop.clock, secret=shop.secret)
    launched = launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    assert codes(launched.decisions) == codes(planned.decisions)


def test_late_arrivals_take_from_the_reserve_of_their_segment(shop):
    region = {"column": "region", "limits": {"North": {0.1: {"at_most": 4}, 0.3: {"at_most": 4}}}}
    plan = shop.plan(
        segments=region,
        reserve={"share": "50%"},
        depths={0.1: {"at_most": 200}, 0.3: {"at_most": 200}},
        holdout={"share": 0},
    )
    shop.launch(plan, people(shop), belief=shop.prior)
    late = replace(shop.people(30, ids=np.arange(1000, 1030)), segment=np.array(["North"] * 30, object))
    decided = decide_late_arrivals(
        shop.store, "spring", late, network=shop.network, prior=shop.prior, clock=shop.clock, secret=shop.secret
    )
    given = codes(decided)
    assert given["North", 0.1] <= 2
    assert given["North", 0.3] <= 2
    assert set(decided["segment"].to_pylist()) == {"North"}
    others = replace(shop.people(30, ids=np.arange(2000, 2030)), segment=np.array(["West"] * 30, object))
    free = decide_late_arrivals(
        shop.store, "spring", others, network=shop.network, prior=shop.prior, clock=shop.clock, secret=shop.secret
    )
    assert sum(codes(free).values()) > 4
    with shop.store.reading() as transaction:
        assert not transaction.seals.broken()


def test_propensities_of_control_are_those_of_the_segment(shop):
    shop.launch(shop.plan(**limits()), people(shop))
    add_propensities(shop.store, "spring", prior=shop.knowledge(), draws=3)
    with shop.store.reading() as transaction:
        rows = [row for row in transaction.decisions.of("spring").to_pylist() if row["arm"] == "control"]
    for segment in ("North", "South", "West", None):
        ours = [row for row in rows if row["segment"] == segment]
        counts = Counter(row["depth"] for row in ours)
        assert all(row["propensity"] == pytest.approx(counts[row["depth"]] / len(ours)) for row in ours)


def test_codes_at_random_are_within_all_limits_and_spread_evenly():
    ids = np.arange(4000)
    segment = np.array([("a", "b", "")[row % 3] for row in range(4000)], object)
    offer = Offer(
        depths=(0.1, 0.3),
        caps=(900, 600),
        revenue_weight=3.0,
        floors=(600, 0),
        segments={
            "a": SegmentLimits(caps=(50, 10), floors=(0, 0)),
            "b": SegmentLimits(caps=(None, None), floors=(0, 400)),
        },
    )
    choice = assign_at_random(ids, offer, segment=segment, seed=1, campaign="c")
    given = Counter(zip(segment.tolist(), choice.tolist(), strict=True))
    assert given["a", 0] == 50
    assert given["a", 1] == 10
    assert given["b", 1] >= 400
    assert given["a", 0] + given["b", 0] + given["", 0] == 900
    assert given["a", 1] + given["b", 1] + given["", 1] == 600
    same = assign_at_random(ids, replace(offer, segments=None), seed=1, campaign="c")
    free = assign_at_random(ids, replace(offer, segments={}), segment=segment, seed=1, campaign="c")
    assert Counter(same.tolist()) == Counter(free.tolist())


def test_labels_are_one_per_customer(shop):
    with pytest.raises(Exception, match="one label per customer"):
        Audience(ids=[1, 2], context=[[0.0], [1.0]], known=True, segment=["a"])


def test_the_expected_markdown_after_correction_keeps_the_budget(shop, monkeypatch):
    """Earlier campaigns cost 25% more than the model expects, so the model may expect four fifths of the budget."""
    learned = Calibration(log_factor=float(np.log(1.25)), log_sd=0.05, campaigns=4)
    free = shop.planned(shop.plan(budget=60), shop.people(400))
    monkeypatch.setattr(PastForecasts, "calibrations", lambda *_: {True: learned, False: learned})
    planned = shop.planned(shop.plan(budget=60), shop.people(400))
    spent, freely = (
        sum(
            row["depth"] * row["expected_full_price"] * row["expected_engagement"]
            for row in one.decisions.to_pylist()
            if row["depth"] is not None
        )
        for one in (planned, free)
    )
    assert 50 < freely <= 60
    assert 50 < 1.25 * spent <= 60
    assert 0 < planned.summary.overspend_chance < 1
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)


def test_an_explanation_has_the_prices_of_the_customers_segment(shop):
    """A tight cap in North: its shadow price decides there, so the given depth is the best above all prices."""
    region = {"column": "region", "limits": {"North": {0.1: {"at_most": 2}}}}
    plan = shop.plan(segments=region, policy={"name": "greedy"}, control={"share": 0}, holdout={"share": 0})
    launched = shop.launch(plan, people(shop), belief=shop.knowledge(spread=0.4))
    with shop.store.reading() as transaction:
        solution = transaction.plans.campaign("spring").solution
    assert solution.segments["North"].prices[0] > 0
    told = []
    for row in launched.decisions.to_pylist():
        found = explain(shop.store, "spring", row["customer_id"], prior=shop.knowledge(spread=0.4))
        own = solution.segments["North"].prices if row["segment"] == "North" else (0.0, 0.0)
        assert [one.price for one in found.figures] == pytest.approx(np.add(solution.prices, own))
        best = max(found.figures, key=lambda one: one.surplus)
        told.append(row["depth"] == (best.depth if best.surplus > 0 else None))
        if row["segment"] == "North":
            assert "with the limits of North" in " ".join(found.words)
    assert np.mean(told) > 0.98, "all but ties at the last codes"
