"""The frontier: what revenue and markdown an exact allocation reaches over a grid of revenue weights or budgets.

Each point is an allocation of its own with its own proof, solved as `allocate` solves it. Neighbours begin at each
other's prices, which saves time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from disco.allocation.allocate import solve_problem
from disco.allocation.limits import CountsLike, Segments
from disco.allocation.problem import agreed_ids, read_problem
from disco.allocation.result import Allocation, Status
from disco.records.arguments import column_labels
from disco.records.errors import InputError, UsageError
from disco.records.frames import without_ids
from disco.records.ports import Engine


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
    caps: CountsLike | None,
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
