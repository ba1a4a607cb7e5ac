"""A shop's tables, files and context network, as the use cases ask for them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.adapters.conditions import Conditions
from disco.records.arguments import refuse_protected
from disco.records.errors import FileFormatError, InputError
from disco.records.locale import Locale
from disco.records.tables import PLAIN, TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.adapters.tables import FetchedTables, FolderTables
    from disco.features import ContextNetwork
    from disco.features.eligibility import Question
    from disco.records.id_list import IdList

_TABLE_SUFFIXES = (".parquet", ".csv")
_LIST_SUFFIXES = (".txt", ".csv", ".parquet")
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
    protected: tuple[str, ...] = ()
    """Columns that may be no features."""
    private: tuple[Path, ...] = ()
    """Files and folders that no plan may name, wherever they lie: settings, secrets, the database, artefacts."""
    conditions: Conditions = field(default_factory=Conditions)
    """What evaluates the conditions of plans."""

    @property
    def locale(self) -> Locale:
        """The currency and the time zone of the tables."""
        return self.written.locale

    def tables(self) -> "FolderTables | FetchedTables":
        """The retailer's tables; a context manager."""
        from disco.adapters.tables import open_tables

        return open_tables(self.place, queries=self.queries, written=self.written)

    def tables_hash(self) -> str | None:
        """Of the names and contents of the tables' files; None for a database, whose content is not known unread."""
        from disco.adapters.tables.derived import DerivedTables
        from disco.records.tables import SCHEMAS

        if "://" in self.place:
            return None
        folder, digest = Path(self.place), sha256()
        there = (path for path in folder.rglob("*") if path.suffix in (".parquet", ".csv", ".xlsx") and path.is_file())
        named = {path.relative_to(folder): path for path in there}
        files = {place: path for place, path in named.items() if place.parts[0].split(".")[0] in SCHEMAS}
        files |= {Path(name): path for name, path in DerivedTables(folder, self.written).files().items()}
        for place, path in sorted(files.items()):
            found = path.stat()
            stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            digest.update(f"{place}\x1f{_content(path, stamp)}\x1f".encode())
        digest.update(self.written.fingerprint().encode())
        return digest.hexdigest()

    def customers_hash(self, table: str) -> str:
        """Of the file that a plan names as its table of customers; empty for one of the shop's tables."""
        return self.file_hash(table, setting="customers.table")

    @contextmanager
    def customers(self, table: str) -> Iterator[tuple[str, Any]]:
        """A table of customers that a plan names: a file, or one of the shop's tables; with what to call it."""
        from disco.adapters.tables.single_files import customers_source
        from disco.records.tables import SCHEMAS

        if table in SCHEMAS:
            with self.tables() as tables:
                yield f"table {table}", tables.scan(table)
        else:
            path = self.table_file(table, setting="customers.table")
            source = customers_source(path, file=table, written=self.written)
            names = source.schema().names
            if len(names) == 1 and names != ["customer_id"]:
                raise FileFormatError(
                    table,
                    found="one column, which is not named customer_id",
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
        path = self._find(name, setting=setting, folders=self._folders(lists=setting != "customers.table"))
        if path is None:
            return ""
        return sha256(path.read_bytes() + self.written.fingerprint().encode()).hexdigest()

    def id_list(self, name: str, *, setting: str) -> "IdList":
        """A list of customer ids that a plan names. setting: who named the file."""
        from disco.adapters.tables.single_files import read_id_list

        return read_id_list(self._list_file(name, setting, "customer id"), file=name, written=self.written)

    def lines(self, name: str, *, setting: str, holds: str) -> list[str]:
        """The lines of a text file that are not empty. setting: who named the file; holds: what a line is."""
        try:
            lines = self._list_file(name, setting, holds).read_text(encoding="utf-8-sig").splitlines()
        except UnicodeError:
            found = "bytes that are not UTF-8"
            raise InputError(name, found=found, expected=f"text in UTF-8, one {holds} per line") from None
        return [line.strip() for line in lines if line.strip()]

    # ---- files that a plan may name

    def table_file(self, name: str, *, setting: str) -> Path:
        """A table that somebody names: a file below the folder of the tables."""
        folders = self._folders(lists=False)
        path = self._find(name, setting=setting, folders=folders)
        if path is None:
            found = f"no file {name!r} below {' or '.join(folders)}"
            expected = "a .parquet or .csv file there, or the name of a table, such as customers"
            raise InputError(setting, found=found, expected=expected, fix=_advice(name, folders))
        return path

    def _list_file(self, name: str, setting: str, holds: str) -> Path:
        folders = self._folders(lists=True)
        path = self._find(name, setting=setting, folders=folders)
        if path is None:
            found = f"no file {name!r} below {' or '.join(folders)}"
            expected = f"a .txt, .csv or .parquet file there, with one {holds} per line"
            raise InputError(setting, found=found, expected=expected, fix=_advice(name, folders))
        return path

    def _folders(self, *, lists: bool) -> dict[str, Path]:
        """Where files that a plan names may lie, by what to call the folder."""
        data = self.folder / "data" if "://" in self.place else Path(self.place)
        inside = Path(os.path.realpath(data)).is_relative_to(os.path.realpath(self.folder))
        label = os.path.relpath(os.path.realpath(data), os.path.realpath(self.folder)) if inside else self.place
        return ({"lists/": self.folder / "lists"} if lists else {}) | {f"{label}/": data}

    def _find(self, name: str, *, setting: str, folders: Mapping[str, Path]) -> Path | None:
        """The file of this name, seen from the shop's folder or from one of these folders; None: they have none.

        A plan may come from somebody who may not read everything that the server can. So links are followed first,
        only these folders count, and what is elsewhere is answered alike whether it exists or not. Names are seen from
        the folders, too, so that a plan of before there were such folders works once its file was moved there.
        """
        if not name.isprintable():
            fix = "Give the file another name."
            raise InputError(setting, found=ascii(name), expected="a name of visible characters", fix=fix)
        roots = [Path(os.path.realpath(folder)) for folder in folders.values()]
        suffixes = _LIST_SUFFIXES if "lists/" in folders else _TABLE_SUFFIXES
        for base in (self.folder, *roots):
            path = Path(os.path.realpath(base / name))
            within = next((path.relative_to(root) for root in roots if path.is_relative_to(root)), None)
            if within is None:
                continue
            other = path.suffix.lower() not in suffixes or any(part.startswith(".") for part in within.parts)
            if self._is_private(path) or (path.is_file() and other):
                raise InputError(
                    setting,
                    found=f"{name!r}, which plans may not use",
                    expected=f"a {', '.join(suffixes[:-1])} or {suffixes[-1]} file",
                    fix="Settings, secrets, the database, artefacts and backups are never read for a plan.",
                )
            if path.is_file():
                return path
        return None

    def _is_private(self, path: Path) -> bool:
        """Whether a file is one of those that no plan may name, also under another name (a hard link)."""
        for one in self.private:
            if path.is_relative_to(os.path.realpath(one)):
                return True
            with suppress(OSError):  # one of the two is not there
                if path.samefile(one):
                    return True
        return False

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
        network = ContextNetwork.load(self.network_file)
        fix = "Train it again without them: `disco train context`."
        names = network.embedding_.feature_names
        refuse_protected(names, self.protected, where=f"features of {self.network_file}", fix=fix)
        return network

    def network_hash(self) -> str:
        """Of the network's file; equal networks are equal files."""
        return sha256(self.network_file.read_bytes()).hexdigest()


def _advice(name: str, folders: Mapping[str, Path]) -> str | None:
    """What to do about a list or a table that was not found; None for other files, which must not be moved there.

    The same words for a file that is absent and for a link to one elsewhere: they must not say what exists there.
    """
    path = Path(name)
    if path.suffix.lower() not in _LIST_SUFFIXES:
        return None
    if os.path.normpath(name).startswith(tuple(folders)):
        return "Check the name. A link to a file elsewhere is not used."
    return f"Move the file to {next(iter(folders))}{path.name}."


@lru_cache(maxsize=_MOST_HASHED)
def _content(path: Path, stamp: tuple[int, ...]) -> str:
    """Of a file that has not changed since: a program cannot set the time of the last change."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
