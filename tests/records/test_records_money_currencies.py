"""Currencies: the minor units of ISO 4217, how amounts read, and codes that are none."""

import numpy as np
import pyarrow as pa
import pytest

from disco.records.errors import InputError
from disco.records.money import GBP, from_minor_units, minor_units, read_currency
from disco.records.table_rules import check_rows
from disco.records.wording import money


@pytest.mark.parametrize(
    ("code", "digits", "minor"), [("GBP", 2, 123457), ("EUR", 2, 123457), ("JPY", 0, 1235), ("KWD", 3, 1234568)]
)
def test_an_amount_becomes_minor_units_of_its_currency(code: str, digits: int, minor: int) -> None:
    currency = read_currency(code)
    assert (currency.digits, currency.minor_per_unit) == (digits, 10**digits)
    for column in (pa.array([1234.5678]), pa.array([1234.5678]).cast(pa.decimal128(12, 4))):
        assert minor_units(column, currency).to_pylist() == [minor]
    assert from_minor_units(np.array([minor]), currency).tolist() == [minor / 10**digits]


@pytest.mark.parametrize("code", ["GBP", "JPY", "KWD"])
def test_sums_of_the_largest_amounts_are_exact_and_their_logarithm_is_evidence(code: str) -> None:
    currency = read_currency(code)
    largest = currency.largest_amount * currency.minor_per_unit
    assert float(9 * largest - 1) + 1.0 == float(9 * largest)
    assert np.log(float(currency.largest_amount)) < 32
    assert minor_units(pa.array([float(currency.largest_amount)]), currency).to_pylist() == [largest]


@pytest.mark.parametrize(
    ("amount", "pounds", "euros", "yen", "dinars"),
    [
        (0.0, "£0", "€0", "¥0", "KWD\u00a00"),
        (2.1, "£2.10", "€2.10", "¥2", "KWD\u00a02.100"),
        (-12.3456, "−£12.35", "−€12.35", "−¥12", "−KWD\u00a012.346"),
        (12_345.0, "£12.3k", "€12.3k", "¥12,345", "KWD\u00a012.3k"),
        (1_234_567.0, "£1.23m", "€1.23m", "¥1.23m", "KWD\u00a01.23m"),
    ],
)
def test_amounts_read_with_the_symbol_and_the_digits_of_their_currency(
    amount: float, pounds: str, euros: str, yen: str, dinars: str
) -> None:
    written = [money(amount, currency=read_currency(code)) for code in ("GBP", "EUR", "JPY", "KWD")]
    assert written == [pounds, euros, yen, dinars]


def test_yen_written_in_full_have_no_decimals() -> None:
    yen = read_currency("JPY")
    assert money(999.5, currency=yen, full=True) == "¥1,000"
    assert money(123_456_789, currency=yen, full=True) == "¥123,456,789"
    assert money(99_999.4, currency=yen) == "¥99,999"
    assert money(99_999.5, currency=yen) == "¥100k"


@pytest.mark.parametrize(
    ("wrong", "meant"), [("euro", "EUR"), ("€", "EUR"), ("GPB", "GBP"), ("$", "USD"), ("YEN", "JPY"), ("EURR", "EUR")]
)
def test_a_code_that_is_none_is_refused_with_the_one_that_was_meant(wrong: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"ISO 4217.*Did you mean {meant}"):
        read_currency(wrong)


@pytest.mark.parametrize("wrong", ["", "BITCOIN", "XAU", "12"])
def test_what_is_no_currency_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="currency"):
        read_currency(wrong)


def test_a_code_may_be_written_in_small_letters() -> None:
    assert read_currency(" gbp ") == GBP


def test_an_amount_below_the_minor_unit_is_nothing_to_buy_with() -> None:
    from disco.records.locale import Locale

    row = {
        "event_id": ["e"],
        "campaign_id": ["c"],
        "customer_id": ["1"],
        "code": ["x"],
        "kind": ["purchase"],
        "ordered_at": ["2026-01-01"],
        "full_price": ["0.4"],
    }
    for code, reason in (("JPY", "an amount of at least 1"), ("KWD", None), ("GBP", None)):
        checked = check_rows("outcomes", pa.table(row), Locale(read_currency(code)))
        found = [checked.rules[place].expected for place in checked.fault if place >= 0]
        assert found == ([] if reason is None else [reason])


@pytest.mark.parametrize("wrong", ["ABC", "XYZ", "QQQ", "money"])
def test_nothing_is_suggested_for_letters_that_resemble_no_code(wrong):
    with pytest.raises(InputError, match="ISO 4217") as refused:
        read_currency(wrong)
    assert "Did you mean" not in str(refused.value)
