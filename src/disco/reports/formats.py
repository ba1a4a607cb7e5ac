"""How money, shares, counts and dates read, in one place, so that a figure looks the same on every page.

A unit (`Money`, `Percent`, `Count`, `Number`) writes one value as text, and says how an axis of that unit is scaled.
The minus sign is U+2212: it is as wide as a digit, so columns of figures stay aligned.
"""

import datetime
import math
import re
from dataclasses import dataclass
from typing import Protocol

from disco.records.errors import InputError

MISSING = "–"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MAGNITUDES = ((1e9, " bn"), (1e6, " m"), (1e3, " k"))


def finite(value: float, *, where: str) -> float:
    """The value as a float; NaN and infinity are refused by name.

    >>> finite(float("nan"), where="revenue of campaign C")
    Traceback (most recent call last):
    ...
    disco.records.errors.InputError: revenue of campaign C: found nan; expected a finite number...
    """
    number = float(value)
    if not math.isfinite(number):
        raise InputError(where, found=number, expected="a finite number", fix="Leave the value out (None) if unknown.")
    return number + 0.0  # -0.0 becomes 0.0


def _with_sign(value: float, digits: str, *, prefix: str = "", suffix: str = "", signed: bool = False) -> str:
    """Sign, prefix, digits, suffix; what rounds to zero carries no sign."""
    is_zero = not any(character in "123456789" for character in digits)
    sign = "" if is_zero else "−" if value < 0 else "+" if signed else ""
    return f"{sign}{prefix}{digits}{suffix}"


def money(
    value: float, *, currency: str = "£", full: bool = False, decimals: int | None = None, signed: bool = False
) -> str:
    """Three significant figures from a thousand on; `full` writes every pound, and pennies below a thousand.

    >>> money(1234567), money(1234567, full=True), money(-181_600), money(2.1), money(0)
    ('£1.23 m', '£1,234,567', '−£182 k', '£2.10', '£0')
    >>> money(999_999), money(1234.5, full=True, decimals=2), money(34.5, signed=True)
    ('£1.00 m', '£1,234.50', '+£34.50')
    """
    amount = finite(value, where="money")
    size = abs(amount)
    if amount == 0 and decimals is None:
        return f"{currency}0"
    if decimals is not None and (full or size < 1e3):
        return _with_sign(amount, f"{size:,.{decimals}f}", prefix=currency, signed=signed)
    if full or size < 999.995:
        return _with_sign(amount, f"{size:,.{2 if size < 999.995 else 0}f}", prefix=currency, signed=signed)
    size = float(f"{size:.3g}")  # first round, then choose the magnitude: 999,999 is £1.00 m, not £1000 k
    divisor, suffix = next((pair for pair in _MAGNITUDES if size >= pair[0]), _MAGNITUDES[-1])
    scaled = size / divisor
    digits = f"{scaled:,.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f}"
    return _with_sign(amount, digits, prefix=currency, suffix=suffix, signed=signed)


def percent(share: float, *, decimals: int = 1, signed: bool = False) -> str:
    """A share as a percentage; say in the words around it of what.

    >>> percent(0.0123, signed=True), percent(-0.5, decimals=0), percent(-0.0001), percent(12.5)
    ('+1.2 %', '−50 %', '0.0 %', '1,250.0 %')
    """
    value = finite(share, where="share")
    return _with_sign(value, f"{abs(value) * 100:,.{decimals}f}", suffix=" %", signed=signed)


def count(value: float, *, signed: bool = False) -> str:
    """
    >>> count(1234567), count(-1200), count(0)
    ('1,234,567', '−1,200', '0')
    """
    whole = finite(value, where="count")
    return _with_sign(whole, f"{abs(whole):,.0f}", signed=signed)


def number(value: float, *, decimals: int = 2, signed: bool = False) -> str:
    """
    >>> number(0.4137, decimals=3), number(-1234.5)
    ('0.414', '−1,234.50')
    """
    figure = finite(value, where="number")
    return _with_sign(figure, f"{abs(figure):,.{decimals}f}", signed=signed)


def date(day: datetime.date) -> str:
    """The same in every locale.

    >>> date(datetime.date(2027, 3, 8))
    '8 Mar 2027'
    """
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def keep_figures_together(text: str) -> str:
    """No line break between a figure and its unit: "£1.24 m", "20 %", "8 Mar".

    >>> keep_figures_together("20 % off by 8 Mar")
    '20\\xa0% off by 8\\xa0Mar'
    """
    return re.sub(rf"(?<=\d) (?=%|(?:k|m|bn|{'|'.join(_MONTHS)})\b)", "\u00a0", text)


@dataclass(frozen=True, slots=True)
class Scale:
    """How a unit is drawn on an axis: values are multiplied by `factor`, ticks read prefix + number + suffix.

    `in_name` is the unit where ticks cannot carry it: it goes into the axis's name.
    """

    factor: float
    prefix: str = ""
    suffix: str = ""
    in_name: str = ""

    def drawn(self, value: float) -> float:
        """The value as plotted; ten figures, so that 0.1 · 100 is 10 and not 10.000000000000002."""
        return float(f"{value * self.factor:.10g}")


class Unit(Protocol):
    """What a figure is measured in."""

    def text(self, value: float) -> str: ...

    def scale(self, *, lowest: float, highest: float) -> Scale: ...


@dataclass(frozen=True, slots=True)
class Money:
    """Currency units. `full` and `decimals` as in `money`.

    >>> Money().text(1234567), Money(full=True).text(1234567), Money(signed=True).text(-12)
    ('£1.23 m', '£1,234,567', '−£12.00')
    """

    currency: str = "£"
    full: bool = False
    decimals: int | None = None
    signed: bool = False

    def text(self, value: float) -> str:
        return money(value, currency=self.currency, full=self.full, decimals=self.decimals, signed=self.signed)

    def scale(self, *, lowest: float, highest: float) -> Scale:
        scale = _scale_by_size(max(abs(lowest), abs(highest)), from_size=2e3)
        # a tick template cannot put the sign before the currency: with losses on the axis it moves to the axis's name
        if lowest < 0:
            return Scale(scale.factor, in_name=f"{self.currency}{scale.suffix}")
        return Scale(scale.factor, prefix=self.currency, suffix=scale.suffix)


@dataclass(frozen=True, slots=True)
class Percent:
    """Shares: 0.2 reads 20 %.

    >>> Percent().text(0.2), Percent(decimals=2, signed=True).text(0.0112)
    ('20.0 %', '+1.12 %')
    """

    decimals: int = 1
    signed: bool = False

    def text(self, value: float) -> str:
        return percent(value, decimals=self.decimals, signed=self.signed)

    def scale(self, *, lowest: float, highest: float) -> Scale:
        return Scale(100, suffix=" %")


@dataclass(frozen=True, slots=True)
class Count:
    """Customers, codes, rounds: whole numbers.

    >>> Count().text(20000)
    '20,000'
    """

    signed: bool = False

    def text(self, value: float) -> str:
        return count(value, signed=self.signed)

    def scale(self, *, lowest: float, highest: float) -> Scale:
        return _scale_by_size(max(abs(lowest), abs(highest)), from_size=2e5)


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

    def scale(self, *, lowest: float, highest: float) -> Scale:
        return Scale(1)


def _scale_by_size(size: float, *, from_size: float) -> Scale:
    if size < from_size:
        return Scale(1)
    divisor, suffix = next((pair for pair in _MAGNITUDES if size >= pair[0]), _MAGNITUDES[-1])
    return Scale(1 / divisor, suffix=suffix)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; without one where none is known. NaN is refused.

    >>> Estimate(1.24e6, 1.19e6, 1.3e6).text(Money())
    '£1.24 m (£1.19 m to £1.30 m)'
    """

    value: float
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        finite(self.value, where="estimate")
        if (self.lower is None) != (self.upper is None):
            raise InputError("estimate", found="one end of an interval", expected="both ends, or none")
        if self.lower is not None and self.upper is not None:
            lower, upper = finite(self.lower, where="lower end"), finite(self.upper, where="upper end")
            if lower > upper:
                raise InputError("estimate", found=f"interval {lower} to {upper}", expected="lower not above upper")

    @property
    def ends(self) -> tuple[float, float] | None:
        """Lower and upper end, where known."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

    def text(self, unit: Unit) -> str:
        if self.lower is None or self.upper is None:
            return unit.text(self.value)
        return interval(self.value, self.lower, self.upper, unit=unit)


def interval(value: float, lower: float, upper: float, *, unit: Unit) -> str:
    """x (a to b).

    >>> interval(0.012, 0.004, 0.02, unit=Percent(signed=True))
    '+1.2 % (+0.4 % to +2.0 %)'
    """
    return f"{unit.text(value)} ({unit.text(lower)} to {unit.text(upper)})"
