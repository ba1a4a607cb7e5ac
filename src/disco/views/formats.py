"""Units of figures in tables and charts.

A unit (`Money`, `Percent`, `Count`, …) writes one value as text (`records.wording`), and says how an axis of that unit
is drawn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from disco.records.estimate import Estimate
from disco.records.money import GBP, Currency

# `name as name`: views take units and wording from here
from disco.records.wording import MAGNITUDES
from disco.records.wording import MONTHS as MONTHS
from disco.records.wording import count as count
from disco.records.wording import date as date
from disco.records.wording import finite as finite
from disco.records.wording import money as money
from disco.records.wording import number as number
from disco.records.wording import p_value as p_value
from disco.records.wording import percent as percent

MISSING = "–"


@dataclass(frozen=True, slots=True)
class AxisScale:
    """How a unit is drawn on an axis: values are multiplied by `factor`, ticks are written by charts.js."""

    factor: float
    ticks: dict[str, Any]  # prefix, magnitude (left off at zero), suffix, signed; or names, by position
    extent: tuple[float, float, float] | None = None  # lowest, highest, step, where the unit fixes them

    def plotted(self, value: float) -> float:
        """The value in units of the axis; ten figures, so that 0.1 · 100 is 10 and not 10.000000000000002."""
        return float(f"{value * self.factor:.10g}")


class Unit(Protocol):
    """What a figure is measured in."""

    def text(self, value: float) -> str:
        """The figure as people read it."""

    def scale(self, *, lowest: float, highest: float) -> AxisScale:
        """How an axis from lowest to highest is drawn."""


@dataclass(frozen=True, slots=True)
class Money:
    """Currency units. The fields are those of `money`.

    >>> Money().text(1234567), Money(full=True).text(1234567), Money(signed=True).text(-12)
    ('£1.23m', '£1,234,567', '−£12.00')
    """

    currency: Currency = GBP
    full: bool = False
    decimals: int | None = None
    signed: bool = False

    def text(self, value: float) -> str:
        return money(value, currency=self.currency, full=self.full, decimals=self.decimals, signed=self.signed)

    def scale(self, *, lowest: float, highest: float) -> AxisScale:
        factor, magnitude = _magnitude(max(abs(lowest), abs(highest)), from_size=2e3)
        return AxisScale(factor, {"prefix": self.currency.symbol, "magnitude": magnitude, "signed": self.signed})


@dataclass(frozen=True, slots=True)
class Percent:
    """Shares: 0.2 reads 20%.

    >>> Percent().text(0.2), Percent(decimals=2, signed=True).text(0.0112)
    ('20.0%', '+1.12%')
    """

    decimals: int = 1
    signed: bool = False

    def text(self, value: float) -> str:
        return percent(value, decimals=self.decimals, signed=self.signed)

    def scale(self, *, lowest: float, highest: float) -> AxisScale:
        return AxisScale(100, {"suffix": "%", "signed": self.signed})


@dataclass(frozen=True, slots=True)
class PercentagePoints:
    """Differences of shares: 0.02 between 10% and 12% is 2 points.

    >>> PercentagePoints(signed=True).text(0.02)
    '+2.0 pts'
    """

    decimals: int = 1
    signed: bool = False

    def text(self, value: float) -> str:
        return percent(value, decimals=self.decimals, signed=self.signed).replace("%", " pts")

    def scale(self, *, lowest: float, highest: float) -> AxisScale:
        return AxisScale(100, {"suffix": " pts", "signed": self.signed})


@dataclass(frozen=True, slots=True)
class Count:
    """Customers, codes, rounds: whole numbers.

    >>> Count().text(20000)
    '20,000'
    """

    signed: bool = False

    def text(self, value: float) -> str:
        return count(value, signed=self.signed)

    def scale(self, *, lowest: float, highest: float) -> AxisScale:
        factor, magnitude = _magnitude(max(abs(lowest), abs(highest)), from_size=2e5)
        return AxisScale(factor, {"magnitude": magnitude, "signed": self.signed})


@dataclass(frozen=True, slots=True)
class Number:
    """Anything without a unit.

    >>> Number(decimals=3).text(0.1549)
    '0.155'
    """

    decimals: int = 2
    signed: bool = False

    def text(self, value: float) -> str:
        return number(value, decimals=self.decimals, signed=self.signed)

    def scale(self, *, lowest: float, highest: float) -> AxisScale:
        return AxisScale(1, {"signed": self.signed})


@dataclass(frozen=True, slots=True)
class PValue:
    """Probabilities under the hypothesis of no difference.

    >>> PValue().text(0.0432)
    '0.043'
    """

    def text(self, value: float) -> str:
        return p_value(value)

    def scale(self, *, lowest: float, highest: float) -> AxisScale:
        return AxisScale(1, {})


@dataclass(frozen=True, slots=True)
class Names:
    """Things in a row, such as campaigns: 1 is the first name.

    >>> Names(["2025-10", "2025-11"]).text(2)
    '2025-11'
    """

    names: Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))

    def text(self, value: float) -> str:
        return self.names[round(value) - 1]

    def scale(self, *, lowest: float, highest: float) -> AxisScale:
        return AxisScale(1, {"names": ["", *self.names, ""]}, extent=(0.0, len(self.names) + 1.0, 1.0))


def _magnitude(size: float, *, from_size: float) -> tuple[float, str]:
    """Factor and letter for figures of this size; none below `from_size`."""
    if size < from_size:
        return 1.0, ""
    divisor, letter = next((pair for pair in MAGNITUDES if size >= pair[0]), MAGNITUDES[-1])
    return 1 / divisor, letter


def estimate_text(estimate: Estimate, *, unit: Unit) -> str:
    """x (a to b), or x alone where no interval is known.

    >>> estimate_text(Estimate(0.012, 0.004, 0.02, 0.95), unit=Percent(signed=True))
    '+1.2% (+0.4% to +2.0%)'
    >>> estimate_text(Estimate(1.24e6, 1.19e6, math.inf), unit=Money()), estimate_text(Estimate(3.0), unit=Count())
    ('£1.24m (£1.19m or more)', '3')
    """
    value = unit.text(estimate.value)
    if estimate.ends is None:
        return value
    lower, upper = (unit.text(end) if math.isfinite(end) else "" for end in estimate.ends)
    if lower and upper:
        return f"{value} ({lower} to {upper})"
    if lower:
        return f"{value} ({lower} or more)"
    return f"{value} ({upper} or less)" if upper else f"{value} (interval unbounded)"


def with_limits(estimate: Estimate | None) -> Estimate | None:
    """An estimate that may be stated; None where its interval has no limits.

    So it is with a percentage whose base is not clearly above 0: any percentage may then be true, and the difference
    says what is known.

    >>> with_limits(Estimate(85.4, -math.inf, math.inf)) is None
    True
    """
    return estimate if estimate is not None and estimate.bounded else None
