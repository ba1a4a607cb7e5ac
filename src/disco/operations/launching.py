"""A plan becomes a campaign: decisions, codes, contexts and reserve in one transaction, or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from disco.operations.campaign_evidence import CampaignEvidence
from disco.operations.codes import codes_for
from disco.operations.decision_table import coded_rows, with_codes
from disco.operations.planned import Planned
from disco.operations.transaction import transaction
from disco.records.errors import StateError
from disco.records.life import CampaignRecord, State
from disco.records.plan import Plan
from disco.records.ports import Clock, Shelves, Store


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launched:
    """A launched campaign. decisions: as planned, with codes · again: it was launched before, nothing was written."""

    campaign: str
    plan_id: str
    plan: Plan
    decisions: pa.Table
    again: bool

    @property
    def codes(self) -> int:
        return int(self.decisions.num_rows - self.decisions["code"].null_count)


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
    return Launched(campaign=plan.campaign, plan_id=planned.plan_id, plan=plan, decisions=decisions, again=again)


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
