"""Features of a shop whose tables an engine holds: the program of `builder`, one bucket of customers at a time,
wherever the engine runs it.

A bucket is a range of consecutive customers by id. Each row travels to the bucket of its customer: orders, codes and
rows of the site by their own column, refunds by that of their order. A code also travels to the customers whose orders
name it. A row may be in more buckets than one, never twice in the same one; the program drops what is not of its
customers. So the features of a bucket have the same bits as those of one program over all rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from disco.features.builder import feature_batches, refuse_rows
from disco.features.catalogue import TABLES, Feature, choose
from disco.features.sample import Counted, CustomerSample
from disco.features.snapshot import with_snapshot
from disco.records.errors import InputError, TableError
from disco.records.identity import buckets_of, customer_keys
from disco.records.locale import Locale
from disco.records.ports import ChunkedTable, TableEngine, Tables, locale_of
from disco.records.private import temporary_folder
from disco.records.progress import Report, tell
from disco.records.validation import mixed_ids, readable

_BUCKET_CUSTOMERS = 32_768
_LEAST_BUCKETS = 4
_SAMPLE = 1 << 15  # customers by whose ids the ranges are chosen
_HOME = "home"
_BUCKET = pa.field("bucket", pa.int32())


@dataclass(frozen=True, slots=True)
class InMemoryTables:
    """The `Tables` port over tables in memory."""

    tables: Mapping[str, pa.Table]
    locale: Locale

    def names(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def scan(self, name: str) -> pa.Table:
        return self.tables[name]


@contextmanager
def batches_by(
    engine: TableEngine | None,
    tables: Tables,
    *,
    as_of: date,
    features: Sequence[Feature | str] | None = None,
    check: Callable[[Mapping[str, int]], None] | None = None,
    report: Report | None = None,
    **local: Any,
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """As `builder.feature_batches`, with the same rows in the same order, computed by an engine.

    engine: None is DuckDB on this machine, to which `local` settings apply.
    """
    if engine is None:
        with feature_batches(tables, as_of=as_of, features=features, check=check, report=report, **local) as found:
            yield found
        return
    with feature_chunks(engine, tables, as_of=as_of, features=features, check=check, report=report) as (schema, chunks):
        yield schema, _in_order(chunks, schema, tables)


@contextmanager
def sampled_batches(
    engine: TableEngine, tables: Tables, *, as_of: date, features: Sequence[Feature], most: int
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """As `batches_by`, of about `most` customers (`sample`); the schema carries the snapshot of all of them."""
    with feature_chunks(engine, tables, as_of=as_of, features=features) as (schema, chunks), chunks.kept() as kept:
        with _located(tables):
            counted = kept.fold(Counted.of, Counted.__add__)
        sample = CustomerSample(counted.customers, most)
        whole = sample.named(with_snapshot(schema, counted.snapshot))
        yield whole, _in_order(kept.transform(sample, kept.schema), whole, tables)


@contextmanager
def feature_chunks(
    engine: TableEngine,
    tables: Tables,
    *,
    as_of: date,
    features: Sequence[Feature | str] | None = None,
    check: Callable[[Mapping[str, int]], None] | None = None,
    report: Report | None = None,
) -> Iterator[tuple[pa.Schema, ChunkedTable]]:
    """The features of every customer as a table of the engine, in no particular order; and their schema, with metadata.

    Nothing is computed before the table is asked for, except which ids there are.
    """
    chosen, locale = choose(features), locale_of(tables)
    present = tuple(name for name in TABLES if name in tables.names())
    if "customers" not in present:
        raise InputError("tables", found=", ".join(present) or "none", expected="a table customers")
    scans = {name: tables.scan(name) for name in present}
    if check is not None:
        check({name: _rows(scan) for name, scan in scans.items()})
    raw = {name: _held(engine, name, scan, locale) for name, scan in scans.items()}
    if problems := mixed_ids({name: table.schema for name, table in raw.items()}):
        raise TableError("The tables cannot be used together:", problems)
    function = BucketFeatures(as_of, chosen, locale)
    schema = function.schema({name: table.schema for name, table in raw.items()})
    tell(report, 0, None, "reading customers")
    ranges = IdRanges.of_customers(raw["customers"])
    tell(report, 0, None, "computing features")
    with ExitStack() as stack:
        sent = _by_customer(engine, raw, ranges, stack)
        yield schema, stack.enter_context(engine.by_bucket(sent, function, schema.remove_metadata()))


def _held(engine: TableEngine, name: str, scan: Any, locale: Locale) -> ChunkedTable:
    """A table as the program can read it, by the engine; its columns are checked first."""
    if isinstance(scan, pa.Table | pads.Dataset):
        return engine.table(readable(name, scan, locale=locale))
    return scan.transform(Readable(name, locale), readable(name, scan.schema.empty_table(), locale=locale).schema)  # type: ignore[no-any-return]


def _rows(scan: Any) -> int:
    if isinstance(scan, pa.Table | pads.Dataset):
        return int(scan.num_rows if isinstance(scan, pa.Table) else scan.count_rows())
    return int(scan.fold(lambda chunk: chunk.num_rows, lambda one, other: one + other))


def _by_customer(
    engine: TableEngine, raw: Mapping[str, ChunkedTable], ranges: "IdRanges", stack: ExitStack
) -> dict[str, ChunkedTable]:
    """Each table with the bucket of its rows."""
    sent = {}
    for name, table in raw.items():
        schema = table.schema.append(_BUCKET)
        if name == "returns":
            key, own = "order_id", None
        elif name == "codes":
            key, own = "code_id", "customer_id"
        else:
            sent[name] = table.transform(Numbered(ranges, "customer_id"), schema)
            continue
        joined = {"rows": table.transform(ByKey(key, ranges.count), schema)}
        column = "order_id" if name == "returns" else "code"
        if "orders" in raw and column in raw["orders"].schema.names:
            links = pa.schema([("key", pa.large_string()), (_HOME, pa.int32()), _BUCKET])
            joined["links"] = raw["orders"].transform(Links(ranges, column), links)
        sent[name] = stack.enter_context(engine.by_bucket(joined, Related(ranges, key, own), schema))
    return sent


def _in_order(chunks: ChunkedTable, schema: pa.Schema, tables: Tables) -> Iterator[pa.RecordBatch]:
    """The batches in the order of ids: each is of one bucket and in order, so the first id of each says where it is."""
    with temporary_folder("features") as folder:
        found: list[tuple[Any, Path]] = []
        with _located(tables):
            for number, batch in enumerate(chunks.batches()):
                if batch.num_rows:
                    path = folder / f"{number}.arrow"
                    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
                        writer.write_batch(batch)
                    found.append((batch.column(0)[0].as_py(), path))
        for _, path in sorted(found):
            with pa.memory_map(str(path)) as content, pa.ipc.open_file(content) as reader:
                for batch in reader.read_all().to_batches():
                    yield batch.cast(schema)
            path.unlink()


@contextmanager
def _located(tables: Tables) -> Iterator[None]:
    """Rows that break a rule of their table are named by their place in the table, not by that in a bucket."""
    try:
        yield
    except TableError:
        for name in tables.names():
            if isinstance(tables.scan(name), pa.Table | pads.Dataset):
                refuse_rows(tables, name)
        raise


# ---- pure functions of a chunk or of a bucket ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Readable:
    """A chunk with the types that the program reads."""

    table: str
    locale: Locale

    def __call__(self, chunk: pa.Table) -> pa.Table:
        return readable(self.table, chunk, locale=self.locale)


@dataclass(frozen=True, slots=True)
class IdRanges:
    """The customers in buckets of consecutive ids."""

    bounds: tuple[Any, ...]
    """The first id of each bucket after the first, increasing."""

    @classmethod
    def of_customers(cls, customers: ChunkedTable) -> "IdRanges":
        """Ranges of about as many customers each, by a sample of ids that depends on the ids alone."""
        rows, _, ids = customers.fold(_sampled, _smaller_sample)
        sample = sorted(set(ids))
        count = min(max(_LEAST_BUCKETS, -(-rows // _BUCKET_CUSTOMERS)), len(sample))
        return cls(tuple(sample[place * len(sample) // count] for place in range(1, count)))

    @property
    def count(self) -> int:
        """Of buckets."""
        return len(self.bounds) + 1

    def number(self, ids: pa.ChunkedArray) -> pa.Array:
        """(n,) int32: the bucket of each id; 0 where there is none."""
        if not self.bounds:
            return pa.array(np.zeros(len(ids), np.int32))
        coded = pc.fill_null(_plain(ids), 0 if isinstance(self.bounds[0], int) else "").dictionary_encode()
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        kind = np.int64 if isinstance(self.bounds[0], int) else object
        bounds, values = np.array(self.bounds, kind), np.array(coded.dictionary.to_pylist(), kind)
        numbers = np.searchsorted(bounds, values, side="right").astype(np.int32)
        return pa.array(numbers[coded.indices.to_numpy()])


def _plain(ids: Any) -> Any:
    """Ids as int64 or text."""
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    if pa.types.is_integer(kind):
        return ids.cast(pa.int64())
    return ids.cast(kind).cast(pa.large_string())


def _text(ids: Any) -> Any:
    return pc.fill_null(_plain(ids).cast(pa.large_string()), "")


def _sampled(chunk: pa.Table) -> tuple[int, Any, list[Any]]:
    """Rows, and the ids whose hashes are the smallest."""
    ids = _plain(chunk["customer_id"]).drop_null()
    return _smallest(chunk.num_rows, customer_keys(ids), np.array(ids.to_pylist(), object))


def _smaller_sample(one: tuple[int, Any, list[Any]], other: tuple[int, Any, list[Any]]) -> tuple[int, Any, list[Any]]:
    ids = np.array([*one[2], *other[2]], object)
    return _smallest(one[0] + other[0], np.concatenate((one[1], other[1])), ids)


def _smallest(rows: int, keys: Any, ids: Any) -> tuple[int, Any, list[Any]]:
    kept = np.argsort(keys, kind="stable")[:_SAMPLE]
    return rows, keys[kept], ids[kept].tolist()


@dataclass(frozen=True, slots=True)
class Numbered:
    """A chunk with the bucket of the customer in a column."""

    ranges: IdRanges
    column: str

    def __call__(self, chunk: pa.Table) -> pa.Table:
        return chunk.append_column(_BUCKET, self.ranges.number(chunk[self.column]))


@dataclass(frozen=True, slots=True)
class ByKey:
    """A chunk with a bucket that is a hash of a column: there a row meets the orders that name it."""

    column: str
    buckets: int

    def __call__(self, chunk: pa.Table) -> pa.Table:
        return chunk.append_column(_BUCKET, buckets_of(_text(chunk[self.column]), self.buckets))


@dataclass(frozen=True, slots=True)
class Links:
    """Of orders: who is concerned by the rows of another table that have this key."""

    ranges: IdRanges
    column: str

    def __call__(self, chunk: pa.Table) -> pa.Table:
        named = chunk.filter(pc.is_valid(chunk[self.column]))
        keys = _text(named[self.column])
        homes = self.ranges.number(named["customer_id"])
        pairs = pa.table({"key": keys, _HOME: homes}).group_by(["key", _HOME], use_threads=False).aggregate([])
        return pairs.append_column(_BUCKET, buckets_of(pairs["key"], self.ranges.count))


@dataclass(frozen=True, slots=True)
class Related:
    """The rows of a table, each once for every bucket of customers whom it concerns, and at least once."""

    ranges: IdRanges
    key: str
    own: str | None
    """A column with the row's own customer."""

    def __call__(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        rows = tables["rows"].combine_chunks()
        numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
        first = pa.array(np.zeros(rows.num_rows, np.int32)) if self.own is None else self.ranges.number(rows[self.own])
        pairs = pa.table({"row": numbers, _HOME: first})
        if "links" in tables:
            links = tables["links"].group_by(["key", _HOME], use_threads=False).aggregate([])
            keys = pa.table({"key": _text(rows[self.key]), "row": numbers})
            linked = keys.join(links, "key", join_type="inner", use_threads=False).select(["row", _HOME])
            if self.own is None:  # a row without a known customer stays where it is, so that its rules are checked
                alone = np.isin(numbers.to_numpy(), linked["row"].to_numpy(), invert=True)
                pairs = pairs.filter(pa.array(alone))
            pairs = pa.concat_tables([pairs, linked]).group_by(["row", _HOME], use_threads=False).aggregate([])
        return rows.take(pairs["row"]).append_column(_BUCKET, pairs[_HOME])


@dataclass(frozen=True, slots=True)
class BucketFeatures:
    """The program over the rows of one bucket, on one thread."""

    as_of: date
    features: tuple[Feature, ...]
    locale: Locale

    def __call__(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        source = InMemoryTables(tables, self.locale)
        with feature_batches(source, as_of=self.as_of, features=self.features, threads=1) as (schema, batches):
            return pa.Table.from_batches(batches, schema).replace_schema_metadata(None)

    def schema(self, tables: Mapping[str, pa.Schema]) -> pa.Schema:
        """Of the result, with metadata."""
        nobody = InMemoryTables({name: schema.empty_table() for name, schema in tables.items()}, self.locale)
        with feature_batches(nobody, as_of=self.as_of, features=self.features, threads=1) as (schema, _):
            return schema
