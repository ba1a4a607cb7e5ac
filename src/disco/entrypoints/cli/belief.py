"""`disco belief [VERSION]`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show
from disco.records.errors import StateError

if TYPE_CHECKING:
    from disco.operations.learned_curve import LearnedCurve
    from disco.records.life import VersionRecord
    from disco.reports.table import Cell


def register(app: typer.Typer) -> None:
    app.command("belief", epilog="Example: disco belief 3")(belief)


def belief(
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="A version `disco learn` made; default: the active one.")
    ] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Show what was learned: per depth, the basket of an average customer and the share of receivers who buy.

    With 90 % intervals of the belief itself, not of single customers. They narrow as campaigns are learned.
    """
    from dataclasses import asdict

    from disco.entrypoints.shop import Shop
    from disco.operations.learned_curve import learned_curve
    from disco.operations.versions import belief_of

    with Shop.open(shop).store() as store, store.reading() as shelves:
        record = shelves.version("main", version)
        made = [kept.number for kept in shelves.versions("main")]
    if record is None:
        there = f"versions {made[0]} to {made[-1]}" if made else "none: `disco learn CAMPAIGN` makes the first"
        raise StateError("belief", found=f"no version {version or ''}".strip(), expected=there)
    curve = learned_curve(belief_of(record))
    result: dict[str, Any] = {
        "version": record.number,
        "made_at": record.made_at.isoformat(timespec="seconds"),
        "campaigns": list(record.campaigns),
        "purchases": sum(point.purchases for point in curve),
        "depths": [asdict(point) for point in curve],
    }
    show(result, _text(record, curve), as_json=as_json, quiet=quiet)


def _text(record: "VersionRecord", curve: "tuple[LearnedCurve, ...]") -> str:
    from disco.records.depths import depth_percent
    from disco.reports import Column, Count, Estimate, Money, Percent, Table

    rows: list[list[Cell]] = [
        [
            depth_percent(point.depth),
            point.purchases,
            Estimate(point.basket.mean, point.basket.lower, point.basket.upper),
            point.codes,
            Estimate(point.engagement.mean, point.engagement.lower, point.engagement.upper),
        ]
        for point in curve
    ]
    columns: list[Column | str] = [
        "Depth",
        Column("Purchases", Count()),
        Column("Basket before the discount (90%)", Money()),
        Column("Codes", Count()),
        Column("Receivers who buy (90%)", Percent()),
    ]
    count = len(record.campaigns)
    head = f"Version {record.number}, from {count} campaign{'s'[: count != 1]}: {', '.join(record.campaigns)}."
    return f"{head}\n{figures_text(Table(caption='Belief', columns=columns, rows=rows))}"
