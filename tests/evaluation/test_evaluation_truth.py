"""Judging a choice by known truth: against plain loops and full enumeration."""

from itertools import permutations

import numpy as np
import pytest

from disco.evaluation.accuracy import judge

DEPTHS = (0.1, 0.3)


def truth(rows=5, seed=4):
    rng = np.random.default_rng(seed)
    return {
        "full_price": rng.uniform(50, 150, (rows, 2)),
        "purchase_probability": rng.uniform(0.1, 0.4, (rows, 2)),
        "depths": DEPTHS,
        "revenue_weight": 3.0,
    }


def worth(choice, known):
    total = 0.0
    for row, column in enumerate(choice):
        if column >= 0:
            depth = DEPTHS[column]
            money = known["full_price"][row, column] * known["purchase_probability"][row, column]
            total += money * (3 * (1 - depth) - depth)
    return total


def test_against_all_ways_to_give_the_same_codes():
    known, choice = truth(), np.array([0, -1, 1, 0, -1])
    every = [worth(way, known) for way in set(permutations(choice.tolist()))]
    result = judge(choice, **known)
    assert result.objective == pytest.approx(worth(choice, known))
    assert result.random_objective == pytest.approx(np.mean(every))
    assert result.oracle_objective == pytest.approx(max(every))
    shuffled = [worth(way, known) for way in ((0, -1, 1, 0, -1), (1, -1, 0, 0, -1), (0, -1, 0, 1, -1))]
    assert result.shuffled_objective == pytest.approx(np.mean(shuffled))
    assert (1 + result.uplift_by_whom) * (1 + result.uplift_by_depth) == pytest.approx(1 + result.objective_uplift)


def test_the_oracle_itself_goes_the_whole_way():
    known = truth()
    best = max(set(permutations([0, 1, -1, -1, 1])), key=lambda way: worth(way, known))
    assert judge(np.array(best), **known).share_of_possible == pytest.approx(1.0)
