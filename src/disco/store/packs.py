"""Packs: the purchases of a large batch that count, as one artefact in the place of a million rows of the database.

A database finds a place in several indexes for every row, which takes most of the time of a large ingest. Of a batch
with at least `LEAST_ROWS` of them, purchases that count are kept as an artefact and found by two indexes of their own.
Everything else about a batch stays in the database: rows set aside, duplicates, refunds, corrections.

A pack never changes when a row of it is judged otherwise: the row is written to the database, and **a row of the
database hides the row of the pack that has its number**. Whoever forgets a customer writes packs anew without them.

Stored forms, which change only with a migration, by column of `batches`:
- `pack` has row, event_id, customer_id, code, ordered_at (microseconds since 1970 UTC), full_price_minor, by row. The
  other columns of these rows follow: kind `purchase`, disposition `applied`, all others null.
- `event_index` and `code_index` are (key, row), by key and row: the 64-bit key of a text, and its place in the pack.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from disco.records.arrays import Flags, Integers
from disco.records.content import content_hash
from disco.records.identity import customer_keys
from disco.records.life import Disposition
from disco.store import schema
from disco.store.artefacts import Artefacts, in_one_piece, rows_of
from disco.store.database import FEW, ask, in_order, storable
from disco.store.schema import OUTCOMES
from disco.store.session import Session

LEAST_ROWS = 50_000
"""Purchases that count of a batch, from which on they are packed."""
COLUMNS = ("pack", "event_index", "code_index")
"""Of `batches`: names of artefacts; all null where the batch has no pack."""

_PACKED = ("row", "event_id", "customer_id", "code", "ordered_at", "full_price_minor")
_CONSTANT = {"kind": "purchase", "disposition": str(Disposition.APPLIED)}
_ABSENT = ("refers_to", "reason", "raw")
_INDEXED = {"event_id": "event_index", "code": "code_index"}
_CELLS = ", ".join(("number", "campaign_number", "batch_id", "reverted_at", *COLUMNS))
_FOUND = f"SELECT {_CELLS} FROM batches WHERE pack IS NOT NULL AND "
_ROWS = schema.outcomes
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
        self.session.set(schema.batches, row, **{name: names.get(name) for name in COLUMNS})

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
        conditions = [f"number IN ({', '.join(str(int(number)) for number in chunk)})" for chunk in chunks]
    else:
        conditions = ["campaign_number = ?" if campaign is not None else "1 = 1"]
    values = () if campaign is None else (campaign,)
    for condition in conditions:
        for number, of, batch_id, reverted_at, *names in ask(
            session.connection, f"{_FOUND}{condition} ORDER BY number", values
        ):
            yield Pack(session, number, of, batch_id, reverted_at is None, tuple(name or _NO_NAME for name in names))


def take_out(session: Session, pack: Pack, places: Integers) -> None:
    """Write rows of a pack to the database, where they hide those of the pack."""
    rows = storable(pack.rows(places, _STORED))
    rows = rows.append_column("campaign_number", pa.array(np.full(places.size, pack.campaign_number)))
    rows = rows.append_column("reverted", pa.array(np.full(places.size, not pack.in_force)))
    session.database.insert(session.connection, _ROWS, rows)


def rows_seal(outcomes: pa.Table) -> str:
    """Of a batch's rows, in any order: `records.content.content_hash` of the columns that never change, by row, and of
    disposition and reason where the row was set aside (null elsewhere), wherever the rows lie."""
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
