"""The posterior of engagement beside independent references: an optimiser, quadrature, numerical derivatives."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from disco.belief import EngagementCounts, ScoreBins
from disco.belief import engagement_posterior as posterior
from disco.belief.engagement_posterior import attenuation, expit, fit, levels_for, logit


def sample(seed=1):
    generator = np.random.default_rng(seed)
    bins = ScoreBins.of(generator.normal(size=500), count=5)
    sent = generator.integers(0, 90, (4, 6))
    depths = np.array([0.1, 0.2, 0.25, 0.4])
    rate = expit(-2 + 3 * depths[:, None] + np.append(0.7 * bins.centres, -1.0))
    return EngagementCounts(depths, sent, generator.binomial(sent, rate), bins)


def minus_log_posterior(counts, *, tau, phi, prior_rate, prior_codes):
    """Of v = (α, δ, β, r, f), as docs/maths.md writes it."""
    depths, h = counts.depths, np.append(counts.bins.centres, 0.0)
    x = depths - (counts.sent.sum(axis=1) @ depths) / counts.sent.sum()
    wide = np.append(np.full(h.size - 1, phi), 1.5)
    variance = 1 / (prior_codes * prior_rate * (1 - prior_rate))
    shares = counts.sent.sum(axis=0) / counts.sent.sum()

    def population(c):  # the prior's mean rate of the population, β = 1, f = 0
        level = optimize.brentq(lambda level: shares @ expit(level + h) - prior_rate, -20, 20)
        mean = integrate.quad(lambda z: expit(np.array(c + np.sqrt(variance) * z)) * stats.norm.pdf(z), -8, 8)[0]
        return mean - expit(np.array(level))

    start = optimize.brentq(population, -20, 20)

    def of(v):
        alpha, delta, beta, r, f = v[0], v[1], v[2], v[3 : 3 + depths.size], v[3 + depths.size :]
        eta = (alpha + delta * x + r)[:, None] + beta * h + f
        fitted = (counts.redeemed * eta - counts.sent * np.logaddexp(0, eta)).sum()
        prior = (alpha - start) ** 2 / variance + delta**2 / posterior.SLOPE_SD**2 + (beta - 1) ** 2 / 0.3**2
        return -fitted + 0.5 * (prior + (r**2).sum() / tau**2 + (f**2 / wide**2).sum())

    return of


def test_pooled_depths_by_hand(monkeypatch):
    """Each belongs to the part of all codes in which the middle of its own codes lies."""
    monkeypatch.setattr(posterior, "_MOST_NODES", 2)
    depths, sent, used = np.array([0.1, 0.2, 0.4]), np.array([[2.0, 2.0], [2.0, 0.0], [4.0, 1.0]]), np.eye(3, 2)
    nodes, pooled_sent, pooled_used = posterior._pooled(depths, sent, used)
    assert nodes == pytest.approx([(4 * 0.1 + 2 * 0.2) / 6, 0.4])  # of 11 codes, the middles are at 2, 5 and 8.5
    assert pooled_sent.tolist() == [[4.0, 2.0], [4.0, 1.0]]
    assert pooled_used.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_mode_and_covariance_are_those_of_an_optimiser(monkeypatch):
    monkeypatch.setattr(posterior, "_ROUGHNESS", (0.3,))
    monkeypatch.setattr(posterior, "_BUMPS", (0.2,))
    counts = sample()
    target = minus_log_posterior(counts, tau=0.3, phi=0.2, prior_rate=0.08, prior_codes=15)
    start = np.zeros(3 + 4 + 6)
    best = optimize.minimize(target, start, method="BFGS", options={"gtol": 1e-7, "maxiter": 2000}).x
    state = fit(counts, prior_rate=0.08, prior_codes=15)
    x = counts.depths - (counts.sent.sum(axis=1) @ counts.depths) / counts.sent.sum()
    change = np.zeros((12, 13))  # (α, δ, β, r, f) → (g at the nodes, δ, β, f)
    change[:4, 0], change[:4, 1], change[:4, 3:7] = 1.0, x, np.eye(4)
    change[4, 1], change[5, 2], change[6:, 7:] = 1.0, 1.0, np.eye(6)
    np.testing.assert_allclose(state.mean, change @ best, atol=2e-4)
    steps = 1e-3 * np.eye(13)
    hessian = np.array(
        [
            [
                (target(best + a + b) - target(best + a - b) - target(best - a + b) + target(best - a - b)) / 4e-6
                for b in steps
            ]
            for a in steps
        ]
    )
    np.testing.assert_allclose(state.covariance, change @ np.linalg.inv(hessian) @ change.T, atol=2e-3)


def test_the_average_over_tau_is_that_of_quadrature():
    """Two depths, so that the exact posterior of (g₁, g₂) is a plane of numbers, for every τ of the grid."""
    counts = EngagementCounts([0.1, 0.3], [60, 90], [5, 25])
    state = fit(counts, prior_rate=0.1, prior_codes=20)
    variance = 1 / (20 * 0.09)
    start = optimize.brentq(
        lambda c: (
            integrate.quad(lambda z: expit(np.array(c + np.sqrt(variance) * z)) * stats.norm.pdf(z), -8, 8)[0] - 0.1
        ),
        -9,
        0,
    )
    x = counts.depths - counts.sent @ counts.depths / counts.sent.sum()
    line = np.linspace(-6, 2, 401)
    g = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)
    likelihood = (counts.redeemed * g - counts.sent * np.logaddexp(0, g)).sum(axis=-1)
    grid = posterior._Grid.of(with_bins=False, columns=1)
    total, first, second = 0.0, np.zeros(2), np.zeros(2)
    weights = []
    for tau, prior in zip(posterior._ROUGHNESS, grid.prior, strict=True):
        covariance = variance + posterior.SLOPE_SD**2 * np.outer(x, x) + tau**2 * np.eye(2)
        density = np.exp(likelihood + stats.multivariate_normal([start] * 2, covariance).logpdf(g) + prior + 100)
        weights.append(density.sum())
        total += density.sum()
        first += (density[..., None] * g).sum(axis=(0, 1))
        second += (density[..., None] * g**2).sum(axis=(0, 1))
    mean = first / total
    sd = np.sqrt(second / total - mean**2)
    evidence = posterior.solve_line(x, counts.sent * 1.0, counts.redeemed * 1.0, grid.rough, start, variance)[2]
    found = np.exp(grid.prior + evidence - (grid.prior + evidence).max())
    np.testing.assert_allclose(found / found.sum(), np.array(weights) / total, atol=0.01)
    np.testing.assert_allclose(state.levels, mean, atol=0.25 * sd.max())
    np.testing.assert_allclose(np.sqrt(np.diag(state.covariance))[:2], sd, rtol=0.1)


@pytest.mark.parametrize("location", [-6.0, -2.2, -0.02, 0.0, 0.3, 3.0])
@pytest.mark.parametrize("variance", [0.0, 0.01, 0.4, 2.0, 9.0])
def test_the_mean_rate_is_that_of_quadrature(location, variance):
    exact = integrate.quad(
        lambda z: expit(np.array(location + np.sqrt(variance) * z)) * stats.norm.pdf(z), -9, 9, epsabs=1e-12
    )[0]
    kappa = attenuation(np.array(location), np.array(variance))
    assert expit(kappa * location) == pytest.approx(exact, rel=2e-4)
    again = posterior._located(logit(np.array(exact)), np.array(variance))
    assert again == pytest.approx(location, abs=0.01)


def line_reference(x, sent, used, *, rho, start, variance):
    """Mode and covariance of (g at the nodes, δ) without bins: Newton in extended precision, every r_j eliminated."""
    x, sent, used = (np.asarray(part, np.longdouble) for part in (x, sent, used))
    rho, start, variance = np.longdouble(rho), np.longdouble(start), np.longdouble(variance)
    slope_precision = 1 / np.longdouble(posterior.SLOPE_SD) ** 2
    alpha, delta, r = np.log((used.sum() + 1) / (sent.sum() - used.sum() + 1)), np.longdouble(0), np.zeros_like(x)
    for _ in range(60):
        rate = 1 / (1 + np.exp(-(alpha + delta * x + r)))
        weight, slope = sent * rate * (1 - rate), used - sent * rate
        left, shrunk = slope - rho * r, rho / (weight + rho)
        kept, moved = weight * shrunk, slope - weight / (weight + rho) * left
        aa, ad, dd = 1 / variance + kept.sum(), (kept * x).sum(), slope_precision + (kept * x * x).sum()
        slope_a = moved.sum() - (alpha - start) / variance
        slope_d = (moved * x).sum() - delta * slope_precision
        determinant = aa * dd - ad * ad
        step_a, step_d = (dd * slope_a - ad * slope_d) / determinant, (aa * slope_d - ad * slope_a) / determinant
        step_r = (left - weight * (step_a + step_d * x)) / (weight + rho)
        short = 2.0 / max(np.abs(step_a + step_d * x + step_r).max(), 2.0)
        alpha, delta, r = alpha + short * step_a, delta + short * step_d, r + short * step_r
    both = np.stack((dd - ad * x, aa * x - ad)) / determinant  # covariance of (α, δ) with α + δ·x
    covariance = shrunk[:, None] * (both[0][:, None] + both[1][:, None] * x) * shrunk
    covariance[np.arange(x.size), np.arange(x.size)] += 1 / (weight + rho)
    side = shrunk * both[1]
    whole = np.block([[covariance, side[:, None]], [side[None, :], np.array([[aa / determinant]])]])
    return np.append(alpha + delta * x + r, delta), whole


@pytest.mark.parametrize("codes", [50, 4000, 10**6])
@pytest.mark.parametrize("count", [1, 3, 9, 40])
def test_without_bins_both_ways_of_elimination_are_those_of_extended_precision(count, codes):
    """r eliminated node by node, and the general steps with one column that f leaves alone."""
    generator = np.random.default_rng(5)
    sent = generator.integers(1, codes, count)[:, None] * 1.0
    used = np.rint(sent * generator.uniform(0, 0.5, (count, 1)))
    x = np.sort(generator.uniform(-0.2, 0.2, count))
    rough = posterior._Grid.of(with_bins=False, columns=1).rough
    line = posterior._Solved(*posterior.solve_line(x, sent[:, 0], used[:, 0], rough, -2.3, 0.6))
    none = np.full((rough.size, 1), 1e300)  # 1/φ²: no bump
    general = posterior._solve(x, sent, used, np.zeros(1), none, rough, start=-2.3, variance=0.6)
    np.testing.assert_allclose(line.evidence - line.evidence[0], general.evidence - general.evidence[0], atol=1e-7)
    for point, rho in enumerate(rough):
        mean, covariance = line_reference(x, sent[:, 0], used[:, 0], rho=rho, start=-2.3, variance=0.6)
        sd = np.sqrt(np.diag(covariance)).astype(float)
        for solved, near in ((line, 1e-10), (general, 1e-9)):
            np.testing.assert_allclose(solved.mean[point, : count + 1], mean.astype(float), rtol=0, atol=1e-13)
            scaled = (solved.covariance[point, : count + 1, : count + 1] - covariance.astype(float)) / np.outer(sd, sd)
            np.testing.assert_allclose(scaled, 0, atol=near)
            np.testing.assert_allclose(solved.mean[point, count + 1 :], [1.0, 0.0], atol=1e-200)  # β keeps its prior


def test_an_interpreted_fit_has_the_bits_of_a_compiled_one():
    arguments = np.array([-0.1, 0.0, 0.2]), np.array([90.0, 0.0, 700.0]), np.array([4.0, 0.0, 200.0])
    more = np.array([100.0, 1.0, 0.1]), -2.2, 0.55
    compiled, interpreted = posterior.solve_line(*arguments, *more), posterior.solve_line.__wrapped__(*arguments, *more)
    for one, other in zip(compiled, interpreted, strict=True):
        assert one.tobytes() == other.tobytes()


def test_own_exponentials_and_logarithms():
    x = np.linspace(-30, 30, 1001)
    np.testing.assert_allclose(expit(x), 1 / (1 + np.exp(-x)), rtol=1e-14)
    p = np.linspace(0.001, 0.999, 999)
    np.testing.assert_allclose(logit(p), np.log(p / (1 - p)), rtol=1e-13, atol=1e-15)


def test_levels_give_the_rate_asked_for():
    generator = np.random.default_rng(1)
    offsets, shares = generator.normal(size=(7, 5)), generator.dirichlet(np.ones(5))
    for rate in (0.0, 0.02, 0.5, 0.97, 1.0):
        level = levels_for(rate, offsets, shares)
        np.testing.assert_allclose((shares * expit(level[:, None] + offsets)).sum(axis=1), rate, atol=1e-12)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("codes", [1, 10**3, 10**9])
@pytest.mark.parametrize("share", [0.0, 1e-3, 0.5, 1.0])
def test_newton_converges_for_any_counts(codes, share, columns):
    bins = ScoreBins([0.0], [-1.0, 1.0]) if columns == 3 else None
    sent = np.full((3, 3) if bins else 3, codes)
    counts = EngagementCounts([0.1, 0.2, 0.3], sent, (sent * share).astype(int), bins)
    state = fit(counts, prior_rate=0.1, prior_codes=20)
    assert np.isfinite(state.mean).all()
    learned = slice(None) if bins else slice(-1)  # without bins there is no f
    assert (np.diag(state.covariance)[learned] > 0).all()
    assert np.isfinite(state.covariance).all()
