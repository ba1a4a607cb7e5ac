"""Did beliefs learned from other letters say what then happened, and were their intervals as wide as they had to be?"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from judging import LOAN_VALUE, OBJECTIVE, TAKE_UP, between, predicted
from learning import Trial
from scipy.stats import binom

import disco
from disco.evaluation import Accuracy, Estimate, RandomisationWarning, accuracy, mean_estimate

LEVEL = 0.9
_SD_OF_LEVEL = 1.645
_DRAWS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeUpCell:
    """Take-up of one band at one level in the judged letters, and the 90 % interval foretold for so many letters."""

    fold: str
    band: str
    level: str
    letters: int
    foretold: float
    lower: float
    upper: float
    observed: float

    @property
    def inside(self) -> bool:
        return self.lower <= self.observed <= self.upper


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanSizes:
    """How well ln(loan) of the judged takers was foretold; `inside`: their share within their own 90 % intervals."""

    fold: str
    accuracy: Accuracy
    inside: float


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """Letters of similar foretold loan value: what was foretold on average, and what came."""

    foretold: float
    observed: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """Pairs of undifferentiated levels: how many the estimates tell apart at 95 %, and how many of those the beliefs
    had put in that order.
    """

    judged_on: str
    figure: str
    pairs: int
    told_apart: int
    foretold: int


def ordering(trial: Trial) -> Iterator[Ordering]:
    """On all letters, and on those of each fold."""
    pairs = list(combinations(range(len(trial.offers.level_depths)), 2))
    for name, rows in (("all letters", None), *((fold.name, fold.judged) for fold in trial.folds)):
        for figure in (TAKE_UP, LOAN_VALUE, OBJECTIVE):
            found = [between(trial, figure, high=high, low=low, rows=rows) for low, high in pairs]
            clear = [(seen.value, belief) for seen, belief in found if not seen.covers(0.0)]
            yield Ordering(
                judged_on=name,
                figure=figure,
                pairs=len(pairs),
                told_apart=len(clear),
                foretold=sum(seen * belief > 0 for seen, belief in clear),
            )


def take_up_cells(trial: Trial, *, seed: int) -> Iterator[TakeUpCell]:
    """Belief about the rate and the luck of so many letters, together: draws of the rate, then of the takers."""
    offers, rng = trial.offers, np.random.default_rng(seed)
    for fold, belief in zip(trial.folds, trial.beliefs, strict=True):
        for band, engagement in belief.engagement.items():
            rates = engagement.draws(offers.level_depths, count=_DRAWS, generator=rng)
            for place, level in enumerate(offers.level_names):
                rows = fold.judged & (offers.risk == band) & (offers.level == place)
                letters = int(rows.sum())
                drawn = rng.binomial(letters, rates[:, place]) / max(letters, 1)
                lower, upper = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
                yield TakeUpCell(
                    fold=fold.name,
                    band=band,
                    level=level,
                    letters=letters,
                    foretold=float(engagement.rates([offers.level_depths[place]])[0]),
                    lower=float(lower),
                    upper=float(upper),
                    observed=float(offers.took[rows].mean()) if letters else 0.0,
                )


def expected_inside(cells: int) -> tuple[int, int]:
    """How many of so many 90 % intervals hold, by chance alone, in 95 of 100 worlds where they are right."""
    return int(binom.ppf(0.025, cells, LEVEL)), int(binom.ppf(0.975, cells, LEVEL))


def loan_sizes(trial: Trial) -> Iterator[LoanSizes]:
    for fold, belief in zip(trial.folds, trial.beliefs, strict=True):
        rows = fold.judged & trial.offers.took
        if not rows.any():
            continue
        mean, sd = belief.basket.predict(belief.context[rows], trial.offers.depth[rows])
        seen = np.log(trial.offers.loan[rows])
        reach = _SD_OF_LEVEL * np.hypot(sd, belief.basket.posterior.noise_sd)
        inside = float((np.abs(seen - mean) <= reach).mean())
        yield LoanSizes(fold=fold.name, accuracy=accuracy(mean, seen), inside=inside)


def calibration(trial: Trial, *, bins: int = 10) -> list[CalibrationBin]:
    """Letters as dealt, sorted by foretold loan value, in `bins` groups of equal size."""
    offers = trial.offers
    foretold = predicted(trial, LOAN_VALUE)[np.arange(len(offers)), offers.level]
    return [
        CalibrationBin(float(foretold[rows].mean()), mean_estimate(offers.loan[rows]))
        for rows in np.array_split(np.argsort(foretold, kind="stable"), bins)
    ]


def doubts(trial: Trial) -> tuple[str, ...]:
    """What speaks against the offers having been dealt at random within strata: tests of `disco.random_log`."""
    offers = trial.offers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RandomisationWarning)  # they come back in `.warnings`
        log = disco.random_log(
            trial.beliefs[0].context,
            np.asarray(offers.level_depths)[offers.level],
            np.where(offers.took, offers.loan, np.nan),
            customer_id=offers.ids,
            strata=offers.stratum,
        )
    return log.warnings
