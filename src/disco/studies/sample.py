"""One figure per simulated retailer, or per repeat of a run, and what they come to together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from disco.records.estimate import Estimate

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Sample:
    """The mean of some figures with a 95% interval for it (Student's t)."""

    mean: float
    half_width: float | None  # of the interval; None for a single figure
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Sample":
        """
        >>> Sample.of([1.0, 2.0, 3.0]).half_width.__round__(3)
        2.484
        """
        numbers = np.asarray(values, np.float64)
        if numbers.size < 2:
            return cls(float(numbers.mean()), None, tuple(values))
        error = float(numbers.std(ddof=1)) / np.sqrt(numbers.size)
        return cls(float(numbers.mean()), float(t.ppf(0.5 + LEVEL / 2, numbers.size - 1) * error), tuple(values))

    def minus(self, other: "Sample") -> "Sample":
        """Figure by figure: what is common to a retailer cancels."""
        return Sample.of([ours - theirs for ours, theirs in zip(self.values, other.values, strict=True)])

    @property
    def is_clear(self) -> bool:
        """Whether the interval lies on one side of 0; never for a single figure."""
        return self.half_width is not None and abs(self.mean) > self.half_width

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends; for a single figure, the figure itself twice."""
        half = self.half_width or 0.0
        return self.mean - half, self.mean + half

    def estimate(self, *, share: bool = False) -> Estimate:
        """Mean and interval; that of a share ends at 0 and 1.

        >>> Sample.of([0.5, 0.9]).estimate(share=True).ends
        (0.0, 1.0)
        """
        if self.half_width is None:
            return Estimate(self.mean)
        low, high = self.interval
        return Estimate(self.mean, max(low, 0.0) if share else low, min(high, 1.0) if share else high, LEVEL)
