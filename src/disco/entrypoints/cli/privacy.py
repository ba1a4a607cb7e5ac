"""What is kept about customers, and may go: `disco access`, `disco forget` and `disco prune`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disco.entrypoints.cli.output import (
    CustomersFile,
    DryRunFlag,
    ShopTerminal,
    YesFlag,
    add_command,
    confirm,
    customers_of,
    next_command,
    warn,
)
from disco.records.errors import UsageError
from disco.records.wording import counted

if TYPE_CHECKING:
    from disco.operations.forget import Forgotten, PersonalData, Pruned

_DAYS = {"d": 1, "w": 7, "y": 365}
_LONGEST_DAYS = 100 * 365


def register(app: typer.Typer) -> None:
    add_command(app, access, example="disco access c0000017 -o c0000017.json")
    add_command(app, forget, example="disco forget c0000017 --dry-run")
    add_command(app, prune, example="disco prune --older-than 400d --dry-run")


def access(
    terminal: ShopTerminal,
    customer: Annotated[str, typer.Argument(help="Id of the customer.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="JSON file to write.")] = None,
) -> None:
    """Show everything that is kept about a customer: what `disco forget` would remove. Changes nothing.

    The text counts what is kept; --json and -o have all of it. A customer of whom nothing is kept is no error: exit 0.
    docs/privacy.md says where their data may lie beyond that.
    """
    kept = terminal.shop().access(customer, out)
    terminal.show(kept, _kept_text(kept))


def _kept_text(kept: "PersonalData") -> str:
    from disco.views.personal import kept_answer, kept_table

    lines = [kept_answer(kept), *(f"- {where}, {place}: {count}" for where, place, count in kept_table(kept).text())]
    if kept.file is not None:
        lines.append(f"Written to {kept.file}.")
    return "\n".join([*lines, "Their data may also be in:", *(f"- {place}" for place in kept.elsewhere)])


def forget(
    terminal: ShopTerminal,
    customers: Annotated[
        list[str] | None, typer.Argument(metavar="[CUSTOMER]...", help="Ids of customers to forget.")
    ] = None,
    file: CustomersFile = None,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
) -> None:
    """Forget customers: their ids, features and contexts are removed from everything that is kept. Cannot be undone.

    A random name takes the place of each id, so that results and limits stay as they are; the model learns without
    their baskets at the next `disco learn`. They get no second code of a campaign that was launched before, and
    outcomes of such a campaign about them are not kept any more. docs/privacy.md says what stays, and where.

    Customers of whom nothing is kept change nothing: exit 0. Exit 1 where something could not be removed after the
    commit; run the command again then.
    """
    wanted = customers_of("forget", customers, file)
    here = terminal.shop()
    if not dry_run:
        confirm(f"Forget {counted(len(wanted), 'customer')}? This cannot be undone.", yes=yes)
    done = here.forget(wanted, dry_run=dry_run)
    warn(done.unfinished)
    kept = None if dry_run else f"{counted(done.found, 'customer')} forgotten"
    terminal.show(done, _forgotten_text(done, terminal.folder), done=kept)
    if done.unfinished:
        raise typer.Exit(1)


def _forgotten_text(done: "Forgotten", shop: Path) -> str:
    verb = "would be" if done.dry_run else "were" if done.found != 1 else "was"
    lines = [
        f"{counted(done.found, 'customer')} {verb} forgotten."
        if done.found == done.customers
        else f"{done.found:,} of {counted(done.customers, 'customer')} {verb} forgotten; nothing is kept of the others."
    ]
    lines += [
        f"{one.campaign}: {counted(one.decisions, 'decision')}, {counted(one.outcomes, 'outcome')}, "
        f"{counted(one.raw, 'other row')} set aside that mentioned them"
        for one in done.campaigns
    ]
    if done.texts:
        lines.append(f"Texts of jobs, schedules, drafts and batches with another name in them now: {done.texts:,}.")
    if done.plans:
        lines.append(f"Plans removed because they include them; plan again: {', '.join(done.plans)}")
    if not done.dry_run:
        lines.append(f"Old artefacts, cached features and leftovers removed: {counted(done.files, 'file')}.")
    learned = [one.campaign for one in done.campaigns if one.decisions]
    if learned and not done.dry_run:
        lines.append(f"The model still includes their baskets. {next_command(' '.join(['learn', *learned]), shop)}")
    return "\n".join([*lines, "Their data may still be in:", *(f"- {place}" for place in done.elsewhere)])


def prune(
    terminal: ShopTerminal,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="In days, weeks or years: 400d, 60w, 2y.")],
    features: Annotated[
        bool,
        typer.Option(
            "--features",
            help="Also the retained features of campaigns that ended before; they cannot be learned again under "
            "another context network then.",
        ),
    ] = False,
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
) -> None:
    """Remove what is old and needed by nothing, and say what that frees.

    Raw text of rows set aside, of campaigns that ended before; plans that were never launched; jobs that have ended;
    cached features. Of any age: artefacts that nothing names, and leftovers of killed processes. Decisions, contexts,
    outcomes, evidence and models stay, so learning, results and explanations work as before.
    """
    here, days = terminal.shop(), _days(older_than)
    if not dry_run:
        confirm(f"Remove what is older than {counted(days, 'day')}? This cannot be undone.", yes=yes)
    done = here.prune(days=days, features=features, dry_run=dry_run)
    terminal.show(done, _pruned_text(done), done=None if dry_run else "What is old was removed")


def _days(age: str) -> int:
    found = re.fullmatch(r"([0-9]{1,6})([dwy])", age.strip())
    days = int(found[1]) * _DAYS[found[2]] if found else 0
    if not 1 <= days <= _LONGEST_DAYS:
        expected = "a number of days, weeks or years such as 400d, 60w or 2y, of at most 100 years"
        raise UsageError("--older-than", found=repr(age[:40]), expected=expected)
    return days


def _pruned_text(done: "Pruned") -> str:
    verb = "Would be removed" if done.dry_run else "Removed"
    lines = [
        f"{verb}, from before {done.before:%Y-%m-%d}:",
        f"- text of {counted(done.raw, 'row')} set aside",
        f"- {counted(len(done.plans), 'plan')} never launched",
        f"- {counted(done.jobs, 'job')} that ended before",
        f"- {counted(done.caches, 'file')} of cached features",
    ]
    if done.features:
        lines.append(f"- retained features of {', '.join(done.features)}")
    lines += [
        f"{verb}, of any age:",
        f"- {counted(done.artefacts, 'artefact')} that nothing names",
        f"- {counted(done.leftovers, 'leftover')} of killed processes",
    ]
    return "\n".join([*lines, f"{done.freed_bytes / 1e6:,.1f} MB of files."])
