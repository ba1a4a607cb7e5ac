"""Training rows → `Embedding`: scales, weights by torch, then the context layer standardised over the training rows.

Adam, mini-batches, dropout, early stopping on rows kept out. The only module that imports torch, and only when called.
It leaves torch's global state (seed, threads) as it found it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from disco.features.embedding import Embedding
from disco.features.rows import RawRows, Rows, ScaledRows, ScaledSource
from disco.features.scaling import Scaling
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError, MissingPartError

if TYPE_CHECKING:
    import torch


class FeatureWarning(UserWarning):
    """A network is usable but weaker than it should be; the message says what to do."""


class DepthVariationWarning(FeatureWarning):
    """The training orders cannot tell elasticity from spend: too little variation of depth, or depth follows spend."""


class NetworkWarning(FeatureWarning):
    """The trained network wastes part of its context layer."""


Progress = Callable[[int, int], None]  # epochs done, epochs at most
FEWEST_ROWS = 100
SMALLEST_DEPTH_SD = 0.02  # of money depth: less, and the orders say nothing about elasticity
MOST_EXPLAINED = 0.5  # share of depth's variance the features may explain before slope and spend mix
_SMALLEST_BATCH, _STEPS_PER_EPOCH = 32, 64
_CONSTANT = 1e-6  # sd below which a unit of the context layer is dead


@dataclass(frozen=True, slots=True)
class Schedule:
    """How to train: see `ContextNetwork`."""

    leak: float
    dropout: float
    learning_rate: float
    batch_rows: int
    max_epochs: int
    patience: int
    seed: int
    device: str


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """Weights packed for the kernel, the heads on the raw last layer (constant first), and the course of the loss."""

    weights: Vector
    level: Vector
    slope: Vector
    validation_losses: tuple[float, ...]


def fit_embedding(
    rows: Rows,
    *,
    hidden: tuple[int, ...],
    dimensions: int,
    heads: str,
    schedule: Schedule,
    progress: Progress | None = None,
) -> tuple[Embedding, tuple[float, ...], tuple[FeatureWarning, ...]]:
    """The trained network, its loss on the validation rows after each epoch, and what it should be warned of."""
    sample = rows.sample()
    if len(sample.target) < FEWEST_ROWS:
        raise InputError(
            "training rows", found=len(sample.target), expected=f"at least {FEWEST_ROWS} with a purchase in the year"
        )
    scaling = Scaling.fit(sample.features)
    inputs = scaling.apply(sample.features)
    mean_depth, sd_depth = float(sample.depth.mean()), float(sample.depth.std())
    with_slope = heads == "level+slope"
    notes = _weak_depths(inputs, sample.depth, sd_depth) if with_slope else ()
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
    losses = _finite(trained)
    mean, inverse_sd = _standards(last_layer(inputs, sizes, trained.weights, schedule.leak))
    notes += _dead_units(inverse_sd)
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
    return embedding, losses, notes


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
    return mean, np.where(dead, 0.0, 1 / np.where(dead, 1.0, sd))


def _dead_units(inverse_sd: Vector) -> tuple[FeatureWarning, ...]:
    dead = int(np.count_nonzero(inverse_sd == 0))
    if not dead:
        return ()
    said = f"{dead} of {inverse_sd.size} context units are constant over the training rows and will always be 0"
    return (NetworkWarning(f"{said}; train with a larger `leak`, another seed, or fewer `dimensions`"),)


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


def _weak_depths(inputs: Matrix, depth: Vector, sd_depth: float) -> tuple[FeatureWarning, ...]:
    """Whether the orders can tell elasticity from spend."""
    if sd_depth < SMALLEST_DEPTH_SD:
        said = (
            f"the depths of the training orders hardly vary (sd {sd_depth:.3f}): the slope head cannot learn elasticity"
        )
        return (DepthVariationWarning(f'{said}; use heads="level", or orders of a campaign with several depths'),)
    rows = slice(None, None, max(1, len(depth) // 20_000))
    design = np.column_stack([np.ones(len(depth[rows])), inputs[rows]])
    fitted = design @ np.linalg.lstsq(design, depth[rows], rcond=None)[0]
    left = len(fitted) - design.shape[1]
    if left <= 0:
        return ()
    # adjusted for the number of features, else few rows look explained by chance
    explained = 1 - (np.sum((depth[rows] - fitted) ** 2) / left) / np.var(depth[rows], ddof=1)
    if explained <= MOST_EXPLAINED:
        return ()
    said = f"features explain {explained:.0%} of the depth of the orders, so elasticity is mixed up with spend"
    return (DepthVariationWarning(f'{said}; use heads="level", or orders of a campaign whose depths were random'),)


# ---- with torch ------------------------------------------------------------------------------------------------------


@contextmanager
def _private_torch(seed: int, device: str) -> Iterator[Any]:
    """torch with its own seed and one thread, so that a seed gives the same weights whatever else the process does.

    A CPU and a GPU round differently: equal seeds give equal weights on one kind of device.
    """
    import torch

    threads = torch.get_num_threads()
    on_gpu = device == "cuda"
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_gpu else []):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also reseed GPUs not in use
        if on_gpu:
            torch.cuda.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            yield torch
        finally:
            torch.set_num_threads(threads)


def pick_device(wanted: str) -> str:
    """ "auto" is a GPU when there is one, else the CPU."""
    import torch

    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise MissingPartError("device cuda", found="no usable GPU", expected="one", fix='Use device="cpu" or "auto".')
    return ("cuda" if there else "cpu") if wanted == "auto" else wanted


def train(
    source: ScaledSource,
    schedule: Schedule,
    *,
    sizes: tuple[int, ...],
    start: tuple[float, ...],
    progress: Progress | None = None,
) -> Trained:
    """Minimise the mean of (ln F − b(x) − s(x)·(depth − mean) / sd)².

    `sizes` = (features, hidden…, d1). `start` is where the heads begin: (mean ln F, pooled slope), or (mean ln F,) for
    a level head alone, s = 0. Training stops when the loss on the validation rows has not improved for `patience`
    epochs; the best epoch's weights are kept.
    """
    name = pick_device(schedule.device)
    with _private_torch(schedule.seed, name) as torch:
        device = torch.device(name)
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
        heads = torch.nn.Linear(sizes[-1], len(start))
        for layer in layers:
            torch.nn.init.kaiming_uniform_(layer.weight, a=schedule.leak, nonlinearity="leaky_relu")
            torch.nn.init.zeros_(layer.bias)
        with torch.no_grad():
            heads.weight.mul_(0.3)
            heads.bias.copy_(torch.tensor(start))
        steps: list[Any] = []
        for number, layer in enumerate(layers):
            steps += [layer, torch.nn.LeakyReLU(schedule.leak)]
            if number < len(layers) - 1:  # never on the context layer: its units are read one by one later
                steps.append(torch.nn.Dropout(schedule.dropout))
        network = torch.nn.Sequential(*steps, heads).to(device)
        optimiser = torch.optim.Adam(network.parameters(), lr=schedule.learning_rate)
        random = np.random.default_rng(schedule.seed)
        held = _tensors(source.validation, device)
        best, best_loss, waited, losses = _copy(network), float("inf"), 0, []
        for epoch in range(schedule.max_epochs):
            network.train()
            for chunk in source.chunks(random):
                rows = _tensors(chunk, device)
                for some in (
                    torch.from_numpy(random.permutation(len(chunk.target))).to(device).split(schedule.batch_rows)
                ):
                    optimiser.zero_grad(set_to_none=True)
                    _loss(network, *(part[some] for part in rows)).backward()
                    optimiser.step()
            if progress is not None:
                progress(epoch + 1, schedule.max_epochs)
            if not len(source.validation.target):
                best = _copy(network)
                continue
            network.eval()
            with torch.no_grad():
                losses.append(float(_loss(network, *held)))
            if losses[-1] < best_loss:
                best, best_loss, waited = _copy(network), losses[-1], 0
            else:
                waited += 1
                if waited >= schedule.patience:
                    break
        network.load_state_dict(best)
        return _unpack(layers, heads, tuple(losses))


def _tensors(rows: ScaledRows, device: "torch.device") -> "tuple[torch.Tensor, ...]":
    import torch

    parts = (rows.inputs, rows.target, rows.relative_depth)
    return tuple(torch.from_numpy(part.astype(np.float32)).to(device) for part in parts)


def _loss(network: Any, inputs: Any, target: Any, relative_depth: Any) -> Any:
    out = network(inputs)
    fitted = out[:, 0] + out[:, 1] * relative_depth if out.shape[1] == 2 else out[:, 0]
    return (target - fitted).square().mean()


def _copy(network: Any) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _unpack(layers: list[Any], heads: Any, losses: tuple[float, ...]) -> Trained:
    def array(tensor: Any) -> Matrix:
        return np.asarray(tensor.detach().cpu().numpy(), np.float64)

    packed = [part for layer in layers for part in (array(layer.bias), array(layer.weight).T.ravel())]
    rows = np.column_stack([array(heads.bias), array(heads.weight)])
    slope = rows[1] if rows.shape[0] == 2 else np.zeros(rows.shape[1])
    return Trained(np.concatenate(packed), rows[0], slope, losses)
