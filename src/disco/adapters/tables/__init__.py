"""Readers of a retailer's tables: a folder of files, queries of a database, or data frames."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, overload

from disco.adapters.tables.folder import FolderTables
from disco.adapters.tables.frames import FrameTables
from disco.adapters.tables.sql import SqlTables
from disco.records.errors import TableError
from disco.records.tables import PLAIN, TableFormat
from disco.records.validation import TablesReport, validate

__all__ = ["FolderTables", "FrameTables", "SqlTables", "open_tables", "validate_tables"]


@overload
def open_tables(
    place: str | Path, *, queries: Mapping[str, str] | None = None, written: TableFormat = PLAIN
) -> FolderTables | SqlTables: ...


@overload
def open_tables(place: Mapping[str, Any], *, written: TableFormat = PLAIN) -> FrameTables: ...


def open_tables(
    place: str | Path | Mapping[str, Any],
    *,
    queries: Mapping[str, str] | None = None,
    written: TableFormat = PLAIN,
) -> FolderTables | SqlTables | FrameTables:
    """A folder, a database URL such as `postgresql+psycopg://user@host/shop`, or data frames by the names of tables.

    place: data frames may be of pandas, Polars, DuckDB or any library with Arrow's PyCapsule protocol, or Arrow tables.
    queries: SELECTs by table name, over the database or over files of the folder (`FROM 'lines.csv'`).
    written: what columns are called, how CSV files are written, and which tables are summed from lines of orders.
    """
    if isinstance(place, Mapping):
        return FrameTables(place, written=written)
    if "://" in str(place):
        return SqlTables(str(place), queries=queries, written=written)
    return FolderTables(Path(place), written=replace(written, queries=queries) if queries else written)


def validate_tables(tables: FolderTables | SqlTables | FrameTables, *, as_of: date) -> TablesReport:
    """Every problem of the tables and of how their files are named."""
    try:
        report = validate([tables.source(name) for name in tables.names()], as_of=as_of)
    except TableError as error:  # of lines that cannot be summed; without orders nothing else can be judged
        return TablesReport({}, (*tables.problems(), *error.problems))
    return TablesReport(report.rows, (*tables.problems(), *report.problems), report.warnings)
