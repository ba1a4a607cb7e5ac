"""The relative difference of two arms' means, with its interval: ratio of means by the delta method, p by Welch."""

from dataclasses import dataclass

import numpy as np

from disco.records.arrays import Vector
from disco.records.errors import InputError


@dataclass(frozen=True, slots=True)
class Uplift:
    """`relative` = mean(test) / mean(control) − 1, with [lower, upper] at `level`; `p_value` of equal means."""

    relative: float
    lower: float
    upper: float
    p_value: float
    level: float
    test_mean: float
    control_mean: float
    test_rows: int
    control_rows: int


def uplift(test: Vector, control: Vector, *, level: float = 0.95) -> Uplift:
    """Compare a figure per customer between the arms.

    Interval: r ± z·r·√(s²ₜ/(nₜ·mₜ²) + s²_c/(n_c·m_c²)) with r = mₜ/m_c (delta method); p-value: Welch's t-test.

    >>> result = uplift(np.array([2.0, 4.0, 6.0]), np.array([2.0, 2.0, 5.0]))
    >>> round(result.relative, 4), result.lower < 0 < result.upper
    (0.3333, True)
    """
    from scipy.stats import norm, ttest_ind

    test, control = np.asarray(test, np.float64), np.asarray(control, np.float64)
    for name, arm in (("test", test), ("control", control)):
        if arm.ndim != 1 or arm.size < 2:
            raise InputError(f"{name} arm", found=f"{arm.size} customers", expected="at least two")
        if not np.isfinite(arm).all():
            raise InputError(f"{name} arm", found="NaN or infinite figures", expected="finite figures")
    mean_test, mean_control = float(test.mean()), float(control.mean())
    if mean_control <= 0:
        raise InputError(
            "control mean", found=mean_control, expected="a positive mean, else a relative uplift means nothing"
        )
    error_test, error_control = (float(arm.std(ddof=1) / np.sqrt(arm.size)) for arm in (test, control))
    ratio = mean_test / mean_control
    spread = float(np.hypot(error_test / mean_control, ratio * error_control / mean_control))
    half = float(norm.ppf(0.5 + level / 2)) * spread
    p_value = float(ttest_ind(test, control, equal_var=False).pvalue) if error_test or error_control else 1.0
    return Uplift(
        ratio - 1, ratio - 1 - half, ratio - 1 + half, p_value, level, mean_test, mean_control, test.size, control.size
    )
