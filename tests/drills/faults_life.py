"""The life of a small shop, one writing command after the other, and what must hold after a fault in any of them.

The state before a step is what the clean steps before it left. A fault may leave that state, the state after the step,
or, file by file, one of the two; never half a file. Then the health check finds nothing new, and the same command
brings the shop to where a clean run brings it.
"""

import json
import os
import re
import shutil
import sqlite3
import tarfile
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from two_campaigns import FIRST, SECOND
from warm_commands import Ended, Forked, Limits, run_here

_SECRET = "a secret of the drill, made for comparing codes"
_CUSTOMERS = 300
_VALUES = {"customer_id": [f"c{number}" for number in range(60)], "0.1": [1.0] * 60, "0.2": [1.5] * 60}
# what a cut or damaged run may leave beside the files: written aside, or SQLite's own journal
LEFT_ASIDE = re.compile(r"(^|/)\.[^/]*|\.partial$|(^|/)tmp/|-journal$|-wal$|-shm$")
# when a row was written, and the seals and hashes that cover it, which doctor checks
_TOLD_TIME = re.compile(r"(?<!ordered)_at$|seal$|^journal\.(at|before|after|previous|hash)$|^tallies\.tally$")
_COMMITTED = re.compile(
    r"committed|run (the command )?again|(is|are|was|were) (kept|launched|ingested|learned|forgotten)"
    r"|repaired +campaign"  # by the health check, whose findings are its output
)
_DATABASE = re.compile(r"\.db$")
UNFINISHED = "unfinished"
"""A simulated retailer says so of itself before its tables are replaced, and until all of them are."""
ENDS = (0, 1, 4)
"""Done; refused or failed; done, but what was to be told about it could not be written."""
_BESIDES = ("disk",)  # about the machine, not about the shop


@dataclass(frozen=True, slots=True)
class Step:
    """One writing command."""

    name: str
    arguments: Callable[[Path], Sequence[str]]
    """Of the shop before it; the current folder is the shop."""
    prepare: Callable[[Path], None] = lambda shop: None
    """Puts beside the shop what the command needs, before the state before it is taken."""
    repeatable: bool = True
    """Every clean run leaves the same; otherwise only health and success of the next run are compared."""
    judges: bool = False
    """The health check itself: exit 1 with its verdict on standard output, and a shop that was ill before it."""


@dataclass(frozen=True, slots=True)
class State:
    """What is kept in a folder: files by their bytes, databases by their rows."""

    files: dict[str, str]
    databases: dict[str, str]

    @classmethod
    def of(cls, folder: Path) -> "State":
        files, databases = {}, {}
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            name = str(path.relative_to(folder))
            if _DATABASE.search(name):
                databases[name] = _rows_of(path)
            elif not re.search(r"-(journal|wal|shm)$", name):
                files[name] = _content_of(path)
        return cls(files, databases)

    def without_left_aside(self) -> "State":
        return State({name: has for name, has in self.files.items() if not LEFT_ASIDE.search(name)}, self.databases)


@dataclass(slots=True)
class Moment:
    """A step between the state before it and the one a clean run leaves."""

    step: Step
    arguments: Sequence[str]
    kept: Path
    """A copy of the world before the step."""
    before: State
    after: State
    seconds: float
    """How long the clean run took."""
    failed_checks: set[str]
    """What the health check finds without any fault, before or after."""
    seen: dict[str, list[str]] = field(default_factory=dict)
    """Verdicts on states that were left before, by state."""


def steps() -> list[Step]:
    """The whole life; commands that this program does not have are left out and named by `absent`."""
    known = _commands()
    return [step for step in _LIFE if step.name.split()[0] in known and _has_option(step)]


def absent() -> list[str]:
    """Steps that this program has no command for."""
    here = {step.name for step in steps()}
    return [step.name for step in _LIFE if step.name not in here]


def live(
    folder: Path,
    chosen: Sequence[str] = (),
    *,
    say: Callable[[str], None] = lambda _: None,
    broken: list[str] | None = None,
) -> list[Moment]:
    """Live in this process, which warms it, up to the last chosen step (all are chosen by default); their moments.

    A step that fails without any fault ends the drill, or is added to `broken` and left out.
    """
    world = new_world(folder / "clean")
    os.environ.update(environment(world))
    moments: list[Moment] = []
    checked: dict[str, set[str]] = {}
    for number, step in enumerate(steps()):
        step.prepare(world / "shop")
        arguments = [str(one) for one in step.arguments(world / "shop")]
        wanted = not chosen or step.name in chosen
        kept = folder / "before" / f"{number:02}"
        if wanted:
            shutil.copytree(world, kept)
            before = State.of(world)
            if repr(before) not in checked:
                checked[repr(before)] = failed_checks(world, folder)
        started = time.monotonic()
        code = run_here(arguments, cwd=world / "shop")
        seconds = time.monotonic() - started
        if code != 0:
            wrong = f"without any fault, disco {' '.join(arguments)} ended with {code}"
            if broken is None:
                raise SystemExit(wrong)
            broken.append(wrong)
            continue
        say(f"lived: disco {' '.join(arguments)} ({seconds:.1f} s)")
        if wanted:
            after = State.of(world)
            checked[repr(after)] = failed_checks(world, folder)
            failed = checked[repr(before)] | checked[repr(after)]
            moments.append(Moment(step, arguments, kept, before, after, seconds, failed))
        if chosen and len(moments) == len(set(chosen)):
            break
    return moments


def new_world(folder: Path) -> Path:
    """An empty shop, and a place of its own for temporary files."""
    for name in ("shop", "tmp"):
        (folder / name).mkdir(parents=True)
    return folder


def environment(world: Path) -> dict[str, str]:
    return {"TMPDIR": str(world / "tmp"), "HOME": str(world), "DISCO_CODE_SECRET": _SECRET, "COLUMNS": "200"}


def forked(moment: Moment, world: Path, said: Path, *, limits: Limits | None = None) -> Forked:
    """The step's command in a copy of the world before it, held before its first step."""
    return Forked(moment.arguments, cwd=world / "shop", said=said, environment=environment(world), limits=limits)


def failed_checks(world: Path, said: Path) -> set[str]:
    """What `disco doctor` finds wrong; raises when it ends in anything but a verdict."""
    command = ["doctor", "--json"]
    ended = Forked(command, cwd=world / "shop", said=said, environment=environment(world)).wait()
    try:
        checks = json.loads(ended.out)["checks"]
    except (ValueError, KeyError):
        return {f"the health check ended with {ended.code}: {ended.err.strip()[-300:]}"}
    return {
        f"{one['check']}, {one['where']}: {_without_paths(one['found'], world)}"
        for one in checks
        if one["outcome"] == "failed" and one["check"] not in _BESIDES
    }


def verdict(
    moment: Moment, world: Path, ended: Ended, said: Path, *, codes: Sequence[int] = ENDS, tidy: bool = True
) -> list[str]:
    """What is wrong after a fault that is over: with the message, the files, the health check, and the next run.

    `tidy`: the fault did not keep the command from removing what it had written aside.
    """
    found = _words(ended, codes)
    now = State.of(world)
    found += _halves(moment, now, tidy=tidy)
    committed = now.databases == moment.after.databases != moment.before.databases
    if ended.code == 4 and not committed:
        found.append("exit 4, but nothing was committed")
    if ended.code == 1 and committed and not _COMMITTED.search(ended.err + ended.out):
        found.append("exit 1 without a word that everything was committed")
    key = repr((now, ended.code == 0))
    if key not in moment.seen:
        moment.seen[key] = _afterwards(moment, world, now, ended, said, committed=committed)
    return found + moment.seen[key]


def _words(ended: Ended, codes: Sequence[int]) -> list[str]:
    found = []
    if ended.timed_out:
        return [f"no end after {ended.seconds:.0f} s"]
    if ended.code not in codes:
        found.append(f"exit {ended.code}, expected one of {', '.join(map(str, codes))}")
    if ended.shows_traceback:
        found.append("a traceback")
    said = re.search(r"^(error|warning): ", ended.err, re.M) or re.search(r"^failed +\S", ended.out, re.M)
    if ended.code in (1, 4) and not ended.shows_traceback and not said:
        found.append(f"exit {ended.code} without a sentence")
    if "Exception ignored" in ended.err:
        found.append("an exception at the end of the process")
    return found


def _halves(moment: Moment, now: State, *, tidy: bool) -> list[str]:
    """Files that are neither the old nor the new whole content."""
    found = []
    before, after = moment.before, moment.after
    for name, has in now.files.items():
        if has in (before.files.get(name), after.files.get(name), UNFINISHED):
            continue
        if not LEFT_ASIDE.search(name) and moment.step.repeatable:
            found.append(f"{name} is neither the old nor the new file")
        elif tidy and LEFT_ASIDE.search(name):
            found.append(f"{name} was left behind")
    lost = (before.files.keys() & after.files.keys()) - now.files.keys()
    lost |= before.databases.keys() - now.databases.keys()
    return found + [f"{name} is lost" for name in sorted(lost)]


def _afterwards(moment: Moment, world: Path, now: State, ended: Ended, said: Path, *, committed: bool) -> list[str]:
    found = []
    if ended.code == 0:
        if moment.step.repeatable and now.without_left_aside() != moment.after.without_left_aside():
            found.append(f"exit 0, but not what a clean run leaves: {_difference(now, moment.after)}")
    elif now == moment.before:
        return []  # as if nothing had happened: the clean run has shown what comes next
    found += [f"the health check finds: {one}" for one in _newly_failed(moment, world, said)]
    again = forked(moment, world, said).wait()
    if committed or ended.code == 0:  # done is done: the second run may say so, or find everything done
        found += [f"run again: {one}" for one in _words(again, ENDS)]
        new = _newly_failed(moment, world, said)
        return found + [f"run again: the health check finds: {one}" for one in new]
    found += [f"run again: {one}" for one in _words(again, (0, 1) if moment.step.judges else (0,))]
    if again.code != 0 and not moment.step.judges:
        found.append(f"run again: {again.err.strip()[-300:]}")
    elif moment.step.repeatable:
        last = State.of(world).without_left_aside()
        if last != moment.after.without_left_aside():
            found.append(f"run again: not what a clean run leaves: {_difference(last, moment.after)}")
    return found


def _newly_failed(moment: Moment, world: Path, said: Path) -> list[str]:
    """Checks that failed neither before the command nor, in other words, where it was repairing."""
    new = failed_checks(world, said) - moment.failed_checks
    if moment.step.judges:
        ill = {one.partition(": ")[0] for one in moment.failed_checks}
        new = {one for one in new if one.partition(": ")[0] not in ill}
    return sorted(new)


def _difference(one: State, other: State) -> str:
    names = {
        name
        for ours, theirs in ((one.files, other.files), (one.databases, other.databases))
        for name in ours.keys() | theirs.keys()
        if ours.get(name) != theirs.get(name) and not LEFT_ASIDE.search(name)
    }
    return ", ".join(sorted(names)[:6]) or "nothing"


def _content_of(path: Path) -> str:
    """A digest of the bytes. Of a whole Parquet file the rows, because its metadata name the folder of the tables; of a
    whole archive the names in it, because it holds the time it was made."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path).replace_schema_metadata(None)
        except (pa.ArrowException, OSError):
            return sha256(path.read_bytes()).hexdigest()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        return sha256(sink.getvalue()).hexdigest()
    if path.name == "retailer.json" and b'"unfinished"' in path.read_bytes():
        return UNFINISHED
    if path.name.endswith(".tar.gz"):
        try:
            with tarfile.open(path) as archive:
                return repr(sorted(member.name for member in archive))  # a cut one cannot be read to its end
        except (tarfile.TarError, EOFError, OSError, zlib.error):
            return sha256(path.read_bytes()).hexdigest()
    return sha256(path.read_bytes()).hexdigest()


def _rows_of(path: Path) -> str:
    """A digest of all rows, without times of writing and secrets; of a copy, because reading may roll back."""
    with TemporaryDirectory(prefix="faults-rows-") as aside:
        for suffix in ("", "-journal", "-wal"):
            source = path.with_name(path.name + suffix)
            if source.is_file():
                shutil.copyfile(source, Path(aside, path.name + suffix))
        digest = sha256()
        try:
            connection = sqlite3.connect(Path(aside, path.name))
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            for (table,) in tables:
                columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
                kept = [f'"{name}"' for name in columns if not _TOLD_TIME.search(f"{table}.{name}")]
                if table == "secrets" or not kept:
                    continue
                rows = sorted(map(repr, connection.execute(f'SELECT {", ".join(kept)} FROM "{table}"')))
                digest.update(repr((table, rows)).encode())
            connection.close()
        except sqlite3.DatabaseError as error:
            return f"no database: {error}"
        return digest.hexdigest()


def _without_paths(text: str, world: Path) -> str:
    return text.replace(str(world), "WORLD")


# ---- the steps


def _given(*arguments: str) -> Callable[[Path], Sequence[str]]:
    return lambda shop: arguments


def _plan_files(shop: Path) -> None:
    (shop / "first.yaml").write_text(FIRST)
    (shop / "second.yaml").write_text(SECOND)


def _moved_here(shop: Path) -> None:
    """Three customers move to the country that the second campaign asks for: they arrive late."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = shop / "data" / "customers.parquet"
    customers = pq.read_table(path)
    country = customers["country"].to_pylist()
    moved = [row for row, here in enumerate(country) if here != "GB"][:3]
    for row in moved:
        country[row] = "GB"
    place = customers.schema.get_field_index("country")
    column = pa.array(country, customers.field(place).type)
    pq.write_table(customers.set_column(place, customers.field(place), column), path)
    newcomers = [str(customers["customer_id"][row].as_py()) for row in moved]
    (shop / "newcomers.txt").write_text("\n".join(newcomers))


def _last_batch(shop: Path) -> Sequence[str]:
    connection = sqlite3.connect(shop / "disco.db")
    (batch,) = connection.execute("SELECT batch_id FROM batches ORDER BY number DESC LIMIT 1").fetchone()
    connection.close()
    return ["revert", batch]


def _twin(shop: Path) -> None:
    shutil.copytree(shop / "data", shop / "twin")


def _values(shop: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(_VALUES), shop / "values.parquet")
    (shop / "caps.yaml").write_text('caps: {"0.1": 20, "0.2": 10}\n')


def _damage(shop: Path) -> None:
    """Evidence that is not the ledger's, which a repair rebuilds."""
    connection = sqlite3.connect(shop / "disco.db")
    connection.execute("DELETE FROM evidence")
    connection.commit()
    connection.close()


def _a_customer(shop: Path) -> Sequence[str]:
    import pyarrow.parquet as pq

    customer = pq.read_table(shop / "codes.parquet")["customer_id"][0].as_py()
    return ["forget", str(customer)]


_LIFE = (
    Step("init", _given("init", ".")),
    Step("simulate", _given("simulate", "--customers", str(_CUSTOMERS), "--seed", "7", "-o", "data")),
    Step("features", _given("features", "data", "--as-of", "2025-06-01", "-o", "features.parquet")),
    Step(
        "train context",
        _given("train", "context", "--tables", "data", "--window-start", "2025-06-01", "--max-epochs", "1"),
    ),
    Step("plan", _given("plan", "first.yaml"), prepare=_plan_files),
    Step("launch", _given("launch", "first")),
    Step("export", _given("export", "first", "-o", "codes.parquet")),
    Step("export as CSV", _given("export", "first", "-o", "first.csv")),
    Step("respond", _given("respond", "data", "codes.parquet", "-o", "outcomes.parquet")),
    Step("ingest", _given("ingest", "first", "outcomes.parquet", "--quarantine", "aside.csv")),
    Step("learn", _given("learn", "first", "--as-of", "2025-10-03")),
    Step("plan with a belief", _given("plan", "second.yaml")),
    Step("launch with a reserve", _given("launch", "second")),
    Step("late", _given("late", "second", "--file", "newcomers.txt", "--as-of", "2025-10-10"), prepare=_moved_here),
    Step("propensities", _given("propensities", "second", "--draws", "5")),
    Step("pause", _given("pause", "second")),
    Step("resume", _given("resume", "second")),
    Step("export again", _given("export", "second", "-o", "codes.csv")),
    Step("respond again", _given("respond", "data", "codes.csv", "-o", "outcomes2.parquet")),
    Step("ingest again", _given("ingest", "second", "outcomes2.parquet")),
    Step("train basket", _given("train", "basket", "--campaign", "first", "--campaign", "second")),
    Step("learn again", _given("learn", "second", "--as-of", "2025-11-05")),
    Step("results --html", _given("results", "second", "--html", "results.html", "--as-of", "2025-11-05")),
    Step("backup", _given("backup", "-o", "shop.tar.gz")),
    Step("restore", _given("restore", "shop.tar.gz", "--shop", "restored")),
    Step("doctor --repair", _given("doctor", "--repair"), prepare=_damage, judges=True),
    Step("revert", _last_batch),
    Step("learn --rebuild", _given("learn", "--rebuild", "--as-of", "2025-11-05")),
    Step("learn --activate", _given("learn", "--activate", "1")),
    Step("forget", _a_customer, repeatable=False),
    Step("prune", _given("prune", "--older-than", "30d")),
    Step("recall", _given("recall", "second", "--as-of", "2025-10-20", "-o", "recalled.csv")),
    Step("close", _given("close", "first")),
    Step(
        "simulate --overwrite",
        _given("simulate", "--overwrite", "--customers", "120", "--seed", "8", "-o", "twin"),
        prepare=_twin,
    ),
    Step(
        "allocate", _given("allocate", "values.parquet", "--caps", "caps.yaml", "-o", "chosen.parquet"), prepare=_values
    ),
    Step("db upgrade", _given("db", "upgrade", "--shop", "old"), prepare=lambda shop: (shop / "old").mkdir()),
)


def _commands() -> set[str]:
    return set(_tree().commands)  # type: ignore[attr-defined]


def _tree() -> object:
    import typer

    from disco.entrypoints.cli.app import make_app

    return typer.main.get_command(make_app())


def _options(command: str) -> set[str]:
    found = _tree().commands[command]  # type: ignore[attr-defined]
    return {name for parameter in found.params for name in parameter.opts}


def _has_option(step: Step) -> bool:
    """A step named "doctor --repair" needs both the command and the option."""
    command, _, option = step.name.partition(" ")
    return not option.startswith("--") or option in _options(command)
