"""Drafts: plans that are being written, each with its revision as ETag."""

import re
from typing import Annotated, Any

from fastapi import Body, Header, Path, Response

from disco.office.drafts.use_cases import DeletedDraft, delete_draft, get_draft, list_drafts, put_draft
from disco.records.errors import InputError
from disco.records.jobs import Draft
from disco.records.people import Role
from disco.web.replies import Cursor, ItemPage, Limit, json_reply, page_form, page_of, reply
from disco.web.route import ClockOf, Routes, StoreOf

router = Routes("/api/v1", tags=["plans"])
DraftName = Annotated[str, Path(max_length=100, description="The name of the draft.")]
IfMatch = Annotated[
    str | None,
    Header(max_length=40, description="The ETag of the revision that is changed; needed for one that exists."),
]
_TAG = re.compile(r'(?:W/)?"?(\d{1,18})"?')


@router.get("/drafts", Role.PLANNER, summary="Plans that are being written", response_model=ItemPage[Draft])
def drafts(store: StoreOf, limit: Limit = 100, cursor: Cursor = None) -> Response:
    found, after = page_of(list_drafts(store).items, limit=limit, cursor=cursor)
    return json_reply(page_form(found, after))


@router.get("/drafts/{name}", Role.PLANNER, summary="A draft, with its revision as ETag", response_model=Draft)
def draft(store: StoreOf, name: DraftName) -> Response:
    return _tagged(get_draft(store, name))


@router.put("/drafts/{name}", Role.PLANNER, summary="Write a draft", response_model=Draft)
def put(
    store: StoreOf,
    clock: ClockOf,
    name: DraftName,
    body: Annotated[dict[str, Any], Body(description="The plan as far as it is written.")],
    if_match: IfMatch = None,
) -> Response:
    """412 where somebody else was faster, 428 where a draft exists and If-Match is missing."""
    return _tagged(put_draft(store, name, body, if_match=_revision(if_match), clock=clock))


@router.delete("/drafts/{name}", Role.PLANNER, summary="Delete a draft", response_model=DeletedDraft)
def delete(store: StoreOf, clock: ClockOf, name: DraftName, if_match: IfMatch = None) -> Response:
    return reply(delete_draft(store, name, if_match=_revision(if_match), clock=clock))


def _tagged(found: Draft) -> Response:
    return reply(found, headers={"etag": f'"{found.revision}"'})


def _revision(tag: str | None) -> int | None:
    if tag is None:
        return None
    found = _TAG.fullmatch(tag.strip())
    if found is None:
        raise InputError("If-Match", found=repr(tag), expected='the ETag of the draft, such as "3"')
    return int(found[1])
