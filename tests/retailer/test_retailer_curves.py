"""The response curve, the calendar and the sources of chance, each against something worked out elsewhere."""

import math
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from disco.records.identity import customer_keys
from disco.retailer.draws import salts, uniforms
from disco.retailer.population import response
from disco.retailer.season import busyness, first_day, month_of
from disco.retailer.settings import Calendar, Curves, SaleEvent, Shape


@pytest.mark.parametrize("shape", Shape)
@given(bend=st.floats(-6, 6), depths=st.lists(st.floats(0, 1.9), min_size=2, max_size=30))
def test_every_customer_s_curve_is_non_decreasing_from_0_to_1(shape: Shape, bend: float, depths: list[float]) -> None:
    curves = Curves(shape=shape)
    u = np.sort(np.array(depths))
    g = response(np.array(bend), u, curves=curves)
    assert (np.diff(g) >= -1e-15).all()
    ends = response(np.array(bend), np.array([0.0, 1.0]), curves=curves)
    np.testing.assert_allclose(ends, [0, 1], atol=1e-12)


def test_concave_by_hand() -> None:
    """κ = 3·e^{0.5·0.8}: g(u) = (1 − e^{−κu})/(1 − e^{−κ})."""
    curves = Curves(concave_rate=3.0, concave_rate_spread=0.5)
    rate = 3 * math.exp(0.4)
    expected = (1 - math.exp(-rate * 0.3)) / (1 - math.exp(-rate))
    assert response(np.array([0.8]), np.array([0.3]), curves=curves)[0] == pytest.approx(expected, rel=1e-14)


def test_shapes_differ_as_their_names_say() -> None:
    """Concave: falling increments. S: increments rise, then fall. Threshold: flat, one rise of its width, flat."""
    grid = np.linspace(0, 1, 201)
    concave = np.diff(response(np.zeros(1), grid, curves=Curves()))
    assert (np.diff(concave) < 0).all()
    s_shaped = np.diff(response(np.zeros(1), grid, curves=Curves(shape=Shape.S_SHAPED, midpoint=0.4)))
    assert grid[s_shaped.argmax()] == pytest.approx(0.4, abs=0.01)
    threshold = Curves(shape=Shape.THRESHOLD, midpoint=0.6, ramp=0.2)
    np.testing.assert_allclose(
        response(np.zeros(1), np.array([0.49, 0.5, 0.55, 0.6, 0.7, 0.71]), curves=threshold),
        [0, 0, 0.25, 0.5, 1, 1],
        atol=1e-12,
    )


def test_busy_days_by_hand() -> None:
    """A Saturday inside an event: wave × weekend × event; and an event of late December reaches into January."""
    calendar = Calendar(
        year_amplitude=0.3, year_peak=0, weekend_lift=1.5, events=(SaleEvent(month=12, day=30, days=5, lift=2.0),)
    )
    days = np.array(["2024-01-01", "2024-01-03", "2024-01-04", "2024-12-28", "2024-12-30"], "datetime64[D]")
    wave = [math.exp(0.3 * math.cos(2 * math.pi * day / 365.25)) for day in (0, 2, 3, 362, 364)]
    expected = np.array(wave) * [2.0, 2.0, 1.0, 1.5, 2.0]
    np.testing.assert_allclose(busyness(days, calendar=calendar), expected, rtol=1e-12)


def test_busyness_is_near_one_on_average() -> None:
    year = np.arange("2024-01-01", "2025-01-01", dtype="datetime64[D]")
    assert busyness(year, calendar=Calendar()).mean() == pytest.approx(1, abs=0.15)


@given(day=st.dates())
def test_months_count_on(day: date) -> None:
    assert first_day(month_of(day)) == day.replace(day=1)


def test_counters_are_uniform_and_purposes_independent() -> None:
    keys = customer_keys([f"c{i:07d}" for i in range(40_000)])
    one, other = (
        uniforms(keys, salts=np.resize(salts(5, purpose=purpose, names=["A"]), keys.size)) for purpose in ("x", "y")
    )
    assert kstest(one, "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(keys.size)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 5 / math.sqrt(keys.size)
    assert ((one > 0) & (one < 1)).all()
