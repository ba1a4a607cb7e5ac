"""Drafts of plans, with revisions.

A plan is immutable, so what is written little by little is a draft. Whoever changes one says which revision they saw:
where somebody else was faster, nothing is overwritten.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from json import dumps
from typing import Any

from disco.office.drafts.rows import DraftRows
from disco.records.errors import (
    InputError,
    NotFoundError,
    RevisionError,
    RevisionMissingError,
)
from disco.records.jobs import Draft
from disco.records.plan import Plan
from disco.records.ports import Clock
from disco.records.result import Result
from disco.store import DRAFTS, Store, Transaction

MOST_DRAFT_BYTES = 1_000_000
_MOST_NAME_CHARACTERS = 100
_MOST_CHANGES = 20  # that an entry of the journal tells


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DraftList(Result):
    """The drafts of plans."""

    items: tuple[Draft, ...]
    """By name."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DeletedDraft(Result):
    """A draft that is gone."""

    name: str
    """Its name."""
    revision: int
    """The revision of its deletion; a new draft of this name goes on from there."""


def list_drafts(store: Store) -> DraftList:
    with store.reading() as transaction:
        return DraftList(items=DraftRows(transaction).all())


def get_draft(store: Store, name: str) -> Draft:
    with store.reading() as transaction:
        return _found(transaction, name)


def put_draft(store: Store, name: str, plan: Mapping[str, Any], *, if_match: int | None = None, clock: Clock) -> Draft:
    """Write a draft. if_match: the revision that the writer saw; needed where the draft exists."""
    _check_name(name)
    try:
        size = len(dumps(dict(plan), allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise InputError("draft", found=str(error), expected="a plan as JSON") from None
    if size > MOST_DRAFT_BYTES:
        raise InputError("draft", found=f"{size:,} bytes", expected=f"at most {MOST_DRAFT_BYTES:,}")
    with store.writing(DRAFTS, action="write draft") as transaction:
        before = DraftRows(transaction).find(name)
        _check_revision(before, name, if_match)
        revision = DraftRows(transaction).revision(name) + 1
        draft = Draft(name=name, revision=revision, plan=plan, changed_at=clock.now(), actor=store.actor)
        DraftRows(transaction).put(draft)
        changed = _changes({} if before is None else before.plan, plan)
        transaction.journal.note(draft=name, revision=revision, changed=changed[:_MOST_CHANGES])
        return draft


def delete_draft(store: Store, name: str, *, if_match: int | None = None, clock: Clock) -> DeletedDraft:
    """Delete a draft. if_match: the revision that was seen; needed."""
    with store.writing(DRAFTS, action="delete draft") as transaction:
        draft = _found(transaction, name)
        _check_revision(draft, name, if_match)
        gone = replace(draft, revision=draft.revision + 1, changed_at=clock.now(), actor=store.actor)
        DraftRows(transaction).delete(gone)
        transaction.journal.note(draft=name, revision=gone.revision)
        return DeletedDraft(name=name, revision=gone.revision)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], where: str = "") -> list[str]:
    """What a new revision says differently, for the journal, which keeps it for ever: keys of plans and depths, with
    the numbers of before and after. Texts may name customers, and a draft may hold any key, so neither is told.

    >>> _changes({"seed": 1, "depths": {"0.1": {"at_most": 60}}}, {"seed": 2, "depths": {"0.1": {"at_most": "5%"}}})
    ['depths 0.1 at_most', 'seed 1 → 2']
    """
    found: list[str] = []
    for key in sorted({*before, *after}, key=str):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if not (key in _plan_keys() or _is_number(key)):
            found.append(where.strip() or "another key")
        elif isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _changes(old, new, f"{where}{key} ")
        elif all(value is None or isinstance(value, bool | int | float) for value in (old, new)):
            found.append(f"{where}{key} {_shown(old)} → {_shown(new)}")
        else:
            found.append(f"{where}{key}")
    return list(dict.fromkeys(found))


def _shown(value: float | None) -> str:
    return "nothing" if value is None else str(value)


def _is_number(key: str) -> bool:
    """Whether it is a depth."""
    return str(key).replace(".", "", 1).isdecimal() and len(str(key)) < len("0.123456789")


@cache
def _plan_keys() -> frozenset[str]:
    """All keys that plans have, in all of their sections."""
    form = Plan.model_json_schema()
    return frozenset(name for part in (form, *form["$defs"].values()) for name in part.get("properties", ()))


def _found(transaction: Transaction, name: str) -> Draft:
    draft = DraftRows(transaction).find(name)
    if draft is None:
        raise NotFoundError(f"There is no draft {name}", fix="`GET /api/v1/drafts` lists them.")
    return draft


def _check_name(name: str) -> None:
    is_readable = 0 < len(name) <= _MOST_NAME_CHARACTERS and name.isprintable() and name.strip() == name
    if not is_readable or name in (".", ".."):  # which browsers take for steps of an address
        expected = f"1 to {_MOST_NAME_CHARACTERS} printable characters, without blanks at the ends, not . or .."
        raise InputError("name of a draft", found=repr(name), expected=expected)


def _check_revision(draft: Draft | None, name: str, if_match: int | None) -> None:
    if draft is None:
        if if_match is not None:
            raise RevisionError(
                f"Draft {name} does not exist, and revision {if_match} of it was expected",
                fix="Leave out If-Match to make a new draft.",
            )
        return
    if if_match is None:
        raise RevisionMissingError(
            f"Draft {name} exists, so a change has to say which revision it changes",
            fix=f"Read the draft and send If-Match; it is at revision {draft.revision}.",
        )
    if if_match != draft.revision:
        raise RevisionError(
            f"Draft {name} was changed meanwhile: it is at revision {draft.revision}, and revision {if_match} was seen",
            fix="Read it again, and repeat the change on what it says now.",
        )
