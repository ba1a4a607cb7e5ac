"""Customers decided under a plan's limits, in stages: the arms, what each customer is worth, the solve, the money.

`disco plan` goes through all stages once. The planner keeps what limits do not change (`Basis.memo`) and goes through
the rest again for every limit that an operator tries. Both call the same functions, so equal limits give equal figures.
"""

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from disco.allocation import Segments, Status, allocate
from disco.campaign import Belief, Figures, allowed_depths, decide, expected_costs, values_of
from disco.operations.arms import ARMS, SHARING, Groups, assign_at_random, reserve_of, segment_reserve, share_offers
from disco.operations.customer_limit import markdown_left
from disco.operations.forecast import PastForecasts, Totals, draw_totals, expected_totals, past_forecasts
from disco.operations.season import ShopSeason
from disco.policy import policy_of
from disco.records.arrays import Floats, Integers, Vector
from disco.records.decisions import Arm, Audience, Decisions, Offer
from disco.records.depths import depth_percent
from disco.records.errors import InfeasibleError, InputError
from disco.records.forecasting import USUAL_RULES, ForecastRules
from disco.records.money import GBP, Currency
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast, Calibration, SegmentSolution, Solution
from disco.records.ports import Engine
from disco.records.wording import money
from disco.store import Store

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")
_KEPT = 2  # of each kind: what is being tried, and what it is compared with


class Recent(Generic[Key, Made]):
    """Values that are kept because they may be asked for again. By key: those used last (never None),
    at most so many (None: all), each of them made once. Threads may share it.

    >>> lengths = Recent[str, int](2)
    >>> [lengths.made(word, lambda word=word: len(word)) for word in ("one", "three", "one", "eleven")]
    [3, 5, 3, 6]
    >>> lengths.find("three"), lengths.find("one")
    (None, 3)
    """

    def __init__(self, most: int | None = None) -> None:
        self._most, self._lock = most, Lock()
        self._kept: OrderedDict[Key, Made] = OrderedDict()
        self._making: dict[Key, Lock] = {}

    def find(self, key: Key) -> Made | None:
        """The value, where there is one, which counts as a use of it."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def made(self, key: Key, make: Callable[[], Made]) -> Made:
        """The value, made where there is none; where several threads ask for it, one makes it and the others wait."""
        with self._lock:
            making = self._making.setdefault(key, Lock())
        with making:
            try:
                if (there := self.find(key)) is not None:
                    return there
                value = make()
                with self._lock:
                    self._kept[key] = value
                    while self._most is not None and len(self._kept) > self._most:
                        self._kept.popitem(last=False)
                return value
            finally:
                with self._lock:
                    self._making.pop(key, None)

    def drop(self, key: Key) -> None:
        """Forget a value; nothing where there is none."""
        with self._lock:
            self._kept.pop(key, None)

    def values(self) -> list[Made]:
        """The value that was not used for longest first."""
        with self._lock:
            return list(self._kept.values())

    def drop_oldest(self) -> None:
        """Forget the value that was not used for longest."""
        with self._lock:
            if self._kept:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


class Memo:
    """What was made before, by what it depends on; the last few of each kind. Threads may share it.

    tables: whether values and costs (customers × depths) are kept as well. A plan that is decided once needs neither
    after the solve.
    """

    def __init__(self, *, tables: bool) -> None:
        self._tables = tables
        self._made: defaultdict[str, Recent[tuple[object, ...], Any]] = defaultdict(lambda: Recent(_KEPT))

    def get(self, kind: str, key: tuple[object, ...], make: Callable[[], Made]) -> Made:
        made: Made = self._made[kind].made(key, make)
        return made

    def table(self, kind: str, key: tuple[object, ...], make: Callable[[], Floats]) -> Floats:
        """The same of a table of customers × depths."""
        return self.get(kind, key, make) if self._tables else make()

    def clear(self) -> None:
        self._made.clear()

    @property
    def nbytes(self) -> int:
        """Of the arrays."""
        return sum(_nbytes(one) for kept in tuple(self._made.values()) for one in kept.values())


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

    @classmethod
    def of(
        cls,
        store: Store,
        plan: Plan,
        audience: Audience,
        belief: Belief,
        *,
        engine: Engine | None = None,
        stays_open: bool = False,
        rules: ForecastRules = USUAL_RULES,
        season: ShopSeason | None = None,
    ) -> "Basis":
        """With what the store knows of earlier forecasts.

        stays_open: for an operator who tries limits, and who may also make the holdout lasting.
        rules, season: by which forecasts are made, and what is known of the season.
        """
        past = past_forecasts(
            store,
            learned=belief.basket.campaigns,
            as_of=plan.customers.as_of,
            personal=belief.head is not None,
            rules=rules,
            belief=belief,
            plan=plan,
            season=season,
            engine=engine,
        )
        with store.reading() as transaction:
            secret = transaction.decisions.holdout_secret() if stays_open or plan.holdout.lasting else None
            left = markdown_left(transaction, plan, audience.ids)
        return cls(
            audience=replace(audience, markdown_left=left),
            belief=belief,
            past=past,
            currency=store.locale.currency,
            secret=secret,
            engine=engine,
            memo=Memo(tables=stays_open),
        )

    def groups(self, plan: Plan) -> Groups:
        ids, segment = self.audience.ids, self.audience.segment
        return self.memo.get(
            "groups", _assignment(plan), lambda: Groups.of(plan, ids, segment=segment, secret=self.secret)
        )

    def members(self, plan: Plan, arm: Arm) -> Audience:
        """The customers of an arm, with what sending each a code costs."""
        groups, costs = self.groups(plan), self.contact_costs(plan)
        return self.memo.get(
            f"members {arm}",
            _assignment(plan),
            lambda: replace(self.audience, contact_cost=costs).take(groups.arms[arm]),
        )

    def contact_costs(self, plan: Plan) -> Vector | None:
        """(n,) what sending each customer a code costs; None: the plan names no cost."""
        channel = self.audience.channel
        unknown = () if channel is None else set(plan.contact_cost or ()) - set(channel.tolist())
        if unknown:
            raise InputError(
                "contact_cost",
                found=f"a cost of {', '.join(sorted(unknown))}, which no customer of the plan has as a channel",
                expected=f"channels of the column {plan.channel_column}",
                fix="Correct the name, or leave it out.",
            )
        return plan.contact_costs(channel, customers=len(self.audience))

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
    """What says who is in which arm, and what a code to them costs; it also names the draws of a policy."""
    of_contacts = plan.channel_name, repr(plan.contact_cost)
    return plan.control.share, plan.holdout.share, plan.holdout.lasting, plan.seed, plan.campaign, of_contacts


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
    parts: tuple[Offer, ...]  # of `SHARING`
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
    members = [basis.members(plan, arm) for arm in SHARING]
    factors = [basis.calibration(plan, arm).factors(plan.offered) for arm in SHARING]
    shared = share_offers(
        offer,
        [groups.sizes[arm] for arm in SHARING],
        segment_sizes=[groups.arm_segments[arm] for arm in SHARING],
    )

    def parts_of(share: float) -> tuple[Offer, ...]:
        return tuple(
            part
            if part.budget is None
            else replace(part, budget=part.budget * share, cost_factors=tuple(factor.tolist()))
            for part, factor in zip(shared, factors, strict=True)
        )

    def attempt(share: float) -> Decided:
        return _decided(basis, plan, groups, offer, parts_of(share), share=share, warm_prices=warm_prices)

    try:
        whole = attempt(1.0)
    except InfeasibleError:  # its figures are those of one group
        parts = parts_of(1.0)
        costs = [basis.costs(plan, arm, part) for arm, part in zip(SHARING, parts, strict=True)]
        outside = basis.audience.take(~groups.arms[Arm.HOLDOUT])
        explain_conflict(plan, offer, outside, members, parts, costs, belief=basis.belief, currency=basis.currency)
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
    for arm, part in zip(SHARING, parts, strict=True):
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
            choice[rows] = _within_limit(basis, plan, arm, choice[rows], part)
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


def _within_limit(basis: Basis, plan: Plan, arm: Arm, choice: Integers, part: Offer) -> Integers:
    """Codes assigned at random, without those that would cost more than is left for a customer."""
    allowed = allowed_depths(
        basis.members(plan, arm), belief=basis.belief, depths=np.asarray(part.depths), engine=basis.engine
    )
    if allowed is None:
        return choice
    kept = np.where((choice >= 0) & allowed[np.arange(choice.size), choice], choice, -1)
    counts = np.bincount(kept[kept >= 0], minlength=len(part.depths))
    for depth, count, floor in zip(part.depths, counts.tolist(), part.floors or (0,) * len(counts), strict=True):
        if count < floor:
            raise InfeasibleError(
                f"campaign {plan.campaign}: the limits contradict each other",
                conflicts=[
                    f"{depth_percent(depth)}: at least {floor:,} codes in group {arm}, but `customer_limit` leaves "
                    f"{count:,} of those drawn at random"
                ],
                fix="Lower at_least, or raise customer_limit.",
            )
    return kept


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
    costs = basis.contact_costs(plan)
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
        found[arm] = ArmForecast(
            customers=int(rows.sum()),
            codes=codes,
            money=bare,
            correction=correction,
            contact_cost=None if costs is None else float(costs[rows & (choice >= 0)].sum()),
        )
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


# ---- how much of a budget may be planned ----
#
# How much of a budget may be planned, so that the codes cost more than all of it with at most a given chance.
#
# The largest share s in (0, 1] of the budget with P(markdown of the codes decided under s·budget > budget) ≤ risk, by
# the draws of the forecast, which contain what earlier forecasts got wrong (docs/decisions/098-what-a-plan-can-say.md).
#
# The chance is a step function of s, which says on which side of the bound s is and not how far from it. The markdown
# that is exceeded with that chance, q(s), says both: the risk is kept where q(s) ≤ budget, and q is nearly proportional
# to s, because codes that cost a little less in all spread a little less. So one or two shares are enough.


TOLERANCE = 0.002
"""A larger share by this part of it would exceed the risk, or this part of the budget at most is left below it."""
_QUICK_STEPS = 5  # along a line; a few codes may need halving
_LEAST_SHARE = 1e-9  # pays for no code
_MOST_STEPS = 60

Attempt = TypeVar("Attempt")


def chance_above(markdown: Vector, budget: float) -> float:
    """The share of draws of the markdown above the budget.

    >>> chance_above(np.array([8.0, 9.0, 10.0, 11.0]), 10.0)
    0.25
    """
    return float(np.mean(markdown > budget))


def exceeded_with(markdown: Vector, *, risk: float) -> float:
    """The smallest drawn markdown that is exceeded with a chance of at most `risk`.

    >>> exceeded_with(np.array([8.0, 9.0, 10.0, 11.0]), risk=0.25)
    10.0
    """
    above = np.arange(markdown.size) / markdown.size <= risk  # by how many draws may be above it
    return float(np.sort(markdown)[-int(above.sum())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Generic[Attempt]):
    """What a search found."""

    share: float  # of the budget
    attempt: Attempt | None  # what was decided under it; None: the floors allow no share that keeps the risk
    least_chance: float  # the smallest chance that was seen


def largest_share(
    attempt: Callable[[float], tuple[Attempt, Vector] | None], *, whole: Vector, budget: float, risk: float
) -> Bounded[Attempt]:
    """The largest share whose chance is at most `risk`, to within `TOLERANCE`; the whole budget is known to exceed it.

    attempt: what is decided under a share, with draws of its markdown; None where limits cannot be kept with so little
    money. whole: draws under the whole budget. A share is returned only with a chance that was computed for it.
    """
    low, high, best, best_share, least = 0.0, 1.0, None, _LEAST_SHARE, chance_above(whole, budget)
    last = (0.0, 0.0)  # without money there are no codes: the line through it and the first share is the proportion
    goal = budget * (1 - TOLERANCE / 2)
    # the budget may be more than all codes need, so that the first shares below 1 change nothing
    share = (1 - TOLERANCE / 2) * min(float(whole.mean()), budget) / exceeded_with(whole, risk=risk)
    for step in range(_MOST_STEPS):
        if not low < share < high or step >= _QUICK_STEPS:
            share = (low + high) / 2
        tried = attempt(share)
        if tried is None:
            low, share = share, -1.0
        else:
            decided, markdown = tried
            chance, reached = chance_above(markdown, budget), exceeded_with(markdown, risk=risk)
            least = min(least, chance)
            if chance > risk:
                high = share
            else:
                low, best, best_share = share, decided, share
                if reached >= budget * (1 - TOLERANCE):
                    break
            rise = reached - last[1]
            last, along = (share, reached), (goal - reached) * (share - last[0])
            share = share + along / rise if rise else -1.0
        if high - low <= TOLERANCE * high or (low == 0.0 and high <= TOLERANCE):
            break
    if best is None and (tried := attempt(_LEAST_SHARE)) is not None and chance_above(tried[1], budget) <= risk:
        best = tried[0]
    return Bounded(share=best_share, attempt=best, least_chance=least)


# ---- why limits cannot hold together ----
#
# Why a plan's limits cannot hold together, in the plan's own numbers.
#
# Each group of customers is solved within its own part of the limits, so what a solve says about a conflict names
# figures that no plan contains. Here the question is asked again about the plan as a whole.


_RAISES, _RAISE = 40, 1.02  # a budget that was found is tried, and raised by 2% until it does


def explain_conflict(
    plan: Plan,
    offer: Offer,
    audience: Audience,
    members: Sequence[Audience],
    parts: Sequence[Offer],
    costs: Sequence[Floats | None],
    *,
    belief: Belief,
    currency: Currency = GBP,
) -> None:
    """Raise InfeasibleError in the plan's numbers where one of two causes is found; return where it is neither.

    offer: the limits at the launch; audience: the customers outside the holdout. Of the decided and the control group:
    members, parts (the limits that each is solved with) and costs (markdown by customer and depth, as the budget counts
    it). belief: says which depths the limit of a customer allows. currency: of the budget.
    """
    found = allocate(
        np.zeros((len(audience), len(offer.depths)), order="F"),
        offer.caps,
        depths=offer.depths,
        floors=offer.floors,
        segments=Segments.of(audience, offer),
        eligible=allowed_depths(audience, belief=belief, depths=np.asarray(offer.depths)),
    )
    if found.status is Status.INFEASIBLE:
        reserve = f", of caps without the reserve of {plan.reserve.share:.0%}" if plan.reserve.share else ""
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits contradict each other{reserve}",
            conflicts=[str(conflict) for conflict in found.conflicts],
            fix="Change one of the limits named above"
            + ("." if plan.customer_limit is None else ", or raise customer_limit."),
        )
    budget = plan.budget_amount
    if budget is None:
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits hold for all customers, but not for the decided and the control "
            "group apart, which share them in proportion to their customers",
            conflicts=(),
            fix="Lower at_least, or change control.share.",
        )
    needed = _needed_budget(plan, members, parts, costs, belief=belief)
    if needed is not None and needed > budget:
        given, least = (money(amount, full=True, currency=currency) for amount in (budget, needed))
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits contradict each other",
            conflicts=[f"The floors (at_least) cost more than the budget of {given}: about {least} are needed"],
            fix=f"Raise the budget to {needed:,}, or lower at_least.",
        )


def _needed_budget(
    plan: Plan,
    members: Sequence[Audience],
    parts: Sequence[Offer],
    costs: Sequence[Floats | None],
    *,
    belief: Belief,
) -> int | None:
    """The least whole budget of the plan whose parts pay for the floors of every group, at most 2% too much."""
    everybody, needed = sum(len(group) for group in members), 0.0
    at_launch = 1 - plan.reserve.share
    for place, (group, part, cost) in enumerate(zip(members, parts, costs, strict=True)):
        if not len(group) or cost is None or part.budget is None:
            continue
        free = replace(part, budget=None, cost_factors=None)
        whole = everybody / len(group) / at_launch  # of the plan's budget per unit of this group's
        if place == 0 and not plan.policy.assigns_at_random:
            least = allocate(
                np.asfortranarray(-cost),
                free.caps,
                depths=free.depths,
                floors=free.floors,
                segments=Segments.of(group, free),
                eligible=allowed_depths(group, belief=belief, depths=np.asarray(free.depths)),
                ids=group.ids,
            )
            if least.status is Status.INFEASIBLE:
                return None
            needed = max(needed, -least.value * whole)
        else:
            own = _random_floor_budget(plan, group, part, cost)
            if own is None:
                return None
            needed = max(needed, own * whole)
    return math.ceil(needed * (1 + 1e-9))


def _random_floor_budget(plan: Plan, group: Audience, part: Offer, cost: Floats) -> float | None:
    """A budget of a group whose codes are assigned at random that pays for its floors; None: none does."""
    of_segments = [limits.floors for limits in (part.segments or {}).values()]
    floors = np.maximum(np.asarray(part.floors or [0] * len(part.depths)), np.sum(of_segments, axis=0))
    budget = max(float((cost.mean(axis=0) * floors).sum()), 1e-6)
    for _ in range(_RAISES):
        try:
            assign_at_random(
                group.ids,
                replace(part, budget=budget, cost_factors=None),
                segment=group.segment,
                costs=cost,
                seed=plan.seed,
                campaign=plan.campaign,
            )
        except InfeasibleError:
            budget *= _RAISE
        else:
            return budget
    return None
