"""Forecasts learn from earlier ones: a steady error is found, its interval is honest, and ignorance stays wide."""

import numpy as np
import pytest

from disco.operations.forecast import Backtest, calibrate

rng = np.random.default_rng(11)


def seen(ratio: float, *, noise_sd: float = 0.04) -> Backtest:
    return Backtest(expected=1000.0, actual=1000.0 * ratio, noise_sd=noise_sd)


def test_one_campaign_by_hand() -> None:
    """Posterior of c with prior N(0, 0.2²) and one observation of variance 0.03² + 0.05²."""
    found = calibrate([seen(1.2, noise_sd=0.03)], decided=True)
    weight, prior = 1 / (0.03**2 + 0.05**2), 1 / 0.2**2
    assert found.log_factor == pytest.approx(weight * np.log(1.2) / (weight + prior))
    assert found.log_sd == pytest.approx(np.sqrt(1 / (weight + prior) + 0.05**2))
    assert found.campaigns == 1


def test_more_campaigns_narrow_it_down_to_the_difference_between_campaigns() -> None:
    widths = [calibrate([seen(1.17)] * count, decided=True).log_sd for count in (0, 1, 3, 6)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > 0.05
    assert calibrate([seen(1.17)] * 6, decided=True).factor == pytest.approx(1.17, abs=0.01)


def test_noisy_campaigns_count_less() -> None:
    loud = calibrate([seen(1.3, noise_sd=0.3), seen(1.0, noise_sd=0.02)], decided=True)
    assert loud.factor < 1.05


def test_codes_assigned_at_random_are_trusted_more_from_the_start() -> None:
    assert calibrate([], decided=False).log_sd < calibrate([], decided=True).log_sd


def test_the_order_of_campaigns_does_not_matter() -> None:
    past = [seen(ratio) for ratio in (1.1, 1.3, 0.9)]
    assert calibrate(past, decided=True).log_factor == pytest.approx(calibrate(past[::-1], decided=True).log_factor)


def test_draws_have_the_factor_as_mean_and_depend_on_the_names_alone() -> None:
    found = calibrate([seen(1.2)], decided=True)
    drawn = found.draws(40_000, 7, "spring", "test")
    assert drawn.mean() == pytest.approx(found.factor, rel=0.01)
    assert np.log(drawn).std() == pytest.approx(found.log_sd, rel=0.03)
    assert (drawn[:5] == found.draws(5, 7, "spring", "test")).all()
    assert (drawn[:5] != found.draws(5, 7, "summer", "test")).all()


def test_its_interval_covers_what_comes_when_the_world_is_as_it_assumes() -> None:
    """Errors drawn as in the model: a 90 % interval after four campaigns holds the fifth about nine times in ten."""
    inside = 0
    for _ in range(2000):
        c = rng.normal(0, 0.2)
        ratios = np.exp(c + rng.normal(0, 0.05, 5) + rng.normal(0, 0.04, 5))
        found = calibrate([seen(ratio) for ratio in ratios[:4]], decided=True)
        width = 1.645 * np.hypot(found.log_sd, 0.04)  # the fifth has purchases of its own, too
        inside += abs(np.log(ratios[4]) - found.log_factor) < width
    assert 0.87 < inside / 2000 < 0.93
