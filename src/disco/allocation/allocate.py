"""`allocate` and `allocate_table`: values and limits in, one depth or none per customer out; and what is made of it.

In memory (`allocate`, `allocate_offer`, `frontier`): the arguments are read (`problem`), solved (`solve`, or `budget`
where there is one) and checked (`certificate`). `frontier` goes over a grid of revenue weights or budgets; neighbours
begin at each other's prices, which saves time. `decide_late` is for customers who arrive after the solve.

In chunks (`allocate_table`), with the same decisions, however the table is divided. 1. One pass checks the table, and
brings a sample. 2. Prices from the sample; a pass settles almost everybody (with a budget, a pass that counts goes
before it) and brings the others, who are solved exactly here. 3. A pass checks the result. 4. Decisions are written by
a pass that settles everybody again, so that nobody's choice need be remembered. No pass changes anything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from disco.allocation import table as tables
from disco.allocation.budget import BudgetSolution, solve_budget, solve_budget_in_chunks
from disco.allocation.certificate import Audit, Impossible, allowed_prices, audit, certify, state
from disco.allocation.conflicts import conflicts_of, infeasible
from disco.allocation.grid import tie_hash
from disco.allocation.limits import CountsLike, Limits, SegmentLimits, Segments, read_limits, tree_of
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, Rows, agreed_ids, allowed_budget, read_problem
from disco.allocation.result import PROVED, Allocation, Status, relative_gap
from disco.allocation.rules import Nobody
from disco.allocation.solve import Closed, first_codes, solve, solve_table
from disco.allocation.table import ID, Layout, Reading, SettlingRule, Survey, TableInChunks
from disco.records.arguments import column_labels
from disco.records.arrays import Array, Floats, Keys, Vector
from disco.records.decisions import Audience, Offer
from disco.records.errors import CertificateError, InputError, UsageError
from disco.records.exact_sums import rounded
from disco.records.frames import without_ids
from disco.records.identity import customer_keys
from disco.records.ports import ChunkedTable, Engine

Result = TypeVar("Result")


def allocate(
    values: ArrayLike,
    caps: CountsLike | None = None,
    *,
    depths: Iterable[float | str] | None = None,
    costs: ArrayLike | None = None,
    budget: float | None = None,
    floors: CountsLike | None = None,
    segments: Segments | None = None,
    eligible: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    warm_prices: ArrayLike | None = None,
    engine: Engine | None = None,
) -> Allocation:
    """Give each customer one depth or none, so that the total value is as high as the limits allow.

        max Σ_i values[i, choice[i]]   with   floors[k] ≤ customers at k ≤ caps[k],   Σ_i costs[i, choice[i]] ≤ budget

    The result is exact and comes with its proof (`Allocation.bound`, `prices`). Without a budget, among allocations of
    equal value the one with the largest sum of hash(customer id, depth) is taken. With a budget, ties within the gap
    are broken by ids as well, but not always by that sum. Either way the order of rows changes nobody's depth.

    values: (customers, depths) what a customer is worth at a depth, float64 or float32, finite; a loss is negative. A
        table whose columns are named by depths names the depths; its column customer_id, or a pandas index of that
        name, are the ids. Column-major memory (order="F") is read as it is, other layouts are copied once.
    caps: most customers per depth: one number for all, one per column (None: no cap), {depth: number}, or a pandas
        Series; a depth that a mapping leaves out has no cap. A number is whole, or a share of the customers such as
        "40%", which is rounded down.
    depths: (depths,) names of the columns, such as [0.1, 0.2]; needed for limits by depth.
    costs: (customers, depths) what the budget pays, 0 or more.
    budget: most money that the chosen cells may cost together; needs `costs`.
    floors: least customers per depth, in the form of `caps`.
    segments: caps and floors for parts of the customers.
    eligible: (customers, depths) Booleans; False: this customer may not get this depth.
    ids: (customers,) whole numbers or text, each once, which break ties; without them the row numbers do.
    warm_prices: (depths,) prices of an earlier, similar solve. They save time and change nobody's depth. Where floors
        bind, several prices prove the same allocation, and which of them is returned may depend on these.
    engine: what the customers are spread over. None is this thread; `disco.allocate` uses this machine's processors.

    >>> result = allocate([[3.0, 5.0], [2.0, 9.0], [4.0, 4.5]], [2, 1])
    >>> result.choice.tolist(), result.value, result.status.name
    ([0, 1, 0], 16.0, 'OPTIMAL')
    """
    problem = read_problem(
        values,
        caps,
        depths=depths,
        costs=costs,
        budget=budget,
        floors=floors,
        segments=segments,
        eligible=eligible,
        ids=ids,
    )
    found = solve_problem(problem, warm=_read_warm(warm_prices, columns=problem.columns), engine=engine)
    return replace(found, ids=problem.ids)


def solve_problem(
    problem: AllocationProblem, *, warm: Vector | None = None, engine: Engine | None = None
) -> Allocation:
    """The allocation of a problem that was read, checked by its certificate."""
    start = time.perf_counter()
    if problem.limits.contradict:
        return infeasible(problem, conflicts_of(problem), start)
    if problem.limits.budget is not None:
        filled = solve_budget(problem, warm=warm, engine=engine)
        if filled is None:
            return infeasible(problem, conflicts_of(problem), start)
        return certified_budget(problem, filled, seconds=time.perf_counter() - start, engine=engine)
    found = solve(problem, warm=warm, engine=engine)
    if not found.feasible:
        return infeasible(problem, conflicts_of(problem), start)
    return certified(problem, found, seconds=time.perf_counter() - start, engine=engine)


def certified_budget(
    problem: AllocationProblem, filled: BudgetSolution, *, seconds: float, engine: Engine | None = None
) -> Allocation:
    """The filled budget with the bound of its Lagrangian prices, or with that of the search."""
    priced = filled.bound_from
    prices = replace(priced.solution, choice=filled.solution.choice)
    allocation = certified(problem, prices, seconds=seconds, budget_price=priced.rate, engine=engine)
    return with_known_bound(allocation, allocation.value if filled.exact else filled.bound)


def with_known_bound(allocation: Allocation, bound: float) -> Allocation:
    """With the bound of a search, where that knows better than the prices: the certificate cannot check it."""
    if not bound < allocation.bound:
        return allocation
    bound = max(bound, allocation.value)
    gap = relative_gap(allocation.value, bound)
    return replace(allocation, bound=bound, gap=gap, status=Status.OPTIMAL if gap <= PROVED else allocation.status)


def certified(
    problem: AllocationProblem,
    found: Assignment,
    *,
    seconds: float,
    budget_price: float | None = None,
    engine: Engine | None = None,
) -> Allocation:
    """A solution with its proof."""
    return certify(
        problem,
        found.choice,
        found.prices,
        segment_prices=found.segment_prices,
        budget_price=budget_price,
        seconds=seconds,
        engine=engine,
    )


def _read_warm(prices: ArrayLike | None, *, columns: int) -> Vector | None:
    """One price per column: of an earlier solve, or a guess."""
    if prices is None:
        return None
    found = repr(prices)
    with suppress(TypeError, ValueError):  # text, or rows of several lengths
        given = np.asarray(prices, np.float64)
        if given.shape == (columns,) and np.isfinite(given).all():
            return given
        found = f"{given.tolist()}"
    raise InputError("warm_prices", found=found, expected=f"{columns} finite prices, one per column")


def allocate_offer(
    values: Floats,
    audience: Audience,
    offer: Offer,
    *,
    costs: Floats | None,
    where: str,
    warm_prices: Vector | None = None,
    engine: Engine | None = None,
) -> Allocation:
    """`allocate` within the limits of an offer; an InfeasibleError about `where`, if they contradict each other.

    values, costs: (customers, depths of the offer); costs only where it has a budget. A value of −∞: not eligible.
    warm_prices: (depths,) prices of an earlier, similar solve.
    """
    eligible = None if audience.markdown_left is None else values > -np.inf
    if eligible is not None:
        values = np.asfortranarray(np.where(eligible, values, 0.0))
    allocation = allocate(
        values,
        offer.caps,
        depths=offer.depths,
        floors=offer.floors,
        costs=costs,
        budget=offer.budget,
        segments=Segments.of(audience, offer),
        eligible=eligible,
        ids=audience.ids,
        warm_prices=warm_prices,
        engine=engine,
    )
    allocation.require_feasible(where=where)
    return allocation


def decide_late(
    values: ArrayLike,
    prices: ArrayLike,
    remaining: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    budget_price: float = 0.0,
    remaining_budget: float | None = None,
    eligible: ArrayLike | None = None,
    customer_id: int | str = 0,
) -> int:
    """The column one customer who arrives after the solve gets, at the solve's prices; -1 for none.

    It is the argmax of value - price - budget_price · cost, where that is positive. A customer of the solve would be
    given what the solve gave, unless they tied.

    values: (depths,) what this customer is worth at each depth.
    prices: (depths,) `Allocation.prices`; with segments, plus those of the customer's segment.
    remaining: (depths,) codes left.
    costs: (depths,) what the budget pays.
    budget_price: `Allocation.budget_price`.
    remaining_budget: money left; None: no budget.
    eligible: (depths,) Booleans.
    customer_id: breaks ties between depths.

    >>> decide_late([5.0, 9.0], [1.0, 6.0], [10, 0]), decide_late([5.0, 9.0], [1.0, 6.0], [0, 0])
    (0, -1)
    """
    value, price = np.asarray(values, np.float64), np.asarray(prices, np.float64)
    left = np.asarray(remaining)
    if value.ndim != 1 or price.shape != value.shape or left.shape != value.shape:
        raise InputError(
            "late arrival",
            found=f"{value.shape} values, {price.shape} prices, {left.shape} remaining caps",
            expected="one of each per depth",
        )
    net = value - price
    open_to = left > 0
    if costs is not None:
        cost = np.asarray(costs, np.float64)
        net = net - budget_price * cost
        if remaining_budget is not None:
            open_to = open_to & (cost <= remaining_budget)
    if eligible is not None:
        open_to = open_to & np.asarray(eligible, np.bool_)
    if not np.isfinite(net).all():
        raise InputError("late arrival", found=value.tolist(), expected="finite values, prices and costs")
    best = max(net[open_to], default=0.0)
    if best <= 0.0:
        return -1
    tied = np.flatnonzero(open_to & (net == best))
    key = customer_keys([customer_id])[0]
    return max(tied.tolist(), key=lambda column: tie_hash(key, column))


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One point of the frontier."""

    revenue_weight: float
    budget: float | None  # money; None: no budget
    revenue: float  # money, of its allocation
    markdown: float  # money, of its allocation
    value: float  # revenue_weight · revenue - markdown
    allocation: Allocation


def frontier(
    revenue: ArrayLike,
    markdown: ArrayLike,
    caps: CountsLike | None = None,
    *,
    revenue_weights: Sequence[float] = (1.0,),
    budgets: Iterable[float | None] | None = None,
    depths: Iterable[float | str] | None = None,
    floors: CountsLike | None = None,
    segments: Segments | None = None,
    eligible: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    engine: Engine | None = None,
) -> tuple[FrontierPoint, ...]:
    """Exact allocations of value = weight · revenue - markdown over a grid, each started from its neighbour's prices.

    Points without a feasible allocation carry its conflicts and no money.

    revenue, markdown: (customers, depths) expected money per cell.
    caps, depths, floors, segments, eligible, ids: as in `allocate`.
    revenue_weights: what a unit of revenue is worth in units of markdown; several of them, or one and several budgets.
    budgets: on markdown, in money; None among them is no budget.
    engine: what the customers are spread over. None is this thread; `disco.frontier` uses this machine's processors.

    >>> points = frontier([[8.0, 9.0]], [[1.0, 3.0]], [1, 1], revenue_weights=[1.0, 3.0])
    >>> [(point.revenue, point.markdown) for point in points]
    [(8.0, 1.0), (9.0, 3.0)]
    """
    weights = list(revenue_weights)
    limits = [None] if budgets is None else list(budgets)
    if len(weights) > 1 and len(limits) > 1:
        raise UsageError("frontier", found="several weights and several budgets", expected="a grid of one of them")
    (revenue, own_ids), (markdown, other_ids) = without_ids(revenue), without_ids(markdown)
    ids = agreed_ids(agreed_ids(ids, own_ids, where="revenue"), other_ids, where="markdown")
    gained, given = np.asarray(revenue), np.asarray(markdown)
    labels, others = column_labels(revenue), column_labels(markdown)
    if labels is not None and others is not None and labels != others:
        raise InputError("columns of markdown", found=others, expected=f"those of revenue: {labels}")
    named = labels if depths is None else list(depths)
    points: list[FrontierPoint] = []
    warm = None
    for weight in weights:
        values = np.asfortranarray(weight * gained - given)
        for budget in limits:
            found = allocate(
                values, caps, depths=named, costs=given, budget=budget, floors=floors, segments=segments,
                eligible=eligible, ids=ids, warm_prices=warm, engine=engine,
            )  # fmt: skip
            if found.status is not Status.INFEASIBLE:
                warm = found.prices
            taken = np.flatnonzero(found.choice >= 0)
            columns = found.choice[taken]
            points.append(
                FrontierPoint(
                    float(weight),
                    budget,
                    float(gained[taken, columns].sum(dtype=np.float64)),
                    float(given[taken, columns].sum(dtype=np.float64)),
                    found.value,
                    found,
                )
            )
    return tuple(points)


# Bytes of open customers who are brought here, at most.
MOST_BYTES = 1 << 31


@dataclass(frozen=True, slots=True)
class TableAllocation:
    """The allocation of a table in chunks."""

    proof: Allocation
    """Value, bound, prices and counts of everybody; its `choice` is empty, see `decisions`."""
    customers: int
    """How many the table has."""
    passes: int
    """Over the whole table, without that which writes the decisions."""
    collected_bytes: int
    """What the passes brought to this process."""
    decisions: ChunkedTable | None
    """customer_id, depth (null: no code) and value, computed when it is asked for; None: limits contradict."""

    @property
    def status(self) -> Status:
        """How the solve ended."""
        return self.proof.status


def allocate_table(
    table: ChunkedTable,
    caps: CountsLike | None,
    *,
    budget: float | None = None,
    floors: CountsLike | None = None,
    segments: Mapping[str, SegmentLimits] | None = None,
    most_bytes: int = MOST_BYTES,
) -> TableAllocation:
    """`allocate` for a table that an engine holds in chunks: the same decisions, however it is divided.

    table: columns customer_id, one of values per depth, named by it (null: not eligible), and with a budget one of
        costs per depth, named cost_ and the depth.
    caps, floors: {depth: number}, or one number per column.
    budget: most money that the chosen cells may cost together.
    segments: {column: {label: {"caps": …, "floors": …}}}, one column.
    most_bytes: of customers who are brought here to be solved together; InputError where they would be more.
    """
    return _Run(table, caps, budget, floors, segments, most_bytes).allocation()


def _both(one: Callable[[pa.Table], Any], other: Callable[[pa.Table], Any], chunk: pa.Table) -> tuple[Any, Any]:
    """Two chunk functions in one pass."""
    return one(chunk), other(chunk)


def _both_added(
    add: Callable[[Any, Any], Any], add_other: Callable[[Any, Any], Any], mine: tuple[Any, Any], others: tuple[Any, Any]
) -> tuple[Any, Any]:
    return add(mine[0], others[0]), add_other(mine[1], others[1])


@dataclass(frozen=True, slots=True)
class _Choices:
    """Everybody's choice: by the rule of a pass, or for those it leaves open by a table of their keys."""

    reading: Reading
    rule: SettlingRule
    keys: Keys  # ascending, of those whom the rule leaves open
    choice: Array  # int16, theirs

    def choose(self, rows: Rows) -> Array:
        """(customers,) column, -1 = none; rows: as they are in the table."""
        settled = self.rule.settle(self.reading.offered(rows), slice(0, rows.size), rows.size)
        at = np.searchsorted(self.keys, rows.keys[settled.rows])
        settled.choice[settled.rows] = self.choice[at] if self.keys.size else 0
        return settled.choice

    def __call__(self, chunk: pa.Table) -> pa.Table:
        """The chunk function that writes: customer_id, depth (null: none) and value."""
        layout = self.reading.layout
        rows = layout.read(chunk)
        choice = self.choose(rows)
        none, column = choice < 0, np.maximum(choice, 0)
        value = np.where(none, rows.values.dtype.type(0), rows.values[column, np.arange(rows.size)])
        depth = pa.array(np.asarray(layout.depths)[column], mask=none)
        value = pa.array(value).cast(layout.value_type)  # exact: it was of that type in the table
        return pa.table([chunk[ID], depth, value], schema=self.schema)

    @property
    def schema(self) -> pa.Schema:
        layout = self.reading.layout
        names = (ID, layout.id_type), ("depth", pa.float64()), ("value", layout.value_type)
        return pa.schema([pa.field(name, kind) for name, kind in names])


def _choices(rule: SettlingRule, opened: Rows | None, choice: Array, reading: Reading) -> _Choices:
    """opened: whom the rule leaves open, by key; choice: theirs. InputError where two ids cannot be told apart."""
    assert opened is not None
    if (opened.keys[1:] == opened.keys[:-1]).any():
        raise InputError(
            "customer_id",
            found="two customers whose ids have the same 64-bit hash",
            expected="ids that differ in it",
            fix="Write one of the two ids in another way.",
        )
    return _Choices(reading, rule, opened.keys, choice.astype(np.int16))


def _first_codes_of(choices: _Choices, prices: Array, places: Array, scale: float, chunk: pa.Table) -> Array:
    """What the first code of each closed place would bring, in grid integers: that is its price."""
    rows = choices.reading.layout.read(chunk)
    return first_codes(rows, choices.choose(rows), prices, places, scale)


def _audited(choices: _Choices, prices: Array, budget_price: float, budget: float, chunk: pa.Table) -> Audit:
    """The independent check; prices: (groups, depths), budget: ∞ where there is none."""
    rows = choices.reading.layout.read(chunk)
    choice = choices.choose(rows)
    cells, everybody = rows.cells(segments=prices.shape[0] > 1), slice(0, rows.size)
    part = audit(cells, choice, prices, budget_price=budget_price, budget=budget, part=everybody)
    if isinstance(part, Impossible):
        raise CertificateError(
            f"choice of customer {chunk[ID][part.row].as_py()}",
            found=int(choice[part.row]),
            expected="an eligible column, or -1",
        )
    return part


@dataclass(frozen=True, slots=True)
class _Solved:
    """Everybody's place and the prices that prove it."""

    choices: _Choices
    found: Assignment  # of those whom the last pass left open
    rate: float | None  # the budget price; None: there is no budget
    bound: float = math.inf  # what no allocation exceeds, where a search knows better than the prices
    segment_prices: Array | None = None  # where they are known apart from the potentials


@dataclass(slots=True)
class _Run:
    """One allocation: its passes are counted, and ids that may be there twice are looked up by the next of them."""

    table: ChunkedTable
    caps: CountsLike | None
    budget: float | None
    floors: CountsLike | None
    segments: Mapping[str, SegmentLimits] | None
    most_bytes: int
    layout: Layout = field(init=False)
    own: SegmentLimits = field(init=False)  # the limits of the segments; empty: they have none
    passes: int = 0
    collected: int = 0  # bytes
    customers: int = 0
    suspects: Array | None = None  # hashes of ids to look up
    start: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        column, own = _only(self.segments)
        self.own = own or {}
        self.layout = Layout.of(self.table.schema, budget=self.budget is not None, segment=column, limits=own)
        self._limits(labels=list(self.own))  # what cannot be read is refused before any pass

    def _limits(self, *, labels: list[Any], customers: int = 0) -> Limits:
        """labels: of the segments that some customer is in. customers: whom shares are of, once they are counted."""
        segments = Segments(np.array(labels, object), self.own) if self.own else None
        depths = self.layout.depths
        return read_limits(
            self.caps, floors=self.floors, segments=segments, budget=self.budget, customers=len(labels),
            columns=len(depths), depths=depths, shares_of=customers,
        )  # fmt: skip

    def allocation(self) -> TableAllocation:
        survey = self._survey()
        there = survey.in_group.tolist()
        labels = [label for row, label in enumerate(sorted(self.own, key=str)) if there[row]]
        labels += ["(other)"] if self.own and there[-1] else []
        limits = self._limits(labels=labels, customers=survey.customers)
        limits = replace(limits, segment=None)
        if survey.whole:
            return self._solved_here(survey.sample, limits)
        # limits that contradict each other are explained where everybody is at hand
        solved = None if limits.contradict else self._solve(survey, limits)
        if solved is not None:
            return self._checked(solved, limits)
        everybody = self._table(survey, limits).screen(Nobody(limits.groups)).at_hand
        if everybody is None:
            size = survey.sample.nbytes / max(survey.sample.size, 1) * survey.customers
            raise InputError(
                "allocation of a table in chunks",
                found=f"values that leave all {survey.customers:,} customers open ({size / 2**30:.1f} GB)",
                expected=f"at most {self.most_bytes / 2**30:.1f} GB to be solved together",
                fix="Raise `most_bytes`, where this process has the memory.",
            )
        return self._solved_here(everybody, limits)

    def _survey(self) -> Survey:
        """The first pass, and which ids have to be looked up."""
        rows = self.table.expected_rows
        for _ in range(3):  # where files say it wrongly, once more with the number that was counted, or with everybody
            below = tables.below_which(rows)
            chunks = partial(tables.survey, self.layout, self.budget, tables.SAMPLED, below)
            found = self._fold(chunks, Survey.__add__)
            if found.complete:
                break
            rows = found.customers if rows is not None and rows > found.customers else None
        survey = found.in_order()
        if not survey.customers:
            raise InputError("values", found="an empty table", expected="at least one customer")
        self.customers = survey.customers
        if not survey.whole:
            self.suspects = tables.suspects(survey.hashes, self._fold)
        elif (survey.sample.keys[1:] == survey.sample.keys[:-1]).any():
            self.suspects = survey.hashes.twice()
            self._fold(_nothing, int.__add__)
        return replace(survey, hashes=tables.IdHashes(0, 0, (), 0))

    def _fold(self, function: Callable[[pa.Table], Result], add: Callable[[Result, Result], Result]) -> Result:
        """One pass; ids that may be there twice are looked up on the way."""
        self.passes += 1
        if self.suspects is None or not self.suspects.size:
            found = self.table.fold(function, add)
        else:
            both = partial(_both, function, partial(tables.suspected, self.suspects))
            found, ids = self.table.fold(both, partial(_both_added, add, tables.side_by_side))
            tables.refuse_duplicates(ids)
            self.suspects = None
        self.collected += int(getattr(found, "nbytes", 8))
        return found

    def _table(self, survey: Survey, limits: Limits, closed: Array | None = None) -> TableInChunks:
        """As the driver takes it."""
        reading = Reading(self.layout, closed, limits.budget)
        return TableInChunks(survey, limits, reading, self._fold, self.most_bytes)

    def _solve(self, survey: Survey, limits: Limits) -> _Solved | None:
        """By passes; None: everybody has to be solved together."""
        tree, budget = tree_of(limits), limits.budget
        if budget is not None:
            filled = solve_budget_in_chunks(self._table(survey, limits), budget)
            if filled is not None:
                priced, choice = filled.solution.bound_from, filled.solution.solution.choice
                last = filled.last_pass
                choices = _choices(last.rule, last.at_hand, choice, Reading(self.layout, None, budget))
                return _Solved(choices, replace(priced.solution, choice=choice), rate=priced.rate)
        closed = None
        if tree.leaf.shape[0] > 1:
            nobody = AllocationProblem(survey.sample.values[:, :0], limits)
            closed = Closed.of(nobody, tree)
            closed = None if closed is None else replace(closed, largest=survey.largest)
        table = self._table(survey, limits, None if closed is None else closed.places)
        placed = solve_table(table, tree)
        if placed is None:
            return None
        passed, found = placed.by, Assignment(placed.choice, placed.potentials, tree)
        assert passed.at_hand is not None
        if budget is not None and rounded(passed.cost + tables.cost_of(passed.at_hand, placed.choice)) > budget:
            return None
        choices = _choices(passed.rule, passed.at_hand, placed.choice, table.reading)
        if closed is not None:
            on_grid = closed.on_grid(found)
            first = self._fold(partial(_first_codes_of, choices, on_grid, closed.places, closed.scale), np.maximum)
            found = closed.with_first(found, first)
        return _Solved(choices, found, rate=None if budget is None else 0.0)

    def _solved_here(self, rows: Rows, limits: Limits) -> TableAllocation:
        """All customers are here: solved as any table in memory, then checked by a pass as any other."""
        if rows.costs is not None and limits.budget is not None:
            limits = replace(limits, budget=allowed_budget(rows.costs, rows.eligible, limits.budget))
        found = solve_problem(AllocationProblem.of(rows, limits, self.layout.depths, rows.largest_cost))
        if found.status is Status.INFEASIBLE:
            return TableAllocation(
                replace(found, choice=found.choice[:0], seconds=time.perf_counter() - self.start),
                rows.size, self.passes, self.collected, None,
            )  # fmt: skip
        potentials = np.concatenate([[0.0], found.prices])
        tree = tree_of(limits)
        if found.segment_prices is not None:
            potentials = np.concatenate([potentials, (found.prices + found.segment_prices).ravel()])
        choices = _choices(Nobody(limits.groups), rows, found.choice, Reading(self.layout))
        placed = Assignment(found.choice, potentials, tree)
        solved = _Solved(choices, placed, found.budget_price, found.bound, found.segment_prices)
        return self._checked(solved, limits)

    def _checked(self, solved: _Solved, limits: Limits) -> TableAllocation:
        """The result with its proof: one more pass."""
        seconds, start = time.perf_counter() - self.start, time.perf_counter()
        choices, found, rate = solved.choices, solved.found, solved.rate or 0.0
        on_top = found.segment_prices if solved.segment_prices is None else solved.segment_prices
        allowed = allowed_prices(limits, found.prices, on_top)
        most = np.inf if limits.budget is None else limits.budget
        totals = self._fold(partial(_audited, choices, allowed.by_place, rate, most), Audit.__add__)
        cost = None if limits.budget is None else rounded(totals.cost)
        proof = state(limits, np.empty(0, np.int16), allowed, totals, cost, rate=rate, depths=self.layout.depths)
        proof = with_known_bound(proof, solved.bound)
        proof = replace(proof, seconds=seconds, check_seconds=time.perf_counter() - start)
        decisions = self.table.transform(choices, choices.schema)
        return TableAllocation(proof, self.customers, self.passes, self.collected, decisions)


def _nothing(chunk: pa.Table) -> int:
    return 0


def _only(segments: Mapping[str, SegmentLimits] | None) -> tuple[str | None, SegmentLimits | None]:
    if not segments:
        return None, None
    if len(segments) > 1:
        raise InputError(
            "segments",
            found=f"{len(segments)} columns ({', '.join(map(str, segments))})",
            expected="one column",
            fix="Segments must be one column: combine these into one.",
        )
    ((column, limits),) = segments.items()
    return column, limits
