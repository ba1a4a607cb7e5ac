"""Features of many customers: the program of `builder`, one bucket of customers at a time, wherever an engine runs it.

A bucket is a range of consecutive customers by id. Every table is read a chunk at a time. A chunk's rows are checked,
made as small as the program needs them, and laid aside for the bucket of their customer. Orders, codes and rows of the
site know their customer. Refunds know their order alone, so they first meet, by a hash of the order's id, a list of who
made which order. Orders need the depth of their code, which may have been sent to somebody else: codes and the orders
that name them meet in the same way, and each bucket gets one row per code that its orders name.

A row may reach a bucket that has nothing to do with it, because two ids have one hash. The program joins by the ids
themselves, so the features of a bucket have the same bits as those of one program over all rows.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from disco.features.builder import (
    FeatureRequest,
    chunk_duckdb,
    connected,
    each_once,
    feature_batches,
    feature_sql,
    opened_duckdb,
    reading,
    require_tables,
)
from disco.features.catalogue import SAMPLED_KEY, TABLES, Feature, metadata_of, with_written
from disco.features.kernel import ranges_of_texts
from disco.features.snapshot import Snapshot, with_snapshot
from disco.features.sources import Sources
from disco.records.arrays import Integers, Keys
from disco.records.chunks import tell
from disco.records.errors import TableError
from disco.records.files import temporary_folder
from disco.records.identity import customer_keys
from disco.records.locale import Locale
from disco.records.ports import ChunkedTable, TableEngine, Tables, locale_of
from disco.records.table_rules import readable, with_columns

BUCKET_CUSTOMERS = 65_536  # their rows of a year take some hundred megabytes
MOST_CUSTOMERS = 2_000_000  # to train on: a network has some thousand weights
_STREAMING_BYTES, _LEAST_BYTES = 3 << 30, 256 << 20
_LEAST_BUCKETS = 4
_MOST_BUCKETS = 512  # of an engine in this process, which has a file of each open at once
_SAMPLE = 1 << 15  # customers by whose ids the ranges are chosen
_BUCKET = pa.field("bucket", pa.int32())
_KEY, _HOME = pa.field("key", pa.int64()), pa.field("home", pa.int32())


def streaming_memory() -> str:
    """The memory that DuckDB gets for the tables of a shop, as it writes sizes: 3 GB, or half of what the machine has.

    Beyond it rows spill to the temporary folder. A larger limit is hardly faster.
    """
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(min(_STREAMING_BYTES, available // 2), _LEAST_BYTES) >> 20}MiB"


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
    request: FeatureRequest,
    *,
    bucket_customers: int = BUCKET_CUSTOMERS,
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """As `builder.feature_batches`, with the same rows in the same order, in buckets of about so many customers.

    engine: holds the rows of buckets and computes features. One program computes those of a shop that fits into a
    bucket, where the engine runs in this process, and those of any shop without an engine.
    """
    request.tell("opening the tables")
    customers = _customers(tables) if engine is not None and engine.in_process else None
    if engine is None or (customers is not None and customers <= bucket_customers):
        with feature_batches(tables, request) as whole:
            yield whole
        return
    if customers is not None:
        bucket_customers = max(bucket_customers, -(-customers // _MOST_BUCKETS))
    with feature_chunks(engine, tables, request, bucket_customers=bucket_customers) as (schema, chunks):
        yield schema, _in_order(engine, chunks, schema, tables, request, customers=customers)


def _customers(tables: Tables) -> int:
    """How many there are; 0 without a table of them, which is refused later."""
    return _rows(tables.scan("customers")) if "customers" in tables.names() else 0


@contextmanager
def feature_chunks(
    engine: TableEngine, tables: Tables, request: FeatureRequest, *, bucket_customers: int = BUCKET_CUSTOMERS
) -> Iterator[tuple[pa.Schema, ChunkedTable]]:
    """The features of every customer as a table of the engine, in no particular order; and their schema, with metadata.

    The tables are read before this returns, or when the engine is asked for the features, as it likes.
    """
    chosen, locale = request.chosen, locale_of(tables)
    request.tell("opening the tables")
    present = tuple(name for name in TABLES if name in tables.names())
    require_tables(present, "customers")
    scans = {name: tables.scan(name) for name in present}
    if request.check is not None:
        request.check({name: _rows(scan) for name, scan in scans.items()})
    held = {name: _Held.of(engine, name, scan, locale) for name, scan in scans.items()}
    nobody = InMemoryTables({name: table.rows().schema.empty_table() for name, table in held.items()}, locale)
    with connected(nobody, threads=1) as (connection, _):  # it refuses ids that cannot be joined
        sources = Sources.describe(connection, present, request.as_of, locale)
    with ExitStack() as stack:
        with _located(tables, request.as_of):
            request.tell("reading customers")
            ranges = IdRanges.of_customers(held["customers"].rows(["customer_id"]), bucket_customers)
            request.tell("reading the tables")
            rows = _by_customer(engine, held, sources, ranges, stack)
            program = BucketFeatures(chosen, sources, request.memory_limit)
            schema = program.schema({name: table.schema for name, table in rows.items()})
            chunks = stack.enter_context(engine.by_bucket(rows, program, schema.remove_metadata()))
        yield schema, chunks


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A table as the program can read it, by an engine."""

    engine: TableEngine
    source: Any
    """An Arrow table or dataset, or what the engine holds already."""

    @classmethod
    def of(cls, engine: TableEngine, name: str, scan: Any, locale: Locale) -> "_Held":
        """The columns are checked first."""
        if isinstance(scan, pa.Table | pads.Dataset):
            return cls(engine, readable(name, scan, locale=locale))
        schema = readable(name, scan.schema.empty_table(), locale=locale).schema
        return cls(engine, scan.transform(partial(readable, name, locale=locale), schema))

    def rows(self, columns: Sequence[str] | None = None) -> ChunkedTable:
        """All columns, or those that are needed; files are not read beyond them."""
        if not isinstance(self.source, pa.Table | pads.Dataset):
            return self.source  # type: ignore[no-any-return]
        return self.engine.table(self.source if columns is None else with_columns(self.source, columns))


def _rows(scan: Any) -> int:
    if isinstance(scan, pa.Table | pads.Dataset):
        return int(scan.num_rows if isinstance(scan, pa.Table) else scan.count_rows())
    return int(scan.fold(lambda chunk: chunk.num_rows, lambda one, other: one + other))


def _by_customer(
    engine: TableEngine, held: Mapping[str, _Held], sources: Sources, ranges: "IdRanges", stack: ExitStack
) -> dict[str, ChunkedTable]:
    """What the program reads (`Sources.joined`), each row with the bucket that needs it."""

    def changed(table: ChunkedTable, function: Callable[[pa.Table], pa.Table]) -> ChunkedTable:
        return table.transform(function, function(table.schema.empty_table()).schema)

    def links(column: str) -> ChunkedTable:
        return changed(held["orders"].rows(["customer_id", column]), Links(ranges, column))

    def met(rows: ChunkedTable, column: str, function: Callable[[Mapping[str, pa.Table]], pa.Table]) -> ChunkedTable:
        schema = rows.schema.remove(rows.schema.get_field_index(_KEY.name))
        return stack.enter_context(engine.by_bucket({"rows": rows, "links": links(column)}, function, schema))

    found = {
        f"{name}_rows": changed(
            table.rows(),
            BucketRows(sources, name, sources.checked_rows(name), ranges, "order_key" if name == "returns" else None),
        )
        for name, table in held.items()
    }
    if "returns" in held and "orders" in held:
        found["returns_rows"] = met(found["returns_rows"], "order_id", related_rows)
    if sources.names_codes:
        depths = BucketRows(sources, "codes", sources.code_depths(), ranges, "code_key")
        codes = changed(held["codes"].rows(["code_id", "depth", "sent_at"]), depths)
        found["used_codes"] = met(codes, "code", used_codes)
    return found


def _in_order(
    engine: TableEngine,
    chunks: ChunkedTable,
    schema: pa.Schema,
    tables: Tables,
    request: FeatureRequest,
    *,
    customers: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The batches in the order of ids: each is of one bucket and in order, so the first id of each says where it is.

    An engine in this process gives them in the order of buckets; those of others wait in files.
    """
    batches = _reported(chunks.batches(), tables, request, customers)
    if engine.in_process:
        yield from (batch.cast(schema) for batch in batches)
        return
    with temporary_folder("features") as folder:
        waiting: list[tuple[Any, Path]] = []
        for number, batch in enumerate(batches):
            path = folder / f"{number}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)
            waiting.append((batch.column(0)[0].as_py(), path))
        for _, path in sorted(waiting):
            with pa.memory_map(str(path)) as content, pa.ipc.open_file(content) as reader:
                for batch in reader.read_all().to_batches():
                    yield batch.cast(schema)
            path.unlink()


def _reported(
    batches: Iterator[pa.RecordBatch], tables: Tables, request: FeatureRequest, customers: int | None
) -> Iterator[pa.RecordBatch]:
    """The batches with rows; the report is told how many of the customers they have so far."""
    done = 0
    while True:
        tell(request.report, done, customers, "computing features")
        with _located(tables, request.as_of):
            batch = next(batches, None)
        if batch is None:
            return
        if batch.num_rows:
            done += batch.num_rows
            yield batch


@contextmanager
def _located(tables: Tables, as_of: date) -> Iterator[None]:
    """Rows that break a rule of their table are named by their place in the table, not by that in a chunk.

    Of several tables with such rows, the one is named that the program over all rows names.
    """
    try:
        yield
    except TableError:
        if all(isinstance(tables.scan(name), pa.Table | pads.Dataset) for name in tables.names()):
            with connected(tables) as (connection, present), reading(tables):
                Sources.describe(connection, present, as_of, locale_of(tables)).check(connection)
        raise


# ---- pure functions of a chunk ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IdRanges:
    """The customers in buckets of consecutive ids."""

    bounds: tuple[Any, ...]
    """The first id of each bucket after the first, increasing."""

    @classmethod
    def of_customers(cls, customers: ChunkedTable, bucket_customers: int = BUCKET_CUSTOMERS) -> "IdRanges":
        """Ranges of about as many customers each, by a sample of ids that depends on the ids alone."""
        rows, _, ids = customers.fold(_sampled, _smaller_sample)
        sample = sorted(set(ids))
        count = min(max(_LEAST_BUCKETS, -(-rows // bucket_customers)), len(sample))
        return cls(tuple(sample[place * len(sample) // count] for place in range(1, count)))

    @property
    def count(self) -> int:
        """Of buckets."""
        return len(self.bounds) + 1

    def number(self, ids: Any) -> pa.Array:
        """(n,) int32: the bucket of each id; 0 where there is none."""
        numbers = np.zeros(len(ids), np.int32)
        if not self.bounds:
            return pa.array(numbers)
        if isinstance(self.bounds[0], int):
            values = pc.fill_null(_plain(ids), 0).to_numpy()
            numbers[:] = np.searchsorted(np.array(self.bounds, np.int64), values, side="right")
        else:
            ranges_of_texts(*_bytes(_text(ids)), *_bytes(pa.array(self.bounds, pa.large_string())), numbers)
        return pa.array(numbers)


def _bytes(texts: Any) -> tuple[Integers, Any]:
    """Where each text of a column begins, and all bytes."""
    column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    _, starts, letters = column.buffers()
    begin = np.frombuffer(starts, np.int64, len(column) + 1, column.offset * 8)
    return begin, np.frombuffer(letters or b"", np.uint8)


def _plain(ids: Any) -> Any:
    """Ids as int64 or text. Integers beyond int64, which the rules refuse in rows that count, become others."""
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    if pa.types.is_integer(kind):
        return ids.cast(kind).cast(pa.int64(), safe=False)
    return ids.cast(kind).cast(pa.large_string())


def _text(ids: Any) -> Any:
    return pc.fill_null(_plain(ids).cast(pa.large_string()), "")


_IdSample: TypeAlias = tuple[int, Keys, list[Any]]  # rows, and the smallest hashes with their ids


def _sampled(chunk: pa.Table) -> _IdSample:
    """Rows, and the ids whose hashes are the smallest."""
    ids = _plain(chunk["customer_id"]).drop_null()
    keys = customer_keys(ids)
    smallest = np.argsort(keys, kind="stable")[:_SAMPLE]
    return chunk.num_rows, keys[smallest], ids.take(pa.array(smallest)).to_pylist()


def _smaller_sample(one: _IdSample, other: _IdSample) -> _IdSample:
    keys, ids = np.concatenate((one[1], other[1])), np.array([*one[2], *other[2]], object)
    smallest = np.argsort(keys, kind="stable")[:_SAMPLE]
    return one[0] + other[0], keys[smallest], ids[smallest].tolist()


def _selected(sources: Sources, table: str, chunk: pa.Table, query: str) -> pa.Table:
    """The result of a query over a chunk of a table."""
    with (
        reading(InMemoryTables({table: chunk}, sources.locale)),
        chunk_duckdb(sources.locale.time_zone).cursor() as duckdb,
    ):
        duckdb.register(f"raw_{table}", chunk)
        return duckdb.sql(query).to_arrow_table()


def _keyed(rows: pa.Table, column: str, buckets: int) -> pa.Table:
    """Rows with a hash of a column, and a bucket by this hash: there they meet the orders that name them."""
    keys = customer_keys(_text(rows[column]))
    numbers = (keys % np.uint64(buckets)).astype(np.int32)
    return rows.append_column(_KEY, pa.array(keys.view(np.int64))).append_column(_BUCKET, pa.array(numbers))


@dataclass(frozen=True, slots=True)
class BucketRows:
    """A chunk's rows as the program reads them, each with the bucket that it goes to.

    A row that breaks a rule of its table is a TableError.
    """

    sources: Sources
    table: str
    query: str
    """Over the chunk as `raw_<table>`."""
    ranges: IdRanges
    met_by: str | None = None
    """The column by whose hash rows meet the orders that name them; None: they go to the bucket of their customer."""

    def __call__(self, chunk: pa.Table) -> pa.Table:
        rows = _selected(self.sources, self.table, chunk, self.query)
        if self.met_by is not None:
            return _keyed(rows, self.met_by, self.ranges.count)
        return rows.append_column(_BUCKET, self.ranges.number(rows["customer_key"]))


@dataclass(frozen=True, slots=True)
class Links:
    """Of orders: which bucket of customers is concerned by the rows of another table that have this key."""

    ranges: IdRanges
    column: str

    def __call__(self, chunk: pa.Table) -> pa.Table:
        plain = pa.table({name: _plain(chunk[name]) for name in ("customer_id", self.column)})
        keys = plain[self.column]
        # an empty text is no code: the orders without one would all meet in one bucket
        is_named = pc.is_valid(keys) if pa.types.is_integer(keys.type) else pc.not_equal(keys, "")
        named = plain.filter(is_named)
        homes = pa.table([self.ranges.number(named["customer_id"])], schema=pa.schema([_HOME]))
        linked = _keyed(named.select([self.column]), self.column, self.ranges.count)
        return linked.select([_KEY.name]).append_column(_HOME, homes[0]).append_column(_BUCKET, linked[_BUCKET.name])


# ---- pure functions of a bucket --------------------------------------------------------------------------------------


def related_rows(tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of a table, each once for every bucket of customers whom it concerns."""
    rows = tables["rows"]
    places, homes = _meetings(rows, tables["links"])
    return rows.drop_columns([_KEY.name]).take(places).append_column(_BUCKET, homes)


def used_codes(tables: Mapping[str, pa.Table]) -> pa.Table:
    """One row per code and bucket of customers whose orders name it, with the largest depth that the code has."""
    rows, links = tables["rows"], tables["links"]
    named = rows.filter(pc.is_in(rows[_KEY.name], value_set=links[_KEY.name].combine_chunks()))
    depths = named.group_by(["code_key", _KEY.name], use_threads=False).aggregate([("depth_bp", "max")])
    depths = depths.rename_columns(["code_key", _KEY.name, "depth_bp"])
    places, homes = _meetings(depths, links)
    return depths.select(["code_key", "depth_bp"]).take(places).append_column(_BUCKET, homes)


def _meetings(rows: pa.Table, links: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Pairs of a row's place and a home whose key is the row's, each once."""
    named = links.filter(pc.is_in(links[_KEY.name], value_set=rows[_KEY.name].combine_chunks()))
    keys, numbers = np.unique(named[_KEY.name].to_numpy(), return_inverse=True)
    # each key and home once, so that a key of many orders does not multiply its rows
    pairs = np.unique((numbers << 32) + named[_HOME.name].to_numpy())
    order = np.argsort(rows[_KEY.name].to_numpy())
    ends = np.searchsorted(rows[_KEY.name].to_numpy()[order], keys, side="right")
    starts = np.searchsorted(rows[_KEY.name].to_numpy()[order], keys, side="left")
    first, counts = starts[pairs >> 32], (ends - starts)[pairs >> 32]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    homes = np.repeat((pairs & 0xFFFFFFFF).astype(np.int32), counts)
    return pa.array(order[np.repeat(first, counts) + within]), pa.array(homes)


@dataclass(frozen=True, slots=True)
class BucketFeatures:
    """The program over the rows of one bucket, on one thread."""

    features: tuple[Feature, ...]
    sources: Sources
    memory_limit: str | None = None

    def __call__(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        locale = self.sources.locale
        with (
            opened_duckdb(threads=1, memory_limit=self.memory_limit, time_zone=locale.time_zone) as duckdb,
            reading(InMemoryTables(tables, locale)),
        ):
            for name, rows in tables.items():
                duckdb.register(name, rows)
            reader = duckdb.sql(feature_sql(self.features, self.sources, laid_aside=True)).to_arrow_reader()
            batches = each_once(reader, reader.schema, InMemoryTables(tables, locale))
            return pa.Table.from_batches(batches, reader.schema).combine_chunks()

    def schema(self, tables: Mapping[str, pa.Schema]) -> pa.Schema:
        """Of the result, with metadata. tables: the schemas of what it reads."""
        nobody = {name: schema.empty_table().drop_columns([_BUCKET.name]) for name, schema in tables.items()}
        return self(nobody).schema.with_metadata(metadata_of(self.features, self.sources.as_of))


# ---- customers to train on, where a shop has very many ---------------------------------------------------------------


@contextmanager
def sampled_batches(
    engine: TableEngine, tables: Tables, *, as_of: date, features: Sequence[Feature], most: int
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """As `batches_by`, of about `most` customers; the schema carries the snapshot of all of them."""
    request = FeatureRequest(as_of=as_of, features=features)
    with feature_chunks(engine, tables, request) as (schema, chunks), chunks.kept() as kept:
        with _located(tables, as_of):
            counted = kept.fold(Counted.of, Counted.__add__)
        sample = CustomerSample(counted.customers, most)
        whole = sample.named(with_snapshot(schema, counted.snapshot))
        yield whole, _in_order(engine, kept.transform(sample, kept.schema), whole, tables, request)


@dataclass(frozen=True, slots=True)
class CustomerSample:
    """About `most` of so many customers, those whose ids have the smallest hashes; a chunk function.

    Who is taken depends on the ids and on how many customers there are, so every engine takes the same ones.
    """

    customers: int
    most: int

    @property
    def is_everybody(self) -> bool:
        return self.customers <= self.most

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Those of the rows that are taken."""
        if self.is_everybody:
            return rows
        bound = np.uint64((self.most << 64) // self.customers)
        return rows.filter(pa.array(customer_keys(rows["customer_id"]) < bound))

    def of_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self(pa.Table.from_batches([batch])).to_batches()

    def named(self, schema: pa.Schema) -> pa.Schema:
        """The schema of features of whom these are taken, which says so."""
        return with_written(schema, SAMPLED_KEY, str(self.customers))


@dataclass(frozen=True, slots=True)
class Counted:
    """Customers and their snapshot, which add up over chunks."""

    customers: int
    snapshot: Snapshot

    @classmethod
    def of(cls, features: pa.Table) -> "Counted":
        return cls(features.num_rows, Snapshot.of_table(features))

    def __add__(self, other: "Counted") -> "Counted":
        return Counted(self.customers + other.customers, self.snapshot + other.snapshot)
