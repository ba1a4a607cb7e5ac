"""`disco frontier PLAN.yaml`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show, warn
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco.operations.frontier import Frontier, FrontierPoint
    from disco.reports import Report, Table


def register(app: typer.Typer) -> None:
    app.command("frontier", epilog="Example: disco frontier plan.yaml --html frontier.html")(frontier)


def frontier(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="A campaign plan.")],
    weights: Annotated[
        str | None, typer.Option(help="Revenue weights to try, such as 1,2,3 (default: around the plan's).")
    ] = None,
    budgets: Annotated[
        str | None, typer.Option(help="Markdown budgets to try, such as 1000,2000 (default: tenths of all).")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also a self-contained page with the chart.")] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Show what a plan could reach: expected revenue against markdown over the revenue weight, and over a budget.

    Every line is an exact allocation of all eligible customers under the plan's limits, at expected baskets: without
    the policy's draws, and without control or holdout. Nothing is kept.
    """
    from disco.entrypoints.python import Shop

    check_outputs(html, inputs=(plan_file,), shop=shop)
    here = Shop.open(shop)
    plan = here.read_plan(plan_file)
    check_outputs(html, inputs=(here.folder / plan.customers.table,))  # known only now
    found = here.frontier(plan, revenue_weights=_numbers(weights, "--weights"), budgets=_numbers(budgets, "--budgets"))
    warn(found.warnings)
    if html is not None:
        _report(found).save(html)
    tables = [_table(found.by_weight, by_budget=False), _table(found.by_budget, by_budget=True)]
    text = "\n\n".join(f"{table.caption}\n{figures_text(table)}" for table in tables)
    show(found, text, as_json=as_json, quiet=quiet)


def _numbers(text: str | None, option: str) -> list[float] | None:
    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(math.isfinite(number) and number > 0 for number in numbers):
        raise UsageError(option, found=repr(text), expected="numbers above 0 with commas between, such as 1,2,3")
    return sorted(numbers)


def _table(path: "Sequence[FrontierPoint]", *, by_budget: bool) -> "Table":
    from disco.reports import Column, Count, Money, Number, Table

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


def _report(found: "Frontier") -> "Report":
    from disco.reports import Axis, CurveChart, Line, Money, Points, Report, Section

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
            Section(
                "The figures", "", [_table(found.by_weight, by_budget=False), _table(found.by_budget, by_budget=True)]
            ),
        ],
    )
