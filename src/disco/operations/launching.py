"""A plan becomes a campaign, in one transaction or not at all; and a campaign is paused, resumed and closed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from disco.campaign import Belief
from disco.operations.approvals import refuse_unapproved
from disco.operations.arms import HOLDOUT_INPUT, holdout_inputs, holdout_secret
from disco.operations.audience import ShopData, contact_inputs, contacted, load_audience, sources_of
from disco.operations.campaign_evidence import CampaignEvidence
from disco.operations.codes import codes_for, read_pool, sent_codes
from disco.operations.contexts import FeatureCache
from disco.operations.plan import (
    Planned,
    coded_rows,
    inputs_of_belief,
    inputs_of_program,
    keep_within,
    read_planned,
    segment_sizes,
    with_codes,
)
from disco.operations.plan_warnings import plan_risks
from disco.operations.proof import refuse_unproved
from disco.operations.versions import belief_hash, belief_of
from disco.operations.webhooks import tell
from disco.records.errors import StateError
from disco.records.jobs import Event
from disco.records.life import CampaignRecord, PlanRecord, State
from disco.records.locale import LOCALE_INPUT, Locale
from disco.records.people import ApprovalRule
from disco.records.plan import Plan
from disco.records.ports import Clock, Engine
from disco.records.result import NotInJson, Result, TableResult
from disco.store import Store, Transaction


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
    warnings: tuple[str, ...] = ()
    """What to know about the plan's money and groups, and about the inputs where they had to be read again."""
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
    approval: ApprovalRule,
    engine: Engine | None = None,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> Launched:
    """Launch the plan with this id (or its beginning, or the only plan of the campaign of this name).

    Refused when the customers, their features, the context network, the model, the limits or the program version are no
    longer what the plan was decided on, or when its tables are not what was planned (`proof`). Inputs whose files are
    the same bytes as when the plan was made are not read again.

    approval: what the settings ask for; ApprovalError where these or the database ask for a second person's approval of
    this plan, and there is none.
    """
    with store.reading() as transaction:
        record = transaction.plans.get(plan_id_of(transaction, name))
        is_new = transaction.plans.find_campaign(record.plan.campaign) is None
    now: Mapping[str, str] = {}
    warnings = list(plan_risks(record)) if is_new else []

    def read() -> Mapping[str, str]:
        at_limit = contacted(store, data, record.plan)
        loaded = load_audience(data, record.plan, cache=cache, engine=engine, contacted=at_limit)
        warnings.extend(loaded.notes)
        return loaded.inputs

    if is_new:
        now = inputs_now(record.summary.sources, sources_of(data, record.plan), read=read)
    launched = _launch(
        store,
        record,
        None,
        clock=clock,
        inputs=now,
        prior=prior,
        approval=approval,
        pool=read_pool(data, record.plan),
        secret=secret,
        dry_run=dry_run,
    )
    return replace(launched, warnings=tuple(warnings))


def plan_id_of(transaction: Transaction, name: str) -> str:
    """The id itself, its beginning, or the plan of a campaign: the one it was launched with, or its only one."""
    launched, plans = transaction.plans.find_campaign(name), transaction.plans.of(name)
    if launched is not None:
        return launched.plan_id
    if len(plans) > 1:
        raise StateError(
            f"campaign {name}",
            found=f"{len(plans)} plans: {', '.join(plan.plan_id for plan in plans)}",
            expected="the id of one of them",
        )
    return plans[0].plan_id if plans else name


def launch(
    store: Store,
    planned: Planned,
    *,
    clock: Clock,
    inputs: Mapping[str, str] | None = None,
    prior: Belief | None = None,
    approval: ApprovalRule = ApprovalRule.NONE,
    pool: Sequence[str] | None = None,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> Launched:
    """Launch a plan. The same plan again changes nothing; another plan for a launched campaign is refused.

    inputs: hashes as they are now; one that is no longer what the plan was decided on stops the launch. prior: of the
    shop; with it the model that is active within the transaction is compared too. pool: codes bought elsewhere, where
    the plan names a pool. secret: of the codes; without one, the store's own.
    """
    return _launch(
        store,
        planned.record(),
        planned,
        clock=clock,
        inputs=inputs or {},
        prior=prior,
        approval=approval,
        pool=pool,
        secret=secret,
        dry_run=dry_run,
    )


def _launch(
    store: Store,
    record: PlanRecord,
    planned: Planned | None,
    *,
    clock: Clock,
    inputs: Mapping[str, str],
    prior: Belief | None,
    approval: ApprovalRule,
    pool: Sequence[str] | None,
    secret: bytes | None,
    dry_run: bool,
) -> Launched:
    """`planned`: where it is not kept yet; a plan that is kept is launched as it lies in the store."""
    plan = record.plan
    with store.writing(plan.campaign, action="launch", dry_run=dry_run) as transaction:
        existing = transaction.plans.find_campaign(plan.campaign)
        if existing is not None:
            if existing.plan_id != record.plan_id:
                raise StateError(
                    f"campaign {plan.campaign}",
                    found=f"launched on {store.locale.day_of(existing.launched_at)} with plan {existing.plan_id}",
                    expected="a campaign that was not launched",
                    fix="Give the new plan another campaign name: codes that are out stay what they are.",
                )
            decisions, again = transaction.decisions.of(plan.campaign), True
        else:
            if planned is None or record.plan_id in [one.plan_id for one in transaction.plans.of(plan.campaign)]:
                record = transaction.plans.get(record.plan_id)
                planned = read_planned(transaction, record)
            refuse_unapproved(transaction, record.plan_id, rule=approval)
            _refuse_changed(planned, {**inputs, **_inputs_within(transaction, planned, prior)})
            named = None if planned.version is None else transaction.beliefs.version(planned.version)
            belief = None if named is None else belief_of(named)
            refuse_unproved(
                planned,
                customers=record.summary.customers,
                belief=belief,
                secret=holdout_secret(transaction, plan),
            )
            decisions, again = _write(store, transaction, planned, clock=clock, pool=pool, secret=secret), False
            told = {"campaign": plan.campaign, "plan_id": record.plan_id, "customers": decisions.num_rows}
            tell(transaction, Event.CAMPAIGN_LAUNCHED, told, actor=store.actor, now=clock.now())
    if plan.shared_codes:
        place = decisions.schema.get_field_index("code")
        decisions = decisions.set_column(place, "code", sent_codes(plan, decisions))
    return Launched(
        campaign=plan.campaign,
        plan_id=record.plan_id,
        customers=decisions.num_rows,
        codes=int(decisions.num_rows - decisions["code"].null_count),
        again=again,
        dry_run=dry_run,
        plan=plan,
        decisions=decisions,
    )


def inputs_now(
    kept: Mapping[str, str], sources: Mapping[str, str] | None, *, read: Callable[[], Mapping[str, str]]
) -> Mapping[str, str]:
    """Those inputs of a plan that come from files, as they are now, to be compared at the launch.

    kept, sources: hashes of the files when the plan was made, and now; None: they have none. Equal sources give equal
    inputs, so only where one differs are the inputs read again (`read`).
    """
    if sources is not None and kept and dict(sources) == dict(kept):
        return {}
    return read()


def _inputs_within(transaction: Transaction, planned: Planned, prior: Belief | None) -> dict[str, str]:
    """The other inputs. The model is read here, so that none is learned between the comparison and the launch."""
    now = inputs_of_program(
        planned.plan, customers=planned.decisions.num_rows, segment_sizes=segment_sizes(planned.decisions)
    )
    now |= contact_inputs(
        transaction, planned.plan, planned.decisions["customer_id"].cast(pa.string()).combine_chunks()
    )
    now |= holdout_inputs(planned.plan, holdout_secret(transaction, planned.plan))
    if LOCALE_INPUT in planned.inputs or transaction.locale.fingerprint():
        now[LOCALE_INPUT] = transaction.locale.fingerprint()
    if planned.network != planned.inputs.get("network", planned.network):
        now["network"] = planned.network
    if prior is not None:
        active, decided_with = transaction.beliefs.version(), planned.version
        nothing_learned = replace(prior, head=planned.solution.engagement_head)
        now |= inputs_of_belief(nothing_learned if active is None else belief_of(active))
        if decided_with is not None and (active is None or active.number != decided_with):
            # an equal version may be active under another number; late arrivals are decided with the one named here
            named = transaction.beliefs.version(decided_with)
            if named is None or belief_hash(belief_of(named)) != now["belief"]:
                now["belief"] = f"not that of version {decided_with}"
    return now


def _refuse_changed(planned: Planned, inputs: Mapping[str, str]) -> None:
    changed = sorted(name for name, content in inputs.items() if planned.inputs.get(name) != content)
    if changed:
        words = {
            "belief": "model",
            "evidence": "model",
            "network": "context network",
            "snapshot": "features of all customers",
            "contact": "codes of other campaigns",
            HOLDOUT_INPUT: "secret of the lasting holdout",
            LOCALE_INPUT: f"currency or time zone (planned in {_locale_words(planned)})",
            "program_version": f"program version (planned with {planned.inputs.get('program_version', 'none')})",
        }
        listed = ", ".join(dict.fromkeys(words.get(name, name) for name in changed))
        raise StateError(
            f"Plan {planned.plan_id} cannot be launched, because these changed since it was decided: {listed}",
            fix="Run `disco plan` again and launch the new plan.",
        )


def _locale_words(planned: Planned) -> str:
    locale = Locale.of_fingerprint(planned.inputs.get(LOCALE_INPUT, ""))
    return f"{locale.currency.code} and {locale.time_zone}"


def _write(
    store: Store,
    transaction: Transaction,
    planned: Planned,
    *,
    clock: Clock,
    pool: Sequence[str] | None,
    secret: bytes | None,
) -> pa.Table:
    plan = planned.plan
    coded = planned.decisions.take(pa.array(coded_rows(planned.decisions)))
    depths = coded["depth"].to_numpy()
    codes = codes_for(transaction.decisions, plan, coded["customer_id"], depths, pool=pool, secret=secret)
    decisions = with_codes(planned.decisions, codes)
    keep_within(transaction, planned, by=store.actor)
    transaction.plans.launch(
        CampaignRecord(
            campaign=plan.campaign,
            plan_id=planned.plan_id,
            plan=plan,
            state=State.LAUNCHED,
            integer_ids=bool(pa.types.is_integer(decisions["customer_id"].type)),
            context_size=planned.contexts.shape[1],
            network=planned.network,
            version=planned.version,
            solution=planned.solution,
            launched_at=clock.now(),
        )
    )
    transaction.decisions.add_codes(plan.campaign, decisions["code"].combine_chunks(), pooled=pool is not None)
    transaction.decisions.set_reserve(plan.campaign, dict(zip(plan.offered, planned.solution.reserve, strict=True)))
    head = planned.solution.engagement_head
    evidence = CampaignEvidence.launched(decisions, plan, contexts=planned.contexts, head=head)
    transaction.beliefs.put_evidence(plan.campaign, planned.network, evidence.to_bytes())
    transaction.journal.note(plan_id=planned.plan_id, customers=decisions.num_rows, codes=coded.num_rows)
    return decisions


# ---- pause, resume, close ----


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CampaignState(Result):
    """A campaign and the state it is in now."""

    campaign: str
    """The name of the campaign."""
    state: State
    """launched, paused or closed."""


def pause(store: Store, campaign: str, *, clock: Clock) -> CampaignState:
    """No codes for anybody who arrives now; outcomes of codes that are out still count."""
    return _move(store, campaign, State.PAUSED, action="pause", allowed=(State.LAUNCHED,), told=clock)


def resume(store: Store, campaign: str) -> CampaignState:
    """Codes again after a pause."""
    return _move(store, campaign, State.LAUNCHED, action="resume", allowed=(State.PAUSED,))


def close(store: Store, campaign: str) -> CampaignState:
    """For good: no codes, and every outcome that comes from now on is expired."""
    return _move(store, campaign, State.CLOSED, action="close", allowed=(State.LAUNCHED, State.PAUSED))


def _move(
    store: Store,
    campaign: str,
    state: State,
    *,
    action: str,
    allowed: tuple[State, ...],
    told: Clock | None = None,
) -> CampaignState:
    """told: webhooks are told that it is paused, at the time of this clock."""
    with store.writing(campaign, action=action) as transaction:
        record = transaction.plans.campaign(campaign)
        if record.state is state:
            return CampaignState(campaign=campaign, state=state)
        if record.recalled_at is not None and state is not State.CLOSED:
            raise StateError(f"Campaign {campaign} was recalled on {record.recalled_at:%Y-%m-%d}, and stays so")
        if record.state not in allowed:
            raise StateError(f"campaign {campaign}", found=str(record.state), expected=" or ".join(allowed))
        transaction.plans.set_state(campaign, state)
        if told is not None:
            tell(transaction, Event.CAMPAIGN_PAUSED, {"campaign": campaign}, actor=store.actor, now=told.now())
        return CampaignState(campaign=campaign, state=state)
