"""A file of outcomes as the ledger reads it."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.adapters.tables.csv import CsvSource
from disco.adapters.tables.parquet import ParquetSource, check_sizes
from disco.records.errors import InputError, Problem, TableError
from disco.records.table_format import PLAIN, TableFormat
from disco.records.tables import CELLS, MOST_OUTCOMES, ROWS, SCHEMAS
from disco.records.validation import check_columns
from disco.records.validation.cells import READABLE, parse_text, shown
from disco.records.validation.checker import file_names

_SAMPLE = 1000  # rows that mostly tell already that a column can be read


def read_outcomes_file(path: Path, *, written: TableFormat = PLAIN, file: str | None = None) -> pa.Table:
    """The rows of a file: Parquet with its types, CSV as text, cell by cell; a damaged file is refused whole.

    Of a Parquet file only the columns of the declaration are read. A row of a CSV file with too many or too few cells
    has none, and a reason in the column `CELLS`; a file of such rows alone is refused.
    Where a CSV file has empty lines, the rows have their numbers in the column `ROWS`. file: what messages call it.
    """
    file = file or str(path)
    if not path.is_file():
        raise InputError(file, found="no such file", expected="a Parquet or CSV file of outcomes")
    if path.suffix.lower() == ".csv":
        text = CsvSource("outcomes", file=file, path=path, written=written)
        check_columns(text.schema(), "outcomes", file=text.file)  # here, where the file's own names are known
        return _text_rows(text)
    parquet = ParquetSource("outcomes", file=file, parts=[(file, path)], written=written)
    if parquet.rows > MOST_OUTCOMES:
        raise _too_many(file, f"{parquet.rows:,} rows")
    schema = parquet.schema()
    check_columns(schema, "outcomes", file=parquet.file)
    declared = [name for name in schema.names if name in {column.name for column in SCHEMAS["outcomes"].columns}]
    theirs = dict(zip(schema.names, file_names(schema), strict=True))
    check_sizes(file, path, in_memory={theirs[name] for name in declared})
    return pa.Table.from_batches(parquet.batches(declared), pa.schema([(n, schema.field(n).type) for n in declared]))


def _text_rows(source: CsvSource) -> pa.Table:
    names = source.schema().names
    schema = pa.schema([(name, pa.string()) for name in names])
    # cells that are not UTF-8 stay as they are: the ledger sets their rows aside
    batches = [
        pa.record_batch([column.view(pa.string()) for column in batch.columns], schema=schema)
        for batch in _counted(source.batches(names), source.file)
    ]
    table, ragged = pa.Table.from_batches(batches, schema), source.ragged_rows()
    refused = [one for one in source.problems() if one.kind != "ragged_row" or not table.num_rows]
    if problems := (*refused, *_in_another_notation(source, table)):
        raise TableError(f"{source.file} cannot be read as the table outcomes:", problems)
    table = _with_ragged(table, ragged) if ragged else table
    numbers = source.sheet_rows(table.num_rows)
    return table if numbers is None else table.append_column(ROWS, pa.array(numbers - 2))


def _with_ragged(table: pa.Table, ragged: Sequence[tuple[int, str]]) -> pa.Table:
    """The rows in the order of the file; which cell of a ragged row is the price nobody can tell, so it has none."""
    places = np.array([place for place, _ in ragged], np.int64)
    others = np.setdiff1d(np.arange(table.num_rows + places.size), places)
    rows = table.append_column(CELLS, pa.nulls(table.num_rows, pa.string()))
    empty = {name: pa.nulls(places.size, pa.string()) for name in table.column_names}
    without = pa.table({**empty, CELLS: pa.array([found for _, found in ragged])}, schema=rows.schema)
    return pa.concat_tables([rows, without]).take(np.argsort(np.concatenate([others, places])))


def _in_another_notation(source: CsvSource, table: pa.Table) -> Iterable[Problem]:
    """Columns of numbers or dates of which no cell can be read, but could be with another setting.

    A column with some cells that can be read is left to the ledger, which sets the other rows aside.
    """
    for column in SCHEMAS["outcomes"].columns:
        if column.name not in table.column_names or column.kind not in READABLE:
            continue
        cells = table[column.name].combine_chunks()
        for part in (cells[:_SAMPLE], cells):
            parsed = parse_text(part, column.kind)
            if not parsed.unreadable.any() or len(pc.drop_null(parsed.values)):
                break
        else:
            row, rows = int(np.argmax(parsed.unreadable)), int(np.count_nonzero(parsed.unreadable))
            found, expected = shown(cells[row]), READABLE[column.kind]
            if fix := source.advice(column.name, "wrong_type"):
                yield Problem("wrong_type", source.file, column.name, found, expected, fix, source.place(row)[1], rows)


def _counted(batches: Iterable[pa.RecordBatch], file: str) -> Iterable[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if rows > MOST_OUTCOMES:
            raise _too_many(file, f"more than {MOST_OUTCOMES:,} rows")
        yield batch


def _too_many(file: str, found: str) -> InputError:
    fix = "Cut the file; the order of its parts does not matter."
    return InputError(file, found=found, expected=f"at most {MOST_OUTCOMES:,} rows of outcomes at once", fix=fix)
