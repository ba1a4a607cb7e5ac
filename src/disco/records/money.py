"""Money: currencies as ISO 4217 lists them, with the symbols that people read, and amounts in minor units.

An amount becomes integer minor units (pennies) here and nowhere else; everything stored is an exact integer.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from disco.records.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.records.arrays import Floats, Integers, Vector


_MOST_MINOR = 10**15  # sums of nine such amounts are still exact in float64: 2⁵³ is 9.007e15
_MOST_UNITS = 10**13  # ln(10¹³) = 29.9 stays below the 32 that evidence takes


@dataclass(frozen=True, slots=True)
class Currency:
    """One currency."""

    code: str
    """ISO 4217: three capital letters."""
    digits: int = 2
    """Digits of the minor unit: 2 for pennies and cents, 0 where there is none."""
    symbol: str = ""
    """In front of an amount; the code and a space that does not break where a symbol would be doubtful."""

    @property
    def minor_per_unit(self) -> int:
        return int(10**self.digits)

    @property
    def smallest(self) -> str:
        """One minor unit, in currency units.

        >>> [read_currency(code).smallest for code in ("GBP", "JPY", "KWD")]
        ['0.01', '1', '0.001']
        """
        return f"{1 / self.minor_per_unit:.{self.digits}f}"

    @property
    def largest_amount(self) -> int:
        """In currency units; features and checks rely on exact sums of such amounts."""
        return min(_MOST_UNITS, _MOST_MINOR // self.minor_per_unit)


# ISO 4217, list one, by digits of the minor unit: what people pay with, without funds, metals and test codes
_CODES = {
    2: """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP
    CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS
    KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD
    PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP
    TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG""",
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
}
_DIGITS = {code: digits for digits, codes in _CODES.items() for code in codes.split()}
_SYMBOLS = {
    "GBP": "£",
    "EUR": "€",
    "USD": "$",
    "JPY": "¥",
    "AUD": "A$",
    "BRL": "R$",
    "CAD": "CA$",
    "CNY": "CN¥",
    "HKD": "HK$",
    "ILS": "₪",
    "INR": "₹",
    "KRW": "₩",
    "MXN": "MX$",
    "NZD": "NZ$",
    "PHP": "₱",
    "TWD": "NT$",
    "UAH": "₴",
    "VND": "₫",
    "ZAR": "R",
}
_NAMES = {
    "€": "EUR",
    "EURO": "EUR",
    "EUROS": "EUR",
    "£": "GBP",
    "POUND": "GBP",
    "POUNDS": "GBP",
    "STERLING": "GBP",
    "UKP": "GBP",
    "$": "USD",
    "US$": "USD",
    "DOLLAR": "USD",
    "DOLLARS": "USD",
    "¥": "JPY",
    "YEN": "JPY",
    "RMB": "CNY",
    "YUAN": "CNY",
    "FRANKEN": "CHF",
    "SFR": "CHF",
    "ZL": "PLN",
    "ZŁ": "PLN",
}


def read_currency(code: str) -> Currency:
    """The currency with this code, in letters of either case; InputError.

    >>> read_currency("jpy")
    Currency(code='JPY', digits=0, symbol='¥')
    >>> read_currency("euro")
    Traceback (most recent call last):
    ...
    disco.records.errors.InputError: currency: found 'euro'; expected a code of ISO 4217, such as EUR... mean EUR?
    """
    name = code.strip().upper()
    if name not in _DIGITS:
        swapped = [known for known in _DIGITS if sorted(known) == sorted(name)]  # GPB
        # the first two letters are the country's; of other three letters any code would be a guess
        close = [known for known in _DIGITS if len(name) == 3 and known[:2] == name[:2]]
        if len(name) != 3:
            close = get_close_matches(name, _DIGITS, n=1, cutoff=0.8)  # EURR
        near = [_NAMES[name]] if name in _NAMES else swapped or (close if len(close) == 1 else [])
        fix = f"Did you mean {near[0]}?" if near else "Give the three letters that a bank statement shows."
        raise InputError("currency", found=repr(code), expected="a code of ISO 4217, such as EUR", fix=fix)
    return Currency(name, _DIGITS[name], _SYMBOLS.get(name, f"{name}\u00a0"))


GBP = read_currency("GBP")


# ---- minor units
#
# m = round(k·x), halves to the even one, with k minor units per currency unit: 100 pennies, 1 yen, 1,000 fils. A float
# is taken at its own binary value, so 0.1 + 0.2 is 30 pennies; a decimal is rounded exactly. `minor_units` is for Arrow
# columns, `minor_units_sql` is the same in DuckDB. Both libraries are imported where amounts are computed: short
# commands only name a currency.


def minor_units(amounts: "pa.Array", currency: Currency = GBP) -> "pa.Array":
    """Currency units (floats, decimals or integers) as int64 minor units; null where there is no amount: null, not
    finite, or beyond ±`Currency.largest_amount`.

    >>> import pyarrow as pa
    >>> minor_units(pa.array([12.34, 0.1 + 0.2, float("nan")])).to_pylist()
    [1234, 30, None]
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rough = amounts.cast(pa.float64(), safe=False)
    within = pc.fill_null(pc.less_equal(pc.abs(rough), float(currency.largest_amount)), False)
    nothing = pa.scalar(None, pa.int64())
    if pa.types.is_decimal(amounts.type):
        return _of_decimals(pc.if_else(within, amounts, pa.scalar(None, amounts.type)), currency)
    plain = np.where(within, pc.fill_null(rough, 0.0).to_numpy(zero_copy_only=False), 0.0)
    return pc.if_else(within, pa.array(np.rint(plain * currency.minor_per_unit).astype(np.int64)), nothing)


def _of_decimals(amounts: "pa.Array", currency: Currency) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = currency.digits
    if pa.types.is_decimal32(amounts.type) or pa.types.is_decimal64(amounts.type):  # these have no arithmetic
        amounts = amounts.cast(pa.decimal128(38, amounts.type.scale))
    if amounts.type.scale > digits:
        amounts = pc.round(amounts, ndigits=digits, round_mode="half_to_even")
    factor = pa.scalar(currency.minor_per_unit, pa.decimal128(digits + 1, 0))
    return pc.multiply(amounts.cast(pa.decimal128(20, digits)), factor).cast(pa.int64())


def minor_units_sql(amount: str, *, is_decimal: bool, currency: Currency = GBP) -> str:
    """A DuckDB expression for the minor units of `amount`: a whole number, not yet of an integer type."""
    if is_decimal:  # exact, also where the column has more digits after the point than the currency
        return f"(round_even({amount}, {currency.digits}) * {currency.minor_per_unit})"
    return f"round_even(CAST({amount} AS DOUBLE) * {currency.minor_per_unit}, 0)"


def from_minor_units(minor: "Integers | Floats", currency: Currency = GBP) -> "Vector":
    """Minor units to currency units.

    >>> import numpy as np
    >>> from_minor_units(np.array([1234])).tolist()
    [12.34]
    """
    import numpy as np

    return np.asarray(minor, np.float64) / currency.minor_per_unit
