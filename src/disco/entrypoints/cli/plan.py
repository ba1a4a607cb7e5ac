"""`disco plan PLAN.yaml`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import (
    DryRunFlag,
    EngineFlag,
    JsonFlag,
    QuietFlag,
    ShopFolder,
    figures_text,
    show,
    warn,
)

if TYPE_CHECKING:
    from disco.operations.planned import Planned
    from disco.reports import Table
    from disco.reports.table import Cell


def register(app: typer.Typer) -> None:
    app.command("plan", epilog="Example: disco plan plan.yaml --dry-run")(plan)


def plan(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="A campaign plan; `disco init` writes one.")],
    dry_run: DryRunFlag = False,
    engine: EngineFlag = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Decide a campaign: who would get which code, what that is expected to bring, and what each limit costs.

    The decided plan is kept under the hash of everything it rests on, and never changes; `disco launch` makes it real.
    Intervals hold 90 % of what the belief thinks possible. Prices are what one more code would add, in revenue.
    """
    from disco.entrypoints.audience import gather
    from disco.entrypoints.files import read_yaml
    from disco.entrypoints.shop import Shop, WallClock
    from disco.operations.artefacts import keep
    from disco.operations.planning import plan_campaign
    from disco.records.plan import read_plan

    wanted, here = read_plan(read_yaml(plan_file), file=str(plan_file)), Shop.open(shop, engine=engine)
    gathered = gather(here, wanted, keep=not dry_run)
    with here.store(missing="scratch" if dry_run else "create") as store:
        belief, version = here.belief(store, network=gathered.inputs["network"])
        planned = plan_campaign(
            store,
            wanted,
            gathered.audience,
            belief=belief,
            version=version,
            network=gathered.inputs["network"],
            inputs=gathered.inputs,
            clock=WallClock(),
            features=gathered.features,
            notes=gathered.notes,
            engine=here.engine,
        )
        folder = None if dry_run else keep(store, planned, here.plans)
    warn(planned.warnings)
    result: dict[str, Any] = {**planned.summary(), "folder": None if folder is None else str(folder)}
    show({**result, "dry_run": dry_run}, _text(planned, dry_run, shop), as_json=as_json, quiet=quiet)


def _text(planned: "Planned", dry_run: bool, shop: Path) -> str:
    plan = planned.plan
    decided = "dealt at random" if planned.solution.prices is None else f"decided by {plan.policy.name}"
    learned = "without any learned belief" if planned.version is None else f"with belief version {planned.version}"
    parts = [
        f"{plan.campaign}: {planned.decisions.num_rows:,} customers, {decided} {learned}; codes valid from "
        f"{plan.valid.start} to before {plan.valid.end}.",
        figures_text(_arms(planned)),
    ]
    if planned.total is not None:
        parts.append(f"Expected, with 90 % intervals:\n{figures_text(_money(planned))}\n{_corrections(planned)}")
    elif planned.version is None:
        parts.append("Nothing was learned yet, so no revenue is predicted.")
    if planned.solution.prices is not None:
        parts.append("\n".join([_certificate(planned), *(f"  {words}" for words in planned.binding)]))
    place = "" if shop == Path() else f" --shop {shop}"
    parts.append(
        "Nothing was written." if dry_run else f"Plan {planned.plan_id}. Next: disco launch {planned.plan_id}{place}"
    )
    return "\n\n".join(parts)


def _corrections(planned: "Planned") -> str:
    """What earlier campaigns brought against their forecasts; it is in the figures and their intervals."""
    said = [
        f"{arm} × {forecast.correction.factor:.2f} ({forecast.correction.campaigns} earlier)"
        for arm, forecast in planned.arms.items()
        if forecast.correction is not None and forecast.correction.campaigns
    ]
    if not said:
        return "No earlier forecast can be compared with what came, so the intervals allow for being off."
    return f"Corrected by what earlier campaigns brought against their forecasts: {', '.join(said)}."


def _certificate(planned: "Planned") -> str:
    if planned.solution.gap == 0:
        return "Solved, proved optimal. Limits that cost something:" if planned.binding else "Solved, proved optimal."
    return f"Solved within {planned.solution.gap:.2g} of the bound, relatively. Limits that cost something:"


def _arms(planned: "Planned") -> "Table":
    from disco.records.depths import depth_percent
    from disco.reports import Column, Count, Table

    depths = planned.plan.offered
    rows: list[list[Cell]] = [
        [
            str(arm),
            forecast.customers,
            *(forecast.codes.get(depth, 0) for depth in depths),
            forecast.customers - sum(forecast.codes.values()),
        ]
        for arm, forecast in planned.arms.items()
    ]
    heads = ["Customers", *map(depth_percent, depths), "No code"]
    return Table(caption="Codes", columns=["Arm", *(Column(head, Count()) for head in heads)], rows=rows)


def _money(planned: "Planned") -> "Table":
    from dataclasses import asdict

    from disco.reports import Column, Estimate, Money, Table

    unit, figures = Money(), ("revenue", "markdown", "reward")
    expected = {str(arm): forecast.money for arm, forecast in planned.arms.items()} | {"all": planned.total}
    rows: list[list[Cell]] = []
    for name, money in expected.items():
        if money is None:
            continue
        found = asdict(money)
        estimates = [Estimate(found[kind]["mean"], found[kind]["lower"], found[kind]["upper"]) for kind in figures]
        rows.append([name, *estimates])
    return Table(caption="Expected", columns=["Arm", *(Column(kind.capitalize(), unit) for kind in figures)], rows=rows)
