"""What a plan could achieve, for people: revenue against markdown as tables and as a page."""

from collections.abc import Sequence
from dataclasses import dataclass

from disco.operations.what_if import Frontier, FrontierEntry
from disco.records.depths import depth_percent
from disco.records.money import read_currency
from disco.views.charts import Axis, CurveChart, Line, Points
from disco.views.formats import Count, Money, Number
from disco.views.page import Report, Section
from disco.views.table import Cell, Column, Table

FRONTIER_NOTE = (
    "Every point is an exact allocation at expected baskets, without exploration, control or holdout, so the figures "
    "of this plan differ from those of `disco plan`."
)


def frontier_tables(found: Frontier) -> list[Table]:
    """Over the revenue weight, over the budget, and over the cap of a depth where one was asked for.

    Every table ends with the plan as it is now, unless it is one of the rows.
    """
    weight, budget = Column("Revenue weight", Number()), Column("Budget", _money(found, full=True))
    tables = [
        _table(found, found.by_weight, "Over the revenue weight, no budget", weight, "revenue_weight"),
        _table(found, found.by_budget, "Over the budget, at the plan's revenue weight", budget, "budget"),
    ]
    if found.cap_depth is not None:
        caption = f"Over the cap of {depth_percent(found.cap_depth)}, all else as in the plan"
        tables.append(_table(found, found.by_cap, caption, Column("At most", Count()), "cap"))
    return tables


def _table(found: Frontier, path: Sequence[FrontierEntry], caption: str, first: Column, name: str) -> Table:
    rows: list[list[Cell]] = [[getattr(point, name), *_cells(point)] for point in path]
    if not any(point.present for point in path):
        rows.append([getattr(found.present, name), *_cells(found.present)])
    money = [Column(heading, _money(found, full=True)) for heading in ("Revenue", "Markdown")]
    return Table(caption=caption, columns=[first, Column("Codes", Count()), *money, ""], rows=rows)


def _money(found: Frontier, *, full: bool = False) -> Money:
    return Money(read_currency(found.currency), full=full)


def _cells(point: FrontierEntry) -> list[Cell]:
    mark = "this plan" if point.present else ""
    if not point.feasible:
        return ["no allocation", None, None, mark]
    return [point.codes, point.revenue, point.markdown, mark]


def frontier_report(found: Frontier) -> Report:
    """The frontier of a plan on one page."""
    return Report(
        title=f"Frontier of {found.campaign}",
        lead=frontier_lead(found),
        sections=[
            Section(
                "Revenue against markdown",
                FRONTIER_NOTE,
                [frontier_chart(found)],
            ),
            Section("The figures", "", frontier_tables(found)),
        ],
    )


def frontier_chart(found: Frontier) -> CurveChart:
    """Revenue against markdown, with the plan as it is."""
    paths = [("revenue weights", found.by_weight), ("budgets", found.by_budget)]
    if found.cap_depth is not None:
        paths.append((f"caps of {depth_percent(found.cap_depth)}", found.by_cap))
    traces: dict[str, dict[float, float]] = {  # two weights may give one allocation, and that is one point
        name: dict(sorted((point.markdown, point.revenue) for point in path if point.feasible)) for name, path in paths
    }
    now, money = found.present, _money(found)
    return CurveChart(
        title="What more markdown would bring",
        subtitle=f"Expected over the campaign {found.campaign}, everybody eligible, under the plan's limits",
        x=Axis("Markdown", money),
        y=Axis("Revenue", money),
        lines=[Line(name, list(path), list(path.values())) for name, path in traces.items() if len(path) > 1],
        points=[
            *(Points(name, list(path), list(path.values())) for name, path in traces.items() if len(path) == 1),
            *([Points("this plan", [now.markdown], [now.revenue])] if now.feasible else []),
        ],
    )


def adoption_chart(found: Frontier) -> CurveChart:
    """The points to adopt, and the plan as it is. A weight without a budget and a budget lie on one line."""
    now, money = found.present, _money(found)
    there = dict(sorted((point.markdown, point.revenue) for point in _choices(found)))
    others = {x: y for x, y in there.items() if not now.feasible or (x, y) != (now.markdown, now.revenue)}
    return CurveChart(
        title="What more markdown would bring",
        subtitle=f"Expected revenue and code cost of all codes of {found.campaign}, as the planner states them",
        x=Axis("Markdown", money),
        y=Axis("Revenue", money),
        lines=[Line("other weights and budgets", list(there), list(there.values()))] if len(there) > 1 else [],
        points=[
            *([Points("a plan to adopt", list(others), list(others.values()))] if others else []),
            *([Points("you are here", [now.markdown], [now.revenue], large=True)] if now.feasible else []),
        ],
    )


def _choices(found: Frontier) -> list[FrontierEntry]:
    """Every point with an allocation, the plan as it is among them."""
    points = [*found.by_weight, *found.by_budget]
    if not any(point.present for point in points):
        points.append(found.present)
    return [point for point in points if point.feasible]


def frontier_lead(found: Frontier) -> str:
    """What half of the plan's markdown would bring, where a budget of about that size was tried."""
    money = _money(found)
    now = found.present if found.present.feasible else found.by_budget[-1]
    low, high = 0.4 * now.markdown, 0.6 * now.markdown
    others = [point for point in found.by_budget if point.feasible and 0 < low <= point.markdown <= high]
    if not others:
        return f"Up to {money.text(now.revenue)} of revenue for {money.text(now.markdown)} of markdown."
    half = min(others, key=lambda point: abs(point.markdown - 0.5 * now.markdown))
    return (
        f"Revenue falls from {money.text(now.revenue)} to {money.text(half.revenue)} "
        f"if markdown falls from {money.text(now.markdown)} to {money.text(half.markdown)}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptablePoint:
    """A point to adopt: its name, what it brings, and the weight and budget that lead to it."""

    name: str
    codes: int
    revenue: str
    markdown: str
    weight: float
    budget: float | str
    """Empty: none."""
    x: float
    """Its place in the chart: markdown."""
    y: float
    """Revenue."""
    is_present: bool


def frontier_points(found: Frontier) -> tuple[AdoptablePoint, ...]:
    """Every point with an allocation, by markdown; the plan as it is among them."""
    money = _money(found)
    return tuple(
        AdoptablePoint(
            name=_name(point, money),
            codes=point.codes,
            revenue=money.text(point.revenue),
            markdown=money.text(point.markdown),
            weight=point.revenue_weight,
            budget="" if point.budget is None else _typed(point.budget),
            x=point.markdown,
            y=point.revenue,
            is_present=point.present,
        )
        for point in sorted(_choices(found), key=lambda point: point.markdown)
    )


def _name(point: FrontierEntry, money: Money) -> str:
    if point.budget is None:
        return f"Weight {point.revenue_weight:g}, no budget"
    return f"Budget {money.text(point.budget)}"


def _typed(amount: float) -> int | float:
    return int(amount) if float(amount).is_integer() else amount
