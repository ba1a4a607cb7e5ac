"""The results of campaigns for people: the same tables on a terminal and on a page, for one campaign or for several."""

from collections.abc import Mapping, Sequence
from functools import partial

from disco.evaluation.ab_test import Finding, Verdict
from disco.evaluation.pooling import PooledUplift
from disco.operations.results import AllResults, CampaignResults, GroupResult
from disco.records.currency import read_currency
from disco.records.decisions import Arm
from disco.records.depths import depth_percent
from disco.records.estimate import Estimate
from disco.records.plan_summary import MoneyForecast
from disco.records.wording import counted, date, percent, validity
from disco.records.wording import money as money_text
from disco.reports.charts import Axis, CurveChart, IntervalChart, IntervalRow, Points
from disco.reports.formats import (
    Count,
    Money,
    Names,
    Number,
    Percent,
    PercentagePoints,
    PValue,
    Unit,
    estimate_text,
)
from disco.reports.page import PageItem, Report, Section
from disco.reports.table import Cell, Column, FigureCell, Table

_GROUPS = {
    Arm.DECIDED: "Decided",
    Arm.CONTROL: "Control, random codes",
    Arm.HOLDOUT: "Holdout, no code",
}
_UNITS: dict[str, tuple[Unit, Unit]] = {  # of a figure that is not money, and of a difference
    "objective": (Number(), Number(signed=True)),
    "engagement": (Percent(), PercentagePoints(signed=True)),
}
_UPLIFT = Percent(signed=True)
_P = Column("p", PValue())
_MOST_WORDS = 15  # of a headline


def _group(results: CampaignResults, arm: Arm) -> str:
    return "Random codes" if arm is Arm.DECIDED and results.plan.policy.assigns_at_random else _GROUPS[arm]


def _money(results: CampaignResults | AllResults, *, full: bool = False, signed: bool = False) -> Money:
    return Money(read_currency(results.currency), full=full, signed=signed)


# One campaign


def arms_table(results: CampaignResults) -> Table:
    """Each group in sums, beside what was expected of it."""
    groups: list[tuple[str, GroupResult]] = [(_group(results, arm), found) for arm, found in results.arms.items()]
    if results.late is not None:
        groups.append(("Late arrivals", results.late))
    rows: list[list[Cell]] = []
    for name, found in groups:
        summary, bought = found.summary, found.summary.recipients > 0  # a holdout's purchases are not with codes
        rows.append(
            [
                name,
                summary.customers,
                summary.recipients,
                summary.purchasers if bought else None,
                summary.revenue if bought else None,
                summary.markdown if bought else None,
                summary.revenue - summary.markdown if bought else None,
                None if found.forecast is None else expected_revenue(found.forecast),
            ]
        )
    counts = (Column(name, Count()) for name in ("Customers", "Codes", "Purchases"))
    sums = (Column(name, _money(results, full=True)) for name in ("Revenue", "Markdown", "Reward"))
    columns: list[Column | str] = ["Group", *counts, *sums, Column("Expected revenue (90%)", _money(results))]
    return Table(caption="Purchases with codes, by group", columns=columns, rows=rows)


def findings_table(results: CampaignResults) -> Table | None:
    """Decided group against control, per customer; None where there is nothing to compare."""
    if results.ab is None or not results.ab.findings:
        return None
    rows = [_finding_row(results, found) for found in results.ab.findings if found.per == "customer"]
    note = "Adjusted for spend in the year before." if results.ab.findings[0].adjusted is not None else ""
    return Table(
        caption="Decided group against control, per customer",
        columns=["Figure", "Decided", "Control", "Difference (95%)", Column("Relative (95%)", _UPLIFT), _P],
        rows=rows,
        note=note,
    )


def _finding_row(results: CampaignResults, found: Finding) -> list[Cell]:
    in_money, used = (_money(results), _money(results, signed=True)), found.decisive
    unit, signed = _UNITS.get(found.metric, in_money)
    return [
        found.metric.capitalize(),
        FigureCell(used.decided, unit),
        FigureCell(used.control, unit),
        FigureCell(used.difference, signed),
        used.relative,
        used.p_value,
    ]


def undifferentiated_table(results: CampaignResults) -> Table | None:
    """The primary metric against one depth for everybody, as the control customers who got that depth show it."""
    if results.ab is None or not results.ab.undifferentiated:
        return None
    rows: list[list[Cell]] = []
    for depth, findings in results.ab.undifferentiated.items():
        found = next(entry for entry in findings if entry.metric == results.ab.primary).decisive
        rows.append([f"everybody {depth_percent(depth)}", found.difference, results.ab.holm[depth]])
    return Table(
        caption="Decided group against one code for everybody",
        columns=[
            "Against",
            Column(f"{results.ab.primary.capitalize()} per customer (95%)", Number(signed=True)),
            Column("p (Holm)", PValue()),
        ],
        rows=rows,
        note="One code for everybody would exceed the plan's limits. Control customers were assigned their depth at "
        "random, so those with one depth show what that code for everybody would bring.",
    )


def incremental_table(results: CampaignResults) -> Table | None:
    """All revenue, with and without codes, against the customers who got none."""
    if results.ab is None or not results.ab.incremental:
        return None
    rows: list[list[Cell]] = [
        [_group(results, Arm(arm)), found.difference, found.relative, found.p_value]
        for arm, found in results.ab.incremental.items()
    ]
    return Table(
        caption="Incremental revenue per customer, compared with the holdout",
        columns=[
            "Group",
            Column("Difference (95%)", _money(results, signed=True)),
            Column("Relative (95%)", _UPLIFT),
            _P,
        ],
        rows=rows,
        note="All revenue in the days the codes were valid, with and without codes.",
    )


def campaign_report(results: CampaignResults) -> Report:
    """One campaign on one page."""
    plan = results.plan
    sections = [Section("What each group bought", "\n\n".join(results.words), [arms_table(results)])]
    chart, table = _findings_chart(results), findings_table(results)
    if table is not None:
        sections.append(Section("Did deciding help?", "", [table] if chart is None else [chart, table]))
    others = [table for table in (undifferentiated_table(results), incremental_table(results)) if table is not None]
    if others:
        sections.append(Section("Compared with simpler campaigns", "", others))
    return Report(
        title=f"Campaign {plan.campaign}",
        lead=_lead(results),
        sections=sections,
        footer=f"Codes valid {validity(plan.valid.opens, plan.valid.closes)}; read on {date(results.as_of)}.",
    )


def _lead(results: CampaignResults) -> str:
    """One figure, one comparison, then money; at most 15 words, since the words below say the rest."""
    ab, money = results.ab, partial(money_text, currency=read_currency(results.currency))
    if ab is None:
        purchases = sum(arm.summary.purchasers for arm in results.arms.values())
        figure = f"{money(results.revenue)} of revenue from {counted(purchases, 'purchase')}."
        both = f"{figure} {results.why_not or ''}".strip()
        return both if len(both.split()) <= _MOST_WORDS else figure
    if ab.verdict is Verdict.BLOCKED:
        return "Group sizes are not as planned, so no figure can be trusted."
    uplift = ab.deciding.decisive.relative
    revenue = ab.finding("revenue") if ab.findings else ab.deciding
    earned = revenue.decisive.difference.value * results.arms[Arm.DECIDED].summary.customers
    ours = "Random codes" if results.plan.policy.assigns_at_random else "Decided codes"
    other = "random codes" if ab.findings else "no codes"
    if ab.verdict is Verdict.UNDECIDED:
        figure = (
            "" if uplift is None else f"{ab.primary} {estimate_text(uplift, unit=Percent(decimals=0, signed=True))}, "
        )
        change = money(earned, decimals=0, signed=True)
        return f"No clear difference from {other}{'' if results.final else ' yet'}: {figure}revenue {change}."
    side = "more" if ab.verdict is Verdict.BETTER else "less"
    size = "" if uplift is None else f" {percent(abs(uplift.value), decimals=0)}"
    in_money = f"{money(abs(earned), decimals=0)} {'more' if earned >= 0 else 'less'} revenue"
    return f"{ours} earned{size} {side} than {other} ({ab.primary} per customer), with {in_money}."


def _findings_chart(results: CampaignResults) -> IntervalChart | None:
    found = [] if results.ab is None else [one for one in results.ab.findings if one.per == "customer"]
    rows = [
        IntervalRow(one.metric.capitalize(), one.decisive.relative)
        for one in found
        if one.decisive.relative is not None
    ]
    if results.ab is None or not rows:
        return None
    titles = {
        Verdict.BETTER: "The decided group did better than control",
        Verdict.WORSE: "The decided group did worse than control",
        Verdict.UNDECIDED: "No clear difference between the decided group and control",
        Verdict.BLOCKED: "Group sizes are not as planned: these figures cannot be trusted",
    }
    subtitle = "Per customer, relative to control; the objective is w × revenue − markdown"
    if _is_wider_than_its_verdict(results):
        subtitle += f". {_WIDER}"
    return IntervalChart(
        title=titles[results.ab.verdict],
        subtitle=subtitle,
        x=Axis("Against control", _UPLIFT),
        interval="95% interval",
        rows=rows,
    )


_WIDER = "Verdicts rest on the difference; relative to a small control group it is less certain"


def _is_wider_than_its_verdict(results: CampaignResults) -> bool:
    """Whether the difference is clear while the interval of the share that it is of control includes zero."""
    uplift = primary_uplift(results)
    return uplift is not None and uplift.covers(0) and results.verdict in (Verdict.BETTER, Verdict.WORSE)


def primary_uplift(results: CampaignResults) -> Estimate | None:
    """The primary metric relative to control; None where there is none."""
    if results.ab is None or not results.ab.findings:
        return None
    return results.ab.deciding.decisive.relative


def expected_revenue(forecast: MoneyForecast) -> Estimate:
    """The forecast's revenue with its 90% interval."""
    return forecast.revenue


# Several campaigns


def campaigns_table(campaigns: Sequence[CampaignResults]) -> Table:
    """One line per campaign: expected and actual revenue, and the result against its control."""
    unit = _money(campaigns[0]) if campaigns else Money()
    rows: list[list[Cell]] = []
    for one in campaigns:
        plan, arms = one.plan, one.arms.values()
        rows.append(
            [
                plan.campaign,
                plan.policy.name,
                sum(arm.summary.recipients for arm in arms),
                sum(arm.summary.purchasers for arm in arms),
                None if one.expected is None else expected_revenue(one.expected),
                one.revenue,
                primary_uplift(one),
            ]
        )
    return Table(
        caption="Campaign by campaign",
        columns=[
            "Campaign",
            "Policy",
            Column("Codes", Count()),
            Column("Purchases", Count()),
            Column("Expected revenue (90%)", unit),
            Column("Actual revenue", unit),
            Column("Objective against control (95%)", _UPLIFT),
        ],
        rows=rows,
    )


def pooled_table(results: AllResults) -> Table | None:
    """All final campaigns together: per cent and money, against control and against the holdout."""
    rows: list[list[Cell]] = [
        [
            f"{metric.capitalize()}, against control",
            found.campaigns,
            found.relative,
            None if metric == "objective" else found.total,
        ]
        for metric, found in results.against_control.items()
    ]
    if results.against_holdout is not None:
        found = results.against_holdout
        rows.append(["All revenue, against the holdout", found.campaigns, found.relative, found.total])
    if not rows:
        return None
    return Table(
        caption="All final campaigns together, decided group",
        columns=[
            "Figure",
            Column("Campaigns", Count()),
            Column("Relative (95%)", _UPLIFT),
            Column("In money (95%)", _money(results, signed=True)),
        ],
        rows=rows,
        note="Relative: the mean over campaigns like these (random effects). In money: what these campaigns earned "
        "more. The objective is w × revenue − markdown, which is not money.",
    )


def pooled_words(results: AllResults) -> str:
    """The answer over all campaigns in at most 15 words; empty where nothing can be compared yet."""
    money = partial(money_text, currency=read_currency(results.currency))
    for found, other, metric in _pooled(results):
        if found.relative is None:
            continue
        earned = found.total if metric != "objective" else results.against_control["revenue"].total
        over = "1 campaign" if found.campaigns == 1 else f"{found.campaigns} campaigns"
        if found.relative.covers(0):
            share = percent(found.relative.value, decimals=0, signed=True)
            change = money(earned.value, signed=True)
            return f"No clear difference from {other} over {over}: {metric} {share}, revenue {change}."
        side = "more" if found.relative.value > 0 else "less"
        share = percent(abs(found.relative.value), decimals=0)
        change = f"{money(abs(earned.value))} {'more' if earned.value >= 0 else 'less'}"
        return f"Decided codes earned {share} {side} than {other}: {change} revenue over {over}."
    return ""


def _pooled(results: AllResults) -> list[tuple[PooledUplift, str, str]]:
    found = [(results.against_control["objective"], "random codes", "objective")] if results.against_control else []
    return found + ([(results.against_holdout, "no codes", "revenue")] if results.against_holdout is not None else [])


def campaigns_report(results: AllResults) -> Report:
    """Several campaigns on one page."""
    campaigns, money = results.campaigns, partial(money_text, currency=read_currency(results.currency))
    forecasts = {
        one.campaign: (expected_revenue(one.expected), one.revenue) for one in campaigns if one.expected is not None
    }
    items: list[PageItem] = []
    if len(forecasts) > 1:
        items.append(_forecast_chart(forecasts, _money(results)))
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
    shown = [(one, uplift) for one in results if (uplift := primary_uplift(one)) is not None]
    if not shown:
        return None
    better, among = sum(one.verdict is Verdict.BETTER for one, _ in shown), len(shown)
    subtitle = "Objective (w × revenue − markdown) per customer, relative to control"
    if any(_is_wider_than_its_verdict(one) for one, _ in shown):
        subtitle += f". {_WIDER}"
    return IntervalChart(
        title=f"Decided codes did clearly better than random ones in {better} of {among} campaigns"
        if better
        else "No campaign alone shows a clear gain of decided codes over random ones",
        subtitle=subtitle,
        x=Axis("Against control", _UPLIFT),
        interval="95% interval",
        rows=[IntervalRow(one.campaign, uplift) for one, uplift in shown],
    )
