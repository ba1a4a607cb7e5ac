"""Codes for whoever sends them: as Arrow with their own types, or made safe for a spreadsheet."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from disco.records.errors import UsageError
from disco.records.files import written_whole
from disco.records.forgotten import is_forgotten
from disco.records.ports import Store
from disco.records.result import NotInJson, TableResult

_KINDS = (".parquet", ".csv")
_MOMENT = pa.timestamp("us")
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"  # the full-width ones are read as the plain ones by some spreadsheets


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Exported(TableResult):
    """The codes of a campaign, for whoever sends them. As a table: one row per code."""

    campaign: str
    """The name of the campaign."""
    file: str | None
    """Where they were written."""
    codes: int
    """Number of codes."""
    rows: NotInJson[pa.Table]

    def to_arrow(self) -> pa.Table:
        return self.rows


def export(store: Store, campaign: str, *, file: Path | None = None) -> Exported:
    """The codes of a campaign; written to FILE.parquet, or to FILE.csv with cells made safe for a spreadsheet."""
    if file is not None:
        check_kind(file)
    codes = export_codes(store, campaign)
    if file is not None:
        with written_whole(file) as unfinished:
            if file.suffix.lower() == ".csv":
                pacsv.write_csv(csv_safe(codes), unfinished)
            else:
                pq.write_table(codes, unfinished)
    return Exported(campaign=campaign, file=None if file is None else str(file), codes=codes.num_rows, rows=codes)


def check_kind(file: Path) -> None:
    """Refuse a name that says neither Parquet nor CSV."""
    if file.suffix.lower() not in _KINDS:
        raise UsageError("--out", found=file, expected="a name that ends in .parquet or .csv")


def export_codes(store: Store, campaign: str) -> pa.Table:
    """One row per code, as `disco respond` reads them: code_id, customer_id, campaign_id, depth, sent_at, expires_at,
    channel."""
    with store.reading() as transaction:
        plan, decisions = transaction.plans.campaign(campaign).plan, transaction.decisions.of(campaign)
    sent = decisions.filter(decisions["code"].is_valid())
    sent = sent.filter(pa.array(~is_forgotten(sent["customer_id"])))  # nobody to send the code to
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
