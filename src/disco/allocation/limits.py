"""Caps, floors, segments and a budget, read once into arrays, and the tree of places that they form.

`UNLIMITED` stands for "no cap".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from disco.records.arguments import read_number, read_percent
from disco.records.arrays import Array, Integers
from disco.records.decisions import Audience, Offer
from disco.records.depths import depth_label, read_depth
from disco.records.errors import InputError, LimitError

# More than any number of customers, small enough that sums of it stay exact.
UNLIMITED = 2**40

#: One limit for every column, one per column (None: no limit), or {depth: limit} where depths are named. A limit is a
#: number of customers, or a share of them such as "40%". A pandas Series is read by its index where that holds depths,
#: else in order.
CountsLike: TypeAlias = (
    int | str | Sequence[int | str | None] | NDArray[np.integer[Any]] | Mapping[Any, int | str | None]
)
SegmentLimits: TypeAlias = Mapping[Any, Mapping[str, CountsLike | None]]


@dataclass(frozen=True, slots=True)
class Segments:
    """One partition of the customers with limits of its own, on top of those for everybody."""

    of_customer: ArrayLike  # (customers,) label of each customer
    limits: SegmentLimits  # {label: {"caps": …, "floors": …}}, each as in `allocate`; other labels have none

    @classmethod
    def of(cls, audience: Audience, offer: Offer) -> Segments | None:
        """Those of an offer; labels that no customer of the audience has are left out."""
        if offer.segments is None or audience.segment is None:
            return None
        there = set(audience.segment.tolist())
        limits = {label: {"caps": one.caps, "floors": one.floors} for label, one in offer.segments.items()}
        return cls(audience.segment, {label: one for label, one in limits.items() if label in there})


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits as arrays of numbers of customers."""

    caps: Integers  # (depths,)
    floors: Integers  # (depths,)
    segment_caps: Integers | None = None  # (segments, depths)
    segment_floors: Integers | None = None  # (segments, depths)
    segment: Integers | None = None  # (customers,) row of their segment in the two above
    segment_labels: tuple[object, ...] = ()
    budget: float | None = None  # money

    def part(self, share: float) -> Limits:
        """The limits of some customers who are this share of all, rounded so that no floor asks more than its cap.

        Who they are, and so their segments, is said where they become a problem (`AllocationProblem.of`).
        """
        caps, floors = scaled(self.caps, self.floors, share)
        budget = None if self.budget is None else self.budget * share
        if self.segment_caps is None or self.segment_floors is None:
            return Limits(caps, floors, budget=budget)
        segment_caps, segment_floors = scaled(self.segment_caps, self.segment_floors, share)
        return Limits(caps, floors, segment_caps, segment_floors, None, self.segment_labels, budget)

    def left_by(self, counts: Integers, *, budget: float | None) -> Limits:
        """What is left to the others once some customers have their places: a cap below 0 is one that these break.

        counts: (groups, depths) of those who have theirs. As in `part`, the others' segments are said later.
        budget: what is left of it.
        """
        caps, floors = _lowered(self.caps, self.floors, counts.sum(axis=0))
        if self.segment_caps is None or self.segment_floors is None:
            return Limits(caps, floors, budget=budget)
        segment_caps, segment_floors = _lowered(self.segment_caps, self.segment_floors, counts)
        return Limits(caps, floors, segment_caps, segment_floors, None, self.segment_labels, budget)

    @property
    def groups(self) -> int:
        """How many segments are told apart, with that of all others."""
        return 1 if self.segment_caps is None else int(self.segment_caps.shape[0])

    @property
    def has_floors(self) -> bool:
        if self.floors.any():
            return True
        return self.segment_floors is not None and bool(self.segment_floors.any())

    @property
    def contradict(self) -> bool:
        """Whether a floor is above its own cap, so that no customers at all could meet both."""
        if (self.floors > self.caps).any():
            return True
        if self.segment_floors is None or self.segment_caps is None:
            return False
        return bool((self.segment_floors > self.segment_caps).any())


def _lowered(caps: Integers, floors: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Caps and floors for the others, once so many customers are counted towards both."""
    return np.where(caps >= UNLIMITED, caps, caps - counts), np.maximum(floors - counts, 0)


def scaled(caps: Integers, floors: Integers, share: float) -> tuple[Integers, Integers]:
    high = np.where(caps >= UNLIMITED, UNLIMITED, np.maximum(np.rint(caps * share), caps > 0)).astype(np.int64)
    return high, np.minimum(np.floor(floors * share), high).astype(np.int64)


def _whole_number(number: object, *, where: str, shares_of: int | None = None) -> int:
    number = number.item() if isinstance(number, np.generic) else number  # as people write it
    if shares_of is not None and isinstance(number, str) and isinstance(share := read_percent(number), float):
        if share > 1:
            raise LimitError(where, found=repr(number), expected="a share of at most 100%")
        return int(shares_of * share + 1e-9)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise LimitError(where, found=repr(number), expected="a whole number of customers, at least 0")
    if not math.isfinite(number) or number != int(number) or number < 0:
        raise LimitError(where, found=number, expected="a whole number of customers, at least 0")
    return min(int(number), UNLIMITED)


def read_counts(
    given: object,
    *,
    columns: int,
    depths: tuple[float, ...] | None,
    name: str,
    default: int,
    where: str = "",
    shares_of: int | None = None,
) -> Integers:
    """One integer per column, from one for all, a sequence or a mapping by depth; None or missing is `default`.

    shares_of: how many customers a share such as "40%" is of, rounded down; None: shares are refused.

    >>> read_counts([3, None], columns=2, depths=None, name="cap", default=9).tolist()
    [3, 9]
    >>> read_counts({"0.10": 3}, columns=2, depths=(0.1, 0.2), name="cap", default=9).tolist()
    [3, 9]
    """
    if type(given) is np.ndarray and given.dtype == np.int64 and given.shape == (columns,) and given.min() >= 0:
        return np.minimum(given, UNLIMITED)  # the fast door for callers in a loop
    counts = np.full(columns, default, np.int64)
    if given is None:
        return counts
    given = _without_pandas(given)
    if isinstance(given, Mapping):
        if depths is None:
            raise LimitError(
                f"{name}s{where}", found="a mapping by depth", expected="`depths`, or one number per column"
            )
        seen: set[float] = set()
        for key, number in given.items():
            depth = read_depth(key, where=f"{name}s{where}")
            if depth in seen:
                raise LimitError(f"{name}s{where}", found=f"depth {depth_label(depth)} twice", expected="each once")
            seen.add(depth)
            if depth not in depths:
                known = ", ".join(depth_label(known) for known in depths)
                raise LimitError(f"{name}s{where}", found=f"depth {depth_label(depth)}", expected=f"one of {known}")
            if number is not None:
                counts[depths.index(depth)] = _whole_number(
                    number, where=f"{name} of depth {depth_label(depth)}{where}", shares_of=shares_of
                )
        return counts
    if isinstance(given, str | Real):  # one for all
        return np.full(columns, _whole_number(given, where=f"{name}s{where}", shares_of=shares_of))
    if not isinstance(given, Sequence | np.ndarray):
        raise LimitError(f"{name}s{where}", found=repr(given), expected=f"{columns} numbers, one per column")
    if len(given) != columns:
        found = "1 number" if len(given) == 1 else f"{len(given)} numbers"
        raise LimitError(f"{name}s{where}", found=found, expected=f"{columns}, one per column")
    for column, number in enumerate(given):
        if number is not None:
            counts[column] = _whole_number(number, where=f"{name} of column {column}{where}", shares_of=shares_of)
    return counts


def _without_pandas(given: object) -> object:
    """A Series as a mapping by its index, or as a list where the index only counts the rows; anything else as it is."""
    index, to_dict = getattr(given, "index", None), getattr(given, "to_dict", None)
    if to_dict is None or index is None:
        return given
    limits = {key: None if number != number else number for key, number in to_dict().items()}  # NaN: no limit
    return list(limits.values()) if list(limits) == list(range(len(limits))) else limits


def quoted_label(label: object) -> str:
    """The label of a segment, as messages write it.

    >>> quoted_label("GB"), quoted_label(np.str_("GB")), quoted_label(np.int64(3))
    ("'GB'", "'GB'", '3')
    """
    return repr(label.item() if isinstance(label, np.generic) else label)


def column_name(column: int, depths: tuple[float, ...] | None) -> str:
    return f"column {column}" if depths is None else f"depth {depth_label(depths[column])}"


def read_limits(
    caps: object,
    *,
    floors: object,
    segments: object,
    budget: object,
    customers: int,
    columns: int,
    depths: tuple[float, ...] | None,
    shares_of: int | None = None,
) -> Limits:
    """Limits as arrays; LimitError names what cannot be read. shares_of: as for `read_counts`."""
    cap = read_counts(caps, columns=columns, depths=depths, name="cap", default=UNLIMITED, shares_of=shares_of)
    floor = read_counts(floors, columns=columns, depths=depths, name="floor", default=0, shares_of=shares_of)
    money = None if budget is None else _read_budget(budget)
    if segments is None:
        return Limits(cap, floor, budget=money)
    segment, labels, segment_caps, segment_floors = _read_segments(
        segments, customers=customers, columns=columns, depths=depths
    )
    if segment_caps.shape[0] == 1:  # no segment has limits: everybody is in the unlimited rest
        return Limits(cap, floor, budget=money)
    return Limits(cap, floor, segment_caps, segment_floors, segment, labels, money)


def _read_budget(budget: object) -> float:
    try:
        return read_number(budget, where="budget", expected="a finite amount of money, at least 0", least=0.0)
    except InputError as error:
        raise LimitError(error.what, found=error.found, expected=error.expected) from None


def _read_segments(
    segments: object, *, customers: int, columns: int, depths: tuple[float, ...] | None
) -> tuple[Integers, tuple[object, ...], Integers, Integers]:
    if isinstance(segments, Segments):
        labels, given = segments.of_customer, segments.limits
    elif isinstance(segments, tuple) and len(segments) == 2 and isinstance(segments[1], Mapping):
        labels, given = segments
    else:
        raise LimitError("segments", found=type(segments).__name__, expected="disco.Segments(of_customer, limits)")
    of_customer = np.asarray(labels)
    if of_customer.shape != (customers,):
        raise LimitError(
            "segments",
            found=f"labels of shape {of_customer.shape}",
            expected=f"one label for each of {customers} customers",
        )
    if not isinstance(given, Mapping):
        raise LimitError("segments", found=type(given).__name__, expected='{label: {"caps": …, "floors": …}}')
    present = of_customer.tolist()
    if of_customer.dtype.kind == "O" and set(map(type, present)) != {str}:  # 1 and True are equal, "1" and "True" not
        present = [str(label) for label in present]
    there = set(present)
    names = {str(label) for label in there}
    unknown = sorted(str(label) for label in given if str(label) not in names)
    if unknown and customers:
        raise LimitError(
            "segments",
            found=f"limits for {unknown[0]!r}",
            expected="labels that some customer has",
            fix="Labels are compared as text: write them as the column has them, in quotes.",
        )
    order = sorted(given, key=str)
    row_of = {str(label): row for row, label in enumerate(order)}
    rows = len(order)
    if len(row_of) < rows:
        texts = [str(label) for label in order]
        twice = next(one for one, other in pairwise(texts) if one == other)
        raise LimitError(
            "segments",
            found=f"limits for two labels that read {twice!r}",
            expected="each label once",
            fix="Labels are compared as text, so that 1 and '1' are one segment: give its limits once.",
        )
    rest = rows  # customers of segments without limits share one unlimited row
    rows_there = {label: row_of.get(str(label), rest) for label in there}
    segment = np.fromiter(map(rows_there.__getitem__, present), np.int64, customers)
    segment_caps = np.full((rows + 1, columns), UNLIMITED, np.int64)
    segment_floors = np.zeros((rows + 1, columns), np.int64)
    for row, label in enumerate(order):
        where = f" in segment {quoted_label(label)}"
        spec = given[label]
        if not isinstance(spec, Mapping) or not set(spec) <= {"caps", "floors"}:
            raise LimitError(f"segment {quoted_label(label)}", found=repr(spec), expected='{"caps": …, "floors": …}')
        caps, floors = spec.get("caps"), spec.get("floors")
        segment_caps[row] = read_counts(
            caps, columns=columns, depths=depths, name="cap", default=UNLIMITED, where=where
        )
        segment_floors[row] = read_counts(floors, columns=columns, depths=depths, name="floor", default=0, where=where)
    return segment, (*order, "(other)"), segment_caps, segment_floors


@dataclass(frozen=True, slots=True)
class Tree:
    """Limits as a tree: node 0 is "no code", node 1 + k depth k; with segments each (segment, depth) is a leaf."""

    leaf: Array  # (groups, depths) node of each place
    parent: Array  # (nodes,)
    low: Array  # (nodes,) least number of customers below a node
    high: Array  # (nodes,) largest number

    @property
    def nodes(self) -> int:
        return int(self.parent.size)

    def below(self, counts: Array) -> Array:
        """(nodes,) customers below each node, 0 for the root; counts: (groups, depths) customers at each place."""
        below = np.zeros(self.nodes, counts.dtype)
        below[1 : counts.shape[1] + 1] = counts.sum(axis=0)
        below[self.leaf] = counts
        return below

    def summed(self, prices: Array) -> Array:
        """(nodes,) what a customer below each node pays: its own price and that of the depth above it."""
        summed = prices.copy()
        summed[1:] += np.where(self.parent[1:] > 0, prices[self.parent[1:]], 0.0)  # two levels at most
        return summed

    def left_after(self, counts: Array, low: Array | None = None, high: Array | None = None) -> tuple[Array, Array]:
        """low and high after `counts` (groups, depths) customers have taken their places.

        As they come: a floor that is met is below 0, which asks for nothing, a cap below 0 is one that these break, and
        what was unlimited stays far above any number of customers.
        """
        taken = self.below(counts)
        return (self.low if low is None else low) - taken, (self.high if high is None else high) - taken


def tree_of(limits: Limits) -> Tree:
    """
    >>> caps, floors = np.array([3, 4]), np.array([0, 1])
    >>> tree_of(Limits(caps, floors)).leaf.tolist()
    [[1, 2]]
    """
    columns = limits.caps.size
    if limits.segment_caps is None or limits.segment_floors is None:
        parent = np.zeros(columns + 1, np.int64)
        parent[0] = -1
        leaf = np.arange(1, columns + 1)[None, :]
        return Tree(leaf, parent, _with_root(limits.floors, 0), _with_root(limits.caps, 2**50))
    groups = limits.segment_caps.shape[0]
    leaf = np.arange(columns + 1, columns + 1 + groups * columns).reshape(groups, columns)
    parent = np.concatenate([[-1], np.zeros(columns, np.int64), np.tile(np.arange(1, columns + 1), groups)])
    low = _with_root(np.concatenate([limits.floors, limits.segment_floors.ravel()]), 0)
    high = _with_root(np.concatenate([limits.caps, limits.segment_caps.ravel()]), 2**50)
    return Tree(leaf, parent, low, high)


def _with_root(limits: Array, root: int) -> Array:
    with_root = np.empty(limits.size + 1, np.int64)
    with_root[0] = root
    with_root[1:] = limits
    return with_root
