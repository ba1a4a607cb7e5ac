"""API keys: made, listed, revoked, and checked when somebody calls with one."""

import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_hex, token_urlsafe

from disco.office.people.rows import KeyRecord, PeopleRows, checked_name
from disco.office.people.use_cases import hashed, read_role, refuse_lookalike, withdraw_invitations
from disco.records.errors import AuthenticationError, InputError
from disco.records.people import Actor, ActorKind, Caller, Role
from disco.records.ports import Clock
from disco.records.result import Result
from disco.store import PEOPLE, Store

_PREFIX = "disco"
_ID_BYTES = 6
_SECRET_BYTES = 32
MOST_DAYS = 3_660
_NO_HASH = "0" * 64  # compared where there is no such key, so that the answer takes the same time


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NewKey(Result):
    """A new API key. It is shown once and cannot be read again."""

    id: str
    """The id of the key, by which it is listed and revoked."""
    key: str
    """The key itself, for `Authorization: Bearer KEY`."""
    name: str
    """What it is for; stands in the audit journal beside everything that is done with it."""
    role: Role
    """viewer, planner, approver or admin."""
    expires_at: datetime | None
    """From when on it is refused; null: never."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ApiKey(Result):
    """An API key, without its secret."""

    id: str
    """The id of the key."""
    name: str
    """What it is for."""
    role: Role
    """viewer, planner, approver or admin."""
    created_by: str
    """Who made it."""
    created_at: datetime
    """When it was made."""
    expires_at: datetime | None
    """From when on it is refused; null: never."""
    revoked_at: datetime | None
    """When it was revoked; null: it was not."""
    valid: bool
    """Whether it can be used now."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Keys(Result):
    """All API keys, the oldest first."""

    keys: tuple[ApiKey, ...]
    """The keys, also those that are no longer valid."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RevokedKey(Result):
    """An API key that is refused from now on."""

    id: str
    """The id of the key."""
    name: str
    """What it was for."""
    revoked_at: datetime
    """When it was revoked."""
    again: bool
    """Whether it had been revoked before, so that nothing was written now."""


def create_key(store: Store, *, name: str, role: Role | str, expires: timedelta | None, clock: Clock) -> NewKey:
    """Make an API key. Only its hash is kept.

    expires: after how long it is refused; None: never.
    """
    if expires is not None and not timedelta(0) < expires <= timedelta(days=MOST_DAYS):
        raise InputError("expires", found=str(expires), expected=f"more than 0 and at most {MOST_DAYS:,} days")
    now, secret = clock.now(), token_urlsafe(_SECRET_BYTES)
    record = KeyRecord(
        key_id=token_hex(_ID_BYTES),
        name=checked_name(name),
        role=read_role(role),
        secret_hash=hashed(secret),
        created_by=store.actor.name,
        created_at=now,
        expires_at=None if expires is None else now + expires,
    )
    with store.writing(PEOPLE, action="create key") as transaction:
        refuse_lookalike(transaction, record.name)
        PeopleRows(transaction).add_key(record)
        transaction.journal.note(key_id=record.key_id, name=record.name, role=record.role)
    return NewKey(
        id=record.key_id,
        key=f"{_PREFIX}_{record.key_id}_{secret}",
        name=record.name,
        role=record.role,
        expires_at=record.expires_at,
    )


def list_keys(store: Store, clock: Clock) -> Keys:
    """All keys without their secrets."""
    with store.reading() as transaction:
        found = PeopleRows(transaction).keys()
    now = clock.now()
    return Keys(
        keys=tuple(
            ApiKey(
                id=key.key_id,
                name=key.name,
                role=key.role,
                created_by=key.created_by,
                created_at=key.created_at,
                expires_at=key.expires_at,
                revoked_at=key.revoked_at,
                valid=key.is_valid(now),
            )
            for key in found
        )
    )


def revoke_key(store: Store, key_id: str, clock: Clock) -> RevokedKey:
    """Refuse a key from now on; by its id or four or more characters of its beginning."""
    with store.writing(PEOPLE, action="revoke key") as transaction:
        key = PeopleRows(transaction).key(key_id)
        at = key.revoked_at or clock.now()
        if key.revoked_at is None:
            PeopleRows(transaction).revoke_key(key.key_id, at=at)
            withdraw_invitations(transaction, by=key.name)
            transaction.journal.note(key_id=key.key_id, name=key.name)
    return RevokedKey(id=key.key_id, name=key.name, revoked_at=at, again=key.revoked_at is not None)


def caller_of_key(store: Store, text: str, clock: Clock) -> Caller:
    """Who calls with a key. AuthenticationError, the same after the same work, for an unknown, wrong, expired or
    revoked one."""
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    with store.reading() as transaction:
        key = PeopleRows(transaction).find_key(key_id if _is_plain(key_id) else "")
    same = hmac.compare_digest(hashed(secret), _NO_HASH if key is None else key.secret_hash)
    if key is None or not same or prefix != _PREFIX or not key.is_valid(clock.now()):
        raise AuthenticationError(
            "The API key is not valid: it is unknown, has expired or was revoked",
            fix="Ask an administrator for a new one (`disco keys create`).",
        )
    return Caller(actor=Actor(key.name, ActorKind.KEY), role=key.role)


def _is_plain(text: str) -> bool:
    """Whether it could be the id of a key; a database need not be asked about other texts."""
    return text.isascii() and text.isalnum() and len(text) <= 4 * _ID_BYTES
