"""Uplift between arms: by hand, against SciPy's Welch test, and by coverage over repeated experiments."""

import numpy as np
import pytest
from scipy.stats import binom, ttest_ind

from disco.evaluation import uplift
from disco.records.errors import InputError


def test_by_hand():
    test, control = np.array([3.0, 5.0]), np.array([2.0, 2.0, 5.0])
    result = uplift(test, control, level=0.95)
    assert result.relative == pytest.approx(1 / 3)
    # delta method: sd of the ratio 4/3 with errors 1 of 4 and 1 of 3
    spread = 4 / 3 * np.sqrt((1 / 4) ** 2 + (1 / 3) ** 2)
    assert result.upper - result.lower == pytest.approx(2 * 1.959963984540054 * spread)


def test_the_p_value_is_welchs():
    rng = np.random.default_rng(3)
    test, control = rng.lognormal(1, 1, 300), rng.lognormal(1.1, 0.7, 900)
    assert uplift(test, control).p_value == pytest.approx(ttest_ind(test, control, equal_var=False).pvalue)


def test_the_interval_covers_the_true_ratio_at_its_rate():
    rng = np.random.default_rng(11)
    runs = 2_000
    covered = 0
    for _ in range(runs):
        result = uplift(rng.gamma(4, 2.5, 400), rng.gamma(4, 2.0, 150), level=0.9)
        covered += result.lower <= 0.25 <= result.upper
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.9)
    assert low <= covered <= high


def test_equal_constant_arms_show_no_difference():
    result = uplift(np.full(5, 2.0), np.full(4, 2.0))
    assert (result.relative, result.lower, result.upper, result.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    ("test", "control", "named"),
    [
        ([1.0], [1.0, 2.0], "test arm"),
        ([1.0, 2.0], [np.nan, 2.0], "control arm"),
        ([1.0, 2.0], [0.0, 0.0], "control mean"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused_by_name(test, control, named):
    with pytest.raises(InputError, match=named):
        uplift(np.array(test), np.array(control))
