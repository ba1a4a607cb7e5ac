"""Costs in whole pennies, as exact integers.

A penny has no exact float: 0.1 + 0.2 exceeds 0.3 in the last bit. Where all costs are decimals with few digits, sums
that meet the budget to the penny are common, and whether such a sum is within the budget depends on what its floats
differ from the decimals they stand for. A cost is therefore counted as

    pennies · 2^bits + (float - decimal), in units so small that every such difference is a whole number,

where the differences of all customers together are below 2^bits. Sums of these numbers compare as the exact sums of the
floats do, and most of them differ in whole pennies only, which makes a search short.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from disco.records.arrays import Array

_DIGITS = (0, 1, 2, 3, 4)  # decimals that are looked for
_SPLIT = 2.0**27 + 1.0  # a float times this parts it into two of 26 bits
_BITS = 61  # of a sum of costs
_EXACT = 2.0**40  # pennies of a cost, at most: times a power of ten they are exact floats


class Pennies(NamedTuple):
    """How costs are counted, and the largest sum that is within the budget."""

    per_unit: float  # pennies per unit of money, a power of ten
    bits: int
    fine: float  # differences are counted in pennies / fine
    budget: int

    @property
    def scale(self) -> float:
        """Of a cost to its number, but for the difference."""
        return math.ldexp(self.per_unit, self.bits)

    def counted(self, costs: Array) -> Array:
        """The numbers of costs."""
        pennies, rest = _parted(costs, self.per_unit)
        numbers: Array = (pennies.astype(np.int64) << self.bits) + (rest * self.fine).astype(np.int64)
        return numbers

    def less(self, cost: float) -> "Pennies":
        """For the others, once this much is spent."""
        return self._replace(budget=self.budget - int(self.counted(np.array([cost]))[0]))

    @classmethod
    def of(cls, costs: Array, budget: float) -> "Pennies | None":
        """costs: (depths, customers), 0 where not eligible; None: they have more digits, or too many."""
        if costs.dtype != np.float64 or not costs.any():
            return None
        for digits in _DIGITS:
            per_unit = 10.0**digits
            pennies = np.rint(costs * per_unit)
            if pennies.max() < _EXACT and (pennies / per_unit == costs).all():
                return cls._of(costs, per_unit, budget)
        return None

    @classmethod
    def _of(cls, costs: Array, per_unit: float, budget: float) -> "Pennies | None":
        rest = np.abs(_parted(costs, per_unit)[1])
        fine = math.ldexp(1.0, 53 - math.frexp(float(costs[costs > 0.0].min()))[1])
        spread = int(rest.max(axis=0).sum() * fine) + 2
        bits = spread.bit_length() + 1
        most = int(np.rint(costs * per_unit).max(axis=0).sum()) + 1
        if most.bit_length() + bits > _BITS:
            return None
        above = math.nextafter(budget, math.inf)
        middle = (Fraction(budget) + Fraction(above)) / 2 * int(per_unit)  # sums up to here round to the budget
        pennies = round(middle)
        room = (middle - pennies) * int(fine)
        if abs(room) > spread:  # no sum of whole pennies is near the budget
            pennies, room = math.floor(middle), Fraction(spread)
        within = math.floor(room)
        even = math.frexp(budget)[0] * 2.0**53 % 2.0 == 0.0
        within -= 0 if even or within != room else 1  # a sum halfway rounds to the even one
        return cls(per_unit, bits, fine, (min(pennies, most) << bits) + within)


def _parted(costs: Array, per_unit: float) -> tuple[Array, Array]:
    """Whole pennies, and costs in pennies less these; both exact."""
    pennies = np.rint(costs * per_unit)
    high = costs * _SPLIT
    high = high - (high - costs)
    return pennies, (high * per_unit - pennies) + (costs - high) * per_unit
