"""From a plan and its customers to decisions: split the arms, decide each by its rule, say what to expect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from disco.campaign import Belief
from disco.operations.arms import holdout_inputs, holdout_secret
from disco.operations.audience import ShopData, contact_inputs, contacted, label_inputs, load_audience, sources_of
from disco.operations.backtests import past_forecasts
from disco.operations.codes import read_pool
from disco.operations.contexts import FeatureCache
from disco.operations.deciding import Basis, binding_limits, decide_groups, forecast, overspend_chance, solution_of
from disco.operations.exporting import refuse_export
from disco.operations.plan_risks import plan_risks
from disco.operations.plan_warnings import (
    audience_warnings,
    hour_warnings,
    key_warnings,
    launched_before,
    pool_warnings,
    shared_elsewhere,
)
from disco.operations.planned import (
    Planned,
    decision_table,
    inputs_of_belief,
    inputs_of_locale,
    inputs_of_program,
    keep,
    plan_id,
)
from disco.operations.versions import belief_for
from disco.records.arrays import Matrix
from disco.records.content import content_hash
from disco.records.currency import GBP
from disco.records.decisions import Arm, Audience
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast, MoneyForecast
from disco.records.ports import Clock, Engine
from disco.records.progress import Report, Stages, tell
from disco.records.result import DepthKey, NotInJson, TableResult
from disco.records.table_rows import TableRows
from disco.store import Store


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
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each stage of the work took, in their order; nothing else depends on it."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""
    planned: NotInJson[Planned]

    @classmethod
    def of(cls, planned: Planned, *, dry_run: bool, seconds: Mapping[str, float] | None = None) -> "PlanResult":
        solution, weight = planned.solution, planned.plan.objective.revenue_weight
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
            ceiling=solution.ceiling(planned.plan.budget_amount),
            overspend_chance=planned.overspend_chance,
            prices=solution.revenue_prices(weight),
            budget_price=solution.revenue_budget_price(weight),
            status=solution.status,
            value=solution.value,
            bound=solution.bound,
            gap=solution.gap,
            reserve=dict(zip(solution.depths, solution.reserve, strict=True)),
            binding=planned.binding,
            warnings=(*plan_risks(planned.record()), *planned.warnings),
            inputs=planned.inputs,
            planned_at=planned.planned_at,
            seconds=seconds or {},
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
    report: Report | None = None,
) -> PlanResult:
    """Load the plan's customers, decide every one of them with the active model, and keep the plan.

    A dry run does the same and keeps nothing. report: is told how far the work is.
    """
    stages = Stages(report)
    stages(0, None, "reading customers")
    refuse_export(data, plan)
    pool = read_pool(data, plan)
    at_limit = contacted(store, data, plan)
    loaded = load_audience(data, plan, cache=cache, engine=engine, contacted=at_limit, keeps=not dry_run, report=stages)
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
        report=stages,
    )
    more = (
        *hour_warnings(plan, store.locale),
        *pool_warnings(store, planned, pool),
        *shared_elsewhere(store, planned),
    )
    planned = replace(planned, warnings=(*planned.warnings, *more))
    if not dry_run:
        stages(0, None, "keeping the plan")
        keep(store, planned)
    return PlanResult.of(planned, dry_run=dry_run, seconds=stages.seconds())


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
    features: TableRows | None = None,
    notes: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    left_out: Mapping[str, int] | None = None,
    engine: Engine | None = None,
    report: Report | None = None,
) -> Planned:
    """Decide every customer of the audience. Writes nothing.

    inputs: hashes of what the audience was made of, by name; those of belief, limits and program are added. notes:
    shown among the warnings. sources: hashes of the files the inputs come from; equal ones spare a rebuild at launch.
    left_out: by key of the plan, eligible customers who are not in the audience.
    """
    with store.reading() as transaction:
        secret = holdout_secret(transaction, plan)
    basis = Basis(
        audience=audience,
        belief=belief,
        past=past_forecasts(
            store,
            learned=belief.basket.campaigns,
            as_of=plan.customers.as_of,
            personal=belief.head is not None,
        ),
        currency=store.locale.currency,
        secret=secret,
        engine=engine,
    )
    tell(report, 0, None, "deciding")
    decided = decide_groups(basis, plan)
    tell(report, 0, None, "forecasting")
    found = forecast(basis, plan, decided)
    tell(report, 0, None, "looking for warnings")
    inputs = {
        **_audience_inputs(audience, inputs),
        **inputs,
        **inputs_of_belief(belief),
        **inputs_of_locale(store.locale),
        **inputs_of_program(plan, customers=len(audience), segment_sizes=decided.groups.segment_sizes),
        **_contacts(store, plan, audience),
        **holdout_inputs(plan, secret),
    }
    return Planned(
        plan=plan,
        inputs=inputs,
        decisions=decision_table(
            audience,
            arms=decided.groups.arms,
            depths=plan.offered,
            choice=decided.choice,
            value=decided.value,
            expected_full_price=decided.expected_full_price,
            engagement=decided.engagement,
            belief=belief,
        ),
        contexts=audience.context,
        network=network,
        version=version,
        solution=solution_of(basis, plan, decided),
        arms=found.arms,
        total=None if found.total is None else found.total.money(np.asarray(plan.offered)),
        binding=binding_limits(basis, decided),
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
        overspend_chance=overspend_chance(plan, decided, found.total),
        left_out=left_out or None,
    )


def _audience_inputs(audience: Audience, there: Mapping[str, str]) -> dict[str, str]:
    """Hashes of the customers and their labels; those that are there need no second reading of all customers."""
    labels = {"segment": audience.segment, "channel": audience.channel}
    names = ("customers", *(name for name, given in labels.items() if given is not None))
    if all(name in there for name in names):
        return {name: there[name] for name in names}
    return {"customers": content_hash(pa.table({"customer_id": audience.ids})), **label_inputs(audience)}


def _contacts(store: Store, plan: Plan, audience: Audience) -> dict[str, str]:
    with store.reading() as transaction:
        return contact_inputs(transaction, plan, pa.array(audience.ids).cast(pa.string()))


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
