"""Training rows: orders with their ln full price, and codes that were sent, used or not, with another target.

Rows come from arrays in memory, or from Parquet read row group by row group so that not all are held at once. Orders
are in time order. For early stopping a share of the customers is kept out of training. Their orders in the later half
of the rows, and all of their codes, tell when to stop. Later orders of customers who were trained on would not do: the
orders of a customer share one row of features, so a network that remembers customers looks better and better on them. A
customer has one row of features on the day of training, and it alone decides who is kept out, of orders and of codes.

Codes of one campaign share a constant, because a channel, a season or a subject line moves everybody's chance to use
one. Small campaigns share one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import ArrayLike

from disco.features.catalogue import CODE_CAMPAIGN, CODE_USED, FEATURES_KEY, written_in
from disco.features.embedding import Scaling
from disco.features.kernel import row_keys
from disco.features.rows import (
    FeatureRows,
    array_matrix,
    as_table,
    depth_column,
    feature_columns,
    history_column,
    known_rows,
    schema_of,
    table_matrix,
    vector,
)
from disco.features.snapshot import Snapshot, snapshot_of
from disco.records.arguments import read_labels
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.errors import InputError, SchemaMismatchError

TARGET, DEPTH = "log_full_price", "depth"  # columns of a training file
IN_MEMORY_ROWS = 300_000  # beyond this a file is streamed
SAMPLE_ROWS = 200_000  # that scales and moments are taken from
FEWEST_CODES = 500  # of customers with a history: fewer cannot tell who uses one
FEWEST_OF_A_KIND = 50  # used, and not used
FEWEST_PER_CAMPAIGN = 200  # a campaign with fewer codes shares its constant with the other small ones
_LARGEST_LOG = 32.0  # |ln money| beyond this is no money


@dataclass(frozen=True, slots=True, eq=False)
class ScaledRows:
    """Rows as the network sees them: scaled inputs (rows, features), target, (depth − mean) / sd, campaign."""

    inputs: Matrix
    target: Vector
    relative_depth: Vector
    campaign: Integers


@dataclass(frozen=True, slots=True, eq=False)
class RawRows:
    """Rows before scaling, all of customers with a purchase history."""

    features: Matrix
    """(rows, features); NaN: unknown."""
    target: Vector
    """(rows,) ln full price of an order; of a code 1 where it was used, else 0."""
    depth: Vector
    """(rows,)"""
    campaign: Integers
    """(rows,) the number of the constant of a code's campaign; 0 for orders."""

    def scaled(self, scaling: Scaling, mean_depth: float, sd_depth: float) -> ScaledRows:
        relative = (self.depth - mean_depth) / sd_depth
        return ScaledRows(scaling.apply(self.features), self.target, relative, self.campaign)

    def at(self, rows: Any) -> RawRows:
        return RawRows(self.features[rows], self.target[rows], self.depth[rows], self.campaign[rows])

    def held_out(self, share: float) -> Flags:
        """Whose rows are kept out of training: about `share` of the customers, told apart by their features alone."""
        keys = np.empty(len(self.features), np.uint64)
        rows = np.ascontiguousarray(self.features)
        row_keys(rows, rows.view(np.uint64), keys)
        return np.asarray((keys >> np.uint64(11)) < share * 2.0**53)


Read: TypeAlias = Callable[[], RawRows]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """Rows to train on, in pieces of which one is in memory at a time, and those of the customers kept out."""

    pieces: tuple[Read, ...]
    """Each gives the rows of a piece that are trained on."""
    in_memory: bool
    validation: RawRows
    sample: RawRows
    """Evenly spread training rows, about SAMPLE_ROWS at most."""

    @classmethod
    def of(cls, rows: RawRows, share: float, *, later_half: bool) -> TrainingRows:
        """Rows in memory. later_half: of the customers kept out, only their rows in the later half are of use."""
        held = rows.held_out(share)
        kept, places = rows.at(~held), np.arange(len(held))
        judged = held & (places >= len(held) // 2) if later_half else held
        return cls((lambda: kept,), True, rows.at(judged), kept.at(slice(None, None, _stride(len(kept.target)))))

    @classmethod
    def of_pieces(cls, pieces: Sequence[Read], share: float, *, rows: int, later_half: bool) -> TrainingRows:
        """Pieces that are read again whenever they are needed. rows: how many there are. later_half: of the pieces."""

        def trained(read: Read) -> Read:
            def kept() -> RawRows:
                found = read()
                return found.at(~found.held_out(share))

            return kept

        validation, sample, stride = [], [], _stride(rows)
        for number, read in enumerate(pieces):
            found = read()
            held = found.held_out(share)
            if not later_half or number >= len(pieces) // 2:
                validation.append(found.at(held))
            sample.append(found.at(~held).at(slice(None, None, stride)))
        return cls(tuple(map(trained, pieces)), False, _joined(validation), _joined(sample))

    def chunks(self, random: np.random.Generator) -> Iterator[RawRows]:
        """Every training row once, pieces in random order."""
        for place in random.permutation(len(self.pieces)).tolist():
            piece = self.pieces[place]()
            if piece.target.size:
                yield piece


@dataclass(frozen=True, slots=True, eq=False)
class ScaledSource:
    """Rows as `training.train` asks for them; what is in memory anyway is scaled once."""

    rows: TrainingRows
    scaling: Scaling
    mean_depth: float
    sd_depth: float
    validation: ScaledRows
    ready: ScaledRows | None

    @classmethod
    def of(cls, rows: TrainingRows, scaling: Scaling, mean_depth: float, sd_depth: float) -> ScaledSource:
        ready = rows.pieces[0]().scaled(scaling, mean_depth, sd_depth) if rows.in_memory else None
        return cls(rows, scaling, mean_depth, sd_depth, rows.validation.scaled(scaling, mean_depth, sd_depth), ready)

    def chunks(self, random: np.random.Generator) -> Iterator[ScaledRows]:
        if self.ready is not None:
            yield self.ready
            return
        for chunk in self.rows.chunks(random):
            yield chunk.scaled(self.scaling, self.mean_depth, self.sd_depth)


def _stride(rows: int) -> int:
    return max(1, -(-rows // SAMPLE_ROWS))


def _joined(parts: list[RawRows]) -> RawRows:
    return RawRows(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(RawRows)))


# ---- orders ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class OrderRows:
    """Orders to train on, and what they say about their features."""

    names: tuple[str, ...]
    schema: str
    own_features: str
    """Definitions of the features, where they are not the whole catalogue."""
    snapshot: Snapshot | None
    """Of all customers on the day of the features; None: not known."""
    rows: TrainingRows


def order_rows(X: Any, target: Any, depth: Any, *, validation_share: float) -> OrderRows:
    """Orders in memory."""
    table = as_table(X)
    if table is None:
        matrix, schema, own, snapshot = array_matrix(X, None), "", "", None
        names = tuple(f"x{place}" for place in range(matrix.shape[1]))
    else:
        names, schema, own = feature_columns(table), schema_of(table), written_in(table.schema, FEATURES_KEY)
        snapshot = snapshot_of(table.schema)
        matrix = table_matrix(table, names)
    rows = TrainingRows.of(_checked(matrix, target, depth, names), validation_share, later_half=True)
    return OrderRows(names, schema, own, snapshot, rows)


def parquet_rows(
    source: str | Path | ds.Dataset, target: str, depth: str | None, *, validation_share: float
) -> OrderRows:
    """Orders of a Parquet file, folder or dataset: in memory when they are few, else row group by row group."""
    columns = (target,) if depth is None else (target, depth)
    dataset = _dataset(source, columns, where="training file")
    count = dataset.count_rows()
    if count <= IN_MEMORY_ROWS:
        table = dataset.to_table()
        besides = table.select([name for name in table.column_names if name not in columns])
        depths = None if depth is None else table[depth]
        return order_rows(besides, table[target], depths, validation_share=validation_share)
    schema, empty = dataset.schema, dataset.schema.empty_table()
    names = tuple(name for name in feature_columns(empty) if name not in columns)

    def raw(table: pa.Table) -> RawRows:
        return _checked(table_matrix(table, names), table[target], None if depth is None else table[depth], names)

    pieces = [_piece(group, (*names, *columns), raw) for group in _row_groups(dataset)]
    rows = TrainingRows.of_pieces(pieces, validation_share, rows=count, later_half=True)
    return OrderRows(names, schema_of(empty), written_in(schema, FEATURES_KEY), snapshot_of(schema), rows)


def _piece(group: Any, columns: Sequence[str], raw: Callable[[pa.Table], RawRows]) -> Read:
    """The rows of a row group, read whenever they are asked for, so that one group is in memory at a time."""
    return lambda: raw(group.to_table(columns=list(columns)))


def _dataset(source: str | Path | ds.Dataset, columns: Sequence[str], *, where: str) -> Any:
    """Rows that have these columns."""
    dataset = source if isinstance(source, ds.Dataset) else parquet_dataset(Path(source))
    for column in columns:
        if column not in dataset.schema.names:
            found = f"the columns {', '.join(dataset.schema.names)}"
            raise InputError(where, found=found, expected=f"a column {column}")
    return dataset


def _row_groups(dataset: Any) -> list[Any]:
    return [group for file in dataset.get_fragments() for group in file.split_by_row_group()]


def parquet_dataset(path: Path) -> Any:
    """A Parquet file or a folder of them."""
    if not path.exists():
        raise InputError("training file", found=f"nothing at {path}", expected="a Parquet file or a folder of them")
    try:
        return ds.dataset(path, format="parquet")
    except pa.ArrowInvalid as error:
        raise InputError(f"training file {path}", found=str(error).splitlines()[0], expected="Parquet") from error


def _checked(features: Matrix, target: Any, depth: Any, names: tuple[str, ...]) -> RawRows:
    """Rows with finite targets and depths; those of customers without a purchase in the year are left out."""
    rows = features.shape[0]
    log_full_price = vector(target, rows=rows, where="y")
    wild = np.flatnonzero(np.abs(log_full_price) >= _LARGEST_LOG)
    if wild.size:
        raise InputError(
            f"y, row {wild[0] + 1}",
            found=log_full_price[wild[0]],
            expected="the natural logarithm of a basket's full price",
            fix="Hand in ln(full price), not the price.",
        )
    depths = np.zeros(rows) if depth is None else depth_column(depth, rows=rows)
    return RawRows(features, log_full_price, depths, np.zeros(rows, np.int64)).at(known_rows(features, names))


# ---- codes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CodesSent:
    """Matured codes, used or not, one row each, for `ContextNetwork.fit`.

    >>> codes = CodesSent(np.ones((3, 2)), depth=[0.1, 0.2, 0.1], used=[True, False, False], campaign=["a", "a", "b"])
    >>> len(codes)
    3
    """

    X: FeatureRows
    """(codes, features) the receivers' features before the codes were sent, with the columns of the orders."""
    depth: ArrayLike
    """(codes,) in [0, 1)."""
    used: ArrayLike
    """(codes,) Booleans: was the code used before it matured?"""
    campaign: ArrayLike
    """(codes,) the label of its campaign or channel."""

    def __post_init__(self) -> None:
        table = as_table(self.X)
        rows = len(array_matrix(self.X, None)) if table is None else table.num_rows
        columns = _code_columns(self.depth, self.used, self.campaign, rows=rows, where="codes, campaign")
        used = columns.used
        if used.all() or not used.any():
            raise InputError(
                "codes, used",
                found=f"{'only codes that were used' if rows and used.all() else 'no code that was used'}",
                expected="codes that were used and codes that were not",
                fix="Hand in every code that was sent, whether it was used or not.",
            )
        for name, column in columns._asdict().items():
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(np.asarray(self.used))


GivenCodes: TypeAlias = CodesSent | str | Path | ds.Dataset


@dataclass(frozen=True, slots=True, eq=False)
class CodeRows:
    """Codes to train on, whose target is whether they were used."""

    rows: TrainingRows
    constants: Vector
    """(campaigns,) where the constant of each campaign begins: the logit of the share of its codes that were used."""
    sent: int
    used: int

    @property
    def too_few(self) -> str:
        """Why no engagement can be learned from these codes; empty where it can."""
        unused = self.sent - self.used
        if self.sent >= FEWEST_CODES and min(self.used, unused) >= FEWEST_OF_A_KIND:
            return ""
        return f"{self.sent:,} matured codes of customers with a purchase in the year, {self.used:,} of them used"


def read_codes(codes: GivenCodes, names: tuple[str, ...], *, schema: str, validation_share: float) -> CodeRows:
    """Codes with the columns `names` that the orders have; in memory when they are few, else row group by row group."""
    if isinstance(codes, CodesSent):
        table = as_table(codes.X)
        if table is not None:
            _check_schema(schema_of(table), schema)
        matrix = array_matrix(codes.X, names) if table is None else table_matrix(table, names)
        return _in_memory(matrix, codes, names, validation_share)
    if not isinstance(codes, str | Path | ds.Dataset):
        raise InputError("codes", found=f"a {type(codes).__name__}", expected="CodesSent, or Parquet rows of codes")
    dataset = _dataset(codes, _CODE_COLUMNS, where="file of codes")
    _check_schema(schema_of(dataset.schema.empty_table()), schema)
    if dataset.count_rows() <= IN_MEMORY_ROWS:
        table = dataset.to_table()
        return _in_memory(table_matrix(table, names), _columns(table), names, validation_share)
    groups, tally = _row_groups(dataset), _Tally()
    history = tuple(names[column] for column in (history_column(names),) if column >= 0)
    for group in groups:
        table = group.to_table(columns=[*history, *_CODE_COLUMNS])
        tally.add(_columns(table), known_rows(table_matrix(table, history), history))

    def raw(table: pa.Table) -> RawRows:
        return tally.rows(table_matrix(table, names), _columns(table), names)

    pieces = [_piece(group, (*names, *_CODE_COLUMNS), raw) for group in groups]
    rows = TrainingRows.of_pieces(pieces, validation_share, rows=tally.sent, later_half=False)
    return CodeRows(rows, tally.constants, tally.sent, tally.used)


def _in_memory(matrix: Matrix, codes: Any, names: tuple[str, ...], validation_share: float) -> CodeRows:
    tally = _Tally()
    tally.add(codes, known_rows(matrix, names))
    rows = TrainingRows.of(tally.rows(matrix, codes, names), validation_share, later_half=False)
    return CodeRows(rows, tally.constants, tally.sent, tally.used)


_CODE_COLUMNS = (DEPTH, CODE_USED, CODE_CAMPAIGN)


class _CodeColumns(NamedTuple):
    """What is known of codes beside their receivers' features, checked; one entry per code."""

    depth: Vector
    used: Flags
    campaign: Any


def _code_columns(depth: Any, used: Any, campaign: Any, *, rows: int, where: str) -> _CodeColumns:
    """where: the column of campaigns, for messages."""
    return _CodeColumns(
        depth_column(depth, rows=rows),
        _used_column(used, rows=rows),
        read_labels(_plain(campaign), where=where, rows=rows).astype(str),
    )


def _columns(table: pa.Table) -> _CodeColumns:
    columns = (table[name] for name in _CODE_COLUMNS)
    return _code_columns(*columns, rows=table.num_rows, where=f"column {CODE_CAMPAIGN}")


class _Tally:
    """Codes of customers with a history, sent and used, by campaign."""

    def __init__(self) -> None:
        self._sent: Counter[str] = Counter()
        self._used: Counter[str] = Counter()

    def add(self, codes: Any, known: Flags) -> None:
        """codes: `CodesSent`, or the columns of a piece. known: whose receiver has a history."""
        labels, place = np.unique(codes.campaign[known], return_inverse=True)
        for counter, places in ((self._sent, place), (self._used, place[codes.used[known]])):
            counts = np.bincount(places, minlength=labels.size)
            counter.update(dict(zip(labels.tolist(), counts.tolist(), strict=True)))

    @property
    def sent(self) -> int:
        return self._sent.total()

    @property
    def used(self) -> int:
        return self._used.total()

    @property
    def large(self) -> list[str]:
        """The campaigns with a constant of their own, from number 1 on; the others share number 0."""
        return sorted(label for label, sent in self._sent.items() if sent >= FEWEST_PER_CAMPAIGN)

    @property
    def constants(self) -> Vector:
        large = [(self._sent[label], self._used[label]) for label in self.large]
        small = self.sent - sum(sent for sent, _ in large), self.used - sum(used for _, used in large)
        rates = [(used + 1) / (sent + 2) for sent, used in (small, *large)]
        return np.array([np.log(rate / (1 - rate)) for rate in rates])

    def rows(self, matrix: Matrix, codes: Any, names: tuple[str, ...]) -> RawRows:
        """The codes of customers with a history."""
        numbers = {label: place + 1 for place, label in enumerate(self.large)}
        campaign = np.array([numbers.get(label, 0) for label in codes.campaign.tolist()], np.int64)
        rows = RawRows(matrix, codes.used.astype(np.float64), codes.depth, campaign)
        return rows.at(known_rows(matrix, names))


def _used_column(values: Any, *, rows: int) -> Flags:
    """(rows,) Booleans; anything else, a null among them too, is refused."""
    array = np.asarray(_plain(values))
    if array.dtype != np.bool_ or array.shape != (rows,):
        null = array.dtype == object and array.shape == (rows,)
        raise InputError(
            "codes, used",
            found="a null or a value that is not a Boolean" if null else f"shape {array.shape} and type {array.dtype}",
            expected=f"{rows} Booleans: true where the code was used",
        )
    return array


def _plain(values: Any) -> Any:
    """Arrow columns as NumPy's; Booleans and text with a null among them become objects."""
    if isinstance(values, pa.ChunkedArray | pa.Array):
        kind = values.type
        if pa.types.is_dictionary(kind):
            values = pc.cast(values, kind.value_type)
        return values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    return values


def _check_schema(found: str, expected: str) -> None:
    if found and expected and found != expected:
        raise SchemaMismatchError(
            "feature schema of the codes",
            found=found,
            expected=f"{expected}, that of the orders",
            fix="Build the features of codes and orders with the same catalogue.",
        )
