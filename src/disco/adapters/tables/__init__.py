"""Readers of a retailer's tables: of files, a database, a DuckDB file, a Delta lake, or data frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, overload

from disco.adapters.tables.fetched import FetchedTables
from disco.adapters.tables.folder import FolderTables
from disco.adapters.tables.frames import FrameTables
from disco.adapters.tables.sql import SqlTables
from disco.records.errors import TableError
from disco.records.tables import PLAIN, TableFormat
from disco.records.validation import TablesReport, validate

__all__ = ["FetchedTables", "FolderTables", "FrameTables", "SqlTables", "open_tables", "validate_tables"]


@overload
def open_tables(
    place: str | Path, *, queries: Mapping[str, str] | None = None, written: TableFormat = PLAIN
) -> FolderTables | FetchedTables: ...


@overload
def open_tables(place: Mapping[str, Any], *, written: TableFormat = PLAIN) -> FrameTables: ...


def open_tables(
    place: str | Path | Mapping[str, Any],
    *,
    queries: Mapping[str, str] | None = None,
    written: TableFormat = PLAIN,
) -> FolderTables | FetchedTables | FrameTables:
    """A folder, a URL, or data frames by the names of tables.

    A URL is of a database (`postgresql://user@host/shop`), of a DuckDB file (`duckdb:////srv/shop.duckdb`) or of a
    Delta lake (`delta:////srv/lake`, `delta+s3://bucket/lake`).

    place: data frames may be of pandas, Polars, DuckDB or any library with Arrow's PyCapsule protocol, or Arrow tables.
    queries: SELECTs by table name, over the database or over files of the folder (`FROM 'lines.csv'`).
    written: what columns are called, how CSV files are written, and which tables are summed from lines of orders.
    """
    if isinstance(place, Mapping):
        return FrameTables(place, written=written)
    scheme = str(place).partition("://")[0].partition("+")[0] if "://" in str(place) else ""
    if scheme == "duckdb":
        from disco.adapters.tables.duckdb_file import DuckDbTables

        return DuckDbTables(str(place), queries=queries, written=written)
    if scheme == "delta":
        from disco.adapters.tables.delta import DeltaTables

        return DeltaTables(str(place), queries=queries, written=written)
    if scheme:
        return SqlTables(str(place), queries=queries, written=written)
    return FolderTables(Path(place), written=replace(written, queries=queries) if queries else written)


def validate_tables(tables: FolderTables | FetchedTables | FrameTables, *, as_of: date) -> TablesReport:
    """Every problem of the tables and of how their files are named."""
    try:
        report = validate([tables.source(name) for name in tables.names()], as_of=as_of)
    except TableError as error:  # of lines that cannot be summed; without orders nothing else can be judged
        return TablesReport({}, (*tables.problems(), *error.problems))
    return TablesReport(report.rows, (*tables.problems(), *report.problems), report.warnings)
