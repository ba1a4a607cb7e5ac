"""Why limits cannot be met together, and the smallest change of one of them that would do.

Customers with the same segment and the same eligible depths are one type, so the question is a small linear program
over (type, depth) whose optimum is integral: it stays a flow.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import partial
from typing import Any

import numpy as np

from disco.allocation.limits import UNLIMITED, Limits, column_name, quoted_label
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem, Pennies
from disco.allocation.result import Allocation, Conflict, Status
from disco.allocation.solve import solve
from disco.records.arrays import Array, Integers

# Limits from which on those that clash are looked for together, before they are tried one by one.
_MANY = 24


@dataclass(frozen=True, slots=True)
class _Limit:
    """One floor or cap: which row of the program, and how people call it."""

    row: int
    is_floor: bool
    number: int
    place: str

    @property
    def key(self) -> tuple[int, bool]:
        return self.row, self.is_floor

    @property
    def name(self) -> str:
        return f"{'floor' if self.is_floor else 'cap'} {self.number} of {self.place}"

    def change(self, amount: int) -> str:
        if self.is_floor:
            return f"Lower the floor of {self.place} from {self.number} to {self.number - amount}"
        return f"Raise the cap of {self.place} from {self.number} to {self.number + amount}"


@dataclass(frozen=True, slots=True)
class _Program:
    """Σ_k y[t, k] ≤ size[t];  low ≤ count rows ≤ high, rows being depths, then (segment, depth)."""

    size: Integers
    allowed: "np.ndarray[tuple[int, int], np.dtype[np.bool_]]"
    segment: Integers
    low: Integers
    high: Integers

    def least_violation(self, free: set[tuple[int, bool]], counted: tuple[int, bool]) -> int | None:
        """The least amount by which `counted` must give way when `free` limits need not hold; None: not enough."""
        found = self._solve(free, [counted])[0]
        return round(float(found.fun)) if found.status == 0 else None

    def suspects(self) -> set[tuple[int, bool]]:
        """Limits that clash: those with a price where all together give way by as little as they must."""
        found, lines = self._solve(set(), None)
        prices = np.abs(found.ineqlin.marginals)
        return {limit for limit, line in lines.items() if prices[line] > 1e-7}

    def _solve(
        self, free: set[tuple[int, bool]], giving: list[tuple[int, bool]] | None
    ) -> tuple[Any, dict[tuple[int, bool], int]]:
        """Least Σ of what the limits `giving` (None: all) give way, and the line of each limit."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix, hstack, vstack

        columns, rows, types = self.allowed.shape[1], self.low.size, self.size.size
        of_type, of_column = np.nonzero(self.allowed)
        cells = np.arange(of_type.size)
        above = [(row, True) for row in range(rows) if self.low[row] > 0 and (row, True) not in free]
        below = [(row, False) for row in range(rows) if self.high[row] < UNLIMITED and (row, False) not in free]
        lines = {limit: types + line for line, limit in enumerate((*above, *below))}
        bounds = [*self.size, *(-self.low[row] if is_floor else self.high[row] for row, is_floor in lines)]
        given_way = [lines[limit] for limit in (lines if giving is None else giving) if limit in lines]

        def cells_of(line: Integers, count: int) -> Any:
            """(lines, cells) which cells count in each line, from the line of each cell."""
            return csr_matrix((np.ones(cells.size), (line, cells)), shape=(count, cells.size))

        counted = cells_of(of_column, rows)
        if rows > columns:
            counted = counted + cells_of(columns + self.segment[of_type] * columns + of_column, rows)
        lines_of = counted[[row for row, _ in above]], counted[[row for row, _ in below]]
        customers = vstack([cells_of(of_type, types), -lines_of[0], lines_of[1]])
        ways = np.arange(len(given_way))
        gives = csr_matrix((np.full(ways.size, -1.0), (given_way, ways)), shape=(len(bounds), max(ways.size, 1)))
        matrix = hstack([customers, gives])
        cost = np.repeat([0.0, 1.0], [cells.size, gives.shape[1]])
        return linprog(cost, A_ub=matrix, b_ub=np.array(bounds, np.float64), method="highs"), lines


def _program(problem: AllocationProblem) -> tuple[_Program, list[_Limit]]:
    limits, columns, customers = problem.limits, problem.columns, problem.customers
    segment = np.zeros(customers, np.int64) if limits.segment is None else limits.segment
    flags = np.ones((customers, columns), np.bool_) if problem.eligible is None else problem.eligible.T
    packed = np.packbits(flags, axis=1)
    kinds, first, size = np.unique(
        np.concatenate([packed.astype(np.int64), segment[:, None]], axis=1),
        axis=0,
        return_index=True,
        return_counts=True,
    )
    low, high = limits.floors, limits.caps
    places = [column_name(column, problem.depths) for column in range(columns)]
    if limits.segment_caps is not None and limits.segment_floors is not None:
        low = np.concatenate([low, limits.segment_floors.ravel()])
        high = np.concatenate([high, limits.segment_caps.ravel()])
        labels = [quoted_label(label) for label in limits.segment_labels]
        places += [f"{place} in segment {label}" for label in labels for place in places[:columns]]
    names = [_Limit(row, True, int(low[row]), places[row]) for row in range(low.size) if low[row] > 0]
    names += [_Limit(row, False, int(high[row]), places[row]) for row in range(low.size) if high[row] < UNLIMITED]
    return _Program(size.astype(np.int64), flags[first], kinds[:, -1].astype(np.int64), low, high), names


def infeasible(problem: AllocationProblem, conflicts: tuple[Conflict, ...], start: float) -> Allocation:
    """No allocation meets the limits: nobody gets a code, and `conflicts` says why."""
    return Allocation(
        choice=np.full(problem.customers, -1, np.int16),
        value=-np.inf,
        bound=-np.inf,
        gap=np.inf,
        prices=np.zeros(problem.columns),
        counts=np.zeros(problem.columns, np.int64),
        status=Status.INFEASIBLE,
        conflicts=conflicts,
        segment_labels=problem.limits.segment_labels,
        depths=problem.depths,
        seconds=time.perf_counter() - start,
    )


def conflicts_of(problem: AllocationProblem) -> tuple[Conflict, ...]:
    """Why no allocation meets the limits: of numbers of customers alone, or of a budget that cannot pay for floors."""
    if problem.limits.budget is None or problem.limits.contradict:
        return count_conflicts(problem)
    return budget_conflict(problem)


def count_conflicts(problem: AllocationProblem) -> tuple[Conflict, ...]:
    """A smallest set of floors and caps that clash with the customers, and the cheapest way out; () when none clash.

    The way out is also one that a budget pays for, where there is one.
    """
    program, limits = _program(problem)
    nothing = (-1, True)
    if program.least_violation(set(), nothing) is not None:
        return ()
    needed = sorted(limits, key=lambda limit: limit.is_floor)  # caps go first: floors are what asks for too much
    if len(needed) > _MANY:  # most limits have no part in it: those that do not clash need not be taken out one by one
        suspects = program.suspects()
        others = {limit.key for limit in limits} - suspects
        if program.least_violation(others, nothing) is None:
            needed = [limit for limit in needed if limit.key in suspects]
    step = max(1, len(needed) // 2)
    while step:  # halves first: most limits have no part in it
        at = 0
        while at < len(needed):
            trial = needed[:at] + needed[at + step :]
            free = {limit.key for limit in limits} - {limit.key for limit in trial}
            if program.least_violation(free, nothing) is None:
                needed = trial
            else:
                at += step
        step //= 2
    # a change of one limit that does must break up this set too, so no other need be tried
    changes = [(_paid_change(problem, limit, program.least_violation(set(), limit.key)), limit) for limit in needed]
    ways_out = sorted(
        ((amount, limit.is_floor, limit.name, limit) for amount, limit in changes if amount is not None),
        key=lambda way: way[:3],
    )
    change = ways_out[0][3].change(ways_out[0][0]) if ways_out else None
    names = tuple(limit.name for limit in sorted(needed, key=lambda limit: limit.row))
    return (Conflict(names, _clash(program, needed, problem.columns), change),)


def _clash(program: _Program, needed: list[_Limit], columns: int) -> str:
    """What is wrong with limits that clash, in words."""
    if {limit.row for limit in needed} == {needed[0].row} and len(needed) == 2:
        return "the floor is above its own cap"
    concerned = np.zeros(program.size.size, np.bool_)
    for limit in needed:
        if limit.is_floor:  # nobody but those who could be counted by a floor can help
            of_segment, column = divmod(limit.row - columns, columns) if limit.row >= columns else (None, limit.row)
            there = program.allowed[:, column]
            concerned |= there if of_segment is None else there & (program.segment == of_segment)
    total = int(program.size[concerned].sum())
    return f"cannot hold with {total:,} eligible customer{'' if total == 1 else 's'}"


def _paid_change(problem: AllocationProblem, limit: _Limit, amount: int | None) -> int | None:
    """The least change of a limit, at least `amount`, whose floors the budget pays; None: there is none."""
    budget = problem.limits.budget
    if amount is None or budget is None:
        return amount

    def pays(change: int) -> bool:
        least = _least_cost(problem, _changed(problem.limits, limit, change))
        return least is not None and least.cost <= budget

    most = max(amount, limit.number if limit.is_floor else problem.customers - limit.number)
    return _least_change(pays, amount, most) if pays(most) else None


def _least_change(pays: Callable[[int], bool], least: int, most: int) -> int:
    """The smallest change, at least `least`, that a budget pays; it pays `most`, and more never costs more.

    Steps from below double, for the answer is near the least change as a rule.
    """
    low, high, step = least - 1, most, 1
    while high - low > 1:
        middle = min(low + step, high - 1)
        low, high = (low, middle) if pays(middle) else (middle, high)
        step = 2 * step if low == middle else max((high - low) // 2, 1)
    return high


def _changed(limits: Limits, limit: _Limit, amount: int) -> Limits:
    """With this floor lowered, or this cap raised, by an amount."""
    of_depths, of_segments = (
        (limits.floors, limits.segment_floors) if limit.is_floor else (limits.caps, limits.segment_caps)
    )
    of_depths, of_segments = of_depths.copy(), None if of_segments is None else of_segments.copy()
    by = -amount if limit.is_floor else amount
    if of_segments is None or limit.row < of_depths.size:
        of_depths[limit.row] += by
    else:
        of_segments.ravel()[limit.row - of_depths.size] += by
    if limit.is_floor:
        return replace(limits, floors=of_depths, segment_floors=of_segments)
    return replace(limits, caps=of_depths, segment_caps=of_segments)


def budget_conflict(problem: AllocationProblem) -> tuple[Conflict, ...]:
    """Floors that cost more than the budget: what they cost at least, and the largest single floor it could pay."""
    least = _least_cost(problem, problem.limits)
    budget = problem.limits.budget
    if least is None or budget is None:
        return count_conflicts(problem)
    _, limits = _program(problem)
    floors = [limit for limit in limits if limit.is_floor]
    cost = Decimal(repr(_in_decimals(problem, least.cost)))
    needed = cost.quantize(Decimal("0.01"), ROUND_CEILING)  # up: a budget of this much must do
    change = f"Raise the budget from {budget:,.2f} to {needed:,}"
    way = _cheapest_floor(problem, floors, least)
    if way is not None:
        amount, limit = way
        change += f", or {limit.change(amount)[0].lower()}{limit.change(amount)[1:]}"
    names = (f"budget {budget:,.2f}", *(limit.name for limit in floors))
    return (Conflict(names, f"the floors cost at least {needed:,}", change),)


def _in_decimals(problem: AllocationProblem, cost: float) -> float:
    """A sum of costs, without what their floats differ from decimals where they stand for such."""
    assert problem.costs is not None
    costs = problem.costs if problem.eligible is None else np.where(problem.eligible, problem.costs, 0.0)
    pennies = Pennies.of(costs, cost)
    return cost if pennies is None else pennies.budget / pennies.per_unit


@dataclass(frozen=True, slots=True)
class _LeastCost:
    """The cheapest way to meet the floors."""

    cost: float
    solution: Assignment

    def of_one_more(self, row: int) -> float:
        """What the last customer of a floor costs: by how much the cost falls at most, with each one fewer."""
        node = row + 1
        return float(self.solution.potentials[self.solution.tree.parent[node]] - self.solution.potentials[node])


def _least_cost(problem: AllocationProblem, limits: Limits, *, warm: Array | None = None) -> _LeastCost | None:
    if problem.costs is None:
        return None
    cheapest = replace(problem, values=-problem.costs, costs=None, largest_cost=0.0, limits=limits)
    found = solve(cheapest, warm=warm)
    if not found.feasible:
        return None
    taken = np.flatnonzero(found.choice >= 0)
    return _LeastCost(float(math.fsum(problem.costs[found.choice[taken], taken].tolist())), found)


def _cheapest_floor(problem: AllocationProblem, floors: list[_Limit], least: _LeastCost) -> tuple[int, _Limit] | None:
    """The floor that must be lowered least, all else equal, so that the budget pays, and by how much; None: none does.

    The least cost is convex in each floor, so that it falls by at most `of_one_more` with each customer fewer: floors
    that would have to be lowered by more than another are not tried.
    """
    budget = problem.limits.budget or 0.0
    missing = least.cost - budget
    tries: list[tuple[int, str, _Limit]] = []
    for limit in floors:
        price = least.of_one_more(limit.row)
        amount = missing / price * (1.0 - 1e-9) if price > 0.0 else math.inf
        if amount <= limit.number:
            tries.append((max(math.ceil(amount), 1), limit.name, limit))
    best: tuple[int, str, _Limit] | None = None
    for amount, name, limit in sorted(tries, key=lambda one: one[:2]):
        most = limit.number if best is None else min(best[0] - (name > best[1]), limit.number)
        if amount > most or not _pays(problem, limit, least, most):
            continue
        best = (_least_change(partial(_pays, problem, limit, least), amount, most), name, limit)
    return None if best is None else (best[0], best[2])


def _pays(problem: AllocationProblem, limit: _Limit, least: _LeastCost, change: int) -> bool:
    """Whether the budget pays for the floors when this one is lowered by so many."""
    found = _least_cost(problem, _changed(problem.limits, limit, change), warm=least.solution.prices)
    return found is not None and found.cost <= (problem.limits.budget or 0.0)
