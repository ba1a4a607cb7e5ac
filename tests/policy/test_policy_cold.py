"""The first round of a campaign that has seen nothing: policies must explore depths, not the edge of the domain."""

import numpy as np
import pytest

from disco import BasketModel, RadialBasis, SmoothSpline, Thompson, UpperConfidence, allocate

DEPTHS = [0.1, 0.2, 0.3, 0.4]
ENCODINGS = [RadialBasis(), RadialBasis(gamma=2), SmoothSpline()]


def contexts(customers: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(customers, 6)).clip(-4, 4)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_first_draws_give_everybody_a_code_and_try_every_depth(encoding):
    customers = 4000
    prices = Thompson().full_prices(
        BasketModel(encoding=encoding), contexts(customers), DEPTHS, ids=np.arange(customers), seed=3, campaign="c"
    )
    values = prices * (1 - 2 * np.array(DEPTHS) * 0.5)
    allocation = allocate(values, [None] * len(DEPTHS))
    assert (allocation.choice >= 0).all()
    assert (allocation.counts > 0.02 * customers).all()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("scope", ["customer", "round"])
def test_first_draws_stay_inside_the_domain(encoding, scope):
    rounds = [
        Thompson(scope=scope).full_prices(
            BasketModel(encoding=encoding), contexts(50), DEPTHS, ids=np.arange(50), seed=seed, campaign="c"
        )
        for seed in range(40)
    ]
    assert np.abs(np.log(rounds)).max() < 31
    assert UpperConfidence().full_prices(
        BasketModel(encoding=encoding), contexts(50), DEPTHS, ids=np.arange(50), seed=1, campaign="c"
    ).max() < np.exp(31)


def test_a_prior_that_says_something_is_drawn_as_it_is():
    """An empty model whose constant is known to a factor of e: draws have the sd that `predict` names."""
    model = BasketModel(constant_precision=1.0, noise_sd=0.9)
    row = np.tile(contexts(1), (20_000, 1))
    drawn = np.log(Thompson().full_prices(model, row, [0.25], ids=np.arange(20_000), seed=2, campaign="c"))[:, 0]
    mean, sd = model.predict(row[:1], 0.25)
    assert drawn.std() == pytest.approx(sd[0], rel=0.03)
    assert drawn.mean() == pytest.approx(mean[0], abs=5 * sd[0] / np.sqrt(20_000))


def test_one_purchase_ends_the_limit():
    """After the first purchase the draws are the posterior's own again, near-flat constant and all."""
    model = BasketModel(noise_sd=0.9).update(contexts(1), [0.25], [40.0])
    row = np.tile(-contexts(1), (20_000, 1))
    drawn = np.log(Thompson().full_prices(model, row, [0.25], ids=np.arange(20_000), seed=2, campaign="c"))[:, 0]
    assert drawn.std() == pytest.approx(model.predict(row[:1], 0.25)[1][0], rel=0.03)
