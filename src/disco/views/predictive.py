"""Calibration and posterior-predictive pictures: what the model expected of customers, and what they did."""

from collections.abc import Sequence

from disco.operations.learned import LearningProgress
from disco.operations.predictive import SLOTS, Calibrated, Predictive, bias
from disco.records.wording import percent
from disco.views.charts import Axis, BarChart, Bars, CurveChart, Line, Points
from disco.views.formats import Money, Percent, Unit
from disco.views.learning_pages import forecasts_chart, level_chart
from disco.views.page import PageItem, Report, Section


def predictive_report(found: Predictive) -> Report:
    """One page for a data scientist."""
    names = f"{len(found.campaigns)} campaigns" if len(found.campaigns) > 1 else f"campaign {found.campaigns[0]}"
    who = [chart for chart in (codes_chart(found), baskets_chart(found)) if chart is not None]
    sections = [
        Section(
            "Calibration",
            "Customers in groups of equal size, by what the plan expected of each before any outcome was known. Points "
            "on the line are as expected. The level of campaigns and the season are not in these figures.",
            who,
            side_by_side=len(who) > 1,
        )
    ]
    law = law_chart(found)
    if law is not None:
        said = (
            "Each purchase has a predicted law of its own, by the customer and the depth of the code. Where the law is "
            "right, a tenth of the purchases lies in each tenth of it. High ends on both sides: baskets spread wider "
            "than predicted. A slope: they are larger or smaller. A hump on one side: the law is skewed."
        )
        sections.append(Section("Posterior predictive: baskets", said, [law]))
    progress = LearningProgress(versions=(), forecasts=found.forecasts, exploration=())
    whole: list[PageItem] = [
        chart for chart in (forecasts_chart(progress, found.currency), level_chart(progress)) if chart is not None
    ]
    if whole:
        sections.append(Section("Whole campaigns", "Forecasts as the plans stated them.", whole))
    return Report(
        title="Forecasts against what happened",
        lead=_lead(found, names),
        sections=sections,
        footer=f"From {', '.join(found.campaigns)}.",
    )


def _lead(found: Predictive, names: str) -> str:
    parts = [
        f"{what} {percent(abs(off))} {'above' if off > 0 else 'below'} what was expected"
        for what, groups in (("take-up was", found.codes), ("baskets were", found.baskets))
        if groups
        for off in (bias(groups),)
    ]
    return f"In {names}, {' and '.join(parts) or 'too little was bought to compare'}."


def codes_chart(found: Predictive) -> CurveChart | None:
    """None: too few codes."""
    return _calibration(found.codes, "codes were used as often", "Share of codes used", Percent())


def baskets_chart(found: Predictive) -> CurveChart | None:
    """None: too few purchases."""
    return _calibration(found.baskets, "baskets were as large", "Basket", Money(found.currency))


def _calibration(groups: Sequence[Calibrated], verb: str, name: str, unit: Unit) -> CurveChart | None:
    if len(groups) < 2:
        return None
    expected = [one.expected for one in groups]
    inside = sum(one.actual.covers(one.expected) for one in groups)
    lower, upper = zip(*((one.actual.ends or (one.actual.value,) * 2) for one in groups), strict=True)
    return CurveChart(
        title=f"In {inside} of {len(groups)} groups {verb} as expected, but for chance",
        subtitle=f"{name}: expected, and what happened; {groups[0].rows:,} or so in each group",
        x=Axis(f"{name}, expected", unit),
        y=Axis(f"{name}, actual", unit),
        interval="90% interval",
        lines=[Line("As expected", [expected[0], expected[-1]], [expected[0], expected[-1]], muted=True)],
        points=[Points("Actual", expected, [one.actual.value for one in groups], lower, upper)],
    )


def law_chart(found: Predictive) -> BarChart | None:
    """None: no purchase."""
    if not found.purchases:
        return None
    outer = found.slots[0] + found.slots[-1]
    return BarChart(
        title=f"{percent(outer, decimals=0)} of the purchases lie in the outer two tenths of their law; 20% should",
        subtitle=f"Share of {found.purchases:,} purchases in each tenth of the law predicted for them",
        categories=[f"{100 * slot // SLOTS}–{100 * (slot + 1) // SLOTS}%" for slot in range(SLOTS)],
        y=Axis("Purchases", Percent(decimals=0)),
        bars=[Bars("Purchases", list(found.slots))],
        x_label="Place in the predicted law",
    )
