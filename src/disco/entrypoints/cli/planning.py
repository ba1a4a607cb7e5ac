"""Before a launch: `disco plan`, `disco frontier`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import (
    DryRunFlag,
    EngineFlag,
    JsonFlag,
    QuietFlag,
    ShopFolder,
    figures_text,
    next_command,
    show,
    warn,
)
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from disco.operations.planning import PlanResult
    from disco.records.plan_summary import ArmForecast
    from disco.reports import Table
    from disco.reports.table import Cell


def register(app: typer.Typer) -> None:
    app.command("plan", epilog="Example: disco plan plan.yaml --dry-run")(plan)
    app.command("frontier", epilog="Example: disco frontier plan.yaml --html frontier.html")(frontier)


def plan(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="A campaign plan; `disco init` writes one.")],
    dry_run: DryRunFlag = False,
    engine: EngineFlag = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Decide a campaign: who would get which code, what to expect from it, and what each limit costs.

    The decided plan is kept under the hash of everything it depends on and never changes; `disco launch` puts it into
    effect. Forecasts have 90% intervals. The price of a limit is the revenue that one more code would bring.
    """
    from disco.entrypoints.python import Shop

    planned = Shop.open(shop, engine=engine).plan(plan_file, dry_run=dry_run)
    warn(planned.warnings)
    done = None if dry_run else f"Plan {planned.plan_id} of {planned.planned.plan.campaign} is kept"
    show(planned, _plan_text(planned, shop), as_json=as_json, quiet=quiet, done=done)


def _plan_text(planned: "PlanResult", shop: Path) -> str:
    from disco.records.wording import period

    plan = planned.planned.plan
    decided = "assigned at random" if planned.prices is None else f"decided by {plan.policy.name}"
    learned = "; nothing learned yet" if planned.version is None else f" with version {planned.version} of the model"
    parts = [
        f"{plan.campaign}: {planned.customers:,} customers, {decided}{learned}. "
        f"Codes valid {period(plan.valid.start, plan.valid.last)}.",
        figures_text(_arms(planned)),
    ]
    if planned.total is not None:
        parts.append(f"Forecast, with 90% intervals:\n{figures_text(_money(planned))}\n{_corrections(planned)}")
    elif planned.version is None:
        parts.append("Nothing was learned yet, so there is no forecast.")
    if planned.prices is not None:
        parts.append("\n".join([_certificate(planned), *(f"  {words}" for words in planned.binding)]))
    after = next_command(f"launch {planned.plan_id}", shop)
    parts.append("Nothing was written." if planned.dry_run else f"Plan {planned.plan_id}. {after}")
    return "\n\n".join(parts)


def _groups(planned: "PlanResult") -> "dict[str, ArmForecast]":
    """The plan's groups by the names that people read."""
    from disco.operations.arms import group_name

    at_random = planned.prices is None
    return {group_name(arm, at_random=at_random): forecast for arm, forecast in planned.arms.items()}


def _corrections(planned: "PlanResult") -> str:
    """How earlier forecasts compared with actual revenue; figures and intervals contain it."""
    said = [
        f"{name} × {forecast.correction.factor:.2f} ({forecast.correction.campaigns} campaigns)"
        for name, forecast in _groups(planned).items()
        if forecast.correction is not None and forecast.correction.campaigns
    ]
    if not said:
        return "First forecast: ranges are wide because there is no track record yet."
    return f"Corrected by earlier campaigns, actual against forecast: {', '.join(said)}."


def _certificate(planned: "PlanResult") -> str:
    solved = "Proved optimal." if planned.gap == 0 else f"Optimal to within {100 * planned.gap:.1g}%."
    return f"{solved} Limits that cost something:" if planned.binding else solved


def _arms(planned: "PlanResult") -> "Table":
    from disco.records.depths import depth_percent
    from disco.reports import Column, Count, Table

    depths = planned.planned.plan.offered
    rows: list[list[Cell]] = [
        [
            name,
            forecast.customers,
            *(forecast.codes.get(depth, 0) for depth in depths),
            forecast.customers - sum(forecast.codes.values()),
        ]
        for name, forecast in _groups(planned).items()
    ]
    heads = ["Customers", *map(depth_percent, depths), "No code"]
    return Table(caption="Codes", columns=["Group", *(Column(head, Count()) for head in heads)], rows=rows)


def _money(planned: "PlanResult") -> "Table":
    from disco.reports import Column, Money, Table

    unit, figures = Money(), ("revenue", "markdown", "reward")
    expected = {name: forecast.money for name, forecast in _groups(planned).items()} | {"all": planned.total}
    rows: list[list[Cell]] = []
    for name, money in expected.items():
        if money is not None:
            rows.append([name, *(getattr(money, kind) for kind in figures)])
    return Table(
        caption="Forecast", columns=["Group", *(Column(kind.capitalize(), unit) for kind in figures)], rows=rows
    )


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
