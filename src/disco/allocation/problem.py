"""Everything `allocate` is given, checked once and laid out depth by depth.

All kernels read one layout, so that each is compiled once for float64 and once for float32: (depths, customers),
row by row. That is the memory of an array (customers, depths) in order="F", which is not copied. Any other layout is
copied once, and so are values or costs of float32 where the others are float64.

Costs in whole pennies, and the budget that they can meet.

A penny has no exact float: 0.1 + 0.2 exceeds 0.3 in the last bit, and people who write these numbers mean that it does
not. Where all costs are decimals with few digits, a budget therefore has an allowance: far below a penny, and far above
what sums of floats can differ from the decimals that they stand for.

Costs that are no decimals are compared as floats: their sum, rounded once, must not exceed the budget.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from disco.allocation.limits import CountsLike, Limits, Segments, read_limits
from disco.records.arguments import column_labels
from disco.records.arrays import Array, Flags, Floats, Ids, Integers, Keys
from disco.records.depths import read_depths
from disco.records.errors import InputError, LimitError
from disco.records.frames import without_ids
from disco.records.identity import customer_keys, read_ids, row_keys

# Customers whom kernels look at together, and who are copied at once: long enough for the prefetcher, and 128 KB of
# eight float64 stay in the second-level cache.
BLOCK = 2_048


class TableCells(NamedTuple):
    """What kernels read of some customers. An array of size 0 stands for what there is none of: an argument that may be
    None would be compiled once with it and once without."""

    values: Array  # (depths, customers)
    eligible: Array  # (depths, customers) Booleans; empty: everybody may have everything
    costs: Array  # (depths, customers) of the type of the values; empty: nothing costs anything
    segment: Array  # (customers,); empty: everybody is in the same one


# Every slice of its row is empty.
_NO_FLAGS = np.empty((1, 0), np.bool_)
_NO_SEGMENTS = np.empty(0, np.int64)


class Rows(NamedTuple):
    """Some customers of a table; matrices are depth-major."""

    keys: Keys  # (customers,); empty where no tie is broken
    values: Floats  # (depths, customers), any finite number where not eligible
    eligible: Flags | None  # (depths, customers); None: everybody for every depth
    costs: Floats | None  # (depths, customers)
    group: Integers | None  # (customers,) row of their segment in the limits

    @property
    def size(self) -> int:
        return int(self.values.shape[1])

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self if part is not None)

    def cells(self, *, costs: bool = True, segments: bool = True) -> TableCells:
        """As kernels read them; costs, segments: whether these matter."""
        paid = self.costs if costs else None
        group = self.group if segments else None
        return TableCells(
            self.values,
            _NO_FLAGS if self.eligible is None else self.eligible,
            np.empty((1, 0), self.values.dtype) if paid is None else paid,
            _NO_SEGMENTS if group is None else group,
        )

    @property
    def largest_cost(self) -> float:
        """Of an eligible cell."""
        return largest_of(self.costs, self.eligible)

    def take(self, rows: Array) -> Rows:
        """Some of them, in this order."""
        return Rows(
            self.keys[rows] if self.keys.size else self.keys,
            self.values.take(rows, axis=1),
            None if self.eligible is None else self.eligible.take(rows, axis=1),
            None if self.costs is None else self.costs.take(rows, axis=1),
            None if self.group is None else self.group[rows],
        )

    @staticmethod
    def joined(parts: Iterable[Rows]) -> Rows:
        """Those of several chunks, one after another."""
        some = list(parts)
        flags = None
        if any(part.eligible is not None for part in some):
            flags = np.concatenate(
                [np.ones(part.values.shape, np.bool_) if part.eligible is None else part.eligible for part in some],
                axis=1,
            )
        return Rows(
            np.concatenate([part.keys for part in some]),
            np.concatenate([part.values for part in some], axis=1),
            flags,
            None if some[0].costs is None else np.concatenate([p.costs for p in some if p.costs is not None], axis=1),
            None if some[0].group is None else np.concatenate([p.group for p in some if p.group is not None]),
        )

    def in_order(self) -> Rows:
        """By key: the same whatever chunks they came in."""
        return self.take(np.argsort(self.keys, kind="stable"))


# Choices are 16-bit integers.
_MOST_COLUMNS = 2**15 - 1


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """The arguments of `allocate`, checked; matrices are contiguous, values and costs of one type."""

    values: Floats  # (depths, customers)
    limits: Limits
    eligible: Flags | None = None  # (depths, customers); None: everybody for every depth
    costs: Floats | None = None  # (depths, customers), what the budget pays
    keys: Keys | None = None  # (customers,) hashes of the ids, which break ties; None: of the row numbers
    depths: tuple[float, ...] | None = None  # (depths,) where they were named
    largest_cost: float = 0.0  # of an eligible cell
    ids: Ids | None = None  # (customers,) where they were given
    least_top: float = 0.0  # what `grid_top` is at least without floors: set by cells that are left out of a solve

    def grid_top(self, largest: float, magnitude: float, rate: float) -> float:
        """What sets the grid: the largest value, or with floors, where losses count too, the largest magnitude."""
        return magnitude + rate * self.largest_cost if self.limits.has_floors else max(largest, self.least_top)

    @property
    def rows(self) -> Rows:
        keys = np.empty(0, np.uint64) if self.keys is None else self.keys
        return Rows(keys, self.values, self.eligible, self.costs, self.limits.segment)

    @property
    def customers(self) -> int:
        return int(self.values.shape[1])

    @property
    def columns(self) -> int:
        return int(self.values.shape[0])

    def refuse_unless_finite(self, magnitude: float) -> None:
        """InputError with the first bad row when the largest magnitude seen is no finite number."""
        if not np.isfinite(magnitude):
            refuse_non_finite(self.values, name="values")

    @classmethod
    def of(
        cls,
        rows: Rows,
        limits: Limits,
        depths: tuple[float, ...] | None,
        largest_cost: float,
        *,
        least_top: float = 0.0,
    ) -> AllocationProblem:
        """Of customers who are at hand; limits: without their segments, which the rows know."""
        limits = limits if limits.segment_caps is None else replace(limits, segment=rows.group)
        cells = rows.values, limits, rows.eligible, rows.costs, rows.keys
        return cls(*cells, depths, largest_cost, least_top=least_top)

    def part(self, numbers: Integers) -> AllocationProblem:
        """Some of the customers, with limits and budget in proportion."""
        limits = self.limits.part(numbers.size / self.customers)
        return AllocationProblem.of(self.taken(numbers), limits, self.depths, self.largest_cost)

    def taken(self, numbers: Integers) -> Rows:
        """Some of the customers with their keys."""
        return self.rows._replace(keys=np.empty(0, np.uint64)).take(numbers)._replace(keys=self.keys_of(numbers))

    def keys_of(self, numbers: Integers) -> Keys:
        """The tie-breaking keys of some customers."""
        return row_keys(numbers) if self.keys is None else self.keys[numbers]

    @property
    def all_keys(self) -> Keys:
        return self.keys_of(np.arange(self.customers))


def _depth_major(array: object, *, name: str) -> Floats:
    if isinstance(array, np.ma.MaskedArray) and np.ma.getmaskarray(array).any():
        fix = f"Give {name} without a mask; customers who may not get a depth are marked in `eligible`."
        raise InputError(name, found="an array with masked cells", expected="an array without a mask", fix=fix)
    try:
        matrix = array if type(array) is np.ndarray else np.asarray(array)
    except ValueError:  # rows of several lengths, for example
        found, expected = "what is no array", "an array of shape (customers, depths)"
        raise InputError(name, found=found, expected=expected) from None
    if matrix.ndim != 2:
        raise InputError(name, found=f"an array of shape {matrix.shape}", expected="shape (customers, depths)")
    if matrix.dtype != np.float64 and matrix.dtype != np.float32:
        if matrix.dtype.kind not in "iuf":
            raise _no_numbers(array, matrix, name)
        return by_depth(matrix, np.float64)
    return by_depth(matrix, np.float32 if matrix.dtype == np.float32 else np.float64)


def _no_numbers(table: Any, matrix: Array, name: str) -> InputError:
    """The refusal of cells that are no numbers; of a table, by the columns that they are in."""
    expected, columns = "numbers (float32 or float64)", column_labels(table) or ()
    others = [repr(column) for column in columns if np.asarray(table[column]).dtype.kind not in "iuf"]
    if 0 < len(others) < len(columns):
        fix = "Leave them out, or name the ids `customer_id`; labels of segments go into `segments`."
        return InputError(name, found=f"no numbers in {', '.join(others[:5])}", expected=expected, fix=fix)
    return InputError(name, found=f"values of type {matrix.dtype}", expected=expected)


def by_depth(matrix: NDArray[Any], kind: DTypeLike) -> NDArray[Any]:
    """(customers, depths) as contiguous (depths, customers) of a type; without a copy where it is that already.

    Rows are copied a block at a time, so that a block is read from memory once: NumPy alone goes through all of it
    once per depth.
    """
    view = matrix.T
    if view.dtype == kind and view.dtype.isnative and view.flags.c_contiguous and view.flags.aligned:
        return view
    out = np.empty(view.shape, kind)
    for start in range(0, view.shape[1], BLOCK):
        part = slice(start, start + BLOCK)
        out[:, part] = view[:, part]
    return out


def largest_of(matrix: Floats | None, eligible: Flags | None) -> float:
    """The largest magnitude in an eligible cell."""
    if matrix is None:
        return 0.0
    where: Any = True if eligible is None else eligible
    return max(float(matrix.max(initial=0.0, where=where)), -float(matrix.min(initial=0.0, where=where)))


def refuse_non_finite(matrix: Floats, *, name: str) -> None:
    """Names the first NaN or infinity, by row."""
    bad = ~np.isfinite(matrix)
    row = int(bad.any(axis=0).argmax())
    column = int(bad[:, row].argmax())
    raise InputError(
        f"{name}, row {row + 1}, column {column}",
        found=float(matrix[column, row]),
        expected="a finite number",
        fix="Mark customers who may not get a depth in `eligible` (a null in a file), not with NaN or infinity.",
    )


def _read_keys(array: Ids, *, customers: int) -> Keys:
    if array.size != customers:
        raise InputError("ids", found=f"{array.size} ids", expected=f"one for each of {customers} customers")
    keys = customer_keys(array)
    if array.size > 1 and not (array.dtype.kind == "i" and bool((array[1:] > array[:-1]).all())):
        ordered = np.sort(keys)  # equal ids have equal keys, and keys are sorted faster than texts are compared
        if bool((ordered[1:] == ordered[:-1]).any()):
            _refuse_duplicates(array)
    return keys


def _refuse_duplicates(ids: Ids) -> None:
    if ids.dtype.kind == "i":
        ordered = np.sort(ids)
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if not twice.size:
            return
        example = ordered[twice[0]].item()
    else:
        names = ids.tolist()
        if len(set(names)) == len(names):
            return
        example = next(name for name, times in Counter(names).items() if times > 1)
    rows = (np.flatnonzero(ids == example)[:2] + 1).tolist()
    raise InputError(
        "customer_id",
        found=f"{example!r} more than once (rows {rows[0]} and {rows[1]})",
        expected="each customer once",
        fix="Remove the duplicates: a customer gets one code at most.",
    )


def read_problem(
    values: ArrayLike,
    caps: CountsLike | None = None,
    *,
    depths: Iterable[float | str] | None = None,
    costs: ArrayLike | None = None,
    budget: float | None = None,
    floors: CountsLike | None = None,
    segments: Segments | None = None,
    eligible: ArrayLike | None = None,
    ids: ArrayLike | None = None,
) -> AllocationProblem:
    """Check every argument of `allocate` except that `values` is finite: the solve sees each cell anyway."""
    values, own_ids = without_ids(values)
    ids = agreed_ids(ids, own_ids, where="values")
    costs, cost_ids = without_ids(costs)
    eligible, eligible_ids = without_ids(eligible)
    for name, others in (("costs", cost_ids), ("eligible", eligible_ids)):
        if others is not None:
            agreed_ids(ids, others, where=name)
    worth = _depth_major(values, name="values")
    columns, customers = worth.shape
    if columns == 0:
        raise InputError("values", found="no column", expected="at least one depth")
    if columns > _MOST_COLUMNS:
        raise InputError("values", found=f"{columns:,} columns", expected=f"at most {_MOST_COLUMNS:,} depths")
    if customers == 0:
        raise InputError("values", found="an empty table", expected="at least one customer")
    named = _read_names(values, depths, beside=(("costs", costs), ("eligible", eligible)))
    if named is not None and len(named) != columns:
        raise InputError("depths", found=f"{len(named)} depths", expected=f"{columns}, one per column of values")
    limits = read_limits(
        caps,
        floors=floors,
        segments=segments,
        budget=budget,
        customers=customers,
        columns=columns,
        depths=named,
        shares_of=customers,
    )
    cost, dearest = (None, 0.0) if costs is None else _read_costs(costs, shape=(columns, customers))
    if cost is not None and cost.dtype != worth.dtype:
        worth, cost = worth.astype(np.float64, copy=False), cost.astype(np.float64, copy=False)
    if budget is not None and cost is None:
        raise LimitError("budget", found="a budget without costs", expected="`costs`, of the same shape as values")
    flags = None
    if eligible is not None:
        flags = np.asarray(eligible)
        if flags.dtype != np.bool_ or flags.shape != (customers, columns):
            raise InputError(
                "eligible",
                found=f"{flags.dtype} of shape {flags.shape}",
                expected=f"Booleans of shape {(customers, columns)}",
            )
        flags = by_depth(flags, np.bool_)
    if cost is not None and limits.budget is not None:
        limits = replace(limits, budget=allowed_budget(cost, flags, limits.budget))
    known = None if ids is None else read_ids(ids)
    keys = None if known is None else _read_keys(known, customers=customers)
    largest_cost = dearest if flags is None else largest_of(cost, flags)
    return AllocationProblem(worth, limits, flags, cost, keys, named, largest_cost, known)


def agreed_ids(given: object, own: object, *, where: str) -> Any:
    """The ids as given, or as a table has them; two that differ are refused."""
    if given is None or own is None:
        return own if given is None else given
    if not np.array_equal(read_ids(given), read_ids(own)):
        found, fix = f"other ids in `{where}`", "Sort both by customer, or leave the ids out of one of them."
        raise InputError("customer_id", found=found, expected="the same customers in the same order", fix=fix)
    return given


def _read_names(
    values: object, depths: Iterable[float | str] | None, *, beside: tuple[tuple[str, object], ...]
) -> tuple[float, ...] | None:
    """The depths of the columns, as given or as a table's own labels say; labels that contradict are refused."""
    labels = column_labels(values)
    for name, table in beside:
        other = column_labels(table)
        if labels is not None and other is not None and other != labels:
            found, expected = ", ".join(map(str, other)), ", ".join(map(str, labels))
            raise InputError(f"columns of {name}", found=found, expected=f"those of values: {expected}")
    given = None if depths is None else read_depths(depths)
    if labels is None:
        return given
    try:
        own = read_depths(labels, where="columns of values")
    except InputError as error:
        if given is not None:
            return given
        fix = "Name the columns by their depths, or give `depths`."
        raise InputError("columns of values", found=error.found, expected=error.expected, fix=fix) from None
    if given is not None and given != own:
        raise InputError(
            "depths", found=", ".join(map(str, given)), expected=f"the columns of values: {', '.join(map(str, own))}"
        )
    return own


def _read_costs(costs: object, *, shape: tuple[int, int]) -> tuple[Floats, float]:
    """Costs by depth, and the largest."""
    cost = _depth_major(costs, name="costs")
    if cost.shape != shape:
        raise InputError("costs", found=f"shape {cost.shape[::-1]}", expected=f"the shape of values, {shape[::-1]}")
    least, most = float(cost.min()), float(cost.max())  # NaN where any cost is
    if not (np.isfinite(least) and np.isfinite(most)):
        refuse_non_finite(cost, name="costs")
    if least < 0:
        column, row = np.unravel_index(int(cost.argmin()), cost.shape)
        raise InputError(
            f"costs, row {int(row) + 1}, column {int(column)}", found=least, expected="a cost of at least 0"
        )
    return cost, most


# Decimals that are looked for.
_DIGITS = (0, 1, 2, 3, 4)
# The largest cost or budget: times a power of ten they are exact floats.
_MOST_PENNIES = 2.0**40
# Share of the budget.
_ALLOWANCE = 2.0**-45
# Customers up to whom a table in chunks may be here as a whole.
SEEN_WHOLE = 1 << 17


class Pennies(NamedTuple):
    """How costs are counted, and the largest sum that is within the budget."""

    per_unit: float  # pennies per unit of money, a power of ten
    budget: int

    def counted(self, costs: Array) -> Array:
        """Costs in pennies."""
        numbers: Array = np.rint(costs * self.per_unit).astype(np.int64)
        return numbers

    def after(self, cost: float) -> Pennies:
        """For the others, once this much is spent."""
        return self._replace(budget=self.budget - round(cost * self.per_unit))

    @classmethod
    def of(cls, costs: Array, budget: float) -> Pennies | None:
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
