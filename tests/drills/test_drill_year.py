"""The counting of `./run drill year`, by hand; the year itself runs in tests/e2e/test_tutorial.py."""

import pytest
from year_drill import SEEDS, DepthTotal, Forecast, YearForecasts, forecast_table


def test_a_forecast_is_inside_its_interval_or_not() -> None:
    assert Forecast(100.0, 90.0, 120.0, 120.0).is_inside
    assert not Forecast(100.0, 90.0, 120.0, 89.9).is_inside
    assert Forecast(100.0, 90.0, 120.0, 0.0).width == pytest.approx(0.3)


def test_a_depth_is_near_within_15_per_cent_or_two_standard_errors() -> None:
    """400 purchases of 10 each: the number of purchases alone makes an error of 5%."""
    many = DepthTotal(expected=3300.0, actual=4000.0, square=40_000.0)
    assert many.ratio == pytest.approx(4000 / 3300)
    assert many.error == pytest.approx(200 / 3300)
    assert not many.is_near
    assert DepthTotal(expected=3500.0, actual=4000.0, square=40_000.0).is_near  # 14%
    assert DepthTotal(expected=100.0, actual=140.0, square=500.0).is_near  # 40% ± 22%


def test_seeds_are_pooled_campaign_by_campaign_and_depth_by_depth() -> None:
    inside, outside = Forecast(100.0, 90.0, 110.0, 95.0), Forecast(100.0, 80.0, 120.0, 130.0)
    years = {
        101: YearForecasts([inside], [outside], {0.1: DepthTotal(100.0, 90.0, 900.0), 0.2: DepthTotal(10.0, 9.0, 9.0)}),
        102: YearForecasts([inside], [inside], {0.1: DepthTotal(300.0, 270.0, 700.0), 0.2: DepthTotal(10.0, 1.0, 0.5)}),
    }
    table = forecast_table(years)
    assert "| all | 2 of 2 | 20% | 1 of 2 | 30% | 0.90 ± 0.10 | 0.50 ± 0.15 |" in table
    assert "1 of 4 seeds and depths beyond" in table
    assert "seed 102, 20% off: actual over expected 0.10" in table
    assert years[101].depths[0.1].expected == 100.0  # pooling leaves the years as they are


def test_the_drill_has_ten_seeds_of_its_own() -> None:
    assert len(set(SEEDS)) == 10
    assert not set(SEEDS) & {7, 11, 23, 31, 47, 59, *range(1, 11), *range(61, 67)}
