"""Places bid for customers: kernels that keep the best two bids of every customer of a block, and who made the best."""

from disco.records.arrays import Array
from disco.records.compiled import inner_kernel

BLOCK = 2048  # customers per block: long enough for the prefetcher, short enough for the second-level cache


@inner_kernel(cache=True)
def compete(line: Array, shift: float, place: int, first: Array, second: Array, winner: Array) -> None:
    """Let one more place bid line - shift for every customer: keep the best two bids and who made the best."""
    for j in range(line.size):
        x = line[j] - shift
        f = first[j]
        s = second[j]
        ahead = x > f
        lesser = f if ahead else x
        second[j] = lesser if lesser > s else s
        first[j] = x if ahead else f
        winner[j] = place if ahead else winner[j]


@inner_kernel(cache=True)
def compete_two(
    line: Array, other: Array, shift: float, other_shift: float, place: int, first: Array, second: Array,
    winner: Array,
) -> None:  # fmt: skip
    """Two places at once: half the traffic of `compete` for the three state arrays."""
    for j in range(line.size):
        x = line[j] - shift
        y = other[j] - other_shift
        f = first[j]
        s = second[j]
        w = winner[j]
        larger = x if x >= y else y
        smaller = y if x >= y else x
        of = place if x >= y else place + 1
        ahead = larger > f
        lesser = f if ahead else larger
        lesser = lesser if lesser > smaller else smaller
        second[j] = lesser if lesser > s else s
        first[j] = larger if ahead else f
        winner[j] = of if ahead else w


@inner_kernel(cache=True)
def compete_four(
    a: Array, b: Array, c: Array, d: Array, shifts: Array, place: int, first: Array, second: Array, winner: Array
) -> None:
    """Four places at once, by the better of either pair; equal bids go to the first of them, as in `compete_two`."""
    shift_a, shift_b, shift_c, shift_d = shifts[0], shifts[1], shifts[2], shifts[3]
    for j in range(a.size):
        x = a[j] - shift_a
        y = b[j] - shift_b
        z = c[j] - shift_c
        t = d[j] - shift_d
        f = first[j]
        s = second[j]
        w = winner[j]
        front = x if x >= y else y
        behind = y if x >= y else x
        of = place if x >= y else place + 1
        other_front = z if z >= t else t
        other_behind = t if z >= t else z
        other_of = place + 2 if z >= t else place + 3
        mine = front >= other_front
        larger = front if mine else other_front
        smaller = other_front if mine else front
        third = behind if mine else other_behind
        of = of if mine else other_of
        smaller = smaller if smaller > third else third
        ahead = larger > f
        lesser = f if ahead else larger
        lesser = lesser if lesser > smaller else smaller
        second[j] = lesser if lesser > s else s
        first[j] = larger if ahead else f
        winner[j] = of if ahead else w
