"""`disco campaigns [CAMPAIGN]`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show

if TYPE_CHECKING:
    from disco.operations.campaign_list import CampaignEntry, CampaignList
    from disco.reports import Table
    from disco.reports.table import Cell


def register(app: typer.Typer) -> None:
    app.command("campaigns", epilog="Example: disco campaigns spring-27")(campaigns)


def campaigns(
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="Show this campaign with its batches of outcomes.")
    ] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """List the launched campaigns with their states, dates, codes and outcomes; or show one with its batches."""
    from disco.entrypoints.python import Shop

    found = Shop.open(shop).campaigns(campaign)
    show(found, _text(found) if campaign is None else _one(found.campaigns[0]), as_json=as_json, quiet=quiet)


def _text(found: "CampaignList") -> str:
    count = len(found.campaigns)
    if not count:
        return "No campaign was launched yet."
    active = found.active_version
    learned = "nothing learned yet" if active is None else f"version {active} of the model is active"
    return f"{figures_text(_table(found.campaigns))}\n{count} campaign{'s'[: count != 1]}; {learned}."


def _table(listed: "Sequence[CampaignEntry]") -> "Table":
    from disco.records.life import Disposition
    from disco.reports import Column, Count, Table

    names = ("campaign", "state", "policy", "valid_from", "valid_before")
    rows: list[list[Cell]] = [
        [
            *(str(getattr(one, name)) for name in names),
            "–" if one.version is None else str(one.version),
            one.customers,
            one.codes,
            one.outcomes[Disposition.APPLIED],
        ]
        for one in listed
    ]
    heads = [*(name.replace("_", " ").capitalize() for name in names), "Model"]
    counts = [Column(name, Count()) for name in ("Customers", "Codes", "Outcomes")]
    return Table(caption="Campaigns", columns=[*heads, *counts], rows=rows)


def _one(found: "CampaignEntry") -> str:
    from disco.records.depths import depth_percent
    from disco.records.life import Disposition
    from disco.reports import Column, Count, Table

    parts = [figures_text(_table([found])), f"Plan {found.plan_id}."]
    left = [
        f"{'no limit' if codes is None else codes} of {depth_percent(depth)}" for depth, codes in found.reserve.items()
    ]
    parts.append(f"Codes left for late arrivals: {', '.join(left)}.")
    if found.batches:
        kinds = [str(kind) for kind in Disposition]
        rows: list[list[Cell]] = [
            [
                batch.batch_id,
                batch.source,
                batch.received_at.isoformat(timespec="seconds"),
                "in force" if batch.reverted_at is None else "reverted",
                *(getattr(batch, kind) for kind in kinds),
            ]
            for batch in found.batches
        ]
        counts = [Column(kind.capitalize(), Count()) for kind in kinds]
        table = Table(caption="Batches", columns=["Batch", "Source", "Received", "State", *counts], rows=rows)
        parts.append(figures_text(table))
    return "\n\n".join(parts)
