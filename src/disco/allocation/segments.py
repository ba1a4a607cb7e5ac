"""The exact solver for segments: Newton on a price per limit, a box of prices per segment, shortest paths on the rest.

As `solver` does it for limits of depths alone. Every limit of the tree has a price y ≥ 0, and a customer of segment g
pays π_gk = y_k + y_gk for depth k. With the density of ties Q_g of each segment (`demand.tie_density`) and B_g, which
takes prices of limits to π_g,

    D(y) = Σ_limits y · cap + Σ_i max(0, max_k v_ik - π_gk)
    dD/dy = cap - customers below,   d²D/dy² = Σ_g B_gᵀ Q_g B_g

Prices and box are a guess that the pass and the paths prove or refute. Floors and tables with many ties are left to
`ties`, which is exact for any values.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from disco.allocation.grid import grid_scale, to_grid
from disco.allocation.limits import UNLIMITED, Tree
from disco.allocation.newton import demand, tie_density, tied, window_of
from disco.allocation.paths import Assignment, Settled, settle_from
from disco.allocation.problem import AllocationProblem
from disco.allocation.screen import PriceBox, Screened, keep_everybody, run_screen
from disco.allocation.table import sample_rows, take
from disco.records.arrays import Array
from disco.records.ports import Engine

# None of these changes a result, only the time it takes
_ALL_AT_ONCE = 12_000  # customers, at most, who are all in the sample
_MOST_NODES = 240  # limits, at most, whose prices are found together: a step of Newton inverts a matrix of this size
_PASSES = 40  # of Newton
_SPREADS = (3.5, 14.0)  # half-widths of the boxes, in standard errors: the second where the first does not hold
_INNER_SPREADS = (3.0, 12.0)  # the same for those whom the first pass left open
_WORTH_A_BOX = 300  # open customers from whom on a second box is smaller work than shortest paths alone
_PATHS_ALONE = 3_000  # open customers up to whom shortest paths are tried where no box holds
_CHUNK = 65_536  # customers per chunk of a pass: with segments it is bound by arithmetic, so two threads halve it


def solve_segments(
    problem: AllocationProblem, tree: Tree, *, rate: float, prices: Array | None, engine: Engine | None = None
) -> Assignment | None:
    """The exact optimum of `solver.solve` where limits of segments are caps; None: values tie, or boxes do not hold.

    prices: (nodes - 1,) potentials of a similar solve, or a price per depth.
    """
    if problem.limits.has_floors or tree.nodes > _MOST_NODES or problem.limits.segment is None:
        return None
    limits = _Caps(tree)
    start = np.zeros(tree.nodes - 1) if prices is None else limits.read(prices)
    if problem.customers <= _ALL_AT_ONCE:
        everybody = keep_everybody(problem, rate)
        found = _settle(problem, limits, everybody, tree.high, start, cold=prices is None)
        return None if found is None else Assignment(found.choice.astype(np.int16), found.potentials, tree)
    cold = prices is None
    for spread in _SPREADS:
        guess = _on_sample(problem, limits, start, rate=rate, spread=spread, cold=cold)
        if guess is None:
            return None
        screened = run_screen(
            problem,
            guess.box,
            rate=rate,
            engine=engine,
            least_margin=guess.margin,
            room_share=min(1.0, 1.5 * guess.open_share + 0.02),
            chunk=_CHUNK,
        )
        if screened.rows.size < screened.opened:
            return None
        _, high = tree.less(screened.counts)
        start, cold = guess.prices, False
        if (high < 0).any():
            continue
        found = _settle(problem, limits, screened, high, start, cold=False)
        if found is None:
            return None
        if guess.box.holds(found.potentials[tree.leaf]):
            screened.choice[screened.rows] = found.choice
            return Assignment(screened.choice, found.potentials, tree)
        start = limits.read(found.potentials[1:])
    return None


def settle_open(
    problem: AllocationProblem, tree: Tree, screened: Screened, high: Array, potentials: Array
) -> Settled | None:
    """Exact places of customers whom a pass left open, from potentials (nodes - 1,); None: values tie too often.

    problem: of these customers alone. high: what the settled ones leave of the caps.
    """
    limits = _Caps(tree)
    return _settle(problem, limits, screened, high, limits.read(potentials), cold=False)


class _Caps:
    """The caps of a tree and how its prices act: price y of each node but the root, π of each (segment, depth)."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.groups, self.columns = tree.leaf.shape
        self.capped = tree.high[1:] < UNLIMITED
        self.nodes = tree.nodes - 1

    def read(self, prices: Array) -> Array:
        """y from potentials (nodes - 1,), or from prices of depths (columns,)."""
        y = np.zeros(self.nodes)
        y[: self.columns] = prices[: self.columns]
        if prices.size == self.nodes:
            y[self.columns :] = prices[self.columns :] - np.tile(y[: self.columns], self.groups)
        return np.where(self.capped, np.maximum(y, 0.0), 0.0)

    def potentials(self, y: Array) -> Array:
        """(nodes - 1,), prices summed up to each node."""
        summed = y.copy()
        summed[self.columns :] += np.tile(y[: self.columns], self.groups)
        return summed

    def of_places(self, y: Array) -> Array:
        """π (groups, depths)."""
        return self.potentials(y)[self.columns :].reshape(self.groups, self.columns)

    def moving(self, free: Array) -> Array:
        """(groups, depths) places whose π moves where these prices (nodes - 1,) are free."""
        places = free[self.columns :].reshape(self.groups, self.columns) | free[: self.columns]
        return np.ascontiguousarray(places)

    def below(self, counts: Array) -> Array:
        """(nodes - 1,) customers below each node, from (groups, depths)."""
        return np.concatenate([counts.sum(axis=0), counts.ravel()])

    def curvature(self, density: Array) -> Array:
        """Σ_g B_gᵀ Q_g B_g, (nodes - 1, nodes - 1), from (groups, depths, depths)."""
        columns = self.columns
        whole = np.zeros((self.nodes, self.nodes))
        whole[:columns, :columns] = density.sum(axis=0)
        for group, own in enumerate(density):
            here = slice(columns * (group + 1), columns * (group + 2))
            whole[here, here] = whole[:columns, here] = whole[here, :columns] = own
        return whole

    def spread_of_places(self, covariance: Array) -> Array:
        """Standard errors of π (groups, depths) from the covariance of y."""
        columns = self.columns
        variance = covariance.diagonal()
        shared = np.concatenate(
            [covariance[:columns, columns * (g + 1) : columns * (g + 2)].diagonal() for g in range(self.groups)]
        )
        total = np.tile(variance[:columns], self.groups) + 2.0 * shared + variance[columns:]
        return np.sqrt(np.maximum(total, 0.0)).reshape(self.groups, columns)


class _Sample:
    """Customers by segment, and where they would go."""

    def __init__(self, parts: list[Array]) -> None:
        self.parts = parts  # (depths, customers) values of each segment, -∞ = ineligible
        self.rows = sum(part.shape[1] for part in parts)
        self.state = [
            (np.empty(part.shape[1]), np.empty(part.shape[1]), np.empty(part.shape[1], np.int64)) for part in parts
        ]
        self.counts = np.zeros((len(parts), parts[0].shape[0]))

    def thinned(self, step: int) -> "_Sample":
        return _Sample([np.ascontiguousarray(part[:, ::step]) for part in self.parts])

    def demand(self, prices: Array) -> float:
        """Fills the counts at prices π, and returns Σ of the customers' best net values."""
        return sum(
            demand(part, own, *state, counts)
            for part, own, state, counts in zip(self.parts, prices, self.state, self.counts, strict=True)
        )

    def density(self, prices: Array, worst: float, moving: Array) -> tuple[Array, float]:
        """(groups, depths, depths) at the prices of the last demand, and the widest window it was seen through.

        moving: (groups, depths) Booleans, the places whose density must be good.
        """
        columns = prices.shape[1]
        density, widest = np.zeros((len(self.parts), columns, columns)), 0.0
        windows = np.empty(columns)
        for group, (part, (first, second, winner)) in enumerate(zip(self.parts, self.state, strict=True)):
            rows = part.shape[1]
            if rows == 0:
                continue
            window = window_of(first, second, min(max(4.0 * worst, 40.0 * columns), 0.5 * rows))
            tie_density(
                part, prices[group], first, second, winner, window, moving[group], False, density[group], windows
            )
            if math.isfinite(window):
                widest = max(widest, window)
        return density, widest


@dataclass(frozen=True, slots=True)
class _Guess:
    """Prices with error bars."""

    prices: Array  # (nodes - 1,) y
    box: PriceBox
    open_share: float  # of the customers whom the box leaves open, about
    left: float  # customers, at most, by whom a limit is missed
    margin: float = 0.0  # by how much a place must win: far above rounding


def _on_sample(
    problem: AllocationProblem, limits: _Caps, start: Array, *, rate: float, spread: float, cold: bool
) -> _Guess | None:
    """A guess from a sample, which grows until the box settles most customers; None: values tie too often."""
    customers, segment = problem.customers, problem.limits.segment
    assert segment is not None
    size = int(min(max(4096, 64 * math.sqrt(customers)), customers // 2))
    while True:
        rows = sample_rows(customers, size, 32 if customers >= 100_000 and spread < 10.0 else 1)
        magnitude, parts = 0.0, []
        for group in range(limits.groups):
            own = rows[segment[rows] == group]
            part = np.empty((problem.columns, own.size))
            magnitude = max(magnitude, take(problem.values, problem.eligible, problem.costs, rate, own, part)[0])
            parts.append(part)
        if not math.isfinite(magnitude) or any(tied(part) for part in parts if part.shape[1] > 256):
            return None
        start = np.minimum(start, magnitude)  # prices from elsewhere may be nonsense
        share = rows.size / customers
        tolerance = 2.0 + 0.15 * math.sqrt(rows.size)
        high = limits.tree.high[1:] * share
        found = _guess(
            _Sample(parts), limits, high, start, tolerance=tolerance, thinning=1.0 - share, spread=spread, cold=cold
        )
        if not math.isfinite(found.open_share) or found.left > 8.0 * tolerance:
            return None
        if found.open_share <= 0.2 or 4 * size > customers // 3:
            return replace(found, margin=1e-10 * magnitude)
        size, start, cold = 4 * size, found.prices, False


def box_of_segments(
    net: Array,
    segment: Array | None,
    tree: Tree,
    high: Array,
    potentials: Array | None,
    *,
    tolerance: float,
    thinning: float,
    spread: float,
) -> tuple[Array, PriceBox] | None:
    """Potentials (nodes - 1,) that a sample finds, and the box around its prices; None: floors, or too many ties.

    net: (depths, customers) values of the sample; segment: (customers,) their segments.
    tree: the limits of everybody; high: (nodes - 1,) the caps of the sample; thinning: as in `newton.guess`.
    potentials: to begin with; None: from nowhere.
    """
    if segment is None or (tree.low > 0).any() or tree.nodes > _MOST_NODES:
        return None
    caps = _Caps(tree)
    sample = _Sample([np.ascontiguousarray(net[:, segment == group]) for group in range(caps.groups)])
    if any(tied(part) for part in sample.parts if part.shape[1] > 256):
        return None
    start = np.zeros(caps.nodes) if potentials is None else caps.read(potentials)
    found = _guess(
        sample,
        caps,
        high,
        start,
        tolerance=tolerance,
        thinning=thinning,
        spread=spread,
        cold=potentials is None,
    )
    if not math.isfinite(found.open_share) or found.left > 8.0 * tolerance:
        return None
    return caps.potentials(found.prices), found.box


def _guess(
    sample: _Sample, limits: _Caps, high: Array, start: Array, *, tolerance: float, thinning: float, spread: float,
    cold: bool,
) -> _Guess:  # fmt: skip
    """Newton from `start`, and the box around where it ends. thinning: as in `newton.guess`."""
    y = start
    if cold:
        for step in (16, 4):  # far away, few customers show the way as well as many
            if sample.rows // step >= 400:
                few = sample.thinned(step)
                y = _descend(few, limits, high * (few.rows / sample.rows), y, 1.0 + 0.005 * few.rows)[0]
    y, left, density = _descend(sample, limits, high, y, tolerance)
    below = limits.below(sample.counts)
    counts = sample.counts.ravel()
    apart = thinning * (np.diag(counts) - np.outer(counts, counts) / max(sample.rows, 1))
    at_nodes = np.vstack([np.tile(np.eye(limits.columns), limits.groups), np.eye(counts.size)])
    off = np.where(y > 0.0, high - below, 0.0)
    noise = at_nodes @ apart @ at_nodes.T + np.diag(off**2 + 1.0)
    curvature = limits.curvature(density)
    near = high - below <= spread * np.sqrt(noise.diagonal())
    free = limits.capped & ((y > 0.0) | near) & (curvature.diagonal() > 0.0)
    covariance = np.zeros_like(curvature)
    if free.any():
        inverse = np.linalg.pinv(curvature[np.ix_(free, free)], rcond=1e-9, hermitian=True)
        covariance[np.ix_(free, free)] = inverse @ noise[np.ix_(free, free)] @ inverse
    width = spread * limits.spread_of_places(covariance)
    none = np.maximum(density.sum(axis=2), 0.0)
    between = -density * (1.0 - np.eye(limits.columns))
    opened = 2.0 * float((none * width).sum() + (between.sum(axis=2) * width).sum())
    box = PriceBox(limits.of_places(y), width, 0.0)
    return _Guess(y, box, opened / max(sample.rows, 1), left)


def _descend(sample: _Sample, limits: _Caps, high: Array, y: Array, tolerance: float) -> tuple[Array, float, Array]:
    """Damped Newton on y ≥ 0: the prices, by how many customers a limit is missed, and the density of ties there."""
    capped = np.where(limits.capped, high, 0.0)

    def at(y: Array) -> tuple[float, Array, Array, float]:
        value = sample.demand(limits.of_places(y)) + float(y @ capped)
        over = limits.below(sample.counts) - high
        free = limits.capped & ((y > 0.0) | (over > 0.0))
        return value, over, free, float(np.abs(over[free]).max(initial=0.0))

    value, over, free, worst = at(y)
    used, every = 1, np.ones((limits.groups, limits.columns), np.bool_)
    while True:
        ended = worst <= tolerance or used >= _PASSES
        moving = every if ended else limits.moving(free)
        density, window = sample.density(limits.of_places(y), worst, moving)
        if ended or window <= 0.0:
            return y, worst, density
        sizes, ways = np.linalg.eigh(limits.curvature(density)[np.ix_(free, free)])
        if not sizes[-1] > 0.0:
            return y, worst, density
        step = np.zeros(y.size)
        # the prices of a depth and of all its segments may stand for each other: a way without curvature, so bounded
        step[free] = ways @ ((ways.T @ over[free]) / np.maximum(sizes, 1e-5 * sizes[-1]))
        np.clip(step, -4.0 * window, 4.0 * window, out=step)
        scale = 1.0
        for _ in range(5):
            trial = np.maximum(y + scale * step, 0.0)
            found = at(trial)
            used += 1
            if found[0] < value or found[3] < worst:
                break
            scale *= 0.3
        else:
            at(y)
            return y, worst, sample.density(limits.of_places(y), worst, every)[0]
        y, (value, over, free, worst) = trial, found


def _settle(
    problem: AllocationProblem, limits: _Caps, screened: Screened, high: Array, y: Array, *, cold: bool
) -> Settled | None:
    """Exact places of the open customers: a smaller box first, shortest paths on what it leaves; None: many ties."""
    tree, kept, rows = limits.tree, screened.kept, screened.rows
    assert problem.limits.segment is not None
    group, low = problem.limits.segment[rows], np.zeros(tree.nodes, np.int64)
    scale, opened = grid_scale(screened.largest, nodes=tree.nodes), rows.size
    y = np.minimum(y, max(screened.largest, 0.0))
    if opened > _WORTH_A_BOX:
        sample = _Sample([np.ascontiguousarray(kept[:, group == own]) for own in range(limits.groups)])
        if any(tied(part) for part in sample.parts if part.shape[1] > 256):
            return None
        inner_problem = AllocationProblem(kept, replace(problem.limits, segment=group))
        tolerance, left = 2.0 + 0.03 * math.sqrt(opened), high[1:].astype(float)
        for spread in _INNER_SPREADS:
            guess = _guess(sample, limits, left, y, tolerance=tolerance, thinning=0.0, spread=spread, cold=cold)
            y, cold = guess.prices, False
            inner = run_screen(inner_problem, guess.box, least_margin=screened.margin, checked=True)
            if inner.opened > 0.5 * opened:
                break
            _, high_left = tree.less(inner.counts, low, high)
            if (high_left < 0).any():
                continue
            found = _paths(problem, inner.kept, rows[inner.rows], group[inner.rows], limits, high_left, scale, y)
            if found is None:
                return None
            if guess.box.holds(found.potentials[tree.leaf]):
                inner.choice[inner.rows] = found.choice
                return replace(found, choice=inner.choice)
            y = limits.read(found.potentials[1:])
        if opened > _PATHS_ALONE:
            return None
    return _paths(problem, kept, rows, group, limits, high, scale, y)


def _paths(
    problem: AllocationProblem, kept: Array, rows: Array, group: Array, limits: _Caps, high: Array, scale: float,
    y: Array,
) -> Settled | None:  # fmt: skip
    worth = np.empty(kept.shape[::-1], np.int64)
    to_grid(kept, scale, False, worth)
    low = np.zeros(limits.tree.nodes, np.int64)
    return settle_from(worth, problem.keys_of(rows), group, limits.tree, low, high, scale, limits.potentials(y))
