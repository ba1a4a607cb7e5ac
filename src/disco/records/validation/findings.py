"""Problems of one table while its batches pass by: per column and kind, the first row and how many."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from disco.records.arrays import Flags
from disco.records.errors import Problem
from disco.records.tables import TableSchema
from disco.records.validation.source import Source


@dataclass(slots=True)
class _Finding:
    found: str
    expected: str
    fix: str
    row: int | None
    rows: int


class Findings:
    """The problems of one table, in the making."""

    def __init__(self, schema: TableSchema) -> None:
        self._order = {column.name: place for place, column in enumerate(schema.columns)}
        self._found: dict[tuple[str, str], _Finding] = {}

    def of_table(self, kind: str, *, column: str = "", found: str, expected: str, fix: str) -> None:
        """A problem of the table or of a whole column."""
        self._found[column, kind] = _Finding(found, expected, fix, None, 1)

    def of_rows(
        self,
        kind: str,
        *,
        column: str,
        rows: Flags,
        offset: int = 0,
        found: Callable[[int], str],
        expected: str,
        fix: Callable[[int], str] | str,
    ) -> None:
        """A problem of the rows flagged; `found` and `fix` are asked about the first of them only."""
        count = int(np.count_nonzero(rows))
        if not count:
            return
        known = self._found.get((column, kind))
        if known is not None:
            known.rows += count
            return
        row = int(np.argmax(rows))
        advice = fix if isinstance(fix, str) else fix(row)
        self._found[column, kind] = _Finding(found(row), expected, advice, offset + row, count)

    def problems(self, source: Source) -> tuple[Problem, ...]:
        """Sorted by column, then row."""
        order = sorted(
            self._found.items(),
            key=lambda item: (self._order.get(item[0][0], -1), -1 if item[1].row is None else item[1].row),
        )
        return tuple(self._problem(source, kind, column, finding) for (column, kind), finding in order)

    @staticmethod
    def _problem(source: Source, kind: str, column: str, finding: _Finding) -> Problem:
        file, row = source.file, None
        if finding.row is not None:
            file, row = source.place(finding.row)
        return Problem(kind, file, column, finding.found, finding.expected, finding.fix, row, finding.rows)
