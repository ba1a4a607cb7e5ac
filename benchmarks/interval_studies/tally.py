"""How often intervals covered the truth, and why not: one row per figure and case, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite, nan
from statistics import fmean, stdev

from disco.records.estimate import Estimate

LOWEST, HIGHEST = 0.93, 0.97  # wanted of intervals of 95 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure in one case: in how many of how many repetitions something happened."""

    study: str
    case: str
    figure: str
    happened: int
    of: int
    lowest: float = LOWEST
    highest: float = HIGHEST
    bias: float = nan  # mean of estimate − truth, in sd of estimate − truth; NaN where no intervals are counted
    error: float = nan  # the standard error stated (root of the mean square) over the sd of estimate − truth
    too_low: float = nan  # share of the repetitions in which the whole interval was below the truth
    too_high: float = nan  # likewise above it
    note: str = ""

    @property
    def share(self) -> float:
        return self.happened / self.of if self.of else nan


@dataclass(slots=True)
class _Figure:
    """What was seen of one figure."""

    happened: int = 0
    of: int = 0
    away: list[float] = field(default_factory=list)  # estimate − truth
    squares: list[float] = field(default_factory=list)  # of the standard errors
    too_low: int = 0
    too_high: int = 0

    def row(self, **named: object) -> Row:
        counts: dict[str, float] = {"happened": self.happened, "of": self.of}
        if len(self.away) > 1 and (sd := stdev(self.away)) > 0:
            counts |= {"bias": fmean(self.away) / sd, "error": fmean(self.squares or [nan]) ** 0.5 / sd}
            counts |= {"too_low": self.too_low / self.of, "too_high": self.too_high / self.of}
        return Row(**named, **counts)  # type: ignore[arg-type]


class Tally:
    """Counts by figure, in the order in which figures first appear."""

    def __init__(self, study: str, case: str, *, lowest: float = LOWEST, highest: float = HIGHEST) -> None:
        self._fixed = {"study": study, "case": case, "lowest": lowest, "highest": highest}
        self._figures: dict[str, _Figure] = {}

    def add(self, figure: str, event: bool) -> None:
        seen = self._figures.setdefault(figure, _Figure())
        seen.happened += bool(event)
        seen.of += 1

    def covers(self, figure: str, interval: Estimate | None, truth: float) -> None:
        """Count whether an interval holds the truth; a figure without an interval does not count."""
        if interval is None:
            return
        self.add(figure, interval.covers(truth))
        seen = self._figures[figure]
        seen.away.append(interval.value - truth)
        if interval.standard_error is not None and isfinite(interval.standard_error):
            seen.squares.append(interval.standard_error**2)
        if not interval.covers(truth):
            seen.too_low += interval.value < truth
            seen.too_high += interval.value > truth

    def rows(self) -> list[Row]:
        return [seen.row(figure=figure, **self._fixed) for figure, seen in self._figures.items()]


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The lines of a table, each as soon as its row is known, judged with the 99.9 % band by chance around its share.

    For intervals also why: the bias and the stated error in standard deviations of the estimate, and on which side
    intervals missed. An unbiased estimate with a stated error near 1 that misses on one side is skewed.
    """
    columns = f"{'seen':>7} {'of':>6} {'bias':>6} {'error':>6} {'too low':>8} {'too high':>8}"
    yield f"  {'study':12} {'case':44} {'figure':50} {columns}  wanted"
    for row in rows:
        error = 3.3 * (max(row.share * (1 - row.share), 0.25 / row.of) / row.of) ** 0.5 if row.of else nan
        low, high = row.share - error, row.share + error
        state = "" if row.lowest <= row.share <= row.highest else "chance may explain it"
        if high < row.lowest or low > row.highest:
            state = "BELOW" if high < row.lowest else "ABOVE"
        wanted = f"{row.lowest:.1%} to {row.highest:.1%}" if row.lowest > 0 else f"at most {row.highest:.1%}"
        why = f"{'':31}"
        if isfinite(row.bias):
            why = f"{row.bias:+6.2f} {row.error:6.2f} {row.too_low:8.1%} {row.too_high:8.1%}"
        name = f"  {row.study:12} {row.case:44} {row.figure:50}"
        yield f"{name} {row.share:7.1%} {row.of:6,} {why}  {wanted} {state} {row.note}".rstrip()
