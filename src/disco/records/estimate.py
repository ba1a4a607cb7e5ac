"""The one type for a figure with its interval, from a posterior's draws to an A/B test and a table on a page."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disco.records.errors import InputError

if TYPE_CHECKING:
    from disco.records.arrays import Vector

LEVEL = 0.9  # of the intervals of forecasts, and of what was learned


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval, or alone where no interval is known.

    >>> Estimate(10.0, 8.0, 12.5, level=0.9).covers(12.0)
    True
    """

    value: float
    """The figure itself."""
    lower: float | None = None
    """Lower end of the interval; null where no interval is known, and in JSON where it has no limit on this side."""
    upper: float | None = None
    """Upper end of the interval; null likewise."""
    level: float | None = None
    """Share of the probability between the ends, such as 0.95."""
    standard_error: float | None = None
    """Standard error of `value`, where known."""

    def __post_init__(self) -> None:
        if (self.lower is None) != (self.upper is None):
            raise InputError("estimate", found="one end of an interval", expected="both ends, or none")
        numbers = (self.value, self.lower, self.upper, self.standard_error)
        if any(number is not None and math.isnan(number) for number in numbers):
            raise InputError("estimate", found="NaN", expected="a number")
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise InputError(
                "estimate", found=f"interval {self.lower} to {self.upper}", expected="a lower end not above the upper"
            )

    @classmethod
    def around(cls, value: float, draws: "Vector", *, level: float) -> "Estimate":
        """A value that is known without draws, with the central interval of draws around it, shape (draws,)."""
        import numpy as np

        lower, upper = np.quantile(draws, ((1 - level) / 2, (1 + level) / 2))
        return cls(value, float(lower), float(upper), level)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Lower and upper end, where known."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

    @property
    def bounded(self) -> bool:
        """Whether both ends are known and finite."""
        return self.ends is not None and all(math.isfinite(end) for end in self.ends)

    def covers(self, truth: float) -> bool:
        """Whether `truth` lies between the ends; False without an interval."""
        return self.ends is not None and self.ends[0] <= truth <= self.ends[1]
