"""What learning has brought, as pictures, tables and words."""

from disco.operations.learned import Exploration, ForecastOutcome, LearningProgress
from disco.records.estimate import Estimate
from disco.records.money import Currency
from disco.records.wording import date, percent
from disco.views.charts import Axis, BarChart, Bars, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.views.formats import Count, Money, Names, Percent
from disco.views.table import Column, Table

_IN_A_ROW = 3  # forecasts missed on one side, before it is called drift


def learning_words(found: LearningProgress) -> str:
    """The answer in one sentence."""
    if not found.versions:
        return "The model has learned from no campaign yet."
    active = next((one for one in found.versions if one.active), found.versions[-1])
    campaigns = len(active.campaigns)
    known = f"from {campaigns} campaign{'' if campaigns == 1 else 's'} and {active.purchases:,} purchases"
    certain = "" if active.uncertainty is None else f"; it knows revenue per code to ±{percent(active.uncertainty)}"
    return f"Version {active.version} of the model decides, learned {known}{certain}. {_right(found)}".strip()


def _right(found: LearningProgress) -> str:
    inside, among = sum(one.inside for one in found.forecasts), len(found.forecasts)
    if not among:
        return ""
    return f"{inside} of {among} campaigns came out inside their forecast."


def uncertainty_chart(found: LearningProgress) -> CurveChart | None:
    """How uncertain each version was about revenue per code; None before any purchase."""
    known = [(one.version, one.uncertainty) for one in found.versions if one.uncertainty is not None]
    if not known:
        return None
    numbers, shares = zip(*known, strict=True)
    places = range(1, len(known) + 1)
    first, last = percent(shares[0]), percent(shares[-1])
    if len(known) == 1:
        title = f"Revenue per code is known to ±{first}"
    elif shares[-1] < shares[0]:
        title = f"What a code brings has become more certain: ±{first} at first, ±{last} now"
    else:
        title = f"What a code brings is not more certain than before: ±{first} at first, ±{last} now"
    return CurveChart(
        title=title,
        subtitle="Half the 90% interval of revenue per code as a share of it, mean over the depths that were offered",
        x=Axis("Version of the model", Names([str(number) for number in numbers])),
        y=Axis("Uncertainty", Percent()),
        lines=[Line("Uncertainty", places, shares)] if len(known) > 1 else [],
        points=[Points("Version", places, shares)],
        from_zero=True,
    )


def forecasts_chart(found: LearningProgress, currency: Currency) -> CurveChart | None:
    """Forecast and actual revenue of each campaign that is over."""
    shown = found.forecasts
    if not shown:
        return None
    places = range(1, len(shown) + 1)
    lower, upper = zip(*(_ends(one.forecast) for one in shown), strict=True)
    inside, among = sum(one.inside for one in shown), len(shown)
    return CurveChart(
        title=f"Actual revenue was inside its forecast in {inside} of {among} campaign{'' if among == 1 else 's'}",
        subtitle="Revenue of each campaign's codes; nine of ten should be inside",
        x=Axis("Campaign", Names([one.campaign for one in shown])),
        y=Axis("Revenue", Money(currency)),
        interval="90% interval",
        lines=[],
        points=[
            Points("Forecast", places, [one.forecast.value for one in shown], lower, upper),
            Points("Actual", places, [one.actual for one in shown]),
        ],
        from_zero=True,
    )


def drift_chart(found: LearningProgress) -> IntervalChart | None:
    """Actual revenue as a share of its forecast, campaign by campaign."""
    rows = [IntervalRow(one.campaign, _ratio(one)) for one in found.forecasts if one.ratio is not None]
    if not rows:
        return None
    return IntervalChart(
        title=drift_words(found),
        subtitle="Actual revenue, relative to its forecast; one in ten is outside by chance",
        x=Axis("Against the forecast", Percent(signed=True)),
        interval="90% interval of the forecast",
        rows=rows,
    )


def level_chart(found: LearningProgress) -> CurveChart | None:
    """What campaigns brought as a share of what the model alone expected, and what their forecasts took it times.

    None: no forecast was corrected yet.
    """
    shown = [one for one in found.forecasts if one.ratio is not None]
    if all(one.level is None for one in shown):
        return None
    places, factors = range(1, len(shown) + 1), [one.factor for one in shown]
    brought = [one.actual / one.forecast.value * one.factor for one in shown]
    ends = [[end / one.forecast.value * one.factor for end in _ends(one.forecast)] for one in shown]
    lower, upper = zip(*ends, strict=True)
    actual, one_alone = Points("Actual", places, brought), len(shown) == 1
    lines = [] if one_alone else [Line("Forecast", places, factors, lower, upper)]
    if not one_alone and any(one.season is not None for one in shown):
        lines.append(Line("Level", places, [1.0 if one.level is None else one.level for one in shown]))
        lines.append(Line("Season", places, [1.0 if one.season is None else one.season for one in shown]))
    parts = "level × season" if len(lines) > 1 else "the level"
    return CurveChart(
        title=f"{shown[-1].campaign} brought {percent(brought[-1], decimals=0)} of what the model alone expected",
        subtitle=f"Revenue relative to what the model alone expected; the forecast took it times {parts}",
        x=Axis("Campaign", Names([one.campaign for one in shown])),
        y=Axis("Of what the model expected", Percent(decimals=0)),
        interval="90% interval",
        lines=lines,
        points=[Points("Forecast", places, factors, lower, upper), actual] if one_alone else [actual],
        from_zero=True,
    )


def level_words(found: LearningProgress) -> str:
    """How far the level was taken to move at the last forecast, in a sentence; empty where it was taken as fixed."""
    steps = [one.step for one in found.forecasts if one.step is not None]
    if not steps:
        return ""
    return (
        f"The level moves by about {percent(steps[-1], decimals=0)} from one campaign to the next, as far as earlier "
        "campaigns say. Level and season are in every forecast and in the budget."
    )


def drift_words(found: LearningProgress) -> str:
    """Whether the latest campaigns missed their forecasts on one side."""
    missed = [0 if one.inside else 1 if one.actual > one.forecast.value else -1 for one in found.forecasts]
    latest = missed[-_IN_A_ROW:]
    if len(latest) == _IN_A_ROW and abs(sum(latest)) == _IN_A_ROW:
        side = "more" if latest[0] > 0 else "less"
        return f"The last {_IN_A_ROW} campaigns brought {side} than any forecast: customers may have changed"
    if missed and missed[-1]:
        side = "more" if missed[-1] > 0 else "less"
        return f"The last campaign brought {side} than its forecast"
    return "Nothing points to a drift: the last campaign came out as forecast"


def exploration_chart(found: LearningProgress) -> BarChart | None:
    """Codes assigned at random, per campaign."""
    shown = [one for one in found.exploration if one.codes]
    if not shown:
        return None
    last = shown[-1]
    return BarChart(
        title=f"{percent(_share(last), decimals=0)} of the codes of {last.campaign} were assigned at random",
        subtitle="Share of codes assigned at random, which show what would happen without the model's choice",
        categories=[one.campaign for one in shown],
        y=Axis("Codes at random", Percent(decimals=0)),
        bars=[Bars("Codes at random", [_share(one) for one in shown])],
        height_px=260,
    )


def versions_table(found: LearningProgress) -> Table:
    """One row per version, the newest first."""
    return Table.of(
        "Versions of the model",
        reversed(found.versions),
        {
            "Version": lambda one: str(one.version),
            "Made": lambda one: date(one.made_at.date()),
            "Learned from": lambda one: ", ".join(one.campaigns) or "nothing",
            Column("Purchases", Count()): lambda one: one.purchases,
            Column("Uncertainty", Percent()): lambda one: one.uncertainty,
            "State": lambda one: "active" if one.active else "",
        },
    )


def forecasts_table(found: LearningProgress, currency: Currency) -> Table:
    """One row per campaign that is over."""
    unit = Money(currency)
    return Table.of(
        "Forecast and actual revenue",
        found.forecasts,
        {
            "Campaign": lambda one: one.campaign,
            Column("Forecast revenue (90%)", unit): lambda one: one.forecast,
            Column("Actual revenue", unit): lambda one: one.actual,
            Column("Against the forecast (90%)", Percent(signed=True)): lambda one: (
                None if one.ratio is None else _ratio(one)
            ),
            Column("Level", Percent(decimals=0)): lambda one: one.level,
            Column("Season", Percent(decimals=0)): lambda one: one.season,
        },
        note="The forecast is what the model expects of these customers, times level and season.",
    )


def exploration_table(found: LearningProgress) -> Table:
    """One row per campaign."""
    return Table(
        caption="Codes assigned at random",
        columns=["Campaign", Column("Codes", Count()), Column("At random", Count()), Column("Share", Percent())],
        rows=[[one.campaign, one.codes, one.at_random, _share(one)] for one in found.exploration if one.codes],
    )


def _share(one: Exploration) -> float:
    return one.at_random / one.codes


def _ends(estimate: Estimate) -> tuple[float, float]:
    return estimate.ends or (estimate.value, estimate.value)


def _ratio(one: ForecastOutcome) -> Estimate:
    """actual/forecast − 1, between the same against both ends of the forecast."""
    lower, upper = _ends(one.forecast)
    highest = one.actual / lower - 1 if lower > 0 else float("inf")
    return Estimate(one.actual / one.forecast.value - 1, one.actual / upper - 1, highest, one.forecast.level)
