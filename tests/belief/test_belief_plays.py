"""Effective plays, and where the posterior admits that it does not know."""

import numpy as np
import pytest

from disco.belief import BasketModel, DistanceToDepth, LinearDepth, OneHotDepth, RadialBasis, SmoothSpline


def purchases(count, depths):
    generator = np.random.default_rng(1)
    context = generator.normal(size=(count, 4)).clip(-4, 4)
    depth = generator.choice(depths, count)
    log_price = 3.6 + 0.4 * context[:, 0] + depth * (1 + 0.5 * context[:, 1]) + 0.6 * generator.normal(size=count)
    return context, depth, np.exp(log_price)


def test_effective_plays_of_one_hot_are_the_plays():
    model = BasketModel(encoding=OneHotDepth((0.2, 0.5, 0.8)), constant_precision=None, prior_precision=3.0)
    model = model.update(np.empty((1000, 0)), np.full(1000, 0.5), np.full(1000, 30.0))
    plays = model.effective_plays(np.empty((3, 0)), [0.2, 0.5, 0.8])
    assert plays == pytest.approx([0, 1000, 0], abs=1e-9)
    assert (plays >= 0).all()


@pytest.mark.filterwarnings("error")
def test_a_question_without_any_feature_has_no_plays():
    # without a constant, and at the reference itself, ψ = 0: nothing can be learned about it
    model = BasketModel(encoding=DistanceToDepth(0.5), constant_precision=None)
    model = model.update(np.empty((3, 0)), np.full(3, 0.1), np.full(3, 20.0))
    assert model.effective_plays(np.empty((1, 0)), [0.5]).tolist() == [0.0]


@pytest.mark.parametrize(("gamma", "between"), [(2, 300), (20, 10)])
def test_effective_plays_of_radial_basis_are_shared(gamma, between):
    here = np.full((1, 6), 0.2)  # at a fixed context, as the definition says
    depth = np.repeat([0.4, 0.6], 1000)
    model = BasketModel(encoding=RadialBasis(gamma=gamma)).update(
        np.repeat(here, 2000, axis=0), depth, np.full(2000, 30.0)
    )
    asked = [0.4, 0.5, 0.6, 0.0, 1.0]
    left, middle, right, *far = model.effective_plays(np.repeat(here, 5, axis=0), asked)
    assert min(left, right) >= 1000
    assert between < middle < 2000
    assert max(far) < min(10, middle / 5)


def test_effective_plays_by_hand():
    # ψ = [1, u] at u = ½: V0 = (2, 3); 8 plays at u = ½ add ψψᵀ eight times, so they are worth exactly 8
    model = BasketModel(encoding=LinearDepth(), constant_precision=2.0, prior_precision=3.0)
    model = model.update(np.empty((8, 0)), np.full(8, 0.5), np.full(8, 20.0))
    assert model.effective_plays(np.empty((1, 0)), [0.5])[0] == pytest.approx(8)


@pytest.mark.parametrize("encoding", [RadialBasis(gamma=2), RadialBasis(gamma=20), SmoothSpline()])
def test_ignorance_is_larger_at_unplayed_depths_and_falls_with_data(encoding):
    sds = []
    for count in (200, 2000, 20_000):
        context, depth, price = purchases(count, depths=(0.65, 0.75, 0.85))
        model = BasketModel(encoding=encoding, noise_sd=0.6).update(context, depth, price)
        sds.append([model.predict(np.zeros((1, 4)), [at])[1][0] for at in (0.75, 0.3)])
    played, unplayed = np.array(sds).T
    assert (unplayed > played).all()
    assert (np.diff(played) < 0).all()
    assert (np.diff(unplayed) < 0).all()


def test_ignorance_of_the_spline_grows_with_distance_on_both_sides():
    context, depth, price = purchases(5000, depths=(0.45, 0.5, 0.55))
    model = BasketModel(encoding=SmoothSpline(), noise_sd=0.6).update(context, depth, price)
    for side in (np.arange(0.55, 1.001, 0.05), np.arange(0.45, -0.001, -0.05)):
        _, sd = model.predict(np.zeros((side.size, 4)), side.clip(0, 1))
        assert (np.diff(sd) > 0).all()
