"""How much markdown a customer may still get: a plan's `customer_limit`, less what the ledger of campaigns holds.

    left = limit − Σ markdown of the codes they got in the days before

A code of a campaign whose outcomes are all known (it has matured by the plan's `as_of`, or was recalled) counts with
what it took off: net purchase × depth, so nothing where it was not used. Any other code counts with what was expected
of it when it was decided: full price × chance to buy × depth. So codes that nobody used do not spend a limit for good,
and a plan does not change with every purchase of a campaign that still runs. A code that was assigned before anything
was learned has no forecast, and counts nothing until its outcomes are known.

The days are counted as those of `contact`: a code of a launch counts on the first day of its campaign, a late arrival's
until the last day.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.campaign import Belief, allowed_depths
from disco.operations.purchases import bought
from disco.records.arrays import Ids, Vector
from disco.records.arrow_tables import content_hash
from disco.records.campaign_records import CampaignRecord
from disco.records.decisions import Audience
from disco.records.money import Currency
from disco.records.plan import Plan
from disco.records.wording import counted, money
from disco.store import Transaction

KEY = "customer_limit"
_DIGITS = 6  # of what was spent: sums are compared at the launch
_SPENT = pa.schema([("customer_id", pa.string()), ("markdown", pa.float64())])


def markdown_left(
    transaction: Transaction, plan: Plan, ids: Ids, *, day: date | None = None, before: datetime | None = None
) -> Vector | None:
    """(n,) the expected markdown that each of these customers may still get; None: the plan has no such limit.

    day: the last of the period; None: the first day of the plan's codes. before: launches and recalls from this moment
    on do not count; None: all count.
    """
    if plan.customer_limit is None:
        return None
    customers = pa.array(ids).cast(pa.string())
    spent = _spent(transaction, plan, customers, day=day or plan.valid.start, before=before)
    place = pc.index_in(customers, value_set=spent["customer_id"].combine_chunks())
    amounts = np.append(spent["markdown"].to_numpy(), 0.0)
    gone = amounts[pc.fill_null(place, -1).to_numpy(zero_copy_only=False)]
    return np.asarray(plan.customer_limit.markdown - gone, np.float64)


def customer_limit_inputs(transaction: Transaction, plan: Plan, customers: pa.Array) -> dict[str, str]:
    """The hash of what these customers of the plan (ids as text) got before, to be compared at the launch."""
    if plan.customer_limit is None:
        return {}
    spent = _spent(transaction, plan, customers, day=plan.valid.start, before=None)
    return {KEY: content_hash(spent.sort_by("customer_id").combine_chunks())}


def customer_limit_words(plan: Plan, audience: Audience, belief: Belief, currency: Currency) -> tuple[str, ...]:
    """Whom the limit keeps from which codes, in a sentence; empty without one."""
    allowed = allowed_depths(audience, belief=belief, depths=np.asarray(plan.offered))
    if plan.customer_limit is None or allowed is None:
        return ()
    limit = money(plan.customer_limit.markdown, full=True, currency=currency)
    none = int((~allowed).all(axis=1).sum())
    some = int((~allowed).any(axis=1).sum()) - none
    words = (
        f"The limit of {limit} of markdown per customer in {counted(plan.customer_limit.days, 'day')} leaves no code "
        f"for {counted(none, 'customer')}, and only some depths for {some:,}."
    )
    if belief.basket.campaigns:
        return (words,)
    return (words, "Nothing was learned yet, so no markdown is expected of these codes, and the limit does not bind.")


def limit_words(record: CampaignRecord, left: float, refused: Sequence[str], currency: Currency) -> str:
    """Why a customer may not get some depths; empty where they may get all. refused: the depths, in words."""
    if record.plan.customer_limit is None or not refused:
        return ""
    limit, days = record.plan.customer_limit.markdown, record.plan.customer_limit.days
    rest, whole = (money(max(amount, 0.0), full=True, currency=currency) for amount in (left, limit))
    return (
        f"Of the limit of {whole} of markdown per customer in {counted(days, 'day')}, {rest} was left, "
        f"and a code of {' or '.join(refused)} was expected to cost more."
    )


def _spent(
    transaction: Transaction, plan: Plan, customers: pa.Array, *, day: date, before: datetime | None
) -> pa.Table:
    """customer_id (text) and markdown of those among these customers who got some."""
    assert plan.customer_limit is not None
    first, parts = day - timedelta(days=plan.customer_limit.days), [_SPENT.empty_table()]
    for name in transaction.plans.names():
        other = transaction.plans.campaign(name)
        valid = other.plan.valid
        outside = valid.start > day or valid.end <= first or (before is not None and other.launched_at >= before)
        if name == plan.campaign or outside:
            continue
        decisions = transaction.decisions.of(name, customers=customers, only_late=valid.start < first)
        decisions = decisions.filter(decisions["code"].is_valid())
        recalled = other.recalled_at is not None and (before is None or other.recalled_at < before)
        known = recalled or other.matures_on <= plan.customers.as_of
        amounts = _markdown(transaction, other, decisions, known=known)
        parts.append(pa.table([decisions["customer_id"].cast(pa.string()), pa.array(amounts)], schema=_SPENT))
    rows = pa.concat_tables(parts).group_by("customer_id", use_threads=False).aggregate([("markdown", "sum")])
    rows = pa.table([rows["customer_id"], pc.round(rows["markdown_sum"], ndigits=_DIGITS)], schema=_SPENT)
    return rows.filter(pc.not_equal(rows["markdown"], 0.0))


def _markdown(transaction: Transaction, other: CampaignRecord, decisions: pa.Table, *, known: bool) -> Vector:
    """(n,) what the codes took off, where that is known, or else what was expected of them."""
    depth = decisions["depth"].to_numpy()
    if known:
        return np.asarray(bought(transaction, other.campaign, decisions) * depth, np.float64)
    price, rate = (
        pc.fill_null(decisions[name], 0.0).to_numpy() for name in ("expected_full_price", "expected_engagement")
    )
    return np.asarray(price * rate * depth, np.float64)
