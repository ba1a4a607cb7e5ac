"""How often intervals covered the truth: one row per figure and case, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    note: str = ""

    @property
    def share(self) -> float:
        return self.happened / self.of if self.of else float("nan")


class Tally:
    """Counts by figure, in the order in which figures first appear."""

    def __init__(self, study: str, case: str, *, lowest: float = LOWEST, highest: float = HIGHEST) -> None:
        self._fixed = {"study": study, "case": case, "lowest": lowest, "highest": highest}
        self._counts: dict[str, list[int]] = {}

    def add(self, figure: str, event: bool) -> None:
        count = self._counts.setdefault(figure, [0, 0])
        count[0] += bool(event)
        count[1] += 1

    def covers(self, figure: str, interval: Estimate | None, truth: float) -> None:
        """Count whether an interval holds the truth; a figure without an interval does not count."""
        if interval is not None:
            self.add(figure, interval.covers(truth))

    def rows(self) -> list[Row]:
        return [Row(figure=figure, happened=hit, of=of, **self._fixed) for figure, (hit, of) in self._counts.items()]  # type: ignore[arg-type]


def table(rows: Iterable[Row]) -> str:
    """Every row, with its 99.9 % band by chance around the share seen."""
    lines = [f"  {'study':12} {'case':44} {'figure':50} {'seen':>7} {'of':>6}  wanted"]
    for row in rows:
        error = 3.3 * (max(row.share * (1 - row.share), 0.25 / row.of) / row.of) ** 0.5 if row.of else float("nan")
        low, high = row.share - error, row.share + error
        state = "" if row.lowest <= row.share <= row.highest else "chance may explain it"
        if high < row.lowest or low > row.highest:
            state = "BELOW" if high < row.lowest else "ABOVE"
        wanted = f"{row.lowest:.1%} to {row.highest:.1%}" if row.lowest > 0 else f"at most {row.highest:.1%}"
        name = f"  {row.study:12} {row.case:44} {row.figure:50}"
        lines.append(f"{name} {row.share:7.1%} {row.of:6,}  {wanted} {state} {row.note}".rstrip())
    return "\n".join(lines)
