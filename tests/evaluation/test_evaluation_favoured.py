"""A planted gap between groups is found, and an absent one is not claimed."""

import numpy as np
import pytest

from disco.evaluation.favoured import LEAST_CUSTOMERS, group_figures

SIZES = (1500, 400, 80)
DEPTHS = np.array([0.0, 0.1, 0.3])


def drawn(rng, *, favoured=0.0):
    """Depths of three groups; the second gets the deepest code more often by this chance."""
    group = np.repeat(np.arange(3), SIZES)
    figures = rng.choice(DEPTHS, group.size, p=[0.5, 0.3, 0.2])
    lucky = (group == 1) & (rng.random(group.size) < favoured)
    return np.where(lucky, 0.3, figures), group


def test_where_there_is_no_gap_at_most_one_time_in_twenty_one_is_claimed():
    rng = np.random.default_rng(11)
    claimed = sum(any(one.differs for one in group_figures(*drawn(rng), count=3)) for _ in range(400))
    assert claimed <= 30  # 20 expected at most; 30 is 2.3 standard deviations above


def test_a_planted_gap_is_found_and_its_interval_holds():
    rng, favoured = np.random.default_rng(12), 0.15
    truth = favoured * (0.3 - (0.3 * 0.1 + 0.2 * 0.3))  # the same of all others is 0
    found = [group_figures(*drawn(rng, favoured=favoured), count=3)[1] for _ in range(200)]
    assert sum(one.differs for one in found) >= 190
    assert all(one.gap.value > 0 for one in found if one.differs)
    assert sum(one.gap.covers(truth) for one in found) >= 190


def test_a_gap_by_hand():
    figures = np.concatenate([np.full(50, 0.3), np.zeros(50), np.full(100, 0.1)])
    group = np.repeat([0, 1], [100, 100])
    first, second = group_figures(figures, group, count=2)
    assert first.mean.value == pytest.approx(0.15)
    assert first.gap.value == pytest.approx(0.05)
    assert second.gap.value == pytest.approx(-0.05)
    assert second.mean.upper == second.mean.value == pytest.approx(0.1)  # all alike
    assert second.gap.standard_error == pytest.approx(first.gap.standard_error)
    # Welch: √(100/99·(0.0225/100)) of the first alone is below √(s²·2/100) of all
    spread = figures.std(ddof=1)
    assert first.gap.standard_error == pytest.approx(max(np.sqrt(0.0225 / 99), spread * np.sqrt(0.02)), rel=0.02)


def test_a_group_that_is_too_small_is_not_judged():
    figures, group = np.append(np.zeros(500), [0.3] * (LEAST_CUSTOMERS - 1)), np.repeat([0, 1], [500, 29])
    assert [one.gap for one in group_figures(figures, group, count=2)] == [None, None]
    assert group_figures(figures, group, count=2)[1].mean.value == pytest.approx(0.3)


@pytest.mark.parametrize("groups", [2, 3, 7])
def test_nobody_is_favoured_where_all_get_the_same(groups):
    found = group_figures(np.full(1000, 0.1), np.arange(1000) % groups, count=groups)
    assert [one.gap.ends for one in found] == [(0.0, 0.0)] * groups
    assert not any(one.differs for one in found)
