"""Replay and off-policy estimates against known truth: behind benchmarks/evaluation.py, and shorter behind the tests.

Each simulation returns counts of a yes/no event over independent repetitions, to be held against a binomial band.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import binom

from disco.belief import BasketModel, Engagement, SmoothSpline
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.log import RandomLog, random_log
from disco.evaluation.off_policy import off_policy
from disco.evaluation.replay import replay
from disco.policy import Thompson
from disco.records.decisions import Audience, Offer, Purchases

DEPTHS = (0.1, 0.2, 0.3)
GRID = np.asarray(DEPTHS)
NOISE_SD = 0.7
SPREAD = 0.72  # of ln F around its mean in the simulated retailer's campaigns


def band(repetitions: int, rate: float, *, certainty: float = 0.999) -> tuple[float, float]:
    """The range of an observed share that a true rate gives with this probability."""
    low, high = binom.ppf([(1 - certainty) / 2, (1 + certainty) / 2], repetitions, rate)
    return float(low) / repetitions, float(high) / repetitions


# ---- a small world: two context features, three depths --------------------------------------------------------------


def log_price(x: np.ndarray) -> np.ndarray:
    """(n, 3) mean ln F: a level that varies with x1, an elasticity that varies with x2."""
    return 3.5 + 0.3 * x[:, :1] + (1.2 + 0.8 * x[:, 1:]) * GRID


def purchase_rate(x: np.ndarray) -> np.ndarray:
    """(n, 3) probability of a purchase."""
    return expit(-0.6 + 0.4 * x[:, :1] + 2.0 * GRID)


def revenue_rate(x: np.ndarray) -> np.ndarray:
    """(n, 3) expected revenue per customer."""
    return purchase_rate(x) * np.exp(log_price(x) + NOISE_SD**2 / 2) * (1 - GRID)


@dataclass(frozen=True, slots=True)
class FixedPolicy:
    """Figures that follow x2 alone, a little wrong on purpose, the same whatever was learned."""

    name: ClassVar[str] = "fixed"
    deterministic: ClassVar[bool] = True

    def full_prices(
        self,
        model: Any,
        context: Any,
        depths: Any,
        *,
        ids: Any,
        seed: int,
        campaign: str,
        dtype: Any = np.float64,
        engine: Any = None,
    ) -> Any:
        return np.asfortranarray(np.exp((1.3 + 0.9 * np.asarray(context)[:, 1:]) * np.asarray(depths)), dtype)


def fixed_choice(x: np.ndarray) -> np.ndarray:
    return (FixedPolicy().full_prices(None, x, GRID, ids=None, seed=0, campaign="") * (1 - GRID)).argmax(axis=1)


def logging_policy(x: np.ndarray) -> np.ndarray:
    """(n, 3) probabilities that follow x2: random, not uniform, everywhere positive."""
    score = np.exp(x[:, 1:] * np.array([0.5, 0.0, -0.5]) + np.array([0.3, 0.0, -0.1]))
    return score / score.sum(axis=1, keepdims=True)


def target_policy(x: np.ndarray) -> np.ndarray:
    """(n, 3) probabilities to be judged: mostly the fixed choice."""
    return 0.8 * np.eye(3)[fixed_choice(x)] + 0.2 / 3


def customers(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.normal(size=(rows, 2)).clip(-4, 4)


def outcomes(rng: np.random.Generator, x: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(n,) full price at the depth played, NaN = no purchase."""
    at = np.arange(len(x)), place
    price = np.exp(log_price(x)[at] + NOISE_SD * rng.normal(size=len(x)))
    return np.where(rng.random(len(x)) < purchase_rate(x)[at], price, np.nan)


def expectation(figure: Any) -> float:
    """E[figure(x)] over the customers, by a fine grid of the two normal features (mass beyond ±4 sits at the edge)."""
    edges = np.linspace(-4, 4, 1001)
    weight = np.diff(np.concatenate([[0.0], ndtr((edges[1:] + edges[:-1]) / 2), [1.0]]))
    x1, x2 = np.meshgrid(edges, edges, indexing="ij")
    return float((np.outer(weight, weight).ravel() * figure(np.column_stack([x1.ravel(), x2.ravel()]))).sum())


def at_choice(matrix: np.ndarray, choice: np.ndarray) -> np.ndarray:
    return matrix[np.arange(len(choice)), choice]


@cache
def fixed_policy_truth() -> tuple[float, float]:
    """Revenue and purchases per customer of the fixed policy."""
    return (
        expectation(lambda x: at_choice(revenue_rate(x), fixed_choice(x))),
        expectation(lambda x: at_choice(purchase_rate(x), fixed_choice(x))),
    )


# ---- calibration of replay and of off-policy estimates ---------------------------------------------------------------


def replay_coverage(repetitions: int, *, rows: int = 1500, seed: int = 1) -> int:
    """Fixed policy, uniform logs: how often the 95 % interval of the average basket value covers the truth."""
    revenue, purchases = fixed_policy_truth()
    rng = np.random.default_rng(seed)
    covered = 0
    for number in range(repetitions):
        x, place = customers(rng, rows), rng.integers(0, 3, rows)
        log = random_log(x, GRID[place], outcomes(rng, x, place), check_balance=False)
        found = replay(log, FixedPolicy(), batch=rows, passes=1, repeats=0, learning=False, seed=number)
        covered += found.policies["fixed"].average_basket_value.covers(revenue / purchases)
    return covered


def off_policy_coverage(repetitions: int, *, rows: int = 1500, seed: int = 2) -> dict[str, int]:
    """Logs with known propensities that follow the context; and depths in shares by stratum, estimated from the log."""
    truth = expectation(lambda x: (target_policy(x) * revenue_rate(x)).sum(axis=1))
    rng = np.random.default_rng(seed)
    covered = dict.fromkeys(("IPS", "SNIPS", "DR", "IPS, strata", "SNIPS, strata", "DR, strata"), 0)
    shares = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    for _ in range(repetitions):
        for suffix in ("", ", strata"):
            x = customers(rng, rows)
            stratum = (x[:, 1] > 0).astype(int)
            law = logging_policy(x) if not suffix else shares[stratum]
            place = (rng.random((rows, 1)) > law.cumsum(axis=1)[:, :2]).sum(axis=1)
            price = outcomes(rng, x, place)
            log = random_log(
                x,
                GRID[place],
                price,
                propensity=None if suffix else at_choice(law, place),
                strata=stratum if suffix else None,
                check_balance=False,
            )
            target = target_policy(x)
            model = 0.6 * revenue_rate(x) + 2.0  # biased on purpose: doubly robust must not care
            found = off_policy(
                np.nan_to_num(price) * (1 - GRID[place]),
                propensity=log.propensity,
                target=at_choice(target, place),
                predicted_logged=at_choice(model, place),
                predicted_target=(target * model).sum(axis=1),
            )
            for name, estimate in (("IPS", found.ips), ("SNIPS", found.snips), ("DR", found.dr)):
                covered[name + suffix] += estimate.covers(truth)
    return covered


# ---- replay under caps on the simulated retailer ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shop:
    """Truth of a simulated retailer as plain arrays, with contexts that know a customer's level and elasticity."""

    context: np.ndarray
    full_price: np.ndarray
    probability: np.ndarray
    depths: tuple[float, ...]
    model: BasketModel

    @classmethod
    def simulate(cls, *, size: int = 20_000, seed: int = 5) -> Shop:
        from disco.retailer import Retailer
        from disco.retailer.settings import RetailerSettings

        shop = Retailer.simulate(RetailerSettings(customers=size, seed=seed))
        depths = (0.1, 0.2, 0.3, 0.4)
        truth = shop.truth([f"c{number:07d}" for number in range(size)], depths)
        rng = np.random.default_rng(seed)
        known = np.column_stack([truth.baseline, truth.elasticity])
        known = (known - known.mean(axis=0)) / known.std(axis=0)
        context = (0.8 * known + 0.6 * rng.normal(size=known.shape)).clip(-4, 4)
        bare = cls(context, truth.expected_full_price, truth.purchase_probability, depths, BasketModel())
        log = bare.log(rng, rows=20_000)
        model = BasketModel(encoding=SmoothSpline(), depth_scale=0.5)
        bought = log.bought
        return cls(
            context,
            truth.expected_full_price,
            truth.purchase_probability,
            depths,
            model.update(log.context[bought], log.depth[bought], log.full_price[bought]),
        )

    def log(self, rng: np.random.Generator, *, rows: int) -> RandomLog:
        """A fresh random campaign on customers drawn from the shop, answering by its law."""
        who, place = rng.integers(0, len(self.context), rows), rng.integers(0, len(self.depths), rows)
        price = self.full_price[who, place] * np.exp(SPREAD * rng.normal(size=rows) - SPREAD**2 / 2)
        bought = rng.random(rows) < self.probability[who, place]
        depth = np.asarray(self.depths)[place]
        return random_log(self.context[who], depth, np.where(bought, price, np.nan), check_balance=False)

    def beginner(self, *, rows: int = 400) -> Shop:
        """The same shop known only by a short log, so that there is much to learn."""
        log = self.log(np.random.default_rng(6), rows=rows)
        bought = log.bought
        model = BasketModel(encoding=SmoothSpline(), depth_scale=0.5)
        return replace(
            self, model=model.update(log.context[bought], log.depth[bought], log.full_price[bought], campaign="early")
        )

    def true_value(self, case: CappedCase, *, runs: int, seed: int = 8) -> float:
        """Average basket value of Thompson run online: its decisions batch by batch, judged by the truth's means.

        A learner hears of each customer with probability 1/K, as in a replay.
        """
        rng, grid = np.random.default_rng(seed), np.asarray(self.depths)
        known = Engagement(override=dict.fromkeys(self.depths, 1.0))
        worth = self.probability * self.full_price * (1 - grid)
        caps = tuple(int(case.caps[depth] * case.batch) for depth in self.depths)
        offer = Offer(depths=self.depths, caps=caps, revenue_weight=1e9)
        revenue = purchases = 0.0
        for run in range(runs):
            belief = Belief(basket=self.model, engagement=known)
            for number in range(case.batches):
                who = rng.integers(0, len(self.context), case.batch)
                audience = Audience(
                    ids=np.arange(case.batch), context=self.context[who], known=np.ones(case.batch, np.bool_)
                )
                choice = decide(
                    audience, belief=belief, offer=offer, policy=Thompson(), campaign=f"{number}", seed=run
                ).choice
                rows, columns = who[choice >= 0], choice[choice >= 0]
                revenue += float(worth[rows, columns].sum())
                purchases += float(self.probability[rows, columns].sum())
                if case.learning:
                    heard = (rng.random(rows.size) < 1 / grid.size) & (
                        rng.random(rows.size) < self.probability[rows, columns]
                    )
                    rows, columns = rows[heard], columns[heard]
                    price = self.full_price[rows, columns] * np.exp(SPREAD * rng.normal(size=rows.size) - SPREAD**2 / 2)
                    seen = Purchases(context=self.context[rows], depth=grid[columns], full_price=price)
                    belief = learn(belief, [Lesson.of("replay", seen)])
        return revenue / purchases


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedCase:
    """Thompson in batches under caps, acting on the belief of the start or learning as it goes."""

    learning: bool
    batch: int = 1500
    batches: int = 3
    caps: Mapping[float, float] = field(default_factory=lambda: {0.1: 0.3, 0.2: 0.3, 0.3: 0.15, 0.4: 0.1})


def capped_replay_coverage(
    shop: Shop, case: CappedCase, repetitions: int, *, repeats: int, truth: float, seed: int = 3, passes: int = 8
) -> int:
    """How often the 95 % interval of a replay covers the simulated retailer's truth."""
    rng = np.random.default_rng(seed)
    covered = 0
    for number in range(repetitions):
        found = replay(
            shop.log(rng, rows=case.batches * case.batch),
            Thompson(),
            belief=shop.model,
            batch=case.batch,
            caps=case.caps,
            passes=passes,
            repeats=repeats,
            learning=case.learning,
            seed=1000 * number,
        )
        covered += found.policies["thompson"].average_basket_value.covers(truth)
    return covered
