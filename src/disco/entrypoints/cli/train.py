"""`disco train …`: train the context network or the basket model."""

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from disco.entrypoints.cli.output import (
    EngineFlag,
    EngineTerminal,
    MasterFlag,
    Terminal,
    add_command,
    day_of,
    open_shop,
    warn,
)
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import UsageError
from disco.records.wording import counted

CONTEXT_EXAMPLE = "disco train context --features features.parquet -o context.safetensors"


def register(app: typer.Typer) -> None:
    commands = typer.Typer(help="Train the context network or the basket model.", no_args_is_help=True)
    add_command(commands, context, example=CONTEXT_EXAMPLE)
    add_command(commands, basket, example="disco train basket --campaign A --campaign B")
    app.add_typer(commands, name="train")


def context(
    terminal: Terminal,
    features: Annotated[
        Path | None,
        typer.Option(
            help="From `disco features`, as of the start of the window; or rows with log_full_price and depth."
        ),
    ] = None,
    tables: Annotated[
        str | None, typer.Option(help="Folder of tables, or a database URL (default: that of the features).")
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
        str,
        typer.Option(
            help="level (as in the paper), level+slope (also learns elasticity) or level+slope+engagement (also learns "
            "who uses a code)."
        ),
    ] = "level+slope+engagement",
    maturity_days: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=366,
            help="A code counts as unused so many days after its sending (default: the setting `maturity_days`).",
        ),
    ] = None,
    dimensions: Annotated[int, typer.Option(min=1, help="Numbers in a customer's context.")] = 6,
    only_better: Annotated[
        bool,
        typer.Option(
            "--only-better",
            help="Keep the shop's network where the new one would not have been better on past campaigns.",
        ),
    ] = False,
    max_epochs: Annotated[int, typer.Option(min=1, help="Maximum number of passes over the rows.")] = 40,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Equal seeds and rows give equal networks.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: EngineFlag = None,
    master: MasterFlag = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write the network to.")] = Path(
        "context.safetensors"
    ),
    shop: Annotated[Path, typer.Option(help="Folder with disco.yaml, which says how the tables are written.")] = Path(),
) -> None:
    """Train the network that turns a customer's features into a context.

    It learns ln(full price) from the orders of a window, and who uses a code from the codes that were sent in it, with
    each customer's features from before the window. If the tables include the month after the window, the network is
    tested on it.
    """
    from disco.adapters.files import read_yaml
    from disco.entrypoints.python import tables_opener
    from disco.features import ContextNetwork
    from disco.features.catalogue import read_selection
    from disco.features.network import DEVICES, HEADS
    from disco.operations.training import train_context

    for option, found, allowed in (("--heads", heads, HEADS), ("--device", device, DEVICES)):
        if found not in allowed:
            raise UsageError(option, found=found, expected=" or ".join(allowed))
    if features is not None and catalogue is not None:
        raise UsageError("--catalogue cannot be combined with --features: the file has its own features")
    start = day_of(window_start, option="--window-start")
    check_outputs(out, inputs=(features, tables, catalogue), replaces="network")
    here = open_shop(shop, engine=engine, master=master)
    network = ContextNetwork(
        heads=heads,
        dimensions=dimensions,
        max_epochs=max_epochs,
        habits=here.settings.habits,
        seed=seed,
        device=device,
    )
    replaces_own = out.resolve() == (here.folder / here.settings.context).resolve()
    with terminal.progress("training, epochs", total=max_epochs) as report:
        done = train_context(
            network,
            tables_opener(shop),
            out=out,
            features=features,
            tables=tables,
            window_start=start,
            months=months,
            catalogue=None if catalogue is None else read_selection(read_yaml(catalogue), where=str(catalogue)),
            maturity=here.maturity(maturity_days),
            own=here.own_codes(),
            threads=here.engine.threads,
            engine=here.engine,
            cluster=here.cluster_engine,
            compare=lambda found, until: here.against_network_in_use(found, until) if replaces_own else None,
            only_better=only_better,
            protected=here.settings.protected,
            check=lambda place: check_outputs(out, inputs=(place,), replaces="network"),
            progress=lambda epoch, _: report(epoch),
        )
    warn([re.sub(r'heads="([a-z+]+)"', r"--heads \1", note) for note in done.warnings])
    passes = counted(done.epochs, "epoch")
    text = f"Trained the context network ({done.heads}, {done.dimensions} numbers) for {passes}"
    text += f"; it is in {out}." if done.written else f". It was not written: the network in {out} stays."
    if done.codes:
        text += f" It learned who uses a code from {done.codes:,} codes."
    if done.test is not None:
        figures = f"WAPE {done.test.wape:.3f}, Spearman {done.test.spearman:.3f}"
        text += f" On the {done.test.rows:,} orders of the month after: {figures}."
    if done.comparison is not None:
        text += f" {done.comparison.sentence}"
    terminal.show(done, text, done=f"The context network is in {out}")


def basket(
    terminal: EngineTerminal,
    campaign: Annotated[
        list[str] | None, typer.Option(help="A launched campaign to learn from; may be repeated.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], help="Codes that had expired by this day count for engagement; default: today."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="Parquet of past rows instead: context columns, depth, full_price (null: no purchase)."),
    ] = None,
    context: Annotated[str | None, typer.Option(help="With --log: its context columns, such as x1,x2.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="With --log: file to write the model to.")] = None,
) -> None:
    """Train the basket model on several campaigns at once: a warm start, usually from random campaigns.

    --campaign does what `disco learn` does, for all of them in one version. --log learns from rows of your own and
    writes a model file for Python (`disco.BasketModel.load`); the shop's model stays as it is.
    """
    from disco.entrypoints.cli.outcomes import learned_text
    from disco.operations.training import train_basket_on_log

    if bool(campaign) == (log is not None):
        raise UsageError("train basket needs either --campaign (may be repeated) or --log FILE")
    here = terminal.shop()
    if log is None:
        learned = here.learn(*(campaign or ()), as_of=day_of(as_of))
        warn(learned.warnings)
        kept = f"Version {learned.version} of the model is made and active" if learned.changed else None
        terminal.show(learned, learned_text(learned), done=kept)
        return
    if context is None or out is None:
        raise UsageError("train basket --log also needs --context and --out")
    check_outputs(out, inputs=(log,), shop=terminal.folder)
    columns = [name.strip() for name in context.split(",") if name.strip()]
    done = train_basket_on_log(here.prior().basket, log, context=columns, out=out, engine=here.engine)
    text = f"Learned from {done.purchases:,} purchases; the model is in {out}"
    terminal.show(done, f"{text}.", done=text)
