"""What is changed, missing or added of sealed rows (`rows.py`), named for the health check and for whoever goes on."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from disco.records.errors import DiscoError
from disco.store import schema
from disco.store.database import UNREADABLE, any_text
from disco.store.journal import all_tallies
from disco.store.ledger import SEALED_COLUMNS, seal_of_rows
from disco.store.rows import KINDS, BrokenSeal, Sealed, Session, is_whole, no_such_campaign, owner_of, sum_of

_CHANGED = "changed by something other than disco"
_OTHER_NUMBER = "missing, or more of them are there than disco wrote"
_OF_CAMPAIGN = (schema.reserves, schema.contexts, schema.late_decisions, schema.evidence, schema.batches)
"""Tables whose rows belong to one campaign; its own row belongs to `campaigns`."""


class SqlSeals:
    """What another program has changed: rows by their seals, rows that are gone or too many by their tallies."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def broken(self) -> tuple[BrokenSeal, ...]:
        """What is changed or missing of all that belongs to no campaign: plans, secrets, versions; and campaigns that
        are gone. Reads all of it."""
        with any_text(self._connection):
            return tuple(dict.fromkeys(self._broken()))

    def broken_of(self, campaign: str) -> tuple[BrokenSeal, ...]:
        """What is changed or missing of a campaign: launch, state, reserve, contexts, late arrivals, evidence, ledger.

        Reads every row. Dispositions are not sealed: the rules give them again. Nor are the bytes of artefacts, whose
        names are sealed here (`plans.damaged`).
        """
        with any_text(self._connection):
            row = next(iter(_raw(self._connection, schema.campaigns, "campaign", campaign)), None)
            if row is None:
                raise no_such_campaign(campaign, self._connection)
            return tuple(dict.fromkeys(self._broken_of(row)))

    def _broken(self) -> Iterator[BrokenSeal]:
        kept = all_tallies(self._connection)
        campaigns = {row["number"]: str(row["campaign"]) for row in _raw(self._connection, schema.campaigns)}
        of_plans = {row["plan_id"]: str(row["campaign"]) for row in _raw(self._connection, schema.plans)}
        for table in KINDS:
            if table in (schema.campaigns, *_OF_CAMPAIGN):
                continue
            by_owner: dict[str, list[Mapping[str, Any]]] = {owner: [] for owner in kept}
            for row in _raw(self._connection, table):
                owner = owner_of(
                    table,
                    row,
                    campaign_of_number=lambda number: campaigns.get(number, ""),
                    campaign_of_plan=lambda plan: of_plans.get(plan, ""),
                )
                by_owner.setdefault(owner, []).append(row)
            for owner, rows in by_owner.items():
                yield from _broken_rows(table, owner, rows, kept.get(owner, {}))
        numbers = {row["number"] for row in _raw(self._connection, schema.versions)}
        last = max((number for number in numbers if isinstance(number, int)), default=0)
        for number in sorted(set(range(1, last + 1)) - numbers):
            yield _broken_seal(Sealed.VERSION, number, "missing")
        if numbers and not _raw(self._connection, schema.active_versions):
            yield _broken_seal(Sealed.ACTIVE, "", "missing")
        for owner in sorted({*kept} - {*campaigns.values()}):
            if kept[owner].get(schema.campaigns.name):
                yield _broken_seal(Sealed.CAMPAIGN, owner, "missing")
        for what, column, owner_table in (
            (Sealed.OUTCOME_ROWS, schema.outcomes.c.batch_number, schema.batches),
            (Sealed.POOL_ROWS, schema.pool_codes.c.campaign_number, schema.campaigns),
        ):
            orphans = sa.select(sa.func.count()).where(column.not_in(sa.select(owner_table.c.number)))
            if count := self._connection.execute(orphans).scalar_one():
                yield _broken_seal(what, "", f"without an owner in {count:,} cases")

    def _broken_of(self, row: Mapping[str, Any]) -> Iterator[BrokenSeal]:
        name = str(row["campaign"])
        kept = all_tallies(self._connection).get(name, {})
        yield from _broken_rows(schema.campaigns, name, [row], kept)
        for table in _OF_CAMPAIGN:
            rows = _raw(self._connection, table, "campaign_number", row["number"])
            yield from _broken_rows(table, name, rows, kept)
            if table is schema.batches:
                for batch in rows:
                    yield from self._broken_outcomes(batch)
        yield from self._broken_pool(row)

    def _broken_outcomes(self, batch: Mapping[str, Any]) -> Iterator[BrokenSeal]:
        try:
            same = batch["rows_seal"] == seal_of_rows(self._session, batch["number"])
            found = _CHANGED
        except (*UNREADABLE, DiscoError):
            same, found = False, "rows that cannot be read"
        rows = schema.outcomes.c
        elsewhere = [
            rows.campaign_number != batch["campaign_number"],
            rows.reverted != (batch["reverted_at"] is not None),
        ]
        if self._connection.dialect.name == "sqlite":  # bytes in the place of text read alike and compare as unlike
            elsewhere += [sa.func.typeof(rows[name]) == "blob" for name in SEALED_COLUMNS]
        count = sa.select(sa.func.count()).where(rows.batch_number == batch["number"], sa.or_(*elsewhere))
        if not same or self._connection.execute(count).scalar_one():
            yield _broken_seal(Sealed.OUTCOMES, batch["batch_id"], found)

    def _broken_pool(self, row: Mapping[str, Any]) -> Iterator[BrokenSeal]:
        """Codes of a pool are taken by exactly the campaign that gave them out."""
        plan = next(iter(_raw(self._connection, schema.plans, "plan_id", row["plan_id"])), None)
        try:
            pooled = plan is not None and (json.loads(plan["plan"]).get("codes") or {}).get("pool") is not None
            given: list[Any] = []
            if pooled and row["codes"] is not None:
                given = self._session.artefacts.get(row["codes"])["code"].drop_null().to_pylist()
        except (DiscoError, ValueError, TypeError, AttributeError, KeyError):
            return  # the plan's seal, or the check of artefacts, says so
        late = _raw(self._connection, schema.late_decisions, "campaign_number", row["number"])
        given += [one["code"] for one in late if pooled and one["code"] is not None]
        taken = [one["code"] for one in _raw(self._connection, schema.pool_codes, "campaign_number", row["number"])]
        if set(given) != set(taken):
            yield _broken_seal(Sealed.POOL, row["campaign"], _CHANGED)


def _broken_rows(
    table: sa.Table, owner: str, rows: Iterable[Mapping[str, Any]], kept: Mapping[str, int]
) -> Iterator[BrokenSeal]:
    """Rows of one owner that were changed; where there are none, whether some are gone or too many."""
    kind, rows = KINDS[table], list(rows)
    of_campaign = "campaign_number" in table.c or table is schema.campaigns
    wrong = [row for row in rows if not is_whole(table, row)]
    for row in wrong:
        name = row[kind.name] if kind.name is not None else owner if of_campaign else ""
        yield _broken_seal(kind.what, name, _CHANGED)
    if not wrong and sum_of(row["seal"] for row in rows) != kept.get(table.name, 0):
        if kind.name is None or kind.what is Sealed.ACTIVE:
            yield _broken_seal(kind.what, owner if of_campaign else "", _CHANGED)
        else:
            yield _broken_seal(kind.what, f"of {owner}", _OTHER_NUMBER)


def _broken_seal(what: Sealed, name: object, found: str) -> BrokenSeal:
    shown = name if isinstance(name, str) else str(name)
    return BrokenSeal(what=what, name=shown.encode("utf-8", "backslashreplace").decode(), found=found)


def _raw(
    connection: sa.Connection,
    table: sa.Table,
    key: str | None = None,
    value: object = None,
) -> list[Mapping[str, Any]]:
    """Rows with their cells as the database holds them, whatever a cell's type became."""
    # a bare * converts nothing, and a migration does not know the columns of later revisions
    rows: sa.Select[Any] = sa.select(sa.literal_column("*")).select_from(table)
    if key is not None:
        rows = rows.where(table.c[key] == value)
    return [dict(row) for row in connection.execute(rows).mappings()]
