"""A table as a value: what a reader sees, and the same figures in full as CSV."""

import csv
import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.views.formats import MISSING, Unit, estimate_text, finite

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FigureCell:
    """A figure with a unit of its own, for columns whose rows are measured in different units."""

    value: float | Estimate
    unit: Unit


Item = TypeVar("Item")
Cell: TypeAlias = str | float | Estimate | FigureCell | None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; with a unit the column holds figures, set to the right."""

    heading: str
    unit: Unit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text, figures, estimates with intervals, or None (shown as –).

    >>> from disco.views.formats import Money
    >>> table = Table(caption="Revenue", columns=("Campaign", Column("Revenue", Money())),
    ...               rows=[("C", 1.24e6), ("D", None)])
    >>> table.text()
    (('C', '£1.24m'), ('D', '–'))
    """

    template: ClassVar[str] = "table"

    caption: str
    columns: Sequence[Column | str]  # a plain heading is a column of text
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    @classmethod
    def of(
        cls,
        caption: str,
        items: "Iterable[Item]",
        cells: "Mapping[Column | str, Callable[[Item], Cell]]",
        *,
        note: str = "",
    ) -> "Table":
        """A row per item. Each column stands beside what its cells are, so that none can slip into another.

        >>> Table.of("Depths", [0.1, 0.2], {"Depth": lambda depth: f"{depth:.0%}"}).text()
        (('10%',), ('20%',))
        """
        rows = [[cell(one) for cell in cells.values()] for one in items]
        return cls(caption=caption, columns=tuple(cells), rows=rows, note=note)

    def __post_init__(self) -> None:
        columns = tuple(Column(column) if isinstance(column, str) else column for column in self.columns)
        rows = tuple(tuple(row) for row in self.rows)
        for position, row in enumerate(rows, start=1):
            where = f"table '{self.caption}', row {position}"
            if len(row) != len(columns):
                raise InputError(where, found=f"{len(row)} cells", expected=f"{len(columns)}, one per column")
            for cell, column in zip(row, columns, strict=True):
                _check(cell, column, where=f"{where}, column '{column.heading}'")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", rows)

    def typed_columns(self) -> tuple[Column, ...]:
        """The columns, all as `Column`."""
        return tuple(column for column in self.columns if isinstance(column, Column))

    def holds_figures(self) -> tuple[bool, ...]:
        """Per column, whether its cells are figures, which stand to the right."""
        return tuple(
            column.unit is not None or any(isinstance(row[place], FigureCell) for row in self.rows)
            for place, column in enumerate(self.typed_columns())
        )

    def text(self) -> tuple[tuple[str, ...], ...]:
        """Every cell as the reader sees it."""
        columns = self.typed_columns()
        return tuple(tuple(_text(cell, column) for cell, column in zip(row, columns, strict=True)) for row in self.rows)

    def csv(self) -> str:
        """Every cell in full; a column with intervals takes three: value, lower, upper."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        columns = self.full_columns()
        writer.writerow(columns)
        writer.writerows(
            [["" if cell is None else cell for cell in row] for row in zip(*columns.values(), strict=True)]
        )
        return out.getvalue()

    def to_arrow(self) -> "pa.Table":
        """Every cell in full, in the columns of `csv`; a column that mixes text and figures is text."""
        import pyarrow as pa  # only a file needs it

        return pa.table({name: _array(cells) for name, cells in self.full_columns().items()})

    def full_columns(self) -> dict[str, list[str | float | None]]:
        """Every cell in full, by heading; a column with intervals becomes three: value, lower, upper."""
        found: dict[str, list[str | float | None]] = {}
        for place, column in enumerate(self.typed_columns()):
            given = [row[place] for row in self.rows]
            cells = [cell.value if isinstance(cell, FigureCell) else cell for cell in given]
            name = _unused(column.heading, found)
            found[name] = [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
            if any(isinstance(cell, Estimate) and cell.ends is not None for cell in cells):
                found[f"{name}, lower"] = [cell.lower if isinstance(cell, Estimate) else None for cell in cells]
                found[f"{name}, upper"] = [cell.upper if isinstance(cell, Estimate) else None for cell in cells]
        return found


def _unused(name: str, names: Collection[str]) -> str:
    """The name, with a number where it is taken."""
    numbered = (f"{name} {number}" for number in count(2))
    return next(one for one in chain([name], numbered) if one not in names)


def _array(cells: Sequence[str | float | None]) -> "pa.Array":
    import pyarrow as pa

    if all(cell is None or isinstance(cell, str) for cell in cells):
        return pa.array(cells, pa.string())
    if any(isinstance(cell, str) for cell in cells):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())


def _check(cell: Cell, column: Column, *, where: str) -> None:
    """Figures are finite and have a unit."""
    if cell is None or isinstance(cell, str):
        return
    if column.unit is None and not isinstance(cell, FigureCell):
        raise InputError(where, found=f"the figure {cell}", expected="text", fix="Give the column a unit.")
    value = cell.value if isinstance(cell, FigureCell) else cell
    finite(value.value if isinstance(value, Estimate) else value, where=where)


def _text(cell: Cell, column: Column) -> str:
    if cell is None:
        return MISSING
    if isinstance(cell, str):
        return cell
    value, unit = (cell.value, cell.unit) if isinstance(cell, FigureCell) else (cell, column.unit)
    assert unit is not None  # checked when the table was made
    return estimate_text(value, unit=unit) if isinstance(value, Estimate) else unit.text(value)
