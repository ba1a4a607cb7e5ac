"""Rows that are sealed: what a seal is about, the sums of seals, how a frozen dataclass becomes a row and back; and the
session, by which the repositories of a transaction read and write them.

Stored form, which changes only with a migration. The seal of a row is the SHA-256, in lower-case hexadecimal digits, of
parts one after the other: the name of its table, then its cells in the order of the table's columns, but for the seal
itself, for a number that the database gives, and for what follows from other rows. Each part is
- one letter for its kind: n null, b truth, i integer, d double, t text, x bytes;
- the length of its content in bytes, as 8 bytes, little-endian;
- its content: nothing; 0 or 1 as one byte; decimal digits; IEEE 754 little-endian; UTF-8; the bytes as they are.
Moments are integers, as they are stored. A null seal is a broken one.

A row that is gone, or one too many, breaks no seal. So the rows of one table that belong to one owner (a campaign, or
one of the subjects of `schema`) have a *tally*: the sum of their seals as integers, modulo 2²⁵⁶, kept in `tallies` as
64 hexadecimal digits. A writer adds the seals of what it writes and subtracts those of what it replaces; nothing has to
be read again, and the order of rows does not matter. An entry of the journal has a hash of the tallies that its
transaction found and of those that it left.

A seal finds mistakes and accidents; whoever can write the database can compute it too.
"""

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from hashlib import sha256
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import sqlalchemy as sa

from disco.records.diagnosis import RESTORE
from disco.records.errors import NotFoundError, SealError, StateError, did_you_mean
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.people import Actor, ActorKind
from disco.store import schema
from disco.store.artefacts import Artefacts
from disco.store.database import Database, add_rows, ask, ask_all, change_later, delete_of, update_of, words
from disco.store.schema import campaigns, contexts, plans, reserves, secrets, tallies

_MODULUS = 1 << 256
JOURNAL = "journal"
"""The name of the tally of a subject's entries, which are sealed by their hashes."""


class Sealed(StrEnum):
    """What a seal is about, as a sentence names it."""

    PLAN = "plan"
    SECRET = "secret"  # nosec B105 - a name
    VERSION = "version"
    ACTIVE = "active version"
    CAMPAIGN = "campaign"
    STATE = "state, reserve or contexts of campaign"
    LATE = "late arrivals of campaign"
    EVIDENCE = "evidence of campaign"
    BATCH = "batch"
    OUTCOMES = "outcomes of batch"
    POOL = "codes of the pool of campaign"
    FORGOTTEN = "list of forgotten customers"
    PERSON = "person"
    KEY = "key"
    INVITATION = "invitation of"
    MAKER = "maker of plan"
    APPROVAL = "approval of plan"
    SETTING = "setting"
    SCHEDULE = "schedule"
    WEBHOOK = "webhook"
    OUTCOME_ROWS = "rows of outcomes"
    POOL_ROWS = "rows of pool_codes"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenSeal:
    """Something that is kept and is not what this program wrote."""

    what: Sealed
    name: str  # its id, where it has one
    found: str  # "changed by something other than disco", "missing", …

    @property
    def subject(self) -> str:
        return f"{self.what} {self.name}".strip()

    @property
    def words(self) -> str:
        """
        >>> BrokenSeal(what=Sealed.OUTCOMES, name="5d20", found="missing").words
        'outcomes of batch 5d20 are missing'
        """
        several = self.what in (Sealed.LATE, Sealed.OUTCOMES, Sealed.POOL, Sealed.OUTCOME_ROWS, Sealed.POOL_ROWS)
        return f"{self.subject} {'are' if several else 'is'} {self.found}"


class SealedKind(NamedTuple):
    """What the rows of a table are, as a sentence names them."""

    what: Sealed
    name: str | None
    """The column that names a row; None: the rows of an owner are one thing."""
    words: str
    """Of one row, for an error; `owner` is a campaign."""


KINDS: dict[sa.Table, SealedKind] = {
    schema.secrets: SealedKind(Sealed.SECRET, "name", "The secret {name}"),
    schema.forgotten: SealedKind(Sealed.FORGOTTEN, None, "The list of forgotten customers"),
    schema.plans: SealedKind(Sealed.PLAN, "plan_id", "Plan {plan_id}"),
    schema.plan_makers: SealedKind(Sealed.MAKER, "plan_id", "The maker of plan {plan_id}"),
    schema.approvals: SealedKind(Sealed.APPROVAL, "plan_id", "The approval of plan {plan_id}"),
    schema.campaigns: SealedKind(Sealed.CAMPAIGN, "campaign", "Campaign {campaign}"),
    schema.reserves: SealedKind(Sealed.STATE, None, "The state, reserve or contexts of campaign {owner}"),
    schema.contexts: SealedKind(Sealed.STATE, None, "The state, reserve or contexts of campaign {owner}"),
    schema.late_decisions: SealedKind(Sealed.LATE, None, "A late arrival of campaign {owner}"),
    schema.evidence: SealedKind(Sealed.EVIDENCE, None, "The evidence of campaign {owner}"),
    schema.batches: SealedKind(Sealed.BATCH, "batch_id", "Batch {batch_id}"),
    schema.versions: SealedKind(Sealed.VERSION, "number", "Version {number} of the model"),
    schema.active_versions: SealedKind(Sealed.ACTIVE, "number", "The active version of the model"),
    schema.people: SealedKind(Sealed.PERSON, "name", "The person {name}"),
    schema.api_keys: SealedKind(Sealed.KEY, "key_id", "The key {key_id}"),
    schema.invitations: SealedKind(Sealed.INVITATION, "name", "An invitation"),
    schema.shop_settings: SealedKind(Sealed.SETTING, "name", "The setting {name}"),
    schema.schedules: SealedKind(Sealed.SCHEDULE, "id", "The schedule {id}"),
    schema.webhooks: SealedKind(Sealed.WEBHOOK, "id", "The webhook {id}"),
}
"""Every table of sealed rows but `arrivals`, which are prepared again where one is damaged."""

# owners of rows that belong to no campaign
_OWNERS = {
    **dict.fromkeys((schema.secrets, schema.forgotten), schema.EVERYTHING),
    **dict.fromkeys((schema.versions, schema.active_versions), schema.BELIEF),
    **dict.fromkeys((schema.people, schema.api_keys, schema.invitations, schema.shop_settings), schema.PEOPLE),
    **dict.fromkeys((schema.schedules, schema.webhooks), schema.JOBS),
}


def owner_of(
    table: sa.Table,
    row: Mapping[Any, Any],
    *,
    campaign_of_number: Callable[[Any], str],
    campaign_of_plan: Callable[[Any], str],
) -> str:
    """The campaign or the subject whose row this is."""
    if table in _OWNERS:
        return _OWNERS[table]
    if "campaign" in table.c:
        return str(row["campaign"])
    if "campaign_number" in table.c:
        return campaign_of_number(row["campaign_number"])
    return campaign_of_plan(row["plan_id"])


# ---- seals ----


def seal_of(table: sa.Table, row: Mapping[Any, Any]) -> str:
    """The seal of a row, by the names of its columns; a column that is not there is null.

    >>> seal_of(schema.active_versions, {"model": "main", "number": 1})[:16]
    'd9aabff5c818acc8'
    """
    digest = sha256()
    names, truths = _sealed_columns(table)
    for name in (None, *names):
        cell = table.name if name is None else row.get(name)
        if name in truths and cell in (0, 1):  # SQLite's truths are integers
            cell = bool(cell)
        letter, content = _part(cell)
        digest.update(letter + struct.pack("<q", len(content)))
        digest.update(content)
    return digest.hexdigest()


@cache
def _sealed_columns(table: sa.Table) -> tuple[tuple[str, ...], frozenset[str]]:
    """Their names, and which of them are truths."""
    left_out = (table.autoincrement_column, *(column for column in table.c if "unsealed" in column.info))
    columns = [column for column in table.c if column.name != "seal" and not any(column is one for one in left_out)]
    truths = frozenset(column.name for column in columns if isinstance(column.type, sa.Boolean))
    return tuple(column.name for column in columns), truths


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


def is_whole(table: sa.Table, row: Mapping[Any, Any]) -> bool:
    """Whether a row is what this program wrote."""
    return bool(row["seal"] == seal_of(table, row))


def sealed(table: sa.Table, row: Mapping[Any, Any]) -> dict[str, Any]:
    """The row as a driver takes it, with its seal."""
    cells = {name: _stored(cell) for name, cell in row.items()}
    return {**cells, "seal": seal_of(table, cells)}


def _stored(cell: Any) -> Any:
    if isinstance(cell, datetime):
        return schema.microseconds(cell)
    return str(cell) if isinstance(cell, StrEnum) else cell


def changed(what: str) -> SealError:
    """The error about something that is not what this program wrote."""
    fix = "`disco doctor` lists what else was changed; restore a backup, or run `disco doctor --repair`."
    return SealError(f"{what} was changed by something other than disco", fix=fix)


# ---- tallies ----


def sum_of(seals: Iterable[Any]) -> int:
    """The tally of these seals. One that is none counts as nothing: its row is found by itself."""
    return sum(map(number_of, seals)) % _MODULUS


def number_of(seal: Any) -> int:
    try:
        return int(seal, 16)
    except (TypeError, ValueError):
        return 0


def plus(tally: int, growth: int) -> int:
    return (tally + growth) % _MODULUS


def as_text(tally: int) -> str:
    return f"{tally:064x}"


def state_of(tallies: Mapping[str, int]) -> str | None:
    """The state of an owner's rows in one hash, by their tallies; None: nothing is kept of it.

    Stored form: the SHA-256 of a JSON list without blanks: `[table, tally]` for every tally but that of the journal,
    sorted.
    """
    kept = sorted((name, as_text(tally)) for name, tally in tallies.items() if tally and name != JOURNAL)
    return _hash(kept)


def state_of_all(states: Mapping[str, str | None]) -> str | None:
    """The states of all owners in one hash: the same of `[owner, state]`."""
    return _hash(sorted((owner, state) for owner, state in states.items() if state is not None))


def _hash(pairs: list[tuple[str, str]]) -> str | None:
    return sha256(json.dumps(pairs, separators=(",", ":")).encode()).hexdigest() if pairs else None


# ---- frozen dataclasses as rows ----

Record = TypeVar("Record")


def to_row(record: Any) -> dict[str, Any]:
    """The fields of a frozen dataclass as cells of columns of their names.

    Mappings, tuples and dataclasses become JSON, an `Actor` two columns: the name, and the kind as `FIELD_kind`.

    >>> to_row(Actor("Anna", ActorKind.PERSON))
    {'name': 'Anna', 'kind': 'person'}
    """
    cells: dict[str, Any] = {}
    for name in _readers(type(record)):  # type: ignore[arg-type]  # a class is hashable
        value = getattr(record, name)
        if isinstance(value, Actor):
            cells |= {name: value.name, f"{name}_kind": str(value.kind)}
        else:
            is_json = isinstance(value, Mapping | tuple) or is_dataclass(value)
            cells[name] = as_json(value) if is_json else _stored(value)
    return cells


def from_row(record: type[Record], row: Mapping[Any, Any]) -> Record:
    """The dataclass that `to_row` made a row of; a column that is not there gives the field's default."""
    readers = _readers(record)  # type: ignore[arg-type]  # a class is hashable
    return record(**{name: read(row) for name, read in readers.items() if name in row})


def as_json(value: Any) -> str:
    """A mapping, a tuple or a dataclass as it is kept."""
    return json.dumps(_plain(value), allow_nan=False)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


@cache
def _readers(record: Any) -> dict[str, Callable[[Mapping[Any, Any]], Any]]:
    """How each field is read from a row."""
    kinds = get_type_hints(record)
    return {field.name: _reader(field.name, kinds[field.name]) for field in fields(record)}


def _reader(name: str, kind: Any) -> Callable[[Mapping[Any, Any]], Any]:
    given = kind
    if NoneType in get_args(kind):
        given = next(part for part in get_args(kind) if part is not NoneType)
    read: Callable[[Any], Any] | None = None
    if given is Actor:
        return lambda row: Actor(row[name], ActorKind(row[f"{name}_kind"]))
    if get_origin(given) in (Mapping, tuple) or is_dataclass(given):
        read = partial(_from_json, given)
    elif isinstance(given, type) and issubclass(given, StrEnum | bool | bytes):
        read = given
    return lambda row: row[name] if read is None or row[name] is None else read(row[name])


def _from_json(kind: Any, text: str) -> Any:
    value = json.loads(text)
    if is_dataclass(kind) and isinstance(kind, type):
        kinds = get_type_hints(kind)
        return kind(**{name: _tuples(kinds[name], part) for name, part in value.items()})
    return _tuples(kind, value)


def _tuples(kind: Any, value: Any) -> Any:
    """A list of JSON as the tuple that a field holds, its parts as enumerations where they are."""
    if get_origin(kind) is not tuple:
        return value
    part = get_args(kind)[0]
    made = part if isinstance(part, type) and issubclass(part, StrEnum) else None
    return tuple(value if made is None else map(made, value))


# ---- how a transaction reads and writes them ----
#
# Every sealed row is written by `add`, `set` and `remove`. They keep up its seal and the tally of its owner, and no row
# that another program has changed is written over: its seal would hide the change.

LEAST_OF_AN_ID = 4  # characters
# secrets of the database: of the codes, of lasting holdouts, of forgotten customers, of pseudonyms; made with it
CODES, HOLDOUT, FORGOTTEN, PSEUDONYMS = "codes", "holdout", "forgotten", "pseudonyms"
SECRETS = (HOLDOUT, FORGOTTEN, PSEUDONYMS, CODES)


class Session:
    """Lives as long as its transaction."""

    def __init__(
        self,
        connection: sa.Connection,
        database: Database,
        artefacts: Artefacts | None = None,
        locale: Locale = POUNDS_UTC,
    ) -> None:
        self.connection = connection
        self.database = database
        self._artefacts = artefacts
        self.locale = locale
        self.growth: dict[str, dict[str, int]] = {}  # of tallies, by owner and table
        self.detail: dict[str, Any] = {}  # of the journal's entry about this transaction
        self._numbers: dict[str, int] = {}
        self._read: dict[str, dict[object, Any]] = {}  # by table

    @property
    def artefacts(self) -> Artefacts:
        assert self._artefacts is not None  # for the type checker: only who makes or repairs tables has none
        return self._artefacts

    def read_before(self, table: sa.Table) -> dict[object, Any]:
        """What this transaction has read of a table. A transaction sees one state of everything, so that nothing has to
        be read twice; what it writes itself is put in the place of what it has read (`add`, `set`, `remove`)."""
        return self._read.setdefault(table.name, {})

    def raw(self, table: sa.Table, key: str, value: object, *, order: str | None = None) -> list[dict[str, Any]]:
        """Rows with their cells as the database holds them, whatever a cell's type became; nobody changes them."""
        read = self.read_before(table)
        found: list[dict[str, Any]] | None = read.get((key, value))
        if found is None:
            names, statement = cells_of(table, key, order)
            found = [dict(zip(names, row, strict=True)) for row in ask(self.connection, statement, (value,))]
            read[key, value] = found
        return found

    def read_ahead(self, *questions: "tuple[sa.Table, object, str, tuple[object, ...], tuple[str, ...]]") -> None:
        """Read at once what will be asked for one by one.

        questions: table, what its rows are remembered as, statement and values, names of the cells.
        """
        wanted = [one for one in questions if one[1] not in self.read_before(one[0])]
        if not wanted:
            return
        answers = ask_all(self.connection, [(statement, values) for _, _, statement, values, _ in wanted])
        for (table, place, _, _, names), rows in zip(wanted, answers, strict=True):
            self.keep(table, place, names, rows)

    def keep(self, table: sa.Table, place: object, names: tuple[str, ...], rows: "list[Any]") -> None:
        """Remember rows that were read; a place is what `raw` or another reader looks for."""
        self.read_before(table)[place] = [dict(zip(names, row, strict=True)) for row in rows]

    # ---- sealed rows

    def add(self, table: sa.Table, *rows: Mapping[Any, Any], recorded: bool = True) -> None:
        """Append rows, all with the same columns. recorded: whether the tally is to know of them; a repair that brings
        back what was lost does not say so, because the tally knows of it."""
        new = [sealed(table, row) for row in rows]
        if new:
            add_rows(self.connection, table, new)
            self._read.pop(table.name, None)
        for row in new if recorded else ():
            self._count(table, row, number_of(row["seal"]))

    def set(self, table: sa.Table, row: Mapping[Any, Any], **values: Any) -> dict[str, Any]:
        """Change a row, given as it was read; as it is now. SealError where another program has changed it before."""
        self.refuse_changed(table, row)
        new = sealed(table, {**row, **values})
        growth = number_of(new["seal"]) - number_of(row["seal"])
        self.overwrite(table, row, new)
        self._count(table, new, growth)
        return new

    def overwrite(self, table: sa.Table, row: Mapping[Any, Any], new: Mapping[Any, Any]) -> None:
        """Write other cells, whatever tally and seal say of the row: for repairs, which compare them afterwards."""
        key = tuple(column.name for column in table.primary_key.columns)
        cells = {name: cell for name, cell in new.items() if cell is not row[name] and name not in key}
        if cells:
            values = (*cells.values(), *(row[name] for name in key))
            change_later(self.connection, update_of(table, tuple(cells), key), values)
        if table in (campaigns, plans):
            self._read.pop(table.name, None)
            return
        if isinstance(row, dict):
            row.update(new)  # in every list that holds it: there may be a million late arrivals

    def remove(self, table: sa.Table, row: Mapping[Any, Any], *, recorded: bool = True) -> None:
        """Remove a row, given as it was read; also one that another program has changed."""
        key = tuple(column.name for column in table.primary_key.columns)
        change_later(self.connection, delete_of(table, key), tuple(row[name] for name in key))
        self._read.pop(table.name, None)
        if recorded:
            self._count(table, row, -number_of(row["seal"]))

    def replace_all(self, table: sa.Table, owner: str, before: Iterable[Mapping[Any, Any]], *rows: Any) -> None:
        """Put rows in the place of all those of an owner, which also ends what was wrong with them: their tally."""
        for row in before:
            self.remove(table, row, recorded=False)
        self.add(table, *rows, recorded=False)
        now = sum_of(seal_of(table, sealed(table, row)) for row in rows)
        growth = self.growth.setdefault(owner, {})
        growth[table.name] = now - self.tallies(owner).get(table.name, 0)

    def tallies(self, owner: str) -> dict[str, int]:
        """Those of an owner before this transaction, by table."""
        return {row["name"]: number_of(row["tally"]) for row in self.raw(tallies, "owner", owner)}

    def tally(self, table: sa.Table, owner: str) -> int:
        """The sum of the seals of all rows of an owner, as it must be now."""
        return plus(self.tallies(owner).get(table.name, 0), self.growth.get(owner, {}).get(table.name, 0))

    def refuse_changed(self, table: sa.Table, *rows: Mapping[Any, Any]) -> None:
        """SealError where one of these rows is not what this program wrote."""
        for row in rows:
            if not is_whole(table, row):
                raise changed(KINDS[table].words.format_map({**row, "owner": self._owner(table, row)}))

    def refuse_incomplete(self, table: sa.Table, owner: str, rows: Sequence[Mapping[Any, Any]]) -> None:
        """The same of all rows of an owner: none is changed, missing or added."""
        self.refuse_changed(table, *rows)
        if sum_of(row["seal"] for row in rows) != self.tally(table, owner):
            raise changed(KINDS[table].words.format_map({**(rows[0] if rows else {}), "owner": owner}))

    def whole(
        self, table: sa.Table, *which: sa.ColumnElement[bool], order: Sequence[Any] = ()
    ) -> Sequence[Mapping[Any, Any]]:
        """Rows that meet conditions, each compared with its seal."""
        found = self.connection.execute(sa.select(table).where(*which).order_by(*order)).mappings().all()
        self.refuse_changed(table, *found)
        return found

    def records(
        self, kind: type[Record], table: sa.Table, *which: sa.ColumnElement[bool], order: Sequence[Any] = ()
    ) -> tuple[Record, ...]:
        """The same as frozen dataclasses, whose fields are columns (`rows.from_row`)."""
        return tuple(from_row(kind, row) for row in self.whole(table, *which, order=order))

    def record(self, kind: type[Record], table: sa.Table, *which: sa.ColumnElement[bool]) -> Record | None:
        """The one that a key names; None: there is none."""
        return next(iter(self.records(kind, table, *which)), None)

    def record_beginning(self, kind: type[Record], ids: sa.Column[Any], text: str, *, none: NotFoundError) -> Record:
        """The one whose id is this text, or the only one whose id begins with it (`beginning_with`)."""
        row = beginning_with(self.connection, ids, text, rows=sa.select(ids.table), none=none)._mapping
        self.refuse_changed(ids.table, row)
        return from_row(kind, row)

    def _count(self, table: sa.Table, row: Mapping[Any, Any], growth: int) -> None:
        if table in KINDS:
            of_owner = self.growth.setdefault(self._owner(table, row), {})
            of_owner[table.name] = of_owner.get(table.name, 0) + growth

    def _owner(self, table: sa.Table, row: Mapping[Any, Any]) -> str:
        return owner_of(table, row, campaign_of_number=self._name, campaign_of_plan=self._campaign_of_plan)

    def _name(self, number: int) -> str:
        for campaign, known in self._numbers.items():
            if known == number:
                return campaign
        rows = self.raw(campaigns, "number", number)
        return str(rows[0]["campaign"]) if rows else ""

    def _campaign_of_plan(self, plan_id: str) -> str:
        rows = self.raw(plans, "plan_id", plan_id)
        return str(rows[0]["campaign"]) if rows else ""

    # ---- campaigns

    def keep_campaign(self, row: Any) -> "CampaignRow":
        """The same of a campaign's own."""
        found = CampaignRow(dict(zip(_CAMPAIGN_CELLS, row, strict=True)))
        self.read_before(campaigns)[found.campaign] = self.read_before(plans)[found.campaign] = found
        self.read_before(campaigns)["number", found.number] = [found.cells]
        return found

    def number(self, campaign: str) -> int:
        """The short name of a campaign within the database; it never changes."""
        if campaign not in self._numbers:
            self._numbers[campaign] = self.campaign_row(campaign).number
        return self._numbers[campaign]

    def campaign_row(self, campaign: str) -> "CampaignRow":
        """The campaign's own columns, and the artefacts of its plan: decisions and features."""
        found = self.find_campaign(campaign)
        if found is None:
            raise no_such_campaign(campaign, self.connection)
        return found

    def find_campaign(self, campaign: str) -> "CampaignRow | None":
        """The same; None where there is none."""
        of_campaigns, of_plans = self.read_before(campaigns), self.read_before(plans)
        found: CampaignRow | None = of_campaigns.get(campaign)
        if found is None or campaign not in of_plans:
            rows = ask(self.connection, CAMPAIGN, (campaign,))
            found = self.keep_campaign(rows[0]) if rows else None
        return found

    def refuse_changed_state(self, campaign: "CampaignRow") -> None:
        """SealError where launch, state, reserve or contexts of a campaign are not what this program wrote; its plan
        and its late arrivals are not read."""
        self.refuse_changed(campaigns, campaign.cells)
        name, number = campaign.campaign, campaign.number
        self.refuse_incomplete(reserves, name, self.raw(reserves, "campaign_number", number, order="depth"))
        self.refuse_incomplete(contexts, name, self.raw(contexts, "campaign_number", number))

    def secret(self, name: str) -> bytes:
        """A secret of the database; StateError where it is gone or another one."""
        row = next(iter(self.raw(secrets, "name", name)), None)
        if row is None or not is_whole(secrets, row):
            found = "is gone" if row is None else "was changed by something other than disco"
            raise StateError(f"The secret `{name}` of the database {found}", fix=RESTORE)
        return bytes(row["value"])


class CampaignRow:
    """A row of `campaigns` with the artefacts of its plan: each cell by its name, as the database holds it."""

    __slots__ = ("cells",)

    def __init__(self, cells: dict[str, Any]) -> None:
        self.cells: dict[str, Any] = cells

    def __getattr__(self, name: str) -> Any:
        try:
            return self.cells[name]
        except KeyError:
            raise AttributeError(name) from None


_CAMPAIGN_CELLS = (*(column.name for column in campaigns.c), "decisions", "features")
CAMPAIGN = words(
    sa.select(*campaigns.c, plans.c.decisions, plans.c.features)
    .join(plans, plans.c.plan_id == campaigns.c.plan_id)
    .where(campaigns.c.campaign == sa.bindparam("campaign"))
)
NAMED = sa.select(campaigns.c.number).where(campaigns.c.campaign == sa.bindparam("campaign")).scalar_subquery()
"""The number of the campaign that a question names."""


@cache
def cells_of(table: sa.Table, key: str, order: str | None, *, named: bool = False) -> tuple[tuple[str, ...], str]:
    """The columns of a table, and the question for those of one key; named: of the campaign of a name."""
    rows = sa.select(table).where(table.c[key] == (NAMED if named else sa.bindparam("key")))
    return tuple(column.name for column in table.c), words(rows if order is None else rows.order_by(table.c[order]))


def beginning_with(
    connection: sa.Connection, ids: sa.Column[Any], text: str, *, rows: "sa.Select[Any]", none: NotFoundError
) -> sa.Row[Any]:
    """The row whose id is this text, or the only one whose id begins with it; `none` is raised where there is none.

    A beginning needs four characters: what follows may be final, and two letters are soon mistyped.
    """
    found = connection.execute(rows.where(ids == text)).all()
    if not found and len(text) >= LEAST_OF_AN_ID:
        found = connection.execute(rows.where(sa.func.substr(ids, 1, len(text)) == text).limit(2)).all()
    if len(found) > 1:
        raise StateError(f"Several ids begin with {text}", fix="Give more of the id.")
    if not found and 0 < len(text) < LEAST_OF_AN_ID:
        raise NotFoundError(f"{none.what}", fix=f"Give at least {LEAST_OF_AN_ID} characters of the id.")
    if not found:
        raise none
    return found[0]


def no_such_campaign(campaign: str, connection: sa.Connection) -> NotFoundError:
    near = did_you_mean(campaign, connection.execute(sa.select(campaigns.c.campaign)).scalars())
    return NotFoundError(
        f"No campaign {campaign} was launched", fix=near or "`disco campaigns` lists the launched ones."
    )
