"""Who a plan is about: the eligible customers of its table, their features as of its date, their contexts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.entrypoints.shop import Shop
from disco.records.errors import InputError

if TYPE_CHECKING:
    from datetime import date

    import pyarrow as pa

    from disco.features import ContextNetwork, Feature
    from disco.records.decisions import Audience
    from disco.records.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The customers of a plan with all that a decision about them rests on.

    features: one row per customer in the audience's order · inputs: name → hash of the content, to be compared at the
    launch · notes: what the operator should know about who was left out.
    """

    audience: "Audience"
    features: "pa.Table"
    network: "ContextNetwork"
    inputs: dict[str, str]
    notes: tuple[str, ...]


def gather(
    shop: Shop, plan: "Plan", *, as_of: "date | None" = None, only: "pa.Array | None" = None, keep: bool = True
) -> Gathered:
    """Read customers, build (or find) their features, embed them. A pure function of the shop's files.

    For customers who arrive after the launch: `as_of` is the day they arrive, `only` their ids as text.
    With `keep`, features that had to be built are kept for the next time.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from disco.features import has_history
    from disco.features.cautions import collected
    from disco.records.content import content_hash
    from disco.records.decisions import Audience

    network, day = shop.network(), as_of or plan.customers.as_of
    eligible = eligible_ids(shop, plan)
    if only is not None:
        _refuse_ineligible(only, eligible, plan)
        eligible = only
    with collected() as cautions:
        everybody = features_as_of(shop, day, features=network.catalogue_, keep=keep)
    wanted = pc.is_in(everybody["customer_id"].cast(pa.large_string()), value_set=eligible)
    features = everybody.filter(wanted).combine_chunks()
    notes = [str(caution) for caution in cautions]
    missing = len(eligible) - features.num_rows
    if missing:
        _refuse_strangers(shop, plan, eligible)
        notes.append(f"{missing:,} eligible customers joined on or after {day} and are left out")
    if not features.num_rows:
        raise InputError(
            "customers.eligible",
            found=f"no customer who joined before {day} and meets {plan.customers.eligible!r}",
            expected="at least one customer to decide about",
        )
    audience = Audience(
        ids=features["customer_id"].to_numpy(),
        context=network.transform(features, engine=shop.engine),
        known=has_history(features),
    )
    inputs = {
        "customers": content_hash(features.select(["customer_id"])),
        "features": content_hash(features),
        "network": network_name(shop),
    }
    return Gathered(audience=audience, features=features, network=network, inputs=inputs, notes=tuple(notes))


def network_name(shop: Shop) -> str:
    """The network file's own content; equal networks are equal files."""
    return sha256((shop.folder / shop.settings.context).read_bytes()).hexdigest()


def eligible_ids(shop: Shop, plan: "Plan") -> "pa.Array":
    """Ids, as text, of the rows of the plan's table that meet its condition."""
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc

    from disco.records.tables import Kind
    from disco.records.validation.cells import is_accepted

    with _opened(shop, plan.customers.table) as (label, table):
        connection = duckdb.connect(":memory:")
        try:
            # the condition comes from a plan file: it may look at this table and at nothing else
            connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
            connection.execute("SET enable_external_access = false; SET lock_configuration = true")
            connection.register("customers", table)
            columns = connection.table("customers").columns
            if "customer_id" not in columns:
                raise InputError(label, found=f"the columns {', '.join(columns)}", expected="a column customer_id")
            try:
                rows = connection.table("customers").filter(plan.customers.eligible).project("customer_id")
                given = rows.to_arrow_table()["customer_id"].combine_chunks()
            except duckdb.Error as error:
                raise InputError(
                    "customers.eligible",
                    found=f"{plan.customers.eligible!r}: {_first_words(error)}",
                    expected=f"an SQL condition on the columns {', '.join(columns)} of {label}",
                ) from None
        finally:
            connection.close()
    if not is_accepted(Kind.ID, given.type):
        raise InputError(f"{label}, column customer_id", found=f"type {given.type}", expected=str(Kind.ID))
    ids = given.cast(pa.large_string())
    if ids.null_count:
        raise InputError(f"{label}, column customer_id", found=f"{ids.null_count} nulls", expected="an id in every row")
    if len(pc.unique(ids)) != len(ids):
        counts = pc.value_counts(ids)
        twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"]
        raise InputError(f"{label}, column customer_id", found=f"{twice} twice", expected="each customer once")
    return ids


def features_as_of(
    shop: Shop, as_of: "date", *, features: "Sequence[Feature] | None" = None, keep: bool = True
) -> "pa.Table":
    """The features of every customer; built once per content of the tables, then read from the folder of plans.

    `features` are the network's (`catalogue_`); None: the whole catalogue.
    """
    import pyarrow.parquet as pq

    from disco.features import FEATURES, build_features, schema_hash
    from disco.features.builder import warn_of_missing
    from disco.records.files import written_whole

    threads, chosen = shop.engine.threads, FEATURES if features is None else tuple(features)
    place = Path(shop.settings.data_place(shop.folder))
    if "://" in shop.settings.data:  # a database has no content to hash before it is read
        with shop.tables() as tables:
            return build_features(tables, as_of=as_of, features=chosen, threads=threads)
    with shop.tables() as tables:
        key = sha256(f"{as_of} {schema_hash(chosen)} {_files_hash(place)}".encode()).hexdigest()
        kept = shop.plans / "features" / f"{key[:32]}.parquet"
        if kept.is_file():
            warn_of_missing(chosen, tables.names())  # the building would have said so
            return pq.read_table(kept)
        built = build_features(tables, as_of=as_of, features=chosen, threads=threads)
    if keep:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(kept) as unfinished:
            pq.write_table(built, unfinished)
    return built


def _files_hash(folder: Path) -> str:
    """Names and contents of the tables' files."""
    from disco.records.tables import SCHEMAS

    digest = sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in (".parquet", ".csv") and path.is_file()):
        if path.relative_to(folder).parts[0].split(".")[0] in SCHEMAS:
            with path.open("rb") as file:
                content = file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.relative_to(folder)}\x1f{content}\x1f".encode())
    return digest.hexdigest()


@contextmanager
def _opened(shop: Shop, name: str) -> "Iterator[tuple[str, Any]]":
    """A table a plan names: a file seen from the shop's folder, or one of the shop's tables; and what to call it."""
    from disco.adapters.tables.csv import CsvSource
    from disco.adapters.tables.parquet import ParquetSource
    from disco.records.tables import SCHEMAS

    path = shop.folder / name
    if name in SCHEMAS:
        with shop.tables() as tables:
            yield f"table {name}", tables.scan(name)
    elif not path.is_file():
        raise InputError(
            "customers.table",
            found=f"no file {path}",
            expected="a Parquet or CSV file, seen from the shop's folder, or the name of a table, such as customers",
        )
    elif path.suffix.lower() == ".csv":
        yield name, CsvSource("customers", file=name, path=path).scan()
    else:
        yield name, ParquetSource("customers", file=name, parts=[(name, path)]).scan()


def _first_words(error: Exception) -> str:
    """What DuckDB says, on one line, without the picture of the query."""
    lines = str(error).split("\n\nLINE")[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip())


def _refuse_ineligible(asked: "pa.Array", eligible: "pa.Array", plan: "Plan") -> None:
    import pyarrow.compute as pc

    others = asked.filter(pc.invert(pc.is_in(asked, value_set=eligible)))
    if len(others):
        raise InputError(
            f"customer {others[0]}",
            found="no row that meets the plan's condition" + (f" (and {len(others) - 1} more)" if others[1:] else ""),
            expected=f"customers of {plan.customers.table} with {plan.customers.eligible}",
        )


def _refuse_strangers(shop: Shop, plan: "Plan", eligible: "pa.Array") -> None:
    """Customers of the plan's table whom the shop's own table does not have."""
    import pyarrow as pa
    import pyarrow.compute as pc

    with shop.tables() as tables:
        known = tables.scan("customers")
        known = known.to_table(columns=["customer_id"]) if not isinstance(known, pa.Table) else known
        ids = known["customer_id"].cast(pa.large_string()).combine_chunks()
    strangers = eligible.filter(pc.invert(pc.is_in(eligible, value_set=ids)))
    if len(strangers):
        raise InputError(
            f"customers of {plan.customers.table}",
            found=f"{len(strangers):,} unknown ones, the first {strangers[0]}",
            expected=f"customers of the table customers in {shop.settings.data}",
        )
