"""The frontier: what revenue and markdown an exact allocation reaches over a grid of revenue weights or budgets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from disco.allocation.allocate import solve_problem
from disco.allocation.problem import read_problem
from disco.allocation.result import Allocation, Status
from disco.records.errors import UsageError
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One point of the path: revenue, markdown and value = revenue_weight · revenue - markdown of its allocation."""

    revenue_weight: float
    budget: float | None
    revenue: float
    markdown: float
    value: float
    allocation: Allocation


def frontier(
    revenue: Any,
    markdown: Any,
    caps: object,
    *,
    revenue_weights: Sequence[float] = (1.0,),
    budgets: Iterable[float | None] | None = None,
    depths: Iterable[object] | None = None,
    floors: object = None,
    segments: object = None,
    eligible: object = None,
    ids: object = None,
    engine: Engine | None = None,
) -> tuple[FrontierPoint, ...]:
    """Exact allocations of value = weight · revenue - markdown over a grid, each started from its neighbour's prices.

    revenue, markdown: (customers, depths), expected money per cell. Give several revenue_weights, or one and several
    budgets on markdown. Points without a feasible allocation carry its conflicts and no money.

    >>> points = frontier([[8.0, 9.0]], [[1.0, 3.0]], [1, 1], revenue_weights=[1.0, 3.0])
    >>> [(point.revenue, point.markdown) for point in points]
    [(8.0, 1.0), (9.0, 3.0)]
    """
    weights = list(revenue_weights)
    limits = [None] if budgets is None else list(budgets)
    if len(weights) > 1 and len(limits) > 1:
        raise UsageError("frontier", found="several weights and several budgets", expected="a grid of one of them")
    gained, given = np.asarray(revenue), np.asarray(markdown)
    named = None if depths is None else list(depths)
    points: list[FrontierPoint] = []
    warm = None
    for weight in weights:
        values = np.asfortranarray(weight * gained - given)
        for budget in limits:
            problem = read_problem(
                values, caps, depths=named, costs=given, budget=budget, floors=floors, segments=segments,
                eligible=eligible, ids=ids,
            )  # fmt: skip
            found = solve_problem(problem, warm=warm, engine=engine)
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
