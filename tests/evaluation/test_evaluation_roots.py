"""Our root finder takes SciPy's steps: equal bits, so that figures of earlier versions stay."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from disco.evaluation.estimates import root_between
from disco.records.errors import InputError


def test_roots_have_the_bits_of_scipys():
    rng = np.random.default_rng(3)
    for _ in range(300):
        centre, scale, share = rng.normal(0, 3), rng.lognormal(0, 2), rng.uniform(0.001, 0.999)
        functions = (
            lambda x, c=centre, s=scale, p=share: float(ndtr((x - c) / s)) - p,
            lambda x, c=centre, s=scale: math.tanh((x - c) / s) + (x - c) ** 3,
        )
        for function in functions:
            low, high = centre - 40 * scale, centre + 37 * scale
            for absolute, relative in ((2e-12, 4 * 2.0**-52), (1e-15, 1e-12)):
                found = root_between(function, low, high, absolute=absolute, relative=relative)
                assert found == brentq(function, low, high, xtol=absolute, rtol=relative)


def test_a_root_at_an_end_is_found_and_equal_signs_are_refused():
    assert root_between(lambda x: x, 0.0, 2.0) == 0.0
    assert root_between(lambda x: x - 2, 0.0, 2.0) == 2.0
    with pytest.raises(InputError, match="different signs"):
        root_between(lambda x: x * x + 1, -1.0, 2.0)
