"""A root of a function of one variable, without loading SciPy's optimisers, which takes longer than a read-out."""

import math
from collections.abc import Callable

from disco.records.errors import InputError

_STEPS = 100  # Brent's method takes a few dozen at most
_RELATIVE = 4 * 2.0**-52


def root_between(
    function: Callable[[float], float],
    lower: float,
    upper: float,
    *,
    absolute: float = 2e-12,
    relative: float = _RELATIVE,
) -> float:
    """x in [lower, upper] with function(x) = 0, by Brent's method; the function has another sign at either end.

    The steps are those of `scipy.optimize.brentq`, so the bits of a root are the same. It ends where the root is known
    within `absolute` + `relative`·|x|.

    >>> round(root_between(lambda x: x * x - 2, 0.0, 2.0), 12)
    1.414213562373
    """
    before, here = float(lower), float(upper)
    f_before, f_here = float(function(before)), float(function(here))
    if f_before == 0 or f_here == 0:
        return before if f_before == 0 else here
    if not math.copysign(1, f_before) * math.copysign(1, f_here) < 0:
        found = f"the values {f_before:g} and {f_here:g} at {before:g} and {here:g}"
        raise InputError("root", found=found, expected="values of different signs")
    other = f_other = step_before = step = 0.0
    for _ in range(_STEPS):
        if f_before != 0 and f_here != 0 and math.copysign(1, f_before) != math.copysign(1, f_here):
            other, f_other = before, f_before
            step_before = step = here - before
        if abs(f_other) < abs(f_here):
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        delta = (absolute + relative * abs(here)) / 2
        half = (other - here) / 2
        if f_here == 0 or abs(half) < delta:
            return here
        tried = math.inf
        if abs(step_before) > delta and abs(f_here) < abs(f_before):
            if before == other:  # the secant
                tried = -f_here * (here - before) / (f_here - f_before)
            else:  # inverse quadratic interpolation
                slope = (f_before - f_here) / (before - here)
                across = (f_other - f_here) / (other - here)
                tried = -f_here * (f_other * across - f_before * slope) / (across * slope * (f_other - f_before))
        if 2 * abs(tried) < min(abs(step_before), 3 * abs(half) - delta):
            step_before, step = step, tried
        else:  # bisection
            step_before = step = half
        before, f_before = here, f_here
        here += step if abs(step) > delta else math.copysign(delta, half)
        f_here = float(function(here))
    return here
