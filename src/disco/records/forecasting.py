"""By which rules forecasts are made: whether the level of campaigns may move, and what is known of the season."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from itertools import pairwise

from disco.records.arrays import Vector
from disco.records.errors import InputError

_MOST_FACTOR = 10.0


class Level(StrEnum):
    """What campaigns bring against their forecasts."""

    MOVING = "moving"
    """It may drift, as fast as the shop's own campaigns say."""
    FIXED = "fixed"
    """It is one number for all campaigns."""


class SeasonSource(StrEnum):
    """Where the season of take-up comes from, beside the operator's calendar."""

    ORDERS = "orders"
    """The shop's orders of earlier years, as far as its codes followed them."""
    NONE = "none"
    """There is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEntry:
    """Days that the operator names, such as Christmas."""

    name: str
    first: date
    last: date
    factor: float | None = None
    """On the share who use a code sent for these days; None: as the orders of the same days of earlier years say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRules:
    """What a shop's settings say about forecasts."""

    level: Level = Level.MOVING
    season: SeasonSource = SeasonSource.ORDERS
    calendar: tuple[CalendarEntry, ...] = ()

    @property
    def knows_seasons(self) -> bool:
        return self.season is not SeasonSource.NONE or bool(self.calendar)


USUAL_RULES = ForecastRules()
"""Where no settings are known."""


def check_calendar(entries: Sequence[CalendarEntry]) -> None:
    """Refuse days that end before they begin, overlap, or have a factor that no shop has seen."""
    for one in entries:
        if one.last < one.first:
            raise InputError(
                f"calendar, {one.name}",
                found=f"from {one.first} to {one.last}",
                expected="a last day that is not before the first",
                fix="Exchange the dates, or correct the year.",
            )
        if (one.last - one.first).days > 365:
            raise InputError(
                f"calendar, {one.name}",
                found=f"{(one.last - one.first).days + 1} days",
                expected="at most a year: name each year's days on their own",
            )
        if one.factor is not None and not 1 / _MOST_FACTOR <= one.factor <= _MOST_FACTOR:
            raise InputError(
                f"calendar, {one.name}",
                found=f"the factor {one.factor:g}",
                expected=f"a number from {1 / _MOST_FACTOR:g} to {_MOST_FACTOR:g}, such as 1.4 for 40% more",
            )
    for before, after in pairwise(sorted(entries, key=lambda one: one.first)):
        if after.first <= before.last:
            raise InputError(
                f"calendar, {after.name}",
                found=f"days from {after.first}, and {before.name} lasts to {before.last}",
                expected="entries that do not overlap",
                fix="Shorten one of them, or make a third entry for the days that both name.",
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DailyHistory:
    """What happened on each day of the shop's history."""

    first_day: int
    """Days since 1970-01-01."""
    orders: Vector
    """(days,)"""
    sent: Vector
    """(days,) codes of other systems, by the day they were sent; those that have matured."""
    used: Vector
    """(days,) those of them that were used, by the same day."""
