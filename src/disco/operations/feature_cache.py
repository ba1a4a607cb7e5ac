"""Features of a day, kept as files: built once per content of the tables, day and catalogue."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from disco.features import FEATURES, Feature, schema_hash
from disco.features.builder import FeatureRequest, missing_tables
from disco.features.files import FeatureFile, stream_features
from disco.features.on_engine import BUCKET_CUSTOMERS, batches_by
from disco.records.content import NAME_LENGTH, bytes_hash, content_hash
from disco.records.files import written_whole
from disco.records.ports import TableEngine, Tables
from disco.records.private import private_folder, temporary_folder
from disco.records.progress import Report, tell
from disco.records.space import Space, require_space

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
    memory_limit: str | None = None
    """Of DuckDB, such as 3GB; None: most of the memory."""
    bucket_customers: int = BUCKET_CUSTOMERS
    """Measured at a time; features do not depend on it."""
    engine: TableEngine | None = None
    """Computes features of more customers than a bucket has; None: one program does. They do not depend on it."""

    @property
    def contexts_folder(self) -> Path:
        """Of contexts that were embedded from these features (`kept_contexts`)."""
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
                memory_limit=self.memory_limit,
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
