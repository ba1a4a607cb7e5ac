"""API keys: made, listed, revoked."""

from datetime import timedelta
from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import Field

from disco.office.keys.use_cases import ApiKey, NewKey, RevokedKey, create_key, list_keys, revoke_key
from disco.records.people import Role
from disco.web.reading import RequestBody
from disco.web.replies import Cursor, ItemPage, Limit, json_reply, page_form, page_of, reply
from disco.web.route import SECRET, ClockOf, Routes, StoreOf

router = Routes("/api/v1", tags=["people"])


class KeyRequest(RequestBody):
    """A key to be made."""

    name: str = Field(min_length=1, max_length=100, description="What it is for.")
    role: Role = Field(description="What it may do.")
    expires_days: int | None = Field(None, ge=1, le=3660, description="After how many days it is refused; null: never.")


@router.get("/keys", Role.ADMIN, summary="All keys, without their secrets", response_model=ItemPage[ApiKey])
def keys(store: StoreOf, clock: ClockOf, limit: Limit = 100, cursor: Cursor = None) -> Response:
    found, after = page_of(list_keys(store, clock).keys, limit=limit, cursor=cursor)
    return json_reply(page_form(found, after))


@router.post(
    "/keys",
    Role.ADMIN,
    summary="Make a key; it is shown once",
    status_code=201,
    response_model=NewKey,
    openapi_extra={SECRET: True},
)
def make(store: StoreOf, clock: ClockOf, body: KeyRequest) -> Response:
    expires = None if body.expires_days is None else timedelta(days=body.expires_days)
    return reply(create_key(store, name=body.name, role=body.role, expires=expires, clock=clock), status=201)


@router.delete("/keys/{key_id}", Role.ADMIN, summary="Refuse a key from now on", response_model=RevokedKey)
def revoke(store: StoreOf, clock: ClockOf, request: Request, key_id: Annotated[str, Path(max_length=100)]) -> Response:
    revoked = revoke_key(store, key_id, clock)
    request.app.state.service.callers.clear()
    return reply(revoked)
