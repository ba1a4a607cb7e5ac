"""Each policy's formula: by hand, against the posterior's own algebra, by moments of 10⁵ draws; and its first round."""

import numpy as np
import pytest
from scipy import stats

from disco.allocation import allocate
from disco.belief import BasketModel, LinearDepth, RadialBasis, SmoothSpline
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence, policy_named
from disco.records.errors import InputError

DEPTHS = np.array([0.15, 0.3, 0.7])


def learned(encoding=None, count=250, d1=3, noise_sd=0.8, **settings):
    generator = np.random.default_rng(1)
    context = generator.normal(size=(count, d1)).clip(-4, 4)
    depth = generator.choice([0.2, 0.4], count)
    log_price = 3.6 + 0.4 * context[:, 0] + depth + 0.6 * generator.normal(size=count)
    model = BasketModel(encoding=encoding or RadialBasis(gamma=4), noise_sd=noise_sd, prior_precision=1.7, **settings)
    return model.update(context, depth, np.exp(log_price))


MODEL = learned()
CUSTOMER = np.array([0.6, -1.1, 1.9])


def psi(model, context, depths):
    x = np.concatenate(([1.0], np.round(np.asarray(context) * 65536) / 65536))
    return np.array([np.kron(x, row) for row in model.encoded(np.asarray(depths))])


def drawn(policy, model, context, depths, count=100_000, seed=5, campaign="c"):
    contexts = np.repeat(np.asarray(context)[None], count, axis=0)
    return np.log(policy.full_prices(model, contexts, depths, ids=np.arange(count), seed=seed, campaign=campaign))


# ---- Thompson --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exploration", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("encoding", [LinearDepth(), RadialBasis(gamma=4), SmoothSpline()])
def test_thompson_draws_have_the_posteriors_mean_and_covariance(exploration, encoding):
    model = learned(encoding)
    draws = drawn(Thompson(exploration=exploration), model, CUSTOMER, DEPTHS)
    p = psi(model, CUSTOMER, DEPTHS)
    v = model.posterior.precision
    mean = p @ np.linalg.solve(v, model.posterior.moment)
    covariance = (exploration * 0.8) ** 2 * p @ np.linalg.solve(v, p.T)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(len(draws))).all()
    error = 5 * np.outer(sd, sd) * np.sqrt(2 / len(draws))
    assert (np.abs(np.cov(draws.T) - covariance) < error).all()
    assert stats.kstest((draws[:, 0] - mean[0]) / sd[0], "norm").pvalue > 1e-4


@pytest.mark.parametrize("scope", ["customer", "round"])
def test_the_correlation_between_two_depths_is_the_theorys(scope):
    p = psi(MODEL, CUSTOMER, DEPTHS[:2])
    covariance = p @ np.linalg.solve(MODEL.posterior.precision, p.T)
    theory = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert abs(theory) < 0.999  # otherwise there is nothing to see
    if scope == "customer":
        draws = drawn(Thompson(scope=scope), MODEL, CUSTOMER, DEPTHS[:2])
    else:  # one draw per round: many rounds
        rounds = [
            Thompson(scope=scope).full_prices(MODEL, CUSTOMER[None], DEPTHS[:2], ids=[1], seed=seed, campaign="c")[0]
            for seed in range(8000)
        ]
        draws = np.log(rounds)
    found = np.corrcoef(draws.T)[0, 1]
    assert abs(np.arctanh(found) - np.arctanh(theory)) < 5 / np.sqrt(len(draws) - 3)


def test_customers_of_a_round_share_theta_and_otherwise_do_not():
    two = np.array([[0.6, -1.1, 1.9], [0.5, -1.0, 1.5]])
    p = np.vstack([psi(MODEL, x, [0.3]) for x in two])
    covariance = p @ np.linalg.solve(MODEL.posterior.precision, p.T)
    theory = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    count = 4000
    for scope, expected in (("round", theory), ("customer", 0.0)):
        policy = Thompson(scope=scope)
        draws = np.log(
            [policy.full_prices(MODEL, two, [0.3], ids=[1, 2], seed=s, campaign="c")[:, 0] for s in range(count)]
        )
        found = np.corrcoef(draws.T)[0, 1]
        assert abs(np.arctanh(found) - np.arctanh(expected)) < 5 / np.sqrt(count - 3)


@pytest.mark.parametrize("depths", [(0.2,), (0.2, 0.4)])
def test_draws_stay_right_after_a_billion_rows(depths):
    """Nearly everything is known and features are nearly alike: what is left of the variance must survive rounding."""
    generator = np.random.default_rng(1)
    context = generator.normal(size=(1000, 3)).clip(-4, 4)
    depth = generator.choice(depths, 1000)
    model = BasketModel(noise_sd=0.8).update(context, depth, np.exp(3.5 + generator.normal(size=1000)))
    for _ in range(20):
        model = model.add(model.evidence)
    assert model.evidence.total_rows > 10**9
    draws = drawn(Thompson(), model, CUSTOMER, [0.2], count=20_000)[:, 0]
    mean, sd = model.predict(CUSTOMER[None], 0.2)
    assert sd[0] < 1e-3
    assert draws.std() == pytest.approx(sd[0], rel=5 / np.sqrt(2 * 20_000))
    assert draws.mean() == pytest.approx(mean[0], abs=5 * sd[0] / np.sqrt(20_000))


def test_a_drawn_curve_lies_on_the_encodings_span():
    """One curve per customer: with a straight-line encoding three depths are always on one line."""
    draws = drawn(Thompson(), learned(LinearDepth()), CUSTOMER, [0.1, 0.2, 0.3], count=1000)
    np.testing.assert_allclose(np.diff(draws, n=2, axis=1), 0, atol=1e-9)


def test_a_draw_does_not_depend_on_which_other_depths_are_offered():
    few = drawn(Thompson(), MODEL, CUSTOMER, [0.3], count=500)
    many = drawn(Thompson(), MODEL, CUSTOMER, [0.1, 0.3, 0.6], count=500)
    np.testing.assert_array_equal(few[:, 0], many[:, 1])


def test_without_exploration_thompson_is_greedy():
    zero = drawn(Thompson(exploration=0), MODEL, CUSTOMER, DEPTHS, count=10)
    greedy = drawn(Greedy(), MODEL, CUSTOMER, DEPTHS, count=10)
    np.testing.assert_allclose(zero, greedy, rtol=1e-14)


# ---- the others ------------------------------------------------------------------------------------------------------


def test_greedy_and_ucb_are_the_prediction():
    contexts = np.random.default_rng(3).normal(size=(333, 3)).clip(-4, 4)
    for column, depth in enumerate(DEPTHS):
        mean, sd = MODEL.predict(contexts, depth)
        same = {"ids": np.arange(333), "seed": 1, "campaign": "c"}
        greedy = Greedy().full_prices(MODEL, contexts, DEPTHS, **same)[:, column]
        np.testing.assert_allclose(greedy, np.exp(mean), rtol=1e-12)
        upper = UpperConfidence(exploration=1.7).full_prices(MODEL, contexts, DEPTHS, **same)[:, column]
        np.testing.assert_allclose(upper, np.exp(mean + 1.7 * sd), rtol=1e-10)


def test_ucb_by_hand():
    # ψ = [1]: V = 0.5 + 2, mean = 2·ln 20 / 2.5 up to the grid, sd = 0.4/√2.5
    model = BasketModel(encoding=LinearDepth(), constant_precision=0.5, noise_sd=0.4)
    model = model.update(np.empty((2, 0)), [0.0, 0.0], [20.0, 20.0])
    found = UpperConfidence(exploration=3).full_prices(model, np.empty((1, 0)), [0.0], ids=[1], seed=1, campaign="c")
    assert found[0, 0] == pytest.approx(np.exp(2 * np.log(20) / 2.5 + 3 * 0.4 / np.sqrt(2.5)), rel=1e-4)


def test_random_draws_have_the_populations_moments():
    draws = drawn(Random(), MODEL, CUSTOMER, DEPTHS)
    evidence = MODEL.evidence.sums().sum(axis=0)
    average = evidence[0, 1:4] / evidence[0, 0]
    covariance = evidence[1:4, 1:4] / evidence[0, 0] - np.outer(average, average)
    theta = MODEL.posterior.mean.reshape(4, 4)
    encoded = MODEL.encoded(DEPTHS)
    mean = encoded @ theta.T @ np.concatenate(([1.0], average))
    loading = encoded @ theta[1:].T
    expected = loading @ covariance @ loading.T + 0.8**2 * np.eye(3)
    sd = np.sqrt(np.diag(expected))
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(len(draws))).all()
    assert (np.abs(np.cov(draws.T) - expected) < 5 * np.outer(sd, sd) * np.sqrt(2 / len(draws))).all()


def test_random_knows_nothing_of_the_customer():
    contexts = np.random.default_rng(4).normal(size=(20_000, 3)).clip(-4, 4)
    prices = Random().full_prices(MODEL, contexts, DEPTHS, ids=np.arange(20_000), seed=1, campaign="c")
    correlation = np.corrcoef(np.column_stack((contexts, np.log(prices))).T)[:3, 3:]
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)


def test_epsilon_greedy_is_greedy_but_for_its_share():
    contexts = np.random.default_rng(4).normal(size=(20_000, 3)).clip(-4, 4)
    same = {"ids": np.arange(20_000), "seed": 1, "campaign": "c"}
    policy = EpsilonGreedy(epsilon=0.2)
    prices = policy.full_prices(MODEL, contexts, DEPTHS, **same)
    explores = policy.explores(np.arange(20_000), seed=1, campaign="c")
    low, high = stats.binom(500_000, 0.2).interval(0.9999)
    assert low <= policy.explores(np.arange(500_000), seed=1, campaign="c").sum() <= high
    greedy = Greedy().full_prices(MODEL, contexts, DEPTHS, **same)
    np.testing.assert_array_equal(prices[~explores], greedy[~explores])
    assert (prices[explores] != greedy[explores]).all()
    correlation = np.corrcoef(contexts[explores, 0], np.log(prices[explores, 0]))[0, 1]
    assert abs(correlation) < 5 / np.sqrt(explores.sum())
    assert not EpsilonGreedy(epsilon=0).explores(np.arange(100), seed=1, campaign="c").any()
    assert EpsilonGreedy(epsilon=1).explores(np.arange(100), seed=1, campaign="c").all()


def test_who_explores_changes_with_seed_and_campaign():
    policy = EpsilonGreedy(epsilon=0.5)
    ids = np.arange(2000)
    base = policy.explores(ids, seed=1, campaign="c")
    for other in (policy.explores(ids, seed=2, campaign="c"), policy.explores(ids, seed=1, campaign="d")):
        assert 0.4 < (base == other).mean() < 0.6


# ---- cold start ------------------------------------------------------------------------------------------------------


def test_ignorance_never_overflows():
    """Before any data the near-flat constant has an sd of hundreds: served figures end at the domain's edge."""
    for policy in (Thompson(), Thompson(scope="round"), UpperConfidence(), EpsilonGreedy(), Greedy(), Random()):
        contexts = np.random.default_rng(4).normal(size=(500, 2)).clip(-4, 4)
        prices = policy.full_prices(BasketModel(), contexts, DEPTHS, ids=np.arange(500), seed=1, campaign="c")
        assert np.isfinite(prices).all()
        assert (prices > 0).all()


def test_policies_by_name():
    assert policy_named("thompson", exploration=2, scope="round") == Thompson(exploration=2.0, scope="round")
    assert policy_named("epsilon_greedy", epsilon=0.3) == EpsilonGreedy(epsilon=0.3)
    with pytest.raises(InputError, match="one of thompson, ucb, epsilon_greedy, greedy, random"):
        policy_named("best")
    with pytest.raises(InputError, match="greedy"):
        policy_named("greedy", exploration=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Thompson(exploration=-1),
        lambda: Thompson(exploration=float("nan")),
        lambda: Thompson(exploration=float("inf")),
        lambda: Thompson(scope="depth"),
        lambda: UpperConfidence(exploration="wide"),
        lambda: EpsilonGreedy(epsilon=1.1),
        lambda: EpsilonGreedy(epsilon=True),
    ],
)
def test_settings_that_make_no_policy_are_refused(make):
    with pytest.raises(InputError):
        make()


# ---- the first round of a campaign that has seen nothing: depths are explored, not the edge of the domain ------------


OFFERED = [0.1, 0.2, 0.3, 0.4]
ENCODINGS = [RadialBasis(), RadialBasis(gamma=2), SmoothSpline()]


def contexts(customers: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(customers, 6)).clip(-4, 4)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_first_draws_give_everybody_a_code_and_try_every_depth(encoding):
    customers = 4000
    prices = Thompson().full_prices(
        BasketModel(encoding=encoding), contexts(customers), OFFERED, ids=np.arange(customers), seed=3, campaign="c"
    )
    values = prices * (1 - 2 * np.array(OFFERED) * 0.5)
    allocation = allocate(values, [None] * len(OFFERED))
    assert (allocation.choice >= 0).all()
    assert (allocation.counts > 0.02 * customers).all()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("scope", ["customer", "round"])
def test_first_draws_stay_inside_the_domain(encoding, scope):
    rounds = [
        Thompson(scope=scope).full_prices(
            BasketModel(encoding=encoding), contexts(50), OFFERED, ids=np.arange(50), seed=seed, campaign="c"
        )
        for seed in range(40)
    ]
    assert np.abs(np.log(rounds)).max() < 31
    assert UpperConfidence().full_prices(
        BasketModel(encoding=encoding), contexts(50), OFFERED, ids=np.arange(50), seed=1, campaign="c"
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
