"""Leaks planted at 2% of codes are found; mistakes of half a percent raise at most 5% false alarms."""

import numpy as np
import pytest
from scipy.stats import betabinom

from disco.evaluation.leaks import leak_test

DAYS = 14 * 86_400_000_000


def campaign(rng, *, codes=1500, used=0.1, mistaken=0.005, leaked=0.0, burst=False):
    """Times of uses in two weeks, and which are by others: mistakes, and each leaked code once."""
    owners, others = rng.binomial(codes, used), round(codes * leaked)
    at = rng.integers(0, DAYS, owners + others)
    if burst:
        at[owners:] = DAYS // 2 + rng.integers(0, 1_800_000_000, others)
    by_other = np.append(rng.random(owners) < mistaken, np.ones(others, bool))
    order = np.argsort(at, kind="stable")
    return at[order], by_other[order]


@pytest.mark.parametrize("codes", [500, 1500, 20_000])
@pytest.mark.parametrize("known", [False, True])
def test_mistakes_raise_few_alarms_and_leaks_are_found(codes, known):
    rng = np.random.default_rng(codes)

    def found(**more):
        past = [campaign(rng, codes=codes) for _ in range(3)] if known else []
        earlier = sum(int(by.sum()) for _, by in past), sum(by.size for _, by in past)
        return leak_test(*campaign(rng, codes=codes, **more), earlier=earlier).found

    assert sum(found() for _ in range(200)) <= 10
    assert sum(found(leaked=0.02) for _ in range(100)) >= 95


def test_a_burst_is_found_where_the_share_is_usual():
    rng = np.random.default_rng(3)
    past = (60, 1000)  # mistakes are frequent in this shop
    spread = [leak_test(*campaign(rng, leaked=0.007), earlier=past) for _ in range(50)]
    bursts = [leak_test(*campaign(rng, leaked=0.007, burst=True), earlier=past) for _ in range(50)]
    assert sum(one.found for one in spread) <= 3
    assert all(one.found and one.burst_size >= 10 for one in bursts)


def test_the_tail_is_that_of_the_beta_binomial():
    at, by_other = np.arange(40) * DAYS, np.arange(40) < 3
    expected = betabinom.sf(2, 40, 0.5 + 4, 99.5 + 96)
    assert leak_test(at, by_other, earlier=(4, 100)).share_p == pytest.approx(expected, rel=1e-9)
    nothing = leak_test(at, np.zeros(40, bool))
    assert (nothing.share_p, nothing.burst_p, nothing.found) == (1.0, 1.0, False)
