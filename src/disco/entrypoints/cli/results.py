"""`disco results [CAMPAIGN]`."""

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, figures_text, show
from disco.entrypoints.outputs import check_outputs
from disco.records.errors import StateError

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.adapters.store import CampaignStore
    from disco.entrypoints.shop import Shop
    from disco.operations.results import CampaignResults
    from disco.reports.campaign_results import ReadOut

_ORDERS = ["customer_id", "ordered_at", "paid", "code"]


def register(app: typer.Typer) -> None:
    app.command("results", epilog="Example: disco results spring-27 --html spring.html")(results)


def results(
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="A launched campaign; without one, all of them in short.")
    ] = None,
    as_of: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The day of the read-out; default: today.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also a self-contained page.")] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Read out a campaign: what each arm bought, and the A/B test of decided against random codes.

    Per customer assigned, with 95 % intervals, adjusted for spend in the year before; with the check that the arms have
    their planned sizes. Before the last code has run out, the verdict uses intervals that stay valid at every look.
    """
    from disco.entrypoints.shop import Shop
    from disco.reports.campaign_results import campaign_report, campaigns_report, campaigns_table

    check_outputs(html, shop=shop)
    here, day = Shop.open(shop), (as_of or datetime.now()).date()
    with here.store() as store:
        read_outs = _read_out(here, store, campaign, day)
    if campaign is None:
        text = figures_text(campaigns_table(read_outs))
        result: dict[str, Any] = {"campaigns": [_short(one) for one in read_outs]}
    else:
        text, result = _text(read_outs[0]), _short(read_outs[0])
    if html is not None:
        report = campaigns_report(read_outs) if campaign is None else campaign_report(read_outs[0])
        report.save(html)
    show({**result, "html": None if html is None else str(html)}, text, as_json=as_json, quiet=quiet)


def _read_out(shop: "Shop", store: "CampaignStore", campaign: str | None, day: date) -> "list[ReadOut]":
    import json

    from disco.operations.planned import money_from_summary
    from disco.operations.results import read_out
    from disco.records.decisions import Arm
    from disco.reports.campaign_results import ReadOut

    with store.reading() as shelves:
        records = shelves.campaigns() if campaign is None else (shelves.campaign(campaign),)
        summaries = [json.loads(shelves.plan(record.plan_id).summary)["summary"] for record in records]
    if not records:
        raise StateError("results", found="no campaign yet", expected="a launched one", fix="`disco launch` makes it.")
    orders = _orders(shop)
    return [
        ReadOut(
            read_out(store, record.campaign, as_of=day, orders=orders),
            {Arm(arm): money_from_summary(planned["money"]) for arm, planned in summary["arms"].items()},
            money_from_summary(summary["total"]),
        )
        for record, summary in zip(records, summaries, strict=True)
    ]


def _orders(shop: "Shop") -> "pa.Table | None":
    """What customers bought beside their codes; None where the shop has no table of orders."""
    import pyarrow as pa

    with shop.tables() as tables:
        if "orders" not in tables.names():
            return None
        orders = tables.scan("orders")
        return orders.select(_ORDERS) if isinstance(orders, pa.Table) else orders.to_table(columns=_ORDERS)


def _text(one: "ReadOut") -> str:
    from disco.reports import campaign_results as pages

    found = one.results
    tables = [pages.arms_table(one), pages.findings_table(found)]
    tables += [pages.undifferentiated_table(found), pages.incremental_table(found)]
    parts = [
        "\n".join(filter(None, (table.caption, figures_text(table), table.note)))
        for table in tables
        if table is not None
    ]
    return "\n\n".join([*parts, "\n".join(pages.words(found))])


def _short(one: "ReadOut") -> dict[str, Any]:
    from dataclasses import asdict

    return {**_result(one.results), "expected": None if one.forecast is None else asdict(one.forecast)}


def _result(found: "CampaignResults") -> dict[str, Any]:
    from dataclasses import asdict

    from disco.reports.campaign_results import words

    ab = found.ab
    return {
        "campaign": found.record.campaign,
        "state": str(found.record.state),
        "as_of": str(found.as_of),
        "final": found.final,
        "counts": asdict(found.counts),
        "arms": {str(arm): asdict(result) for arm, result in found.arms.items()},
        "late": None if found.late is None else asdict(found.late),
        "verdict": None if ab is None else str(ab.verdict),
        "words": words(found),
        "findings": [] if ab is None else [asdict(finding) for finding in ab.findings],
        "undifferentiated": {} if ab is None else {k: [asdict(f) for f in v] for k, v in ab.undifferentiated.items()},
        "incremental": {} if ab is None else {str(arm): asdict(one) for arm, one in ab.incremental.items()},
        "sample_ratio": None if ab is None or ab.sample_ratio is None else asdict(ab.sample_ratio),
        "detectable": found.detectable,
    }
