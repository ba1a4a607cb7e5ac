"""The audit journal: what was written, by whom and when; and whether it is what was written."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from disco.records.arguments import read_count
from disco.records.errors import InputError
from disco.records.people import ActorKind
from disco.records.result import Result
from disco.store import PEOPLE, Store
from disco.store.journal import JournalEntry

MOST_ENTRIES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AuditEntry(Result):
    """One transaction that wrote something."""

    number: int
    """Its place in the journal, from 1 without gaps."""
    at: datetime
    """When it was written, by the clock of the shop."""
    actor: str
    """Who wrote: a person, a key, or a user of the system."""
    kind: ActorKind
    """person, key, command line, schedule or worker."""
    action: str
    """What was done: launch, ingest, learn, pause, approve, …"""
    subject: str
    """The campaign; or `main` (the model), `disco: people`, `disco: everything`, …"""
    before: str | None
    """Hash of the subject's state before; null: there was nothing."""
    after: str | None
    """Hash of the subject's state after; null: there is nothing."""
    detail: Mapping[str, Any]
    """Plan id, batch id, counts, …; customers only by keyed pseudonyms."""
    hash: str
    """SHA-256 of this entry and of the one before it."""

    @classmethod
    def of(cls, entry: JournalEntry) -> "AuditEntry":
        return cls(
            number=entry.number,
            at=entry.at,
            actor=entry.actor.name,
            kind=entry.actor.kind,
            action=entry.action,
            subject=entry.subject,
            before=entry.before,
            after=entry.after,
            detail=entry.details,
            hash=entry.hash,
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AuditPage(Result):
    """A part of the journal, the newest entry last."""

    entries: tuple[AuditEntry, ...]
    """The entries, by number."""
    next: int | None
    """The number to continue after; null: there are no more entries."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AuditVerdict(Result):
    """Whether the journal is what was written."""

    ok: bool
    """Whether every entry is there, unchanged and in its place."""
    entries: int
    """Entries that are there."""
    last: str | None
    """The hash of the last entry. Kept elsewhere, it proves later that nothing up to it was changed."""
    first_bad: int | None
    """The number of the first entry that is not as it was written; null: none."""
    found: str | None
    """What is wrong with it; null: nothing."""


def note_file(store: Store, name: str, content_hash: str, *, action: str, **detail: Any) -> None:
    """Add an entry about a file beside the database that was changed. Its hash (SHA-256) is kept as a setting, so the
    states before and after name it."""
    with store.writing(PEOPLE, action=action) as transaction:
        transaction.settings.put(f"hash of {name}", content_hash)
        transaction.journal.note(file=name, sha256=content_hash, **detail)


def list_journal(store: Store, *, after: int | None = None, limit: int = 50) -> AuditPage:
    """A part of the journal.

    after: entries whose numbers are larger; None: the last `limit` entries.
    """
    read_count(limit, where="limit")
    if limit > MOST_ENTRIES:
        raise InputError("limit", found=limit, expected=f"at most {MOST_ENTRIES:,}")
    with store.reading() as transaction:
        last = transaction.journal.last()
        newest = 0 if last is None else last[0]
        start = max(newest - limit, 0) if after is None else read_count(after, where="after", least=0)
        found = transaction.journal.entries(after=start, limit=limit)
    more = bool(found) and found[-1].number < newest
    return AuditPage(entries=tuple(map(AuditEntry.of, found)), next=found[-1].number if more else None)


def verify_journal(store: Store, *, contains: str | None = None) -> AuditVerdict:
    """Walk the whole chain.

    contains: the hash of an entry that was noted down earlier; the journal must have it.
    """
    with store.reading() as transaction:
        wrong, last = transaction.journal.first_break(), transaction.journal.last()
        lost = contains is not None and not transaction.journal.contains(contains.strip().lower())
    entries, last_hash = (0, None) if last is None else last
    number, found = (None, None) if wrong is None else (wrong.number, wrong.found)
    if wrong is None and lost:
        number, found = entries + 1, f"no entry has the hash {str(contains)[:64]}"
    return AuditVerdict(
        ok=number is None,
        entries=entries,
        last=last_hash,
        first_bad=number,
        found=found,
    )
