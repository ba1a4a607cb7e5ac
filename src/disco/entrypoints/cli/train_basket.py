"""`disco train basket`: belief from whole campaigns, or from rows of a log."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import EngineFlag, JsonFlag, QuietFlag, ShopFolder, show, warn
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import InputError, UsageError

if TYPE_CHECKING:
    from disco.entrypoints.shop import Shop

EXAMPLE = "Example: disco train basket --campaign A --campaign B"


def basket(
    campaign: Annotated[
        list[str] | None, typer.Option(help="A launched campaign to learn from; may be repeated.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Codes that had run out by then count for engagement; default: today."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Parquet of past rows instead: context columns, depth, full_price (null: none).")
    ] = None,
    context: Annotated[str | None, typer.Option(help="With --log: its context columns, such as x1,x2.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="With --log: file of the model.")] = None,
    engine: EngineFlag = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Train the belief about baskets from several campaigns at once: a warm start, usually from random ones.

    With --campaign it is `disco learn` for all of them in one version. With --log it learns from rows of your own and
    writes a model file for Python (`disco.BasketModel.load`); the shop's belief stays as it is.
    """
    from disco.entrypoints.shop import Shop

    if bool(campaign) == (log is not None):
        raise UsageError("train basket", found="both or neither", expected="either --campaign (repeated) or --log FILE")
    here = Shop.open(shop, engine=engine)
    if log is not None:
        if context is None or out is None:
            raise UsageError("train basket --log", found="no --context or no --out", expected="both beside --log")
        result, text = _from_log(log, [name.strip() for name in context.split(",") if name.strip()], out, here)
    else:
        result, text = _from_campaigns(campaign or [], as_of or datetime.now(), here)
    show(result, text, as_json=as_json, quiet=quiet)


def _from_campaigns(campaigns: list[str], as_of: datetime, here: "Shop") -> tuple[dict[str, Any], str]:
    from disco.entrypoints.cli.learn import learned_result, learned_text
    from disco.entrypoints.shop import WallClock
    from disco.operations.learning import learn_campaigns

    with here.store() as store:
        done = learn_campaigns(store, campaigns, prior=here.prior(), as_of=as_of.date(), clock=WallClock())
    warn(done.warnings)
    return learned_result(done), learned_text(done)


def _from_log(log: Path, context: list[str], out: Path, here: "Shop") -> tuple[dict[str, Any], str]:
    from disco.evaluation.log_file import read_log

    check_outputs(out, inputs=(log,), shop=here.folder)
    rows = read_log(log, context=context, check_balance=False)
    purchases = int(rows.bought.sum())
    if not purchases:
        raise InputError(str(log), found="no row with a full_price", expected="at least one purchase to learn from")
    model = here.prior().basket.update(
        rows.context[rows.bought],
        rows.depth[rows.bought],
        rows.full_price[rows.bought],
        campaign=log.stem,
        engine=here.engine,
    )
    model.save(out)
    result = {"file": str(out), "purchases": purchases, "hash": model.hash}
    return result, f"Learned from {purchases:,} purchases; the model is in {out}."
