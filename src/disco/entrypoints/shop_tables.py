"""The tables of a shop as the service shows and changes them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disco.office.audit.use_cases import note_file
from disco.office.settings.file import change_settings_of
from disco.records.errors import InputError, NotFoundError, StateError, TableError
from disco.records.result import Result
from disco.records.table_rules import file_names
from disco.records.tables import SCHEMAS, TableSchema
from disco.web.discretion import WITHHELD, discreet

if TYPE_CHECKING:
    from disco.adapters.config import ShopSettings
    from disco.entrypoints.python import Shop


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of a table."""

    name: str
    """Our name, or yours where it is a further column."""
    found_as: str | None
    """What it is called in the file or query; null: it is not there."""
    required: bool
    """Whether the table cannot be used without it."""
    meaning: str
    """What it holds; empty for a further column."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableState(Result):
    """One of the retailer's tables."""

    name: str
    """The name of the table."""
    present: bool
    """Whether it is there."""
    source: str | None
    """The file or query it comes from; null: it is not there."""
    rows: int | None
    """Number of rows, where it is known without reading them."""
    columns: tuple[TableColumn, ...]
    """The declared columns, then further ones."""
    warnings: tuple[str, ...] = ()
    """What to know, in sentences."""


@discreet.register
def _(table: TableState) -> TableState:
    return replace(table, warnings=tuple(WITHHELD for _ in table.warnings))


def table_state(shop: "Shop", name: str, *, warnings: tuple[str, ...] = (), rows: int | None = None) -> TableState:
    """A table as it is now; only its header is read."""
    schema = known_table(name)
    given: dict[str, str] = {}
    source = None
    with suppress(InputError), shop.data.tables() as tables:  # a folder without any table has none of them
        if name in tables.names():
            found = tables.source(name)
            source = found.file
            try:
                given = dict(zip(found.schema().names, file_names(found.schema()), strict=True))
                rows = getattr(found, "rows", rows)
            except InputError as error:
                warnings = (*warnings, str(error))
    declared = [
        TableColumn(
            name=column.name,
            found_as=given.get(column.name),
            required=not column.optional,
            meaning=column.meaning,
        )
        for column in schema.columns
    ]
    ours = {column.name for column in schema.columns}
    further = [
        TableColumn(name=one, found_as=theirs, required=False, meaning="")
        for one, theirs in given.items()
        if one not in ours
    ]
    return TableState(
        name=name,
        present=source is not None,
        source=source,
        rows=rows if source is not None else None,
        columns=(*declared, *further),
        warnings=warnings,
    )


def replace_by(shop: "Shop", name: str, file: Path) -> TableState:
    """Let this file be the table, once it has no problem."""
    from disco.adapters.tables.folder import replace_table

    known_table(name)
    if "://" in shop.settings.data:
        raise StateError(
            "The tables of this shop are in a database (the setting `data`), so no file can replace one",
            fix="Send a query instead.",
        )
    folder = Path(shop.settings.data_place(shop.folder))
    report = replace_table(folder, name, file, written=shop.settings.written, as_of=shop.clock.today())
    with file.open("rb") as content, shop.store() as store:
        digest = file_digest(content, "sha256").hexdigest()
        note_file(store, f"{name}{file.suffix}", digest, action="replace table", table=name, rows=report.rows[name])
    return table_state(shop, name, warnings=report.warnings, rows=report.rows[name])


def point_to(shop: "Shop", name: str, *, file: str | None, query: str | None) -> TableState:
    """Let a file below the folder of the tables be the table, or a query of the database that holds the tables."""
    known_table(name)
    if (file is None) == (query is None):
        raise InputError("body", found="both or neither", expected="either `file` or `query`")
    if file is not None:
        return replace_by(shop, name, shop.data.table_file(file, setting="file"))
    if "://" not in shop.settings.data:
        raise StateError(
            "The tables of this shop are files (the setting `data`), so there is nothing to query",
            fix="Send a file, or let `data` in disco.yaml name a database.",
        )
    assert query is not None
    first = query.split(maxsplit=1)[:1]
    if ";" in query or not first or first[0].upper() not in ("SELECT", "WITH"):
        raise InputError("query", found=repr(query[:80]), expected="one SELECT, without a semicolon")
    queries = {**(shop.settings.queries or {}), name: query}
    _refuse_problems(shop, name, {"queries": queries})
    return table_state(_with(shop, change_settings_of(shop, {"queries": queries})), name)


def map_columns(shop: "Shop", name: str, columns: Mapping[str, str]) -> TableState:
    """Keep what the columns of a table are called: our name → theirs."""
    known_table(name)
    every: dict[str, Any] = {key: dict(value) for key, value in shop.settings.columns.items() if key != name}
    if columns:
        every[name] = dict(columns)
    return table_state(_with(shop, change_settings_of(shop, {"columns": every or None})), name)


def _refuse_problems(shop: "Shop", name: str, changes: Mapping[str, Any]) -> None:
    from disco.adapters.tables import open_tables
    from disco.records.validation import validate

    place, written = shop.settings.data_place(shop.folder), shop.settings.written
    with open_tables(place, queries={name: changes["queries"][name]}, written=written) as tables:
        report = validate([tables.source(name)], as_of=shop.clock.today(), relations=False)
    if report.problems:
        raise TableError(f"The table {name} was not replaced:", report.problems)


def _with(shop: "Shop", settings: "ShopSettings") -> "Shop":
    return replace(shop, settings=settings)


def known_table(name: str) -> TableSchema:
    """The declared table of this name; NotFoundError."""
    if name not in SCHEMAS:
        raise NotFoundError(f"There is no table {name}", fix=f"The tables are {', '.join(SCHEMAS)}.")
    return SCHEMAS[name]
