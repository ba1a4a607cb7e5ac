"""One figure or table of the paper beside ours, and the verdict: computed by one rule, never written by hand.

A `Check` is one claim of the paper that a figure can decide. It holds where its rule is met; where it is not met, the
claim is open while the interval over environments still leaves room for it, and fails otherwise. An item reproduces
when all its checks hold, partly when some do; when none does it is undecided if all are open, else it does not
reproduce. Where the depth's encoding matters, each check is made once per reading of the paper's widths; the headline
is that of `MAIN_READING`, the others stand beside it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from disco.reports import BarChart, CurveChart, Estimate, IntervalChart, Table
from disco.reports.formats import Unit
from disco.studies.customers.figures import Cell

MAIN_READING = "γ = 20"
Row: TypeAlias = tuple[str | float | Estimate | None, ...]  # of a table


class Verdict(StrEnum):
    REPRODUCES = "reproduces"
    PARTLY = "partly"
    UNDECIDED = "undecided"
    DOES_NOT = "does not reproduce"

    @classmethod
    def of(cls, checks: Sequence["Check"]) -> "Verdict":
        if any(check.holds for check in checks):
            return cls.REPRODUCES if all(check.holds for check in checks) else cls.PARTLY
        return cls.UNDECIDED if all(check.is_open for check in checks) else cls.DOES_NOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A claim of the paper, its figure or shape in words, ours over environments, and whether the rule is met.

    is_open: it is not met, but what was measured does not speak against the claim either.
    """

    claim: str
    paper: str
    ours: Cell
    unit: Unit
    rule: str
    holds: bool
    is_open: bool = False
    reading: str = ""  # of the depth's encoding; empty where no encoding has a part in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What `disco reproduce` shows of one figure or table."""

    key: str
    title: str
    paper: str  # what the paper shows, in our words
    checks: tuple[Check, ...]
    why: str  # why we think ours came out as it did
    charts: tuple[CurveChart | BarChart | IntervalChart, ...] = ()
    tables: tuple[Table, ...] = ()
    command: str = ""  # command and seconds are filled in by the run
    seconds: float = 0.0

    @property
    def headline(self) -> tuple[Check, ...]:
        """The checks that decide: those of the main reading, and those without any."""
        return tuple(check for check in self.checks if check.reading in ("", MAIN_READING))

    @property
    def verdict(self) -> Verdict:
        return Verdict.of(self.headline)

    @property
    def verdict_by_reading(self) -> dict[str, Verdict]:
        """Of each reading, its own checks and those that have none; empty where no encoding matters."""
        readings = dict.fromkeys(check.reading for check in self.checks if check.reading)
        return {
            reading: Verdict.of([check for check in self.checks if check.reading in ("", reading)])
            for reading in readings
        }

    @property
    def reason(self) -> str:
        """Which claims hold, which are open and which do not hold: a sentence for each."""
        sentences = {
            "Holds": [check.claim for check in self.headline if check.holds],
            "Open, as intervals leave room for both": [check.claim for check in self.headline if check.is_open],
            "Does not hold": [check.claim for check in self.headline if not (check.holds or check.is_open)],
        }
        return " ".join(f"{word}: {'; '.join(claims)}." for word, claims in sentences.items() if claims)

    def timed(self, *, command: str, seconds: float) -> "Item":
        return replace(self, command=command, seconds=seconds)


def near(claim: str, ours: Cell, *, paper: float, within: float, unit: Unit, reading: str = "") -> Check:
    """Holds where the mean over environments is as close to the paper's figure as `within`."""
    rule = f"within {unit.text(within).removeprefix('+')} of the paper's figure"
    holds = abs(ours.mean - paper) <= within
    low, high = _possible(ours)
    return Check(
        claim=claim,
        paper=unit.text(paper),
        ours=ours,
        unit=unit,
        rule=rule,
        holds=holds,
        is_open=not holds and low <= paper + within and high >= paper - within,
        reading=reading,
    )


def above(
    claim: str, ours: Cell, *, than: float, paper: str, unit: Unit, reading: str = "", clearly: bool = True
) -> Check:
    """Holds where the mean is above `than`; `clearly`: where the whole 95 % interval over environments is."""
    low, high = _possible(ours)
    holds = (low if clearly else ours.mean) > than
    rule = f"{'whole interval' if clearly else 'mean'} above {unit.text(than)}"
    is_open = not holds and high > than
    return Check(
        claim=claim, paper=paper, ours=ours, unit=unit, rule=rule, holds=holds, is_open=is_open, reading=reading
    )


def below(
    claim: str, ours: Cell, *, than: float, paper: str, unit: Unit, reading: str = "", clearly: bool = True
) -> Check:
    """`above`, the other way round."""
    low, high = _possible(ours)
    holds = (high if clearly else ours.mean) < than
    rule = f"{'whole interval' if clearly else 'mean'} below {unit.text(than)}"
    is_open = not holds and low < than
    return Check(
        claim=claim, paper=paper, ours=ours, unit=unit, rule=rule, holds=holds, is_open=is_open, reading=reading
    )


def _possible(cell: Cell) -> tuple[float, float]:
    """What environments leave possible: their interval, and anything where there is only one of them."""
    return interval_of(cell) if cell.half_width is not None else (-math.inf, math.inf)


def interval_of(cell: Cell) -> tuple[float, float]:
    """The 95 % interval over environments; a single environment has the point alone."""
    half = cell.half_width or 0.0
    return cell.mean - half, cell.mean + half


def estimate_of(cell: Cell, *, share: bool = False) -> Estimate:
    """For charts and tables; the interval of a share ends at 0 and 1.

    >>> estimate_of(Cell.of([0.5, 0.9]), share=True).ends
    (0.0, 1.0)
    """
    if cell.half_width is None:
        return Estimate(cell.mean)
    low, high = interval_of(cell)
    return Estimate(cell.mean, max(low, 0.0), min(high, 1.0)) if share else Estimate(cell.mean, low, high)
