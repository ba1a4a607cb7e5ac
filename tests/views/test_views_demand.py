"""Demand in pictures and words: the answer, what is a guess, and dashes where it is."""

from disco.operations.demand import Demand, DemandPoint, ObservedPoint
from disco.records.estimate import Estimate
from disco.views.demand_pages import (
    basket_chart,
    curve_table,
    demand_words,
    engagement_chart,
    extrapolation_words,
    observed_table,
    revenue_chart,
)


def point(depth, revenue, rate, basket, *, guess=False):
    def around(value):
        return Estimate(value, value * 0.9, value * 1.1, 0.9)

    return DemandPoint(
        depth=depth,
        basket=around(basket),
        engagement=around(rate),
        revenue_per_code=around(revenue),
        extrapolated=guess,
    )


def seen(depth, rate=0.1):
    return ObservedPoint(depth=depth, purchases=10, basket=40.0, mean_basket=50.0, codes=100, engagement=rate)


CURVE = (
    point(0.05, 4.0, 0.05, 40.0, guess=True),
    point(0.1, 5.0, 0.1, 44.0),
    point(0.15, 9.0, 0.11, 46.0),  # never offered
    point(0.2, 6.0, 0.12, 48.0),
    point(0.25, 5.5, 0.13, 50.0, guess=True),
)
DEMAND = Demand(version=2, currency="GBP", curve=CURVE, observed=(seen(0.1), seen(0.2)))


def test_the_answer_is_the_best_depth_that_was_offered():
    assert demand_words(DEMAND, whose="the average customer") == (
        "For the average customer, 20% off brings most revenue per code: £6.00 (£5.40 to £6.60); 12.0% of receivers "
        "buy, for £48.00 before the discount."
    )


def test_guesses_are_named_and_dashed():
    assert extrapolation_words(DEMAND) == (
        "We have hardly ever offered 5% and 25%: there the dashed line is an extrapolation."
    )
    for chart in (revenue_chart(DEMAND), engagement_chart(DEMAND), basket_chart(DEMAND)):
        assert [solid for solid, _, _ in chart.lines[0].runs()] == [False, True, False]
        assert any(entry.label == "extrapolated" for entry in chart.key())
    rarely = (point(0.05, 4.0, 0.05, 40.0, guess=True), point(0.1, 5.0, 0.1, 44.0, guess=True), *CURVE[2:4])
    assert extrapolation_words(Demand(version=2, currency="GBP", curve=rarely, observed=DEMAND.observed)).startswith(
        "We have hardly ever offered less than 10%:"  # 10% was offered, and its point is drawn
    )
    known = Demand(version=2, currency="GBP", curve=CURVE[1:4], observed=DEMAND.observed)
    assert extrapolation_words(known) == ""


def test_titles_are_findings():
    assert revenue_chart(DEMAND).title == "Revenue per code is highest at 20% off, among the depths that were offered"
    assert engagement_chart(DEMAND).title == (
        "More receivers buy with deeper codes: 10.0% at 10% off, 12.0% at 20% off"
    )
    assert basket_chart(DEMAND).title == "Baskets are larger with deeper codes: £44.00 at 10% off, £48.00 at 20% off"


def test_what_was_seen_is_drawn_over_the_curve():
    assert basket_chart(DEMAND).points[0].y == (50.0, 50.0)
    running = Demand(version=2, currency="GBP", curve=CURVE, observed=(seen(0.1, rate=None),))
    assert engagement_chart(running).points == ()
    assert observed_table(running).text()[0][3] == "–"


def test_before_any_purchase_there_is_nothing_to_draw():
    nothing = Demand(version=1, currency="GBP", curve=(), observed=())
    assert revenue_chart(nothing) is None
    assert basket_chart(nothing) is None
    assert demand_words(nothing, whose="anybody") == "Nothing was bought with a code yet, so demand is not known."
    assert curve_table(nothing).rows == ()
