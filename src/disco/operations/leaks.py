"""Codes that leak: used by others than their owner, more often than is usual, or in a burst.

Such a use is no outcome of the campaign: `disco ingest` sets it aside as unmatched. So the ledger has both, and the
count needs nothing else. A shared code is used by others where it was not sent to the customer.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.evaluation.leaks import leak_test
from disco.operations.outcomes import OF_ANOTHER, UNSENT
from disco.records.campaign_records import Disposition
from disco.records.wording import chance, counted, local_text, percent
from disco.store import Store, Transaction

_EARLIER = 3  # campaigns from which it is known how many uses by others are usual


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks:
    """Uses of a campaign's codes by others than their owner."""

    uses: int
    """Purchases with codes of the campaign, by whomever."""
    by_others: int
    """Those by others than the customer who has the code; they do not count as outcomes."""
    codes: int
    """Codes that were used so."""
    most: int
    """Uses by others of the code that has most of them."""
    found: bool
    """Whether there are more than is usual, or a burst, by more than chance (1% each)."""
    words: str
    """The figures, in sentences."""


def read_leaks(store: Store, campaign: str) -> Leaks:
    """How a campaign's codes were used, as its outcomes stand; changes nothing."""
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        before = sorted(
            (one for one in transaction.plans.campaigns() if one.launched_at < record.launched_at),
            key=lambda one: one.launched_at,
        )
        earlier = [_uses(transaction, one.campaign) for one in before[-_EARLIER:]]
        uses = _uses(transaction, campaign).sort_by("ordered_at")
        locale = transaction.locale
    other = np.asarray(uses["other"].to_numpy(), np.bool_)
    at = np.asarray(uses["ordered_at"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(), np.int64)
    usual = int(sum(pc.sum(one["other"]).as_py() or 0 for one in earlier)), sum(one.num_rows for one in earlier)
    test = leak_test(at, other, earlier=usual)
    by_code = pc.value_counts(uses.filter(uses["other"])["code"])
    most = max((one["counts"] for one in by_code.to_pylist()), default=0)
    k, n = int(other.sum()), other.size
    words = f"All {counted(n, 'use')} of codes were by the customers who have them." if n else "No code was used yet."
    if k:
        known = f"{percent(usual[0] / usual[1])} in earlier campaigns" if usual[1] else "no earlier campaign"
        words = (
            f"{k:,} of {counted(n, 'use')} of codes ({percent(k / n)}; {known}) were by others than the customer who "
            f"has the code ({chance(test.share_p)}). {counted(len(by_code), 'code')} of theirs, the most used one "
            f"{counted(most, 'time')}."
        )
    if test.burst is not None and test.burst_p < 1:
        moment = local_text(datetime.fromtimestamp(int(at[test.burst]) / 1e6, tz=locale.zone), locale)
        words += f" {test.burst_size:,} of them came within an hour from {moment} ({chance(test.burst_p)})."
    return Leaks(uses=n, by_others=k, codes=len(by_code), most=most, found=test.found, words=words)


def _uses(transaction: Transaction, campaign: str) -> pa.Table:
    """ordered_at, code, other: one row per purchase with a code of the campaign, by whomever."""
    wanted = (Disposition.APPLIED, Disposition.UNMATCHED)
    rows = transaction.ledger.outcomes(campaign, dispositions=wanted)
    rows = rows.filter(pc.and_(pc.fill_null(pc.equal(rows["kind"], "purchase"), False), rows["ordered_at"].is_valid()))
    other = pc.is_in(rows["reason"], value_set=pa.array([OF_ANOTHER, UNSENT]))
    rows = rows.append_column("other", other)
    rows = rows.filter(pc.or_(other, pc.equal(rows["disposition"], str(Disposition.APPLIED))))
    first = np.unique(np.asarray(rows["event_id"].to_pylist(), object).astype(str), return_index=True)[1]
    return rows.take(pa.array(np.sort(first))).select(["ordered_at", "code", "other"])
