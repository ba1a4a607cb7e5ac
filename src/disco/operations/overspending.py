"""How much of a budget may be planned, so that the codes cost more than all of it with at most a given chance.

The largest share s in (0, 1] of the budget with  P(markdown of the codes decided under s·budget > budget) ≤ risk,  by
the draws of the forecast, which contain what earlier forecasts got wrong (docs/decisions/098-what-a-plan-can-say.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from disco.records.arrays import Vector

TOLERANCE = 0.002
"""Of the share: a larger one by this part of it would exceed the risk."""
_STEP = 0.03  # from a first guess towards the other side of the bound; doubled every time
_LEAST = 1e-9  # pays for no code
_MOST_STEPS = 60

Attempt = TypeVar("Attempt")


def chance_above(markdown: Vector, budget: float) -> float:
    """The share of draws of the markdown above the budget.

    >>> chance_above(np.array([8.0, 9.0, 10.0, 11.0]), 10.0)
    0.25
    """
    return float(np.mean(markdown > budget))


def first_share(markdown: Vector, *, risk: float) -> float:
    """A guess from the draws of the codes under the whole budget: as if the markdown kept its relative spread."""
    high = float(np.quantile(markdown, 1 - risk))
    return min(float(markdown.mean()) / high, 1.0) if high > 0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Generic[Attempt]):
    """What a search found."""

    share: float  # of the budget
    attempt: Attempt | None  # what was decided under it; None: the floors allow no share that keeps the risk
    least_chance: float  # the smallest chance that was seen


def largest_share(
    attempt: Callable[[float], tuple[Attempt, float] | None], *, risk: float, first: float
) -> Bounded[Attempt]:
    """The largest share whose chance is at most `risk`, to within `TOLERANCE`; the whole budget is known to exceed it.

    attempt: what is decided under a share, with its chance; None where limits cannot be kept with so little money.
    first: a share to begin with. The chance rises with the share, up to steps of single codes. A share is returned only
    with a chance that was computed for it.
    """
    low, high, step = 0.0, 1.0, _STEP
    best: Attempt | None = None
    kept, least, share = _LEAST, 1.0, min(max(first, TOLERANCE), 1 - _STEP)
    for _ in range(_MOST_STEPS):
        found = attempt(share)
        if found is not None:
            least = min(least, found[1])
        if found is not None and found[1] > risk:
            high = share
        else:
            low = share
            if found is not None:
                best, kept = found[0], share
        if high - low <= TOLERANCE * high or (low == 0.0 and high <= TOLERANCE):
            break
        # first to the other side of the bound, then halve
        share = (low + high) / 2
        if low == 0.0:
            share = max(share, high * (1 - step))
        elif high == 1.0:
            share = min(share, low * (1 + step))
        step *= 2
    if best is None and (found := attempt(_LEAST)) is not None and found[1] <= risk:
        best = found[0]
    return Bounded(share=kept, attempt=best, least_chance=least)
