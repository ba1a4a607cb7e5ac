"""Training sets as in the paper: orders in a window, with the buyers' features from the year before the window.

One row per order, in time order. Reasons, and what was weighed against it: docs/decisions/040-context.md.
"""

import warnings
from calendar import monthrange
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from disco.features.builder import (
    AS_OF_KEY,
    SCHEMA_KEY,
    MissingTableWarning,
    connected,
    feature_sql,
    metadata_of,
    missing_tables,
    reading,
)
from disco.features.catalogue import FEATURES, HISTORY_FEATURE, Feature, choose, schema_hash
from disco.features.sources import Sources
from disco.records.arrays import Flags, Ids, Vector
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.identity import read_ids
from disco.records.ports import Tables, locale_of

_BESIDES = ("customer_id", "ordered_at", "log_full_price", "depth", "depth_derived")


def months_later(day: date, months: int) -> date:
    """The same day of a later month, or its last day.

    >>> print(months_later(date(2025, 11, 30), 3))
    2026-02-28
    """
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """One row per order of a customer with a purchase in the year before the window, in time order."""

    ids: Ids
    """(orders,) customer ids."""

    X: pa.Table
    """(orders, features) as of the window's start."""

    log_full_price: Vector
    """(orders,) ln of the full price in currency units."""

    depth: Vector
    """(orders,) of the code used, in [0, 1); 0 without one."""

    depth_derived: Flags
    """(orders,) where the order names a code that `codes` does not know: its depth is 1 − paid / full price."""

    @classmethod
    def of(cls, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> "TrainingSet":
        """The rows of `training_batches`, in memory."""
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        return cls(
            ids=read_ids(table["customer_id"]),
            X=table.drop_columns(list(_BESIDES)),
            log_full_price=table["log_full_price"].to_numpy(),
            depth=table["depth"].to_numpy(),
            depth_derived=np.asarray(table["depth_derived"].to_numpy(), np.bool_),
        )

    def __len__(self) -> int:
        return len(self.log_full_price)


def training_set(
    tables: Tables,
    *,
    window_start: date,
    window_end: date,
    features: Sequence[Feature | str] | None = None,
    threads: int | None = None,
    memory_limit: str | None = None,
) -> TrainingSet:
    """Orders with `window_start` ≤ date < `window_end`; features of the year before `window_start`.

    tables: as `disco.open_tables` gives them. features, threads, memory_limit: as for `build_features`.
    """
    with training_batches(
        tables,
        window_start=window_start,
        window_end=window_end,
        features=features,
        threads=threads,
        memory_limit=memory_limit,
    ) as (schema, batches):
        rows = TrainingSet.of(schema, batches)
    for note in missing_tables(choose(features), tables.names()):
        warnings.warn(note, MissingTableWarning, stacklevel=2)
    return rows


@contextmanager
def training_batches(
    tables: Tables,
    *,
    window_start: date,
    window_end: date,
    features: Sequence[Feature | str] | None = None,
    built: Any = None,
    threads: int | None = None,
    memory_limit: str | None = None,
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The rows of a training set as (schema, record batches) in time order, never all in memory at once.

    `built` is a table or dataset of the same features as of `window_start`, where they were computed before.
    """
    if not (isinstance(window_start, date) and isinstance(window_end, date)) or window_end <= window_start:
        raise InputError("training window", found=f"{window_start} to {window_end}", expected="an end after its start")
    chosen = choose(features)
    with connected(tables, threads=threads, memory_limit=memory_limit) as (connection, present):
        for table in ("customers", "orders"):
            if table not in present:
                raise InputError("tables", found=", ".join(present) or "none", expected=f"a table {table}")
        with reading(tables):
            before = Sources.describe(connection, present, window_start, locale_of(tables))
            within = Sources(before.types, window_end, before.locale)
        if built is None:
            feature_rows = feature_sql(_with_history(chosen), before)
        else:
            _check_built(built.schema, chosen, window_start)
            connection.register("built", built)
            feature_rows = "SELECT * FROM built"
        query = _training_sql(feature_rows, chosen, before, within)
        with reading(tables):
            reader = connection.sql(query).to_arrow_reader(65536)
        schema = reader.schema.with_metadata(metadata_of(chosen, window_start))
        yield schema, _batches(reader, schema, tables)


def _with_history(chosen: tuple[Feature, ...]) -> tuple[Feature, ...]:
    if any(feature.name == HISTORY_FEATURE for feature in chosen):
        return chosen
    return (*chosen, next(feature for feature in FEATURES if feature.name == HISTORY_FEATURE))


def _check_built(schema: pa.Schema, chosen: Sequence[Feature], window_start: date) -> None:
    metadata = schema.metadata or {}
    found, expected = metadata.get(SCHEMA_KEY, b"").decode(), schema_hash(chosen)
    if found != expected:
        raise SchemaMismatchError(
            "feature table",
            found=f"schema {found}" if found else "no schema in the file's metadata",
            expected=expected,
            fix="Build the features again with `disco features`.",
        )
    as_of = metadata.get(AS_OF_KEY, b"").decode()
    if as_of != window_start.isoformat():
        raise InputError("feature table", found=f"features as of {as_of}", expected=f"as of {window_start}")


def _training_sql(feature_rows: str, chosen: Sequence[Feature], before: Sources, within: Sources) -> str:
    customer = before.key("customer", "customers", "f")
    # without `paid` the share is unknown, and DuckDB's greatest would make it 0
    share = "CASE WHEN o.paid_minor IS NOT NULL THEN least(greatest(1 - o.paid_minor / o.full_minor, 0), 0.99) END"
    if "codes" in within.types:
        depth = f"CASE WHEN o.code_key IS NULL THEN 0 ELSE coalesce(used.depth_bp / 10000, {share}) END"
        derived = "o.code_key IS NOT NULL AND used.depth_bp IS NULL"
        join = f"LEFT JOIN ({within.used_depths()}) used ON used.code_key = o.code_key"
    else:
        depth, derived, join = f"CASE WHEN o.code_key IS NULL THEN 0 ELSE {share} END", "o.code_key IS NOT NULL", ""
    names = ", ".join(f"f.{feature.name}" for feature in chosen)
    in_window = within.within("ordered_at", days=(within.as_of - before.as_of).days)
    return f"""
      SELECT f.customer_id, o.ordered_at, ln(o.full_minor / {within.minor_per_unit}) AS log_full_price,
             CAST({depth} AS DOUBLE) AS depth,
             {derived} AS depth_derived, {names}
      FROM (SELECT {within.key("customer", "orders")} AS customer, {within.key("order", "orders")} AS order_key,
                   {within.key("code", "orders")} AS code_key, CAST(t.ordered_at AS TIMESTAMP) AS ordered_at,
                   {within.cell("orders", "full_price")} AS full_minor,
                   {within.cell("orders", "paid")} AS paid_minor
            FROM raw_orders t WHERE {in_window}) o
      JOIN ({feature_rows}) f ON {customer} = o.customer
      {join}
      WHERE o.full_minor > 0 AND f.{HISTORY_FEATURE} > 0 AND ({depth}) IS NOT NULL
      ORDER BY o.ordered_at, o.order_key"""


def _batches(reader: Any, schema: pa.Schema, tables: Tables) -> Iterator[pa.RecordBatch]:
    with reading(tables):
        for batch in reader:
            yield batch.cast(schema)
