"""Outcomes in, exactly once, and batches out again as if they had never come.

A batch is read, judged with the rows it is related to, and applied: its rows, the dispositions it changes elsewhere and
the evidence it moves are one transaction. Only rows that share an event, a code or a reference with the batch are read,
however long the ledger is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from disco.operations import campaign_evidence
from disco.operations.amounts import amount_warnings
from disco.operations.codes import sent_codes
from disco.operations.door import codes_in, known_columns, read_outcomes, sharers_in
from disco.operations.exporting import csv_safe
from disco.operations.net_purchases import CONFLICT, NetPurchases, counts_of, judge, net_purchases
from disco.records.arrays import Flags
from disco.records.content import content_hash
from disco.records.decisions import IngestCounts
from disco.records.errors import StateError
from disco.records.files import written_whole
from disco.records.kept import APPLIED, OUTCOMES
from disco.records.life import BatchRecord, CampaignRecord, Disposition, LedgerMove, State
from disco.records.ports import Clock
from disco.records.result import Result
from disco.records.tables import ROWS
from disco.records.validation.checker import first_row, good_cells
from disco.records.wording import counted, moment_text
from disco.store import Store, Transaction
from disco.store.ledger import SqlLedger

if TYPE_CHECKING:
    from disco.operations.audience import ShopData

_CLOCK_SLACK = timedelta(days=1)  # times without a zone may be of another one than the shop's
_ID_LENGTH = 16
_DECIDED = ("row", "customer_id", "arm", "depth", "code", "known", "late")
_QUARANTINE = ("row", "event_id", "customer_id", "code", "disposition", "reason", "raw")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why rows of a batch were not applied."""

    disposition: Disposition
    """duplicate, expired, unmatched or rejected."""
    reason: str
    """Why, in a sentence."""
    rows: int
    """Rows with this reason."""
    first_row: int
    """The first of them: in a CSV file as a spreadsheet numbers it (the header is row 1), elsewhere counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ingested(Result):
    """What became of a batch of outcomes: received = applied + duplicate + expired + unmatched + rejected."""

    batch_id: str
    """`disco revert` takes it."""
    campaign: str
    """The name of the campaign."""
    received: int
    """Rows of the batch."""
    applied: int
    """Rows that count."""
    duplicate: int
    """Rows about an event that was received before."""
    expired: int
    """Purchases after their code had expired or was recalled, and outcomes of a closed campaign."""
    unmatched: int
    """Rows that fit no code, customer or event of the campaign."""
    rejected: int
    """Rows that cannot be read as an outcome, or contradict what counts."""
    reasons: tuple[Reason, ...]
    """Why rows were not applied."""
    redisposed: int
    """Rows of earlier batches that count differently now."""
    purchases_before: int
    """Among the codes this batch is about: those with a purchase before it."""
    purchases_after: int
    """Among the same codes: those with a purchase now."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""

    @property
    def counts(self) -> IngestCounts:
        return IngestCounts(**{one.name: getattr(self, one.name) for one in fields(IngestCounts)})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reverted(Result):
    """A batch of outcomes taken out again."""

    batch_id: str
    """The id of the batch."""
    campaign: str
    """The name of the campaign."""
    counts: IngestCounts
    """What had become of its rows."""
    redisposed: int
    """Rows of other batches that count differently now."""
    purchases_before: int
    """Among the codes the batch is about: those with a purchase while it counted."""
    purchases_after: int
    """Among the same codes: those with a purchase now."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Quarantine(Result):
    """The rows of a batch that are not applied, written to a file: row (in a CSV file as a spreadsheet numbers it),
    event_id, customer_id, code, disposition, reason, raw."""

    batch_id: str
    """The id of the batch."""
    campaign: str
    """The name of the campaign."""
    file: str
    """The CSV file."""
    rows: int
    """Rows in it."""


def ingest(
    store: Store,
    campaign: str,
    outcomes: pa.Table,
    *,
    source: str,
    clock: Clock,
    data: "ShopData | None" = None,
    dry_run: bool = False,
) -> Ingested:
    """Receive a batch of outcomes. received = applied + duplicate + expired + unmatched + rejected, always.

    The result is that of all rows received so far, whatever their order and however they were cut into batches.
    data: the shop's tables, with whose orders the amounts are compared for a warning.
    """
    outcomes, numbers = _numbered(known_columns(outcomes, file=source))
    content = content_hash(outcomes)
    with store.writing(campaign, action="ingest", dry_run=dry_run) as transaction:
        record, earlier = transaction.plans.campaign(campaign), transaction.ledger.batches(campaign)
        batch = BatchRecord(
            batch_id=batch_name(campaign, len(earlier), content),
            campaign=campaign,
            source=source,
            content_hash=content,
            received_at=clock.now(),
        )
        rows, decisions = _read(transaction, record, outcomes, batch.batch_id, numbers)
        related = related_rows(transaction.ledger, campaign, outside_quarantine(rows))
        change = _judge_arrival(related, rows, recalled_at=record.recalled_at)
        _apply(transaction, record, batch, change, decisions=decisions)
        received = change.received
        assert received is not None
        transaction.journal.note(batch_id=batch.batch_id, **asdict(counts_of(received)))
    again = next((other for other in earlier if other.content_hash == content and other.reverted_at is None), None)
    return Ingested(
        batch_id=batch.batch_id,
        campaign=campaign,
        **asdict(counts_of(received)),
        reasons=_reasons(received, first_row=first_row(source)),
        redisposed=change.redisposed.num_rows,
        purchases_before=change.before.purchases,
        purchases_after=change.after.purchases,
        warnings=(
            *_warnings(
                received,
                change.after,
                again,
                received_at=store.locale.local(batch.received_at),
                first_row=first_row(source),
            ),
            *_contradictions(received, outcomes.column_names, first_row=first_row(source)),
            *_odd_amounts(store, data, record, received),
        ),
        dry_run=dry_run,
    )


def revert(store: Store, batch_id: str, *, clock: Clock, dry_run: bool = False) -> Reverted:
    """Take a batch back: ledger, dispositions and evidence become exactly what they are without it."""
    with store.reading() as transaction:
        campaign = transaction.ledger.batch(batch_id).campaign
    with store.writing(campaign, action="revert", dry_run=dry_run) as transaction:
        batch, record = transaction.ledger.batch(batch_id), transaction.plans.campaign(campaign)
        if batch.reverted_at is not None:
            raise StateError(
                f"batch {batch.batch_id}",
                found=f"reverted on {moment_text(batch.reverted_at, store.locale)}",
                expected="a batch in force",
                fix="Ingest its file again to count it again.",
            )
        rows = transaction.ledger.outcomes(campaign, batch_id=batch.batch_id)
        related = related_rows(transaction.ledger, campaign, outside_quarantine(rows))
        change = _judge_departure(related, batch.batch_id, recalled_at=record.recalled_at)
        _apply(transaction, record, replace(batch, reverted_at=clock.now()), change)
        transaction.journal.note(batch_id=batch.batch_id, rows=rows.num_rows)
    return Reverted(
        batch_id=batch.batch_id,
        campaign=campaign,
        counts=counts_of(rows),
        redisposed=change.redisposed.num_rows,
        purchases_before=change.before.purchases,
        purchases_after=change.after.purchases,
        dry_run=dry_run,
    )


def batch_name(campaign: str, place: int, content: str) -> str:
    """The id of a batch: the hash of its campaign, its place among the campaign's batches, and its content."""
    return sha256(f"{campaign}\x1f{place}\x1f{content}".encode()).hexdigest()[:_ID_LENGTH]


# ---- read ----


def _numbered(outcomes: pa.Table) -> tuple[pa.Table, pa.ChunkedArray | None]:
    """The rows as they were sent, and their numbers where the file has empty lines, which are no part of what it says.

    The same rows are the same content wherever the empty lines are.
    """
    if ROWS not in outcomes.column_names:
        return outcomes, None
    return outcomes.drop_columns([ROWS]), outcomes[ROWS]


def _read(
    transaction: Transaction,
    record: CampaignRecord,
    outcomes: pa.Table,
    batch_id: str,
    numbers: pa.ChunkedArray | None,
) -> tuple[pa.Table, pa.Table]:
    """The received rows, as kept.OUTCOMES, and the decisions about their codes.

    Rows in quarantine have their disposition, the others have none yet.
    """
    codes, shared = codes_in(outcomes), record.plan.shared_codes
    decisions = transaction.decisions.of(record.campaign, codes=codes)
    if record.plan.codes.pool is not None and len(_new(codes, decisions["code"].combine_chunks())):
        decisions = transaction.decisions.of(record.campaign)  # codes bought elsewhere need not be in capitals
    elif shared:
        sharers = sharers_in(outcomes, shared.values())
        decisions = pa.concat_tables([decisions, transaction.decisions.of(record.campaign, customers=sharers)])
    decisions = decisions.select(list(_DECIDED))  # of a million rows the other columns take as much memory again
    rows = read_outcomes(
        outcomes,
        campaign=record.campaign,
        decisions=decisions,
        start=record.plan.valid.opens,
        end=record.plan.valid.closes,
        closed=record.state is State.CLOSED,
        other_campaigns=transaction.plans.names(),
        shared=shared,
        locale=transaction.locale,
        rows=numbers,
    )
    rows = _without_forgotten(transaction, record, rows, outcomes["customer_id"])
    return rows.add_column(0, "batch_id", pa.repeat(batch_id, rows.num_rows)), decisions


def _without_forgotten(
    transaction: Transaction, record: CampaignRecord, rows: pa.Table, customers: pa.ChunkedArray
) -> pa.Table:
    """The rows, of which nothing is kept where the customer was forgotten after the launch."""
    named = good_cells("outcomes", "customer_id", customers.combine_chunks())
    forgotten = transaction.forgotten.among(_one_by_one(named), since=record.launched_at)
    if not forgotten:
        return rows
    theirs = pc.fill_null(pc.is_in(named, value_set=pa.array(sorted(forgotten), pa.string())), False)
    kept = {"disposition": str(Disposition.UNMATCHED), "reason": "the customer was forgotten", "raw": "{}"}
    columns = [
        column if name == "row" else pc.if_else(theirs, pa.scalar(kept.get(name), column.type), column)
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    return pa.table(columns, names=rows.column_names)


def _one_by_one(texts: pa.Array) -> Iterator[str]:
    """The distinct ones; nothing is done for somebody who does not ask for the first of them."""
    yield from distinct_values(texts).to_pylist()


def outside_quarantine(rows: pa.Table) -> pa.Table:
    """Rows that are judged with others; a row in quarantine is kept as raw text and never looked at again."""
    return rows if rows["raw"].null_count == rows.num_rows else rows.filter(rows["raw"].is_null())


def related_rows(ledger: SqlLedger, campaign: str, rows: pa.Table) -> pa.Table:
    """All rows in force that share an event, a code or a reference with these, directly or through others.

    Found by asking, never by reading the whole ledger; by batch as received, then row.
    """
    found = OUTCOMES.empty_table()
    asked: dict[str, pa.Array] = {name: pa.array([], pa.string()) for name in ("event", "code")}
    batches = ledger.batches(campaign)
    newcomers = rows if any(batch.reverted_at is None for batch in batches) else rows.slice(0, 0)
    while newcomers.num_rows:
        events = _new(distinct_values(newcomers["event_id"], newcomers["refers_to"]), asked["event"])
        codes = _new(distinct_values(newcomers["code"]), asked["code"])
        if not len(events) and not len(codes):
            break
        asked = {"event": pa.concat_arrays([asked["event"], events]), "code": pa.concat_arrays([asked["code"], codes])}
        together = _distinct(pa.concat_tables([found, ledger.sharing(campaign, events=events, codes=codes)]))
        newcomers = together.slice(found.num_rows)
        found = together
    if not found.num_rows:
        return found
    received = pa.array([batch.batch_id for batch in batches])
    order = pa.table({"batch": pc.index_in(found["batch_id"], value_set=received), "row": found["row"]})
    return found.take(pc.sort_indices(order, [("batch", "ascending"), ("row", "ascending")]))


def distinct_values(*columns: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The distinct values of these columns, nulls left out."""
    chunks = [
        chunk for column in columns for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    ]
    return pc.drop_null(pc.unique(pa.chunked_array(chunks, pa.string())))


def _new(asked: pa.Array, known: pa.Array) -> pa.Array:
    if not len(known):
        return asked
    return asked.filter(pc.invert(pc.is_in(asked, value_set=known)))


def _distinct(rows: pa.Table) -> pa.Table:
    """Each row once, the first time it was found."""
    if not rows.num_rows:
        return rows
    numbered = rows.select(["batch_id", "row"]).append_column("at", pa.array(np.arange(rows.num_rows)))
    first = numbered.group_by(["batch_id", "row"]).aggregate([("at", "min")])["at_min"]
    return rows.take(np.sort(first.to_numpy())) if len(first) < rows.num_rows else rows


# ---- judge ----


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Change:
    """What a batch changes, before anything is written."""

    received: pa.Table | None  # its rows with their dispositions; None when it leaves
    redisposed: pa.Table  # batch_id, row, disposition, reason of other rows whose disposition changes
    before: NetPurchases  # of the codes it touches
    after: NetPurchases


def _judge_arrival(before: pa.Table, rows: pa.Table, *, recalled_at: datetime | None) -> _Change:
    """`rows` arrive and are judged together with the related rows that are there."""
    together = pa.concat_tables([before, outside_quarantine(rows)], promote_options="default")
    judged = judge(together, recalled_at=recalled_at)
    disposed = _disposed(together, judged.disposition, judged.reason)
    received = disposed.slice(before.num_rows)
    if received.num_rows < rows.num_rows:
        aside = rows.filter(rows["raw"].is_valid())
        received = pa.concat_tables([aside, received], promote_options="default").sort_by("row")
    return _Change(
        received=received.select(OUTCOMES.names).cast(OUTCOMES),
        redisposed=_redisposed(before, disposed.slice(0, before.num_rows)),
        before=_applied_purchases(before),
        after=_purchases(together, judged.applied),
    )


def _judge_departure(before: pa.Table, batch_id: str, *, recalled_at: datetime | None) -> _Change:
    """The rows of a batch leave, and what is left is judged without them."""
    left = before.filter(pc.not_equal(before["batch_id"], batch_id))
    judged = judge(left, recalled_at=recalled_at)
    return _Change(
        received=None,
        redisposed=_redisposed(left, _disposed(left, judged.disposition, judged.reason)),
        before=_applied_purchases(before),
        after=_purchases(left, judged.applied),
    )


def misjudged(rows: pa.Table, *, recalled_at: datetime | None) -> pa.Table:
    """batch_id, row, disposition, reason as the rules give them, of the rows in force that have others.

    rows: all of a campaign; those in quarantine are left out. recalled_at: of the campaign.
    """
    kept = outside_quarantine(rows)
    judged = judge(kept, recalled_at=recalled_at)
    return _redisposed(kept, _disposed(kept, judged.disposition, judged.reason))


def _disposed(rows: pa.Table, disposition: pa.Array, reason: pa.Array) -> pa.Table:
    for name, column in (("disposition", disposition), ("reason", reason)):
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def _redisposed(before: pa.Table, after: pa.Table) -> pa.Table:
    """The rows whose disposition, or its reason, is another than it was."""
    same = pc.and_(
        pc.equal(before["disposition"], after["disposition"]),
        pc.equal(pc.fill_null(before["reason"], ""), pc.fill_null(after["reason"], "")),
    )
    return after.filter(pc.invert(same)).select(["batch_id", "row", "disposition", "reason"])


def _applied_purchases(rows: pa.Table) -> NetPurchases:
    return _purchases(rows, pc.equal(rows["disposition"], str(Disposition.APPLIED)).to_numpy())


def _purchases(rows: pa.Table, applied: Flags) -> NetPurchases:
    told = rows.select(APPLIED.names)
    return net_purchases(told if applied.all() else told.filter(pa.array(applied)))


# ---- apply ----


def _apply(
    transaction: Transaction,
    record: CampaignRecord,
    batch: BatchRecord,
    change: _Change,
    *,
    decisions: pa.Table | None = None,
) -> None:
    transaction.ledger.apply(LedgerMove(batch=batch, received=change.received, changes=change.redisposed))
    campaign_evidence.update(transaction, record, before=change.before, after=change.after, decisions=decisions)


def _reasons(received: pa.Table, *, first_row: int) -> tuple[Reason, ...]:
    missed = received.filter(pc.not_equal(received["disposition"], str(Disposition.APPLIED)))
    grouped = missed.group_by(["disposition", "reason"]).aggregate([("row", "count"), ("row", "min")]).to_pylist()
    reasons = (
        Reason(Disposition(group["disposition"]), group["reason"], group["row_count"], group["row_min"] + first_row)
        for group in grouped
    )
    return tuple(sorted(reasons, key=lambda reason: (list(Disposition).index(reason.disposition), reason.first_row)))


def _warnings(
    received: pa.Table, after: NetPurchases, again: BatchRecord | None, *, received_at: datetime, first_row: int
) -> tuple[str, ...]:
    warnings = []
    latest = pa.scalar(received_at + _CLOCK_SLACK, received.schema.field("ordered_at").type)
    counts = pc.and_(
        pc.equal(received["disposition"], str(Disposition.APPLIED)), pc.equal(received["kind"], "purchase")
    )
    early = pc.and_(counts, pc.greater(received["ordered_at"], latest))
    if count := int(pc.sum(early).as_py() or 0):
        first = received["row"][pc.index(pc.fill_null(early, False), True).as_py()].as_py()
        warnings.append(
            f"{counted(count, 'purchase')} dated after the day of receipt, {received_at:%Y-%m-%d} "
            f"(the first in row {first + first_row:,}); check the clock and the dates"
        )
    if again is not None:
        warnings.append(f"the same rows were received before, as batch {again.batch_id} from {again.source}")
    if after.over_refunded:
        warnings.append(f"{after.over_refunded:,} purchases have refunds above their amount and count as nothing")
    return tuple(warnings)


def _odd_amounts(store: Store, data: "ShopData | None", record: CampaignRecord, received: pa.Table) -> tuple[str, ...]:
    if data is None:
        return ()
    counts = pc.and_(
        pc.equal(received["disposition"], str(Disposition.APPLIED)), pc.equal(received["kind"], "purchase")
    )
    with store.reading() as transaction:
        return amount_warnings(
            transaction, data, record.campaign, received.filter(counts), start=record.plan.valid.start
        )


def _contradictions(received: pa.Table, given: Sequence[str], *, first_row: int) -> tuple[str, ...]:
    """Amounts of one purchase that differ: in an export of orders, mostly because it has a row per article."""
    differ = received.filter(pc.equal(received["reason"], CONFLICT))
    if "kind" in given or not differ.num_rows:
        return ()
    row = differ["row"][0].as_py() + first_row
    return (
        f"{counted(differ.num_rows, 'row')} (the first is row {row:,}) with the order, or customer, code and time, of "
        "another row, but another amount: the smallest amount counts. Does the file have a row per article? Give one "
        "row per order, with the value of the whole basket",
    )


def write_quarantine(store: Store, batch_id: str, *, file: Path) -> Quarantine:
    """Write the rows of a batch that are not applied to a CSV file, with cells made safe for a spreadsheet."""
    with store.reading() as transaction:
        batch = transaction.ledger.batch(batch_id)
    aside = quarantined_rows(store, batch)
    with written_whole(file) as unfinished:
        pacsv.write_csv(csv_safe(aside), unfinished)
    return Quarantine(batch_id=batch.batch_id, campaign=batch.campaign, file=str(file), rows=aside.num_rows)


def quarantined_rows(store: Store, batch: BatchRecord | Ingested) -> pa.Table:
    """The rows of a batch that are not applied, with their reasons; `row` as a spreadsheet numbers a CSV file."""
    with store.reading() as transaction:
        source = transaction.ledger.batch(batch.batch_id).source
        rows = transaction.ledger.outcomes(batch.campaign, batch_id=batch.batch_id)
        plan = transaction.plans.campaign(batch.campaign).plan
        if plan.shared_codes:  # as they were received, not as they are kept
            decisions = transaction.decisions.of(batch.campaign, codes=distinct_values(rows["code"]))
            place = pc.index_in(rows["code"].combine_chunks(), value_set=decisions["code"].combine_chunks())
            received = pc.coalesce(sent_codes(plan, decisions).take(place), rows["code"].combine_chunks())
            rows = rows.set_column(rows.schema.get_field_index("code"), "code", received)
    aside = rows.filter(pc.not_equal(rows["disposition"], str(Disposition.APPLIED))).select(list(_QUARANTINE))
    return aside.set_column(0, "row", pc.add(aside["row"], first_row(source)))
