"""Choosing by marginal likelihood."""

from dataclasses import replace

import numpy as np
import pytest

from disco.belief import BasketModel, LinearDepth, Prior, RadialBasis, SmoothSpline
from disco.records.errors import IllConditionedError


def rows(count=8000, *, wiggle=0.0, context_sd=0.4, seed=2):
    generator = np.random.default_rng(seed)
    context = generator.normal(size=(count, 2)).clip(-4, 4)
    depth = generator.choice(np.linspace(0.05, 0.95, 10), count)
    shape = wiggle * np.sin(12 * depth) + 0.7 * depth
    return context, depth, np.exp(3.5 + shape + context_sd * context[:, 0] + 0.5 * generator.normal(size=count))


def test_the_choice_explains_the_evidence_better_and_says_why():
    model = BasketModel(encoding=RadialBasis(gamma=20)).update(*rows())
    tuned = model.tuned()
    assert tuned.posterior.log_evidence > model.posterior.log_evidence
    assert tuned.evidence == model.evidence
    assert "8,000 purchases" in tuned.reason
    assert f"of 7 widths gamma {tuned.encoding.gamma} explains them best" in tuned.reason
    assert "more than 1,000 times more likely than under the settings before" in tuned.reason
    sds = [prior**-0.5 for prior in (tuned.prior.context, tuned.prior.depth, tuned.prior.interaction)]
    for sd, part in zip(sds, ("the context", "the depth", "both together"), strict=True):
        assert f"±{sd:.3g} for {part}" in tuned.reason  # what is said is what was chosen
    assert tuned.tuned().posterior.log_evidence >= tuned.posterior.log_evidence - 1e-3


def test_a_straight_truth_wants_wide_bumps_and_a_wavy_one_narrow_bumps():
    widths = [BasketModel().update(*rows(wiggle=wiggle)).tuned().encoding.gamma for wiggle in (0.0, 0.8)]
    assert widths[0] < widths[1]


def test_a_block_without_effect_gets_a_high_precision():
    prior = BasketModel(encoding=LinearDepth()).update(*rows()).tuned().prior
    assert prior.interaction > 20 * prior.context  # the truth has no interaction


def test_no_neighbour_is_better():
    """Independent check of the optimum: moving any precision by a factor of two lowers the marginal likelihood."""
    tuned = BasketModel(encoding=LinearDepth()).update(*rows(context_sd=0.8)).tuned()
    best = tuned.posterior.log_evidence
    for block in ("context", "depth"):
        for factor in (0.5, 2.0):
            moved = replace(tuned.prior, **{block: getattr(tuned.prior, block) * factor})
            assert replace(tuned, prior_precision=moved).posterior.log_evidence <= best + 1e-3


def test_the_spline_keeps_its_population_prior_and_re_estimates_deviations():
    model = BasketModel(encoding=SmoothSpline()).update(*rows(context_sd=0.05))
    tuned = model.tuned()
    assert tuned.prior.depth == model.prior.depth
    assert tuned.prior.depth_mean == model.prior.depth_mean
    assert tuned.prior.context > 3 * model.prior.context  # customers deviate by 0.05, not by 0.3
    assert tuned.prior.absolute


def test_a_fixed_choice_stays_possible_and_nothing_to_learn_from_is_said():
    assert BasketModel().tuned().reason == "not tuned: there is no evidence yet"
    fixed = BasketModel(encoding=RadialBasis(alpha=20), prior_precision=Prior(context=2.0)).update(*rows(100))
    assert fixed.encoding.alpha == 20
    assert fixed.reason == "chosen by hand"


def test_a_state_without_solution_is_tuned_into_one_that_has():
    model = BasketModel(encoding=RadialBasis(alpha=20), prior_precision=1e-14).update(*rows(300))
    with pytest.raises(IllConditionedError):
        model.predict(np.zeros((1, 2)), 0.3)
    tuned = model.tuned()
    assert np.isfinite(tuned.predict(np.zeros((1, 2)), 0.3)).all()
    assert "no solution" in tuned.reason


@pytest.mark.parametrize("noise_sd", [None, 0.5])
def test_tuning_works_with_fixed_and_estimated_noise(noise_sd):
    model = BasketModel(noise_sd=noise_sd).update(*rows(500))
    assert model.tuned().posterior.log_evidence >= model.posterior.log_evidence
