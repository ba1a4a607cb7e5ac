"""Training rows → `Embedding`: scales, weights, then the context layer standardised over the training rows."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np

from disco.features.cautions import DepthVariationWarning, NetworkWarning
from disco.features.embedding import Embedding
from disco.features.row_sources import RawRows, Rows, ScaledSource
from disco.features.scaling import Scaling
from disco.features.training import Progress, Schedule, Trained, train
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError

FEWEST_ROWS = 100
SMALLEST_DEPTH_SD = 0.02  # of money depth: less, and the orders say nothing about elasticity
MOST_EXPLAINED = 0.5  # share of depth's variance the features may explain before slope and spend mix
_SMALLEST_BATCH, _STEPS_PER_EPOCH = 32, 64
_CONSTANT = 1e-6  # sd below which a unit of the context layer is dead


def fit_embedding(
    rows: Rows,
    *,
    hidden: tuple[int, ...],
    dimensions: int,
    heads: str,
    schedule: Schedule,
    progress: Progress | None = None,
) -> tuple[Embedding, tuple[float, ...]]:
    """The trained network, and its loss on the validation rows after each epoch."""
    sample = rows.sample()
    if len(sample.target) < FEWEST_ROWS:
        raise InputError(
            "training rows", found=len(sample.target), expected=f"at least {FEWEST_ROWS} with a purchase in the year"
        )
    scaling = Scaling.fit(sample.features)
    inputs = scaling.apply(sample.features)
    mean_depth, sd_depth = float(sample.depth.mean()), float(sample.depth.std())
    with_slope = heads == "level+slope"
    if with_slope:
        _warn_of_weak_depths(inputs, sample.depth, sd_depth)
    sd_depth = sd_depth or 1.0
    sizes = (len(rows.names), *hidden, dimensions)
    # few rows, smaller batches: an epoch of a handful of steps would be stopped before it has learned anything
    batch_rows = min(schedule.batch_rows, max(_SMALLEST_BATCH, len(sample.target) // _STEPS_PER_EPOCH))
    trained = train(
        ScaledSource.of(rows, scaling, mean_depth, sd_depth),
        replace(schedule, batch_rows=batch_rows),
        sizes=sizes,
        start=_start(sample, mean_depth, sd_depth)[: 2 if with_slope else 1],
        progress=progress,
    )
    mean, inverse_sd = _standards(last_layer(inputs, sizes, trained.weights, schedule.leak))
    embedding = Embedding(
        feature_names=rows.names,
        schema=rows.schema,
        own_features=rows.own_features,
        heads=heads,
        scaling=scaling,
        sizes=sizes,
        weights=trained.weights,
        leak=schedule.leak,
        mean=mean,
        inverse_sd=inverse_sd,
        level=_on_context(trained.level, mean, inverse_sd),
        slope=_on_context(trained.slope, mean, inverse_sd) / sd_depth,
        mean_depth=mean_depth,
    )
    return embedding, _finite(trained)


def last_layer(inputs: Matrix, sizes: tuple[int, ...], weights: Vector, leak: float) -> Matrix:
    """h(x) of scaled inputs by plain matrix products: for statistics over many rows, not for decisions."""
    at = 0
    for incoming, outgoing in pairwise(sizes):
        bias = weights[at : at + outgoing]
        matrix = weights[at + outgoing : at + outgoing * (incoming + 1)].reshape(incoming, outgoing)
        sums = inputs @ matrix + bias
        inputs = np.where(sums > 0, sums, sums * leak)
        at += outgoing * (incoming + 1)
    return inputs


def _start(sample: RawRows, mean_depth: float, sd_depth: float) -> tuple[float, float]:
    level = float(sample.target.mean())
    return level, float(np.mean((sample.depth - mean_depth) / sd_depth * (sample.target - level)))


def _standards(layer: Matrix) -> tuple[Vector, Vector]:
    mean, sd = layer.mean(axis=0), layer.std(axis=0)
    dead = sd <= _CONSTANT * np.maximum(1, np.abs(mean))
    if dead.any():
        warnings.warn(
            f"{int(dead.sum())} of {dead.size} context units are constant over the training rows and will always be 0; "
            "train with a larger `leak`, another seed, or fewer `dimensions`",
            NetworkWarning,
            stacklevel=4,
        )
    return mean, np.where(dead, 0.0, 1 / np.where(dead, 1.0, sd))


def _on_context(weights: Vector, mean: Vector, inverse_sd: Vector) -> Vector:
    """A head on the raw layer, constant first, rewritten for the standardised one (a dead unit joins the constant)."""
    sd = np.where(inverse_sd > 0, 1 / np.where(inverse_sd > 0, inverse_sd, 1.0), 0.0)
    return np.concatenate([[weights[0] + weights[1:] @ mean], weights[1:] * sd])


def _finite(trained: Trained) -> tuple[float, ...]:
    if not np.isfinite(trained.weights).all() or not np.isfinite(trained.level).all():
        raise InputError(
            "training", found="weights that are not finite", expected="a loss that falls", fix="Lower `learning_rate`."
        )
    return trained.validation_losses


def _warn_of_weak_depths(inputs: Matrix, depth: Vector, sd_depth: float) -> None:
    if sd_depth < SMALLEST_DEPTH_SD:
        warnings.warn(
            f"the depths of the training orders hardly vary (sd {sd_depth:.3f}): the slope head cannot learn "
            'elasticity; use heads="level", or orders of a campaign with several depths',
            DepthVariationWarning,
            stacklevel=4,
        )
        return
    rows = slice(None, None, max(1, len(depth) // 20_000))
    design = np.column_stack([np.ones(len(depth[rows])), inputs[rows]])
    fitted = design @ np.linalg.lstsq(design, depth[rows], rcond=None)[0]
    left = len(fitted) - design.shape[1]
    if left <= 0:
        return
    # adjusted for the number of features, else few rows look explained by chance
    explained = 1 - (np.sum((depth[rows] - fitted) ** 2) / left) / np.var(depth[rows], ddof=1)
    if explained > MOST_EXPLAINED:
        warnings.warn(
            f"the customers' features explain {explained:.0%} of the depth of their orders: elasticity is mixed up "
            'with spend; use heads="level", or orders of a campaign whose depths were random',
            DepthVariationWarning,
            stacklevel=4,
        )
