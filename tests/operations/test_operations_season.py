"""The season reaches forecasts and budgets, and campaigns are compared with their forecasts in their own seasons."""

from datetime import date

import numpy as np
import pytest

from disco.operations.forecast import past_forecasts
from disco.operations.learn import learn_campaigns
from disco.operations.outcomes import ingest
from disco.operations.season import Lessons, ShopSeason
from disco.records.errors import InputError
from disco.records.forecasting import CalendarEntry, DailyHistory, ForecastRules, SeasonSource, check_calendar
from disco.records.plan_summary import Calibration


def entry(name, first, last, factor=None):
    return CalendarEntry(name=name, first=date.fromisoformat(first), last=date.fromisoformat(last), factor=factor)


def history(days, orders):
    none = np.zeros(days)
    return DailyHistory(first_day=20_000, orders=np.full(days, orders / days), sent=none, used=none)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry("Christmas", "2026-12-24", "2026-12-01")], "not before the first"),
        ([entry("Christmas", "2026-12-01", "2026-12-24"), entry("Advent", "2026-11-29", "2026-12-01")], "overlap"),
        ([entry("always", "2026-01-01", "2027-06-01")], "at most a year"),
        ([entry("Sale", "2026-01-01", "2026-01-02", 40.0)], "from 0.1 to 10"),
    ],
)
def test_impossible_calendars_are_refused_by_name(entries, words):
    with pytest.raises(InputError, match=words) as refused:
        check_calendar(entries)
    assert refused.value.what.startswith("calendar, ")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (history(400, 9000), "orders reach back 400 days"),
        (history(800, 900), "there are 900 orders"),
        (history(800, 90_000), "codes follow 50% of the season of orders, by 2.2 years"),
        (None, "from the calendar alone"),
    ],
)
def test_a_season_says_where_it_comes_from_or_why_there_is_none(seen, words):
    found = ShopSeason.of(seen, ForecastRules())
    assert words in found.words
    if "follow" not in words:
        assert found.index.of(20_500, 14).log == 0.0


def test_a_campaign_is_compared_in_its_season_and_the_next_is_forecast_in_its_own(shop):
    """The model learned from spring alone, in whose days codes were used 1.5 times as often: the next has less."""
    plan = shop.launch().plan
    spring = CalendarEntry(name="spring", first=plan.valid.start, last=plan.valid.start.replace(year=2100), factor=1.5)
    season = ShopSeason.of(None, ForecastRules(season=SeasonSource.NONE, calendar=(spring,)))
    earlier = season.index.of(18_000, 14)
    with shop.store.reading() as transaction:
        lessons = Lessons(transaction, season)
        assert lessons.relative(plan, [], until=shop.after) == (pytest.approx(np.log(1.5)), 0.0)
    assert earlier.against([season.campaign(plan)], [30.0])[0] == pytest.approx(-np.log(1.5))
    past = past_forecasts(shop.store, learned=["spring"], as_of=shop.after, personal=False, plan=plan, season=season)
    found = past.calibrations([0.1, 0.3])[True]
    assert found.log_season == pytest.approx(np.log(1.5))
    assert found.factors([0.1])[0] == pytest.approx(1.5, rel=1e-5)
    assert "used 1.50 times as often" in found.season_words()


def test_codes_that_are_forgotten_weigh_less_in_the_season_that_was_learned(shop):
    season = ShopSeason.of(None, ForecastRules(season=SeasonSource.NONE))
    for name in ("first", "second", "third"):
        launched = shop.launch(shop.plan(campaign=name))
        rows = shop.sent(launched)[: 30 if name != "second" else 0]
        table = shop.outcomes(rows, campaign_id=[name] * len(rows))
        ingest(shop.store, name, table, source="test", clock=shop.clock)
        learn_campaigns(shop.store, [name], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    with shop.store.reading() as transaction:
        whole, half = (Lessons(transaction, season, forgetting=f) for f in (1.0, 0.5))
        names = ["first", "second", "third"]
        used = whole._weights(names)
        assert min(used[0], used[2]) > 0 == used[1]
        assert half._weights(names) == [used[0] / 4, 0.0, used[2]]


def test_a_season_moves_all_depths_alike_and_adds_its_own_doubt():
    plain = Calibration(
        log_factor=0.1,
        log_sd=0.3,
        campaigns=2,
        log_factors={0.1: 0.1, 0.3: 0.2},
        log_covariance=((0.09, 0.04), (0.04, 0.09)),
        campaign_log_sd=0.1,
    )
    found = plain.in_season(-0.5, 0.01)
    assert list(found.log_factors.values()) == pytest.approx([-0.4, -0.3])
    assert np.asarray(found.log_covariance) == pytest.approx(np.asarray(plain.log_covariance) + 0.01)
    assert found.campaign_log_sd**2 == pytest.approx(0.02)
