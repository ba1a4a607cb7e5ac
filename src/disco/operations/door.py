"""Outcomes as the ledger receives them: each row is read once, or goes into quarantine with the reason.

An export of orders is enough: code, customer, time and amount. Such rows are purchases of the campaign that is named in
the command. Their event is the order, where the file has `order_id`, else it is made of the customer, the code and the
time: the same purchase has the same event in every file, and two rows that agree in all three are one purchase.

A row is set aside here when it breaks a rule of the outcomes table (`records.validation`), belongs to another campaign
or customer, or lies outside its code's validity. All other rows are judged together with everything else
received, in `net_purchases.py`.
"""

import json
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.operations.codes import own_codes, which_shared
from disco.records.arrays import Flags, Integers
from disco.records.life import Disposition
from disco.records.locale import POUNDS_UTC, Locale
from disco.records.matching import places_in
from disco.records.tables import CELLS, ROWS, SCHEMAS
from disco.records.validation import check_columns, check_rows
from disco.records.validation.cells import cell_texts, flags, is_text, plain_text
from disco.records.validation.checker import good_cells

_MOMENT = pa.timestamp("us", "UTC")
LONGEST_RAW_BYTES = 4096
"""Of a row in quarantine, kept as it was sent: its cells share this space."""


def read_outcomes(
    outcomes: pa.Table,
    *,
    campaign: str,
    decisions: pa.Table,
    start: date | datetime,
    end: date | datetime,
    closed: bool,
    other_campaigns: Collection[str] = (),
    shared: Mapping[float, str] | None = None,
    locale: Locale = POUNDS_UTC,
    rows: pa.ChunkedArray | None = None,
) -> pa.Table:
    """The received rows as the ledger keeps them (without batch_id); `disposition` is null outside quarantine.

    outcomes: as `known_columns` gives them.
    decisions: of the campaign, at least those of the codes in the outcomes (`codes_in`), and of customers who name a
    shared one (`sharers_in`).
    start, end: when the codes' validity begins and ends, by the clock of the shop. locale: of the shop.
    other_campaigns: names that mean another campaign, even where they differ from this one's in their case only.
    shared: by depth, the code of all who get it. A row that names one is kept with the customer's own code instead.
    rows: their numbers in the file, from 0, rising; None: 0, 1, 2, ….
    """
    checked = check_rows("outcomes", outcomes, locale)
    table = _completed(checked.table, outcomes.column_names, campaign=campaign)
    sent = decisions["code"].combine_chunks()
    place = places_in(table["code"].combine_chunks(), among=sent)
    if place.null_count > table["code"].null_count:  # some are written otherwise, or are none
        table = _set(table, "code", known_codes(table["code"].combine_chunks(), sent))
        place = places_in(table["code"].combine_chunks(), among=sent)
    unsent = np.zeros(table.num_rows, np.bool_)
    if shared:
        customers, typed = (table[name].combine_chunks() for name in ("customer_id", "code"))
        own, unsent = own_codes(shared, customers, typed, decisions)
        table = _set(table, "code", own)
        place = places_in(own, among=sent)
    if not _is_alike_another(campaign, other_campaigns):
        named = pc.equal(pc.utf8_lower(table["campaign_id"]), campaign.lower())
        table = _set(table, "campaign_id", pc.if_else(named, campaign, table["campaign_id"]))
    broken = checked.fault >= 0
    quarantined = np.zeros(table.num_rows, np.bool_)
    disposition = np.full(table.num_rows, None, object)
    reason = np.full(table.num_rows, None, object)
    if closed:
        tests = [(Disposition.EXPIRED, "the campaign is closed", quarantined)]
    else:
        disposition[broken] = str(Disposition.REJECTED)
        reason[broken] = np.array([rule.reason for rule in checked.rules], object)[checked.fault[broken]]
        if CELLS in outcomes.column_names:
            reason = np.where(flags(outcomes[CELLS].is_valid()), outcomes[CELLS].to_numpy(), reason)
        quarantined = broken
        validity = (locale.moment(start), locale.moment(end))
        owner = decisions["customer_id"].cast(pa.string()).combine_chunks().take(place)
        tests = _tests(table, campaign=campaign, owner=owner, validity=validity, unsent=unsent)
    for kind, words, passed in tests:  # the first test that fails gives the reason
        failed = ~passed & ~quarantined
        disposition[failed], reason[failed] = str(kind), words
        quarantined = quarantined | failed
    purchase = pc.fill_null(pc.equal(table["kind"], "purchase"), False)
    return pa.table(
        {
            "row": pa.array(np.arange(table.num_rows)) if rows is None else rows,
            **{name: table[name] for name in ("event_id", "customer_id", "code", "kind")},
            "refers_to": pc.if_else(purchase, pa.scalar(None, pa.string()), table["refers_to"]),
            "ordered_at": table["ordered_at"],
            "full_price_minor": table["full_price_minor"],
            "disposition": pa.array(disposition, pa.string()),
            "reason": pa.array(reason, pa.string()),
            "raw": _raw(outcomes, quarantined),
        }
    )


def _completed(table: pa.Table, given: Collection[str], *, campaign: str) -> pa.Table:
    """The checked rows with what an export of orders leaves out."""
    if "kind" not in given:
        table = _set(table, "kind", pa.repeat(pa.scalar("purchase"), table.num_rows))
    if "campaign_id" not in given:
        table = _set(table, "campaign_id", pa.repeat(pa.scalar(campaign), table.num_rows))
    if "event_id" not in given:
        table = _set(table, "event_id", _event_ids(table, campaign))
    return table


def _event_ids(table: pa.Table, campaign: str) -> pa.Array:
    """32 hexadecimal digits of SHA-256(campaign, customer, code, time in UTC microseconds), U+001F between them."""
    parts = [table["customer_id"], table["code"], table["ordered_at"].cast(pa.int64()).cast(pa.string())]
    texts = pc.binary_join_element_wise(campaign, *parts, "\x1f", null_handling="replace", null_replacement="")
    return pa.array([sha256(text.encode()).hexdigest()[:32] for text in texts.to_pylist()], pa.string())


def _set(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def _is_alike_another(name: str, others: Collection[str]) -> bool:
    return any(other != name and other.lower() == name.lower() for other in others)


def known_codes(codes: pa.Array, known: pa.Array) -> pa.Array:
    """The codes as the campaign writes them, whatever their case and spaces around them; not where two are alike."""
    known = pc.unique(known.cast(pa.string()))
    alike = pc.utf8_upper(known)
    counts = pc.value_counts(alike)
    once = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
    meant = known.filter(pc.is_in(alike, value_set=once))
    found = meant.take(pc.index_in(_plain_codes(codes), value_set=pc.utf8_upper(meant)))
    return pc.if_else(pc.is_in(codes, value_set=known), codes, pc.coalesce(found, codes))


def _plain_codes(codes: pa.Array) -> pa.Array:
    return pc.utf8_upper(pc.utf8_trim_whitespace(codes))


def known_columns(outcomes: pa.Table, *, file: str = "outcomes") -> pa.Table:
    """The columns of the outcomes table, plainly typed; what else a file brings is left alone.

    Where there is no event_id, order_id is it.

    A column of text of which a cell is not UTF-8 comes as bytes, so that its row alone is set aside.

    TableError where a column is missing, there twice, or of a type that can never hold what it should.
    """
    for column in SCHEMAS["outcomes"].columns:
        if column.instead and column.name not in outcomes.column_names and column.instead in outcomes.column_names:
            names = [column.name if name == column.instead else name for name in outcomes.column_names]
            outcomes = outcomes.rename_columns(names)
    declared = check_columns(outcomes.schema, "outcomes", file=file)
    columns = {}
    for column in declared:
        if column.name in outcomes.column_names:
            given = outcomes[column.name].combine_chunks()
            given = given.cast(given.type.value_type) if pa.types.is_dictionary(given.type) else given
            columns[column.name] = plain_text(given) if is_text(given.type) else given
    for beside in (CELLS, ROWS):
        if beside in outcomes.column_names:
            columns[beside] = outcomes[beside].combine_chunks()
    return pa.table(columns)


def codes_in(outcomes: pa.Table) -> pa.Array:
    """The codes of the rows, of those cells that can be a code, as written and in capitals, as codes are made.

    outcomes: as `known_columns` gives them.
    """
    codes = pc.drop_null(good_cells("outcomes", "code", outcomes["code"].combine_chunks()))
    plain = _plain_codes(codes)
    return codes if plain.equals(codes) else pc.unique(pa.concat_arrays([codes, plain]))


def sharers_in(outcomes: pa.Table, shared: Collection[str]) -> pa.Array:
    """The customers of rows with one of these shared codes; outcomes: as `known_columns` gives them."""
    named, codes = (good_cells("outcomes", name, outcomes[name].combine_chunks()) for name in ("customer_id", "code"))
    return pc.drop_null(pc.unique(named.filter(which_shared(codes, shared).is_valid())))


def _tests(
    table: pa.Table, *, campaign: str, owner: pa.Array, validity: tuple[datetime, datetime], unsent: Flags
) -> list[tuple[Disposition, str, Flags]]:
    """What depends on the campaign: each test with what becomes of a row that fails it, in the order they are asked.

    owner (n,): the customer who has each row's code; null where nobody has. unsent (n,): rows with a shared code that
    the customer was not sent.
    """
    rejected, unmatched, expired = Disposition.REJECTED, Disposition.UNMATCHED, Disposition.EXPIRED
    changes = ~flags(pc.equal(table["kind"], "purchase"))
    first, after = (pa.scalar(moment.astimezone(UTC), _MOMENT) for moment in validity)
    return [
        (unmatched, "another campaign", flags(pc.equal(table["campaign_id"], campaign))),
        (unmatched, "a purchase without a code", changes | flags(table["code"].is_valid())),
        (unmatched, "a shared code that this customer was not sent", changes | ~unsent),
        (unmatched, "no such code in this campaign", changes | flags(owner.is_valid())),
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
