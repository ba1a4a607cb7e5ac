"""A campaign from its launch to its end: launch, approve, export, late, contexts, pause, resume, close, recall,
propensities."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import (
    CustomersFile,
    DryRunFlag,
    ShopTerminal,
    Terminal,
    YesFlag,
    add_command,
    confirm,
    customers_of,
    day_of,
    figures_text,
    next_command,
    warn,
)
from disco.records.errors import UsageError
from disco.records.wording import counted

if TYPE_CHECKING:
    from disco.operations.late import LateArrivals
    from disco.operations.launch import CampaignState, Launched, Recalled

_MOST_SHOWN = 20  # late arrivals in the table
Campaign = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A launched campaign.")]


def register(app: typer.Typer) -> None:
    add_command(app, launch, example="disco launch 3f9a1c --shop shop/")
    add_command(app, approve, example="disco approve 3f9a1c07b2d4e5f6")
    add_command(app, export, example="disco export spring-27 -o codes.csv")
    add_command(app, late, example="disco late spring-27 c0000017 c0000018")
    add_command(app, contexts, example="disco contexts spring-27")
    add_command(app, pause, example="disco pause spring-27")
    add_command(app, resume, example="disco resume spring-27")
    add_command(app, close, example="disco close spring-27")
    add_command(app, recall, example="disco recall spring-27 -o recalled.csv")
    add_command(app, propensities, example="disco propensities spring-27 --draws 500")


def launch(
    terminal: ShopTerminal,
    plan_id: Annotated[
        str,
        typer.Argument(
            metavar="PLAN_ID",
            help="As `disco plan` printed it, its first four characters or more, or the name of the campaign.",
        ),
    ],
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
) -> None:
    """Launch a plan: keep its decisions, with one single-use code per customer who gets one.

    Either all of it is kept or nothing. A launch is refused when the customers, their features, the context network,
    the model, the limits or the program version have changed since the plan was decided, or when the decisions that
    are kept are not those of the plan. Launching the same plan again changes nothing.
    """
    here = terminal.shop()
    if not dry_run:
        confirm(f"Launch plan {plan_id}? A launched campaign cannot be planned again.", yes=yes)
    launched = here.launch(plan_id, dry_run=dry_run)
    warn(launched.warnings)
    done = None if launched.dry_run else f"{launched.campaign} is launched"
    terminal.show(launched, _launched_text(launched, terminal.folder), done=done)


def _launched_text(launched: "Launched", shop: Path) -> str:
    facts = f"{launched.customers:,} customers, {launched.codes:,} codes"
    if launched.again:
        return f"{launched.campaign} was already launched from this plan: {facts}. Nothing was changed."
    if launched.dry_run:
        return f"{launched.campaign} can be launched: {facts}. Nothing was written."
    after = next_command(f"export {launched.campaign} -o codes.parquet", shop)
    return f"{launched.campaign} is launched: {facts}. {after}"


def approve(
    terminal: ShopTerminal,
    plan_id: Annotated[
        str, typer.Argument(metavar="PLAN_ID", help="As `disco plan` printed it, or four or more characters of it.")
    ],
    yes: YesFlag = False,
) -> None:
    """Approve a plan that somebody else made, so that it can be launched.

    With the setting `approval: second_person` a launch is refused until a second person has approved exactly this plan:
    another plan has another id. Who made a plan cannot approve it. On the command line a person is a user of the
    system (docs/people.md).
    """
    here = terminal.shop()
    plan = here.approval(plan_id)
    warn(plan.warnings)
    made = f", made by {', '.join(plan.made_by)}" if plan.made_by else ""
    confirm(f"Approve plan {plan.plan_id} of {plan.campaign}{made}?", yes=yes)
    done = here.approve(plan.plan_id)
    text = f"Plan {done.plan_id} of {done.campaign} is approved by {done.by}"
    facts = f"{counted(done.customers, 'customer')}, {counted(done.codes, 'code')}, made by {', '.join(done.made_by)}"
    after = next_command(f"launch {done.plan_id}", terminal.folder)
    again = " It was approved before; nothing was changed." if done.again else ""
    terminal.show(done, f"{text}: {facts}.{again} {after}", done=text)


def export(
    terminal: ShopTerminal,
    campaign: Campaign,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="FILE.parquet or FILE.csv.")] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="URL#TABLE", help="A table elsewhere, instead of a file.")
    ] = None,
    what: Annotated[str, typer.Option("--what", help="With --to: codes, decisions or results.")] = "codes",
) -> None:
    """Write the codes to send: code_id, customer_id, campaign_id, depth, sent_at, expires_at, channel.

    `sent_at` is the first moment a code is valid. The key `export` of a plan adds columns of its customers table and
    the offer in words, under the names that Klaviyo, Braze, Mailchimp or a Shopify importer reads (docs/export.md). A
    manifest with counts and the SHA-256 of the file is written beside it: FILE.manifest.json.

    Customers without a code are left out. In a CSV file, cells that a spreadsheet would run as a formula begin with an
    apostrophe; Parquet keeps every id unchanged.

    With --to, a table of a database, a DuckDB file or a Delta lake holds the campaign's rows afterwards, each once:
    they are replaced in one transaction, or left alone where they are the same (docs/warehouses.md).
    """
    if (out is None) == (to is None):
        found = "neither" if out is None else "both"
        raise UsageError("--out, --to", found=found, expected="one of them: a file, or a table elsewhere")
    if to is not None:
        put = terminal.shop().export_to(campaign, to, kind=what)
        rows = f"{counted(put.rows, 'row')} ({put.kind}) of {campaign}"
        text = f"{rows} are in {put.table}" if put.changed else f"{put.table} has the {rows} already: nothing changed"
        terminal.show(put, f"{text}.", done=text if put.changed else None)
        return
    done = terminal.shop().export(campaign, out)
    text = f"{counted(done.codes, 'code')} of {campaign} written to {out}"
    if done.without_email:
        warn([f"{counted(done.without_email, 'code')} of customers without an e-mail address"])
    terminal.show(done, f"{text}.", done=text)


def late(
    terminal: ShopTerminal,
    campaign: Campaign,
    customers: Annotated[
        list[str] | None, typer.Argument(metavar="[CUSTOMER]...", help="Customers who have arrived since the launch.")
    ] = None,
    file: CustomersFile = None,
    as_of: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The day they arrive; default: today.")
    ] = None,
    dry_run: DryRunFlag = False,
) -> None:
    """Decide about customers who arrive after the launch, from the codes kept in reserve.

    They are decided at the prices of the launch, with the model that decided it; a cap is never exceeded. A customer
    who was decided before gets the same decision again. Refused while the campaign is paused, closed or over.

    Customers without a purchase in the last year have the population's context, which `known: false` marks in the JSON.
    Ids that the table of customers does not have are refused here, because a file may hold typing errors; the service
    decides about them with the population's context, too (docs/service.md).
    """
    wanted = customers_of("late", customers, file)
    decided = terminal.shop().late(campaign, wanted, as_of=day_of(as_of), dry_run=dry_run)
    warn(decided.warnings)
    done = None if dry_run else f"{counted(len(decided.decisions), 'customer')} of {campaign} decided and kept"
    terminal.show(decided, _late_text(decided), done=done)


def contexts(
    terminal: ShopTerminal,
    campaign: Annotated[
        str | None, typer.Argument(metavar="[CAMPAIGN]", help="A launched campaign; default: all that run.")
    ] = None,
) -> None:
    """Prepare customers who may arrive after a launch, so that the service decides about them within milliseconds.

    Without a campaign, all that run and hold codes in reserve are prepared. The service prepares a campaign by itself
    when it is first asked; `disco schedule add "daily at 05:00" contexts` keeps features and lists up to date.
    """
    done = terminal.shop().contexts(campaign)
    warn(done.warnings)
    lines = [
        f"{one.campaign}: {counted(one.customers, 'customer')} may get a code as of {one.as_of} "
        f"({one.with_features:,} with features of their own); {one.left_out:,} are left out."
        for one in done.campaigns
    ]
    text = "\n".join(lines) or "No campaign runs and holds codes in reserve."
    terminal.show(done, text, done=f"{counted(len(done.campaigns), 'campaign')} prepared")


def _late_text(decided: "LateArrivals") -> str:
    from disco.records.depths import depth_percent
    from disco.views.table import Table

    rows = [
        (str(one.customer_id), "no code" if one.depth is None else depth_percent(one.depth), one.code)
        for one in decided.decisions[:_MOST_SHOWN]
    ]
    table = Table(caption="Late arrivals", columns=("Customer", "Depth", "Code"), rows=rows)
    more = len(decided.decisions) - _MOST_SHOWN
    return figures_text(table) + (f"\nand {more:,} more; `disco export` writes all codes." if more > 0 else "")


def pause(terminal: ShopTerminal, campaign: Campaign) -> None:
    """Pause a campaign: no codes for late arrivals. Outcomes of codes already sent still count."""
    _say(terminal, terminal.shop().pause(campaign))


def resume(terminal: ShopTerminal, campaign: Campaign) -> None:
    """End a pause: late arrivals get codes again, as long as some are left."""
    _say(terminal, terminal.shop().resume(campaign))


def close(
    terminal: ShopTerminal,
    campaign: Campaign,
    yes: YesFlag = False,
) -> None:
    """End a campaign for good: no more codes, and outcomes that arrive from now on do not count (expired)."""
    here = terminal.shop()
    confirm(f"Close {campaign} for good? Outcomes that arrive later will not count.", yes=yes)
    _say(terminal, here.close(campaign))


def recall(
    terminal: ShopTerminal,
    campaign: Campaign,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="FILE.parquet or FILE.csv for the codes that became invalid.")
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="The recall was at the beginning of this day; default: now."),
    ] = None,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
) -> None:
    """Recall a campaign: codes that were not used become invalid, and -o lists them for the shop.

    The list has one row per code to make invalid; a shared code has one row without a customer.
    Purchases ordered before the recall count. Later ones are set aside as expired. Codes of a recalled campaign never
    count as unused: the model learns from its baskets and not from its engagement. A recall cannot be undone. Running
    it again changes nothing and writes the list again.
    """
    here = terminal.shop()
    if not dry_run:
        confirm(f"Recall {campaign}? Codes that were not used become invalid for good.", yes=yes)
    found = here.recall(campaign, out, as_of=day_of(as_of), dry_run=dry_run)
    done = None if dry_run else f"{campaign} is recalled"
    terminal.show(found, _recalled_text(found, terminal.folder), done=done)


def _recalled_text(found: "Recalled", shop: Path) -> str:
    figures = f"{counted(found.codes, 'unused code')} recalled, {counted(found.used, 'code')} used before"
    if found.set_aside:
        figures += f", {counted(found.set_aside, 'purchase')} after the recall set aside"
    when = f"{found.recalled_at:%Y-%m-%d %H:%M}"
    if found.dry_run:
        said = f"{found.campaign} would be recalled as of {when}: {figures}. Nothing was written."
        return f"{found.campaign} was recalled on {when}: {figures}. Nothing was written." if found.again else said
    before = "was recalled before" if found.again else "is recalled"
    listed = (
        next_command(f"recall {found.campaign} -o recalled.csv", shop)
        if found.file is None
        else f"{counted(found.rows.num_rows, 'code')} to make invalid in the shop: {found.file}."
    )
    return f"{found.campaign} {before} ({when}): {figures}. {listed}"


def _say(terminal: Terminal, now: "CampaignState") -> None:
    state = f"{now.campaign} is {now.state}"
    terminal.show(now, f"{state}.", done=state)


def propensities(
    terminal: ShopTerminal,
    campaign: Campaign,
    draws: Annotated[int, typer.Option(min=1, max=100_000, help="Draws of the policy to estimate from.")] = 200,
) -> None:
    """Add the probability of every decision, so that other policies can be evaluated on this campaign later.

    Run it any time after the launch; it takes about as long as deciding the campaign --draws times. Running it again
    gives the same result.
    """
    done = terminal.shop().propensities(campaign, draws=draws)
    text = f"{done.decisions:,} decisions of {campaign} have their propensity, estimated from {draws:,} draws"
    terminal.show(done, f"{text}.", done=text)
