"""The results of campaigns as pages: for one campaign or for several."""

import re
from collections.abc import Mapping, Sequence
from functools import partial

from disco.evaluation.read_out import Verdict
from disco.operations.results import AllResults, CampaignResults, ResultsOverTime, UpliftOnDay
from disco.records.estimate import Estimate
from disco.records.money import read_currency
from disco.records.wording import date, percent, short_date, validity
from disco.records.wording import money as money_text
from disco.views.campaign_tables import (
    UPLIFT,
    arms_table,
    campaigns_table,
    expected_revenue,
    findings_table,
    incremental_table,
    money_of,
    p_values_table,
    pooled_table,
    pooled_words,
    primary_uplift,
    results_lead,
    undifferentiated_table,
    without_p,
)
from disco.views.charts import Axis, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.views.charts.parts import nice_extent
from disco.views.formats import Count, Money, Names, Number, with_limits
from disco.views.page import PageItem, Report, Section
from disco.views.table import Column, Table

_P_VALUE = re.compile(r" \(p (?:= )?[<\d.]+\)|, p (?:= )?[<\d.]+(\))")  # in the words of results

# One campaign


def campaign_report(results: CampaignResults) -> Report:
    """One campaign on one page."""
    plan = results.plan
    said = "\n\n".join(_P_VALUE.sub(r"\1", words) for words in results.words)
    sections = [Section("What each group bought", said, [arms_table(results)])]
    chart, table = _findings_chart(results), without_p(findings_table(results))
    if table is not None:
        sections.insert(0, Section("Did deciding help?", "", [table] if chart is None else [chart, table]))
    tables = (without_p(undifferentiated_table(results)), without_p(incremental_table(results)))
    others = [table for table in tables if table is not None]
    if others:
        sections.append(Section("Compared with simpler campaigns", "", others))
    if (p_values := p_values_table(results)) is not None:
        formula = f"The objective is w × revenue − markdown with w = {plan.objective.revenue_weight:g}, per customer."
        sections.append(Section("For statisticians", formula, [p_values], folded=True))
    return Report(
        title=f"Campaign {plan.campaign}",
        lead=results_lead(results),
        sections=sections,
        footer=f"Codes valid {validity(plan.valid.opens, plan.valid.closes)}; read on {date(results.as_of)}.",
    )


def _findings_chart(results: CampaignResults) -> IntervalChart | None:
    found = [] if results.ab is None else [one for one in results.ab.findings if one.per == "customer"]
    rows = [
        IntervalRow(one.metric.capitalize(), uplift)
        for one in found
        if (uplift := with_limits(one.read(final=results.final).relative)) is not None
    ]
    if results.ab is None or not rows:
        return None
    titles = {
        Verdict.BETTER: "The decided group did better than control",
        Verdict.WORSE: "The decided group did worse than control",
        Verdict.UNDECIDED: "No clear difference between the decided group and control",
        Verdict.BLOCKED: "Group sizes are not as planned: these figures cannot be trusted",
    }
    subtitle = f"Per customer, relative to control; the objective {_objective(results.plan.objective.revenue_weight)}"
    return IntervalChart(
        title=titles[results.ab.verdict],
        subtitle=subtitle,
        x=Axis("Against control", UPLIFT),
        interval="95% interval",
        rows=rows,
    )


def _objective(weight: float) -> str:
    """What the objective is, without its formula.

    >>> _objective(1.0), _objective(3.0)
    ('is revenue less what codes cost', 'counts revenue 3 times, less what codes cost')
    """
    return (
        "is revenue less what codes cost" if weight == 1 else f"counts revenue {weight:g} times, less what codes cost"
    )


def over_time_chart(found: ResultsOverTime) -> CurveChart | None:
    """Decided against control from day to day; None where there is nothing to draw yet."""
    drawn = [
        (one, uplift.value, *uplift.ends)
        for one in found.days
        if (uplift := with_limits(one.comparison.relative)) is not None and uplift.ends is not None
    ]
    if not drawn:
        return None
    days, values, lower, upper = zip(*drawn, strict=True)
    places = range(1, len(days) + 1)
    extent = _readable_extent(values, lower, upper)
    beyond = "" if extent is None else ". Intervals of the first days reach beyond the picture; the table has them"
    several = len(days) > 1
    return CurveChart(
        title=_over_time_title(days, [(high - low) / 2 for low, high in zip(lower, upper, strict=True)]),
        subtitle="Objective per customer to date, relative to control. Until the end, the intervals may be looked at "
        f"every day{beyond}",
        x=Axis("Purchases until the end of", Names([short_date(one.day) for one in days])),
        y=Axis("Against control", UPLIFT, extent),
        interval="95% interval",
        lines=[
            Line("Decided group", places, values, lower, upper),
            Line("Control", places, [0.0] * len(days), muted=True),
        ]
        if several
        else [],
        points=[] if several else [Points("Decided group", places, values, lower, upper)],
        from_zero=True,
    )


def _readable_extent(
    values: Sequence[float], lower: Sequence[float], upper: Sequence[float]
) -> tuple[float, float] | None:
    """Room for every value and for three times the last interval; None where all intervals fit into that."""
    room = 1.5 * (upper[-1] - lower[-1])
    low, high = min(0.0, *values, values[-1] - room), max(0.0, *values, values[-1] + room)
    if low <= min(lower) and max(upper) <= high:
        return None
    lowest, highest, _ = nice_extent(100 * low, 100 * high)
    return lowest / 100, highest / 100


def _over_time_title(days: Sequence[UpliftOnDay], halves: Sequence[float]) -> str:
    """Since when the difference has been clear, as the picture shows it; where it is not, how the interval went.

    days: those that are drawn. halves: half the length of the percentage's interval on each of them.
    """
    clear = [not one.comparison.difference.covers(0) for one in days]
    if clear[-1]:
        since = next(place for place in range(len(clear)) if all(clear[place:]))
        side = "better" if days[-1].comparison.difference.value > 0 else "worse"
        return f"The decided group has been clearly {side} than control since {date(days[since].day)}"
    before, now = percent(halves[0], decimals=0), percent(halves[-1], decimals=0)
    if halves[-1] < halves[0] and before != now:
        return f"The interval has narrowed from ±{before} to ±{now} since {date(days[0].day)}"
    return f"The interval is ±{now} {'at the end' if days[-1].final else 'so far'}"


def over_time_table(found: ResultsOverTime) -> Table:
    """One row per day."""
    return Table(
        caption="Decided group against control, day by day",
        columns=[
            "Until the end of",
            Column("Purchases", Count()),
            Column("Objective per customer (95%)", Number(signed=True)),
            Column("Relative (95%)", UPLIFT),
        ],
        rows=[
            [date(one.day), one.purchases, one.comparison.difference, with_limits(one.comparison.relative)]
            for one in found.days
        ],
    )


# Several campaigns


def campaigns_report(results: AllResults) -> Report:
    """Several campaigns on one page."""
    campaigns, money = results.campaigns, partial(money_text, currency=read_currency(results.currency))
    forecasts = {
        one.campaign: (expected_revenue(one.expected), one.revenue)
        for one in campaigns
        if one.expected is not None and one.against_forecast is not None and one.against_forecast.is_known
    }
    items: list[PageItem] = []
    if len(forecasts) > 1:
        items.append(_forecast_chart(forecasts, money_of(results)))
    if (chart := _uplift_chart(campaigns)) is not None:
        items.append(chart)
    total = sum(one.revenue for one in campaigns)
    how_many = "1 campaign" if len(campaigns) == 1 else f"{len(campaigns)} campaigns"
    lead = f"{money(total)} of revenue from {how_many}; no forecast yet."
    if forecasts:
        expected = sum(estimate.value for estimate, _ in forecasts.values())
        actual = sum(revenue for _, revenue in forecasts.values())
        lead = f"{_inside(forecasts)}: {money(actual)} actual, {money(expected)} expected."
    sections = [Section("Forecasts and results", "", [*items, campaigns_table(campaigns)])]
    if (together := pooled_table(results)) is not None:
        sections.insert(0, Section("What deciding earned", "", [together]))
    return Report(title=how_many, lead=pooled_words(results) or lead, sections=sections)


def _inside(forecasts: Mapping[str, tuple[Estimate, float]]) -> str:
    inside, among = sum(expected.covers(actual) for expected, actual in forecasts.values()), len(forecasts)
    share = {1: "the campaign", 2: "both campaigns"}.get(among, f"all {among} campaigns")
    if inside < among:
        share = f"{inside} of {among} campaigns"
    return f"Revenue was inside its forecast range in {share}"


def _forecast_chart(forecasts: Mapping[str, tuple[Estimate, float]], unit: Money) -> CurveChart:
    places = range(1, len(forecasts) + 1)
    expected, actual = zip(*forecasts.values(), strict=True)
    ends = [one.ends or (one.value, one.value) for one in expected]
    lower, upper = zip(*ends, strict=True)
    return CurveChart(
        title=_inside(forecasts),
        subtitle="Revenue of each campaign's codes, forecast and actual",
        x=Axis("Campaign", Names(list(forecasts))),
        y=Axis("Revenue", unit),
        interval="90% interval",
        lines=[],
        points=[
            Points("Forecast", places, [one.value for one in expected], lower, upper),
            Points("Actual", places, actual),
        ],
        from_zero=True,
    )


def _uplift_chart(results: Sequence[CampaignResults]) -> IntervalChart | None:
    compared = [one for one in results if one.ab is not None and one.ab.findings]
    rows = [IntervalRow(one.campaign, uplift) for one in compared if (uplift := primary_uplift(one)) is not None]
    if not rows:
        return None
    better, among = sum(one.verdict is Verdict.BETTER for one in compared), len(compared)
    return IntervalChart(
        title=f"Decided codes did clearly better than random ones in {better} of {among} campaigns"
        if better
        else "No campaign alone shows a clear gain of decided codes over random ones",
        subtitle="Objective per customer, relative to control",
        x=Axis("Against control", UPLIFT),
        interval="95% interval",
        rows=rows,
    )
