"""A season is told from growth, codes follow it as far as before, and campaigns are compared in their seasons."""

import numpy as np
import pytest

from disco.belief.season import NamedDays, SeasonIndex, waves
from disco.records.forecasting import DailyHistory

START, DAYS = 19_000, 800
EACH = START + np.arange(DAYS)
SEASON = 0.4 * np.cos(2 * np.pi * (EACH - 19_335) / 365.25)


def history(*, follow=0.8, growth=0.2, sent=400.0, seed=1):
    rng = np.random.default_rng(seed)
    orders = rng.poisson(300 * np.exp(SEASON + growth * (EACH - START) / 365.25)).astype(float)
    used = rng.binomial(int(sent), 0.1 * np.exp(follow * SEASON)).astype(float)
    return DailyHistory(first_day=START, orders=orders, sent=np.full(DAYS, sent), used=used)


def test_a_season_is_told_from_growth_and_from_a_sale():
    seen = history(growth=0.5)
    seen.orders[100:107] *= 4  # a sale
    found = SeasonIndex.fit(seen)
    assert waves(EACH) @ found.waves == pytest.approx(SEASON, abs=0.06)


@pytest.mark.parametrize("follow", [0.0, 0.5, 1.0])
def test_codes_follow_as_far_as_those_of_the_history_did(follow):
    found = SeasonIndex.fit(history(follow=follow))
    assert found.follow == pytest.approx(follow, abs=0.1)
    assert abs(found.follow - follow) < 4 * found.follow_sd


def test_without_codes_half_of_the_season_is_followed_and_little_is_known_of_it():
    found = SeasonIndex.fit(history(sent=0.0))
    assert (found.follow, found.follow_sd) == (0.5, 0.35)


def test_a_campaign_is_expected_to_bring_what_its_season_is_to_those_learned_from():
    """A belief pools used over what would have been used without a season."""
    found = SeasonIndex.fit(history(follow=1.0))
    low, high = found.of(19_335 - 182, 14), found.of(19_335, 14)
    assert high.log - low.log == pytest.approx(0.8, abs=0.1)
    mean, variance = high.against([low, low], [100.0, 300.0])
    assert mean == pytest.approx(high.log - low.log)
    assert 0 < variance < 0.01
    assert high.against([high], [50.0]) == (pytest.approx(0.0), pytest.approx(0.0))
    used = np.array([100 * np.exp(low.log), 100 * np.exp(high.log)])  # equal codes in both seasons
    mean, _ = high.against([low, high], used)
    assert np.exp(mean) == pytest.approx(np.exp(high.log) / (used.sum() / 200))
    assert high.against([], [])[0] == high.log


def test_named_days_count_as_far_as_a_campaign_is_on_them():
    named = [NamedDays(first=20_000, last=20_004, factor=1.5), NamedDays(first=20_100, last=20_103, factor=None)]
    found = SeasonIndex.of_calendar(named)
    assert np.exp(found.of(20_000, 5).log) == pytest.approx(1.5)
    assert 1.2 < np.exp(found.of(20_000, 14).log) < 1.5, "most codes are used early"
    assert found.of(20_010, 14).log == found.of(20_100, 4).log == 0.0


def test_named_days_without_a_factor_have_that_of_the_same_days_before():
    seen, first = history(follow=1.0), START + 600
    for years in (365, 0):
        seen.orders[600 - years : 610 - years] *= 1.6
    named = [NamedDays(first=first + 365, last=first + 374, factor=None)]
    found, plain = SeasonIndex.fit(seen, named), SeasonIndex.fit(seen)
    added = found.of(first + 365, 10).log - plain.of(first + 365, 10).log
    assert 0.25 < added < np.log(1.6), "shrunk, because two years say little"
