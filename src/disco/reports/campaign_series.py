"""Several campaigns side by side: what was expected, what came, and how deciding did against dealing at random."""

from collections.abc import Mapping, Sequence

from disco.operations.results import CampaignResults
from disco.reports.campaign_results import Told, foreseen_revenue, objective_uplift
from disco.reports.charts import Axis, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.reports.formats import Count, Money, Percent
from disco.reports.page import Report, Section
from disco.reports.table import Cell, Column, Table


def campaigns_table(told: Sequence[Told]) -> Table:
    """One line per campaign: what was expected, what came, and how it did against its control."""
    money = Money()
    rows: list[list[Cell]] = []
    for one in told:
        plan, arms = one.results.record.plan, one.results.arms.values()
        rows.append(
            [
                plan.campaign,
                plan.policy.name,
                sum(arm.summary.recipients for arm in arms),
                sum(arm.summary.purchasers for arm in arms),
                None if one.foreseen is None else foreseen_revenue(one.foreseen),
                realised(one.results),
                objective_uplift(one.results),
            ]
        )
    return Table(
        caption="Campaign by campaign",
        columns=[
            "Campaign",
            "Policy",
            Column("Codes", Count()),
            Column("Purchases", Count()),
            Column("Expected revenue (90 %)", money),
            Column("Revenue", money),
            Column("Objective against control (95 %)", Percent(signed=True)),
        ],
        rows=rows,
    )


def realised(results: CampaignResults) -> float:
    """Revenue of all codes of the launch."""
    return sum(arm.summary.revenue for arm in results.arms.values())


def campaigns_report(told: Sequence[Told]) -> Report:
    """Several campaigns on one page."""
    foreseen = {number: one for number, one in enumerate(told, start=1) if one.foreseen is not None}
    items: list[CurveChart | IntervalChart | Table] = []
    if len(foreseen) > 1:
        items.append(_foreseen_chart(foreseen))
    if (chart := _uplift_chart([one.results for one in told])) is not None:
        items.append(chart)
    inside = sum(_is_inside(one) for one in foreseen.values())
    lead = f"{inside} of {len(foreseen)} predicted revenues held what came in their 90 % interval."
    return Report(
        title=f"{len(told)} campaigns",
        lead=lead if foreseen else "Nothing was predicted yet.",
        sections=[Section("Campaign by campaign", "", [*items, campaigns_table(told)])],
    )


def _foreseen_chart(foreseen: Mapping[int, Told]) -> CurveChart:
    numbers = list(foreseen)
    expected = [foreseen_revenue(one.foreseen) for one in foreseen.values() if one.foreseen is not None]
    return CurveChart(
        title="What was expected and what came",
        subtitle="Revenue of a campaign's codes",
        x=Axis("Campaign", Count()),
        y=Axis("Revenue", Money()),
        interval="90 % interval",
        lines=[
            Line(
                "expected",
                numbers,
                [one.value for one in expected],
                [one.lower or 0.0 for one in expected],
                [one.upper or 0.0 for one in expected],
            )
        ],
        points=[Points("came", numbers, [realised(one.results) for one in foreseen.values()])],
        from_zero=True,
    )


def _uplift_chart(results: Sequence[CampaignResults]) -> IntervalChart | None:
    rows = [
        IntervalRow(one.record.campaign, uplift) for one in results if (uplift := objective_uplift(one)) is not None
    ]
    if not rows:
        return None
    return IntervalChart(
        title="Decided codes against random ones",
        subtitle="Objective (w·revenue − markdown) per customer, relative to control",
        x=Axis("Against control", Percent(signed=True)),
        interval="95 % interval",
        rows=rows,
    )


def _is_inside(one: Told) -> bool:
    return (
        one.foreseen is not None and one.foreseen.revenue.lower <= realised(one.results) <= one.foreseen.revenue.upper
    )
