"""What a campaign brought: `disco results`, `disco explain`, `disco campaigns`; and `disco belief`."""

from collections.abc import Sequence
from datetime import date, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import ShopTerminal, add_command, day_of, figures_text, warn
from disco.entrypoints.outputs import check_outputs

if TYPE_CHECKING:
    from disco.operations.learned import LearnedBelief
    from disco.operations.overview import CampaignEntry, CampaignList
    from disco.operations.results import AllResults, CampaignResults
    from disco.views.table import Table


def register(app: typer.Typer) -> None:
    add_command(app, results, example="disco results spring-27 --html spring.html")
    add_command(app, explain, example="disco explain spring-27 c0000017")
    add_command(app, campaigns, example="disco campaigns spring-27")
    add_command(app, belief, example="disco belief 3")


def results(
    terminal: ShopTerminal,
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="A launched campaign; without one, all of them in brief.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="The day of the read-out; later orders do not count. Default: today."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page.")] = None,
) -> None:
    """Show the results of a campaign: what each group bought, and the A/B test of decided against random codes.

    Differences are per customer, with 95% intervals, adjusted for spend in the year before. The sizes of the groups are
    compared with the plan. Before the last code has expired, the verdict uses intervals that stay valid at every look.
    """
    check_outputs(html, shop=terminal.folder)
    here, day = terminal.shop(), day_of(as_of)
    if campaign is None:
        every = here.results(as_of=day)
        text = _all_text(every)
    else:
        one = here.results(campaign, as_of=day)
        text = _results_text(one)
    if html is not None:
        from disco.views.campaign_pages import campaign_report, campaigns_report

        report = campaigns_report(every) if campaign is None else campaign_report(one)
        report.save(html)
    terminal.show(every if campaign is None else one, text)


def _results_text(found: "CampaignResults") -> str:
    from disco.views import campaign_tables as tables

    several = [
        tables.arms_table(found),
        tables.findings_table(found),
        tables.undifferentiated_table(found),
        tables.incremental_table(found),
    ]
    tabled = (_with_caption(table) for table in several if table is not None)
    return "\n\n".join([tables.results_lead(found), *tabled, "\n".join(found.words)])


def _all_text(found: "AllResults") -> str:
    from disco.views import campaign_tables as tables

    together = tables.pooled_table(found)
    parts = [tables.pooled_words(found), figures_text(tables.campaigns_table(found.campaigns))]
    return "\n\n".join(filter(None, [*parts, None if together is None else _with_caption(together)]))


def _with_caption(table: "Table") -> str:
    return "\n".join(filter(None, (table.caption, figures_text(table), table.note)))


def explain(
    terminal: ShopTerminal,
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")],
    customer: Annotated[
        str | None, typer.Argument(metavar="[CUSTOMER]", help="One of its customers; without one, an example.")
    ] = None,
) -> None:
    """Explain why a customer got this code or none, and what the runner-up was worth.

    The figures of the decision are computed again from what was kept: context, model, draws, prices. For somebody who
    was not part of the campaign the reason is given, from the customers table as it is now.
    """
    found = terminal.shop().explain(campaign, customer)
    terminal.show(found, "\n".join(found.words))


def campaigns(
    terminal: ShopTerminal,
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="Show this campaign with its batches of outcomes.")
    ] = None,
) -> None:
    """List the launched campaigns with their states, dates, codes and outcomes; or show one with its batches."""
    found = terminal.shop().campaigns(campaign)
    terminal.show(
        found,
        _campaigns_text(found) if campaign is None else _campaign_text(found.campaigns[0]),
    )


def _campaigns_text(found: "CampaignList") -> str:
    count = len(found.campaigns)
    if not count:
        return "No campaign was launched yet."
    active = found.active_version
    learned = "nothing learned yet" if active is None else f"version {active} of the model is active"
    return f"{figures_text(_campaigns_table(found.campaigns))}\n{count} campaign{'s'[: count != 1]}; {learned}."


def _campaigns_table(listed: "Sequence[CampaignEntry]") -> "Table":
    from disco.records.campaign_records import Disposition
    from disco.views.formats import Count
    from disco.views.table import Column, Table

    return Table.of(
        "Campaigns",
        listed,
        {
            "Campaign": lambda one: one.campaign,
            "State": lambda one: str(one.state),
            "Policy": lambda one: one.policy,
            "Valid from": lambda one: _day_or_minute(one.valid_from),
            "Valid before": lambda one: _day_or_minute(one.valid_before),
            "Model": lambda one: "–" if one.version is None else str(one.version),
            Column("Customers", Count()): lambda one: one.customers,
            Column("Codes", Count()): lambda one: one.codes,
            Column("Outcomes", Count()): lambda one: one.outcomes[Disposition.APPLIED],
            "Forecast": lambda one: "–" if one.against_forecast is None else one.against_forecast.label,
        },
    )


def _day_or_minute(when: date | datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M}" if isinstance(when, datetime) else str(when)


def _campaign_text(found: "CampaignEntry") -> str:
    from disco.records.campaign_records import Disposition
    from disco.records.depths import depth_percent
    from disco.views.formats import Count
    from disco.views.table import Column, Table

    parts = [figures_text(_campaigns_table([found])), f"Plan {found.plan_id}."]
    if found.against_forecast is not None:
        parts.append(found.against_forecast.words)
    left = [
        f"{'no limit' if codes is None else codes} of {depth_percent(depth)}" for depth, codes in found.reserve.items()
    ]
    parts.append(f"Codes left for late arrivals: {', '.join(left)}.")
    if found.batches:
        batches = Table.of(
            "Batches",
            found.batches,
            {
                "Batch": lambda batch: batch.batch_id,
                "Source": lambda batch: batch.source,
                "Received": lambda batch: batch.received_at.isoformat(timespec="seconds"),
                "State": lambda batch: "in force" if batch.reverted_at is None else "reverted",
                **{Column(kind.capitalize(), Count()): attrgetter(kind) for kind in Disposition},
            },
        )
        parts.append(figures_text(batches))
    return "\n\n".join(parts)


def belief(
    terminal: ShopTerminal,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="A version of the model; default: the active one.")
    ] = None,
) -> None:
    """Show what the model has learned: per depth, the basket of an average customer, the share of receivers who buy,
    and the revenue to expect of a code sent.

    The 90% intervals are those of the averages, not of single customers. They narrow as campaigns are learned.
    """
    found = terminal.shop().belief(version)
    terminal.show(found, _text(found))
    warn(found.warnings)


def _text(found: "LearnedBelief") -> str:
    from disco.records.depths import depth_percent
    from disco.records.money import read_currency
    from disco.views.formats import Count, Money, Percent
    from disco.views.table import Column, Table

    unit = Money(read_currency(found.currency))
    depths = Table.of(
        "Belief",
        found.depths,
        {
            "Depth": lambda point: depth_percent(point.depth),
            Column("Purchases", Count()): lambda point: point.purchases,
            Column("Basket before the discount (90%)", unit): lambda point: point.basket,
            Column("Codes", Count()): lambda point: point.codes,
            Column("Receivers who buy (90%)", Percent()): lambda point: point.engagement,
            Column("Revenue per code (90%)", unit): lambda point: point.revenue_per_code,
        },
    )
    count = len(found.campaigns)
    head = f"Version {found.version}, from {count} campaign{'s'[: count != 1]}: {', '.join(found.campaigns)}."
    table = f"{head}\n{figures_text(depths)}"
    return table if found.movement is None else f"{table}\n{found.movement}"
