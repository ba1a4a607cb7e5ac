"""People: invited, listed, given another role, disabled. The secrets themselves are never kept."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_urlsafe

from disco.office.people.rows import InvitationRecord, PeopleRows, PersonRecord, SessionRows, checked_name
from disco.records.errors import InputError, NotFoundError, StateError
from disco.records.people import Role, folded, is_same_name
from disco.records.ports import Clock
from disco.records.result import NotInJson, Result
from disco.store import PEOPLE, Store, Transaction

FIRST_INVITATION = timedelta(hours=24)
INVITATION = timedelta(hours=72)
_MOST_EMAIL_CHARACTERS = 254
DEMO_ISSUER = "disco serve --demo"  # who vouches for the operator of a simulated shop
_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Person(Result):
    """Somebody who can sign in."""

    name: str
    """The name they sign in with; stands in the audit journal."""
    role: Role
    """viewer, planner, approver or admin."""
    email: str | None
    """Their e-mail address; null: not known."""
    external: bool
    """Whether they sign in through an identity provider."""
    disabled: bool
    """Whether they cannot sign in any more."""
    created_at: datetime
    """Since when they are known."""
    by_demo: NotInJson[bool] = False
    """Whether they sign in by the link of the demo."""

    @classmethod
    def of(cls, record: PersonRecord) -> "Person":
        return cls(
            name=record.name,
            role=record.role,
            email=record.email,
            external=record.issuer is not None,
            disabled=record.disabled,
            created_at=record.created_at,
            by_demo=record.issuer == DEMO_ISSUER,
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OpenInvitation(Result):
    """Somebody who was invited and has not come yet."""

    name: str | None
    """Their name; null: the first administrator, who chooses it."""
    role: Role
    """The role they will have."""
    invited_by: str
    """Who invited them."""
    expires_at: datetime
    """From when on the link is refused."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class People(Result):
    """Everybody who can sign in, by name."""

    people: tuple[Person, ...]
    """The people, also those who are disabled."""
    invitations: tuple[OpenInvitation, ...]
    """Invitations that were not used yet."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Invitation(Result):
    """A one-time link with which somebody chooses a password. It is shown once."""

    token: str
    """The secret part of the link."""
    name: str | None
    """Who is invited; null: the first administrator, who chooses their name."""
    role: Role
    """The role they will have."""
    expires_at: datetime
    """From when on it is refused."""


def list_people(store: Store, clock: Clock) -> People:
    """Everybody who can sign in, and invitations that are still valid."""
    with store.reading() as transaction:
        people, invitations = PeopleRows(transaction).all(), PeopleRows(transaction).invitations()
    return People(
        people=tuple(map(Person.of, people)),
        invitations=tuple(
            OpenInvitation(name=one.name, role=one.role, invited_by=one.invited_by, expires_at=one.expires_at)
            for one in invitations
            if clock.now() < one.expires_at
        ),
    )


def change_person(store: Store, name: str, *, role: Role | str | None = None, disabled: bool | None = None) -> Person:
    """Give somebody another role, or let them sign in no more. The last administrator stays one."""
    wanted = None if role is None else read_role(role)
    with store.writing(PEOPLE, action="change person") as transaction:
        known = person_named(transaction, name)
        person = replace(
            known,
            role=known.role if wanted is None else wanted,
            disabled=known.disabled if disabled is None else disabled,
        )
        if person != known:
            PeopleRows(transaction).put(person)
            if not administrators(transaction) and known.role is Role.ADMIN:
                raise StateError(
                    f"{known.name} is the last administrator", fix="Make somebody else an administrator first."
                )
            if person.disabled:
                SessionRows(transaction).end_of(person.name)
            if person.disabled or person.role is not Role.ADMIN:
                withdraw_invitations(transaction, by=person.name)
            transaction.journal.note(name=person.name, role=person.role, disabled=person.disabled)
    return Person.of(person)


def first_invitation(store: Store, clock: Clock) -> Invitation | None:
    """The link of the first administrator, in the place of an earlier one; None where there is an administrator."""
    with store.writing(PEOPLE, action="invite") as transaction:
        if administrators(transaction):
            return None
        return _invited(store, transaction, None, Role.ADMIN, None, clock.now() + FIRST_INVITATION, clock)


def invite(store: Store, *, name: str, role: Role | str, clock: Clock, email: str | None = None) -> Invitation:
    """Invite somebody, in the place of an earlier invitation of this name; who is known gets a new password by it.

    Somebody who is known keeps the role they have: `change_person` changes it.
    """
    wanted, asked, address = checked_name(name), read_role(role), read_email(email)
    with store.writing(PEOPLE, action="invite") as transaction:
        known = PeopleRows(transaction).find(wanted)
        if known is not None and known.role is not asked:
            raise StateError(
                f"{known.name} is known as {known.role}", fix="Invite them with this role, or change their role first."
            )
        if known is not None and known.issuer is not None:
            raise StateError(f"{known.name} signs in through an identity provider and has no password")
        if known is None:
            refuse_lookalike(transaction, wanted)
        named = wanted if known is None else known.name
        return _invited(store, transaction, named, asked, address, clock.now() + INVITATION, clock)


def _invited(
    store: Store,
    transaction: Transaction,
    name: str | None,
    role: Role,
    email: str | None,
    expires_at: datetime,
    clock: Clock,
) -> Invitation:
    for earlier in PeopleRows(transaction).invitations():
        same = (
            earlier.name is None if name is None else earlier.name is not None and folded(earlier.name) == folded(name)
        )
        if same or earlier.expires_at <= clock.now():
            PeopleRows(transaction).remove_invitation(earlier.token_hash)
    token = token_urlsafe(_TOKEN_BYTES)
    PeopleRows(transaction).add_invitation(
        InvitationRecord(
            token_hash=hashed(token),
            name=name,
            email=email,
            role=role,
            invited_by=store.actor.name,
            created_at=clock.now(),
            expires_at=expires_at,
        )
    )
    transaction.journal.note(name=name, role=role)
    return Invitation(token=token, name=name, role=role, expires_at=expires_at)


def person_named(transaction: Transaction, name: str) -> PersonRecord:
    """NotFoundError where there is none."""
    found = PeopleRows(transaction).find(name)
    if found is None:
        raise NotFoundError(f"There is no person {name}")
    return found


def administrators(transaction: Transaction) -> tuple[PersonRecord, ...]:
    """Those who can sign in."""
    return tuple(one for one in PeopleRows(transaction).all() if one.role is Role.ADMIN and not one.disabled)


def read_email(address: str | None) -> str | None:
    """An address as it is kept; None where nothing was given."""
    if address is None or not address.strip():
        return None
    text = address.strip()
    if len(text) > _MOST_EMAIL_CHARACTERS or not text.isprintable() or " " in text or text.count("@") != 1:
        raise InputError("email", found=repr(text[:80]), expected="an e-mail address")
    return text


def refuse_lookalike(transaction: Transaction, name: str) -> None:
    """Refuse a new name that looks like that of another person or key: in a list nobody could tell them apart."""
    people = PeopleRows(transaction)
    api_keys = people.keys()
    names = {person.name for person in people.all()} | {key.name for key in api_keys}
    names |= {invitation.name for invitation in people.invitations() if invitation.name is not None}
    for other in sorted(names):
        if is_same_name(other, name) and folded(other) != folded(name):
            raise StateError(f"{name!a} looks like {other!a}, which is somebody else", fix="Use another name.")


def withdraw_invitations(transaction: Transaction, *, by: str) -> None:
    """Refuse the links that somebody has made who may invite nobody any more: they could come back by one."""
    for invitation in PeopleRows(transaction).invitations():
        if folded(invitation.invited_by) == folded(by):
            PeopleRows(transaction).remove_invitation(invitation.token_hash)


def read_role(role: Role | str) -> Role:
    """A role by its name."""
    try:
        return Role(role)
    except ValueError:
        raise InputError("role", found=repr(role), expected=", ".join(Role)) from None


def hashed(secret: str) -> str:
    """SHA-256 in hexadecimal digits; for secrets of 256 random bits."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def way_in(person: Person) -> str:
    """With what somebody signs in."""
    if person.by_demo:
        return "the link of the demo"
    return "an identity provider" if person.external else "a password"
