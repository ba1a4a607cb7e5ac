"""The truth: by hand where customers are alike, by quadrature, and as monotone as the retailer promises."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm

from disco.records.errors import InputError
from disco.retailer import Retailer, RetailerSettings, Truth
from disco.retailer.settings import Baskets, Channel, Curves, PurchaseChance, Shape, ShoppingHabits

_DEPTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.475, 0.6, 0.9)


def _ids(count: int) -> list[str]:
    return [f"c{index:07d}" for index in range(count)]


def test_customers_without_differences_by_hand() -> None:
    """b = 3.4, s = 0.9, κ = 1.5, gain 1.2: both figures from the formulas of SYSTEM, at depth 0.3 of scale 0.6."""
    settings = RetailerSettings(
        customers=5,
        habits=ShoppingHabits(lapsed=0.0),
        baskets=Baskets(mean=3.4, linear_sd=0.0, nonlinear_sd=0.0, campaign_residual_sd=0.5),
        curves=Curves(
            depth_scale=0.6, elasticity=0.9, elasticity_spread=0.0, concave_rate=1.5, concave_rate_spread=0.0
        ),
        engagement=PurchaseChance(level=-1.1, spread=0.0, gain=1.2, gain_spread=0.0),
        email=Channel(logit=-0.7, valid_days=20, delay_days=5.0),
    )
    g = (1 - math.exp(-1.5 * 0.5)) / (1 - math.exp(-1.5))
    truth = Retailer.simulate(settings).truth(_ids(5), [0.3], channel="e-mail")
    np.testing.assert_allclose(truth.expected_full_price, math.exp(3.4 + 0.9 * g + 0.125), rtol=1e-12)
    np.testing.assert_allclose(truth.purchase_probability, 1 / (1 + math.exp(1.1 + 0.7 - 1.2 * g)), rtol=1e-12)


def test_expected_full_price_by_quadrature(shop: Retailer) -> None:
    """∫ e^{m + σx} φ(x) dx with m read off the truth at σ → the same mean."""
    sd = shop.settings.baskets.campaign_residual_sd
    truth = shop.truth(["c0000000", "c0011999"], [0.2])
    for row in range(2):
        middle = math.log(truth.expected_full_price[row, 0]) - sd**2 / 2
        mean = quad(lambda x, m=middle: math.exp(m + sd * x) * norm.pdf(x), -12, 12)[0]
        assert truth.expected_full_price[row, 0] == pytest.approx(mean, rel=1e-8)


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("channel", ["on-site", "e-mail"])
def test_curves_rise_with_depth_for_every_customer(shape: Shape, channel: str) -> None:
    shop = Retailer.simulate(RetailerSettings(customers=3_000, seed=1, curves=Curves(shape=shape)))
    truth = shop.truth(_ids(3_000), _DEPTHS, channel=channel)
    assert truth.expected_full_price.shape == truth.purchase_probability.shape == (3_000, len(_DEPTHS))
    for figures in (truth.expected_full_price, truth.purchase_probability):
        assert (np.diff(figures, axis=1) >= 0).all()
        assert (figures[:, -1] > figures[:, 0]).all()
    assert ((truth.purchase_probability > 0) & (truth.purchase_probability < 1)).all()


def test_customers_differ_in_shape_not_only_in_level(shop: Retailer) -> None:
    """Who is worth most at 10 % is not who gains most from 40 %: the ranking of gains is not that of levels."""
    truth = shop.truth(_ids(12_000), [0.1, 0.4])
    gain = np.log(truth.expected_full_price[:, 1] / truth.expected_full_price[:, 0])
    level = np.log(truth.expected_full_price[:, 0])
    assert gain.std() > 0.03
    assert abs(np.corrcoef(gain, level)[0, 1]) < 0.8


@pytest.mark.parametrize("seed", [1, 2])
def test_baseline_and_elasticity_have_the_moments_of_the_settings(seed: int) -> None:
    settings = RetailerSettings(
        customers=10_000,
        seed=seed,
        baskets=Baskets(mean=3.5, linear_sd=0.3, nonlinear_sd=0.4),
        curves=Curves(elasticity=0.5, elasticity_spread=0.3, elasticity_with_baseline=0.35),
    )
    truth = Retailer.simulate(settings).truth(_ids(10_000), [0.1])
    assert truth.baseline.mean() == pytest.approx(3.5, abs=0.03)
    assert truth.baseline.std() == pytest.approx(0.5, rel=0.04)
    assert truth.elasticity.mean() == pytest.approx(0.5, rel=0.02)
    assert np.log(truth.elasticity).std() == pytest.approx(0.3, rel=0.04)
    assert np.corrcoef(np.log(truth.elasticity), truth.baseline)[0, 1] == pytest.approx(0.35, abs=0.05)


@pytest.mark.parametrize("with_spend", [-0.5, 0.0, 0.8])
def test_engagement_goes_with_spend_as_much_as_asked(with_spend: float) -> None:
    settings = RetailerSettings(
        customers=10_000,
        seed=6,
        habits=ShoppingHabits(lapsed=0.0),
        engagement=PurchaseChance(with_spend=with_spend, gain_spread=0.0),
        curves=Curves(concave_rate_spread=0.0),
    )
    truth = Retailer.simulate(settings).truth(_ids(10_000), [0.2])
    assert np.corrcoef(logit(truth.purchase_probability[:, 0]), truth.baseline)[0, 1] == pytest.approx(
        with_spend, abs=0.05
    )


def test_channels_differ_by_their_logit(shop: Retailer) -> None:
    site, mail = (shop.truth(_ids(50), [0.2, 0.3], channel=name).purchase_probability for name in ("on-site", "e-mail"))
    shift = shop.settings.email.logit - shop.settings.on_site.logit
    np.testing.assert_allclose(mail, expit(logit(site) + shift), rtol=1e-10)


def test_rows_follow_the_ids_asked_for(shop: Retailer) -> None:
    """Whatever their order, across blocks, and when asked twice."""
    every = shop.truth(_ids(12_000), [0.1, 0.3])
    asked = [11_999, 3, 10_000, 3, 9_999]
    some = shop.truth([f"c{index:07d}" for index in asked], [0.1, 0.3])
    np.testing.assert_array_equal(some.expected_full_price, every.expected_full_price[asked])
    np.testing.assert_array_equal(some.purchase_probability, every.purchase_probability[asked])
    np.testing.assert_array_equal(some.elasticity, every.elasticity[asked])


@pytest.mark.parametrize("stranger", ["c0012000", "c12", "17", "C0000001"])
def test_a_stranger_is_refused_by_name(shop: Retailer, stranger: str) -> None:
    with pytest.raises(InputError, match=stranger):
        shop.truth(["c0000001", stranger], [0.1])


def test_an_unknown_channel_is_refused(shop: Retailer) -> None:
    with pytest.raises(InputError, match="on-site or e-mail"):
        shop.truth(["c0000001"], [0.1], channel="radio")


def _expected(truth: Truth) -> np.ndarray:
    return truth.purchase_probability * truth.expected_full_price


@pytest.mark.parametrize("shape", Shape)
def test_where_nothing_is_private_the_habits_tell_all(shape: Shape) -> None:
    settings = RetailerSettings(
        customers=300,
        seed=5,
        curves=Curves(
            shape=shape,
            elasticity_with_baseline=0.4,
            elasticity_from_habits=1.0,
            concave_rate_spread=0.0,
            midpoint_spread=0.0,
        ),
        engagement=PurchaseChance(with_spend=-0.3, from_habits=1.0, gain_spread=0.0),
    )
    shop = Retailer.simulate(settings)
    told = shop.spending_given_habits(_ids(300), [0.1, 0.3, 0.45], channel="e-mail")
    np.testing.assert_allclose(told, _expected(shop.truth(_ids(300), [0.1, 0.3, 0.45], channel="e-mail")), rtol=1e-9)


@pytest.mark.parametrize("shape", Shape)
def test_habits_tell_the_mean_over_what_is_private(shape: Shape) -> None:
    """In every tenth of the customers by what their habits tell, the truth has the same mean, up to chance."""
    shop = Retailer.simulate(RetailerSettings(customers=60_000, seed=4, curves=Curves(shape=shape)))
    ids = _ids(60_000)
    told, truth = shop.spending_given_habits(ids, [0.15, 0.4]), _expected(shop.truth(ids, [0.15, 0.4]))
    for column in range(2):
        for tenth in np.array_split(np.argsort(told[:, column]), 10):
            left = truth[tenth, column] - told[tenth, column]
            assert abs(left.mean()) < 4.5 * left.std() / np.sqrt(tenth.size)
    assert 0.5 < np.corrcoef(told[:, 1], truth[:, 1])[0, 1] < 0.99


def test_habits_are_told_in_the_order_of_the_ids_and_of_known_channels_only(shop: Retailer) -> None:
    asked = ["c0011999", "c0000003", "c0010000", "c0000003"]
    every = shop.spending_given_habits(_ids(12_000), [0.1, 0.3])
    np.testing.assert_array_equal(
        shop.spending_given_habits(asked, [0.1, 0.3]), every[[int(each[1:]) for each in asked]]
    )
    with pytest.raises(InputError, match="on-site or e-mail"):
        shop.spending_given_habits(asked, [0.1], channel="radio")
