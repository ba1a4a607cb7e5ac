"""Settings travel as JSON without loss, and numbers without meaning are refused by name."""

from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco.records.errors import FileFormatError, InputError
from disco.retailer import RetailerSettings
from disco.retailer.settings import (
    Baskets,
    Calendar,
    ChannelName,
    Curves,
    OrdinaryCodes,
    PurchaseChance,
    Shape,
    ShoppingHabits,
)

_BASE = RetailerSettings(customers=10)


@given(
    customers=st.integers(1, 10_000_000),
    seed=st.integers(0, 2**63 - 1),
    shape=st.sampled_from(Shape),
    elasticity=st.floats(0, 5),
    start=st.dates(date(1990, 1, 1), date(2040, 1, 1)).map(lambda day: day.replace(day=1)),
)
def test_json_gives_back_equal_settings(
    customers: int, seed: int, shape: Shape, elasticity: float, start: date
) -> None:
    settings = RetailerSettings(
        customers=customers,
        seed=seed,
        curves=Curves(shape=shape, elasticity=elasticity),
        calendar=Calendar(history_start=start, history_end=date(start.year + 2, 1, 1)),
        campaigns=(),
    )
    assert RetailerSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"customers": 0}, "customers"),
        ({"customers": 10_000_001}, "customers"),
        ({"seed": -1}, "seed"),
        ({"calendar": Calendar(history_start=date(2024, 1, 2))}, "calendar"),
        ({"calendar": Calendar(history_end=date(2023, 12, 1))}, "calendar"),
        ({"calendar": Calendar(history_end=date(2025, 10, 1))}, "campaign A"),
        ({"habits": ShoppingHabits(lapsed=1.5)}, "habits.lapsed"),
        ({"habits": ShoppingHabits(missions_per_month=float("nan"))}, "habits.missions_per_month"),
        ({"habits": ShoppingHabits(orders_per_mission=0.5)}, "habits.orders_per_mission"),
        ({"baskets": Baskets(mean=float("inf"))}, "baskets.mean"),
        ({"baskets": Baskets(residual_sd=0.0)}, "baskets.residual_sd"),
        ({"baskets": Baskets(mission_sd=0.7)}, "baskets.mission_sd"),
        ({"curves": Curves(elasticity_spread=-0.1)}, "curves.elasticity_spread"),
        ({"curves": Curves(midpoint=0.95)}, "curves.midpoint"),
        ({"engagement": PurchaseChance(with_spend=-1.1)}, "engagement.with_spend"),
        ({"ordinary_codes": OrdinaryCodes(depths=(0.1, 10))}, "ordinary_codes"),
        ({"countries": (("GB", 0.5),)}, "countries"),
    ],
)
def test_a_number_without_meaning_is_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        replace(_BASE, **wrong)


@pytest.mark.parametrize("text", ["", "[]", '{"customers": "many"}', '{"customers": 5, "colour": "red"}'])
def test_text_that_is_no_settings_is_refused(text: str) -> None:
    with pytest.raises(FileFormatError, match="retailer settings"):
        RetailerSettings.from_json(text)


def test_the_paper_s_campaigns_as_money_depths() -> None:
    """u ∈ {.65,.75,.85,.95}, {.7,.8,.9}, {.65,.75,.85}, {.3,.4,.5}, money depth 0.5·u; D alone goes by e-mail."""
    scaled = {c.name: tuple(round(depth / 0.5, 9) for depth in c.depths) for c in _BASE.campaigns}
    assert scaled == {
        "A": (0.65, 0.75, 0.85, 0.95),
        "B": (0.7, 0.8, 0.9),
        "C": (0.65, 0.75, 0.85),
        "D": (0.3, 0.4, 0.5),
    }
    assert [c.name for c in _BASE.campaigns if c.channel is ChannelName.EMAIL] == ["D"]
    assert {c.valid_days for c in _BASE.campaigns if c.channel is ChannelName.ON_SITE} == {1, 2}
    with pytest.raises(InputError, match="one of A, B, C, D"):
        _BASE.campaign("E")
