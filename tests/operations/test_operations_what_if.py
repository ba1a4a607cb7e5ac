"""The planner: an audience opened once gives, for any limits, the figures that a plan made anew would state."""

import importlib.util
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from disco.adapters.engines import LocalEngine
from disco.allocation import allocate_offer
from disco.operations.decide import Basis, Memo
from disco.operations.forecast import past_forecasts
from disco.operations.plan import PlanResult
from disco.operations.what_if import OpenAudience, OpenAudiences, about, adopted, intervals, reachable, solve
from disco.records.decisions import Arm
from disco.records.errors import InfeasibleError, InputError, LimitError, StateError

REGIONS = ("North", "South", "West", "")
POINT = ("prices", "budget_price", "ceiling", "status", "value", "bound", "gap", "reserve", "binding", "customers")
MONEY = ("arms", "total", "overspend_chance")


def people(shop, rows=400):
    return replace(shop.people(rows), segment=np.array([REGIONS[row % 7 % 4] for row in range(rows)], object))


def belief_of(shop):
    belief = shop.knowledge(spread=0.3)
    return belief if shop.head is None else replace(belief, head=shop.head)


def opened(shop, plan, audience, *, key="k", engine=None):
    """The audience as `open_audience` opens it, without files."""
    belief = belief_of(shop)
    learned, personal = belief.basket.campaigns, belief.head is not None
    return OpenAudience(
        key=key,
        about=about(plan),
        basis=Basis(
            audience=audience,
            belief=belief,
            past=past_forecasts(shop.store, learned=learned, as_of=plan.customers.as_of, personal=personal),
            currency=shop.store.locale.currency,
            engine=engine,
            memo=Memo(tables=True),
        ),
        network=shop.network,
        version=None,
        notes=(),
        left_out={},
        opened_at=shop.clock.now(),
    )


def planned(shop, plan, audience):
    """What `disco plan --json` states, and the prices of segments, which it keeps for late arrivals."""
    made = shop.planned(plan, audience, belief=shop.knowledge(spread=0.3))
    prices = made.solution.segment_revenue_prices(plan.objective.revenue_weight)
    return {**PlanResult.of(made, dry_run=True).as_dict(), "segment_prices": prices}


def random_limits(rng, *, rows=400):
    """Limits of every kind, some of which contradict each other."""

    def limit():
        form = {}
        if rng.random() < 0.8:
            form["at_most"] = int(rng.integers(0, rows // 3))
        if rng.random() < 0.3:
            form["at_least"] = int(rng.integers(0, rows // 20))
        return form

    more = {"depths": {depth: limit() for depth in (0.1, 0.2, 0.3)}}
    more["objective"] = {"revenue_weight": float(rng.choice([1.5, 3.0]))}
    more["control"] = {"share": float(rng.choice([0.0, 0.2]))}
    more["holdout"] = {"share": float(rng.choice([0.0, 0.1]))}
    more["reserve"] = {"share": float(rng.choice([0.0, 0.1]))}
    kind = rng.random()
    if kind < 0.3:
        more["budget"] = float(rng.integers(20, 200))
    elif kind < 0.5:
        more["budget"] = {"amount": float(rng.integers(20, 200)), "overspend_risk": 0.2}
    labels = [label for label in ("North", "South") if rng.random() < 0.5]
    more["segments"] = {"column": "region", "limits": {label: {0.1: limit()} for label in labels or ["West"]}}
    more["policy"] = {"name": str(rng.choice(["thompson", "greedy", "random"], p=[0.6, 0.2, 0.2]))}
    return more


def kinds_of(plan, solved):
    """What a plan has of the things that its figures can depend on; of limits, those that cost something."""
    shares = {"control": plan.control.share, "holdout": plan.holdout.share, "reserve": plan.reserve.share}
    segments = [price for prices in (solved.segment_prices or {}).values() for price in prices.values()]
    here = {
        "budget": solved.budget_price > 0,
        "risk": solved.decided.share < 1,
        "floor": any(price < 0 for price in (*(solved.prices or {}).values(), *segments)),
        "segment": any(price > 0 for price in segments),
        "at random": plan.policy.assigns_at_random,
        **{name: share > 0 for name, share in shares.items()},
    }
    return {name for name, there in here.items() if there}


def ended(attempt):
    """What an attempt gives, and what is said about limits that contradict each other; one of them is None."""
    try:
        return attempt(), None
    except InfeasibleError as error:
        return None, str(error)


@pytest.mark.parametrize("with_head", [False, True])
def test_any_limits_have_the_figures_of_a_plan(shop, scored_shop, with_head):
    """One audience is opened, and limits of every kind follow each other on it."""
    shop = scored_shop if with_head else shop
    rng, audience = np.random.default_rng(11), people(shop)
    plans = [shop.plan(**random_limits(rng)) for _ in range(24)]
    open_one = opened(shop, plans[0], audience)
    feasible, kinds = 0, set()
    for plan in plans:
        expected, conflict = ended(lambda plan=plan: planned(shop, plan, audience))
        solved, conflict_here = ended(lambda plan=plan: solve(open_one, plan))
        assert conflict_here == conflict
        if conflict is not None:
            continue
        feasible += 1
        found = {**solved.as_dict(), **intervals(open_one, plan, solved).as_dict()}
        for key in (*POINT, *MONEY):
            assert found[key] == expected[key], key
        assert solved.segment_prices == expected["segment_prices"]
        kinds |= kinds_of(plan, solved)
        if solved.total is not None:
            assert solved.total.revenue.value == expected["total"]["revenue"]["value"]
            assert solved.total.markdown.value == expected["total"]["markdown"]["value"]
            assert solved.total.revenue.ends is None
    assert 8 <= feasible < len(plans), "limits that can be met, and others"
    assert kinds == {"budget", "risk", "floor", "segment", "control", "holdout", "reserve", "at random"}


def test_many_customers_have_the_figures_of_a_plan_from_warm_prices(shop):
    """Above 12,000 customers the solver begins at the prices of the limits before, and two threads share the work."""
    audience, base = people(shop, 16_000), {"control": {"share": "10%"}}
    first = shop.plan(depths={0.1: {"at_most": 4000}, 0.3: {"at_most": 2000}}, **base)
    open_one = opened(shop, first, audience, engine=LocalEngine(threads=2))
    solve(open_one, first)
    tried = (
        {"depths": {0.1: {"at_most": 4100}, 0.3: {"at_most": 1900}}},
        {"depths": {0.1: {"at_most": 4100}, 0.3: {"at_most": 1900, "at_least": 1800}}},
        {"depths": {0.1: {"at_most": 4100}, 0.3: {"at_most": 1900}}, "budget": 9000.0},
        {"depths": {0.1: {"at_most": 900}, 0.3: {"at_most": 3000}}},
    )
    for more in tried:
        plan = shop.plan(**{**base, **more})
        expected, solved = planned(shop, plan, audience), solve(open_one, plan)
        found = {**solved.as_dict(), **intervals(open_one, plan, solved).as_dict()}
        assert {key: found[key] for key in (*POINT, *MONEY)} == {key: expected[key] for key in (*POINT, *MONEY)}


SEEDS = given(st.integers(0, 2**32 - 1))
KEPT_SHOP = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SEEDS
@settings(KEPT_SHOP, max_examples=8)
def test_the_limits_solved_before_change_no_decision(scored_shop, seed):
    """A solve from warm prices and kept values against one on an audience that was just opened."""
    rng, rows = np.random.default_rng(seed), 3000
    audience = people(scored_shop, rows)
    plans = [scored_shop.plan(**random_limits(rng, rows=rows)) for _ in range(4)]
    kept = opened(scored_shop, plans[0], audience)
    for plan in plans:
        fresh = opened(scored_shop, plan, audience)
        cold, conflict = ended(lambda plan=plan, fresh=fresh: solve(fresh, plan))
        for _ in range(2):  # after other limits, and after the same ones
            warm, conflict_here = ended(lambda plan=plan: solve(kept, plan))
            assert conflict_here == conflict
            if conflict is None:
                for name in ("choice", "value", "expected_full_price", "engagement"):
                    np.testing.assert_array_equal(getattr(warm.decided, name), getattr(cold.decided, name))
                assert {**warm.as_dict(), "seconds": 0} == {**cold.as_dict(), "seconds": 0}


class Again:
    """The decided group of solved limits, solved again under other ones."""

    def __init__(self, open_one, plan, solved):
        self.part, self.solved, self.weight = solved.decided.parts[0], solved, plan.objective.revenue_weight
        self.members = open_one.basis.members(plan, Arm.DECIDED)
        self.figures = open_one.basis.figures(plan, self.part)
        # a price is a slope of the bound that prices give, so it may be off by how far that is above the value: with a
        # budget codes are not divisible, without one it is nothing
        bound, rate = solved.bound, solved.decided.decisions.budget_price
        if rate > 0:
            bound = max(bound, self.value(self.part, budget_price=rate) + rate * self.part.budget)
        self.slack = bound - solved.value + 1e-11 * max(1.0, abs(solved.value))
        assert self.value(self.part) == pytest.approx(solved.value, rel=1e-12, abs=1e-9)

    def value(self, part, *, budget_price=None):
        """What the best codes under other limits are worth; −∞ where nothing meets them.

        budget_price: the money is paid for at this price instead of being bounded.
        """
        values, costs = self.figures.values, self.figures.costs
        if budget_price is not None:
            values, costs, part = values - budget_price * costs, None, replace(part, budget=None)
        try:
            return allocate_offer(values, self.members, part, costs=costs, where="again").value
        except (InfeasibleError, LimitError):
            return -np.inf

    def refuse_unless_between(self, price, limit, changed, *, slack=None, step=1, **paid):
        """One more of a limit brings at most its price, and one fewer costs at least its price."""
        slack, now = self.slack if slack is None else slack, self.value(self.part, **paid)
        gained = self.value(changed(limit + step), **paid) - now
        lost = now - self.value(changed(limit - step), **paid) if limit >= step else np.inf
        assert gained - slack <= price * self.weight * step <= lost + slack

    def limits(self):
        """Every price that is shown, the limit it is the price of, and the decided group's limits with another one.

        A positive price is that of a cap, a negative one that of a floor.
        """
        for column, depth in enumerate(self.part.depths):
            price = self.solved.prices[depth]
            name = "floors" if price < 0 else "caps"
            now = getattr(self.part, name)
            if now is not None and now[column] is not None:
                yield (
                    price,
                    now[column],
                    lambda to, name=name, now=now, at=column: replace(self.part, **{name: changed(now, at, to)}),
                )
            else:
                assert price == 0, "what is not limited costs nothing"
        for label, prices in (self.solved.segment_prices or {}).items():
            for column, depth in enumerate(self.part.depths):
                name, own = "floors" if prices[depth] < 0 else "caps", self.part.segments[label]
                now = getattr(own, name)
                if now[column] is None:
                    assert prices[depth] == 0
                    continue
                yield (
                    prices[depth],
                    now[column],
                    lambda to, label=label, own=own, name=name, now=now, at=column: replace(
                        self.part,
                        segments={**self.part.segments, label: replace(own, **{name: changed(now, at, to)})},
                    ),
                )


def changed(limits, column, to):
    return (*limits[:column], to, *limits[column + 1 :])


@SEEDS
@KEPT_SHOP
def test_a_price_lies_between_one_code_more_and_one_code_fewer(scored_shop, seed):
    """Of every limit per depth and per segment, by solving the decided group again."""
    rng = np.random.default_rng(seed)
    plan = scored_shop.plan(**random_limits(rng))
    assume(not plan.policy.assigns_at_random)
    open_one = opened(scored_shop, plan, people(scored_shop))
    try:
        solved = solve(open_one, plan)
    except InfeasibleError:
        reject()
    again = Again(open_one, plan, solved)
    assert plan.budget_amount is not None or again.slack <= 1e-9 * max(1.0, abs(solved.value))
    for price, limit, to in again.limits():
        again.refuse_unless_between(price, limit, to)
    rate = solved.decided.decisions.budget_price
    if rate == 0:
        return
    shown = solved.budget_price / solved.decided.share
    again.refuse_unless_between(shown, again.part.budget, lambda to: replace(again.part, budget=to), step=0.5)
    paid = again.value(again.part, budget_price=rate)
    for price, limit, to in again.limits():
        again.refuse_unless_between(price, limit, to, slack=1e-11 * max(1.0, abs(paid)), budget_price=rate)


@SEEDS
@KEPT_SHOP
def test_a_price_is_that_of_the_code_that_a_plan_adds_to_the_decided_group(shop, seed):
    """A plan's cap is shared between decided and control: one more in the plan is one more here, or there."""
    rng = np.random.default_rng(seed)
    caps = {depth: int(rng.integers(1, 120)) for depth in (0.1, 0.2, 0.3)}
    base = {"control": {"share": float(rng.choice([0.0, 0.3]))}, "reserve": {"share": float(rng.choice([0.0, 0.1]))}}

    def solved(caps):
        plan = shop.plan(depths={depth: {"at_most": cap} for depth, cap in caps.items()}, **base)
        found = solve(open_one, plan)
        return found, found.decided.parts[0].caps

    open_one = opened(shop, shop.plan(**base), shop.people(500))
    now, codes = solved(caps)
    for column, depth in enumerate(caps):
        for step in (1, -1):
            cap, other, here = caps[depth], now, codes[column]
            while here == codes[column] and cap + step >= 0:
                cap += step
                other, there = solved({**caps, depth: cap})
                here = there[column]
            if here == codes[column]:
                assert here == 0, "there is no code fewer"
                continue
            assert here == codes[column] + step
            difference = (other.value - now.value) / 3.0 / step
            slack = 1e-11 * max(1.0, abs(now.value))
            assert step * (now.prices[depth] - difference) >= -slack


def test_new_limits_draw_no_values_again(shop, monkeypatch):
    plan = shop.plan(budget=100.0)
    open_one = opened(shop, plan, shop.people(400))
    solve(open_one, plan)

    def again(*_, **__):
        raise AssertionError("values and costs depend on no limit")

    for name in ("values_of", "expected_costs"):
        monkeypatch.setattr(f"disco.operations.decide.{name}", again)
    other = shop.plan(budget=80.0, depths={0.1: {"at_most": 30}, 0.3: {"at_most": 25}}, reserve={"share": "10%"})
    assert solve(open_one, other).value < solve(open_one, plan).value


def test_the_objective_is_weighed_revenue_less_markdown(shop):
    plan = shop.plan()
    open_one = opened(shop, plan, shop.people(400))
    solved = solve(open_one, plan)
    money = intervals(open_one, plan, solved)
    assert solved.objective.value == pytest.approx(3 * solved.total.revenue.value - solved.total.markdown.value)
    assert money.objective.value == solved.objective.value
    assert money.objective.lower < money.objective.value < money.objective.upper
    assert solved.seconds > 0
    assert money.seconds > 0


@pytest.mark.parametrize("budget", [None, 90.5, {"amount": 120.0, "overspend_risk": 0.2}])
def test_a_point_of_the_frontier_has_the_figures_of_the_plan_that_adopts_it(shop, budget):
    """With control, holdout, reserve and segments: an operator who adopts a point sees the same numbers."""
    audience = people(shop)
    more = {} if budget is None else {"budget": budget}
    plan = shop.plan(
        depths={0.1: {"at_most": 90}, 0.2: {"at_most": 60, "at_least": 4}, 0.3: {"at_most": 40}},
        control={"share": 0.2},
        holdout={"share": 0.1},
        reserve={"share": 0.1},
        segments={"column": "region", "limits": {"North": {0.1: {"at_most": 30}}}},
        **more,
    )
    one = opened(shop, plan, audience)
    found = reachable(one, plan)
    points = [*found.by_weight, *found.by_budget]
    assert len(points) > 4
    for point in points:
        other = adopted(plan, weight=point.revenue_weight, budget=point.budget)
        assert other.overspend_risk == (None if point.budget is None else plan.overspend_risk)
        solved = solve(opened(shop, plan, audience), other)
        assert point.codes == sum(sum(arm.codes.values()) for arm in solved.arms.values())
        assert (point.revenue, point.markdown) == (solved.total.revenue.value, solved.total.markdown.value)
    own = solve(opened(shop, plan, audience), plan)
    assert found.present.present
    assert (found.present.revenue, found.present.markdown) == (own.total.revenue.value, own.total.markdown.value)
    assert [point for point in points if point.present] == [found.present]
    for path in (found.by_weight, found.by_budget):
        for before, after in pairwise(path):
            alike = [
                abs(getattr(before, name) - getattr(after, name)) <= 0.01 * getattr(after, name)
                for name in ("revenue", "markdown")
            ]
            assert not all(alike) or before.present or after.present


def test_a_plan_about_other_customers_is_refused(shop):
    plan = shop.plan()
    open_one = opened(shop, plan, shop.people(50))
    other = shop.plan(customers={"as_of": plan.customers.as_of, "eligible": "country = 'GB'"})
    with pytest.raises(InputError, match="Open the customers again"):
        solve(open_one, other)
    labelled = shop.plan(segments={"column": "region", "limits": {"Nroth": {0.1: {"at_most": 5}}}})
    with pytest.raises(InputError, match="Did you mean North"):
        solve(opened(shop, labelled, people(shop)), labelled)


def test_audiences_that_were_not_used_for_longest_are_closed_first(shop):
    plan, audience = shop.plan(), shop.people(2000)
    first = opened(shop, plan, audience, key="a")
    solve(first, plan)
    size = first.nbytes
    assert size > audience.nbytes, "what was made from it counts"
    most = -(-5 * size // 2 // 10**6) or 1
    audience = shop.people(int(2000 * most * 10**6 / (2.5 * size)))  # two and a half of them fill the megabytes
    kept = OpenAudiences(most)

    def load(key):
        one = opened(shop, plan, audience, key=key)
        solve(one, plan)
        return one

    for key in ("a", "b"):
        kept.open(key, lambda key=key: load(key))
    assert kept.find("a") is not None
    kept.open("c", lambda: load("c"))
    assert [key for key in "abc" if kept.find(key) is not None] == ["a", "c"]
    assert kept.megabytes <= most
    kept.close("a")
    assert kept.find("a") is None


def test_one_audience_beyond_the_bound_loses_what_was_made_from_it_and_then_is_refused(shop):
    plan = shop.plan()
    kept = OpenAudiences(1)
    one = opened(shop, plan, shop.people(20_000))
    kept.open("k", lambda: one)
    before = solve(one, plan)
    assert one.nbytes > 10**6
    kept.settle()
    assert kept.find("k") is one
    assert one.nbytes == one.basis.audience.nbytes
    assert solve(one, plan).value == before.value
    large = opened(shop, plan, shop.people(50_000))
    with pytest.raises(StateError, match=r"50,000 customers need 2 MB.*planner_megabytes"):
        OpenAudiences(1).open("large", lambda: large)


def test_two_who_ask_at_once_load_an_audience_once(shop):
    plan, loads, together = shop.plan(), [], threading.Barrier(2)
    kept, found = OpenAudiences(100), []

    def load():
        loads.append(1)
        return opened(shop, plan, shop.people(50))

    def ask():
        together.wait()
        found.append(kept.open("k", load))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    assert found[0] is found[1]


def test_a_load_that_fails_can_be_tried_again(shop):
    kept = OpenAudiences(100)

    def fails():
        raise InputError("customers", found="nobody", expected="somebody")

    with pytest.raises(InputError):
        kept.open("k", fails)
    assert kept.find("k") is None
    one = opened(shop, shop.plan(), shop.people(50))
    assert kept.open("k", lambda: one) is one


def test_the_benchmark_times_every_kind_of_move_in_any_planner():
    file = Path(__file__).parents[2] / "benchmarks" / "console.py"
    spec = importlib.util.spec_from_file_location("console_benchmark", file)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    found = benchmark.run(1500, 1)
    assert list(found["moves"]) == list(benchmark.KINDS)
    assert all(took > 0 for times in found["moves"].values() for took in times.values())
    seen = []

    def ask(limits):
        seen.append(limits)
        return 0.25, 0.5

    for kind in benchmark.KINDS:
        waited = benchmark.measure(ask, kind, customers=1500, spent=100.0, count=3)
        assert waited == benchmark.Waited(numbers=[0.25] * 3, intervals=[0.5] * 3)
        tried = [str(limits) for limits in seen[-4:]]
        assert len(set(tried)) > 1, "an operator moves something"
