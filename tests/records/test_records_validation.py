"""Validation: a clean shop is clean, and each planted fault is found at its row, whatever else is wrong."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disco.records.errors import TableError
from disco.records.table_rules import TableSource
from disco.records.validation import TablesReport, validate

Shop = dict[str, pa.Table]


def check(tables: Shop, as_of: date, **options: Any) -> TablesReport:
    return validate([TableSource(name, table, name) for name, table in tables.items()], as_of=as_of, **options)


def with_cell(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    """The table with another value in one cell; of the column's type unless the value does not fit."""
    cells = table[column].to_pylist()
    cells[row] = value
    kind = table[column].type
    array = pa.array(cells) if pa.types.is_null(kind) else pa.array(cells, kind)
    return table.set_column(table.schema.get_field_index(column), column, array)


@dataclass(frozen=True)
class Fault:
    kind: str
    table: str
    column: str
    value: Any
    is_eligible: Callable[[pa.Table, int], bool] = lambda table, row: True


def is_refund(table: pa.Table, row: int) -> bool:
    return bool(table["kind"][row].as_py() == "refund")


def is_purchase(table: pa.Table, row: int) -> bool:
    return not is_refund(table, row)


FAULTS = [
    Fault("null", "orders", "customer_id", None),
    Fault("null", "site", "day", None),
    Fault("not_finite", "orders", "full_price", float("nan")),
    Fault("not_finite", "orders", "paid", float("inf")),
    Fault("not_finite", "returns", "value", float("-inf")),
    Fault("negative_money", "orders", "full_price", -0.01),
    Fault("negative_money", "outcomes", "full_price", -5.0),
    Fault("too_large", "orders", "full_price", 1e15),
    Fault("depth_range", "codes", "depth", 20.0),
    Fault("depth_range", "codes", "depth", 1.0),
    Fault("depth_range", "codes", "depth", -0.1),
    Fault("not_finite", "codes", "depth", float("nan")),
    Fault("negative_count", "site", "views", -1),
    Fault("negative_count", "orders", "items", -1),
    Fault("future_date", "orders", "ordered_at", np.datetime64("2026-03-02T00:00:00", "us").item()),
    Fault("future_date", "customers", "joined_on", date(2026, 3, 2)),
    Fault("unknown_customer", "orders", "customer_id", "nobody"),
    Fault("unknown_customer", "site", "customer_id", "nobody"),
    Fault("unknown_customer", "outcomes", "customer_id", "nobody"),
    Fault("unknown_order", "returns", "order_id", "nothing"),
    Fault("unknown_code", "orders", "code", "nothing"),
    Fault("unknown_code", "outcomes", "code", "nothing"),
    Fault("paid_above_full_price", "orders", "paid", 200.01),
    Fault("refund_above_order", "returns", "value", 200.01),
    Fault("returned_before_ordered", "returns", "returned_at", np.datetime64("2025-05-31T00:00:00", "us").item()),
    Fault("redeemed_before_sent", "codes", "redeemed_at", np.datetime64("2025-05-01T10:00:00", "us").item()),
    Fault("unknown_choice", "outcomes", "kind", "gift"),
    Fault("missing_refers_to", "outcomes", "refers_to", None, is_refund),
    Fault("unknown_event", "outcomes", "refers_to", "e999", is_refund),
    Fault("zero_amount", "outcomes", "full_price", 0.0),
    Fault("zero_amount", "outcomes", "full_price", 0.004),
    Fault("too_large", "outcomes", "full_price", 1.1e13),
    Fault("too_large", "site", "visits", 2**31 + 1),
    Fault("unusable_id", "codes", "campaign_id", "a\0b"),
    Fault("unusable_id", "outcomes", "campaign_id", "ü" * 501),
    Fault("date_range", "customers", "joined_on", date(1899, 12, 31)),
    Fault("date_range", "outcomes", "ordered_at", np.datetime64("1899-12-31T23:59:59", "us").item()),
]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    customers=st.integers(1, 9),
    orders=st.integers(1, 30),
    text_ids=st.booleans(),
    decimals=st.booleans(),
)
def test_a_clean_shop_of_any_sort_stays_clean(
    shop: Callable[..., Shop], as_of: date, seed: int, customers: int, orders: int, text_ids: bool, decimals: bool
) -> None:
    tables = shop(seed, customers=customers, orders=orders, text_ids=text_ids, decimals=decimals)
    report = check(tables, as_of)
    assert report.problems == ()
    assert report.rows == {name: table.num_rows for name, table in tables.items()}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kind}-{fault.table}-{fault.column}")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_a_planted_fault_is_found_at_its_row_and_alone(
    shop: Callable[..., Shop], as_of: date, fault: Fault, data: st.DataObject
) -> None:
    tables = shop(data.draw(st.integers(0, 999)), orders=12)
    table = tables[fault.table]
    rows = [row for row in range(table.num_rows) if fault.is_eligible(table, row)]
    row = data.draw(st.sampled_from(rows))
    report = check(tables | {fault.table: with_cell(table, fault.column, row, fault.value)}, as_of)
    found = [(problem.kind, problem.file, problem.column, problem.row, problem.rows) for problem in report.problems]
    assert found == [(fault.kind, fault.table, fault.column, row + 1, 1)]


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_key_used_again_is_found_at_its_second_row(
    shop: Callable[..., Shop], as_of: date, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["customers", "orders", "codes", "site", "outcomes"]))
    tables = shop(data.draw(st.integers(0, 999)))
    row = data.draw(st.integers(0, tables[name].num_rows - 1))
    doubled = pa.concat_tables([tables[name], tables[name].slice(row, 1)])
    (problem,) = check(tables | {name: doubled}, as_of).problems
    assert (problem.kind, problem.row, problem.rows) == ("duplicate_key", doubled.num_rows, 1)
    assert f"first in row {row + 1}" in problem.found


def test_the_same_customer_on_another_day_is_no_duplicate(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    site = tables["site"]
    same_customer = with_cell(site, "customer_id", 1, site["customer_id"][0].as_py())
    assert check(tables | {"site": same_customer}, as_of).problems == ()


def test_refunds_count_together_and_float_dust_does_not(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    orders = tables["orders"]
    for column in ("paid", "full_price"):
        orders = with_cell(orders, column, 0, 0.3)
    order, day = orders["order_id"][0].as_py(), date(2026, 1, 5)
    thirds = pa.table({"order_id": [order] * 3, "returned_at": [day] * 3, "value": [0.1, 0.1, 0.1]})
    assert 0.1 + 0.1 + 0.1 > 0.3
    assert check(tables | {"orders": orders, "returns": thirds}, as_of).problems == ()
    too_much = with_cell(thirds, "value", 1, 0.11)
    (problem,) = check(tables | {"orders": orders, "returns": too_much}, as_of).problems
    assert (problem.kind, problem.row) == ("refund_above_order", 3)
    assert "0.31" in problem.found
    assert "0.30" in problem.found


def test_refunds_of_orders_without_what_was_paid_are_held_against_the_full_price(shop, as_of: date) -> None:
    tables = shop()
    orders = with_cell(tables["orders"], "full_price", 0, 20.0).drop_columns(["paid"])
    order, day = orders["order_id"][0].as_py(), date(2026, 1, 5)
    refunds = pa.table({"order_id": [order] * 2, "returned_at": [day] * 2, "value": [12.0, 8.0]})
    assert check(tables | {"orders": orders, "returns": refunds}, as_of).problems == ()
    (problem,) = check(tables | {"orders": orders, "returns": with_cell(refunds, "value", 0, 12.01)}, as_of).problems
    assert (problem.kind, problem.row) == ("refund_above_order", 2)
    assert re.search(r"refunds of 20\.01 for order .*, whose full_price is 20\.00", problem.found)


def order_lines(*, lines_each: int, seconds_apart: int) -> Shop:
    """60 orders of 20 customers as their lines; `seconds_apart` 0: lines have the time of their order."""
    line = np.arange(60 * lines_each)
    order = line // lines_each
    minute = np.datetime64("2026-01-01T09:00", "us") + order * np.timedelta64(600, "s")
    times = minute + (line % lines_each) * np.timedelta64(seconds_apart, "s")
    return {
        "customers": pa.table({"customer_id": np.arange(20), "joined_on": [date(2025, 1, 1)] * 20}),
        "orders": pa.table(
            {"order_id": order, "customer_id": order % 20, "ordered_at": times, "full_price": 1.25 + line % 7}
        ),
    }


def test_lines_taken_for_orders_are_to_be_summed_as_the_message_says(as_of: date) -> None:
    tables = order_lines(lines_each=5, seconds_apart=0)
    (problem,) = check(tables, as_of).problems
    assert (problem.kind, problem.rows) == ("duplicate_key", 240)
    setting, in_sql = re.findall(r"`(lines: .*?|SELECT.*?)`", problem.fix)
    columns = {name: name for name in ("order_id", "customer_id", "ordered_at")} | {"amount": "full_price"}
    assert yaml.safe_load(setting) == {"lines": {"table": "orders", **columns}}
    lines = tables["orders"].to_pandas()
    orders = duckdb.sql(f"{in_sql} ORDER BY order_id").to_arrow_table()
    report = check(tables | {"orders": orders}, as_of)
    assert (report.problems, report.warnings, report.rows["orders"]) == ((), (), 60)
    assert orders["full_price"].to_pylist() == pytest.approx(lines.groupby("order_id").full_price.sum().tolist())
    numbered = tables["orders"].set_column(0, "order_id", pa.array(range(300)))
    report = check(tables | {"orders": numbered}, as_of)
    assert report.problems == ()
    (warning,) = report.warnings
    assert warning.startswith("orders: 240 of 300 orders have the customer and the minute of another order: the rows")
    assert in_sql in warning


def test_order_ids_of_two_systems_are_a_warning(as_of: date) -> None:
    tables = order_lines(lines_each=1, seconds_apart=0)
    ids = [f"C{number}" if number in (7, 9) else str(number) for number in range(60)]
    report = check(tables | {"orders": tables["orders"].set_column(0, "order_id", pa.array(ids))}, as_of)
    assert report.problems == ()
    assert "mostly integers, but 2 are not, such as 'C7'" in report.warnings[0]
    assert "`returns`" in report.warnings[0]


def test_copies_of_orders_and_customers_who_order_again_are_no_lines(as_of: date) -> None:
    tables = order_lines(lines_each=5, seconds_apart=120)  # each order in another minute
    numbered = tables["orders"].set_column(0, "order_id", pa.array(range(300)))
    assert check(tables | {"orders": numbered}, as_of).warnings == ()
    twice = pa.concat_tables([numbered, numbered])
    (problem,) = check(tables | {"orders": twice}, as_of).problems
    assert problem.fix == "Remove the copy, or give the row its own id."


def test_many_batches_count_like_one(shop: Callable[..., Shop], as_of: date) -> None:
    orders = shop(orders=30)["orders"]
    orders = with_cell(with_cell(orders, "items", 7, -2), "items", 29, -3)
    in_pieces = pa.Table.from_batches(orders.to_batches(max_chunksize=4))
    one, many = (check({"orders": table}, as_of).problems for table in (orders, in_pieces))
    assert one == many
    negative = next(problem for problem in many if problem.kind == "negative_count")
    assert (negative.row, negative.rows, negative.found) == (8, 2, "-2")


def test_depth_advice_reaches_the_report(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    codes = with_cell(tables["codes"], "depth", 2, 12.5)
    report = check(tables | {"codes": codes}, as_of)
    assert report.problems[0].fix == "Did you mean 0.125?"
    with pytest.raises(TableError, match=r"Did you mean 0\.125"):
        report.raise_if_any("codes.parquet:")


def test_twenty_faults_at_once_are_all_found(shop: Callable[..., Shop], as_of: date) -> None:
    """Each fault in a row of its own, so that none can hide another."""
    tables = shop(orders=40, customers=20)
    planted = set()
    taken: dict[str, int] = {}
    for fault in FAULTS:
        table = tables[fault.table]
        free = range(taken.get(fault.table, 0), table.num_rows)
        row = next(row for row in free if fault.is_eligible(table, row))
        if (fault.kind, fault.table, fault.column) in {entry[:3] for entry in planted}:
            continue  # a second depth out of range is counted, not listed
        taken[fault.table] = row + 1
        tables[fault.table] = with_cell(table, fault.column, row, fault.value)
        planted.add((fault.kind, fault.table, fault.column, row + 1))
    report = check(tables, as_of)
    found = {(problem.kind, problem.file, problem.column, problem.row) for problem in report.problems}
    assert planted <= found
    assert len(planted) >= 20


def test_absurd_amounts_are_named_without_a_warning(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    orders = tables["orders"]
    for column in ("paid", "full_price"):
        orders = with_cell(orders, column, 0, 1.7e308)
    assert [problem.kind for problem in check(tables | {"orders": orders}, as_of).problems] == ["too_large"] * 2


def test_customers_may_share_a_code(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    codes = tables["codes"]
    shared = with_cell(codes, "code_id", 1, codes["code_id"][0].as_py())
    report = check({"customers": tables["customers"], "codes": shared}, as_of)
    assert not [problem for problem in report.problems if problem.kind == "duplicate_key"]
    copied = pa.concat_tables([shared, shared.slice(1, 1)])
    (problem,) = check({"customers": tables["customers"], "codes": copied}, as_of).problems
    assert (problem.kind, problem.column) == ("duplicate_key", "code_id + customer_id + campaign_id")


def test_a_dataset_that_is_damaged_after_it_was_opened_is_a_problem_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "customers.parquet"
    pq.write_table(pa.table({"customer_id": ["a"] * 1000, "joined_on": [date(2026, 1, 1)] * 1000}), path)
    source = TableSource("customers", pads.dataset(path), "table customers")
    path.write_bytes(path.read_bytes()[:40])
    (problem,) = validate([source], as_of=None, relations=False).problems
    assert (problem.kind, problem.file) == ("unreadable_file", "table customers")
