"""People, API keys, invitations; who is signed in or failed to; who made and approved a plan; settings of the shop."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from disco.records.errors import NotFoundError
from disco.records.people import (
    Actor,
    ActorKind,
    ApprovalRecord,
    InvitationRecord,
    KeyRecord,
    PersonRecord,
    SessionRecord,
    folded,
)
from disco.store.database import add_rows
from disco.store.rows import Record, from_row, to_row
from disco.store.schema import (
    api_keys,
    approvals,
    attempts,
    invitations,
    microseconds,
    people,
    plan_makers,
    sessions,
    shop_settings,
)
from disco.store.session import Session, beginning_with


class SqlPeople:
    """People who can sign in, API keys, and invitations that were not used yet. SealError where one was changed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    # ---- people

    def put(self, person: PersonRecord) -> None:
        """Keep a person, new or changed. StateError where another one has this name, in any capitals."""
        row = {**to_row(person), "folded": folded(person.name)}
        for kept in self._session.raw(people, "name", person.name):
            self._session.remove(people, kept)
        self._session.add(people, row)

    def find(self, name: str) -> PersonRecord | None:
        """By name, in any capitals."""
        return self._person(people.c.folded == folded(name))

    def find_external(self, issuer: str, subject: str) -> PersonRecord | None:
        """By who they are at an identity provider."""
        return self._person(sa.and_(people.c.issuer == issuer, people.c.subject == subject))

    def all(self) -> tuple[PersonRecord, ...]:
        """By name."""
        rows = self._connection.execute(sa.select(people)).mappings()
        return tuple(sorted((self._of(people, PersonRecord, row) for row in rows), key=lambda person: person.name))

    def _person(self, which: sa.ColumnElement[bool]) -> PersonRecord | None:
        row = self._connection.execute(sa.select(people).where(which)).mappings().one_or_none()
        return None if row is None else self._of(people, PersonRecord, row)

    def _of(self, table: sa.Table, record: type[Record], row: Mapping[Any, Any]) -> Record:
        self._session.refuse_changed(table, row)
        return from_row(record, row)

    # ---- keys

    def add_key(self, key: KeyRecord) -> None:
        self._session.add(api_keys, to_row(key))

    def find_key(self, key_id: str) -> KeyRecord | None:
        row = self._connection.execute(sa.select(api_keys).where(api_keys.c.key_id == key_id)).mappings().one_or_none()
        return None if row is None else self._of(api_keys, KeyRecord, row)

    def key(self, beginning: str) -> KeyRecord:
        """By its id, or by four or more characters of its beginning where these name a single key."""
        none = NotFoundError(f"There is no key {beginning}", fix="`disco keys list` lists the keys.")
        return self._of(
            api_keys,
            KeyRecord,
            beginning_with(
                self._connection, api_keys.c.key_id, beginning, rows=sa.select(api_keys), none=none
            )._mapping,
        )

    def keys(self) -> tuple[KeyRecord, ...]:
        """By the time they were made, with those that are no longer valid."""
        rows = self._connection.execute(sa.select(api_keys).order_by(api_keys.c.created_at, api_keys.c.key_id))
        return tuple(self._of(api_keys, KeyRecord, row) for row in rows.mappings())

    def revoke_key(self, key_id: str, *, at: datetime) -> None:
        found = self._session.raw(api_keys, "key_id", key_id)
        if not found:
            raise NotFoundError(f"There is no key {key_id}")
        self._session.set(api_keys, found[0], revoked_at=at)

    # ---- invitations

    def add_invitation(self, invitation: InvitationRecord) -> None:
        self._session.add(invitations, to_row(invitation))

    def find_invitation(self, token_hash: str) -> InvitationRecord | None:
        rows = sa.select(invitations).where(invitations.c.token_hash == token_hash)
        row = self._connection.execute(rows).mappings().one_or_none()
        return None if row is None else self._of(invitations, InvitationRecord, row)

    def invitations(self) -> tuple[InvitationRecord, ...]:
        """By the time they were made."""
        rows = self._connection.execute(sa.select(invitations).order_by(invitations.c.created_at))
        return tuple(self._of(invitations, InvitationRecord, row) for row in rows.mappings())

    def remove_invitation(self, token_hash: str) -> None:
        for row in self._session.raw(invitations, "token_hash", token_hash):
            self._session.remove(invitations, row)


class SqlSessions:
    """Who is signed in, and failed attempts to; no backup holds them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

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


class SqlApprovals:
    """Who made a plan, and who approved it. SealError where that was changed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, approval: ApprovalRecord) -> bool:
        """Keep an approval; False where this person has approved the plan before."""
        if approval.by.name in [one.by.name for one in self.of(approval.plan_id)]:
            return False
        row = {
            "plan_id": approval.plan_id,
            "name": approval.by.name,
            "kind": str(approval.by.kind),
            "approved_at": approval.approved_at,
        }
        self._session.add(approvals, row)
        return True

    def of(self, plan_id: str) -> tuple[ApprovalRecord, ...]:
        """By the time they were given."""
        rows = self._rows(approvals, plan_id)
        found = [
            ApprovalRecord(
                plan_id=plan_id, by=Actor(row["name"], ActorKind(row["kind"])), approved_at=row["approved_at"]
            )
            for row in rows
        ]
        return tuple(sorted(found, key=lambda one: (one.approved_at, one.by.name)))

    def add_maker(self, plan_id: str, maker: Actor, *, at: datetime) -> None:
        if maker.name not in [one.name for one in self.makers(plan_id)]:
            row = {"plan_id": plan_id, "name": maker.name, "kind": str(maker.kind), "made_at": at}
            self._session.add(plan_makers, row)

    def makers(self, plan_id: str) -> tuple[Actor, ...]:
        """Those who wrote the plan; none for a plan that another program wrote."""
        rows = self._rows(plan_makers, plan_id)
        return tuple(
            Actor(row["name"], ActorKind(row["kind"])) for row in sorted(rows, key=lambda row: str(row["name"]))
        )

    def _rows(self, table: sa.Table, plan_id: str) -> Sequence[Mapping[Any, Any]]:
        found = list(self._connection.execute(sa.select(table).where(table.c.plan_id == plan_id)).mappings())
        self._session.refuse_changed(table, *found)
        return found


class SqlShopSettings:
    """Settings that are kept with the campaigns, as values of JSON."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def get(self, name: str) -> Any:
        """None where it was not set."""
        rows = sa.select(shop_settings).where(shop_settings.c.name == name)
        row = self._connection.execute(rows).mappings().one_or_none()
        if row is None:
            return None
        self._session.refuse_changed(shop_settings, row)
        return json.loads(row["value"])

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._connection.execute(sa.select(shop_settings.c.name)).scalars()))

    def put(self, name: str, value: Any) -> None:
        """None removes it."""
        for row in self._session.raw(shop_settings, "name", name):
            self._session.remove(shop_settings, row)
        if value is not None:
            text = json.dumps(value, sort_keys=True, allow_nan=False)
            self._session.add(shop_settings, {"name": name, "value": text})
