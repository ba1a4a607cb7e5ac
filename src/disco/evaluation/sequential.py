"""An interval that may be looked at every day: an asymptotic confidence sequence, its estimand always "to date".

While a campaign runs, the sums Σ(y − mean) of an arm behave as a Brownian motion in the time V, their variance so far.
Robbins' normal mixture bounds |S| by √((V + τ)·(2·ln(1/α) + ln(1 + V/τ))) for all V at once with probability ≥ 1 − α,
for any τ fixed in advance (Waudby-Smith et al. 2021 show that estimated variances suffice in the limit). So the usual
quantile, 1.96, is replaced by one that depends on how much of the planned information is there: about 3.0 at the end.
"""

import numpy as np

from disco.evaluation.comparison import Comparison
from disco.evaluation.estimate import Estimate
from disco.evaluation.figures import read_level, read_number


def always_valid_quantile(information: float, *, level: float = 0.95) -> float:
    """q(f) = √((1 + 1/x)·(2·ln(1/α) + ln(1 + x))), x = V/τ = f·x₁, f the share of the planned information seen.

    x₁ = 2·ln(1/α) + ln(2·ln(1/α) + 1) makes the interval tightest at the planned end; the level holds for any f > 0,
    also beyond 1.

    >>> round(always_valid_quantile(1.0), 2), round(always_valid_quantile(0.1), 2)
    (3.04, 3.86)
    """
    seen = read_number(information, where="information", expected="the share of what was planned, above 0", above=0)
    log_odds = 2 * np.log(1 / (1 - read_level(level)))
    x = seen * (log_odds + np.log(log_odds + 1))
    return float(np.sqrt((1 + 1 / x) * (log_odds + np.log1p(x))))


def to_date(found: Comparison, *, information: float, level: float = 0.95) -> Comparison:
    """The same comparison with always-valid intervals; its p-value is the smallest level α at which 0 lies outside.

    Estimand: the difference of what the arms have come to by now, not by the end of the campaign. `information` is
    purchases seen so far over purchases planned: the variance of the sums grows with them.
    """
    q = always_valid_quantile(information, level=level)

    def widened(estimate: Estimate) -> Estimate:
        half = q * estimate.standard_error
        return Estimate(estimate.value, estimate.standard_error, estimate.value - half, estimate.value + half, level)

    return Comparison(
        found.test,
        found.control,
        widened(found.difference),
        None if found.relative is None else widened(found.relative),
        always_valid_p_value(found.difference, information=information, level=level),
    )


def always_valid_p_value(difference: Estimate, *, information: float, level: float) -> float:
    """The α at which the boundary is |z|, τ as planned for `level`: z² = (1 + 1/x)·(2·ln(1/α) + ln(1 + x))."""
    if difference.standard_error == 0:
        return 1.0 if difference.value == 0 else 0.0
    log_odds = 2 * np.log(1 / (1 - level))
    x = information * (log_odds + np.log(log_odds + 1))
    z = difference.value / difference.standard_error
    return float(min(1.0, np.exp((np.log1p(x) - z**2 * x / (1 + x)) / 2)))
