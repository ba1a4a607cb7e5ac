"""Measures: what is counted, per customer, in one pass over each table.

Every measure is an aggregate of integers (minor units of money, basis points of depth, 2⁻¹⁶ of ln money, days), so its
value does not depend on the order in which rows are read or on the number of threads. Formulas see money in hundredths
of the currency unit, whatever its minor unit is, so that one formula is right in every currency. Features are formulas
over measures, see `catalogue.py`. The rows a measure sees are those of `sources.py`: dated in the year before the as-of
date, with `age` = days before it (1 = the day before).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from disco.records.grid import GRID

YEAR_DAYS = 365
WINDOWS_DAYS = (YEAR_DAYS, 90, 30, 7)
LOG_GRID = int(GRID)  # ln money is rounded to 2⁻¹⁶ before it is summed
_MONEY = re.compile(r"(sum|max|min|arg_max)\(\w+_minor\b")
NEVER_DAYS = YEAR_DAYS + 1  # "not within the year" for recencies: further away than anything seen


@dataclass(frozen=True, slots=True)
class Measure:
    """An integer aggregate over one source; `empty` is its value for a customer without rows (None: unknown).

    `also` names a second table the rows of the source are joined with; without it the measure is unknown.
    """

    name: str
    source: str
    aggregate: str
    empty: int | None = 0
    also: str | None = None

    @property
    def is_money(self) -> bool:
        """
        >>> MEASURES["full_last"].is_money, MEASURES["returned_orders"].is_money, MEASURES["log_sum"].is_money
        (True, False, False)
        """
        return bool(_MONEY.match(self.aggregate))

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.source,) if self.also is None else (self.source, self.also)


def _windowed(source: str, name: str, aggregate: str, windows: tuple[int, ...] = WINDOWS_DAYS) -> Iterator[Measure]:
    for days in windows:
        where = "" if days == YEAR_DAYS else f" FILTER (WHERE age <= {days})"
        yield Measure(f"{name}_{days}", source, aggregate + where)


def _orders() -> Iterator[Measure]:
    def one(name: str, aggregate: str, empty: int | None = 0, also: str | None = None) -> Measure:
        return Measure(name, "orders", aggregate, empty, also)

    yield from _windowed("orders", "orders", "count(*)")
    yield from _windowed("orders", "full", "sum(full_minor)", (YEAR_DAYS, 90, 30))
    yield one("paid_365", "sum(paid_minor)")
    yield from _windowed("orders", "items", "sum(items)", (YEAR_DAYS, 90))
    yield one("log_sum", "sum(log_full)")
    yield one("log_square", "sum(log_full::HUGEINT * log_full)")
    yield one("logged", "count(log_full)")
    yield one("full_max", "max(full_minor)", None)
    yield one("full_min", "min(full_minor)", None)
    # the amount is part of the key, so that two orders of one instant give the same answer in any row order
    yield one("full_last", "arg_max(full_minor, instant_us::HUGEINT * 4611686018427387904 + full_minor)", None)
    yield one("last_order_age", "min(age)", NEVER_DAYS)
    yield one("first_order_age", "max(age)", NEVER_DAYS)
    yield one("active_months", "bit_count(bit_or(1::BIGINT << ((age - 1) // 30)))")
    yield one("weekend_orders", "count(*) FILTER (WHERE weekend)")
    yield one("evening_orders", "count(*) FILTER (WHERE evening)")
    yield one("returned_orders", "count(*) FILTER (WHERE returned_minor > 0)", also="returns")
    yield one(
        "fully_returned_orders",
        "count(*) FILTER (WHERE returned_minor > 0 AND returned_minor >= paid_minor)",
        also="returns",
    )
    yield one("order_returned", "sum(returned_minor)", also="returns")
    yield one("coded_orders", "count(*) FILTER (WHERE coded)")
    yield one("coded_full", "sum(full_minor) FILTER (WHERE coded)")
    yield one("coded_log_sum", "sum(log_full) FILTER (WHERE coded)")
    yield one("coded_logged", "count(log_full) FILTER (WHERE coded)")
    yield one("depth_logged", "count(log_full) FILTER (WHERE depth_bp IS NOT NULL)", also="codes")
    yield one("depth_sum", "sum(depth_bp) FILTER (WHERE log_full IS NOT NULL)", also="codes")
    yield one("depth_square", "sum(depth_bp::HUGEINT * depth_bp) FILTER (WHERE log_full IS NOT NULL)", also="codes")
    yield one("depth_log_sum", "sum(log_full) FILTER (WHERE depth_bp IS NOT NULL)", also="codes")
    yield one("depth_log_cross", "sum(depth_bp::HUGEINT * log_full)", also="codes")


def _returns() -> Iterator[Measure]:
    def one(name: str, aggregate: str, empty: int = 0) -> Measure:
        return Measure(name, "returns", aggregate, empty, also="orders")  # only the order knows whose return it is

    for days in (YEAR_DAYS, 90, 30):
        yield one(f"returns_{days}", f"count(*) FILTER (WHERE age <= {days})")
    for days in (YEAR_DAYS, 90):
        yield one(f"returned_{days}", f"sum(value_minor) FILTER (WHERE age <= {days})")
    yield one("returned_max", "max(value_minor)")
    yield one("last_return_age", "min(age)", NEVER_DAYS)
    yield one("return_delay", "sum(delay_days)")


def _codes() -> Iterator[Measure]:
    yield from _windowed("codes", "codes", "count(*)")
    for days in (YEAR_DAYS, 90, 30):
        yield Measure(f"redeemed_{days}", "codes", f"count(*) FILTER (WHERE redeemed_age <= {days})")
    yield Measure("received_depth", "codes", "sum(depth_bp)")
    yield Measure("redeemed_depth", "codes", "sum(depth_bp) FILTER (WHERE redeemed_age IS NOT NULL)")
    yield Measure("redeemed_depth_max", "codes", "max(depth_bp) FILTER (WHERE redeemed_age IS NOT NULL)", None)
    yield Measure("last_code_age", "codes", "min(age)", NEVER_DAYS)
    yield Measure("last_redemption_age", "codes", "min(redeemed_age)", NEVER_DAYS)
    yield Measure("redemption_delay", "codes", "sum(age - redeemed_age)")


def _site() -> Iterator[Measure]:
    yield from _windowed("site", "visits", "sum(visits)")
    yield from _windowed("site", "views", "sum(views)", (YEAR_DAYS, 30))
    yield from _windowed("site", "bagged", "sum(add_to_bag)", (YEAR_DAYS, 30))
    yield Measure("saves", "site", "sum(saves)")
    yield Measure("checkouts", "site", "sum(checkouts)")
    yield Measure("site_days", "site", "count(*)")
    yield Measure("last_visit_age", "site", "min(age)", NEVER_DAYS)


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (Measure("tenure", "customers", "tenure", None), *_orders(), *_returns(), *_codes(), *_site())
}
