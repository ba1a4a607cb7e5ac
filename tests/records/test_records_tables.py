"""Schemas, their reference page, and rows that become canonical."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from disco.records.errors import TableError
from disco.records.table_rules import check_columns, check_rows
from disco.records.tables import SCHEMAS, Kind

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
                assert target.key[0] == column.refers_to.column  # a shared code has several rows
                assert target.column(column.refers_to.column).kind is Kind.ID


def test_the_reference_page_names_every_column() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
    assert "| `depth` | a share of the price in [0, 1) | no |" in page
    assert all(f"| `{column.name}` |" in page for schema in SCHEMAS.values() for column in schema.columns)


@pytest.mark.parametrize("decimals", [False, True])
def test_every_clean_table_becomes_canonical(shop: Callable[..., Shop], decimals: bool) -> None:
    for name, raw in shop(text_ids=False, decimals=decimals).items():
        rows = check_rows(name, raw)
        assert (rows.fault == -1).all()
        assert rows.table.schema.names == SCHEMAS[name].canonical.names
        assert rows.table.schema.types == SCHEMAS[name].canonical.types
        assert rows.table.num_rows == raw.num_rows
        for column in SCHEMAS[name].columns:
            if column.kind is Kind.MONEY:
                assert rows.table[column.canonical_name].to_pylist() == [
                    round(Decimal(str(amount)) * 100) for amount in raw[column.name].to_pylist()
                ]


def test_zones_dates_and_narrow_floats() -> None:
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
    (row,) = check_rows("codes", codes).table.to_pylist()
    assert row == {
        "code_id": "1",
        "customer_id": "c",
        "campaign_id": "spring",
        "depth": 0.2,
        "sent_at": datetime(2025, 7, 1, 10, tzinfo=UTC),
        "redeemed_at": None,
    }


def test_a_timestamp_of_a_day_becomes_the_day() -> None:
    customers = pa.table({"customer_id": ["c"], "joined_on": pa.array([datetime(2025, 7, 1, 23, 59)])})
    assert check_rows("customers", customers).table["joined_on"].to_pylist() == [date(2025, 7, 1)]


def test_the_first_fault_of_a_row_is_its_reason_and_bad_cells_are_empty() -> None:
    returns = pa.table({"order_id": ["o", None], "returned_at": [date(2025, 7, 1)] * 2, "value": [float("nan"), -1.0]})
    rows = check_rows("returns", returns)
    assert [rows.rules[place].reason for place in rows.fault] == [
        "value: expected a finite number",
        "order_id: expected a value in every row",
    ]
    assert rows.table.select(["order_id", "value_minor"]).to_pylist() == [
        {"order_id": "o", "value_minor": None},
        {"order_id": None, "value_minor": None},
    ]


def test_columns_that_cannot_be_used_are_all_named() -> None:
    with pytest.raises(TableError) as caught:
        check_columns(pa.schema([("order_id", pa.float64())]), "returns", file="returns.parquet")
    assert {problem.kind for problem in caught.value.problems} == {"wrong_type", "missing_column"}
