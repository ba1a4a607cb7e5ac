"""Schemas, their reference page, and the door where raw tables become canonical."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from disco.records.errors import TableError
from disco.records.normalise import normalise
from disco.records.tables import SCHEMAS, Kind
from disco.records.tables_page import tables_page

Shop = dict[str, pa.Table]
PROMISED = {
    "customers": "customer_id joined_on",
    "orders": "order_id customer_id ordered_at full_price paid items code",
    "returns": "order_id returned_at value",
    "codes": "code_id customer_id campaign_id depth sent_at redeemed_at",
    "site": "customer_id day visits views add_to_bag saves checkouts",
    "outcomes": "event_id campaign_id customer_id code ordered_at full_price kind refers_to",
}


def test_the_columns_are_those_promised_to_users() -> None:
    found = {name: " ".join(column.name for column in schema.columns) for name, schema in SCHEMAS.items()}
    assert found == PROMISED


def test_references_point_at_keys_of_tables_that_exist() -> None:
    for schema in SCHEMAS.values():
        for column in schema.columns:
            if column.refers_to is not None:
                target = SCHEMAS[column.refers_to.table]
                assert target.key == (column.refers_to.column,)
                assert target.column(column.refers_to.column).kind is Kind.ID


def test_the_reference_page_is_what_the_schemas_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "tables.md"
    assert page.read_text(encoding="utf-8") == tables_page(), "run ./run docs"


@pytest.mark.parametrize("decimals", [False, True])
def test_every_clean_table_becomes_canonical(shop: Callable[..., Shop], as_of: date, decimals: bool) -> None:
    for name, raw in shop(text_ids=False, decimals=decimals).items():
        table = normalise(name, raw, as_of=as_of)
        assert table.schema == SCHEMAS[name].canonical
        assert table.num_rows == raw.num_rows
        for column in SCHEMAS[name].columns:
            if column.kind is Kind.MONEY:
                assert table[column.canonical_name].to_pylist() == [
                    round(Decimal(str(amount)) * 100) for amount in raw[column.name].to_pylist()
                ]


def test_zones_dates_narrow_floats_and_further_columns(as_of: date) -> None:
    berlin = pa.array([datetime(2025, 7, 1, 10, tzinfo=UTC)], pa.timestamp("ns", "Europe/Berlin"))
    codes = pa.table(
        {
            "code_id": [1],
            "customer_id": pa.array(["c"]).dictionary_encode(),
            "campaign_id": ["spring"],
            "depth": pa.array([0.2], pa.float32()),
            "sent_at": berlin,
            "redeemed_at": pa.nulls(1),
            "channel": ["e-mail"],
        }
    )
    (row,) = normalise("codes", codes, as_of=as_of).to_pylist()
    assert row == {
        "code_id": "1",
        "customer_id": "c",
        "campaign_id": "spring",
        "depth": 0.2,
        "sent_at": datetime(2025, 7, 1, 10, tzinfo=UTC),
        "redeemed_at": None,
        "channel": "e-mail",
    }


def test_a_timestamp_of_a_day_becomes_the_day(as_of: date) -> None:
    customers = pa.table({"customer_id": ["c"], "joined_on": pa.array([datetime(2025, 7, 1, 23, 59)])})
    assert normalise("customers", customers, as_of=as_of)["joined_on"].to_pylist() == [date(2025, 7, 1)]


def test_the_door_is_shut_to_bad_cells_all_of_them_named(as_of: date) -> None:
    returns = pa.table({"order_id": ["o", None], "returned_at": [date(2025, 7, 1)] * 2, "value": [float("nan"), -1.0]})
    with pytest.raises(TableError) as caught:
        normalise("returns", returns, as_of=as_of, file="returns.parquet")
    assert {problem.kind for problem in caught.value.problems} == {"null", "not_finite", "negative_money"}
