"""Money: exact pennies from floats, decimals, integers and Arrow columns alike."""

from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco.records.errors import InputError
from disco.records.money import LARGEST_AMOUNT, from_minor_units, minor_units_of_decimals, to_minor_units


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1))
def test_whole_pennies_survive_the_way_through_floats(minor: list[int]) -> None:
    exact = np.array([amount for amount in minor if abs(amount) <= LARGEST_AMOUNT * 100], np.int64)
    assert to_minor_units(from_minor_units(exact)).tolist() == exact.tolist()


@given(st.lists(st.decimals(-(10**9), 10**9, places=5), min_size=1))
def test_decimals_round_half_to_even_on_every_path(amounts: list[Decimal]) -> None:
    expected = [int((amount * 100).quantize(Decimal(1), ROUND_HALF_EVEN)) for amount in amounts]
    column = pa.array(amounts, pa.decimal128(20, 5))
    assert to_minor_units(amounts).tolist() == expected
    assert to_minor_units(column).tolist() == expected
    assert to_minor_units(pa.chunked_array([column, column])).tolist() == expected * 2
    assert minor_units_of_decimals(column.cast(pa.decimal256(40, 5))).to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.decimal32(9, 2), pa.decimal64(18, 3), pa.decimal128(38, 20), pa.decimal128(9, 0)])
def test_every_decimal_type_arrow_has(kind: pa.DataType) -> None:
    column = pa.array([Decimal(12), None, Decimal(-3)], kind)
    assert minor_units_of_decimals(column).to_pylist() == [1200, None, -300]


def test_a_whole_number_is_whole_units() -> None:
    assert to_minor_units([40]).tolist() == [4000]
    assert to_minor_units(pa.array([40])).tolist() == [4000]
    assert to_minor_units([Decimal("0.5"), 2]).tolist() == [50, 200]


@pytest.mark.parametrize(
    "amounts",
    [
        [1.0, float("nan")],
        [float("inf")],
        [Decimal("NaN")],
        [Decimal("Infinity")],
        [Decimal(10) ** 30],
        [1e300],
        [Decimal(1), None],
        [Decimal(1), "2"],
        [Decimal(1), True],
        ["12.50"],
        [True],
        pa.array([1.0, None]),
        pa.array([Decimal(10) ** 20]),
    ],
)
def test_what_is_no_finite_amount_is_refused(amounts: object) -> None:
    with pytest.raises(InputError, match=r"orders\.paid"):
        to_minor_units(amounts, where="orders.paid")


def test_the_row_is_named() -> None:
    with pytest.raises(InputError, match="row 3"):
        to_minor_units([1.0, 2.0, float("nan")])
    with pytest.raises(InputError, match="row 2"):
        to_minor_units([Decimal(1), Decimal("NaN")])
