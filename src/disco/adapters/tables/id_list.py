"""A file with one column of customer ids, with or without a header; or a table with a column customer_id."""

import csv
from io import StringIO
from pathlib import Path

import pyarrow as pa

from disco.adapters.tables.columns import alike
from disco.adapters.tables.csv import CsvSource
from disco.adapters.tables.file_errors import readable
from disco.adapters.tables.parquet import ParquetSource
from disco.records.errors import FileFormatError
from disco.records.id_list import IdList
from disco.records.table_format import PLAIN, TableFormat
from disco.records.tables import Kind
from disco.records.validation.cells import is_accepted

_EXPECTED = "one customer id per line, or a column customer_id"
_FIX_EMPTY = "For a list of nobody, write the line customer_id alone."


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
                _cells(line) for line in csv.reader(StringIO(text, newline=""), delimiter=source.delimiter, strict=True)
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


def _cells(line: list[str]) -> list[str]:
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
