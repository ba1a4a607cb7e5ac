"""Money becomes integer minor units (pennies) at the door, once; everything stored is an exact integer."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from disco.records.arrays import Floats, Integers, Vector
from disco.records.errors import InputError

MINOR_PER_UNIT = 100
LARGEST_AMOUNT = 2**53 // MINOR_PER_UNIT  # beyond this a float no longer knows its pennies


def to_minor_units(amounts: object, *, where: str = "money") -> Integers:
    """Currency units (float, Decimal or integer; a sequence, NumPy or Arrow array) to minor units.

    m = round(100·x), halves to the even penny. A float is taken at its own binary value, so 0.1 + 0.2 is 30 pennies.

    >>> to_minor_units([12.34, 0.1 + 0.2]).tolist()
    [1234, 30]
    """
    if isinstance(amounts, pa.Array | pa.ChunkedArray):
        if amounts.null_count:
            raise InputError(where, found=f"{amounts.null_count} nulls", expected="an amount of money in every row")
        if pa.types.is_decimal(amounts.type):
            return np.asarray(minor_units_of_decimals(amounts, where=where).to_numpy(), np.int64)
        amounts = amounts.to_numpy()
    values = np.asarray(amounts)
    if values.dtype == object:
        return _from_objects(values, where=where)
    if values.dtype.kind not in "iuf":
        raise InputError(where, found=f"values of type {values.dtype}", expected="amounts of money")
    floats = values.astype(np.float64)
    if not np.isfinite(floats).all():
        row = int(np.flatnonzero(~np.isfinite(floats))[0])
        raise InputError(f"{where}, row {row + 1}", found=floats.flat[row], expected="a finite amount of money")
    if floats.size and np.abs(floats).max() > LARGEST_AMOUNT:
        raise InputError(where, found=np.abs(floats).max(), expected=f"amounts up to {LARGEST_AMOUNT:,}")
    return np.rint(floats * MINOR_PER_UNIT).astype(np.int64)


def _from_objects(values: NDArray[Any], *, where: str) -> Integers:
    minor = np.empty(values.shape, np.int64)
    for row, value in enumerate(values.flat):
        if isinstance(value, bool) or not isinstance(value, Decimal | int | float) or not Decimal(value).is_finite():
            raise InputError(f"{where}, row {row + 1}", found=repr(value), expected="a finite amount of money")
        amount = Decimal(value)
        if abs(amount) > LARGEST_AMOUNT:
            raise InputError(f"{where}, row {row + 1}", found=value, expected=f"amounts up to {LARGEST_AMOUNT:,}")
        minor.flat[row] = round(amount * MINOR_PER_UNIT)
    return minor


def minor_units_of_decimals(amounts: pa.Array | pa.ChunkedArray, *, where: str = "money") -> pa.Array | pa.ChunkedArray:
    """A decimal column to int64 minor units without Python objects; nulls stay null.

    >>> minor_units_of_decimals(pa.array([Decimal("12.345"), None])).to_pylist()
    [1234, None]
    """
    if pa.types.is_decimal32(amounts.type) or pa.types.is_decimal64(amounts.type):  # these have no arithmetic
        amounts = amounts.cast(pa.decimal128(38, amounts.type.scale))
    largest = pc.max(pc.abs(amounts)).as_py()
    if largest is not None and largest > LARGEST_AMOUNT:
        raise InputError(where, found=largest, expected=f"amounts up to {LARGEST_AMOUNT:,}")
    if amounts.type.scale > 2:
        amounts = pc.round(amounts, ndigits=2, round_mode="half_to_even")
    pennies = pc.multiply(amounts.cast(pa.decimal128(20, 2)), pa.scalar(MINOR_PER_UNIT, pa.decimal128(3, 0)))
    return pennies.cast(pa.int64())


def from_minor_units(minor: Integers | Floats) -> Vector:
    """Minor units to currency units.

    >>> from_minor_units(np.array([1234])).tolist()
    [12.34]
    """
    return np.asarray(minor, np.float64) / MINOR_PER_UNIT
