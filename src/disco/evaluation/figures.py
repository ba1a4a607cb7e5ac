"""What callers hand in, read once: a number, a column, a matrix; anything else is refused by the name it was given."""

from numbers import Real
from typing import Any

import numpy as np

from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError


def read_number(value: object, *, where: str, expected: str, above: float = -np.inf, below: float = np.inf) -> float:
    """A finite number with above < value < below.

    >>> read_number(3, where="revenue_weight", expected="a positive number", above=0)
    3.0
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not above < float(value) < below:
        raise InputError(where, found=repr(value), expected=expected)
    return float(value)


def read_level(level: object) -> float:
    """The level of an interval."""
    return read_number(level, where="level", expected="a share between 0 and 1, such as 0.95", above=0, below=1)


def read_weight(revenue_weight: object) -> float:
    """The weight w of w·R − C; beyond 10¹² it is revenue alone, for which None stands."""
    expected = "a positive number below 10¹², or None"
    return read_number(revenue_weight, where="revenue_weight", expected=expected, above=0, below=1e12)


def read_column(values: object, *, where: str, rows: int | None = None) -> Vector:
    """(rows,) float64, NaN allowed.

    >>> read_column([1, None], where="before").tolist()
    [1.0, nan]
    """
    column: Vector = _floats(values, where)
    if column.ndim != 1 or (rows is not None and column.size != rows):
        wanted = "one figure per row" if rows is None else f"one figure for each of {rows} rows"
        raise InputError(where, found=f"shape {column.shape}", expected=wanted)
    return column


def read_matrix(values: object, *, where: str, rows: int | None = None) -> Matrix:
    """(rows, columns) float64 in row order, NaN allowed; a single column may come without its second axis."""
    matrix: Matrix = _floats(values, where)
    if matrix.ndim == 1 and rows is not None:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or not matrix.size or (rows is not None and len(matrix) != rows):
        wanted = "(rows, columns), not empty" if rows is None else f"figures for each of {rows} rows"
        raise InputError(where, found=f"shape {matrix.shape}", expected=wanted)
    return np.ascontiguousarray(matrix)


def _floats(values: object, where: str) -> Any:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":  # text such as "20" would otherwise be read as a number, a date as well
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):  # ValueError: rows of different lengths
        raise InputError(where, found="values that are no numbers", expected="numbers, one list per column") from None
