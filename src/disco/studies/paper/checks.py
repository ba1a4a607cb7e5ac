"""The checks of an item as a table: one row per claim, one column per reading, each figure with its mark."""

from disco.reports import Table
from disco.reports.formats import number
from disco.studies.paper.item import Check, Item, Verdict

HOLDS, OPEN, FAILS = "✓", "?", "✗"
_TIED = "\u00a0"  # no line ends between a mark and its figure
_WORDS = {
    Verdict.REPRODUCES: "reproduces",
    Verdict.PARTLY: "partly",
    Verdict.UNDECIDED: "undecided",
    Verdict.DOES_NOT: "does not",
}


def figure(check: Check) -> str:
    """Whether the claim holds, is open or fails, and ours with half its interval.

    >>> from disco.reports import Number
    >>> from disco.studies.customers.figures import Cell
    >>> figure(Check(claim="c", paper="", ours=Cell.of([0.1, 0.3]), unit=Number(), rule="", holds=True))
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
        body.append(("verdict", "", "", *(_WORDS[by_reading[reading]] for reading in readings)))
    return Table(
        caption="What was checked",
        columns=("Claim", "The paper", "Holds when", *(reading or "Simulated" for reading in readings)),
        rows=body,
        note=f"{HOLDS} holds; {OPEN} open: not met, but the interval leaves room for it; {FAILS} does not hold. ± is "
        "half the 95 % interval of the mean over environments.",
    )


def tally(item: Item) -> str:
    """How many of the claims that decide hold, and how many are open: "5 of 7, 1 open"."""
    held = sum(check.holds for check in item.headline)
    still_open = sum(check.is_open for check in item.headline)
    shown = f"{number(held, decimals=0)} of {number(len(item.headline), decimals=0)}"
    return f"{shown}, {number(still_open, decimals=0)} open" if still_open else shown
