"""Money becomes integer minor units (pennies) here and nowhere else; everything stored is an exact integer.

m = round(k·x), halves to the even one, with k minor units per currency unit: 100 pennies, 1 yen, 1,000 fils. A float is
taken at its own binary value, so 0.1 + 0.2 is 30 pennies; a decimal is rounded exactly. `minor_units` is for Arrow
columns, `minor_units_sql` is the same in DuckDB.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Floats, Integers, Vector
from disco.records.currency import GBP, Currency


def minor_units(amounts: pa.Array, currency: Currency = GBP) -> pa.Array:
    """Currency units (floats, decimals or integers) as int64 minor units; null where there is no amount: null, not
    finite, or beyond ±`Currency.largest_amount`.

    >>> minor_units(pa.array([12.34, 0.1 + 0.2, float("nan")])).to_pylist()
    [1234, 30, None]
    """
    rough = amounts.cast(pa.float64(), safe=False)
    within = pc.fill_null(pc.less_equal(pc.abs(rough), float(currency.largest_amount)), False)
    nothing = pa.scalar(None, pa.int64())
    if pa.types.is_decimal(amounts.type):
        return _of_decimals(pc.if_else(within, amounts, pa.scalar(None, amounts.type)), currency)
    plain = np.where(within, pc.fill_null(rough, 0.0).to_numpy(zero_copy_only=False), 0.0)
    return pc.if_else(within, pa.array(np.rint(plain * currency.minor_per_unit).astype(np.int64)), nothing)


def _of_decimals(amounts: pa.Array, currency: Currency) -> pa.Array:
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


def from_minor_units(minor: Integers | Floats, currency: Currency = GBP) -> Vector:
    """Minor units to currency units.

    >>> from_minor_units(np.array([1234])).tolist()
    [12.34]
    """
    return np.asarray(minor, np.float64) / currency.minor_per_unit
