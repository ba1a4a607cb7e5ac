"""exp, ln and normals made of exactly rounded operations: as accurate as the library's, and truly normal."""

import numpy as np
from scipy import stats

from disco.belief.elementary import customer_words, exponential, exponentials, logarithm, normal_pair
from disco.records.compiled import njit


@njit(error_model="numpy")
def logarithms(values):
    out = np.empty_like(values)
    for place in range(values.size):
        out[place] = logarithm(values[place])
    return out


def pairs(count, *, stream=7, index=0):
    words, first, second = np.empty(count, np.uint64), np.empty(count), np.empty(count)
    customer_words(np.arange(count).astype(np.uint64), 0, count, np.uint64(stream), words)
    normal_pair(words, count, index, first, second)
    return first, second


def test_exponential_is_within_two_units_in_the_last_place():
    x = np.random.default_rng(1).uniform(-40, 40, 200_000)
    expected, found = np.exp(x), x.copy()
    exponentials(found, x.size, 700.0)
    assert (np.abs(found - expected) <= 2 * np.spacing(expected)).all()
    assert exponential(0.0) == 1.0


def test_logarithm_is_within_two_units_in_the_last_place():
    generator = np.random.default_rng(2)
    for values in (np.exp(generator.uniform(-40, 40, 100_000)), generator.uniform(0.5, 2.0, 100_000), np.array([1.0])):
        expected = np.log(values)
        assert (np.abs(logarithms(values) - expected) <= 2 * np.spacing(np.abs(expected))).all()


def test_a_result_does_not_depend_on_its_place_in_the_vector():
    x = np.random.default_rng(3).uniform(-5, 5, 37)
    whole = x.copy()
    exponentials(whole, 37, 700.0)
    assert whole.tolist() == [exponential(value) for value in x]


def test_normals_are_normal():
    first, second = pairs(400_000)
    for z in (first, second):
        assert stats.kstest(z, "norm").pvalue > 1e-4
        assert abs(z.mean()) < 5 / np.sqrt(z.size)
        assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)
        assert abs(stats.kurtosis(z)) < 5 * np.sqrt(24 / z.size)
        assert np.abs(z).max() < 7


def test_normals_are_independent_of_each_other_and_of_other_streams():
    lines = np.array([*pairs(200_000), *pairs(200_000, index=1), *pairs(200_000, stream=8)])
    for moments in (lines, lines**2):
        correlation = np.corrcoef(moments) - np.eye(6)
        assert np.abs(correlation).max() < 5 / np.sqrt(200_000)
    neighbours = np.corrcoef(lines[0][:-1], lines[0][1:])[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(200_000)
