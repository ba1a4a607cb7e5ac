"""Drafts as rows of the database: one per name, which stays when the draft is deleted."""

import json

import sqlalchemy as sa

from disco.records.errors import StateError
from disco.records.jobs import Draft
from disco.store import Transaction
from disco.store.database import add_rows, change, update_of
from disco.store.rows import from_row, to_row
from disco.store.schema import drafts


class DraftRows:
    """Plans that are being written."""

    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.session.connection

    def find(self, name: str) -> Draft | None:
        rows = sa.select(drafts).where(drafts.c.name == name, drafts.c.plan.is_not(None))
        row = self._connection.execute(rows).mappings().one_or_none()
        return None if row is None else from_row(Draft, row)

    def revision(self, name: str) -> int:
        """The last revision under this name, also where it was deleted; 0: there was none."""
        last = self._connection.execute(sa.select(drafts.c.revision).where(drafts.c.name == name)).scalar()
        return int(last or 0)

    def all(self) -> tuple[Draft, ...]:
        """By name."""
        rows = self._connection.execute(sa.select(drafts).where(drafts.c.plan.is_not(None))).mappings()
        return tuple(sorted((from_row(Draft, row) for row in rows), key=lambda draft: draft.name))

    def put(self, draft: Draft) -> None:
        """Write a draft; StateError unless its revision is the one after the last."""
        self._write(draft, json.dumps(dict(draft.plan), allow_nan=False))

    def delete(self, draft: Draft) -> None:
        """Delete it, with this revision as its last."""
        self._write(draft, None)

    def _write(self, draft: Draft, plan: str | None) -> None:
        row = {**to_row(draft), "plan": plan}
        if draft.revision == 1:
            add_rows(self._connection, drafts, [row])
            return
        before = update_of(drafts, tuple(row), ("name", "revision"))
        if not change(self._connection, before, (*row.values(), draft.name, draft.revision - 1)):
            raise StateError(f"Revision {draft.revision} does not follow the last one of draft {draft.name}")
