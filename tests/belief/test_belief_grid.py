"""The grid costs no accuracy: the bound of docs/decisions/020."""

import numpy as np

from disco.belief import BasketModel, RadialBasis


def test_rounding_moves_a_prediction_by_far_less_than_its_sd():
    generator = np.random.default_rng(1)
    count = 30_000
    context = generator.normal(size=(count, 6)).clip(-4, 4)
    depth = generator.choice([0.65, 0.75, 0.85, 0.95], count)
    log_price = 3.65 + 0.3 * context[:, 0] + depth * (0.7 + 0.2 * context[:, 1]) + 0.72 * generator.normal(size=count)
    encoding = RadialBasis(gamma=20)

    def psi(context, depth):
        x, a = np.column_stack((np.ones(len(depth)), context)), encoding.features(depth)
        return (x[:, :, None] * np.column_stack((np.ones(len(depth)), a))[:, None, :]).reshape(len(depth), -1)

    v0 = np.ones(28)
    v0[0] = 1e-6
    p = psi(context, depth)
    v = np.diag(v0) + p.T @ p
    asked, at = generator.normal(size=(500, 6)).clip(-4, 4), generator.choice([0.3, 0.5, 0.75], 500)
    exact = psi(asked, at) @ np.linalg.solve(v, p.T @ log_price)
    mean, sd = (
        BasketModel(encoding=encoding, noise_sd=0.72).update(context, depth, np.exp(log_price)).predict(asked, at)
    )
    assert np.abs(mean - exact).max() < 1e-4
    assert (np.abs(mean - exact) / sd).max() < 0.01
