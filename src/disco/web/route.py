"""One route, from the request to the reply: admitted, read strictly, answered once, every error a problem."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import unquote_plus

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from disco.adapters.sentences import in_words
from disco.adapters.shop import ShopFolder, WallClock
from disco.records.errors import DefectError, DiscoError, Problem, ServiceError, expected_of, quoted, shortened
from disco.store import Store
from disco.web.discretion import as_seen
from disco.web.limits import BoundedBody
from disco.web.logs import log, places_of
from disco.web.once import answered_once
from disco.web.problems import MEDIA_TYPE, problem_of, status_of
from disco.web.reading import read_json, refuse_unkeepable_text
from disco.web.replies import BINARY, CSV, JSON, PARQUET
from disco.web.security import PUBLIC, Needed, admitted

if TYPE_CHECKING:
    from disco.web.service import Service

JSON_TYPES = ("application/json",)
UPLOAD = "x-disco-upload"
"""In `openapi_extra` of a route that reads files: the media types of its body."""


def file_or_json(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The `openapi_extra` of a route whose body is a Parquet or CSV file, or JSON of this schema."""
    content = {JSON: {"schema": schema}, PARQUET: BINARY, CSV: BINARY}
    return {UPLOAD: (JSON, PARQUET, CSV), "requestBody": {"required": True, "content": content}}


SECRET = "x-disco-secret"  # nosec B105 - a name
"""In `openapi_extra` of a route whose reply shows a secret, once."""
ROLE = "x-disco-role"
"""In `openapi_extra` of every route: the least role that may call it."""
_MOST_LINES = 100
_RETRY_S = "1"


class _StrictRequest(Request):
    """A request whose JSON is read by `read_json`."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = await to_thread.run_sync(read_json, await self.body())
        return self._json


class DiscoRoute(APIRoute):
    """A route of the service. It cannot be made without the least role that may call it."""

    @property
    def needed(self) -> Needed:
        """The least role that may call it."""
        role: Needed = (self.openapi_extra or {})[ROLE]
        return role

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        answer = super().get_route_handler()
        method = next(iter(self.methods or ()))
        needed = self.needed
        uploads = tuple((self.openapi_extra or {}).get(UPLOAD, ()))
        secret = SECRET in (self.openapi_extra or {})

        async def handle(request: Request) -> Response:
            service: Service[Any] = request.app.state.service
            try:
                _refuse_unreadable(request)
                request.state.caller = await admitted(request, service, needed=needed)
                bounded: BoundedBody = request.scope["disco.body"]
                is_json = content_type(request) in JSON_TYPES
                bounded.allow(service.largest_body(upload=bool(uploads), is_json=is_json))
                strict = _StrictRequest(request.scope, request.receive)
                _refuse_content_type(strict, self, uploads)
                if method == "GET" or needed == PUBLIC or uploads:
                    return await answer(strict)
                return await answered_once(strict, await strict.body(), lambda: answer(strict), secret=secret)
            except Exception as error:
                return self.refuse(request, error)

        return handle

    def refuse(self, request: Request, error: Exception) -> Response:
        """The reply to a request that was refused or that failed."""
        return problem_reply(request, error)


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Routes:
    """The routes of one topic: as an APIRouter of FastAPI, but each with the least role that may call it.

    is_described: whether they stand in the OpenAPI document; pages do not.
    """

    def __init__(
        self,
        prefix: str = "",
        *,
        tags: Sequence[str] = (),
        kind: type[DiscoRoute] = DiscoRoute,
        is_described: bool = True,
    ) -> None:
        self._router = APIRouter(prefix=prefix, tags=[*tags], route_class=kind, include_in_schema=is_described)

    @property
    def routes(self) -> list[BaseRoute]:
        return self._router.routes

    def add(self, method: str, path: str, role: Needed, endpoint: Callable[..., Any], **options: Any) -> None:
        """A route; options: as those of FastAPI."""
        extra = {**options.pop("openapi_extra", {}), ROLE: role}
        self._router.add_api_route(path, endpoint, methods=[method], openapi_extra=extra, **options)

    def get(self, path: str, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._adding("GET", path, role, options)

    def post(self, path: str, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._adding("POST", path, role, options)

    def put(self, path: str, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._adding("PUT", path, role, options)

    def patch(self, path: str, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._adding("PATCH", path, role, options)

    def delete(self, path: str, role: Needed, **options: Any) -> Callable[[Endpoint], Endpoint]:
        return self._adding("DELETE", path, role, options)

    def _adding(self, method: str, path: str, role: Needed, options: dict[str, Any]) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            self.add(method, path, role, endpoint, **options)
            return endpoint

        return add


def _refuse_unreadable(request: Request) -> None:
    refuse_unkeepable_text(request.url.path, where="path")
    refuse_unkeepable_text(request.scope["path"], where="path")
    refuse_unkeepable_text(unquote_plus(request.url.query), where="query")


def _refuse_content_type(request: Request, route: APIRoute, uploads: tuple[str, ...]) -> None:
    if route.body_field is None and not uploads:
        return
    length = request.headers.get("content-length")
    if length == "0" or (length is None and "transfer-encoding" not in request.headers):
        return  # nothing is there to have a type
    known = (*(JSON_TYPES if route.body_field is not None or not uploads else ()), *uploads)
    given = content_type(request)
    if given not in known:
        found = repr(given[:100]) if given else "none"
        raise ServiceError(
            "Content-Type", status=415, kind="content-type", found=found, expected=" or ".join(dict.fromkeys(known))
        )


def content_type(request: Request, default: str = "") -> str:
    """The media type of a request's body, without parameters."""
    return request.headers.get("content-type", default).partition(";")[0].strip().lower()


def problem_reply(request: Request, error: Exception) -> Response:
    """A request that was refused or that failed, as a problem."""
    said, headers = said_of(request, error)
    instance: str = request.scope.get("disco.request_id", "")
    content = json.dumps(problem_of(said, instance=instance), ensure_ascii=False)
    return Response(content.encode("utf-8", "backslashreplace"), status_of(said), headers, media_type=MEDIA_TYPE)


def said_of(request: Request, error: Exception) -> tuple[DiscoError, dict[str, str]]:
    """An error as its caller may read it, with the headers of the reply. A defect is logged."""
    instance: str = request.scope.get("disco.request_id", "")
    headers: dict[str, str] = {}
    said = _said(error, headers)
    if isinstance(said, DefectError):
        log().error("unhandled exception", request_id=instance, **places_of(error))
        what = "This is a defect of disco or a damaged file"
        said = DefectError(what, fix=f"Its log names the request {instance} and where it failed; report it.")
    said = as_seen(request, said)
    status = status_of(said)
    if status in (429, 503):
        headers.setdefault("retry-after", _RETRY_S)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return said, headers


def _said(error: Exception, headers: dict[str, str]) -> DiscoError:
    if isinstance(error, RequestValidationError):
        return invalid(error.errors())
    if isinstance(error, HTTPException):
        if isinstance(error.__cause__, DiscoError):  # FastAPI wraps what reading a body raises
            return error.__cause__
        headers.update(error.headers or {})
        if error.status_code == 405:
            allowed = headers.get("Allow") or headers.get("allow") or "another method"
            what = "The route does not have this method"
            return ServiceError(what, status=405, kind="unknown-method", fix=f"Use {allowed}.")
        if error.status_code == 404:
            what = "There is no such route"
            return ServiceError(what, status=404, kind="unknown-route", fix="/docs lists all routes.")
        return ServiceError(str(error.detail), status=error.status_code, kind="request")
    return in_words(error)


def invalid(details: Sequence[Any], *, place: str | None = None) -> ServiceError:
    """Every field that cannot be used. place: where the fields are; None: their own first part says it."""
    problems = []
    for detail in details:
        path = [str(part) for part in detail["loc"]]
        where = path.pop(0) if place is None else place
        name = ".".join(path)
        if detail["type"] == "extra_forbidden":
            found, expected, fix = f"the key {shortened(name)}", "only keys that /docs lists", "Remove it."
        elif detail["type"] == "missing":
            found, expected, fix = "nothing", "a value", "Add the field."
        else:
            found, expected, fix = quoted(detail["input"]), expected_of(detail), "Correct the value."
        problems.append(Problem("request", where, shortened(name), found, expected, fix))
    lines = "\n".join(["The request cannot be used:", *(f"  {problem}" for problem in problems[:_MOST_LINES])])
    return ServiceError(lines, status=422, kind="request", problems=problems)


async def shop_of(request: Request) -> ShopFolder:
    """The shop, whose writes carry the caller's name."""
    service: Service[ShopFolder] = request.app.state.service
    return service.shop().by(request.state.caller.actor)


ShopOf = Annotated[ShopFolder, Depends(shop_of)]


async def store_of(shop: ShopOf) -> Store:
    """The shop's store, which a service holds open, and whose writes carry the caller's name."""
    assert shop.held_store is not None  # for the type checker
    return shop.held_store


async def clock_of(shop: ShopOf) -> WallClock:
    """The time it is in the shop."""
    return shop.clock


StoreOf = Annotated[Store, Depends(store_of)]
ClockOf = Annotated[WallClock, Depends(clock_of)]
"""What a route works on: most need the store and the time, and some the settings or the folder of the shop."""
