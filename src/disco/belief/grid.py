"""The door of the belief room: what rows may look like, and the grid they are rounded to, once.

Contexts and ln F are rounded to multiples of 2⁻¹⁶ (half to even). Rounded figures are integers in grid units, their
products are exact in float64, so sums over rows are exact whatever the order.
"""

from numbers import Real

import numpy as np

from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError, SchemaMismatchError

GRID = 65536.0  # units per 1.0
CONTEXT_LIMIT = 4.0
LOG_LIMIT = 32.0


def read_context(context: object, *, size: int | None = None) -> Matrix:
    """A (rows, d1) float64 array in C order, finite and within ±4; `size` is the d1 the model has learned with."""
    try:
        array = np.ascontiguousarray(context, np.float64)
    except (TypeError, ValueError):
        raise InputError("context", found=f"a {type(context).__name__}", expected="numbers (rows, features)") from None
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


def refuse_context(context: Matrix, row: int, column: int) -> None:
    raise InputError(
        f"context, row {row + 1}, column {column + 1}",
        found=context[row, column],
        expected="finite values within ±4",
        fix="Standardise and clip; ContextNetwork does both.",
    )


def read_depth_column(depth: object, *, rows: int | None = None) -> Vector:
    """Depths in [0, 1] as float64; a single depth stands for every row when `rows` is given."""
    try:
        array = np.asarray(depth, np.float64, order="C")
    except (TypeError, ValueError):
        raise InputError("depth", found=f"a {type(depth).__name__}", expected="numbers in [0, 1]") from None
    if rows is not None and array.ndim == 0:
        array = np.full(rows, float(array))
    if array.ndim != 1 or (rows is not None and array.size != rows):
        expected = "one depth per row" if rows is None else f"one depth for each of {rows} rows"
        raise InputError("depth", found=f"an array of shape {array.shape}", expected=expected)
    bad = ~((array >= 0.0) & (array <= 1.0))
    if bad.any():
        refuse_depth(array, int(np.flatnonzero(bad)[0]))
    return array + 0.0  # -0.0 becomes 0.0


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
