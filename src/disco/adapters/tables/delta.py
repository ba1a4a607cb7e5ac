"""Tables of a Delta lake: `delta:///FOLDER` for a path from here, `delta:////FOLDER` from the root, `delta+s3://BUCKET/…`.

Each table is a folder below it, of the table's name. Needs the extra `delta`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from disco.adapters.tables.fetched import FetchedTables
from disco.adapters.tables.parquet import ParquetSource
from disco.adapters.tables.warehouse import (
    CAMPAIGN,
    Export,
    equal_rows,
    file_of,
    missing_extra,
    reached,
    refuse_other_columns,
)
from disco.records.errors import InputError
from disco.records.tables import PLAIN, SCHEMAS, TableFormat


class DeltaTables(FetchedTables):
    """The tables of these names, each in the version that it has at its first use."""

    def __init__(self, url: str, *, queries: Mapping[str, str] | None = None, written: TableFormat = PLAIN) -> None:
        if queries:
            fix = "Name the folders as DISCO names the tables, or use `columns`."
            raise InputError("queries", found=url, expected="a database that takes queries", fix=fix)
        library, root = _library(), _root(url)
        with reached(url, library.exceptions.DeltaError, OSError):
            there = {name: f"{root}/{name}" for name in SCHEMAS if library.DeltaTable.is_deltatable(f"{root}/{name}")}
        super().__init__(url, there, written=written)

    def _fetch(self, name: str, wanted: str, folder: Path) -> ParquetSource:
        library = _library()
        with reached(f"table {name} in {self._shown}", library.exceptions.DeltaError, OSError):
            table = library.DeltaTable(wanted)
            file, label = folder / f"{name}.parquet", f"{name} (Delta, version {table.version()})"
            dataset = table.to_pyarrow_dataset()
            with pq.ParquetWriter(file, dataset.schema) as writer:
                for batch in dataset.to_batches():
                    writer.write_batch(batch)
        return ParquetSource(name, file=label, parts=[(label, file)], written=self._written)


class DeltaTarget:
    """A folder that tables are written to. Each export is one version of a table; where somebody else has written the
    same rows meanwhile, Delta refuses it."""

    def __init__(self, url: str) -> None:
        self.shown, self._root = url, _root(url)

    def replace(self, table: str, export: Export) -> bool:
        library, place = _library(), f"{self._root}/{table}"
        with reached(self.shown, library.exceptions.DeltaError, OSError):
            if not library.DeltaTable.is_deltatable(place):
                library.write_deltalake(place, export.rows, mode="error")
                return True
            there = library.DeltaTable(place)
            refuse_other_columns(table, there.to_pyarrow_dataset().schema.names, export)
            present = there.to_pyarrow_table(filters=[(CAMPAIGN, "=", export.campaign)])
            if equal_rows(present, export.rows):
                return False
            campaign = export.campaign.replace("'", "''")
            library.write_deltalake(there, export.rows, mode="overwrite", predicate=f"{CAMPAIGN} = '{campaign}'")
        return True


def _library() -> Any:
    try:
        import deltalake
        import deltalake.exceptions
    except ModuleNotFoundError:
        raise missing_extra("Delta tables", "delta", "deltalake") from None
    return deltalake


def _root(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return file_of(url) if scheme == "delta" else f"{scheme.removeprefix('delta+')}://{rest.rstrip('/')}"
