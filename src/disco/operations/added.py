"""What codes added: all orders of the people in the lasting holdout, and of everybody else, over months and years.

A campaign's own read-out shows what its codes did while they were valid. It cannot show orders that would have come
anyway later, or orders that customers keep back for the next code. People who are held out of every campaign show both.
The comparison is in `evaluation/added.py`; here it gets one row per person.

Everybody counts whom a campaign of this holdout has considered, on whichever side they stand, whether or not they got a
code: who is considered does not depend on the draw, while who gets a code, or uses it, does. Where the share of the
holdout changed, only those who were held out of all campaigns are held out, and only those who were held out of none
are the others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.evaluation.added import AddedFigure, Outlook, added, outlook, refuse_few
from disco.evaluation.read_out import SampleRatio, sample_ratio
from disco.operations.arms import HOLDOUT_INPUT
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.arrow_tables import columns_of
from disco.records.campaign_records import CampaignRecord, Phase
from disco.records.cells import by_wall_clock
from disco.records.decisions import Arm
from disco.records.errors import InputError, StateError
from disco.records.estimate import Estimate
from disco.records.identity import places_in
from disco.records.money import read_currency
from disco.records.ports import locale_of
from disco.records.result import Result, TableResult
from disco.records.wording import chance, counted, money, percent, period
from disco.records.wording import date as day_text
from disco.store import Store, Transaction

if TYPE_CHECKING:
    from disco.operations.audience import ShopData

AROUND_WEEKS = 4  # before a campaign and after it, in the curve
_YEAR_DAYS, _SEASON_DAYS = 365, 90  # of what was known before
_LONGEST_REASON = 500
_LEAST_DAYS = 28  # below which there are no two halves to look ahead from
_SHARES, _TIMES = (0.02, 0.05, 0.1, 0.2), (1.0, 2.0, 4.0)
_WEEK = timedelta(days=7)


class Stretch(StrEnum):
    """When, around a campaign."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedWeek:
    """A week around campaigns: what codes added in it, on average over the campaigns."""

    stretch: Stretch
    """before (the codes could be used), during, or after (they expired)."""
    week: int
    """Weeks to the first day (−1 is the last one before it), or from the last day on (1 is the first one after it); 0
    during the campaign, where the figure is that of an average week."""
    campaigns: int
    """Campaigns whose orders are known for this week."""
    revenue: Estimate
    """Revenue per person and week, with codes less without."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Added(TableResult):
    """What codes added over a time, by the people who were held out of all of them. As a table: one row per figure."""

    first: date
    """The first day that counts."""
    last: date
    """The last day that counts."""
    currency: str
    """The currency of all money here, by its code of ISO 4217."""
    campaigns: tuple[str, ...]
    """The campaigns with this holdout whose codes could be used in this time, by their first day."""
    people: int
    """Who was considered by one of them, held out or not."""
    held: int
    """Those of them who were held out."""
    share: float
    """The share that was held out."""
    sample_ratio: SampleRatio
    """Whether both sides are as large as planned."""
    revenue: AddedFigure
    """What customers paid, in all orders."""
    markdown: AddedFigure
    """What discounts took off, in all orders."""
    margin: AddedFigure | None
    """What was left after the cost of goods; null without the setting `margin`."""
    orders: AddedFigure
    """How many orders."""
    moved: tuple[MovedWeek, ...]
    """Before, during and after a campaign: purchases that codes only moved in time are missing before or after it."""
    outlook: tuple[Outlook, ...]
    """What other shares, and more time, would show of revenue; empty where the time was too short to say."""
    net_of_returns: bool = False
    """Whether returns are taken off; false where the shop has no table of them."""
    headline: str
    """The answer in one sentence."""
    words: tuple[str, ...]
    """How far to trust it, and what is missing."""

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_pylist(
            [
                {
                    "figure": name,
                    "held_out": figure.held,
                    "others": figure.others,
                    "per_customer": figure.per_customer.value,
                    "per_customer_lower": figure.per_customer.lower,
                    "per_customer_upper": figure.per_customer.upper,
                    "total": figure.total.value,
                    "total_lower": figure.total.lower,
                    "total_upper": figure.total.upper,
                }
                for name, figure in self.figures().items()
            ]
        )

    def figures(self) -> dict[str, AddedFigure]:
        """By name, without what is not known."""
        found = {"revenue": self.revenue, "markdown": self.markdown, "margin": self.margin, "orders": self.orders}
        return {name: figure for name, figure in found.items() if figure is not None}


def codes_added(
    store: Store,
    data: "ShopData",
    *,
    today: date,
    margin: float | str | None = None,
    first: date | None = None,
    last: date | None = None,
) -> Added:
    """What codes added from the first to the last day, both included.

    margin: what is left of the full price after the cost of goods, as a share; or the column of the orders that holds
    an order's margin in money, after its discount; None: not known. first, last: None is the whole time since the
    lasting holdout began, up to the last day with orders.
    """
    if first is not None and last is not None and first > last:
        raise InputError("days", found=f"{first} to {last}", expected="a first day that is not after the last one")
    with store.reading() as transaction:
        era = _Era.of(transaction, until=last)
    orders, began = _orders(data, margin), era.campaigns[0].plan.valid.start
    covered = _last_day(orders)
    start, end = max(first or began, began), min(last or today, today, covered, era.last)
    begun = [one for one in era.campaigns if one.plan.valid.start <= end]
    within = [one for one in begun if one.plan.valid.end > start]
    if start > end or not within:
        raise StateError(
            "No campaign with the lasting holdout lies in these days, so there is nothing to compare",
            fix=f"The holdout began on {day_text(began)}, and the shop's orders end on {day_text(covered)}.",
        )
    with store.reading() as transaction:
        people, held = _people(transaction, begun)
        refuse_few(held)
        of_held = people.filter(pa.array(held))
        others = [one for one in era.others if one.plan.valid.start <= end]
        leaked = sum(_codes_of_held(transaction, one, of_held) for one in others)
        late = _late_alone(transaction, begun, people)
    book = _Book.of(orders, people, margin)
    before, after = book.before(began), end + timedelta(days=1)
    figures = {name: added(book.sums(name, start, after), held, before=before) for name in book.values}
    days, middle = (after - start).days, start + (after - start) / 2
    halves = book.sums("revenue", start, middle), book.sums("revenue", middle, after)
    ratio = sample_ratio(
        {"held": int(held.sum()), "others": int((~held).sum())},
        {"held": _share(begun, min), "others": 1 - _share(begun, max)},
    )
    found = Added(
        first=start,
        last=end,
        currency=store.locale.currency.code,
        campaigns=tuple(one.campaign for one in within),
        people=held.size,
        held=int(held.sum()),
        share=float(held.mean()),
        sample_ratio=ratio,
        revenue=figures["revenue"],
        markdown=figures["markdown"],
        margin=figures.get("margin"),
        orders=figures["orders"],
        moved=_moved(book, within, held, before=before, after=after),
        outlook=()
        if days < _LEAST_DAYS
        else outlook(
            halves,
            held,
            days=days,
            shares=sorted({*_SHARES, round(float(held.mean()), 3)}),
            times=_TIMES,
            before=before,
        ),
        net_of_returns=_has_returns(data),
        headline="",
        words=(),
    )
    words = _words(found, asked=first, began=began, leaked=leaked, covered=covered, wanted=last, late=late)
    return replace(found, headline=_headline(found), words=words)


# ---- who, and when ----


@dataclass(frozen=True, slots=True)
class _Era:
    """The time of one draw of the lasting holdout, from its first campaign up to the first one of another draw."""

    campaigns: tuple[CampaignRecord, ...]  # with this holdout, by their first day
    others: tuple[CampaignRecord, ...]  # without it, in the same time
    last: date

    @classmethod
    def of(cls, transaction: Transaction, *, until: date | None = None) -> "_Era":
        """The newest one that has begun by a day; None: the newest."""
        draws: dict[str, list[CampaignRecord]] = {}
        records = sorted(transaction.plans.campaigns(), key=lambda one: (one.plan.valid.start, one.campaign))
        for one in records:
            if one.plan.holdout.lasting and one.plan.holdout.share > 0:
                draw = transaction.plans.get(one.plan_id).inputs[HOLDOUT_INPUT]
                draws.setdefault(draw, []).append(one)
        if not draws:
            raise StateError(
                "What codes added is not known: no campaign was launched with a lasting holdout",
                fix="Write `holdout: {share: 5%, lasting: true}` into the next plans. After a few campaigns, the "
                "orders of the people held out show what would have happened without codes.",
            )
        eras = sorted(draws.values(), key=lambda several: several[0].plan.valid.start)
        begun = [several for several in eras if until is None or several[0].plan.valid.start <= until] or eras[:1]
        later = eras[len(begun)][0].plan.valid.start if len(begun) < len(eras) else date.max
        mine, began = begun[-1], begun[-1][0].plan.valid.start
        others = [
            one for one in records if one not in mine and began < one.plan.valid.end and one.plan.valid.start < later
        ]
        return cls(tuple(mine), tuple(others), later - timedelta(days=1) if later < date.max else later)


def _share(campaigns: Sequence[CampaignRecord], chosen: Callable[[Iterable[float]], float]) -> float:
    return chosen(one.plan.holdout.share for one in campaigns)


def _people(transaction: Transaction, campaigns: Sequence[CampaignRecord]) -> tuple[pa.Array, Flags]:
    """Ids as text, and who was held out, (n,).

    A larger share holds everybody of a smaller one. So whom the smallest share holds is held out of all campaigns, and
    whom the largest does not hold is held out of none. Where shares differ, whoever took part in campaigns of one of
    them alone is left out: when they came would decide on which side they stand.
    """
    least, most = _share(campaigns, min), _share(campaigns, max)
    small, large = (
        _held_by_person(transaction, [one for one in campaigns if one.plan.holdout.share == share])
        for share in (least, most)
    )
    both = small if least == most else small.join(large, keys="customer_id", right_suffix="_large", join_type="inner")
    held = np.asarray(both["held"].to_numpy(), np.bool_)
    of_large = held if least == most else np.asarray(both["held_large"].to_numpy(), np.bool_)
    certain = held | ~of_large
    return both["customer_id"].combine_chunks().filter(pa.array(certain)), held[certain]


def _held_by_person(transaction: Transaction, campaigns: Sequence[CampaignRecord]) -> pa.Table:
    """customer_id (text), held: everybody of the launches of these campaigns, once each."""
    parts = []
    for one in campaigns:
        decisions = transaction.decisions.of(one.campaign).select(["customer_id", "arm", "late"])
        decisions = decisions.filter(pc.invert(decisions["late"]))  # who arrives late came because of something
        held = pc.equal(decisions["arm"], str(Arm.HOLDOUT))
        parts.append(pa.table({"customer_id": decisions["customer_id"].cast(pa.string()), "held": held}))
    rows = pa.concat_tables(parts).group_by("customer_id", use_threads=False).aggregate([("held", "max")])
    return rows.rename_columns({"held_max": "held"})


def _late_alone(transaction: Transaction, campaigns: Sequence[CampaignRecord], people: pa.Array) -> int:
    """How many arrived after a launch, and were part of none of these."""
    names = [
        transaction.decisions.of(one.campaign, only_late=True)["customer_id"].cast(pa.string()) for one in campaigns
    ]
    late = pc.unique(pa.chunked_array([chunk for name in names for chunk in name.chunks], pa.string()))
    return len(late) - int(pc.sum(pc.is_in(late, value_set=people)).as_py() or 0)


def _codes_of_held(transaction: Transaction, campaign: CampaignRecord, held: pa.Array) -> int:
    """How many of the people held out got a code of another campaign."""
    decisions = transaction.decisions.of(campaign.campaign)
    coded = decisions.filter(decisions["code"].is_valid())
    return int(pc.sum(pc.is_in(coded["customer_id"].cast(pa.string()), value_set=held)).as_py() or 0)


# ---- what they ordered ----


def _orders(data: "ShopData", margin: float | str | None) -> pa.Table:
    """customer_id (text), ordered_at (of the shop's clock), full_price, paid, and the margin where it is a column; all
    amounts less what was returned, where the shop has a table of returns."""
    with data.tables() as tables:
        if "orders" not in tables.names():
            raise StateError(
                f"The shop has no table of orders in {data.place}, which says what customers bought without codes",
                fix="Add the table orders (docs/tables.md).",
            )
        scan = tables.scan("orders")
        names = ["customer_id", "ordered_at", "full_price", "paid"]
        if "paid" not in scan.schema.names:
            raise StateError(
                "The table orders has no column paid, so neither revenue nor markdown is known",
                fix="Add what customers paid after all discounts.",
            )
        column = margin if isinstance(margin, str) else None
        if column is not None and column not in scan.schema.names:
            raise InputError(
                "margin",
                found=f"the column {column}, which the table orders does not have",
                expected=f"a share such as 45%, or one of {', '.join(scan.schema.names)}",
            )
        names += ["order_id", *([] if column is None else [column])]
        found = columns_of(scan, list(dict.fromkeys(names)))
        returned = (
            None if "returns" not in tables.names() else columns_of(tables.scan("returns"), ["order_id", "value"])
        )
        local = by_wall_clock(found["ordered_at"], locale_of(tables))
    if not found.num_rows:
        raise StateError("The table orders is empty, so there is nothing to compare", fix="Refresh the table orders.")
    texts = ("customer_id", "ordered_at", "order_id")
    figures = {name: _numbers(found, name) for name in found.column_names if name not in texts}
    if returned is not None:
        kept = _kept_shares(found["order_id"], figures["paid"], returned)
        figures = {name: values * kept for name, values in figures.items()}
    return pa.table(
        {
            "customer_id": found["customer_id"].cast(pa.string()),
            "ordered_at": local.cast(pa.timestamp("us"), safe=False),
            **figures,
        }
    )


def _kept_shares(orders: pa.ChunkedArray, paid: Vector, returned: pa.Table) -> Vector:
    """(n,) the share of each order that was kept: goods that come back take their price and their cost along."""
    ids = orders.cast(pa.string()).combine_chunks()
    place = places_in(returned["order_id"].cast(pa.string()).combine_chunks(), among=ids)
    there = place.is_valid().to_numpy(zero_copy_only=False)
    back = np.bincount(
        pc.drop_null(place).to_numpy(), weights=_numbers(returned, "value", table="returns")[there], minlength=paid.size
    )
    gone = np.divide(back, paid, out=np.zeros(paid.size), where=paid > 0)
    return np.asarray(np.clip(1 - gone, 0.0, 1.0), np.float64)


def _numbers(orders: pa.Table, name: str, *, table: str = "orders") -> Vector:
    kind, column = orders.schema.field(name).type, orders[name]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):  # a column of a CSV file that only the shop knows
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            found = " ".join(str(error).split())[:100]
            raise InputError(
                f"{table}, column {name}", found=found, expected="amounts of money, with a decimal point"
            ) from None
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"{table}, column {name}", found=str(kind), expected="amounts of money")
    values = column.cast(pa.float64(), safe=False).to_numpy()
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise InputError(
            f"{table}, column {name}",
            found=f"{counted(int(wrong.sum()), 'row')} without a number, the first in row {wrong.argmax() + 1:,}",
            expected="an amount in every row",
        )
    return np.asarray(values, np.float64)


def _has_returns(data: "ShopData") -> bool:
    with data.tables() as tables:
        return "returns" in tables.names()


def _last_day(orders: pa.Table) -> date:
    """Orders are taken to be complete up to the last one."""
    last: datetime = pc.max(orders["ordered_at"]).as_py()
    return last.date()


@dataclass(frozen=True, slots=True, eq=False)
class _Book:
    """The orders of the people who count."""

    who: Integers  # place of the person
    at: Any  # datetime64[us]
    values: Mapping[str, Vector]  # figure → one number per order
    people: int

    @classmethod
    def of(cls, orders: pa.Table, people: pa.Array, margin: float | str | None) -> "_Book":
        place = places_in(orders["customer_id"].combine_chunks(), among=people)
        mine = orders.filter(place.is_valid())
        paid, full_price = mine["paid"].to_numpy(), mine["full_price"].to_numpy()
        values = {"revenue": paid, "markdown": full_price - paid, "orders": np.ones(paid.size)}
        if isinstance(margin, str):
            values["margin"] = mine[margin].to_numpy()
        elif margin is not None:
            values["margin"] = paid - (1 - margin) * full_price
        return cls(pc.drop_null(place).to_numpy(), mine["ordered_at"].to_numpy(), values, len(people))

    def sums(self, name: str, start: date, end: date) -> Vector:
        """(people,) of the orders from one day on and before another."""
        return self._sums(self.values[name], self._between(start, end))

    def before(self, began: date) -> Matrix:
        """(people, 3) what was known of everybody before the holdout began: nobody had been treated differently."""
        year, season = began - timedelta(days=_YEAR_DAYS), began - timedelta(days=_SEASON_DAYS)
        columns = (("revenue", year), ("orders", year), ("revenue", season))
        return np.column_stack([self.sums(name, start, began) for name, start in columns])

    def _between(self, start: date, end: date) -> Flags:
        return np.asarray((self.at >= np.datetime64(start)) & (self.at < np.datetime64(end)), np.bool_)

    def _sums(self, values: Vector, rows: Flags) -> Vector:
        return np.bincount(self.who[rows], weights=values[rows], minlength=self.people).astype(np.float64)


# ---- purchases moved in time ----


def _moved(
    book: _Book, campaigns: Sequence[CampaignRecord], held: Flags, *, before: Matrix, after: date
) -> tuple[MovedWeek, ...]:
    """Revenue of the weeks around a campaign; a person's weeks of all campaigns are one sum, as in every figure."""
    found = []
    weeks = range(-AROUND_WEEKS, AROUND_WEEKS + 1)
    for week in weeks:
        known = [span for one in campaigns if (span := _span(one, week))[1] <= after]
        if not known:
            continue
        sums = [book.sums("revenue", start, end) / ((end - start).days / 7) for start, end in known]
        each = added(np.mean(sums, axis=0), held, before=before)
        stretch = Stretch.DURING if week == 0 else Stretch.BEFORE if week < 0 else Stretch.AFTER
        found.append(MovedWeek(stretch=stretch, week=week, campaigns=len(known), revenue=each.per_customer))
    return tuple(found)


def _span(campaign: CampaignRecord, week: int) -> tuple[date, date]:
    """The days of a week around a campaign: from the first one on, and before the second."""
    opens, closes = campaign.plan.valid.start, campaign.plan.valid.end
    if week == 0:
        return opens, closes
    start = opens + week * _WEEK if week < 0 else closes + (week - 1) * _WEEK
    return start, start + _WEEK


# ---- what may be said ----


def _headline(found: Added) -> str:
    if not found.sample_ratio.ok:
        return "Nothing can be said yet: the holdout is not as large as planned."
    when, currency = period(found.first, found.last), read_currency(found.currency)
    second = "markdown" if found.margin is None else "margin"
    figures = {"revenue": found.revenue, second: found.markdown if found.margin is None else found.margin}
    known = [name for name, figure in figures.items() if figure.is_known]
    unknown = [name for name in figures if name not in known]
    if not known:
        return f"It cannot be said yet whether codes brought more revenue or {second} ({when})."
    said = []
    for name in known:
        amount = figures[name].total.value
        said.append(f"{money(abs(amount), currency=currency)} {'more' if amount >= 0 else 'less'} {name}")
    tail = f"; whether {unknown[0]} rose or fell cannot be said yet" if unknown else ""
    return f"Codes brought {' and '.join(said)}{tail} ({when})."


def _words(
    found: Added, *, asked: date | None, began: date, leaked: int, late: int, covered: date, wanted: date | None
) -> tuple[str, ...]:
    write = partial(money, currency=read_currency(found.currency))
    among = {1: "the campaign", 2: "both campaigns"}.get(
        len(found.campaigns), f"all {len(found.campaigns):,} campaigns"
    )
    people = f"{found.held:,} people held out of {among} "
    said = [
        f"{people}are compared with {found.people - found.held:,} others, by everything they ordered "
        f"{period(found.first, found.last)}."
    ]
    if not found.sample_ratio.ok:
        expected = found.sample_ratio.expected["held"]
        said.append(
            f"{found.held:,} people are held out where {expected:,.0f} were to be expected "
            f"({chance(found.sample_ratio.p_value)}). Who counts depends on the draw in some way, such as by a "
            "condition on earlier codes, so no figure can be trusted until that is found."
        )
    for name, figure in found.figures().items():
        if name != "orders" and (ends := figure.total.ends) is not None:
            each = f"{write(figure.others)} per person with codes, {write(figure.held)} without"
            low, high = (write(end, signed=True) for end in ends)
            said.append(f"{name.capitalize()}: {each}; in total {low} to {high} (90% interval).")
    if found.margin is None:
        said.append("The margin is not known: write `margin: 45%`, or a column of the orders, into disco.yaml.")
    if not found.revenue.is_known:
        said += _what_it_takes(found)
    if leaked:
        said.append(
            f"People held out got {counted(leaked, 'code')} of other campaigns in this time, which had no lasting "
            "holdout. What those campaigns added is not counted here."
        )
    if late:
        said.append(
            f"{late:,} people who only arrived after a launch are left out: whether somebody arrives may depend on "
            "codes they had before, so they cannot be compared."
        )
    if asked is not None and asked < began:
        said.append(f"Counting begins on {day_text(began)}: nobody was held out for good before.")
    if wanted is not None and covered < wanted:
        said.append(f"The shop's orders end on {day_text(covered)}, so what came later is not known.")
    if found.net_of_returns:
        said.append(
            "What was returned since is taken off the orders it came from, with its cost; an order still counts."
        )
    else:
        said.append(
            "Revenue is what customers paid when they ordered; returns are not taken off, because the shop has no "
            "table of returns."
        )
    return tuple(said)


def _what_it_takes(found: Added) -> tuple[str, ...]:
    """What share and time would show, where this share and this time show nothing."""
    here = min(found.outlook, key=lambda one: (abs(one.share - found.share), one.days), default=None)
    if here is None:
        return (f"After less than {_LEAST_DAYS} days it is too early to say what more time would show.",)
    longer = [one for one in found.outlook if one.share == here.share and one.days > here.days]
    larger = [one for one in found.outlook if one.days == here.days and one.share > here.share]
    said = [
        f"A holdout of {percent(here.share)} shows a change of revenue of {percent(here.detectable)} or more "
        f"after {here.days:,} days"
    ]
    said += [f"{percent(one.detectable)} after {one.days:,} days" for one in longer[:2]]
    said += [f"{percent(one.detectable)} now with a holdout of {percent(one.share)}" for one in larger[:1]]
    return (f"{', '.join(said)} (each with a chance of 80%).",)


# ---- the end of a lasting holdout ----


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReleasedHoldout(Result):
    """The end of a lasting holdout: whoever was held out gets codes from the next campaign on."""

    reason: str
    """Why, as the audit journal has it."""
    campaigns: tuple[str, ...]
    """The campaigns that it was held out of."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""


def release_holdout(store: Store, *, reason: str, today: date, dry_run: bool = False) -> ReleasedHoldout:
    """Let the people of the lasting holdout have codes again; the next campaign with one draws other people.

    What the holdout has shown can still be read: decisions say who was held out. reason: for the audit journal.
    """
    said = " ".join(reason.split())
    if not 3 <= len(said) <= _LONGEST_REASON:
        raise InputError(
            "reason", found=f"{len(said)} characters", expected=f"a sentence of 3 to {_LONGEST_REASON} characters"
        )
    with store.alone(action="release holdout", dry_run=dry_run) as transaction:  # no launch may draw in between
        campaigns = _Era.of(transaction).campaigns
        running = [one for one in campaigns if one.phase(today) in (Phase.SCHEDULED, Phase.RUNNING, Phase.PAUSED)]
        if running:
            ends = day_text(running[0].plan.valid.end)
            raise StateError(
                f"Campaign {running[0].campaign} holds these people out until {ends}",
                fix="Release the holdout when its codes have expired, or close or recall the campaign first.",
            )
        transaction.decisions.renew_holdout_secret()
        transaction.journal.note(reason=said, campaigns=[one.campaign for one in campaigns])
    return ReleasedHoldout(reason=said, campaigns=tuple(one.campaign for one in campaigns), dry_run=dry_run)
