"""A/B tests and propensities against known truth: behind benchmarks/evaluation.py, and shorter behind the tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_ind_from_stats

from disco.allocation import allocate
from disco.belief import BasketModel
from disco.evaluation.estimates import Look, Mean, compare
from disco.evaluation.power import Design
from disco.evaluation.read_out import ab_test
from disco.objective import values
from disco.policy import Policy, Thompson
from disco.policy.propensity import Propensities, propensities

# ---- nobody is better: how often a test says otherwise --------------------------------------------------------------


def baskets(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.lognormal(3.6, 0.7, rows)


def aa_rejections(repetitions: int, *, rows: int = 3000, seed: int = 1) -> dict[str, int]:
    """Both arms alike: counts of p < 5 %, and of alarms of the sample-ratio check (at 0.1 %)."""
    rng = np.random.default_rng(seed)
    rejected: dict[str, int] = {}

    def count(name: str, event: bool) -> None:
        rejected[name] = rejected.get(name, 0) + bool(event)

    for _ in range(repetitions):
        arm = np.where(rng.random(rows) < 0.3, "control", "decided")
        depth = rng.choice([0.1, 0.2, np.nan], rows, p=[0.6, 0.3, 0.1])
        before = rng.lognormal(4, 0.8, rows)
        buys = (rng.random(rows) < 0.1 + 0.1 * (before > 55)) & ~np.isnan(depth)
        price = np.where(buys, baskets(rng, rows) * (before / 55) ** 0.4, np.nan)
        found = ab_test(arm, depth, price, revenue_weight=3.0, before=before, shares={"decided": 0.7, "control": 0.3})
        for finding in found.findings:
            count(f"{finding.metric} per {finding.per}", finding.comparison.p_value < 0.05)
            if finding.adjusted is not None:
                count(f"{finding.metric} per customer, adjusted", finding.adjusted.comparison.p_value < 0.05)
        relative = found.finding("revenue", "purchaser").comparison.relative
        count("revenue per purchaser, ratio interval", relative is not None and not relative.covers(0.0))
        count("sample ratio (0.1 %)", found.sample_ratio is not None and not found.sample_ratio.ok)
    return rejected


def sequential_rejections(repetitions: int, *, rows: int = 2000, days: int = 30, seed: int = 2) -> dict[str, int]:
    """Both arms alike, looked at every day for a month: tests in which any look excluded 0.

    launch: everybody has a code from day one, purchases come in day by day; arrival: as many new customers every day.
    """
    rng = np.random.default_rng(seed)
    rejected = {f"{design}, {kind}": 0 for design in ("launch", "arrival") for kind in ("always valid", "fixed 95 %")}
    planned = 2 * rows * 0.2
    for _ in range(repetitions):
        spend = np.where(rng.random((2, rows)) < 0.2, rng.lognormal(3.6, 0.7, (2, rows)), 0.0)
        day = rng.integers(0, days, (2, rows))
        for design in ("launch", "arrival"):
            hits = {"always valid": False, "fixed 95 %": False}
            sums = [_by_day(spend[side], day[side], days, arriving=design == "arrival") for side in (0, 1)]
            purchases = [np.bincount(day[side][spend[side] > 0], minlength=days).cumsum() for side in (0, 1)]
            for now in range(days):
                counts = [sums[side][0][now] for side in (0, 1)]
                seen = int(purchases[0][now] + purchases[1][now])
                if min(counts) < 2 or seen < 5:
                    continue
                arms = [_mean(sums[side], now) for side in (0, 1)]
                found, running = compare(*arms), compare(*arms, look=Look(information=seen / planned))
                hits["fixed 95 %"] |= not found.difference.covers(0.0)
                hits["always valid"] |= not running.difference.covers(0.0)
            for kind, hit in hits.items():
                rejected[f"{design}, {kind}"] += hit
    return rejected


def _by_day(spend: np.ndarray, day: np.ndarray, days: int, *, arriving: bool) -> tuple[np.ndarray, ...]:
    """Customers, sum and sum of squares up to each day."""
    totals = [np.bincount(day, weights=spend**power, minlength=days).cumsum() for power in (0, 1, 2)]
    return (totals[0] if arriving else np.full(days, float(spend.size))), totals[1], totals[2]


def _mean(sums: tuple[np.ndarray, ...], now: int) -> Mean:
    count, total, squares = (float(column[now]) for column in sums)
    return Mean(total / count, (squares - total**2 / count) / (count - 1) / count, int(count))


@dataclass(frozen=True, slots=True)
class PowerCase:
    """A design, the difference to find, and how its customers behave."""

    name: str
    design: Design
    uplift: float
    engagement: float


POWER_CASES = (
    PowerCase("per purchaser, halves", Design(baseline=40.0, sd=30.0), 0.04, 1.0),
    PowerCase(
        "per customer, control 20 %",
        Design.of_purchases(baseline=40.0, sd=30.0, engagement=0.15, control_share=0.2),
        0.05,
        0.15,
    ),
)


def power_rejections(case: PowerCase, repetitions: int, *, power: float, seed: int = 3) -> tuple[int, float]:
    """Rejections by Welch's test in simulated experiments of the size the calculator asks for, and its own power."""
    rng = np.random.default_rng(seed)
    everybody = case.design.customers(case.uplift, power=power)
    sizes = (everybody - round(everybody * case.design.control_share), round(everybody * case.design.control_share))
    spread = np.log(1 + (30.0 / 40.0) ** 2)
    rejected = 0
    for _ in range(repetitions):
        stats = []
        for size, factor in zip(sizes, (1 + case.uplift, 1.0), strict=True):
            buyers = size if case.engagement == 1 else int(rng.binomial(size, case.engagement))
            spend = rng.lognormal(np.log(40.0) - spread / 2, np.sqrt(spread), buyers) * factor
            mean = spend.sum() / size
            stats += [mean, np.sqrt((spend @ spend - size * mean**2) / (size - 1)), size]
        rejected += ttest_ind_from_stats(*stats, equal_var=False).pvalue < 0.05
    return rejected, case.design.power(case.uplift, customers=everybody)


# ---- propensities against frequencies --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Campaign:
    """Customers, caps and a belief, as a policy's propensities see them."""

    context: np.ndarray
    caps: tuple[int, ...]
    model: BasketModel
    depths: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)

    @classmethod
    def simulate(cls, size: int, *, seed: int = 1) -> Campaign:
        rng = np.random.default_rng(seed)
        x, depth = rng.normal(size=(1500, 3)).clip(-4, 4), rng.choice((0.1, 0.2, 0.3, 0.4), 1500)
        price = np.exp(3.6 + 0.3 * x[:, 0] + depth * (1 + 0.5 * x[:, 1]) + 0.7 * rng.normal(size=1500))
        caps = tuple(int(size * share) for share in (0.3, 0.25, 0.15, 0.1))
        return cls(rng.normal(size=(size, 3)).clip(-4, 4), caps, BasketModel().update(x, depth, price))

    def law(self, policy: Policy, *, draws: int, seed: int, method: str) -> Propensities:
        grid, ids = np.asarray(self.depths), np.arange(len(self.context))

        def worth(again: int) -> np.ndarray:
            full_prices = policy.full_prices(self.model, self.context, grid, ids=ids, seed=again, campaign="c")
            return values(full_prices, grid, np.ones(grid.size), revenue_weight=3.0)

        return propensities(
            policy,
            seed=seed,
            worth=worth,
            solve=lambda worth: allocate(worth, self.caps, ids=ids),
            draws=draws,
            method=method,  # type: ignore[arg-type]
        )


def distance(one: Propensities, other: Propensities) -> float:
    """Total variation between the laws of a customer's depth, averaged over customers."""
    return float(np.abs(one.frequencies() - other.frequencies()).sum(axis=1).mean() / 2)


def propensity_distances(size: int, *, reference: int, draws: int) -> dict[str, float]:
    """Against frequencies over `reference` full re-solves: each method, and the floor that the draws' noise sets."""
    campaign = Campaign.simulate(size)
    truth = campaign.law(Thompson(), draws=reference, seed=1, method="resolve")
    floors = truth.frequencies()
    # E|p̂ − q̂| of two independent frequencies ≈ √(2/π)·√(p(1−p)(1/D + 1/R))
    noise = np.sqrt(2 / np.pi * floors * (1 - floors) * (1 / draws + 1 / reference)).sum(axis=1).mean() / 2
    return {
        "noise floor": float(noise),
        "re-solve": distance(campaign.law(Thompson(), draws=draws, seed=2, method="resolve"), truth),
        "prices": distance(campaign.law(Thompson(), draws=draws, seed=3, method="prices"), truth),
    }
