"""The solver alone for tables that an engine holds in chunks: Parquet larger than memory, or a cluster's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.allocation.allocate_table import TableAllocation, allocate_table
from disco.allocation.table import COST, ID, depth_columns
from disco.records.arrays import Integers
from disco.records.errors import InputError
from disco.records.identity import buckets_of, id_column
from disco.records.ports import ChunkedTable, TableEngine

_BUCKETS = 256  # values and costs are brought together in as many parts, each of which has to fit into memory


@dataclass(frozen=True, slots=True)
class _WithBucket:
    """The chunk function that says which customers belong together."""

    columns: tuple[str, ...]
    buckets: int
    where: str
    """The column of ids, for errors."""

    def __call__(self, chunk: pa.Table) -> pa.Table:
        numbers = buckets_of(chunk[ID], self.buckets, where=self.where)
        return chunk.select(list(self.columns)).append_column("bucket", numbers)


@dataclass(frozen=True, slots=True)
class _WithCosts:
    """Puts the costs of the customers of a bucket beside their values."""

    costs: tuple[str, ...]
    where: str

    def __call__(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        values, costs = tables["values"], tables["costs"]
        own = costs.take(pa.array(place_of_customers(values[ID], costs[ID], where=self.where)))
        for name in self.costs:
            values = values.append_column(f"{COST}{name}", own[name])
        return values


def place_of_customers(wanted: pa.ChunkedArray, there: pa.ChunkedArray, *, where: str) -> Integers:
    """(customers,) the row of each wanted customer among those there; InputError where they are not the same."""
    ids, others = id_column(wanted, where=ID), id_column(there, where=f"{where}, column {ID}")
    if others.type != ids.type:  # 17 and "17" are one customer
        ids, others = ids.cast(pa.large_string()), others.cast(pa.large_string())
    place = pc.index_in(ids, others)
    if place.null_count or len(ids) != len(others):
        found = _difference(ids, others)
        raise InputError(where, found=found, expected="one row for each customer of VALUES")
    rows: Integers = place.to_numpy(zero_copy_only=False).astype(np.int64)
    return rows


def _difference(wanted: pa.Array, there: pa.Array) -> str:
    """How the customers of the costs differ from those of the values."""
    missing = wanted.filter(pc.is_null(pc.index_in(wanted, there)))
    if len(missing):
        return f"no row of customer {missing[0].as_py()}"
    strangers = there.filter(pc.is_null(pc.index_in(there, wanted)))
    if len(strangers):
        return f"customer {strangers[0].as_py()}, whom VALUES has not"
    for ids, found in ((there, "twice"), (wanted, "once, but twice in VALUES")):
        counts = pc.value_counts(ids)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(repeated):
            return f"customer {repeated[0]['values'].as_py()} {found}"
    return f"{len(there):,} rows for {len(wanted):,}"


@contextmanager
def _with_costs(engine: TableEngine, values: ChunkedTable, costs: Path) -> Iterator[ChunkedTable]:
    """The values with the costs of each customer beside them, brought together once for all passes."""
    priced = engine.table(costs)
    if ID not in priced.schema.names:
        raise InputError(str(costs), found=", ".join(priced.schema.names), expected=f"a column {ID}")
    wanted, named = depth_columns(values.schema, where="VALUES"), depth_columns(priced.schema, where=str(costs))
    if set(wanted) != set(named):
        found, expected = ", ".join(map(str, named)), ", ".join(map(str, wanted))
        raise InputError(str(costs), found=f"depths {found}", expected=f"depths {expected}, as in VALUES")
    schema = values.schema
    for name in named.values():
        schema = schema.append(pa.field(f"{COST}{name}", priced.schema.field(name).type))
    divided = {
        name: table.transform(
            _WithBucket(columns, _BUCKETS, where),
            pa.schema([table.schema.field(column) for column in columns]).append(pa.field("bucket", pa.int32())),
        )
        for name, table, columns, where in (
            ("values", values, tuple(values.schema.names), ID),
            ("costs", priced, (ID, *named.values()), f"{costs}, column {ID}"),
        )
    }
    with (
        engine.by_bucket(divided, _WithCosts(tuple(named.values()), str(costs)), schema) as together,
        together.kept() as kept,  # every pass reads it
    ):
        yield kept


@contextmanager
def allocated_in_chunks(
    engine: TableEngine, values: Any, *, limits: Mapping[str, Any], costs: Path | None = None
) -> Iterator[TableAllocation]:
    """The allocation of a table that the engine can open; its decisions can be used until the end of the block.

    limits: caps, floors, budget and segments, as `allocate_table` takes them. costs: a table of the shape of `values`;
    None: columns of `values` named cost_ and the depth, where there is a budget.
    """
    table = engine.table(values)
    caps, floors, segments = (limits.get(name) or None for name in ("caps", "floors", "segments"))
    with nullcontext(table) if costs is None else _with_costs(engine, table, costs) as priced:
        yield allocate_table(priced, caps, budget=limits.get("budget"), floors=floors, segments=segments)
