"""What of a campaign can be exported into a table elsewhere: its codes, its decisions and its results.

The columns of each are the same for every campaign, so that one table can hold them all: `campaign_id` says whose a row
is. Customers who were forgotten are in none.
"""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from disco.operations.disclosure import with_disclosure
from disco.operations.export import export_codes, refuse_recalled
from disco.operations.results import campaign_results
from disco.records.errors import UsageError
from disco.records.result import Result
from disco.store import Store
from disco.store.personal import is_forgotten

if TYPE_CHECKING:
    from disco.operations.audience import ShopData


class ExportKind(StrEnum):
    """What is exported."""

    CODES = "codes"
    DECISIONS = "decisions"
    RESULTS = "results"


def read_kind(name: str) -> ExportKind:
    """One of the kinds, by its name.

    >>> read_kind("codes")
    <ExportKind.CODES: 'codes'>
    """
    if name not in set(ExportKind):
        raise UsageError("--what", found=name, expected=f"one of {', '.join(ExportKind)}")
    return ExportKind(name)


class ExportRows(NamedTuple):
    """The rows of a campaign, and the columns of which no two of them agree in all."""

    rows: pa.Table
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExported(Result):
    """Rows of a campaign in a table elsewhere."""

    campaign: str
    """The name of the campaign."""
    kind: ExportKind
    """What was exported: codes, decisions or results."""
    table: str
    """Where: the URL without its password, and the table."""
    rows: int
    """Rows of the campaign that the table holds now."""
    changed: bool
    """Whether anything was written; false: the table held the same rows already."""


_CONDITIONS = {"minimum_basket": pa.float64(), "conditions": pa.string(), "disclosure": pa.string()}
_DECISIONS = ("customer_id", "arm", "depth", "value", "known", "late", "propensity")
_RESULTS = pa.schema(
    [
        ("campaign_id", pa.string()),
        ("group", pa.string()),
        ("as_of", pa.date32()),
        ("final", pa.bool_()),
        ("customers", pa.int64()),
        ("codes", pa.int64()),
        ("purchasers", pa.int64()),
        ("expected_revenue", pa.float64()),
        ("revenue", pa.float64()),
        ("markdown", pa.float64()),
    ]
)


def rows_of_table(store: Store, data: "ShopData", campaign: str, kind: ExportKind, *, as_of: date) -> ExportRows:
    """The rows as they are now; as_of: the day of the read-out of results."""
    if kind is ExportKind.RESULTS:
        results = campaign_results(store, data, campaign, as_of=as_of)
        groups = [
            {"campaign_id": campaign, "as_of": results.as_of, "final": results.final, **group}
            for group in results.to_arrow().to_pylist()
        ]
        return ExportRows(pa.Table.from_pylist(groups, _RESULTS), ("campaign_id", "group"))
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        decisions = transaction.decisions.of(campaign)
    if kind is ExportKind.DECISIONS:
        kept = decisions.filter(pa.array(~is_forgotten(decisions["customer_id"]))).select(_DECISIONS)
        return ExportRows(
            kept.add_column(0, "campaign_id", [_same(campaign, kept.num_rows)]), ("campaign_id", "customer_id")
        )
    refuse_recalled(record)
    codes = with_disclosure(export_codes(store, campaign), record.plan, data)
    for name, column in _CONDITIONS.items():  # of plans without conditions, too: the table has one form for all
        if name not in codes.column_names:
            codes = codes.append_column(name, pa.nulls(codes.num_rows, column))
    return ExportRows(codes, ("campaign_id", "customer_id"))


def _same(text: str, rows: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array([0] * rows, pa.int64()))
