"""Sums without rounding: against `math.fsum`, in any order and any division."""

import math

import numpy as np

from disco.records.exact_sums import exact_sum, rounded


def test_the_sum_is_that_of_fsum_over_all_magnitudes():
    rng = np.random.default_rng(0)
    for _ in range(20):
        terms = rng.standard_normal(500) * 10.0 ** rng.integers(-320, 300, 500)
        assert rounded(exact_sum(terms)) == math.fsum(terms)


def test_parts_add_up_to_the_same_integer_in_any_order():
    rng = np.random.default_rng(1)
    terms = rng.standard_normal(1000) * 10.0 ** rng.integers(-20, 20, 1000)
    whole = exact_sum(terms)
    for _ in range(5):
        cuts = np.sort(rng.integers(0, 1000, 7))
        parts = np.split(rng.permutation(terms), cuts)
        assert sum(exact_sum(part) for part in parts) == whole


def test_the_smallest_and_the_largest_numbers_are_exact():
    terms = np.array([5e-324, -5e-324, 5e-324, 1.7e308, -1.7e308, -0.0])
    assert exact_sum(terms) == 1
    assert rounded(exact_sum(terms)) == 5e-324
    assert exact_sum(np.empty(0)) == 0
