"""The door of the belief room: what rows may look like, and the grid they are rounded to, once.

Contexts and ln F are rounded to multiples of 2⁻¹⁶ (half to even). Rounded figures are integers in grid units, their
products are exact in float64, so sums over rows are exact whatever the order.
"""

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np

from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError, SchemaMismatchError

GRID = 65536.0  # units per 1.0
CONTEXT_LIMIT = 4.0


def read_array(values: object, *, where: str) -> Matrix:
    """Real numbers as a float64 array in C order; text, dates, complex numbers and masked entries are none."""
    try:
        kind = np.asarray(values).dtype
        if kind.kind not in "biufO":
            raise InputError(where, found=f"values of type {kind}", expected="an array of numbers")
        array = np.asarray(values, np.float64, order="C")
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError(where, found=f"a {type(values).__name__}", expected="an array of numbers") from None
    if np.ma.is_masked(values):
        raise InputError(where, found="masked entries", expected="a number everywhere", fix="Drop these rows.")
    return array


def read_context(context: object, *, size: int | None = None) -> Matrix:
    """A (rows, d1) float64 array in C order, finite and within ±4; `size` is the d1 the model has learned with."""
    array = read_array(context, where="context")
    if array.ndim != 2:
        raise InputError("context", found=f"an array of shape {array.shape}", expected="(rows, features)")
    if size is not None and array.shape[1] != size:
        raise SchemaMismatchError(
            "context of another schema",
            found=f"{array.shape[1]} columns",
            expected=f"the {size} columns this model has learned with",
            fix="Use the context network that belongs to this model.",
        )
    if array.size and not (array.min() >= -CONTEXT_LIMIT and array.max() <= CONTEXT_LIMIT):  # NaN fails both
        row, column = np.argwhere(~(np.abs(array) <= CONTEXT_LIMIT))[0]
        refuse_context(array, int(row), int(column))
    return array


def read_positive(value: object, *, where: str, expected: str = "a finite number above 0") -> float:
    """A setting that must be a finite number above 0."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise InputError(where, found=repr(value), expected=expected)
    return float(value)


def read_share(value: object, *, where: str) -> float:
    """A setting that must be a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise InputError(where, found=repr(value), expected="a share from 0 to 1")
    return float(value)


def read_count(value: object, *, where: str) -> int:
    """A setting that must be a whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(where, found=repr(value), expected="a whole number, 1 or more")
    return int(value)


def read_numbers(values: Sequence[float] | float, *, where: str, positive: bool = False) -> tuple[float, ...]:
    """Finite numbers as a tuple, or a refusal that names the setting."""
    expected = "finite numbers above 0" if positive else "finite numbers"
    try:
        numbers = tuple(float(value) for value in np.atleast_1d(np.asarray(values, np.float64)))
    except (TypeError, ValueError):
        raise InputError(where, found=repr(values), expected=expected) from None
    if not numbers or not np.isfinite(numbers).all() or (positive and min(numbers) <= 0):
        raise InputError(where, found=numbers, expected=expected)
    return numbers


def refuse_context(context: Matrix, row: int, column: int) -> None:
    raise InputError(
        f"context, row {row + 1}, column {column + 1}",
        found=context[row, column],
        expected="finite values within ±4",
        fix="Standardise and clip; ContextNetwork does both.",
    )


def read_depth_numbers(depth: object) -> Vector:
    """Depths as float64, not yet checked; −0.0 becomes 0.0, and a 32-bit 0.2 becomes 0.2, not 0.20000000298."""
    array = read_array(depth, where="depth")
    short = np.asarray(depth).dtype
    if short.kind == "f" and short.itemsize < 8:
        distinct, which = np.unique(array, return_inverse=True)
        array = np.array([float(str(short.type(value))) for value in distinct])[which].reshape(array.shape)
    return array + 0.0


def read_depth_column(depth: object, *, rows: int | None = None) -> Vector:
    """Depths in [0, 1] as float64; a single depth stands for every row when `rows` is given."""
    array = read_depth_numbers(depth)
    if rows is not None and array.ndim == 0:
        array = np.full(rows, float(array))
    if array.ndim != 1 or (rows is not None and array.size != rows):
        expected = "one depth per row" if rows is None else f"one depth for each of {rows} rows"
        raise InputError("depth", found=f"an array of shape {array.shape}", expected=expected)
    bad = ~((array >= 0.0) & (array <= 1.0))
    if bad.any():
        refuse_depth(array, int(np.flatnonzero(bad)[0]))
    return array


def refuse_depth(depth: Vector, row: int) -> None:
    raise InputError(
        f"depth, row {row + 1}",
        found=depth[row],
        expected="a share of the price in [0, 1], such as 0.20 for 20 % off",
    )


def refuse_full_price(full_price: Vector, row: int) -> None:
    raise InputError(
        f"full_price, row {row + 1}",
        found=full_price[row],
        expected="a finite amount of money above 0 with |ln| < 32",
        fix="Only purchases are evidence of basket value; non-buyers enter through engagement.",
    )
