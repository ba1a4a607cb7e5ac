"""How money, shares, counts and dates read in sentences, tables and on pages: in one place, so that they read alike.

The minus sign is U+2212: it is as wide as a digit, so columns of figures stay aligned.
"""

import datetime
import math

from disco.records.errors import InputError
from disco.records.locale import Locale
from disco.records.money import GBP, Currency

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MAGNITUDES = ((1e9, "bn"), (1e6, "m"), (1e3, "k"))
_LEAST_P_VALUE = 0.001


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
    """Sign, prefix, digits, suffix; what rounds to zero has no sign."""
    is_zero = not any(character in "123456789" for character in digits)
    sign = "" if is_zero else "−" if value < 0 else "+" if signed else ""
    return f"{sign}{prefix}{digits}{suffix}"


def money(
    value: float, *, currency: Currency = GBP, full: bool = False, decimals: int | None = None, signed: bool = False
) -> str:
    """An amount in currency units, with three significant figures from a thousand on.

    full: write every unit, and minor units below a thousand.
    decimals: how many, where the amount is written in full or is below a thousand.
    signed: write a plus sign, too.

    >>> money(1234567), money(1234567, full=True), money(-181_600), money(2.1), money(0)
    ('£1.23m', '£1,234,567', '−£182k', '£2.10', '£0')
    >>> money(999_999), money(1234.5, full=True, decimals=2), money(34.5, signed=True)
    ('£1.00m', '£1,234.50', '+£34.50')

    Where the minor unit is the currency unit, a hundred times as much is written in full: prices have five digits.

    >>> from disco.records.money import read_currency
    >>> yen, dinar = read_currency("JPY"), read_currency("KWD")
    >>> money(12_345, currency=yen), money(1_234_567, currency=yen), money(12.3456, currency=dinar)
    ('¥12,345', '¥1.23m', 'KWD\xa012.346')
    """
    amount = finite(value, where="money")
    size, symbol = abs(amount), currency.symbol
    if amount == 0 and decimals is None:
        return f"{symbol}0"
    large = max(1e3, 1e5 / currency.minor_per_unit)
    rounds_to_large = large - 0.5 / currency.minor_per_unit
    if decimals is not None and (full or size < large):
        return _with_sign(amount, f"{size:,.{decimals}f}", prefix=symbol, signed=signed)
    if full or size < rounds_to_large:
        digits = currency.digits if size < rounds_to_large else 0
        return _with_sign(amount, f"{size:,.{digits}f}", prefix=symbol, signed=signed)
    size = float(f"{size:.3g}")  # first round, then choose the magnitude: 999,999 is £1.00m, not £1000k
    divisor, suffix = next((pair for pair in MAGNITUDES if size >= pair[0]), MAGNITUDES[-1])
    scaled = size / divisor
    digits_text = f"{scaled:,.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f}"
    return _with_sign(amount, digits_text, prefix=symbol, suffix=suffix, signed=signed)


def percent(share: float, *, decimals: int = 1, signed: bool = False) -> str:
    """A share as a percentage; the words around it say of what.

    >>> percent(0.0123, signed=True), percent(-0.5, decimals=0), percent(-0.0001), percent(12.5)
    ('+1.2%', '−50%', '0.0%', '1,250.0%')
    """
    value = finite(share, where="share")
    return _with_sign(value, f"{abs(value) * 100:,.{decimals}f}", suffix="%", signed=signed)


def count(value: float, *, signed: bool = False) -> str:
    """A whole number.

    >>> count(1234567), count(-1200), count(0)
    ('1,234,567', '−1,200', '0')
    """
    whole = finite(value, where="count")
    return _with_sign(whole, f"{abs(whole):,.0f}", signed=signed)


def number(value: float, *, decimals: int = 2, signed: bool = False) -> str:
    """A figure without a unit.

    >>> number(0.4137, decimals=3), number(-1234.5)
    ('0.414', '−1,234.50')
    """
    figure = finite(value, where="number")
    return _with_sign(figure, f"{abs(figure):,.{decimals}f}", signed=signed)


def p_value(value: float) -> str:
    """Two decimals, three below 0.1, and never zero.

    >>> p_value(0.9), p_value(0.0432), p_value(0.00002)
    ('0.90', '0.043', '<0.001')
    """
    chance = finite(value, where="p-value")
    if chance < _LEAST_P_VALUE:
        return f"<{_LEAST_P_VALUE:g}"
    return f"{chance:.3f}" if chance < 0.1 else f"{chance:.2f}"


def chance(value: float) -> str:
    """A p-value as a statement.

    >>> chance(0.0432), chance(0.00002)
    ('p = 0.043', 'p <0.001')
    """
    text = p_value(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def date(day: datetime.date) -> str:
    """A day, the same in every locale.

    >>> date(datetime.date(2027, 3, 8))
    '8 Mar 2027'
    """
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def short_date(day: datetime.date) -> str:
    """A day where the year is known.

    >>> short_date(datetime.date(2027, 3, 8))
    '8 Mar'
    """
    return f"{day.day} {MONTHS[day.month - 1]}"


def period(first: datetime.date, last: datetime.date) -> str:
    """Days from the first to the last, both included.

    >>> period(datetime.date(2026, 12, 4), datetime.date(2026, 12, 17))
    '4–17 Dec 2026'
    >>> period(datetime.date(2026, 11, 28), datetime.date(2027, 1, 3))
    '28 Nov 2026 – 3 Jan 2027'
    """
    if first == last:
        return date(first)
    if first.year != last.year:
        return f"{date(first)} – {date(last)}"
    if first.month != last.month:
        return f"{first.day} {MONTHS[first.month - 1]} – {date(last)}"
    return f"{first.day}–{date(last)}"


def moment_text(moment: datetime.datetime, locale: Locale) -> str:
    """A moment by the clock of the shop, with its offset.

    >>> noon = datetime.datetime(2026, 12, 4, 12, 5, tzinfo=datetime.UTC)
    >>> moment_text(noon, Locale()), moment_text(noon, Locale(time_zone="Europe/Berlin"))
    ('2026-12-04 12:05 UTC', '2026-12-04 13:05+01:00')
    """
    local = locale.local(moment)
    return f"{local:%Y-%m-%d %H:%M} UTC" if locale.is_utc else local.isoformat(sep=" ", timespec="minutes")


def local_text(moment: datetime.datetime, locale: Locale) -> str:
    """A moment as a clock in the shop shows it, for pages whose readers are there.

    >>> noon = datetime.datetime(2026, 12, 4, 12, 5, tzinfo=datetime.UTC)
    >>> local_text(noon, Locale(time_zone="Europe/Berlin"))
    '4 Dec 2026 13:05'
    """
    local = locale.local(moment)
    return f"{date(local)} {local:%H:%M}"


def validity(opens: datetime.date, closes: datetime.date) -> str:
    """When codes can be used: whole days, or from and until a time of day.

    >>> validity(datetime.date(2026, 12, 4), datetime.date(2026, 12, 18))
    '4–17 Dec 2026'
    >>> validity(datetime.datetime(2026, 12, 4, 8), datetime.datetime(2026, 12, 18, 8))
    '4 Dec 2026 08:00 – 18 Dec 2026 08:00'
    """
    if isinstance(opens, datetime.datetime) and isinstance(closes, datetime.datetime):
        return f"{date(opens)} {opens:%H:%M} – {date(closes)} {closes:%H:%M}"
    return period(opens, closes - datetime.timedelta(days=1))


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "order"), counted(1200, "order")
    ('1 order', '1,200 orders')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
