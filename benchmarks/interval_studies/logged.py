"""Off-policy estimates on logs with propensities: IPS, SNIPS and DR of one policy, and the difference of two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from disco.evaluation.log import random_log
from disco.evaluation.off_policy import off_policy, off_policy_difference

from .tally import Row, Tally
from .world import GRID, TAILS, World

ROWS = 3000
_SHARES = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])


def logging_law(x: np.ndarray) -> np.ndarray:
    """(n, 3) probabilities that follow x2: random, not uniform, everywhere positive."""
    score = np.exp(x[:, 1:] * np.array([0.5, 0.0, -0.5]) + np.array([0.3, 0.0, -0.1]))
    return np.asarray(score / score.sum(axis=1, keepdims=True))


def target_law(x: np.ndarray) -> np.ndarray:
    """(n, 3) of the policy to be valued: deep codes for elastic customers, mostly."""
    return 0.8 * np.eye(3)[np.digitize(x[:, 1], (-0.5, 0.5))] + 0.2 / 3


def other_law(x: np.ndarray) -> np.ndarray:
    """(n, 3) of the policy it is compared with; the two agree about many customers."""
    return 0.8 * np.eye(3)[np.digitize(x[:, 1], (0.0, 1.0))] + 0.2 / 3


def expected(world: World) -> tuple[float, float]:
    """The true revenue per customer of both policies."""
    first, second = (
        world.expected(lambda x, law=law: (law(x) * world.revenue(x)).sum(axis=1)) for law in (target_law, other_law)
    )
    return first, second


def study(logs: int, *, seed: int = 2) -> Iterator[Row]:
    """Propensities that follow the context and are known; and shares within strata, estimated from the log."""
    for tail, noise_sd in TAILS.items():
        world = World(noise_sd)
        value, less = expected(world)
        rng = np.random.default_rng(seed)
        for kind in ("known propensities", "shares by stratum"):
            tally = Tally("off-policy", f"{kind}, {tail}")
            for _ in range(logs):
                _count(tally, world, rng, value, value - less, is_known=kind == "known propensities")
            yield from tally.rows()


def _count(
    tally: Tally, world: World, rng: np.random.Generator, value: float, difference: float, *, is_known: bool
) -> None:
    x = world.customers(rng, ROWS)
    stratum = (x[:, 1] > 0).astype(int)
    law = logging_law(x) if is_known else _SHARES[stratum]
    place = (rng.random((ROWS, 1)) > law.cumsum(axis=1)[:, :2]).sum(axis=1)
    price = world.outcomes(rng, x, place)
    at = np.arange(ROWS), place
    log = random_log(
        x,
        GRID[place],
        price,
        propensity=law[at] if is_known else None,
        strata=None if is_known else stratum,
        check_balance=False,
    )
    model = 0.6 * world.revenue(x) + 2.0  # biased on purpose: doubly robust must not care
    target, other = target_law(x), other_law(x)
    given = {
        "figure": np.nan_to_num(price) * (1 - GRID[place]),
        "propensity": log.propensity,
        "target": target[at],
        "predicted_logged": model[at],
        "predicted_target": (target * model).sum(axis=1),
    }
    one = off_policy(**given)
    both = off_policy_difference(**given, other=other[at], predicted_other=(other * model).sum(axis=1))
    for name in ("ips", "snips", "dr"):
        tally.covers(name.upper(), getattr(one, name), value)
        tally.covers(f"{name.upper()}, difference of two policies", getattr(both, name), difference)
