"""Ctrl-C at moments spread over commands: exit 130, at most one line, nothing half-written, works after.

Three of ten commands are new processes, so that the interpreter's start and the imports are hit too; the others are
forks of a warm process, in which nearly every moment is one of the command's own work.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from faults_life import Moment, environment, forked, verdict
from faults_report import Report
from warm_commands import BEFORE_THE_PROGRAM, Ended

_PROGRAM = [sys.executable, "-c", "from disco.entrypoints.cli import command; command()"]
_SECONDS = 300
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Interruption:
    """Ctrl-C after this share of the time that the command takes."""

    moment: Moment
    share: float
    cold: bool
    """A new process, or a fork of this one."""
    seconds: float
    """How long the command takes undisturbed."""


def strike(case: Interruption, folder: Path, report: Report) -> None:
    """Interrupt the command; a miss aims nearer the next time."""
    share = case.share
    for _ in range(_ATTEMPTS):
        world = folder / "world"
        shutil.rmtree(world, ignore_errors=True)
        shutil.copytree(case.moment.kept, world)
        ended = (_cold if case.cold else _warm)(case, share * case.seconds, world, folder)
        if ended is not None and (ended.code != 0 or verdict(case.moment, world, ended, folder)):
            break  # hit; what was done before the signal came must be done as ever
        share *= 0.6
    else:
        report.missed(f"{case.moment.step.name} at {case.share:.0%}")
        return
    if _before_the_program(ended, cold=case.cold):
        report.missed(f"{case.moment.step.name} at {case.share:.0%}: the program was not called yet")
        return
    problems = verdict(case.moment, world, ended, folder, codes=(130,)) + _too_many_words(ended)
    kind = "a new process" if case.cold else "a fork"
    report.case(
        f"interrupt: disco {' '.join(case.moment.arguments)}: SIGINT after {share * case.seconds:.3f} s of {kind}",
        problems,
        said=f"exit {ended.code}: {ended.err.strip()[-600:]}",
    )


def cold_seconds(moment: Moment, folder: Path) -> float:
    """How long the command takes as a new process."""
    world = folder / "world"
    shutil.rmtree(world, ignore_errors=True)
    shutil.copytree(moment.kept, world)
    started = time.monotonic()
    _started(moment, world, folder).wait(_SECONDS)
    return time.monotonic() - started


def _warm(case: Interruption, seconds: float, world: Path, folder: Path) -> Ended:
    command = forked(case.moment, world, folder)
    command.go()
    time.sleep(seconds)
    command.interrupt()
    return command.wait()


def _cold(case: Interruption, seconds: float, world: Path, folder: Path) -> Ended | None:
    """None: it had ended before."""
    process = _started(case.moment, world, folder)
    started = time.monotonic()
    try:
        process.wait(seconds)
        return None
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        code = process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return Ended(-9, "", "", time.monotonic() - started, 0, timed_out=True)
    out, err = ((folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    if code == -signal.SIGINT and not err:
        code = 130  # before Python listens, the signal itself ends the process, and a shell says 130
    return Ended(code, out, err, time.monotonic() - started, 0)


def _started(moment: Moment, world: Path, folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        return subprocess.Popen(
            [*_PROGRAM, *moment.arguments],
            cwd=world / "shop",
            env={**os.environ, **environment(world)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )


def _before_the_program(ended: Ended, *, cold: bool) -> bool:
    """Python prints a traceback of its own when it is interrupted before the first line of the program is called."""
    if not cold:
        return ended.code == BEFORE_THE_PROGRAM
    return ended.shows_traceback and not re.search(r"in (command|main)$", ended.err, re.M)


def _too_many_words(ended: Ended) -> list[str]:
    lines = [line for line in ended.err.splitlines() if line.strip() and not line.startswith("warning: ")]
    return [f"{len(lines)} lines on stderr, expected at most one"] if len(lines) > 1 else []
