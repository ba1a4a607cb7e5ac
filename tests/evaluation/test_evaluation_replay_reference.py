"""Replay against a second implementation that shares no code with it: ridge regression, an assignment solver, loops."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from disco.evaluation.log import random_log
from disco.evaluation.replay import replay
from disco.policy import Greedy

DEPTHS, CENTRES, GAMMA = (0.1, 0.2, 0.35), (0.25, 0.5, 0.75), 20.0
WEIGHT, BATCH = 3.0, 60


def draw_log(seed: int, rows: int) -> tuple[np.ndarray, ...]:
    """Contexts and ln prices on the grid of the evidence, so that rounding plays no part."""
    rng = np.random.default_rng(seed)
    context = np.round(rng.normal(size=(rows, 2)).clip(-3.9, 3.9) * 2**12) / 2**12
    depth = rng.choice(DEPTHS, rows)
    logs = 3.5 + 0.4 * context[:, 0] + depth * (1 + 2 * context[:, 1]) + 0.5 * rng.normal(size=rows)
    price = np.exp(np.round(logs * 2**12) / 2**12)
    return context, depth, np.where(rng.random(rows) < 0.7, price, np.nan)


def features(context: np.ndarray, depth: float) -> np.ndarray:
    """ψ = [1, ψ1, ψ2, ψ1 × ψ2] of every customer at one depth."""
    bumps = np.exp(-GAMMA * (depth - np.array(CENTRES)) ** 2)
    return np.array([np.concatenate([[1.0], x, bumps, np.outer(x, bumps).ravel()]) for x in context])


def reference(log, warm, caps) -> dict[str, float]:
    context, depth, price = log
    seen_x = [features(x[None], a)[0] for x, a, f in zip(*warm, strict=True) if f == f]
    seen_y = [np.log(f) for f in warm[2] if f == f]
    prior = np.diag([1e-6] + [1.0] * (len(seen_x[0]) - 1))
    accepted = purchasers = codes = 0
    revenue = objective = 0.0
    for first in range(0, len(depth), BATCH):
        here = range(first, min(first + BATCH, len(depth)))
        design = np.array(seen_x)
        theta = np.linalg.solve(prior + design.T @ design, design.T @ np.array(seen_y))
        worth = np.column_stack(
            [(WEIGHT * (1 - a) - a) * np.exp(features(context[list(here)], a) @ theta) for a in DEPTHS]
        )
        slots = [k for k, cap in enumerate(caps) for _ in range(cap * len(here) // BATCH)]
        values = np.column_stack([worth[:, slots], np.zeros((len(here), len(here)))])
        _, taken = linear_sum_assignment(values, maximize=True)
        for row, slot in zip(here, taken, strict=True):
            if slot >= len(slots):
                continue
            codes += 1
            if DEPTHS[slots[slot]] != depth[row]:
                continue
            accepted += 1
            if price[row] == price[row]:
                purchasers += 1
                revenue += price[row] * (1 - depth[row])
                objective += price[row] * (WEIGHT * (1 - depth[row]) - depth[row])
                seen_x.append(features(context[row : row + 1], depth[row])[0])
                seen_y.append(np.log(price[row]))
    return {
        "codes": codes,
        "accepted": accepted,
        "purchasers": purchasers,
        "basket": revenue / purchasers,
        "ips": len(DEPTHS) * objective / len(depth),
        # of customers with a code as the accepted ones, of all others 0 for certain
        "snips": len(DEPTHS) * objective / (len(DEPTHS) * accepted + len(depth) - codes),
    }


@pytest.mark.parametrize("seed", range(10))
def test_ten_random_logs(seed):
    log, warm = draw_log(seed, 220), draw_log(seed + 100, 80)
    caps = (25, 20, 10)
    found = replay(
        random_log(*log, check_balance=False),
        Greedy(),
        warm=random_log(*warm, check_balance=False),
        batch=BATCH,
        caps=dict(zip(DEPTHS, caps, strict=True)),
        revenue_weight=WEIGHT,
        passes=1,
        repeats=0,
    ).policies["greedy"]
    expected = reference(log, warm, caps)
    assert found.objective is not None
    assert found.objective.snips is not None
    assert {
        "codes": int(found.codes.sum()),
        "accepted": found.accepted,
        "purchasers": found.purchasers,
        "basket": found.average_basket_value.value,
        "ips": found.objective.ips.value,
        "snips": found.objective.snips.value,
    } == pytest.approx(expected, rel=1e-9)
