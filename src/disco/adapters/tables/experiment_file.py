"""The result of a test, in a file or a table: any columns, of which some are named as arms and some as figures."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.adapters.tables.csv import CsvSource
from disco.adapters.tables.notation import number_advice, plain_cells
from disco.adapters.tables.parquet import ParquetSource
from disco.records.errors import FileFormatError, InputError, TableError
from disco.records.table_format import PLAIN, TableFormat
from disco.records.tables import Kind
from disco.records.validation.cells import flags, is_bytes, is_text, parse_text, plain_text, shown

_ID = "customer_id"


def read_experiment_file(
    path: Path, *, arm: str, figures: Sequence[str], written: TableFormat = PLAIN, file: str | None = None
) -> pa.Table:
    """The column of arms as text and the figures as float64, null where a cell is empty; and customer_id, if there.

    file: what to call it in messages. written: how CSV files are written.
    """
    file = file or str(path)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise InputError(file, found=found, expected="a Parquet or CSV file with one row per customer")
    written = replace(written, columns={})  # the columns are named by the user as the file has them
    source: CsvSource | ParquetSource
    if path.suffix.lower() == ".csv":
        source = CsvSource("customers", file=file, path=path, written=written)
    else:
        source = ParquetSource("customers", file=file, parts=[(file, path)], written=written)
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
    near = get_close_matches(name, there, n=1)
    some = ", ".join(there[:12]) + ("…" if len(there) > 12 else "")
    fix = f"Did you mean {near[0]}?" if near else None
    return FileFormatError(file, found=f"no column {name} (it has {some})", expected=f"a column {name}", fix=fix)
