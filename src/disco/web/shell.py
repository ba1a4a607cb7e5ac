"""What every page of the console shares: who looks at it, the rail, the answer on top, files to save, and refusals.

A page is a frozen value with its template. Its route calls a use case, makes the value and hands it to `respond`:

    @router.get("/jobs", Role.VIEWER)
    def jobs(request: Request, shop: ShopOf) -> Response:
        return respond(request, JobsPage(...))

Templates extend shell.html. A part of a page that htmx replaces is a block of its template (`part="progress"`).

What a change has done is said in a sentence (`said="Campaign paused."` of `go_to` and `respond`). It travels as the
event `said` of the header HX-Trigger; console.js shows it below the answer, also where the reply leads to another page.
So no address and no cookie carries text that somebody else could have written.
"""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated, ClassVar
from urllib.parse import quote, urlsplit

from fastapi import Path, Request, Response

from disco.adapters.shop import ShopFolder
from disco.records import wording
from disco.records.errors import AuthenticationError, InputError, NotFoundError, ServiceError
from disco.records.people import Caller, Role
from disco.views.page import environment
from disco.views.table import Table
from disco.web.problems import status_of
from disco.web.route import DiscoRoute, Routes, said_of
from disco.web.security import POLICY, PUBLIC, csrf_token, session_cookie

if TYPE_CHECKING:
    import jinja2

    from disco.web.service import Service

router = Routes(is_described=False)
_HTML = "text/html; charset=utf-8"
_PARTS_OF_STYLE = (
    ("disco.views", "templates/report.css"),
    (__package__, "static/console.css"),
    (__package__, "static/planning.css"),
    (__package__, "static/results.css"),
)
_FILES = {
    "console.css": (_PARTS_OF_STYLE, "text/css; charset=utf-8"),
    "console.js": (((__package__, "static/console.js"),), "text/javascript; charset=utf-8"),
    "planner.js": (((__package__, "static/planner.js"),), "text/javascript; charset=utf-8"),
    "charts.js": ((("disco.views", "templates/charts.js"),), "text/javascript; charset=utf-8"),
    "echarts.js": ((("disco.views", "vendor/echarts.common.min.js"),), "text/javascript; charset=utf-8"),
    "htmx.js": (((__package__, "vendor/htmx.min.js"),), "text/javascript; charset=utf-8"),
}


# ---- a page ----


@dataclass(frozen=True, slots=True)
class Link:
    """Where a page leads."""

    text: str
    address: str
    is_here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The campaign or the plan that a page is about."""

    name: str
    state: str
    next_step: Link | None = None
    """What to do next."""
    tabs: tuple[Link, ...] = ()
    """The pages about it."""
    pause: str | None = None
    """The address that pauses it; None where there is nothing to pause."""
    resume: str | None = None
    """The address that ends its pause; None where it is not paused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: its subclass has what its template shows."""

    template: ClassVar[str]
    rail: ClassVar[str]
    """The entry of the rail that it belongs to."""
    title: str
    answer: str
    """The result in one sentence; everything below it is why."""
    header: Header | None = None

    def tables(self) -> Mapping[str, Table]:
        """What can be saved as a file, by the name in its address (`?table=NAME&format=csv`)."""
        return {}


@dataclass(frozen=True, slots=True)
class RailEntry:
    """An entry of the rail, for everybody whose role is enough."""

    name: str
    address: str
    needed: Role


RAIL = (
    RailEntry("Campaigns", "/campaigns", Role.VIEWER),
    RailEntry("Plans", "/plan", Role.VIEWER),
    RailEntry("Demand", "/demand", Role.VIEWER),
    RailEntry("Learning", "/learning", Role.VIEWER),
    RailEntry("Data", "/data", Role.VIEWER),
    RailEntry("Jobs", "/jobs", Role.VIEWER),
    RailEntry("Audit", "/audit", Role.APPROVER),
    RailEntry("People and keys", "/people", Role.ADMIN),
    RailEntry("Settings", "/settings", Role.PLANNER),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """What stands around a page, for whoever looks at it."""

    person: str
    role: Role
    csrf: str
    """Sent with every change, so that no other site can make one."""
    shop_name: str
    banner: str
    """What whoever looks must always know; empty for a real shop."""
    rail: tuple[RailEntry, ...]

    def may(self, needed: str) -> bool:
        """Whether the role of whoever looks is enough."""
        return self.role.allows(Role(needed))


def shell_of(request: Request) -> Shell | None:
    """Of a request that was admitted; None: nobody is known, as where people sign in."""
    service: Service[ShopFolder] = request.app.state.service
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        return None
    token = request.cookies.get(session_cookie(request, service), "")
    shop = service.shop()
    return Shell(
        person=caller.actor.name,
        role=caller.role,
        csrf=csrf_token(token) if token else "",
        shop_name=shop.folder.resolve().name,
        banner=_banner(shop),
        rail=tuple(entry for entry in RAIL if caller.role.allows(entry.needed)),
    )


def _banner(shop: ShopFolder) -> str:
    if shop.settings.simulated_days_behind is None:
        return ""
    return f"Simulated shop. It is {wording.date(shop.clock.today())} here, and its codes are worth nothing."


def respond(request: Request, page: Page, *, status: int = 200, part: str | None = None, said: str = "") -> Response:
    """The page, a file of one of its tables where the address asks for it, or the block `part` of its template.

    said: what a change has done.
    """
    wanted = request.query_params.get("table")
    if wanted is not None:
        return _file(page, wanted, request.query_params.get("format", "csv"))
    template = _environment(type(page).__module__.rpartition(".")[0]).get_template(page.template)
    shown = {"page": page, "shell": shell_of(request), "path": request.url.path}
    text = template.render(shown) if part is None else _block(template, part, shown)
    return _html(text, status, _saying(said))


def _saying(said: str) -> dict[str, str]:
    return {"hx-trigger": json.dumps({"said": said})} if said else {}


def _block(template: "jinja2.Template", name: str, shown: Mapping[str, object]) -> str:
    context = template.new_context(dict(shown))
    return "".join(template.blocks[name](context))


def _html(text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status, {"content-security-policy": POLICY, **(headers or {})}, media_type=_HTML)


def go_to(request: Request, address: str, *, said: str = "") -> Response:
    """Lead the browser to another page after a change; htmx loads it whole. said: what the change has done."""
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={"hx-redirect": address, **_saying(said)})
    return Response(status_code=303, headers={"location": address})


# ---- files ----


def _file(page: Page, name: str, kind: str) -> Response:
    tables = page.tables()
    if name not in tables:
        known = ", ".join(tables) or "no tables"
        raise NotFoundError(f"The page has no table {name[:100]}", fix=f"It has {known}.")
    file_name = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{page.title} {name}").strip("-").lower()
    headers = {"content-disposition": f'attachment; filename="{file_name}.{kind}"'}
    if kind == "csv":
        return Response(tables[name].csv().encode(), 200, headers, media_type="text/csv; charset=utf-8")
    if kind != "parquet":
        raise InputError("format", found=repr(kind[:40]), expected="csv or parquet")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(tables[name].to_arrow(), out)
    return Response(out.getvalue(), 200, headers, media_type="application/vnd.apache.parquet")


def asset(name: str) -> str:
    """The address of a file of the pages; it changes with its content, so that browsers may keep it for ever."""
    return f"/static/{name}?v={_content(name)[1]}"


@router.get("/static/{file}", PUBLIC)
async def static_file(file: Annotated[str, Path(max_length=60)]) -> Response:
    """A file of the pages: their stylesheet, their scripts."""
    if file not in _FILES:
        raise NotFoundError(f"The pages have no file {file}", fix=f"They have {', '.join(_FILES)}.")
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(_content(file)[0], 200, headers, media_type=_FILES[file][1])


@cache
def _content(name: str) -> tuple[bytes, str]:
    parts = [resources.files(package).joinpath(path).read_bytes() for package, path in _FILES[name][0]]
    content = b"\n".join(parts)
    return content, sha256(content).hexdigest()[:12]


@cache
def _environment(package: str) -> "jinja2.Environment":
    """The templates beside the pages of a package, those of features beside it, and those that all pages share."""
    made = environment(package, package.rpartition(".")[0], __package__)
    made.globals.update(asset=asset, new_key=lambda: token_urlsafe(18))
    for name in ("items", "parts"):  # as globals, because a block that is rendered alone knows no imports
        made.globals[name] = made.get_template(f"{name}.html").module
    return made


# ---- refusals ----


class PageRoute(DiscoRoute):
    """A route of a page. What it refuses is answered by a page in words."""

    def refuse(self, request: Request, error: Exception) -> Response:
        return refusal(request, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPage(Page):
    """A request that was refused, or that failed."""

    template = "refused.html"
    rail = ""
    lines: tuple[str, ...]
    """More of the sentence, line by line."""
    request_id: str


def refusal(request: Request, error: Exception) -> Response:
    """An error as a page, or as a note on the page whose change was refused."""
    is_part = "hx-request" in request.headers
    said, headers = said_of(request, error)
    if isinstance(said, AuthenticationError):
        address = f"/sign-in?then={quote(_here(request), safe='/')}"
        if is_part:
            return Response(status_code=401, headers={"hx-redirect": address})
        return Response(status_code=303 if request.method == "GET" else 401, headers={"location": address})
    if isinstance(said, ServiceError) and said.kind == "unknown-route":  # whoever reads a page knows no routes
        what, fix = "There is no page at this address", "Check the address for typing errors."
        said = ServiceError(what, status=said.status, kind=said.kind, fix=fix)
    first, *lines = str(said).splitlines()
    page = RefusedPage(
        title="This did not work",
        answer=first,
        lines=tuple(lines),
        request_id=request.scope.get("disco.request_id", ""),
    )
    shown = {"page": page, "shell": shell_of(request), "path": request.url.path}
    template = _environment(__package__).get_template(page.template)
    if is_part:
        to_note = {"hx-retarget": "#note", "hx-reswap": "innerHTML"}
        return _html(_block(template, "note", shown), status_of(said), headers | to_note)
    return _html(template.render(shown), status_of(said), headers)


def _here(request: Request) -> str:
    """The page that asked, to come back to after signing in; empty where its browser does not name one."""
    try:
        shown = urlsplit(request.headers.get("hx-current-url", "")) if "hx-request" in request.headers else request.url
    except ValueError:  # such as a host that is no address
        return ""
    return shown.path + (f"?{shown.query}" if shown.query else "")
