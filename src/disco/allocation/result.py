"""What a solve returns."""

from dataclasses import dataclass
from enum import StrEnum

from disco.records.arrays import Integers, Vector
from disco.records.errors import InfeasibleError


class Status(StrEnum):
    """How a solve ended; `meaning` says it in words."""

    OPTIMAL = "OPTIMAL"
    WITHIN_GAP = "WITHIN_GAP"
    INFEASIBLE = "INFEASIBLE"

    @property
    def meaning(self) -> str:
        """
        >>> Status.OPTIMAL.meaning
        'Proved optimal: value equals bound.'
        """
        return {
            "OPTIMAL": "Proved optimal: value equals bound.",
            "WITHIN_GAP": "Integral and feasible; the possible loss is bound - value.",
            "INFEASIBLE": "No allocation meets all limits; see `conflicts`.",
        }[self.value]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Limits that cannot all hold, and the smallest change of one of them that would do (None: no single one does)."""

    limits: tuple[str, ...]
    found: str
    change: str | None

    def __str__(self) -> str:
        advice = f" {self.change}." if self.change else " No change of one limit alone would do."
        return f"{' and '.join(self.limits)}: {self.found}.{advice}"


@dataclass(frozen=True, slots=True)
class Allocation:
    """One depth or none per customer, and the proof of how good that is.

    choice: (customers,) column of `values`, -1 = none · value: Σ values[i, choice[i]] · bound: no allocation within the
    limits exceeds it · gap: (bound - value) / max(|bound|, |value|), 0 when equal · prices: (depths,) what one more
    code of a depth would add; negative where a floor costs · counts: (depths,) customers per depth · segment_prices:
    (segments, depths) on top of `prices`, rows in the order of `segment_labels` · budget_price: value of one more
    unit of budget · cost: Σ costs[i, choice[i]] · seconds: the solve; check_seconds: its independent check.
    """

    choice: Integers
    value: float
    bound: float
    gap: float
    prices: Vector
    counts: Integers
    status: Status
    conflicts: tuple[Conflict, ...] = ()
    segment_prices: Vector | None = None
    segment_labels: tuple[object, ...] = ()
    budget_price: float | None = None
    cost: float | None = None
    seconds: float = 0.0
    check_seconds: float = 0.0

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
