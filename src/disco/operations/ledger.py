"""Outcomes in, exactly once, and batches out again as if they had never come.

A batch's rows, the dispositions they change elsewhere and the evidence they move are one transaction. Only rows that
share an event, a code or a reference with the batch are looked at, however long the ledger is.
"""

from collections import Counter
from dataclasses import asdict, dataclass, fields
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.operations import campaign_evidence
from disco.operations.door import known_columns, read_outcomes
from disco.operations.related import admitted_rows, distinct_values, related_rows
from disco.operations.standing import Standing, settle, standing
from disco.operations.transaction import transaction
from disco.records.content import content_hash
from disco.records.decisions import IngestCounts
from disco.records.errors import StateError
from disco.records.kept import OUTCOMES
from disco.records.life import BatchRecord, Disposition, State
from disco.records.ports import Clock, Shelves, Store
from disco.records.result import Result

_QUARANTINE = ("row", "event_id", "customer_id", "code", "disposition", "reason", "raw")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why rows of a batch were not applied."""

    disposition: Disposition
    """duplicate, late, unmatched or rejected."""
    reason: str
    """Why, in a sentence."""
    rows: int
    """Rows with this reason."""
    first_row: int
    """The first of them, counted from 1 below the header."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ingested(Result):
    """What became of a batch of outcomes: received = applied + duplicate + late + unmatched + rejected."""

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
    late: int
    """Purchases after their code had expired, and outcomes of a closed campaign."""
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


def ingest(
    store: Store, campaign: str, outcomes: pa.Table, *, source: str, clock: Clock, dry_run: bool = False
) -> Ingested:
    """Receive a batch of outcomes. received = applied + duplicate + late + unmatched + rejected, always.

    The result is that of all rows received so far, whatever their order and however they were cut into batches.
    """
    outcomes = known_columns(outcomes, file=source)
    content = content_hash(outcomes)
    with transaction(store, campaign, dry_run=dry_run) as shelves:
        record = shelves.campaign(campaign)
        earlier = shelves.batches(campaign)
        batch_id = sha256(f"{campaign}\x1f{len(earlier)}\x1f{content}".encode()).hexdigest()[:16]
        rows = read_outcomes(
            outcomes,
            campaign=campaign,
            decisions=_decisions_of(shelves, campaign, outcomes),
            start=record.plan.valid.start,
            end=record.plan.valid.end,
            closed=record.state is State.CLOSED,
        )
        rows = rows.add_column(
            0, "batch_id", pa.array([batch_id], pa.string()).take(pa.array(np.zeros(len(rows), int)))
        )
        shelves.add_batch(
            BatchRecord(
                batch_id=batch_id, campaign=campaign, source=source, content_hash=content, received_at=clock.now()
            )
        )
        admitted = admitted_rows(rows)
        before = related_rows(shelves, campaign, admitted)
        together = pa.concat_tables([before, admitted], promote_options="default")
        verdicts = settle(together)
        judged = _with_verdicts(together, verdicts.disposition, verdicts.reason)
        old, new = judged.slice(0, before.num_rows), judged.slice(before.num_rows)
        received = (
            pa.concat_tables([rows.filter(rows["raw"].is_valid()), new], promote_options="default")
            .sort_by("row")
            .select(OUTCOMES.names)
        )
        changed = _change_dispositions(shelves, campaign, before, old)
        shelves.add_outcomes(campaign, received.cast(OUTCOMES))
        stood, stands = _standings(before), standing(together.filter(pa.array(verdicts.applied)))
        campaign_evidence.update(shelves, record, before=stood, after=stands)
    again = next((batch for batch in earlier if batch.content_hash == content and batch.reverted_at is None), None)
    return Ingested(
        batch_id=batch_id,
        campaign=campaign,
        **asdict(count(received["disposition"].to_pylist())),
        reasons=_reasons(received),
        redisposed=changed,
        purchases_before=stood.purchases,
        purchases_after=stands.purchases,
        warnings=_warnings(stands, again),
        dry_run=dry_run,
    )


def revert(store: Store, batch_id: str, *, clock: Clock, dry_run: bool = False) -> Reverted:
    """Take a batch back: ledger, dispositions and evidence become exactly what they are without it."""
    with store.reading() as shelves:
        campaign = shelves.batch(batch_id).campaign
    with transaction(store, campaign, dry_run=dry_run) as shelves:
        batch, record = shelves.batch(batch_id), shelves.campaign(campaign)
        if batch.reverted_at is not None:
            raise StateError(
                f"batch {batch.batch_id}",
                found=f"reverted on {batch.reverted_at:%Y-%m-%d %H:%M} UTC",
                expected="a batch in force",
                fix="Ingest its file again to count it again.",
            )
        rows = shelves.outcomes(campaign, batch_id=batch.batch_id)
        before = related_rows(shelves, campaign, admitted_rows(rows))
        shelves.set_reverted(batch.batch_id, clock.now())
        left = before.filter(pc.not_equal(before["batch_id"], batch.batch_id))
        verdicts = settle(left)
        changed = _change_dispositions(
            shelves, campaign, left, _with_verdicts(left, verdicts.disposition, verdicts.reason)
        )
        stood, stands = _standings(before), standing(left.filter(pa.array(verdicts.applied)))
        campaign_evidence.update(shelves, record, before=stood, after=stands)
    return Reverted(
        batch_id=batch.batch_id,
        campaign=campaign,
        counts=count(rows["disposition"].to_pylist()),
        redisposed=changed,
        purchases_before=stood.purchases,
        purchases_after=stands.purchases,
        dry_run=dry_run,
    )


def counts_of(store: Store, campaign: str) -> IngestCounts:
    """What became of everything received for a campaign and in force."""
    with store.reading() as shelves:
        return counts_in(shelves, campaign)


def counts_in(shelves: Shelves, campaign: str) -> IngestCounts:
    """As `counts_of`, within a transaction."""
    table = shelves.counts(campaign)
    totals: Counter[str] = Counter()
    for disposition, rows in zip(table["disposition"].to_pylist(), table["rows"].to_pylist(), strict=True):
        totals[disposition] += rows
    return _counts(totals)


def count(dispositions: list[str]) -> IngestCounts:
    return _counts(Counter(dispositions))


def _counts(found: Counter[str]) -> IngestCounts:
    return IngestCounts(
        received=found.total(), **{str(disposition): found[str(disposition)] for disposition in Disposition}
    )


def _decisions_of(shelves: Shelves, campaign: str, outcomes: pa.Table) -> pa.Table:
    """The decisions whose codes are named in the outcomes."""
    return shelves.decisions(campaign, codes=distinct_values(outcomes["code"].cast(pa.string())))


def _with_verdicts(rows: pa.Table, disposition: pa.Array, reason: pa.Array) -> pa.Table:
    for name, column in (("disposition", disposition), ("reason", reason)):
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def _change_dispositions(shelves: Shelves, campaign: str, before: pa.Table, after: pa.Table) -> int:
    """Write the dispositions (and reasons) that are other than they were; how many."""
    same = pc.and_(
        pc.equal(before["disposition"], after["disposition"]),
        pc.equal(pc.fill_null(before["reason"], ""), pc.fill_null(after["reason"], "")),
    )
    changed = after.filter(pc.invert(same)).select(["batch_id", "row", "disposition", "reason"])
    if changed.num_rows:
        shelves.set_dispositions(campaign, changed)
    return int(changed.num_rows)


def _standings(rows: pa.Table) -> Standing:
    return standing(rows.filter(pc.equal(rows["disposition"], str(Disposition.APPLIED))))


def _reasons(received: pa.Table) -> tuple[Reason, ...]:
    missed = received.filter(pc.not_equal(received["disposition"], str(Disposition.APPLIED)))
    grouped = missed.group_by(["disposition", "reason"]).aggregate([("row", "count"), ("row", "min")]).to_pylist()
    reasons = (
        Reason(Disposition(group["disposition"]), group["reason"], group["row_count"], group["row_min"] + 1)
        for group in grouped
    )
    return tuple(sorted(reasons, key=lambda reason: (list(Disposition).index(reason.disposition), reason.first_row)))


def _warnings(stands: Standing, again: BatchRecord | None) -> tuple[str, ...]:
    warnings = []
    if again is not None:
        warnings.append(f"the same rows were received before, as batch {again.batch_id} from {again.source}")
    if stands.over_refunded:
        warnings.append(f"{stands.over_refunded:,} purchases have refunds above their amount and count as nothing")
    return tuple(warnings)


def quarantined_rows(store: Store, done: Ingested) -> pa.Table:
    """The rows of a batch that were not applied, each with its reason; rows are counted from 1 below the header."""
    with store.reading() as shelves:
        rows = shelves.outcomes(done.campaign, batch_id=done.batch_id)
    aside = rows.filter(pc.not_equal(rows["disposition"], str(Disposition.APPLIED))).select(list(_QUARANTINE))
    return aside.set_column(0, "row", pc.add(aside["row"], 1))
