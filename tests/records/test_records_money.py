"""Money: exact pennies from floats, decimals and integers, in memory and in DuckDB alike."""

from decimal import ROUND_HALF_EVEN, Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.records.money import GBP, from_minor_units, minor_units, minor_units_sql

LARGEST_AMOUNT = GBP.largest_amount


def in_duckdb(amounts: pa.Array) -> list[int | None]:
    connection = duckdb.connect(":memory:")
    connection.register("t", pa.table({"x": amounts}))
    value = minor_units_sql("x", is_decimal=pa.types.is_decimal(amounts.type))
    return [row[0] for row in connection.execute(f"SELECT CAST({value} AS BIGINT) FROM t").fetchall()]


@given(st.lists(st.integers(-(LARGEST_AMOUNT * 100), LARGEST_AMOUNT * 100), min_size=1))
def test_whole_pennies_survive_the_way_through_floats(minor: list[int]) -> None:
    exact = np.array(minor, np.int64)
    assert minor_units(pa.array(from_minor_units(exact))).to_pylist() == minor


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, float(LARGEST_AMOUNT)), min_size=1))
def test_floats_round_alike_in_memory_and_in_duckdb(amounts: list[float]) -> None:
    column = pa.array(amounts)
    assert minor_units(column).to_pylist() == in_duckdb(column)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.decimals(-(10**9), 10**9, places=5), min_size=1))
def test_decimals_round_half_to_even_on_every_path(amounts: list[Decimal]) -> None:
    expected = [int((amount * 100).quantize(Decimal(1), ROUND_HALF_EVEN)) for amount in amounts]
    column = pa.array(amounts, pa.decimal128(20, 5))
    assert minor_units(column).to_pylist() == expected
    assert minor_units(column.cast(pa.decimal256(40, 5))).to_pylist() == expected
    assert in_duckdb(column) == expected


@pytest.mark.parametrize("kind", [pa.decimal32(9, 2), pa.decimal64(18, 3), pa.decimal128(38, 20), pa.decimal128(9, 0)])
def test_every_decimal_type_arrow_has(kind: pa.DataType) -> None:
    column = pa.array([Decimal(12), None, Decimal(-3)], kind)
    assert minor_units(column).to_pylist() == [1200, None, -300]


def test_a_whole_number_is_whole_units() -> None:
    assert minor_units(pa.array([40, None])).to_pylist() == [4000, None]
    assert in_duckdb(pa.array([40, None])) == [4000, None]


@pytest.mark.parametrize(
    "amounts",
    [
        pa.array([float("nan"), float("inf"), float("-inf"), 1e300, 1.1 * LARGEST_AMOUNT]),
        pa.array([Decimal(10) ** 20, Decimal(LARGEST_AMOUNT) + 1]),
        pa.array([LARGEST_AMOUNT + 1, 2**62]),
    ],
)
def test_what_is_no_amount_of_money_is_none(amounts: pa.Array) -> None:
    assert minor_units(amounts).null_count == len(amounts)


def test_sums_of_the_largest_amounts_are_exact_and_their_logarithm_is_evidence() -> None:
    largest = LARGEST_AMOUNT * 100
    assert float(9 * largest - 1) + 1.0 == float(9 * largest)
    assert np.log(float(LARGEST_AMOUNT)) < 32
