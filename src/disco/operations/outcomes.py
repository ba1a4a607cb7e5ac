"""Outcomes in, exactly once, and batches out again as if they had never come.

A batch is read, judged with the rows it is related to, and applied: its rows, the dispositions it changes elsewhere and
the evidence it moves are one transaction. Only rows that share an event, a code or a reference with the batch are read,
however long the ledger is.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from disco.operations.codes import own_codes, sent_codes, which_shared
from disco.operations.export import csv_safe
from disco.operations.learn import rebuilt_evidence, update_evidence
from disco.operations.purchases import CONFLICT, NetPurchases, counts_of, judge, net_purchases
from disco.records.arrays import Flags, Integers, Vector
from disco.records.arrow_tables import content_hash
from disco.records.campaign_records import CampaignRecord, Disposition, State
from disco.records.cells import by_wall_clock, cell_texts, flags, microseconds, plain_column
from disco.records.decisions import IngestCounts
from disco.records.depths import depth_percent
from disco.records.errors import InputError, StateError
from disco.records.files import written_whole
from disco.records.identity import places_in
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.money import GBP, Currency, from_minor_units
from disco.records.ports import Clock, locale_of
from disco.records.result import Result
from disco.records.table_rules import CheckedRows, check_columns, check_rows, first_row, readable, start_of_day
from disco.records.tables import CELLS, ROWS, SCHEMAS
from disco.records.wording import counted, moment_text, money, percent
from disco.store import Store, Transaction
from disco.store.ledger import BatchRecord, LedgerMove, SqlLedger
from disco.store.schema import APPLIED, OUTCOMES

if TYPE_CHECKING:
    from disco.operations.audience import ShopData

_CLOCK_SLACK = timedelta(days=1)  # times without a zone may be of another one than the shop's
_ID_LENGTH = 16
_DECIDED = ("row", "customer_id", "arm", "depth", "code", "known", "late")
OF_ANOTHER, UNSENT = "the code of another customer", "a shared code that this customer was not sent"
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
            *_odd_amounts(data, record, decisions, received, locale=store.locale),
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
    """The received rows, as schema.OUTCOMES, and the decisions about their codes.

    Rows in quarantine have their disposition, the others have none yet.
    """
    checked = check_rows("outcomes", outcomes, transaction.locale)
    codes, shared = codes_in(checked), record.plan.shared_codes
    decisions = transaction.decisions.of(record.campaign, codes=codes)
    if record.plan.codes.pool is not None and len(_new(codes, decisions["code"].combine_chunks())):
        decisions = transaction.decisions.of(record.campaign)  # codes bought elsewhere need not be in capitals
    elif shared:
        sharers = sharers_in(checked, shared.values())
        decisions = pa.concat_tables([decisions, transaction.decisions.of(record.campaign, customers=sharers)])
    decisions = decisions.select(list(_DECIDED))  # of a million rows the other columns take as much memory again
    rows = read_outcomes(
        outcomes,
        checked,
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
    rows = _without_forgotten(transaction, record, rows, checked.table["customer_id"].combine_chunks())
    return rows.add_column(0, "batch_id", pa.repeat(batch_id, rows.num_rows)), decisions


def _without_forgotten(transaction: Transaction, record: CampaignRecord, rows: pa.Table, named: pa.Array) -> pa.Table:
    """The rows, of which nothing is kept where the customer (`named`, text) was forgotten after the launch."""
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


def count_again(transaction: Transaction, record: CampaignRecord) -> None:
    """Dispositions and evidence as if what is known now had been known when every outcome came: a recall, or another
    name of a customer."""
    wrong = misjudged(transaction.ledger.outcomes(record.campaign), recalled_at=record.recalled_at)
    if wrong.num_rows:
        transaction.ledger.redispose(wrong)
    for network in transaction.beliefs.networks(record.campaign):
        again = rebuilt_evidence(transaction, record, network)
        transaction.beliefs.put_evidence(record.campaign, network, again.to_bytes())


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
    update_evidence(transaction, record, before=change.before, after=change.after, decisions=decisions)


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
    early = pc.and_(_purchases_that_count(received), pc.greater(received["ordered_at"], latest))
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


def _odd_amounts(
    data: "ShopData | None", record: CampaignRecord, decisions: pa.Table, received: pa.Table, *, locale: Locale
) -> tuple[str, ...]:
    if data is None:
        return ()
    purchases = received.filter(_purchases_that_count(received))
    return amount_warnings(data, decisions, purchases, start=record.plan.valid.start, currency=locale.currency)


def _purchases_that_count(received: pa.Table) -> pa.ChunkedArray:
    """(n,) which of these rows do."""
    applied = pc.equal(received["disposition"], str(Disposition.APPLIED))
    return pc.and_(applied, pc.equal(received["kind"], "purchase"))


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


# ---- outcome rows ----
#
# Outcomes as the ledger receives them: each row is read once, or goes into quarantine with the reason.
#
# An export of orders is enough: code, customer, time and amount. Such rows are purchases of the campaign that is
# named in the command. Their event is the order, where the file has `order_id`, else it is made of the customer, the
# code and the time: the same purchase has the same event in every file, and two rows that agree in all three are one
# purchase.
#
# A row is set aside here when it breaks a rule of the outcomes table (`records.validation`), belongs to another
# campaign or customer, or lies outside its code's validity. All other rows are judged together with everything else
# received, in `purchases.py`.

_MOMENT = pa.timestamp("us", "UTC")
LONGEST_RAW_BYTES = 4096
"""Of a row in quarantine, kept as it was sent: its cells share this space."""


def read_outcomes(
    outcomes: pa.Table,
    checked: CheckedRows,
    *,
    campaign: str,
    decisions: pa.Table,
    start: date | datetime,
    end: date | datetime,
    closed: bool,
    other_campaigns: Collection[str] = (),
    shared: Mapping[float, str] | None = None,
    locale: Locale = POUNDS_UTC,
    rows: pa.ChunkedArray | None = None,
) -> pa.Table:
    """The received rows as the ledger keeps them (without batch_id); `disposition` is null outside quarantine.

    outcomes: as `known_columns` gives them. checked: the same rows, by the rules of the table (`check_rows`).
    decisions: of the campaign, at least those of the codes in the outcomes (`codes_in`), and of customers who name a
    shared one (`sharers_in`).
    start, end: when the codes' validity begins and ends, by the clock of the shop. locale: of the shop.
    other_campaigns: names that mean another campaign, even where they differ from this one's in their case only.
    shared: by depth, the code of all who get it. A row that names one is kept with the customer's own code instead.
    rows: their numbers in the file, from 0, rising; None: 0, 1, 2, ….
    """
    table = _completed(checked.table, outcomes.column_names, campaign=campaign)
    sent = decisions["code"].combine_chunks()
    place = places_in(table["code"].combine_chunks(), among=sent)
    if place.null_count > table["code"].null_count:  # some are written otherwise, or are none
        table = _set(table, "code", known_codes(table["code"].combine_chunks(), sent))
        place = places_in(table["code"].combine_chunks(), among=sent)
    unsent = np.zeros(table.num_rows, np.bool_)
    if shared:
        customers, typed = (table[name].combine_chunks() for name in ("customer_id", "code"))
        own, unsent = own_codes(shared, customers, typed, decisions)
        table = _set(table, "code", own)
        place = places_in(own, among=sent)
    if not _is_alike_another(campaign, other_campaigns):
        named = pc.equal(pc.utf8_lower(table["campaign_id"]), campaign.lower())
        table = _set(table, "campaign_id", pc.if_else(named, campaign, table["campaign_id"]))
    broken = checked.fault >= 0
    quarantined = np.zeros(table.num_rows, np.bool_)
    disposition = np.full(table.num_rows, None, object)
    reason = np.full(table.num_rows, None, object)
    if closed:
        tests = [(Disposition.EXPIRED, "the campaign is closed", quarantined)]
    else:
        disposition[broken] = str(Disposition.REJECTED)
        reason[broken] = checked.reasons()
        if CELLS in outcomes.column_names:
            reason = np.where(flags(outcomes[CELLS].is_valid()), outcomes[CELLS].to_numpy(), reason)
        quarantined = broken
        validity = (locale.moment(start), locale.moment(end))
        owner = decisions["customer_id"].cast(pa.string()).combine_chunks().take(place)
        tests = _tests(table, campaign=campaign, owner=owner, validity=validity, unsent=unsent)
    for kind, words, passed in tests:  # the first test that fails gives the reason
        failed = ~passed & ~quarantined
        disposition[failed], reason[failed] = str(kind), words
        quarantined = quarantined | failed
    purchase = pc.fill_null(pc.equal(table["kind"], "purchase"), False)
    return pa.table(
        {
            "row": pa.array(np.arange(table.num_rows)) if rows is None else rows,
            **{name: table[name] for name in ("event_id", "customer_id", "code", "kind")},
            "refers_to": pc.if_else(purchase, pa.scalar(None, pa.string()), table["refers_to"]),
            "ordered_at": table["ordered_at"],
            "full_price_minor": table["full_price_minor"],
            "disposition": pa.array(disposition, pa.string()),
            "reason": pa.array(reason, pa.string()),
            "raw": _raw(outcomes, quarantined),
        }
    )


def _completed(table: pa.Table, given: Collection[str], *, campaign: str) -> pa.Table:
    """The checked rows with what an export of orders leaves out."""
    if "kind" not in given:
        table = _set(table, "kind", pa.repeat(pa.scalar("purchase"), table.num_rows))
    if "campaign_id" not in given:
        table = _set(table, "campaign_id", pa.repeat(pa.scalar(campaign), table.num_rows))
    if "event_id" not in given:
        table = _set(table, "event_id", _event_ids(table, campaign))
    return table


def _event_ids(table: pa.Table, campaign: str) -> pa.Array:
    """32 hexadecimal digits of SHA-256(campaign, customer, code, time in UTC microseconds), U+001F between them."""
    parts = [table["customer_id"], table["code"], table["ordered_at"].cast(pa.int64()).cast(pa.string())]
    texts = pc.binary_join_element_wise(campaign, *parts, "\x1f", null_handling="replace", null_replacement="")
    return pa.array([sha256(text.encode()).hexdigest()[:32] for text in texts.to_pylist()], pa.string())


def _set(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def _is_alike_another(name: str, others: Collection[str]) -> bool:
    return any(other != name and other.lower() == name.lower() for other in others)


def known_codes(codes: pa.Array, known: pa.Array) -> pa.Array:
    """The codes as the campaign writes them, whatever their case and spaces around them; not where two are alike."""
    known = pc.unique(known.cast(pa.string()))
    alike = pc.utf8_upper(known)
    counts = pc.value_counts(alike)
    once = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
    meant = known.filter(pc.is_in(alike, value_set=once))
    found = meant.take(pc.index_in(_plain_codes(codes), value_set=pc.utf8_upper(meant)))
    return pc.if_else(pc.is_in(codes, value_set=known), codes, pc.coalesce(found, codes))


def _plain_codes(codes: pa.Array) -> pa.Array:
    return pc.utf8_upper(pc.utf8_trim_whitespace(codes))


def known_columns(outcomes: pa.Table, *, file: str = "outcomes") -> pa.Table:
    """The columns of the outcomes table, plainly typed; what else a file brings is left alone.

    Where there is no event_id, order_id is it.

    A column of text of which a cell is not UTF-8 comes as bytes, so that its row alone is set aside.

    TableError where a column is missing, there twice, or of a type that can never hold what it should.
    """
    for column in SCHEMAS["outcomes"].columns:
        if column.instead and column.name not in outcomes.column_names and column.instead in outcomes.column_names:
            names = [column.name if name == column.instead else name for name in outcomes.column_names]
            outcomes = outcomes.rename_columns(names)
    declared = check_columns(outcomes.schema, "outcomes", file=file)
    columns = {}
    for column in declared:
        if column.name in outcomes.column_names:
            columns[column.name] = plain_column(outcomes[column.name].combine_chunks())
    for beside in (CELLS, ROWS):
        if beside in outcomes.column_names:
            columns[beside] = outcomes[beside].combine_chunks()
    return pa.table(columns)


def codes_in(checked: CheckedRows) -> pa.Array:
    """The codes of the rows, of those cells that can be a code, as written and in capitals, as codes are made."""
    codes = pc.drop_null(checked.table["code"].combine_chunks())
    plain = _plain_codes(codes)
    return codes if plain.equals(codes) else pc.unique(pa.concat_arrays([codes, plain]))


def sharers_in(checked: CheckedRows, shared: Collection[str]) -> pa.Array:
    """The customers of rows with one of these shared codes."""
    named, codes = (checked.table[name].combine_chunks() for name in ("customer_id", "code"))
    return pc.drop_null(pc.unique(named.filter(which_shared(codes, shared).is_valid())))


def _tests(
    table: pa.Table, *, campaign: str, owner: pa.Array, validity: tuple[datetime, datetime], unsent: Flags
) -> list[tuple[Disposition, str, Flags]]:
    """What depends on the campaign: each test with what becomes of a row that fails it, in the order they are asked.

    owner (n,): the customer who has each row's code; null where nobody has. unsent (n,): rows with a shared code that
    the customer was not sent.
    """
    rejected, unmatched, expired = Disposition.REJECTED, Disposition.UNMATCHED, Disposition.EXPIRED
    changes = ~flags(pc.equal(table["kind"], "purchase"))
    first, after = (pa.scalar(moment.astimezone(UTC), _MOMENT) for moment in validity)
    return [
        (unmatched, "another campaign", flags(pc.equal(table["campaign_id"], campaign))),
        (unmatched, "a purchase without a code", changes | flags(table["code"].is_valid())),
        (unmatched, UNSENT, changes | ~unsent),
        (unmatched, "no such code in this campaign", changes | flags(owner.is_valid())),
        (unmatched, OF_ANOTHER, changes | flags(pc.equal(owner, table["customer_id"]))),
        (rejected, "ordered before the code was valid", changes | flags(pc.greater_equal(table["ordered_at"], first))),
        (expired, "ordered after the code had run out", changes | flags(pc.less(table["ordered_at"], after))),
    ]


def _raw(outcomes: pa.Table, quarantined: Flags) -> pa.Array:
    """The rows in quarantine as they were sent, as JSON of text; null for the others. Long cells are cut."""
    texts = np.full(outcomes.num_rows, None, object)
    rows: Integers = np.flatnonzero(quarantined)
    given = outcomes.take(rows)
    cells = {name: cell_texts(given[name].combine_chunks(), most=LONGEST_RAW_BYTES) for name in given.column_names}
    for place, row in enumerate(rows):
        sent = {name: text for name, column in cells.items() if (text := column[place]) is not None}
        texts[row] = json.dumps(sent)
        if len(texts[row]) > LONGEST_RAW_BYTES:
            texts[row] = json.dumps({name: _cut(text, most=_longest_cell(len(sent))) for name, text in sent.items()})
    return pa.array(texts, pa.string())


def _longest_cell(cells: int) -> int:
    """Characters of each cell so that the row fits: JSON writes a character with at most 6 bytes, two of them escaped
    pairs of 12, and each name and its marks take less than 20."""
    return (LONGEST_RAW_BYTES - 20 * cells) // (12 * cells)


def _cut(text: str, *, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# ---- amounts that look wrong ----
#
# Were amounts after the discount sent as full prices? Two looks at purchases whose depth is known.
#
# Orders   A purchase that is in the shop's own table of orders, by its code or its order id, should have that order's
#          full price, not the (1 − depth)th part of it.
# History  Where the orders are not there yet: a customer's basket should not be smaller with a code than without. The
#          expected ln(full price) of a customer is the mean of their earlier orders, shrunk towards everybody's by
#          k/(k + within/between) for k orders, so that customers chosen for a lucky past are not expected to repeat it.
#          Said where the mean shortfall is at least `_SHARE` of the discount's own, and `_SIGMAS` standard errors.
#
# Both only warn. Baskets that grow strongly with the depth hide the mistake from the second look.

MOST_ORDERS = 10_000_000
"""Longer tables of orders are not read for a warning."""
FEWEST_MATCHED = 5
FEWEST_PURCHASES = 50
_SHARE, _SIGMAS = 0.6, 4.0
_CLOSE = 0.01  # relative: amounts were rounded, perhaps article by article
_LOOKS = "full_price looks like the amount after the discount"
_FIX = "full_price is the value of the basket before the discount: export that column, and `disco revert` this batch"


def amount_warnings(
    data: "ShopData", decisions: pa.Table, applied: pa.Table, *, start: date, currency: Currency
) -> tuple[str, ...]:
    """What to say about the amounts of these purchases.

    decisions: at least those of their codes. applied: event_id, customer_id, code, full_price_minor of purchases that
    count. start: first day of the codes.
    """
    if applied.num_rows < FEWEST_MATCHED:
        return ()
    place = pc.index_in(applied["code"].combine_chunks(), value_set=decisions["code"].combine_chunks())
    depth = np.asarray(decisions["depth"].combine_chunks().take(place).to_numpy(zero_copy_only=False), np.float64)
    try:
        orders = _orders(data, applied)
    except InputError:  # what is wrong with the shop's tables is for `disco validate` to say
        return ()
    full_price = from_minor_units(applied["full_price_minor"].to_numpy(), currency)
    found = against_orders(applied, full_price, depth, orders, currency=currency)
    if found is None:
        ordinary = (orders["micros"].to_numpy() < start_of_day(start)) & ~flags(orders["code"].is_valid())
        earlier = orders.filter(pa.array(ordinary))
        people = pc.unique(applied["customer_id"].combine_chunks())
        found = against_history(
            _number_of(applied["customer_id"], people),
            full_price,
            depth,
            buyer=_number_of(earlier["customer_id"], people),
            amounts=earlier["full_price"].to_numpy(),
        )
    return (found,) if found else ()


def against_orders(
    rows: pa.Table, full_price: Vector, depth: Vector, orders: pa.Table, *, currency: Currency = GBP
) -> str | None:
    """The warning; empty where the orders say that all is well; None where too few of the purchases are among them.

    rows: event_id, code. full_price, depth: (n,) of these purchases. orders: order_id, code, full_price.
    """
    counts = pc.value_counts(orders["code"].combine_chunks())
    once = counts.field("values").filter(pc.equal(counts.field("counts"), 1))  # a shared code names no order
    by_code = orders.filter(pc.is_in(orders["code"], value_set=once)).select(["order_id", "code"])
    order = pc.coalesce(
        by_code["order_id"].combine_chunks().take(_place(rows["code"], by_code["code"])),
        rows["event_id"].combine_chunks(),
    )
    place = np.asarray(pc.fill_null(_place(order, orders["order_id"]), -1).to_numpy(zero_copy_only=False), np.int64)
    known = (place >= 0) & (depth > 0)
    if known.sum() < FEWEST_MATCHED:
        return None
    there = orders["full_price"].to_numpy()[place]
    after = known & (np.abs(full_price - there * (1 - depth)) <= _CLOSE * there)
    if after.sum() * 2 <= known.sum():
        return ""
    at, number = int(np.argmax(after)), counted(int(known.sum()), "purchase")
    here, whole = (money(amount, currency=currency, full=True) for amount in (full_price[at], there[at]))
    return (
        f"{_LOOKS}: {after.sum():,} of {number} that are also in the table orders have the order's full price less the "
        f"discount, such as code {rows['code'][at]} ({here} here, {whole} there, {depth_percent(depth[at])}). {_FIX}"
    )


def against_history(customer: Integers, full_price: Vector, depth: Vector, *, buyer: Integers, amounts: Vector) -> str:
    """The warning, or nothing.

    customer, full_price, depth: (n,) who bought (a number from 0), for how much, with which discount.
    buyer, amounts: (m,) the same of earlier orders without a code.
    """
    buyer, logs = buyer[amounts > 0], np.log(amounts[amounts > 0])
    expected, known = _expected_logs(buyer, logs, people=int(customer.max(initial=-1)) + 1)
    rows = known[customer] & (depth > 0) & (full_price > 0)
    if rows.sum() < FEWEST_PURCHASES:
        return ""
    shortfall = np.log(full_price[rows]) - expected[customer[rows]]
    mean, error = shortfall.mean(), shortfall.std(ddof=1) / np.sqrt(rows.sum())
    if mean >= _SHARE * np.log(1 - depth[rows]).mean() or mean >= -_SIGMAS * error:
        return ""
    below, off = (percent(share, decimals=0) for share in (1 - float(np.exp(mean)), float(depth[rows].mean())))
    return (
        f"{_LOOKS}: {counted(int(rows.sum()), 'purchase')} are {below} below what the same customers spent before, and "
        f"the mean discount is {off}. {_FIX}"
    )


def _expected_logs(buyer: Integers, logs: Vector, *, people: int) -> tuple[Vector, Flags]:
    """(people,) the shrunk mean of each customer's logs, and who has one."""
    orders = np.bincount(buyer, minlength=people)
    sums = np.bincount(buyer, weights=logs, minlength=people)
    known, k = orders > 0, np.maximum(orders, 1)
    means = sums / k
    if not known.any():
        return means, known
    within = ((logs - means[buyer]) ** 2).sum() / max(len(logs) - known.sum(), 1)
    between = max(means[known].var() - (within / k[known]).mean(), 1e-12)
    everybody = means[known].mean()
    return everybody + (means - everybody) * k / (k + within / between), known


def _place(values: pa.Array | pa.ChunkedArray, among: pa.ChunkedArray) -> pa.Array:
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pc.index_in(values, value_set=among.combine_chunks())


def _number_of(ids: pa.ChunkedArray, people: pa.Array) -> Integers:
    return np.asarray(pc.index_in(ids.combine_chunks(), value_set=people).to_numpy(zero_copy_only=False), np.int64)


def _orders(data: "ShopData", applied: pa.Table) -> pa.Table:
    """Orders of these customers: order_id, customer_id, code (text), full_price (float), micros (wall clock)."""
    people, parts = pc.unique(applied["customer_id"].combine_chunks()), []
    with data.tables() as tables:
        locale, scan = locale_of(tables), _ORDERS.empty_table()
        if "orders" in tables.names():
            scan = readable("orders", tables.scan("orders"), locale=locale)
        rows = len(scan) if isinstance(scan, pa.Table) else scan.count_rows()
        for batch in scan.to_batches() if rows <= MOST_ORDERS else ():
            theirs = pc.is_in(batch["customer_id"].cast(pa.string()), value_set=people)
            parts.append(_plain(batch.filter(theirs), locale))
    return pa.Table.from_batches(parts, _ORDERS)


_ORDERS = pa.schema(
    [
        ("order_id", pa.string()),
        ("customer_id", pa.string()),
        ("code", pa.string()),
        ("full_price", pa.float64()),
        ("micros", pa.int64()),
    ]
)


def _plain(batch: pa.RecordBatch, locale: Locale) -> pa.RecordBatch:
    ids = [
        batch[name].cast(pa.string()) if name in batch.schema.names else pa.nulls(len(batch), pa.string())
        for name in ("order_id", "customer_id", "code")
    ]
    ids[2] = pc.if_else(pc.equal(ids[2], ""), pa.scalar(None, pa.string()), ids[2])
    amounts = pc.fill_null(batch["full_price"].cast(pa.float64(), safe=False), 0.0)
    moments = by_wall_clock(pa.chunked_array([batch["ordered_at"]]), locale).combine_chunks()
    return pa.record_batch([*ids, amounts, pa.array(microseconds(moments))], schema=_ORDERS)
