"""The first sheet of an Excel workbook (.xlsx) as text."""

import zipfile
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa

from disco.adapters.tables.columns import too_many_columns
from disco.records.errors import FileFormatError, MissingPartError
from disco.records.tables import LARGEST_SHEET_BYTES, MOST_COLUMNS

_EXPECTED = "an Excel workbook (.xlsx) whose first sheet has a header and rows"
_FIX = "Save it again as .xlsx, or export it as CSV (UTF-8)."


def read_sheet(path: Path, *, file: str) -> tuple[pa.Table, int]:
    """The rows below the header, every cell as text, and the number of the row after it. file: what messages call it.

    Numbers are written plainly and dates as 2026-12-31, whatever the workbook shows. An empty cell is null.
    """
    try:
        import python_calamine
    except ModuleNotFoundError:
        fix = "Run `pip install python-calamine`, or export the sheet as CSV."
        raise MissingPartError(file, found="no reader of workbooks", expected="python-calamine", fix=fix) from None
    _refuse_large(path, file)
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        rows = book.get_sheet_by_index(0).to_python(skip_empty_area=False)
    except (python_calamine.CalamineError, OSError, ValueError, IndexError) as error:
        found = " ".join(str(error).split())[:200] or type(error).__name__
        raise FileFormatError(file, found=found, expected=_EXPECTED, fix=_FIX) from None
    header = next((at for at, row in enumerate(rows) if any(cell not in ("", None) for cell in row)), None)
    if header is None:
        raise FileFormatError(file, found="an empty first sheet", expected=_EXPECTED, fix=_FIX)
    names = [_text(cell) or "" for cell in rows[header]]
    while names and not names[-1]:
        names.pop()
    if "" in names:
        found = f"no name in column {names.index('') + 1} of row {header + 1}"
        raise FileFormatError(file, found=found, expected=_EXPECTED, fix="Give every column a name in its first row.")
    if len(names) > MOST_COLUMNS:
        raise too_many_columns(file, f"{len(names):,}")
    below = rows[header + 1 :]
    while below and all(cell in ("", None) for cell in below[-1]):
        below.pop()
    columns = [pa.array([_text(row[at]) for row in below], pa.string()) for at in range(len(names))]
    return pa.Table.from_arrays(columns, names=names), header + 2


def _refuse_large(path: Path, file: str) -> None:
    """A small workbook can unpack to more than memory holds; its directory says to how much."""
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(part.file_size for part in packed.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        found = "a file that is no workbook" if isinstance(error, zipfile.BadZipFile) else str(error)
        raise FileFormatError(file, found=found, expected=_EXPECTED, fix=_FIX) from None
    if size > LARGEST_SHEET_BYTES:
        found, expected = f"{size:,} bytes, unpacked", f"at most {LARGEST_SHEET_BYTES:,}"
        raise FileFormatError(file, found=found, expected=expected, fix="Export the sheet as CSV.")


def _text(cell: Any) -> str | None:
    if cell is None or cell == "":
        return None
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    if isinstance(cell, date | datetime | time):
        return cell.isoformat()
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    return str(cell).strip() or None
