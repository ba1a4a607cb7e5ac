"""What the network remembers of each feature: a scale robust to heavy tails, and its distribution in training."""

from dataclasses import dataclass

import numpy as np

from disco.features.kernel import scale_rows
from disco.records.arguments import require_floats
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError

BINS = 10  # of the distribution in training, for drift; one more for missing values
_NORMAL_QUARTILES = 1.349  # interquartile range of the standard normal, in sds


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """z = (sign(x)·ln(1 + |x|·unit) − centre)·spread per feature, 0 where x is missing; and how x was distributed in
    training. All arrays have one row per feature."""

    unit: Vector
    """1 / median |x| over x ≠ 0: typical values lie where the curve bends from linear to logarithmic, so a total in
    pounds, a count and a share all come out near N(0, 1), and a customer of a thousand orders stays within a few
    units."""

    centre: Vector
    """Median of the curved values."""

    spread: Vector
    """1 / robust sd of the curved values; 0 for a feature that is constant."""

    edges: Matrix
    """(features, BINS − 1) deciles."""

    shares: Matrix
    """(features, BINS + 1) share of the rows in each bin, and last the share missing."""

    log_size: Matrix
    """(features, 2) median and interquartile range of ln |x| over x ≠ 0."""

    limits: Matrix
    """(features, 2) smallest and largest value; NaN: none."""

    def __post_init__(self) -> None:
        rows = self.unit.size
        for name in ("unit", "centre", "spread"):
            require_floats(getattr(self, name), (rows,), where=f"scaling.{name}")
        require_floats(self.edges, (rows, BINS - 1), where="scaling.edges")
        require_floats(self.shares, (rows, BINS + 1), where="scaling.shares")
        for name in ("log_size", "limits"):
            require_floats(getattr(self, name), (rows, 2), where=f"scaling.{name}", unknown=True)
        for name, right, expected in (
            ("unit", self.unit > 0, "numbers above 0"),
            ("spread", self.spread >= 0, "numbers, 0 or more"),
            ("edges", np.diff(self.edges) >= -1e-9 * np.abs(self.edges[:, 1:]), "deciles in ascending order"),
            ("shares", (self.shares >= 0) & (self.shares <= 1), "shares from 0 to 1"),
            ("limits", ~(self.limits[:, 0] > self.limits[:, 1]), "the smallest value before the largest"),
        ):
            wrong = np.flatnonzero(~right.reshape(rows, -1).all(axis=1))
            if wrong.size:
                found = getattr(self, name)[wrong[0]].tolist()
                raise InputError(f"scaling.{name}, feature {wrong[0] + 1}", found=found, expected=expected)

    @classmethod
    def fit(cls, rows: Matrix) -> "Scaling":
        count = rows.shape[1]
        unit, centre, spread = np.ones(count), np.zeros(count), np.zeros(count)
        edges, shares, log_size = np.zeros((count, BINS - 1)), np.zeros((count, BINS + 1)), np.zeros((count, 2))
        limits = np.full((count, 2), np.nan)
        for place in range(count):
            column = rows[:, place]
            known = column[~np.isnan(column)]
            log_size[place] = log_size_of(known)
            if known.size:
                limits[place] = known.min(), known.max()
                edges[place] = np.quantile(known, np.arange(1, BINS) / BINS)
                if (known != 0).any():
                    unit[place] = 1 / np.median(np.abs(known[known != 0]))
            shares[place] = bin_shares(column, edges[place])
            curved = np.sign(known) * np.log1p(np.abs(known) * unit[place])
            if curved.size:
                centre[place] = np.median(curved)
                width = float(np.subtract(*np.quantile(curved, [0.75, 0.25]))) / _NORMAL_QUARTILES
                # mostly one value (say, 0 returns): the quartiles coincide and the sd speaks for the rest
                width = max(width, float(curved.std()) / 2)
                spread[place] = 1 / width if width > 1e-9 else 0.0
        return cls(unit, centre, spread, edges, shares, log_size, limits)

    def apply(self, rows: Matrix) -> Matrix:
        """Scaled inputs, shape (rows, features)."""
        out = np.empty_like(rows)
        scale_rows(rows, self.unit, self.centre, self.spread, out)
        return out


def bin_shares(column: Vector, edges: Vector) -> Vector:
    """Shares of the values in each bin between `edges`, and last the share missing.

    >>> bin_shares(np.array([1.0, 2.0, 5.0, np.nan]), np.array([2.0, 4.0])).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    missing = np.isnan(column)
    bins = np.searchsorted(edges, column[~missing], side="right")
    counts = np.append(np.bincount(bins, minlength=edges.size + 1), missing.sum())
    return counts / max(column.size, 1)


def log_size_of(known: Vector) -> Vector:
    """Median and interquartile range of ln |x| over x ≠ 0; NaN where there is none."""
    sizes = known[known != 0]
    if not sizes.size:
        return np.full(2, np.nan)
    low, middle, high = np.quantile(np.log(np.abs(sizes)), [0.25, 0.5, 0.75])
    return np.array([middle, high - low])
