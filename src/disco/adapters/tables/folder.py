"""A folder with TABLE.parquet, TABLE.csv, TABLE.xlsx, or TABLE/ (parts of Parquet) for each table, or with other files
that the settings make tables of."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads

from disco.adapters.tables.columns import NamedSource, readable
from disco.adapters.tables.csv import check_lines
from disco.adapters.tables.derived import DatedCustomers, DerivedTables, file_source
from disco.adapters.tables.parquet import ParquetSource, check_sizes
from disco.records.errors import InputError, Problem, TableError
from disco.records.files import private_folder, temporary_folder, written_whole
from disco.records.locale import Locale
from disco.records.tables import PLAIN, SCHEMAS, TableFormat
from disco.records.validation import TablesReport, validate


class FolderTables:
    """The `Tables` port over files. Nothing is read before it is asked for."""

    locale: Locale

    def __init__(self, folder: Path, *, written: TableFormat = PLAIN) -> None:
        self._folder, self._written, self.locale = folder, written, written.locale
        if not folder.exists():
            raise InputError(str(folder), found="no such folder", expected="a folder with tables", fix=_example())
        if not folder.is_dir():
            fix = f"Give the folder: {folder.absolute().parent}"
            raise InputError(str(folder), found="a file", expected="the folder it lies in", fix=fix)
        self._sources: dict[str, NamedSource | DatedCustomers] = {}
        self._problems: list[Problem] = []
        with readable(str(folder), expected="a folder that can be read", fix="Check its permissions."):
            self._derived = DerivedTables(folder, written, present=self._sources)
            self._parts = set(self._derived.files().values())
            for name in SCHEMAS:
                self._find(name)
            for name in self._derived.declared:
                if (file := self._sources.pop(name, None)) is not None:
                    self._two_sources(name, [file.file, "a setting"])
            self._look_for_misnamed_files()
            there = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
        if not self._sources and not self._derived.declared:
            raise InputError(str(folder), found=there, expected="at least one table", fix=_example())
        if isinstance(customers := self._sources.get("customers"), NamedSource):
            self._sources["customers"] = self._derived.dated(customers)

    def __repr__(self) -> str:
        return f"FolderTables({str(self._folder)!r}: {', '.join(self.names())})"

    def _find(self, name: str) -> None:
        found: list[NamedSource] = []
        for label in (f"{name}.parquet", name):
            path = self._folder / label
            if path.is_file() and label != name and not self._is_part(path):
                found.append(ParquetSource(name, file=label, parts=[(label, path)], written=self._written))
            elif path.is_dir():
                parts = [(str(part.relative_to(self._folder)), part) for part in sorted(path.rglob("*.parquet"))]
                visible = [(part, file) for part, file in parts if not file.name.startswith(("_", "."))]
                if visible:
                    found.append(ParquetSource(name, file=f"{label}/", parts=visible, written=self._written))
        for ending in (".csv", ".xlsx"):
            path = self._folder / f"{name}{ending}"
            if path.is_file() and not self._is_part(path):
                found.append(file_source(name, path, file=path.name, written=self._written))
        if found:
            self._sources[name] = found[0]
        if len(found) > 1:
            self._two_sources(name, [source.file for source in found])

    def _two_sources(self, name: str, files: Sequence[str]) -> None:
        expected, fix = f"one source of {name}", "Remove all but one."
        self._problems.append(Problem("two_sources", files[0], "", " and ".join(files), expected, fix))

    def _is_part(self, path: Path) -> bool:
        """Whether a setting makes tables of the file, so that it is none itself."""
        return path.resolve() in self._parts

    def _look_for_misnamed_files(self) -> None:
        absent = [name for name in SCHEMAS if name not in self._sources and name not in self._derived.declared]
        for path in sorted(self._folder.iterdir()):
            stem, kind = path.stem.lower(), path.suffix.lower()
            near = get_close_matches(stem, absent, n=1, cutoff=0.8)
            if near and (kind in (".csv", ".parquet", ".xlsx") or path.is_dir()) and not self._is_part(path):
                meant = near[0] + kind
                fix = f"Did you mean {meant}? Rename it."
                self._problems.append(Problem("misnamed_file", path.name, "", "a table of no known name", meant, fix))

    def names(self) -> tuple[str, ...]:
        made = self._derived.names()
        return tuple(name for name in SCHEMAS if name in self._sources or name in made)

    def scan(self, name: str) -> pads.Dataset | pa.Table:
        """Parquet as a dataset that streams; CSV as a typed table in memory. The retailer's own types."""
        return self.source(name).scan()

    def source(self, name: str) -> NamedSource | DatedCustomers:
        """The table as validation reads it."""
        if name not in self._sources and name in self._derived.names():
            return self._derived.source(name)
        if name not in self._sources:
            raise InputError(
                f"table {name} in {self._folder}",
                found=f"only {', '.join(self.names())}",
                expected=f"{name}.parquet, {name}.csv or a folder {name}/ of Parquet files",
            )
        return self._sources[name]

    def __enter__(self) -> "FolderTables":
        return self

    def __exit__(self, *_: object) -> None:
        """Files close themselves; this is for those who may have been given a database."""

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files' names; what is wrong inside them is for `validate` to say."""
        return tuple(self._problems)

    def notes(self) -> tuple[str, ...]:
        """What was found in the files without being told; a file that cannot be read has none."""
        notes: list[str] = []
        for notes_of in (*(source.notes for source in self._sources.values()), self._derived.notes):
            with suppress(InputError, TableError):  # validation reports it
                notes += notes_of()
        return tuple(notes)


def _example() -> str:
    return (
        f"Expected files are TABLE.parquet or TABLE.csv, for {', '.join(SCHEMAS)}; `disco init SHOP/` writes examples. "
        "Other files, such as order lines, become tables by the settings `lines` and `queries`."
    )


# ---- a file that was sent to the service: its columns and rows are counted before anything reads it


_SENT = "body"  # what messages call a file that has no name here


def check_sent(path: Path, *, most_rows: int) -> None:
    """Refuse a file of more rows; its columns are counted by whoever reads it.

    Whoever runs the machine may put larger files into the shop's folder, and read them by the command line.
    """
    if path.suffix.lower() == ".csv":
        check_lines(_SENT, path, most_rows=most_rows)
        return
    with readable(_SENT, expected="a complete Parquet file", fix="Write the file again."):
        check_sizes(_SENT, path, most_rows=most_rows)


# ---- a new file for one of a shop's tables: judged beside the others, then put in the place of the old one


def replace_table(folder: Path, name: str, file: Path, *, written: TableFormat, as_of: date) -> TablesReport:
    """Let this file be the table; TableError with every problem where it cannot be, and the old one stays.

    file: ends in .parquet or .csv. Problems of other tables that were there before are no reason to refuse it; what
    refers to rows that are gone now is reported by the next `validate`.
    """
    with temporary_folder("table") as scratch:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name.split(".")[0] in SCHEMAS and path.name.split(".")[0] != name:
                (scratch / path.name).symlink_to(path.resolve())
        for other, path in DerivedTables(folder, written).files().items() if folder.is_dir() else ():
            if not (link := scratch / other).is_symlink():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path)
        (scratch / f"{name}{file.suffix}").symlink_to(file.resolve())
        tables = FolderTables(scratch, written=written)
        report = validate([tables.source(one) for one in tables.names()], as_of=as_of)
    ours = tuple(problem for problem in report.problems if Path(problem.file).name.split(".")[0] == name)
    if ours:
        raise TableError(f"The table {name} was not replaced:", ours)
    private_folder(folder)
    target = folder / f"{name}{file.suffix}"
    with written_whole(target) as partial:
        shutil.copyfile(file, partial)
    # those of another kind go, because the same table must not be there twice
    for other in (f"{name}.parquet", f"{name}.csv", f"{name}.xlsx", name):
        path = folder / other
        if path != target and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path != target and os.path.lexists(path):
            path.unlink()
    return TablesReport({name: report.rows[name]}, (), report.warnings)
