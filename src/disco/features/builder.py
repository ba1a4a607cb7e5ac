"""From a retailer's tables to features, as of a date: one DuckDB program, streaming, spilling to disk when it must.

A shop of many customers goes through the same program bucket by bucket (`on_engine`). Measures are sums of integers, so
features have the same bits for any size of a bucket.
"""

from __future__ import annotations

import atexit
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from os import PathLike
from typing import Any

import pyarrow as pa

from disco.features.catalogue import (
    FEATURES,
    MEASURES,
    TABLES,
    Feature,
    Measure,
    choose,
    metadata_of,
)
from disco.features.snapshot import SnapshotCounter, with_snapshot
from disco.features.sources import REFUSED, Sources
from disco.records.chunks import Report, read_threads, tell
from disco.records.errors import InputError, TableError
from disco.records.files import temporary_folder
from disco.records.ports import Tables, locale_of
from disco.records.table_rules import Source, TableSource, readable
from disco.records.validation import mixed_ids, validate


class MissingTableWarning(UserWarning):
    """A table is absent; the features that need it are unknown (null) for everybody."""


_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRequest:
    """Which features are computed, as of when, and within which limits: the same for one program and for buckets."""

    as_of: date
    """Only rows dated strictly before it (midnight in the tables' time zone) are read."""
    features: Sequence[Feature | str] | None = None
    """None: the whole catalogue."""
    threads: int | None = None
    """Of DuckDB; None: one per processor. A bucket is computed on one."""
    memory_limit: str | None = None
    """Of DuckDB, such as "4GB", for the one program or for each bucket; beyond it rows spill to disk."""
    check: Callable[[Mapping[str, int]], None] | None = None
    """Is told the rows of each table before the work, which it ends by an error."""
    report: Report | None = None
    """Is told how far the work is."""

    @property
    def chosen(self) -> tuple[Feature, ...]:
        """The definitions of the features."""
        return choose(self.features)

    def tell(self, stage: str, *, of: int | None = None) -> None:
        """Report that a stage begins. of: how many steps it has; None: not known."""
        tell(self.report, 0, of, stage)


def build_features(
    tables: Tables,
    *,
    as_of: date,
    features: Sequence[Feature | str] | None = None,
    threads: int | None = None,
    memory_limit: str | None = None,
) -> pa.Table:
    """A `pyarrow.Table`: customer_id and one float64 column per feature, ordered by customer_id.

    One row per customer who joined before `as_of`. Only rows dated strictly before `as_of` (midnight in the tables'
    time zone) are read, so nothing that happens later can change the result. Null = unknown: the mean of nothing, or a
    table that is absent. The table's metadata holds the day's `Snapshot`. `memory_limit` is DuckDB's, such as "4GB";
    beyond it the program spills to disk. `threads` are DuckDB's, too; None is one per processor.
    """
    request = FeatureRequest(as_of=as_of, features=features, threads=threads, memory_limit=memory_limit)
    with feature_batches(tables, request) as (schema, batches):
        counter = SnapshotCounter(schema)
        table = pa.Table.from_batches(counter.watch(batches), schema).combine_chunks()
    for note in missing_tables(request.chosen, tables.names()):
        warnings.warn(note, MissingTableWarning, stacklevel=2)
    return table.cast(with_snapshot(schema, counter.snapshot))


@contextmanager
def feature_batches(tables: Tables, request: FeatureRequest) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The rows of `build_features` as (schema, record batches), never all in memory at once."""
    chosen = request.chosen
    request.tell("opening the tables")
    with connected(tables, threads=request.threads, memory_limit=request.memory_limit) as (connection, present):
        require_tables(present, "customers")
        with reading(tables):
            request.tell("checking the tables", of=1)
            if request.check is not None:
                counts = (connection.execute(f"SELECT count(*) FROM raw_{name}").fetchall() for name in present)
                request.check({name: rows for name, ((rows,),) in zip(present, counts, strict=True)})
            sources = Sources.describe(connection, present, request.as_of, locale_of(tables))
            sources.check(connection)
            request.tell("computing features", of=1)
            reader = connection.sql(feature_sql(chosen, sources)).to_arrow_reader(_BATCH_ROWS)
        schema = reader.schema.with_metadata(metadata_of(chosen, request.as_of))
        yield schema, each_once(reader, schema, tables)


def require_tables(present: Sequence[str], *needed: str) -> None:
    """Refuse a shop without a table that nothing can be computed without."""
    for name in needed:
        if name not in present:
            raise InputError("tables", found=", ".join(present) or "none", expected=f"a table {name}")


def day_after_last_order(tables: Tables) -> date:
    """The first as-of date that sees every order."""
    with connected(tables, threads=1, memory_limit=None) as (connection, present):
        require_tables(present, "orders")
        with reading(tables):
            Sources.describe(connection, ("orders",), date.max, locale_of(tables)).check(connection)
            ((last,),) = connection.sql("SELECT max(CAST(ordered_at AS DATE)) FROM raw_orders").fetchall()
    if last is None:
        raise InputError("table orders", found="no order", expected="at least one", fix="Name a date with --as-of.")
    day: date = last + timedelta(days=1)
    return day


@contextmanager
def connected(
    tables: Tables, *, threads: int | None = None, memory_limit: str | None = None
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """A DuckDB connection that sees the retailer's tables as `raw_<name>`, and which of them exist."""
    if isinstance(tables, str | PathLike):
        place = repr(str(tables))
        raise InputError("tables", found=place, expected="opened tables", fix=f"Use disco.open_tables({place}).")
    with opened_duckdb(threads=threads, memory_limit=memory_limit, time_zone=locale_of(tables).time_zone) as connection:
        there = tables.names()
        present = tuple(name for name in TABLES if name in there)
        scans = {name: readable(name, tables.scan(name), locale=locale_of(tables)) for name in present}
        if problems := mixed_ids({name: scan.schema for name, scan in scans.items()}):
            raise TableError("The tables cannot be used together:", problems)
        with reading(tables):  # even naming a table takes memory
            for name, scan in scans.items():
                connection.register(f"raw_{name}", scan)
        yield connection, present


@contextmanager
def opened_duckdb(
    *, threads: int | None = None, memory_limit: str | None = None, time_zone: str = "UTC", spills: bool = True
) -> Iterator[Any]:
    """A DuckDB connection in memory that spills to a temporary folder, unless `spills` is False.

    time_zone: where days begin; times with another zone are cast to the wall clock there. The connection sees what is
    registered with it and no file: formulas and conditions come from outside.
    """
    with temporary_folder("spill") if spills else nullcontext("") as spill:
        connection = _new_duckdb(read_threads(threads), memory_limit, time_zone, str(spill))
        try:
            yield connection
        finally:
            connection.close()


@cache
def chunk_duckdb(time_zone: str) -> Any:
    """The DuckDB of this process for chunks of rows; each chunk asks for a `cursor()` of its own.

    To start a DuckDB takes longer than to check a chunk.
    """
    atexit.register(chunk_duckdb.cache_clear)  # a connection that outlives its module makes DuckDB report a leak
    return _new_duckdb(1, None, time_zone, "")


def _new_duckdb(threads: int, memory_limit: str | None, time_zone: str, spill: str) -> Any:
    import duckdb

    settings: dict[str, Any] = {"threads": threads, "temp_directory": spill, "preserve_insertion_order": False}
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    try:
        connection = duckdb.connect(":memory:", config=settings)
        connection.execute(f"SET GLOBAL TimeZone = '{time_zone}'")  # also for cursors
        connection.execute("SET enable_progress_bar = false")  # DuckDB would draw on stdout, into our JSON
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
    except (duckdb.Error, TypeError):
        fix = "DuckDB needs at least 64MB; leave it out to use most of the memory."
        raise InputError("memory limit", found=repr(memory_limit), expected="a size such as 4GB", fix=fix) from None
    return connection


@contextmanager
def reading(tables: Tables) -> Iterator[None]:
    """What DuckDB refuses becomes an InputError: formulas that are no SQL, and rows that break a rule of their table,
    which a TableError names."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        fix = "Give a larger memory limit, fewer threads, or more space for temporary files."
        raise InputError("DuckDB ran out of memory while it read the tables", fix=fix) from error
    except duckdb.Error as error:
        said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        said = said.removeprefix("Invalid Input Error: ")
        if isinstance(error, duckdb.IOException):
            raise InputError(said, fix="Check the tables, and the space left for temporary files.") from error
        if said.startswith(REFUSED):
            name = said.removeprefix(REFUSED)
            problems = validate([_source(tables, name)], as_of=None, relations=False)
            problems.raise_if_any(f"table {name} cannot be used:")
        formula = isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException)
        fix = "Check the formulas of your own features." if formula else "`disco validate` shows the rows."
        raise InputError(said, fix=fix) from error


def _source(tables: Tables, name: str) -> Source:
    """The table as its own reader has it, which knows the file and numbers its rows as people see them."""
    own: Callable[[str], Source] | None = getattr(tables, "source", None)
    if own is not None:
        return own(name)
    return TableSource(name, tables.scan(name), f"table {name}", locale_of(tables))


def missing_tables(features: Sequence[Feature], present: Sequence[str]) -> tuple[str, ...]:
    """What to know of tables that are absent, in sentences: the features that need them are unknown for everybody."""
    absent = [table for table in TABLES if table not in present]
    lost = [f for f in features if any(table in absent for name in f.measures for table in MEASURES[name].tables)]
    absent = [table for table in absent if any(table in MEASURES[name].tables for f in lost for name in f.measures)]
    if not lost:
        return ()
    tables = f"tables {', '.join(absent[:-1])} and {absent[-1]}" if len(absent) > 1 else f"table {absent[0]}"
    verb = "are" if len(absent) > 1 else "is"
    return (f"{tables} {verb} missing: {len(lost)} of {len(features)} features are unknown (null) for everybody",)


def feature_sql(features: Sequence[Feature], sources: Sources, *, laid_aside: bool = False) -> str:
    """The whole program: one aggregation per source, joined to the customers, then one formula per feature.

    laid_aside: the connection has the rows of tables already, as `<table>_rows` and `used_codes`; otherwise they are
    read from the tables.
    """
    by_source = sources_of(features, sources)
    values = []
    for name in _needed(features):
        measure = MEASURES[name]
        if measure.source == "customers":
            values.append(f"CAST(c.age AS DOUBLE) AS {name}")
        elif name in by_source.get(measure.source, ()):
            value = _in_hundredths(measure, f"{measure.source}_m.{name}", sources.minor_per_unit)
            values.append(f"{value if measure.empty is None else f'coalesce({value}, {measure.empty})'} AS {name}")
        else:
            values.append(f"CAST(NULL AS DOUBLE) AS {name}")
    parts = []
    if not laid_aside:
        parts = [f"{name}_rows AS NOT MATERIALIZED ({sources.rows(name)})" for name in sources.types]
        if sources.names_codes:
            parts.append("used_codes AS (SELECT code_key, max(depth_bp) AS depth_bp FROM codes_rows GROUP BY 1)")
    for source, names in by_source.items():
        aggregates = ",\n         ".join(f"CAST({MEASURES[name].aggregate} AS DOUBLE) AS {name}" for name in names)
        rows = sources.joined(source)
        parts.append(f"{source}_m AS (SELECT customer_key, {aggregates} FROM ({rows}) GROUP BY customer_key)")
    joins = "\n".join(f"LEFT JOIN {source}_m ON {source}_m.customer_key = c.customer_key" for source in by_source)
    formulas = ",\n       ".join(f"{_value(feature)} AS {feature.name}" for feature in features)
    parts.append(f"measured AS (SELECT c.customer_id, {', '.join(values)} FROM customers_rows c {joins})")
    return f"WITH {', '.join(parts)}\nSELECT customer_id, {formulas} FROM measured ORDER BY customer_id"


def _needed(features: Sequence[Feature]) -> list[str]:
    """The measures that the features are made of."""
    return list(dict.fromkeys(name for feature in features for name in feature.measures))


def sources_of(features: Sequence[Feature], sources: Sources) -> dict[str, list[str]]:
    """Source → the measures of it that can be known."""
    found: dict[str, list[str]] = {}
    for name in _needed(features):
        measure = MEASURES[name]
        known = all(table in sources.types for table in measure.tables) and not _is_unknown(measure, sources)
        if known and measure.source != "customers":
            found.setdefault(measure.source, []).append(name)
    return found


def _in_hundredths(measure: Measure, value: str, minor_per_unit: int) -> str:
    """Money in hundredths of the currency unit, as formulas expect it."""
    if not measure.is_money or minor_per_unit == 100:
        return value
    return f"{value} * {100 // minor_per_unit}" if minor_per_unit < 100 else f"{value} / {minor_per_unit // 100}"


def _is_unknown(measure: Measure, sources: Sources) -> bool:
    """Whether a column that the measure is made of is absent from its table."""
    unknown = sources.unknown(measure.source) if measure.source == "orders" else ()
    return any(re.search(rf"\b{name}\b", measure.aggregate) for name in unknown)


def _value(feature: Feature) -> str:
    """A formula as a float; in one of the user's own, a division by nothing is unknown instead of infinite."""
    value = f"CAST({feature.formula} AS DOUBLE)"
    return value if feature in FEATURES else f"CASE WHEN isfinite({value}) THEN {value} END"


def each_once(reader: Any, schema: pa.Schema, tables: Tables) -> Iterator[pa.RecordBatch]:
    """The batches, after making sure that every customer has an id and appears once."""
    import pyarrow.compute as pc

    last = None
    with reading(tables):
        for batch in reader:
            ids = pa.chunked_array([*([] if last is None else [last]), batch.column(0)], batch.column(0).type)
            if ids.null_count:
                raise InputError("table customers, column customer_id", found="a null", expected="an id in every row")
            same = pc.index(pc.equal(ids[1:], ids[:-1]), True).as_py()
            if same >= 0:
                raise InputError(
                    "table customers, column customer_id",
                    found=f"{ids[same]} twice",
                    expected="each customer once",
                    fix="Keep one row per customer.",
                )
            last = batch.column(0)[-1:]
            yield batch.cast(schema)
