"""A budget on top of the limits, for a table in chunks: the passes of `contended` are passes over chunks.

The sample, the count of everybody at two budget prices, the range, whom it settles and the search among the others are
those of `budget`, `rates` and `contended`. Samples go by key, sums are integers, and the others are in the order of
their keys, so that a decision is the same, bit for bit, as that of the whole table in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from disco.allocation.budget import BudgetSolution, among_contended
from disco.allocation.chunk_prices import SolvedTable
from disco.allocation.chunk_rows import ChunkRows, Layout
from disco.allocation.chunk_screen import InRange, Screening, SettlingRule, offered
from disco.allocation.contended import (
    WORTH_IT,
    SettledPart,
    begun_at,
    count_range,
    less_limits,
    narrowed,
    open_share,
)
from disco.allocation.lagrangian import Lagrangian, Outside, Priced, sum_scale, wanted, worth_of_limits
from disco.allocation.limits import Limits, tree_of
from disco.allocation.problem import AllocationProblem
from disco.allocation.rates import Point, RateSample, find_ends, find_near, range_of
from disco.allocation.survey import Survey
from disco.records.arrays import Array, Integers
from disco.records.exact_sums import exact_sum, rounded


@dataclass(frozen=True, slots=True)
class SampleOfMany(AllocationProblem):
    """A problem of which only the sample is here."""

    of_customers: int = 0

    @property
    def customers(self) -> int:
        return self.of_customers


@dataclass(frozen=True, slots=True)
class RangeCounts:
    """What everybody wants at the prices of two points."""

    counts: Integers  # (2, groups, depths)
    spent: tuple[int, int]  # grid units

    def __add__(self, other: "RangeCounts") -> "RangeCounts":
        return RangeCounts(self.counts + other.counts, (self.spent[0] + other.spent[0], self.spent[1] + other.spent[1]))

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + 16


@dataclass(frozen=True, slots=True)
class RangeCounted:
    """The chunk function that counts."""

    layout: Layout
    rates: tuple[float, float]
    prices: tuple[Array, Array]  # (groups, depths) each
    cost_scale: float
    budget: float

    def __call__(self, chunk: pa.Table) -> RangeCounts:
        rows = offered(self.layout.read(chunk), closed=None, budget=self.budget)
        counts = np.zeros((2, *self.prices[0].shape), np.int64)
        assert rows.costs is not None
        segment = rows.group if self.prices[0].shape[0] > 1 else None
        spent = count_range(
            rows.values, rows.eligible, rows.costs, segment, 0, rows.size, self.rates, self.prices, self.cost_scale,
            counts,
        )  # fmt: skip
        return RangeCounts(counts, (int(spent[0]), int(spent[1])))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The chunk function of a bound: Σ_i max(0, max_k value - rate · cost - price), exact."""

    layout: Layout
    prices: Array  # (groups, depths)
    rate: float
    budget: float

    def __call__(self, chunk: pa.Table) -> int:
        rows = offered(self.layout.read(chunk), closed=None, budget=self.budget)
        segment = rows.group if self.prices.shape[0] > 1 else None
        assert rows.costs is not None
        return exact_sum(np.array([wanted(rows.values, rows.eligible, rows.costs, segment, self.prices, self.rate)]))


class ManyCustomers(Lagrangian):
    """The whole table, of which only the sample is here; what is summed over everybody comes from passes.

    fold: one pass with a chunk function whose results are added.
    screened: one pass with a rule.
    """

    def __init__(
        self,
        survey: Survey,
        limits: Limits,
        layout: Layout,
        fold: Callable[..., object],
        screened: Callable[[SettlingRule], Screening],
    ) -> None:
        assert limits.budget is not None
        self.survey, self.layout, self._fold, self._screened = survey, layout, fold, screened
        sample = offered(survey.sample, closed=None, budget=limits.budget)
        assert sample.costs is not None
        largest_cost = survey.largest_cost
        self.problem = SampleOfMany(
            sample.values,
            replace(limits, segment=sample.group) if limits.segment_caps is not None else limits,
            sample.eligible,
            sample.costs,
            sample.keys,
            layout.depths,
            largest_cost,
            of_customers=survey.customers,
        )
        self.engine, self.warm, self.outside, self.filled, self.holds = None, None, None, None, True
        self.costs = sample.costs
        self.grid_top = survey.magnitude
        self.value_scale = sum_scale(survey.magnitude, survey.customers)
        self.cost_scale = sum_scale(largest_cost, survey.customers)
        self.most = limits.budget
        self.budget = self._in_grid_units(largest_cost)
        self.rule: SettlingRule | None = None
        self.open: ChunkRows | None = None  # customers whom the last pass left open
        self.settled_cost = 0  # of the others, exact

    def solve(self) -> tuple[SolvedTable, Priced] | None:
        """An allocation within the budget, and whose prices bound it; None: a range of budget prices settles too few,
        or the budget does not bind."""
        found: BudgetSolution | None = among_contended(self, narrow=self._narrow)
        if found is None or self.rule is None or self.open is None:
            return None
        solved = SolvedTable(
            self.rule, self.open.keys, found.solution.choice, found.bound_from.solution.potentials, self.settled_cost
        )
        return solved, found.bound_from

    def pays(self, choice: Array) -> bool:
        """choice: of those whom the pass left open."""
        assert self.open is not None
        assert self.open.costs is not None
        taken = np.flatnonzero(choice >= 0)
        own = exact_sum(self.open.costs[choice[taken], taken].astype(np.float64))
        return rounded(self.settled_cost + own) <= self.most

    def bound_at(self, priced: Priced) -> float:
        tree = tree_of(self.problem.limits)
        allowed, limits = worth_of_limits(tree, priced.solution.potentials)
        exact = self._fold(Wanted(self.layout, allowed[tree.leaf], priced.rate, self.most), int.__add__)
        assert isinstance(exact, int)
        return (rounded(exact) + limits + priced.rate * self.most) * self.value_scale

    def _narrow(
        self, lagrangian: Lagrangian, *, within: tuple[Point, Point] | None, spread: float
    ) -> tuple[Lagrangian, tuple[Point, Point]] | None:
        """`contended.narrowed`: the first time by passes over chunks, then among those who are here."""
        if lagrangian is not self:
            return narrowed(lagrangian, within=within, spread=spread)
        if self.budget <= 0:
            return None
        sample = RateSample(self, spread=spread)
        if sample.size < 0.5 * self.survey.customers:
            near = find_near(sample, within=within)
            if near is None:
                return None
            within = near[1]
            counted = self._fold(
                RangeCounted(
                    self.layout,
                    (within[0].rate, within[1].rate),
                    (within[0].prices, within[1].prices),
                    self.cost_scale,
                    self.most,
                ),
                RangeCounts.__add__,
            )
            assert isinstance(counted, RangeCounts)
            sample.correct(within, counted.counts, counted.spent)
        ends = find_ends(sample, within=within)
        if ends is None:
            return None
        range_, margin = range_of(ends), 1e-10 * sample.magnitude
        if open_share(sample, range_, margin) > WORTH_IT:
            return None
        rule = InRange(range_, margin, sample.scales, self.most)
        passed = self._screened(rule)
        rows = passed.rows()
        tree = tree_of(self.problem.limits)
        if rows is None or passed.opened > WORTH_IT * self.survey.customers:
            return None
        if (tree.less(passed.counts)[1] < 0).any():
            return None
        self.rule, self.open, self.settled_cost = rule, rows, passed.cost
        return begun_at(self._rest(rows, passed, range_), ends)

    def _rest(self, rows: ChunkRows, passed: Screening, range_: object) -> Lagrangian:
        """The problem of those whom the pass left open, as `contended` makes it."""
        rows = offered(rows, closed=None, budget=self.most)
        limits, numbers = self.problem.limits, np.arange(rows.size)
        if limits.segment_caps is not None:
            limits = replace(limits, segment=rows.group)
        choice = np.full(rows.size, -1, np.int16)
        settled = SettledPart(choice, passed.counts, passed.worth, passed.spent, numbers)
        outside = Outside(self, numbers, choice, passed.worth, passed.spent, (range_,))  # type: ignore[arg-type]
        budget = max((self.budget - passed.spent) / self.cost_scale, 0.0)
        part = AllocationProblem(
            rows.values,
            less_limits(limits, settled, budget),
            rows.eligible,
            rows.costs,
            rows.keys,
            self.problem.depths,
            self.problem.largest_cost,
            least_top=self.grid_top,
        )
        return Lagrangian(part, warm=None, outside=outside)
