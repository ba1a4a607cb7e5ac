"""Means and ratios with their errors: by hand, against SciPy, by coverage, and with several rows per customer."""

import numpy as np
import pytest
from scipy.stats import binom, kurtosis, sem
from scipy.stats import t as student

from disco.evaluation import Estimate, mean_estimate, ratio_estimate
from disco.evaluation.estimate import error_of_sum, quantile
from disco.records.errors import InputError


def test_ratio_by_hand():
    found = ratio_estimate(np.array([0.0, 30.0, 50.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0]), level=0.9)
    # residuals 0, -10, 10, 0; four customers, of whom two count
    error = np.sqrt(4 / 3 * 200) / 2
    assert found.value == 40
    assert found.standard_error == pytest.approx(error)
    assert found.upper - found.value == pytest.approx(student.ppf(0.95, 1) * error)


def test_a_mean_is_scipys():
    figures = np.random.default_rng(3).gamma(2.0, 7.0, 200)
    found = mean_estimate(figures, level=0.8)
    assert found.value == pytest.approx(figures.mean())
    assert found.standard_error == pytest.approx(sem(figures))
    freedom = 400 / (kurtosis(figures, fisher=False) - 1)
    assert freedom < 199
    assert (found.lower, found.upper) == pytest.approx(student.interval(0.8, freedom, figures.mean(), sem(figures)))


def test_the_spread_of_normal_figures_is_known_as_textbooks_say():
    found = mean_estimate(np.random.default_rng(3).normal(5, 2, 20_000))
    reach = (found.upper - found.value) / found.standard_error
    assert reach == pytest.approx(1.96, abs=0.001)


def test_degrees_of_freedom_are_those_of_the_variance_estimate():
    """By moments: over many samples the mean square varies as a χ² with that many degrees of freedom would."""
    rng = np.random.default_rng(9)
    terms = rng.exponential(1.0, (20_000, 50)) - 1
    squares = (terms**2).mean(axis=1)
    seen = 2 * squares.mean() ** 2 / squares.var()
    assert seen == pytest.approx(2 * 50 / (9 - 1), rel=0.1)  # the exponential's kurtosis is 9
    assert error_of_sum(terms.ravel())[1] == pytest.approx(2 * terms.size / (9 - 1), rel=0.1)


def test_rows_of_one_customer_count_as_one():
    rng = np.random.default_rng(4)
    customer = rng.integers(0, 60, 300)
    numerator, denominator = rng.gamma(2, 3, 300), rng.integers(1, 3, 300).astype(float)
    together = [np.bincount(customer, weights=column, minlength=60) for column in (numerator, denominator)]
    by_row = ratio_estimate(numerator, denominator, customers=customer)
    by_customer = ratio_estimate(*together)
    assert by_row.value == pytest.approx(by_customer.value)
    assert by_row.standard_error == pytest.approx(by_customer.standard_error)


def test_the_interval_of_a_ratio_covers_at_its_rate():
    rng = np.random.default_rng(5)
    runs, covered = 2_000, 0
    for _ in range(runs):
        bought = rng.random(600) < 0.4
        covered += ratio_estimate(bought * rng.gamma(3, 10, 600), bought.astype(float), level=0.9).covers(30.0)
    low, high = binom.ppf([0.0005, 0.9995], runs, 0.9)
    assert low <= covered <= high


def test_one_row_that_counts_says_nothing_about_its_spread():
    found = ratio_estimate(np.array([5.0, 0.0]), np.array([1.0, 0.0]))
    assert found.value == 5
    assert np.isinf(found.standard_error)
    assert found.covers(1e9)


def test_quantiles():
    assert quantile(0.99) == pytest.approx(2.5758293035489004)
    assert quantile(0.9, freedom=4) == pytest.approx(student.ppf(0.95, 4))
    assert Estimate.around(3.0, 2.0, level=0.9, freedom=4).lower == pytest.approx(3 - 2 * student.ppf(0.95, 4))


@pytest.mark.parametrize("level", [0.0, 1.0, 95, np.nan])
def test_a_level_is_a_share(level):
    with pytest.raises(InputError, match="level"):
        quantile(level)


def test_nothing_that_counts_is_refused():
    with pytest.raises(InputError, match="denominator of 0"):
        ratio_estimate(np.ones(3), np.zeros(3))
