"""Thousands of wrong command lines, made from the real tree of commands: a sentence and exit 0, 1, 2 or 4 for each.

Each line begins as one that works, or as nothing at all, and is spoiled a few times: values missing, doubled, huge,
negative, not a number, not text, of another kind, paths of the shop's own files, devices, options of other commands.
It runs in a fork with limits on time and memory, in a copy of a shop; what it must not touch is compared afterwards.
"""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from faults_life import environment, failed_checks
from faults_report import Report
from warm_commands import Ended, Forked, Limits

_CPU_SECONDS = 60
_WALL_SECONDS = 600.0
_ADDRESS_BYTES = 24 * 2**30
_MOST_GROWTH_BYTES = 2 * 2**30
_LONG = 2_000
# these run for minutes by design: their lines always hold an option that does not exist
_LONG_RUNNING = ("demo", "serve", "worker")
# asks for work in proportion; larger values are the user's wish, not a fault
_AMOUNTS = {
    "--customers": 60,
    "--draws": 4,
    "--repeats": 2,
    "--max-epochs": 1,
    "--seeds": 1,
    "--threads": 2,
    "--dimensions": 6,
    "--looks": 10,
    "--looks-per-week": 2,
}
# one line per command that works in the shop under test
_WORKING = (
    "init other",
    "simulate --customers 40 --seed 3 -o other",
    "respond data codes.csv -o answers.parquet",
    "validate data --as-of 2025-10-01",
    "validate second.yaml",
    "features data --as-of 2025-09-01 -o f.parquet --threads 2 --memory-limit 1GB",
    "train context --features features.parquet --max-epochs 1 -o n.safetensors --seed 3",
    "train basket --campaign first",
    "check --features features.parquet",
    "check second",
    "plan second.yaml --dry-run",
    "plan first.yaml",
    "frontier second.yaml --budgets 100,200 --weights 1,2",
    "launch second",
    "export second -o e.csv",
    "ingest second outcomes2.parquet --quarantine aside.csv --dry-run",
    "ingest first outcomes.parquet",
    "learn first --as-of 2025-10-03",
    "learn --activate 1",
    "revert 00000000",
    "results first --as-of 2025-10-03 --html r.html",
    "results",
    "explain first c0000001",
    "belief",
    "belief 1",
    "campaigns",
    "campaigns first",
    "pause first",
    "resume first",
    "close first",
    "recall second -o r.csv",
    "plan show second",
    "plan copy second",
    "plan diff first second",
    "late second c0000000 --as-of 2025-10-10",
    "propensities second --draws 2",
    "doctor",
    "allocate values.parquet --caps caps.yaml -o a.parquet --summary s.json",
    "replay log.parquet --context x1,x2 --policy thompson --policy random --batch 50 --repeats 0",
    "power --baseline 4.2 --sd 18 --uplift 1% --control-share 20%",
    "db upgrade",
    "demo --customers 30 -o d",
    "backup -o b.backup",
    "restore b.backup --shop elsewhere",
    "forget c0000001",
    "prune --older-than 400d",
)


def _words(text: str) -> list[str]:
    return text.split()


_NUMBERS = _words(
    "-1 0 -0 1 2 1e308 -1e308 1e-308 5e-324 NaN nan inf -inf 1e400 999999999999999999999999 9223372036854775808"
)
_NUMBERS += ["-9223372036854775809", "0x10", "1_000", "٣", "1,5", "50%", "-5%", "1000%", "1e-400%", "½", "1" * 400]
_DAYS = _words(
    "9999-12-31 0001-01-01 0000-00-00 2025-02-30 2025-13-01 1969-12-31 -2025-01-01 2025-10-01T12:00 20251001"
)
_TEXTS = ["", " ", "-", "--", "---", "\t", "\n", "'", '"', "`id`", "$(id)", "%s%n", "{", "}", "[", "null", "true", "~"]
_TEXTS += ["ünïcödé", "名前", "\u202eabc", "\ufeff", "\x1b[31mred\x1b[0m", "\x07", "\x7f", "😀" * 50, "a\rb", "a\x85b"]
_TEXTS += ["'; DROP TABLE campaigns; --", "first;second", "first,first", "first", "second", "c0000001", "a" * _LONG]
_TEXTS += [
    "\udcff",
    "first\udcff",
    "\udce4.parquet",
    "data/\udcff",
    "--\udcff",
    "=",
    "=1",
    "a=b",
    "x1=",
    "0.1=25%,0.1=3",
]
_PATHS = _words(
    ". .. / ./ data data/ artefacts disco.db disco.yaml first.yaml context.safetensors features.parquet outside"
)
_PATHS += _words(
    "data/orders.parquet data/customers.parquet data/retailer.json outcomes.parquet codes.csv values.parquet"
)
_PATHS += ["absent/x.parquet", "absent", "outside/link", "outside/circle", "outside/dangling", "outside/empty"]
_PATHS += ["outside/precious.csv", "outside/noise.parquet", "a" * 300, "x" + "/y" * 100, "tmp", "outside/locked/x"]
_URLS = [
    "postgresql://[::1/x",
    "postgresql://127.0.0.1:1/x",
    "sqlite:///",
    "sqlite://",
    "sqlite:///:memory:",
    "://",
    "http://x",
]
_URLS += [
    "sqlite:///data/orders.parquet",
    "mysql://x/y",
    "postgresql://u:p@/\udcff",
    "sqlite:///absent/x.db",
    "file:data",
]
_DEVICES = _words(
    "/dev/null /dev/full /dev/zero /dev/stdin /dev/stdout /dev/fd/9 /dev/tty /proc/self/mem /proc/self/maps"
)
_DEVICES += ["/etc/passwd", "/etc", "/proc", "/sys/kernel"]
_SETTINGS = (
    "DISCO_DATABASE_URL",
    "DISCO_DATA",
    "DISCO_THREADS",
    "DISCO_CODE_SECRET",
    "DISCO_CONTEXT",
    "DISCO_ARTEFACTS",
)
# what no output may replace, whatever the line says
_OWN = ("disco.yaml", "data")
_MAY_CHANGE_TABLES = ("simulate", "respond", "init", "demo", "restore")


@dataclass(frozen=True, slots=True)
class Line:
    """One command line, and variables of its environment."""

    number: int
    arguments: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A leaf of the tree of commands."""

    words: tuple[str, ...]
    options: tuple[tuple[str, bool], ...]
    """Each name, and whether it takes a value."""


def commands() -> list[Command]:
    """All commands of the program, from the tree that parses them."""
    import typer

    from disco.entrypoints.cli.app import make_app

    return list(_leaves(typer.main.get_command(make_app()), ()))


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[Command]:
    if hasattr(command, "commands"):
        for name, one in sorted(command.commands.items()):
            yield from _leaves(one, (*words, name))
        return
    options = [
        (name, not getattr(parameter, "is_flag", False))
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in parameter.opts
    ]
    yield Command(words, tuple(options))


def lines(count: int, *, seed: int, devices: bool) -> list[Line]:
    """Seeded: line `number` of a seed depends on nothing else but the tree of commands."""
    tree = commands()
    working = [
        text.split() for text in _WORKING if any(text.split()[: len(one.words)] == list(one.words) for one in tree)
    ]
    return [_line(number, random.Random(f"{seed}:{number}"), tree, working, devices=devices) for number in range(count)]


def _line(
    number: int, dice: random.Random, tree: Sequence[Command], working: Sequence[list[str]], *, devices: bool
) -> Line:
    command = dice.choice(tree)
    alike = [text for text in working if text[: len(command.words)] == list(command.words)]
    given = list(dice.choice(alike)) if alike and dice.random() < 0.85 else list(command.words)
    head = len(command.words)
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        given = given[:head] + _spoiled(given[head:], command, dice, devices=devices)
    if command.words[0] in _LONG_RUNNING:
        given.append("--no-such-option")
    if dice.random() < 0.02:  # the command itself is wrong
        given[0] = dice.choice((given[0][:-1], given[0].upper(), _value(dice, devices=False)))
    variables = ()
    if dice.random() < 0.06:
        variables = ((dice.choice(_SETTINGS), _value(dice, devices=devices)),)
    return Line(number, tuple(_bounded(given)), variables)


def _spoiled(given: list[str], command: Command, dice: random.Random, *, devices: bool) -> list[str]:
    """The arguments after the command, changed once."""
    given = list(given)
    kind = dice.choice(
        ("replace", "replace", "replace", "option", "option", "drop", "double", "insert", "shuffle", "flag")
    )
    if kind == "replace" and given:
        given[dice.randrange(len(given))] = _value(dice, devices=devices)
    elif kind == "option" and command.options:
        name, takes_value = dice.choice(command.options)
        form = dice.random()
        if not takes_value:
            given.append(name)
        elif form < 0.7:
            given += [name, _value(dice, devices=devices)]
        elif form < 0.9:
            given.append(f"{name}={_value(dice, devices=devices)}")
        else:
            given.append(name)  # its value is missing
    elif kind == "drop" and given:
        del given[dice.randrange(len(given))]
    elif kind == "double" and given:
        place = dice.randrange(len(given))
        given[place:place] = given[place : place + 2]
    elif kind == "insert":
        given.insert(dice.randint(0, len(given)), _value(dice, devices=devices))
    elif kind == "shuffle":
        dice.shuffle(given)
    elif kind == "flag":
        given.append(dice.choice(("--json", "--quiet", "--help", "-h", "-o", "--shop", "--dry-run", "--version", "-x")))
    return given


def _value(dice: random.Random, *, devices: bool) -> str:
    pools = [_NUMBERS, _NUMBERS, _DAYS, _TEXTS, _TEXTS, _PATHS, _PATHS, _URLS, *([_DEVICES] if devices else [])]
    return dice.choice(dice.choice(pools))


def _bounded(given: list[str]) -> list[str]:
    """Options that ask for an amount of work keep to a small one where a number of that size is a fair wish."""
    bounded: list[str] = []
    option = ""
    for one in given:
        name, equals, value = one.partition("=")
        if equals and name in _AMOUNTS:
            one = f"{name}={_amount(name, value)}"
        elif option in _AMOUNTS:
            one = _amount(option, one)
        bounded.append(one)
        option = one
    return bounded


def _amount(option: str, value: str) -> str:
    try:
        return value if int(value) <= _AMOUNTS[option] else str(_AMOUNTS[option])
    except ValueError:
        return value


class Yard:
    """A shop with things beside it that nobody named, made anew whenever a line has changed it."""

    def __init__(self, kept: Path, folder: Path) -> None:
        self._kept = kept
        self._folder = folder
        self.world = folder / "world"
        self._made = False

    def ready(self) -> None:
        if not self._made:
            shutil.rmtree(self.world, ignore_errors=True)
            shutil.copytree(self._kept, self.world, symlinks=True)
            self.before = _snapshot(self.world)
            self._made = True

    def judge(self, line: Line, said: Path) -> list[str]:
        """What the line changed that it should not have; a changed shop is made anew."""
        now = _snapshot(self.world)
        if now == self.before:
            return []
        self._made = False
        changed = {name for name in now.keys() | self.before.keys() if now.get(name) != self.before.get(name)}
        found = [f"changed {name!a}" for name in sorted(changed) if self._is_forbidden(name, line)]
        found += [f"left {name!a} behind" for name in sorted(changed) if name.startswith("tmp/") and name in now]
        if "shop/disco.db" in changed:
            found += [f"the health check finds: {one}" for one in failed_checks(self.world, said)]
        return found

    def _is_forbidden(self, name: str, line: Line) -> bool:
        """Outputs may be written where the line says; tables, settings and inputs may not be replaced by them."""
        inside = name.removeprefix("shop/")
        if inside == "disco.db" or inside.startswith(("disco.db-", "artefacts")) or name.startswith("tmp/"):
            return False
        if inside.split("/")[0] in _OWN:
            return not (line.arguments and line.arguments[0] in _MAY_CHANGE_TABLES)
        named = [*line.arguments, *(value for _, value in line.variables)]
        parts = {part for one in named for part in (one, one.partition("=")[2], one.removeprefix("-o")) if part}
        places = {os.path.normpath(part) for part in parts}
        places |= {place for one in places for place in (f"{one}.manifest.json", *self._behind(one))}
        roots = {"other", "context.safetensors", *places}
        return not any(inside == root or inside.startswith(f"{root}/") or root in ("", ".", "/") for root in roots)

    def _behind(self, place: str) -> list[str]:
        """What a link of this name leads to: outputs are written through links, which stay links."""
        link = self.world / "shop" / place
        return [os.path.normpath(Path(place).parent / os.readlink(link))] if _is_link(link) else []


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except (OSError, ValueError):  # no name of a file
        return False


def prepare(kept: Path, source: Path) -> None:
    """The world that every line runs in: a shop after two campaigns, and precious things beside its own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shutil.copytree(source, kept)
    shop = kept / "shop"
    dice = random.Random(5)
    log = {"customer_id": [f"c{row}" for row in range(300)], "depth": [dice.choice((0.1, 0.2)) for _ in range(300)]}
    log |= {name: [dice.gauss(0, 1) for _ in range(300)] for name in ("x1", "x2")}
    log["full_price"] = [dice.choice((None, 20.0, 35.0)) for _ in range(300)]
    pq.write_table(pa.table(log), shop / "log.parquet")
    values = {"customer_id": [f"c{row}" for row in range(60)], "0.1": [1.0] * 60, "0.2": [1.5] * 60}
    pq.write_table(pa.table(values), shop / "values.parquet")
    (shop / "caps.yaml").write_text('caps: {"0.1": 20, "0.2": 10}\n')
    outside = shop / "outside"
    outside.mkdir()
    (outside / "precious.csv").write_text("customer_id\nc0000001\n")
    (outside / "noise.parquet").write_bytes(dice.randbytes(5_000))
    (outside / "empty").touch()
    (outside / "link").symlink_to("precious.csv")
    (outside / "dangling").symlink_to("nowhere")
    (outside / "circle").symlink_to("circle")


def strike(line: Line, folder: Path, report: Report, *, yard: Yard, seed: int) -> None:
    yard.ready()
    limits = Limits(wall_seconds=_WALL_SECONDS, cpu_seconds=_CPU_SECONDS, address_bytes=_ADDRESS_BYTES)
    given = {**environment(yard.world), **dict(line.variables)}
    ended = Forked(line.arguments, cwd=yard.world / "shop", said=folder, environment=given, limits=limits).wait()
    problems = _wrong(ended, own_bytes=_resident_bytes()) + yard.judge(line, folder)
    words = " ".join(
        ascii(one) if one != one.strip() or not one.isascii() or not one else one for one in line.arguments
    )
    variables = "".join(f"{name}={value!a} " for name, value in line.variables)
    report.case(
        f"commands --seed {seed}, line {line.number}: {variables}disco {words[:600]}",
        problems,
        said=f"exit {ended.code}: {ended.err.strip()[-500:]}",
    )


def _wrong(ended: Ended, *, own_bytes: int) -> list[str]:
    found = []
    if ended.timed_out:
        found.append(f"no end after {ended.seconds:.0f} s, or {_CPU_SECONDS} s of processor time")
    elif ended.code not in (0, 1, 2, 4):
        found.append(f"exit {ended.code}")
    if ended.shows_traceback or "Exception ignored" in ended.err:
        found.append("a traceback")
    if ended.code in (1, 2) and not ended.err.strip() and not ended.out.strip():
        found.append("no word about what is wrong")
    if ended.peak_bytes > own_bytes + _MOST_GROWTH_BYTES:
        found.append(f"{(ended.peak_bytes - own_bytes) / 2**30:.1f} GB of memory")
    return found


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _snapshot(world: Path) -> dict[str, str]:
    """Every file with a digest of its bytes, every link with its target; folders by name."""
    found = {}
    for root, folders, files in os.walk(world):
        for name in [*folders, *files]:
            path = Path(root, name)
            inside = str(path.relative_to(world))
            if path.is_symlink():
                found[inside] = f"to {os.readlink(path)}"
            elif path.is_file():
                found[inside] = sha256(path.read_bytes()).hexdigest()
            elif not path.is_dir():
                found[inside] = "special"
    return found
