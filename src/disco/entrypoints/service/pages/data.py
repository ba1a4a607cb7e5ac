"""The retailer's tables: where they are, what their columns are called, new ones in their place, and what is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path, Request, Response

from disco.entrypoints.python import Shop
from disco.entrypoints.service.shop_of import ShopOf
from disco.entrypoints.shop_tables import TableState, known_table, map_columns, point_to, table_state
from disco.office.jobs.page import job_address, problems_table
from disco.office.jobs.routes import asked_job
from disco.office.jobs.use_cases import get_job, list_jobs
from disco.records.errors import DiscoError, InputError, PlanError, StateError, TableError
from disco.records.jobs import Job, JobKind, JobState
from disco.records.people import Role
from disco.records.tables import SCHEMAS
from disco.records.wording import counted, local_text
from disco.views.formats import Count
from disco.views.table import Column, Table
from disco.web.discretion import as_seen
from disco.web.reading import EMPTY, FormOf, Typed, sentence
from disco.web.route import Routes
from disco.web.security import refuse_below
from disco.web.shell import Page, PageRoute, go_to, respond

router = Routes(is_described=False, kind=PageRoute)
TABLES = tuple(name for name in SCHEMAS if name != "outcomes")
"""Of the shop; outcomes are sent campaign by campaign."""
_MOST_CHARACTERS = 300  # of a column's name
TableName = Annotated[str, Path(max_length=60)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPage(Page):
    """All tables of the shop."""

    template = "data.html"
    rail = "Data"
    every: Table
    addresses: tuple[str, ...]
    check_address: str
    """The job of the last check; empty: there was none."""
    is_ready: bool
    """Whether there is a table that can be checked."""

    def tables(self) -> Mapping[str, Table]:
        return {"tables": self.every}


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedColumn:
    """One column that a table should have, and what it is called in the retailer's own file."""

    name: str
    theirs: str
    required: bool
    meaning: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePage(Page):
    """One table."""

    template = "table.html"
    rail = "Data"
    name: str
    meaning: str
    state: TableState
    columns: tuple[MappedColumn, ...]
    theirs: tuple[str, ...]
    """What the columns of the present file are called."""
    declared: Table
    problems: Table
    """What the last check has found in this table."""
    is_database: bool
    """Whether the tables are in a database, so that a query is asked for instead of a file."""
    upload: str
    address: str
    placing: Typed = EMPTY
    refused: Table
    """What is wrong with the table that was pointed to."""
    mapping_error: str = ""

    def tables(self) -> Mapping[str, Table]:
        return {"columns": self.declared, "problems": self.problems}


@router.get("/data", Role.VIEWER)
def data(request: Request, shop: ShopOf) -> Response:
    states = [as_seen(request, table_state(shop, name)) for name in TABLES]
    check = _last_check(request, shop)
    here = [one for one in states if one.present]
    page = DataPage(
        title="Data",
        answer=_answer(states, check, shop),
        every=_tables(states, check),
        addresses=tuple(table_address(one.name) for one in states),
        check_address="" if check is None else job_address(check.id),
        is_ready=bool(here),
    )
    return respond(request, page)


@router.post("/data/check", Role.PLANNER)
def check_tables(request: Request, shop: ShopOf) -> Response:
    """A job looks at every row of every table."""
    return go_to(request, job_address(asked_job(shop, request, JobKind.VALIDATE, {}).id))


@router.get("/data/{table}", Role.VIEWER)
def one_table(request: Request, shop: ShopOf, table: TableName) -> Response:
    return respond(request, _page(request, shop, table))


@router.post("/data/{table}/columns", Role.PLANNER)
def columns(request: Request, shop: ShopOf, table: TableName, form: FormOf) -> Response:
    """Empty fields are columns of our own names."""
    named = {column.name: form.text(f"of_{column.name}") for column in known_table(table).columns}
    wanted = {ours: theirs for ours, theirs in named.items() if theirs and theirs != ours}
    try:
        for ours, theirs in wanted.items():
            if len(theirs) > _MOST_CHARACTERS:
                raise InputError(ours, found=f"{len(theirs)} characters", expected=f"at most {_MOST_CHARACTERS}")
            if other := next((name for name, text in named.items() if name != ours and text == theirs), None):
                raise InputError(ours, found=f"the column of {other}", expected="a column of its own")
        map_columns(shop, table, wanted)
    except (InputError, StateError) as error:
        return respond(request, _unmapped(_page(request, shop, table), named, error), status=422, part="mapping")
    return go_to(request, table_address(table), said=f"The names of the columns of {table} were saved.")


@router.post("/data/{table}/place", Role.PLANNER)
def place(request: Request, shop: ShopOf, table: TableName, form: FormOf) -> Response:
    """Let a file of the shop's folder, or a query, be the table."""
    known_table(table)
    file, query = form.text("file") or None, form.text("query") or None
    wrong = "query" if "://" in shop.settings.data else "file"
    if query is not None:
        refuse_below(request, Role.ADMIN)  # it reads whatever the retailer's database shows this program
    try:
        if file is None and query is None:
            raise InputError(wrong, found="nothing", expected=f"a {wrong}")
        found = point_to(shop, table, file=file, query=query)
    except (InputError, StateError) as error:
        refused = problems_table([one.as_dict() for one in error.problems] if isinstance(error, TableError) else [])
        words = "The table was not replaced; what is wrong stands below." if refused.rows else sentence(error)
        typed = Typed(texts={wrong: form.text(wrong)}, errors={wrong: words})
        return respond(
            request, replace(_page(request, shop, table), placing=typed, refused=refused), status=422, part="place"
        )
    rows = "" if found.rows is None else f": {counted(found.rows, 'row')}"
    return go_to(request, table_address(table), said=f"The table {table} was replaced{rows}.")


def table_address(name: str) -> str:
    return f"/data/{quote(name, safe='')}"


def _page(request: Request, shop: Shop, name: str) -> TablePage:
    schema = known_table(name)
    state, check = as_seen(request, table_state(shop, name)), _last_check(request, shop)
    mapped = shop.settings.columns.get(name, {})
    declared = {column.name for column in schema.columns}
    found = [one for one in _problems(check) if _is_about(one, name)]
    return TablePage(
        title=f"Data: {name}",
        answer=_table_answer(state, found, check, shop),
        name=name,
        meaning=schema.meaning.replace("`", ""),
        state=state,
        columns=tuple(
            MappedColumn(
                name=one.name,
                theirs=mapped.get(one.name) or one.found_as or "",
                required=one.required,
                meaning=one.meaning,
            )
            for one in state.columns
            if one.name in declared
        ),
        theirs=tuple(one.found_as for one in state.columns if one.found_as is not None),
        declared=_columns(state),
        problems=problems_table(found),
        is_database="://" in shop.settings.data,
        upload=f"/api/v1/tables/{quote(name, safe='')}",
        address=table_address(name),
        refused=problems_table(()),
    )


def _unmapped(page: TablePage, named: Mapping[str, str], error: DiscoError) -> TablePage:
    """The page with what was typed, and the sentence beside the column that it is about."""
    said = {error.what: sentence(error)}
    if isinstance(error, PlanError):
        said = {
            one.file.rpartition(".")[2]: f"Found {one.found}; expected {one.expected}. {one.fix}"
            for one in error.problems
        }
    columns = tuple(replace(one, theirs=named[one.name], error=said.get(one.name, "")) for one in page.columns)
    beside = any(one.error for one in columns)
    return replace(page, columns=columns, mapping_error="" if beside else "\n".join(said.values()))


# ---- the last check


def _last_check(request: Request, shop: Shop) -> Job | None:
    """The newest check of all tables that is done, with its result."""
    with shop.store(missing="create") as store:
        done = list_jobs(store, kind=JobKind.VALIDATE, state=JobState.DONE, limit=20).items
        of_tables = [job for job in done if not job.body.get("plan")]
        return as_seen(request, get_job(store, of_tables[0].id)) if of_tables else None


def _problems(check: Job | None) -> list[Mapping[str, Any]]:
    return [] if check is None or check.result is None else list(check.result.get("problems") or ())


def _is_about(problem: Mapping[str, Any], name: str) -> bool:
    return str(problem["file"]).rsplit("/", 1)[-1].partition(".")[0] == name


# ---- words


def _answer(states: list[TableState], check: Job | None, shop: Shop) -> str:
    here = sum(one.present for one in states)
    if not here:
        return "No table is there yet. Begin with the customers and their orders."
    words = f"{here} of {len(states)} tables {'is' if here == 1 else 'are'} there"
    return f"{words}, and nobody has checked them here yet." if check is None else f"{words}; {_checked(check, shop)}."


def _checked(check: Job, shop: Shop) -> str:
    count = len(_problems(check))
    when = local_text(check.finished_at or check.created_at, shop.settings.locale)
    return f"the check of {when} found {counted(count, 'problem') if count else 'no problem'}"


def _table_answer(state: TableState, found: list[Mapping[str, Any]], check: Job | None, shop: Shop) -> str:
    needed = [one.name for one in state.columns if one.required]
    if not state.present:
        return f"The table {state.name} is not there yet. It needs the columns {', '.join(needed)}."
    lacking = [one.name for one in state.columns if one.required and one.found_as is None]
    if lacking:
        return f"The table {state.name} lacks {', '.join(lacking)}. Say below what they are called in your file."
    rows = "The table is there" if state.rows is None else f"The table has {counted(state.rows, 'row')}"
    if check is None:
        return f"{rows}, and all columns that it needs; nobody has checked its rows here yet."
    when = local_text(check.finished_at or check.created_at, shop.settings.locale)
    return f"{rows}; the check of {when} found {counted(len(found), 'problem') if found else 'no problem'} in it."


def _tables(states: list[TableState], check: Job | None) -> Table:
    def problems(one: TableState) -> int | None:
        known = check is not None and one.present
        return sum(_is_about(problem, one.name) for problem in _problems(check)) if known else None

    return Table.of(
        "The tables of the shop",
        states,
        {
            "Table": lambda one: one.name,
            "What it holds": lambda one: SCHEMAS[one.name].meaning.replace("`", ""),
            "Where it is": lambda one: one.source or "not there",
            Column("Rows", Count()): lambda one: one.rows,
            "Columns": _complete,
            Column("Problems", Count()): problems,
        },
    )


def _complete(state: TableState) -> str:
    if not state.present:
        return ""
    lacking = [one.name for one in state.columns if one.required and one.found_as is None]
    return f"{', '.join(lacking)} not found" if lacking else "complete"


def _columns(state: TableState) -> Table:
    return Table.of(
        "The columns",
        state.columns,
        {
            "Column": lambda one: one.name,
            "In your file": lambda one: one.found_as or "not there",
            "Is it needed": lambda one: (
                "needed" if one.required else "further column" if not one.meaning else "optional"
            ),
            "What it holds": lambda one: one.meaning,
        },
    )
