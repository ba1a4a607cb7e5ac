"""Features of customers: `disco features`, and `disco check`, which compares them with those of training."""

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import (
    EngineFlag,
    MasterFlag,
    Terminal,
    add_command,
    checks_text,
    day_of,
    open_shop,
    warn,
)
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from disco.operations.upkeep import CheckResult

_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([KMGT])i?B", re.IGNORECASE)
_MEGABYTES = {"K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
_LEAST_MEGABYTES = 64  # below, DuckDB cannot even begin
FEATURES_EXAMPLE = "disco features shop/data --as-of 2025-06-01 -o features.parquet"
CHECK_EXAMPLE = "disco check --shop shop/ --as-of 2025-06-01"


def register(app: typer.Typer) -> None:
    add_command(app, features, example=FEATURES_EXAMPLE)
    add_command(app, check, example=CHECK_EXAMPLE)


def features(
    terminal: Terminal,
    tables: Annotated[str, typer.Argument(metavar="DIR", help="Folder of tables, or a database URL.")],
    as_of: Annotated[
        datetime, typer.Option("--as-of", formats=["%Y-%m-%d"], help="Only rows dated before this day count.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file to write.")],
    catalogue: Annotated[
        Path | None, typer.Option(help="YAML of features to drop and to add (docs/features.md).")
    ] = None,
    engine: EngineFlag = None,
    master: MasterFlag = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads to use (default: the setting `threads`, or one per processor).")
    ] = None,
    memory_limit: Annotated[str | None, typer.Option(help="Such as 4GB; beyond it, DuckDB spills to disk.")] = None,
    shop: Annotated[Path, typer.Option(help="Folder with disco.yaml, which says how the tables are written.")] = Path(),
) -> None:
    """Compute the features of every customer as of a date, from the year before: the 76 of the catalogue, or your own.

    docs/features.md describes each of them. A missing table gives a warning, and its features are null.
    """
    from disco.adapters.files import read_yaml
    from disco.entrypoints.python import tables_opener
    from disco.features.catalogue import read_selection
    from disco.operations.training import write_features

    day = day_of(as_of)
    if memory_limit is not None:
        _check_size(memory_limit)
    check_outputs(out, inputs=(tables, catalogue))
    here = open_shop(shop, engine=engine, master=master, threads=threads)
    done = write_features(
        tables_opener(shop),
        tables,
        as_of=day,
        out=out,
        features=None if catalogue is None else read_selection(read_yaml(catalogue), where=str(catalogue)),
        threads=here.engine.threads,
        memory_limit=memory_limit,
        engine=here.cluster_engine or here.engine,
    )
    warn(done.warnings)
    text = f"{done.customers:,} customers × {done.features} features as of {done.as_of} in {out}"
    terminal.show(done, f"{text}.", done=text)


def _check_size(text: str) -> None:
    size = _SIZE.fullmatch(text.strip())
    if size is None or float(size[1]) * _MEGABYTES[size[2].upper()] < _LEAST_MEGABYTES:
        expected = f"a size such as 4GB, at least {_LEAST_MEGABYTES}MB"
        raise UsageError("--memory-limit", found=repr(text), expected=expected)


def check(
    terminal: Terminal,
    campaign: Annotated[
        str | None,
        typer.Argument(metavar="[CAMPAIGN]", help="A launched campaign; without one, the shop's customers today."),
    ] = None,
    network: Annotated[
        Path | None, typer.Option(help="From `disco train context` (default: `context` of disco.yaml).")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="From `disco features` (default: built from the tables of disco.yaml).")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            "--as-of",
            formats=["%Y-%m-%d"],
            help="Date of the features (default: the day after the last order) or of the read-out.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write a page for scientists: forecasts of past campaigns against what happened."),
    ] = None,
    shop: Annotated[Path, typer.Option(help="Folder with disco.yaml.")] = Path(),
) -> None:
    """Check whether decisions can be based on these features and this network; exit 1 when a check fails.

    Looks for columns that are missing or in another unit, features that drifted since training, constant features,
    values never seen in training, and contexts with dead units or customers at their limits. docs/features.md has the
    thresholds. With a CAMPAIGN: the features it was decided on, and its groups, outcomes, forecast, evidence and model.
    """
    from disco.features import ContextNetwork
    from disco.operations.upkeep import check_features

    if features is not None and as_of is not None:
        raise UsageError("--as-of cannot be combined with --features: the file has its own date")
    if features is not None and campaign is not None:
        raise UsageError("--features cannot be combined with a campaign: a campaign has its own")
    if features is not None and html is not None:
        raise UsageError("--features cannot be combined with --html: a file of features has no forecasts")
    check_outputs(html, shop=shop)
    trained = open_shop(shop).data.network() if network is None else ContextNetwork.load(network)
    if features is not None:
        found = check_features(trained, features)
    else:
        found = open_shop(shop).check(campaign, as_of=day_of(as_of), network=trained)
    warn(found.warnings)
    if html is not None:
        from disco.views.predictive import predictive_report

        predictive_report(open_shop(shop).predictive(campaign)).save(html)
    terminal.show(found, _check_text(found))
    if found.failed:
        raise typer.Exit(1)


def _check_text(found: "CheckResult") -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in found.counts.items() if count)
    verdict = "failed" if found.failed else "passed"
    return f"{checks_text(found.diagnoses)}\nThe check {verdict}: {counts}."
