"""Contexts of many customers, embedded where an engine runs its chunks.

Of a plan, a chunk is a row group of the file of features. Whoever embeds it reads it from the file, so the features do
not travel: an executor is told which rows are meant and gives back their contexts, seven numbers per customer. Features
that are kept with a campaign travel a chunk at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from disco.features import ContextNetwork, has_history
from disco.features.files import FeatureFile
from disco.features.snapshot import Snapshot, snapshot_of
from disco.operations.kept_contexts import Contexts
from disco.records.arrays import Flags, Matrix
from disco.records.chunks import row_chunks
from disco.records.ports import Engine
from disco.records.progress import Report, tell

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

    def of(self, features: FeatureFile, chunk: RowGroup) -> Contexts:
        rows = features.row_group(*chunk)
        return self.network.transform(rows, snapshot=self.snapshot, check_scale=False), has_history(rows)


def embedded_by(
    engine: Engine,
    network: ContextNetwork,
    features: FeatureFile,
    snapshot: Snapshot,
    *,
    report: Report | None = None,
) -> Contexts:
    """(n, d1) contexts, and (n,) who has a history; the same bits as those of one thread.

    features: a file with a name. Row groups that an executor cannot see under that name are embedded by this process.
    """
    assert features.path is not None  # for the type checker
    customers, at = features.num_rows, 0
    # the scales are judged by the first customers, as if all were embedded at once
    first = row_chunks(customers)[0].stop if customers else 0
    network.check_scale(features.head(first))
    function = EmbeddedGroup(features.path.absolute(), network, snapshot)
    context, known = np.empty((customers, network.embedding_.dimensions)), np.empty(customers, np.bool_)
    results: Iterator[Contexts | None] = engine.map(function, features.row_groups())
    for chunk, found in zip(features.row_groups(), results, strict=True):
        tell(report, at, customers, "embedding customers")
        own, history = function.of(features, chunk) if found is None else found
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
