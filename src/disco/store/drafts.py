"""Drafts of plans, one row per name; and replies to write requests, one row per caller and key."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from disco.records.errors import StateError
from disco.records.jobs import Draft, Reply
from disco.records.people import Actor, ActorKind
from disco.store.schema import drafts, replies
from disco.store.session import Session


class SqlDrafts:
    """Plans that are being written."""

    def __init__(self, session: Session) -> None:
        self._connection = session.connection

    def find(self, name: str) -> Draft | None:
        rows = sa.select(drafts).where(drafts.c.name == name, drafts.c.plan.is_not(None))
        row = self._connection.execute(rows).one_or_none()
        return None if row is None else _draft(row)

    def revision(self, name: str) -> int:
        """The last revision under this name, also where it was deleted; 0: there was none."""
        last = self._connection.execute(sa.select(drafts.c.revision).where(drafts.c.name == name)).scalar()
        return int(last or 0)

    def all(self) -> tuple[Draft, ...]:
        """By name."""
        rows = self._connection.execute(sa.select(drafts).where(drafts.c.plan.is_not(None)))
        return tuple(sorted(map(_draft, rows), key=lambda draft: draft.name))

    def put(self, draft: Draft) -> None:
        """Write a draft; StateError unless its revision is the one after the last."""
        self._write(draft, json.dumps(dict(draft.plan), allow_nan=False))

    def delete(self, draft: Draft) -> None:
        """Delete it, with this revision as its last."""
        self._write(draft, None)

    def _write(self, draft: Draft, plan: str | None) -> None:
        row = {
            "name": draft.name,
            "revision": draft.revision,
            "plan": plan,
            "changed_at": draft.changed_at,
            "actor": draft.actor.name,
            "actor_kind": draft.actor.kind,
        }
        if draft.revision == 1:
            self._connection.execute(drafts.insert(), row)
            return
        before = sa.and_(drafts.c.name == draft.name, drafts.c.revision == draft.revision - 1)
        if not self._connection.execute(drafts.update().where(before).values(row)).rowcount:
            raise StateError(f"Revision {draft.revision} does not follow the last one of draft {draft.name}")


def _draft(row: sa.Row[Any]) -> Draft:
    return Draft(
        name=row.name,
        revision=row.revision,
        plan=json.loads(row.plan),
        changed_at=row.changed_at,
        actor=Actor(row.actor, ActorKind(row.actor_kind)),
    )


class SqlReplies:
    """Answers to write requests, by who asked and the key they gave."""

    def __init__(self, session: Session) -> None:
        self._connection = session.connection

    def find(self, actor: str, key: str) -> Reply | None:
        row = self._connection.execute(sa.select(replies).where(_of(actor, key))).one_or_none()
        return None if row is None else _reply(row)

    def begin(self, actor: str, key: str, reply: Reply, *, instead_of: Reply | None = None) -> bool:
        """Reserve the key; instead_of: a reply that is too old. False: somebody else was faster."""
        if instead_of is not None:
            same = sa.and_(_of(actor, key), replies.c.begun_at == instead_of.begun_at)
            if not self._connection.execute(replies.delete().where(same)).rowcount:
                return False
        row = {"actor": actor, "key": key, "body_hash": reply.body_hash, "begun_at": reply.begun_at}
        try:
            with self._connection.begin_nested():  # PostgreSQL waits for somebody faster and then refuses this row
                self._connection.execute(replies.insert(), row)
        except sa.exc.IntegrityError:
            return False
        return True

    def finish(self, actor: str, key: str, reply: Reply) -> bool:
        """Keep the answer; False where the reservation is no longer this one."""
        ours = sa.and_(_of(actor, key), replies.c.begun_at == reply.begun_at, replies.c.status.is_(None))
        kept = {"status": reply.status, "headers": json.dumps(dict(reply.headers or {})), "body": reply.body or b""}
        return bool(self._connection.execute(replies.update().where(ours).values(kept)).rowcount)

    def drop(self, actor: str, key: str, reply: Reply) -> None:
        """Free the key, unless the reservation is no longer this one."""
        ours = sa.and_(_of(actor, key), replies.c.begun_at == reply.begun_at)
        self._connection.execute(replies.delete().where(ours))

    def remove(self, before: datetime | None = None) -> int:
        """Remove what was begun before a moment, or everything; how many."""
        old = sa.true() if before is None else replies.c.begun_at < before
        return int(self._connection.execute(replies.delete().where(old)).rowcount)


def _of(actor: str, key: str) -> sa.ColumnElement[bool]:
    return sa.and_(replies.c.actor == actor, replies.c.key == key)


def _reply(row: sa.Row[Any]) -> Reply:
    begun = Reply(body_hash=row.body_hash, begun_at=row.begun_at)
    if row.status is None:
        return begun
    return replace(begun, status=row.status, headers=json.loads(row.headers), body=bytes(row.body))
