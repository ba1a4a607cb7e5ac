"""Where campaigns stand: the list of them, one in figures, what to do next, and who got which depth."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.operations.arms import planned_shares
from disco.operations.purchases import NO_SALES, AgainstForecast, CodeSales, against_forecast, code_sales
from disco.records.arrays import Flags, Integers, Vector
from disco.records.campaign_records import CampaignRecord, Disposition, Phase
from disco.records.decisions import Arm
from disco.records.errors import InputError
from disco.records.locale import Locale
from disco.records.money import Currency
from disco.records.plan import Plan
from disco.records.plan_summary import MoneyForecast, PlanSummary
from disco.records.result import DepthKey, TableResult
from disco.store import Store, Transaction
from disco.store.beliefs import VersionRecord

if TYPE_CHECKING:
    from disco.evaluation.read_out import SampleRatio

# ---- the list ----
#
# The launched campaigns: state, dates, codes, outcomes, and every batch they received.


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """A batch of outcomes; the counts are 0 once it is reverted."""

    batch_id: str
    """The id of the batch."""
    source: str
    """The file it came from."""
    received_at: datetime
    """When it was received."""
    reverted_at: datetime | None
    """When it was taken out again; null: it counts."""
    applied: int
    """Rows that count."""
    duplicate: int
    """Rows about an event that was received before."""
    expired: int
    """Purchases after their code had expired or was recalled, and outcomes of a closed campaign."""
    unmatched: int
    """Rows that fit no code, customer or event."""
    rejected: int
    """Rows that cannot be read, or contradict what counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEntry:
    """A launched campaign."""

    campaign: str
    """The name of the campaign."""
    state: Phase
    """scheduled (its codes are not valid yet), running, paused, recalled, ended (all codes have expired) or closed."""
    plan_id: str
    """The id of its plan."""
    policy: str
    """The name of the policy."""
    valid_from: date | datetime
    """The first day of its codes; with a time of day where its plan has one, by the clock of the shop."""
    valid_before: date | datetime
    """The day after their last, or the moment they expire."""
    recalled_at: datetime | None
    """The moment of the recall, from which on no code is valid; null: it was not recalled."""
    version: int | None
    """The version of the model that decided; null: none was learned."""
    customers: int
    """Number of customers."""
    codes: int
    """Codes of the launch."""
    outcomes: Mapping[Disposition, int]
    """Rows received that are not reverted, by what became of them."""
    reserve: Mapping[DepthKey, int | None]
    """Codes left for late arrivals, per depth; null: no limit."""
    batches: tuple[BatchEntry, ...]
    """In the order they were received."""
    against_forecast: AgainstForecast | None
    """How the codes of the launch did against the plan's forecast; null where nothing was learned before, and for a
    recalled campaign, whose forecast was for the whole validity."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CampaignList(TableResult):
    """The launched campaigns. As a table: one row per campaign."""

    campaigns: tuple[CampaignEntry, ...]
    """By their first day."""
    active_version: int | None
    """The version of the model that decides the next plan; null: nothing was learned."""

    def to_arrow(self) -> pa.Table:
        names = ("campaign", "policy", "valid_from", "valid_before", "version", "customers", "codes")
        columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in self.campaigns] for name in names}
        for name in ("valid_from", "valid_before"):  # one type for days and for moments
            zone = next((when.tzinfo for when in columns[name] if isinstance(when, datetime)), None)
            if zone is not None:
                columns[name] = [
                    when if isinstance(when, datetime) else datetime.combine(when, time(), zone)
                    for when in columns[name]
                ]
        outcomes = {str(kind): [one.outcomes[kind] for one in self.campaigns] for kind in Disposition}
        compared = [one.against_forecast for one in self.campaigns]
        sides = pa.array([None if one is None else str(one.revenue) for one in compared], pa.string())
        states = [str(one.state) for one in self.campaigns]
        return pa.table({**columns, "state": states, **outcomes, "revenue_against_forecast": sides})


def _with_offset(when: date | datetime, locale: Locale) -> date | datetime:
    return locale.moment(when) if isinstance(when, datetime) else when


def campaign_names(store: Store) -> tuple[str, ...]:
    """The launched campaigns by their first day, without looking at what they received."""
    with store.reading() as transaction:
        return tuple(record.campaign for record in transaction.plans.campaigns())


def list_campaigns(store: Store, campaign: str | None = None, *, today: date) -> CampaignList:
    """All launched campaigns, or one of them, as they stand today."""
    with store.reading() as transaction:
        records = transaction.plans.campaigns() if campaign is None else (transaction.plans.campaign(campaign),)
        active = transaction.beliefs.version()
        return CampaignList(
            campaigns=tuple(entry_of(transaction, record, today=today) for record in records),
            active_version=None if active is None else active.number,
        )


def entry_of(
    transaction: Transaction, record: CampaignRecord, *, today: date, sales: CodeSales | None = None
) -> CampaignEntry:
    """A campaign that was read already, as it stands today.

    sales: what its codes have sold; None: they are summed up where a forecast is compared, which is at the end.
    """
    summary = transaction.plans.get(record.plan_id).summary
    if sales is None:
        is_compared = summary.total is not None and today >= record.matures_on
        sales = code_sales(transaction, record.campaign) if is_compared else NO_SALES
    counted: dict[str, dict[str, int]] = {}
    for row in transaction.ledger.counts(record.campaign).to_pylist():
        counted.setdefault(row["batch_id"], {})[row["disposition"]] = row["rows"]
    batches = tuple(
        BatchEntry(
            batch_id=batch.batch_id,
            source=batch.source,
            received_at=transaction.locale.local(batch.received_at),
            reverted_at=None if batch.reverted_at is None else transaction.locale.local(batch.reverted_at),
            **{str(kind): counted.get(batch.batch_id, {}).get(str(kind), 0) for kind in Disposition},
        )
        for batch in transaction.ledger.batches(record.campaign)
    )
    return CampaignEntry(
        campaign=record.campaign,
        state=record.phase(today),
        plan_id=record.plan_id,
        policy=record.plan.policy.name,
        valid_from=_with_offset(record.plan.valid.opens, transaction.locale),
        valid_before=_with_offset(record.plan.valid.closes, transaction.locale),
        recalled_at=record.recalled_at,
        version=record.version,
        customers=summary.customers,
        codes=sum(sum(arm.codes.values()) for arm in summary.arms.values()),
        outcomes={kind: sum(getattr(batch, str(kind)) for batch in batches) for kind in Disposition},
        reserve=transaction.decisions.reserve(record.campaign),
        batches=batches,
        against_forecast=against_forecast(
            record,
            summary.total,
            purchases=sales.purchases,
            revenue=sales.revenue - sales.late_revenue,
            markdown=sales.markdown - sales.late_markdown,
            today=today,
            currency=transaction.locale.currency,
        ),
    )


# ---- what to do next ----
#
# Where a launched campaign stands today, and what whoever runs it should do next.


class NextStep(StrEnum):
    """What to do next about a launched campaign."""

    SEND_CODES = "send the codes"  # they are not valid yet
    SEND_OUTCOMES = "send outcomes"  # codes are out, and no purchase has been reported
    WATCH = "watch the results"  # outcomes arrive, and codes are still valid
    WAIT = "wait for the last outcomes"  # codes have expired, and the last purchases may still be reported
    LEARN = "learn from it"  # all outcomes are in, and the model does not know them
    PLAN = "plan the next campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProgress:
    """A launched campaign on a day."""

    campaign: str
    """The name of the campaign."""
    phase: Phase
    """Where it stands."""
    opens: date | datetime
    """The first day of its codes, or the moment they become valid."""
    closes: date | datetime
    """The day after their last, or the moment they expire."""
    matures_on: date
    """The day on which the last purchase has been reported."""
    has_outcomes: bool
    """Whether a batch of outcomes was received that is not reverted."""
    learned: bool
    """Whether the active version of the model knows all of it: its purchases as they stand, and its unused codes."""
    next_step: NextStep
    """What to do next."""


def campaign_progress(store: Store, campaign: str | None = None, *, today: date) -> tuple[CampaignProgress, ...]:
    """All launched campaigns by their first day, or one of them. Reads no row of a ledger."""
    with store.reading() as transaction:
        records = transaction.plans.campaigns() if campaign is None else (transaction.plans.campaign(campaign),)
        active = transaction.beliefs.version()
        return tuple(progress_of(transaction, record, active, today=today) for record in records)


def progress_of(
    transaction: Transaction, record: CampaignRecord, active: VersionRecord | None, *, today: date
) -> CampaignProgress:
    """Where a campaign that was read already stands. active: the version of the model that decides the next plan."""
    phase, matures_on = record.phase(today), record.matures_on
    has_outcomes = any(batch.reverted_at is None for batch in transaction.ledger.batches(record.campaign))
    learned = active is not None and _is_learned(transaction, record.campaign, active)
    return CampaignProgress(
        campaign=record.campaign,
        phase=phase,
        opens=record.plan.valid.opens,
        closes=record.plan.valid.closes,
        matures_on=matures_on,
        has_outcomes=has_outcomes,
        learned=learned,
        next_step=next_step(phase, matured=today >= matures_on, has_outcomes=has_outcomes, learned=learned),
    )


def _is_learned(transaction: Transaction, campaign: str, active: VersionRecord) -> bool:
    """Whether the version was made of what this campaign teaches now and, since its codes have matured, in full."""
    if campaign not in active.campaigns:
        return False
    from disco.operations.learn import StoredLesson, stored_evidence

    evidence = stored_evidence(transaction, campaign, active.network)
    if evidence is None:
        return False
    return StoredLesson(campaign=campaign, evidence=evidence, matured=True).hash == active.campaigns[campaign]


def next_step(phase: Phase, *, matured: bool, has_outcomes: bool, learned: bool) -> NextStep:
    """What to do next.

    >>> next_step(Phase.ENDED, matured=True, has_outcomes=True, learned=False)
    <NextStep.LEARN: 'learn from it'>
    """
    if phase is Phase.SCHEDULED:
        return NextStep.SEND_CODES
    if learned or (phase is Phase.CLOSED and not has_outcomes):  # a closed campaign takes no outcomes any more
        return NextStep.PLAN
    if not has_outcomes:
        return NextStep.SEND_OUTCOMES
    if phase in (Phase.RUNNING, Phase.PAUSED):
        return NextStep.WATCH
    return NextStep.LEARN if matured or phase is Phase.CLOSED else NextStep.WAIT


# ---- one campaign ----
#
# One campaign at a glance: where it stands, what its codes have sold and cost, and whether its groups are sound.


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOverview:
    """One launched campaign on a day."""

    progress: CampaignProgress
    """Where it stands, and what to do next."""
    entry: CampaignEntry
    """Codes, outcomes and batches."""
    matured: bool
    """Whether the last purchase has been reported."""
    sales: CodeSales
    """What its codes have sold, as far as outcomes were received."""
    budget: float | None
    """What the codes may cost; None: the plan has no budget."""
    expected: MoneyForecast | None
    """What the plan forecast for all codes; None where nothing was learned before, and for a recalled campaign."""
    against_forecast: AgainstForecast | None
    """How the codes of the launch did against it; None likewise."""
    sample_ratio: "SampleRatio | None"
    """Whether the groups have their planned sizes; None where there is only one group."""
    warnings: tuple[str, ...]
    """What the plan warned about when it was decided."""
    plan: Plan
    currency: Currency


def campaign_overview(
    store: Store,
    campaign: str,
    *,
    today: date,
    sales_of: Callable[[Transaction, str], CodeSales] | None = None,
) -> CampaignOverview:
    """A launched campaign; NotFoundError where there is none of this name.

    sales_of: sums up what was bought; None: `code_sales`.
    """
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        summary = transaction.plans.get(record.plan_id).summary
        sales = (sales_of or code_sales)(transaction, campaign)
        entry = entry_of(transaction, record, today=today, sales=sales)
        return CampaignOverview(
            progress=progress_of(transaction, record, transaction.beliefs.version(), today=today),
            entry=entry,
            matured=today >= record.matures_on,
            sales=sales,
            budget=record.plan.budget_amount,
            expected=summary.total if record.recalled_at is None else None,
            against_forecast=entry.against_forecast,
            sample_ratio=_groups(record, summary),
            warnings=summary.warnings,
            plan=record.plan,
            currency=store.locale.currency,
        )


def _groups(record: CampaignRecord, summary: PlanSummary) -> "SampleRatio | None":
    """Sizes of the launch; None without a second group that was planned."""
    planned = {str(arm): share for arm, share in planned_shares(record.plan).items() if share > 0}
    found = {str(arm): group.customers for arm, group in summary.arms.items() if group.customers}
    if len(planned) < 2 or not found.keys() <= planned.keys():
        return None
    from disco.evaluation.read_out import sample_ratio  # the list does without the read-out

    return sample_ratio(found, planned)


# ---- decisions in counts ----
#
# Who got which depth: counts by group and by a property of the customers, summed up in the columns that are kept.

Division = Literal["segment", "channel", "history"]
"""What customers are divided by: the plan's segments, their channels, or whether they bought in the past year."""
KNOWN, NEW = "Bought in the past year", "No purchase in the past year"
_EMPTY = "(empty)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCell:
    """Customers of one part and one group who got the same depth."""

    part: str
    """The value of the segment or channel, or the history."""
    arm: Arm
    """decided, control or holdout."""
    late: bool
    """Whether they arrived after the launch."""
    depth: float | None
    """None: no code."""
    customers: int
    """Number of customers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionCounts:
    """The decisions of a campaign in counts."""

    campaign: str
    """The name of the campaign."""
    by: Division
    """What customers are divided by."""
    divisions: tuple[Division, ...]
    """What they can be divided by."""
    depths: tuple[float, ...]
    """Those offered, ascending."""
    segment_column: str | None = None
    """The column of the customers table whose values are the plan's segments; None: the plan has none."""
    cells: tuple[DecisionCell, ...]
    """Every combination that occurs; those of one part follow each other, the largest part first."""

    @property
    def customers(self) -> int:
        """Everybody who was decided about."""
        return sum(cell.customers for cell in self.cells)

    @property
    def codes(self) -> int:
        """Those who got a code."""
        return sum(cell.customers for cell in self.cells if cell.depth is not None)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the customers, the largest first."""
        return tuple(dict.fromkeys(cell.part for cell in self.cells))

    def count(
        self, *, part: str | None = None, arm: Arm | None = None, depths: Sequence[float | None] | None = None
    ) -> int:
        """Customers of a part, of a group, with one of these depths (None: no code); whatever is not said is any."""
        return sum(
            cell.customers
            for cell in self.cells
            if (part is None or cell.part == part)
            and (arm is None or cell.arm is arm)
            and (depths is None or cell.depth in depths)
        )


def decision_counts(store: Store, campaign: str, *, by: str | None = None) -> DecisionCounts:
    """Count the decisions of a campaign, late arrivals included. by: a `Division`; None: the first there is."""
    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
    divisions = divisions_of(record.plan)
    chosen = divisions[0] if by is None else next((one for one in divisions if one == by), None)
    if chosen is None:
        raise InputError("by", found=repr(str(by)[:40]), expected=" or ".join(divisions))
    columns = pa.table(
        {
            "part": parts_of(decisions, chosen),
            "arm": decisions["arm"],
            "late": decisions["late"],
            "depth": decisions["depth"],
        }
    )
    counted = columns.group_by(["part", "arm", "late", "depth"]).aggregate([([], "count_all")]).to_pylist()
    sizes: Counter[str] = Counter()
    for row in counted:
        sizes[row["part"]] += row["count_all"]
    cells = [
        DecisionCell(
            part=row["part"], arm=Arm(row["arm"]), late=row["late"], depth=row["depth"], customers=row["count_all"]
        )
        for row in counted
    ]
    cells.sort(key=lambda one: (-sizes[one.part], one.part, one.arm, one.late, one.depth is None, one.depth or 0.0))
    return DecisionCounts(
        campaign=campaign,
        by=chosen,
        divisions=divisions,
        depths=tuple(record.plan.offered),
        segment_column=None if record.plan.segments is None else record.plan.segments.column,
        cells=tuple(cells),
    )


def divisions_of(plan: Plan) -> tuple[Division, ...]:
    """What the customers of a plan can be divided by, from what is kept with their decisions."""
    found: list[Division] = []
    if plan.segments is not None:
        found.append("segment")
    if plan.channel_column is not None:
        found.append("channel")
    return (*found, "history")


SPEND = "spend_365d"
"""The feature by which customers are ranked: what they spent in the year before."""


def ranks_of_spend(spend: Vector, known: Flags, *, parts: int) -> Integers:
    """(n,) the part that each customer who bought something belongs to, when those are cut into so many equal parts by
    what they spent, from 0 for the least; ties by row; -1 for all others."""
    rows = np.flatnonzero(known)
    order = rows[np.argsort(np.nan_to_num(spend)[rows], kind="stable")]
    place = np.full(known.size, -1, np.int64)
    place[order] = np.arange(order.size) * parts // max(order.size, 1)
    return place


def parts_of(decisions: pa.Table, by: Division) -> pa.ChunkedArray:
    """(n,) the part that each customer belongs to."""
    if by == "history":
        return pc.if_else(decisions["known"], KNOWN, NEW)
    return pc.fill_null(decisions[by], _EMPTY)
