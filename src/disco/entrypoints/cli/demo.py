"""`disco demo`."""

from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, progress, show

STEPS = 11  # of one run, for the bar


def register(app: typer.Typer) -> None:
    app.command("demo", epilog="Example: disco demo --customers 20000 --seed 3 -o out/demo")(demo)


def demo(
    customers: Annotated[int, typer.Option(min=1000, help="Simulated customers.")] = 50_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another retailer.")] = 7,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report and the allocations.")] = Path(
        "out/demo"
    ),
    seeds: Annotated[
        int, typer.Option(min=1, help="Run this many seeds, from --seed on, and print intervals over them.")
    ] = 1,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Run the whole loop on a simulated retailer: two random campaigns, then two decided ones.

    Prints a table and writes report.html and the allocations.
    """
    from disco.studies.demo.command import run_many, run_once

    with progress(quiet=quiet or as_json) as bar:
        task = bar.add_task("starting", total=STEPS * seeds)

        def step(name: str) -> None:
            bar.update(task, description=name, advance=1)

        if seeds == 1:
            result, text = run_once(customers=customers, seed=seed, out=out, progress=step)
        else:
            result, text = run_many(customers=customers, first_seed=seed, seeds=seeds, out=out, progress=step)
    show(result, text, as_json=as_json, quiet=quiet)
