"""Signing in: invitations that are accepted, passwords and sessions. The secrets themselves are never kept."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from disco.office.people.rows import (
    InvitationRecord,
    PeopleRows,
    PersonRecord,
    SessionRecord,
    SessionRows,
    checked_name,
)
from disco.office.people.use_cases import (
    Person,
    administrators,
    hashed,
    person_named,
    read_email,
    read_role,
    refuse_lookalike,
)
from disco.records.errors import AuthenticationError, InputError, ServiceError, StateError
from disco.records.people import Actor, ActorKind, Caller, Role, folded
from disco.records.ports import Clock
from disco.records.result import Result
from disco.store import PEOPLE, Store, Transaction

if TYPE_CHECKING:
    from argon2 import PasswordHasher

LEAST_PASSWORD_CHARACTERS = 12
MOST_PASSWORD_BYTES = 1_024
IDLE = timedelta(hours=12)
LONGEST_SESSION = timedelta(days=7)
_TOKEN_BYTES = 32
_NOTED_EVERY = timedelta(minutes=1)  # the last use of a session
_FREE_FAILURES = 5  # attempts in a row before the next one has to wait
_LONGEST_WAIT = timedelta(minutes=5)
_FAILURES_KEPT = timedelta(days=1)
_ARGON2_LACKS = (-22, -33)  # its codes for no memory and no thread
# a hash of nothing that anybody knows: compared where there is no password, so that the answer takes the same time
_NO_PASSWORD = "disco: no password"  # nosec B105


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewSession(Result):
    """Somebody who has signed in."""

    token: str
    """The secret of the session; it is shown once."""
    name: str
    """Who it is."""
    role: Role
    """Their role."""
    expires_at: datetime
    """When they have to sign in again at the latest; after 12 hours without a request it is earlier."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SignedOut(Result):
    """A session that has ended."""

    ended: bool
    """Whether there was one."""


# ---- invitations ----


def accept_invitation(store: Store, token: str, *, password: str, clock: Clock, name: str | None = None) -> Person:
    """Choose a password by an invitation, which is used up by it.

    name: of the first administrator; others have the name they were invited with.
    """
    with store.reading() as transaction:
        found = _invitation(transaction, token, clock)
    if found.name is None and name is None:
        raise InputError("name", found="nothing", expected="the name you will sign in with")
    wanted = found.name if found.name is not None else checked_name(str(name))
    kept = _hashed_password(password, name=wanted)
    with store.by(Actor(wanted, ActorKind.PERSON)).writing(PEOPLE, action="accept invitation") as transaction:
        found = _invitation(transaction, token, clock)  # it may have been used meanwhile
        known = PeopleRows(transaction).find(wanted)
        if found.name is None and (known is not None or administrators(transaction)):
            raise _no_invitation()
        if known is not None and known.issuer is not None:  # they came through their provider meanwhile
            raise _no_invitation()
        if known is None:
            refuse_lookalike(transaction, wanted)
            person = PersonRecord(
                name=wanted, role=found.role, email=found.email, password=kept, created_at=clock.now()
            )
        else:
            person = replace(known, password=kept, email=found.email or known.email)
        PeopleRows(transaction).remove_invitation(found.token_hash)
        PeopleRows(transaction).put(person)
        SessionRows(transaction).end_of(person.name)
        transaction.journal.note(name=person.name, role=person.role)
    return Person.of(person)


def _invitation(transaction: Transaction, token: str, clock: Clock) -> InvitationRecord:
    found = PeopleRows(transaction).find_invitation(hashed(token))
    if found is None or clock.now() >= found.expires_at:
        raise _no_invitation()
    return found


def _no_invitation() -> AuthenticationError:
    return AuthenticationError(
        "The invitation is not valid: it is unknown, has expired or was used",
        fix="Ask an administrator for a new one; for the first one, start the service again.",
    )


# ---- sessions ----


def sign_in(store: Store, *, name: str, password: str, clock: Clock) -> NewSession:
    """Begin a session by name and password. AuthenticationError, the same after the same work, whatever was wrong."""
    person = _known_by_password(store, name, password, clock)
    return _new_session(store, person, clock)


def sign_in_external(
    store: Store, *, issuer: str, subject: str, name: str, role: Role | str, clock: Clock, email: str | None = None
) -> NewSession:
    """Begin a session of somebody whom an identity provider knows, by issuer and subject alone.

    Who comes for the first time is kept under this name; one that somebody else has is refused, because names and
    addresses at a provider prove nothing. role: as the settings give it to them; the last administrator stays one.
    """
    given = read_role(role)
    with store.reading() as transaction:
        person = PeopleRows(transaction).find_external(issuer, subject)
    changed = person is not None and not person.disabled and person.role is not given
    if person is None or changed:
        known_as = (
            checked_name(name) if person is None else person.name
        )  # the provider's name may be somebody else's here
        with store.by(Actor(known_as, ActorKind.PERSON)).writing(PEOPLE, action="sign in externally") as transaction:
            person = PeopleRows(transaction).find_external(issuer, subject)
            if person is None:
                if PeopleRows(transaction).find(known_as) is not None:
                    raise StateError(f"There is another person named {known_as}", fix="Ask an administrator.")
                refuse_lookalike(transaction, known_as)
                person = PersonRecord(
                    name=known_as,
                    role=given,
                    email=read_email(email),
                    issuer=issuer,
                    subject=subject,
                    created_at=clock.now(),
                )
            elif given is Role.ADMIN or [one.name for one in administrators(transaction)] != [person.name]:
                person = replace(person, role=given)
            PeopleRows(transaction).put(person)
            transaction.journal.note(name=person.name, role=person.role)
    if person.disabled:
        raise AuthenticationError(f"{person.name} cannot sign in any more", fix="Ask an administrator.")
    return _new_session(store, person, clock)


def _new_session(store: Store, person: PersonRecord, clock: Clock) -> NewSession:
    token, now = token_urlsafe(_TOKEN_BYTES), clock.now()
    session = SessionRecord(
        token_hash=hashed(token), name=person.name, created_at=now, used_at=now, expires_at=now + LONGEST_SESSION
    )
    with store.by(Actor(person.name, ActorKind.PERSON)).writing(PEOPLE, action="sign in") as transaction:
        SessionRows(transaction).end_before(now=now, used_before=now - IDLE)
        SessionRows(transaction).add(session)
    return NewSession(token=token, name=person.name, role=person.role, expires_at=session.expires_at)


def caller_of_session(store: Store, token: str, clock: Clock) -> Caller:
    """Who calls with a session, and the role they have now.

    AuthenticationError, the same for an unknown, expired or idle session and for a disabled person.
    """
    now = clock.now()
    with store.reading() as transaction:
        session = SessionRows(transaction).find(hashed(token))
        person = None if session is None else PeopleRows(transaction).find(session.name)
    if session is None or person is None or person.disabled or not _is_open(session, now):
        raise AuthenticationError("You are not signed in, or your session has ended", fix="Sign in again.")
    if now - session.used_at > _NOTED_EVERY:
        with store.bookkeeping() as transaction:
            SessionRows(transaction).used(session.token_hash, at=now)
    return Caller(actor=Actor(person.name, ActorKind.PERSON), role=person.role, session_id=session.token_hash)


def _is_open(session: SessionRecord, now: datetime) -> bool:
    return now < session.expires_at and now - session.used_at < IDLE


def sign_out(store: Store, token: str) -> SignedOut:
    """End a session."""
    with store.reading() as transaction:
        session = SessionRows(transaction).find(hashed(token))
    if session is None:
        return SignedOut(ended=False)
    with store.by(Actor(session.name, ActorKind.PERSON)).writing(PEOPLE, action="sign out") as transaction:
        return SignedOut(ended=SessionRows(transaction).end(session.token_hash))


# ---- passwords ----


def change_password(
    store: Store, *, name: str, password: str, new_password: str, clock: Clock, session_id: str | None = None
) -> Person:
    """Replace a password by one who knows it; ends all other sessions. session_id: of the session that stays."""
    person = _known_by_password(store, name, password, clock)
    kept = _hashed_password(new_password, name=person.name)
    with store.by(Actor(person.name, ActorKind.PERSON)).writing(PEOPLE, action="change password") as transaction:
        person = replace(person_named(transaction, person.name), password=kept)
        PeopleRows(transaction).put(person)
        SessionRows(transaction).end_of(person.name, but=session_id)
        transaction.journal.note(name=person.name)
    return Person.of(person)


def _known_by_password(store: Store, name: str, password: str, clock: Clock) -> PersonRecord:
    """The person of this name and password. An attempt counts as failed until it has succeeded, so that many at once
    are slowed as well; whether the name is known makes no difference."""
    now = clock.now()
    with store.reading() as transaction:
        [attempt] = transaction.journal.pseudonyms([f"sign in: {folded(name[:MOST_PASSWORD_BYTES])}"])
        person = PeopleRows(transaction).find(name) if _is_storable(name) else None
    with store.bookkeeping() as transaction:
        SessionRows(transaction).forget_failures(before=now - _FAILURES_KEPT)
        failures, failed_at = SessionRows(transaction).lock_failures(attempt, at=now)
        wait = failed_at + _wait_after(failures) - now
        if wait > timedelta(0):
            raise AuthenticationError(
                "There were too many attempts to sign in under this name",
                fix=f"Try again in {int(wait.total_seconds()) + 1} seconds.",
            )
        SessionRows(transaction).set_failures(attempt, failures + 1, at=now)
    usable = person is not None and person.password is not None and not person.disabled
    try:
        kept = person.password if person is not None and usable and person.password is not None else _dummy()
        is_right = _is_password(kept, password)
    except ServiceError:  # nothing was tried, so this attempt does not count
        with store.bookkeeping() as transaction:
            counted, _ = SessionRows(transaction).lock_failures(attempt, at=now)
            SessionRows(transaction).set_failures(attempt, max(0, counted - 1), at=failed_at)
        raise
    if not is_right or person is None or not usable:
        raise _refused()
    with store.bookkeeping() as transaction:
        SessionRows(transaction).set_failures(attempt, 0, at=now)
    return person


def _wait_after(failures: int) -> timedelta:
    """1, 2, 4, … seconds after the free attempts."""
    if failures < _FREE_FAILURES:
        return timedelta(0)
    return min(timedelta(seconds=2 ** min(failures - _FREE_FAILURES, 20)), _LONGEST_WAIT)


def _refused() -> AuthenticationError:
    return AuthenticationError("Name or password is wrong, or this person cannot sign in", fix="Try again.")


def _is_storable(text: str) -> bool:
    return "\0" not in text and len(text) <= MOST_PASSWORD_BYTES


def _hashed_password(password: str, *, name: str) -> str:
    expected = f"at least {LEAST_PASSWORD_CHARACTERS} characters and at most {MOST_PASSWORD_BYTES:,} bytes"
    plain = _plain(password)
    if len(plain) < LEAST_PASSWORD_CHARACTERS or len(plain.encode("utf-8", "replace")) > MOST_PASSWORD_BYTES:
        raise InputError("password", found=f"{len(plain)} characters", expected=expected)
    if folded(plain) == folded(name) or len(set(plain)) == 1:
        raise InputError(
            "password", found="the name, or one character again and again", expected="one that is hard to guess"
        )
    with _hashing():
        return _hasher().hash(plain)


def _is_password(kept: str, password: str) -> bool:
    from argon2.exceptions import InvalidHashError, VerificationError

    plain = _plain(password)
    if len(plain.encode("utf-8", "replace")) > MOST_PASSWORD_BYTES:
        plain = ""  # no password is so long, and hashing it is work
    try:
        with _hashing():
            return bool(_hasher().verify(kept, plain))
    except (VerificationError, InvalidHashError):
        return False


@contextmanager
def _hashing() -> Iterator[None]:
    """A lack of memory or threads says nothing about a password: ServiceError, where argon2 would call it wrong."""
    from argon2.exceptions import HashingError, VerificationError
    from argon2.low_level import error_to_str

    try:
        yield
    except (HashingError, VerificationError, MemoryError) as error:
        if not isinstance(error, MemoryError) and str(error) not in map(error_to_str, _ARGON2_LACKS):
            raise
        raise ServiceError(
            "There is not enough memory to check or keep a password at the moment",
            status=503,
            kind="busy",
            fix="Try again in a minute. If this happens often, the server needs more memory.",
        ) from error


def _plain(password: str) -> str:
    """One form of letters that keyboards write differently."""
    return unicodedata.normalize("NFKC", password)


@cache
def _hasher() -> "PasswordHasher":
    """argon2id with the parameters of RFC 9106 for machines without much memory: 64 MiB, three passes."""
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _dummy() -> str:
    with _hashing():
        return _hasher().hash(_NO_PASSWORD)
