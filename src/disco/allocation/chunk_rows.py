"""A chunk of a table of values as the arrays of the solver: read and checked in one place, whoever holds the table.

The table has a column customer_id, one column of values per depth (null: not eligible), and where there is a budget or
limits of segments, one column of costs per depth and one of labels.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.allocation.limits import SegmentLimits
from disco.records.arrays import Array, Flags, Floats, Integers, Keys
from disco.records.depths import read_depth
from disco.records.errors import InputError, LimitError
from disco.records.identity import customer_keys

ID = "customer_id"
COST = "cost_"  # before the depth, in the name of a column of costs


class ChunkRows(NamedTuple):
    """Some customers of a table; matrices are depth-major."""

    keys: Keys  # (customers,)
    values: Floats  # (depths, customers), 0 where not eligible
    eligible: Flags | None  # (depths, customers); None: everybody for every depth
    costs: Floats | None  # (depths, customers)
    group: Integers | None  # (customers,) row of their segment in the limits

    @property
    def size(self) -> int:
        return int(self.keys.size)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self if part is not None)

    def take(self, rows: Array) -> "ChunkRows":
        """Some of them, in this order."""
        return ChunkRows(
            self.keys[rows],
            np.ascontiguousarray(self.values[:, rows]),
            None if self.eligible is None else np.ascontiguousarray(self.eligible[:, rows]),
            None if self.costs is None else np.ascontiguousarray(self.costs[:, rows]),
            None if self.group is None else self.group[rows],
        )

    @staticmethod
    def joined(parts: Iterable["ChunkRows"]) -> "ChunkRows":
        """Those of several chunks, one after another."""
        some = list(parts)
        flags = None
        if any(part.eligible is not None for part in some):
            flags = np.concatenate(
                [np.ones(part.values.shape, np.bool_) if part.eligible is None else part.eligible for part in some],
                axis=1,
            )
        return ChunkRows(
            np.concatenate([part.keys for part in some]),
            np.concatenate([part.values for part in some], axis=1),
            flags,
            None if some[0].costs is None else np.concatenate([p.costs for p in some if p.costs is not None], axis=1),
            None if some[0].group is None else np.concatenate([p.group for p in some if p.group is not None]),
        )

    def in_order(self) -> "ChunkRows":
        """By key: the same whatever chunks they came in."""
        return self.take(np.argsort(self.keys, kind="stable"))


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns of a table are what."""

    depths: tuple[float, ...]
    values: tuple[str, ...]  # their columns
    costs: tuple[str, ...] | None  # those of the costs; None: there is no budget
    segment: str | None  # the column of labels; None: no segment has limits
    labels: tuple[str, ...]  # segments with limits, in the order of the rows of the limits
    id_type: pa.DataType
    narrow: bool  # all values are float32
    single: bool  # all values and costs are float32: cells are read as that, else as float64

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        *,
        budget: bool = False,
        segment: str | None = None,
        limits: SegmentLimits | None = None,
        where: str = "values",
    ) -> "Layout":
        """From the names and types of the columns; InputError names what is missing.

        segment: the column of labels; limits: those of the segments.
        """
        if ID not in schema.names:
            raise InputError(where, found=", ".join(schema.names), expected=f"a column {ID}")
        columns = depth_columns(schema, where=where)
        costs = None
        if budget:
            own = depth_columns(schema, where=where, prefix=COST)
            missing = [name for depth, name in columns.items() if depth not in own]
            if missing:
                expected = f"a column {COST}{missing[0]}, what depth {missing[0]} costs the budget"
                raise LimitError("budget", found=f"a budget, and no costs in {where}", expected=expected)
            costs = tuple(own[depth] for depth in columns)
        if segment is not None and segment not in schema.names:
            raise LimitError("segments", found=f"column {segment!r}", expected=f"a column of {where}")
        labels = tuple(str(label) for label in sorted(limits or {}, key=str))
        narrow, narrow_costs = (
            all(schema.field(name).type == pa.float32() for name in names) for names in (columns.values(), costs or ())
        )
        return cls(
            tuple(columns),
            tuple(columns.values()),
            costs,
            segment if labels else None,
            labels,
            schema.field(ID).type,
            narrow,
            narrow and narrow_costs,
        )

    @property
    def value_type(self) -> pa.DataType:
        return pa.float32() if self.narrow else pa.float64()

    def read(self, chunk: pa.Table) -> ChunkRows:
        """The arrays of a chunk; InputError names the customer with a cell that cannot be used."""
        keys = customer_keys(chunk[ID])
        values, eligible = self._matrix(chunk, self.values)
        costs = None
        if self.costs is not None:
            costs, known = self._matrix(chunk, self.costs)
            self._check_costs(chunk, costs, known, eligible)
        group = None if self.segment is None else self._groups(chunk[self.segment])
        return ChunkRows(keys, values, eligible, costs, group)

    def _matrix(self, chunk: pa.Table, names: tuple[str, ...]) -> tuple[Floats, Flags | None]:
        matrix = np.empty((len(names), chunk.num_rows), np.float32 if self.single else np.float64)
        known = None
        for row, name in enumerate(names):
            column = chunk[name]
            if pa.types.is_null(column.type):  # what pandas writes where nobody has a value
                column = column.cast(pa.float64())
            if column.null_count:
                known = np.ones(matrix.shape, np.bool_) if known is None else known
                known[row] = pc.is_valid(column).to_numpy()
                column = pc.fill_null(column, 0)
            matrix[row] = column.to_numpy()
        if not np.isfinite(matrix.sum()) and not np.isfinite(matrix).all():
            row, at = (int(place) for place in np.argwhere(~np.isfinite(matrix))[0])
            raise InputError(
                f"column {names[row]}, customer {chunk[ID][at].as_py()}",
                found=float(matrix[row, at]),
                expected="a finite number",
                fix="Leave the cell null where a customer may not get this depth.",
            )
        return matrix, known

    def _check_costs(self, chunk: pa.Table, costs: Floats, known: Flags | None, eligible: Flags | None) -> None:
        assert self.costs is not None
        if known is not None:
            missing = ~known if eligible is None else ~known & eligible
            if missing.any():
                row, at = (int(place) for place in np.argwhere(missing)[0])
                raise InputError(
                    f"column {self.costs[row]}, customer {chunk[ID][at].as_py()}",
                    found="a null",
                    expected="a cost, because the values let this customer have this depth",
                )
        if costs.size and costs.min() < 0:
            row, at = (int(place) for place in np.unravel_index(int(costs.argmin()), costs.shape))
            raise InputError(
                f"column {self.costs[row]}, customer {chunk[ID][at].as_py()}",
                found=float(costs[row, at]),
                expected="a cost of at least 0",
            )

    def _groups(self, labels: pa.ChunkedArray) -> Integers:
        """The row of each customer's segment; that of all others is the last."""
        encoded = labels.combine_chunks()
        if not pa.types.is_dictionary(encoded.type):
            encoded = pc.dictionary_encode(encoded, null_encoding="encode")
        row_of: Mapping[str, int] = {label: row for row, label in enumerate(self.labels)}
        rows = [row_of.get(str(value), len(self.labels)) for value in encoded.dictionary.to_pylist()]
        missing = row_of.get("None", len(self.labels))
        numbers = pc.fill_null(encoded.indices.cast(pa.int64()), len(rows)).to_numpy(zero_copy_only=False)
        groups: Integers = np.array([*rows, missing], np.int64)[numbers]
        return groups


def depth_columns(schema: pa.Schema, *, where: str, prefix: str = "") -> dict[float, str]:
    """The columns named by depth, as 0.1, in their order."""
    columns: dict[float, str] = {}
    for field in schema:
        if not field.name.startswith(prefix):
            continue
        try:
            float(field.name.removeprefix(prefix))
        except ValueError:
            continue
        depth = read_depth(field.name.removeprefix(prefix), where=f"{where}, column {field.name}")
        if depth in columns:
            found = f"the depth of {columns[depth]} again"
            raise InputError(f"{where}, column {field.name}", found=found, expected="it once")
        if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type) or pa.types.is_null(field.type)):
            raise InputError(f"{where}, column {field.name}", found=str(field.type), expected="float")
        columns[depth] = field.name
    if not columns and not prefix:
        raise InputError(where, found=", ".join(schema.names), expected="columns named by depth, as 0.1")
    return columns
