"""Money becomes integer minor units (pennies) here and nowhere else; everything stored is an exact integer.

m = round(100·x), halves to the even penny. A float is taken at its own binary value, so 0.1 + 0.2 is 30 pennies; a
decimal is rounded exactly. `minor_units` is for Arrow columns, `minor_units_sql` is the same in DuckDB.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Floats, Integers, Vector

MINOR_PER_UNIT = 100
LARGEST_AMOUNT = 10**13
"""In currency units. Ten to the 15 minor units: sums of nine such amounts are still exact in float64 (2⁵³ is 9.007e15),
which features and checks rely on, and ln(10¹³) = 29.9 stays below the 32 that evidence takes."""


def minor_units(amounts: pa.Array) -> pa.Array:
    """Currency units (floats, decimals or integers) as int64 minor units; null where there is no amount: null, not
    finite, or beyond ±LARGEST_AMOUNT.

    >>> minor_units(pa.array([12.34, 0.1 + 0.2, float("nan")])).to_pylist()
    [1234, 30, None]
    """
    rough = amounts.cast(pa.float64(), safe=False)
    within = pc.fill_null(pc.less_equal(pc.abs(rough), float(LARGEST_AMOUNT)), False)
    nothing = pa.scalar(None, pa.int64())
    if pa.types.is_decimal(amounts.type):
        return _of_decimals(pc.if_else(within, amounts, pa.scalar(None, amounts.type)))
    plain = np.where(within, pc.fill_null(rough, 0.0).to_numpy(zero_copy_only=False), 0.0)
    return pc.if_else(within, pa.array(np.rint(plain * MINOR_PER_UNIT).astype(np.int64)), nothing)


def _of_decimals(amounts: pa.Array) -> pa.Array:
    if pa.types.is_decimal32(amounts.type) or pa.types.is_decimal64(amounts.type):  # these have no arithmetic
        amounts = amounts.cast(pa.decimal128(38, amounts.type.scale))
    if amounts.type.scale > 2:
        amounts = pc.round(amounts, ndigits=2, round_mode="half_to_even")
    pennies = pc.multiply(amounts.cast(pa.decimal128(20, 2)), pa.scalar(MINOR_PER_UNIT, pa.decimal128(3, 0)))
    return pennies.cast(pa.int64())


def minor_units_sql(amount: str, *, is_decimal: bool) -> str:
    """A DuckDB expression for the minor units of `amount`: a whole number, not yet of an integer type."""
    if is_decimal:  # exact, also where the column has more than two digits after the point
        return f"(round_even({amount}, 2) * {MINOR_PER_UNIT})"
    return f"round_even(CAST({amount} AS DOUBLE) * {MINOR_PER_UNIT}, 0)"


def from_minor_units(minor: Integers | Floats) -> Vector:
    """Minor units to currency units.

    >>> from_minor_units(np.array([1234])).tolist()
    [12.34]
    """
    return np.asarray(minor, np.float64) / MINOR_PER_UNIT
