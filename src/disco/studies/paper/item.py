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

from disco.records.estimate import Estimate
from disco.reports.charts import BarChart, CurveChart, IntervalChart
from disco.reports.formats import Unit, number
from disco.reports.table import Table
from disco.studies.readings import MAIN_READING
from disco.studies.sample import Sample

HOLDS, OPEN, FAILS = "✓", "?", "✗"
_TIED = "\u00a0"  # no line ends between a mark and its figure
Row: TypeAlias = tuple[str | float | Estimate | None, ...]  # of a table


class ItemVerdict(StrEnum):
    REPRODUCES = "reproduces"
    PARTLY = "partly"
    UNDECIDED = "undecided"
    DOES_NOT = "does not reproduce"

    @classmethod
    def of(cls, checks: Sequence["Check"]) -> "ItemVerdict":
        if any(check.holds for check in checks):
            return cls.REPRODUCES if all(check.holds for check in checks) else cls.PARTLY
        return cls.UNDECIDED if all(check.is_open for check in checks) else cls.DOES_NOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A claim of the paper beside our figure, and whether its rule is met."""

    claim: str
    paper: str  # its figure, or its shape in words
    ours: Sample  # over environments
    unit: Unit
    rule: str  # in words
    holds: bool
    is_open: bool = False  # the rule is not met, but what was measured does not refute the claim either
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
    def verdict(self) -> ItemVerdict:
        return ItemVerdict.of(self.headline)

    @property
    def verdict_by_reading(self) -> dict[str, ItemVerdict]:
        """Of each reading, its own checks and those that have none; empty where no encoding matters."""
        readings = dict.fromkeys(check.reading for check in self.checks if check.reading)
        return {
            reading: ItemVerdict.of([check for check in self.checks if check.reading in ("", reading)])
            for reading in readings
        }

    @property
    def reason(self) -> str:
        """Which claims hold, which are open and which do not hold: a sentence for each."""
        sentences = {
            "Holds": [check.claim for check in self.headline if check.holds],
            "Open, because the interval allows both": [check.claim for check in self.headline if check.is_open],
            "Does not hold": [check.claim for check in self.headline if not (check.holds or check.is_open)],
        }
        return " ".join(f"{word}: {'; '.join(claims)}." for word, claims in sentences.items() if claims)

    def timed(self, *, command: str, seconds: float) -> "Item":
        return replace(self, command=command, seconds=seconds)


def near(claim: str, ours: Sample, *, paper: float, within: float, unit: Unit, reading: str = "") -> Check:
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
    claim: str, ours: Sample, *, than: float, paper: str, unit: Unit, reading: str = "", clearly: bool = True
) -> Check:
    """Holds where the mean is above `than`; `clearly`: where the whole 95% interval over environments is."""
    low, high = _possible(ours)
    holds = (low if clearly else ours.mean) > than
    rule = f"{'whole interval' if clearly else 'mean'} above {unit.text(than)}"
    is_open = not holds and high > than
    return Check(
        claim=claim, paper=paper, ours=ours, unit=unit, rule=rule, holds=holds, is_open=is_open, reading=reading
    )


def below(
    claim: str, ours: Sample, *, than: float, paper: str, unit: Unit, reading: str = "", clearly: bool = True
) -> Check:
    """`above`, the other way round."""
    low, high = _possible(ours)
    holds = (high if clearly else ours.mean) < than
    rule = f"{'whole interval' if clearly else 'mean'} below {unit.text(than)}"
    is_open = not holds and low < than
    return Check(
        claim=claim, paper=paper, ours=ours, unit=unit, rule=rule, holds=holds, is_open=is_open, reading=reading
    )


def _possible(sample: Sample) -> tuple[float, float]:
    """What environments leave possible: their interval, and anything where there is only one of them."""
    return sample.interval if sample.half_width is not None else (-math.inf, math.inf)


# ---- checks as a table: one row per claim, one column per reading, each figure with its mark -------------------------


def figure(check: Check) -> str:
    """Whether the claim holds, is open or fails, and ours with half its interval.

    >>> from disco.reports.formats import Number
    >>> figure(Check(claim="c", paper="", ours=Sample.of([0.1, 0.3]), unit=Number(), rule="", holds=True))
    '✓\\xa00.20 ±\\xa01.27'
    """
    half = check.ours.half_width
    spread = "" if not half else f" ±{_TIED}{check.unit.text(half).removeprefix('+')}"
    mark = HOLDS if check.holds else OPEN if check.is_open else FAILS
    return f"{mark}{_TIED}{check.unit.text(check.ours.mean)}{spread}"


def checks_table(item: Item) -> Table:
    """Claims without a reading have one figure, in the first column of figures."""
    readings = list(dict.fromkeys(check.reading for check in item.checks if check.reading)) or [""]
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for check in item.checks:
        row = rows.setdefault((check.claim, check.paper, check.rule), {})
        row[check.reading or readings[0]] = figure(check)
    body = [(*words, *(cells.get(reading) for reading in readings)) for words, cells in rows.items()]
    by_reading = item.verdict_by_reading
    if by_reading:
        body.append(("verdict", "", "", *(str(by_reading[reading]).removesuffix(" reproduce") for reading in readings)))
    return Table(
        caption="What was checked",
        columns=("Claim", "The paper", "Holds when", *(reading or "Simulated" for reading in readings)),
        rows=body,
        note=f"{HOLDS} holds; {OPEN} open: not met, but the interval allows it; {FAILS} does not hold. ± is "
        "half the 95% interval of the mean over environments.",
    )


def tally(item: Item) -> str:
    """How many of the claims that decide hold, and how many are open: "5 of 7, 1 open"."""
    held = sum(check.holds for check in item.headline)
    still_open = sum(check.is_open for check in item.headline)
    shown = f"{number(held, decimals=0)} of {number(len(item.headline), decimals=0)}"
    return f"{shown}, {number(still_open, decimals=0)} open" if still_open else shown
