"""What is kept of a table after its batches have passed: the few columns that keys and references need, as numbers."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from disco.records.arrays import Flags
from disco.records.tables import SCHEMAS, TableSchema
from disco.records.validation.cells import Cells, shown
from disco.records.validation.columns import Habits
from disco.records.validation.findings import Findings
from disco.records.validation.source import Source

_EXTRA = {"orders": ("ordered_at", "paid"), "returns": ("returned_at", "value")}


def related_columns(schema: TableSchema) -> frozenset[str]:
    """The columns of a table that relations look at.

    >>> sorted(related_columns(SCHEMAS["site"]))
    ['customer_id', 'day']
    """
    referring = {column.name for column in schema.columns if column.refers_to}
    return frozenset(referring.union(schema.key, _EXTRA.get(schema.name, ())))


@dataclass(slots=True)
class Gathering:
    """Collects those columns batch by batch."""

    names: frozenset[str]
    values: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    good: dict[str, list[Flags]] = field(default_factory=dict)

    def add(self, cells: Cells, good: Flags) -> None:
        if cells.column.name in self.names:
            self.values.setdefault(cells.column.name, []).append(cells.values)
            self.good.setdefault(cells.column.name, []).append(good)


@dataclass(frozen=True, slots=True)
class Gathered:
    """`values[column][row]` means something where `good[column][row]`."""

    source: Source
    schema: TableSchema
    findings: Findings
    habits: dict[str, Habits]
    values: dict[str, NDArray[Any]]
    good: dict[str, Flags]

    @classmethod
    def of(cls, source: Source, findings: Findings, habits: dict[str, Habits], gathering: Gathering) -> "Gathered":
        values = {name: np.concatenate(parts) for name, parts in gathering.values.items()}
        good = {name: np.concatenate(parts) for name, parts in gathering.good.items()}
        return cls(source, SCHEMAS[source.name], findings, habits, values, good)

    def id_type(self, name: str) -> str:
        is_integer = not self.source.is_text and pa.types.is_integer(self.source.schema().field(name).type)
        return "integers" if is_integer else "text"

    def show(self, name: str, row: int) -> str:
        """What the retailer wrote in that cell: one column read once more, up to the row."""
        for batch in self.source.batches([name]):
            if row < batch.num_rows:
                return shown(batch.column(0)[row])
            row -= batch.num_rows
        raise IndexError(f"{self.source.file} has become shorter while it was read")
