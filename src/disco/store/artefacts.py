"""Large tables as files of a folder, each named by the SHA-256 of its bytes; and how one row is found in them.

A file is written aside, brought to disk and renamed before its name is given out, so a name in the database always
has its file. A file whose name was never committed is harmless. Any place that every machine sees as a folder will do.

A process compares the bytes of a file with its name before it uses the first of them, and again when the file has
changed since. So a damaged file is an error, never another decision, code or context.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Integers
from disco.records.arrow_tables import TableRows, in_pieces
from disco.records.errors import FileFormatError, InputError, StateError
from disco.records.files import new_file_mode, private_folder, temporary_folder, unfinished_file
from disco.records.identity import customer_keys

_ROWS_PER_BATCH = 2**24  # few batches open fast; a batch of text stays below two gigabytes
_ROWS_PER_COMPRESSED_BATCH = 2**17
_MOST_MAPPED = 64
_FEW = 128  # texts that are asked for
_ENDING = ".arrow"
_NAME = re.compile("[0-9a-f]{64}")
_FIX = (
    "Copy it from a backup restored into another folder (`disco restore FILE --shop FOLDER`), "
    "or let the setting `artefacts` name the place where it lies."
)


class _Stamp(NamedTuple):
    """What changes when a file is written or replaced. The time of the last change cannot be set by a program."""

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int


def _stamp(stat: os.stat_result) -> _Stamp:
    return _Stamp(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


class Artefacts(Protocol):
    """Large tables, each written once and named by the SHA-256 of its bytes. A folder, or an object store."""

    def put(self, table: "TableRows", *, compressed: bool = False) -> str:
        """Keep a table; its name. It is whole and on disk before this returns; the same table again changes nothing.

        Compressed tables are smaller and must be read whole; others are mapped, so that one row costs one row.
        """

    def get(self, name: str) -> "pa.Table":
        """The table, mapped. StateError names a missing one, FileFormatError one whose bytes are not those of its name.

        The bytes are compared when a process first asks for them, and again when they have changed since.
        """

    def schema(self, name: str) -> "pa.Schema":
        """Of the table; its bytes are not compared. The errors of `get`."""

    def is_intact(self, name: str) -> bool:
        """Whether the bytes are those that were written; reads all of them. False where the table is missing."""

    def sizes(self) -> "dict[str, int]":
        """Bytes of every table that is there, by name."""

    def remove(self, name: str) -> None:
        """Remove a table for good; for those that no row of the store names."""


class FolderArtefacts:
    """Arrow files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._compared: dict[str, _Stamp] = {}  # files whose bytes are those of their names, as they were then
        self._mapped: dict[str, tuple[_Stamp, pa.Table]] = {}  # opening a file costs more than finding a row

    def put(self, table: TableRows, *, compressed: bool = False) -> str:
        options = pa.ipc.IpcWriteOptions(compression="zstd" if compressed else None)
        rows = _ROWS_PER_COMPRESSED_BATCH if compressed else _ROWS_PER_BATCH
        # a table in memory is cut by Arrow, without a copy
        pieces = [table.combine_chunks()] if isinstance(table, pa.Table) else in_pieces(table.to_batches(), rows)
        try:
            private_folder(self.folder)
            with unfinished_file(self.folder) as partial, partial.open("wb") as file:
                sink = _Hashed(file)
                with pa.ipc.new_file(pa.PythonFile(sink, "w"), table.schema, options=options) as writer:
                    for piece in pieces:
                        writer.write_table(piece, max_chunksize=rows)
                file.flush()
                os.fsync(file.fileno())
                name = sink.digest.hexdigest()
                os.chmod(partial, new_file_mode(self.folder))
                os.replace(partial, self._path(name))
                self._compared[name] = _stamp(os.fstat(file.fileno()))  # hashed while it was written
            _sync(self.folder)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(str(self.folder), found=reason, expected="a folder that can be written") from error
        return name

    def get(self, name: str) -> pa.Table:
        path = self._path(name)
        try:
            stat = path.stat()
            stamp, known = _stamp(stat), self._mapped.get(name)
            if known is not None and known[0] == stamp:
                return known[1]
            with pa.memory_map(str(path)) as file:
                content = file.read_buffer()
            if self._compared.get(name) != stamp:
                if sha256(content).hexdigest() != name:
                    found = "another content than its name says"
                    raise FileFormatError(str(path), found=found, expected="the file as written", fix=_FIX)
                self._compared[name] = stamp
            table = pa.ipc.open_file(content).read_all()
            if table.nbytes <= stat.st_size:  # a compressed one lies in memory and is not kept
                self._keep(name, stamp, table)
            return table
        except FileNotFoundError:
            raise StateError(f"The artefact {path} is missing", fix=_FIX) from None
        except (OSError, pa.ArrowException) as error:
            raise FileFormatError(str(path), found=str(error), expected="the file as written", fix=_FIX) from error

    def schema(self, name: str) -> pa.Schema:
        path = self._path(name)
        try:
            with pa.memory_map(str(path)) as file:
                return pa.ipc.open_file(file).schema
        except FileNotFoundError:
            raise StateError(f"The artefact {path} is missing", fix=_FIX) from None
        except (OSError, pa.ArrowException) as error:
            raise FileFormatError(str(path), found=str(error), expected="the file as written", fix=_FIX) from error

    def is_intact(self, name: str) -> bool:
        try:
            with self._path(name).open("rb") as file:
                return file_digest(file, "sha256").hexdigest() == name
        except OSError:
            return False

    def sizes(self) -> dict[str, int]:
        files = (path for path in self.folder.glob(f"*{_ENDING}") if _NAME.fullmatch(path.stem))
        return {path.stem: path.stat().st_size for path in files}

    def remove(self, name: str) -> None:
        self._mapped.pop(name, None)
        self._compared.pop(name, None)
        self._path(name).unlink(missing_ok=True)

    def _keep(self, name: str, stamp: "_Stamp", table: pa.Table) -> None:
        while len(self._mapped) >= _MOST_MAPPED:
            self._mapped.pop(next(iter(self._mapped)), None)
        self._mapped[name] = (stamp, table)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_ENDING}"


class _Overlay:
    """Artefacts that are read from one place and written to another, which goes away."""

    def __init__(self, below: Artefacts, above: FolderArtefacts) -> None:
        self._below = below
        self._above = above

    def put(self, table: TableRows, *, compressed: bool = False) -> str:
        return self._above.put(table, compressed=compressed)

    def get(self, name: str) -> pa.Table:
        return self._place(name).get(name)

    def schema(self, name: str) -> pa.Schema:
        return self._place(name).schema(name)

    def is_intact(self, name: str) -> bool:
        return self._place(name).is_intact(name)

    def sizes(self) -> dict[str, int]:
        return {**self._below.sizes(), **self._above.sizes()}

    def remove(self, name: str) -> None:
        self._above.remove(name)

    def _place(self, name: str) -> Artefacts:
        return self._above if (self._above.folder / f"{name}{_ENDING}").exists() else self._below


@contextmanager
def rehearsal(artefacts: Artefacts) -> Iterator[Artefacts]:
    """The same artefacts, to which nothing is added: what is put there is gone after the block."""
    with temporary_folder("rehearsal") as folder:
        yield _Overlay(artefacts, FolderArtefacts(folder))


class _Hashed:
    """A file that knows the hash of what was written to it; as much of one as Arrow asks for."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = sha256()

    def write(self, content: "bytes | memoryview") -> int:
        self.digest.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """The file is closed by whoever opened it."""


def _sync(folder: Path) -> None:
    """Bring the folder's list of names to disk, where the system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---- finding rows by a text: sorted 64-bit keys of it, each with its row ----


def index_of(texts: "pa.Array | pa.ChunkedArray") -> pa.Table:
    """key, row of the texts that are not null, sorted by key. StateError where a text is there twice."""
    there = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    keys = customer_keys(pc.drop_null(texts))
    order = np.argsort(keys, kind="stable")
    keys, rows = keys[order], there[order]
    alike = np.flatnonzero(keys[1:] == keys[:-1])
    if alike.size:  # mostly none; where keys repeat, the texts decide
        places = np.unique(np.concatenate([alike, alike + 1]))
        repeated = pc.value_counts(_texts(texts, rows[places]))
        twice = repeated.filter(pc.greater(repeated.field("counts"), 1))
        if len(twice):
            raise StateError(f"The decisions hold {twice[0]['values']} twice: each customer and each code comes once")
    return pa.table({"key": keys, "row": rows.astype(np.int64)})


def rows_of(index: pa.Table, texts: "pa.ChunkedArray", asked: pa.Array) -> Integers:
    """The rows, ascending, at which one of the texts asked for stands; `index` is that of `texts`."""
    if not len(asked) or not index.num_rows:
        return np.zeros(0, np.int64)
    keys, rows = (in_one_piece(index[name]).to_numpy() for name in ("key", "row"))
    wanted = customer_keys(asked)
    order = np.argsort(wanted)  # ascending questions walk the index once
    ascending = wanted[order]
    first = np.searchsorted(keys, ascending, side="left")
    there = keys[np.minimum(first, keys.size - 1)] == ascending
    after = first.copy()  # in a ledger most are not there
    after[there] = np.searchsorted(keys, ascending[there], side="right")
    counts = after - first
    if len(asked) <= _FEW:  # one by one: Arrow's functions cost more than a few comparisons
        hits = [
            int(row)
            for place in np.flatnonzero(counts).tolist()
            for row in rows[first[place] : after[place]]
            if str(texts[int(row)].as_py()) == asked[int(order[place])].as_py()
        ]
        return np.unique(np.array(hits, np.int64))
    places = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
    found = rows[places]
    same = pc.equal(_texts(texts, found), asked.take(pa.array(np.repeat(order, counts))))
    found = np.sort(found[np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)])
    once = np.append(True, found[1:] != found[:-1])[: found.size]  # np.unique hashes, which takes longer
    return np.asarray(found[once], np.int64)


def in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; its memory is not copied where it lies in one piece already, as it does in a file."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _texts(column: "pa.Array | pa.ChunkedArray", rows: Integers) -> pa.Array:
    taken = column.take(pa.array(rows)).cast(pa.string())
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken
