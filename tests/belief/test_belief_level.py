"""A level that moves is followed; one that does not is left alone; and the interval of the next campaign is honest."""

from itertools import product

import numpy as np
import pytest

from disco.belief import level
from disco.belief.calibration import EXPECTED, Backtest, calibrate
from disco.belief.level import STEPS, moving_levels, usual_steps
from disco.belief.movement import MOVES, usual_moves

DEPTHS = [0.1, 0.3]


def seen(place, *ratios, purchases=600.0):
    """A campaign with as many purchases expected at each depth; amounts in baskets."""
    expected = np.full(len(ratios), float(purchases))
    depths = np.asarray(DEPTHS[: len(ratios)])
    return Backtest(depths=depths, expected=expected, actual=expected * np.array(ratios), basket=1.0, place=place)


def next_of(past, at_random=(), depths=DEPTHS):
    return moving_levels(past, at_random, depths, personal=True)[True]


def test_it_is_the_posterior_of_the_linear_model_written_out(monkeypatch):
    """With many purchases, given (q, ω): a Gaussian model, solved here from its independent parts."""
    monkeypatch.setattr(level, "STEPS", np.array([0.05]))
    monkeypatch.setattr(level, "_EDGES", np.array([0.0, 0.1]))
    monkeypatch.setattr(level, "MOVES", np.array([0.0]))
    monkeypatch.setattr(level, "usual_moves", lambda _: np.ones(1))
    usual, logs = EXPECTED[True, True], np.array([0.1, -0.05, 0.3])[:, None] + [0.0, 0.1]
    past = [seen(place, *np.exp(row), purchases=1e8) for place, row in enumerate(logs)]
    # parts: c_1, δ, η_1…η_3, b, d_1, d_2, ε_1…ε_3
    sds = np.array([usual.common, 0.5 * 0.05, 0.05, 0.05, 0.05, 0.03, usual.depth, usual.depth, 0.02, 0.02, 0.02])

    def row(place, column, *, effect):
        walked = [float(place > step) for step in range(3)]
        own = [float(effect and place == campaign) for campaign in range(3)]
        return [1.0, place, *walked, 1.0, float(column == 0), float(column == 1), *own]

    design = np.array([row(place, column, effect=True) for place, column in product(range(3), range(2))]) * sds
    asked = np.array([row(3, column, effect=False) for column in range(2)]) * sds
    gain = asked @ design.T @ np.linalg.inv(design @ design.T + np.diag(np.exp(-logs.ravel()) / 1e8))
    found = next_of(past)
    assert list(found.log_factors.values()) == pytest.approx((gain @ logs.ravel()).tolist(), abs=1e-4)
    covariance = asked @ asked.T - gain @ design @ asked.T
    assert np.asarray(found.log_covariance) - 0.02**2 == pytest.approx(covariance, abs=1e-5)


def test_a_steady_fall_is_followed_with_its_direction():
    ratios = 0.93 ** np.arange(8)
    found = next_of([seen(place, ratio, ratio) for place, ratio in enumerate(ratios[:7])])
    assert found.factors(DEPTHS) == pytest.approx([ratios[7]] * 2, rel=0.06)
    fixed = calibrate(
        [seen(place, ratio, ratio) for place, ratio in enumerate(ratios[1:7])], DEPTHS, decided=True, personal=True
    )
    assert abs(np.log(found.factors([0.1])[0] / ratios[7])) < 0.3 * abs(np.log(fixed.factors([0.1])[0] / ratios[7]))
    assert found.level_step > 0.04


def test_where_nothing_moves_the_level_stays_and_its_steps_become_small():
    first, steady = next_of([]), next_of([seen(place, 1.0, 1.0, purchases=5000) for place in range(9)])
    assert steady.factors(DEPTHS) == pytest.approx([1, 1], abs=0.005)
    assert steady.level_step < 0.5 * first.level_step
    assert steady.log_covariance[0][0] < first.log_covariance[0][0] / 4


def test_codes_of_both_kinds_tell_of_one_level():
    """Random campaigns that fall say what to expect of the first one that a policy decides."""
    falling = [seen(place, 0.9**place, 0.9**place, purchases=5000) for place in range(5)]
    assert next_of([], falling).factors(DEPTHS) == pytest.approx([0.9**5] * 2, rel=0.1)


def test_an_error_of_one_depth_stays_with_it():
    found = next_of([seen(place, 1.0, 1.3, purchases=1e6) for place in range(6)])
    assert found.factors(DEPTHS) == pytest.approx([1.0, 1.3], abs=0.06)


def test_without_a_past_nothing_is_corrected_and_a_shop_with_one_campaign_hardly():
    assert next_of([]).factors(DEPTHS).tolist() == [1.0, 1.0]
    one = next_of([seen(0, 1.2, 1.2)])
    assert 1.0 < one.factors(DEPTHS)[0] < 1.15
    assert next_of([seen(0, 1.0, 1.0)]).log_covariance[0][0] < next_of([]).log_covariance[0][0]


def test_the_order_in_which_campaigns_are_named_does_not_matter():
    past = [seen(place, ratio, 1.0) for place, ratio in enumerate((1.1, 1.3, 0.9))]
    assert next_of(past).factors(DEPTHS) == pytest.approx(next_of(past[::-1]).factors(DEPTHS))


def test_its_interval_covers_what_comes_when_the_world_is_as_it_assumes():
    rng, usual, inside = np.random.default_rng(5), EXPECTED[True, True], 0
    for _ in range(150):
        step, move = rng.choice(STEPS, p=usual_steps()), rng.choice(MOVES, p=usual_moves(0.02))
        walk = np.concatenate([[0], np.cumsum(step * (rng.standard_normal(4) + 0.5 * rng.standard_normal()))])
        line = rng.normal(0, np.hypot(usual.common, 0.03)) + walk + np.hypot(0.02, move) * rng.standard_normal(5)
        rates = np.exp(line[:, None] + rng.normal(0, usual.depth, 2))
        bought = rng.poisson(200 * rates) / 200
        found = next_of([seen(place, *row, purchases=200) for place, row in enumerate(bought[:4])])
        width = 1.645 * np.sqrt(found.log_covariance[1][1] + 1 / 200)  # the fifth has purchases of its own, too
        inside += abs(np.log(bought[4, 1] + 1e-3) - found.log_factors[0.3]) < width
    assert 0.82 < inside / 150 < 0.97  # 3 standard errors
