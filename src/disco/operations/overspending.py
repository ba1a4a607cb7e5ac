"""How much of a budget may be planned, so that the codes cost more than all of it with at most a given chance.

The largest share s in (0, 1] of the budget with  P(markdown of the codes decided under s·budget > budget) ≤ risk,  by
the draws of the forecast, which contain what earlier forecasts got wrong (docs/decisions/098-what-a-plan-can-say.md).

The chance is a step function of s, which says on which side of the bound s is and not how far from it. The markdown
that is exceeded with that chance, q(s), says both: the risk is kept where q(s) ≤ budget, and q is nearly proportional
to s, because codes that cost a little less in all spread a little less. So one or two shares are enough.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from disco.records.arrays import Vector

TOLERANCE = 0.002
"""A larger share by this part of it would exceed the risk, or this part of the budget at most is left below it."""
_QUICK_STEPS = 5  # along a line; a few codes may need halving
_LEAST = 1e-9  # pays for no code
_MOST_STEPS = 60

Attempt = TypeVar("Attempt")


def chance_above(markdown: Vector, budget: float) -> float:
    """The share of draws of the markdown above the budget.

    >>> chance_above(np.array([8.0, 9.0, 10.0, 11.0]), 10.0)
    0.25
    """
    return float(np.mean(markdown > budget))


def exceeded_with(markdown: Vector, *, risk: float) -> float:
    """The smallest drawn markdown that is exceeded with a chance of at most `risk`.

    >>> exceeded_with(np.array([8.0, 9.0, 10.0, 11.0]), risk=0.25)
    10.0
    """
    above = np.arange(markdown.size) / markdown.size <= risk  # by how many draws may be above it
    return float(np.sort(markdown)[-int(above.sum())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Generic[Attempt]):
    """What a search found."""

    share: float  # of the budget
    attempt: Attempt | None  # what was decided under it; None: the floors allow no share that keeps the risk
    least_chance: float  # the smallest chance that was seen


def largest_share(
    attempt: Callable[[float], tuple[Attempt, Vector] | None], *, whole: Vector, budget: float, risk: float
) -> Bounded[Attempt]:
    """The largest share whose chance is at most `risk`, to within `TOLERANCE`; the whole budget is known to exceed it.

    attempt: what is decided under a share, with draws of its markdown; None where limits cannot be kept with so little
    money. whole: draws under the whole budget. A share is returned only with a chance that was computed for it.
    """
    low, high, best, best_share, least = 0.0, 1.0, None, _LEAST, chance_above(whole, budget)
    last = (0.0, 0.0)  # without money there are no codes: the line through it and the first share is the proportion
    goal = budget * (1 - TOLERANCE / 2)
    # the budget may be more than all codes need, so that the first shares below 1 change nothing
    share = (1 - TOLERANCE / 2) * min(float(whole.mean()), budget) / exceeded_with(whole, risk=risk)
    for step in range(_MOST_STEPS):
        if not low < share < high or step >= _QUICK_STEPS:
            share = (low + high) / 2
        tried = attempt(share)
        if tried is None:
            low, share = share, -1.0
        else:
            decided, markdown = tried
            chance, reached = chance_above(markdown, budget), exceeded_with(markdown, risk=risk)
            least = min(least, chance)
            if chance > risk:
                high = share
            else:
                low, best, best_share = share, decided, share
                if reached >= budget * (1 - TOLERANCE):
                    break
            rise = reached - last[1]
            last, along = (share, reached), (goal - reached) * (share - last[0])
            share = share + along / rise if rise else -1.0
        if high - low <= TOLERANCE * high or (low == 0.0 and high <= TOLERANCE):
            break
    if best is None and (tried := attempt(_LEAST)) is not None and chance_above(tried[1], budget) <= risk:
        best = tried[0]
    return Bounded(share=best_share, attempt=best, least_chance=least)
