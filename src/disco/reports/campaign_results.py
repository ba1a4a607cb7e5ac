"""What came of a campaign, for people: the same tables on a terminal and on a page."""

from collections.abc import Mapping
from dataclasses import dataclass

from disco.evaluation import Comparison, Finding, Verdict
from disco.evaluation import Estimate as Estimated
from disco.operations.forecast import Money as Foreseen
from disco.operations.results import ArmResult, CampaignResults
from disco.records.decisions import Arm
from disco.records.depths import depth_percent
from disco.reports.charts import Axis, IntervalChart, IntervalRow
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
    """A campaign's read-out beside what its plan expected of each arm and of all codes; None before any belief."""

    results: CampaignResults
    arms: Mapping[Arm, Foreseen | None]
    foreseen: Foreseen | None


def arms_table(told: Told) -> Table:
    """Each arm in sums, beside what was expected of it."""
    results, random = told.results, told.results.record.plan.policy.name == "random"
    groups: list[tuple[str, ArmResult, Foreseen | None]] = [
        ("at random" if random and arm is Arm.TEST else _ARMS[arm], found, told.arms.get(arm))
        for arm, found in results.arms.items()
    ]
    if results.late is not None:
        groups.append(("late arrivals", results.late, None))
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
            None if foreseen is None else foreseen_revenue(foreseen),
        ]
        for name, found, foreseen in groups
    ]
    counts = (Column(name, Count()) for name in ("Customers", "Codes", "Purchases"))
    sums = (Column(name, money) for name in ("Revenue", "Markdown", "Reward"))
    columns: list[Column | str] = ["Arm", *counts, *sums, Column("Expected revenue (90 %)", Money())]
    return Table(caption="What each arm bought with its codes", columns=columns, rows=rows)


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


def campaign_report(told: Told) -> Report:
    """One campaign on one page."""
    results, plan = told.results, told.results.record.plan
    figures = [table for table in (arms_table(told), findings_table(results)) if table is not None]
    sections = [Section("What each arm bought", "\n\n".join(words(results)), figures)]
    if (chart := _findings_chart(results)) is not None:
        sections.append(Section("Decided against control", "", [chart]))
    others = [table for table in (undifferentiated_table(results), incremental_table(results)) if table is not None]
    if others:
        text = (
            "A control customer's depth was dealt at random, so each depth of control shows what that code for "
            "everybody would do; the limits of the plan would not allow it."
        )
        sections.append(Section("Against simpler campaigns", text, others))
    return Report(
        title=f"Campaign {plan.campaign}",
        lead=_lead(results),
        sections=sections,
        footer=f"Codes valid from {date(plan.valid.start)} to before {date(plan.valid.end)}; read on {results.as_of}.",
    )


def _lead(results: CampaignResults) -> str:
    if results.ab is None:
        return results.why_not or ""
    if results.ab.verdict is Verdict.BLOCKED:
        return results.ab.reason
    said = {
        Verdict.BETTER: "did better than",
        Verdict.WORSE: "did worse than",
        Verdict.UNDECIDED: "cannot be told from",
    }
    uplift = objective_uplift(results)
    figure = "" if uplift is None else f": {uplift.text(Percent(signed=True))} {results.ab.primary} per customer"
    return f"Decided codes {said[results.ab.verdict]} random ones{figure}."


def _findings_chart(results: CampaignResults) -> IntervalChart | None:
    found = [] if results.ab is None else [one for one in results.ab.findings if one.per == "customer"]
    rows = [
        IntervalRow(one.metric.capitalize(), _estimate(one.decisive.relative))
        for one in found
        if one.decisive.relative is not None
    ]
    if not rows:
        return None
    return IntervalChart(
        title="Decided codes against random ones",
        subtitle="Per customer assigned, relative to control; the objective is w·revenue − markdown",
        x=Axis("Against control", Percent(signed=True)),
        interval="95 % interval",
        rows=rows,
    )


def objective_uplift(results: CampaignResults) -> Estimate | None:
    if results.ab is None:
        return None
    found: Comparison = results.ab.finding(results.ab.primary).decisive
    return None if found.relative is None else _estimate(found.relative)


def foreseen_revenue(money: Foreseen) -> Estimate:
    return Estimate(money.revenue.mean, money.revenue.lower, money.revenue.upper)


def _estimate(found: Estimated) -> Estimate:
    return Estimate(found.value, found.lower, found.upper)
