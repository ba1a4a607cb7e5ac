"""A file of outcomes as the ledger reads it."""

from pathlib import Path

import pyarrow as pa

from disco.adapters.tables.csv import CsvSource
from disco.adapters.tables.parquet import ParquetSource
from disco.records.errors import InputError, TableError
from disco.records.validation import validate


def read_outcomes_file(path: Path) -> pa.Table:
    """The rows of a file: Parquet with its types, CSV as text, cell by cell; a damaged file is refused whole."""
    if not path.is_file():
        raise InputError(str(path), found="no such file", expected="a Parquet or CSV file of outcomes")
    if path.suffix.lower() == ".csv":
        return _text_rows(CsvSource("outcomes", file=str(path), path=path))
    parquet = ParquetSource("outcomes", file=str(path), parts=[(str(path), path)])
    return pa.Table.from_batches(parquet.batches(parquet.schema().names), parquet.schema())


def _text_rows(source: CsvSource) -> pa.Table:
    names = source.schema().names
    batches = list(source.batches(names))
    if problems := source.problems():  # rows with too many or too few cells: which cell is the price?
        raise TableError(f"{source.file} cannot be read as the table outcomes:", problems)
    bytes_ = pa.Table.from_batches(batches, pa.schema([(name, pa.binary()) for name in names]))
    try:
        return bytes_.cast(pa.schema([(name, pa.string()) for name in names]))
    except pa.ArrowInvalid:
        found = validate([source], as_of=None, relations=False).problems
        problems = tuple(problem for problem in found if problem.kind == "encoding")
        raise TableError(f"{source.file} cannot be read as the table outcomes:", problems) from None
