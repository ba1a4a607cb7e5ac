"""The audit journal: who wrote what and when, page by page, and whether it is what was written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request, Response

from disco.adapters.shop import ShopFolder
from disco.office.audit.use_cases import AuditEntry, AuditVerdict, list_journal, verify_journal
from disco.records.locale import Locale
from disco.records.people import ActorKind, Role
from disco.records.wording import local_text
from disco.views.formats import Count
from disco.views.table import Column, Table
from disco.web.route import Routes, ShopOf
from disco.web.shell import Page, PageRoute, respond

router = Routes(is_described=False, kind=PageRoute)
_ON_A_PAGE = 50
_LARGEST = 2**62
_HASH_CHARACTERS = 64
_DONE = {"sign in": "signed in", "sign in externally": "signed in", "sign out": "signed out"}  # about themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditJournalPage(Page):
    """A part of the journal, the newest entry first."""

    template = "audit.html"
    rail = "Audit"
    entries: Table
    query: str
    """What the address of this page asks for."""
    newer: str
    older: str
    """The addresses of the neighbouring pages; empty: there are none."""
    contains: str = ""
    """A hash that was kept elsewhere, as it was typed."""
    error: str = ""
    verdict: str = ""
    """Whether the journal is what was written; empty: nobody has asked."""
    is_whole: bool = True

    def tables(self) -> Mapping[str, Table]:
        return {"entries": self.entries}


@router.get("/audit", Role.APPROVER)
def audit(request: Request, shop: ShopOf, before: Annotated[int | None, Query(ge=1, le=_LARGEST)] = None) -> Response:
    """before: entries with smaller numbers; the newest ones where it is not given."""
    return respond(request, _page(shop, before))


@router.get("/audit/verify", Role.APPROVER)
def verify(request: Request, shop: ShopOf, contains: Annotated[str, Query(max_length=2000)] = "") -> Response:
    """Walk the whole chain."""
    typed = contains.strip()
    if typed and not (len(typed) == _HASH_CHARACTERS and all(one in "0123456789abcdefABCDEF" for one in typed)):
        error = f"This is no hash of an entry. One has {_HASH_CHARACTERS} digits and letters from a to f."
        return respond(request, _page(shop, None, contains=typed, error=error), status=422, part="verdict")
    with shop.store() as store:
        found = verify_journal(store, contains=typed or None)
    page = _page(shop, None, contains=typed, verdict=_verdict(found, typed), is_whole=found.ok)
    return respond(request, page, part="verdict" if "hx-request" in request.headers else None)


def _page(
    shop: ShopFolder,
    before: int | None,
    *,
    contains: str = "",
    error: str = "",
    verdict: str = "",
    is_whole: bool = True,
) -> AuditJournalPage:
    locale = shop.settings.locale
    with shop.store(missing="create") as store:
        last = list_journal(store, limit=1).entries
        newest = last[0].number if last else 0
        stop = newest + 1 if before is None else min(before, newest + 1)
        first = max(stop - 1 - _ON_A_PAGE, 0)
        found = list_journal(store, after=first, limit=stop - 1 - first).entries if stop - 1 > first else ()
    newer = stop + _ON_A_PAGE
    return AuditJournalPage(
        title="Audit",
        answer=_answer(last, newest, locale),
        entries=_table(found, locale),
        query="" if before is None else f"before={before}",
        newer="" if stop > newest else "/audit" if newer > newest else f"/audit?before={newer}",
        older=f"/audit?before={first + 1}" if first else "",
        contains=contains,
        error=error,
        verdict=verdict,
        is_whole=is_whole,
    )


def _answer(last: tuple[AuditEntry, ...], newest: int, locale: Locale) -> str:
    if not last:
        return "Nothing was written yet."
    entry = last[0]
    on_record = "1 change is" if newest == 1 else f"{newest:,} changes are"
    return f"{on_record} on record; the last one was made by {entry.actor} on {local_text(entry.at, locale)}."


def _entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def _verdict(found: AuditVerdict, contains: str) -> str:
    if not found.ok:
        return (
            f"Entry {found.first_bad:,} is not as it was written: {found.found}. Keep a copy of the database as it is, "
            "find out who has written to it, and restore the last backup whose journal is whole."
        )
    words = f"The journal is what was written: {_entries(found.entries)} in one chain"
    words += ", with the hash that you gave." if contains else "."
    return words if found.last is None else f"{words} Keep the hash of its last entry elsewhere: {found.last}"


def _table(found: tuple[AuditEntry, ...], locale: Locale) -> Table:
    return Table.of(
        "Entries, the newest first",
        reversed(found),
        {
            Column("Entry", Count()): lambda entry: entry.number,
            "When": lambda entry: local_text(entry.at, locale),
            "Who": _who,
            "What was done": lambda entry: _DONE.get(entry.action, entry.action),
            "To what": lambda entry: "" if entry.action in _DONE else entry.subject.removeprefix("disco: "),
            "Details": _details,
        },
    )


def _who(entry: AuditEntry) -> str:
    """People by their name; a key and the command line also by what they are."""
    return entry.actor if entry.kind == ActorKind.PERSON else f"{entry.actor} ({entry.kind})"


def _details(entry: AuditEntry) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in entry.detail.items())


def _shown(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
