"""The journal of everything that was written."""

from typing import Annotated

from fastapi import Query, Response

from disco.office.audit.use_cases import AuditEntry, AuditVerdict, list_journal, verify_journal
from disco.records.people import Role
from disco.web.replies import ItemPage, json_reply, page_form, reply
from disco.web.route import Routes, StoreOf

router = Routes("/api/v1", tags=["people"])
_LARGEST = 2**62


@router.get("/audit", Role.APPROVER, summary="Who wrote what, the newest last", response_model=ItemPage[AuditEntry])
def audit(
    store: StoreOf,
    limit: Annotated[int, Query(ge=1, le=1000, description="The most items of a page.")] = 100,
    cursor: Annotated[
        int | None, Query(ge=0, le=_LARGEST, description="Entries after this number; default: the last ones.")
    ] = None,
) -> Response:
    """`next` is the cursor of the page after this one; 0 begins with the first entry."""
    found = list_journal(store, after=cursor, limit=limit)
    return json_reply(page_form(found.entries, None if found.next is None else str(found.next)))


@router.get(
    "/audit/verify", Role.APPROVER, summary="Whether the journal is what was written", response_model=AuditVerdict
)
def verify(
    store: StoreOf,
    contains: Annotated[
        str | None, Query(max_length=100, description="The hash of an entry that it must have, kept elsewhere.")
    ] = None,
) -> Response:
    """`ok: false` names the first entry that is not as it was written."""
    return reply(verify_journal(store, contains=contains))
