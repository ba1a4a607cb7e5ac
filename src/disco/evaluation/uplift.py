"""The relative difference of two arms' means, with its interval: ratio of means by the delta method, p by Welch."""

from dataclasses import dataclass

import numpy as np

from disco.evaluation.comparison import Mean, compare
from disco.evaluation.figures import read_column
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
    test, control = read_column(test, where="test arm"), read_column(control, where="control arm")
    for name, arm in (("test", test), ("control", control)):
        if arm.size < 2:
            raise InputError(f"{name} arm", found=f"{arm.size} customers", expected="at least two")
        if not np.isfinite(arm).all():
            raise InputError(f"{name} arm", found="NaN or infinite figures", expected="finite figures")
    found = compare(Mean.of(test), Mean.of(control), level=level)
    ratio = found.relative
    if ratio is None:
        raise InputError(
            "control mean", found=found.control, expected="a positive mean, else a relative uplift means nothing"
        )
    return Uplift(
        ratio.value, ratio.lower, ratio.upper, found.p_value, level, found.test, found.control, test.size, control.size
    )
