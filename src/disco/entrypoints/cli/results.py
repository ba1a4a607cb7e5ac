"""`disco results [CAMPAIGN]`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, day_of, figures_text, show
from disco.entrypoints.outputs import check_outputs

if TYPE_CHECKING:
    from disco.operations.results import AllResults, CampaignResults
    from disco.reports import Table


def register(app: typer.Typer) -> None:
    app.command("results", epilog="Example: disco results spring-27 --html spring.html")(results)


def results(
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="A launched campaign; without one, all of them in brief.")
    ] = None,
    as_of: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The day of the read-out; default: today.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page.")] = None,
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Show the results of a campaign: what each group bought, and the A/B test of decided against random codes.

    Differences are per customer, with 95% intervals, adjusted for spend in the year before. The sizes of the groups are
    compared with the plan. Before the last code has expired, the verdict uses intervals that stay valid at every look.
    """
    from disco.entrypoints.python import Shop
    from disco.reports.campaign_results import campaign_report, campaigns_report

    check_outputs(html, shop=shop)
    here, day = Shop.open(shop), day_of(as_of)
    if campaign is None:
        every = here.results(as_of=day)
        text, report = _all_text(every), campaigns_report(every)
    else:
        one = here.results(campaign, as_of=day)
        text, report = _text(one), campaign_report(one)
    if html is not None:
        report.save(html)
    show(every if campaign is None else one, text, as_json=as_json, quiet=quiet)


def _text(found: "CampaignResults") -> str:
    from disco.reports import campaign_results as tables

    several = [
        tables.arms_table(found),
        tables.findings_table(found),
        tables.undifferentiated_table(found),
        tables.incremental_table(found),
    ]
    return "\n\n".join([*(_with_caption(table) for table in several if table is not None), "\n".join(found.words)])


def _all_text(found: "AllResults") -> str:
    from disco.reports import campaign_results as tables

    together = tables.pooled_table(found)
    parts = [tables.pooled_words(found), figures_text(tables.campaigns_table(found.campaigns))]
    return "\n\n".join(filter(None, [*parts, None if together is None else _with_caption(together)]))


def _with_caption(table: "Table") -> str:
    return "\n".join(filter(None, (table.caption, figures_text(table), table.note)))
