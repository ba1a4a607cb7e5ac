"""`disco allocate VALUES --caps CAPS -o OUT`: the solver alone, from files to files."""

from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import EngineFlag, JsonFlag, QuietFlag, show
from disco.entrypoints.files import read_yaml
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command("allocate")(allocate)


def allocate(
    values: Annotated[Path, typer.Argument(help="Parquet: customer_id and one column per depth (null: not eligible).")],
    caps: Annotated[Path, typer.Option("--caps", help="YAML or JSON: caps, and optionally floors, budget, segments.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet to write: customer_id, depth, value.")],
    costs: Annotated[
        Path | None, typer.Option(help="Parquet of the shape of VALUES: what each depth costs the budget.")
    ] = None,
    summary: Annotated[Path | None, typer.Option(help="JSON to write: status, value, bound, gap, prices, …")] = None,
    solver: Annotated[str, typer.Option(help="exact, or highs (slow, independent).")] = "exact",
    engine: EngineFlag = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Give each customer one depth or none, so that the total value is as large as the limits allow.

    Example: disco allocate values.parquet --caps caps.yaml -o codes.parquet --summary summary.json
    """
    if solver not in ("exact", "highs"):
        raise UsageError("--solver", found=solver, expected="exact or highs")
    from disco.entrypoints.python import Shop
    from disco.operations.allocating import allocate_files

    check_outputs(out, summary, inputs=(values, caps, costs))
    here = Shop.open(engine=engine)  # for its engine and threads
    found = allocate_files(
        values,
        limits=_read_limits(caps),
        limits_file=caps,
        out=out,
        costs=costs,
        summary=summary,
        solver=solver,
        engine=here.engine,
    )
    if not found.feasible:
        show(found, "", as_json=as_json, quiet=True)
        typer.echo("error: No allocation meets all limits.", err=True)
        for conflict in found.conflicts:
            typer.echo(f"  {conflict}", err=True)
        raise typer.Exit(1)
    assert found.value is not None  # for the type checker: it is null only where no allocation was found
    assert found.gap is not None
    lines = [f"{found.status.lower().replace('_', ' ')}: value {found.value:,.2f}, gap {found.gap:.1e}"]
    lines += [
        f"  {depth:>6}  {count:>12,} customers   price {found.prices[depth]:,.4f}"
        for depth, count in found.counts.items()
    ]
    show(found, "\n".join(lines), as_json=as_json, quiet=quiet)


def _read_limits(path: Path) -> object:
    return read_yaml(path, expected="a YAML or JSON file with caps")
