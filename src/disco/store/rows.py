"""Rows that are sealed: what a seal is about, the sums of seals; and how a frozen dataclass becomes a row and back.

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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from hashlib import sha256
from types import NoneType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import sqlalchemy as sa

from disco.records.campaign_records import Sealed
from disco.records.errors import SealError
from disco.records.people import Actor, ActorKind
from disco.store import schema

_MODULUS = 1 << 256
JOURNAL = "journal"
"""The name of the tally of a subject's entries, which are sealed by their hashes."""


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
