"""Running a shop with several people: `disco keys`, `disco audit` and `disco schedule`."""

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import ShopTerminal, add_command, figures_text, next_command, say, with_options
from disco.records.errors import UsageError
from disco.records.people import Role

if TYPE_CHECKING:
    from disco.office.audit.use_cases import AuditPage, AuditVerdict
    from disco.office.keys.use_cases import ApiKey, Keys
    from disco.records.jobs import JobSchedule

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365)}
_SCHEDULE_EXAMPLE = 'disco schedule add "every monday at 06:00" plan weekly.yaml'
_WHAT = {
    "plan": "plan",
    "frontier": "plan",
    "validate": "plan",
    "launch": "plan_id",
    "check": "campaign",
    "contexts": "campaign",
}


def register(app: typer.Typer) -> None:
    commands = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys of the service.")
    add_command(commands, create, example="disco keys create --role planner --name crm --expires 90d")
    add_command(commands, listed, name="list", example="disco keys list")
    add_command(commands, revoke, example="disco keys revoke 3f9a1c07b2d4")
    app.add_typer(commands, name="keys")
    commands = typer.Typer(invoke_without_command=True, help="Show and verify the journal of everything written.")
    commands.callback(epilog="Example: disco audit --after 120")(with_options(audit))
    add_command(commands, verify, example="disco audit verify --shop shop/")
    app.add_typer(commands, name="audit")
    commands = typer.Typer(no_args_is_help=True, help="Let workers do something at given times.")
    add_command(commands, add, example=_SCHEDULE_EXAMPLE)
    add_command(commands, list_, name="list", example="disco schedule list")
    add_command(commands, remove, example="disco schedule remove 3f9a")
    app.add_typer(commands, name="schedule")


def create(
    terminal: ShopTerminal,
    role: Annotated[Role, typer.Option("--role", help="What the key allows.")],
    name: Annotated[
        str, typer.Option("--name", help="Who uses it; stands in the journal beside what is done with it.")
    ],
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="AGE", help="Refuse it after this: 12h, 90d, 8w, 1y; default: never."),
    ] = None,
) -> None:
    """Make an API key and print it, once. The database keeps only a hash of it.

    A viewer looks at campaigns and results; a planner also plans, sends outcomes, learns and pauses; an approver also
    approves and launches; an admin also manages people, keys and settings (docs/people.md).
    """
    made = terminal.shop().create_key(name=name, role=role, expires=None if expires is None else _age(expires))
    until = "It does not expire." if made.expires_at is None else f"It expires on {made.expires_at:%Y-%m-%d %H:%M} UTC."
    text = f"{made.key}\nThis is the key {made.id} of {made.name} ({made.role}). It is shown only now. {until}"
    terminal.show(made, text, quiet=False, done=f"The key {made.id} is made")


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,6})([hdwy])", text.strip())
    if not found or not int(found[1]):
        raise UsageError("--expires", found=repr(text[:40]), expected="an age such as 12h, 90d, 8w or 1y")
    return int(found[1]) * _UNITS[found[2]]


def listed(terminal: ShopTerminal) -> None:
    """List all API keys, also those that are no longer valid."""
    found = terminal.shop().list_keys()
    terminal.show(found, _text(found))


def _text(found: "Keys") -> str:
    from disco.views.table import Table

    if not found.keys:
        return "There are no API keys."
    keys = Table.of(
        "API keys",
        found.keys,
        {
            "Id": lambda key: key.id,
            "Name": lambda key: key.name,
            "Role": lambda key: str(key.role),
            "Made by": lambda key: key.created_by,
            "Made on": lambda key: f"{key.created_at:%Y-%m-%d}",
            "Expires": lambda key: "never" if key.expires_at is None else f"{key.expires_at:%Y-%m-%d %H:%M}",
            "State": _key_state,
        },
    )
    return figures_text(keys)


def _key_state(key: "ApiKey") -> str:
    return "valid" if key.valid else "expired" if key.revoked_at is None else f"revoked {key.revoked_at:%Y-%m-%d}"


def revoke(
    terminal: ShopTerminal,
    key_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the key, or its first four characters or more.")
    ],
) -> None:
    """Refuse an API key from now on."""
    done = terminal.shop().revoke_key(key_id)
    text = f"The key {done.id} of {done.name} is revoked"
    terminal.show(done, f"{text}{' already' if done.again else ''}.", done=text)


def audit(
    terminal: ShopTerminal,
    context: typer.Context,
    after: Annotated[
        int | None, typer.Option("--after", min=0, help="Entries after this number; default: the last ones.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="At most so many entries.")] = 50,
) -> None:
    """List the journal: who wrote what and when, the newest last.

    Every command that writes adds one entry, in the same transaction as its work. An entry has the hash of the one
    before it, so that none can be changed, removed or put elsewhere without a trace (`disco audit verify`). Customers
    are named by pseudonyms.
    """
    if context.invoked_subcommand is not None:
        return
    found = terminal.shop().audit(after=after, limit=limit)
    terminal.show(found, _page_text(found, terminal.folder))


def _page_text(page: "AuditPage", shop: Path) -> str:
    from disco.views.table import Table

    if not page.entries:
        return "The journal has no entries here."
    journal = Table.of(
        "Journal",
        page.entries,
        {
            "Number": lambda entry: str(entry.number),
            "At (UTC)": lambda entry: f"{entry.at:%Y-%m-%d %H:%M:%S}",
            "Actor": lambda entry: entry.actor,
            "Kind": lambda entry: str(entry.kind),
            "Action": lambda entry: entry.action,
            "Subject": lambda entry: entry.subject,
            "Detail": lambda entry: ", ".join(f"{name} {_short(value)}" for name, value in entry.detail.items()),
        },
    )
    text = figures_text(journal)
    more = None if page.next is None else next_command(f"audit --after {page.next}", shop)
    return text if more is None else f"{text}\n{more}"


def _short(value: object) -> str:
    return f"{len(value)} names" if isinstance(value, list) else str(value)


def verify(
    terminal: ShopTerminal,
    contains: Annotated[
        str | None,
        typer.Option("--contains", metavar="HASH", help="The hash of an entry noted earlier, which must be there."),
    ] = None,
) -> None:
    """Verify the journal: every entry is there, unchanged and in its place. Exit 1 with the first bad entry.

    Note the hash of the last entry down where nobody who can write to the database can change it, and give it to
    --contains later: then also a journal that was replaced as a whole is found.
    """
    found = terminal.shop().verify_audit(contains=contains)
    terminal.show(found, _verdict_text(found), quiet=found.ok)
    if not found.ok:
        raise typer.Exit(1)


def _verdict_text(found: "AuditVerdict") -> str:
    if not found.ok:
        return (
            f"The journal is not what was written. Entry {found.first_bad:,}: {found.found}.\n"
            "Keep a copy of the database as it is, find out who has written to it, and restore the last backup whose "
            "journal is whole."
        )
    if found.last is None:
        return "The journal has no entries yet."
    entries = "1 entry" if found.entries == 1 else f"{found.entries:,} entries"
    return f"{entries}, all as written. The last one has the hash {found.last}."


def add(
    terminal: ShopTerminal,
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE",
            help='When: "daily at 06:00", "every monday at 06:00", "at 2027-03-08 09:00", "when codes have matured".',
        ),
    ],
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="What: plan, launch, learn, check, validate, frontier, train, contexts or doctor."
        ),
    ],
    what: Annotated[
        str | None,
        typer.Argument(metavar="[PLAN.yaml|PLAN_ID|CAMPAIGN]", help="The plan, the id of a plan, or the campaign."),
    ] = None,
    body: Annotated[
        Path | None, typer.Option(help="YAML or JSON with more options, as docs/jobs.md lists them.")
    ] = None,
) -> None:
    """Add a schedule. A worker (`disco worker`, or the one of `disco serve`) does the work when the time has come.

    Times are those of the clock in the shop, also when clocks change. In a plan, {date} stands for the day of the run
    and {date+7} for a week later: `campaign: weekly-{date}`. What was missed while no worker ran is done once.
    """
    from disco.adapters.files import read_yaml
    from disco.office.jobs.bodies import BODIES
    from disco.office.schedules.use_cases import add_schedule, check_scheduled
    from disco.records.jobs import JobKind

    if kind not in list(BODIES):
        raise UsageError("KIND", found=repr(kind), expected=f"one of {', '.join(BODIES)}")
    known = JobKind(kind)
    content: dict[str, Any] = {}
    if body is not None:
        read = read_yaml(body)
        if not isinstance(read, dict):
            raise UsageError("--body", found=f"a {type(read).__name__}", expected="keys and values")
        content = read
    here = terminal.shop()
    if what is not None:
        content = {**content, **_asked(known, what)}
    check_scheduled(here, known, content, rule)
    with here.store(missing="create") as store:
        done = add_schedule(store, kind=known, body=_plain(content), rule=rule, clock=here.clock)
    text = f"Schedule {done.id}: {done.kind} {done.rule} ({done.time_zone}). {_next(done)}"
    terminal.show(done, text, done=f"Schedule {done.id} is made")
    if not (terminal.as_json or terminal.quiet):
        say(next_command("worker", terminal.folder), err=True)


def list_(terminal: ShopTerminal) -> None:
    """List the schedules of this shop, with the next time of each."""
    from disco.office.schedules.use_cases import list_schedules

    with terminal.shop().store(missing="scratch") as store:
        found = list_schedules(store)
    lines = [f"{one.id}  {one.kind} {one.rule} ({one.time_zone}). {_next(one)}" for one in found.items]
    terminal.show(found, "\n".join(lines) or "There are no schedules.")


def remove(
    terminal: ShopTerminal,
    schedule_id: Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.")],
) -> None:
    """Remove a schedule. Jobs that it has asked for stay."""
    from disco.office.schedules.use_cases import remove_schedule

    with terminal.shop().store() as store:
        done = remove_schedule(store, schedule_id)
    terminal.show(done, f"Schedule {done.id} is removed.", done=f"Schedule {done.id} is removed")


def _asked(kind: str, what: str) -> dict[str, Any]:
    from disco.adapters.files import read_yaml
    from disco.entrypoints.python import is_plan_file

    if kind == "learn":
        return {"campaigns": [what]}
    if kind not in _WHAT:
        raise UsageError(f"schedule add … {kind}", found=repr(what), expected="nothing after the kind; see --body")
    key = _WHAT[kind]
    if key != "plan":
        return {key: what}
    if not is_plan_file(what):
        raise UsageError(f"schedule add … {kind}", found=repr(what), expected="a plan file, such as plan.yaml")
    return {"plan": read_yaml(Path(what))}


def _plain(value: Any) -> Any:
    """Values of YAML as JSON has them: days as text, keys as text."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _next(one: "JobSchedule") -> str:
    from disco.records.locale import Locale

    if one.paused:
        return "It is paused."
    if one.next_at is None:
        return "It waits for campaigns." if one.rule.startswith("when") else "Its time is over."
    return f"Next: {Locale(time_zone=one.time_zone).local(one.next_at):%Y-%m-%d %H:%M}."
