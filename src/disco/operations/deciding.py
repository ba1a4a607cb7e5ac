"""Customers decided under a plan's limits, in stages: the arms, what each customer is worth, the solve, the money.

`disco plan` goes through all stages once. The planner keeps what limits do not change (`Basis.memo`) and goes through
the rest again for every limit that an operator tries. Both call the same functions, so equal limits give equal figures.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from disco.campaign import Belief, Figures, decide, expected_costs, values_of
from disco.operations.arms import Groups, assign_at_random, reserve_of, segment_reserve, share_offers
from disco.operations.backtests import PastForecasts
from disco.operations.forecast import Totals, draw_totals, expected_totals
from disco.operations.overspending import chance_above, largest_share
from disco.operations.plan_conflicts import explain_conflict
from disco.operations.planned import ARMS
from disco.policy import policy_of
from disco.records.arrays import Floats, Integers, Vector
from disco.records.currency import Currency
from disco.records.decisions import Arm, Audience, Decisions, Offer
from disco.records.depths import depth_percent
from disco.records.errors import InfeasibleError
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast, Calibration, SegmentSolution, Solution
from disco.records.ports import Engine
from disco.records.wording import money

Made = TypeVar("Made")
_KEPT = 2  # of each kind: what is being tried, and what it is compared with
_SOLVED = (Arm.DECIDED, Arm.CONTROL)  # in the order of `Decided.parts`


class Memo:
    """What was made before, by what it depends on; the last few of each kind. Threads may share it.

    tables: whether values and costs (customers × depths) are kept as well. A plan that is decided once needs neither
    after the solve.
    """

    def __init__(self, *, tables: bool) -> None:
        self._tables, self._lock = tables, RLock()
        self._made: dict[str, OrderedDict[tuple[object, ...], Any]] = {}

    def get(self, kind: str, key: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """One thread makes at a time, so that nothing is made twice."""
        with self._lock:
            there = self._made.setdefault(kind, OrderedDict())
            if key in there:
                there.move_to_end(key)
                found: Made = there[key]
                return found
            return self._kept(there, key, make())

    def table(self, kind: str, key: tuple[object, ...], make: Callable[[], Floats]) -> Floats:
        """The same of a table of customers × depths."""
        return self.get(kind, key, make) if self._tables else make()

    def clear(self) -> None:
        with self._lock:
            self._made.clear()

    @property
    def nbytes(self) -> int:
        """Of the arrays."""
        with self._lock:
            return sum(_nbytes(one) for kept in self._made.values() for one in kept.values())

    @staticmethod
    def _kept(there: "OrderedDict[tuple[object, ...], Any]", key: tuple[object, ...], made: Made) -> Made:
        there[key] = made
        while len(there) > _KEPT:
            there.popitem(last=False)
        return made


def _nbytes(made: object) -> int:
    if isinstance(made, Audience):
        return made.nbytes
    if isinstance(made, Groups):
        return sum(flags.nbytes for flags in made.arms.values())
    return made.nbytes if isinstance(made, np.ndarray) else 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """Who is decided about and what is known of them: all that a plan's limits do not change."""

    audience: Audience
    belief: Belief
    past: PastForecasts  # what earlier campaigns brought against their forecasts
    currency: Currency
    secret: bytes | None = None  # of lasting holdouts
    engine: Engine | None = None
    memo: Memo = field(default_factory=lambda: Memo(tables=False))

    def groups(self, plan: Plan) -> Groups:
        ids, segment = self.audience.ids, self.audience.segment
        return self.memo.get(
            "groups", _assignment(plan), lambda: Groups.of(plan, ids, segment=segment, secret=self.secret)
        )

    def members(self, plan: Plan, arm: Arm) -> Audience:
        """The customers of an arm."""
        groups = self.groups(plan)
        return self.memo.get(f"members {arm}", _assignment(plan), lambda: self.audience.take(groups.arms[arm]))

    def calibration(self, plan: Plan, arm: Arm) -> Calibration:
        """What earlier codes that were given as those of an arm say about the next."""
        both = self.memo.get("calibrations", plan.offered, lambda: self.past.calibrations(plan.offered))
        return both[arm is Arm.DECIDED and not plan.policy.assigns_at_random]

    def costs(self, plan: Plan, arm: Arm, offer: Offer) -> Floats | None:
        """(n, K) markdown of each code at each depth as a budget counts it, of an arm; None: only a budget needs it."""
        if offer.budget is None:
            return None
        members, key = self.members(plan, arm), (*_assignment(plan), offer.depths, offer.cost_factors)
        return self.memo.table(
            f"costs {arm}", key, lambda: expected_costs(members, belief=self.belief, offer=offer, engine=self.engine)
        )

    def figures(self, plan: Plan, offer: Offer) -> Figures:
        """What the customers of the decided arm are worth, and cost."""
        policy, members = policy_of(plan), self.members(plan, Arm.DECIDED)
        values = self.memo.table(
            "values",
            (*_assignment(plan), offer.depths, offer.revenue_weight, repr(policy)),
            lambda: values_of(
                members,
                belief=self.belief,
                depths=np.asarray(offer.depths, np.float64),
                revenue_weight=offer.revenue_weight,
                policy=policy,
                seed=plan.seed,
                campaign=plan.campaign,
                engine=self.engine,
            ),
        )
        return Figures(values=values, costs=self.costs(plan, Arm.DECIDED, offer))


def _assignment(plan: Plan) -> tuple[object, ...]:
    """What says who is in which arm; it also names the draws of a policy."""
    return plan.control.share, plan.holdout.share, plan.holdout.lasting, plan.seed, plan.campaign


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """What codes are expected to bring."""

    arms: dict[Arm, ArmForecast]
    total: Totals | None  # of all codes; None before any purchase was learned


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decided:
    """What was decided about every customer of a plan, in the audience's order."""

    groups: Groups
    offer: Offer  # the plan's limits at the launch
    parts: tuple[Offer, ...]  # of the decided arm and of control
    share: float  # of the budget that is planned, so that overspend_risk is kept
    choice: Integers
    value: Vector
    expected_full_price: Vector
    engagement: Vector  # each customer's own chance to buy at the depth they get
    decisions: Decisions | None  # of the decided arm; None: assigned at random
    forecast: Forecast | None = None  # where the search for `share` has drawn it


def decide_groups(basis: Basis, plan: Plan, *, warm_prices: Vector | None = None) -> Decided:
    """Each arm by its rule, within its own part of the plan's limits. InfeasibleError in the plan's own numbers.

    warm_prices: (K,) prices of the decided arm under similar limits.
    """
    groups = basis.groups(plan)
    offer = groups.offer(plan)
    members = [basis.members(plan, arm) for arm in _SOLVED]
    factors = [basis.calibration(plan, arm).factors(plan.offered) for arm in _SOLVED]
    shared = share_offers(
        offer,
        [groups.sizes[arm] for arm in _SOLVED],
        segment_sizes=[groups.arm_segments[arm] for arm in _SOLVED],
    )

    def attempt(share: float) -> Decided:
        parts = tuple(
            part
            if part.budget is None
            else replace(part, budget=part.budget * share, cost_factors=tuple(factor.tolist()))
            for part, factor in zip(shared, factors, strict=True)
        )
        return _decided(basis, plan, groups, offer, parts, share=share, warm_prices=warm_prices)

    try:
        whole = attempt(1.0)
    except InfeasibleError:  # its figures are those of one group
        parts = [
            part if part.budget is None else replace(part, cost_factors=tuple(factor.tolist()))
            for part, factor in zip(shared, factors, strict=True)
        ]
        costs = [basis.costs(plan, arm, part) for arm, part in zip(_SOLVED, parts, strict=True)]
        outside = basis.audience.take(~groups.arms[Arm.HOLDOUT])
        explain_conflict(plan, offer, outside, members, parts, costs, currency=basis.currency)
        raise
    return _within_risk(basis, plan, whole, attempt)


def _decided(
    basis: Basis,
    plan: Plan,
    groups: Groups,
    offer: Offer,
    parts: tuple[Offer, ...],
    *,
    share: float,
    warm_prices: Vector | None,
) -> Decided:
    customers, belief, engine = len(basis.audience), basis.belief, basis.engine
    choice, value = np.full(customers, -1, np.int64), np.zeros(customers)
    expected, engagement = np.full(customers, np.nan), np.full(customers, np.nan)
    decisions, depths = None, np.asarray(plan.offered)
    for arm, part in zip(_SOLVED, parts, strict=True):
        rows, members = np.flatnonzero(groups.arms[arm]), basis.members(plan, arm)
        if not rows.size:
            continue
        if arm is Arm.DECIDED and not plan.policy.assigns_at_random:
            decisions = decide(
                members,
                belief=belief,
                offer=part,
                policy=policy_of(plan),
                campaign=plan.campaign,
                seed=plan.seed,
                engine=engine,
                figures=basis.figures(plan, part),
                warm_prices=None if _has_floors(part) else warm_prices,
            )
            choice[rows], value[rows] = decisions.choice, decisions.value
            expected[rows], engagement[rows] = decisions.expected_full_price, decisions.engagement
        else:
            choice[rows] = assign_at_random(
                members.ids,
                part,
                segment=members.segment,
                costs=basis.costs(plan, arm, part),
                seed=plan.seed,
                campaign=plan.campaign,
                currency=basis.currency,
            )
            if belief.basket.campaigns:
                expected[rows] = belief.basket.expected_at_choice(members.context, depths, choice[rows], engine=engine)
                engagement[rows] = belief.rates_at_choice(members, depths, choice[rows], engine=engine)
    return Decided(
        groups=groups,
        offer=offer,
        parts=parts,
        share=share,
        choice=choice,
        value=value,
        expected_full_price=expected,
        engagement=engagement,
        decisions=decisions,
    )


def _has_floors(offer: Offer) -> bool:
    """Where a floor binds, several prices prove the same optimum, and a warm start could lead to another of them."""
    return any(offer.floors or ()) or any(any(limits.floors) for limits in (offer.segments or {}).values())


def _within_risk(basis: Basis, plan: Plan, whole: Decided, attempt: Callable[[float], Decided]) -> Decided:
    """The decisions under the largest share of the budget that keeps the plan's `overspend_risk`."""
    depths, risk, budget = np.asarray(plan.offered), plan.overspend_risk, whole.offer.budget
    if risk is None or budget is None:
        return whole

    def drawn(decided: Decided) -> tuple[Decided, Vector | None]:
        found = forecast(basis, plan, decided)
        markdown = None if found.total is None else found.total.drawn_markdown(depths)
        return replace(decided, forecast=found), markdown

    whole, markdown = drawn(whole)
    if markdown is None or chance_above(markdown, budget) <= risk:
        return whole

    def tried(share: float) -> tuple[Decided, Vector] | None:
        try:
            decided, costs = drawn(attempt(share))
        except InfeasibleError:
            return None
        return decided, np.zeros(1) if costs is None else costs  # without codes nothing is drawn

    found = largest_share(tried, whole=markdown, budget=budget, risk=risk)
    if found.attempt is None:
        most = money(plan.budget_amount or 0.0, full=True, currency=basis.currency)
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits contradict each other",
            conflicts=[
                f"The floors (at_least) cost so much that the budget of {most} "
                f"is exceeded with a chance of {found.least_chance:.0%}; overspend_risk allows {risk:.0%}"
            ],
            fix="Lower at_least, raise the budget, or allow a larger overspend_risk.",
        )
    return replace(found.attempt, share=found.share)


# ---- what the codes are expected to bring ----


def forecast(basis: Basis, plan: Plan, decided: Decided) -> Forecast:
    """By arm, and of all codes together, with intervals."""
    if decided.forecast is not None:
        return decided.forecast
    depths = np.asarray(plan.offered)

    def drawn(arm: Arm, correction: Calibration) -> Totals:
        rows = decided.groups.arms[arm]
        return draw_totals(
            basis.belief,
            basis.members(plan, arm),
            decided.choice[rows],
            depths,
            full_price=decided.expected_full_price[rows],
            engagement=decided.engagement[rows],
            correction=correction,
            arm=arm,
            seed=plan.seed,
            campaign=plan.campaign,
            engine=basis.engine,
        )

    return _by_arm(basis, plan, decided, drawn)


def expected(basis: Basis, plan: Plan, decided: Decided) -> Forecast:
    """The figures of `forecast` without intervals, and so without draws."""

    def corrected(arm: Arm, correction: Calibration) -> Totals:
        rows = decided.groups.arms[arm]
        each = expected_totals(
            decided.expected_full_price[rows],
            decided.engagement[rows],
            decided.choice[rows],
            depths=len(plan.offered),
        )
        return Totals(expected=each * correction.factors(plan.offered))

    return _by_arm(basis, plan, decided, corrected)


def _by_arm(basis: Basis, plan: Plan, decided: Decided, totals: Callable[[Arm, Calibration], Totals]) -> Forecast:
    depths, choice = np.asarray(plan.offered), decided.choice
    found: dict[Arm, ArmForecast] = {}
    total: Totals | None = None
    for arm in ARMS:
        rows = decided.groups.arms[arm]
        if not rows.any():
            continue
        counts = np.bincount(choice[rows & (choice >= 0)], minlength=depths.size)
        bare = correction = None
        if basis.belief.basket.campaigns and counts.any():
            correction = basis.calibration(plan, arm)
            own = totals(arm, correction)
            total, bare = own if total is None else total + own, own.money(depths)
        codes = dict(zip(plan.offered, counts.tolist(), strict=True))
        found[arm] = ArmForecast(customers=int(rows.sum()), codes=codes, money=bare, correction=correction)
    return Forecast(arms=found, total=total)


def overspend_chance(plan: Plan, decided: Decided, total: Totals | None) -> float | None:
    """That all codes cost more than the budget; None without a budget or forecast. total: with draws."""
    if total is None or decided.offer.budget is None:
        return None
    return chance_above(total.drawn_markdown(np.asarray(plan.offered)), decided.offer.budget)


# ---- how the decided arm was solved ----


def solution_of(basis: Basis, plan: Plan, decided: Decided) -> Solution:
    belief, offer, groups, decisions = basis.belief, decided.offer, decided.groups, decided.decisions
    reserve, reserve_budget = reserve_of(plan, offer, eligible=groups.eligible)
    of_segments = segment_reserve(plan, offer, segment_sizes=groups.segment_sizes)
    free = (0.0,) * len(offer.depths)
    prices = {} if decisions is None else decisions.segment_prices or {}
    cost_factors = decided.parts[0].cost_factors
    return Solution(
        depths=offer.depths,
        prices=None if decisions is None else tuple(decisions.prices.tolist()),
        budget_price=0.0 if decisions is None else decisions.budget_price,
        engagement=tuple(belief.engagement.rates(np.asarray(offer.depths)).tolist()),
        status="assigned at random" if decisions is None else str(decisions.status),
        value=0.0 if decisions is None else float(decisions.value.sum()),
        bound=0.0 if decisions is None else decisions.bound,
        gap=0.0 if decisions is None else decisions.gap,
        policy=plan.policy.name if decisions is None else decisions.policy,
        reserve=reserve,
        reserve_budget=reserve_budget,
        segments=None
        if of_segments is None
        else {
            label: SegmentSolution(prices=None if decisions is None else prices.get(label, free), reserve=codes)
            for label, codes in of_segments.items()
        },
        budget_factor=1 / decided.share,
        budget_share=decided.share,
        cost_factors=None if cost_factors is None or set(cost_factors) == {1.0} else cost_factors,
        spread_by_depth=bool(belief.basket.depth_spread.depths.size),
        head=None if belief.head is None else {name: tuple(part) for name, part in belief.head.to_json().items()},
    )


def binding_limits(basis: Basis, decided: Decided) -> tuple[str, ...]:
    """Limits of the decided group whose price is not 0, with what one more is worth in revenue."""
    decisions, offer = decided.decisions, decided.parts[0]
    if decisions is None:
        return ()
    words = []
    for depth, price in zip(offer.depths, (decisions.prices / offer.revenue_weight).tolist(), strict=True):
        worth = money(abs(price), currency=basis.currency)
        if price > 0:
            words.append(f"one more code of {depth_percent(depth)} would bring about {worth} of revenue")
        elif price < 0:
            words.append(f"the floor of {depth_percent(depth)} costs about {worth} of revenue per code")
    for label, prices in (decisions.segment_prices or {}).items():
        for depth, price in zip(offer.depths, prices, strict=True):
            worth = money(abs(price) / offer.revenue_weight, currency=basis.currency)
            if price > 0:
                words.append(f"one more code of {depth_percent(depth)} in {label} would bring about {worth} of revenue")
            elif price < 0:
                words.append(f"the floor of {depth_percent(depth)} in {label} costs about {worth} of revenue per code")
    if decisions.budget_price > 0:
        unit = decisions.budget_price * decided.share / offer.revenue_weight
        words.append(f"one more unit of budget would bring about {money(unit, currency=basis.currency)} of revenue")
    return tuple(words)
