"""A figure must read the same everywhere, keep its sign, and never say NaN."""

import datetime
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.money import read_currency
from disco.views.formats import (
    Count,
    Money,
    Names,
    Number,
    Percent,
    count,
    date,
    estimate_text,
    money,
    number,
    p_value,
    percent,
)

AMOUNTS = st.floats(min_value=-1e15, max_value=1e15, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "short", "full"),
    [
        (0, "£0", "£0"),
        (-0.0, "£0", "£0"),
        (2.1, "£2.10", "£2.10"),
        (-2.1, "−£2.10", "−£2.10"),
        (0.004, "£0.00", "£0.00"),
        (-0.004, "£0.00", "£0.00"),
        (999.99, "£999.99", "£999.99"),
        (999.996, "£1.00k", "£1,000"),
        (12_345, "£12.3k", "£12,345"),
        (181_600, "£182k", "£181,600"),
        (999_499, "£999k", "£999,499"),
        (999_999, "£1.00m", "£999,999"),
        (1_234_567, "£1.23m", "£1,234,567"),
        (-1_234_567, "−£1.23m", "−£1,234,567"),
        (5.678e9, "£5.68bn", "£5,678,000,000"),
        (1e13, "£10,000bn", "£10,000,000,000,000"),
    ],
)
def test_money_reads_as_people_write_it(value: float, short: str, full: str) -> None:
    assert money(value) == short
    assert money(value, full=True) == full


def test_money_in_another_currency_with_a_sign_and_fixed_pennies() -> None:
    assert money(1500, currency=read_currency("EUR"), signed=True) == "+€1.50k"
    assert money(1500, currency=read_currency("EUR"), full=True, decimals=2) == "€1,500.00"
    assert money(0, decimals=2) == "£0.00"


@given(AMOUNTS)
def test_short_money_is_within_half_a_percent_or_half_a_penny(value: float) -> None:
    text = money(value)
    digits, magnitude = re.fullmatch(r"−?£([\d,.]+)(k|m|bn)?", text).groups()
    size = float(digits.replace(",", "")) * {None: 1, "k": 1e3, "m": 1e6, "bn": 1e9}[magnitude]
    assert abs(size - abs(value)) <= max(0.0051 * abs(value), 0.0051)
    assert text.startswith("−") == (value < 0 and size > 0)


@given(AMOUNTS)
def test_full_money_keeps_every_pound(value: float) -> None:
    text = money(value, full=True)
    size = float(text.replace(",", "").replace("£", "").replace("−", "-"))
    assert abs(size - value) <= 0.5 + 1e-3


def test_percent_says_its_sign_only_when_asked_and_zero_has_none() -> None:
    assert percent(0.0123) == "1.2%"
    assert percent(0.0123, signed=True) == "+1.2%"
    assert percent(-0.0123) == "−1.2%"
    assert percent(0.0, signed=True) == percent(-0.0001, signed=True) == "0.0%"
    assert percent(25, decimals=0) == "2,500%"


def test_counts_and_plain_numbers() -> None:
    assert count(1_234_567) == "1,234,567"
    assert count(-3) == "−3"
    assert number(0.15494, decimals=3) == "0.155"
    assert number(1.5, signed=True) == "+1.50"


def test_an_estimate_reads_x_a_to_b() -> None:
    assert estimate_text(Estimate(2.1, -1, 5, 0.95), unit=Money()) == "£2.10 (−£1.00 to £5.00)"
    assert estimate_text(Estimate(0.2), unit=Percent()) == "20.0%"


def test_an_interval_without_limit_says_so() -> None:
    assert estimate_text(Estimate(2.1, -math.inf, 5), unit=Count()) == "2 (5 or less)"
    assert estimate_text(Estimate(2.1, 1, math.inf), unit=Count()) == "2 (1 or more)"
    assert estimate_text(Estimate(2.1, -math.inf, math.inf), unit=Count()) == "2 (interval unbounded)"


def test_p_values_have_one_format_and_are_never_zero() -> None:
    assert [p_value(value) for value in (1.0, 0.9, 0.1, 0.0996, 0.043, 0.001, 0.0009, 0.0)] == [
        "1.00",
        "0.90",
        "0.10",
        "0.100",
        "0.043",
        "0.001",
        "<0.001",
        "<0.001",
    ]


def test_names_are_counted_from_one() -> None:
    unit = Names(["2025-10", "2025-11"])
    assert [unit.text(place) for place in (1, 2)] == ["2025-10", "2025-11"]
    scale = unit.scale(lowest=1, highest=2)
    assert scale.extent == (0, 3, 1)
    assert [scale.ticks["names"][place] for place in range(4)] == ["", "2025-10", "2025-11", ""]


def test_dates_do_not_follow_the_locale() -> None:
    assert date(datetime.date(2027, 3, 8)) == "8 Mar 2027"
    assert date(datetime.date(2027, 12, 31)) == "31 Dec 2027"


@pytest.mark.parametrize("write", [money, percent, count, number])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_never_written(write, value: float) -> None:
    with pytest.raises(InputError, match="finite"):
        write(value)


def test_axes_carry_the_unit_on_their_ticks() -> None:
    gains = Money().scale(lowest=0, highest=1.3e6)
    assert (gains.ticks["prefix"], gains.ticks["magnitude"], gains.plotted(1.24e6)) == ("£", "m", 1.24)
    losses = Money().scale(lowest=-5e3, highest=1e3)
    assert (losses.ticks["prefix"], losses.ticks["magnitude"], losses.plotted(-5e3)) == ("£", "k", -5.0)
    assert Percent().scale(lowest=0, highest=1).plotted(0.1) == 10.0  # exactly: no 10.000000000000002 in the page
    assert Count().scale(lowest=0, highest=3e5).ticks["magnitude"] == "k"
    assert Count().scale(lowest=0, highest=1e5).ticks["magnitude"] == ""
    assert Number().scale(lowest=0, highest=3e5).plotted(3e5) == 3e5
