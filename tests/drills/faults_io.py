"""EIO and ENOSPC at each of the first writes, syncs, renames and removals of every writing command.

A clean run under strace shows which calls a command makes on files of its world; then each of them fails in a run of
its own (strace injects the error). strace counts per thread, so a fault hits the n-th call of that kind of the thread.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from faults_life import Moment, forked, verdict
from faults_report import Report
from system_calls import straced
from warm_commands import Ended

from disco.records.errors import DiscoError

ERRORS = ("EIO", "ENOSPC")
_WRITES = ("write", "pwrite64", "writev", "pwritev", "ftruncate", "fallocate", "copy_file_range", "sendfile")
_SYNCS = ("fsync", "fdatasync", "sync_file_range")
_NAMES = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "link", "linkat")
CALLS = (*_WRITES, *_SYNCS, *_NAMES)
_REMOVALS = ("unlink", "unlinkat", "rmdir")
_LINE = re.compile(r"^(?P<process>\d+) +(?P<call>\w+)\((?P<rest>.*)$")


@dataclass(frozen=True, slots=True)
class Fault:
    """The n-th call of its kind fails."""

    call: str
    number: int
    """Counted from 1, in the thread that makes it."""
    error: str

    def __str__(self) -> str:
        return f"{self.error} at {self.call} {self.number}"


def faults_of(moment: Moment, folder: Path, *, most: int) -> list[Fault]:
    """Both errors at each of the first `most` calls that the command makes on its own files."""
    world, log = _world(moment, folder), folder / "trace"
    command = forked(moment, world, folder)
    with traced(command.process_id, log):
        ended = command.wait()
    if ended.code != 0:
        raise DiscoError("faults drill", found=f"{moment.step.name} ended with {ended.code} when it was only traced")
    counts: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, int], None] = {}
    for process, call, rest in _calls(log):
        counts[process, call] += 1
        if str(world) in rest or (call in _NAMES and "AT_FDCWD</" not in rest and '"/' not in rest):
            places[call, counts[process, call]] = None
    return [Fault(call, number, error) for call, number in list(places)[:most] for error in ERRORS]


def strike(moment: Moment, fault: Fault, folder: Path, report: Report) -> None:
    """Run the command with that fault, then without; report what is wrong."""
    world, log = _world(moment, folder), folder / "trace"
    command = forked(moment, world, folder)
    with traced(command.process_id, log, fault):
        ended = command.wait()
    if not _hit(log, world):
        report.missed(f"{moment.step.name}: {fault}")
        return
    tidy = fault.call not in _REMOVALS
    problems = verdict(moment, world, ended, folder, tidy=tidy)
    report.case(f"io: disco {' '.join(moment.arguments)}: {fault}", problems, said=_said(ended))


def _said(ended: Ended) -> str:
    return f"exit {ended.code}: {ended.err.strip()[-400:]}"


def _world(moment: Moment, folder: Path) -> Path:
    world = folder / "world"
    shutil.rmtree(world, ignore_errors=True)
    shutil.copytree(moment.kept, world)
    return world


def traced(process_id: int, log: Path, fault: Fault | None = None) -> AbstractContextManager[None]:
    """Trace the calls that write; with a fault, one of them fails."""
    inject = [] if fault is None else [f"--inject={fault.call}:error={fault.error}:when={fault.number}"]
    calls = f"--trace={','.join(CALLS)}"
    return straced(process_id, "-f", "-y", "-s", "0", calls, *inject, log=log, drill="faults drill")


def _calls(log: Path) -> Iterator[tuple[str, str, str]]:
    for line in log.read_text(errors="replace").splitlines():
        if (found := _LINE.match(line)) and found["call"] in CALLS:
            yield found["process"], found["call"], found["rest"]


def _hit(log: Path, world: Path) -> bool:
    """Whether an error was injected into a call on the command's own files, and into no other."""
    injected = [rest for _, _, rest in _calls(log) if "(INJECTED)" in rest]
    return bool(injected) and all(str(world) in rest or "</" not in rest for rest in injected)
