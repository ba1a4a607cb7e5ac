"""`./run drill faults [PART…]`: what fails around the program, and what is given to it, must not harm a shop.

io         EIO and ENOSPC at each of the first 50 writes, syncs, renames and removals of every writing command
full       every writing command on a disk of 16 MB with 0 to 400 KB left, then with space again (needs root)
interrupt  Ctrl-C at 100 moments of the writing commands
commands   5,000 wrong command lines, with limits on time and memory
files      2,000 damaged and hostile files
damage     damage to database and artefacts, and whether the health check sees it

After each fault: an error is a sentence with exit 1, no file under its final name is half-written, the health check
finds nothing, and the same command brings the shop to where a clean run brings it. Without PART, all of them.
"""

import argparse
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import faults_commands
import faults_full
import faults_interrupt
import faults_io
from faults_life import Moment, absent, live
from faults_report import Report, in_lanes
from own_mounts import leave_shared_mounts, make_read_only_except
from warm_commands import warm

from disco.records.errors import DiscoError, MissingPartError

PARTS = ("io", "full", "interrupt", "commands", "files", "damage")
_ELSEWHERE = {"files": "file_fuzz", "damage": "damage_drill"}
_SOURCE = Path(__file__).parents[2] / "src"
# the state in which command lines are tried: two campaigns, the second one answered but not yet ingested
_YARD_STEP = "ingest again"
_DURATIONS = """
How long each part takes on two free processors, after half a minute in which the shop is made (estimated from shorter
runs): io 40 minutes, full 5 minutes, interrupt 6 minutes, commands 20 minutes; files and damage as their own help says.
Every number can be made smaller with the options above; --step names a single writing command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="./run drill faults",
        description=__doc__,
        epilog=_DURATIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=1, help="of moments and command lines")
    parser.add_argument("--points", type=int, default=50, help="io: calls per command, two errors each")
    parser.add_argument("--moments", type=int, default=100, help="interrupt: Ctrl-C so many times")
    parser.add_argument("--lines", type=int, default=5000, help="commands: so many command lines")
    parser.add_argument("--only-line", type=int, help="commands: this line alone, to reproduce a failure")
    parser.add_argument("--step", action="append", default=[], help="only this writing command, such as launch")
    parser.add_argument("--lanes", type=int, default=min(4, os.cpu_count() or 1), help="processes at work")
    asked = parser.parse_args(argv)
    unknown = set(asked.parts) - set(PARTS)
    if unknown:
        parser.error(f"found no part {', '.join(sorted(unknown))}; expected {', '.join(PARTS)}")
    parts = asked.parts or list(PARTS)
    folder = Path(tempfile.mkdtemp(prefix="disco-faults-"))
    try:
        ours = [part for part in parts if part not in _ELSEWHERE]
        failed = _ours(ours, asked, folder) if ours else []
        failed += [_elsewhere(part) for part in parts if part in _ELSEWHERE]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return int(any(failed))


def _ours(parts: Sequence[str], asked: argparse.Namespace, folder: Path) -> list[bool]:
    """Whether each part failed."""
    warm()
    wanted = [*asked.step, _YARD_STEP] if asked.step else []
    broken: list[str] = []
    moments = live(folder, wanted, say=_aside, broken=broken)
    for one in broken:
        print(f"FAILED {one}", flush=True)
    if absent():
        _aside(f"not in this program, so not tried: {', '.join(absent())}")
    yard = next(moment for moment in moments if moment.step.name == _YARD_STEP)
    chosen = [moment for moment in moments if not asked.step or moment.step.name in asked.step]
    runs: dict[str, Callable[[], Report]] = {
        "io": lambda: io(chosen, folder, points=asked.points, lanes=asked.lanes),
        "full": lambda: full(chosen, folder, lanes=asked.lanes),
        "interrupt": lambda: interrupt(chosen, folder, count=asked.moments, seed=asked.seed, lanes=asked.lanes),
        "commands": lambda: command_lines(
            yard, folder, count=asked.lines, seed=asked.seed, lanes=asked.lanes, only=asked.only_line
        ),
    }
    failed = [bool(broken)]
    for part in parts:
        started = time.monotonic()
        try:
            report = runs[part]()
        except MissingPartError as missing:
            failed.append(_not_run(part, str(missing)))
            continue
        for miss in report.misses:
            _aside(f"missed {miss}")
        print(report.line(time.monotonic() - started), flush=True)
        failed.append(bool(report.failures) or report.cases == 0)
    return failed


def io(moments: Sequence[Moment], folder: Path, *, points: int, lanes: int) -> Report:
    places: list[tuple[Moment, faults_io.Fault]] = []
    for moment in moments:
        faults = faults_io.faults_of(moment, folder, most=points)
        _aside(f"io: {moment.step.name}: {len(faults)} faults")
        places += [(moment, fault) for fault in faults]
    return in_lanes(
        "io", places, lambda case, place, report: faults_io.strike(*case, place, report), folder=folder, lanes=lanes
    )


def full(moments: Sequence[Moment], folder: Path, *, lanes: int) -> Report:
    """In a process of its own, whose mounts nobody else sees."""
    fills = [faults_full.Fill(moment, left) for moment in moments for left in faults_full.LEVELS_BYTES]
    _try_mounts()
    return in_lanes("full", fills, faults_full.strike, folder=folder, lanes=lanes, at_start=leave_shared_mounts)


def interrupt(moments: Sequence[Moment], folder: Path, *, count: int, seed: int, lanes: int) -> Report:
    """Moments spread evenly over each command, the commands in turn; three of ten in a new process."""
    dice = random.Random(seed)
    cold: dict[str, float] = {}
    cases = []
    for number, moment in zip(range(count), itertools.cycle(moments), strict=False):
        share = (number // len(moments) + dice.random()) / -(-count // len(moments))
        is_cold = number % 10 in (0, 4, 7)
        if is_cold and not cold:  # the start is alike for all commands, and most of their time
            cold["start"] = faults_interrupt.cold_seconds(moment, folder)
        seconds = cold["start"] if is_cold else moment.seconds
        cases.append(faults_interrupt.Interruption(moment, share, is_cold, seconds))
    return in_lanes("interrupt", cases, faults_interrupt.strike, folder=folder, lanes=lanes)


def command_lines(yard: Moment, folder: Path, *, count: int, seed: int, lanes: int, only: int | None = None) -> Report:
    """Behind a wall: everything but the drill's folder is read-only. Without the wall, no device is named."""
    kept = folder / "yard"
    faults_commands.prepare(kept, yard.kept)
    try:
        _try_mounts()
        wall: Callable[[], None] | None = partial(_wall, folder)
    except MissingPartError as missing:
        wall = None
        _aside(f"commands: no devices are named, because this process cannot protect them ({missing})")
    lines = faults_commands.lines(count if only is None else only + 1, seed=seed, devices=wall is not None)
    yards: dict[Path, faults_commands.Yard] = {}

    def strike(line: faults_commands.Line, place: Path, report: Report) -> None:
        own = yards.setdefault(place, faults_commands.Yard(kept, place))
        faults_commands.strike(line, place, report, yard=own, seed=seed)

    chosen = lines if only is None else lines[only:]
    return in_lanes("commands", chosen, strike, folder=folder, lanes=lanes, at_start=wall)


def _wall(folder: Path) -> None:
    leave_shared_mounts()
    make_read_only_except(folder, _SOURCE)


def _try_mounts() -> None:
    """Raise MissingPartError when a child of this process may not have mounts of its own."""
    process_id = os.fork()
    if process_id == 0:
        try:
            leave_shared_mounts()
        except (DiscoError, OSError):
            os._exit(1)
        os._exit(0)
    if os.waitpid(process_id, 0)[1] != 0:
        found, expected = "no right to mount", "the right to mount"
        raise MissingPartError("faults drill", found=found, expected=expected, fix="Run it as root.")


def _elsewhere(part: str) -> bool:
    """Run a drill that is a file of its own; whether it failed."""
    file = Path(__file__).with_name(f"{_ELSEWHERE[part]}.py")
    if not file.is_file():
        return _not_run(part, f"there is no {file.name}")
    started = time.monotonic()
    code = subprocess.run([sys.executable, str(file)]).returncode
    print(
        f"{part}: {f'failed with exit {code}' if code else 'passed'} ({time.monotonic() - started:.0f} s)", flush=True
    )
    return code != 0


def _not_run(part: str, reason: str) -> bool:
    """Said loudly; where everything must run, a failure."""
    print(f"{part}: NOT RUN: {reason}", flush=True)
    return os.environ.get("CI") == "true"


def _aside(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
