"""`disco train …`: one sub-command per thing that learns."""

from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli import train_basket
from disco.entrypoints.cli.output import EngineFlag, JsonFlag, QuietFlag, progress, show
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import InputError, UsageError

if TYPE_CHECKING:
    from disco.adapters.engines import LocalEngine
    from disco.features import ContextNetwork

CONTEXT_EXAMPLE = "Example: disco train context --features features.parquet --heads level+slope -o context.safetensors"

train = typer.Typer(name="train", help="Train what the decisions stand on.", no_args_is_help=True)
train.command("basket", epilog=train_basket.EXAMPLE)(train_basket.basket)


def register(app: typer.Typer) -> None:
    app.add_typer(train)


@train.command("context", epilog=CONTEXT_EXAMPLE)
def context(
    features: Annotated[
        Path | None,
        typer.Option(
            help="From `disco features`, as of the start of the window; or rows with log_full_price and depth."
        ),
    ] = None,
    tables: Annotated[
        str | None, typer.Option(help="Folder of tables, or a database URL (default: where the features came from).")
    ] = None,
    window_start: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="First day of the orders to learn from (with --tables alone)."),
    ] = None,
    catalogue: Annotated[
        Path | None, typer.Option(help="YAML of features to drop and to add (with --tables alone).")
    ] = None,
    months: Annotated[int, typer.Option(min=1, max=24, help="Length of the window of orders.")] = 3,
    heads: Annotated[
        str, typer.Option(help="level (as in the paper) or level+slope (also knows elasticity).")
    ] = "level",
    dimensions: Annotated[int, typer.Option(min=1, help="Numbers in a customer's context.")] = 6,
    max_epochs: Annotated[int, typer.Option(min=1, help="Passes over the rows at most.")] = 40,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Equal seeds and rows give equal networks.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: EngineFlag = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="File of the network.")] = Path("context.safetensors"),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Train the network that turns a customer's features into a context.

    It learns ln full price from the orders of a window, each with the buyer's features before the window. Where the
    tables hold the month after the window, the network is tested on it.
    """
    from tempfile import TemporaryDirectory

    from disco.entrypoints.shop import Shop
    from disco.features import ContextNetwork
    from disco.features.cautions import collected
    from disco.features.network import DEVICES, HEADS

    for option, found, allowed in (("--heads", heads, HEADS), ("--device", device, DEVICES)):
        if found not in allowed:
            raise UsageError(option, found=found, expected=" or ".join(allowed))
    check_outputs(out, inputs=(features, tables, catalogue), replaces="network")
    runs_on = Shop.open(Path(), engine=engine).engine
    network = ContextNetwork(heads=heads, dimensions=dimensions, max_epochs=max_epochs, seed=seed, device=device)
    with collected() as notes, TemporaryDirectory(prefix="disco-train-") as folder:
        made = _training_rows(features, tables, window_start, months, catalogue, Path(folder), runs_on)
        check_outputs(out, inputs=(made.tables,), replaces="network")  # a file of features names its tables
        with progress(quiet=quiet or as_json) as bar:
            task = bar.add_task("training, epochs", total=max_epochs)
            network.fit(made.rows, progress=lambda done, _: bar.update(task, completed=done))
        network.save(out)
        tested = None if made.tables is None else _test(network, made, runs_on)
    for note in notes:
        typer.secho(f"warning: {note}", fg="yellow", err=True)
    epochs = len(network.validation_losses_)
    best = min(network.validation_losses_, default=None)
    result = {"file": str(out), "heads": heads, "dimensions": dimensions, "epochs": epochs, "validation_mse": best}
    text = f"Context network ({heads}, {dimensions} numbers) after {epochs} epochs in {out}."
    if tested is not None:
        figures = f"WAPE {tested['wape']:.3f}, Spearman {tested['spearman']:.3f}"
        text += f" On the {tested['rows']:,} orders of the month after: {figures}."
    show({**result, "test": tested, "warnings": notes}, text, as_json=as_json, quiet=quiet)


@dataclass(frozen=True, slots=True)
class _Made:
    """Parquet of training rows; where their tables are and the end of their window, unless they came as a file."""

    rows: Path
    tables: str | None = None
    end: date | None = None


def _training_rows(
    features: Path | None,
    tables: str | None,
    window_start: datetime | None,
    months: int,
    catalogue: Path | None,
    folder: Path,
    engine: "LocalEngine",
) -> _Made:
    import pyarrow.dataset as ds

    from disco.adapters.tables import open_tables
    from disco.entrypoints.files import read_yaml
    from disco.features.files import built_as_of, built_features, built_from, read_schema, write_batches
    from disco.features.selection import read_selection
    from disco.features.training_set import months_later, training_batches

    built: Any = None
    start = window_start.date() if window_start is not None else None
    if features is not None and catalogue is not None:
        raise UsageError("--catalogue", found="it beside --features", expected="one of them: the file has its features")
    chosen = None if catalogue is None else read_selection(read_yaml(catalogue), where=str(catalogue))
    if features is not None:
        schema = read_schema(features)
        if "log_full_price" in schema.names:
            return _Made(features)
        as_of = built_as_of(schema)
        tables, chosen = tables or built_from(schema), built_features(schema)
        if as_of is None:
            raise InputError(str(features), found="no as-of date", expected="a file written by `disco features`")
        if start is not None and str(start) != as_of:
            raise UsageError("--window-start", found=start, expected=f"{as_of}, the date of the features")
        built, start = ds.dataset(features, format="parquet"), date.fromisoformat(as_of)
    if tables is None or start is None:
        raise UsageError(
            "train context",
            found="neither --features nor --tables with --window-start",
            expected="--features FILE, or --tables DIR --window-start DATE",
        )
    end = months_later(start, months)
    rows = folder / "rows.parquet"
    with (
        open_tables(tables) as source,
        training_batches(
            source, window_start=start, window_end=end, features=chosen, built=built, threads=engine.threads
        ) as (
            schema,
            batches,
        ),
    ):
        count = write_batches(rows, schema, batches)
    if not count:
        raise InputError(
            "training window",
            found=f"no orders from {start} up to {end} of customers with a purchase in the year before",
            expected="orders to learn from",
            fix="Take features as of an earlier date: the window begins there.",
        )
    return _Made(rows, tables, end)


def _test(network: "ContextNetwork", made: _Made, engine: "LocalEngine") -> dict[str, Any] | None:
    """Accuracy on the month after the window; None where it has no orders."""
    from dataclasses import asdict

    from disco.adapters.tables import open_tables
    from disco.evaluation.accuracy import accuracy
    from disco.features.training_set import months_later, training_set

    assert made.tables is not None  # for the type checker: rows that came as a file are not tested
    assert made.end is not None
    with open_tables(made.tables) as source:
        after = months_later(made.end, 1)
        test = training_set(
            source, window_start=made.end, window_end=after, features=network.catalogue_, threads=engine.threads
        )
    if len(test) < 2:
        return None
    return asdict(accuracy(network.predict(test.X, test.depth, engine=engine), test.log_full_price))
