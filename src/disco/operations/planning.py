"""From a plan and its customers to decisions: split the arms, decide each by its rule, say what to expect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from disco.campaign import Belief, decide, expected_costs
from disco.operations.arms import (
    assign_at_random,
    offer_and_arms,
    reserve_of,
    segment_reserve,
    share_offers,
)
from disco.operations.audience import FeatureCache, ShopData, label_inputs, load_audience, sources_of
from disco.operations.backtests import calibrations
from disco.operations.codes import read_pool
from disco.operations.contacts import contact_inputs, contacted
from disco.operations.exporting import refuse_export
from disco.operations.forecast import Totals, draw_totals
from disco.operations.overspending import chance_above, first_share, largest_share
from disco.operations.plan_conflicts import explain_conflict
from disco.operations.plan_warnings import (
    audience_warnings,
    hour_warnings,
    key_warnings,
    launched_before,
    pool_warnings,
    shared_elsewhere,
)
from disco.operations.planned import (
    ARMS,
    Planned,
    decision_table,
    inputs_of_belief,
    inputs_of_locale,
    inputs_of_program,
    keep,
    plan_id,
)
from disco.operations.versions import belief_for
from disco.policy import policy_of
from disco.records.arrays import Flags, Floats, Integers, Matrix, Vector
from disco.records.content import content_hash
from disco.records.currency import GBP, Currency
from disco.records.decisions import Arm, Audience, Decisions, Offer
from disco.records.depths import depth_percent
from disco.records.errors import InfeasibleError
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast, Calibration, MoneyForecast, SegmentSolution, Solution
from disco.records.ports import Clock, Engine, Store
from disco.records.result import DepthKey, NotInJson, TableResult
from disco.records.wording import money


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanResult(TableResult):
    """A decided plan: who would get what, what that is expected to bring, and what each limit costs.

    As a table: one row per customer.
    """

    plan_id: str
    """The hash of everything the decisions rest on; `disco launch` takes it."""
    campaign: str
    """The name of the campaign."""
    customers: int
    """Customers who were decided about."""
    left_out: Mapping[str, int]
    """Eligible customers who were not, by the key of the plan that leaves them out: include, exclude, contact."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    version: int | None
    """The version of the model that decided; null where nothing was learned yet."""
    network: str
    """The hash of the context network."""
    arms: Mapping[Arm, ArmForecast]
    """By group: decided, control, holdout."""
    total: MoneyForecast | None
    """What all codes together are expected to bring; null before any purchase was learned."""
    ceiling: float | None
    """The expected markdown that all codes may reach, the reserve included; below the budget where `overspend_risk`
    asks for it; null without a budget."""
    overspend_chance: float | None
    """The chance that the codes cost more than the budget (without the reserve); null without a budget or forecast."""
    prices: Mapping[DepthKey, float] | None
    """What one more code of a depth is worth, in revenue; null where depths were assigned at random."""
    budget_price: float
    """What one more unit of budget is worth, in revenue; 0 without a budget or where it does not bind."""
    status: str
    """How the solve ended."""
    value: float
    """The objective w·revenue − markdown of the decided group, at the policy's figures."""
    bound: float
    """No allocation under these limits is worth more."""
    gap: float
    """(bound − value) relative to the bound; 0 is proved optimal."""
    reserve: Mapping[DepthKey, int | None]
    """Codes per depth kept back for late arrivals; null: no limit."""
    binding: tuple[str, ...]
    """The limits that cost something, in words."""
    warnings: tuple[str, ...]
    """What to know before a launch."""
    inputs: Mapping[str, str]
    """Name → hash of everything the decisions rest on; a launch compares them."""
    planned_at: datetime
    """When it was decided."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""
    planned: NotInJson[Planned]

    @classmethod
    def of(cls, planned: Planned, *, dry_run: bool) -> "PlanResult":
        """Prices are in revenue, so divided by its weight."""
        solution, weight = planned.solution, planned.plan.objective.revenue_weight
        prices = None
        if solution.prices is not None:
            prices = {depth: price / weight for depth, price in zip(solution.depths, solution.prices, strict=True)}
        return cls(
            plan_id=planned.plan_id,
            campaign=planned.plan.campaign,
            customers=planned.decisions.num_rows,
            left_out=planned.left_out or {},
            currency=planned.currency,
            version=planned.version,
            network=planned.network,
            arms=planned.arms,
            total=planned.total,
            ceiling=None if planned.plan.budget_amount is None else planned.plan.budget_amount * solution.budget_share,
            overspend_chance=planned.overspend_chance,
            prices=prices,
            budget_price=solution.budget_price / solution.budget_factor / weight,
            status=solution.status,
            value=solution.value,
            bound=solution.bound,
            gap=solution.gap,
            reserve=dict(zip(solution.depths, solution.reserve, strict=True)),
            binding=planned.binding,
            warnings=planned.warnings,
            inputs=planned.inputs,
            planned_at=planned.planned_at,
            dry_run=dry_run,
            planned=planned,
        )

    def to_arrow(self) -> pa.Table:
        """customer_id, arm, depth (null: no code), value, known, expected_full_price, expected_engagement."""
        return self.planned.decisions


def make_plan(
    store: Store,
    data: ShopData,
    plan: Plan,
    *,
    prior: Belief,
    clock: Clock,
    cache: FeatureCache,
    engine: Engine | None = None,
    dry_run: bool = False,
) -> PlanResult:
    """Load the plan's customers, decide every one of them with the active model, and keep the plan.

    A dry run does the same and keeps nothing.
    """
    refuse_export(data, plan)
    pool = read_pool(data, plan)
    loaded = load_audience(data, plan, cache=cache, engine=engine, contacted=contacted(store, data, plan))
    belief, version = belief_for(store, prior=prior, network=loaded.network, head=loaded.head)
    planned = plan_campaign(
        store,
        plan,
        loaded.audience,
        belief=belief,
        version=version,
        network=loaded.network,
        inputs=loaded.inputs,
        clock=clock,
        features=loaded.features,
        notes=loaded.notes,
        sources=sources_of(data, plan),
        left_out=loaded.left_out,
        engine=engine,
    )
    more = (
        *hour_warnings(plan, store.locale),
        *pool_warnings(store, planned, pool),
        *shared_elsewhere(store, planned),
    )
    planned = replace(planned, warnings=(*planned.warnings, *more))
    if not dry_run:
        keep(store, planned)
    return PlanResult.of(planned, dry_run=dry_run)


def plan_campaign(
    store: Store,
    plan: Plan,
    audience: Audience,
    *,
    belief: Belief,
    version: int | None,
    network: str,
    inputs: Mapping[str, str],
    clock: Clock,
    features: pa.Table | None = None,
    notes: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    left_out: Mapping[str, int] | None = None,
    engine: Engine | None = None,
) -> Planned:
    """Decide every customer of the audience. Writes nothing.

    inputs: hashes of what the audience was made of, by name; those of belief, limits and program are added. notes:
    shown among the warnings. sources: hashes of the files the inputs come from; equal ones spare a rebuild at launch.
    left_out: by key of the plan, eligible customers who are not in the audience.
    """
    sizes_by_label = audience.segment_sizes()
    offer, arms = offer_and_arms(plan, audience.ids, segment=audience.segment)
    members = [audience.take(arms[arm]) for arm in (Arm.DECIDED, Arm.CONTROL)]
    sizes = [len(one) for one in members]
    by_label = [one.segment_sizes() for one in members]
    past = calibrations(
        store,
        plan.offered,
        learned=belief.basket.campaigns,
        as_of=plan.customers.as_of,
        personal=belief.head is not None,
    )
    factors = [past[by_policy].factors(plan.offered) for by_policy in (not plan.policy.assigns_at_random, False)]
    shared = share_offers(offer, sizes, segment_sizes=by_label)
    depths = np.asarray(plan.offered)

    def offers(share: float) -> list[Offer]:
        return [
            part
            if part.budget is None
            else replace(part, budget=part.budget * share, cost_factors=tuple(factor.tolist()))
            for part, factor in zip(shared, factors, strict=True)
        ]

    def attempt(share: float) -> _Attempt:
        parts = offers(share)
        made = _decided(plan, audience, arms, parts, belief=belief, currency=store.locale.currency, engine=engine)
        forecasts, total = _forecasts(belief, audience, arms, made, plan, past)
        return _Attempt(parts=parts, made=made, forecasts=forecasts, total=total)

    try:
        found = attempt(1.0)
    except InfeasibleError:  # its figures are those of one group
        parts = offers(1.0)
        costs = [own_costs(belief, one, part, engine=engine) for one, part in zip(members, parts, strict=True)]
        outside = audience.take(~arms[Arm.HOLDOUT])
        explain_conflict(plan, offer, outside, members, parts, costs, currency=store.locale.currency)
        raise
    found, share = _within_risk(plan, offer, found, attempt, currency=store.locale.currency)
    made, parts, total = found.made, found.parts, found.total
    chance = None
    if total is not None and offer.budget is not None:
        chance = chance_above(total.drawn @ depths, offer.budget)
    inputs = {
        "customers": content_hash(pa.table({"customer_id": audience.ids})),
        **label_inputs(audience),
        **inputs,
        **inputs_of_belief(belief),
        **inputs_of_locale(store.locale),
        **inputs_of_program(plan, customers=len(audience), segment_sizes=sizes_by_label),
        **_contacts(store, plan, audience),
    }
    decided = made.decided
    return Planned(
        plan=plan,
        inputs=inputs,
        decisions=decision_table(
            audience,
            arms=arms,
            depths=plan.offered,
            choice=made.choice,
            value=made.value,
            expected_full_price=made.expected_full_price,
            engagement=made.engagement,
            belief=belief,
        ),
        contexts=audience.context,
        network=network,
        version=version,
        solution=_solution(
            plan,
            offer,
            belief,
            decided,
            eligible=len(audience),
            segment_sizes=sizes_by_label,
            cost_factors=parts[0].cost_factors,
            share=share,
        ),
        arms=found.forecasts,
        total=None if total is None else total.money(depths),
        binding=_binding(decided, parts[0], share=share, currency=store.locale.currency),
        warnings=(
            *notes,
            *launched_before(store, plan, plan_id(plan, inputs)),
            *key_warnings(plan),
            *audience_warnings(
                belief,
                audience,
                np.asarray(plan.offered),
                needs_belief=not plan.policy.assigns_at_random,
                has_budget=plan.budget_amount is not None,
                last_contexts=_last_contexts(store, plan.campaign, network),
            ),
        ),
        features=features,
        planned_at=clock.now(),
        sources=sources or {},
        overspend_chance=chance,
        left_out=left_out or None,
    )


def _contacts(store: Store, plan: Plan, audience: Audience) -> dict[str, str]:
    with store.reading() as transaction:
        return contact_inputs(transaction, plan, pa.array(audience.ids).cast(pa.string()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Made:
    """What was decided about every customer of a plan, in the audience's order."""

    choice: Integers
    value: Vector
    expected_full_price: Vector
    engagement: Vector  # each customer's own chance to buy at the depth they get
    decided: Decisions | None  # of the decided arm; None: assigned at random


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Attempt:
    """What was decided under one share of the budget, and what it is expected to bring."""

    parts: list[Offer]  # of the decided group and of control
    made: _Made
    forecasts: dict[Arm, ArmForecast]
    total: Totals | None  # of all codes


def _within_risk(
    plan: Plan, offer: Offer, whole: _Attempt, attempt: Callable[[float], _Attempt], *, currency: Currency
) -> tuple[_Attempt, float]:
    """The decisions under the largest share of the budget that keeps the plan's `overspend_risk`, and that share."""
    depths, risk, budget = np.asarray(plan.offered), plan.overspend_risk, offer.budget
    if risk is None or budget is None or whole.total is None:
        return whole, 1.0
    if chance_above(whole.total.drawn @ depths, budget) <= risk:
        return whole, 1.0

    def tried(share: float) -> tuple[_Attempt, float] | None:
        try:
            made = attempt(share)
        except InfeasibleError:
            return None
        return made, 0.0 if made.total is None else chance_above(made.total.drawn @ depths, budget)

    found = largest_share(tried, risk=risk, first=first_share(whole.total.drawn @ depths, risk=risk))
    if found.attempt is None:
        most = money(plan.budget_amount or 0.0, full=True, currency=currency)
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits contradict each other",
            conflicts=[
                f"The floors (at_least) cost so much that the budget of {most} "
                f"is exceeded with a chance of {found.least_chance:.0%}; overspend_risk allows {risk:.0%}"
            ],
            fix="Lower at_least, raise the budget, or allow a larger overspend_risk.",
        )
    return found.attempt, found.share


def _decided(
    plan: Plan,
    audience: Audience,
    arms: Mapping[Arm, Flags],
    parts: Sequence[Offer],
    *,
    belief: Belief,
    currency: Currency,
    engine: Engine | None,
) -> _Made:
    """Each arm by its rule, within its own part of the limits."""
    choice, value = np.full(len(audience), -1, np.int64), np.zeros(len(audience))
    expected, engagement = np.full(len(audience), np.nan), np.full(len(audience), np.nan)
    decided = None
    for arm, part in zip((Arm.DECIDED, Arm.CONTROL), parts, strict=True):
        rows = np.flatnonzero(arms[arm])
        if not rows.size:
            continue
        members = audience.take(rows)
        if arm is Arm.DECIDED and not plan.policy.assigns_at_random:
            decided = decide(
                members,
                belief=belief,
                offer=part,
                policy=policy_of(plan),
                campaign=plan.campaign,
                seed=plan.seed,
                engine=engine,
            )
            choice[rows], value[rows], expected[rows] = decided.choice, decided.value, decided.expected_full_price
            engagement[rows] = decided.engagement
        else:
            choice[rows] = assign_at_random(
                members.ids,
                part,
                segment=members.segment,
                costs=own_costs(belief, members, part, engine=engine),
                seed=plan.seed,
                campaign=plan.campaign,
                currency=currency,
            )
            if belief.basket.campaigns:
                expected[rows] = belief.basket.expected_at_choice(
                    members.context, np.asarray(plan.offered), choice[rows], engine=engine
                )
                engagement[rows] = belief.rates_at_choice(
                    members, np.asarray(plan.offered), choice[rows], engine=engine
                )
    return _Made(choice=choice, value=value, expected_full_price=expected, engagement=engagement, decided=decided)


def own_costs(belief: Belief, audience: Audience, offer: Offer, *, engine: Engine | None = None) -> Floats | None:
    """(n, K) markdown of each customer's code at each depth as a budget counts it; only a budget needs it."""
    if offer.budget is None:
        return None
    return expected_costs(audience, belief=belief, offer=offer, engine=engine)


def _forecasts(
    belief: Belief,
    audience: Audience,
    arms: dict[Arm, Flags],
    made: "_Made",
    plan: Plan,
    past: Mapping[bool, Calibration],
) -> tuple[dict[Arm, ArmForecast], Totals | None]:
    """By arm, and of all codes together."""
    depths, choice = np.asarray(plan.offered), made.choice
    found: dict[Arm, ArmForecast] = {}
    total: Totals | None = None
    for arm in ARMS:
        rows = arms[arm]
        if not rows.any():
            continue
        counts = np.bincount(choice[rows & (choice >= 0)], minlength=depths.size)
        money = correction = None
        if belief.basket.campaigns and counts.any():
            correction = past[arm is Arm.DECIDED and not plan.policy.assigns_at_random]
            own = draw_totals(
                belief,
                audience.take(rows),
                choice[rows],
                depths,
                full_price=made.expected_full_price[rows],
                engagement=made.engagement[rows],
                correction=correction,
                arm=arm,
                seed=plan.seed,
                campaign=plan.campaign,
            )
            total, money = own if total is None else total + own, own.money(depths)
        codes = dict(zip(plan.offered, counts.tolist(), strict=True))
        found[arm] = ArmForecast(customers=int(rows.sum()), codes=codes, money=money, correction=correction)
    return found, total


def _solution(
    plan: Plan,
    offer: Offer,
    belief: Belief,
    decided: Decisions | None,
    *,
    eligible: int,
    segment_sizes: Mapping[str, int],
    cost_factors: tuple[float, ...] | None,
    share: float,
) -> Solution:
    reserve, reserve_budget = reserve_of(plan, offer, eligible=eligible)
    of_segments = segment_reserve(plan, offer, segment_sizes=segment_sizes)
    free = (0.0,) * len(offer.depths)
    prices = {} if decided is None else decided.segment_prices or {}
    return Solution(
        depths=offer.depths,
        prices=None if decided is None else tuple(decided.prices.tolist()),
        budget_price=0.0 if decided is None else decided.budget_price,
        engagement=tuple(belief.engagement.rates(np.asarray(offer.depths)).tolist()),
        status="assigned at random" if decided is None else str(decided.status),
        value=0.0 if decided is None else float(decided.value.sum()),
        bound=0.0 if decided is None else decided.bound,
        gap=0.0 if decided is None else decided.gap,
        policy=plan.policy.name if decided is None else decided.policy,
        reserve=reserve,
        reserve_budget=reserve_budget,
        segments=None
        if of_segments is None
        else {
            label: SegmentSolution(prices=None if decided is None else prices.get(label, free), reserve=codes)
            for label, codes in of_segments.items()
        },
        budget_factor=1 / share,
        budget_share=share,
        cost_factors=None if cost_factors is None or set(cost_factors) == {1.0} else cost_factors,
        spread_by_depth=bool(belief.basket.depth_spread.depths.size),
        head=None if belief.head is None else {name: tuple(part) for name, part in belief.head.to_json().items()},
    )


def _binding(decided: Decisions | None, offer: Offer, *, share: float, currency: Currency) -> tuple[str, ...]:
    """Limits of the decided group whose price is not 0, with what one more is worth in revenue."""
    if decided is None:
        return ()
    words = []
    for depth, price in zip(offer.depths, (decided.prices / offer.revenue_weight).tolist(), strict=True):
        worth = money(abs(price), currency=currency)
        if price > 0:
            words.append(f"one more code of {depth_percent(depth)} would bring about {worth} of revenue")
        elif price < 0:
            words.append(f"the floor of {depth_percent(depth)} costs about {worth} of revenue per code")
    for label, prices in (decided.segment_prices or {}).items():
        for depth, price in zip(offer.depths, prices, strict=True):
            worth = money(abs(price) / offer.revenue_weight, currency=currency)
            if price > 0:
                words.append(f"one more code of {depth_percent(depth)} in {label} would bring about {worth} of revenue")
            elif price < 0:
                words.append(f"the floor of {depth_percent(depth)} in {label} costs about {worth} of revenue per code")
    if decided.budget_price > 0:
        unit = decided.budget_price * share / offer.revenue_weight
        words.append(f"one more unit of budget would bring about {money(unit, currency=currency)} of revenue")
    return tuple(words)


def _last_contexts(store: Store, campaign: str, network: str) -> Matrix | None:
    """Contexts of the known customers of the last other campaign under the same network."""
    with store.reading() as transaction:
        earlier = [
            record
            for record in transaction.plans.campaigns()
            if record.campaign != campaign and record.network == network
        ]
        if not earlier:
            return None
        last = max(earlier, key=lambda record: record.launched_at).campaign
        known = np.asarray(transaction.decisions.of(last)["known"].to_numpy(), np.bool_)
        return transaction.contexts.of(last, network, np.flatnonzero(known))
