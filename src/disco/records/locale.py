"""Where a shop is: the currency of its money, and the time zone in which its days begin.

Two kinds of time are kept apart. An *instant* is a number of microseconds since 1970 UTC. The *wall clock* is what a
clock in the shop shows, counted in the same way from 1970 there; a day of the wall clock has always 86,400 s, so days
and hours of day are plain arithmetic on it. A time without a zone is a time of the wall clock.

When clocks go back, an hour is shown twice: a time without a zone is then the first of the two. When they go forward,
an hour is never shown: such a time is read with the offset before the change, so 02:30 is 03:30 summer time. These are
the rules of iCalendar (RFC 5545) and of Python (PEP 495, fold = 0).
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING

from disco.records.errors import InputError
from disco.records.money import GBP, Currency, read_currency

if TYPE_CHECKING:
    from disco.records.arrays import Integers

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_ZONES = ("localtime", "posixrules", "Factory")
_SAME_AS_UTC = ("Etc/UTC", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu")
_EARLIEST, _LATEST = _EPOCH, datetime(2100, 1, 1, tzinfo=UTC)  # outside, the nearest offset holds
_STEP = timedelta(days=7)  # no zone changes its clocks twice within a week
FIRST_YEAR, LAST_YEAR = 1900, 8999
"""Days that a question may name, as in the tables: from those at the ends of the calendar nothing can be counted."""
LOCALE_INPUT = "locale"
"""What a plan calls it among its inputs; absent in pounds and UTC, so that such plans keep their ids."""
REPEATED_US = 3_600_000_000
"""How far clocks go back at most in one change, so that two times of the wall clock may be in reverse."""


@dataclass(frozen=True, slots=True)
class Locale:
    """The currency and the time zone of a shop. The default is what a shop without these settings has."""

    currency: Currency = GBP
    time_zone: str = "UTC"
    """A name of the IANA database, as `read_time_zone` gives it."""

    @property
    def is_utc(self) -> bool:
        """Whether instants and the wall clock are the same numbers."""
        return self.time_zone == "UTC"

    @property
    def reversed_us(self) -> int:
        """By how much a later time of the wall clock may precede an earlier one, in microseconds."""
        return REPEATED_US if len(_changes(self.time_zone)[0]) else 0

    @property
    def zone(self) -> tzinfo:
        return _zone(self.time_zone)

    def fingerprint(self) -> str:
        """Changes what numbers and times mean; empty for the default."""
        return "" if self == POUNDS_UTC else f"{self.currency.code} {self.time_zone}"

    @classmethod
    def of_fingerprint(cls, text: str) -> "Locale":
        """
        >>> Locale.of_fingerprint("EUR Europe/Berlin").fingerprint(), Locale.of_fingerprint("") == Locale()
        ('EUR Europe/Berlin', True)
        """
        if not text:
            return cls()
        code, _, name = text.partition(" ")
        return cls(read_currency(code), name)

    # ---- one moment

    def day_of(self, moment: datetime) -> date:
        """The day it is in the shop at a moment."""
        return moment.astimezone(self.zone).date()

    def moment(self, local: date | datetime) -> datetime:
        """A time of the wall clock, or the beginning of a day, as a moment with the shop's offset.

        >>> berlin = Locale(time_zone="Europe/Berlin")
        >>> str(berlin.moment(date(2026, 7, 1))), str(berlin.moment(datetime(2026, 3, 29, 2, 30)))
        ('2026-07-01 00:00:00+02:00', '2026-03-29 03:30:00+02:00')
        """
        naive = local if isinstance(local, datetime) else datetime.combine(local, time())
        # by way of UTC, because Python gives a time that no clock shows the offset of before the change
        return naive.replace(tzinfo=self.zone).astimezone(UTC).astimezone(self.zone)

    def local(self, moment: datetime) -> datetime:
        """A moment with the shop's offset."""
        return moment.astimezone(self.zone)

    # ---- columns

    def wall_clock(self, instants: "Integers") -> "Integers":
        """Microseconds since 1970 UTC as those of the wall clock."""
        import numpy as np

        if self.is_utc:
            return instants
        at, offsets = _changes(self.time_zone)
        return np.asarray(instants + offsets[np.searchsorted(at, instants, side="right")], np.int64)

    def instants(self, wall_clock: "Integers") -> "Integers":
        """Microseconds of the wall clock as those since 1970 UTC.

        >>> import numpy as np
        >>> twice = np.array([(datetime(2026, 10, 25, 2, 30) - datetime(1970, 1, 1)) // timedelta(microseconds=1)])
        >>> datetime.fromtimestamp(int(Locale(time_zone="Europe/Berlin").instants(twice)[0]) / 1e6, UTC).hour
        0
        """
        import numpy as np

        if self.is_utc:
            return wall_clock
        at, offsets = _changes(self.time_zone)
        shown = at + np.maximum(offsets[:-1], offsets[1:])  # until then the offset before a change holds
        return np.asarray(wall_clock - offsets[np.searchsorted(shown, wall_clock, side="right")], np.int64)


POUNDS_UTC = Locale()
"""Of a shop that says neither."""


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # its import takes a while, and most commands and shops need none

    return ZoneInfo(name)


@lru_cache(maxsize=16)
def _changes(name: str) -> "tuple[Integers, Integers]":
    """The instants at which a zone changes its offset, and the offsets: one before the first change, one after each.

    Looked up week by week and narrowed down by halving, because zoneinfo does not list them.
    """
    import numpy as np

    zone = _zone(name)

    def offset(instant: datetime) -> timedelta:
        return instant.astimezone(zone).utcoffset() or timedelta()

    at, offsets = [], [offset(_EARLIEST)]
    before = _EARLIEST
    while before < _LATEST:
        after = before + _STEP
        if (now := offset(after)) != offsets[-1]:
            low, high = before, after
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low) // timedelta(seconds=1) // 2)
                low, high = (low, middle) if offset(middle) != offsets[-1] else (middle, high)
            at.append((high - _EPOCH) // _MICROSECOND)
            offsets.append(now)
        before = after
    return np.array(at, np.int64), np.array([shift // _MICROSECOND for shift in offsets], np.int64)


def read_time_zone(name: str) -> str:
    """The name of a time zone; InputError.

    >>> read_time_zone("Berlin")
    Traceback (most recent call last):
    ...
    disco.records.errors.InputError: time_zone: found 'Berlin'; expected ... Did you mean Europe/Berlin?
    """
    if name == "UTC" or name in _SAME_AS_UTC:
        return "UTC"
    try:
        if name in _NOT_ZONES or name.startswith(("posix/", "right/")):
            raise ValueError(name)
        _zone(name)
        return name
    except (KeyError, ValueError, OSError):  # unknown, not a name at all, or a part of the world such as Europe
        near = _near_zone(name)
        fix = f"Did you mean {near}?" if near else "The database of time zones lists them by continent and city."
        expected = "a name of the IANA database, such as Europe/Berlin"
        raise InputError("time_zone", found=repr(name), expected=expected, fix=fix) from None


def _near_zone(name: str) -> str | None:
    from zoneinfo import available_timezones

    known = sorted(available_timezones())
    plain = {zone.casefold(): zone for zone in known} | {
        zone.rpartition("/")[2].casefold(): zone for zone in known if "/" in zone and not zone.startswith("Etc/")
    }
    asked = name.strip().casefold().replace(" ", "_")
    # short names are too much alike: CEST is not EST
    near = (
        [asked]
        if asked in plain
        else get_close_matches(asked, [zone for zone in plain if len(zone) > 4], n=1, cutoff=0.75)
    )
    return plain[near[0]] if near else None
