"""Rows of features, read for training or use: by column name where there are names, refused by name.

A row is a customer, or an order or a code of one (`training_rows`). NaN stands for an unknown value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from disco.features.catalogue import HISTORY_FEATURE, SCHEMA_KEY, feature_names_of, written_in
from disco.features.kernel import known_values
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.chunks import row_chunks
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.frames import as_arrow, is_frame, is_pandas

FeatureRows: TypeAlias = pa.Table | pa.RecordBatch | ArrayLike
"""(rows, features): an Arrow table, a data frame of any library, or an array."""


def as_table(X: FeatureRows) -> pa.Table | None:
    """A table with column names, or None where `X` is a plain array."""
    if isinstance(X, pa.Table):
        return X
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    if is_pandas(X):
        return pa.Table.from_pandas(X, preserve_index=False)
    return as_arrow(X, where="X") if is_frame(X) else None


def feature_columns(table: pa.Table) -> tuple[str, ...]:
    """The columns a network is fitted on: all but ids and targets; each must be there once."""
    names = feature_names_of(table.schema)
    if not names or len(set(names)) != len(names):
        raise InputError("X", found=f"the columns {', '.join(names) or 'none'}", expected="feature columns, each once")
    return names


def schema_of(table: pa.Table) -> str:
    """The schema hash a feature table carries; empty where it carries none."""
    return written_in(table.schema, SCHEMA_KEY)


def table_matrix(table: pa.Table, names: tuple[str, ...]) -> Matrix:
    """The named columns as float64 (rows, features), NaN where null; other columns are not looked at.

    >>> table_matrix(pa.table({"b": [1, 2], "a": [3.0, None]}), ("a", "b")).tolist()
    [[3.0, 1.0], [nan, 2.0]]
    """
    out = np.empty((table.num_rows, len(names)))
    for place, column in enumerate(_float_columns(table, names)):
        out[:, place] = column.to_numpy()
    return refuse_infinite(out, names)


def table_pieces(table: pa.Table, names: tuple[str, ...], *, size: int) -> Iterator[Matrix]:
    """As `table_matrix`, in pieces of `size` rows that fit into the cache, column by column in memory as Arrow has
    them. Infinite values are left for `Embedding.context` to refuse.

    >>> [piece.tolist() for piece in table_pieces(pa.table({"a": [1.0, None, 3.0]}), ("a",), size=2)]
    [[[1.0], [nan]], [[3.0]]]
    """
    columns = []
    for column in _float_columns(table, names):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        bits, numbers = array.buffers()
        values = np.frombuffer(numbers, np.float64, count=len(array), offset=8 * array.offset)
        columns.append((values, np.frombuffer(bits, np.uint8) if array.null_count else None, array.offset))
    for rows in row_chunks(table.num_rows, size=size):
        out = np.empty((len(names), rows.stop - rows.start))
        for place, (values, known, offset) in enumerate(columns):
            if known is None:
                out[place] = values[rows]
            else:
                known_values(values[rows], known, offset + rows.start, out[place])
        yield out.T


def _float_columns(table: pa.Table, names: tuple[str, ...]) -> Iterator[pa.ChunkedArray]:
    """The named columns as float64; refused where one is absent, there twice, or no column of numbers."""
    columns = table.column_names
    missing = [name for name in names if columns.count(name) != 1]
    if missing:
        close = near_column(missing[0], table, names)
        twice = missing[0] in columns
        raise SchemaMismatchError(
            f"column {missing[0]}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
            found="it more than once" if twice else "no such column",
            expected="each column the network was trained on, once",
            fix=f"Is it the column {close}?" if close and not twice else "Build the features with the same catalogue.",
        )
    for name in names:
        column = table.column(name)
        if not is_numeric(column.type):
            raise SchemaMismatchError(f"column {name}", found=f"the type {column.type}", expected="numbers")
        yield column if column.type == pa.float64() else column.cast(pa.float64())


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a feature; one without a single value can."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(of_kind(kind) for of_kind in kinds)


def array_matrix(X: Any, names: tuple[str, ...] | None) -> Matrix:
    """A plain array as float64 (rows, features); columns are taken in the order the network was trained on."""
    if hasattr(X, "toarray"):
        raise InputError("X", found="a sparse matrix", expected="a dense one", fix="Hand in X.toarray().")
    array = np.asarray(X)
    if array.dtype.kind == "O":  # numbers in boxes
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise InputError(
            "X",
            found=f"an array of shape {array.shape} and type {array.dtype}",
            expected="numbers of shape (rows, features)",
        )
    if names is not None and array.shape[1] != len(names):
        raise SchemaMismatchError(
            "X",
            found=f"{array.shape[1]} columns",
            expected=f"{len(names)} columns, in the order of `feature_names_in_`",
            fix="Hand in a table, so that columns are found by name.",
        )
    matrix = np.ascontiguousarray(array, np.float64)
    return refuse_infinite(matrix, names or tuple(f"x{place}" for place in range(matrix.shape[1])))


def vector(values: Any, *, rows: int, where: str) -> Vector:
    """One finite float64 per row."""
    if isinstance(values, pa.ChunkedArray | pa.Array) and is_numeric(values.type):
        values = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.shape != (rows,):
        raise InputError(
            where, found=f"an array of shape {array.shape} and type {array.dtype}", expected=f"{rows} numbers"
        )
    array = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InputError(f"{where}, row {bad[0] + 1}", found=array[bad[0]], expected="a finite number")
    return array


def depth_column(values: Any, *, rows: int) -> Vector:
    """The depth of each order, in [0, 1)."""
    depths = vector(values, rows=rows, where="depth")
    outside = np.flatnonzero((depths < 0) | (depths >= 1))
    if outside.size:
        raise InputError(f"depth, row {outside[0] + 1}", found=depths[outside[0]], expected="a depth in [0, 1)")
    return depths


def near_column(name: str, table: pa.Table, names: Sequence[str]) -> str | None:
    """A column of the table that may be the missing one under another name; never one that is wanted itself.

    >>> near_column("spend_90d", pa.table({"spend_30d": [1], "spend90": [2]}), ["spend_30d", "spend_90d"])
    'spend90'
    """
    others = [column for column in table.column_names if column not in names]
    return next(iter(get_close_matches(name, others, n=1)), None)


def refuse_infinite(matrix: Matrix, names: tuple[str, ...], *, first: int = 0) -> Matrix:
    """The matrix, in which NaN may stand for missing values; `first` is the number of its first row, from 0."""
    infinite = np.isinf(matrix)
    if infinite.any():
        row, place = (int(index[0]) for index in np.nonzero(infinite))
        raise InputError(
            f"column {names[place]}, row {first + row + 1}",
            found=matrix[row, place],
            expected="a finite number, or null if unknown",
        )
    return matrix


# ---- who has a purchase history: at least one order in the year; everybody else gets the population's context --------


def history_column(feature_names: tuple[str, ...]) -> int:
    """Which feature tells; −1 when none does, and then everybody counts as known."""
    return feature_names.index(HISTORY_FEATURE) if HISTORY_FEATURE in feature_names else -1


def known_rows(rows: Matrix, feature_names: tuple[str, ...]) -> Flags:
    """Which rows have a purchase history."""
    column = history_column(feature_names)
    return np.ones(len(rows), np.bool_) if column < 0 else np.asarray(rows[:, column] > 0)


def has_history(X: FeatureRows) -> Flags:
    """(rows,) did the customer buy in the year before the as-of date?

    X: a feature table, or an array of the one column `orders_365d`.

    Where False, `ContextNetwork.transform` gives the population's context (zeros), and a decision marks the customer.

    >>> import pyarrow as pa
    >>> has_history(pa.table({"orders_365d": [2.0, 0.0, None]})).tolist()
    [True, False, False]
    """
    table = as_table(X)
    matrix = array_matrix(X, (HISTORY_FEATURE,)) if table is None else table_matrix(table, (HISTORY_FEATURE,))
    return known_rows(matrix, (HISTORY_FEATURE,))
