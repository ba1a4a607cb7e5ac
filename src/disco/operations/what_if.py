"""The planner: customers loaded once, limits solved as often as an operator likes, with the figures of `disco plan`.

An opened audience is a value: what a plan's limits rest on, as it was when it was opened. What follows from it and from
no limit (arms, drawn values, costs) is kept with it, so that new limits need a solve alone. Its memory is bounded by
`OpenAudiences`; a plan itself is always made by `disco plan`, which reads everything again.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from functools import partial
from hashlib import sha256
from threading import Lock

import numpy as np
import pyarrow as pa

from disco import allocation, objective
from disco.allocation import Status
from disco.campaign import Belief, allowed_depths
from disco.operations.arms import offer_of
from disco.operations.audience import load_audience, refuse_unknown_segments, sources_of
from disco.operations.decide import (
    Basis,
    Decided,
    Recent,
    binding_limits,
    decide_groups,
    expected,
    forecast,
    overspend_chance,
    solution_of,
)
from disco.operations.forecast import compared_until
from disco.operations.learn import belief_for, belief_hash
from disco.operations.plan_warnings import DepthExperience, experience_of
from disco.operations.season import shop_season
from disco.operations.site import Site
from disco.records.arrays import Flags, Floats, Vector
from disco.records.campaign_records import CampaignRecord
from disco.records.chunks import Report
from disco.records.decisions import Arm, Audience, Offer
from disco.records.depths import depth_label
from disco.records.errors import InfeasibleError, InputError, StateError
from disco.records.estimate import Estimate
from disco.records.money import GBP
from disco.records.plan import BudgetSection, Plan
from disco.records.plan_summary import ArmForecast, MoneyForecast, PlanFigures
from disco.records.ports import Engine
from disco.records.result import DepthKey, NotInJson, Result, TableResult
from disco.store import Transaction

# ---- what a plan could reach ----
#
# Revenue against markdown over weights, budgets or one cap, at the posterior mean.


WEIGHT_STEPS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # of the plan's revenue weight
BUDGET_STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of what is spent without a budget
_CAP_STEPS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)  # of the plan's cap
_CAP_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)  # of the customers, where the plan has no cap


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierEntry:
    """One allocation, in expected money."""

    revenue_weight: float
    """The weight w of revenue in w·revenue − markdown."""
    budget: float | None
    """The ceiling of expected markdown; null: none."""
    codes: int
    """Codes given."""
    revenue: float
    """Expected revenue of all codes."""
    markdown: float
    """What the discounts are expected to cost."""
    feasible: bool
    """False where the limits contradict each other or the budget."""
    present: bool = False
    """Whether these are the weight, the budget and the caps of the plan."""
    cap: int | None = None
    """In `by_cap`: the most codes of that depth, the reserve included; null: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Frontier(TableResult):
    """What a plan could reach: revenue against markdown. As a table: one row per point."""

    campaign: str
    """The name of the campaign."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    by_weight: tuple[FrontierEntry, ...]
    """Without a budget, markdown rising with the weight of revenue."""
    by_budget: tuple[FrontierEntry, ...]
    """At the plan's own weight, budget rising."""
    present: FrontierEntry
    """The plan as it is: its weight, budget and caps."""
    cap_depth: float | None = None
    """The depth whose cap was varied; null: none."""
    by_cap: tuple[FrontierEntry, ...] = ()
    """At the plan's own weight and budget, the cap of that depth rising."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""

    def to_arrow(self) -> pa.Table:
        paths = {"weight": self.by_weight, "budget": self.by_budget, "cap": self.by_cap}
        return pa.Table.from_pylist([{"over": over, **asdict(point)} for over, path in paths.items() for point in path])


def plan_frontier(
    site: Site,
    plan: Plan,
    *,
    revenue_weights: Sequence[float] | None = None,
    budgets: Sequence[float] | None = None,
    cap: float | None = None,
) -> Frontier:
    """The frontier of a plan's customers under its limits, with the active model. Nothing is kept.

    cap: a depth of the plan, whose cap is varied as well.
    """
    _refuse_other_depth(plan, cap)
    loaded = load_audience(site, plan)
    belief, _ = belief_for(site.store, prior=site.prior, network=loaded.network, head=loaded.head)
    season = shop_season(site, plan, belief)
    basis = Basis.of(site.store, plan, loaded.audience, belief, engine=site.engine, rules=site.rules, season=season)
    groups = basis.groups(plan)
    return frontier(
        basis.audience,
        campaign=plan.campaign,
        currency=basis.currency.code,
        belief=basis.belief,
        offer=offer_of(plan, eligible=groups.eligible, segment_sizes=groups.segment_sizes),
        revenue_weights=revenue_weights,
        budgets=budgets,
        cap_depth=cap,
        caps=None if cap is None else _caps(plan, cap, eligible=groups.eligible),
        factors=basis.past.calibrations(plan.offered)[True].factors(plan.offered),
        warnings=(*loaded.notes, *_risk_warning(plan)),
        engine=basis.engine,
    )


def _refuse_other_depth(plan: Plan, cap: float | None) -> None:
    if cap is not None and cap not in plan.offered:
        offered = ", ".join(map(depth_label, plan.offered))
        raise InputError("--cap", found=f"the depth {depth_label(cap)}", expected=f"a depth of the plan: {offered}")


def refuse_without_evidence(belief: Belief) -> None:
    """StateError where nothing was learned: nobody knows what a depth brings."""
    if not belief.basket.campaigns:
        raise StateError(
            "frontier",
            found="a belief without evidence",
            expected="at least one campaign learned",
            fix="Launch a random campaign and `disco learn` it: before that, nobody knows what a depth brings.",
        )


def frontier(
    audience: Audience,
    *,
    campaign: str,
    currency: str = GBP.code,
    belief: Belief,
    offer: Offer,
    revenue_weights: Sequence[float] | None = None,
    budgets: Sequence[float] | None = None,
    cap_depth: float | None = None,
    caps: Mapping[int | None, int | None] | None = None,
    factors: Vector | None = None,
    warnings: tuple[str, ...] = (),
    engine: Engine | None = None,
) -> Frontier:
    """Exact allocations of everybody under the offer's caps and floors, at expected baskets: no draws, no groups.

    Without grids: from a quarter to four times the offer's weight, and from a tenth to all of what the offer's weight
    would spend without a budget (and the offer's own budget, where it has one).

    caps: for `cap_depth`, what an operator would write (the reserve included) and what that leaves for the offer.
    factors (K,): what decided codes of earlier campaigns brought per unit expected; revenue and markdown contain it, as
    the forecast of a plan does, and so a budget means the same here and there. None: 1.
    """
    refuse_without_evidence(belief)
    depths = np.asarray(offer.depths, np.float64)
    full_price = belief.basket.expected_full_price(audience.context, depths, engine=engine)
    full_price *= belief.rates(audience, depths, engine=engine)
    full_price *= 1.0 if factors is None else factors
    revenue, markdown = objective.revenue(full_price, depths), objective.markdown(full_price, depths)
    weights = revenue_weights or tuple(offer.revenue_weight * step for step in WEIGHT_STEPS)
    allowed = allowed_depths(audience, belief=belief, depths=depths, engine=engine)
    path = partial(_path, audience, revenue=revenue, markdown=markdown, allowed=allowed, engine=engine)
    (present,) = path(offer, weights=(offer.revenue_weight,), budgets=(offer.budget,))
    present = replace(present, present=True)
    by_weight = path(offer, weights=weights, budgets=None)
    if budgets is None:
        (free,) = path(offer, weights=(offer.revenue_weight,), budgets=None)
        own = () if offer.budget is None else (offer.budget,)
        budgets = sorted({*(free.markdown * step for step in BUDGET_STEPS), *own})
    by_budget = path(offer, weights=(offer.revenue_weight,), budgets=budgets)
    by_cap: list[FrontierEntry] = []
    for shown, left in (caps or {}).items():
        column = offer.depths.index(cap_depth) if cap_depth is not None else 0
        other = replace(offer, caps=(*offer.caps[:column], left, *offer.caps[column + 1 :]))
        (point,) = path(other, weights=(offer.revenue_weight,), budgets=(offer.budget,))
        by_cap.append(replace(point, cap=shown, present=other.caps == offer.caps))
    return Frontier(
        campaign=campaign,
        currency=currency,
        by_weight=tuple(_marked(by_weight, offer)),
        by_budget=tuple(_marked(by_budget, offer)),
        present=present,
        cap_depth=cap_depth,
        by_cap=tuple(by_cap),
        warnings=warnings,
    )


def _risk_warning(plan: Plan) -> Iterator[str]:
    if plan.overspend_risk is not None:
        yield (
            f"The plan's overspend_risk of {plan.overspend_risk:.0%} is not applied here: every line may spend its "
            "whole budget in expectation. `disco plan` states the lower ceiling."
        )


def _caps(plan: Plan, depth: float, *, eligible: int) -> dict[int | None, int | None]:
    """Caps to try, as an operator writes them, each with what the reserve leaves of it; the plan's own among them."""
    own, now = plan.caps(eligible)[plan.offered.index(depth)], 1 - plan.reserve.share
    tried = {round(step * own) for step in _CAP_STEPS} if own else {round(share * eligible) for share in _CAP_SHARES}
    floor = plan.floors(eligible)[plan.offered.index(depth)]
    shown = sorted(cap for cap in tried | ({own} if own is not None else set()) if cap >= floor)
    found: dict[int | None, int | None] = {cap: int(cap * now + 1e-9) for cap in shown}
    return found | ({None: None} if own is None else {})


def _marked(path: Sequence[FrontierEntry], offer: Offer) -> Iterator[FrontierEntry]:
    for point in path:
        own = point.revenue_weight == offer.revenue_weight and point.budget == offer.budget
        yield replace(point, present=own)


def _path(
    audience: Audience,
    offer: Offer,
    *,
    revenue: Floats,
    markdown: Floats,
    allowed: Flags | None,
    weights: Sequence[float],
    budgets: Sequence[float | None] | None,
    engine: Engine | None,
) -> tuple[FrontierEntry, ...]:
    points = allocation.frontier(
        revenue,
        markdown,
        offer.caps,
        revenue_weights=weights,
        budgets=budgets,
        depths=offer.depths,
        floors=offer.floors,
        segments=allocation.Segments.of(audience, offer),
        eligible=allowed,
        ids=audience.ids,
        engine=engine,
    )
    return tuple(
        FrontierEntry(
            revenue_weight=point.revenue_weight,
            budget=point.budget,
            codes=int(np.sum(point.allocation.counts)),
            revenue=point.revenue,
            markdown=point.markdown,
            feasible=point.allocation.status is not Status.INFEASIBLE,
        )
        for point in points
    )


# ---- an audience that stays open ----
#
# The planner: customers loaded once, limits solved as often as an operator likes, with the figures of `disco plan`.
#
# An opened audience is a value: what a plan's limits rest on, as it was when it was opened. What follows from it and
# from no limit (arms, drawn values, costs) is kept with it, so that new limits need a solve alone. Its memory is
# bounded by `OpenAudiences`; a plan itself is always made by `disco plan`, which reads everything again.


_STEPS = ("reading customers and their features", "reading what was learned", "valuing the customers")
_MEGABYTE = 1_000_000


# ---- an audience, opened ----


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenAudience:
    """The customers of a plan with everything that its limits are solved on."""

    key: str
    """Names what it depends on; see `audience_key`."""
    about: str
    """What a plan says about its customers; a plan that says something else needs another audience."""
    basis: Basis
    network: str
    """The name of the context network."""
    version: int | None
    """Of the belief; None: nothing was learned."""
    notes: tuple[str, ...]
    """What the operator should know about who was left out."""
    left_out: Mapping[str, int]
    """By key of the plan (include, exclude, contact): eligible customers who are left out for it."""
    opened_at: datetime

    def __len__(self) -> int:
        return len(self.basis.audience)

    @property
    def nbytes(self) -> int:
        """Of the customers' arrays, and of what was made from them."""
        return self.basis.audience.nbytes + self.basis.memo.nbytes

    def serves(self, plan: Plan) -> bool:
        """Whether this is the audience of a plan."""
        return self.about == about(plan)

    def experience(self, depths: tuple[float, ...]) -> dict[float, DepthExperience]:
        """How well depths are known for these customers; empty where nothing was learned."""
        basis = self.basis
        return basis.memo.get("experience", depths, lambda: experience_of(basis.belief, basis.audience, depths))


def about(plan: Plan) -> str:
    """What a plan says about its customers, as text: all that `load_audience` reads of it."""
    said = {
        "customers": json.loads(plan.customers.model_dump_json(by_alias=True)),
        "lists": plan.lists,
        "segments": None if plan.segments is None else plan.segments.column,
        "channel": plan.channel_column,
    }
    if plan.contact is not None:  # codes of the campaign itself are not counted, and the days end with its first
        rule = (plan.contact.at_most, plan.contact.days)
        said["contact"] = [*rule, plan.campaign, str(plan.valid.start)]
    if plan.customer_limit is not None:
        limit = (plan.customer_limit.markdown, plan.customer_limit.days)
        said["customer_limit"] = [*limit, plan.campaign, str(plan.valid.start)]
    return json.dumps(said, sort_keys=True)


def audience_key(site: Site, plan: Plan) -> str:
    """Names what an opened audience depends on: equal keys have equal figures.

    It reads files to hash them, so it is asked when an audience is opened and not for every limit. Tables in a database
    have no hash before they are read; there the key says nothing about them, and an operator opens the audience again.
    """
    with site.store.reading() as transaction:
        version, until = transaction.beliefs.version(), compared_until(transaction, plan.customers.as_of, site.rules)
        campaigns = [
            [record.campaign, record.plan_id, str(record.recalled_at), _batches(transaction, record, until)]
            for record in transaction.plans.campaigns()
        ]
    depends_on = {
        "about": about(plan),
        "sources": sources_of(site.data, plan),
        "network": site.data.network_hash(),
        "belief": [belief_hash(site.prior), None if version is None else version.number],
        "campaigns": campaigns,
        "locale": site.store.locale.fingerprint(),
        "rules": repr(site.rules),
    }
    return sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()[:32]


def _batches(transaction: Transaction, record: CampaignRecord, until: date) -> list[tuple[str, str]] | None:
    """The outcomes of a campaign that was over by that day: forecasts are compared with them."""
    if record.matures_on > until:
        return None
    return [(batch.batch_id, str(batch.reverted_at)) for batch in transaction.ledger.batches(record.campaign)]


def _open_audience(site: Site, plan: Plan, key: str, *, report: Report | None) -> OpenAudience:
    """Load a plan's customers and value them with the active model, so that its limits can be solved at once.

    key: their `audience_key`.
    """
    tell = report or (lambda done, total, stage: None)
    tell(0, len(_STEPS), _STEPS[0])
    loaded = load_audience(site, plan)
    tell(1, len(_STEPS), _STEPS[1])
    belief, version = belief_for(site.store, prior=site.prior, network=loaded.network, head=loaded.head)
    opened = OpenAudience(
        key=key,
        about=about(plan),
        basis=Basis.of(
            site.store,
            plan,
            loaded.audience,
            belief,
            engine=site.engine,
            stays_open=True,
            rules=site.rules,
            season=shop_season(site, plan, belief),
        ),
        network=loaded.network,
        version=version,
        notes=loaded.notes,
        left_out=loaded.left_out,
        opened_at=site.clock.now(),
    )
    tell(2, len(_STEPS), _STEPS[2])
    with suppress(InfeasibleError):  # the operator sees it when they ask for it
        solve(opened, plan)
    tell(len(_STEPS), len(_STEPS), _STEPS[2])
    return opened


class OpenAudiences:
    """Opened audiences, those used last, within so many megabytes. Threads may share it.

    An audience is counted with what was made from it, which grows while limits are tried; so the bound is restored
    after every use (`settle`). One audience is loaded once, even where two operators ask for it at the same time.
    """

    def __init__(self, most_megabytes: int) -> None:
        self._most_bytes, self._lock = most_megabytes * _MEGABYTE, Lock()
        self._opened = Recent[str, OpenAudience]()

    def find(self, key: str) -> OpenAudience | None:
        """An audience that is open."""
        return self._opened.find(key)

    def of(self, site: Site, plan: Plan, *, report: Report | None = None) -> OpenAudience:
        """The audience of a plan as the shop is now, loaded where it is not open."""
        key = audience_key(site, plan)
        return self.open(key, lambda: _open_audience(site, plan, key, report=report))

    def open(self, key: str, load: Callable[[], OpenAudience]) -> OpenAudience:
        """The audience of a key, loaded where it is not open.

        StateError where it does not fit into the megabytes even alone.
        """
        opened = self._opened.made(key, lambda: self._not_too_large(load()))
        self.settle()
        return opened

    def _not_too_large(self, opened: OpenAudience) -> OpenAudience:
        needed = opened.basis.audience.nbytes
        if needed > self._most_bytes:
            raise StateError(
                f"The {len(opened):,} customers need {_megabytes(needed)} MB, and the planner may keep "
                f"{_megabytes(self._most_bytes)} MB",
                fix="Raise service.planner_megabytes in disco.yaml, or plan fewer customers.",
            )
        return opened

    def settle(self) -> None:
        """Close the audiences that were not used for longest, until the others are within the bound.

        The last one stays open. Where it is beyond the bound by itself, what was made from it is dropped, and made
        again when it is needed.
        """
        with self._lock:
            while len(self._opened) > 1 and self._total() > self._most_bytes:
                self._opened.drop_oldest()
            if self._total() > self._most_bytes:
                for last in self._opened.values():
                    last.basis.memo.clear()

    def close(self, key: str) -> None:
        """Forget an audience; nothing where it is not open."""
        self._opened.drop(key)

    @property
    def megabytes(self) -> float:
        """What the opened audiences take."""
        return self._total() / _MEGABYTE

    def __len__(self) -> int:
        return len(self._opened)

    def _total(self) -> int:
        return sum(one.nbytes for one in self._opened.values())


def _megabytes(count: int) -> str:
    return f"{-(-count // _MEGABYTE):,}"


# ---- limits, solved ----


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SolvedLimits(PlanFigures):
    """What limits lead to: the figures that `disco plan` would state for them, money without intervals. Nothing is
    kept."""

    objective: Estimate | None
    """w·revenue − markdown of all codes, without an interval."""
    segment_prices: Mapping[str, Mapping[DepthKey, float]] | None
    """By segment, on top of `prices`: what one more code of a depth in it is worth; null without segments."""
    experience: Mapping[DepthKey, DepthExperience]
    """How well each depth is known; empty where nothing was learned yet."""
    seconds: float
    """How long the solve took."""
    decided: NotInJson[Decided]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsCost:
    """What control and holdout cost: what the codes would bring and cost without these groups, less what they do."""

    revenue: float
    """Expected revenue that is given up."""
    markdown: float
    """Expected markdown that is saved."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SolvedMoney(Result):
    """The money of solved limits with its intervals."""

    arms: Mapping[Arm, ArmForecast]
    """By group: decided, control, holdout."""
    total: MoneyForecast | None
    """What all codes together are expected to bring; null before any purchase was learned."""
    objective: Estimate | None
    """w·revenue − markdown of all codes."""
    overspend_chance: float | None
    """The chance that the codes cost more than the budget (without the reserve); null without a budget or forecast."""
    groups_cost: GroupsCost | None
    """What control and holdout cost; null without these groups or a forecast."""
    seconds: float
    """How long it took."""


def solve(opened: OpenAudience, plan: Plan) -> SolvedLimits:
    """What `disco plan` would decide under the limits of this plan. Prices of the limits solved before speed it up.

    InfeasibleError where the limits contradict each other, with the sentences of `disco plan`.
    """
    start = time.perf_counter()
    basis = _basis(opened, plan)
    prices_of = basis.memo.get("prices", (plan.offered, plan.objective.revenue_weight), _Prices)
    decided = decide_groups(basis, plan, warm_prices=prices_of.last)
    if decided.decisions is not None and decided.decisions.budget_price == 0.0:
        prices_of.last = decided.decisions.prices  # a solve begins without a budget, so others would mislead it
    found, solution = expected(basis, plan, decided), solution_of(basis, plan, decided)
    weight, depths = plan.objective.revenue_weight, np.asarray(plan.offered)
    return SolvedLimits(
        **solution.figures(budget=plan.budget_amount, revenue_weight=weight),
        campaign=plan.campaign,
        customers=len(opened),
        currency=basis.currency.code,
        version=opened.version,
        arms=found.arms,
        total=None if found.total is None else found.total.money(depths),
        objective=None if found.total is None else found.total.objective(depths, revenue_weight=weight),
        segment_prices=solution.segment_revenue_prices(weight),
        binding=binding_limits(basis, decided),
        experience=opened.experience(plan.offered),
        seconds=time.perf_counter() - start,
        decided=decided,
    )


class _Prices:
    """Prices of the limits solved last, under one weight; they change the time of the next solve and nothing else."""

    last: Vector | None = None


def intervals(opened: OpenAudience, plan: Plan, solved: SolvedLimits) -> SolvedMoney:
    """The money of solved limits with the intervals that `disco plan` states.

    plan: the one that was solved.
    """
    start = time.perf_counter()
    basis, weight, depths = _basis(opened, plan), plan.objective.revenue_weight, np.asarray(plan.offered)
    found = forecast(basis, plan, solved.decided)
    return SolvedMoney(
        arms=found.arms,
        total=None if found.total is None else found.total.money(depths),
        objective=None if found.total is None else found.total.objective(depths, revenue_weight=weight),
        overspend_chance=overspend_chance(plan, solved.decided, found.total),
        groups_cost=_groups_cost(basis, plan, solved),
        seconds=time.perf_counter() - start,
    )


def _groups_cost(basis: Basis, plan: Plan, solved: SolvedLimits) -> GroupsCost | None:
    """Solve the plan without groups under the same ceiling of expected markdown, so that money is like for like."""
    if solved.total is None or not plan.control.share + plan.holdout.share:
        return None
    nobody = {"share": 0.0}
    alone = plan.model_copy(
        update={
            "control": plan.control.model_copy(update=nobody),
            "holdout": plan.holdout.model_copy(update=nobody),
            "budget": solved.ceiling,
        }
    )
    try:
        total = expected(basis, alone, decide_groups(basis, alone)).total
    except InfeasibleError:
        return None  # floors that only just fit may be rounded otherwise for one group
    if total is None:
        return None
    without = total.money(np.asarray(plan.offered))
    return GroupsCost(
        revenue=without.revenue.value - solved.total.revenue.value,
        markdown=without.markdown.value - solved.total.markdown.value,
    )


# ---- what other weights and budgets lead to ----

_ALIKE = 0.01  # points whose revenue and markdown differ by less are one choice


def reachable(opened: OpenAudience, plan: Plan) -> Frontier:
    """What a plan would lead to with other weights of revenue and other budgets: every point is a `solve`.

    Unlike `plan_frontier`, it has the plan's own groups, policy and risk, so a point that is adopted has exactly these
    figures in the planner. Budgets have three digits, as an operator would type them. Points that are like their
    neighbour are left out. InfeasibleError where the limits contradict each other without any budget.
    """
    refuse_without_evidence(opened.basis.belief)
    weight, own = plan.objective.revenue_weight, plan.budget_amount
    free = _entry(solve(opened, adopted(plan, weight=weight, budget=None)), weight, None)
    by_weight = [free if step == 1.0 else _point(opened, plan, weight * step, None) for step in WEIGHT_STEPS]
    budgets = {float(f"{free.markdown * step:.3g}") for step in BUDGET_STEPS if step < 1.0}  # all of it is `free`
    by_budget = [
        _point(opened, plan, weight, budget) for budget in sorted(budgets | ({own} if own is not None else set()))
    ]
    present = next(point for point in (*by_weight, *by_budget) if (point.revenue_weight, point.budget) == (weight, own))
    present = replace(present, present=True)
    marked = [
        [present if (one.revenue_weight, one.budget) == (weight, own) else one for one in path]
        for path in (by_weight, by_budget)
    ]
    return Frontier(
        campaign=plan.campaign,
        currency=opened.basis.currency.code,
        by_weight=_without_alike(marked[0]),
        by_budget=_without_alike(marked[1]),
        present=present,
        warnings=opened.notes,
    )


def adopted(plan: Plan, *, weight: float, budget: float | None) -> Plan:
    """A plan with another weight and budget. A bound on overspending stays with a budget, and goes with it."""
    amount: BudgetSection | float | None = budget
    if budget is not None and isinstance(plan.budget, BudgetSection):
        amount = plan.budget.model_copy(update={"amount": budget})
    objective = plan.objective.model_copy(update={"revenue_weight": weight})
    return plan.model_copy(update={"objective": objective, "budget": amount})


def _point(opened: OpenAudience, plan: Plan, weight: float, budget: float | None) -> FrontierEntry:
    try:
        return _entry(solve(opened, adopted(plan, weight=weight, budget=budget)), weight, budget)
    except InfeasibleError:
        return FrontierEntry(revenue_weight=weight, budget=budget, codes=0, revenue=0.0, markdown=0.0, feasible=False)


def _entry(solved: SolvedLimits, weight: float, budget: float | None) -> FrontierEntry:
    total = solved.total
    return FrontierEntry(
        revenue_weight=weight,
        budget=budget,
        codes=sum(sum(one.codes.values()) for one in solved.arms.values()),
        revenue=0.0 if total is None else total.revenue.value,
        markdown=0.0 if total is None else total.markdown.value,
        feasible=True,
    )


def _without_alike(path: Iterable[FrontierEntry]) -> tuple[FrontierEntry, ...]:
    """The points of a path that differ from the one before; the plan as it is stays."""
    kept: list[FrontierEntry] = []
    for point in path:
        if kept and _alike(kept[-1], point):
            if not point.present:
                continue
            kept.pop()
        kept.append(point)
    return tuple(kept)


def _alike(one: FrontierEntry, other: FrontierEntry) -> bool:
    if not (one.feasible and other.feasible):
        return False
    pairs = ((one.revenue, other.revenue), (one.markdown, other.markdown))
    return all(abs(before - after) <= _ALIKE * max(abs(before), abs(after)) for before, after in pairs)


def _basis(opened: OpenAudience, plan: Plan) -> Basis:
    """What the plan is solved on, unless it is about other customers."""
    if not opened.serves(plan):
        raise InputError(
            "plan",
            found="another table, condition, day, list, segment or channel of customers than was opened",
            expected="a plan about the customers who were opened",
            fix="Open the customers again.",
        )
    refuse_unknown_segments(plan, opened.basis.groups(plan).segment_sizes)
    return opened.basis
