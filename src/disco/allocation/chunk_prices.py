"""Prices of a table in chunks, exactly: a box from the sample, one pass, shortest paths on whom it leaves open.

The steps are those of `solver`, `segments` and `ties`, with passes over chunks in place of passes over a matrix. Where
the final prices lie in the box, everybody the pass settled is right and the whole is optimal. If not, the box is drawn
wider around the prices found; then the route of `ties` is taken; and where that does not hold either, the caller has to
look at everybody.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from disco.allocation import segments, solver, ties
from disco.allocation.chunk_screen import InBox, OnGrid, Screening, SettlingRule, offered
from disco.allocation.grid import grid_scale, to_grid
from disco.allocation.limits import Limits, Tree
from disco.allocation.newton import guess, tied
from disco.allocation.paths import Assignment, Settled, settle_from
from disco.allocation.problem import AllocationProblem
from disco.allocation.screen import Apart, PriceBox, Screened
from disco.allocation.solver import apart_of_guess, box_of_guess
from disco.allocation.table import ChunkRows, Survey, take
from disco.records.arrays import Array, Keys

# None of these changes a result, only the time it takes
_SPREADS = (3.5, 14.0)  # half-widths of the boxes, in standard errors: the second where the first does not hold
_TIE_SPREADS = (3.0, 12.0)
_TIES_SAMPLED = 16_384  # customers, at most, whose exact places show the prices where values tie
_OPEN = 0.5  # a box that leaves a larger share of the sample open is not worth a pass


@dataclass(frozen=True, slots=True)
class SolvedTable:
    """Everybody's place: by a rule, and for those it leaves open by a choice. And the prices that prove it."""

    rule: SettlingRule
    keys: Keys  # of the open customers
    choice: Array  # theirs
    potentials: Array  # (nodes,)
    cost: int = 0  # Σ costs of the settled, exact
    rows: ChunkRows | None = None  # the open customers

    def assignment(self, tree: Tree) -> Assignment:
        return Assignment(self.choice, self.potentials, tree)


@dataclass(frozen=True, slots=True)
class _Guess:
    potentials: Array  # (nodes - 1,)
    box: PriceBox
    apart: Apart | None = None  # without segments


class ChunkPrices:
    """The problem without a budget price, on the sample and by passes.

    screened: one pass with a rule.
    closed: (groups, depths) places that nobody may get.
    """

    def __init__(
        self,
        survey: Survey,
        limits: Limits,
        tree: Tree,
        screened: Callable[[SettlingRule], Screening],
        *,
        closed: Array | None,
    ) -> None:
        self.survey, self.limits, self.tree, self.screened, self.closed = survey, limits, tree, screened, closed
        self.groups, self.columns = tree.leaf.shape
        self.top = survey.magnitude if limits.has_floors else survey.largest  # sets the grid
        self.scale = grid_scale(self.top, nodes=tree.nodes)
        self.sample = offered(survey.sample, closed=closed, budget=limits.budget)
        self.net = np.empty(self.sample.values.shape)
        take(self.sample.values, self.sample.eligible, None, 0.0, np.arange(self.sample.size), self.net)

    def solve(self) -> SolvedTable | None:
        """None: neither boxes nor the route of ties settle this table."""
        return self._by_boxes() or self._by_ties()

    def _by_boxes(self) -> SolvedTable | None:
        prices: Array | None = None
        for spread in _SPREADS:
            guessed = self._guess(prices, spread)
            if guessed is None:
                return None
            box = guessed.box
            reach = float(np.abs(box.centre - box.width).max() + box.none_width)
            margin = max(1e-10 * self.survey.magnitude, 1e-12 * reach)
            rule = InBox(box, margin, guessed.apart, self.closed, self.limits.budget)
            if rule.settle(self.sample).opened.size > _OPEN * self.sample.size:
                return None
            passed = self.screened(rule)
            low, high = self.tree.less(passed.counts)
            rows = passed.rows()
            if rows is None:
                return None
            prices = guessed.potentials
            if (high < 0).any():
                continue
            found = self._among(rows, low, high, guessed, margin)
            if found is None:
                return None
            choice, potentials = found
            if rule.holds(potentials[self.tree.leaf]):
                return SolvedTable(rule, rows.keys, choice, potentials, passed.cost, rows)
            prices = potentials[1:]
        return None

    def _guess(self, prices: Array | None, spread: float) -> _Guess | None:
        """Prices and a box from the sample; None: values tie too often for Newton."""
        share = self.sample.size / self.survey.customers
        tolerance = 2.0 + 0.15 * math.sqrt(self.sample.size)
        low, high = np.maximum(self.tree.low[1:], 0) * share, self.tree.high[1:] * share
        if self.groups > 1:
            boxed = segments.box_of_segments(
                self.net, self.sample.group, self.tree, high, prices,
                tolerance=tolerance, thinning=1.0 - share, spread=spread,
            )  # fmt: skip
            return None if boxed is None else _Guess(*boxed)
        width, lowest, error = np.empty(self.columns), np.empty(self.columns), np.empty((self.columns, self.columns))
        centre = np.zeros(self.columns) if prices is None else np.clip(prices, -self.top, self.top)
        cold = prices is None
        for lost in (False, True):
            shift, left, opened = guess(
                self.net, low, high, centre, cold, 40, tolerance, 1.0 - share, spread, width, lowest, error
            )
            if math.isfinite(opened) and left <= 8.0 * tolerance:
                box = box_of_guess(centre, width, lowest, shift, self.survey.magnitude)
                return _Guess(centre, box, apart_of_guess(centre, width, lowest, shift, error, spread))
            if lost or tied(self.net):
                return None
            centre, cold = solver.sample_prices(self.net, low, high), False
        return None

    def _among(
        self, rows: ChunkRows, low: Array, high: Array, guessed: _Guess, margin: float
    ) -> tuple[Array, Array] | None:
        """Exact places of the open customers and the potentials; None: their values tie too often."""
        rows = offered(rows, closed=self.closed, budget=self.limits.budget)
        kept, opened = np.empty(rows.values.shape), rows.size
        take(rows.values, rows.eligible, None, 0.0, np.arange(opened), kept)
        numbers = np.arange(opened)
        counts = np.zeros((self.groups, self.columns), np.int64)
        everybody = Screened(np.zeros(opened, np.int16), counts, numbers, kept, opened, self.top, margin)
        limits = replace(self.limits, segment=rows.group) if self.groups > 1 else self.limits
        part = AllocationProblem(kept, limits, keys=rows.keys)
        if self.groups > 1:
            found = segments.settle_open(part, self.tree, everybody, high, guessed.potentials)
            return None if found is None else (found.choice, found.potentials)
        placed = solver.place_open(part, self.tree, everybody, low, high, guessed.potentials)
        return None if placed is None else (placed.choice, placed.potentials)

    def _by_ties(self) -> SolvedTable | None:
        """Where the same values come again and again: exact prices of a sample, and a width for hashes alone."""
        size = 1024
        start: Settled | None = None
        while size <= min(_TIES_SAMPLED, self.sample.size, self.survey.customers // 8):
            start = self._exact_sample(size, start)
            size *= 4
        if start is None:
            return None
        sampled = np.zeros(self.tree.leaf.size + 1)
        np.add.at(sampled, start.places + 1, 1.0)
        prices, hashes = start.values[self.tree.leaf], start.hashes[self.tree.leaf]
        for spread in _TIE_SPREADS:
            hash_width = ties.hash_widths(sampled[1:].reshape(self.tree.leaf.shape), spread)
            box = ties.GridBox(prices, hashes, np.zeros_like(prices), hash_width)
            rule = OnGrid(box, self.scale, self.limits.has_floors, self.closed, self.limits.budget)
            if rule.settle(self.sample).opened.size > _OPEN * self.sample.size:
                return None
            passed = self.screened(rule)
            rows = passed.rows()
            low, high = self.tree.less(passed.counts)
            if rows is None or (high < 0).any():
                continue
            group = rows.group if self.groups > 1 else None
            found = settle_from(self._worth(rows), rows.keys, group, self.tree, low, high, self.scale, None, start)
            if found is None:
                continue
            near = np.abs(found.hashes[self.tree.leaf] - hashes) <= hash_width
            if (near & (found.values[self.tree.leaf] == prices)).all():
                return SolvedTable(rule, rows.keys, found.choice, found.potentials, passed.cost, rows)
        return None

    def _exact_sample(self, size: int, start: Settled | None) -> Settled | None:
        few = self.sample.take(np.arange(size))
        low, high = self.tree.scaled(size / self.survey.customers)
        group = few.group if self.groups > 1 else None
        return settle_from(self._worth(few), few.keys, group, self.tree, low, high, self.scale, None, start) or start

    def _worth(self, rows: ChunkRows) -> Array:
        """(customers, depths) grid integers."""
        rows = offered(rows, closed=self.closed, budget=self.limits.budget)
        net, worth = np.empty(rows.values.shape), np.empty(rows.values.shape[::-1], np.int64)
        take(rows.values, rows.eligible, None, 0.0, np.arange(rows.size), net)
        to_grid(net, self.scale, self.limits.has_floors, worth)
        return worth
