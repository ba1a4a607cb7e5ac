"""A shop's tables, files and context network, as the use cases ask for them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.adapters.conditions import Conditions
from disco.records.errors import FileFormatError, InputError
from disco.records.locale import Locale
from disco.records.table_format import PLAIN, TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.adapters.tables import FolderTables, SqlTables
    from disco.features import ContextNetwork
    from disco.features.eligibility import Question
    from disco.records.id_list import IdList

_MOST_HASHED = 256  # files whose hash is remembered while they do not change


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderShopData:
    """The `ShopData` port over a folder; its tables may also lie in a database."""

    folder: Path
    """The shop's folder: paths in a plan are seen from here."""
    place: str
    """The folder of the tables, or a database URL."""
    queries: Mapping[str, str] | None
    """With a database URL: one SELECT per table."""
    written: TableFormat = PLAIN
    """What the columns of the tables are called, and how CSV files are written."""
    network_file: Path
    """The file of the context network."""
    conditions: Conditions = field(default_factory=Conditions)
    """What evaluates the conditions of plans."""

    @property
    def locale(self) -> Locale:
        """The currency and the time zone of the tables."""
        return self.written.locale

    def tables(self) -> "FolderTables | SqlTables":
        """The retailer's tables; a context manager."""
        from disco.adapters.tables import open_tables

        return open_tables(self.place, queries=self.queries, written=self.written)

    def tables_hash(self) -> str | None:
        """Of the names and contents of the tables' files; None for a database, whose content is not known unread."""
        from disco.records.tables import SCHEMAS

        if "://" in self.place:
            return None
        folder, digest = Path(self.place), sha256()
        files = (path for path in folder.rglob("*") if path.suffix in (".parquet", ".csv") and path.is_file())
        for path in sorted(files):
            if path.relative_to(folder).parts[0].split(".")[0] in SCHEMAS:
                found = path.stat()
                stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
                content = _content(path, stamp)
                digest.update(f"{path.relative_to(folder)}\x1f{content}\x1f".encode())
        digest.update(self.written.fingerprint().encode())
        return digest.hexdigest()

    def customers_hash(self, table: str) -> str:
        """Of the file that a plan names as its table of customers; empty for one of the shop's tables."""
        return self.file_hash(table, setting="customers.table")

    @contextmanager
    def customers(self, table: str) -> Iterator[tuple[str, Any]]:
        """A table of customers that a plan names: a file, or one of the shop's tables; with what to call it."""
        from disco.adapters.tables.csv import CsvSource
        from disco.adapters.tables.parquet import ParquetSource
        from disco.records.tables import SCHEMAS

        path = self.inside(table, setting="customers.table")
        if table in SCHEMAS:
            with self.tables() as tables:
                yield f"table {table}", tables.scan(table)
        elif not path.is_file():
            expected = "a Parquet or CSV file, seen from the shop's folder, or the name of a table, such as customers"
            raise InputError("customers.table", found=f"no file {path}", expected=expected)
        else:
            source = (
                CsvSource("customers", file=table, path=path, written=self.written)
                if path.suffix.lower() == ".csv"
                else ParquetSource("customers", file=table, parts=[(table, path)], written=self.written)
            )
            names = source.schema().names
            if len(names) == 1 and names != ["customer_id"]:
                raise FileFormatError(
                    table,
                    found=f"one column, named {names[0]!r}",
                    expected="a table with a column customer_id",
                    fix="Write customer_id as its first line. As `include:` or `exclude:` of a plan, a list needs no "
                    "header.",
                )
            yield table, source.scan()

    def meeting(self, customers: Any, question: "Question") -> "pa.Table":
        """Who meets a plan's condition, evaluated in a process of its own."""
        return self.conditions.evaluate(customers, question)

    def file_hash(self, name: str, *, setting: str) -> str:
        """Of the content of a file that a plan names, and of how the shop writes files; empty without the file."""
        path = self.inside(name, setting=setting)
        if not path.is_file():
            return ""
        return sha256(path.read_bytes() + self.written.fingerprint().encode()).hexdigest()

    def id_list(self, name: str, *, setting: str) -> "IdList":
        """A list of customer ids that a plan names. setting: who named the file."""
        from disco.adapters.tables.id_list import read_id_list

        path = self.inside(name, setting=setting)
        if not path.is_file():
            expected = "a text, CSV or Parquet file with one customer id per line, seen from the shop's folder"
            raise InputError(setting, found=f"no file {path}", expected=expected)
        return read_id_list(path, file=name, written=self.written)

    def lines(self, name: str, *, setting: str, holds: str) -> list[str]:
        """The lines of a text file that are not empty. setting: who named the file; holds: what a line is."""
        path = self.inside(name, setting=setting)
        if not path.is_file():
            raise InputError(setting, found=f"no file {path}", expected=f"a text file with one {holds} per line")
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeError as error:
            raise InputError(str(path), found=str(error), expected=f"text in UTF-8, one {holds} per line") from None
        return [line.strip() for line in lines if line.strip()]

    def inside(self, name: str, *, setting: str) -> Path:
        """The path of a file that a plan names. A plan may come from somebody who may not read everything the operator
        can, so links are followed and the file must lie in the shop's folder or in the folder of the tables."""
        path = self.folder / name
        roots = [self.folder] if "://" in self.place else [self.folder, Path(self.place)]
        if "\0" in name or not any(
            Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)) for root in roots
        ):
            raise InputError(
                setting,
                found=f"{name!r}, which lies outside the shop's folder",
                expected="a file in the shop's folder or in the folder of its tables (the setting `data`)",
                fix="Copy the file there.",
            )
        return path

    def network(self) -> "ContextNetwork":
        """The context network. It needs orders, no campaigns, so it comes before the first plan."""
        from disco.features import ContextNetwork

        if not self.network_file.is_file():
            options = f"--tables {self.place} --window-start YYYY-MM-DD -o {self.network_file}"
            raise InputError(
                f"context network {self.network_file}",
                found="no such file",
                expected="a trained network (the setting `context`)",
                fix=f"Run `disco train context {options}`.",
            )
        return ContextNetwork.load(self.network_file)

    def network_hash(self) -> str:
        """Of the network's file; equal networks are equal files."""
        return sha256(self.network_file.read_bytes()).hexdigest()


@lru_cache(maxsize=_MOST_HASHED)
def _content(path: Path, stamp: tuple[int, ...]) -> str:
    """Of a file that has not changed since: a program cannot set the time of the last change."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
