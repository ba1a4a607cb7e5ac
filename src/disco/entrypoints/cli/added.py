"""What codes added, and for whom: `disco added`, `disco favoured`, `disco holdout release`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import ShopTerminal, add_command, day_of, figures_text
from disco.entrypoints.outputs import check_outputs

if TYPE_CHECKING:
    from disco.operations.added import Added

_DAY = ["%Y-%m-%d"]


def register(app: typer.Typer) -> None:
    add_command(app, added, example="disco added --from 2027-04-01 --to 2028-03-31")
    add_command(app, favoured, example="disco favoured spring-27 --by region")
    holdout = typer.Typer(help="The people who are held out of all campaigns.", no_args_is_help=True)
    add_command(holdout, release, example='disco holdout release --reason "The year is over."')
    app.add_typer(holdout, name="holdout")


def added(
    terminal: ShopTerminal,
    first: Annotated[
        datetime | None, typer.Option("--from", formats=_DAY, help="The first day that counts. Default: all of it.")
    ] = None,
    last: Annotated[
        datetime | None, typer.Option("--to", formats=_DAY, help="The last day that counts. Default: the last order.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a self-contained page.")] = None,
) -> None:
    """Show what codes added: revenue, markdown and margin of everybody, against the people of the lasting holdout.

    All orders count, with codes and without, over the whole time. Intervals (90%) are those of people, each of whom
    counts once for the whole time, adjusted by what they bought before the holdout began. The margin needs the setting
    `margin`. Where nothing can be said yet, it says what a larger share or more time would show.
    """
    check_outputs(html, shop=terminal.folder)
    found = terminal.shop().added(first=day_of(first, option="--from"), last=day_of(last, option="--to"))
    if html is not None:
        from disco.views.added import added_report

        added_report(found).save(html)
    terminal.show(found, _text(found))


def _text(found: "Added") -> str:
    from disco.views.added import added_table, moved_table, outlook_table

    tables = [added_table(found), moved_table(found), outlook_table(found)]
    tabled = (f"{table.caption}\n{figures_text(table)}" for table in tables if table is not None)
    return "\n\n".join([found.headline, *tabled, "\n".join(found.words)])


def favoured(
    terminal: ShopTerminal,
    name: Annotated[str, typer.Argument(metavar="CAMPAIGN|PLAN_ID", help="A launched campaign, or a plan.")],
    by: Annotated[str, typer.Option(help="A column of the customers table, such as region.")],
) -> None:
    """Show who gets what: average discount, codes and markdown, by any column of the customers.

    Customers of the holdout are left out. Each value is compared with all others; the intervals (95%) of all values
    hold together, so a gap that is shown as one is more than chance. Of a launched campaign, the markdown of purchases
    so far is shown, too.
    """
    from disco.views.favoured import favoured_table

    found = terminal.shop().favoured(name, by=by)
    text = "\n\n".join([found.headline, figures_text(favoured_table(found)), "\n".join(found.words)])
    terminal.show(found, text.rstrip())


def release(
    terminal: ShopTerminal,
    reason: Annotated[str, typer.Option(help="Why, for the audit journal.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen; write nothing.")] = False,
) -> None:
    """Release the people of the lasting holdout: they get codes from the next campaign on.

    The next campaign with a lasting holdout draws other people, and what codes added is then counted from its first
    day. What the old holdout has shown can still be read, with `disco added --to DAY`. Plans that were decided before
    have to be decided again. The reason is kept in the audit journal. This cannot be undone.
    """
    found = terminal.shop().release_holdout(reason, dry_run=dry_run)
    done = "" if dry_run else "The lasting holdout is released"
    word = "would be" if dry_run else "is"
    names = ", ".join(found.campaigns)
    text = f"The lasting holdout of {names} {word} released. The next campaign with one draws other people."
    terminal.show(found, text, done=done or None)
