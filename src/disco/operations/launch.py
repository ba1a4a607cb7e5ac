"""A plan becomes a campaign, in one transaction or not at all; and a campaign is paused, closed or recalled."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.campaign import Belief
from disco.features.snapshot import snapshot_of
from disco.operations.approvals import refuse_unapproved
from disco.operations.arms import (
    ARMS,
    HOLDOUT_INPUT,
    SHARING,
    arms_of,
    holdout_inputs,
    holdout_secret,
    reserve_of,
    segment_reserve,
)
from disco.operations.audience import contact_inputs, label_hashes, load_audience, sources_of
from disco.operations.codes import codes_for, read_pool, sent_codes
from disco.operations.customer_limit import KEY as CUSTOMER_LIMIT
from disco.operations.customer_limit import customer_limit_inputs
from disco.operations.export import check_kind, write_rows
from disco.operations.learn import CampaignEvidence, belief_hash, belief_of
from disco.operations.outbox import tell
from disco.operations.outcomes import count_again
from disco.operations.plan import (
    Planned,
    coded_rows,
    inputs_of_belief,
    inputs_of_program,
    keep_within,
    limits_at_launch,
    read_planned,
    segment_sizes,
    segments_of,
    with_codes,
)
from disco.operations.plan_warnings import plan_risks
from disco.operations.purchases import recalled_codes, set_aside
from disco.operations.site import Site
from disco.records.arrays import Flags, Integers, Vector
from disco.records.arrow_tables import content_hash
from disco.records.campaign_records import CampaignRecord, PlanRecord, State
from disco.records.decisions import Arm, Audience
from disco.records.depths import depth_percent
from disco.records.errors import DiscoError, InputError, ReportError, StateError
from disco.records.jobs import Event
from disco.records.locale import LOCALE_INPUT, Locale
from disco.records.money import read_currency
from disco.records.people import ApprovalRule
from disco.records.plan import Plan
from disco.records.ports import Clock
from disco.records.result import NotInJson, Result, TableResult
from disco.records.wording import counted, moment_text, money
from disco.store import Store, Transaction
from disco.store.schema import LABELS


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
    site: Site, name: str, *, approval: ApprovalRule, secret: bytes | None = None, dry_run: bool = False
) -> Launched:
    """Launch the plan with this id (or its beginning, or the only plan of the campaign of this name).

    Refused when the customers, their features, the context network, the model, the limits or the program version are no
    longer what the plan was decided on, or when its tables are not what was planned (`refuse_unproved`).
    Inputs whose files are the same bytes as when the plan was made are not read again.

    approval: what the settings ask for; ApprovalError where these or the database ask for a second person's approval of
    this plan, and there is none.
    """
    store, data = site.store, site.data
    with store.reading() as transaction:
        record = transaction.plans.get(plan_id_of(transaction, name))
        is_new = transaction.plans.find_campaign(record.plan.campaign) is None
    now: Mapping[str, str] = {}
    warnings = list(plan_risks(record)) if is_new else []

    def read() -> Mapping[str, str]:
        loaded = load_audience(site, record.plan)
        warnings.extend(loaded.notes)
        return loaded.inputs

    if is_new:
        now = inputs_now(record.summary.sources, sources_of(data, record.plan), read=read)
    launched = launch(
        store,
        record,
        clock=site.clock,
        inputs=now,
        prior=site.prior,
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
    what: Planned | PlanRecord,
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

    what: a plan as it was decided, or as it is kept; one that is kept is launched as it lies in the store.
    inputs: hashes as they are now; one that is no longer what the plan was decided on stops the launch. prior: of the
    shop; with it the model that is active within the transaction is compared too. pool: codes bought elsewhere, where
    the plan names a pool. secret: of the codes; without one, the store's own.
    """
    planned, record = (what, what.record()) if isinstance(what, Planned) else (None, what)
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
            _refuse_changed(planned, {**(inputs or {}), **_inputs_within(transaction, planned, prior)})
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
    now |= customer_limit_inputs(
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
            CUSTOMER_LIMIT: "markdown of other campaigns, which customer_limit counts",
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


# ---- proof ----
#
# What a launch proves about a plan before it writes: customers, arms, depths, limits and money are the plan's own. A
# plan lies in the store as a row and as tables named by their content. That the bytes are those of the names is proved
# when they are read. Here everything else is: whoever changed a table, named it validly and put the name into the row
# meets the plan's own numbers.

_ROUNDING = 1e-9  # relative; sums of the same figures in another order


def refuse_unproved(
    planned: Planned, *, customers: int, belief: Belief | None = None, secret: bytes | None = None
) -> None:
    """StateError where a plan's tables contradict the plan; `customers` is the number that its summary states.

    belief: of the version that decided; without one, chances to buy that differ between customers are only looked at.
    secret: of lasting holdouts.
    """
    arms, figures = partial(_arms, secret=secret), partial(_figures, belief=belief)
    for look in (_rows, _customers, arms, _depths, _limits, figures):  # each relies on those before it
        found = list(look(planned, customers))
        if found:
            raise StateError(
                f"Plan {planned.plan_id} cannot be launched, because its tables are not what was planned: "
                f"{'; '.join(found)}",
                fix="Run `disco plan` again, and `disco doctor` to see what else was changed.",
            )


def _rows(planned: Planned, customers: int) -> Iterator[str]:
    rows = planned.decisions.num_rows
    if rows != customers:
        yield f"{counted(rows, 'decision')}, for {counted(customers, 'customer')} planned"
    if planned.contexts.ndim != 2 or len(planned.contexts) != rows:
        yield f"{counted(len(planned.contexts), 'context')}, for {counted(rows, 'decision')}"
    elif not np.isfinite(planned.contexts).all():
        yield "contexts that are not finite numbers"
    if planned.features is None:
        if "features" in planned.inputs:
            yield "the features are missing"
    elif planned.features.num_rows != rows:
        yield f"features of {counted(planned.features.num_rows, 'customer')}, for {counted(rows, 'decision')}"
    for name in ("customer_id", "arm", "value", "known"):
        if planned.decisions[name].null_count:
            yield f"{counted(planned.decisions[name].null_count, 'decision')} without {name}"


def _customers(planned: Planned, _: int) -> Iterator[str]:
    """Each customer once, and exactly those whose hash the plan's id contains."""
    ids = planned.decisions.select(["customer_id"])
    distinct = pc.count_distinct(ids["customer_id"]).as_py()
    if distinct != ids.num_rows:
        yield f"{counted(ids.num_rows - distinct, 'decision')} about a customer who has another one"
    if content_hash(ids) != planned.inputs["customers"]:
        yield "the customers are others than those planned"
    labels = {name: planned.decisions[name] for name in LABELS.names if name in planned.decisions.column_names}
    for name, found in label_hashes(ids["customer_id"], labels).items():
        if found != planned.inputs.get(name):
            yield f"the customers have another {name} than planned"
    hashed = planned.inputs.get("features")
    if planned.features is not None and hashed is not None and content_hash(planned.features) != hashed:
        yield "the features are others than those planned"
    centred_on = planned.inputs.get("snapshot")
    if planned.features is not None and centred_on is not None:  # the hash of the content does not cover the metadata
        day = snapshot_of(planned.features.schema)
        if day is None or day.hash != centred_on:
            yield "the features carry another snapshot than that planned"


def _arms(planned: Planned, _: int, *, secret: bytes | None) -> Iterator[str]:
    """Groups as the split by hash gives them, and as the summary counts them."""
    found = _arm_numbers(planned.decisions)
    arms = arms_of(planned.plan, planned.decisions["customer_id"], secret=secret)
    wrong = found != np.select([arms[arm] for arm in ARMS], range(len(ARMS)))
    if wrong.any():
        first = planned.decisions["arm"].filter(pa.array(wrong))[0].as_py()
        yield f"another group than their own for {counted(int(wrong.sum()), 'customer')}, the first in {first!r}"
        return
    for number, arm in enumerate(ARMS):
        found_here, stated = int((found == number).sum()), planned.arms[arm].customers if arm in planned.arms else 0
        if found_here != stated:
            yield f"{counted(found_here, 'customer')} in group {arm}, for {stated:,} planned"


def _depths(planned: Planned, _: int) -> Iterator[str]:
    """Depths that are offered; none for the holdout."""
    depth = pc.drop_null(planned.decisions["depth"])
    others = depth.filter(pc.invert(pc.is_in(depth, value_set=pa.array(planned.plan.offered, pa.float64()))))
    if len(others):
        first = depth_percent(others[0].as_py())
        yield f"{counted(len(others), 'code')} of depths that are not offered, the first of {first}"
    coded = planned.decisions["depth"].is_valid().to_numpy()
    held = int((coded & (_arm_numbers(planned.decisions) == ARMS.index(Arm.HOLDOUT))).sum())
    if held:
        yield f"a depth for {counted(held, 'customer')} of the holdout"


def _limits(planned: Planned, _: int) -> Iterator[str]:
    """Caps and floors, of all codes and of each group's own part; codes as the summary counts them; the reserve."""
    plan, counts = planned.plan, _codes(planned)
    offer, shared = limits_at_launch(plan, planned.decisions)
    parts = dict(zip(SHARING, shared, strict=True))
    yield from _outside(plan, counts.sum(axis=0), offer.caps, offer.floors, "")
    for arm, part in parts.items():
        yield from _outside(plan, counts[ARMS.index(arm)], part.caps, part.floors, f" in group {arm}")
    segment = segments_of(planned.decisions)
    for label, limits in (offer.segments or {}).items():
        counts_here = _codes(
            planned, np.zeros(0, np.bool_) if segment is None else np.asarray(segment == label, np.bool_)
        )
        yield from _outside(plan, counts_here.sum(axis=0), limits.caps, limits.floors, f" in segment {label}")
        for arm, part in parts.items():
            if (own := (part.segments or {}).get(label)) is not None:
                where = f" in segment {label} of group {arm}"
                yield from _outside(plan, counts_here[ARMS.index(arm)], own.caps, own.floors, where)
    for arm, given in zip(ARMS, counts.tolist(), strict=True):
        stated = planned.arms[arm].codes if arm in planned.arms else {}
        if given != [stated.get(depth, 0) for depth in plan.offered]:
            yield f"group {arm} has other numbers of codes than those planned"
    solution = planned.solution
    reserve = reserve_of(plan, offer, eligible=planned.decisions.num_rows)
    if solution.depths != plan.offered or (solution.reserve, solution.reserve_budget) != reserve:
        yield "the reserve is another than the plan's"
    held_back = segment_reserve(plan, offer, segment_sizes=segment_sizes(planned.decisions))
    kept = None if solution.segments is None else {name: one.reserve for name, one in solution.segments.items()}
    if kept != held_back:
        yield "the reserve of a segment is another than the plan's"


def _outside(
    plan: Plan, given: Integers, caps: tuple[int | None, ...], floors: tuple[int, ...] | None, where: str
) -> Iterator[str]:
    least = floors or (0,) * len(plan.offered)
    for depth, count, cap, floor in zip(plan.offered, given.tolist(), caps, least, strict=True):
        if cap is not None and count > cap:
            yield f"{counted(count, 'code')} of {depth_percent(depth)}{where}, for a limit of {cap:,}"
        elif count < floor:
            yield f"{counted(count, 'code')} of {depth_percent(depth)}{where}, for a floor of {floor:,}"


def _figures(planned: Planned, _: int, *, belief: Belief | None) -> Iterator[str]:
    """Finite figures where there is a code; their sums are those of the solve, and within each group's budget."""
    plan, decisions, arm = planned.plan, planned.decisions, _arm_numbers(planned.decisions)
    value = decisions["value"].to_numpy()
    by_policy = (arm == ARMS.index(Arm.DECIDED)) & (not plan.policy.assigns_at_random)
    if not np.isfinite(value).all() or value[~by_policy].any():
        yield "values that no policy gave"
    elif not np.isclose(value[by_policy].sum(), planned.solution.value, rtol=_ROUNDING, atol=0.0):
        yield f"a value of {value[by_policy].sum():,.2f}, for {planned.solution.value:,.2f} planned"
    rows = np.zeros(0, np.int64) if planned.total is None else coded_rows(decisions)  # None: nothing was learned
    for name in ("expected_full_price", "expected_engagement"):
        if not np.array_equal(np.flatnonzero(decisions[name].is_valid().to_numpy()), rows):
            yield f"figures of {name} for other customers than those with a code"
            return
    depth, full_price, engagement = (
        decisions[name].take(pa.array(rows)).to_numpy()
        for name in ("depth", "expected_full_price", "expected_engagement")
    )
    if not _is_engagement(planned, rows, engagement, belief):
        yield "other shares of receivers who buy than those planned"
    if not (np.isfinite(full_price) & (full_price >= 0)).all():
        yield "expected full prices that are not amounts of money"
        return
    markdown = full_price * depth * engagement
    for name, part in zip(SHARING, limits_at_launch(plan, decisions)[1], strict=True):
        correction = planned.arms[name].correction if name in planned.arms else None
        factors = np.ones(len(plan.offered)) if correction is None else correction.factors(plan.offered)
        here = arm[rows] == ARMS.index(name)
        cost = float((markdown * factors[np.searchsorted(plan.offered, depth)])[here].sum())
        if part.budget is not None and cost > part.budget * (1 + _ROUNDING):
            spent, most = (
                money(amount, full=True, currency=read_currency(planned.currency)) for amount in (cost, part.budget)
            )
            yield f"an expected markdown of {spent} in group {name}, for a budget of {most}"


def _is_engagement(planned: Planned, rows: Integers, engagement: Vector, belief: Belief | None) -> bool:
    """Whether these are the chances to buy of the customers in these rows, at the depths they get."""
    solution, offered = planned.solution, np.asarray(planned.plan.offered)
    depth = planned.decisions["depth"].take(pa.array(rows)).to_numpy()
    choice = np.searchsorted(offered, depth).astype(np.int64)
    if solution.head is None:
        return bool(np.array_equal(engagement, np.asarray(solution.engagement)[choice]))
    if belief is None:
        return bool(((engagement >= 0) & (engagement <= 1)).all())
    members = Audience(
        ids=planned.decisions["customer_id"].take(pa.array(rows)).to_numpy(),
        context=planned.contexts[rows],
        known=np.ones(rows.size, np.bool_),
    )
    again = replace(belief, head=solution.engagement_head).rates_at_choice(members, offered, choice)
    return bool(np.allclose(engagement, again, rtol=_ROUNDING, atol=0.0))


def _arm_numbers(decisions: pa.Table) -> Integers:
    """(n,) position in ARMS; -1 for any other text."""
    place = pc.index_in(decisions["arm"], value_set=pa.array([str(arm) for arm in ARMS]))
    return np.asarray(pc.fill_null(place, -1).to_numpy(), np.int64)


def _codes(planned: Planned, of: Flags | None = None) -> Integers:
    """(arms, depths) codes, of all customers or of these."""
    rows, offered = coded_rows(planned.decisions), planned.plan.offered
    if of is not None:
        rows = rows[of[rows]] if of.size else rows[:0]
    column = np.searchsorted(offered, planned.decisions["depth"].take(pa.array(rows)).to_numpy())
    place = _arm_numbers(planned.decisions)[rows] * len(offered) + column
    return np.bincount(place, minlength=len(ARMS) * len(offered)).reshape(len(ARMS), len(offered))


# ---- recall ----
#
# Codes that were not used become invalid, and the shop gets their list. One moment is kept. Purchases ordered from it
# on are set aside, whenever they arrive; those ordered before count. The campaign's codes no longer count for
# engagement, used or not (`rebuilt_evidence`); its baskets do.

CLOCK_TOLERANCE = timedelta(minutes=5)
"""By how much the clocks of two machines may differ: more is a wrong clock."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Recalled(TableResult):
    """A recalled campaign. As a table: the codes to make invalid in the shop, one row each.

    A shared code has one row without a customer. It is there however many customers have used it, because the shop
    accepts it from anybody until it is made invalid.
    """

    campaign: str
    """The name of the campaign."""
    recalled_at: datetime
    """The moment from which on no code of it is valid."""
    codes: int
    """Codes that became invalid: those without a purchase before that moment, as far as outcomes were received.

    A shared code counts once for each customer it was sent to.
    """
    used: int
    """Codes with a purchase before that moment; these purchases count."""
    set_aside: int
    """Purchases received that were ordered after that moment; they do not count."""
    again: bool
    """Whether it had been recalled before, so that nothing was changed now."""
    file: str | None
    """Where the codes to make invalid were written."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""
    rows: NotInJson[pa.Table]

    def to_arrow(self) -> pa.Table:
        return self.rows


def recall(
    store: Store,
    campaign: str,
    *,
    clock: Clock,
    at: datetime | None = None,
    file: Path | None = None,
    dry_run: bool = False,
) -> Recalled:
    """Recall a campaign, in one transaction or not at all; then write the list of its invalid codes.

    A campaign that was recalled before stays as it is, and its list is written again: codes whose purchases arrived
    meanwhile are no longer in it. at: the moment of the recall; None: now. file: FILE.parquet or FILE.csv.
    """
    if file is not None:
        check_kind(file)
    with store.writing(campaign, action="recall", dry_run=dry_run) as transaction:
        record = transaction.plans.campaign(campaign)
        again = record.recalled_at is not None
        if not again:
            moment = clock.now() if at is None else at
            _refuse(record, moment, now=clock.now(), locale=store.locale)
            if at is None:
                _refuse_clock(transaction, moment)
            transaction.plans.recall(campaign, at=moment)
            record = transaction.plans.campaign(campaign)
            count_again(transaction, record)
            transaction.journal.note(plan_id=record.plan_id, recalled_at=moment.isoformat())
        found = _result(transaction, record, again=again, file=None if dry_run else file, dry_run=dry_run)
    if file is not None and not dry_run:
        try:
            write_rows(found.rows, file, store.locale)
        except (DiscoError, OSError) as error:
            words = f"Campaign {campaign} is recalled. Only the list of its codes could not be written"
            fix = f"`disco recall {campaign} -o FILE` writes it."
            raise ReportError(f"{words} ({error})", fix=fix, result=found) from error
    return found


def _refuse(record: CampaignRecord, moment: datetime, *, now: datetime, locale: Locale) -> None:
    if record.state is State.CLOSED:
        raise StateError(
            f"Campaign {record.campaign} is closed, so it cannot be recalled",
            fix="Codes of a closed campaign count as they stood when it was closed.",
        )
    if moment > now:
        expected = f"a moment that has passed, at most {moment_text(now, locale)}"
        raise InputError("moment of the recall", found=moment_text(moment, locale), expected=expected)
    first = _first_use(record, locale)
    if moment < first - CLOCK_TOLERANCE:
        raise InputError(
            "moment of the recall",
            found=moment_text(moment, locale),
            expected=f"a moment from {moment_text(first, locale)} on, when the campaign's first code could be used",
            fix="Correct the clock of this machine or --as-of: every purchase with a code would be set aside.",
        )


def _first_use(record: CampaignRecord, locale: Locale) -> datetime:
    """No code was used before: the launch. A simulated shop launches codes of the past, which have their own dates."""
    of_the_past = record.launched_at >= locale.moment(record.plan.valid.closes)
    return locale.moment(record.plan.valid.opens) if of_the_past else record.launched_at


def _refuse_clock(transaction: Transaction, now: datetime) -> None:
    """Refuse a clock that stands before the last entry of the journal: purchases from then on would be set aside."""
    last = transaction.journal.last()
    entries = () if last is None else transaction.journal.entries(after=last[0] - 1, limit=1)
    if entries and now < entries[0].at - CLOCK_TOLERANCE:
        clock, written = (moment_text(moment, transaction.locale) for moment in (now, entries[0].at))
        raise StateError(
            f"The clock of this machine shows {clock}, but the last entry of the journal is of {written}. A recall at "
            "this moment would set aside what was bought since",
            fix="Correct the clock, or name the day of the recall with --as-of.",
        )


def _result(
    transaction: Transaction, record: CampaignRecord, *, again: bool, file: Path | None, dry_run: bool
) -> Recalled:
    assert record.recalled_at is not None
    left = recalled_codes(transaction, record.campaign)
    decisions = transaction.decisions.of(record.campaign)
    codes = decisions["code"]
    return Recalled(
        campaign=record.campaign,
        recalled_at=record.recalled_at,
        codes=left.num_rows,
        used=len(codes) - codes.null_count - left.num_rows,
        set_aside=set_aside(transaction, record.campaign),
        again=again,
        file=None if file is None else str(file),
        dry_run=dry_run,
        rows=_listed(record, decisions, left),
    )


def _listed(record: CampaignRecord, decisions: pa.Table, left: pa.Table) -> pa.Table:
    """What the shop has to make invalid: the shared codes that were sent, once each, then the unused single ones."""
    shared, single = record.plan.shared_codes, left
    sent: list[float] = []
    if shared:
        depths = pa.array(list(shared), pa.float64())
        coded = decisions.filter(decisions["code"].is_valid())
        sent = [depth for depth in shared if pc.any(pc.equal(coded["depth"], depth)).as_py()]
        single = left.filter(pc.invert(pc.is_in(left["depth"], value_set=depths)))
    ids = single["customer_id"]
    codes = [pa.array([shared[depth] for depth in sent], pa.string()), *single["code"].chunks]
    return pa.table(
        {
            "code_id": pa.chunked_array(codes, pa.string()),
            "customer_id": pa.chunked_array([pa.nulls(len(sent), ids.type), *ids.chunks], ids.type),
            "campaign_id": pa.array([record.campaign] * (len(sent) + single.num_rows), pa.string()),
            "depth": pa.chunked_array([pa.array(sent, pa.float64()), *single["depth"].chunks], pa.float64()),
        }
    )
