"""Codes that were sent, used or not: the rows from which a network learns who uses a code.

Codes of one campaign share a constant, because a channel, a season or a subject line moves everybody's chance to use
one. Small campaigns share one. The customers kept out of training are the same as for orders: a customer has one row of
features on the day of training, and it alone decides.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import ArrayLike

from disco.features.catalogue import CODE_CAMPAIGN, CODE_USED
from disco.features.rows import (
    DEPTH,
    IN_MEMORY_ROWS,
    SAMPLE_ROWS,
    FeatureRows,
    array_matrix,
    as_table,
    depth_column,
    held_out_rows,
    history_column,
    known_rows,
    parquet_dataset,
    schema_of,
    table_matrix,
)
from disco.features.scaling import Scaling
from disco.records.arguments import read_labels
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.errors import InputError, SchemaMismatchError

FEWEST_CODES = 500  # of customers with a history: fewer cannot tell who uses one
FEWEST_OF_A_KIND = 50  # used, and not used
FEWEST_PER_CAMPAIGN = 200  # a campaign with fewer codes shares its constant with the other small ones


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
        depth = depth_column(self.depth, rows=rows)
        used = _used_column(self.used, rows=rows)
        campaign = read_labels(_plain(self.campaign), where="codes, campaign", rows=rows).astype(str)
        if used.all() or not used.any():
            raise InputError(
                "codes, used",
                found=f"{'only codes that were used' if rows and used.all() else 'no code that was used'}",
                expected="codes that were used and codes that were not",
                fix="Hand in every code that was sent, whether it was used or not.",
            )
        for name, column in (("depth", depth), ("used", used), ("campaign", campaign)):
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(np.asarray(self.used))


GivenCodes: TypeAlias = CodesSent | str | Path | ds.Dataset


@dataclass(frozen=True, slots=True, eq=False)
class RawCodes:
    """Features (codes, features; NaN = missing), depth, whether it was used, and the number of its campaign's constant;
    all of customers with a purchase history."""

    features: Matrix
    depth: Vector
    used: Flags
    campaign: Integers

    def at(self, rows: Any) -> "RawCodes":
        return RawCodes(self.features[rows], self.depth[rows], self.used[rows], self.campaign[rows])

    def scaled(self, scaling: Scaling, mean_depth: float, sd_depth: float) -> "ScaledCodes":
        relative = (self.depth - mean_depth) / sd_depth
        return ScaledCodes(scaling.apply(self.features), self.used.astype(np.float64), relative, self.campaign)


@dataclass(frozen=True, slots=True, eq=False)
class ScaledCodes:
    """Codes as the network sees them: scaled inputs, 1 where used, (depth − mean) / sd, the campaign's number."""

    inputs: Matrix
    used: Vector
    relative_depth: Vector
    campaign: Integers


@dataclass(frozen=True, slots=True, eq=False)
class CodeRows:
    """Codes to train on, in pieces of which one is in memory at a time, and those of the customers kept out."""

    pieces: tuple[Callable[[], RawCodes], ...]
    """Each gives the rows of a piece that are trained on."""
    in_memory: bool
    validation: RawCodes
    sample: RawCodes
    """Evenly spread training codes, about SAMPLE_ROWS at most."""
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

    def chunks(self, random: np.random.Generator) -> Iterator[RawCodes]:
        """The training codes again and again, pieces in random order; without end."""
        while True:
            for place in random.permutation(len(self.pieces)).tolist():
                piece = self.pieces[place]()
                if piece.used.size:
                    yield piece


def read_codes(codes: GivenCodes, names: tuple[str, ...], *, schema: str, validation_share: float) -> CodeRows:
    """Codes with the columns `names` that the orders have; in memory when they are few, else row group by row group."""
    if isinstance(codes, CodesSent):
        table = as_table(codes.X)
        if table is None:
            matrix = array_matrix(codes.X, names)
        else:
            _check_schema(schema_of(table), schema)
            matrix = table_matrix(table, names)
        return _in_memory(matrix, codes, names, validation_share)
    if not isinstance(codes, str | Path | ds.Dataset):
        raise InputError("codes", found=f"a {type(codes).__name__}", expected="CodesSent, or Parquet rows of codes")
    dataset = codes if isinstance(codes, ds.Dataset) else parquet_dataset(Path(codes))
    for column in (DEPTH, CODE_USED, CODE_CAMPAIGN):
        if column not in dataset.schema.names:
            found = f"the columns {', '.join(dataset.schema.names)}"
            raise InputError("file of codes", found=found, expected=f"a column {column}")
    _check_schema(schema_of(dataset.schema.empty_table()), schema)
    if dataset.count_rows() <= IN_MEMORY_ROWS:
        table = dataset.to_table()
        sent = _columns(table)
        return _in_memory(table_matrix(table, names), sent, names, validation_share)
    return _streamed(dataset, names, validation_share)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    depth: Vector
    used: Flags
    campaign: Any


def _columns(table: pa.Table) -> _Columns:
    rows = table.num_rows
    return _Columns(
        depth_column(table[DEPTH], rows=rows),
        _used_column(table[CODE_USED], rows=rows),
        read_labels(_plain(table[CODE_CAMPAIGN]), where=f"column {CODE_CAMPAIGN}", rows=rows).astype(str),
    )


def _in_memory(matrix: Matrix, codes: Any, names: tuple[str, ...], validation_share: float) -> CodeRows:
    known = known_rows(matrix, names)
    labels, used = codes.campaign[known], codes.used[known]
    numbers, constants = _constants(*_tallied(labels, used))
    places = np.array([numbers.get(label, 0) for label in labels.tolist()], np.int64)
    rows = RawCodes(matrix[known], codes.depth[known], used, places)
    held = held_out_rows(rows.features, validation_share)
    kept = rows.at(~held)
    return CodeRows(
        pieces=(lambda: kept,),
        in_memory=True,
        validation=rows.at(held),
        sample=kept.at(slice(None, None, max(1, -(-kept.used.size // SAMPLE_ROWS)))),
        constants=constants,
        sent=int(rows.used.size),
        used=int(rows.used.sum()),
    )


def _streamed(dataset: Any, names: tuple[str, ...], validation_share: float) -> CodeRows:
    groups = [piece for file in dataset.get_fragments() for piece in file.split_by_row_group()]
    tally: dict[str, tuple[int, int]] = {}
    history = tuple(names[column] for column in (history_column(names),) if column >= 0)
    for group in groups:
        table = group.to_table(columns=[*history, DEPTH, CODE_USED, CODE_CAMPAIGN])
        sent, known = _columns(table), known_rows(table_matrix(table, history), history)
        for label, count, used in zip(*_tallied(sent.campaign[known], sent.used[known]), strict=True):
            before = tally.get(label, (0, 0))
            tally[label] = before[0] + count, before[1] + used
    numbers, constants = _constants(
        list(tally), [sent for sent, _ in tally.values()], [used for _, used in tally.values()]
    )
    total = sum(sent for sent, _ in tally.values())
    stride = max(1, -(-total // SAMPLE_ROWS))

    def read(group: Any) -> RawCodes:
        table = group.to_table(columns=[*names, DEPTH, CODE_USED, CODE_CAMPAIGN])
        matrix, sent = table_matrix(table, names), _columns(table)
        places = np.array([numbers.get(label, 0) for label in sent.campaign.tolist()], np.int64)
        return RawCodes(matrix, sent.depth, sent.used, places).at(known_rows(matrix, names))

    def trained(group: Any) -> Callable[[], RawCodes]:
        def rows() -> RawCodes:
            found = read(group)
            return found.at(~held_out_rows(found.features, validation_share))

        return rows

    kept, sample, sent_codes, used_codes = [], [], 0, 0
    for group in groups:
        rows = read(group)
        held = held_out_rows(rows.features, validation_share)
        kept.append(rows.at(held))
        sample.append(rows.at(~held).at(slice(None, None, stride)))
        sent_codes, used_codes = sent_codes + rows.used.size, used_codes + int(rows.used.sum())
    return CodeRows(
        pieces=tuple(trained(group) for group in groups),
        in_memory=False,
        validation=_joined(kept),
        sample=_joined(sample),
        constants=constants,
        sent=sent_codes,
        used=used_codes,
    )


def _joined(parts: list[RawCodes]) -> RawCodes:
    return RawCodes(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.depth for part in parts]),
        np.concatenate([part.used for part in parts]),
        np.concatenate([part.campaign for part in parts]),
    )


def _tallied(labels: Any, used: Flags) -> tuple[list[str], list[int], list[int]]:
    """Each label once, with its codes sent and used."""
    names, place = np.unique(labels, return_inverse=True)
    sent = np.bincount(place, minlength=names.size)
    return names.tolist(), sent.tolist(), np.bincount(place[used], minlength=names.size).tolist()


def _constants(labels: list[str], sent: list[int], used: list[int]) -> tuple[dict[str, int], Vector]:
    """The number of each campaign's constant, 0 for the small ones, and where the constants begin."""
    large = sorted((label, n, k) for label, n, k in zip(labels, sent, used, strict=True) if n >= FEWEST_PER_CAMPAIGN)
    small_sent = sum(sent) - sum(n for _, n, _ in large)
    small_used = sum(used) - sum(k for _, _, k in large)
    rates = [((k + 1) / (n + 2)) for n, k in ((small_sent, small_used), *((n, k) for _, n, k in large))]
    numbers = {label: place + 1 for place, (label, _, _) in enumerate(large)}
    return numbers, np.array([np.log(rate / (1 - rate)) for rate in rates])


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
