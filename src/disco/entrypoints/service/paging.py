"""Lists in pages: `?limit=&cursor=` gives `{"items": […], "next": cursor or null}`."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from disco.records.errors import InputError
from disco.records.result import adapter

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
