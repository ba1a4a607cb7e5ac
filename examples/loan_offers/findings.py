"""Everything the example finds out, as one value; and the same as JSON."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from honesty import (
    CalibrationBin,
    LoanSizes,
    Ordering,
    TakeUpCell,
    calibration,
    doubts,
    loan_sizes,
    ordering,
    take_up_cells,
)
from judging import (
    FIGURES,
    LOAN_VALUE,
    TAKE_UP,
    Judged,
    Slope,
    judge,
    placebo_coverage,
    pooled_curve,
    slope,
    steps,
)
from learning import GREEDY, MOST_LOANS, THOMPSON, Trial, run_trial
from offers import Offers

from disco.evaluation import Estimate

POLICIES = (GREEDY, THOMPSON, MOST_LOANS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """`judged` by (target, figure) over all letters, `by_fold` by (fold, target, figure); `source` says whose data."""

    source: str
    generated: bool
    trial: Trial
    slopes: dict[str, Slope]
    pooled: dict[str, list[float]]
    steps: dict[str, list[tuple[str, Estimate]]]
    judged: dict[tuple[str, str], Judged]
    by_fold: dict[tuple[str, str, str], Judged]
    ordering: list[Ordering]
    cells: list[TakeUpCell]
    loan_sizes: list[LoanSizes]
    calibration: list[CalibrationBin]
    placebo: dict[str, float]
    doubts: tuple[str, ...]

    @property
    def offers(self) -> Offers:
        return self.trial.offers

    @property
    def how_split(self) -> str:
        if len(self.offers.waves) > 1:
            return "Each wave is judged by policies that learned from the other waves alone."
        return "There is one wave: its customers are split in two by a hash of their id; each half judges the other's."


def find(offers: Offers, *, source: str, generated: bool, revenue_weight: float, seed: int) -> Findings:
    trial = run_trial(offers, revenue_weight=revenue_weight, seed=seed)
    return Findings(
        source=source,
        generated=generated,
        trial=trial,
        slopes={figure: slope(offers, figure, revenue_weight=revenue_weight) for figure in FIGURES},
        pooled={figure: pooled_curve(offers, figure, revenue_weight=revenue_weight) for figure in FIGURES},
        steps={figure: list(steps(trial, figure)) for figure in (TAKE_UP, LOAN_VALUE)},
        judged={(target, figure): judge(trial, target, figure) for target in trial.targets for figure in FIGURES},
        by_fold={
            (fold.name, target, figure): judge(trial, target, figure, rows=fold.judged)
            for fold in trial.folds
            for target in trial.targets
            for figure in FIGURES
        },
        ordering=list(ordering(trial)),
        cells=list(take_up_cells(trial, seed=seed)),
        loan_sizes=list(loan_sizes(trial)),
        calibration=calibration(trial),
        placebo=placebo_coverage(trial, seed=seed),
        doubts=doubts(trial),
    )


def as_json(found: Findings) -> dict[str, Any]:
    """Plain JSON values; an interval without an end has null there."""
    offers = found.offers
    curves = {
        figure: [
            {
                "level": name,
                "depth": depth,
                "within_strata": asdict(found.judged[name, figure].value.ips),
                "pooled": all_,
            }
            for name, depth, all_ in zip(offers.level_names, offers.level_depths, found.pooled[figure], strict=True)
        ]
        for figure in FIGURES
    }
    policies = {
        target: {figure: _judged(found.judged[target, figure]) for figure in FIGURES} for target in found.trial.targets
    }
    folds = {
        fold.name: {
            "learned_letters": int(fold.learned.sum()),
            "judged_letters": int(fold.judged.sum()),
            "policies": {
                target: {figure: _judged(found.by_fold[fold.name, target, figure]) for figure in FIGURES}
                for target in found.trial.targets
            },
        }
        for fold in found.trial.folds
    }
    result = {
        "data": {
            "source": found.source,
            "generated": found.generated,
            "letters": len(offers),
            "takers": int(offers.took.sum()),
            "waves": list(offers.waves),
            "strata": dict(zip(offers.stratum_names, np.bincount(offers.stratum).tolist(), strict=True)),
            "levels": dict(zip(offers.level_names, np.bincount(offers.level).tolist(), strict=True)),
            "split": found.how_split,
        },
        "revenue_weight": found.trial.revenue_weight,
        "slopes": {figure: asdict(value) for figure, value in found.slopes.items()},
        "curves": curves,
        "steps": {figure: {name: asdict(value) for name, value in rows} for figure, rows in found.steps.items()},
        "policies": policies,
        "folds": folds,
        "ordering": [asdict(row) for row in found.ordering],
        "take_up_cells": [{**asdict(cell), "inside": cell.inside} for cell in found.cells],
        "loan_sizes": [asdict(row) for row in found.loan_sizes],
        "calibration": [asdict(row) for row in found.calibration],
        "placebo_coverage": found.placebo,
        "warnings": list(found.doubts),
    }
    return {key: _finite(value) for key, value in result.items()}


def _judged(found: Judged) -> dict[str, Any]:
    return {**asdict(found.value), "gain": asdict(found.gain), "promised": found.promised}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
