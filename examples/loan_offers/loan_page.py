"""What the trial found: as plain JSON, as a table for the terminal, and as one HTML page.

Charts and pages come from `disco.views`, the part of the library that draws.
"""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import loan_checks as checks
import numpy as np
from letters import Letters
from trial import (
    AS_SENT,
    FIGURES,
    LOAN_VALUE,
    OBJECTIVE,
    POLICIES,
    REVENUE,
    TAKE_UP,
    Judged,
    Trial,
    judge,
    pooled_curve,
    slope,
    steps,
)

from disco.records.estimate import Estimate
from disco.records.estimate import Estimate as Measured
from disco.records.money import read_currency
from disco.views.charts import Axis, CurveChart, IntervalChart, IntervalRow, Line, Points
from disco.views.formats import Count, Money, Number, Percent, estimate_text
from disco.views.page import Report, Section
from disco.views.table import Column, Table

RAND, CHANGE = (Money(currency=read_currency("ZAR"), decimals=0, signed=signed) for signed in (False, True))
UNITS = {TAKE_UP: Percent(), LOAN_VALUE: RAND, REVENUE: RAND, OBJECTIVE: RAND}
_REAL = (
    "If this is the file of Karlan and Zinman's lender: D. Karlan and J. Zinman (2008), Credit Elasticities in "
    "Less-Developed Economies, American Economic Review 98(3), deposit 113240, data under CC BY 4.0; the depth is "
    "1 − offered rate / standard rate of the risk band."
)
_GENERATED = "GENERATED DATA: a look-alike made up by this example. Nothing on this page says anything about the world."


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """Everything the example finds out."""

    source: str  # whose data
    generated: bool
    trial: Trial
    judged: dict[tuple[str, str], Judged]  # by policy and figure, over all letters
    by_fold: dict[tuple[str, str, str], Judged]  # by fold, policy and figure
    steps: dict[str, dict[str, Measured]]  # differences between levels, by figure
    ordering: list[checks.Ordering]
    cells: list[checks.TakeUpCell]
    loan_sizes: list[checks.LoanSizes]
    calibration: list[checks.CalibrationBin]  # by predicted loan value
    take_up_deciles: list[checks.CalibrationBin]  # by predicted take-up
    placebo: dict[str, float]
    warnings: tuple[str, ...]

    @property
    def letters(self) -> Letters:
        return self.trial.letters

    @property
    def how_split(self) -> str:
        if len(self.letters.waves) > 1:
            return "Each wave is judged by policies that learned from the other waves alone."
        return "There is one wave: its customers are split in two by a hash of their id; each half judges the other's."


def find(trial: Trial, *, source: str, generated: bool, seed: int) -> Findings:
    targets = [(target, figure) for target in trial.targets for figure in FIGURES]
    return Findings(
        source=source,
        generated=generated,
        trial=trial,
        judged={(target, figure): judge(trial, target, figure) for target, figure in targets},
        by_fold={
            (fold.name, target, figure): judge(trial, target, figure, rows=fold.judged)
            for fold in trial.folds
            for target, figure in targets
        },
        steps={figure: steps(trial, figure) for figure in (TAKE_UP, LOAN_VALUE)},
        ordering=checks.ordering(trial),
        cells=checks.take_up_cells(trial, seed=seed),
        loan_sizes=checks.loan_sizes(trial),
        calibration=checks.calibration(trial),
        take_up_deciles=checks.calibration(trial, TAKE_UP),
        placebo=checks.placebo_coverage(trial, seed=seed),
        warnings=checks.randomisation_warnings(trial),
    )


def as_json(found: Findings) -> dict[str, Any]:
    """Plain JSON values; an interval without an end has null there."""
    letters, trial = found.letters, found.trial
    curves = {
        figure: [
            {
                "level": name,
                "depth": depth,
                "within_strata": asdict(found.judged[name, figure].value.ips),
                "pooled": all_,
            }
            for name, depth, all_ in zip(
                letters.level_names, letters.level_depths, pooled_curve(trial, figure), strict=True
            )
        ]
        for figure in FIGURES
    }
    folds = {
        fold.name: {
            "learned_letters": int(fold.learned.sum()),
            "judged_letters": int(fold.judged.sum()),
            "policies": {
                target: {figure: _judged(found.by_fold[fold.name, target, figure]) for figure in FIGURES}
                for target in trial.targets
            },
        }
        for fold in trial.folds
    }
    return _finite(
        {
            "data": {
                "source": found.source,
                "generated": found.generated,
                "letters": len(letters),
                "takers": int(letters.took.sum()),
                "waves": letters.waves,
                "strata": dict(zip(letters.stratum_names, np.bincount(letters.stratum).tolist(), strict=True)),
                "levels": dict(zip(letters.level_names, np.bincount(letters.level).tolist(), strict=True)),
                "split": found.how_split,
            },
            "revenue_weight": trial.revenue_weight,
            "slopes": {
                figure: {"within": asdict(slope(trial, figure)), "pooled": asdict(slope(trial, figure, pooled=True))}
                for figure in FIGURES
            },
            "curves": curves,
            "steps": {f: {name: asdict(value) for name, value in rows.items()} for f, rows in found.steps.items()},
            "policies": {
                target: {figure: _judged(found.judged[target, figure]) for figure in FIGURES}
                for target in trial.targets
            },
            "folds": folds,
            "ordering": [asdict(row) for row in found.ordering],
            "take_up_cells": [{**asdict(cell), "inside": cell.inside} for cell in found.cells],
            "loan_sizes": [asdict(row) for row in found.loan_sizes],
            "calibration": [asdict(row) for row in found.calibration],
            "take_up_deciles": [asdict(row) for row in found.take_up_deciles],
            "placebo_coverage": found.placebo,
            "warnings": list(found.warnings),
        }
    )


def _judged(found: Judged) -> dict[str, Any]:
    return {**asdict(found.value), "gain": asdict(found.gain), "predicted_gain": found.predicted_gain}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---- words and tables ----------------------------------------------------------------------------------------------


def named(found: Findings, target: str) -> str:
    return f"Everybody at {target}" if target in found.letters.level_names else target[0].upper() + target[1:]


def estimate(value: Measured | None, *, times: float = 1.0) -> Estimate:
    """For the page; without an interval where none is known. (A doubly robust value is always there, with a belief.)"""
    assert value is not None
    if not np.isfinite([value.lower, value.upper]).all():
        return Estimate(times * value.value)
    return Estimate(times * value.value, times * value.lower, times * value.upper)


def is_clear(value: Measured) -> bool:
    return not value.covers(0.0)


def summary(found: Findings) -> Table:
    """Value per letter by policy, doubly robust: what the terminal shows."""
    rows = []
    for name in found.trial.targets:
        take_up, loans, worth = (
            estimate(found.judged[name, figure].value.dr) for figure in (TAKE_UP, LOAN_VALUE, OBJECTIVE)
        )
        gain = None if name == AS_SENT else estimate(found.judged[name, OBJECTIVE].gain)
        rows.append([named(found, name), take_up, loans, worth.value, gain])
    return Table(
        caption="Value per letter, doubly robust within strata",
        columns=(
            "Policy",
            Column("Take-up", Percent()),
            Column("Loan value", RAND),
            Column("Objective", RAND),
            Column("Objective compared with as sent", CHANGE),
        ),
        rows=rows,
    )


def _lead(found: Findings) -> str:
    """Which policy would have earned most."""
    gains = {name: found.judged[name, OBJECTIVE].gain for name in found.trial.targets if name != AS_SENT}
    best = max(gains, key=lambda name: gains[name].value)
    if gains[best].lower <= 0:
        return "No policy clearly earns more than the offers as sent."
    return f"{named(found, best)} would earn {RAND.text(gains[best].value)} more per letter than as sent."


def _effect(found: Findings) -> str:
    """What a deeper offer does to take-up."""
    ends = list(found.steps[TAKE_UP].values())[-1]
    if not is_clear(ends):
        return "Take-up at the deepest offers cannot be told from that at the shallowest."
    return f"From the shallowest to the deepest offers take-up changes by {_points(ends)} percentage points."


def _points(value: Measured) -> str:
    return Number(decimals=1, signed=True).text(100 * value.value)


def _policies_text(found: Findings) -> str:
    gains = {name: found.judged[name, OBJECTIVE].gain for name in found.trial.targets if name != AS_SENT}
    best = max(gains, key=lambda name: gains[name].value)
    note = (
        f"\n\n{named(found, best)} earns most here ({estimate_text(estimate(gains[best]), unit=CHANGE)} per letter), "
        "more than any policy that keeps the number of letters per level: with so little response to depth, the "
        "discount itself is what costs."
        if best in found.letters.level_names
        else ""
    )
    return (
        f"{found.how_split} The policies send the same letters as the experiment, as many per level and risk band, to "
        f"other customers. Greedy and Thompson maximise {found.trial.revenue_weight:g} × revenue − markdown, with loan "
        "× (1 − depth) as revenue: the loan at its share of the standard rate, not the lender's books. The third "
        "policy maximises the loans themselves, whatever their price. “Everybody” rows give one level to all customers."
        f"{note}\n\nRead the order and the intervals. An interval that covers 0 means that this campaign cannot tell "
        "the policy from the offers as sent; of several that do not, one may be luck."
    )


def _trust_text(found: Findings) -> str:
    inside, (low, high) = sum(cell.inside for cell in found.cells), checks.expected_inside(len(found.cells))
    covered = [100 * share for share in found.placebo.values()]
    movement = next(iter(found.trial.beliefs[0].movement.values()))
    without = sum(cell.inside_without_movement for cell in found.cells)
    moved = (
        "Both halves are of one wave, so they contain no movement between waves. "
        if movement is None
        else f"Without an effect of each wave {without} would have. {movement.words('take-up of a band')} "
    )
    return (
        f"Take-up per band and level was predicted with 90% intervals: {inside} of {len(found.cells)} held the "
        f"outcome. If they were right and independent, {low} to {high} would. {moved}Of the loans, "
        f"{' and '.join(f'{row.inside:.0%}' for row in found.loan_sizes)} fell into their 90% intervals.\n\n"
        "The intervals of the gains were tested where the truth is known: the levels were assigned anew "
        f"{checks.PLACEBO_ROUNDS} times within strata, customers and outcomes unchanged. Then no policy gains "
        "anything, and a 95% interval must cover 0 in about 95 of 100 rounds; it did in "
        f"{min(covered):.0f} to {max(covered):.0f}."
    )


# ---- charts and the page -------------------------------------------------------------------------------------------


def page(found: Findings) -> Report:
    return Report(
        title="Loan offers: a look-alike, generated" if found.generated else "Loan offers with a randomised price",
        lead=_lead(found),
        sections=[
            Section(
                "Does a deeper offer bring more?",
                f"{_effect(found)}\n\n"
                "Depths were assigned at random only within risk band and wave, so every figure compares like with "
                "like: it is the mean within each stratum, weighted by the stratum's share of all letters. The grey "
                "line ignores the strata and mixes the effect of depth with who got the deep offers.\n\n"
                f"Letters are grouped into {len(found.letters.level_depths)} levels of about equal size that every "
                "stratum has seen." + "".join(f"\n\nWarning: {note}" for note in found.warnings),
                [_curve(found, figure) for figure in (TAKE_UP, LOAN_VALUE)],
                side_by_side=True,
            ),
            Section(
                "Which depths can be told apart?",
                "Everybody at one level compared with everybody at the next shallower one, and the two ends of the "
                "scale; doubly robust, with the strata's propensities. Of several such intervals at 95% one may miss 0 "
                "by luck alone.",
                [*(_step_chart(found, figure) for figure in (TAKE_UP, LOAN_VALUE)), _slope_table(found)],
            ),
            Section(
                "What would other policies have been worth?",
                _policies_text(found),
                [
                    *(_gain_chart(found, f) for f in (OBJECTIVE, LOAN_VALUE)),
                    _estimator_table(found),
                ],
            ),
            Section(
                "Can the beliefs and the intervals be trusted?",
                _trust_text(found),
                [
                    _ordering_table(found),
                    _calibration_chart(TAKE_UP, found.take_up_deciles),
                    _calibration_chart(LOAN_VALUE, found.calibration),
                ],
            ),
        ],
        footer=f"{_GENERATED if found.generated else _REAL}\n\nSource: {found.source}. {len(found.letters):,} letters, "
        f"{int(found.letters.took.sum()):,} takers. Money in rand. Intervals are 95% unless they say otherwise.",
    )


def _curve(found: Findings, figure: str) -> CurveChart:
    letters, pooled = found.letters, pooled_curve(found.trial, figure)
    values = [found.judged[name, figure].value.ips for name in letters.level_names]
    rising = all(after.value >= before.value for before, after in pairwise(values))
    falls = any(after < before for before, after in pairwise(pooled))
    name = figure[0].upper() + figure[1:]
    return CurveChart(
        title=f"Within strata {figure} {'rises with every level' if rising else 'does not rise at every level'}"
        + ("; pooled it does not" if rising and falls else ""),
        subtitle=f"{name} per letter, everybody at one level; depth is the level's mean",
        x=Axis("Depth of the offer", Percent(decimals=0)),
        y=Axis(f"{name} per letter", UNITS[figure]),
        from_zero=True,
        interval="95% interval",
        lines=[Line("Pooled, misleading", letters.level_depths, pooled, muted=True)],
        points=[
            Points(
                "Within strata",
                letters.level_depths,
                [value.value for value in values],
                [value.lower for value in values],
                [value.upper for value in values],
            )
        ],
    )


def _step_chart(found: Findings, figure: str) -> IntervalChart:
    rows = found.steps[figure]
    *neighbours, ends = rows.values()
    clear = sum(map(is_clear, neighbours))
    in_points = figure == TAKE_UP
    return IntervalChart(
        title=f"{clear} of {len(neighbours)} neighbouring levels clearly differ in {figure}; "
        f"the two ends {'do' if is_clear(ends) else 'do not'}",
        subtitle=f"Difference in {figure} per letter" + (", points" if in_points else ""),
        x=Axis(f"Difference in {figure}", Number(decimals=1, signed=True) if in_points else CHANGE),
        rows=[IntervalRow(name, estimate(value, times=100 if in_points else 1)) for name, value in rows.items()],
        interval="95% interval",
    )


def _slope_table(found: Findings) -> Table:
    rows = []
    for figure in FIGURES:
        unit = Number(decimals=3 if figure == TAKE_UP else 0, signed=True)
        both = (slope(found.trial, figure), slope(found.trial, figure, pooled=True))
        rows.append([figure, *(estimate_text(estimate(value), unit=unit) for value in both)])
    return Table(
        caption="Rise per unit of depth (from 0 to 100% off), least squares",
        columns=("Figure per letter", "Within strata", "Pooled"),
        rows=rows,
        note="Robust 95% intervals. Take-up as a share of letters, money in rand.",
    )


def _gain_chart(found: Findings, figure: str) -> IntervalChart:
    gains = {name: found.judged[name, figure].gain for name in found.trial.targets if name != AS_SENT}
    clear = sum(map(is_clear, gains.values()))
    return IntervalChart(
        title=f"{clear} of {len(gains)} policies clearly differ from the offers as sent in {figure}",
        subtitle=f"{figure[0].upper() + figure[1:]} per letter compared with the offers as sent, doubly robust",
        x=Axis(f"Change of {figure} per letter", CHANGE),
        rows=[
            IntervalRow(named(found, name), estimate(gain), muted=name not in POLICIES) for name, gain in gains.items()
        ],
        interval="95% interval",
    )


def _estimator_table(found: Findings) -> Table:
    rows = []
    for name in found.trial.targets:
        judged = found.judged[name, OBJECTIVE]
        value = judged.value
        estimates = [None if e is None else estimate(e) for e in (value.ips, value.snips, value.dr)]
        predicted = None if name == AS_SENT else judged.predicted_gain
        rows.append([named(found, name), *estimates, predicted, value.effective_rows, value.largest_weight])
    return Table(
        caption="Objective per letter by three estimators",
        columns=(
            "Policy",
            *(Column(name, RAND) for name in ("IPS", "SNIPS", "DR")),
            Column("Predicted gain", CHANGE),
            Column("Effective letters", Count()),
            Column("Largest weight", Number(decimals=1)),
        ),
        rows=rows,
        note="Propensities are the shares of the levels within risk band × wave.",
    )


def _ordering_table(found: Findings) -> Table:
    return Table(
        caption="Was the order of the levels predicted?",
        columns=(
            "Judged on",
            "Figure",
            *(Column(name, Count()) for name in ("Pairs of levels", "Told apart", "Of these predicted")),
        ),
        rows=[[row.judged_on, row.figure, row.pairs, row.told_apart, row.predicted] for row in found.ordering],
        note="Told apart: the 95% interval of their difference does not cover 0. Believed take-up never falls with "
        "depth, so an order in take-up is partly built in.",
    )


def _calibration_chart(figure: str, bins: list[checks.CalibrationBin]) -> CurveChart:
    inside = sum(row.observed.covers(row.predicted) for row in bins)
    ends = (0.0, max(row.predicted for row in bins))
    return CurveChart(
        title=f"Actual {figure} agrees with the prediction in {inside} of {len(bins)} groups",
        subtitle=f"{figure[0].upper() + figure[1:]} per letter as sent, groups of equal size by predicted {figure}",
        x=Axis(f"Predicted {figure} per letter", UNITS[figure]),
        y=Axis(f"{figure[0].upper() + figure[1:]} per letter", UNITS[figure]),
        interval="95% interval",
        from_zero=True,
        lines=[Line("As predicted", ends, ends, muted=True)],
        points=[
            Points(
                "Actual",
                [row.predicted for row in bins],
                [row.observed.value for row in bins],
                [row.observed.lower for row in bins],
                [row.observed.upper for row in bins],
            )
        ],
    )
