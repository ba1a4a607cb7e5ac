"""Learning in pictures and words: certainty, forecasts, drift, and codes assigned at random."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from disco.operations.learned import Exploration, ForecastOutcome, LearningProgress, VersionProgress
from disco.records.estimate import Estimate
from disco.records.money import GBP
from disco.views.learning_pages import (
    drift_chart,
    drift_words,
    exploration_chart,
    exploration_table,
    forecasts_chart,
    forecasts_table,
    learning_words,
    level_chart,
    level_words,
    uncertainty_chart,
    versions_table,
)


def version(number, share, *, active=False):
    made = datetime(2027, 3, number, tzinfo=UTC)
    return VersionProgress(
        version=number, made_at=made, campaigns=("a", "b"), purchases=1200, active=active, uncertainty=share
    )


def came(actual, campaign="a"):
    return ForecastOutcome(campaign=campaign, forecast=Estimate(100.0, 80.0, 125.0, 0.9), actual=actual)


def progress(*actual, versions=(), exploration=()):
    forecasts = tuple(came(one, f"c{place}") for place, one in enumerate(actual))
    return LearningProgress(versions=versions, forecasts=forecasts, exploration=exploration)


def test_the_answer_names_the_active_version_and_its_record():
    found = progress(90.0, 60.0, versions=(version(1, 0.12), version(2, 0.04, active=True)))
    assert learning_words(found) == (
        "Version 2 of the model decides, learned from 2 campaigns and 1,200 purchases; it knows revenue per code to "
        "±4.0%. 1 of 2 campaigns came out inside their forecast."
    )
    assert learning_words(progress()) == "The model has learned from no campaign yet."


def test_uncertainty_that_shrinks_and_that_does_not():
    shrinks = uncertainty_chart(progress(versions=(version(1, 0.12), version(2, 0.04, active=True))))
    assert shrinks.title == "What a code brings has become more certain: ±12.0% at first, ±4.0% now"
    grows = uncertainty_chart(progress(versions=(version(1, 0.04), version(2, 0.12, active=True))))
    assert grows.title.startswith("What a code brings is not more certain than before")
    assert uncertainty_chart(progress(versions=(version(1, None, active=True),))) is None
    assert len(uncertainty_chart(progress(versions=(version(1, 0.1, active=True),))).lines) == 0


def test_drift_is_said_where_forecasts_are_missed_on_one_side():
    assert drift_words(progress(100.0)) == "Nothing points to a drift: the last campaign came out as forecast"
    assert drift_words(progress(100.0, 60.0)) == "The last campaign brought less than its forecast"
    assert drift_words(progress(60.0, 60.0, 60.0)) == (
        "The last 3 campaigns brought less than any forecast: customers may have changed"
    )
    assert drift_words(progress(200.0, 60.0, 200.0)).startswith("The last campaign brought more than its forecast")


def test_a_ratio_lies_between_those_against_both_ends_of_the_forecast():
    row = drift_chart(progress(100.0)).rows[0].estimate
    assert (row.value, row.lower, row.upper) == (0.0, 100 / 125 - 1, 100 / 80 - 1)
    assert forecasts_table(progress(100.0), GBP).text() == (
        ("c0", "£100.00 (£80.00 to £125.00)", "£100.00", "0.0% (−20.0% to +25.0%)", "–", "–"),
    )
    assert forecasts_chart(progress(100.0, 60.0), GBP).title == (
        "Actual revenue was inside its forecast in 1 of 2 campaigns"
    )
    assert forecasts_chart(progress(), GBP) is None
    assert drift_chart(progress()) is None


def corrected(actual, campaign, *, level, season=None, step=0.05):
    return replace(came(actual, campaign), level=level, season=season, step=step)


def test_actual_stands_beside_expected_with_level_and_season():
    past = (corrected(90.0, "may", level=0.9), corrected(150.0, "december", level=0.8, season=1.25))
    found = replace(progress(), forecasts=past)
    chart = level_chart(found)
    assert chart.title == "december brought 150% of what the model alone expected"  # 150 of a forecast of 100 × 1
    forecast, level, season = chart.lines
    assert [line.label for line in chart.lines] == ["Forecast", "Level", "Season"]
    assert [list(line.y) for line in (level, season)] == [[0.9, 0.8], [1.0, 1.25]]
    assert list(forecast.y) == [0.9, pytest.approx(1.0)]
    assert list(forecast.lower) == [pytest.approx(0.72), pytest.approx(0.8)]
    (actual,) = chart.points
    assert list(actual.y) == [pytest.approx(0.81), pytest.approx(1.5)]
    assert forecasts_table(found, GBP).text()[1][4:] == ("80%", "125%")
    assert level_words(found).startswith("The level moves by about 5% from one campaign to the next")


def test_forecasts_that_were_not_corrected_have_no_level():
    assert level_chart(progress(100.0)) is None
    assert level_words(progress(100.0)) == ""
    alone = level_chart(replace(progress(), forecasts=(corrected(90.0, "may", level=0.9),)))
    assert (len(alone.lines), [one.label for one in alone.points]) == (0, ["Forecast", "Actual"])


def test_shares_assigned_at_random():
    shown = (Exploration(campaign="a", codes=200, at_random=200), Exploration(campaign="b", codes=200, at_random=25))
    found = progress(exploration=shown)
    assert exploration_chart(found).title == "12% of the codes of b were assigned at random"
    assert exploration_table(found).text()[1] == ("b", "200", "25", "12.5%")
    assert exploration_chart(progress(exploration=(Exploration(campaign="c", codes=0, at_random=0),))) is None


def test_versions_are_listed_from_the_newest_on():
    table = versions_table(progress(versions=(version(1, None), version(2, 0.04, active=True))))
    assert [row[0] for row in table.text()] == ["2", "1"]
    assert table.text()[0] == ("2", "2 Mar 2027", "a, b", "1,200", "4.0%", "active")
    assert table.text()[1][4] == "–"
