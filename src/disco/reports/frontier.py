"""What a plan could achieve, for people: revenue against markdown as tables and as a page."""

from collections.abc import Sequence

from disco.operations.frontier import Frontier, FrontierEntry
from disco.reports.charts import Axis, CurveChart, Line, Points
from disco.reports.formats import Count, Money, Number
from disco.reports.page import Report, Section
from disco.reports.table import Column, Table


def frontier_tables(found: Frontier) -> list[Table]:
    """Over the revenue weight, and over the budget."""
    return [_table(found.by_weight, by_budget=False), _table(found.by_budget, by_budget=True)]


def _table(path: Sequence[FrontierEntry], *, by_budget: bool) -> Table:
    first = Column("Budget", Money(full=True)) if by_budget else Column("Revenue weight", Number())
    return Table(
        caption="Over the budget, at the plan's revenue weight:"
        if by_budget
        else "Over the revenue weight, no budget:",
        columns=[
            first,
            Column("Codes", Count()),
            *(Column(name, Money(full=True)) for name in ("Revenue", "Markdown")),
        ],
        rows=[
            [
                point.budget if by_budget else point.revenue_weight,
                *((point.codes, point.revenue, point.markdown) if point.feasible else ("no allocation", None, None)),
            ]
            for point in path
        ],
    )


def frontier_report(found: Frontier) -> Report:
    """The frontier of a plan on one page."""
    traces: dict[str, dict[float, float]] = {  # two weights may give one allocation, and that is one point
        name: {point.markdown: point.revenue for point in path if point.feasible}
        for name, path in (("revenue weights", found.by_weight), ("budgets", found.by_budget))
    }
    chart = CurveChart(
        title="What another pound of markdown would bring",
        subtitle=f"Expected over the campaign {found.campaign}, everybody eligible, under the plan's limits",
        x=Axis("Markdown", Money()),
        y=Axis("Revenue", Money()),
        lines=[Line(name, list(path), list(path.values())) for name, path in traces.items() if len(path) > 1],
        points=[Points(name, list(path), list(path.values())) for name, path in traces.items() if len(path) == 1],
    )
    last = found.by_budget[-1]
    return Report(
        title=f"Frontier of {found.campaign}",
        lead=f"Up to {Money().text(last.revenue)} of revenue for {Money().text(last.markdown)} of markdown.",
        sections=[
            Section(
                "Revenue against markdown",
                "Every point is an exact allocation at expected baskets, without exploration, control or holdout.",
                [chart],
            ),
            Section("The figures", "", frontier_tables(found)),
        ],
    )
