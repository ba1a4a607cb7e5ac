"""Validation: columns and tables as wholes, types that carry ids and times, and what is allowed."""

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from disco.records.errors import Problem
from disco.records.locale import Locale
from disco.records.table_rules import TableSource
from disco.records.validation import TablesReport, validate

Shop = dict[str, pa.Table]


def check(tables: Shop, as_of: date, **options: Any) -> TablesReport:
    return validate([TableSource(name, table, name) for name, table in tables.items()], as_of=as_of, **options)


def kinds(problems: tuple[Problem, ...]) -> list[tuple[str, str, str]]:
    return [(problem.kind, problem.file, problem.column) for problem in problems]


def test_columns_that_are_absent_misnamed_or_of_another_type(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    orders = tables["orders"].rename_columns(
        ["order_id", "customer_id", "ordered_at", "Full Price", "paid", "items", "code"]
    )
    site = tables["site"].drop_columns(["saves"])
    codes = tables["codes"]
    codes = codes.set_column(3, "depth", pa.array([True] * len(codes)))
    customers = tables["customers"]
    customers = customers.append_column("customer_id", customers["customer_id"])
    problems = check(tables | {"orders": orders, "site": site, "codes": codes, "customers": customers}, as_of).problems
    assert kinds(problems) == [
        ("duplicate_column", "customers", "customer_id"),
        ("missing_column", "orders", "full_price"),
        ("wrong_type", "codes", "depth"),
        ("missing_column", "site", "saves"),
    ]
    assert "Did you mean 'Full Price'?" in problems[1].fix
    assert "bool" in problems[2].found


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("full_price", pa.array(["12,50"] * 12)),
        ("full_price", pa.array([True] * 12)),
        ("ordered_at", pa.array(["01.06.2025"] * 12)),
        ("ordered_at", pa.array([20250601] * 12)),
        ("items", pa.array(["three"] * 12)),
        ("customer_id", pa.array([1.0] * 12)),
        ("customer_id", pa.array([b"1"] * 12)),
    ],
)
def test_floats_truths_and_text_of_another_kind_are_a_wrong_type(
    shop: Callable[..., Shop], as_of: date, column: str, values: pa.Array
) -> None:
    orders = shop()["orders"]
    orders = orders.set_column(orders.schema.get_field_index(column), column, values)
    assert ("wrong_type", "orders", column) in kinds(check({"orders": orders}, as_of).problems)


def test_a_column_of_text_is_read_as_from_csv(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    orders = tables["orders"]
    for name in ("ordered_at", "full_price", "paid", "items"):
        orders = orders.set_column(orders.schema.get_field_index(name), name, orders[name].cast(pa.string()))
    assert check(tables | {"orders": orders}, as_of).problems == ()


def test_only_columns_declared_so_may_be_absent_and_are_then_empty(shop: Callable[..., Shop], as_of: date) -> None:
    outcomes = shop()["outcomes"].drop_columns(["refers_to"])
    purchases = outcomes.filter(pa.compute.equal(outcomes["kind"], "purchase"))
    assert check({"outcomes": purchases}, as_of).problems == ()
    (problem,) = check({"outcomes": outcomes}, as_of).problems
    assert (problem.kind, problem.row, problem.found) == ("missing_refers_to", 4, "nothing, in a refund")
    assert check({"outcomes": outcomes.slice(0, 0)}, as_of).problems == (), "a day without a purchase"


def test_an_empty_table_and_a_missing_one(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    del tables["customers"]
    problems = check(tables | {"site": tables["site"].slice(0, 0)}, as_of).problems
    assert kinds(problems) == [
        ("missing_table", "orders", "customer_id"),
        ("missing_table", "codes", "customer_id"),
        ("empty_table", "site", ""),
    ]


def test_outcomes_can_be_checked_alone_because_the_store_knows_the_customers(
    shop: Callable[..., Shop], as_of: date
) -> None:
    assert check({"outcomes": shop()["outcomes"]}, as_of).problems == ()


def test_a_later_file_of_refunds_can_be_checked_without_the_purchases(shop: Callable[..., Shop], as_of: date) -> None:
    outcomes = shop()["outcomes"]
    refunds = outcomes.filter(pa.compute.equal(outcomes["kind"], "refund"))
    assert kinds(check({"outcomes": refunds}, as_of).problems) == [("unknown_event", "outcomes", "refers_to")]
    assert check({"outcomes": refunds}, as_of, relations=False).problems == ()


def test_ids_of_two_types_are_named_and_still_compared(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop(text_ids=False)
    site = tables["site"]
    as_text = site.set_column(0, "customer_id", site["customer_id"].cast(pa.string()))
    (problem,) = check(tables | {"site": as_text}, as_of).problems
    assert (problem.kind, problem.file, problem.column) == ("mixed_ids", "site", "customer_id")
    assert "text here, integers in customers.customer_id" in problem.found


def test_a_word_among_integers_is_a_mixed_id_but_random_hexadecimal_ids_are_not(as_of: date) -> None:
    def customers(names: list[str]) -> Shop:
        return {"customers": pa.table({"customer_id": names, "joined_on": [date(2025, 1, 1)] * len(names)})}

    (problem,) = check(customers(["17", "18", "guest", "-4", "19.0"]), as_of).problems
    assert (problem.kind, problem.row, problem.rows) == ("mixed_ids", 3, 2)
    hexadecimal = [f"{number:04x}" for number in range(300, 4000, 7)]
    assert any(name.isdigit() for name in hexadecimal)
    assert check(customers(hexadecimal), as_of).problems == ()


def test_time_zones_must_agree_between_columns(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    returns = tables["returns"]
    zoned = returns.set_column(1, "returned_at", returns["returned_at"].cast(pa.timestamp("us", "Europe/Berlin")))
    (problem,) = check(tables | {"returns": zoned}, as_of).problems
    assert (problem.kind, problem.file, problem.column) == ("mixed_time_zones", "returns", "returned_at")
    assert "such as `time_zone: Europe/Berlin`" in problem.fix


def test_a_shop_with_a_time_zone_may_have_zones_in_some_columns(shop: Callable[..., Shop], as_of: date) -> None:
    """Times without a zone are then those of the shop; the same moments give the same verdict in either form."""
    berlin, tables = Locale(time_zone="Europe/Berlin"), shop()
    returns = tables["returns"]

    def zoned(hours_later: int) -> Shop:
        moments = np.asarray(returns["returned_at"], "datetime64[us]").astype(np.int64) + hours_later * 3_600_000_000
        instants = pa.array(berlin.instants(moments)).cast(pa.timestamp("us", "UTC"))
        return tables | {"returns": returns.set_column(1, "returned_at", instants)}

    def problems(tables: Shop) -> list[tuple[str, str, str]]:
        sources = [TableSource(name, table, name, berlin) for name, table in tables.items()]
        return kinds(validate(sources, as_of=as_of).problems)

    assert problems(tables) == problems(zoned(0)) == []
    # two days after the order, less two days and two hours: before it
    assert problems(zoned(-50)) == [("returned_before_ordered", "returns", "returned_at")]


def test_a_mere_date_of_return_on_the_day_of_the_order_is_fine(as_of: date) -> None:
    moment = pa.array([np.datetime64("2025-06-01T18:00:00", "us")])
    order = {"order_id": ["a"], "customer_id": ["c"], "ordered_at": moment, "full_price": [9.0], "paid": [9.0]}
    tables = {
        "customers": pa.table({"customer_id": ["c"], "joined_on": [date(2025, 1, 1)]}),
        "orders": pa.table(order | {"items": [1], "code": pa.nulls(1)}),
        "returns": pa.table({"order_id": ["a"], "returned_at": [date(2025, 6, 1)], "value": [9.0]}),
    }
    assert check(tables, as_of).problems == ()
    hour_early = pa.array([np.datetime64("2025-06-01T17:00:00", "us")])
    early = tables["returns"].set_column(1, "returned_at", hour_early)
    assert kinds(check(tables | {"returns": early}, as_of).problems) == [
        ("returned_before_ordered", "returns", "returned_at")
    ]


def test_dictionary_and_view_columns_are_text(shop: Callable[..., Shop], as_of: date) -> None:
    tables = shop()
    customers = tables["customers"].set_column(
        0, "customer_id", tables["customers"]["customer_id"].cast(pa.string_view())
    )
    site = tables["site"].set_column(0, "customer_id", tables["site"]["customer_id"].dictionary_encode())
    outcomes = tables["outcomes"].set_column(6, "kind", tables["outcomes"]["kind"].dictionary_encode())
    assert check(tables | {"customers": customers, "site": site, "outcomes": outcomes}, as_of).problems == ()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit_and_of_absurd_size(as_of: date, unit: str) -> None:
    largest = 2**63 - 1
    joined = pa.array([0, largest, 1_700_000_000], pa.int64()).cast(pa.timestamp(unit))
    customers = pa.table({"customer_id": ["a", "b", "c"], "joined_on": joined})
    (problem,) = check({"customers": customers}, as_of).problems
    assert (problem.kind, problem.row, problem.rows) == ("future_date", 2, 1)


def test_integers_too_large_for_an_id_are_a_problem_of_their_column(as_of: date) -> None:
    huge = pa.table({"customer_id": pa.array([1, 2**63], pa.uint64()), "joined_on": [date(2025, 1, 1)] * 2})
    (problem,) = check({"customers": huge}, as_of).problems
    assert (problem.file, problem.column, problem.found) == ("customers", "customer_id", str(2**63))
    assert "text" in problem.fix
