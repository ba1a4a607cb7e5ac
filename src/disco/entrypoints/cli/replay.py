"""`disco replay LOG --policy NAME`."""

from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import Terminal, add_command, figures_text, warn
from disco.records.errors import InputError, LimitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disco.operations.replay import ReplayedPolicy, ReplayFigure, ReplayResult
    from disco.views.table import Cell

EXAMPLE = "disco replay log.parquet --context x1,x2 --policy thompson --policy greedy --caps 0.1=25%,0.2=500"


_OPTIONS = {
    "policies": "--policy",
    "policy": "--policy",
    "cap": "--caps",
    "caps": "--caps",
    "context, strata": "--context, --strata",
    "encoding": "--encoding",
}
_OLDER_NAMES = {"rbf": "radial_basis", "spline": "smooth_spline"}  # of encodings, still accepted


def register(app: typer.Typer) -> None:
    add_command(app, replay, example=EXAMPLE)


def replay(
    terminal: Terminal,
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="Parquet, in time order: customer_id, context, depth, full_price.")
    ],
    context: Annotated[str, typer.Option(help="Names of the context columns: x1,x2,…")],
    policy: Annotated[
        list[str], typer.Option(help="thompson, ucb, epsilon_greedy, greedy, random or ulcc; may be repeated.")
    ],
    caps: Annotated[str, typer.Option(help="Most customers per depth and batch: 0.1=25%,0.2=500.")] = "",
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Customers presented together (default: 5,000, or all where there are fewer)."),
    ] = None,
    warm: Annotated[Path | None, typer.Option(help="An earlier log to learn from before the start.")] = None,
    passes: Annotated[
        int, typer.Option(min=1, help="Passes over the log with different draws, over which figures are averaged.")
    ] = 8,
    repeats: Annotated[
        int,
        typer.Option(min=0, help="Further passes over resampled logs for the standard errors; 0: by the delta method."),
    ] = 20,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal results.")] = 0,
    revenue_weight: Annotated[
        float | None, typer.Option(help="The weight w of w·R − C (default: revenue alone).")
    ] = None,
    strata: Annotated[
        str, typer.Option(help="Columns within which depths were assigned at random, each in its own shares.")
    ] = "",
    propensity: Annotated[
        str,
        typer.Option(
            help="column: as the log says; without one, uniform, or shares within --strata. observed: always shares."
        ),
    ] = "column",
    skew: Annotated[str, typer.Option(help="Unequal propensities: resample to uniform, or weight.")] = "resample",
    encoding: Annotated[
        str, typer.Option(help="Depth encoding of the model: radial_basis, smooth_spline or linear.")
    ] = "radial_basis",
    depth_scale: Annotated[float, typer.Option(help="The encoding sees depth / depth_scale.")] = 1.0,
    forgetting: Annotated[
        float,
        typer.Option(help="Weight of a batch's baskets in what is learned, per batch since; 1: none is forgotten."),
    ] = 1.0,
    learn_engagement: Annotated[
        bool,
        typer.Option("--learn-engagement", help="Learn the share of receivers who buy, instead of taking it as 1."),
    ] = False,
    engagement_score: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Log odds that a customer uses a code, up to a constant; null: not known. Each customer then has a "
            "rate of their own, learned as with --learn-engagement.",
        ),
    ] = None,
) -> None:
    """Estimate what policies would have earned, on the log of a campaign whose depths were assigned at random.

    The policies decide batch by batch under the caps. Where one chooses the depth that was played, the outcome counts
    and is learned from (rejection sampling). Values are per customer and per purchaser, and against random codes under
    the same caps in the same passes.
    """
    from disco.entrypoints.python import Shop

    if propensity not in ("column", "observed"):
        raise UsageError("--propensity", found=propensity, expected="column or observed")
    if skew not in ("resample", "weight"):
        raise UsageError("--skew", found=skew, expected="resample or weight")
    if revenue_weight is not None and not 0 < revenue_weight < 1e12:
        raise UsageError("--revenue-weight", found=revenue_weight, expected="a positive number below 10¹²")
    if not (isfinite(depth_scale) and depth_scale > 0):
        raise UsageError("--depth-scale", found=depth_scale, expected="a positive, finite number")
    if not 0 < forgetting <= 1:
        raise UsageError("--forgetting", found=forgetting, expected="a number above 0, at most 1")
    columns, groups = _names(context, "--context"), _names(strata, "--strata")
    if not columns:
        raise UsageError("--context", found=repr(context), expected="names of context columns, such as x1,x2")
    limits = _caps(caps)
    with terminal.progress("passes over the log") as report, _options_named(engagement_score):
        result = Shop.open().replay(
            log,
            context=columns,
            policies=policy,
            caps=limits,
            batch=batch,
            warm=warm,
            passes=passes,
            repeats=repeats,
            seed=seed,
            revenue_weight=revenue_weight,
            strata=groups,
            propensity="observed" if propensity == "observed" else "column",
            skew="weight" if skew == "weight" else "resample",
            encoding=_OLDER_NAMES.get(encoding, encoding),
            depth_scale=depth_scale,
            forgetting=forgetting,
            learn_engagement=learn_engagement,
            engagement_score=engagement_score,
            report=lambda done, total, _: report(done, total),
            warn=warn,
        )
    terminal.show(result, _text(result))


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) != len(names):
        raise UsageError(option, found=repr(text), expected="each name once")
    return names


def _caps(text: str) -> dict[str, int | str]:
    """`0.1=25%,0.2=500` by depth."""
    caps: dict[str, int | str] = {}
    for part in _names(text, "--caps"):
        name, equals, limit = (word.strip() for word in part.partition("="))
        if not equals:
            expected = "DEPTH=COUNT or DEPTH=SHARE%, such as 0.1=25%"
            raise UsageError("--caps", found=repr(part), expected=expected)
        if name in caps:
            raise UsageError("--caps", found=f"depth {name} twice", expected="each depth once")
        caps[name] = limit
    return caps


@contextmanager
def _options_named(score: str | None) -> "Iterator[None]":
    """What is wrong with a parameter, as wrong usage of its option."""
    try:
        yield
    except InputError as error:
        option = _OPTIONS.get(error.what.partition(" of ")[0])
        if option is None or isinstance(error, LimitError):  # what the log cannot give
            raise
        if error.what == "context, strata" and error.found == score:
            option = "--engagement-score"
        raise UsageError(option, found=error.found, expected=error.expected, fix=error.fix) from None


def _text(result: "ReplayResult") -> str:
    from disco.records.estimate import Estimate
    from disco.views.formats import Count, Number, Percent
    from disco.views.table import Column, Table

    policies = {"random": result.random} | dict(result.policies)
    weighted = result.random.objective_per_customer is not None

    def estimate(found: "ReplayFigure | None") -> "Cell":
        if found is None or found.value is None:
            return None
        if found.lower is None or found.upper is None:
            return Estimate(found.value)
        return Estimate(found.value, found.lower, found.upper)

    rows: list[list[Cell]] = []
    for name, found in policies.items():
        is_random = name == "random"
        row: list[Cell] = [name, estimate(found.revenue_per_customer.dr)]
        row.append(None if is_random else estimate(found.revenue_against_random))
        if weighted:
            row.append(None if found.objective_per_customer is None else estimate(found.objective_per_customer.dr))
            row.append(None if is_random else estimate(found.objective_against_random))
        rows.append([*row, found.average_basket_value, found.presented, found.accepted, found.acceptance])
    figure, change = Number(decimals=3), Number(decimals=3, signed=True)
    objective = [Column("Objective per customer (95%)", figure), Column("Against random (95%)", change)]
    columns: list[Column | str] = [
        "Policy",
        Column("Revenue per customer (95%)", figure),
        Column("Against random (95%)", change),
        *(objective if weighted else []),
        Column("Basket value", Number(decimals=2)),
        Column("Presented", Count()),
        Column("Accepted", Count()),
        Column("Share accepted", Percent()),
    ]
    over = "1 pass" if result.passes == 1 else f"means over {result.passes} passes"
    errors = f"from {result.repeats} resampled passes" if result.repeats > 1 else "by the delta method"
    head = f"{result.rows:,} rows, batches of {result.batch:,}; {over}, errors {errors}"
    unknown = [name for name, found in policies.items() if _has_no_interval(found)]
    luck = [
        f"{name} ±{found.draw_error:.3g}"
        for name, found in policies.items()
        if found.draw_error is not None and name not in unknown
    ]
    tail = f"\nOf the error of revenue per customer, the luck of the draws is: {', '.join(luck)}." if luck else ""
    if result.random.presented < result.rows / 2:
        tail += (
            f"\nResampling to equal shares of the depths left {result.random.presented:,} of {result.rows:,} rows. "
            "With --skew weight all rows count."
        )
    tail += "".join(f"\n{sentence}" for sentence in result.assumptions)
    if unknown:
        tail += f"\nFewer than two accepted purchases, so no interval: {', '.join(unknown)}."
    parts = [f"{head}\n{figures_text(Table(caption='Replay', columns=columns, rows=rows))}"]
    if result.differences:
        pairs: list[list[Cell]] = [
            [f"{one.policy} less {one.other}", estimate(one.revenue), *([estimate(one.objective)] if weighted else [])]
            for one in result.differences
        ]
        names = ["Revenue", *(["Objective"] if weighted else [])]
        shown: list[Column | str] = ["Policies", *(Column(f"{name} per customer (95%)", change) for name in names)]
        parts.append(figures_text(Table(caption="Differences between policies", columns=shown, rows=pairs)))
    return "\n\n".join([*parts, *([tail.lstrip("\n")] if tail else [])])


def _has_no_interval(found: "ReplayedPolicy") -> bool:
    value = found.revenue_per_customer.dr
    return value is not None and value.lower is None
