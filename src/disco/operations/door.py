"""Outcomes as the ledger receives them: each row is read once, or goes into quarantine with the reason.

A row is set aside here when it breaks a rule of the outcomes table (`records.validation`), belongs to another campaign
or customer, or lies outside its code's validity. All other rows are judged together with everything else
received, in `net_purchases.py`.
"""

import json
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags, Integers
from disco.records.life import Disposition
from disco.records.validation import check_columns, check_rows
from disco.records.validation.cells import cell_texts, flags, is_text, plain_text
from disco.records.validation.checker import good_cells

_MOMENT = pa.timestamp("us", "UTC")
LONGEST_RAW_BYTES = 4096
"""Of a row in quarantine, kept as it was sent: its cells share this space."""


def read_outcomes(
    outcomes: pa.Table, *, campaign: str, decisions: pa.Table, start: date, end: date, closed: bool
) -> pa.Table:
    """The received rows as the ledger keeps them (without batch_id); `disposition` is null outside quarantine.

    outcomes: as `known_columns` gives them.
    decisions: code and customer_id of the campaign's codes, at least of those in the outcomes.
    start, end: first day of the codes' validity, and the first day after it.
    """
    checked = check_rows("outcomes", outcomes)
    table = checked.table
    broken = checked.fault >= 0
    quarantined = np.zeros(table.num_rows, np.bool_)
    disposition = np.full(table.num_rows, None, object)
    reason = np.full(table.num_rows, None, object)
    if closed:
        tests = [(Disposition.EXPIRED, "the campaign is closed", quarantined)]
    else:
        disposition[broken] = str(Disposition.REJECTED)
        reason[broken] = np.array([rule.reason for rule in checked.rules], object)[checked.fault[broken]]
        quarantined = broken
        tests = _tests(table, campaign=campaign, decisions=decisions, start=start, end=end)
    for kind, words, passed in tests:  # the first test that fails gives the reason
        failed = ~passed & ~quarantined
        disposition[failed], reason[failed] = str(kind), words
        quarantined = quarantined | failed
    purchase = pc.fill_null(pc.equal(table["kind"], "purchase"), False)
    return pa.table(
        {
            "row": pa.array(np.arange(table.num_rows)),
            **{name: table[name] for name in ("event_id", "customer_id", "code", "kind")},
            "refers_to": pc.if_else(purchase, pa.scalar(None, pa.string()), table["refers_to"]),
            "ordered_at": table["ordered_at"],
            "full_price_minor": table["full_price_minor"],
            "disposition": pa.array(disposition, pa.string()),
            "reason": pa.array(reason, pa.string()),
            "raw": _raw(outcomes, quarantined),
        }
    )


def known_columns(outcomes: pa.Table, *, file: str = "outcomes") -> pa.Table:
    """The columns of the outcomes table, plainly typed; what else a file brings is left alone.

    A column of text of which a cell is not UTF-8 comes as bytes, so that its row alone is set aside.

    TableError where a column is missing, there twice, or of a type that can never hold what it should.
    """
    declared = check_columns(outcomes.schema, "outcomes", file=file)
    columns = {}
    for column in declared:
        if column.name in outcomes.column_names:
            given = outcomes[column.name].combine_chunks()
            given = given.cast(given.type.value_type) if pa.types.is_dictionary(given.type) else given
            columns[column.name] = plain_text(given) if is_text(given.type) else given
    return pa.table(columns)


def codes_in(outcomes: pa.Table) -> pa.Array:
    """The distinct codes of the rows, of those cells that can be a code; outcomes: as `known_columns` gives them."""
    return pc.drop_null(pc.unique(good_cells("outcomes", "code", outcomes["code"].combine_chunks())))


def _tests(
    table: pa.Table, *, campaign: str, decisions: pa.Table, start: date, end: date
) -> list[tuple[Disposition, str, Flags]]:
    """What depends on the campaign: each test with what becomes of a row that fails it, in the order they are asked."""
    rejected, unmatched, expired = Disposition.REJECTED, Disposition.UNMATCHED, Disposition.EXPIRED
    changes = ~flags(pc.equal(table["kind"], "purchase"))
    place = pc.index_in(table["code"].combine_chunks(), value_set=decisions["code"].combine_chunks())
    owner = decisions["customer_id"].cast(pa.string()).combine_chunks().take(place)
    first, after = (pa.scalar(datetime(day.year, day.month, day.day, tzinfo=UTC), _MOMENT) for day in (start, end))
    return [
        (unmatched, "another campaign", flags(pc.equal(table["campaign_id"], campaign))),
        (unmatched, "a purchase without a code", changes | flags(table["code"].is_valid())),
        (unmatched, "no such code in this campaign", changes | flags(place.is_valid())),
        (unmatched, "the code of another customer", changes | flags(pc.equal(owner, table["customer_id"]))),
        (rejected, "ordered before the code was valid", changes | flags(pc.greater_equal(table["ordered_at"], first))),
        (expired, "ordered after the code had run out", changes | flags(pc.less(table["ordered_at"], after))),
    ]


def _raw(outcomes: pa.Table, quarantined: Flags) -> pa.Array:
    """The rows in quarantine as they were sent, as JSON of text; null for the others. Long cells are cut."""
    texts = np.full(outcomes.num_rows, None, object)
    rows: Integers = np.flatnonzero(quarantined)
    given = outcomes.take(rows)
    cells = {name: cell_texts(given[name].combine_chunks(), most=LONGEST_RAW_BYTES) for name in given.column_names}
    for place, row in enumerate(rows):
        sent = {name: text for name, column in cells.items() if (text := column[place]) is not None}
        texts[row] = json.dumps(sent)
        if len(texts[row]) > LONGEST_RAW_BYTES:
            texts[row] = json.dumps({name: _cut(text, most=_longest_cell(len(sent))) for name, text in sent.items()})
    return pa.array(texts, pa.string())


def _longest_cell(cells: int) -> int:
    """Characters of each cell so that the row fits: JSON writes a character with at most 6 bytes, two of them escaped
    pairs of 12, and each name and its marks take less than 20."""
    return (LONGEST_RAW_BYTES - 20 * cells) // (12 * cells)


def _cut(text: str, *, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
