"""Codes for whoever sends them: as Arrow with their own types, or made safe for a spreadsheet."""

import pyarrow as pa
import pyarrow.compute as pc

from disco.records.ports import Store

_MOMENT = pa.timestamp("us")
_FORMULA = r"^[=+\-@\t\r]"


def export_codes(store: Store, campaign: str) -> pa.Table:
    """One row per code, as `disco respond` reads them: code_id, customer_id, campaign_id, depth, sent_at, expires_at,
    channel."""
    with store.reading() as shelves:
        plan, decisions = shelves.campaign(campaign).plan, shelves.decisions(campaign)
    sent = decisions.filter(decisions["code"].is_valid())
    same = pa.array([0] * sent.num_rows, pa.int64())
    return pa.table(
        {
            "code_id": sent["code"],
            "customer_id": sent["customer_id"],
            "campaign_id": pa.array([campaign], pa.string()).take(same),
            "depth": sent["depth"],
            "sent_at": pa.array([plan.valid.start], pa.date32()).cast(_MOMENT).take(same),
            "expires_at": pa.array([plan.valid.end], pa.date32()).cast(_MOMENT).take(same),
            "channel": pa.array([plan.channel], pa.string()).take(same),
        }
    )


def csv_safe(table: pa.Table) -> pa.Table:
    """Text that a spreadsheet would run as a formula gets an apostrophe in front; numbers and times stay as they are.

    >>> csv_safe(pa.table({"id": ["=1+1", "A-1"], "n": [-1, 2]})).to_pydict()
    {'id': ["'=1+1", 'A-1'], 'n': [-1, 2]}
    """
    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            risky = pc.fill_null(pc.match_substring_regex(column, _FORMULA), False)
            column = pc.if_else(risky, pc.binary_join_element_wise("'", column.cast(pa.string()), ""), column)
        columns.append(column)
    return pa.table(columns, names=table.column_names)
