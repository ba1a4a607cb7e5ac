"""A plan becomes a campaign: decisions, codes, contexts and reserve in one transaction, or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from disco.campaign import Belief
from disco.operations.artefacts import load
from disco.operations.audience import FeatureCache, ShopData, load_audience
from disco.operations.campaign_evidence import CampaignEvidence
from disco.operations.codes import codes_for
from disco.operations.decision_table import coded_rows, with_codes
from disco.operations.planned import Planned
from disco.operations.transaction import transaction
from disco.operations.versions import active_belief, belief_hash
from disco.records.errors import StateError
from disco.records.life import CampaignRecord, State
from disco.records.plan import Plan
from disco.records.ports import Clock, Engine, Shelves, Store
from disco.records.result import NotInJson, TableResult


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Launched(TableResult):
    """A launched campaign. As a table: the decisions with their codes, one row per customer."""

    campaign: str
    """The name of the campaign."""
    plan_id: str
    """The id of its plan."""
    customers: int
    """Customers who were decided about."""
    codes: int
    """Customers who get a code."""
    again: bool
    """Whether it had been launched from this plan before, so that nothing was written now."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""
    plan: NotInJson[Plan]
    decisions: NotInJson[pa.Table]

    def to_arrow(self) -> pa.Table:
        return self.decisions


def launch_plan(
    store: Store,
    data: ShopData,
    name: str,
    *,
    prior: Belief,
    clock: Clock,
    cache: FeatureCache,
    folder: Path,
    engine: Engine | None = None,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> Launched:
    """Launch the plan with this id (or its beginning, or the only plan of the campaign of this name).

    Refused when the customers, their features, the context network or the model are no longer what the plan was
    decided on. folder: where plans are kept.
    """
    planned = load(store, plan_id_of(store, name), folder)
    with store.reading() as shelves:
        is_new = shelves.find_campaign(planned.plan.campaign) is None
    now: dict[str, str] = {}
    if is_new:
        belief, _ = active_belief(store, prior=prior)
        now = load_audience(data, planned.plan, cache=cache, engine=engine).inputs | {"belief": belief_hash(belief)}
    pool = read_pool(data, planned.plan)
    return launch(store, planned, clock=clock, inputs=now, pool=pool, secret=secret, dry_run=dry_run)


def plan_id_of(store: Store, name: str) -> str:
    """The id itself, its beginning, or the plan of a campaign: the one it was launched with, or its only one."""
    with store.reading() as shelves:
        launched, plans = shelves.find_campaign(name), shelves.plans(name)
    if launched is not None:
        return launched.plan_id
    if len(plans) > 1:
        raise StateError(
            f"campaign {name}",
            found=f"{len(plans)} plans: {', '.join(plan.plan_id for plan in plans)}",
            expected="the id of one of them",
        )
    return plans[0].plan_id if plans else name


def read_pool(data: ShopData, plan: Plan) -> list[str] | None:
    """Codes bought elsewhere, where the plan names a file of them: one per line."""
    if plan.codes.pool is None:
        return None
    return data.lines(plan.codes.pool, setting="codes.pool", holds="code")


def launch(
    store: Store,
    planned: Planned,
    *,
    clock: Clock,
    inputs: Mapping[str, str] | None = None,
    pool: Sequence[str] | None = None,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> Launched:
    """Launch a plan. The same plan again changes nothing; another plan for a launched campaign is refused.

    inputs: hashes as they are now; one that is no longer what the plan was decided on stops the launch. pool: codes
    bought elsewhere, where the plan names a pool. secret: of the codes; without one, the store's own.
    """
    plan = planned.plan
    with transaction(store, plan.campaign, dry_run=dry_run) as shelves:
        existing = shelves.find_campaign(plan.campaign)
        if existing is not None:
            if existing.plan_id != planned.plan_id:
                raise StateError(
                    f"campaign {plan.campaign}",
                    found=f"launched on {existing.launched_at:%Y-%m-%d} with plan {existing.plan_id}",
                    expected="a campaign that was not launched",
                    fix="Give the new plan another campaign name: codes that are out stay what they are.",
                )
            decisions, again = shelves.decisions(plan.campaign), True
        else:
            _refuse_changed(planned, inputs or {})
            decisions, again = _write(shelves, planned, clock=clock, pool=pool, secret=secret), False
    return Launched(
        campaign=plan.campaign,
        plan_id=planned.plan_id,
        customers=decisions.num_rows,
        codes=int(decisions.num_rows - decisions["code"].null_count),
        again=again,
        dry_run=dry_run,
        plan=plan,
        decisions=decisions,
    )


def _refuse_changed(planned: Planned, inputs: Mapping[str, str]) -> None:
    changed = sorted(name for name, content in inputs.items() if planned.inputs.get(name) != content)
    if changed:
        raise StateError(
            f"plan {planned.plan_id}",
            found=f"changed since it was decided: {', '.join(changed)}",
            expected="everything as it was",
            fix="Run `disco plan` again and launch the new plan.",
        )


def _write(
    shelves: Shelves, planned: Planned, *, clock: Clock, pool: Sequence[str] | None, secret: bytes | None
) -> pa.Table:
    plan = planned.plan
    decisions = with_codes(planned.decisions, _codes(shelves, planned, pool=pool, secret=secret))
    shelves.add_plan(planned.record())
    shelves.add_campaign(
        CampaignRecord(
            campaign=plan.campaign,
            plan_id=planned.plan_id,
            plan=plan,
            state=State.LAUNCHED,
            integer_ids=bool(pa.types.is_integer(decisions["customer_id"].type)),
            context_size=planned.contexts.shape[1],
            network=planned.network,
            version=planned.version,
            solution=planned.solution.to_json(),
            launched_at=clock.now(),
        )
    )
    first_row = shelves.add_decisions(plan.campaign, decisions)
    shelves.add_contexts(plan.campaign, planned.network, planned.contexts, first_row=first_row)
    shelves.set_reserve(plan.campaign, dict(zip(plan.offered, planned.solution.reserve, strict=True)))
    evidence = CampaignEvidence.launched(decisions, plan, context_size=planned.contexts.shape[1])
    shelves.put_evidence(plan.campaign, planned.network, evidence.to_bytes())
    return decisions


def _codes(shelves: Shelves, planned: Planned, *, pool: Sequence[str] | None, secret: bytes | None) -> pa.Array:
    """A code for each decision that has a depth."""
    coded = planned.decisions["customer_id"].take(pa.array(coded_rows(planned.decisions)))
    return codes_for(shelves, planned.plan, coded.to_pylist(), pool=pool, secret=secret)
