"""`disco belief [VERSION]`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show, warn

if TYPE_CHECKING:
    from disco.operations.learned import LearnedBelief
    from disco.views.table import Cell


def register(app: typer.Typer) -> None:
    app.command("belief", epilog="Example: disco belief 3")(belief)


def belief(
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="A version of the model; default: the active one.")
    ] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Show what the model has learned: per depth, the basket of an average customer, the share of receivers who buy,
    and the revenue to expect of a code sent.

    The 90% intervals are those of the averages, not of single customers. They narrow as campaigns are learned.
    """
    from disco.entrypoints.python import Shop

    found = Shop.open(shop).belief(version)
    show(found, _text(found), as_json=as_json, quiet=quiet)
    warn(found.warnings)


def _text(found: "LearnedBelief") -> str:
    from disco.records.depths import depth_percent
    from disco.records.estimate import Estimate
    from disco.records.money import read_currency
    from disco.views.formats import Count, Money, Percent
    from disco.views.table import Column, Table

    rows: list[list[Cell]] = [
        [
            depth_percent(point.depth),
            point.purchases,
            Estimate(point.basket.value, point.basket.lower, point.basket.upper),
            point.codes,
            Estimate(point.engagement.value, point.engagement.lower, point.engagement.upper),
            Estimate(point.revenue_per_code.value, point.revenue_per_code.lower, point.revenue_per_code.upper),
        ]
        for point in found.depths
    ]
    columns: list[Column | str] = [
        "Depth",
        Column("Purchases", Count()),
        Column("Basket before the discount (90%)", Money(read_currency(found.currency))),
        Column("Codes", Count()),
        Column("Receivers who buy (90%)", Percent()),
        Column("Revenue per code (90%)", Money(read_currency(found.currency))),
    ]
    count = len(found.campaigns)
    head = f"Version {found.version}, from {count} campaign{'s'[: count != 1]}: {', '.join(found.campaigns)}."
    table = f"{head}\n{figures_text(Table(caption='Belief', columns=columns, rows=rows))}"
    return table if found.movement is None else f"{table}\n{found.movement}"
