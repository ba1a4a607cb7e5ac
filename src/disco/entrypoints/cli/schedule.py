"""`disco schedule list|add|remove`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disco.entrypoints.cli.output import JsonFlag, QuietFlag, ShopFolder, next_command, say, show
from disco.records.errors import UsageError

if TYPE_CHECKING:
    from disco.records.jobs import JobSchedule

EXAMPLE = 'Example: disco schedule add "every monday at 06:00" plan weekly.yaml'
_WHAT = {
    "plan": "plan",
    "frontier": "plan",
    "validate": "plan",
    "launch": "plan_id",
    "check": "campaign",
    "contexts": "campaign",
}

schedule = typer.Typer(name="schedule", help="Let workers do something at given times.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(schedule)


@schedule.command("add", epilog=EXAMPLE)
def add(
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
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Add a schedule. A worker (`disco worker`, or the one of `disco serve`) does the work when the time has come.

    Times are those of the clock in the shop, also when clocks change. In a plan, {date} stands for the day of the run
    and {date+7} for a week later: `campaign: weekly-{date}`. What was missed while no worker ran is done once.
    """
    from disco.adapters.files import read_yaml
    from disco.entrypoints.python import Shop
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
    here = Shop.open(shop)
    if what is not None:
        content = {**content, **_asked(known, what)}
    check_scheduled(here, known, content, rule)
    with here.store(missing="create") as store:
        done = add_schedule(store, kind=known, body=_plain(content), rule=rule, clock=here.clock)
    text = f"Schedule {done.id}: {done.kind} {done.rule} ({done.time_zone}). {_next(done)}"
    show(done, text, as_json=as_json, quiet=quiet, done=f"Schedule {done.id} is made")
    if not (as_json or quiet):
        say(next_command("worker", shop), err=True)


@schedule.command("list", epilog="Example: disco schedule list")
def list_(shop: ShopFolder = Path(), as_json: JsonFlag = False, quiet: QuietFlag = False) -> None:
    """List the schedules of this shop, with the next time of each."""
    from disco.entrypoints.python import Shop
    from disco.office.schedules.use_cases import list_schedules

    with Shop.open(shop).store(missing="scratch") as store:
        found = list_schedules(store)
    lines = [f"{one.id}  {one.kind} {one.rule} ({one.time_zone}). {_next(one)}" for one in found.items]
    show(found, "\n".join(lines) or "There are no schedules.", as_json=as_json, quiet=quiet)


@schedule.command("remove", epilog="Example: disco schedule remove 3f9a")
def remove(
    schedule_id: Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.")],
    shop: ShopFolder = Path(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Remove a schedule. Jobs that it has asked for stay."""
    from disco.entrypoints.python import Shop
    from disco.office.schedules.use_cases import remove_schedule

    with Shop.open(shop).store() as store:
        done = remove_schedule(store, schedule_id)
    show(done, f"Schedule {done.id} is removed.", as_json=as_json, quiet=quiet, done=f"Schedule {done.id} is removed")


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
