"""A table in a folder: Parquet files, and a manifest that says which of them belong to it."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from disco.records.errors import FileFormatError, InputError
from disco.records.files import private_folder, unfinished_folder

MANIFEST = "_manifest.json"  # readers of Parquet folders leave out names that begin so
_FORM = 1
_MADE = re.compile(r"[A-Za-z0-9._=-]+\.parquet")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # Spark's name of a folder for rows without a value
_MANAGED = {"Delta": "_delta_log", "Iceberg": "metadata/*.metadata.json", "Hudi": ".hoodie"}


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file of a table."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TableManifest:
    """The files of a table, by name."""

    files: tuple[ManifestFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @classmethod
    def of_files(cls, folder: Path) -> "TableManifest":
        """Of all Parquet files in a folder."""
        found = []
        for path in parquet_files(folder):
            rows = pq.read_metadata(path).num_rows
            found.append(ManifestFile(path.name, rows, path.stat().st_size))
        return cls(tuple(found))

    @classmethod
    def read(cls, folder: Path) -> "TableManifest | None":
        """That of a folder; None where it has none. Refused where a file of it is missing or has another size."""
        path = folder / MANIFEST
        try:
            said: Any = json.loads(path.read_text(encoding="utf-8"))
            files = tuple(ManifestFile(str(f["name"]), int(f["rows"]), int(f["bytes"])) for f in said["files"])
            known = said["form"] == _FORM and all(_MADE.fullmatch(file.name) for file in files)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            known = False
        if not known:
            raise FileFormatError(str(path), found="no manifest of this version", expected="one that DISCO wrote")
        for file in files:
            place = folder / file.name
            there = place.stat().st_size if place.is_file() else None
            if there != file.bytes:
                found = "no such file" if there is None else f"{there:,} bytes"
                raise FileFormatError(str(place), found=found, expected=f"{file.bytes:,} bytes, as {MANIFEST} says")
        return cls(files)

    def write(self, folder: Path) -> None:
        files = [{"name": file.name, "rows": file.rows, "bytes": file.bytes} for file in self.files]
        text = json.dumps({"form": _FORM, "rows": self.rows, "files": files}, indent=1)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder by name, without hidden and unfinished ones."""
    return sorted(p for p in folder.glob("*.parquet") if p.is_file() and not p.name.startswith(("_", ".")))


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file of a table."""

    path: Path
    keys: tuple[tuple[str, str | None], ...] = ()
    """What the names of its folders say, such as country=DE: columns of text that are the same in every row."""


def table_files(source: Path) -> list[TableFile]:
    """The Parquet files that a path stands for: itself, those its manifest names, or all of the folder and of those in
    it. Folders named key=value, as Spark writes partitioned tables, become columns of text."""
    if source.is_file():
        return [TableFile(source)]
    if not source.is_dir():
        raise InputError(str(source), found="no such file or folder", expected="Parquet")
    manifest = TableManifest.read(source)
    if manifest is not None:
        return [TableFile(source / file.name) for file in manifest.files]
    for kind, mark in _MANAGED.items():
        if any(source.glob(mark)):
            raise InputError(
                str(source),
                found=f"a table of {kind}, whose log says which files belong to it",
                expected="a folder of Parquet files",
                fix="Open it by its name in the catalogue of Spark (table:NAME), or as a DataFrame.",
            )
    found = list(_in_folder(source, ()))
    if not found:
        raise InputError(str(source), found="no file *.parquet", expected="a folder of Parquet files")
    return found


def _in_folder(folder: Path, keys: tuple[tuple[str, str | None], ...]) -> Iterator[TableFile]:
    """Files by name, then those of its folders; neither hidden nor unfinished ones."""
    for path in parquet_files(folder):
        yield TableFile(path, keys)
    for inner in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(("_", "."))):
        name, is_key, text = inner.name.partition("=")
        value = None if text == _NO_VALUE else unquote(text)
        yield from _in_folder(inner, (*keys, (unquote(name), value)) if is_key else keys)


def common_schema(files: list[TableFile]) -> pa.Schema:
    """The columns that the files have in common, and then those of their folders; refused where they differ."""
    names = [name for name, _ in files[0].keys]
    for file in files:
        if [name for name, _ in file.keys] != names:
            told = "/".join(f"{name}=…" for name, _ in file.keys) or "no folder key=value"
            expected = "/".join(f"{name}=…" for name in names) or "no folder key=value"
            raise InputError(str(file.path), found=told, expected=f"{expected}, as for {files[0].path}")
    own = _common_columns([file.path for file in files])
    for name in names:
        if name in own.names or names.count(name) > 1:
            found = f"a column {name} in the files and a folder {name}=…" if name in own.names else f"{name}=… twice"
            raise InputError(str(files[0].path), found=found, expected="each column once")
        own = own.append(pa.field(name, pa.string()))
    return own


@contextmanager
def complete_parquet(path: Path) -> Iterator[None]:
    """The body reads this file; FileFormatError where it is gone or damaged."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        said = " ".join(str(error).split())
        raise FileFormatError(str(path), found=said, expected="a complete Parquet file") from None


def _common_columns(files: list[Path]) -> pa.Schema:
    first = None
    for path in files:
        with complete_parquet(path):
            schema = pq.read_schema(path).remove_metadata()
        if first is None:
            first = schema
        elif not schema.equals(first):
            raise InputError(
                str(path),
                found=_difference(schema, first),
                expected=f"the columns and types of {files[0].name}",
                fix="Write all files of the folder with the same columns.",
            )
    assert first is not None  # for the type checker: there is at least one file
    return first


def _difference(schema: pa.Schema, first: pa.Schema) -> str:
    missing, more = set(first.names) - set(schema.names), set(schema.names) - set(first.names)
    if missing or more:
        return f"no column {min(missing)}" if missing else f"a column {min(more)} that the first file does not have"
    for field in schema:
        if field.type != first.field(field.name).type:
            return f"column {field.name} of type {field.type} instead of {first.field(field.name).type}"
    return "the columns in another order"


def check_folder(folder: Path) -> None:
    """Refuse a place for a table where something else is, before any work."""
    if folder.is_dir():
        if any(folder.iterdir()) and not (folder / MANIFEST).is_file():
            raise InputError(
                str(folder), found="a folder with other content", expected="a new folder, or one with such a table"
            )
    elif folder.exists():
        raise InputError(str(folder), found="a file", expected="the name of a folder")
    elif not folder.parent.is_dir():
        raise InputError(str(folder), found=f"no folder {folder.parent}", expected="a folder that exists")


@contextmanager
def folder_written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write Parquet files into; it takes the name `folder`, with a manifest, when the body succeeds.

    A table that was there before is replaced.
    """
    check_folder(folder)
    target = Path(os.path.realpath(folder))
    private_folder(target.parent)
    with unfinished_folder(target.parent) as partial:
        yield partial
        TableManifest.of_files(partial).write(partial)
        if target.is_dir():
            with unfinished_folder(target.parent) as old:  # removed at the end of the block
                os.replace(target, old / "replaced")
                os.replace(partial, target)
        else:
            os.replace(partial, target)
        shutil.rmtree(partial, ignore_errors=True)
