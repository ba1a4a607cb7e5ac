"""A small world whose truth is known: two context features, three depths, baskets with a light or a heavy tail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from disco.evaluation.log import RandomLog, random_log

DEPTHS = (0.1, 0.2, 0.3)
GRID = np.asarray(DEPTHS)
WEIGHT = 3.0  # of revenue in w·R − C
TAILS = {"normal": 0.6, "heavy": 1.1}  # sd of ln(full price): 1.1 gives baskets a skewness of 8


@dataclass(frozen=True, slots=True)
class World:
    """How customers answer; `noise_sd` is that of ln(full price)."""

    noise_sd: float
    rate_level: float = -0.6  # of the log odds of a purchase

    def customers(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        return rng.normal(size=(rows, 2)).clip(-4, 4)

    def log_price(self, x: np.ndarray) -> np.ndarray:
        """(n, 3) mean ln F: a level that varies with x1, an elasticity that varies with x2."""
        return 3.5 + 0.3 * x[:, :1] + (1.2 + 0.8 * x[:, 1:]) * GRID

    def rate(self, x: np.ndarray) -> np.ndarray:
        """(n, 3) probability of a purchase."""
        return expit(self.rate_level + 0.4 * x[:, :1] + 2.0 * GRID)

    def revenue(self, x: np.ndarray) -> np.ndarray:
        """(n, 3) expected revenue per customer."""
        return self.rate(x) * np.exp(self.log_price(x) + self.noise_sd**2 / 2) * (1 - GRID)

    def objective(self, x: np.ndarray) -> np.ndarray:
        """(n, 3) expected w·R − C per customer."""
        return self.revenue(x) * (WEIGHT - GRID / (1 - GRID))

    def expected(self, figure: Callable[[np.ndarray], np.ndarray], *, points: int = 601) -> float:
        """The mean of a figure (n,) of customers (n, 2) over all of them: a fine grid of the two normal features."""
        edges = np.linspace(-4, 4, points)
        density = np.exp(-(edges**2) / 2)
        weight = np.outer(density, density).ravel() / density.sum() ** 2
        x1, x2 = np.meshgrid(edges, edges, indexing="ij")
        return float(weight @ figure(np.column_stack([x1.ravel(), x2.ravel()])))

    def outcomes(self, rng: np.random.Generator, x: np.ndarray, place: np.ndarray) -> np.ndarray:
        """(n,) full price at the depth played; NaN = no purchase."""
        at = np.arange(len(x)), place
        price = np.exp(self.log_price(x)[at] + self.noise_sd * rng.normal(size=len(x)))
        return np.where(rng.random(len(x)) < self.rate(x)[at], price, np.nan)

    def log(self, rng: np.random.Generator, rows: int) -> RandomLog:
        """A campaign with depths assigned uniformly."""
        x, place = self.customers(rng, rows), rng.integers(0, 3, rows)
        return random_log(x, GRID[place], self.outcomes(rng, x, place), check_balance=False)
