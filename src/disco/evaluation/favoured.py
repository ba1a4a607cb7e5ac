"""Does one group of customers get more than all others? One figure per customer, such as the depth of their code.

With m groups, each is compared with all others by the difference of means, d = ȳ_g − ȳ_rest. The error is the larger of
Welch's, which lets groups vary differently, and that of one law for all customers, which also knows a spread where a
small group shows none. All m intervals hold together with the level asked for (Bonferroni): a gap is claimed where an
interval leaves out 0, so where there is none, one is claimed in at most 1 − level of all cases, whatever m is.
"""

from dataclasses import dataclass

import numpy as np

from disco.evaluation.added import LEAST_HELD, difference
from disco.evaluation.estimates import error_of_sum, estimate_around, mean_estimate
from disco.records.arrays import Flags, Integers, Vector
from disco.records.estimate import LEVEL, Estimate

LEAST_CUSTOMERS = LEAST_HELD
"""Of a group, and of all others, below which nothing is said about it."""
JOINT_LEVEL = 0.95
"""With which all gaps of a column hold together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigure:
    """One figure of a group."""

    mean: Estimate
    """Per customer of the group, with its 90% interval; without one where the group is too small."""
    gap: Estimate | None
    """The mean less that of all others; its interval holds together with those of the column's other values, at 95%.
    Null where the group is too small."""

    @property
    def differs(self) -> bool:
        """Whether the group gets more or less than all others, by more than chance."""
        return self.gap is not None and not self.gap.covers(0.0)


def group_figures(figures: Vector, group: Integers, *, count: int, level: float = JOINT_LEVEL) -> list[GroupFigure]:
    """One figure per customer (n,), and which of `count` groups each belongs to (n,).

    >>> rng = np.random.default_rng(1)
    >>> group = np.arange(3000) % 3
    >>> found = group_figures(rng.normal(5.0, 1.0, 3000) + (group == 2), group, count=3)
    >>> [one.differs for one in found], found[2].gap.covers(1.0)
    ([True, True, True], True)
    """
    members = [np.asarray(group == number, np.bool_) for number in range(count)]
    usable = [min(int(rows.sum()), int((~rows).sum())) >= LEAST_CUSTOMERS for rows in members]
    compared = sum(usable) - (count == 2 and all(usable))  # two groups have one difference
    return [
        _figure(figures, rows, level=1 - (1 - level) / compared)
        if fits
        else GroupFigure(mean=Estimate(float(figures[rows].mean()) if rows.any() else 0.0), gap=None)
        for rows, fits in zip(members, usable, strict=True)
    ]


def _figure(figures: Vector, rows: Flags, *, level: float) -> GroupFigure:
    # no difference changes by a shift, and figures that are all alike differ by nothing, not even by rounding
    apart = figures - figures[0]
    value, terms = difference(apart, rows)  # of those outside, less those inside
    error, freedom = error_of_sum(terms)
    sizes = 1 / int(rows.sum()) + 1 / int((~rows).sum())
    error = max(error, float(apart.std(ddof=1)) * float(np.sqrt(sizes)))
    gap = estimate_around(-value, error, level=level, freedom=freedom)
    return GroupFigure(mean=mean_estimate(figures[rows], level=LEVEL), gap=gap)
