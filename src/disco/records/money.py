"""Money becomes integer minor units (pennies) at the door, once; everything stored is an exact integer."""

from decimal import Decimal

import numpy as np

from disco.records.arrays import Floats, Integers, Vector
from disco.records.errors import InputError

MINOR_PER_UNIT = 100
_LARGEST = 2**53 // MINOR_PER_UNIT  # beyond this a float no longer knows its pennies


def to_minor_units(amounts: object, *, where: str = "money") -> Integers:
    """Currency units (float, Decimal or integer) to minor units, rounded half to even at the third decimal.

    >>> to_minor_units([12.34, 0.1 + 0.2]).tolist()
    [1234, 30]
    """
    values = np.asarray(amounts)
    if values.dtype == object:
        if not all(isinstance(value, Decimal | int) and Decimal(value).is_finite() for value in values.tolist()):
            raise InputError(where, found="values that are not all finite decimals", expected="finite amounts of money")
        return np.array([round(Decimal(value) * MINOR_PER_UNIT) for value in values.tolist()], np.int64)
    if values.dtype.kind not in "iuf":
        raise InputError(where, found=f"values of type {values.dtype}", expected="amounts of money")
    floats = values.astype(np.float64)
    if not np.isfinite(floats).all():
        row = int(np.flatnonzero(~np.isfinite(floats))[0])
        raise InputError(f"{where}, row {row + 1}", found=floats[row], expected="a finite amount of money")
    if floats.size and np.abs(floats).max() > _LARGEST:
        raise InputError(where, found=np.abs(floats).max(), expected=f"amounts up to {_LARGEST:,}")
    return np.rint(floats * MINOR_PER_UNIT).astype(np.int64)


def from_minor_units(minor: Integers | Floats) -> Vector:
    """Minor units to currency units.

    >>> from_minor_units(np.array([1234])).tolist()
    [12.34]
    """
    return np.asarray(minor, np.float64) / MINOR_PER_UNIT
