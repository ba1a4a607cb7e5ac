"""The whole check: each table's batches pass once, then keys and references are compared."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches

import pyarrow as pa

from disco.records.errors import InputError, Problem, TableError
from disco.records.tables import SCHEMAS, TableSchema
from disco.records.validation.cells import Cells, is_accepted, read_cells
from disco.records.validation.columns import Habits, check_cells
from disco.records.validation.findings import Findings
from disco.records.validation.gathered import Gathered, Gathering, related_columns
from disco.records.validation.relations import check_relations
from disco.records.validation.rows import check_rows
from disco.records.validation.source import Source


@dataclass(frozen=True, slots=True)
class Report:
    """Rows read per table, and every problem found."""

    rows: dict[str, int]
    problems: tuple[Problem, ...]

    def raise_if_any(self, what: str) -> None:
        if self.problems:
            raise TableError(what, self.problems)


def validate(sources: Iterable[Source], *, as_of: date, relations: bool = True) -> Report:
    """Every problem of the tables, as known at the end of the day `as_of`.

    `relations=False` leaves out keys and references, for a part of a table whose other part is elsewhere.

    >>> from disco.records.validation.source import TableSource
    >>> customers = pa.table({"customer_id": [7, 7], "joined_on": pa.array([date(2026, 1, 1), None])})
    >>> report = validate([TableSource("customers", customers, "customers.parquet")], as_of=date(2026, 3, 1))
    >>> for problem in report.problems:
    ...     print(problem)
    customers.parquet, column customer_id, row 2: found 7 again, first in row 1; expected each once. Remove the copy, or
    give the row its own id.
    customers.parquet, column joined_on, row 2: found nothing; expected a value in every row. Fill it in or leave the
    row out.
    """
    sources = sorted(sources, key=lambda source: list(SCHEMAS).index(source.name))
    rows: dict[str, int] = {}
    findings: dict[str, Findings] = {}
    unreadable: dict[str, Problem] = {}
    tables: dict[str, Gathered] = {}
    for source in sources:
        findings[source.name] = Findings(SCHEMAS[source.name])
        try:
            rows[source.name], tables[source.name] = _read_table(source, findings[source.name], as_of=as_of)
        except InputError as error:
            unreadable[source.name] = _unreadable(source, error)
    if relations:
        check_relations(tables, present=frozenset(findings))
    problems: list[Problem] = []
    for source in sources:
        problems += [unreadable[source.name]] if source.name in unreadable else []
        problems += [*source.problems(), *findings[source.name].problems(source)]
    return Report(rows, tuple(problems))


def _unreadable(source: Source, error: InputError) -> Problem:
    found = str(error.found) if error.found is not None else str(error)
    expected = str(error.expected) if error.expected is not None else "a table that can be read"
    column = error.what if error.what in {column.name for column in SCHEMAS[source.name].columns} else ""
    return Problem("unreadable_file", source.file, column, found, expected, error.fix or "Write the file again.")


def _read_table(source: Source, findings: Findings, *, as_of: date) -> tuple[int, Gathered]:
    schema = SCHEMAS[source.name]
    columns = [schema.column(name) for name in _usable_columns(source, schema, findings)]
    gathering = Gathering(related_columns(schema))
    habits = {column.name: Habits(column) for column in columns}
    rows = 0
    for batch in source.batches([column.name for column in columns]):
        cells: dict[str, Cells] = {}
        good = {}
        for column, raw in zip(columns, batch.columns, strict=True):
            cells[column.name] = read_cells(raw, column, is_text=source.is_text)
            good[column.name] = check_cells(cells[column.name], findings, offset=rows, as_of=as_of)
            gathering.add(cells[column.name], good[column.name])
            if column.before_as_of or column.name in schema.key:
                habits[column.name].watch(cells[column.name], offset=rows)
        check_rows(source.name, cells, good, findings, offset=rows)
        rows += batch.num_rows
    if columns and not rows:
        findings.of_table(
            "empty_table",
            found="no rows",
            expected="at least one row",
            fix="Fill the table, or leave the file out if the shop has none.",
        )
    for habit in habits.values():
        habit.note(findings)
    return rows, Gathered.of(source, findings, habits, gathering)


def _usable_columns(source: Source, schema: TableSchema, findings: Findings) -> list[str]:
    there: pa.Schema = source.schema()
    unknown = [name for name in there.names if name not in {column.name for column in schema.columns}]
    usable = []
    for column in schema.columns:
        count = there.names.count(column.name)
        if count == 0:
            near = _nearest(column.name, unknown)
            findings.of_table(
                "missing_column",
                column=column.name,
                found=f"no such column among {', '.join(there.names[:12])}" + ("…" if len(there.names) > 12 else ""),
                expected=f"{column.kind}: {column.meaning}",
                fix=f"Did you mean {near!r}? Rename it." if near else "Add the column.",
            )
        elif count > 1:
            findings.of_table(
                "duplicate_column",
                column=column.name,
                found=f"{count} columns of this name",
                expected="one",
                fix="Remove or rename the others.",
            )
        elif not source.is_text and not is_accepted(column.kind, there.field(column.name).type):
            findings.of_table(
                "wrong_type",
                column=column.name,
                found=f"type {there.field(column.name).type}",
                expected=str(column.kind),
                fix="Convert the column before you write the file.",
            )
        else:
            usable.append(column.name)
    return usable


def _nearest(name: str, others: list[str]) -> str | None:
    plain = {other.strip().lower().replace(" ", "_").replace("-", "_"): other for other in others}
    near = get_close_matches(name, plain, n=1, cutoff=0.75)
    return plain[near[0]] if near else None
