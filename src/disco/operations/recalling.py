"""A campaign is recalled: codes that were not used become invalid, and the shop gets their list.

One moment is kept. Purchases ordered from it on are set aside, whenever they arrive; those ordered before count. The
campaign's codes no longer count for engagement, used or not (`campaign_evidence.rebuilt`); its baskets do.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from disco.operations import campaign_evidence
from disco.operations.exporting import check_kind, write_rows
from disco.operations.ledger import misjudged
from disco.operations.net_purchases import AFTER_RECALL
from disco.records.errors import DiscoError, InputError, ReportError, StateError
from disco.records.life import CampaignRecord, Disposition, State
from disco.records.locale import Locale
from disco.records.ports import Clock
from disco.records.result import NotInJson, TableResult
from disco.records.wording import moment_text
from disco.store import Store, Transaction

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
            _count_again(transaction, record)
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


def _count_again(transaction: Transaction, record: CampaignRecord) -> None:
    """Dispositions and evidence as if the recall had been known when every outcome came."""
    wrong = misjudged(transaction.ledger.outcomes(record.campaign), recalled_at=record.recalled_at)
    if wrong.num_rows:
        transaction.ledger.redispose(wrong)
    for network in transaction.beliefs.networks(record.campaign):
        again = campaign_evidence.rebuilt(transaction, record, network)
        transaction.beliefs.put_evidence(record.campaign, network, again.to_bytes())


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


def recalled_codes(transaction: Transaction, campaign: str) -> pa.Table:
    """Decisions whose code was not used before the recall, as the ledger stands; a returned purchase was one, too."""
    decisions = transaction.decisions.of(campaign)
    coded = decisions.filter(decisions["code"].is_valid())
    applied = transaction.ledger.outcomes(campaign, dispositions=(Disposition.APPLIED,))
    bought = applied.filter(pc.equal(applied["kind"], "purchase"))
    return coded.filter(pc.invert(pc.is_in(coded["code"], value_set=bought["code"].combine_chunks())))


def set_aside(transaction: Transaction, campaign: str) -> int:
    """Purchases received that were ordered after the recall."""
    expired = transaction.ledger.outcomes(campaign, dispositions=(Disposition.EXPIRED,))
    return int(pc.sum(pc.equal(expired["reason"], AFTER_RECALL)).as_py() or 0)
