"""What a part of the drill counted and found; lanes of processes that share the work."""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")
_TOLD_EVERY_SECONDS = 60


@dataclass(slots=True)
class Report:
    """Counts of one part, and every failure with its reproduction."""

    part: str
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    """Cases in which the fault did not strike: they show nothing."""
    notes: list[str] = field(default_factory=list)

    def case(self, reproduction: str, problems: Sequence[str], *, said: str = "") -> None:
        self.cases += 1
        if problems:
            self.failures.append(f"{reproduction}\n    " + "\n    ".join([*problems, *([said] if said else [])]))

    def missed(self, reproduction: str) -> None:
        self.misses.append(reproduction)

    def add(self, other: "Report") -> None:
        self.cases += other.cases
        self.failures += other.failures
        self.misses += other.misses
        self.notes += other.notes

    def line(self, seconds: float) -> str:
        missed = f", {len(self.misses)} missed" if self.misses else ""
        notes = "".join(f"; {note}" for note in self.notes)
        return f"{self.part}: {self.cases} cases, {len(self.failures)} failed{missed} ({seconds:.0f} s){notes}"


def in_lanes(
    part: str,
    cases: Sequence[Case],
    strike: Callable[[Case, Path, Report], None],
    *,
    folder: Path,
    lanes: int,
    at_start: Callable[[], None] | None = None,
) -> Report:
    """Strike every case, the cases shared among `lanes` forked processes, each with a folder of its own.

    at_start: called first in each of these processes.
    """
    children = []
    for lane in range(lanes):
        place = folder / f"{part}-{lane}"
        place.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        process_id = os.fork()
        if process_id == 0:
            _lane(part, cases[lane::lanes], strike, place, at_start)
        children.append((process_id, place))
    total = Report(part)
    for process_id, place in children:
        _, status = os.waitpid(process_id, 0)
        told = place / "report.json"
        if status != 0 or not told.is_file():
            total.failures.append(f"{part}: a lane of the drill itself ended with {os.waitstatus_to_exitcode(status)}")
        if told.is_file():
            total.add(Report(**json.loads(told.read_text())))
    return total


def _lane(
    part: str,
    cases: Sequence[Case],
    strike: Callable[[Case, Path, Report], None],
    place: Path,
    at_start: Callable[[], None] | None,
) -> None:
    """Never returns. What was found until then is told even when the lane itself breaks."""
    report, code = Report(part), 0
    try:
        if at_start is not None:
            at_start()
        told = time.monotonic()
        for number, case in enumerate(cases):
            if time.monotonic() > told + _TOLD_EVERY_SECONDS:
                told = time.monotonic()
                print(f"{place.name}: {number} of {len(cases)}", file=sys.stderr, flush=True)
            before = len(report.failures)
            strike(case, place, report)
            for failure in report.failures[before:]:
                print(f"FAILED {failure}", flush=True)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        (place / "report.json").write_text(json.dumps(asdict(report)))
        os._exit(code)
