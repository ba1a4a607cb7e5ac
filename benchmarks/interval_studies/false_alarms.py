"""Logs that are random: how often `random_log` says that they do not look so, or refuses them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from disco.evaluation.log import random_log
from disco.records.errors import InputError

from .tally import Row, Tally

ROWS = 4000


def study(logs: int, *, seed: int = 6) -> Iterator[Row]:
    """Nominal: 0.1 % of the logs; wanted: 1 % at most."""
    for depths, carriers in ((8, 20), (8, 5), (3, 20)):
        tally = Tally("false alarm", f"uniform, {depths} depths, {carriers} carriers", lowest=0.0, highest=0.01)
        rng = np.random.default_rng(seed)
        for _ in range(logs):
            place = rng.integers(0, depths, ROWS)
            rare = np.zeros(ROWS)
            rare[rng.choice(ROWS, carriers, replace=False)] = 1.0
            _count(tally, rng, place, depths, rare, None)
        yield from tally.rows()
    for name, sharpness in (("mild", 1.0), ("skewed", 3.0), ("least 1e-10", 7.0)):
        tally = Tally("false alarm", f"softmax propensities, {name}", lowest=0.0, highest=0.01)
        rng = np.random.default_rng(seed)
        for _ in range(logs):
            x = rng.normal(size=ROWS)
            score = sharpness * x[:, None] * np.linspace(-1, 1, 4)
            law = np.exp(score - score.max(axis=1, keepdims=True))
            law /= law.sum(axis=1, keepdims=True)
            place = (rng.random((ROWS, 1)) > law.cumsum(axis=1)[:, :3]).sum(axis=1)
            _count(tally, rng, place, 4, x, law[np.arange(ROWS), place])
        yield from tally.rows()


def _count(
    tally: Tally,
    rng: np.random.Generator,
    place: np.ndarray,
    depths: int,
    column: np.ndarray,
    propensity: np.ndarray | None,
) -> None:
    context = np.column_stack([rng.normal(size=ROWS), column])
    depth = np.linspace(0.05, 0.4, depths).round(3)[place]
    price = np.where(rng.random(ROWS) < 0.2, 30.0, np.nan)
    alarmed = refused = False
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            random_log(context, depth, price, propensity=propensity)
        except InputError:
            refused = True
        alarmed = any("random" in str(one.message) or "frequent" in str(one.message) for one in said)
    tally.add("does not look random", alarmed)
    tally.add("refused", refused)
