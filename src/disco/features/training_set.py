"""Training sets as in the paper: orders in a window, with the buyers' features from the year before the window; beside
them the codes that were sent in the window, used or not, with their receivers' features.

One row per order, one per code, in time order. Reasons, and what was weighed against it: docs/decisions/040-context.md.
"""

from __future__ import annotations

import warnings
from calendar import monthrange
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from disco.features.builder import (
    FeatureRequest,
    MissingTableWarning,
    connected,
    feature_sql,
    missing_tables,
    reading,
    require_tables,
)
from disco.features.catalogue import (
    AS_OF_KEY,
    CODE_CAMPAIGN,
    CODE_USED,
    FEATURES,
    HISTORY_FEATURE,
    SAMPLED_KEY,
    SCHEMA_KEY,
    Feature,
    feature_names_of,
    metadata_of,
    schema_hash,
    written_in,
)
from disco.features.files import write_batches, write_features
from disco.features.on_engine import MOST_CUSTOMERS, CustomerSample
from disco.features.snapshot import Snapshot, counted, snapshot_of, with_snapshot
from disco.features.sources import Sources
from disco.features.training_rows import DEPTH, CodesSent
from disco.records.arrays import Flags, Ids, Vector
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.files import temporary_folder
from disco.records.identity import read_ids
from disco.records.maturity import BY_EXPIRY, Maturity
from disco.records.ports import Tables, locale_of

Rows: TypeAlias = tuple[pa.Schema, Iterator[pa.RecordBatch]]
MOST_UNSENT = 0.05  # share of coded orders whose code is not in the table of codes, before that is said
MOST_LATE = 0.05  # share of the codes used that were used after they had counted as unused, before that is said


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

    codes: CodesSent | None = None
    """Matured codes of the window, used or not; None without a table of codes, or where all or none were used."""

    @classmethod
    def of(cls, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> TrainingSet:
        """The rows of `TrainingTables.orders`, in memory."""
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        return cls(
            ids=read_ids(table["customer_id"]),
            X=table.select(feature_names_of(schema)),
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
    maturity: Maturity = BY_EXPIRY,
    threads: int | None = None,
    memory_limit: str | None = None,
) -> TrainingSet:
    """Orders and codes with `window_start` ≤ date < `window_end`; features of the year before `window_start`.

    tables: as `disco.open_tables` gives them. maturity: when a code counts; codes that have not matured are left out.
    features, threads, memory_limit: as for `build_features`.
    """
    request = FeatureRequest(as_of=window_start, features=features, threads=threads, memory_limit=memory_limit)
    with opened_training(tables, request, window_end=window_end) as training:
        rows = TrainingSet.of(*training.orders())
        schema, batches = training.codes(maturity)
        rows = replace(rows, codes=codes_sent(pa.Table.from_batches(batches, schema).combine_chunks()))
    for note in missing_tables(request.chosen, tables.names()):
        warnings.warn(note, MissingTableWarning, stacklevel=2)
    return rows


def codes_sent(table: pa.Table) -> CodesSent | None:
    """The rows of `TrainingTables.codes`; None where they could not teach who uses one: all or none were used."""
    used = np.asarray(table[CODE_USED].to_numpy(), np.bool_)
    if used.all() or not used.any():
        return None
    return CodesSent(table.select(feature_names_of(table.schema)), table[DEPTH], used, table[CODE_CAMPAIGN])


@contextmanager
def opened_training(
    tables: Tables,
    request: FeatureRequest,
    *,
    window_end: date,
    built: Any = None,
    most_customers: int = MOST_CUSTOMERS,
) -> Iterator[TrainingTables]:
    """A shop's tables, ready to be asked for the orders and the codes of a window, which begins on the day of the
    features that are requested.

    `built` is a table or dataset of these features, where they were computed before. Otherwise they are computed here,
    once for orders and codes, into a temporary file. most_customers: of more, some are taken (`CustomerSample`).
    """
    window_start, chosen = request.as_of, request.chosen
    if not (isinstance(window_start, date) and isinstance(window_end, date)) or window_end <= window_start:
        raise InputError("training window", found=f"{window_start} to {window_end}", expected="an end after its start")
    with (
        connected(tables, threads=request.threads, memory_limit=request.memory_limit) as (connection, present),
        temporary_folder("features") as folder,
    ):
        require_tables(present, "customers", "orders")
        with reading(tables):
            before = Sources.describe(connection, present, window_start, locale_of(tables))
            before.check(connection)
            within = Sources(before.types, window_end, before.locale)
        if built is not None:
            _check_built(built.schema, chosen, window_start)
            rows = built
        else:
            with reading(tables):
                reader = connection.sql(feature_sql(with_history(chosen), before)).to_arrow_reader(65536)
                write_features(folder / "features.parquet", reader.schema, reader)
            rows = ds.dataset(folder / "features.parquet", format="parquet")
        snapshot = snapshot_of(rows.schema) or counted(rows)
        rows = _sampled(rows, folder / "sampled.parquet", most_customers)
        connection.register("built", rows)
        yield TrainingTables(tables, connection, chosen, before, within, snapshot)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTables:
    """What `opened_training` gives: ask for orders and codes one after the other, not at once."""

    tables: Tables
    connection: Any
    chosen: tuple[Feature, ...]
    before: Sources
    within: Sources
    snapshot: Snapshot
    """Of all customers on the first day of the window."""

    def orders(self) -> Rows:
        """The orders of the window as (schema, record batches) in time order."""
        before, within = self.before, self.within
        # without `paid` the share is unknown, and DuckDB's greatest would make it 0
        share = "CASE WHEN o.paid_minor IS NOT NULL THEN least(greatest(1 - o.paid_minor / o.full_minor, 0), 0.99) END"
        if "codes" in within.types:
            depth = f"CASE WHEN o.code_key IS NULL THEN 0 ELSE coalesce(used.depth_bp / 10000, {share}) END"
            derived = "o.code_key IS NOT NULL AND used.depth_bp IS NULL"
            join = f"LEFT JOIN ({within.used_depths()}) used ON used.code_key = o.code_key"
        else:
            depth, derived, join = f"CASE WHEN o.code_key IS NULL THEN 0 ELSE {share} END", "o.code_key IS NOT NULL", ""
        return self._rows(f"""
          SELECT f.customer_id, o.ordered_at, ln(o.full_minor / {within.minor_per_unit}) AS log_full_price,
                 CAST({depth} AS DOUBLE) AS depth,
                 {derived} AS depth_derived, {self._names}
          FROM (SELECT {within.key("customer", "orders")} AS customer, {within.key("order", "orders")} AS order_key,
                       {within.key("code", "orders")} AS code_key, CAST(t.ordered_at AS TIMESTAMP) AS ordered_at,
                       {within.cell("orders", "full_price")} AS full_minor,
                       {within.cell("orders", "paid")} AS paid_minor
                FROM raw_orders t WHERE {within.within("ordered_at", days=self._days)}) o
          JOIN built f ON {before.key("customer", "customers", "f")} = o.customer
          {join}
          WHERE o.full_minor > 0 AND f.{HISTORY_FEATURE} > 0 AND ({depth}) IS NOT NULL
          ORDER BY o.ordered_at, o.order_key""")

    def codes(self, maturity: Maturity = BY_EXPIRY, *, own: pa.Table | None = None) -> Rows:
        """The matured codes that were sent in the window, as (schema, record batches) in time order; no row without a
        table of codes and own ones. A code is used if that was before it matured.

        own: matured codes of the shop's own campaigns, as `OWN_CODES`; those that the table of codes has, too, count
        once.
        """
        sent = self._matured(maturity)
        if own is not None and own.num_rows:
            sent = self._with_own(sent, own)
        if sent is None:
            schema = self._schema(pa.schema([*_CODE_FIELDS, *((each.name, pa.float64()) for each in self.chosen)]))
            return schema, iter(())
        return self._rows(f"""
          SELECT f.customer_id, c.sent_at, CAST(c.depth_bp / 10000 AS DOUBLE) AS {DEPTH}, c.used AS {CODE_USED},
                 c.campaign AS {CODE_CAMPAIGN}, {self._names}
          FROM ({sent}) c
          JOIN built f ON {self.before.key("customer", "customers", "f")} = c.customer
          WHERE f.{HISTORY_FEATURE} > 0
          ORDER BY c.sent_at, c.code_key, c.customer, c.campaign""")

    def late_use(self, maturity: Maturity) -> tuple[int, int]:
        """How many of the codes of `codes` were used in the end, and how many of these after they had counted as
        unused."""
        sent = self._matured(maturity)
        if sent is None:
            return 0, 0
        with reading(self.tables):
            counts = "count(*) FILTER (WHERE used OR used_late), count(*) FILTER (WHERE used_late)"
            ((used, late),) = self.connection.sql(f"SELECT {counts} FROM ({sent})").fetchall()
        return used, late

    def _matured(self, maturity: Maturity) -> str | None:
        """SELECT of the matured codes; None where there can be none."""
        with reading(self.tables):
            ((newest,),) = self.connection.sql(self.within.newest_day()).fetchall()
        if newest is None or "codes" not in self.within.types:
            return None
        known_until = newest + timedelta(days=1)
        return self.within.sent_codes(days=self._days, maturity=maturity, matured_by=known_until)

    def _with_own(self, sent: str | None, own: pa.Table) -> str:
        """SELECT of the matured codes and of those own ones that are not among the table's."""
        self.connection.register("own_codes", own)
        kind = "BIGINT" if self.before.key("customer", "customers", "f").endswith("AS BIGINT)") else "VARCHAR"
        unknown = ""
        if sent is not None:
            unknown = """AND NOT EXISTS (
              SELECT 1 FROM raw_codes t WHERE CAST(t.customer_id AS VARCHAR) = o.customer_id
                AND (CAST(t.campaign_id AS VARCHAR) = o.campaign_id OR CAST(t.code_id AS VARCHAR) = o.code_id))"""
        rows = f"""
          SELECT TRY_CAST(o.customer_id AS {kind}) AS customer, o.code_id AS code_key, o.sent_at,
                 CAST(round_even(o.depth * 10000, 0) AS INTEGER) AS depth_bp, o.campaign_id AS campaign, o.used,
                 FALSE AS used_late
          FROM own_codes o WHERE {self.within.within("sent_at", days=self._days, alias="o")} {unknown}"""
        if sent is None:
            return rows
        return f"SELECT * REPLACE (CAST(code_key AS VARCHAR) AS code_key) FROM ({sent}) UNION ALL {rows}"

    @property
    def _names(self) -> str:
        return ", ".join(f"f.{feature.name}" for feature in self.chosen)

    @property
    def _days(self) -> int:
        """Of the window."""
        return (self.within.as_of - self.before.as_of).days

    def _rows(self, query: str) -> Rows:
        with reading(self.tables):
            reader = self.connection.sql(query).to_arrow_reader(65536)
        schema = self._schema(reader.schema)

        def batches() -> Iterator[pa.RecordBatch]:
            with reading(self.tables):
                for batch in reader:
                    yield batch.cast(schema)

        return schema, batches()

    def _schema(self, schema: pa.Schema) -> pa.Schema:
        return with_snapshot(schema.with_metadata(metadata_of(self.chosen, self.before.as_of)), self.snapshot)


def unsent_codes(coded: int, unknown: int) -> tuple[str, ...]:
    """What to know where many orders of a window were made with codes that, by the table of codes, nobody was sent."""
    if not coded or unknown <= MOST_UNSENT * coded:
        return ()
    return (
        f"{unknown:,} of the {coded:,} orders with a code in the window name one that the table codes does not have. "
        "They count for baskets but not for engagement, so fewer codes seem to be used than were. Bring the table "
        "codes up to date, with a row for every code that was sent.",
    )


def late_codes(used: int, late: int, maturity: Maturity) -> tuple[str, ...]:
    """What to know where many codes were used after they had counted as unused."""
    if not used or late <= MOST_LATE * used:
        return ()
    return (
        f"{late:,} of the {used:,} codes that were used were used later than {maturity.days} days after "
        "their sending, when they had counted as unused already. Set `maturity_days` in disco.yaml to the number of "
        "days for which codes are valid.",
    )


OWN_CODES = pa.schema(
    {
        "code_id": pa.string(),
        "customer_id": pa.string(),
        "campaign_id": pa.string(),
        "depth": pa.float64(),
        "sent_at": pa.timestamp("us"),
        "used": pa.bool_(),
    }
)
"""Codes of a shop's own campaigns, of which it is known whether they were used."""
_CODE_FIELDS = (
    ("customer_id", pa.string()),
    ("sent_at", pa.timestamp("us")),
    (DEPTH, pa.float64()),
    (CODE_USED, pa.bool_()),
    (CODE_CAMPAIGN, pa.string()),
)


def _sampled(rows: Any, path: Path, most: int) -> Any:
    """The features of the customers to train on: all, or of very many some."""
    dataset = ds.dataset(rows) if isinstance(rows, pa.Table) else rows
    sample = CustomerSample(dataset.count_rows(), most)
    if sample.is_everybody or written_in(rows.schema, SAMPLED_KEY):
        return rows
    write_batches(path, rows.schema, sample.of_batches(dataset.to_batches(batch_size=65536)))
    return ds.dataset(path, format="parquet")


def with_history(chosen: tuple[Feature, ...]) -> tuple[Feature, ...]:
    if any(feature.name == HISTORY_FEATURE for feature in chosen):
        return chosen
    return (*chosen, next(feature for feature in FEATURES if feature.name == HISTORY_FEATURE))


def _check_built(schema: pa.Schema, chosen: Sequence[Feature], window_start: date) -> None:
    found, expected = written_in(schema, SCHEMA_KEY), schema_hash(chosen)
    if found not in (expected, schema_hash(with_history(tuple(chosen)))):
        raise SchemaMismatchError(
            "feature table",
            found=f"schema {found}" if found else "no schema in the file's metadata",
            expected=expected,
            fix="Build the features again with `disco features`.",
        )
    as_of = written_in(schema, AS_OF_KEY)
    if as_of != window_start.isoformat():
        raise InputError("feature table", found=f"features as of {as_of}", expected=f"as of {window_start}")
