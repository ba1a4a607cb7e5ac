"""Isotonic projection: the nearest non-decreasing curve over the depths offered."""

import numpy as np

from disco.belief.elementary import exponential, logarithm
from disco.records.arrays import Floats, Integers, Vector
from disco.records.compiled import njit


@njit(cache=True, nogil=True)
def pool_adjacent(values: Vector, weights: Vector) -> Vector:
    """The non-decreasing sequence nearest to `values` in weighted least squares (pool adjacent violators).

    >>> pool_adjacent(np.array([1.0, 3.0, 2.0]), np.array([1.0, 1.0, 3.0])).tolist()
    [1.0, 2.25, 2.25]
    """
    level = np.empty(values.size)
    weight = np.empty(values.size)
    length = np.empty(values.size, np.int64)
    blocks = 0
    for place in range(values.size):
        level[blocks], weight[blocks], length[blocks] = values[place], weights[place], 1
        blocks += 1
        while blocks > 1 and level[blocks - 2] > level[blocks - 1]:
            total = weight[blocks - 2] + weight[blocks - 1]
            level[blocks - 2] += (level[blocks - 1] - level[blocks - 2]) * (weight[blocks - 1] / total)
            weight[blocks - 2] = total
            length[blocks - 2] += length[blocks - 1]
            blocks -= 1
    out = np.empty(values.size)
    place = 0
    for block in range(blocks):
        for _ in range(length[block]):
            out[place] = level[block]
            place += 1
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def make_monotone(prices: Floats, order: Integers) -> None:
    """Project every customer's curve of ln(price) in place; prices (depths, customers), `order` sorts the depths."""
    depths, customers = prices.shape
    line = np.empty(depths)
    ones = np.ones(depths)
    for customer in range(customers):
        broken = False
        for place in range(depths - 1):
            broken |= prices[order[place], customer] > prices[order[place + 1], customer]
        if broken:
            for place in range(depths):
                line[place] = logarithm(prices[order[place], customer])
            line = pool_adjacent(line, ones)
            for place in range(depths):
                prices[order[place], customer] = exponential(line[place])
