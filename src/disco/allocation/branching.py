"""A budget for few customers, by branching over those whom the linear relaxation splits between two places.

One customer with a large basket can make the bound of the prices useless: no budget price gives them half a code. With
their place fixed, the rest is a smaller problem with prices of its own, which bound it well. So as long as a problem
is not finished (`finishing`), the customer whose change costs most between the allocations on either side of the budget
is given each place they could have, one after the other, the most promising first.

The number of problems is limited, not the time, so that an answer does not depend on the machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from disco.allocation.finishing import BRIEFLY, THOROUGHLY, Finished, OptionTable, finish
from disco.allocation.lagrangian import Lagrangian, Priced
from disco.allocation.limits import UNLIMITED, Limits
from disco.allocation.paths import Assignment
from disco.allocation.problem import AllocationProblem
from disco.records.arrays import Array

_PROBLEMS = 40  # at most
_DECIDED = 1e-9  # relative gap from which on branching tells no more: what is left is how well sums fill the budget


class Relaxed(NamedTuple):
    """What prices say about a problem."""

    best: Priced  # whose prices give the lowest bound
    filled: Assignment  # within the budget
    rich: Array  # (customers,) the choice that spends a little too much
    poor: Array  # (customers,) the choice that does not
    exact: bool  # whether the budget does not bind


@dataclass(frozen=True, slots=True)
class _Part:
    """A problem in which some customers have their places."""

    problem: AllocationProblem
    rows: Array  # (customers left,) their numbers in the whole table
    choice: Array  # (all customers,) of those who have their places
    worth: float  # Σ values of those who have their places
    bound: float  # what no allocation of this part is worth more than, all customers together


def branch(
    whole: Lagrangian, relaxed: Relaxed, relax: Callable[[AllocationProblem], tuple[Lagrangian, Relaxed] | None]
) -> Finished:
    """The optimum of few customers with a budget, proved where the number of problems suffices.

    relax: prices of a part; None: no allocation meets its limits.
    """
    table = OptionTable.of(whole)
    first = _finish(whole, relaxed, least=-math.inf)
    value = table.value_of(first.solution, whole.value_scale)
    if first.exact or first.bound - value <= _DECIDED * abs(value):
        return first
    best, bound = _branched(whole, table, relaxed, first, relax)
    value = table.value_of(best, whole.value_scale)
    return Finished(best, value, bound, exact=bound <= value)


def _finish(lagrangian: Lagrangian, relaxed: Relaxed, *, least: float) -> Finished:
    """Briefly, and thoroughly where little is left."""
    found = finish(lagrangian, relaxed.filled, relaxed.best, passes=BRIEFLY, least=least)
    if found.exact or found.bound - max(found.value, least) > _DECIDED * abs(found.value):
        return found
    again = finish(lagrangian, found.solution, relaxed.best, passes=THOROUGHLY, least=least)
    return replace(again, bound=min(again.bound, found.bound))


def _branched(
    whole: Lagrangian, table: OptionTable, relaxed: Relaxed, first: Finished,
    relax: Callable[[AllocationProblem], tuple[Lagrangian, Relaxed] | None],
) -> tuple[Assignment, float]:  # fmt: skip
    """The best allocation found, and a bound of all."""
    best, scale = first.solution, whole.value_scale
    nobody = np.full(whole.problem.customers, -1, np.int16)
    root = _Part(whole.problem, np.arange(whole.problem.customers), nobody, 0.0, first.bound)
    parts = _children(root, whole, relaxed, first.bound, table.value_of(best, scale))
    unsure = -math.inf  # a bound of what was given up
    for _ in range(_PROBLEMS):
        value = table.value_of(best, scale)
        parts = [part for part in parts if part.bound >= value - 2.0**-44 * abs(value)]
        if not parts:
            return best, max(value, unsure)
        at = max(range(len(parts)), key=lambda one: parts[one].bound)
        part = parts.pop(at)
        found = relax(part.problem)
        if found is None:
            continue
        lagrangian, inner = found
        if inner.exact:
            finished = Finished(inner.filled, -math.inf, -math.inf, exact=True)
        else:
            finished = _finish(lagrangian, inner, least=value - part.worth)
        tried = part.choice.copy()
        tried[part.rows] = finished.solution.choice
        if whole.keeps_budget(tried):
            best = table.better(best, replace(best, choice=tried))
        else:
            unsure = max(unsure, table.value_of(replace(best, choice=tried), scale))
        if finished.exact:
            continue
        bound = min(part.bound, finished.bound + part.worth)
        value = table.value_of(best, scale)
        if bound - value <= _DECIDED * abs(value):
            unsure = max(unsure, bound)
        else:
            parts += _children(part, lagrangian, inner, bound, value)
    value = table.value_of(best, scale)
    return best, max([value, unsure, *(part.bound for part in parts)])


def _children(part: _Part, lagrangian: Lagrangian, relaxed: Relaxed, bound: float, value: float) -> list[_Part]:
    """The part with one more customer given each of their places."""
    problem = lagrangian.problem  # its cells are those that the budget can pay
    costs = lagrangian.costs
    rows = np.arange(problem.customers)

    def cost_of(choice: Array) -> Array:
        return np.where(choice >= 0, costs[np.maximum(choice, 0), rows], 0.0).astype(np.float64)

    change = np.abs(cost_of(relaxed.rich) - cost_of(relaxed.poor))
    keys = problem.keys_of(rows)
    if not change.any():
        change = costs.max(axis=0).astype(np.float64)
    row = int(np.lexsort((keys, -change))[0])
    children = []
    for place in range(-1, problem.columns):
        if place >= 0 and problem.eligible is not None and not problem.eligible[place, row]:
            continue
        limits = _without(problem.limits, row, place, float(costs[place, row]) if place >= 0 else 0.0)
        if limits is None:
            continue
        kept = np.delete(rows, row)
        choice = part.choice.copy()
        choice[part.rows[row]] = place
        worth = part.worth + (float(problem.values[place, row]) if place >= 0 else 0.0)
        child = AllocationProblem(
            np.ascontiguousarray(problem.values[:, kept]),
            limits,
            None if problem.eligible is None else np.ascontiguousarray(problem.eligible[:, kept]),
            np.ascontiguousarray(costs[:, kept]),
            keys[kept],
            problem.depths,
            problem.largest_cost,
        )
        children.append(_Part(child, part.rows[kept], choice, worth, bound))
    return children


def _without(limits: Limits, row: int, place: int, cost: float) -> Limits | None:
    """The limits of the others once one customer has a place; None: they are broken."""
    taken = np.zeros(limits.caps.size, np.int64)
    if place >= 0:
        taken[place] = 1
    caps = np.where(limits.caps >= UNLIMITED, UNLIMITED, limits.caps - taken)
    floors = np.maximum(limits.floors - taken, 0)
    assert limits.budget is not None
    budget = limits.budget - cost
    budget += 2.0**-51 * limits.budget if cost > 0.0 else 0.0  # not to lose what meets the budget to the last bit
    if (caps < 0).any() or budget < 0.0:
        return None
    if limits.segment is None or limits.segment_caps is None or limits.segment_floors is None:
        return Limits(caps, floors, budget=budget)
    group = int(limits.segment[row])
    segment_caps, segment_floors = limits.segment_caps.copy(), limits.segment_floors.copy()
    segment_caps[group] = np.where(segment_caps[group] >= UNLIMITED, UNLIMITED, segment_caps[group] - taken)
    segment_floors[group] = np.maximum(segment_floors[group] - taken, 0)
    if (segment_caps < 0).any():
        return None
    segment = np.delete(limits.segment, row)
    return Limits(caps, floors, segment_caps, segment_floors, segment, limits.segment_labels, budget)
