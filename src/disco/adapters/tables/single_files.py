"""Files that come alone, not as one of a shop's tables: outcomes, the result of a test, a list of customers."""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.adapters.tables.columns import alike, readable
from disco.adapters.tables.csv import CsvSource
from disco.adapters.tables.notation import number_advice, plain_cells
from disco.adapters.tables.parquet import ParquetSource, check_sizes
from disco.records.cells import READABLE, flags, is_accepted, is_bytes, is_text, parse_text, plain_text, shown
from disco.records.errors import FileFormatError, InputError, Problem, TableError, did_you_mean, listed
from disco.records.id_list import IdList
from disco.records.table_rules import check_columns, file_names
from disco.records.tables import CELLS, MOST_OUTCOMES, PLAIN, ROWS, SCHEMAS, Kind, TableFormat


def customers_source(path: Path, *, file: str, written: TableFormat) -> CsvSource | ParquetSource:
    """A CSV or Parquet file with customers; nothing of it is read yet. file: what messages call it."""
    if path.suffix.lower() == ".csv":
        return CsvSource("customers", file=file, path=path, written=written)
    return ParquetSource("customers", file=file, parts=[(file, path)], written=written)


# ---- outcomes, as the ledger reads them


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


# ---- the result of a test: any columns, of which some are named as arms and some as figures


_ID = "customer_id"


def read_experiment_file(path: Path, *, arm: str, figures: Sequence[str], written: TableFormat = PLAIN) -> pa.Table:
    """The column of arms as text and the figures as float64, null where a cell is empty; and customer_id, if there.

    written: how CSV files are written.
    """
    file = str(path)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise InputError(file, found=found, expected="a Parquet or CSV file with one row per customer")
    written = replace(written, columns={})  # the columns are named by the user as the file has them
    source = customers_source(path, file=file, written=written)
    names = _wanted(source.schema().names, arm, figures, file)
    batches = list(source.batches(names))
    if problems := source.problems():
        raise TableError(f"{file} cannot be read:", problems)
    table = pa.Table.from_batches(batches) if batches else pa.table({name: pa.array([], pa.string()) for name in names})

    return _columns(table, names, arm=arm, written=written, file=file, place=source.place)


def read_experiment_table(table: pa.Table, *, arm: str, figures: Sequence[str], name: str = "the table") -> pa.Table:
    """Of a table in memory what `read_experiment_file` reads of a file. name: what to call it in messages.

    >>> table = pa.table({"group": ["a", "b"], "bought": [True, False], "note": ["", ""]})
    >>> read_experiment_table(table, arm="group", figures=["bought"])["bought"].to_pylist()
    [1.0, 0.0]
    """
    names = _wanted(table.column_names, arm, figures, name)
    return _columns(table.select(names), names, arm=arm, written=PLAIN, file=name, place=lambda row: (name, row + 1))


def _wanted(there: Sequence[str], arm: str, figures: Sequence[str], file: str) -> list[str]:
    """The columns to read; one that is not there is refused."""
    names = [*dict.fromkeys((arm, *figures))]
    for name in names:
        if name not in there:
            raise _absent(file, name, there)
    return [*names, *([_ID] if _ID in there and _ID not in names else [])]


_Place = Callable[[int], tuple[str, int]]  # of a row: the file and the row's number there


def _columns(
    table: pa.Table, names: Sequence[str], *, arm: str, written: TableFormat, file: str, place: _Place
) -> pa.Table:
    columns = {}
    for name in names:
        cells = table[name].combine_chunks()
        columns[name] = (
            _labels(cells, name, file, place, is_arm=name == arm)
            if name in (arm, _ID)
            else _figures(cells, name, file, place, written)
        )
    return pa.table(columns)


def _labels(cells: pa.Array, name: str, file: str, place: _Place, *, is_arm: bool) -> pa.Array:
    """Names as text; every row has one."""
    cells = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    kind = cells.type
    if is_bytes(kind) or is_text(kind):
        parsed = parse_text(cells, Kind.ID)
        bad, text = parsed.not_unicode, parsed.values
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        bad, text = np.zeros(len(cells), np.bool_), cells.cast(pa.string())
    else:
        raise FileFormatError(f"{file}, column {name}", found=str(kind), expected="text or integers")
    bad = bad | flags(text.is_null())
    if bad.any():
        row = int(np.argmax(bad))
        found = "an empty cell" if not cells[row].is_valid else shown(cells[row])
        fix = "Leave out customers who were not assigned to an arm." if is_arm else None
        raise InputError(_cell(place, name, row), found=found, expected="a name in every row", fix=fix)
    return text.cast(pa.large_string())


def _figures(cells: pa.Array, name: str, file: str, place: _Place, written: TableFormat) -> pa.Array:
    cells = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    kind = cells.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        return cells.cast(pa.int8() if pa.types.is_boolean(kind) else kind).cast(pa.float64(), safe=False)
    if pa.types.is_decimal(kind):
        return cells.cast(pa.float64())
    if not (is_bytes(kind) or is_text(kind)):
        raise FileFormatError(f"{file}, column {name}", found=str(kind), expected="numbers")
    text = plain_text(cells.view(pa.string()) if is_bytes(kind) else cells)
    if is_text(text.type):
        text = plain_cells(_without_words(text), Kind.MONEY, written.csv)
    parsed = parse_text(text, Kind.MONEY)
    bad = parsed.unreadable | parsed.not_unicode
    if bad.any():
        row = int(np.argmax(bad))
        fix = None if written.csv.decimal is not None or not is_text(text.type) else number_advice([text])
        raise InputError(_cell(place, name, row), found=shown(text[row]), expected="a number such as 12.50", fix=fix)
    return parsed.values


def _without_words(text: pa.Array) -> pa.Array:
    """true and false as 1 and 0."""
    lower = pc.utf8_lower(pc.utf8_trim_whitespace(text))
    number = pc.if_else(pc.equal(lower, "true"), "1", pc.if_else(pc.equal(lower, "false"), "0", text))
    return number.cast(pa.string())


def _cell(place: _Place, name: str, row: int) -> str:
    file, number = place(row)
    return f"{file}, column {name}, row {number:,}"


def _absent(file: str, name: str, there: Sequence[str]) -> FileFormatError:
    found, fix = f"no column {name} (it has {listed(there)})", did_you_mean(name, there)
    return FileFormatError(file, found=found, expected=f"a column {name}", fix=fix)


# ---- a list of customers: one column of ids, with or without a header; or a table with a column customer_id


_EXPECTED = "one customer id per line, or a column customer_id"
_FIX_EMPTY = "For an empty list, write only the header customer_id."


def read_id_list(path: Path, *, file: str | None = None, written: TableFormat = PLAIN) -> IdList:
    """The ids of a Parquet, CSV or text file. FileFormatError where no column can be the ids.

    file: what to call it in messages.
    written: what the shop calls customer_id (`columns.customers`), and how its CSV files are written.
    """
    file = file or str(path)
    if path.suffix.lower() == ".parquet":
        return _of_parquet(ParquetSource("customers", file=file, parts=[(file, path)], written=written), file)
    return _of_text(CsvSource("customers", file=file, path=path, written=written), path, file, written)


def _of_parquet(source: ParquetSource, file: str) -> IdList:
    names = source.schema().names
    name = "customer_id" if "customer_id" in names else names[0]
    if len(names) != 1 and name != "customer_id":
        raise _no_ids(file, len(names))
    batches = list(source.batches([name]))
    given = pa.chunked_array([batch.column(0) for batch in batches], source.schema().field(name).type)
    if not is_accepted(Kind.ID, given.type):
        fix = "Write the ids as text or integers, as the table of customers has them."
        raise FileFormatError(file, found=f"a column of {given.type}", expected="ids", fix=fix)
    ids = given.combine_chunks().cast(pa.large_string())
    rows = pa.array(range(1, len(ids) + 1), pa.int64())
    there = ids.is_valid()
    return IdList(file, ids.filter(there), rows.filter(there), may_have_header=False)


def _of_text(source: CsvSource, path: Path, file: str, written: TableFormat) -> IdList:
    with readable(file, expected=_EXPECTED, fix=source.advice("", "encoding") or "Save the file again."):
        text = path.read_text(encoding=source.encoding).removeprefix("\ufeff")
        try:
            lines = [
                _without_empty_end(line)
                for line in csv.reader(StringIO(text, newline=""), delimiter=source.delimiter, strict=True)
            ]
        except csv.Error as error:
            fix = "Look for a quotation mark that is never closed."
            raise FileFormatError(file, found=str(error), expected=_EXPECTED, fix=fix) from None
    head = next((at for at, cells in enumerate(lines) if cells), None)
    if head is None:
        raise FileFormatError(file, found="an empty file", expected=_EXPECTED, fix=_FIX_EMPTY)
    names, column = lines[head], 0
    own = written.own_names("customers").get("customer_id", "customer_id")
    named = alike(own, names) or alike("customer_id", names)
    if named:
        column = names.index(named[0])
    elif max(map(len, lines)) > 1:
        raise _no_ids(file, len(names))
    found = [
        (row, cells[column])
        for row, cells in enumerate(lines, start=1)
        if row > head + bool(named) and len(cells) > column and cells[column]
    ]
    return IdList(
        file,
        pa.array([cell for _, cell in found], pa.large_string()),
        pa.array([row for row, _ in found], pa.int64()),
        may_have_header=not named,
    )


def _without_empty_end(line: list[str]) -> list[str]:
    """Without the empty cells at its end, which spreadsheets write."""
    end = len(line)
    while end and not line[end - 1].strip():
        end -= 1
    return line[:end]


def _no_ids(file: str, columns: int) -> FileFormatError:
    """The names are not quoted: the first line may be no header, and the file another one than was meant."""
    fix = "Keep the column of ids alone, or say its name in disco.yaml: `columns: {customers: {customer_id: …}}`."
    found = f"{columns} columns, none of them named customer_id"
    return FileFormatError(file, found=found, expected=_EXPECTED, fix=fix)
