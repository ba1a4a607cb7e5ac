"""Rows out into a table elsewhere, `URL#TABLE`, exactly once.

What is there of the same campaign is compared first, and left alone where it is the same. Otherwise it is replaced in
one transaction: whoever reads sees the rows of before or all of the new ones. So an export may be repeated, and one
that was interrupted is run again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from disco.records.errors import DiscoError, InputError, MissingPartError, UsageError

CAMPAIGN = "campaign_id"
"""The column by which rows are replaced; every table that is exported has it."""
_EXAMPLE = (
    "such as postgresql://user@host/warehouse#codes, duckdb:////srv/shop.duckdb#codes or delta:////srv/lake#codes"
)


@dataclass(frozen=True, slots=True)
class Export:
    """What is to be in a table of one campaign."""

    rows: pa.Table
    """All with the same `campaign_id`."""
    campaign: str
    key: tuple[str, ...]
    """The columns of which no two rows agree in all."""


class Target(Protocol):
    """A place with tables that can be written to."""

    @property
    def shown(self) -> str:
        """The place without secrets."""

    def replace(self, table: str, export: Export) -> bool:
        """Let the table hold these rows of the campaign; whether anything was changed."""


def export_to(place: str, export: Export, *, own_database: str) -> tuple[str, bool]:
    """(the place without secrets, whether anything was changed).

    own_database: the URL of the shop's database, in which nothing else is written.
    """
    url, _, table = place.partition("#")
    if "://" not in url or not table:
        raise UsageError("--to", found=_unsecret(place), expected="URL#TABLE", fix=f"Name both, {_EXAMPLE}.")
    if _database(url) == _database(own_database):
        fix = "Name another database: backups and the health check expect this one to hold the shop alone."
        raise InputError("--to", found="the shop's own database", expected="another one", fix=fix)
    target, export = _target(url), replace(export, rows=_utc_rows(export.rows))
    return f"{target.shown}#{table}", target.replace(table, export)


def _target(url: str) -> Target:
    scheme = url.partition("://")[0].partition("+")[0]
    if scheme == "duckdb":
        from disco.adapters.tables.duckdb_file import DuckDbTarget

        return DuckDbTarget(url)
    if scheme == "delta":
        from disco.adapters.tables.delta import DeltaTarget

        return DeltaTarget(url)
    from disco.adapters.tables.sql import SqlTarget

    return SqlTarget(url)


def _database(url: str) -> tuple[str, str, int | None, str, str]:
    parts = urlsplit(url)
    kind = parts.scheme.partition("+")[0]
    return kind.replace("postgresql", "postgres"), parts.hostname or "", parts.port, parts.path, parts.query


def _unsecret(place: str) -> str:
    """A place whose password is not shown, also where it is no URL."""
    return place if "@" not in place else f"…@{place.rpartition('@')[2]}"


def file_of(url: str) -> str:
    """The path in a URL: three slashes and a path from here, or four and a path from the root.

    >>> file_of("duckdb:///shop.duckdb"), file_of("delta:////srv/lake")
    ('shop.duckdb', '/srv/lake')
    """
    scheme, _, path = url.partition("://")
    if not path.startswith("/") or path == "/":
        fix = f"Write {scheme}:///FOLDER/FILE for a path from here, or {scheme}:////FOLDER/FILE from the root."
        raise InputError("URL", found=url, expected=f"{scheme}:/// and a path", fix=fix)
    return path[1:]


def equal_rows(there: pa.Table, ours: pa.Table) -> bool:
    """Whether both have the same rows, in any order; what was read back may have wider types."""
    if there.num_rows != ours.num_rows:
        return False
    try:
        theirs = there.select(ours.column_names).cast(ours.schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    order = [(name, "ascending") for name in ours.column_names]
    return bool(theirs.sort_by(order).combine_chunks().equals(ours.sort_by(order).combine_chunks()))


def refuse_other_columns(table: str, there: list[str], export: Export) -> None:
    """InputError where a table that is there lacks a column."""
    if missing := [name for name in export.rows.column_names if name not in there]:
        raise InputError(
            f"table {table}",
            found=f"columns {', '.join(there)}",
            expected=f"also {', '.join(missing)}",
            fix="Name another table, which is then made, or add the columns.",
        )


@contextmanager
def reached(shown: str, *kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds in a sentence; nothing was written then."""
    try:
        yield
    except DiscoError:
        raise
    except kinds as error:
        reason = " ".join(str(error).split("\n")[0].split())[:200] or type(error).__name__
        fix = "Check the URL, and whether another program writes there. Nothing was changed; run the command again."
        raise InputError(shown, found=reason, expected="a place that can be reached", fix=fix) from error


def missing_extra(what: str, extra: str, library: str) -> MissingPartError:
    """The refusal where a library is absent."""
    from disco.records import DISTRIBUTION

    fix = f"Run `pip install '{DISTRIBUTION}[{extra}]'`, which adds it to what is installed."
    return MissingPartError(what, found=f"no {library}", expected=library, fix=fix)


def _utc_rows(rows: pa.Table) -> pa.Table:
    """Times in UTC and without dictionaries: what every warehouse can hold."""
    for at, field in enumerate(rows.schema):
        column = rows.column(at)
        if pa.types.is_timestamp(field.type):
            moments = column if field.type.tz is not None else pc.assume_timezone(column, "UTC")
            rows = rows.set_column(at, field.name, moments.cast(pa.timestamp("us", "UTC")))
        elif pa.types.is_dictionary(field.type):
            rows = rows.set_column(at, field.name, column.cast(field.type.value_type))
    return rows
