"""Is the network still looking at the world it was trained on? Pure functions of an `Embedding` and arrays."""

import math

import numpy as np

from disco.features.embedding import Embedding
from disco.features.scaling import bin_shares, log_size_of
from disco.records.arrays import Matrix, Vector
from disco.records.grid import CONTEXT_LIMIT

PSI_WATCH, PSI_ALARM = 0.1, 0.25  # the usual reading: below, stable; above, another population
_SMALLEST_SHARE = 1e-4  # an empty bin counts as this share, so that PSI stays finite
FEWEST_ROWS = 1000  # fewer differ from training by chance alone
_FACTOR = 20.0  # a rescaled column is off by at least this


def stability_index(reference: Vector, shares: Vector) -> float:
    """Population stability index Σ (p − q)·ln(p / q) over bins; 0 when the laws agree.

    >>> round(stability_index(np.array([0.5, 0.5]), np.array([0.2, 0.8])), 4)
    0.4159
    """
    q, p = (np.maximum(values, _SMALLEST_SHARE) for values in (reference, shares))
    return float(np.sum((p - q) * np.log(p / q)))


def drift(embedding: Embedding, rows: Matrix) -> dict[str, float]:
    """PSI of each feature against the training rows (deciles of training, and missing), largest first."""
    scaling = embedding.scaling
    indices = {
        name: stability_index(scaling.shares[place], bin_shares(rows[:, place], scaling.edges[place]))
        for place, name in enumerate(embedding.feature_names)
    }
    return dict(sorted(indices.items(), key=lambda item: -item[1]))


def dead_units(embedding: Embedding) -> tuple[int, ...]:
    """Context units that are always 0 because they were constant over the training rows."""
    return tuple(int(unit) for unit in np.flatnonzero(embedding.inverse_sd == 0))


def clipped_shares(context: Matrix) -> Vector:
    """Share of rows per context unit at the limit of ±4.

    >>> clipped_shares(np.array([[4.0, 0.0], [-1.0, 0.5]])).tolist()
    [0.5, 0.0]
    """
    return np.asarray(np.mean(np.abs(context) >= CONTEXT_LIMIT, axis=0)) if len(context) else np.zeros(context.shape[1])


def missing_shares(embedding: Embedding, rows: Matrix) -> dict[str, tuple[float, float]]:
    """Share of missing values per feature: (in training, now)."""
    now = np.isnan(rows).mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    return {
        name: (float(embedding.scaling.shares[place, -1]), float(now[place]))
        for place, name in enumerate(embedding.feature_names)
    }


def outside_shares(embedding: Embedding, rows: Matrix) -> dict[str, float]:
    """Share of values per feature outside anything seen in training, by more than one robust sd of the scaled input.

    The margin keeps quiet about what merely goes on, such as a year more of `tenure_days`.
    """
    scaling = embedding.scaling

    def scaled(values: Matrix) -> Matrix:
        curved = np.sign(values) * np.log1p(np.abs(values) * scaling.unit)
        return np.asarray((curved - scaling.centre) * scaling.spread)

    low, high = scaled(scaling.limits.T)
    now = scaled(rows)
    outside = ((now < low - 1) | (now > high + 1)).mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    return dict(zip(embedding.feature_names, outside.tolist(), strict=True))


def rescaled_columns(embedding: Embedding, rows: Matrix) -> tuple[tuple[str, float], ...]:
    """Columns whose values are a large multiple of those in training, with the factor: pence for pounds, say.

    A column counts as rescaled when the median of ln |x| (x ≠ 0) moved by more than ln 20 and by more than twice its
    interquartile range in training. Fewer than a thousand rows are never judged: they may be a few odd customers. Nor
    are recencies (`days_since_…`): the day after a campaign to everybody, everybody's last code is a day old.
    """
    if len(rows) < FEWEST_ROWS:
        return ()
    found = []
    for place, name in enumerate(embedding.feature_names):
        middle, width = embedding.scaling.log_size[place]
        column = rows[:, place]
        now = log_size_of(column[~np.isnan(column)])[0]
        shift = now - middle
        if (
            not name.startswith("days_since_")
            and math.isfinite(shift)
            and abs(shift) > max(math.log(_FACTOR), 2 * width)
        ):
            found.append((name, math.exp(shift)))
    return tuple(found)
