"""What the verbs of campaigns need of the office, and what is kept between requests.

Who made and who approved a plan, and settings of the shop; the outbox: jobs that are asked for, and webhooks that are
told about events. Replies to write requests are one row per caller and key.
"""

import json
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from disco.records.errors import NotFoundError
from disco.records.jobs import Job, Reply, Webhook
from disco.records.people import Actor, ApprovalRecord
from disco.store.database import add_rows
from disco.store.rows import Session, beginning_with, from_row, to_row
from disco.store.schema import approvals, jobs, plan_makers, replies, shop_settings, webhooks

LISTED = [column for column in jobs.c if column.name not in ("result", "result_artefact", "once")]
"""Of a job: all but its result, which may be long, and what keeps it from being asked for twice."""


class SqlApprovals:
    """Who made a plan, and who approved it. SealError where that was changed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, approval: ApprovalRecord) -> bool:
        """Keep an approval; False where this person has approved the plan before."""
        if approval.by.name in [one.by.name for one in self.of(approval.plan_id)]:
            return False
        row = {"plan_id": approval.plan_id, **to_row(approval.by), "approved_at": approval.approved_at}
        self._session.add(approvals, row)
        return True

    def of(self, plan_id: str) -> tuple[ApprovalRecord, ...]:
        """By the time they were given."""
        found = [
            ApprovalRecord(plan_id=plan_id, by=from_row(Actor, row), approved_at=row["approved_at"])
            for row in self._session.whole(approvals, approvals.c.plan_id == plan_id)
        ]
        return tuple(sorted(found, key=lambda one: (one.approved_at, one.by.name)))

    def add_maker(self, plan_id: str, maker: Actor, *, at: datetime) -> None:
        if maker.name not in [one.name for one in self.makers(plan_id)]:
            self._session.add(plan_makers, {"plan_id": plan_id, **to_row(maker), "made_at": at})

    def makers(self, plan_id: str) -> tuple[Actor, ...]:
        """Those who wrote the plan; none for a plan that another program wrote."""
        makers = self._session.records(Actor, plan_makers, plan_makers.c.plan_id == plan_id)
        return tuple(sorted(makers, key=lambda maker: maker.name))


class SqlShopSettings:
    """Settings that are kept with the campaigns, as values of JSON."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, name: str) -> Any:
        """None where it was not set."""
        found = self._session.whole(shop_settings, shop_settings.c.name == name)
        return json.loads(found[0]["value"]) if found else None

    def put(self, name: str, value: Any) -> None:
        """None removes it."""
        for row in self._session.raw(shop_settings, "name", name):
            self._session.remove(shop_settings, row)
        if value is not None:
            text = json.dumps(value, sort_keys=True, allow_nan=False)
            self._session.add(shop_settings, {"name": name, "value": text})


class SqlJobs:
    """Work that is asked for, within the transaction of what it follows from."""

    def __init__(self, session: Session) -> None:
        self._connection = session.connection

    def add(self, job: Job, *, once: str | None = None) -> Job:
        """Keep a job; the one that is there already where one was added with the same `once`."""
        if once is not None and (there := find_job(self._connection, jobs.c.once == once)) is not None:
            return there
        row = {name: cell for name, cell in to_row(job).items() if name != "number"}
        add_rows(self._connection, jobs, [{**row, "once": once}])
        added = find_job(self._connection, jobs.c.id == job.id)
        assert added is not None  # for the type checker: it was just written
        return added

    def remove_ended(self, before: datetime) -> int:
        """Remove jobs that reached a final state before a moment; how many."""
        return int(self._connection.execute(jobs.delete().where(jobs.c.finished_at < before)).rowcount)

    def drop_results(self) -> int:
        """Empty results and problems of all jobs that have ended: they may quote rows of tables. How many had one."""
        said = sa.or_(*(jobs.c[name].is_not(None) for name in ("result", "result_artefact", "problem")))
        nothing = dict.fromkeys(("result", "result_artefact", "problem"))
        return int(self._connection.execute(jobs.update().where(said).values(nothing)).rowcount)


def find_job(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> Job | None:
    """The only job that meets a condition, without its result; None: there is none."""
    row = connection.execute(sa.select(*LISTED).where(condition)).mappings().one_or_none()
    return None if row is None else from_row(Job, row)


class SqlWebhooks:
    """Webhooks with their secrets."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def add(self, webhook: Webhook, *, secret: str) -> None:
        self._session.add(webhooks, {**to_row(webhook), "secret": secret})

    def get(self, webhook_id: str) -> Webhook:
        """By its id, or by four or more characters of its beginning where these name a single one."""
        return from_row(Webhook, self._row(webhook_id)._mapping)

    def secret(self, webhook_id: str) -> str:
        row = self._row(webhook_id)
        self._session.refuse_changed(webhooks, row._mapping)
        return str(row.secret)

    def all(self) -> tuple[Webhook, ...]:
        """In the order they were made."""
        rows = sa.select(webhooks).order_by(webhooks.c.created_at, webhooks.c.id)
        return tuple(from_row(Webhook, row) for row in self._connection.execute(rows).mappings())

    def set_active(self, webhook_id: str, active: bool) -> None:
        for row in self._session.raw(webhooks, "id", webhook_id):
            self._session.set(webhooks, row, active=active)

    def remove(self, webhook_id: str) -> None:
        for row in self._session.raw(webhooks, "id", webhook_id):
            self._session.remove(webhooks, row)

    def _row(self, webhook_id: str) -> sa.Row[Any]:
        none = NotFoundError(f"There is no webhook {webhook_id}", fix="`GET /api/v1/webhooks` lists them.")
        return beginning_with(self._connection, webhooks.c.id, webhook_id, rows=sa.select(webhooks), none=none)


class SqlReplies:
    """Answers to write requests, by who asked and the key they gave."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def find(self, actor: str, key: str) -> Reply | None:
        row = self._connection.execute(sa.select(replies).where(_of(actor, key))).mappings().one_or_none()
        return None if row is None else from_row(Reply, row)

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
