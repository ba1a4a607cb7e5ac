"""What customers bought: net of what they gave back, with the codes of a campaign, and beside them.

Net purchases follow from the rows of a campaign's ledger; what was bought beside its codes is in the table of orders.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags, Integers, Keys, Vector
from disco.records.campaign_records import CampaignRecord, Disposition
from disco.records.decisions import IngestCounts
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.identity import customer_keys, places_in
from disco.records.money import Currency, from_minor_units
from disco.records.plan_summary import MoneyForecast
from disco.records.wording import date as day_text
from disco.records.wording import money, percent
from disco.store import Transaction

# ---- net purchases ----
#
# What the received outcomes mean together: which rows are in force, and the net purchase of each code.
#
# Pure functions of the set of rows, never of the order in which they came:
#
#     event     rows of one event id say the same thing, or the one that is least by (ordered_at, price, …) is believed
#     purchase  a code is used once: its purchase that is least by (ordered_at, event_id); none from a recall on
#     refund    counts where the purchase it refers to counts; a part may be given back, several times
#     correction replaces the amount of a purchase or refund that counts; the latest one by (ordered_at, event_id) holds
#
# Whatever does not count today may count tomorrow (a refund may precede its purchase), and the other way round. Rows
# in quarantine (`outcomes.py`) have their disposition for good and never come here.

_APPLIED, _DUPLICATE, _CONFLICT, _USED, _WAITING, _NOT_COUNTED, _ELSEWHERE, _WRONG_KIND, _RECALLED = range(9)
CONFLICT = "the same event was received with other content; send a correction"
AFTER_RECALL = "ordered after the code was recalled"
_DISPOSITIONS: tuple[tuple[Disposition, str | None], ...] = (
    (Disposition.APPLIED, None),
    (Disposition.DUPLICATE, "the same event was received before"),
    (Disposition.REJECTED, CONFLICT),
    (Disposition.REJECTED, "the code was used before"),
    (Disposition.UNMATCHED, "the event it refers to was not received yet"),
    (Disposition.UNMATCHED, "the event it refers to does not count"),
    (Disposition.UNMATCHED, "the event it refers to is of another customer or code"),
    (Disposition.UNMATCHED, "a refund refers to a purchase, a correction to a purchase or a refund"),
    (Disposition.EXPIRED, AFTER_RECALL),
)
_PURCHASE, _REFUND, _CORRECTION = range(3)
_CONTENT = ("ordered_at", "full_price_minor", "kind", "code", "customer_id", "refers_to")
_FEW = 10_000  # rows that are judged sooner than Numba is imported, which hashes texts
_MANY = float(2**62)  # a sum of refunds that no int64 should be asked to hold


@cache
def _kinds() -> pa.Array:
    """In the order of `_PURCHASE`, `_REFUND` and `_CORRECTION`; made when it is needed, because PyArrow imports pandas
    for its first array of a list."""
    return pa.array(["purchase", "refund", "correction"])


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """One disposition per row, in the rows' order."""

    codes: Integers

    @property
    def disposition(self) -> pa.Array:
        return pa.array([str(disposition) for disposition, _ in _DISPOSITIONS]).take(pa.array(self.codes))

    @property
    def reason(self) -> pa.Array:
        return pa.array([reason for _, reason in _DISPOSITIONS], pa.string()).take(pa.array(self.codes))

    @property
    def applied(self) -> Flags:
        return np.asarray(self.codes == _APPLIED)


def judge(rows: pa.Table, *, recalled_at: datetime | None = None) -> Judged:
    """The disposition of each of these rows (columns of `schema.OUTCOMES`, in the order received).

    Complete in itself when no row outside shares an event, a code or a reference with a row inside. recalled_at: the
    moment from which on no code is valid; None: the campaign was not recalled.
    """
    # where most rows refer to others, there is hardly a purchase that stands by itself
    many = rows.num_rows > _FEW and 2 * rows["refers_to"].null_count > rows.num_rows
    return judge_apart(rows, recalled_at=recalled_at) if many else judge_together(rows, recalled_at=recalled_at)


def judge_apart(rows: pa.Table, *, recalled_at: datetime | None = None) -> Judged:
    """`judge_together`, with purchases that have nothing in common with another row judged by themselves.

    Most purchases of a large batch are so: they count, unless their code was recalled before.
    """
    entangled = _entangled(rows)
    if entangled.all():
        return judge_together(rows, recalled_at=recalled_at)
    disposition = np.full(rows.num_rows, _APPLIED, np.int64)
    if recalled_at is not None:
        moment = pa.scalar(recalled_at, rows["ordered_at"].type)
        disposition[pc.greater_equal(rows["ordered_at"], moment).to_numpy()] = _RECALLED
    if entangled.any():
        disposition[entangled] = judge_together(rows.filter(pa.array(entangled)), recalled_at=recalled_at).codes
    return Judged(disposition)


def _entangled(rows: pa.Table) -> Flags:
    """(n,) all but purchases whose event and code no other row has, and to which none refers.

    Texts with different 64-bit keys differ; a few that are flagged though only their keys agree do no harm.
    """
    event, code, refers = (rows[name].combine_chunks() for name in ("event_id", "code", "refers_to"))
    purchase = pc.fill_null(pc.equal(rows["kind"].combine_chunks(), "purchase"), False)
    whole = pc.and_(pc.and_(event.is_valid(), code.is_valid()), pc.and_(purchase, refers.is_null()))
    event_keys, code_keys = (customer_keys(pc.fill_null(texts, "")) for texts in (event, code))
    flags = ~np.asarray(whole.to_numpy(zero_copy_only=False), np.bool_) | _repeated(event_keys) | _repeated(code_keys)
    if refers.null_count < len(refers):
        flags |= np.isin(event_keys, customer_keys(pc.drop_null(refers)), kind="sort")
    return np.asarray(flags, np.bool_)


def _repeated(keys: Keys) -> Flags:
    """(n,) whether another row has the same key."""
    ordered = np.sort(keys)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.isin(keys, twice, kind="sort") if twice.size else np.zeros(keys.size, np.bool_)


def judge_together(rows: pa.Table, *, recalled_at: datetime | None = None) -> Judged:
    """The rules as they are written down, over all rows at once."""
    disposition = np.full(rows.num_rows, _APPLIED, np.int64)
    if not rows.num_rows:
        return Judged(disposition)
    events = rows["event_id"].combine_chunks().dictionary_encode()
    event = _indices(events)
    code, customer, refers = (_encoded(rows[name]) for name in ("code", "customer_id", "refers_to"))
    kind = _indices(pc.index_in(rows["kind"].combine_chunks(), value_set=_kinds()))

    chief = _first_rows(event, rows.select(_CONTENT))  # per event: the row that is believed
    amounts = [np.asarray(rows[name].cast(pa.int64()).to_numpy()) for name in ("ordered_at", "full_price_minor")]
    same = np.ones(rows.num_rows, np.bool_)
    for column in (*amounts, kind, code, customer, refers):
        same &= column == column[chief[event]]
    disposition[same] = _DUPLICATE
    disposition[~same] = _CONFLICT
    disposition[chief] = _APPLIED

    purchases = chief[kind[chief] == _PURCHASE]
    if recalled_at is not None:
        moment = pa.scalar(recalled_at, rows["ordered_at"].type).cast(pa.int64()).as_py()
        after = amounts[0][purchases] >= moment
        disposition[purchases[after]] = _RECALLED
        purchases = purchases[~after]
    place = np.unique(code[purchases], return_inverse=True)[1]
    disposition[purchases] = _USED
    disposition[purchases[_first_rows(place, rows.select(["ordered_at", "event_id"]).take(purchases))]] = _APPLIED

    target_event = _indices(pc.index_in(rows["refers_to"].combine_chunks(), value_set=events.dictionary))
    target = np.where(target_event < 0, -1, chief[target_event])
    for changing, changed in ((_REFUND, (_PURCHASE,)), (_CORRECTION, (_PURCHASE, _REFUND))):
        here = chief[kind[chief] == changing]
        disposition[here] = _match(here, target[here], kind, disposition, customer, code, changed)
        matched = here[disposition[here] == _APPLIED]
        code[matched] = code[target[matched]]  # so that a correction of a refund meets the refund's code
    return Judged(disposition)


def _match(
    rows: Integers,
    target: Integers,
    kind: Integers,
    disposition: Integers,
    customer: Integers,
    code: Integers,
    changed: tuple[int, ...],
) -> Integers:
    same = (customer[rows] == customer[target]) & ((code[rows] < 0) | (code[rows] == code[target]))
    return np.select(
        [target < 0, ~np.isin(kind[target], changed), disposition[target] != _APPLIED, ~same],
        [_WAITING, _WRONG_KIND, _NOT_COUNTED, _ELSEWHERE],
        _APPLIED,
    )


@dataclass(frozen=True, slots=True, eq=False)
class NetPurchases:
    """Purchases after corrections and refunds, one per used code."""

    code: pa.Array  # as their purchases were received
    full_price_minor: Integers  # net, in minor units; 0: all was given back
    over_refunded: int  # purchases with refunds above their amount

    def take(self, rows: Flags) -> "NetPurchases":
        """The codes flagged; what was refunded beyond its amount stays a figure of the whole."""
        return NetPurchases(self.code.filter(pa.array(rows)), self.full_price_minor[rows], self.over_refunded)

    @property
    def purchases(self) -> int:
        """Codes with a purchase of which something was kept."""
        return int((self.full_price_minor > 0).sum())


def net_purchases(applied: pa.Table) -> NetPurchases:
    """The net purchase of every code with one among these rows, all of them APPLIED."""
    kind = _indices(pc.index_in(applied["kind"].combine_chunks(), value_set=_kinds()))
    if applied["refers_to"].null_count == applied.num_rows:  # neither refunds nor corrections
        bought = applied.filter(pa.array(kind == _PURCHASE)) if (kind != _PURCHASE).any() else applied
        paid = np.array(bought["full_price_minor"].to_numpy(), np.int64)
        return NetPurchases(bought["code"].combine_chunks(), paid, 0)
    # numpy() of Arrow is read-only
    price = np.array(applied["full_price_minor"].to_numpy(), np.int64)
    event = applied["event_id"].combine_chunks()
    target = _indices(pc.index_in(applied["refers_to"].combine_chunks(), value_set=event))
    corrections = np.flatnonzero(kind == _CORRECTION)
    if corrections.size:
        order = _sorted(applied.select(["ordered_at", "event_id"]).take(corrections))
        corrections = corrections[order]
        price[target[corrections]] = price[corrections]  # the last one written is the latest
    purchases = np.flatnonzero(kind == _PURCHASE)
    refunds = np.flatnonzero(kind == _REFUND)
    place = np.full(applied.num_rows, -1, np.int64)
    place[purchases] = np.arange(purchases.size)
    back = np.zeros(purchases.size, np.int64)
    np.add.at(back, place[target[refunds]], price[refunds])
    roughly = np.bincount(place[target[refunds]], weights=price[refunds], minlength=purchases.size)
    paid = price[purchases]
    over = (roughly > _MANY) | (back > paid)
    net = np.where(over, 0, paid - back)
    code = applied["code"].combine_chunks().take(pa.array(purchases))
    return NetPurchases(code, net, int(over.sum()))


def ordered_before(applied: pa.Table, moment: datetime) -> pa.Table:
    """Of these rows, all of them APPLIED, those that would be if nothing had been ordered from a moment on."""
    rows = applied.filter(pc.less(applied["ordered_at"], pa.scalar(moment, applied["ordered_at"].type)))
    for _ in range(2):  # a correction may refer to a refund, and that to a purchase
        rows = rows.filter(pc.or_(rows["refers_to"].is_null(), pc.is_in(rows["refers_to"], value_set=rows["event_id"])))
    return rows


def _first_rows(group: Integers, keys: pa.Table) -> Integers:
    """Per group (numbered from 0 without a gap) the row that comes first by the keys; equal ones as received."""
    first = np.empty(int(group.max()) + 1 if group.size else 0, np.int64)
    first[group[::-1]] = np.arange(group.size)[::-1]
    contested = np.flatnonzero(np.bincount(group)[group] > 1) if group.size else np.zeros(0, np.int64)
    if contested.size:
        order = contested[_sorted(keys.take(contested))]
        first[group[order[::-1]]] = order[::-1]
    return first


def _sorted(keys: pa.Table) -> Integers:
    """A stable order by all columns."""
    by = [(name, "ascending") for name in keys.column_names]
    return np.asarray(pc.sort_indices(keys, sort_keys=by).to_numpy(), np.int64)


def _encoded(column: pa.ChunkedArray) -> Integers:
    return _indices(column.combine_chunks().dictionary_encode())


def _indices(column: pa.Array) -> Integers:
    """Places as int64, -1 where there is none."""
    places = column.indices if isinstance(column, pa.DictionaryArray) else column
    return np.array(pc.fill_null(places.cast(pa.int64()), -1).to_numpy(zero_copy_only=False), np.int64)


def counts_of(rows: pa.Table) -> IngestCounts:
    """How many rows have each disposition; `rows` has one each, or is a table of counts (`schema.COUNTS`)."""
    each = rows if "rows" in rows.column_names else rows.append_column("rows", pa.array(np.ones(len(rows), int)))
    found: Counter[str] = Counter()
    for group in each.group_by("disposition").aggregate([("rows", "sum")]).to_pylist():
        found[group["disposition"]] = group["rows_sum"]
    return IngestCounts(
        received=found.total(), **{str(disposition): found[str(disposition)] for disposition in Disposition}
    )


# ---- with codes, and beside them ----
#
# With the codes of a campaign, from its ledger; beside them, from the table of orders.

_ORDERS = ("customer_id", "ordered_at", "paid")


def bought(transaction: Transaction, campaign: str, decisions: pa.Table, *, before: datetime | None = None) -> Vector:
    """(n,) net full price bought with each decision's code, money; 0 where nothing was, or all was given back.

    before: what was ordered, given back or corrected from this moment on does not count; None: everything counts.
    """
    applied = transaction.ledger.applied(campaign, before=before)
    return bought_with(decisions["code"], applied, before=before, currency=transaction.locale.currency)


def bought_with(codes: pa.ChunkedArray, applied: pa.Table, *, before: datetime | None, currency: Currency) -> Vector:
    """(n,) the same of these codes, null where there is none. applied: the rows of the ledger that count."""
    net = net_purchases(applied if before is None else ordered_before(applied, before))
    place = places_in(codes.combine_chunks(), among=net.code)
    places = pc.fill_null(place, -1).to_numpy(zero_copy_only=False)
    return from_minor_units(np.append(net.full_price_minor, 0)[places], currency)


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


def revenue_beside(
    orders: pa.Table,
    decisions: pa.Table,
    period: tuple[date | datetime, date | datetime],
    *,
    sent: pa.Array | None = None,
) -> Vector:
    """(n,) paid by each decision's customer from the first time on and before the second, without its own code.

    orders: customer_id, ordered_at, paid, and code; without that column no order counts as one with a code.
    sent: (n,) what each customer was sent, where depths have a shared code. Somebody who uses one without having been
    sent it bought beside the campaign.
    """
    missing = [name for name in _ORDERS if name not in orders.column_names]
    if missing:
        raise InputError("orders", found=f"no column {', '.join(missing)}", expected=", ".join(_ORDERS))
    if "code" not in orders.column_names:
        orders = orders.append_column("code", pa.nulls(orders.num_rows, pa.string()))
    first, after = (pa.scalar(day).cast(pa.timestamp("us")) for day in period)
    moment = orders["ordered_at"].cast(pa.timestamp("us"), safe=False)
    own = pc.is_in(orders["code"].cast(pa.string()), value_set=pc.drop_null(decisions["code"]).combine_chunks())
    customers = decisions["customer_id"].cast(pa.string()).combine_chunks()
    if sent is not None:
        buyer = pc.index_in(orders["customer_id"].cast(pa.string()), value_set=customers).combine_chunks()
        theirs = pc.equal(orders["code"].cast(pa.string()).combine_chunks(), sent.take(buyer))
        own = pc.or_(own.combine_chunks(), pc.fill_null(theirs, False))
    within = pc.and_(pc.and_(pc.greater_equal(moment, first), pc.less(moment, after)), pc.invert(own))
    wanted = orders.filter(within)
    place = pc.index_in(wanted["customer_id"].cast(pa.string()), value_set=customers)
    known = np.asarray(place.is_valid().to_numpy(), np.bool_)
    paid = wanted["paid"].cast(pa.float64(), safe=False).to_numpy()[known]
    sums = np.bincount(pc.drop_null(place).to_numpy(), weights=paid, minlength=len(customers))
    return sums.astype(np.float64)  # without any order bincount counts instead of summing


# ---- sales of a campaign's codes ----
#
# What was sold, and whether that is what the plan forecast: one rule for every page.


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSales:
    """What was bought with the codes of a campaign, after refunds and corrections."""

    purchases: int
    """Codes with a purchase of which something was kept."""
    revenue: float
    """What customers paid, in currency units."""
    markdown: float
    """What the discounts took from the full price: the cost of the codes so far."""
    late_revenue: float
    """The part of the revenue that customers paid who arrived after the launch."""
    late_markdown: float
    """The part of the markdown that they got."""


NO_SALES = CodeSales(purchases=0, revenue=0.0, markdown=0.0, late_revenue=0.0, late_markdown=0.0)


def code_sales(transaction: Transaction, campaign: str) -> CodeSales:
    """What was bought with the codes of a campaign, of the launch and of late arrivals.

    Reads the outcomes that count and looks up the codes they name, so it costs what was bought and not what was sent.
    """
    net = net_purchases(transaction.ledger.applied(campaign))
    if not len(net.code):
        return NO_SALES
    order = pc.sort_indices(net.code)  # sums of money are made in one order, whatever came first
    codes = net.code.take(order)
    sold = transaction.decisions.of(campaign, codes=codes)
    place = places_in(codes, among=sold["code"].combine_chunks())
    depth = sold["depth"].combine_chunks().take(place).to_numpy(zero_copy_only=False)
    full_price = from_minor_units(net.full_price_minor[order.to_numpy()], transaction.locale.currency)
    late = sold["late"].combine_chunks().take(place).to_numpy(zero_copy_only=False).astype(np.bool_)
    paid, discount = full_price * (1 - depth), full_price * depth
    return CodeSales(
        purchases=net.purchases,
        revenue=float(paid.sum()),
        markdown=float(discount.sum()),
        late_revenue=float(paid[late].sum()),
        late_markdown=float(discount[late].sum()),
    )


# ---- beside the forecast ---------------------------------------------------------------------------------------------


class ForecastSide(StrEnum):
    """Where an actual figure lies, compared with the interval of its forecast."""

    NOT_YET = "not yet"  # purchases may still be reported, or none was
    BELOW = "below"
    INSIDE = "inside"
    ABOVE = "above"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstForecast:
    """Revenue and markdown of the codes of the launch, compared with their 90% forecast intervals."""

    revenue: ForecastSide
    """Where the revenue lies: not yet (before the last purchases are reported), below, inside or above."""
    markdown: ForecastSide
    """Where the markdown lies, likewise."""
    missed: bool
    """Whether the forecast was missed: revenue outside its interval, or markdown above its own."""
    brief: str
    """The miss in a few words; empty where there is none."""
    words: str
    """The comparison in sentences, with figures."""

    @property
    def is_known(self) -> bool:
        """Whether the forecast can be compared already."""
        return self.revenue is not ForecastSide.NOT_YET

    @property
    def label(self) -> str:
        """For a table: the miss, or that there is none, or that it is too early."""
        return self.brief or str(self.revenue)


def against_forecast(
    record: CampaignRecord,
    expected: MoneyForecast | None,
    *,
    purchases: int,
    revenue: float,
    markdown: float,
    today: date,
    currency: Currency,
) -> AgainstForecast | None:
    """Compare what the codes of a launch brought with its forecast; None where there is none to compare with.

    The rule: from the day on which the last purchase has been reported, a figure is inside its forecast when it lies
    within the interval. Before that day, and where no purchase was reported, nothing is concluded. A forecast is missed
    by revenue outside its interval or by markdown above its own: codes that cost less than forecast follow from sales
    that are lower, which the revenue says.
    """
    if expected is None or record.recalled_at is not None:
        return None
    early = today < record.matures_on
    if early or not purchases:
        words = (
            f"The forecast is compared on {day_text(record.matures_on)}, when the last purchases have been reported."
            if early
            else "The forecast cannot be compared: no purchase was reported."
        )
        not_yet = ForecastSide.NOT_YET
        return AgainstForecast(revenue=not_yet, markdown=not_yet, missed=False, brief="", words=words)
    sides = {"revenue": _side(revenue, expected.revenue), "code cost": _side(markdown, expected.markdown)}
    figures = {"revenue": (revenue, expected.revenue), "code cost": (markdown, expected.markdown)}
    missed = {
        name: side
        for name, side in sides.items()
        if side is ForecastSide.ABOVE or (side is ForecastSide.BELOW and name == "revenue")
    }
    sizes = {name: f"{_distance(*figures[name])}{side} forecast" for name, side in missed.items()}
    sentences = [
        f"{name.capitalize()} was {size}: {_figures(*figures[name], currency=currency)}."
        for name, size in sizes.items()
    ]
    if not missed:
        amounts = ", ".join(f"{name} {_figures(*pair, currency=currency)}" for name, pair in figures.items())
        sentences = [f"The codes did as forecast: {amounts}."]
    return AgainstForecast(
        revenue=sides["revenue"],
        markdown=sides["code cost"],
        missed=bool(missed),
        brief=" and ".join(f"{name} {size}" for name, size in sizes.items()),
        words=" ".join(sentences),
    )


def _side(actual: float, expected: Estimate) -> ForecastSide:
    lower, upper = expected.ends or (expected.value, expected.value)
    return ForecastSide.BELOW if actual < lower else ForecastSide.ABOVE if actual > upper else ForecastSide.INSIDE


def _distance(actual: float, expected: Estimate) -> str:
    """`34% `, or nothing where the forecast was 0."""
    return f"{percent(abs(actual / expected.value - 1), decimals=0)} " if expected.value > 0 else ""


def _figures(actual: float, expected: Estimate, *, currency: Currency) -> str:
    write = partial(money, currency=currency)
    lower, upper = expected.ends or (expected.value, expected.value)
    return f"{write(actual)}, expected {write(expected.value)} ({write(lower)} to {write(upper)})"
