"""Replies that are files: the form that a caller accepts, and what a use case writes, as an attachment."""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import Request, Response
from starlette.responses import StreamingResponse

from disco.records.errors import ServiceError
from disco.records.private import temporary_folder

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
