"""What came of campaigns, for people: the same tables on a terminal and on a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from disco.evaluation import Comparison, Finding
from disco.evaluation import Estimate as Estimated
from disco.operations.forecast import Money as Foreseen
from disco.operations.results import ArmResult, CampaignResults
from disco.records.decisions import Arm
from disco.records.depths import depth_percent
from disco.reports.charts import Axis, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.reports.formats import Count, Estimate, Money, Number, Percent, Unit, date, percent
from disco.reports.page import Report, Section
from disco.reports.table import Cell, Column, Table

_ARMS = {
    Arm.TEST: "decided",
    Arm.CONTROL: "control, at random",
    Arm.HOLDOUT: "holdout, no code",
}
_UNITS: dict[str, tuple[Unit, Unit]] = {  # of a figure, and of a difference
    "revenue": (Money(), Money(signed=True)),
    "reward": (Money(), Money(signed=True)),
    "objective": (Number(), Number(signed=True)),
    "engagement": (Percent(), Percent(signed=True)),
}


@dataclass(frozen=True, slots=True)
class Told:
    """One campaign of several: its read-out, and what its plan expected of all its codes (None before any belief)."""

    results: CampaignResults
    foreseen: Foreseen | None


def arms_table(results: CampaignResults) -> Table:
    """Each arm in sums, beside what was expected of it."""
    random = results.record.plan.policy.name == "random"
    groups: dict[str, ArmResult] = {
        "at random" if random and arm is Arm.TEST else _ARMS[arm]: found for arm, found in results.arms.items()
    }
    if results.late is not None:
        groups["late arrivals"] = results.late
    money = Money(full=True)
    rows: list[list[Cell]] = [
        [
            name,
            found.summary.customers,
            found.summary.recipients,
            found.summary.purchasers,
            found.summary.revenue,
            found.summary.markdown,
            found.summary.revenue - found.summary.markdown,
            found.expected_revenue,
        ]
        for name, found in groups.items()
    ]
    counts = (Column(name, Count()) for name in ("Customers", "Codes", "Purchases"))
    sums = (Column(name, money) for name in ("Revenue", "Markdown", "Reward", "Expected revenue"))
    return Table(caption="What each arm bought with its codes", columns=["Arm", *counts, *sums], rows=rows)


def findings_table(results: CampaignResults) -> Table | None:
    """Test against control, per customer; None where there is nothing to compare."""
    if results.ab is None:
        return None
    rows = [_finding(found) for found in results.ab.findings if found.per == "customer"]
    columns = ["Per customer", "Decided", "Control", "Difference (95 % interval)", "Relative (95 % interval)", "p"]
    note = "Adjusted for spend in the year before." if results.ab.findings[0].adjusted is not None else ""
    return Table(caption="Decided against control", columns=columns, rows=rows, note=note)


def _finding(found: Finding) -> list[Cell]:
    (unit, signed), used = _UNITS[found.metric], found.decisive
    return [
        found.metric,
        unit.text(used.test),
        unit.text(used.control),
        _estimate(used.difference).text(signed),
        "–" if used.relative is None else _estimate(used.relative).text(Percent(signed=True)),
        f"{used.p_value:.2g}",
    ]


def undifferentiated_table(results: CampaignResults) -> Table | None:
    """The objective against one depth for everybody, as the control customers who got that depth show it."""
    if results.ab is None or not results.ab.undifferentiated:
        return None
    rows: list[list[Cell]] = []
    for depth, findings in results.ab.undifferentiated.items():
        found = next(entry for entry in findings if entry.metric == results.ab.primary).decisive
        difference = _estimate(found.difference).text(Number(signed=True))
        rows.append([f"everybody {depth_percent(depth)}", difference, f"{results.ab.holm[depth]:.2g}"])
    columns = ["Against", f"{results.ab.primary.capitalize()} per customer", "p (Holm)"]
    return Table(caption="Decided against one code for everybody", columns=columns, rows=rows)


def incremental_table(results: CampaignResults) -> Table | None:
    """All revenue, with and without codes, against the customers who got none."""
    if results.ab is None or not results.ab.incremental:
        return None
    rows: list[list[Cell]] = [
        [_ARMS[arm], _estimate(found.difference).text(Money(signed=True)), f"{found.p_value:.2g}"]
        for arm, found in results.ab.incremental.items()
    ]
    caption = "All revenue per customer against the holdout: what would not have happened anyway"
    return Table(caption=caption, columns=["Arm", "Difference (95 % interval)", "p"], rows=rows)


def words(results: CampaignResults) -> list[str]:
    """What may be said, and how far to trust it."""
    counts = results.counts
    ledger = (
        f"{counts.received:,} outcomes received: {counts.applied:,} applied, {counts.duplicate:,} duplicate, "
        f"{counts.late:,} late, {counts.unmatched:,} unmatched, {counts.rejected:,} rejected."
    )
    state = "All codes have run out." if results.final else f"Codes still count: figures are those of {results.as_of}."
    said = [f"{results.record.campaign} is {results.record.state}. {state} {ledger}"]
    if results.ab is None:
        return [*said, results.why_not or ""]
    ratio = results.ab.sample_ratio
    if ratio is not None:
        fine = "as planned" if ratio.ok else "NOT as planned"
        said.append(f"The arms' sizes are {fine} (p = {ratio.p_value:.2g}).")
    said.append(f"Verdict: {results.ab.verdict}. {results.ab.reason}")
    if results.detectable is not None:
        least = percent(results.detectable)
        said.append(f"Groups of this size show a change of revenue from {least} on, four times out of five.")
    return said


def campaign_report(results: CampaignResults) -> Report:
    """One campaign on one page."""
    plan, said = results.record.plan, words(results)
    figures = [table for table in (arms_table(results), findings_table(results)) if table is not None]
    sections = [Section("What each arm bought", "\n\n".join(said), figures)]
    if (chart := _uplift_chart([results])) is not None:
        sections.append(Section("Decided against control", "Relative change of the figures per customer.", [chart]))
    others = [table for table in (undifferentiated_table(results), incremental_table(results)) if table is not None]
    if others:
        text = "A control customer's depth was dealt at random, so each depth of control shows that code for everybody."
        sections.append(Section("Against simpler campaigns", text, others))
    return Report(
        title=f"Campaign {plan.campaign}",
        lead=said[-1] if results.ab is None else f"{results.ab.verdict.value.capitalize()}: {results.ab.reason}",
        sections=sections,
        footer=f"Codes valid from {date(plan.valid.start)} to before {date(plan.valid.end)}; read on {results.as_of}.",
    )


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
                None if one.foreseen is None else _foreseen(one.foreseen),
                realised(one.results),
                _objective_uplift(one.results),
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
    expected = [_foreseen(one.foreseen) for one in foreseen.values() if one.foreseen is not None]
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
        IntervalRow(one.record.campaign if len(results) > 1 else "Objective per customer", uplift)
        for one in results
        if (uplift := _objective_uplift(one)) is not None
    ]
    if not rows:
        return None
    return IntervalChart(
        title="Decided against control",
        subtitle="Objective (w·revenue − markdown) per customer, relative to control",
        x=Axis("Against control", Percent(signed=True)),
        interval="95 % interval",
        rows=rows,
    )


def _objective_uplift(results: CampaignResults) -> Estimate | None:
    if results.ab is None:
        return None
    found: Comparison = results.ab.finding(results.ab.primary).decisive
    return None if found.relative is None else _estimate(found.relative)


def _is_inside(one: Told) -> bool:
    return (
        one.foreseen is not None and one.foreseen.revenue.lower <= realised(one.results) <= one.foreseen.revenue.upper
    )


def _foreseen(money: Foreseen) -> Estimate:
    return Estimate(money.revenue.mean, money.revenue.lower, money.revenue.upper)


def _estimate(found: Estimated) -> Estimate:
    return Estimate(found.value, found.lower, found.upper)
