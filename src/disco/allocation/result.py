"""What a solve returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from disco.records.arrays import Ids, Integers, Vector
from disco.records.depths import depth_label
from disco.records.errors import InfeasibleError, InputError, MissingPartError
from disco.records.identity import read_ids

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


# The relative gap up to which a value is called optimal. Value and bound are exact sums that are rounded once, but each
# term of what is left on the table is a difference of floats: sums of these can show no less.
PROVED = 1e-12


class Status(StrEnum):
    """How a solve ended; `meaning` says it in words."""

    OPTIMAL = "OPTIMAL"
    WITHIN_GAP = "WITHIN_GAP"
    INFEASIBLE = "INFEASIBLE"

    @property
    def meaning(self) -> str:
        """
        >>> Status.OPTIMAL.meaning
        'Proved optimal: the relative gap is at most 1e-12.'
        """
        return {
            "OPTIMAL": f"Proved optimal: the relative gap is at most {PROVED:g}.",
            "WITHIN_GAP": "Integral and feasible; the possible loss is bound - value.",
            "INFEASIBLE": "No allocation meets all limits; see `conflicts`.",
        }[self.value]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Limits that cannot all hold."""

    limits: tuple[str, ...]  # their names
    found: str  # what they ask for together
    change: str | None  # the smallest change of one of them that would do; None: no single one does

    def __str__(self) -> str:
        advice = f" {self.change}." if self.change else " No change of one limit alone would do."
        return f"{' and '.join(self.limits)}: {self.found}.{advice}"


@dataclass(frozen=True, slots=True, repr=False)
class Allocation:
    """One depth or none per customer, and the proof of how good that is."""

    choice: Integers  # (customers,) column of `values`, -1 = none
    value: float  # Σ values[i, choice[i]]
    bound: float  # no allocation within the limits exceeds it
    gap: float  # (bound - value) / max(|bound|, |value|); at most `PROVED` where the status is OPTIMAL
    prices: Vector  # (depths,) what one more code of a depth would add; negative where a floor costs
    counts: Integers  # (depths,) customers per depth
    status: Status
    conflicts: tuple[Conflict, ...] = ()  # where the status is INFEASIBLE: why
    segment_prices: Vector | None = None  # (segments, depths) on top of `prices`
    segment_labels: tuple[object, ...] = ()  # (segments,) the rows of `segment_prices`
    budget_price: float | None = None  # what one more unit of budget would add
    cost: float | None = None  # Σ costs[i, choice[i]]
    depths: tuple[float, ...] | None = None  # (depths,) where they were named
    ids: Ids | None = None  # (customers,) where they were given
    seconds: float = 0.0  # of the solve
    check_seconds: float = 0.0  # of its independent check

    def __repr__(self) -> str:
        """
        >>> from disco.allocation import allocate
        >>> allocate([[3.0, 5.0], [2.0, 9.0], [4.0, 4.5]], {0.1: 2, 0.2: 1}, depths=[0.1, 0.2])
        Allocation(OPTIMAL, value 16, gap 0, 3 of 3 customers: 2 at 0.1, 1 at 0.2)
        """
        if self.status is Status.INFEASIBLE:
            return f"Allocation(INFEASIBLE, {'; '.join(str(conflict) for conflict in self.conflicts)})"
        names = [f"column {column}" for column in range(self.counts.size)]
        if self.depths is not None:
            names = [depth_label(depth) for depth in self.depths]
        counts = ", ".join(f"{count:,} at {name}" for count, name in zip(self.counts.tolist(), names, strict=True))
        given = f"{int(self.counts.sum()):,} of {self.choice.size:,} customers: {counts}"
        return f"Allocation({self.status.name}, value {self.value:.10g}, gap {self.gap:.2g}, {given})"

    def to_pandas(self, *, ids: ArrayLike | None = None) -> pd.DataFrame:
        """One row per customer, in the order of `values`: the column chosen, and the depth where depths were named.

        ids: (customers,) to be put in front as `customer_id`; left out, those that `allocate` was given.
        """
        known = self.ids if ids is None else read_ids(ids)
        if known is not None and known.size != self.choice.size:
            expected = f"one for each of {self.choice.size:,} customers"
            raise InputError("ids", found=f"{known.size:,} ids", expected=expected)
        try:
            import pandas as pd
        except ImportError:
            raise MissingPartError(
                "to_pandas", found="no pandas", expected="the library pandas", fix="Install it: pip install pandas."
            ) from None
        table = pd.DataFrame({"choice": self.choice})
        if self.depths is not None:
            table["depth"] = np.append(self.depths, np.nan)[self.choice]
        if known is not None:
            table.insert(0, "customer_id", known)
        return table

    def to_arrow(self) -> pa.Table:
        """As `to_pandas`, as an Arrow table; a depth is null where there is none."""
        import pyarrow as pa

        columns: dict[str, Any] = {} if self.ids is None else {"customer_id": self.ids}
        columns["choice"] = self.choice
        if self.depths is not None:
            columns["depth"] = pa.array(np.append(self.depths, np.nan)[self.choice], mask=self.choice < 0)
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for other libraries, such as `polars.DataFrame(allocation)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def require_feasible(self, *, where: str) -> None:
        """Raise InfeasibleError with the conflicts where the limits contradict each other; `where` names the solve."""
        if self.status is Status.INFEASIBLE:
            raise InfeasibleError(
                f"{where}: the limits contradict each other",
                conflicts=[str(conflict) for conflict in self.conflicts],
                fix="Change one of the limits named above.",
            )


def relative_gap(value: float, bound: float) -> float:
    """(bound - value) / max(|bound|, |value|), never negative.

    >>> relative_gap(0.0, 0.0), relative_gap(3.0, 4.0)
    (0.0, 0.25)
    """
    if bound <= value:
        return 0.0
    return (bound - value) / max(abs(bound), abs(value))
