"""The results of campaigns as tables and words, the same on a terminal and on a page."""

from collections.abc import Sequence
from dataclasses import replace

from disco.evaluation.estimates import PooledUplift
from disco.evaluation.read_out import Finding, Verdict
from disco.operations.guardrails import GuardrailsNow
from disco.operations.results import AllResults, CampaignResults, GroupResult
from disco.records.campaign_records import Phase
from disco.records.decisions import Arm
from disco.records.depths import depth_percent
from disco.records.estimate import Estimate
from disco.records.money import read_currency
from disco.records.plan_summary import MoneyForecast
from disco.records.wording import counted
from disco.records.wording import date as day_text
from disco.views.formats import (
    Count,
    Money,
    Number,
    Percent,
    PercentagePoints,
    PValue,
    Unit,
    estimate_text,
    with_limits,
)
from disco.views.table import Cell, Column, FigureCell, Table

_GROUPS = {
    Arm.DECIDED: "Decided",
    Arm.CONTROL: "Control, random codes",
    Arm.HOLDOUT: "Holdout, no code",
}
_UNITS: dict[str, tuple[Unit, Unit]] = {  # of a figure that is not money, and of a difference
    "objective": (Number(), Number(signed=True)),
    "engagement": (Percent(), PercentagePoints(signed=True)),
}
UPLIFT = Percent(signed=True)
_P = Column("p", PValue())


def _group(results: CampaignResults, arm: Arm) -> str:
    return "Random codes" if arm is Arm.DECIDED and results.plan.policy.assigns_at_random else _GROUPS[arm]


def money_of(results: CampaignResults | AllResults, *, full: bool = False, signed: bool = False) -> Money:
    """The unit of the shop's money."""
    return Money(read_currency(results.currency), full=full, signed=signed)


# One campaign


def results_lead(results: CampaignResults) -> str:
    """The answer: how early it is, better or worse with the intervals it rests on, and a forecast that was missed."""
    compared = results.against_forecast
    missed = compared.words if compared is not None and compared.missed else ""
    return " ".join(filter(None, (_how_early(results), _comparison(results), missed)))


def _how_early(results: CampaignResults) -> str:
    """Nothing once all purchases have been reported."""
    valid = results.plan.valid
    if results.final or results.state is Phase.CLOSED:
        return ""
    if results.state is Phase.SCHEDULED:
        return f"Codes are valid from {day_text(valid.start)} on."
    if results.state is Phase.ENDED:
        return "Early: all codes have expired, and the last purchases may still be reported."
    return f"Early: day {(results.as_of - valid.start).days + 1} of {(valid.end - valid.start).days}."


def _comparison(results: CampaignResults) -> str:
    ab, money = results.ab, money_of(results)
    if ab is None:
        purchases = sum(arm.summary.purchasers for arm in results.arms.values())
        return (
            f"{money.text(results.revenue)} of revenue from {counted(purchases, 'purchase')}. {results.why_not or ''}"
        )
    if ab.verdict is Verdict.BLOCKED:
        return "Group sizes are not as planned, so no figure can be trusted."
    ours = "Random codes" if results.plan.policy.assigns_at_random else "Decided codes"
    other = "random codes" if ab.findings else "no codes"
    relative, unit = ab.deciding.read(final=ab.final).relative, money_of(results, signed=True)
    figures = _lead_figures(ab.primary, relative, results.extra_revenue, unit=unit)
    if ab.verdict is Verdict.UNDECIDED:
        return f"No clear difference from {other}{'' if results.final else ' yet'}{figures}."
    so_far = "did" if results.final else "have done"
    return f"{ours} {so_far} {ab.verdict} than {other}{figures}."


def _lead_figures(primary: str, relative: Estimate | None, extra: Estimate | None, *, unit: Money) -> str:
    """`: objective +41% (…), revenue +£121k (…)`, each with its interval; without limits a figure is left out."""
    figures = []
    if (share := with_limits(relative)) is not None:
        figures.append(f"{primary} {estimate_text(share, unit=Percent(decimals=0, signed=True))}")
    if (extra := with_limits(extra)) is not None:
        name = "" if figures and primary == "revenue" else "revenue "
        figures.append(f"{name}{estimate_text(extra, unit=unit)}")
    return f": {', '.join(figures)}" if figures else ""


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
    sums = (Column(name, money_of(results, full=True)) for name in ("Revenue", "Markdown", "Reward"))
    columns: list[Column | str] = ["Group", *counts, *sums, Column("Expected revenue (90%)", money_of(results))]
    return Table(caption="Purchases with codes, by group", columns=columns, rows=rows)


def findings_table(results: CampaignResults) -> Table | None:
    """Decided group against control, per customer; None where there is nothing to compare."""
    if results.ab is None or not results.ab.findings:
        return None
    rows = [_finding_row(results, found) for found in results.ab.findings if found.per == "customer"]
    notes = ["Adjusted for spend in the year before."] if results.ab.findings[0].adjusted is not None else []
    notes += [] if results.final else ["The intervals may be looked at every day."]
    return Table(
        caption="Decided group against control, per customer",
        columns=["Figure", "Decided", "Control", "Difference (95%)", Column("Relative (95%)", UPLIFT), _P],
        rows=rows,
        note=" ".join(notes),
    )


def _finding_row(results: CampaignResults, found: Finding) -> list[Cell]:
    in_money, used = (money_of(results), money_of(results, signed=True)), found.read(final=results.final)
    unit, signed = _UNITS.get(found.metric, in_money)
    return [
        found.metric.capitalize(),
        FigureCell(used.decided, unit),
        FigureCell(used.control, unit),
        FigureCell(used.difference, signed),
        with_limits(used.relative),
        used.p_value,
    ]


def sample_ratio_table(results: CampaignResults) -> Table | None:
    """Sizes of the groups beside their planned ones; None where nothing was planned to be compared."""
    ratio = results.sample_ratio
    if ratio is None:
        return None
    rows: list[list[Cell]] = [
        [_group(results, Arm(arm)), found, ratio.expected[arm], found - ratio.expected[arm]]
        for arm, found in ratio.found.items()
    ]
    columns = (Column(name, Count()) for name in ("Customers", "Planned"))
    fine = "Differences of this size come by chance." if ratio.ok else "Differences of this size do not come by chance."
    return Table(
        caption="Group sizes are as planned" if ratio.ok else "Group sizes are not as planned",
        columns=["Group", *columns, Column("Difference", Count(signed=True))],
        rows=rows,
        note=fine,
    )


def undifferentiated_table(results: CampaignResults) -> Table | None:
    """Revenue and markdown against one depth for everybody, as the control customers who got that depth show it."""
    if results.ab is None or not results.ab.undifferentiated:
        return None
    rows: list[list[Cell]] = []
    for depth, findings in results.ab.undifferentiated.items():
        by_metric = {entry.metric: entry.decisive for entry in findings}
        revenue, markdown = by_metric["revenue"], by_metric["markdown"]
        rows.append(
            [
                f"everybody {depth_percent(depth)}",
                revenue.difference,
                markdown.difference,
                revenue.p_value,
                markdown.p_value,
            ]
        )
    unit, depths = money_of(results, signed=True), len(rows)
    together = "" if depths == 1 else f" Each column is adjusted for its {depths} comparisons."
    return Table(
        caption="Decided group against one code for everybody, per customer",
        columns=[
            "Against",
            Column("Revenue (95%)", unit),
            Column("Markdown (95%)", unit),
            Column("p of revenue", PValue()),
            Column("p of markdown", PValue()),
        ],
        rows=rows,
        note="Minus: the decided group brought less revenue, or cost less. Control customers were assigned their depth "
        "at random, so those with one depth show what that code for everybody would bring and cost. It would exceed "
        f"the plan's limits.{together}{_once(results)}",
    )


def _once(results: CampaignResults) -> str:
    """Before the end: what an interval that is not valid at every look is good for."""
    return "" if results.final else " These intervals are meant for one look, at the end of the campaign."


def _until(results: CampaignResults) -> str:
    reading = results.holdout
    if reading is None or reading.whole or reading.orders_until is None:
        return ""
    return f", up to {day_text(reading.orders_until)}, where the orders end"


def incremental_table(results: CampaignResults) -> Table | None:
    """All revenue, with and without codes, against the customers who got none."""
    if results.ab is None or not results.ab.incremental:
        return None
    rows: list[list[Cell]] = [
        [_group(results, Arm(arm)), found.difference, with_limits(found.relative), found.p_value]
        for arm, found in ((name, results.ab.incremental_of(name)) for name in results.ab.incremental)
    ]
    adjusted = " Adjusted by what customers spent in the year before." if results.ab.incremental_adjusted else ""
    return Table(
        caption="Incremental revenue per customer, compared with the holdout",
        columns=[
            "Group",
            Column("Difference (95%)", money_of(results, signed=True)),
            Column("Relative (95%)", UPLIFT),
            _P,
        ],
        rows=rows,
        note=f"All revenue in the days the codes were valid{_until(results)}, with and without codes.{adjusted}"
        f"{_once(results)}",
    )


def without_p(table: Table | None) -> Table | None:
    """A comparison for readers who have its intervals: the p values are among `p_values_table`."""
    if table is None:
        return None
    places = [place for place, column in enumerate(table.typed_columns()) if not isinstance(column.unit, PValue)]
    return replace(
        table,
        columns=[table.columns[place] for place in places],
        rows=[[row[place] for place in places] for row in table.rows],
    )


def p_values_table(results: CampaignResults) -> Table | None:
    """The p value of every comparison; None where there is nothing to compare."""
    ab = results.ab
    if ab is None:
        return None
    rows: list[list[Cell]] = [
        [f"{found.metric.capitalize()} per customer, decided group against control", found.read(final=ab.final).p_value]
        for found in ab.findings
        if found.per == "customer"
    ]
    rows += [
        [
            f"{found.metric.capitalize()} per customer, decided group against everybody {depth_percent(depth)}",
            found.decisive.p_value,
        ]
        for depth, findings in ab.undifferentiated.items()
        for found in findings
        if found.metric in ("revenue", "markdown")
    ]
    rows += [
        [f"All revenue per customer, {_group(results, Arm(arm)).lower()} against the holdout", found.p_value]
        for arm, found in ((name, ab.incremental_of(name)) for name in ab.incremental)
    ]
    if results.sample_ratio is not None:
        rows.append(["Group sizes against their planned shares", results.sample_ratio.p_value])
    depths = len(ab.undifferentiated)
    note = "" if depths < 2 else f"Those against one code for everybody are adjusted for {depths} depths (Bonferroni)."
    return Table(caption="p values of the comparisons", columns=["Comparison", _P], rows=rows, note=note)


def primary_uplift(results: CampaignResults) -> Estimate | None:
    """The primary metric relative to control; None where there is none."""
    if results.ab is None or not results.ab.findings:
        return None
    return with_limits(results.ab.deciding.read(final=results.final).relative)


def expected_revenue(forecast: MoneyForecast) -> Estimate:
    """The forecast's revenue with its 90% interval."""
    return forecast.revenue


# Several campaigns


def campaigns_table(campaigns: Sequence[CampaignResults]) -> Table:
    """One line per campaign: expected and actual revenue, and the result against its control."""
    unit = money_of(campaigns[0]) if campaigns else Money()
    return Table.of(
        "Campaign by campaign",
        campaigns,
        {
            "Campaign": lambda one: one.plan.campaign,
            "Policy": lambda one: one.plan.policy.name,
            Column("Codes", Count()): lambda one: sum(arm.summary.recipients for arm in one.arms.values()),
            Column("Purchases", Count()): lambda one: sum(arm.summary.purchasers for arm in one.arms.values()),
            Column("Expected revenue (90%)", unit): lambda one: (
                None if one.expected is None else expected_revenue(one.expected)
            ),
            Column("Actual revenue", unit): lambda one: one.revenue,
            "Against forecast": lambda one: "–" if one.against_forecast is None else one.against_forecast.label,
            Column("Objective against control (95%)", UPLIFT): primary_uplift,
        },
    )


def pooled_table(results: AllResults) -> Table | None:
    """All final campaigns together: per cent and money, against control and against the holdout."""
    rows: list[list[Cell]] = [
        [
            f"{metric.capitalize()}, against control",
            found.campaigns,
            with_limits(found.relative),
            None if metric == "objective" else found.total,
        ]
        for metric, found in results.against_control.items()
    ]
    if results.against_holdout is not None:
        found = results.against_holdout
        rows.append(["All revenue, against the holdout", found.campaigns, with_limits(found.relative), found.total])
    if not rows:
        return None
    return Table(
        caption="All final campaigns together, decided group",
        columns=[
            "Figure",
            Column("Campaigns", Count()),
            Column("Relative (95%)", UPLIFT),
            Column("In money (95%)", money_of(results, signed=True)),
        ],
        rows=rows,
        note="Relative: the mean over campaigns like these (random effects). In money: what these campaigns earned "
        "more. The objective is w × revenue − markdown, which is not money.",
    )


def pooled_words(results: AllResults) -> str:
    """The answer over all campaigns with its intervals; empty where nothing can be compared yet."""
    for found, other, metric in _pooled(results):
        relative = with_limits(found.relative)
        if relative is None:
            continue
        earned = found.total if metric != "objective" else results.against_control["revenue"].total
        over = "1 campaign" if found.campaigns == 1 else f"{found.campaigns} campaigns"
        figures = _lead_figures(metric, relative, earned, unit=money_of(results, signed=True))
        if relative.covers(0):
            return f"No clear difference from {other} over {over}{figures}."
        side = "better" if relative.value > 0 else "worse"
        return f"Decided codes did {side} than {other} over {over}{figures}."
    return ""


def _pooled(results: AllResults) -> list[tuple[PooledUplift, str, str]]:
    found = [(results.against_control["objective"], "random codes", "objective")] if results.against_control else []
    return found + ([(results.against_holdout, "no codes", "revenue")] if results.against_holdout is not None else [])


_RAILS = {
    "spend": "Spend",
    "budget_used": "Budget used",
    "average_basket": "Average basket",
    "refunds": "Refunds",
    "sample_ratio": "Group sizes",
}


def guardrails_table(found: GuardrailsNow) -> Table:
    """Each guardrail of a campaign with its state and its figure."""
    rows: list[list[Cell]] = [
        [
            _RAILS[one.guardrail],
            "crossed" if one.crossed else "within its limit",
            "pauses the campaign" if one.then == "pause" else "tells",
            one.words.partition(": ")[2],
        ]
        for one in found.readings
    ]
    return Table(caption="Guardrails", columns=["Guardrail", "State", "When crossed", "Figure and limit"], rows=rows)
