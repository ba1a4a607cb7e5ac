"""Time of the simulated shop: months, days, and how busy each day is."""

from datetime import date

import numpy as np
from numpy.typing import NDArray

from disco.records.arrays import Integers, Vector
from disco.retailer.settings import Calendar

Days = NDArray[np.datetime64]

DAYS_PER_MONTH = 365.25 / 12


def month_of(day: date) -> int:
    """Months since January of year 0: the number that keys a month's draws.

    >>> month_of(date(2024, 3, 31)) - month_of(date(2023, 12, 1))
    3
    """
    return day.year * 12 + day.month - 1


def first_day(month: int) -> date:
    return date(month // 12, month % 12 + 1, 1)


def days_of_month(month: int) -> Days:
    return np.arange(day_number(first_day(month)), day_number(first_day(month + 1))).astype("datetime64[D]")


def day_number(day: date) -> int:
    """Days since 1970-01-01, as Arrow's date32 counts."""
    return (day - date(1970, 1, 1)).days


def busyness(days: Days, *, calendar: Calendar) -> Vector:
    """Relative frequency of orders per day: yearly wave × weekend × sale events; near 1 on average.

    >>> week = np.arange("2024-06-03", "2024-06-10", dtype="datetime64[D]")      # Monday to Sunday
    >>> factor = busyness(week, calendar=Calendar(weekend_lift=2.0))
    >>> bool(factor[5:].min() > 1.5 * factor[:5].max())
    True
    """
    year = days.astype("datetime64[Y]")
    day_of_year: Integers = (days - year.astype("datetime64[D]")).astype(np.int64)
    factor = np.exp(calendar.year_amplitude * np.cos(2 * np.pi * (day_of_year - calendar.year_peak) / 365.25))
    weekday = (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0
    factor = np.where(weekday >= 5, factor * calendar.weekend_lift, factor)
    for event in calendar.events:
        for offset in (-1, 0):  # an event may reach into the next year
            month = ((year + offset).astype("datetime64[M]") + (event.month - 1)).astype("datetime64[D]")
            since = (days - (month + (event.day - 1))).astype(np.int64)
            factor = np.where((since >= 0) & (since < event.days), factor * event.lift, factor)
    return np.asarray(factor, np.float64)
