"""Costs in whole pennies, and the budget that they can meet.

A penny has no exact float: 0.1 + 0.2 exceeds 0.3 in the last bit, and people who write these numbers mean that it does
not. Where all costs are decimals with few digits, a budget therefore has an allowance: far below a penny, and far above
what sums of floats can differ from the decimals that they stand for.

Costs that are no decimals are compared as floats: their sum, rounded once, must not exceed the budget.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from disco.records.arrays import Array, Flags, Floats

_DIGITS = (0, 1, 2, 3, 4)  # decimals that are looked for
_MOST_PENNIES = 2.0**40  # of a cost or a budget: times a power of ten they are exact floats
_ALLOWANCE = 2.0**-45  # of the budget
SEEN_WHOLE = 1 << 17  # customers: larger tables in chunks are never here as a whole


class Pennies(NamedTuple):
    """How costs are counted, and the largest sum that is within the budget."""

    per_unit: float  # pennies per unit of money, a power of ten
    budget: int

    def counted(self, costs: Array) -> Array:
        """Costs in pennies."""
        numbers: Array = np.rint(costs * self.per_unit).astype(np.int64)
        return numbers

    def after(self, cost: float) -> "Pennies":
        """For the others, once this much is spent."""
        return self._replace(budget=self.budget - round(cost * self.per_unit))

    @classmethod
    def of(cls, costs: Array, budget: float) -> "Pennies | None":
        """costs: (depths, customers), 0 where not eligible; None: they have more digits, or too many."""
        if costs.dtype != np.float64 or not 0.0 <= budget < _MOST_PENNIES:
            return None
        for digits in _DIGITS:
            per_unit = 10.0**digits
            if budget * per_unit < _MOST_PENNIES and _are_whole(costs, per_unit):
                return cls(per_unit, math.floor(Fraction(budget) * int(per_unit) * (1 + Fraction(_ALLOWANCE))))
        return None

    @property
    def allowed(self) -> float:
        """The whole pennies of the budget in money, with the allowance."""
        return self.budget / self.per_unit * (1.0 + _ALLOWANCE)


def _are_whole(costs: Array, per_unit: float) -> bool:
    for part in (costs[:, :64], costs):  # most costs that are no decimals show it at once
        pennies = np.rint(part * per_unit)
        if pennies.max(initial=0.0) >= _MOST_PENNIES or not (pennies / per_unit == part).all():
            return False
    return True


def allowed_budget(costs: Floats, eligible: Flags | None, budget: float) -> float:
    """The budget, with the allowance of `Pennies` where all costs that it can pay are decimals.

    Applied twice, it changes nothing.
    """
    if costs.shape[1] > SEEN_WHOLE:
        return budget
    paid = costs <= budget * (1.0 + _ALLOWANCE)
    pennies = Pennies.of(np.where(paid if eligible is None else paid & eligible, costs, 0.0), budget)
    if pennies is None or pennies.per_unit == 1.0:  # sums of whole numbers are exact
        return budget
    return max(budget, pennies.allowed)
