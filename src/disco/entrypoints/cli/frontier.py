"""`disco frontier PLAN.yaml`."""

import math
from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show, warn
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command("frontier", epilog="Example: disco frontier plan.yaml --html frontier.html")(frontier)


def frontier(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="A campaign plan.")],
    weights: Annotated[
        str | None, typer.Option(help="Revenue weights to try, such as 1,2,3 (default: around the plan's).")
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(
            help="Markdown budgets to try, such as 1000,2000 (default: tenths of what is spent without a budget)."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page with the chart.")] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Show what a plan could achieve: expected revenue against markdown, over the revenue weight and over a budget.

    Every line is an exact allocation of all eligible customers under the plan's limits, at expected baskets, without
    exploration, control or holdout. Nothing is kept.
    """
    from disco.entrypoints.python import Shop
    from disco.reports.frontier import frontier_report, frontier_tables

    check_outputs(html, inputs=(plan_file,), shop=shop)
    here = Shop.open(shop)
    plan = here.read_plan(plan_file)
    check_outputs(html, inputs=(here.folder / plan.customers.table,))  # known only now
    found = here.frontier(plan, revenue_weights=_numbers(weights, "--weights"), budgets=_numbers(budgets, "--budgets"))
    warn(found.warnings)
    if html is not None:
        frontier_report(found).save(html)
    text = "\n\n".join(f"{table.caption}\n{figures_text(table)}" for table in frontier_tables(found))
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
