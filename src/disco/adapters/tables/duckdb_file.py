"""Tables in a DuckDB file: `duckdb:///FILE` for a path from here, `duckdb:////FILE` from the root."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from disco.adapters.tables.fetched import FetchedTables, refuse_unknown
from disco.adapters.tables.parquet import ParquetSource
from disco.adapters.tables.warehouse import CAMPAIGN, Export, equal_rows, file_of, reached, refuse_other_columns
from disco.records.errors import InputError
from disco.records.tables import PLAIN, SCHEMAS, TableFormat

_ROWS_PER_BATCH = 100_000
_CLOSED: dict[str, Any] = {"enable_external_access": "false"}  # a query reads this file and no others


class DuckDbTables(FetchedTables):
    """`queries` by table name; without them the tables and views of these names."""

    def __init__(self, url: str, *, queries: Mapping[str, str] | None = None, written: TableFormat = PLAIN) -> None:
        refuse_unknown(queries)
        self._file = file_of(url)
        if not Path(self._file).is_file():  # DuckDB would make one
            raise InputError(url, found="no such file", expected="an existing DuckDB file")
        super().__init__(url, queries or self._tables_there(url), written=written)

    def _tables_there(self, url: str) -> dict[str, str]:
        with reached(url, duckdb.Error), closing(self._connect()) as connection:
            names = connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        there = {name for (name,) in names}
        return {name: f"SELECT * FROM {name}" for name in SCHEMAS if name in there}  # names of ours alone

    def _connect(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(self._file, read_only=True, config=_CLOSED)

    def _fetch(self, name: str, wanted: str, folder: Path) -> ParquetSource:
        file, label = folder / f"{name}.parquet", f"{name} (DuckDB)"
        with reached(f"query of {name}", duckdb.Error), closing(self._connect()) as connection:
            batches: pa.RecordBatchReader = connection.sql(wanted).to_arrow_reader(_ROWS_PER_BATCH)
            with pq.ParquetWriter(file, batches.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        return ParquetSource(name, file=label, parts=[(label, file)], written=self._written)


class DuckDbTarget:
    """A file that tables are written to. One process at a time may write, so that a transaction is enough."""

    def __init__(self, url: str) -> None:
        self.shown, self._file = url, file_of(url)

    def replace(self, table: str, export: Export) -> bool:
        place = ".".join(quoted(part) for part in table.split("."))
        with reached(self.shown, duckdb.Error, OSError), closing(duckdb.connect(self._file)) as connection:
            connection.register("disco_rows", export.rows)
            connection.begin()  # what is not committed is undone when the connection closes
            if not self._is_there(connection, table):
                connection.execute(f"CREATE TABLE {place} AS SELECT * FROM disco_rows LIMIT 0")
            there = connection.sql(f"SELECT * FROM {place} WHERE {CAMPAIGN} = ?", params=[export.campaign])
            present: pa.Table = there.to_arrow_table()
            refuse_other_columns(table, present.column_names, export)
            if equal_rows(present, export.rows):
                connection.commit()
                return False
            columns = ", ".join(quoted(name) for name in export.rows.column_names)
            connection.execute(f"DELETE FROM {place} WHERE {CAMPAIGN} = ?", [export.campaign])
            connection.execute(f"INSERT INTO {place} ({columns}) SELECT {columns} FROM disco_rows")
            connection.commit()
        return True

    @staticmethod
    def _is_there(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
        schema, _, name = table.rpartition(".")
        found = connection.execute(
            "SELECT count(*) FROM information_schema.tables WHERE table_name = ? AND table_schema = ?",
            [name, schema or "main"],
        ).fetchall()
        return bool(found[0][0])


def quoted(name: str) -> str:
    """An identifier that DuckDB takes as it is."""
    return '"' + name.replace('"', '""') + '"'
