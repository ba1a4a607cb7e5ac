"""Rows of features, read for training or use: by column name where there are names, refused by name.

Training rows come from arrays in memory, or from Parquet read chunk by chunk so that not all rows are held at once.
They are in time order. For early stopping a share of the customers is kept out of training, and their orders in the
later half of the rows tell when to stop. Later orders of customers who were trained on would not do: the orders of a
customer share one row of features, so a network that remembers customers looks better and better on them.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import ArrayLike

from disco.features.builder import SCHEMA_KEY
from disco.features.catalogue import HISTORY_FEATURE, NOT_FEATURES
from disco.features.kernel import known_values, row_keys
from disco.features.scaling import Scaling
from disco.features.selection import FEATURES_KEY
from disco.features.snapshot import Snapshot, snapshot_of
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.chunks import row_chunks
from disco.records.errors import InputError, SchemaMismatchError

TARGET, DEPTH = "log_full_price", "depth"  # columns of a training file
IN_MEMORY_ROWS = 300_000  # beyond this a file is streamed
SAMPLE_ROWS = 200_000  # that scales and moments are taken from
_LARGEST_LOG = 32.0  # |ln money| beyond this is no money


FeatureRows: TypeAlias = pa.Table | pa.RecordBatch | ArrayLike
"""(rows, features): an Arrow table, a pandas data frame, or an array."""


def as_table(X: FeatureRows) -> pa.Table | None:
    """A table with column names, or None where `X` is a plain array."""
    if isinstance(X, pa.Table):
        return X
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    pandas = sys.modules.get("pandas")  # who has a data frame has imported it; others need not
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return pa.Table.from_pandas(X, preserve_index=False)
    return None


def feature_columns(table: pa.Table) -> tuple[str, ...]:
    """The columns a network is fitted on: all but ids and targets; each must be there once."""
    names = tuple(name for name in table.column_names if name not in NOT_FEATURES)
    if not names or len(set(names)) != len(names):
        raise InputError("X", found=f"the columns {', '.join(names) or 'none'}", expected="feature columns, each once")
    return names


def schema_of(table: pa.Table) -> str:
    """The schema hash a feature table carries; empty where it carries none."""
    metadata: dict[bytes, bytes] = table.schema.metadata or {}
    return metadata.get(SCHEMA_KEY, b"").decode()


def own_features_of(table: pa.Table) -> str:
    """The definitions a feature table carries, as text; empty where it is made from the whole catalogue."""
    metadata: dict[bytes, bytes] = table.schema.metadata or {}
    return metadata.get(FEATURES_KEY, b"").decode()


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
    array = np.asarray(X)
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


# ---- training rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ScaledRows:
    """Rows as the network sees them: scaled inputs (rows, features), ln full price, (depth − mean) / sd."""

    inputs: Matrix
    target: Vector
    relative_depth: Vector


@dataclass(frozen=True, slots=True, eq=False)
class RawRows:
    """Features (rows, features; NaN = missing), ln full price and depth of each order, all with a purchase history."""

    features: Matrix
    target: Vector
    depth: Vector

    def scaled(self, scaling: Scaling, mean_depth: float, sd_depth: float) -> ScaledRows:
        return ScaledRows(scaling.apply(self.features), self.target, (self.depth - mean_depth) / sd_depth)

    def at(self, rows: Any) -> "RawRows":
        return RawRows(self.features[rows], self.target[rows], self.depth[rows])

    def held_out(self, share: float) -> Flags:
        """Whose rows are kept out of training: about `share` of the customers, told apart by their features."""
        return held_out_rows(self.features, share)


def held_out_rows(features: Matrix, share: float) -> Flags:
    """(rows,) whether a row is one of about this share of the customers, who are told apart by their features alone."""
    keys = np.empty(len(features), np.uint64)
    rows = np.ascontiguousarray(features)
    row_keys(rows, rows.view(np.uint64), keys)
    return np.asarray((keys >> np.uint64(11)) < share * 2.0**53)


class Rows(Protocol):
    """Training rows before scaling: in chunks, and those kept out; names, schema and definitions of the features."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def schema(self) -> str: ...

    @property
    def own_features(self) -> str: ...

    @property
    def snapshot(self) -> Snapshot | None:
        """Of all customers on the day of the features; None: not known."""

    @property
    def validation(self) -> RawRows: ...

    def training(self, random: np.random.Generator | None) -> Iterator[RawRows]:
        """Every training row once; chunks in an order drawn from `random`, or as stored."""

    def sample(self) -> RawRows:
        """Evenly spread training rows, about SAMPLE_ROWS at most."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryRows:
    """Rows held in memory."""

    names: tuple[str, ...]
    schema: str
    own_features: str
    snapshot: Snapshot | None
    kept: RawRows
    validation: RawRows

    @classmethod
    def read(cls, X: Any, target: Any, depth: Any, *, validation_share: float) -> "MemoryRows":
        table = as_table(X)
        if table is None:
            matrix, schema, own, snapshot = array_matrix(X, None), "", "", None
            names = tuple(f"x{place}" for place in range(matrix.shape[1]))
        else:
            names, schema, own = feature_columns(table), schema_of(table), own_features_of(table)
            snapshot = snapshot_of(table.schema)
            matrix = table_matrix(table, names)
        rows = _checked(matrix, target, depth, names)
        held = rows.held_out(validation_share)
        late = np.arange(len(held)) >= len(held) // 2
        return cls(names, schema, own, snapshot, rows.at(~held), rows.at(held & late))

    def training(self, random: np.random.Generator | None) -> Iterator[RawRows]:
        yield self.kept

    def sample(self) -> RawRows:
        return self.kept.at(slice(None, None, max(1, -(-len(self.kept.target) // SAMPLE_ROWS))))


@dataclass(frozen=True, slots=True, eq=False)
class ParquetRows:
    """Rows of a Parquet file, folder or dataset, one row group in memory at a time (and the validation rows)."""

    names: tuple[str, ...]
    schema: str
    own_features: str
    snapshot: Snapshot | None
    pieces: tuple[Any, ...]
    target: str
    depth: str | None
    validation_share: float
    stride: int
    validation: RawRows

    @classmethod
    def open(cls, source: ds.Dataset, target: str, depth: str | None, *, validation_share: float) -> "ParquetRows":
        columns = (target,) if depth is None else (target, depth)
        empty = source.schema.empty_table()
        names = tuple(name for name in feature_columns(empty) if name not in columns)
        pieces = [piece for file in source.get_fragments() for piece in file.split_by_row_group()]
        stride = max(1, -(-sum(piece.count_rows() for piece in pieces) // SAMPLE_ROWS))
        late = (_read(piece, names, target, depth) for piece in pieces[len(pieces) // 2 :])
        held = [rows.at(rows.held_out(validation_share)) for rows in late]
        return cls(
            names=names,
            schema=schema_of(empty),
            own_features=own_features_of(empty),
            snapshot=snapshot_of(source.schema),
            pieces=tuple(pieces),
            target=target,
            depth=depth,
            validation_share=validation_share,
            stride=stride,
            validation=_joined(held, len(names)),
        )

    def training(self, random: np.random.Generator | None) -> Iterator[RawRows]:
        order = range(len(self.pieces)) if random is None else random.permutation(len(self.pieces)).tolist()
        for place in order:
            rows = _read(self.pieces[place], self.names, self.target, self.depth)
            yield rows.at(~rows.held_out(self.validation_share))

    def sample(self) -> RawRows:
        return _joined([rows.at(slice(None, None, self.stride)) for rows in self.training(None)], len(self.names))


@dataclass(frozen=True, slots=True, eq=False)
class ScaledSource:
    """Rows as `training.train` asks for them; what is in memory anyway is scaled once."""

    rows: Rows
    scaling: Scaling
    mean_depth: float
    sd_depth: float
    validation: ScaledRows
    ready: tuple[ScaledRows, ...]

    @classmethod
    def of(cls, rows: Rows, scaling: Scaling, mean_depth: float, sd_depth: float) -> "ScaledSource":
        held = (rows.kept,) if isinstance(rows, MemoryRows) else ()
        ready = tuple(part.scaled(scaling, mean_depth, sd_depth) for part in held)
        return cls(rows, scaling, mean_depth, sd_depth, rows.validation.scaled(scaling, mean_depth, sd_depth), ready)

    def chunks(self, random: np.random.Generator) -> Iterator[ScaledRows]:
        if self.ready:
            yield from self.ready
            return
        for chunk in self.rows.training(random):
            yield chunk.scaled(self.scaling, self.mean_depth, self.sd_depth)


def parquet_rows(
    source: str | Path | ds.Dataset, target: str, depth: str | None, *, validation_share: float
) -> MemoryRows | ParquetRows:
    """Rows of a Parquet file, folder or dataset: in memory when they are few, else row group by row group."""
    dataset = source if isinstance(source, ds.Dataset) else parquet_dataset(Path(source))
    for column in (target,) if depth is None else (target, depth):
        if column not in dataset.schema.names:
            found = ", ".join(dataset.schema.names)
            raise InputError("training file", found=f"the columns {found}", expected=f"a column {column}")
    if dataset.count_rows() > IN_MEMORY_ROWS:
        return ParquetRows.open(dataset, target, depth, validation_share=validation_share)
    table = dataset.to_table()
    columns = [name for name in table.column_names if name not in (target, depth)]
    depths = None if depth is None else table[depth]
    return MemoryRows.read(table.select(columns), table[target], depths, validation_share=validation_share)


def parquet_dataset(path: Path) -> Any:
    """A Parquet file or a folder of them."""
    if not path.exists():
        raise InputError("training file", found=f"nothing at {path}", expected="a Parquet file or a folder of them")
    try:
        return ds.dataset(path, format="parquet")
    except pa.ArrowInvalid as error:
        raise InputError(f"training file {path}", found=str(error).splitlines()[0], expected="Parquet") from error


def _read(piece: Any, names: tuple[str, ...], target: str, depth: str | None) -> RawRows:
    table = piece.to_table(columns=[*names, target, *([] if depth is None else [depth])])
    return _checked(table_matrix(table, names), table[target], None if depth is None else table[depth], names)


def _joined(parts: list[RawRows], features: int) -> RawRows:
    if not parts:
        return RawRows(np.empty((0, features)), np.empty(0), np.empty(0))
    return RawRows(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.depth for part in parts]),
    )


def _checked(features: Matrix, target: Any, depth: Any, names: tuple[str, ...]) -> RawRows:
    """Rows with finite targets and depths; those of customers without a purchase in the year are left out."""
    rows = features.shape[0]
    log_full_price = vector(target, rows=rows, where="log_basket")
    wild = np.flatnonzero(np.abs(log_full_price) >= _LARGEST_LOG)
    if wild.size:
        raise InputError(
            f"log_basket, row {wild[0] + 1}",
            found=log_full_price[wild[0]],
            expected="the natural logarithm of a basket's full price",
            fix="Hand in ln(full price), not the price.",
        )
    depths = np.zeros(rows) if depth is None else depth_column(depth, rows=rows)
    return RawRows(features, log_full_price, depths).at(known_rows(features, names))
