"""How far a long piece of work is, and how long each of its stages took."""

from collections.abc import Callable
from time import perf_counter

Report = Callable[[int, int | None, str], None]
"""Is told (done, total, stage) now and then; a total of None is not known. What it raises ends the work."""


def tell(report: Report | None, done: int, total: int | None, stage: str) -> None:
    """Tell whoever wants to know."""
    if report is not None:
        report(done, total, stage)


class Stages:
    """A report that passes everything on and adds up the seconds of each stage, in the order in which they began.

    >>> from itertools import count
    >>> seconds = count(0.0, 2.0)
    >>> stages = Stages(clock=lambda: next(seconds))
    >>> stages(0, 1, "features"); stages(1, 1, "features"); stages(0, 1, "deciding")
    >>> stages.seconds()
    {'features': 4.0, 'deciding': 2.0}
    """

    def __init__(self, report: Report | None = None, *, clock: Callable[[], float] = perf_counter) -> None:
        self._report, self._clock = report, clock
        self._seconds: dict[str, float] = {}
        self._stage, self._since = "", 0.0

    def __call__(self, done: int, total: int | None, stage: str) -> None:
        self._count(stage)
        tell(self._report, done, total, stage)

    def seconds(self) -> dict[str, float]:
        """By stage, up to now."""
        self._count(self._stage)
        return {stage: seconds for stage, seconds in self._seconds.items() if stage}

    def _count(self, stage: str) -> None:
        now = self._clock()
        if self._stage:
            self._seconds[self._stage] += now - self._since
        self._seconds.setdefault(stage, 0.0)
        self._stage, self._since = stage, now
