"""`allocate`: values and limits in, one depth or none per customer out."""

from collections.abc import Iterable

from disco.allocation.problem import read_problem
from disco.allocation.reference import solve_with_highs
from disco.allocation.result import Allocation


def allocate(
    values: object,
    caps: object,
    *,
    depths: Iterable[object] | None = None,
    costs: object = None,
    budget: object = None,
    floors: object = None,
    segments: object = None,
    eligible: object = None,
    ids: object = None,
    warm_prices: object = None,
) -> Allocation:
    """Maximise Σ values[i, choice[i]] with at most one depth per customer and caps[k] customers at k.

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
    return solve_with_highs(problem)
