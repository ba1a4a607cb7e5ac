"""A trained context network as a frozen value: features in, context vector ψ1 out, the same bits for any chunk.

The kernel reads memory without checking bounds, so every length and number is checked here, when the value is made,
wherever it comes from. Beside the weights it remembers, of each feature, a scale that is robust to heavy tails and how
the feature was distributed in training.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from disco.features.kernel import INPUT_LIMIT, context_rows, scale_rows
from disco.features.rows import history_column, refuse_infinite
from disco.features.snapshot import Snapshot
from disco.records.arguments import read_count, read_number, require_floats
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError
from disco.records.exact_sums import CONTEXT_LIMIT, GRID
from disco.records.score import EngagementHead

MOST_LAYERS = 64
MOST_UNITS = 65_536  # of one layer, and features at most
MOST_WEIGHTS = 2**24  # 128 MiB
BINS = 10  # of the distribution in training, for drift; one more for missing values
FEWEST_CUSTOMERS = 100  # with a history: below it, the mean of a day is chance
_DAMPING = 100.0  # customers: with n of them a shift is multiplied by n / (n + this)
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


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """Weights and scales of a trained network.

    ψ1(x) = clip((h(x) − `mean`)·`inverse_sd`, ±4) on the 2⁻¹⁶ grid, h the last hidden layer. The heads are linear in
    ψ1, constant first: level b(x) = `level`·[1, ψ1], slope s(x) = `slope`·[1, ψ1] per unit of depth,
    E[ln F] = b + s·(depth − `mean_depth`).
    """

    feature_names: tuple[str, ...]
    schema: str  # hash of the features it was trained on; empty: unknown
    own_features: str  # definitions of the features where they are not the whole catalogue (see `selection`)
    heads: str
    scaling: Scaling
    sizes: tuple[int, ...]  # features, hidden…, d1
    weights: Vector  # packed as `kernel.context_rows` reads them
    leak: float
    mean: Vector  # (d1,)
    inverse_sd: Vector  # (d1,); 0 for a unit that is constant over the training rows
    level: Vector  # (1 + d1,)
    slope: Vector  # (1 + d1,)
    mean_depth: float
    engagement: EngagementHead | None = None  # who uses a code; None: a network without this head
    trained_means: Vector | None = None
    """(features,) where the features stood on the day of training (`Snapshot.means`), NaN where unknown; None: the day
    is not known, and contexts are not centred."""
    habits: int = 0
    """How many of the last units, of every layer, are habits and were not learned (`features.habits`)."""

    def __post_init__(self) -> None:
        sizes = check_sizes(self.sizes)
        names = self.feature_names
        if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names) or len(names) != sizes[0]:
            found, expected = f"{len(names):,} names", f"text, a different name for each of {sizes[0]:,} features"
            raise InputError("feature_names", found=found, expected=expected)
        if not isinstance(self.scaling, Scaling) or self.scaling.unit.size != sizes[0]:
            raise InputError("scaling", found="that of other features", expected=f"that of {sizes[0]:,} features")
        units = sizes[-1]
        require_floats(self.weights, (weight_count(sizes),), where="weights")
        for name in ("mean", "inverse_sd"):
            require_floats(getattr(self, name), (units,), where=name)
        for name in ("level", "slope"):
            require_floats(getattr(self, name), (1 + units,), where=name)
        if not 0 <= self.habits < min(sizes[1:]):
            raise InputError("habits", found=self.habits, expected=f"fewer than the {min(sizes[1:])} units of a layer")
        if self.inverse_sd.min() < 0:
            raise InputError("inverse_sd", found=self.inverse_sd.min(), expected="numbers, 0 or more")
        read_number(self.leak, where="leak", expected="a number in [0, 1)", least=0.0, below=1.0)
        read_number(self.mean_depth, where="mean_depth", expected="a depth from 0 to 1", least=0.0, most=1.0)
        if (self.engagement is not None) != self.heads.endswith("+engagement"):
            raise InputError(
                "engagement", found=f"heads {self.heads!r}", expected="a head for what the network learned"
            )
        if self.engagement is not None and self.engagement.weights.size != 1 + units:
            found = f"{self.engagement.weights.size} weights"
            raise InputError("engagement", found=found, expected=f"a constant and one for each of {units} units")
        if self.trained_means is not None:
            require_floats(self.trained_means, (sizes[0],), where="trained_means", unknown=True)
        self._check_range()

    def _check_range(self) -> None:
        """Refuse weights with which a sum could overflow: contexts and heads are then finite for any features."""
        largest = np.full(self.sizes[0], INPUT_LIMIT)
        with np.errstate(over="ignore", invalid="ignore"):
            for bias, matrix in layers_of(self.weights, self.sizes):
                largest = np.abs(bias) + largest @ np.abs(matrix)
            reached = [(largest + np.abs(self.mean)) * np.maximum(self.inverse_sd, 1.0)]
            reached += [np.abs(part).sum() * CONTEXT_LIMIT for part in (self.level, self.slope)]
            if self.engagement is not None:
                reached.append(np.abs(self.engagement.weights).sum() * CONTEXT_LIMIT * GRID)
        if not all(np.isfinite(part).all() for part in reached):
            raise InputError("weights", found="sums beyond what a number can hold", expected="weights of moderate size")

    @property
    def dimensions(self) -> int:
        return self.sizes[-1]

    def shift(self, snapshot: Snapshot | None) -> Vector:
        """(features,) what is added to the scaled inputs of that day: training's mean less the day's, in their scale;
        zeros where the day of training is not known.

        It is multiplied by n / (n + 100) for n customers with a history; below 100 it is 0, because so few differ by
        chance alone.
        """
        if snapshot is None or self.trained_means is None or snapshot.customers < FEWEST_CUSTOMERS:
            return np.zeros(len(self.feature_names))
        weight = snapshot.customers / (snapshot.customers + _DAMPING)
        apart = self.trained_means - snapshot.means(self.feature_names, self.scaling.unit)
        moved = apart * self.scaling.spread * weight
        return np.where(np.isnan(moved), 0.0, moved)

    def context(self, rows: Matrix, shift: Vector | None = None, *, first: int = 0) -> Matrix:
        """ψ1 of raw features (rows, features), NaN = missing, centred by `shift`; shape (rows, d1).

        rows: row by row or column by column in memory. first: number of the first of them, from 0, for messages.
        """
        given = np.zeros(len(self.feature_names)) if shift is None else shift
        require_floats(given, (len(self.feature_names),), where="shift")
        out = np.empty((rows.shape[0], self.dimensions))
        infinite = context_rows(
            rows if rows.flags.f_contiguous else np.ascontiguousarray(rows),
            self.scaling.unit,
            self.scaling.centre,
            self.scaling.spread,
            np.array(self.sizes, np.int64),
            self.weights,
            self.leak,
            self.mean,
            self.inverse_sd,
            history_column(self.feature_names),
            given,
            out,
        )
        if infinite:
            refuse_infinite(rows, self.feature_names, first=first)
        return out

    def levels(self, context: Matrix) -> Vector:
        """b(x): the expected ln full price at the mean depth of the training orders."""
        return head(self.level, context)

    def slopes(self, context: Matrix) -> Vector:
        """s(x): how much ln full price grows per unit of depth."""
        if self.heads == "level":
            raise InputError("slope", found='heads="level"', expected='a network fitted with heads="level+slope"')
        return head(self.slope, context)


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The units of each layer (features, hidden…, d1), refused where a network of them would be too large.

    >>> check_sizes((76, 64, 16, 6))
    (76, 64, 16, 6)
    """
    if not 2 <= len(sizes) <= MOST_LAYERS:
        raise InputError("sizes", found=f"{len(sizes):,} layers", expected=f"from 2 to {MOST_LAYERS}")
    units = tuple(read_count(size, where="sizes") for size in sizes)
    if max(units) > MOST_UNITS:
        raise InputError("sizes", found=f"a layer of {max(units):.6g} units", expected=f"at most {MOST_UNITS:,}")
    if weight_count(units) > MOST_WEIGHTS:
        found = f"layers with {weight_count(units):,} weights"
        raise InputError("sizes", found=found, expected=f"at most {MOST_WEIGHTS:,}", fix="Use smaller layers.")
    return units


def weight_count(sizes: Sequence[int]) -> int:
    """How many weights and biases the layers have.

    >>> weight_count((3, 2, 1))
    11
    """
    return sum(outgoing * (incoming + 1) for incoming, outgoing in pairwise(sizes))


def layers_of(weights: Vector, sizes: Sequence[int]) -> Iterator[tuple[Vector, Matrix]]:
    """Of each layer the biases (outgoing,) and the weights (incoming, outgoing), as `kernel.context_rows` reads them.

    >>> [(bias.tolist(), matrix.tolist()) for bias, matrix in layers_of(np.array([5.0, 1.0, 2.0]), (2, 1))]
    [([5.0], [[1.0], [2.0]])]
    """
    at = 0
    for incoming, outgoing in pairwise(sizes):
        layer = weights[at : at + outgoing * (incoming + 1)].reshape(incoming + 1, outgoing)
        yield layer[0], layer[1:]
        at += layer.size


def head(weights: Vector, context: Matrix) -> Vector:
    """weights·[1, ψ1] per row, summed from the first unit to the last.

    >>> head(np.array([1.0, 2.0, -1.0]), np.array([[3.0, 4.0]])).tolist()
    [3.0]
    """
    total = np.full(context.shape[0], weights[0])
    for place in range(context.shape[1]):
        total += weights[place + 1] * context[:, place]
    return total
