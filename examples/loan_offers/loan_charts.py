"""The findings as pictures."""

from itertools import pairwise

from findings import POLICIES, Findings
from learning import RANDOM
from loan_tables import CHANGES, RAND, UNITS, estimate, named

from disco import evaluation
from disco.reports import Axis, CurveChart, IntervalChart, IntervalRow, Line, Percent, Points


def clear(value: evaluation.Estimate) -> bool:
    return value.lower > 0 or value.upper < 0


def curve(found: Findings, figure: str) -> CurveChart:
    offers = found.offers
    values = [found.judged[name, figure].value.ips for name in offers.level_names]
    rising = all(after.value >= before.value for before, after in pairwise(values))
    falls = any(after < before for before, after in pairwise(found.pooled[figure]))
    title = f"Within strata estimates of {figure} {'rise with every level' if rising else 'do not rise at every level'}"
    if rising and falls:
        title += "; pooled they do not"
    return CurveChart(
        title=title,
        subtitle=f"{figure[0].upper() + figure[1:]} per letter, everybody at one level; depth is the level's mean",
        x=Axis("Depth of the offer", Percent(decimals=0)),
        y=Axis(f"{figure[0].upper() + figure[1:]} per letter", UNITS[figure]),
        from_zero=True,
        interval="95 % interval",
        lines=[Line("Pooled, misleading", offers.level_depths, found.pooled[figure], muted=True)],
        points=[
            Points(
                "Within strata",
                offers.level_depths,
                [value.value for value in values],
                [value.lower for value in values],
                [value.upper for value in values],
            )
        ],
    )


def step_chart(found: Findings, figure: str) -> IntervalChart:
    rows = found.steps[figure]
    return IntervalChart(
        title=f"{sum(clear(value) for _, value in rows[:-1])} of {len(rows) - 1} neighbours clearly differ in {figure}"
        f"; the ends {'do' if clear(rows[-1][1]) else 'do not'}",
        subtitle=f"Difference in {figure} per letter",
        x=Axis(f"Difference in {figure}", CHANGES[figure]),
        rows=[IntervalRow(name, estimate(value)) for name, value in rows],
        interval="95 % interval",
    )


def gain_chart(found: Findings, figure: str) -> IntervalChart:
    names = [name for name in found.trial.targets if name != RANDOM]
    gains = {name: found.judged[name, figure].gain for name in names}
    differ = sum(clear(gain) for gain in gains.values())
    return IntervalChart(
        title=f"{differ} of {len(names)} policies differ from the offers as dealt in {figure}",
        subtitle=f"{figure[0].upper() + figure[1:]} per letter against the offers as dealt, doubly robust",
        x=Axis(f"Change of {figure} per letter", CHANGES[figure]),
        rows=[
            IntervalRow(named(found, name), estimate(gain), muted=name not in POLICIES) for name, gain in gains.items()
        ],
        interval="95 % interval",
    )


def calibration_chart(found: Findings) -> CurveChart:
    bins = found.calibration
    inside = sum(row.observed.covers(row.foretold) for row in bins)
    ends = (0.0, max(row.foretold for row in bins))
    return CurveChart(
        title=f"{inside} of {len(bins)} groups came out as foretold",
        subtitle="Loan value per letter as dealt, groups of equal size by what was foretold for them",
        x=Axis("Foretold loan value per letter", RAND),
        y=Axis("Loan value per letter", RAND),
        interval="95 % interval",
        from_zero=True,
        lines=[Line("As foretold", ends, ends, muted=True)],
        points=[
            Points(
                "What came",
                [row.foretold for row in bins],
                [row.observed.value for row in bins],
                [row.observed.lower for row in bins],
                [row.observed.upper for row in bins],
            )
        ],
    )
