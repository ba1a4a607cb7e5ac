"""Pooled results: `disco results` over all campaigns, on histories whose uplift is the same, differs, or drifts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from disco.evaluation.estimates import Mean, compare, pool

from .tally import Row, Tally
from .world import TAILS

UPLIFT = 0.10  # mean of ln(ratio)
CUSTOMERS = (3000, 1500)  # decided, control, per campaign
RATE, LEVEL = 0.2, 40.0
HISTORIES = {  # sd of the true ln(ratio) between campaigns, and its change from the first campaign to the last
    "equal uplifts": (0.0, 0.0),
    "uplifts that differ": (0.08, 0.0),
    "uplifts that drift": (0.03, 0.16),
}


def study(histories: int, *, campaigns: tuple[int, ...] = (4, 10), seed: int = 5) -> Iterator[Row]:
    """Both estimands: the mean uplift of campaigns like these, and what these campaigns earned in money.

    A level of spending that moves from campaign to campaign is in all of them. With drift, "campaigns like these" are
    those of the whole span, so the mean over the span is the truth.
    """
    for tail, noise_sd in TAILS.items():
        for name, (between, drift) in HISTORIES.items():
            for count in campaigns:
                rng = np.random.default_rng(seed)
                tally = Tally("pooled", f"{name}, {count} campaigns, {tail}")
                for _ in range(histories):
                    _count(tally, rng, noise_sd, between, drift, count)
                yield from tally.rows()


def _count(tally: Tally, rng: np.random.Generator, noise_sd: float, between: float, drift: float, count: int) -> None:
    place = np.linspace(-0.5, 0.5, count)
    effects = UPLIFT + drift * place + between * rng.normal(size=count)
    levels = LEVEL * np.exp(0.25 * rng.normal(size=count))  # seasons
    found = [
        compare(_arm(rng, CUSTOMERS[0], level * np.exp(effect), noise_sd), _arm(rng, CUSTOMERS[1], level, noise_sd))
        for level, effect in zip(levels, effects, strict=True)
    ]
    pooled = pool(found, [CUSTOMERS[0]] * count)
    tally.covers("mean uplift", pooled.relative, float(np.expm1(UPLIFT)))
    earned = float((CUSTOMERS[0] * RATE * levels * np.expm1(effects)).sum())
    tally.covers("what they earned, money", pooled.total, earned)


def _arm(rng: np.random.Generator, customers: int, level: float, noise_sd: float) -> Mean:
    """Revenue per customer: RATE of them buy, for `level` on average."""
    baskets = level * rng.lognormal(-(noise_sd**2) / 2, noise_sd, rng.binomial(customers, RATE))
    mean = float(baskets.sum()) / customers
    return Mean(mean, float(baskets @ baskets - customers * mean**2) / (customers - 1) / customers, customers)
