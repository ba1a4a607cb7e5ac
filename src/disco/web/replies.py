"""Replies: a result as JSON, a list in pages, and what a use case writes as a file, in the form that a caller accepts.

Lists come in pages: `?limit=&cursor=` gives `{"items": […], "next": cursor or null}`.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Query, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from disco.records.errors import InputError, ServiceError
from disco.records.files import temporary_folder
from disco.records.result import adapter


def reply(result: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A result's JSON form, the same that `--json` prints."""
    kind: object = type(result)
    content = adapter(kind).dump_json(result, by_alias=True)
    return Response(content, status, headers, media_type="application/json")


def json_reply(content: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Plain JSON."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return Response(text.encode(), status, headers, media_type="application/json")


# ---- lists ----

Limit = Annotated[int, Query(ge=1, le=1000, description="The most items of a page.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the page before.")]
Item = TypeVar("Item")


class ItemPage(BaseModel, Generic[Item]):
    """Some items of a list."""

    items: list[Item]
    next: str | None = Field(description="The cursor of the next page; null: this is the last.")


def cursor_of(place: object) -> str:
    """A place in a list as a text that callers hand back."""
    return urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def place_of(cursor: str | None, *, kind: type | tuple[type, ...]) -> Any:
    """The place that a cursor stands for; None for the beginning."""
    if cursor is None:
        return None
    try:
        place = json.loads(urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        place = None
    if not isinstance(place, kind) or isinstance(place, bool):
        raise InputError("cursor", found=repr(cursor[:60]), expected="`next` of the page before")
    return place


def page_of(items: Sequence[Item], *, limit: int, cursor: str | None) -> tuple[Sequence[Item], str | None]:
    """A page of a list that is at hand, and the cursor of the next."""
    start = place_of(cursor, kind=int) or 0
    if not 0 <= start <= 10**9:
        raise InputError("cursor", found=repr(str(cursor)[:60]), expected="`next` of the page before")
    end = start + limit
    return items[start:end], cursor_of(end) if end < len(items) else None


def page_form(items: Sequence[object], after: str | None, **more: Any) -> dict[str, Any]:
    """The JSON form of a page. items: results, or parts of results."""
    return {"items": [_form(one) for one in items], "next": after, **more}


def _form(item: object) -> Any:
    kind: object = type(item)
    return json.loads(adapter(kind).dump_json(item, by_alias=True))


# ---- files ----

PARQUET, CSV, JSON = "application/vnd.apache.parquet", "text/csv", "application/json"
HTML, ARCHIVE = "text/html", "application/gzip"
ENDINGS = {PARQUET: ".parquet", CSV: ".csv", JSON: ".json", HTML: ".html", ARCHIVE: ".tar.gz"}
BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
"""A file, in the OpenAPI document."""
_PART_BYTES = 1 << 20


def described(text: str, *kinds: str, **others: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route whose reply is a file of one of these kinds. others: further media types, by schema."""
    return {200: {"description": text, "content": {**dict.fromkeys(kinds, BINARY), **others}}}


def accepted(request: Request, offered: Sequence[str]) -> str:
    """What the header `Accept` asks for; the first of those offered where it does not say."""
    accept = request.headers.get("accept", "*/*")
    for part in accept.split(","):
        wanted = part.partition(";")[0].strip().lower()
        if wanted in offered:
            return wanted
        if wanted in ("*/*", "application/*", "application/octet-stream", ""):
            return offered[0]
        if wanted == "text/*" and (text := next((one for one in offered if one.startswith("text/")), None)):
            return text
    expected = " or ".join(offered)
    raise ServiceError("Accept", status=406, kind="not-acceptable", found=accept[:100], expected=expected)


def file_reply(write: Callable[[Path], object], *, name: str, kind: str) -> Response:
    """What `write` writes to a file; it is gone afterwards. name: without its ending."""
    with temporary_folder("download") as folder:
        file = folder / f"{name}{ENDINGS[kind]}"
        write(file)
        content = file.read_bytes()
    return Response(content, 200, _headers(file.name), media_type=_media_type(kind))


async def streamed_reply(
    write: Callable[[Path], object], *, name: str, kind: str, limiter: CapacityLimiter
) -> Response:
    """The same for a file that may be larger than memory. limiter: how many are written at once."""
    manager = temporary_folder("download")
    folder = await to_thread.run_sync(manager.__enter__)
    file = folder / f"{name}{ENDINGS[kind]}"
    try:
        await to_thread.run_sync(write, file, limiter=limiter)
    except BaseException:
        manager.__exit__(None, None, None)
        raise

    async def parts() -> AsyncIterator[bytes]:
        try:
            with file.open("rb") as opened:
                while part := await to_thread.run_sync(opened.read, _PART_BYTES):
                    yield part
        finally:
            manager.__exit__(None, None, None)

    headers = _headers(file.name) | {"content-length": str(file.stat().st_size)}
    return StreamingResponse(parts(), headers=headers, media_type=_media_type(kind))


def _headers(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}


def _media_type(kind: str) -> str:
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
