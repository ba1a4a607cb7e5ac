"""The independent check of a solve, for a table in chunks: what the customers of a chunk add up to, without rounding.

The formulas are those of `certificate`; no code is shared with any solver. Sums are exact integers
(`records.exact_sums`) that are rounded once, so that value and bound have the same bits however the table is divided.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from disco.allocation.certificate import NOTHING, ROUNDING, AuditTotals, net_of
from disco.allocation.chunk_rows import ID, ChunkRows, Layout
from disco.records.arrays import Array, Integers
from disco.records.compiled import njit
from disco.records.errors import CertificateError
from disco.records.exact_sums import exact_sum, rounded


@njit(nogil=True, cache=True)
def audit(
    values: Array,
    eligible: Array | None,
    costs: Array | None,
    segment: Array | None,
    choice: Array,
    prices: Array,
    budget_price: float,
    budget: float,
    counts: Array,
    worth: Array,
    left: Array,
    paid: Array,
) -> int:
    """Fill what each customer has, leaves on the table at these prices, and costs; counts (groups, depths) grows.

    Returns the first row with an impossible choice; -1: none.
    """
    columns, customers = values.shape
    dearest = np.abs(prices).max()
    best, line = np.zeros(customers), np.empty(customers)
    for k in range(columns):
        net_of(values, eligible, costs, segment, prices, budget_price, budget, k, 0, line)
        for i in range(customers):
            best[i] = line[i] if line[i] > best[i] else best[i]
    for i in range(customers):
        picked = choice[i]
        worth[i] = left[i] = paid[i] = 0.0
        own = 0.0
        if picked < -1 or picked >= columns:
            return i
        if picked >= 0:
            group = 0
            if segment is not None:
                group = segment[i]
            counts[group, picked] += 1
            worth[i] = values[picked, i]
            own = worth[i] - prices[group, picked]
            if costs is not None:
                paid[i] = costs[picked, i]
                if not paid[i] <= budget:
                    return i
                own -= budget_price * paid[i]
            if eligible is not None and not eligible[picked, i]:
                return i
        if best[i] > own:
            size = 0.0
            for k in range(columns):
                size = max(size, abs(np.float64(values[k, i])))
            if best[i] - own > ROUNDING * (size + dearest) + NOTHING:
                left[i] = best[i] - own
    return -1


@dataclass(frozen=True, slots=True)
class Audit:
    """Exact sums of the customers of some chunks, in units of 2⁻¹⁰⁷⁴."""

    value: int
    left: int
    cost: int
    counts: Integers  # (groups, depths)

    def __add__(self, other: "Audit") -> "Audit":
        return Audit(
            self.value + other.value, self.left + other.left, self.cost + other.cost, self.counts + other.counts
        )

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + 3 * 8

    def totals(self, *, costs: bool) -> AuditTotals:
        """Rounded once."""
        return AuditTotals(rounded(self.value), rounded(self.left), rounded(self.cost) if costs else None, self.counts)


@dataclass(frozen=True, slots=True)
class Audited:
    """The chunk function of the check."""

    layout: Layout
    choose: Callable[[ChunkRows], Array]  # everybody's choice
    prices: Array  # (groups, depths)
    budget_price: float
    budget: float  # ∞: none

    def __call__(self, chunk: pa.Table) -> Audit:
        rows = self.layout.read(chunk)
        choice = self.choose(rows)
        counts = np.zeros(self.prices.shape, np.int64)
        worth, left, paid = np.empty((3, rows.size))
        segment = rows.group if self.prices.shape[0] > 1 else None
        wrong = audit(
            rows.values, rows.eligible, rows.costs, segment, choice, self.prices, self.budget_price, self.budget,
            counts, worth, left, paid,
        )  # fmt: skip
        if wrong >= 0:
            raise CertificateError(
                f"choice of customer {chunk[ID][wrong].as_py()}",
                found=int(choice[wrong]),
                expected="an eligible column, or -1",
            )
        return Audit(exact_sum(worth), exact_sum(left), exact_sum(paid), counts)
