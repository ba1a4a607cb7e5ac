"""Seals: a SHA-256 of what a row holds, kept beside it, so that a cell changed by any other program is found.

Stored form, which changes only with a migration. A seal is the SHA-256, in lower-case hexadecimal digits, of parts one
after the other. Each part is
- one letter for its kind: n null, b truth, i integer, d double, t text, x bytes;
- the length of its content in bytes, as 8 bytes, little-endian;
- its content: nothing; 0 or 1 as one byte; decimal digits; IEEE 754 little-endian; UTF-8; the bytes as they are.

The first part is the text that names the kind of seal, the others are columns in the order of `_COLUMNS`. Moments are
integers, as they are stored. Where more than columns of one row goes in:
- late: first the seal before (null for the first late arrival), so that the last one seals all of them in their order;
  after the columns, segment and channel where one of them is not null;
- state: after the columns, depth and codes of every reserve by depth, then network and artefact of every row of
  `contexts` by network, then the moment of a recall where there was one;
- batch: `rows_seal` is `records.content.content_hash` of the columns of its outcomes that never change, by row, and
  of disposition and reason where the row was set aside (null elsewhere), wherever the rows lie. The names of its pack
  (`packs.py`) are not sealed: the rows are, and an index follows from them;
- active: after the columns, the seal of the last version;
- forgotten: hash and moment of every row of `forgotten` by hash. It is kept as bytes among the secrets, under the name
  `forgotten customers`, from the first customer on who is forgotten.

The state of a subject, for the journal, is the SHA-256 of a JSON list without blanks, in ASCII. It has a list
`[kind, name, seal]` for every row that belongs to the subject, sorted; a cell that is no text is written as Python
writes it. A subject without rows has none.

A null seal is a broken one. A seal finds mistakes and accidents; whoever can write the database can compute it too.
"""

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from disco.records.content import content_hash
from disco.records.errors import DiscoError, SealError
from disco.records.life import BrokenSeal, Sealed
from disco.store import schema
from disco.store.database import UNREADABLE, Database, Statement, ask, change_later, in_order
from disco.store.packs import packs_of
from disco.store.schema import BELIEF, DRAFTS, EVERYTHING, JOBS, OUTCOMES, PEOPLE
from disco.store.session import CampaignRow, Session, no_such_campaign

_COLUMNS = {
    "plan": ("plan_id", "campaign", "plan", "inputs", "summary", "planned_at", "decisions", "contexts", "features"),
    "campaign": (
        *("campaign", "plan_id", "integer_ids", "context_size", "network", "version", "launched_at"),
        *("codes", "customer_index", "code_index"),
    ),
    "late": (
        *("campaign_number", "row", "customer_id", "arm", "depth", "code", "value", "known"),
        *("expected_full_price", "expected_engagement", "context", "features"),
    ),
    "state": ("number", "campaign", "state", "propensities", "late_seal"),
    "batch": ("batch_id", "campaign_number", "source", "content_hash", "received_at", "reverted_at", "rows_seal"),
    "evidence": ("campaign_number", "network", "evidence"),
    "version": ("model", "number", "basket", "engagement", "network", "campaigns", "made_at"),
    "active": ("model", "number"),
    "secret": ("name", "value"),
    "forgotten": (),
    "person": (
        *("name", "folded", "role", "email", "password", "issuer", "subject"),
        *("disabled", "created_at"),
    ),
    "key": ("key_id", "name", "role", "secret_hash", "created_by", "created_at", "expires_at", "revoked_at"),
    "invitation of": ("token_hash", "name", "email", "role", "invited_by", "created_at", "expires_at"),
    "maker of plan": ("plan_id", "name", "kind", "made_at"),
    "approval of plan": ("plan_id", "name", "kind", "approved_at"),
    "setting": ("name", "value"),
    "head": ("subject", "number", "hash"),
    "schedule": (
        *("id", "kind", "body", "rule", "time_zone", "next_at"),
        *("paused", "actor", "actor_kind", "created_at"),
    ),
    "webhook": ("id", "url", "events", "secret", "active", "created_at", "actor", "actor_kind"),
    "arrivals": (
        *("campaign_number", "day", "network", "only_listed"),
        *("customers", "customer_index", "contexts", "features"),
    ),
}
_FORGOTTEN_NAME = "forgotten customers"
_TRUTHS = ("integer_ids", "known", "disabled", "only_listed", "paused", "active")  # SQLite's truths are integers
_UNCHANGING = pa.schema(
    [
        OUTCOMES.field(name)
        for name in (
            *("row", "event_id", "customer_id", "code", "kind", "refers_to"),
            *("ordered_at", "full_price_minor", "raw"),
        )
    ]
)
# of rows set aside alone, for good: those of all other rows follow from the rules and may change
_WHERE_SET_ASIDE = pa.schema([OUTCOMES.field(name).with_nullable(True) for name in ("disposition", "reason")])
_ROWS_SEALED = pa.schema([*_UNCHANGING, *_WHERE_SET_ASIDE])
_SET_SEALS = "UPDATE campaigns SET late_seal = ?, state_seal = ? WHERE number = ?"
_CHANGED = "changed by something other than disco"


def row_seal(kind: str, row: Mapping[Any, Any], *more: Any, before: tuple[Any, ...] = ()) -> str:
    """The seal of a row, by the names of its columns; a column that is not there is null.

    >>> row_seal("active", {"model": "main", "number": 1})[:16]
    '89bbaebc270e68a0'
    """
    digest = sha256()
    cells = (_cell(name, row.get(name)) for name in _COLUMNS[kind])
    for part in (kind, *before, *cells, *more):
        letter, content = _part(part)
        digest.update(letter + struct.pack("<q", len(content)))
        digest.update(content)
    return digest.hexdigest()


def _cell(name: str, cell: Any) -> Any:
    return bool(cell) if name in _TRUTHS and cell in (0, 1) else cell


def _part(cell: Any) -> tuple[bytes, bytes]:
    match cell:
        case None:
            return b"n", b""
        case bool():
            return b"b", bytes([cell])
        case int():
            return b"i", str(cell).encode()
        case float():
            return b"d", struct.pack("<d", cell)
        case str():
            return b"t", cell.encode("utf-8", "surrogateescape")  # `any_text` gives what is no UTF-8 this way
        case datetime():
            return b"i", str(schema.microseconds(cell)).encode()
    return b"x", bytes(cell)


def sealed(kind: str, row: Mapping[str, Any], *more: Any) -> dict[str, Any]:
    """The row with its seal."""
    return {**row, "seal": row_seal(kind, row, *more)}


def rows_seal(outcomes: pa.Table) -> str:
    """Of a batch's rows, in any order: what never changes."""
    rows = in_order(outcomes, "row")
    columns = [rows[field.name].cast(field.type) for field in _UNCHANGING]
    aside = rows["raw"].is_valid()
    columns += [pc.if_else(aside, rows[field.name], pa.scalar(None, field.type)) for field in _WHERE_SET_ASIDE]
    return content_hash(pa.table(columns, schema=_ROWS_SEALED))


def state_seal(connection: sa.Connection, row: Mapping[str, Any]) -> str:
    """Of everything about a campaign that changes; `row` is that of `campaigns`."""
    reserve = _raw(connection, schema.reserves, "campaign_number", row["number"], order="depth")
    return _state_seal(row, reserve, _raw(connection, schema.contexts, "campaign_number", row["number"]))


def _state_now(session: Session, row: Mapping[str, Any]) -> str:
    """`state_seal`, of rows that the transaction reads once."""
    reserve = session.raw(schema.reserves, "campaign_number", row["number"], order="depth")
    return _state_seal(row, reserve, session.raw(schema.contexts, "campaign_number", row["number"]))


def _state_seal(
    row: Mapping[str, Any], reserve: Iterable[Mapping[str, Any]], contexts: Iterable[Mapping[str, Any]]
) -> str:
    return row_seal(
        "state",
        row,
        *(cell for one in reserve for cell in (one["depth"], one["codes"])),
        *(
            cell
            for one in sorted(contexts, key=lambda one: str(one["network"]))
            for cell in (one["network"], one["artefact"])
        ),
        *(() if row.get("recalled_at") is None else (row["recalled_at"],)),
    )


def check_forgotten(session: Session, rows: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a list of forgotten customers that is not what was kept: one who is missing would get a second code."""
    if not _is_forgotten_sealed(session.raw(schema.secrets, "name", _FORGOTTEN_NAME), rows):
        raise changed("The list of forgotten customers")


def seal_forgotten(connection: sa.Connection) -> None:
    """Seal the list of forgotten customers as it is."""
    connection.execute(schema.secrets.delete().where(schema.secrets.c.name == _FORGOTTEN_NAME))
    row = {"name": _FORGOTTEN_NAME, "value": bytes.fromhex(_forgotten_seal(_raw(connection, schema.forgotten)))}
    connection.execute(schema.secrets.insert(), sealed("secret", row))


def _is_forgotten_sealed(sealed_as: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]) -> bool:
    kept = next(iter(sealed_as), None)
    return kept is None or _part(kept["value"]) == (b"x", bytes.fromhex(_forgotten_seal(rows)))


def _forgotten_seal(forgotten: Iterable[Mapping[str, Any]]) -> str:
    rows = sorted(forgotten, key=lambda row: str(row["hash"]))
    return row_seal("forgotten", {}, *(cell for row in rows for cell in (row["hash"], row["forgotten_at"])))


def check_plan(connection: sa.Connection, plan_id: str) -> None:
    """Refuse a plan that is not what was kept."""
    if not is_plan_sealed(connection, plan_id):
        raise changed(f"Plan {plan_id}")


def is_plan_sealed(connection: sa.Connection, plan_id: str) -> bool:
    """Whether a plan is what was kept; also where there is none of this id."""
    return all(row["seal"] == row_seal("plan", row) for row in _raw(connection, schema.plans, "plan_id", plan_id))


def check_campaign(session: Session, campaign: str) -> None:
    """Refuse a campaign whose plan, launch or state is not what was kept; late arrivals are not read."""
    found = session.find_campaign(campaign)
    if found is not None:
        if any(row["seal"] != row_seal("plan", row) for row in session.raw(schema.plans, "plan_id", found.plan_id)):
            raise changed(f"Plan {found.plan_id}")
        check_state(session, found)


def check_state(session: Session, campaign: CampaignRow) -> None:
    """Refuse a campaign whose launch or state is not what was kept; its plan is not read."""
    row = campaign.cells
    if row["seal"] != row_seal("campaign", row):
        raise changed(f"The launch of campaign {row['campaign']}")
    if row["number"] not in session.touched and row["state_seal"] != _state_now(session, row):
        raise _changed_state(row["campaign"])


def touch(session: Session, number: int) -> None:
    """Before something about a campaign changes: its state is sealed again at the end, unless it does not fit now."""
    if number not in session.touched:
        for row in session.raw(schema.campaigns, "number", number):
            if row["state_seal"] != _state_now(session, row):
                raise _changed_state(row["campaign"])
        session.touched.add(number)


def _changed_state(campaign: str) -> SealError:
    return changed(f"The state, reserve or contexts of campaign {campaign}")


def changed(what: str) -> SealError:
    """The error about something whose seal does not fit."""
    fix = "`disco doctor` lists what else was changed; restore a backup, or run `disco doctor --repair`."
    return SealError(f"{what} was changed by something other than disco", fix=fix)


def seal_states(session: Session) -> bool:
    """Seal what this transaction has changed about campaigns; the last thing it does. Whether it has changed any."""
    written = False
    for number in sorted(session.touched):
        for row in session.raw(schema.campaigns, "number", number):
            late = session.late_seals.get(number, row["late_seal"])
            state = _state_now(session, {**row, "late_seal": late})
            change_later(session.connection, _SET_SEALS, (late, state, number))
            written = True
    return written


def seal_active(connection: sa.Connection) -> None:
    for row in _raw(connection, schema.active_versions):
        seal = row_seal("active", row, _last_version(connection))
        _set(connection, schema.active_versions, "model", row["model"], seal=seal)


# rows that are sealed by their own columns alone: kind, table, key
_SINGLE = (
    ("plan", schema.plans, ("plan_id",)),
    ("secret", schema.secrets, ("name",)),
    ("evidence", schema.evidence, ("campaign_number", "network")),
    ("version", schema.versions, ("model", "number")),
    ("person", schema.people, ("name",)),
    ("key", schema.api_keys, ("key_id",)),
    ("invitation of", schema.invitations, ("token_hash", "name")),
    ("maker of plan", schema.plan_makers, ("name", "plan_id")),
    ("approval of plan", schema.approvals, ("name", "plan_id")),
    ("setting", schema.shop_settings, ("name",)),
    ("schedule", schema.schedules, ("id",)),
    ("webhook", schema.webhooks, ("id",)),
)
# plans that somebody made or approved and that are gone: `disco prune` removes a plan with its makers and approvals
_GONE = sa.union(
    *(
        sa.select(table.c.plan_id).where(table.c.plan_id.not_in(sa.select(schema.plans.c.plan_id)))
        for table in (schema.plan_makers, schema.approvals)
    )
)


class SqlSeals:
    """Hashes beside everything that is kept, by which a change by another program is found. Writing keeps them up."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection

    def broken(self) -> tuple[BrokenSeal, ...]:
        """What is changed or missing of all that belongs to no campaign: plans, secrets, versions; reads all of it."""
        with any_text(self._connection):
            return tuple(self._broken())

    def broken_of(self, campaign: str) -> tuple[BrokenSeal, ...]:
        """What is changed or missing of a campaign: launch, state, reserve, contexts, late arrivals, evidence, ledger.

        Reads every row. Dispositions are not sealed: the rules give them again. Nor are the bytes of artefacts, whose
        names are sealed here (`plans.damaged`).
        """
        with any_text(self._connection):
            row = next(iter(_raw(self._connection, schema.campaigns, "campaign", campaign)), None)
            if row is None:
                raise no_such_campaign(campaign, self._connection)
            return tuple(self._broken_of(row))

    def reseal_plan(self, plan_id: str) -> None:
        """Take a plan as it is now: for those who changed it on purpose, and for repairs."""
        for row in _raw(self._connection, schema.plans, "plan_id", plan_id):
            _set(self._connection, schema.plans, "plan_id", plan_id, seal=row_seal("plan", row))

    def reseal_campaign(self, campaign: str) -> None:
        """Take launch, late arrivals, state, reserve and contexts as they are now.

        SealError where another program changed the state before this transaction did.
        """
        number = self._session.number(campaign)
        touch(self._session, number)
        _seal_campaign(self._connection, number)

    def reseal_batches(self, campaign: str) -> None:
        """Take the batches of a campaign and their outcomes as they are now."""
        number = self._session.number(campaign)
        for row in _raw(self._connection, schema.batches, "campaign_number", number):
            _seal_batch(self._connection, row, self._rows_seal(row["number"]))

    def _broken(self) -> Iterator[BrokenSeal]:
        for kind, table, keys in _SINGLE:
            if kind != "evidence":
                for row in _raw(self._connection, table):
                    if row["seal"] != row_seal(kind, row):
                        yield _broken_seal(Sealed(kind), row[keys[-1]], _CHANGED)
        forgotten = _raw(self._connection, schema.forgotten)
        if not _is_forgotten_sealed(_raw(self._connection, schema.secrets, "name", _FORGOTTEN_NAME), forgotten):
            yield _broken_seal(Sealed.FORGOTTEN, "", _CHANGED)
        numbers = [row["number"] for row in _raw(self._connection, schema.versions)]
        last = max((number for number in numbers if isinstance(number, int)), default=0)
        for number in sorted(set(range(1, last + 1)) - set(numbers)):
            yield _broken_seal(Sealed.VERSION, number, "missing")
        active = _raw(self._connection, schema.active_versions)
        if numbers and not active:
            yield _broken_seal(Sealed.ACTIVE, "", "missing")
        for row in active:
            if row["seal"] != row_seal("active", row, _last_version(self._connection)):
                yield _broken_seal(Sealed.ACTIVE, row["number"], _CHANGED)
        for plan_id in sorted(map(str, self._connection.execute(_GONE).scalars())):
            yield _broken_seal(Sealed.PLAN, plan_id, "missing")
        for what, column, owner in (
            (Sealed.OUTCOME_ROWS, schema.outcomes.c.batch_number, schema.batches),
            (Sealed.POOL_ROWS, schema.pool_codes.c.campaign_number, schema.campaigns),
        ):
            orphans = sa.select(sa.func.count()).where(column.not_in(sa.select(owner.c.number)))
            if count := self._connection.execute(orphans).scalar_one():
                yield _broken_seal(what, "", f"without an owner in {count:,} cases")

    def _broken_of(self, row: Mapping[str, Any]) -> Iterator[BrokenSeal]:
        number, name = row["number"], row["campaign"]
        if row["seal"] != row_seal("campaign", row):
            yield _broken_seal(Sealed.CAMPAIGN, name, _CHANGED)
        if row["state_seal"] != state_seal(self._connection, row):
            yield _broken_seal(Sealed.STATE, name, _CHANGED)
        if row["late_seal"] != _late_seal(self._connection, number):
            yield _broken_seal(Sealed.LATE, name, _CHANGED)
        for one in _raw(self._connection, schema.evidence, "campaign_number", number):
            if one["seal"] != row_seal("evidence", one):
                yield _broken_seal(Sealed.EVIDENCE, name, _CHANGED)
        for batch in _raw(self._connection, schema.batches, "campaign_number", number):
            yield from self._broken_batch(batch)
        yield from self._broken_pool(row)

    def _rows_seal(self, number: int) -> str:
        parts = [_rows_of(self._connection, self._session.database, number)]
        parts += [pack.rows(pack.seen(), _ROWS_SEALED) for pack in packs_of(self._session, batches=[number])]
        return rows_seal(pa.concat_tables(parts))

    def _broken_batch(self, batch: Mapping[str, Any]) -> Iterator[BrokenSeal]:
        if batch["seal"] != row_seal("batch", batch):
            yield _broken_seal(Sealed.BATCH, batch["batch_id"], _CHANGED)
        try:
            same = batch["rows_seal"] == self._rows_seal(batch["number"])
            found = _CHANGED
        except (*UNREADABLE, DiscoError):
            same, found = False, "rows that cannot be read"
        rows = schema.outcomes.c
        elsewhere = [
            rows.campaign_number != batch["campaign_number"],
            rows.reverted != (batch["reverted_at"] is not None),
        ]
        if self._connection.dialect.name == "sqlite":  # bytes in the place of text read alike and compare as unlike
            elsewhere += [sa.func.typeof(rows[name]) == "blob" for name in _UNCHANGING.names]
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


def _broken_seal(what: Sealed, name: object, found: str) -> BrokenSeal:
    shown = name if isinstance(name, str) else str(name)
    return BrokenSeal(what=what, name=shown.encode("utf-8", "backslashreplace").decode(), found=found)


def _seal_campaign(connection: sa.Connection, number: int) -> None:
    """The campaign's seals from its rows as they are."""
    for row in _raw(connection, schema.campaigns, "number", number):
        seals = {"seal": row_seal("campaign", row), "late_seal": _late_seal(connection, number)}
        state = state_seal(connection, {**row, **seals})
        _set(connection, schema.campaigns, "number", number, **seals, state_seal=state)


def _seal_batch(connection: sa.Connection, row: Mapping[str, Any], of_rows: str) -> None:
    seal = row_seal("batch", {**row, "rows_seal": of_rows})
    _set(connection, schema.batches, "number", row["number"], rows_seal=of_rows, seal=seal)


def extended(before: str | None, late: Iterable[Mapping[str, Any]]) -> str | None:
    """The seal of late arrivals, with these after those that it seals already."""
    for row in late:
        labels = (row.get("segment"), row.get("channel"))
        before = row_seal("late", row, *(labels if any(one is not None for one in labels) else ()), before=(before,))
    return before


def _late_seal(connection: sa.Connection, number: int) -> str | None:
    return extended(None, _raw(connection, schema.late_decisions, "campaign_number", number, order="row"))


def _rows_of(connection: sa.Connection, database: Database, number: int) -> pa.Table:
    """The rows of a batch that are in the database."""
    columns = [schema.outcomes.c[name] for name in _ROWS_SEALED.names]
    rows = sa.select(*columns).where(schema.outcomes.c.batch_number == number)
    return database.select(connection, rows, _ROWS_SEALED)


def _last_version(connection: sa.Connection) -> str | None:
    last = sa.select(schema.versions.c.seal).order_by(schema.versions.c.number.desc()).limit(1)
    found: str | None = connection.execute(last).scalar()
    return found


def _raw(
    connection: sa.Connection,
    table: sa.Table,
    key: str | None = None,
    value: object = None,
    *,
    order: str | None = None,
) -> list[Mapping[str, Any]]:
    """Rows with their cells as the database holds them, whatever a cell's type became."""
    # a bare * converts nothing, and a migration does not know the columns of later revisions
    rows: sa.Select[Any] = sa.select(sa.literal_column("*")).select_from(table)
    if key is not None:
        rows = rows.where(table.c[key] == value)
    if order is not None:
        rows = rows.order_by(table.c[order])
    return [dict(row) for row in connection.execute(rows).mappings()]


def _set(connection: sa.Connection, table: sa.Table, key: str, value: object, **columns: object) -> None:
    connection.execute(table.update().where(table.c[key] == value).values(columns))


@contextmanager
def any_text(connection: sa.Connection) -> Iterator[None]:
    """SQLite's text that is no UTF-8 is read with escapes, instead of ending the check."""
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    before: Callable[[bytes], Any] = driver.text_factory
    driver.text_factory = lambda content: content.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = before


_HERE = "$subject$"
_SUBJECT: "sa.ColumnElement[str]" = sa.literal_column(_HERE, sa.Text)


def state_hash(connection: sa.Connection, subject: str) -> str | None:
    """The state of a campaign, of the belief, of people and settings, or of everything; None: nothing is kept of it."""
    questions = question_of_state(subject)
    with any_text(connection):
        return hash_of_state([ask(connection, *one) for one in questions])


def question_of_state(subject: str) -> list[Statement]:
    """The question whose answer `hash_of_state` takes. Jobs and drafts have no seals, and so no states: no question."""
    if subject in (JOBS, DRAFTS):  # a query would begin the snapshot, with which heartbeats collide, earlier
        return []
    statement, parameters = _compiled(subject if subject in (BELIEF, EVERYTHING, PEOPLE) else None)
    return [(statement, tuple(subject for _ in range(parameters)))]


def hash_of_state(answers: list[list[Any]]) -> str | None:
    rows = sorted([str(cell) for cell in row] for answer in answers for row in answer)
    return sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest() if rows else None


@cache
def _compiled(subject: str | None) -> tuple[str, int]:
    """The statement in the database's own words, and how often it has the subject: every write asks twice.

    subject: one of those that are no campaign; None: a campaign, by its name.
    """
    if subject is None:
        parts = _of_campaigns(one=True)
    elif subject == BELIEF:
        parts = _of_belief()
    elif subject == PEOPLE:
        parts = _of_people()
    else:
        parts = [*_of_campaigns(one=False), *_of_belief(), *_of_people(), *_of_secrets()]
    # no value but the subject is a parameter, and both drivers take them by position
    text = str(sa.union_all(*parts).compile(compile_kwargs={"literal_binds": True}))
    return text.replace(_HERE, "?"), text.count(_HERE)


def _of_campaigns(*, one: bool) -> list["sa.Select[Any]"]:
    plans, campaigns = schema.plans, schema.campaigns
    of_plan, of_campaign = plans.c.campaign == _SUBJECT, campaigns.c.campaign == _SUBJECT
    parts = [
        (_sealed_rows("plan", plans.c.plan_id), of_plan),
        (_sealed_rows("launch", campaigns.c.campaign), of_campaign),
        (_sealed_rows("state", campaigns.c.campaign, "state_seal"), of_campaign),
        (_sealed_rows("evidence", schema.evidence.c.network).join(campaigns), of_campaign),
        (_sealed_rows("batch", schema.batches.c.batch_id).join(campaigns), of_campaign),
    ]
    for table in (schema.plan_makers, schema.approvals):
        joined = _sealed_rows(table.name, table.c.name).join(plans, plans.c.plan_id == table.c.plan_id)
        parts.append((joined, of_plan))
    return [part.where(condition) if one else part for part, condition in parts]


def _of_belief() -> list["sa.Select[Any]"]:
    return [_sealed_rows("version", schema.versions.c.model), _sealed_rows("active", schema.active_versions.c.model)]


def _of_people() -> list["sa.Select[Any]"]:
    return [
        _sealed_rows("person", schema.people.c.name),
        _sealed_rows("key", schema.api_keys.c.key_id),
        _sealed_rows("invitation", schema.invitations.c.token_hash),
        _sealed_rows("setting", schema.shop_settings.c.name),
    ]


def _of_secrets() -> list["sa.Select[Any]"]:
    """Among them the seal of the list of forgotten customers."""
    return [_sealed_rows("secret", schema.secrets.c.name)]


def _sealed_rows(kind: str, name: "sa.Column[Any]", seal: str = "seal") -> "sa.Select[Any]":
    return sa.select(sa.literal(kind, sa.Text).label("kind"), name.label("name"), name.table.c[seal].label("seal"))
