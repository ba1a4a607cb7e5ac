"""Computations that need no shop: `disco allocate`, `disco power`; and `disco ab`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import (
    EngineFlag,
    MasterFlag,
    ShopTerminal,
    Terminal,
    add_command,
    figures_text,
    open_shop,
    say,
    warn,
)
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import InputError, UsageError

if TYPE_CHECKING:
    from disco.evaluation.read_out import ArmDifference
    from disco.operations.experiment import ExperimentResult, PowerResult
    from disco.views.table import Cell

EXAMPLE = "disco ab test.csv --arm group --metric revenue --metric revenue/orders --before revenue_last_year"


def register(app: typer.Typer) -> None:
    add_command(app, allocate)
    add_command(app, power, example="disco power --baseline 4.20 --sd 18 --uplift 1%")
    add_command(app, ab, example=EXAMPLE)


def allocate(
    terminal: Terminal,
    values: Annotated[
        Path,
        typer.Argument(
            help="Parquet (a file or a folder) or CSV: customer_id and one column per depth (null: not eligible)."
        ),
    ],
    caps: Annotated[Path, typer.Option("--caps", help="YAML or JSON: caps, and optionally floors, budget, segments.")],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            help="Parquet or CSV to write: customer_id, depth, value; a folder with spark, or where VALUES is one.",
        ),
    ],
    costs: Annotated[
        Path | None, typer.Option(help="A file of the shape of VALUES: what each depth costs the budget.")
    ] = None,
    summary: Annotated[Path | None, typer.Option(help="JSON to write: status, value, bound, gap, prices, …")] = None,
    solver: Annotated[str, typer.Option(help="exact, or highs (slow, independent).")] = "exact",
    engine: EngineFlag = None,
    master: MasterFlag = None,
) -> None:
    """Give each customer one depth or none, so that the total value is as large as the limits allow.

    Example: disco allocate values.parquet --caps caps.yaml -o codes.parquet --summary summary.json
    """
    if solver not in ("exact", "highs"):
        raise UsageError("--solver", found=solver, expected="exact or highs")
    from disco.operations.offline import allocate_files

    here = open_shop(Path(), engine=engine, master=master)  # for its engine and threads
    cluster = here.cluster_engine
    if cluster is None and not values.is_dir():
        check_outputs(out, summary, inputs=(values, caps, costs))
    else:
        if solver == "highs":
            raise UsageError("--solver", found="highs", expected="exact, for a folder of values and for Spark")
        from disco.records.manifest import check_folder  # it imports Arrow, which no help needs

        check_outputs(summary, inputs=(values, caps, costs))
        check_folder(out)
    found = allocate_files(
        values,
        limits=_read_limits(caps),
        limits_file=caps,
        out=out,
        costs=costs,
        summary=summary,
        solver=solver,
        engine=here.engine,
        cluster=cluster,
    )
    if not found.feasible:
        if terminal.as_json:
            terminal.show(found, "")
        say("\n  ".join(["error: No allocation meets all limits.", *map(str, found.conflicts)]), err=True)
        raise typer.Exit(1)
    assert found.value is not None  # for the type checker: it is null only where no allocation was found
    assert found.gap is not None
    lines = [f"{found.status.lower().replace('_', ' ')}: value {found.value:,.2f}, gap {found.gap:.1e}"]
    lines += [
        f"  {depth:>6}  {count:>12,} customers   price {found.prices[depth]:,.4f}"
        for depth, count in found.counts.items()
    ]
    terminal.show(found, "\n".join(lines))


def _read_limits(path: Path) -> object:
    from disco.adapters.files import read_yaml

    return read_yaml(path, expected="a YAML or JSON file with caps")


def power(
    terminal: Terminal,
    baseline: Annotated[
        float | None, typer.Option(help="Mean of the figure in control, per customer, those without it as 0.")
    ] = None,
    sd: Annotated[float | None, typer.Option(help="Its standard deviation between customers.")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Instead of both: the share of control who do something, such as buying.")
    ] = None,
    uplift: Annotated[str | None, typer.Option(help="Relative difference to detect, such as 1%.")] = None,
    customers: Annotated[int | None, typer.Option(help="Customers in both groups together, if that is given.")] = None,
    chance: Annotated[str, typer.Option("--power", help="Wanted probability of detecting it.")] = "80%",
    control_share: Annotated[str, typer.Option(help="Control's share of the customers.")] = "50%",
    level: Annotated[str, typer.Option(help="1 − α of the two-sided test.")] = "95%",
    engagement: Annotated[
        str | None, typer.Option(help="Share that buys; baseline and sd are then per purchaser.")
    ] = None,
    explained: Annotated[str, typer.Option(help="Share of variance that pre-period figures explain (CUPED).")] = "0%",
) -> None:
    """How many customers an A/B test needs, or what a given number of customers can detect.

    With --uplift: the customers needed. With --customers: the smallest uplift they detect. With both: the probability.
    """
    from disco.operations.experiment import power

    if uplift is None and customers is None:
        raise UsageError("power needs --uplift, --customers, or both")
    if rate is None and (baseline is None or sd is None):
        raise UsageError("power needs --baseline and --sd of an amount, or --rate")
    if rate is not None and not (baseline is None and sd is None and engagement is None):
        raise UsageError(
            "--rate", found="an amount as well", expected="--rate alone, without --baseline, --sd, --engagement"
        )
    with naming_options():
        found = power(
            baseline=baseline,
            sd=sd,
            rate=None if rate is None else read_share(rate, "--rate"),
            uplift=None if uplift is None else read_share(uplift, "--uplift"),
            customers=customers,
            power=read_share(chance, "--power"),
            control_share=read_share(control_share, "--control-share"),
            level=read_share(level, "--level"),
            engagement=None if engagement is None else read_share(engagement, "--engagement"),
            explained=read_share(explained, "--explained"),
        )
    terminal.show(found, _power_text(found, asked=uplift is not None and customers is None))


def _power_text(found: "PowerResult", *, asked: bool) -> str:
    """`asked`: how many customers are needed was the question."""
    whom = f"{found.customers:,} customers" + (f" ({found.control:,} of them in control)" if asked else "")
    text = f"{whom} give a chance of {_percent(found.power)} of detecting an uplift of {_percent(found.uplift)}."
    text += "" if found.purchasers is None else f" About {found.purchasers:,} of them buy."
    after = found.baseline * (1 + found.uplift)
    shown = (
        [_percent(one) for one in (found.baseline, after)]
        if found.is_rate
        else [f"{one:,.4g}" for one in (found.baseline, after)]
    )
    what = "it" if found.is_rate else "its mean per customer"
    spread = "" if found.is_rate else ", and its sd grows in proportion"
    return (
        f"{text}\n"
        f"The figure is {found.figure}. The uplift takes {what} from {shown[0]} to {shown[1]}{spread}. "
        f"The test is two-sided with {_percent(1 - found.level)} of false alarms."
    )


def _percent(share: float) -> str:
    """Three figures: 80%, 31.8%, 0.125%."""
    text = f"{100 * share:.3g}%" if share < 1 else f"{100 * share:,.0f}%"
    return text.replace("-", "−")


@contextmanager
def naming_options(*names: str) -> Iterator[None]:
    """A figure that comes from an option and cannot be used is wrong usage. names: the options; none: all are."""
    try:
        yield
    except UsageError:
        raise
    except InputError as error:
        if names and error.what not in names:
            raise
        option = f"--{error.what.replace('_', '-')}"
        raise UsageError(option, found=error.found, expected=error.expected, fix=error.fix) from None


def read_share(text: str, option: str) -> float:
    """`1%` or `0.01`."""
    number = text.strip()
    expected = "a share such as 1% or 0.01"
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        raise UsageError(option, found=repr(text), expected=expected) from None
    if share > 1 and not number.endswith("%"):  # 5 is far more often 5% than 500%
        raise UsageError(option, found=repr(text), expected=expected, fix=f"Did you mean {number}%?")
    return share


def ab(
    terminal: ShopTerminal,
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
) -> None:
    """Compare the arms of a test: differences with intervals, a check of the sample ratio, and a verdict in words.

    Several arms and metrics are adjusted for by Holm's method. A CSV file is read as the settings of the shop say.
    """
    from disco.adapters.tables.single_files import read_experiment_file
    from disco.operations.experiment import parse_metric, read_experiment
    from disco.records.errors import InputError

    try:
        figures = [name for text in metric for name in parse_metric(text) if name is not None]
    except InputError as error:
        raise UsageError("--metric", found=error.found, expected=error.expected) from None
    known = [*dict.fromkeys(before or [])]
    written = terminal.shop().settings.written
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
    terminal.show(found, _text(found))


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
    figure = Number(decimals=4)
    columns: dict[Column | str, Callable[[ArmDifference], Cell]] = {
        "Metric": lambda one: one.metric,
        "Arm": lambda one: one.arm,
        Column("Value", figure): lambda one: one.value,
        Column("Control", figure): lambda one: one.control,
        Column(f"Difference ({level})", Number(decimals=4, signed=True)): lambda one: one.difference,
        Column(f"Relative ({level})", Percent(decimals=2, signed=True)): lambda one: with_limits(one.relative),
        Column("p", PValue()): lambda one: one.p_value,
    }
    if tested > 1:
        columns[Column("p, all comparisons", PValue())] = lambda one: one.holm
    everybody = sum(found.customers.values())
    arms = Table.of(
        "Arms",
        found.customers.items(),
        {
            "Arm": lambda arm: arm[0] + (" (control)" if arm[0] == found.control else ""),
            Column("Customers", Count()): lambda arm: arm[1],
            Column("Share", Percent()): lambda arm: arm[1] / everybody,
        },
    )
    parts = [figures_text(arms), figures_text(Table.of("Differences", found.differences, columns))]
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
