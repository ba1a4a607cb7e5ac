"""`disco ab FILE`: the read-out of any test with named arms."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.calculators import naming_options, read_share
from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show, warn
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from disco.operations.experiment import ExperimentResult
    from disco.views.table import Cell

EXAMPLE = "Example: disco ab test.csv --arm group --metric revenue --metric revenue/orders --before revenue_last_year"


def register(app: typer.Typer) -> None:
    app.command("ab", epilog=EXAMPLE)(ab)


def ab(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Parquet or CSV, one row per customer assigned.")],
    arm: Annotated[str, typer.Option(metavar="COLUMN", help="The column with the name of each customer's arm.")],
    metric: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN[/COLUMN]",
            help="A figure per customer (0 and 1: a rate), or a ratio of two sums; may be repeated.",
        ),
    ],
    control: Annotated[
        str | None, typer.Option(metavar="NAME", help="The arm to compare the others with (default: control).")
    ] = None,
    before: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A figure known before the test, to reduce noise; may be repeated."),
    ] = None,
    shares: Annotated[
        str, typer.Option(metavar="NAME=SHARE,…", help="The planned share of each arm (default: equal shares).")
    ] = "",
    looks: Annotated[
        int, typer.Option(min=1, help="How many times the test is looked at in all; intervals hold at each of them.")
    ] = 1,
    level: Annotated[str, typer.Option(help="Of all intervals.")] = "95%",
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Compare the arms of a test: differences with intervals, a check of the sample ratio, and a verdict in words.

    Several arms and metrics are adjusted for by Holm's method. A CSV file is read as the settings of the shop say.
    """
    from disco.adapters.tables.single_files import read_experiment_file
    from disco.entrypoints.python import Shop
    from disco.operations.experiment import parse_metric, read_experiment
    from disco.records.errors import InputError

    try:
        figures = [name for text in metric for name in parse_metric(text) if name is not None]
    except InputError as error:
        raise UsageError("--metric", found=error.found, expected=error.expected) from None
    known = [*dict.fromkeys(before or [])]
    written = Shop.open(shop).settings.written
    table = read_experiment_file(file, arm=arm, figures=[*figures, *known], written=written)
    with naming_options("level", "shares"):
        found = read_experiment(
            table,
            arm=arm,
            metrics=metric,
            control=control,
            before=known,
            shares=_shares(shares),
            looks=looks,
            level=read_share(level, "--level"),
            source=str(file),
        )
    warn(found.warnings)
    show(found, _text(found), as_json=as_json, quiet=quiet)


def _shares(text: str) -> dict[str, float] | None:
    """`control=10%,new=90%`."""
    if not text.strip():
        return None
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, equals, share = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise UsageError("--shares", found=repr(part), expected="NAME=SHARE, such as control=10%")
        if name in shares:
            raise UsageError("--shares", found=f"{name} twice", expected="each arm once")
        shares[name] = read_share(share, "--shares")
    return shares


def _text(found: "ExperimentResult") -> str:
    from disco.views.formats import Count, Number, Percent, PValue, with_limits
    from disco.views.table import Column, Table

    tested, level = len(found.differences), f"{found.level:.0%}"
    rows: list[list[Cell]] = [
        [
            one.metric,
            one.arm,
            one.value,
            one.control,
            one.difference,
            with_limits(one.relative),
            one.p_value,
            *((one.holm,) if tested > 1 else ()),
        ]
        for one in found.differences
    ]
    columns: list[Column | str] = [
        "Metric",
        "Arm",
        Column("Value", Number(decimals=4)),
        Column("Control", Number(decimals=4)),
        Column(f"Difference ({level})", Number(decimals=4, signed=True)),
        Column(f"Relative ({level})", Percent(decimals=2, signed=True)),
        Column("p", PValue()),
        *((Column("p, all comparisons", PValue()),) if tested > 1 else ()),
    ]
    sizes: list[list[Cell]] = [
        [name + (" (control)" if name == found.control else ""), count, count / sum(found.customers.values())]
        for name, count in found.customers.items()
    ]
    arms = Table(caption="Arms", columns=["Arm", Column("Customers", Count()), Column("Share", Percent())], rows=sizes)
    parts = [figures_text(arms), figures_text(Table(caption="Differences", columns=columns, rows=rows))]
    notes = []
    if found.looks > 1:
        notes.append(f"Intervals and p-values hold at all {found.looks} looks together.")
    if tested > 1:
        notes.append(
            "An interval and the p beside it are those of one comparison alone. Verdicts rest on the last column, "
            f"adjusted for {tested} comparisons (Holm)."
        )
    if notes:
        parts.append(" ".join(notes))
    reductions = [one.variance_reduction for one in found.differences if one.variance_reduction is not None]
    if reductions:
        least, most = min(reductions), max(reductions)
        share = f"{least:.0%}" if round(least, 2) == round(most, 2) else f"{least:.0%} to {most:.0%}"
        parts.append(
            f"Differences are adjusted by figures from before the test, which took away {share} of their variance; "
            "Value and Control are as measured."
        )
    return "\n\n".join([*parts, "\n".join(one.sentence for one in found.differences)])
