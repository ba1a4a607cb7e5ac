"""People who can sign in, their keys, invitations and sessions: as records, and as rows of the database."""

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa

from disco.records.errors import InputError, NotFoundError
from disco.records.people import INVISIBLE, Role, folded
from disco.store import Transaction
from disco.store.database import add_rows
from disco.store.rows import from_row, to_row
from disco.store.schema import api_keys, attempts, invitations, microseconds, people, sessions

MOST_NAME_CHARACTERS = 100
_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRecord:
    """Somebody who can sign in. People are disabled and never removed, so that a name always means one person."""

    name: str
    role: Role
    created_at: datetime
    email: str | None = None
    password: str | None = field(default=None, repr=False)
    """An argon2 hash; None: they sign in through an identity provider."""
    issuer: str | None = None
    """The identity provider (OpenID Connect), and who they are there (`subject`)."""
    subject: str | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """An API key. Its secret is not kept, only a hash of it."""

    key_id: str
    name: str
    role: Role
    secret_hash: str = field(repr=False)
    """SHA-256 of the secret in hexadecimal digits: 256 random bits need no slow hash."""
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    """None: it does not expire."""
    revoked_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationRecord:
    """A one-time link with which somebody chooses a password."""

    token_hash: str = field(repr=False)
    role: Role
    invited_by: str
    created_at: datetime
    expires_at: datetime
    name: str | None = None
    """None: the first administrator, who chooses their own name."""
    email: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """Somebody who is signed in."""

    token_hash: str = field(repr=False)
    name: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime


def checked_name(name: str, *, what: str = "name") -> str:
    """A name of a person or key: 1 to 100 visible characters, without blanks around it, each word in one script.

    >>> checked_name(" Anna "), checked_name("Łukasz"), checked_name("李雷"), checked_name("Ольга (CRM)")
    ('Anna', 'Łukasz', '李雷', 'Ольга (CRM)')
    """
    text = unicodedata.normalize("NFC", str(name)).strip()
    if not 1 <= len(text) <= MOST_NAME_CHARACTERS or not text.isprintable() or INVISIBLE.search(text):
        expected = f"1 to {MOST_NAME_CHARACTERS} printable characters"
        raise InputError(what, found=ascii(str(name)[:80]), expected=expected)
    for word in re.findall(r"[^\W\d_]+", unicodedata.normalize("NFKC", text)):
        scripts = sorted({_script(letter) for letter in word if unicodedata.category(letter) != "Lm"})
        if len(scripts) > 1:
            found = f"{word!a}, with letters of {' and '.join(scripts)}"
            fix = "Such names can look like somebody else's. Write the word in one script."
            raise InputError(what, found=found, expected="words whose letters are of one script", fix=fix)
    return text


def _script(letter: str) -> str:
    """The script of a letter, as its name in Unicode begins; scripts that are written together count as one."""
    first = unicodedata.name(letter, "UNKNOWN").split()[0].split("-")[0]
    return "CJK" if first in _EAST_ASIAN else first


class PeopleRows:
    """People who can sign in, API keys, and invitations that were not used yet. SealError where one was changed."""

    def __init__(self, transaction: Transaction) -> None:
        self._session = transaction.session

    # ---- people

    def put(self, person: PersonRecord) -> None:
        """Keep a person, new or changed. StateError where another one has this name, in any capitals."""
        row = {**to_row(person), "folded": folded(person.name)}
        for kept in self._session.raw(people, "name", person.name):
            self._session.remove(people, kept)
        self._session.add(people, row)

    def find(self, name: str) -> PersonRecord | None:
        """By name, in any capitals."""
        return self._session.record(PersonRecord, people, people.c.folded == folded(name))

    def find_external(self, issuer: str, subject: str) -> PersonRecord | None:
        """By who they are at an identity provider."""
        return self._session.record(PersonRecord, people, people.c.issuer == issuer, people.c.subject == subject)

    def all(self) -> tuple[PersonRecord, ...]:
        """By name."""
        return tuple(sorted(self._session.records(PersonRecord, people), key=lambda person: person.name))

    # ---- keys

    def add_key(self, key: KeyRecord) -> None:
        self._session.add(api_keys, to_row(key))

    def find_key(self, key_id: str) -> KeyRecord | None:
        return self._session.record(KeyRecord, api_keys, api_keys.c.key_id == key_id)

    def key(self, beginning: str) -> KeyRecord:
        """By its id, or by four or more characters of its beginning where these name a single key."""
        none = NotFoundError(f"There is no key {beginning}", fix="`disco keys list` lists the keys.")
        return self._session.record_beginning(KeyRecord, api_keys.c.key_id, beginning, none=none)

    def keys(self) -> tuple[KeyRecord, ...]:
        """By the time they were made, with those that are no longer valid."""
        return self._session.records(KeyRecord, api_keys, order=(api_keys.c.created_at, api_keys.c.key_id))

    def revoke_key(self, key_id: str, *, at: datetime) -> None:
        found = self._session.raw(api_keys, "key_id", key_id)
        if not found:
            raise NotFoundError(f"There is no key {key_id}")
        self._session.set(api_keys, found[0], revoked_at=at)

    # ---- invitations

    def add_invitation(self, invitation: InvitationRecord) -> None:
        self._session.add(invitations, to_row(invitation))

    def find_invitation(self, token_hash: str) -> InvitationRecord | None:
        return self._session.record(InvitationRecord, invitations, invitations.c.token_hash == token_hash)

    def invitations(self) -> tuple[InvitationRecord, ...]:
        """By the time they were made."""
        return self._session.records(InvitationRecord, invitations, order=(invitations.c.created_at,))

    def remove_invitation(self, token_hash: str) -> None:
        for row in self._session.raw(invitations, "token_hash", token_hash):
            self._session.remove(invitations, row)


class SessionRows:
    """Who is signed in, and failed attempts to; no backup holds them."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.session.connection

    def add(self, session: SessionRecord) -> None:
        add_rows(self._connection, sessions, [to_row(session)])

    def find(self, token_hash: str) -> SessionRecord | None:
        rows = sa.select(sessions).where(sessions.c.token_hash == token_hash)
        row = self._connection.execute(rows).mappings().one_or_none()
        return None if row is None else from_row(SessionRecord, row)

    def used(self, token_hash: str, *, at: datetime) -> None:
        self._connection.execute(sessions.update().where(sessions.c.token_hash == token_hash).values(used_at=at))

    def end(self, token_hash: str) -> bool:
        """Whether there was one."""
        ended = self._connection.execute(sessions.delete().where(sessions.c.token_hash == token_hash))
        return ended.rowcount == 1

    def end_of(self, name: str, *, but: str | None = None) -> None:
        """All sessions of a person, but perhaps one."""
        others = sa.true() if but is None else sessions.c.token_hash != but
        self._connection.execute(sessions.delete().where(sessions.c.name == name, others))

    def end_before(self, *, now: datetime, used_before: datetime) -> None:
        """Sessions that have expired, or that nobody has used since a moment."""
        over = sa.or_(sessions.c.expires_at <= now, sessions.c.used_at < used_before)
        self._connection.execute(sessions.delete().where(over))

    def lock_failures(self, name_hash: str, *, at: datetime) -> tuple[int, datetime]:
        """Failed attempts in a row under a name, and when the last one was; others wait until this transaction ends.

        at: said where there were none.
        """
        there = sa.text(
            "INSERT INTO attempts (name_hash, failures, failed_at) VALUES (:name_hash, 0, :at) ON CONFLICT DO NOTHING"
        )
        self._connection.execute(there, {"name_hash": name_hash, "at": microseconds(at)})
        row = self._connection.execute(
            sa.select(attempts).where(attempts.c.name_hash == name_hash).with_for_update()
        ).one()
        return row.failures, row.failed_at

    def set_failures(self, name_hash: str, failures: int, *, at: datetime) -> None:
        changed = attempts.update().where(attempts.c.name_hash == name_hash)
        self._connection.execute(changed.values(failures=failures, failed_at=at))

    def forget_failures(self, *, before: datetime) -> None:
        self._connection.execute(attempts.delete().where(attempts.c.failed_at < before))
