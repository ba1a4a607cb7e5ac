"""Which rows of a ledger have to be judged together with some others: found by asking, never by reading it all."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.kept import OUTCOMES
from disco.records.ports import Shelves


def admitted_rows(rows: pa.Table) -> pa.Table:
    """Rows that passed the door: theirs is no raw text."""
    return rows.filter(rows["raw"].is_null())


def related_rows(shelves: Shelves, campaign: str, rows: pa.Table) -> pa.Table:
    """All admitted rows in force that share an event, a code or a reference with these, directly or through others."""
    found = OUTCOMES.empty_table()
    asked: dict[str, pa.Array] = {name: pa.array([], pa.string()) for name in ("event", "code")}
    newcomers = rows
    while newcomers.num_rows:
        events = _new(distinct_values(newcomers["event_id"], newcomers["refers_to"]), asked["event"])
        codes = _new(distinct_values(newcomers["code"]), asked["code"])
        asked = {"event": distinct_values(asked["event"], events), "code": distinct_values(asked["code"], codes)}
        parts = [found]
        if len(events):
            parts += [shelves.outcomes(campaign, events=events), shelves.outcomes(campaign, refers_to=events)]
        if len(codes):
            parts.append(shelves.outcomes(campaign, codes=codes))
        together = _distinct(admitted_rows(pa.concat_tables(parts)))
        newcomers = together.slice(found.num_rows) if together.num_rows > found.num_rows else together.slice(0, 0)
        found = together
    return _as_received(shelves, campaign, found)


def _new(asked: pa.Array, known: pa.Array) -> pa.Array:
    return asked.filter(pc.invert(pc.is_in(asked, value_set=known)))


def distinct_values(*columns: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The distinct values of these columns, nulls left out."""
    chunks = [
        chunk for column in columns for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    ]
    return pc.drop_null(pc.unique(pa.chunked_array(chunks, pa.string())))


def _distinct(rows: pa.Table) -> pa.Table:
    """Each row once, the first time it was found."""
    numbered = rows.select(["batch_id", "row"]).append_column("at", pa.array(np.arange(rows.num_rows)))
    first = numbered.group_by(["batch_id", "row"]).aggregate([("at", "min")])["at_min"]
    return rows.take(np.sort(first.to_numpy())) if len(first) < rows.num_rows else rows


def _as_received(shelves: Shelves, campaign: str, rows: pa.Table) -> pa.Table:
    if not rows.num_rows:
        return rows
    order = pa.array([batch.batch_id for batch in shelves.batches(campaign)])
    place = pc.index_in(rows["batch_id"], value_set=order)
    return rows.take(
        pc.sort_indices(pa.table({"b": place, "r": rows["row"]}), [("b", "ascending"), ("r", "ascending")])
    )
