"""The journal: one entry per transaction that wrote something, each with the hash of the one before.

Stored form, which changes only with a migration. The hash of an entry is the SHA-256, in lower-case hexadecimal digits,
of a JSON list without blanks, in ASCII:
`[number, microseconds since 1970 UTC, actor, kind of actor, action, subject, before, after, detail, previous]`,
where `detail` is the stored text and `previous` the hash of the entry before, or null for the first one.

`journal_heads` holds the last entry of every subject, sealed, so
that entries cut off at the end are missed, too. There is no single head of the whole chain: writers of different
subjects run side by side, and one row that all of them change would refuse all but one (REPEATABLE READ).

A pseudonym is the HMAC-SHA256 of a customer's id as UTF-8 text under the secret
of the name `pseudonyms`: its first 32 hexadecimal digits.
"""

import getpass
import hmac
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from disco.records.errors import SealError, StateError
from disco.records.people import Actor, ActorKind
from disco.store.database import LAST_ENTRY, Statement, add_rows, ask, change_later
from disco.store.decisions import secret_of
from disco.store.schema import journal, journal_heads, microseconds, moment_of
from disco.store.seals import any_text, row_seal, sealed
from disco.store.session import Session

PSEUDONYM_NAME = "pseudonyms"
SCHEMA_SUBJECT = "disco: schema"  # the subject of those who make or change tables
CUT = "cut"  # in the detail of an entry: the entry that its subject's head named was gone when it was written
_PSEUDONYM_DIGITS = 32
_ENTRIES_PER_FETCH = 1_000
_UNREADABLE = (ValueError, TypeError, AttributeError, StateError)  # of an entry that was changed
# as text, without the types of the columns: these refuse a changed cell, and a whole page with it
_COLUMNS = ", ".join(f'"{column.name}"' for column in journal.c)
_AFTER = sa.text(f"SELECT {_COLUMNS} FROM journal WHERE number > :after ORDER BY number LIMIT :most")
_HEAD = (
    "SELECT heads.number, heads.hash, journal.hash AS there FROM journal_heads AS heads "
    "LEFT JOIN journal ON journal.number = heads.number WHERE heads.subject = ?"
)
_SET_HEAD = (
    "INSERT INTO journal_heads (subject, number, hash, seal) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (subject) DO UPDATE SET number = excluded.number, hash = excluded.hash, seal = excluded.seal"
)


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


class SqlJournal:
    """Who wrote what and when. The store adds one entry to it at the end of a transaction that wrote something."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def note(self, **detail: Any) -> None:
        """Say more about what this transaction does: values of JSON, and of customers only their pseudonyms."""
        self._session.detail.update(detail)

    def pseudonyms(self, customers: Iterable[str]) -> list[str]:
        """What stands for customers' ids: the same for the same id, and not to be guessed without the database."""
        secret = secret_of(self._session, PSEUDONYM_NAME)
        return [hmac.digest(secret, one.encode(), "sha256").hex()[:_PSEUDONYM_DIGITS] for one in customers]

    def entries(self, *, after: int = 0, limit: int) -> tuple[JournalEntry, ...]:
        """The first entries whose numbers are larger, the newest last."""
        return tuple(map(_readable, self._connection.execute(_AFTER, {"after": after, "most": limit})))

    def last(self) -> tuple[int, str] | None:
        """The number and the hash of the last entry."""
        return last_within(self._connection)

    def contains(self, entry_hash: str) -> bool:
        """Whether there is an entry of this hash."""
        there = sa.select(journal.c.number).where(journal.c.hash == entry_hash)
        return self._connection.execute(there).first() is not None

    def first_break(self) -> JournalBreak | None:
        """The first entry that was changed, removed, put elsewhere or cut off; None: all are as written. Reads all."""
        with any_text(self._connection):
            return next(self._breaks(), None)

    def _breaks(self) -> Iterator[JournalBreak]:
        previous = None
        last: dict[str, tuple[int, str]] = {}
        for number, row in enumerate(self._rows(), 1):
            if row.number != number:
                yield JournalBreak(number=number, found="it is missing")
                return
            try:
                entry = _entry(row)
                whole, details = entry.is_whole, entry.details
            except _UNREADABLE:
                yield JournalBreak(number=number, found="it cannot be read")
                return
            if not whole:
                yield JournalBreak(number=number, found="its content is not what was written")
            if entry.previous != previous:
                yield JournalBreak(number=number, found="it does not follow the entry before it")
            if CUT in details:
                found = f"entries of {entry.subject} from {details[CUT]} on were removed before it was written"
                yield JournalBreak(number=number, found=found)
            previous = entry.hash
            last[entry.subject] = number, entry.hash
        yield from self._cut(last)

    def _rows(self) -> Iterator[Any]:
        after: Any = -(1 << 62)
        while rows := self._connection.execute(_AFTER, {"after": after, "most": _ENTRIES_PER_FETCH}).all():
            yield from rows
            after = rows[-1].number

    def _cut(self, last: Mapping[str, tuple[int, str]]) -> Iterator[JournalBreak]:
        """Where the last entries that the heads name are not the last ones that are there."""
        found: list[JournalBreak] = []
        heads = {str(row.subject): row for row in self._connection.execute(sa.select(journal_heads))}
        for subject, head in heads.items():
            there = last.get(subject)
            if there == (head.number, head.hash) and head.seal == row_seal("head", head._mapping):
                continue
            if there is None or there[0] < head.number:
                found.append(JournalBreak(number=head.number, found=f"it is missing, the last one of {subject}"))
            else:
                words = f"the head of {subject} does not name it as the last one"
                found.append(JournalBreak(number=there[0], found=words))
        found += [
            JournalBreak(number=number, found=f"the head of {subject} is missing")
            for subject, (number, _) in last.items()
            if subject not in heads
        ]
        yield from sorted(found, key=lambda one: one.number)


def append(
    connection: sa.Connection,
    last: "tuple[int, str] | None",
    *,
    actor: Actor,
    at: datetime,
    action: str,
    subject: str,
    before: str | None,
    after: str | None,
    detail: Mapping[str, Any],
    heads: "list[Any] | None" = None,
) -> None:
    """Add the entry of this transaction after the last one, of this number and hash: the last thing it does, because
    nobody else can add one until it ends (`Database.last_entry`). heads: the answer to `question_of_head`, where it was
    asked before."""
    cut = _lost_head(ask(connection, *question_of_head(subject)) if heads is None else heads)
    number, previous = (1, None) if last is None else (last[0] + 1, last[1])
    text = detail_text(detail if cut is None else {**detail, CUT: cut})
    own = entry_hash(
        number=number,
        at=at,
        actor=actor,
        action=action,
        subject=subject,
        before=before,
        after=after,
        detail=text,
        previous=previous,
    )
    add_rows(
        connection,
        journal,
        [
            {
                "number": number,
                "at": microseconds(at),
                "actor": actor.name,
                "kind": str(actor.kind),
                "action": action,
                "subject": subject,
                "before": before,
                "after": after,
                "detail": text,
                "previous": previous,
                "hash": own,
            }
        ],
    )
    head = sealed("head", {"subject": subject, "number": number, "hash": own})
    change_later(connection, _SET_HEAD, (subject, number, own, head["seal"]))


def append_own(
    connection: sa.Connection, last: "tuple[int, str] | None", *, action: str, detail: Mapping[str, Any]
) -> None:
    """Add an entry about the tables themselves, by the system user."""
    append(
        connection,
        last,
        actor=system_user(),
        at=datetime.now(UTC),
        action=action,
        subject=SCHEMA_SUBJECT,
        before=None,
        after=None,
        detail=detail,
    )


def last_within(connection: sa.Connection) -> tuple[int, str] | None:
    """The last entry that this transaction sees, for one that has made or filled the journal itself."""
    row = connection.exec_driver_sql(LAST_ENTRY).first()
    return None if row is None else (row[0], row[1])


def question_of_head(subject: str) -> Statement:
    """The question for a subject's last entry, as its head names it and as it is there."""
    return _HEAD, (subject,)


def _lost_head(heads: list[Any]) -> int | None:
    """The number of the subject's last entry, where it is gone or another one: a new head would hide that."""
    if not heads:
        return None
    number, named, there = heads[0]
    return None if named == there else int(number)


def _readable(row: Any) -> JournalEntry:
    try:
        entry = _entry(row)
        dict(entry.details)
    except _UNREADABLE:
        fix = "Run `disco audit verify`, which says what to do."
        raise SealError(
            f"Entry {row.number} of the journal was changed by something other than disco", fix=fix
        ) from None
    return entry


def _entry(row: Any) -> JournalEntry:
    kept = row._asdict()
    actor = Actor(kept.pop("actor"), ActorKind(kept.pop("kind")))
    return JournalEntry(**kept | {"at": moment_of(kept["at"])}, actor=actor)


@cache
def system_user() -> Actor:
    """By the number of the account: LOGNAME and USER say what anybody likes, and a second person may be asked for."""
    return Actor(_name(), ActorKind.COMMAND_LINE)


def _name() -> str:
    try:
        import pwd
    except ImportError:  # a system without accounts of this kind
        return getpass.getuser()
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # an account without a name, as in a container
        return f"uid {os.getuid()}"
