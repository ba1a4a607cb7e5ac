"""What rows of contexts, depths and full prices may look like; anything else is refused by row.

Contexts and ln F are rounded to multiples of 2⁻¹⁶ (half to even; `records.exact_sums`). Rounded figures are integers
in grid units, their products are exact in float64, so sums over rows are exact whatever the order.
"""

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from disco.records.arguments import read_array, read_number
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.exact_sums import CONTEXT_LIMIT

Scalar = TypeVar("Scalar", bound=np.generic)


def read_names(names: object, *, size: int | None) -> tuple[str, ...]:
    """Names of the context's columns: text, one per column where their number is known."""
    given = tuple(names) if isinstance(names, Iterable) and not isinstance(names, str) else ()
    if not given or not all(isinstance(name, str) for name in given) or size not in (None, len(given)):
        expected = "the names of the columns" if size is None else f"the names of {size} columns"
        raise InputError("context_names", found=repr(names)[:80], expected=expected)
    return given


def require_names(given: tuple[str, ...] | None, learned: tuple[str, ...] | None) -> None:
    """Refuses a table whose columns have other names, or another order, than those the model has learned with."""
    if given is None or learned is None or given == learned:
        return
    fix = "Give the columns in the order in which the model has learned them."
    if set(given) != set(learned):
        fix = "Give the columns that the model has learned with."
    raise SchemaMismatchError("context columns", found=", ".join(given), expected=", ".join(learned), fix=fix)


def read_context(context: ArrayLike, *, size: int | None = None) -> Matrix:
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
    return read_only(array)


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """The array, not to be written to: so those of Arrow and pandas and our own are one type, compiled for once."""
    view = array.view()
    view.flags.writeable = False
    return view


def refuse_context(context: Matrix, row: int, column: int) -> None:
    raise InputError(
        f"context, row {row + 1}, column {column + 1}",
        found=context[row, column],
        expected="finite values within ±4",
        fix="Standardise and clip; ContextNetwork does both.",
    )


def read_depth_numbers(depth: ArrayLike) -> Vector:
    """Depths as float64, not yet checked; −0.0 becomes 0.0, and a 32-bit 0.2 becomes 0.2, not 0.20000000298."""
    array = read_array(depth, where="depth")
    short = np.asarray(depth).dtype
    if short.kind == "f" and short.itemsize < 8:
        distinct, which = np.unique(array, return_inverse=True)
        array = np.array([float(str(short.type(value))) for value in distinct])[which].reshape(array.shape)
    return array + 0.0


def read_depth_column(depth: ArrayLike, *, rows: int | None = None) -> Vector:
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
        expected="a share of the price in [0, 1], such as 0.20 for 20% off",
    )


def read_forgetting(value: object, *, where: str) -> float:
    """The weight of a campaign per campaign since."""
    return read_number(value, where=where, expected="a factor per campaign in (0, 1]", above=0.0, most=1.0)
