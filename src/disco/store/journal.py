"""The journal: one entry per transaction that wrote something, each with the hash of the one before.

Stored form, which changes only with a migration. The hash of an entry is the SHA-256, in lower-case hexadecimal digits,
of a JSON list without blanks, in ASCII:
`[number, microseconds since 1970 UTC, actor, kind of actor, action, subject, before, after, detail, previous]`,
where `detail` is the stored text and `previous` the hash of the entry before, or null for the first one.

`before` and `after` are the state of the subject's rows (`rows.state_of`), for who writes alone that of all owners. The
hash of an entry is its seal: their sum by subject is a tally as that of every table, so entries cut off at the end are
missed, too. There is no single head of the whole chain: writers of different subjects run side by side, and one row
that all of them change would refuse all but one (REPEATABLE READ).

A pseudonym is the HMAC-SHA256 of a customer's id as UTF-8 text under the secret
of the name `pseudonyms`: its first 32 hexadecimal digits.
"""

import getpass
import hmac
import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from disco.records.errors import SealError, StateError
from disco.records.people import Actor, ActorKind
from disco.store.database import LAST_ENTRY, Statement, add_rows, any_text, ask, change_later, update_of, words
from disco.store.rows import JOURNAL, PSEUDONYMS, Session, as_text, number_of, plus, state_of, state_of_all, sum_of
from disco.store.schema import EVERYTHING, journal, microseconds, moment_of, tallies

SCHEMA_SUBJECT = "disco: schema"  # the subject of those who make or change tables
_PSEUDONYM_DIGITS = 32
_ENTRIES_PER_FETCH = 1_000
_ALL_TALLIES = words(sa.select(tallies))
_SET_TALLY = update_of(tallies, ("tally",), ("owner", "name"))
_UNREADABLE = (ValueError, TypeError, AttributeError, StateError)  # of an entry that was changed
# as text, without the types of the columns: these refuse a changed cell, and a whole page with it
_COLUMNS = ", ".join(f'"{column.name}"' for column in journal.c)
_AFTER = sa.text(f"SELECT {_COLUMNS} FROM journal WHERE number > :after ORDER BY number LIMIT :most")
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
        secret = self._session.secret(PSEUDONYMS)
        return [hmac.digest(secret, one.encode(), "sha256").hex()[:_PSEUDONYM_DIGITS] for one in customers]

    def entries(self, *, after: int = 0, limit: int) -> tuple[JournalEntry, ...]:
        """The first entries whose numbers are larger, the newest last."""
        return tuple(map(_readable, self._connection.execute(_AFTER, {"after": after, "most": limit})))

    def noted(self, subject: str, action: str) -> list[Mapping[str, Any]]:
        """What the entries of this action about a subject say, the oldest first."""
        there = sa.select(journal.c.detail).where(journal.c.subject == subject, journal.c.action == action)
        return [json.loads(text) for text in self._connection.execute(there.order_by(journal.c.number)).scalars()]

    def last(self) -> tuple[int, str] | None:
        """The number and the hash of the last entry."""
        return last_within(self._connection)

    def contains(self, entry_hash: str) -> bool:
        """Whether there is an entry of this hash."""
        there = sa.select(journal.c.number).where(journal.c.hash == entry_hash)
        return self._connection.execute(there).first() is not None

    def first_break(self) -> JournalBreak | None:
        """The first entry that was changed, removed, put elsewhere or cut off, or that says something else than the
        rows that are there; None: all are as written. Reads all entries and all tallies."""
        with any_text(self._connection):
            return min(self._breaks(), key=lambda one: one.number, default=None)

    def _breaks(self) -> Iterator[JournalBreak]:
        """Those of the chain, up to the first one; then those of what the chain leads to."""
        previous = None
        entries: list[JournalEntry] = []
        for number, row in enumerate(self._rows(), 1):
            if row.number != number:
                yield JournalBreak(number=number, found="it is missing")
                return
            try:
                entry = _entry(row)
                whole = entry.is_whole
                dict(entry.details)
            except _UNREADABLE:
                yield JournalBreak(number=number, found="it cannot be read")
                return
            if not whole:
                yield JournalBreak(number=number, found="its content is not what was written")
                return
            if entry.previous != previous:
                yield JournalBreak(number=number, found="it does not follow the entry before it")
                return
            previous = entry.hash
            entries.append(entry)
        yield from self._other_than(entries)

    def _other_than(self, entries: list[JournalEntry]) -> Iterator[JournalBreak]:
        """Where entries are missing, or the tallies are not those that the entries left: replayed from the last entry
        to the first, because each knows the state before it."""
        now = all_tallies(self._connection)
        hashes, last = defaultdict[str, list[str]](list), dict[str, int]()
        for entry in entries:
            hashes[entry.subject].append(entry.hash)
            last[entry.subject] = entry.number
        subjects = sorted({*hashes, *now})
        incomplete = [one for one in subjects if sum_of(hashes[one]) != now.get(one, {}).get(JOURNAL, 0)]
        for subject in incomplete:
            yield _missing(subject, last.get(subject, len(entries)))
        states: dict[str, str | None] | None = {owner: state_of(tallies) for owner, tallies in now.items()}
        known: dict[str, str | None] = {}
        for entry in reversed(entries):
            about = entry.subject
            if about == EVERYTHING:
                same = states is None or entry.after == state_of_all({**states, **known})
                states, known = None, {}  # what each owner was before is in no other entry
            else:
                same = entry.after == known.get(about, entry.after if states is None else states.get(about))
                known[about] = entry.before
            if not same and about in incomplete:
                yield _missing(about, entry.number)
            elif not same:
                yield JournalBreak(number=entry.number, found="the rows that it left are not those that are there")

    def _rows(self) -> Iterator[Any]:
        after: Any = -(1 << 62)
        while rows := self._connection.execute(_AFTER, {"after": after, "most": _ENTRIES_PER_FETCH}).all():
            yield from rows
            after = rows[-1].number


def _missing(subject: str, last: int) -> JournalBreak:
    return JournalBreak(number=last + 1, found=f"an entry of {subject} after entry {last} is missing")


def append(
    session: Session,
    last: tuple[int, str] | None,
    *,
    actor: Actor,
    at: datetime,
    action: str,
    subject: str,
    found: Mapping[str, Mapping[str, int]],
) -> None:
    """Add the entry of this transaction after the last one, of this number and hash, and write the tallies that it
    leaves: the last thing it does, because nobody else can add an entry until it ends (`Database.last_entry`).

    found: the tallies before it, as `question_of_tallies` asks for them. Whoever has written rows of other owners than
    the subject, without being alone, has an entry about each of them.
    """
    left = _left(session, found)
    others = {*session.growth} - {subject} if subject != EVERYTHING else ()
    for about in (subject, *sorted(others, key=lambda owner: (owner == EVERYTHING, owner))):
        number, previous = (1, None) if last is None else (last[0] + 1, last[1])
        before, after, detail = _state(about, found), _state(about, left), detail_text(session.detail)
        own = entry_hash(
            number=number,
            at=at,
            actor=actor,
            action=action,
            subject=about,
            before=before,
            after=after,
            detail=detail,
            previous=previous,
        )
        entry = {
            "number": number,
            "at": microseconds(at),
            "actor": actor.name,
            "kind": str(actor.kind),
            "action": action,
            "subject": about,
            "before": before,
            "after": after,
            "detail": detail,
            "previous": previous,
            "hash": own,
        }
        add_rows(session.connection, journal, [entry])
        last = number, own
        of_subject = left.setdefault(about, {})
        of_subject[JOURNAL] = plus(of_subject.get(JOURNAL, 0), number_of(own))
    _write_tallies(session.connection, found, left)


def _left(session: Session, found: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """The tallies after what a transaction has written."""
    left = {owner: dict(tallies_of) for owner, tallies_of in found.items()}
    for owner, growth in session.growth.items():
        of_owner = left.setdefault(owner, {})
        of_owner.update({name: plus(of_owner.get(name, 0), more) for name, more in growth.items()})
    return left


def write_tallies(session: Session) -> None:
    """Write the tallies of the first rows of a database, which have no entry."""
    _write_tallies(session.connection, {}, _left(session, {}))


def _state(subject: str, tallies_of: Mapping[str, Mapping[str, int]]) -> str | None:
    if subject != EVERYTHING:
        return state_of(tallies_of.get(subject, {}))
    return state_of_all({owner: state_of(one) for owner, one in tallies_of.items()})


def _write_tallies(
    connection: sa.Connection, before: Mapping[str, Mapping[str, int]], left: Mapping[str, Mapping[str, int]]
) -> None:
    for owner, tallies_of in left.items():
        for name, tally in tallies_of.items():
            known = before.get(owner, {})
            if name not in known:
                add_rows(connection, tallies, [{"owner": owner, "name": name, "tally": as_text(tally)}])
            elif known[name] != tally:
                change_later(connection, _SET_TALLY, (as_text(tally), owner, name))


def question_of_tallies(subject: str, others: Collection[str]) -> Statement:
    """For those of a subject and of other owners; of all owners for who writes alone. `tallies_in` reads the answer."""
    owners = tuple(dict.fromkeys((subject, *others)))
    if EVERYTHING in owners:
        return _ALL_TALLIES, ()
    return _tallies_of(len(owners)), owners


@cache
def _tallies_of(owners: int) -> str:
    named: list[Any] = [sa.bindparam(f"owner_{place}") for place in range(owners)]
    return words(sa.select(tallies).where(tallies.c.owner.in_(named)))


def tallies_in(answer: Iterable[Any]) -> dict[str, dict[str, int]]:
    """By owner and table."""
    found: dict[str, dict[str, int]] = {}
    for owner, name, tally in answer:
        found.setdefault(str(owner), {})[str(name)] = number_of(tally)
    return found


def all_tallies(connection: sa.Connection) -> dict[str, dict[str, int]]:
    return tallies_in(ask(connection, _ALL_TALLIES))


def append_own(session: Session, last: "tuple[int, str] | None", *, action: str, detail: Mapping[str, Any]) -> None:
    """Add an entry about the tables themselves, by the system user."""
    session.detail.update(detail)
    append(
        session,
        last,
        actor=system_user(),
        at=datetime.now(UTC),
        action=action,
        subject=SCHEMA_SUBJECT,
        found=tallies_in(ask(session.connection, *question_of_tallies(SCHEMA_SUBJECT, ()))),
    )


def last_within(connection: sa.Connection) -> tuple[int, str] | None:
    """The last entry that this transaction sees, for one that has made or filled the journal itself."""
    rows = ask(connection, LAST_ENTRY)
    return (rows[0][0], rows[0][1]) if rows else None


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
