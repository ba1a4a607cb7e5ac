"""One figure or table of the paper beside ours, and the verdict: computed by one rule, never written by hand.

A `Claim` of the paper is decided by one figure per simulated retailer and by a band that the figure has to lie in. It
holds where the whole 95% interval over retailers lies inside the band, it is open where only a part of the interval
does, and it fails where none does. One retailer alone has no interval, so it leaves every claim open. An item
reproduces when all its claims hold, partly when some do; when none does it is undecided if all are open, else it does
not reproduce. Where the depth's encoding matters, each claim is checked once per reading of the paper's widths; the
headline is that of `MAIN_READING`, the others stand beside it.

The explanation of an item is declared beside its claims (`Prose`): sentences with places for figures, some of them said
only where the figures say so. A test compares the declared words with those of the page in docs/.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from scipy.stats import t

from disco.records.arrays import Matrix
from disco.records.estimate import Estimate
from disco.views.charts import BarChart, CurveChart, IntervalChart
from disco.views.formats import Number, Unit, number
from disco.views.table import Table
from studies.cache import Arrays
from studies.lab import Lab, Measure
from studies.readings import MAIN_READING

HOLDS, OPEN, FAILS = "✓", "?", "✗"
LEVEL = 0.95
_TIED = "\u00a0"  # no line ends between a mark and its figure
Row: TypeAlias = tuple[str | float | Estimate | None, ...]  # of a table
Chart: TypeAlias = CurveChart | BarChart | IntervalChart
Figure: TypeAlias = Callable[[Arrays, str], float]  # of one retailer's arrays at one reading


# ---- figures over retailers ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """The mean of one figure per simulated retailer, or per repeat of a run, with a 95% interval (Student's t)."""

    mean: float
    half_width: float | None  # of the interval; None for a single figure
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Sample":
        """
        >>> Sample.of([1.0, 2.0, 3.0]).half_width.__round__(3)
        2.484
        """
        numbers = np.asarray(values, np.float64)
        if numbers.size < 2:
            return cls(float(numbers.mean()), None, tuple(values))
        error = float(numbers.std(ddof=1)) / np.sqrt(numbers.size)
        return cls(float(numbers.mean()), float(t.ppf(0.5 + LEVEL / 2, numbers.size - 1) * error), tuple(values))

    def minus(self, other: "Sample") -> "Sample":
        """Figure by figure: what is common to a retailer cancels."""
        return Sample.of([ours - theirs for ours, theirs in zip(self.values, other.values, strict=True)])

    @property
    def is_clear(self) -> bool:
        """Whether the interval lies on one side of 0; never for a single figure."""
        return self.half_width is not None and abs(self.mean) > self.half_width

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends; for a single figure, the figure itself twice."""
        half = self.half_width or 0.0
        return self.mean - half, self.mean + half

    def estimate(self, *, share: bool = False) -> Estimate:
        """Mean and interval; that of a share ends at 0 and 1.

        >>> Sample.of([0.5, 0.9]).estimate(share=True).ends
        (0.0, 1.0)
        """
        if self.half_width is None:
            return Estimate(self.mean)
        low, high = self.interval
        return Estimate(self.mean, max(low, 0.0) if share else low, min(high, 1.0) if share else high, LEVEL)


# ---- claims and verdicts -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A claim of the paper beside our figure, and whether its rule is met."""

    claim: str
    paper: str  # its figure, or its shape in words
    ours: Sample  # over environments
    unit: Unit
    rule: str  # in words
    holds: bool
    is_open: bool = False  # what was measured neither shows the claim nor refutes it
    reading: str = ""  # of the depth's encoding; empty where no encoding has a part in it
    band: tuple[float, float] | None = None  # by which it was judged; None: by a test of its own


def judged(ours: Sample, band: tuple[float, float]) -> tuple[bool, bool]:
    """(holds, is open): the whole interval lies inside the band, or only a part of it.

    >>> narrow = Sample.of([1.9, 2.0, 2.1])  # 1.75 to 2.25
    >>> judged(narrow, (1.0, 3.0)), judged(narrow, (2.1, 3.0)), judged(narrow, (2.5, 3.0))
    ((True, False), (False, True), (False, False))
    """
    low, high = ours.interval if ours.half_width is not None else (-math.inf, math.inf)
    holds = band[0] < low and high < band[1]
    return holds, not holds and low < band[1] and high > band[0]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the paper says, and one rule by which a figure decides it: `above`, `below` or `within`."""

    text: str
    paper: str | float  # its figure, or its shape in words
    unit: Unit = field(default_factory=Number)
    _: KW_ONLY
    above: float | None = None
    below: float | None = None
    within: float | None = None  # of the paper's figure
    rule: str = ""  # in words, where they say more than "whole interval above …"

    def check(self, ours: Sample, *, reading: str = "") -> Check:
        """The claim judged by these figures."""
        low, high = self._band()
        holds, is_open = judged(ours, (low, high))
        return Check(
            claim=self.text,
            paper=self.paper if isinstance(self.paper, str) else self.unit.text(self.paper),
            ours=ours,
            unit=self.unit,
            rule=self.rule or f"whole interval {self._words()}",
            holds=holds,
            is_open=is_open,
            reading=reading,
            band=(low, high),
        )

    def _band(self) -> tuple[float, float]:
        if self.within is not None and not isinstance(self.paper, str):
            return self.paper - self.within, self.paper + self.within
        return (
            -math.inf if self.above is None else self.above,
            math.inf if self.below is None else self.below,
        )

    def _words(self) -> str:
        if self.within is not None:
            return f"within {self.unit.text(self.within).removeprefix('+')} of the paper's figure"
        side, end = ("above", self.above) if self.above is not None else ("below", self.below)
        return f"{side} {self.unit.text(end or 0.0)}"


class ItemVerdict(StrEnum):
    REPRODUCES = "reproduces"
    PARTLY = "partly"
    UNDECIDED = "undecided"
    DOES_NOT = "does not reproduce"

    @classmethod
    def of(cls, checks: Sequence[tuple[bool, bool]]) -> "ItemVerdict":
        """Of claims that decide, each as (holds, is open)."""
        if any(holds for holds, _ in checks):
            return cls.REPRODUCES if all(holds for holds, _ in checks) else cls.PARTLY
        return cls.UNDECIDED if all(is_open for _, is_open in checks) else cls.DOES_NOT


# ---- items ---------------------------------------------------------------------------------------------------------

#: Sentences in order; a pair (name, sentence) is said only where the fact of that name is true.
Prose: TypeAlias = tuple[str | tuple[str, str], ...]
Facts: TypeAlias = Mapping[str, str | bool]


def told(prose: Prose, facts: Facts) -> str:
    """
    >>> prose = ("It grew by {more}.", ("clear", "That is clear."), ("open", "That is open."))
    >>> told(prose, {"more": "2%", "open": True})
    'It grew by 2%. That is open.'
    """
    sentences = [part if isinstance(part, str) else part[1] for part in prose if _is_said(part, facts)]
    return " ".join(sentence.format(**facts) for sentence in sentences)


def _is_said(part: str | tuple[str, str], facts: Facts) -> bool:
    return isinstance(part, str) or bool(facts.get(part[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What `./run reproduce` shows of one figure or table."""

    key: str
    title: str
    paper: str  # what the paper shows, in our words
    checks: tuple[Check, ...]
    prose: Prose  # why we think ours came out as it did
    facts: Facts = field(default_factory=dict)  # that the prose speaks of
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    command: str = ""  # command and seconds are filled in by the run
    seconds: float = 0.0

    @property
    def why(self) -> str:
        return told(self.prose, self.facts)

    @property
    def headline(self) -> tuple[Check, ...]:
        """The checks that decide: those of the main reading, and those without any."""
        return tuple(check for check in self.checks if check.reading in ("", MAIN_READING))

    @property
    def verdict(self) -> ItemVerdict:
        return _verdict(self.headline)

    @property
    def verdict_by_reading(self) -> dict[str, ItemVerdict]:
        """Of each reading, its own checks and those that have none; empty where no encoding matters."""
        readings = dict.fromkeys(check.reading for check in self.checks if check.reading)
        return {
            reading: _verdict([check for check in self.checks if check.reading in ("", reading)])
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


def _verdict(checks: Sequence[Check]) -> ItemVerdict:
    return ItemVerdict.of([(check.holds, check.is_open) for check in checks])


@dataclass(frozen=True, slots=True)
class Results:
    """What was measured, one set of arrays per environment, and what the claims make of it."""

    arrays: list[Arrays]
    seeds: tuple[int, ...]
    checks: tuple[Check, ...] = ()

    def sample(self, figure: Figure, reading: str = "") -> Sample:
        return Sample.of([figure(each, reading) for each in self.arrays])

    def mean(self, name: str) -> Matrix:
        """An array's mean over environments."""
        return np.asarray(np.mean([each[name] for each in self.arrays], axis=0))

    def of_claim(self, claim: Claim) -> dict[str, Check]:
        """Its checks by reading."""
        return {check.reading: check for check in self.checks if check.claim == claim.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """An item that follows from one measure of every environment, declared: what is measured, claimed and shown."""

    key: str
    title: str
    paper: str
    measure: Measure
    claims: tuple[tuple[Claim, Figure], ...] = ()
    claims_by_reading: tuple[tuple[Claim, Figure], ...] = ()  # put to each of `readings`
    readings: Sequence[str] = ()
    prose: Prose
    facts: Callable[[Results], Facts] = lambda results: {}
    charts: tuple[Callable[[Results], Chart], ...]
    tables: tuple[Callable[[Results], Table], ...] = ()
    aligned: Callable[[list[Arrays]], list[Arrays]] = list  # arrays of all environments, cut to one shape

    def __call__(self, lab: Lab) -> Item:
        measured = Results(self.aligned(lab.measure(self.measure)), lab.settings.seeds)
        results = replace(measured, checks=self._checked(measured))
        return Item(
            key=self.key,
            title=self.title,
            paper=self.paper,
            checks=results.checks,
            prose=self.prose,
            facts=self.facts(results),
            charts=tuple(chart(results) for chart in self.charts),
            tables=tuple(table(results) for table in self.tables),
        )

    def _checked(self, measured: Results) -> tuple[Check, ...]:
        put = [(*pair, "") for pair in self.claims]
        put += [(*pair, reading) for reading in self.readings for pair in self.claims_by_reading]
        return tuple(claim.check(measured.sample(figure, reading), reading=reading) for claim, figure, reading in put)


# ---- checks as a table: one row per claim, one column per reading, each figure with its mark -------------------------


def figure(check: Check) -> str:
    """Whether the claim holds, is open or fails, and ours with half its interval.

    >>> from disco.views.formats import Number
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
        note=f"{HOLDS} holds; {OPEN} open: the interval allows both; {FAILS} does not hold. ± is "
        "half the 95% interval of the mean over environments.",
    )


def tally(item: Item) -> str:
    """How many of the claims that decide hold, and how many are open: "5 of 7, 1 open"."""
    held = sum(check.holds for check in item.headline)
    still_open = sum(check.is_open for check in item.headline)
    shown = f"{number(held, decimals=0)} of {number(len(item.headline), decimals=0)}"
    return f"{shown}, {number(still_open, decimals=0)} open" if still_open else shown
