"""Results from day to day as a picture: since when the difference is clear, and an axis that can be read."""

import math
from datetime import date, timedelta

import pytest

from disco.evaluation.estimates import Comparison
from disco.operations.results import ResultsOverTime, UpliftOnDay
from disco.records.estimate import Estimate
from disco.views.campaign_pages import over_time_chart, over_time_table


def on(day, value, half, *, final=False):
    estimate = Estimate(value, value - half, value + half, 0.95)
    comparison = Comparison(1 + value, 1.0, estimate, estimate, 0.5)
    return UpliftOnDay(day=date(2027, 3, day), purchases=10 * day, comparison=comparison, final=final)


def over_time(*days):
    return ResultsOverTime(campaign="spring", metric="objective", days=days)


def test_the_title_says_since_when_the_difference_is_clear():
    chart = over_time_chart(over_time(on(1, 0.3, 0.2), on(2, 0.2, 0.3), on(3, 0.25, 0.2), on(4, 0.25, 0.1)))
    assert chart.title == "The decided group has been clearly better than control since 3 Mar 2027"
    worse = over_time_chart(over_time(on(1, 0.1, 0.3), on(2, -0.4, 0.1)))
    assert worse.title == "The decided group has been clearly worse than control since 2 Mar 2027"


def test_without_a_clear_difference_the_title_says_how_the_interval_narrowed():
    chart = over_time_chart(over_time(on(1, 0.3, 3.0), on(2, 0.1, 0.4)))
    assert chart.title == "The interval has narrowed from ±300% to ±40% since 1 Mar 2027"


@pytest.mark.parametrize(("final", "ending"), [(False, "so far"), (True, "at the end")])
def test_an_interval_that_has_not_narrowed_is_said_as_it_is(final, ending):
    chart = over_time_chart(over_time(on(1, 0.3, 0.2), on(2, 0.1, 0.2, final=final)))
    assert chart.title == f"The interval is ±20% {ending}"


def without_limits(day, value, half):
    """A clear difference whose percentage is not known, because control is not clearly above 0."""
    estimate, relative = Estimate(value, value - half, value + half, 0.95), Estimate(value, -math.inf, math.inf, 0.95)
    comparison = Comparison(1 + value, 1.0, estimate, relative, 0.01)
    return UpliftOnDay(day=date(2027, 3, day), purchases=10 * day, comparison=comparison, final=False)


def test_the_title_is_about_the_days_that_are_drawn():
    since = over_time_chart(over_time(without_limits(1, 0.3, 0.2), on(2, 0.3, 0.2), on(3, 0.3, 0.1)))
    assert since.title == "The decided group has been clearly better than control since 2 Mar 2027"
    last = over_time_chart(over_time(on(1, 0.3, 0.9), on(2, 0.3, 0.4), without_limits(3, 0.3, 0.2)))
    assert last.title == "The interval has narrowed from ±90% to ±40% since 1 Mar 2027"
    assert len(last.lines[0].y) == 2
    assert over_time_chart(over_time(without_limits(1, 0.3, 0.2))) is None


def test_first_intervals_do_not_squeeze_the_rest():
    chart = over_time_chart(over_time(on(1, 0.2, 9.0), on(2, 0.2, 0.1), on(3, 0.2, 0.1)))
    axis = chart.option()["yAxis"]
    assert (axis["min"], axis["max"]) == (-10, 50)  # three times the last interval, which is 0.2 wide
    assert "reach beyond the picture" in chart.subtitle
    assert "+920.0%" in chart.table().text()[0][1]  # the table has all of it
    wide = over_time_chart(over_time(on(1, 0.2, 0.12), on(2, 0.2, 0.1)))
    assert "reach beyond" not in wide.subtitle


def test_one_day_is_a_point_and_none_no_picture():
    one = over_time_chart(over_time(on(1, 0.2, 0.1)))
    assert (len(one.lines), len(one.points)) == (0, 1)
    assert over_time_chart(over_time()) is None
    assert over_time_table(over_time()).rows == ()


def test_the_table_has_a_row_per_day():
    days = [on(1 + place, 0.1, 0.2) for place in range(3)]
    table = over_time_table(over_time(*days))
    assert [row[0] for row in table.text()] == ["1 Mar 2027", "2 Mar 2027", "3 Mar 2027"]
    assert table.text()[2][1:] == ("30", "+0.10 (−0.10 to +0.30)", "+10.0% (−10.0% to +30.0%)")
    assert days[0].day + timedelta(days=2) == days[2].day
