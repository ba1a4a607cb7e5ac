"""`disco reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, progress, show
from disco.entrypoints.outputs import check_outputs


def register(app: typer.Typer) -> None:
    app.command("reproduce", epilog="Example: disco reproduce --quick -o out/reproduction")(reproduce)


def reproduce(
    quick: Annotated[
        bool, typer.Option("--quick", help="Take minutes instead of hours, with small retailers.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for report.html, result.json and intermediate results.")
    ] = Path("out/reproduction"),
    only: Annotated[list[str] | None, typer.Option(help="An item, such as campaigns; may be repeated.")] = None,
    environments: Annotated[int | None, typer.Option(min=1, max=100, help="Simulated retailers (default: 4).")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the first retailer (default: 11).")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write the page of docs/ there, with its pictures; needs Chromium.")
    ] = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Compare every figure and table of the paper with simulated retailers, with a verdict for each.

    Writes one HTML report and its JSON. An interrupted run continues where it stopped when it is started again.
    """
    from disco.studies.paper.command import chosen
    from disco.studies.paper.command import reproduce as run
    from disco.studies.paper.lab import RunSize, settings_of

    if out.is_dir():
        check_outputs(out / "report.html", out / "result.json")
    if page is not None and page.parent.is_dir():
        check_outputs(page, page.with_suffix(".json"))
    settings = settings_of(RunSize.QUICK if quick else RunSize.FULL, environments=environments, seed=seed)
    with progress(quiet=quiet or as_json) as bar:
        task = bar.add_task("starting", total=len(chosen(only or ())))
        result, text = run(
            settings,
            only=only or (),
            out=out,
            page=page,
            command=_command(quick, environments, seed),
            progress=lambda step: bar.update(task, description=step),
            item_done=lambda: bar.advance(task),
        )
    show(result, text, as_json=as_json, quiet=quiet)


def _command(quick: bool, environments: int | None, seed: int | None) -> str:
    """The command as a reader would type it to get these figures again."""
    words = ["disco reproduce"]
    words += ["--quick"] if quick else []
    words += [f"--environments {environments}"] if environments is not None else []
    words += [f"--seed {seed}"] if seed is not None else []
    return " ".join(words)
