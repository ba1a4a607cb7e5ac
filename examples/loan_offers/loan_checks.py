"""Can the beliefs and the intervals be trusted? What was predicted from other letters, beside what happened."""

import warnings
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import binom
from trial import AS_SENT, LOAN_VALUE, OBJECTIVE, TAKE_UP, Trial, between

import disco
from disco.evaluation.accuracy import Accuracy, accuracy
from disco.evaluation.estimates import mean_estimate
from disco.evaluation.log import RandomisationWarning
from disco.records.estimate import Estimate

PLACEBO_ROUNDS = 100
LEVEL, SD_OF_LEVEL = 0.9, 1.645  # of the intervals that are checked


@dataclass(frozen=True, kw_only=True)
class TakeUpCell:
    """Take-up of one band at one level in the judged letters, and the 90% interval predicted for so many letters."""

    fold: str
    band: str
    level: str
    letters: int
    predicted: float
    lower: float
    upper: float
    observed: float
    inside_without_movement: bool  # of the interval of a wave that is like those learned from

    @property
    def inside(self) -> bool:
        return self.lower <= self.observed <= self.upper


def take_up_cells(trial: Trial, *, seed: int) -> list[TakeUpCell]:
    """Uncertainty of the rate and the luck of so many letters, together: draws of the rate, then of the takers.

    Another wave has an effect of its own (`disco.belief.movement`).
    """
    letters, rng, cells = trial.letters, np.random.default_rng(seed), []
    for fold, belief in zip(trial.folds, trial.beliefs, strict=True):
        for band, engagement in belief.engagement.items():
            rates, moved = (
                engagement.draws(letters.level_depths, count=4_000, generator=rng, movement=movement)
                for movement in (None, belief.movement[band])
            )
            for place, level in enumerate(letters.level_names):
                rows = fold.judged & (letters.risk == band) & (letters.level == place)
                count = int(rows.sum())
                (least, most), (lower, upper) = (
                    np.quantile(
                        rng.binomial(count, drawn[:, place]) / max(count, 1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
                    )
                    for drawn in (rates, moved)
                )
                observed = float(letters.took[rows].mean()) if count else 0.0
                cells.append(
                    TakeUpCell(
                        fold=fold.name,
                        band=band,
                        level=level,
                        letters=count,
                        predicted=float(engagement.rates([letters.level_depths[place]])[0]),
                        lower=float(lower),
                        upper=float(upper),
                        observed=observed,
                        inside_without_movement=bool(least <= observed <= most),
                    )
                )
    return cells


def expected_inside(cells: int) -> tuple[int, int]:
    """How many of so many 90% intervals hold the outcome by chance, in 95 of 100 worlds where they are right."""
    return int(binom.ppf(0.025, cells, LEVEL)), int(binom.ppf(0.975, cells, LEVEL))


@dataclass(frozen=True, kw_only=True)
class LoanSizes:
    """How well ln(loan) of the judged takers was predicted."""

    fold: str
    accuracy: Accuracy
    inside: float  # share of the takers within their own 90% intervals


def loan_sizes(trial: Trial) -> list[LoanSizes]:
    found = []
    for fold, belief in zip(trial.folds, trial.beliefs, strict=True):
        rows = fold.judged & trial.letters.took
        if rows.any():
            mean, sd = belief.basket.predict(belief.context[rows], trial.letters.depth[rows])
            seen = np.log(trial.letters.loan[rows])
            reach = SD_OF_LEVEL * np.hypot(sd, belief.basket.posterior.noise_sd)
            inside = float((np.abs(seen - mean) <= reach).mean())
            found.append(LoanSizes(fold=fold.name, accuracy=accuracy(mean, seen), inside=inside))
    return found


@dataclass(frozen=True)
class CalibrationBin:
    """Letters of similar predicted take-up or loan value."""

    predicted: float  # mean
    observed: Estimate


def calibration(trial: Trial, figure: str = LOAN_VALUE, *, bins: int = 10) -> list[CalibrationBin]:
    """Letters as sent, sorted by what was predicted of them, in `bins` groups of equal size."""
    letters, observed = trial.letters, trial.observed(figure)
    predicted = trial.predicted(figure)[np.arange(len(letters)), letters.level]
    return [
        CalibrationBin(float(predicted[rows].mean()), mean_estimate(observed[rows]))
        for rows in np.array_split(np.argsort(predicted, kind="stable"), bins)
    ]


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """Pairs of levels: how many the estimates tell apart at 95%, and how many of those the beliefs ordered right."""

    judged_on: str
    figure: str
    pairs: int
    told_apart: int
    predicted: int


def ordering(trial: Trial) -> list[Ordering]:
    """On all letters, and on those of each fold."""
    pairs, found = list(combinations(range(len(trial.letters.level_depths)), 2)), []
    for name, rows in (("all letters", None), *((fold.name, fold.judged) for fold in trial.folds)):
        for figure in (TAKE_UP, LOAN_VALUE, OBJECTIVE):
            both = [between(trial, figure, high=high, low=low, rows=rows) for low, high in pairs]
            clear = [(seen.value, belief) for seen, belief in both if not seen.covers(0.0)]
            right = sum(seen * belief > 0 for seen, belief in clear)
            found.append(
                Ordering(judged_on=name, figure=figure, pairs=len(pairs), told_apart=len(clear), predicted=right)
            )
    return found


def placebo_coverage(trial: Trial, *, seed: int, rounds: int = PLACEBO_ROUNDS) -> dict[str, float]:
    """Assign the levels anew within strata, customers and outcomes unchanged: then no policy gains any loans.

    How often the 95% interval of each policy's gain in loan value covers that 0.
    """
    letters, rng = trial.letters, np.random.default_rng(seed)
    sent, belief = letters.shares[letters.stratum], trial.predicted(LOAN_VALUE)
    by_stratum, rows = np.argsort(letters.stratum, kind="stable"), np.arange(len(letters))
    # the terms of `gain_terms`, with what no assignment changes computed once
    differences = {name: plan - sent for name, plan in trial.targets.items() if name != AS_SENT}
    predicted = {name: (difference * belief).sum(axis=1) for name, difference in differences.items()}
    covered = dict.fromkeys(differences, 0)
    for _ in range(rounds):
        level = np.empty_like(letters.level)
        level[by_stratum] = letters.level[np.lexsort((rng.random(rows.size), letters.stratum))]
        surprise = (letters.loan - belief[rows, level]) / sent[rows, level]
        for name, difference in differences.items():
            covered[name] += mean_estimate(predicted[name] + difference[rows, level] * surprise).covers(0.0)
    return {name: count / rounds for name, count in covered.items()}


def randomisation_warnings(trial: Trial) -> tuple[str, ...]:
    """Evidence that the offers were not assigned at random within strata: the tests of `disco.random_log`."""
    letters = trial.letters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RandomisationWarning)  # they come back in `.warnings`
        log = disco.random_log(
            trial.beliefs[0].context,
            np.asarray(letters.level_depths)[letters.level],
            np.where(letters.took, letters.loan, np.nan),
            customer_id=letters.ids,
            strata=letters.stratum,
        )
    return log.warnings
