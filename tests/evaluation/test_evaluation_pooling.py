"""Campaigns read together: by hand, against a numerical reference, and by how often the intervals hold the truth."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import halfnorm, norm

from disco.errors import InputError
from disco.evaluation.estimates import Mean, compare, pool, random_effects


def test_one_campaign_stands_for_itself() -> None:
    alone = compare(Mean(6.0, 0.04, 900), Mean(5.0, 0.04, 900))
    found = pool([alone], [1000])
    assert found.relative == alone.relative
    assert found.relative is not None
    assert found.relative.value == pytest.approx(0.2)
    assert found.between_campaigns is None
    assert found.total.value == pytest.approx(1000.0)
    assert found.total.standard_error == pytest.approx(1000 * math.sqrt(0.08))


def test_a_percentage_without_limits_gets_none_by_pooling() -> None:
    doubtful = compare(Mean(30.0, 16.0, 60), Mean(0.85, 0.36, 60))
    assert doubtful.relative is not None
    assert doubtful.relative.ends == (-math.inf, math.inf)
    assert pool([doubtful], [60]).relative == doubtful.relative
    clear = compare(Mean(6.0, 0.04, 900), Mean(5.0, 0.04, 900))
    found = pool([clear, doubtful], [900, 60])
    assert (found.relative, found.between_campaigns) == (None, None)
    assert found.total.value == pytest.approx(900 * 1.0 + 60 * 29.15)


def test_money_adds_up_and_its_errors_add_in_squares() -> None:
    campaigns = [
        compare(Mean(6.0, 0.04, 900), Mean(5.0, 0.05, 900)),
        compare(Mean(4.0, 0.01, 900), Mean(4.5, 0.02, 900)),
    ]
    found = pool(campaigns, [1000, 3000])
    assert found.total.value == pytest.approx(1000 * 1.0 - 3000 * 0.5)
    assert found.total.standard_error == pytest.approx(math.sqrt(1000**2 * 0.09 + 3000**2 * 0.03))
    assert found.total.upper == pytest.approx(found.total.value + 1.959964 * found.total.standard_error)


def test_a_ratio_and_its_inverse_are_pooled_alike() -> None:
    """Averaging logarithms: which of the two arms is called control changes the sign and nothing else."""
    one, other = [Mean(6.0, 0.04, 900), Mean(5.0, 0.09, 900)], [Mean(5.0, 0.04, 900), Mean(4.5, 0.02, 900)]
    there = pool([compare(*one), compare(*other)], [1, 1]).relative
    back = pool([compare(*one[::-1]), compare(*other[::-1])], [1, 1]).relative
    assert there is not None
    assert back is not None
    assert there.upper is not None
    assert back.lower is not None
    assert 1 + there.value == pytest.approx(1 / (1 + back.value))
    assert 1 + there.upper == pytest.approx(1 / (1 + back.lower))


def test_random_effects_equal_a_double_integral() -> None:
    values, errors = np.array([0.1, 0.35, 0.6]), np.array([0.08, 0.1, 0.2])

    def given(tau: float) -> tuple[float, float, float]:
        weights = 1 / (tau**2 + errors**2)
        mean, spread = float(weights @ values / weights.sum()), float(weights.sum() ** -0.5)
        seen = math.prod(norm.pdf(values, mean, (tau**2 + errors**2) ** 0.5)) * spread  # over a flat μ
        return seen * float(halfnorm.pdf(tau, scale=0.25)), mean, spread

    whole = quad(lambda tau: given(tau)[0], 0, np.inf)[0]
    expected = quad(lambda tau: given(tau)[0] * given(tau)[1], 0, np.inf)[0] / whole
    found, between = random_effects(values, errors)
    assert found.lower is not None
    assert found.upper is not None
    below = [
        quad(lambda tau, at=at: given(tau)[0] * float(norm.cdf(at, *given(tau)[1:])), 0, np.inf)[0] / whole
        for at in (found.lower, found.upper)
    ]
    assert found.value == pytest.approx(expected, rel=1e-4)
    assert below == pytest.approx([0.025, 0.975], abs=1e-4)
    assert between == pytest.approx(quad(lambda tau: tau * given(tau)[0], 0, np.inf)[0] / whole, rel=1e-3)


@pytest.mark.parametrize("campaigns", [2, 4, 11])
@pytest.mark.parametrize("between", [0.0, 0.1, 0.25])
def test_intervals_hold_the_mean_uplift_nine_times_in_ten(campaigns: int, between: float) -> None:
    """Errors of 5% to 25%, as campaigns of some thousand customers have them; the level asked for is 95%."""
    rng = np.random.default_rng(campaigns)
    inside = 0
    for _ in range(300):
        errors = rng.uniform(0.05, 0.25, campaigns)
        found, _ = random_effects(rng.normal(0.3, np.sqrt(between**2 + errors**2)), errors)
        inside += found.covers(0.3)
    assert inside >= 0.9 * 300


def test_without_a_positive_figure_there_is_money_but_no_percentage() -> None:
    found = pool([compare(Mean(6.0, 0.04, 900), Mean(-1.0, 0.05, 900))], [10])
    assert found.relative is None
    assert found.total.value == pytest.approx(70.0)


def test_what_cannot_be_pooled_is_refused() -> None:
    with pytest.raises(InputError, match="one or more, with one number each"):
        pool([], [])
    with pytest.raises(InputError, match="positive standard errors"):
        random_effects(np.array([0.1, 0.2]), np.array([0.1, 0.0]))
    with pytest.raises(InputError, match="one error per value"):
        random_effects(np.array([0.1, 0.2]), np.array([0.1]))
