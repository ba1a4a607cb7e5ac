"""The power calculator: by hand, against simulation, and its three questions answer each other."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from disco.evaluation.power import Design
from disco.records.errors import InputError


def test_by_hand():
    design = Design(baseline=50.0, sd=40.0, control_share=0.25, explained=0.36, level=0.9)
    error = 40 * np.sqrt(0.64) * np.sqrt(1 / 250 + 1.1**2 / 750)
    shift, z = 5 / error, norm.ppf(0.95)
    assert design.power(0.1, customers=1000) == pytest.approx(norm.cdf(shift - z) + norm.cdf(-shift - z))


def test_the_textbook_count():
    """n per arm = 2·(z₀.₉₇₅ + z₀.₈)²·(sd/δ)² for a small difference."""
    needed = Design(baseline=100.0, sd=50.0).customers(0.001, power=0.8)
    textbook = 4 * (norm.ppf(0.975) + norm.ppf(0.8)) ** 2 * 500**2
    assert needed == pytest.approx(textbook, rel=0.002)


@given(
    uplift=st.floats(0.002, 0.5),
    sd=st.floats(5, 300),
    share=st.floats(0.05, 0.95),
    power=st.floats(0.1, 0.99),
)
@settings(max_examples=60, deadline=None)
def test_count_power_and_uplift_answer_each_other(uplift, sd, share, power):
    design = Design(baseline=40.0, sd=sd, control_share=share)
    needed = design.customers(uplift, power=power)
    assert design.power(uplift, customers=needed) >= power - 1e-9
    smallest = math.ceil(2 / min(share, 1 - share))  # two customers in the smaller arm
    assert needed >= smallest
    if needed > smallest:
        assert design.power(uplift, customers=needed - 1) < power + 1e-9
        assert design.detectable_uplift(customers=needed, power=power) <= uplift * (1 + 1e-6)


def test_a_loss_is_found_like_a_gain():
    design = Design(baseline=40.0, sd=60.0)
    assert design.customers(-0.01) == pytest.approx(design.customers(0.01), rel=0.03)


def test_simulated_tests_reject_as_often_as_it_says(offline, experiments):
    runs = 400
    for case in experiments.POWER_CASES:
        rejected, promised = experiments.power_rejections(case, runs, power=0.7)
        low, high = offline.band(runs, promised)
        assert low <= rejected / runs <= high, case.name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"baseline": 0.0}, "baseline"),
        ({"sd": np.nan}, "sd"),
        ({"control_share": 1.0}, "control_share"),
        ({"explained": 1.0}, "explained"),
        ({"level": 95.0}, "level"),
    ],
)
def test_bad_designs_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Design(**{"baseline": 1.0, "sd": 1.0, **settings})


def test_bad_questions_are_refused():
    design = Design(baseline=10.0, sd=20.0)
    with pytest.raises(InputError, match="uplift"):
        design.customers(0.0)
    with pytest.raises(InputError, match="power"):
        design.customers(0.1, power=0.03)
    with pytest.raises(InputError, match="customers"):
        design.power(0.1, customers=3)
    with pytest.raises(InputError, match="enough to find any uplift"):
        design.detectable_uplift(customers=8, power=0.999)
    with pytest.raises(InputError, match="engagement"):
        Design.of_purchases(baseline=10.0, sd=5.0, engagement=0.0)


@pytest.mark.parametrize("uplift", [math.nan, math.inf, -1.0, -2.0])
def test_an_uplift_that_is_no_difference_is_refused(uplift):
    with pytest.raises(InputError, match="uplift"):
        Design(baseline=50.0, sd=30.0).power(uplift, customers=1000)


@pytest.mark.parametrize(("baseline", "sd"), [(50.0, -30.0), (-50.0, 30.0), (1e-200, 1e200), (math.nan, 1.0)])
def test_amounts_that_cannot_be_are_refused_by_name(baseline, sd):
    for build in (Design, lambda **amounts: Design.of_purchases(**amounts, engagement=0.1)):
        with pytest.raises(InputError, match=r"baseline|sd"):
            build(baseline=baseline, sd=sd)
