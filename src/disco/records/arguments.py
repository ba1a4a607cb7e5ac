"""What callers hand in, read once: numbers, counts, columns. Anything else is refused by the name it was given.

Booleans are not numbers here: `True` where a count is expected is a mistake. Text is not a number either, even "20".
"""

import re
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError

MAIL_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")
"""One address, without a name beside it and without anything that a header could read as more than one."""


def read_number(
    value: object,
    *,
    where: str,
    expected: str = "a finite number",
    above: float = -np.inf,
    below: float = np.inf,
    least: float = -np.inf,
    most: float = np.inf,
) -> float:
    """A finite number with above < value < below and least ≤ value ≤ most.

    >>> read_number(3, where="revenue_weight", expected="a positive number", above=0)
    3.0
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InputError(where, found=repr(value), expected=expected)
    try:
        number = float(value)
    except OverflowError:  # an integer beyond 10³⁰⁸
        number = np.inf
    if not (np.isfinite(number) and above < number < below and least <= number <= most):
        raise InputError(where, found=repr(value)[:80], expected=expected)
    return number


def read_positive(value: object, *, where: str, expected: str = "a finite number above 0") -> float:
    """A finite number above 0."""
    return read_number(value, where=where, expected=expected, above=0.0)


def read_non_negative(value: object, *, where: str) -> float:
    """A finite number, 0 or more."""
    return read_number(value, where=where, expected="a finite number, 0 or more", least=0.0)


def read_share(value: object, *, where: str) -> float:
    """A number from 0 to 1."""
    return read_number(value, where=where, expected="a share from 0 to 1", least=0.0, most=1.0)


def refuse_protected(names: Iterable[str], protected: Iterable[str], *, where: str, fix: str) -> None:
    """InputError where a column that the setting `protected` names would be used.

    >>> refuse_protected(["spend", "Gender"], ["gender"], where="features", fix="Leave it out.")
    Traceback (most recent call last):
    ...
    disco.records.errors.InputError: features: found the protected column Gender; expected no column ...
    """
    kept_out = {name.lower() for name in protected}
    if found := [name for name in names if name.lower() in kept_out]:
        column = f"the protected column {found[0]}" if len(found) == 1 else f"protected columns: {', '.join(found)}"
        raise InputError(where, found=column, expected="no column that the setting `protected` names", fix=fix)


def read_percent(value: object) -> object:
    """`10%` as 0.1; anything else as it is.

    >>> read_percent("12.5 %"), read_percent("many"), read_percent(3)
    (0.125, 'many', 3)
    """
    percent = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    return float(percent[1]) / 100 if percent else value


def read_level(level: object) -> float:
    """The level of an interval."""
    return read_number(level, where="level", expected="a share between 0 and 1, such as 0.95", above=0.0, below=1.0)


def read_count(value: object, *, where: str, least: int = 1) -> int:
    """A whole number, `least` or more.

    >>> read_count(0, where="repeats", least=0)
    0
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < least:
        raise InputError(where, found=repr(value), expected=f"a whole number, {least} or more")
    return int(value)


def read_seed(value: object) -> int:
    """Any whole number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise InputError("seed", found=repr(value), expected="a whole number")
    return int(value)


def read_numbers(values: Sequence[float] | float, *, where: str, positive: bool = False) -> tuple[float, ...]:
    """One or more finite numbers, as a tuple."""
    expected = "finite numbers above 0" if positive else "finite numbers"
    try:
        numbers = tuple(float(value) for value in np.atleast_1d(np.asarray(values, np.float64)))
    except (TypeError, ValueError, OverflowError):
        raise InputError(where, found=repr(values)[:80], expected=expected) from None
    if not numbers or not np.isfinite(numbers).all() or (positive and min(numbers) <= 0):
        raise InputError(where, found=numbers, expected=expected)
    return numbers


def read_array(values: ArrayLike, *, where: str) -> Matrix:
    """Numbers as a float64 array in C order, NaN allowed. Text, dates, complex and masked numbers are refused."""
    try:
        kind = np.asarray(values).dtype
        if kind.kind not in "biufO":
            found = "text" if kind.kind in "US" else f"values of type {kind}"
            raise InputError(where, found=found, expected="an array of numbers")
        array = np.asarray(values, np.float64, order="C")
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):  # ValueError: rows of different lengths
        raise InputError(where, found=f"a {type(values).__name__}", expected="an array of numbers") from None
    if np.ma.is_masked(values):
        raise InputError(where, found="masked entries", expected="a number everywhere", fix="Drop these rows.")
    return array


def read_column(values: ArrayLike, *, where: str, rows: int | None = None) -> Vector:
    """(rows,) float64, NaN allowed.

    >>> read_column([1, None], where="before").tolist()
    [1.0, nan]
    """
    column = read_array(values, where=where)
    if column.ndim != 1 or (rows is not None and column.size != rows):
        wanted = "one figure per row" if rows is None else f"one figure for each of {rows} rows"
        raise InputError(where, found=f"shape {column.shape}", expected=wanted)
    return column


def read_matrix(values: ArrayLike, *, where: str, rows: int | None = None) -> Matrix:
    """(rows, columns) float64 in row order, NaN allowed; a single column may come without its second axis."""
    matrix = read_array(values, where=where)
    if matrix.ndim == 1 and rows is not None:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or not matrix.size or (rows is not None and len(matrix) != rows):
        wanted = "(rows, columns), not empty" if rows is None else f"figures for each of {rows} rows"
        raise InputError(where, found=f"shape {matrix.shape}", expected=wanted)
    return np.ascontiguousarray(matrix)


def refuse_rows(
    wrong: NDArray[np.bool_], *, where: str, found: Vector | str, expected: str, fix: str | None = None
) -> None:
    """Refuse the first row that is wrong, if any.

    wrong (n,). where: with "{row}" in the place of its number, counted from 1. found: a column, or words.
    """
    if wrong.any():
        row = int(wrong.argmax())
        what = found if isinstance(found, str) else float(found[row])
        raise InputError(where.replace("{row}", str(row + 1)), found=what, expected=expected, fix=fix)


def require_floats(array: object, shape: tuple[int, ...], *, where: str, unknown: bool = False) -> None:
    """Refuse what is not a float64 array of exactly this shape, in C order and finite; with `unknown`, NaN is allowed.

    For arrays that a compiled kernel will read without checking bounds.
    """
    if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != shape:
        found = (
            f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
        )
        raise InputError(where, found=found, expected=f"float64 of shape {shape}")
    if not array.flags.c_contiguous:
        raise InputError(where, found="another order of the numbers in memory", expected="row after row")
    if np.isinf(array).any() or (not unknown and np.isnan(array).any()):
        found = "an infinite number" if np.isinf(array).any() else "NaN"
        raise InputError(where, found=found, expected="finite numbers")


def column_labels(table: object) -> tuple[Any, ...] | None:
    """The labels of a table's columns (pandas, Arrow); None for an array or a list, and for a pandas table that was
    given none (its labels are then 0, 1, 2, …).

    >>> import pyarrow as pa
    >>> column_labels(pa.table({"x1": [1.0], "x2": [2.0]})), column_labels([[1.0, 2.0]])
    (('x1', 'x2'), None)
    """
    labels = getattr(table, "column_names", None)  # Arrow
    if labels is None:
        labels = getattr(table, "columns", None)  # pandas
    given = None if labels is None else tuple(labels)
    return None if not given or given == tuple(range(len(given))) else given


def column_names(table: object) -> tuple[str, ...] | None:
    """The names of a table's columns; None for an array, a list, or labels that are not text."""
    labels = column_labels(table)
    return labels if labels is not None and all(isinstance(label, str) for label in labels) else None


def kind_of(value: object) -> str:
    """What was given, in the words of an error.

    >>> kind_of([1]), kind_of(None), kind_of("thompson"), kind_of(InputError), kind_of(InputError("x"))
    ('a list', 'None', "'thompson'", 'the class InputError', 'an InputError')
    """
    if value is None or isinstance(value, str):
        return repr(value)[:80]
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def read_labels(values: ArrayLike, *, where: str, rows: int | None = None) -> NDArray[Any]:
    """(rows,) labels such as ids or names of groups, without nulls; mixed types become text.

    >>> read_labels(["b", "a"], where="arm").tolist()
    ['b', 'a']
    """
    labels = np.asarray(values)
    if labels.ndim != 1 or (rows is not None and labels.size != rows):
        wanted = "one label per row" if rows is None else f"one label for each of {rows} rows"
        raise InputError(where, found=f"shape {labels.shape}", expected=wanted)
    mixed = labels.dtype.kind == "O"
    unknown = np.array([label is None or label != label for label in labels]) if mixed else labels != labels
    if unknown.any():
        row = int(unknown.argmax())
        raise InputError(f"{where}, row {row + 1}", found="null or NaN", expected="a label in every row")
    return labels.astype(str) if mixed else labels
