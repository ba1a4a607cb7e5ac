"""ψ2: each formula by hand, against an independent construction, and at awkward settings."""

import numpy as np
import pytest

from disco.belief import BasketModel, DistanceToDepth, LinearDepth, OneHotDepth, RadialBasis, SmoothSpline
from disco.records.errors import InputError

U = np.linspace(0, 1, 41)


def test_radial_basis_by_hand_in_both_forms():
    by_gamma = RadialBasis((0.2, 0.6), gamma=(3.0, 7.0)).features(np.array([0.5]))
    np.testing.assert_allclose(by_gamma, [[np.exp(-3 * 0.09), np.exp(-7 * 0.01)]], rtol=1e-14)
    by_alpha = RadialBasis((0.2, 0.6), alpha=(3.0, 7.0)).features(np.array([0.5]))
    np.testing.assert_allclose(by_alpha, [[np.exp(-0.09 / 6), np.exp(-0.01 / 14)]], rtol=1e-14)


def test_the_papers_literal_width_makes_features_nearly_constant():
    assert np.ptp(RadialBasis(alpha=20).features(U), axis=0).max() < 0.02
    assert np.ptp(RadialBasis(gamma=20).features(U), axis=0).min() > 0.9


def test_gamma_and_alpha_are_two_spellings_of_one_width():
    np.testing.assert_allclose(RadialBasis(gamma=2.5).features(U), RadialBasis(alpha=1 / 5.0).features(U), rtol=1e-14)


def test_raw_depth_distance_and_one_hot_by_hand():
    u = np.array([0.1, 0.4])
    assert LinearDepth().features(u).tolist() == [[0.1], [0.4]]
    np.testing.assert_allclose(DistanceToDepth(reference=0.3).features(u), [[0.2], [0.1]])
    assert OneHotDepth((0.4, 0.1)).features(u).tolist() == [[0, 1], [1, 0]]


def test_spline_bends_are_the_third_and_fourth_eigenvectors_of_second_differences():
    points = 601
    second = np.diff(np.eye(points), n=2, axis=0)
    roughness, vectors = np.linalg.eigh(second.T @ second)
    grid = (np.arange(points) + 0.5) / points  # a free grid of cells: the limit has its ends at 0 and 1
    features = SmoothSpline().features(grid)
    np.testing.assert_allclose(features[:, 0], grid - 0.5)
    for place, scale in ((2, 1.0), (3, np.sqrt(roughness[2] / roughness[3]))):
        vector = vectors[:, place] * np.sqrt(points) * scale
        bend = features[:, place - 1]
        vector *= np.sign(vector @ bend)
        assert np.abs(bend - vector).max() < 0.01 * np.abs(bend).max()


def test_spline_bends_know_nothing_of_straight_lines():
    grid = (np.arange(20_000) + 0.5) / 20_000
    slope, first, second = SmoothSpline().features(grid).T
    for bend in (first, second):
        assert abs(bend.mean()) < 1e-6
        assert abs((bend * slope).mean()) < 1e-6
    assert abs((first * second).mean()) < 1e-6
    assert np.sqrt((first**2).mean()) == pytest.approx(1.0, abs=1e-5)
    assert np.sqrt((second**2).mean()) == pytest.approx((4.730040744862704 / 7.853204624095838) ** 2, abs=1e-5)


def test_spline_goes_on_straight_beyond_its_ends():
    features = SmoothSpline().features(np.array([1.0, 1.1, 1.2, 1.3]))
    np.testing.assert_allclose(np.diff(features, n=2, axis=0), 0.0, atol=1e-12)


def test_spline_prior_is_the_one_described():
    prior = SmoothSpline().prior()
    sds = 1 / np.sqrt(prior.precision(1, 3, constant=1e-6)).reshape(2, 4)
    np.testing.assert_allclose(sds[:, 1:], [[0.5, 0.15, 0.15], [0.2, 0.03, 0.03]])
    assert sds[1, 0] == pytest.approx(0.3)
    assert prior.mean(1, 3).tolist() == [0, 0.5, 0, 0, 0, 0, 0, 0]


def test_absolute_prior_sds_do_not_depend_on_the_noise():
    at = np.zeros((1, 2)), [0.8]
    sds = [
        BasketModel(encoding=SmoothSpline(), noise_sd=noise, constant_precision=1e9).predict(*at)[1][0]
        for noise in (0.3, 1.7)
    ]
    assert sds[0] == pytest.approx(sds[1], rel=1e-3)  # the constant's own precision is relative to the noise


@pytest.mark.parametrize(
    "make",
    [
        lambda: RadialBasis(centres=()),
        lambda: RadialBasis(gamma=0),
        lambda: RadialBasis(gamma=-1),
        lambda: RadialBasis(gamma=float("nan")),
        lambda: RadialBasis(gamma=2, alpha=3),
        lambda: RadialBasis((0.1, 0.2), gamma=(1, 2, 3)),
        lambda: RadialBasis(("a",)),
        lambda: OneHotDepth(()),
        lambda: OneHotDepth((0.1, 0.1)),
        lambda: DistanceToDepth(reference=float("inf")),
    ],
)
def test_settings_that_make_no_encoding_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_one_hot_refuses_an_unknown_depth_by_name_and_meets_a_rescaled_one():
    with pytest.raises(InputError, match=r"found 0\.25.*expected one of 0\.1, 0\.3"):
        OneHotDepth((0.1, 0.3)).features(np.array([0.1, 0.25]))
    model = BasketModel(encoding=OneHotDepth((0.3, 0.6)), depth_scale=0.5)
    assert model.update([[0.0]], [0.15], [10.0]).evidence.total_rows == 1
