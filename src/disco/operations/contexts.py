"""Features of a day and contexts of customers, made once and kept as files: equal inputs give equal ones."""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import date, datetime
from hashlib import sha256
from itertools import repeat
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.features import FEATURES, ContextNetwork, Feature, has_history, schema_hash
from disco.features.builder import FeatureRequest, missing_tables
from disco.features.files import FeatureFile, stream_features
from disco.features.on_engine import BUCKET_CUSTOMERS, batches_by, streaming_memory
from disco.features.snapshot import Snapshot, snapshot_of
from disco.records.arrays import Flags, Matrix
from disco.records.arrow_tables import NAME_LENGTH, bytes_hash, content_hash
from disco.records.chunks import Report, row_chunks, tell
from disco.records.files import Space, private_folder, require_space, temporary_folder, written_whole
from disco.records.ports import Engine, TableEngine, Tables

# ---- features of a day ----
#
# Kept as files: built once per content of the tables, day and catalogue.


VALUE_BYTES = 4  # of disk: a feature of a customer in a compressed file
_ROW_BYTES = 32  # of disk: a row laid aside for its bucket
_CACHED = re.compile("[0-9a-f]{32}")  # how the name of a cached file begins


class HashedTables(Protocol):
    """A shop's own tables, and the hash of their content."""

    def tables(self) -> AbstractContextManager[Tables]: ...

    def tables_hash(self) -> str | None:
        """Of the tables' content; None where it is not known before they are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureCache:
    """Features of all customers, kept as files: built once per content of the tables, day and catalogue.

    A file is named `KEY-CONTENT-HASH.parquet`: the key of what it was built from, the hash of its content and that of
    its bytes. A file with other bytes is never used but built again. This finds damage. It does not stop somebody who
    writes a file of their own under a valid name: whoever may write here may also write the tables.
    """

    folder: Path
    keep: bool = True
    """Whether features that had to be built are kept for the next time."""
    threads: int | None = None
    """Of the program over a whole shop; None: one per processor."""
    bucket_customers: int = BUCKET_CUSTOMERS
    """Measured at a time; features do not depend on it."""
    engine: TableEngine | None = None
    """Computes features of more customers than a bucket has; None: one program does. They do not depend on it."""

    @property
    def contexts_folder(self) -> Path:
        """Of contexts that were embedded from these features (`kept_or_embedded`)."""
        return self.folder.with_name("contexts")

    def features_as_of(
        self,
        data: HashedTables,
        day: date,
        *,
        features: Sequence[Feature] | None = None,
        then: Sequence[Space] = (),
        report: Report | None = None,
    ) -> tuple[FeatureFile, tuple[str, ...]]:
        """The features of every customer, and what to know about them; `features` are the network's (`catalogue_`),
        None is the whole catalogue. They carry the day's snapshot.

        then: what will be written after them; a disk too small for all of it is refused before the work.
        """
        chosen = FEATURES if features is None else tuple(features)
        with data.tables() as tables:
            notes = missing_tables(chosen, tables.names())
            tell(report, 0, None, "hashing the tables")
            content = data.tables_hash()
            if content is None:
                return self._built(tables, day, chosen, None, then, report), notes
            key = sha256(f"{day} {schema_hash(chosen)} {content}".encode()).hexdigest()[:NAME_LENGTH]
            there = sorted(path for path in self.folder.glob(f"{key}*.parquet") if path.is_file())
            tell(report, 0, None, "reading kept features")
            for path in there:
                if (kept := _verified(path)) is not None:
                    require_space(then)
                    return kept, notes
            if there:
                notes += (f"The cached features of {day} could not be verified, so they were built again.",)
            if self.keep:
                for path in there:
                    path.unlink(missing_ok=True)
            return self._built(tables, day, chosen, key if self.keep else None, then, report), notes

    def _space(self, rows: Mapping[str, int], features: Sequence[Feature]) -> Iterator[Space]:
        """What building features writes. rows: of each table."""
        customers = rows["customers"]
        yield Space(self.folder, customers * len(features) * VALUE_BYTES, "features")
        if customers > self.bucket_customers:
            aside = sum(rows.values()) - customers
            yield Space(Path(tempfile.gettempdir()), aside * _ROW_BYTES, "temporary files")

    def _built(
        self,
        tables: Tables,
        day: date,
        features: Sequence[Feature],
        key: str | None,
        then: Sequence[Space],
        report: Report | None,
    ) -> FeatureFile:
        """Build features into a file, which is kept under a name that begins with the key. None: it has no name."""
        with ExitStack() as stack:
            folder, name = self.folder, "features.parquet"
            if key is None:
                folder = stack.enter_context(temporary_folder("features"))
            private_folder(folder)
            unfinished = stack.enter_context(written_whole(folder / name, name=lambda: name))
            request = FeatureRequest(
                as_of=day,
                features=features,
                threads=self.threads,
                memory_limit=streaming_memory(),
                check=lambda rows: require_space((*self._space(rows, features), *then)),
                report=report,
            )
            with batches_by(self.engine, tables, request, bucket_customers=self.bucket_customers) as (schema, batches):
                stream_features(unfinished, schema, batches)
            tell(report, 0, None, "hashing features")
            built = FeatureFile.open(unfinished)
            content = content_hash(built)
            if key is not None:
                name = f"{key}-{content}-{bytes_hash(unfinished)}.parquet"
            return replace(built, content=content, path=None if key is None else folder / name)

    def purge(self, *, before: datetime | None = None, dry_run: bool = False) -> dict[Path, int]:
        """Remove cached features and contexts, all or those written before a moment; files and their bytes.

        They are made again.
        """
        old = {}
        there = (*self.folder.glob("*.parquet"), *self.contexts_folder.glob("*.parquet"))
        for file in (path for path in there if _CACHED.match(path.name)):
            found = file.stat()
            if before is None or found.st_mtime < before.timestamp():
                old[file] = found.st_size
                if not dry_run:
                    file.unlink(missing_ok=True)
        return old


def _verified(path: Path) -> FeatureFile | None:
    """The features in a file; None where it is not the one that its name states."""
    _, _, stated = path.stem.partition("-")
    content, _, expected = stated.partition("-")
    try:
        if not expected or bytes_hash(path) != expected:
            return None
        return replace(FeatureFile.open(path), content=content)
    except (OSError, pa.ArrowException):  # removed meanwhile, or unreadable
        return None


# ---- contexts that were embedded before ----
#
# The same features, customers and network give the same ones, so they are kept.
#
# Embedding reads every feature of every customer. The second plan of a day, and a planner that is opened again, need
# the same contexts and read six numbers per customer instead. A file is named `KEY-HASH.parquet`: the key of what the
# contexts come from, and the hash of its bytes. A file with other bytes is not used.


_FORM = 1  # of the file and of the computation; another one is embedded again
_KNOWN_COLUMN = "known"

Contexts = tuple[Matrix, Flags]  # (n, d1), and (n,) who has a history


def key_of(features: FeatureFile, *, everybody: str, network: str, snapshot: str) -> str:
    """What contexts come from. everybody: the hash of the features of all customers, of which these are some."""
    digest = sha256(f"{_FORM} {everybody} {network} {snapshot} ".encode())
    if features.rows is not None:
        digest.update(np.packbits(features.rows).tobytes())
    return digest.hexdigest()[:NAME_LENGTH]


def kept_or_embedded(
    folder: Path, key: str, shape: tuple[int, int], embed: Callable[[], Contexts], *, keep: bool
) -> Contexts:
    """The contexts of this key from the folder, or else embedded and, where asked for, kept there."""
    there = sorted(folder.glob(f"{key}-*.parquet"))
    for path in there:
        found = _read_contexts(path, shape)
        if found is not None:
            return found
    contexts = embed()
    if keep:
        for path in there:
            path.unlink(missing_ok=True)
        _write_contexts(folder, key, contexts)
    return contexts


def _write_contexts(folder: Path, key: str, contexts: Contexts) -> None:
    matrix, known = contexts
    columns = {f"context_{number}": matrix[:, number] for number in range(matrix.shape[1])}
    table, name = pa.table({**columns, _KNOWN_COLUMN: known}), f"{key}.parquet"
    private_folder(folder)
    with written_whole(folder / name, name=lambda: name) as unfinished:
        # contexts are noise to a compressor
        pq.write_table(table, unfinished, compression="none", use_dictionary=False)
        name = f"{key}-{bytes_hash(unfinished)}.parquet"


def _read_contexts(path: Path, shape: tuple[int, int]) -> Contexts | None:
    """None where the file is not the one that was written."""
    rows, dimensions = shape
    try:
        if bytes_hash(path) != path.stem.partition("-")[2]:
            return None
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):  # removed meanwhile, or unreadable
        return None
    if (table.num_rows, table.num_columns) != (rows, dimensions + 1):
        return None
    matrix = np.empty(shape)
    for number in range(dimensions):
        matrix[:, number] = table[number].to_numpy()
    return matrix, table[_KNOWN_COLUMN].to_numpy()


# ---- contexts embedded by an engine ----
#
# Of a plan, a chunk is a row group of the file of features. Whoever embeds it reads it from the file, so the features
# do not travel: an executor is told which rows are meant and gives back their contexts, seven numbers per customer.
# Features that are kept with a campaign travel a chunk at a time.


_SENT_ROWS = 1 << 15  # at a time: 20 MB
RowGroup = tuple[int, Flags | None]  # its number, and which of its rows are meant; None: all


@dataclass(frozen=True, slots=True)
class EmbeddedGroup:
    """The chunk function: a row group → contexts, and who has a history."""

    path: Path
    network: ContextNetwork
    snapshot: Snapshot

    def __call__(self, chunk: RowGroup) -> Contexts | None:
        """None where the file is not seen here."""
        try:
            features = FeatureFile.open(self.path)
        except OSError:
            return None
        return self.of(features, chunk)

    def of(self, features: FeatureFile, chunk: RowGroup, *, threads: Engine | None = None) -> Contexts:
        rows = features.row_group(*chunk)
        context = self.network.transform(rows, snapshot=self.snapshot, check_scale=False, engine=threads)
        return context, has_history(rows)


def embedded_by(
    engine: Engine | None,
    network: ContextNetwork,
    features: FeatureFile,
    snapshot: Snapshot,
    *,
    threads: Engine | None = None,
    report: Report | None = None,
) -> Contexts:
    """(n, d1) contexts, and (n,) who has a history; the same bits whoever embeds. Memory holds a row group at a time.

    engine: opens the file by its name. Row groups that an executor cannot see under that name, and all of a file
    without one, are embedded by this process with these threads.
    """
    customers, at = features.num_rows, 0
    # the scales are judged by the first customers, as if all were embedded at once
    first = row_chunks(customers)[0].stop if customers else 0
    network.check_scale(features.head(first))
    function = EmbeddedGroup((features.path or Path()).absolute(), network, snapshot)
    context, known = np.empty((customers, network.embedding_.dimensions)), np.empty(customers, np.bool_)
    results: Iterator[Contexts | None] = repeat(None)
    if engine is not None and features.path is not None:
        results = engine.map(function, features.row_groups())
    for chunk, found in zip(features.row_groups(), results, strict=False):
        tell(report, at, customers, "embedding customers")
        own, history = function.of(features, chunk, threads=threads) if found is None else found
        context[at : at + len(own)], known[at : at + len(own)] = own, history
        at += len(own)
    return context, known


@dataclass(frozen=True, slots=True)
class EmbeddedRows:
    """The chunk function: rows as they travel → contexts."""

    network: ContextNetwork
    snapshot: Snapshot | None

    def __call__(self, chunk: pa.Buffer) -> Matrix:
        with pa.ipc.open_stream(chunk) as reader:
            return self.network.transform(reader.read_all(), snapshot=self.snapshot, check_scale=False)


def embedded_rows(engine: Engine, network: ContextNetwork, features: pa.Table) -> Matrix:
    """(n, d1) contexts of rows that this process holds: what `network.transform` gives, by an engine."""
    snapshot, chunks = snapshot_of(features.schema), row_chunks(features.num_rows, size=_SENT_ROWS)
    network.check_scale(features.slice(0, row_chunks(features.num_rows)[0].stop if chunks else 0))
    context = np.empty((features.num_rows, network.embedding_.dimensions))
    sent = (_sent(features.slice(rows.start, rows.stop - rows.start)) for rows in chunks)
    for rows, found in zip(chunks, engine.map(EmbeddedRows(network, snapshot), sent), strict=True):
        context[rows] = found
    return context


def _sent(rows: pa.Table) -> pa.Buffer:
    """Rows as a stream; a pickled slice would carry the whole table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()
