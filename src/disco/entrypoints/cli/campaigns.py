"""`disco campaigns [CAMPAIGN]`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show
from disco.records.life import Disposition

if TYPE_CHECKING:
    from disco.records.life import CampaignRecord
    from disco.records.ports import Shelves

_FATES = tuple(str(disposition) for disposition in Disposition)


def register(app: typer.Typer) -> None:
    app.command("campaigns", epilog="Example: disco campaigns spring-27")(campaigns)


def campaigns(
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="Show this one with its batches of outcomes.")
    ] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """List the launched campaigns: state, dates, codes, outcomes; or one of them with every batch it received."""
    from disco.entrypoints.shop import Shop

    with Shop.open(shop).store() as store, store.reading() as shelves:
        records = shelves.campaigns() if campaign is None else (shelves.campaign(campaign),)
        listed = [_campaign(shelves, record) for record in records]
        active = shelves.version("main")
    result: dict[str, Any] = {"campaigns": listed, "active_version": None if active is None else active.number}
    if campaign is not None:
        text = _one(listed[0])
    elif listed:
        learned = "nothing learned" if active is None else f"belief version {active.number} is active"
        text = f"{figures_text(_table(listed))}\n{len(listed)} campaign{'s'[: len(listed) != 1]}; {learned}."
    else:
        text = "No campaign was launched yet."
    show(result, text, as_json=as_json, quiet=quiet)


def _campaign(shelves: "Shelves", record: "CampaignRecord") -> dict[str, Any]:
    summary = json.loads(shelves.plan(record.plan_id).summary)["summary"]
    counted = shelves.counts(record.campaign).to_pylist()
    batches = []
    for batch in shelves.batches(record.campaign):
        fates = {row["disposition"]: row["rows"] for row in counted if row["batch_id"] == batch.batch_id}
        batches.append(
            {
                "batch_id": batch.batch_id,
                "source": batch.source,
                "received_at": batch.received_at.isoformat(timespec="seconds"),
                "reverted_at": None if batch.reverted_at is None else batch.reverted_at.isoformat(timespec="seconds"),
                **{fate: fates.get(fate, 0) for fate in _FATES},
            }
        )
    return {
        "campaign": record.campaign,
        "state": str(record.state),
        "plan_id": record.plan_id,
        "policy": record.plan.policy.name,
        "valid_from": str(record.plan.valid.start),
        "valid_before": str(record.plan.valid.end),
        "version": record.version,
        "customers": summary["customers"],
        "codes": sum(sum(arm["codes"].values()) for arm in summary["arms"].values()),
        "outcomes": {fate: sum(batch[fate] for batch in batches) for fate in _FATES},
        "reserve": {str(depth): codes for depth, codes in shelves.reserve(record.campaign).items()},
        "batches": batches,
    }


def _table(listed: list[dict[str, Any]]) -> Any:
    from disco.reports import Column, Count, Table

    names = ("campaign", "state", "policy", "valid_from", "valid_before")
    rows = [
        [
            *(one[name] for name in names),
            "–" if one["version"] is None else str(one["version"]),
            one["customers"],
            one["codes"],
            one["outcomes"][str(Disposition.APPLIED)],
        ]
        for one in listed
    ]
    heads = [*(name.replace("_", " ").capitalize() for name in names), "Belief"]
    counts = [Column(name, Count()) for name in ("Customers", "Codes", "Outcomes")]
    return Table(caption="Campaigns", columns=[*heads, *counts], rows=rows)


def _one(found: dict[str, Any]) -> str:
    from disco.records.depths import depth_percent
    from disco.reports import Column, Count, Table

    parts = [figures_text(_table([found])), f"Plan {found['plan_id']}."]
    left = [
        f"{'no limit' if codes is None else codes} of {depth_percent(float(depth))}"
        for depth, codes in found["reserve"].items()
    ]
    parts.append(f"Codes left for late arrivals: {', '.join(left)}.")
    if found["batches"]:
        rows = [
            [
                batch["batch_id"],
                batch["source"],
                batch["received_at"],
                "reverted" if batch["reverted_at"] else "in force",
                *(batch[fate] for fate in _FATES),
            ]
            for batch in found["batches"]
        ]
        counts = [Column(fate.capitalize(), Count()) for fate in _FATES]
        table = Table(caption="Batches", columns=["Batch", "Source", "Received", "State", *counts], rows=rows)
        parts.append(figures_text(table))
    return "\n\n".join(parts)
