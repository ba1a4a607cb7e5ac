"""The journal of everything that was written: entries that name the one before them, so that none can be changed.

Stored form, which changes only with a migration. The hash of an entry is the SHA-256, in lower-case hexadecimal digits,
of a JSON list without blanks, in ASCII:
`[number, microseconds since 1970 UTC, actor, kind of actor, action, subject, before, after, detail, previous]`,
where `detail` is the stored text and `previous` the hash of the entry before, or null for the first one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from disco.records.people import Actor

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One transaction that wrote something."""

    number: int  # from 1, without gaps
    at: datetime
    actor: Actor
    action: str  # "launch", "ingest", …
    subject: str  # a campaign, BELIEF, …
    before: str | None  # hash of the subject's state before and after; None: there was nothing
    after: str | None
    detail: str  # a JSON object: plan id, batch id, counts; customers only as keyed pseudonyms
    previous: str | None  # the hash of the entry before; None for the first
    hash: str

    @property
    def details(self) -> Mapping[str, Any]:
        read: dict[str, Any] = json.loads(self.detail)
        return read

    @property
    def is_whole(self) -> bool:
        """Whether the entry's hash is that of its content."""
        return self.hash == entry_hash(
            number=self.number,
            at=self.at,
            actor=self.actor,
            action=self.action,
            subject=self.subject,
            before=self.before,
            after=self.after,
            detail=self.detail,
            previous=self.previous,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalBreak:
    """The first place at which the journal is not what was written."""

    number: int  # of the entry
    found: str  # what is wrong with it


def entry_hash(
    *,
    number: int,
    at: datetime,
    actor: Actor,
    action: str,
    subject: str,
    before: str | None,
    after: str | None,
    detail: str,
    previous: str | None,
) -> str:
    """The hash of an entry's content and of the entry before it."""
    moment = (at - _EPOCH) // timedelta(microseconds=1)
    content = [number, moment, actor.name, str(actor.kind), action, subject, before, after, detail, previous]
    return sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def detail_text(detail: Mapping[str, Any]) -> str:
    """The detail as it is stored: JSON with sorted keys.

    >>> detail_text({"rows": 3, "batch_id": "b1"})
    '{"batch_id":"b1","rows":3}'
    """
    return json.dumps(dict(detail), separators=(",", ":"), sort_keys=True, ensure_ascii=True, allow_nan=False)
