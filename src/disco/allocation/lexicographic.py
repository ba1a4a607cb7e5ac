"""The screening pass in exact integers: for values with ties, and for limits by segment.

A customer is settled when its best place beats every other by more than the widths: in value, or, where the value
widths are 0 and values tie exactly, in hash. A pure function of one chunk of customers.
"""

import numba as nb
import numpy as np

from disco.allocation.arrays import Array
from disco.allocation.movers import NEVER, tie_hash


@nb.njit(nogil=True, cache=True)
def screen_exactly(
    values: Array,
    eligible: Array | None,
    costs: Array | None,
    rate: float,
    segment: Array | None,
    keys: Array,
    start: int,
    stop: int,
    scale: float,
    keep_negative: bool,
    value_price: Array,
    hash_price: Array,
    value_width: Array,
    hash_width: Array,
    choice: Array,
    counts: Array,
    rows: Array,
    kept: Array,
) -> int:
    """Fill choice[start:stop], add settled customers to counts (groups, depths), copy the open ones as grid integers.

    value_price, hash_price, value_width, hash_width: (groups, depths). Returns how many are open, copied or not.
    """
    columns = values.shape[0]
    worth = np.empty(columns, np.int64)
    opened = 0
    for i in range(start, stop):
        group = 0
        if segment is not None:
            group = segment[i]
        best = -1
        best_value = 0
        best_hash = 0
        for k in range(columns):
            x = np.float64(values[k, i])
            if costs is not None:
                x -= rate * np.float64(costs[k, i])
            if (eligible is not None and not eligible[k, i]) or (x < 0.0 and not keep_negative):
                worth[k] = NEVER
                continue
            worth[k] = np.int64(np.rint(x * scale))
            value = worth[k] - value_price[group, k]
            if value < best_value:
                continue
            tie = tie_hash(keys[i], k) - hash_price[group, k]
            if value > best_value or tie > best_hash:
                best = k
                best_value = value
                best_hash = tie
        own_width = value_width[group, best] if best >= 0 else 0
        is_open = False
        for k in range(-1, columns):
            if k == best or (k >= 0 and worth[k] == NEVER):
                continue
            margin = best_value
            if k >= 0:
                margin -= worth[k] - value_price[group, k]
            width = own_width + (value_width[group, k] if k >= 0 else 0)
            if margin > width:
                continue
            if width == 0:
                ahead = best_hash
                if k >= 0:
                    ahead -= tie_hash(keys[i], k) - hash_price[group, k]
                reach = hash_width[group, best] if best >= 0 else 0
                if k >= 0:
                    reach += hash_width[group, k]
                if ahead > reach:
                    continue
            is_open = True
            break
        choice[i] = best
        if is_open:
            if opened < rows.size:
                rows[opened] = i
                for k in range(columns):
                    kept[opened, k] = worth[k]
            opened += 1
        elif best >= 0:
            counts[group, best] += 1
    return opened
