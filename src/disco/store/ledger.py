"""The ledger: batches, their rows as received, and what became of each.

Rows lie in the table `outcomes`, and of large batches in *packs*: the purchases of a large batch that count are one
artefact in the place of a million rows of the database. Every question is about both. A database finds a place in
several indexes for every row, which takes most of the time of a large ingest. So of a batch with at least `LEAST_ROWS`
of them, purchases that count are kept as an artefact and found by two indexes of their own. Everything else about a
batch stays in the database: rows set aside, duplicates, refunds, corrections.

A pack never changes when a row of it is judged otherwise: the row is written to the database, and **a row of the
database hides the row of the pack that has its number**. Whoever forgets a customer writes packs anew without them.

Stored forms, which change only with a migration, by column of `batches`:
- `pack` has row, event_id, customer_id, code, ordered_at (microseconds since 1970 UTC), full_price_minor, by row. The
  other columns of these rows follow: kind `purchase`, disposition `applied`, all others null.
- `event_index` and `code_index` are (key, row), by key and row: the 64-bit key of a text, and its place in the pack.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from disco.records.arrays import Flags, Integers
from disco.records.arrow_tables import content_hash
from disco.records.campaign_records import Disposition
from disco.records.errors import NotFoundError, StateError
from disco.records.identity import customer_keys
from disco.store import schema
from disco.store.artefacts import Artefacts, in_one_piece, rows_of
from disco.store.database import FEW, asked, in_order, storable, typed
from disco.store.rows import Session, beginning_with, from_row, is_whole
from disco.store.schema import APPLIED, COUNTS, OUTCOMES

_BATCHES, _ROWS, _CAMPAIGNS = schema.batches, schema.outcomes, schema.campaigns
_RECORDS = sa.select(_BATCHES, _CAMPAIGNS.c.campaign).join(_CAMPAIGNS)
_OF_BATCH = _BATCHES.c.number == _ROWS.c.batch_number
_NUMBERED = OUTCOMES.append(pa.field("batch_number", pa.int64()))
_PLACED = pa.schema([pa.field("batch_number", pa.int64()), OUTCOMES.field("row"), *APPLIED])
_COUNTED = COUNTS.append(pa.field("batch_number", pa.int64()))
_EVENTS = pa.schema([OUTCOMES.field("event_id")])
_ROW_EVENTS = pa.schema([OUTCOMES.field("row"), OUTCOMES.field("event_id")])
_COLUMNS = [_BATCHES.c.batch_id, *(_ROWS.c[name] for name in _NUMBERED.names if name != "batch_id")]


LEAST_ROWS = 50_000
"""Purchases that count of a batch, from which on they are packed."""
COLUMNS = ("pack", "event_index", "code_index")
"""Of `batches`: names of artefacts; all null where the batch has no pack."""

_PACKED = ("row", "event_id", "customer_id", "code", "ordered_at", "full_price_minor")
_CONSTANT = {"kind": "purchase", "disposition": str(Disposition.APPLIED)}
_ABSENT = ("refers_to", "reason", "raw")
_INDEXED = {"event_id": "event_index", "code": "code_index"}
_PACKED_BATCHES = sa.select(
    *(_BATCHES.c[name] for name in ("number", "campaign_number", "batch_id", "reverted_at", *COLUMNS))
).where(_BATCHES.c.pack.is_not(None))
_NO_NAME = "none"  # of a damaged batch: no artefact has this name
_STORED = OUTCOMES.remove(OUTCOMES.get_field_index("batch_id")).append(pa.field("batch_number", pa.int64()))
_ROW = pa.schema([("row", pa.int64())])
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
SEALED_COLUMNS = tuple(_UNCHANGING.names)


def packable(rows: pa.Table) -> Flags | None:
    """(n,) the rows of a batch, as schema.OUTCOMES, that are packed; None: too few of them."""
    if rows.num_rows < LEAST_ROWS:
        return None
    flags = np.ones(rows.num_rows, np.bool_)
    for name, constant in _CONSTANT.items():
        flags &= pc.fill_null(pc.equal(rows[name], constant), False).to_numpy()
    for names, there in ((_ABSENT, False), (_PACKED, True)):
        for name in names:
            if rows[name].null_count != (0 if there else rows.num_rows):
                flags &= (rows[name].is_valid() if there else rows[name].is_null()).to_numpy()
    return flags if flags.sum() >= LEAST_ROWS else None


def put_pack(artefacts: Artefacts, rows: pa.Table) -> dict[str, str]:
    """Keep these rows, all of them packable; the cells of their batch."""
    table = in_order(storable(rows.select(list(_PACKED))), "row")
    return {
        "pack": artefacts.put(table),
        **{index: artefacts.put(_index_of(table[name])) for name, index in _INDEXED.items()},
    }


def _index_of(texts: pa.ChunkedArray) -> pa.Table:
    keys = customer_keys(texts)
    order = np.argsort(keys, kind="stable")
    return pa.table({"key": keys[order], "row": order.astype(np.int64)})


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """The pack of one batch. Places are those within it; `row` is the number within the batch."""

    session: Session
    number: int
    campaign_number: int
    batch_id: str
    in_force: bool
    names: tuple[str, ...]  # in the order of COLUMNS

    @property
    def table(self) -> pa.Table:
        return self.session.artefacts.get(self.names[0])

    def seen(self) -> Integers:
        """The places of all rows that no row of the database hides."""
        return self._unhidden(np.arange(self.table.num_rows))

    def with_texts(self, name: str, texts: pa.Array) -> Integers:
        """The places, of those that are not hidden, at which `event_id` or `code` is one of these texts."""
        index = self.session.artefacts.get(self.names[COLUMNS.index(_INDEXED[name])])
        return self._unhidden(rows_of(index, self.table[name], texts))

    def of_customers(self, customers: pa.Array) -> Integers:
        """The places of these customers' rows, hidden ones too; reads the whole pack."""
        found = pc.is_in(in_one_piece(self.table["customer_id"]), value_set=customers)
        return np.flatnonzero(found.to_numpy(zero_copy_only=False))

    def at_rows(self, rows: Integers) -> Integers:
        """The places of rows with these numbers, of those that are not hidden."""
        numbers = self.table["row"].to_numpy()
        place = np.searchsorted(numbers, rows)
        there = place < numbers.size
        there[there] = numbers[place[there]] == rows[there]
        return self._unhidden(np.unique(place[there]))

    def events(self, places: Integers | None = None) -> pa.Array:
        column = in_one_piece(self.table["event_id"])
        return column if places is None else column.take(pa.array(places))

    def repeated_events(self) -> pa.ChunkedArray:
        """Events that the pack has more than once; mostly none."""
        index = self.session.artefacts.get(self.names[1])
        keys = index["key"].to_numpy()
        alike = np.flatnonzero(keys[1:] == keys[:-1])
        near = index["row"].to_numpy()[np.unique(np.concatenate([alike, alike + 1]))]
        counts = pc.value_counts(self.events(near))
        return pa.chunked_array([counts.field("values").filter(pc.greater(counts.field("counts"), 1))])

    def rows(self, places: Integers, kinds: pa.Schema) -> pa.Table:
        """These rows, with those columns of `OUTCOMES` (and batch_number) that `kinds` names."""
        table, count = self.table, places.size
        whole = count == table.num_rows
        taken = None if whole else pa.array(places)
        columns = []
        for field in kinds:
            if field.name in _PACKED:
                column = table[field.name]
                column = column if taken is None else column.take(taken)
            elif field.name == "batch_number":
                column = pa.repeat(pa.scalar(self.number, field.type), count)
            else:
                constant = self.batch_id if field.name == "batch_id" else _CONSTANT.get(field.name)
                column = pa.repeat(pa.scalar(constant, field.type), count)
            columns.append(column.cast(field.type))
        return pa.table(columns, schema=kinds)

    def is_indexed(self) -> bool:
        """Whether both indexes are what the rows give."""
        artefacts, table = self.session.artefacts, self.table
        return all(
            artefacts.is_intact(index) and artefacts.get(index).equals(_index_of(table[name]))
            for name, index in zip(_INDEXED, self.names[1:], strict=True)
        )

    def replace(self, keep: Flags) -> None:
        """Keep only the flagged rows; with none of them there is no pack any more."""
        names = put_pack(self.session.artefacts, self.table.filter(pa.array(keep))) if keep.any() else {}
        [row] = self.session.raw(schema.batches, "number", self.number)
        # the names of packs are outside the seal, so that a damaged batch does not end the repair of its campaign
        self.session.overwrite(schema.batches, row, {**row, **{name: names.get(name) for name in COLUMNS}})

    def _unhidden(self, places: Integers) -> Integers:
        if not places.size:
            return places
        rows = self.table["row"].to_numpy()[places]
        hidden = _ROWS.c.batch_number == self.number
        if rows.size <= FEW:
            hidden = sa.and_(hidden, _ROWS.c.row.in_(rows.tolist()))
        found = self.session.database.select(self.session.connection, sa.select(_ROWS.c.row).where(hidden), _ROW)
        return places if not found.num_rows else places[~np.isin(rows, found["row"].to_numpy())]


def packs_of(session: Session, *, campaign: int | None = None, batches: "list[int] | None" = None) -> Iterator[Pack]:
    """The packs of a campaign, of some batches, or all of them, as the batches were received; reverted ones too."""
    if batches is not None:
        chunks = [batches[first : first + FEW] for first in range(0, len(batches), FEW)]
        conditions: list[sa.ColumnElement[bool]] = [_BATCHES.c.number.in_(chunk) for chunk in chunks]
    else:
        conditions = [sa.true() if campaign is None else _BATCHES.c.campaign_number == campaign]
    for condition in conditions:
        found = session.connection.execute(_PACKED_BATCHES.where(condition).order_by(_BATCHES.c.number)).all()
        for number, of, batch_id, reverted_at, *names in found:
            yield Pack(session, number, of, batch_id, reverted_at is None, tuple(name or _NO_NAME for name in names))


def take_out(session: Session, pack: Pack, places: Integers) -> None:
    """Write rows of a pack to the database, where they hide those of the pack."""
    rows = storable(pack.rows(places, _STORED))
    rows = rows.append_column("campaign_number", pa.array(np.full(places.size, pack.campaign_number)))
    rows = rows.append_column("reverted", pa.array(np.full(places.size, not pack.in_force)))
    session.database.insert(session.connection, _ROWS, rows)


def rows_seal(outcomes: pa.Table) -> str:
    """Of a batch's rows, in any order: `records.arrow_tables.content_hash` of the columns that never change, by row,
    and of disposition and reason where the row was set aside (null elsewhere), wherever the rows lie."""
    rows = in_order(outcomes, "row")
    columns = [rows[field.name].cast(field.type) for field in _UNCHANGING]
    aside = rows["raw"].is_valid()
    columns += [pc.if_else(aside, rows[field.name], pa.scalar(None, field.type)) for field in _WHERE_SET_ASIDE]
    return content_hash(pa.table(columns, schema=_ROWS_SEALED))


def seal_of_rows(session: Session, number: int) -> str:
    """The same of the rows that are kept of a batch, in the database and in its pack."""
    columns = [_ROWS.c[name] for name in _ROWS_SEALED.names]
    rows = sa.select(*columns).where(_ROWS.c.batch_number == number)
    parts = [session.database.select(session.connection, rows, _ROWS_SEALED)]
    parts += [pack.rows(pack.seen(), _ROWS_SEALED) for pack in packs_of(session, batches=[number])]
    return rows_seal(pa.concat_tables(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One ingested file."""

    batch_id: str
    campaign: str
    source: str
    content_hash: str  # of its rows in their order
    received_at: datetime
    reverted_at: datetime | None = None  # None while it is in force


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LedgerMove:
    """Everything one ingest or one revert changes in the ledger, to be applied at once."""

    batch: BatchRecord  # new, or reverted where `reverted_at` is set
    received: pa.Table | None  # the rows of a new batch, as `schema.OUTCOMES`
    changes: pa.Table  # batch_id, row, disposition, reason of earlier rows whose disposition changes


class SqlLedger:
    """Received outcomes, as schema.OUTCOMES: rows in the order received, never deleted."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection
        self._database = session.database

    def apply(self, move: LedgerMove) -> None:
        """Write an ingest or a revert. No two APPLIED rows in force of a campaign share an event id: StateError.

        A reverted batch keeps its dispositions and is no longer in force; StateError when it was reverted before.
        """
        received = OUTCOMES.empty_table() if move.received is None else _as_kept(move.received)
        loose = received
        if move.batch.reverted_at is None:
            loose = self._add_batch(move.batch, received)
        else:
            self._revert(move.batch.batch_id, move.batch.reverted_at)
        if move.changes.num_rows:
            self._change(move.changes)
        if move.received is not None:
            self._add_outcomes(move.batch.campaign, loose)
        self._refuse_events_in_force_twice(move, loose)

    def batch(self, batch_id: str) -> BatchRecord:
        """By its id, or by four or more characters of its beginning where these name a single batch."""
        fix = "`disco ingest` prints the id of the batch it made."
        none = NotFoundError(f"There is no batch {batch_id}", fix=fix)
        return _record(beginning_with(self._connection, _BATCHES.c.batch_id, batch_id, rows=_RECORDS, none=none))

    def batches(self, campaign: str) -> tuple[BatchRecord, ...]:
        """In the order they were received."""
        of_campaign = _RECORDS.where(_BATCHES.c.campaign_number == self._session.number(campaign))
        return tuple(_record(row) for row in self._connection.execute(of_campaign.order_by(_BATCHES.c.number)))

    def outcomes(
        self,
        campaign: str,
        *,
        events: pa.Array | None = None,
        codes: pa.Array | None = None,
        refers_to: pa.Array | None = None,
        batch_id: str | None = None,
        dispositions: Iterable[Disposition] | None = None,
    ) -> pa.Table:
        """By batch as received, then row; restrictions given together must all hold.

        Rows of reverted batches are left out, unless their batch is asked for by its id.
        """
        statement = (
            sa.select(*_COLUMNS)
            .join(_BATCHES, _OF_BATCH)
            .where(_ROWS.c.campaign_number == self._session.number(campaign))
        )
        given = {"event_id": events, "code": codes, "refers_to": refers_to}
        wanted = {name: asked(name, texts) for name, texts in given.items() if texts is not None}
        for name, texts in wanted.items():
            statement = statement.where(self._database.among(_ROWS.c[name], texts))
        if batch_id is not None:
            number = self._batch_numbers([batch_id])[batch_id]
            statement, packs = statement.where(_ROWS.c.batch_number == number), self._packs_of_batches([number])
        else:
            statement, packs = statement.where(~_ROWS.c.reverted), self._packs(campaign)
        if dispositions is not None:
            named = [str(disposition) for disposition in dispositions]
            statement = statement.where(_ROWS.c.disposition.in_(named))
            packs = packs if str(Disposition.APPLIED) in named else []
        parts = [self._database.select(self._connection, statement, _NUMBERED)]
        if refers_to is None:  # a purchase refers to nothing
            for pack in packs:
                places = pack.seen() if not wanted else None
                for name, texts in wanted.items():
                    hits = pack.with_texts(name, texts)
                    places = hits if places is None else np.intersect1d(places, hits)
                assert places is not None
                parts.append(pack.rows(places, _NUMBERED))
        return in_order(pa.concat_tables(parts), "batch_number", "row").select(OUTCOMES.names)

    def applied(self, campaign: str, *, before: datetime | None = None) -> pa.Table:
        """Rows that count, by batch as received, then row; schema.APPLIED, which is what net purchases need.

        before: only what was ordered before this moment; the others are not read. None: all of them.
        """
        counts = [
            _ROWS.c.campaign_number == self._session.number(campaign),
            ~_ROWS.c.reverted,
            _ROWS.c.disposition == str(Disposition.APPLIED),
        ]
        if before is not None:
            counts.append(_ROWS.c.ordered_at < schema.microseconds(before))
        statement = sa.select(*(_ROWS.c[name] for name in _PLACED.names)).where(*counts)
        parts = [self._database.select(self._connection, statement, _PLACED)]
        for pack in self._packs(campaign):
            places = pack.seen()
            if before is not None:
                places = places[pack.table["ordered_at"].to_numpy()[places] < schema.microseconds(before)]
            parts.append(pack.rows(places, _PLACED))
        return in_order(pa.concat_tables(parts), "batch_number", "row").select(APPLIED.names)

    def sharing(self, campaign: str, *, events: pa.Array, codes: pa.Array) -> pa.Table:
        """Rows in force and outside quarantine whose event or reference is one of these events, or whose code is one
        of these codes: each row once, by batch as received, then row. Few or millions may be asked for."""
        wanted = {"event_id": asked("event_id", events), "refers_to": asked("event_id", events)}
        wanted["code"] = asked("code", codes)
        number, texts = self._session.number(campaign), len(events) + len(codes)
        in_force = (
            sa.select(*_COLUMNS)
            .join(_BATCHES, _OF_BATCH)
            .where(_ROWS.c.campaign_number == number, ~_ROWS.c.reverted, _ROWS.c.raw.is_(None))
        )
        if texts > FEW and self._has_fewer(number, texts):
            # fewer rows than texts: they come to us, because databases compare texts one by one
            found = self._database.select(self._connection, in_force, _NUMBERED)
            flags = [pc.is_in(found[name], value_set=each) for name, each in wanted.items()]
            parts = [found.filter(pc.or_(pc.or_(flags[0], flags[1]), flags[2]))]
        else:
            parts = [
                self._database.select(
                    self._connection, in_force.where(self._database.among(_ROWS.c[name], each)), _NUMBERED
                )
                for name, each in wanted.items()
                if len(each)
            ]
            parts = [_once(pa.concat_tables([_NUMBERED.empty_table(), *parts]))]
        for pack in self._packs(campaign):
            places = np.union1d(*(pack.with_texts(name, wanted[name]) for name in ("event_id", "code")))
            parts.append(pack.rows(places, _NUMBERED))
        return in_order(pa.concat_tables(parts), "batch_number", "row").select(OUTCOMES.names)

    def _packs(self, campaign: str) -> list[Pack]:
        """Those in force."""
        return [pack for pack in packs_of(self._session, campaign=self._session.number(campaign)) if pack.in_force]

    def _packs_of_batches(self, numbers: Sequence[int]) -> list[Pack]:
        return list(packs_of(self._session, batches=list(numbers)))

    def _has_fewer(self, number: int, rows: int) -> bool:
        """Whether a campaign has fewer outcomes than these."""
        some = sa.select(sa.literal(1)).where(_ROWS.c.campaign_number == number).limit(rows).subquery()
        return bool(self._connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one() < rows)

    def redispose(self, changes: pa.Table) -> None:
        """Write batch_id, row, disposition, reason of rows that the rules judge otherwise. For repairs and recalls."""
        self._change(changes)

    def align_reverted(self, campaign: str) -> int:
        """Let rows be reverted where their batch is, and nowhere else; how many were not. For repairs."""
        of_campaign = sa.select(_BATCHES).where(_BATCHES.c.campaign_number == self._session.number(campaign))
        count = 0
        for batch in self._connection.execute(of_campaign).all():
            flag = batch.reverted_at is not None
            others = sa.and_(_ROWS.c.batch_number == batch.number, _ROWS.c.reverted != flag)
            if is_whole(_BATCHES, batch._mapping):  # a batch that was changed says nothing about its rows
                count += self._connection.execute(_ROWS.update().where(others).values(reverted=flag)).rowcount
        return count

    def counts(self, campaign: str) -> pa.Table:
        """batch_id, disposition, rows (int64) of the batches in force: counted in the ledger when asked."""
        of_campaign = sa.and_(_BATCHES.c.campaign_number == self._session.number(campaign), ~_ROWS.c.reverted)
        statement = (
            sa.select(_BATCHES.c.batch_id, _ROWS.c.disposition, sa.func.count().label("rows"), _BATCHES.c.number)
            .join(_BATCHES, _OF_BATCH)
            .where(of_campaign)
            .group_by(_BATCHES.c.number, _BATCHES.c.batch_id, _ROWS.c.disposition)
        )
        found = self._database.select(self._connection, statement, _COUNTED)
        summed = {(row["batch_number"], row["disposition"]): row for row in found.to_pylist()}
        applied = str(Disposition.APPLIED)
        for pack in self._packs(campaign):
            if rows := pack.seen().size:
                row = {"batch_id": pack.batch_id, "disposition": applied, "rows": 0, "batch_number": pack.number}
                summed.setdefault((pack.number, applied), row)["rows"] += rows
        return pa.Table.from_pylist([summed[key] for key in sorted(summed)], schema=COUNTS)

    def _add_batch(self, record: BatchRecord, received: pa.Table) -> pa.Table:
        """The rows that are not packed."""
        flags, names = packable(received), dict[str, str]()
        if flags is not None and pc.all(pc.equal(received["batch_id"], record.batch_id)).as_py():
            names = put_pack(self._session.artefacts, received if flags.all() else received.filter(pa.array(flags)))
        self._session.add(
            _BATCHES,
            {
                "batch_id": record.batch_id,
                "campaign_number": self._session.number(record.campaign),
                "source": record.source,
                "content_hash": record.content_hash,
                "received_at": record.received_at,
                "reverted_at": None,
                "rows_seal": rows_seal(received),
                **names,
            },
        )
        return received if flags is None or not names else received.filter(pa.array(~flags))

    def _revert(self, batch_id: str, at: datetime) -> None:
        row = next(iter(self._session.raw(_BATCHES, "batch_id", batch_id)), None)
        if row is None or row["reverted_at"] is not None:
            raise StateError(f"Batch {batch_id} is not in force: it was reverted before, or never received")
        self._session.set(_BATCHES, row, reverted_at=at)
        self._connection.execute(_ROWS.update().where(_ROWS.c.batch_number == row["number"]).values(reverted=True))

    def seal_rows(self, campaign: str) -> None:
        """Take the outcomes of a campaign's batches as they are now: for those who changed them on purpose."""
        for row in self._session.raw(_BATCHES, "campaign_number", self._session.number(campaign)):
            self._session.set(_BATCHES, row, rows_seal=seal_of_rows(self._session, row["number"]))

    def _add_outcomes(self, campaign: str, rows: pa.Table) -> None:
        rows = self._numbered(rows).append_column("reverted", pa.array(np.zeros(rows.num_rows, bool)))
        number = pa.array(np.full(rows.num_rows, self._session.number(campaign)))
        self._database.insert(self._connection, _ROWS, storable(rows.append_column("campaign_number", number)))

    def _change(self, changes: pa.Table) -> None:
        rows = self._numbered(typed(changes.select(["batch_id", "row", "disposition", "reason"]), OUTCOMES))
        for pack in self._packs_of_batches(pc.unique(rows["batch_number"]).to_pylist()):
            theirs = rows["row"].filter(pc.equal(rows["batch_number"], pack.number)).to_numpy()
            take_out(self._session, pack, pack.at_rows(theirs))
        gains = pc.equal(rows["disposition"], str(Disposition.APPLIED))
        for part in (rows.filter(pc.invert(gains)), rows.filter(gains)):  # losses first: an event is in force once
            self._database.update(self._connection, _ROWS, storable(part), key=("batch_number", "row"))

    def _refuse_events_in_force_twice(self, move: LedgerMove, loose: pa.Table) -> None:
        """What a unique index does for the rows of the database, for those of packs and for both together.

        loose: the received rows that are not packed.
        """
        campaign = move.batch.campaign
        packs = self._packs(campaign)
        if not packs:
            return
        new = next((pack for pack in packs if pack.batch_id == move.batch.batch_id), None)
        applied = loose.filter(pc.equal(loose["disposition"], str(Disposition.APPLIED)))["event_id"]
        gained = move.changes.filter(pc.equal(move.changes["disposition"], str(Disposition.APPLIED)))
        events = pa.chunked_array([*applied.chunks, *self._events_of(gained).chunks], pa.string())
        events = asked("event_id", events)
        for pack in packs:
            twice = pack.events(pack.with_texts("event_id", events))
            if new is not None and not len(twice):
                others = self._applied_events(campaign, new) if pack is new else new.events()
                twice = pack.events(pack.with_texts("event_id", others)) if len(others) else twice
            if len(twice):
                raise StateError(f"The event {twice[0]} already exists in campaign {campaign}, and counts")

    def _applied_events(self, campaign: str, pack: Pack) -> pa.Array:
        """Events of rows of other batches in the database that count; of millions only those that may be in this pack;
        and those that the pack itself has twice."""
        number, events = self._session.number(campaign), pack.events()
        statement = sa.select(_ROWS.c.event_id).where(
            _ROWS.c.campaign_number == number,
            _ROWS.c.batch_number != pack.number,
            ~_ROWS.c.reverted,
            _ROWS.c.disposition == str(Disposition.APPLIED),
        )
        if not self._has_fewer(number, len(events)):
            statement = statement.where(self._database.among(_ROWS.c.event_id, events))
        found = self._database.select(self._connection, statement, _EVENTS)["event_id"]
        return asked("event_id", pa.chunked_array([*found.chunks, *pack.repeated_events().chunks], pa.string()))

    def _events_of(self, changes: pa.Table) -> pa.ChunkedArray:
        """The events of rows of the database, by batch_id and row."""
        found = [_EVENTS.empty_table()["event_id"]]
        for batch_id in pc.unique(changes["batch_id"]).to_pylist():
            rows = changes["row"].filter(pc.equal(changes["batch_id"], batch_id))
            number = self._batch_numbers([batch_id])[batch_id]
            of_batch = sa.select(_ROWS.c.row, _ROWS.c.event_id).where(_ROWS.c.batch_number == number)
            if len(rows) <= FEW:
                of_batch = of_batch.where(_ROWS.c.row.in_(rows.to_pylist()))
            there = self._database.select(self._connection, of_batch, _ROW_EVENTS)
            found.append(there.filter(pc.is_in(there["row"], value_set=rows.combine_chunks()))["event_id"])
        return pa.chunked_array([chunk for column in found for chunk in column.chunks], pa.string())

    def _numbered(self, rows: pa.Table) -> pa.Table:
        """The rows with batch_number in the place of batch_id."""
        ids = rows["batch_id"].combine_chunks().dictionary_encode()
        ids = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
        names = ids.dictionary.to_pylist()
        numbers = self._batch_numbers(names)
        column = pa.array([numbers[name] for name in names], pa.int64()).take(ids.indices)
        return rows.drop_columns(["batch_id"]).append_column("batch_number", column)

    def _batch_numbers(self, batch_ids: list[str]) -> dict[str, int]:
        rows = sa.select(_BATCHES.c.batch_id, _BATCHES.c.number).where(_BATCHES.c.batch_id.in_(batch_ids))
        numbers = {row.batch_id: row.number for row in self._connection.execute(rows)}
        for batch_id in batch_ids:
            if batch_id not in numbers:
                raise NotFoundError(f"There is no batch {batch_id}")
        return numbers


def _as_kept(outcomes: pa.Table) -> pa.Table:
    return typed(outcomes.select([name for name in OUTCOMES.names if name in outcomes.column_names]), OUTCOMES)


def _once(rows: pa.Table) -> pa.Table:
    """Each row once, of rows with batch_number and row."""
    places = np.stack([rows["batch_number"].to_numpy(), rows["row"].to_numpy()])
    first = np.unique(places, axis=1, return_index=True)[1]
    return rows if first.size == rows.num_rows else rows.take(pa.array(np.sort(first)))


def _record(row: sa.Row[Any]) -> BatchRecord:
    return from_row(BatchRecord, row._mapping)
