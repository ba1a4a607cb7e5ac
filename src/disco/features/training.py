"""Training rows → `Embedding`: scales, weights by torch, then the context layer standardised over the training rows.

Adam, mini-batches, dropout, early stopping on customers kept out. The only module that imports torch, and only when
called. It leaves torch's global state (seed, threads) as it found it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from disco.features.embedding import Embedding, Scaling, layers_of
from disco.features.habits import FEW_ROWS, has_habits, with_habits
from disco.features.training_rows import CodeRows, OrderRows, ScaledRows, ScaledSource
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError, MissingPartError
from disco.records.score import EngagementHead, ScoreBins

if TYPE_CHECKING:
    import torch


class FeatureWarning(UserWarning):
    """A network is usable but weaker than it should be; the message says what to do."""


class DepthVariationWarning(FeatureWarning):
    """The training orders cannot tell elasticity from spend: too little variation of depth, or depth follows spend."""


class NetworkWarning(FeatureWarning):
    """The trained network wastes part of its context layer."""


class EngagementWarning(FeatureWarning):
    """There are not enough codes to learn who uses one, so the network has no engagement head."""


Progress = Callable[[int, int], None]  # epochs done, epochs at most
FEWEST_ROWS = 100
SMALLEST_DEPTH_SD = 0.02  # of money depth: less, and the orders say nothing about elasticity
MOST_EXPLAINED = 0.5  # share of depth's variance the features may explain before slope and spend mix
_SMALLEST_BATCH, _STEPS_PER_EPOCH = 32, 64
ENGAGEMENT = "+engagement"
_CONSTANT = 1e-6  # sd below which a unit of the context layer is dead
_FIRST, _SECOND = 0.9, 0.999  # of Adam: what a step keeps of the mean gradient and of its mean square
_MEMORY = 0.998  # of the average of the weights: what a late step keeps of it, so that it is over 500 steps at most


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
    engagement: Vector
    validation_losses: tuple[float, ...]  # mean squared error of ln F
    validation_log_losses: tuple[float, ...]  # of codes, in nats; empty without any of customers kept out

    def __post_init__(self) -> None:
        """Refuse what a training that diverged leaves."""
        if not all(np.isfinite(part).all() for part in (self.weights, self.level, self.slope, self.engagement)):
            fix = "Lower `learning_rate`."
            raise InputError("training", found="weights that are not finite", expected="a loss that falls", fix=fix)


@dataclass(frozen=True, slots=True)
class NetworkFit:
    """What `fit_embedding` learned: the network, its losses after each epoch, and what to be warned of."""

    embedding: Embedding
    losses: tuple[float, ...]
    log_losses: tuple[float, ...]
    notes: tuple[FeatureWarning, ...]


def fit_embedding(
    orders: OrderRows,
    *,
    hidden: tuple[int, ...],
    dimensions: int,
    heads: str,
    schedule: Schedule,
    codes: CodeRows | None = None,
    habits: bool = False,
    scores_habits: bool = False,
    progress: Progress | None = None,
) -> NetworkFit:
    """The trained network. `codes` are needed by the engagement head, and used by no other.

    habits: adds customers' habits to the context, where the features tell them. scores_habits: without codes, too, an
    engagement head is made of them.
    """
    sample = orders.rows.sample
    if len(sample.target) < FEWEST_ROWS:
        raise InputError(
            "training rows", found=len(sample.target), expected=f"at least {FEWEST_ROWS} with a purchase in the year"
        )
    scaling = Scaling.fit(sample.features)
    inputs = scaling.apply(sample.features)
    mean_depth, sd_depth = float(sample.depth.mean()), float(sample.depth.std())
    notes = () if heads == "level" else _weak_depths(inputs, sample.depth, sd_depth)
    sd_depth = sd_depth or 1.0
    sizes = (len(orders.names), *hidden, dimensions)
    # few rows, smaller batches: an epoch of a handful of steps would be stopped before it has learned anything
    batch_rows = min(schedule.batch_rows, max(_SMALLEST_BATCH, len(sample.target) // _STEPS_PER_EPOCH))
    level = float(sample.target.mean())
    pooled_slope = float(np.mean((sample.depth - mean_depth) / sd_depth * (sample.target - level)))
    trained = train(
        ScaledSource.of(orders.rows, scaling, mean_depth, sd_depth),
        replace(schedule, batch_rows=batch_rows),
        sizes=sizes,
        start=(level,) if heads == "level" else (level, pooled_slope),
        codes=codes,
        progress=progress,
    )
    mean, inverse_sd = _standards(last_layer(inputs, sizes, trained.weights, schedule.leak))
    notes += _dead_units(inverse_sd)
    embedding = Embedding(
        feature_names=orders.names,
        schema=orders.schema,
        own_features=orders.own_features,
        heads=heads.removesuffix(ENGAGEMENT),
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
    weights = None if codes is None else _on_context(trained.engagement, mean, inverse_sd)
    if habits and has_habits(orders.names) and (len(sample.target) < FEW_ROWS or (codes is None and scores_habits)):
        embedding, mixed = with_habits(embedding, sample, weights, codes)
        weights = mixed if codes is not None or scores_habits else None
    if weights is not None:
        receivers, day = sample if codes is None else codes.rows.sample, orders.snapshot
        embedding = replace(
            embedding,
            heads=embedding.heads + ENGAGEMENT,
            engagement=_engagement_head(weights, embedding.context(receivers.features)),
            trained_means=None if day is None else day.means(orders.names, scaling.unit),
        )
    return NetworkFit(embedding, trained.validation_losses, trained.validation_log_losses, notes)


def _engagement_head(weights: Vector, context: Matrix) -> EngagementHead:
    """The head with mean 0 over the training codes (codes, d1), and the bins of their scores."""
    weights = weights.copy()
    weights[0] = 0.0
    whole = ScoreBins(np.empty(0), np.zeros(1))
    weights[0] = -float(np.nanmean(EngagementHead(weights, whole).scores(context)))
    return EngagementHead(weights, ScoreBins.of(EngagementHead(weights, whole).scores(context)))


def last_layer(inputs: Matrix, sizes: tuple[int, ...], weights: Vector, leak: float) -> Matrix:
    """h(x) of scaled inputs by plain matrix products: for statistics over many rows, not for decisions."""
    for bias, matrix in layers_of(weights, sizes):
        sums = inputs @ matrix + bias
        inputs = np.where(sums > 0, sums, sums * leak)
    return inputs


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
    codes: CodeRows | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Minimise the mean of (ln F − b(x) − s(x)·(depth − mean) / sd)²; with codes, ½·ln of it plus the mean log loss of
    codes used, logit = h(x) + constant of the campaign + δ·(depth − mean) / sd.

    `sizes` = (features, hidden…, d1). `start` is where the heads begin: (mean ln F, pooled slope), or (mean ln F,) for
    a level head alone, s = 0. Training stops when the loss on the customers kept out has not improved for `patience`
    epochs; the best epoch's weights are kept.

    ½·ln(mean square) is the likelihood of an order at the variance that fits best, so that both parts are likelihoods
    of one row. With codes the weights that are judged and kept are averages over steps: two kinds of batches make the
    loss on the customers kept out so uneven from epoch to epoch that training stopped before elasticity was learned.
    """
    name = pick_device(schedule.device)
    with _private_torch(schedule.seed, name) as torch:
        device = torch.device(name)
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
        heads = torch.nn.Linear(sizes[-1], len(start) + (codes is not None))
        for layer in layers:
            torch.nn.init.kaiming_uniform_(layer.weight, a=schedule.leak, nonlinearity="leaky_relu")
            torch.nn.init.zeros_(layer.bias)
        with torch.no_grad():
            heads.weight.mul_(0.3)
            heads.bias.copy_(torch.tensor((*start, *([] if codes is None else [0.0]))))
        steps: list[Any] = []
        for number, layer in enumerate(layers):
            steps += [layer, torch.nn.LeakyReLU(schedule.leak)]
            if number < len(layers) - 1:  # never on the context layer: its units are read one by one later
                steps.append(torch.nn.Dropout(schedule.dropout))
        network = torch.nn.Sequential(*steps, heads).to(device)
        learner: Any = _Orders(network, slope=len(start) == 2)
        if codes is not None:
            learner = _OrdersAndCodes(network, codes, source.scaling, schedule, device)
        optimiser = Adam(learner.parameters(), rate=schedule.learning_rate)
        random = np.random.default_rng(schedule.seed)
        held = _tensors(source.validation, device)
        average = None if codes is None else _Average(learner.parameters())
        best, best_loss, waited, losses = _copy(network), float("inf"), 0, []
        for epoch in range(schedule.max_epochs):
            network.train()
            for chunk in source.chunks(random):
                rows = _tensors(chunk, device)
                for some in (
                    torch.from_numpy(random.permutation(len(chunk.target))).to(device).split(schedule.batch_rows)
                ):
                    optimiser.forget_gradients()
                    learner.loss(*(part[some] for part in rows)).backward()
                    optimiser.step()
                    if average is not None:
                        average.add()
            if progress is not None:
                progress(epoch + 1, schedule.max_epochs)
            with nullcontext() if average is None else average.in_place():
                now = _copy(network)
                if len(source.validation.target):
                    network.eval()
                    with torch.no_grad():
                        losses.append(learner.judge(*held))
            if not len(source.validation.target):
                best = now
                continue
            if losses[-1].total < best_loss:
                best, best_loss, waited = now, losses[-1].total, 0
            else:
                waited += 1
                if waited >= schedule.patience:
                    break
        network.load_state_dict(best)
        return _unpack(layers, heads, tuple(losses), slope=len(start) == 2, engagement=codes is not None)


class Adam:
    """Adam (Kingma & Ba 2015) with the defaults and, on a CPU, the bits of `torch.optim.Adam`.

    Making that one imports torch's compiler, which nobody uses here and which takes a second (decision 041).
    """

    def __init__(self, parameters: Iterable[Any], *, rate: float) -> None:
        self._parameters = list(parameters)
        self._rate = rate
        # of each parameter, the means of its gradient and of the gradient's square
        self._means = [(one.detach().clone().zero_(), one.detach().clone().zero_()) for one in self._parameters]
        self._steps = [0] * len(self._parameters)

    def forget_gradients(self) -> None:
        """Before the next loss is differentiated."""
        for parameter in self._parameters:
            parameter.grad = None

    def step(self) -> None:
        """Move each parameter that the last loss depends on."""
        for place, (parameter, (first, second)) in enumerate(zip(self._parameters, self._means, strict=True)):
            if parameter.grad is None:
                continue
            self._steps[place] += 1
            gradient, steps = parameter.grad, self._steps[place]
            first.lerp_(gradient, 1 - _FIRST)
            second.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
            # both begin at zero, so early means are too small by these factors
            scale = (second.sqrt() / (1 - _SECOND**steps) ** 0.5).add_(1e-8)
            parameter.data.addcdiv_(first, scale, value=-self._rate / (1 - _FIRST**steps))


class _Average:
    """The mean of some parameters over the steps, about the last tenth of them with most of the weight."""

    def __init__(self, parameters: list[Any]) -> None:
        self._now = parameters
        self._mean = [one.detach().clone() for one in parameters]
        self._steps = 0

    def add(self) -> None:
        """Take in the parameters as they are now."""
        self._steps += 1
        kept = min(_MEMORY, self._steps / (10 + self._steps))
        for mean, now in zip(self._mean, self._now, strict=True):
            mean.lerp_(now.detach(), 1 - kept)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The average instead of the parameters, for a while."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for mean, now in zip(self._mean, self._now, strict=True):
            mean.data, now.data = now.data, mean.data


class _Judged(NamedTuple):
    """Losses on the customers kept out."""

    total: float  # what is minimised
    squared: float  # mean squared error of ln F
    logs: float  # mean log loss of codes; NaN without any


class _Orders:
    """The loss of networks that learn from orders alone."""

    def __init__(self, network: Any, *, slope: bool) -> None:
        self._network, self._slope = network, slope

    def parameters(self) -> list[Any]:
        return list(self._network.parameters())

    def loss(self, inputs: Any, target: Any, relative_depth: Any, campaign: Any) -> Any:
        return _squared(self._network(inputs), target, relative_depth, slope=self._slope)

    def judge(self, inputs: Any, target: Any, relative_depth: Any, campaign: Any) -> _Judged:
        squared = float(self.loss(inputs, target, relative_depth, campaign))
        return _Judged(squared, squared, float("nan"))


class _OrdersAndCodes:
    """The loss of networks that also learn who uses a code: a batch of each kind per step."""

    def __init__(
        self, network: Any, codes: CodeRows, scaling: Scaling, schedule: Schedule, device: "torch.device"
    ) -> None:
        import torch

        depth = codes.rows.sample.depth
        sent = ScaledSource.of(codes.rows, scaling, float(depth.mean()), float(depth.std()) or 1.0)
        self._torch, self._network, self._device = torch, network, device
        self._constants = torch.nn.Parameter(torch.tensor(codes.constants, dtype=torch.float32, device=device))
        self._rise = torch.nn.Parameter(torch.zeros(1, device=device))  # δ
        self._batches = self._code_batches(sent, np.random.default_rng([schedule.seed, 1]), schedule.batch_rows)
        self._held = _tensors(sent.validation, device)

    def parameters(self) -> list[Any]:
        return [*self._network.parameters(), self._constants, self._rise]

    def loss(self, inputs: Any, target: Any, relative_depth: Any, campaign: Any) -> Any:
        sent, *code = next(self._batches)
        out = self._network(self._torch.cat([inputs, sent]))
        squared = _squared(out[: len(target)], target, relative_depth, slope=True)
        return _half_log(squared) + self._log_loss(out[len(target) :], *code)

    def judge(self, inputs: Any, target: Any, relative_depth: Any, campaign: Any) -> _Judged:
        squared = _squared(self._network(inputs), target, relative_depth, slope=True)
        sent, *code = self._held
        logs = float(self._log_loss(self._network(sent), *code)) if len(sent) else float("nan")
        return _Judged(float(_half_log(squared)) + (logs if len(sent) else 0.0), float(squared), logs)

    def _log_loss(self, out: Any, used: Any, relative_depth: Any, campaign: Any) -> Any:
        logit = out[:, 2] + self._constants[campaign] + self._rise * relative_depth
        return self._torch.nn.functional.binary_cross_entropy_with_logits(logit, used)

    def _code_batches(self, codes: ScaledSource, random: np.random.Generator, batch_rows: int) -> Iterator[Any]:
        """Batches without end."""
        while True:
            for chunk in codes.chunks(random):
                parts = _tensors(chunk, self._device)
                order: Any = self._torch.from_numpy(random.permutation(len(chunk.target))).to(self._device)
                for some in order.split(batch_rows):
                    yield tuple(part[some] for part in parts)


def _tensors(rows: ScaledRows, device: "torch.device") -> "tuple[torch.Tensor, ...]":
    import torch

    numbers = (rows.inputs, rows.target, rows.relative_depth)
    floats = tuple(torch.from_numpy(part.astype(np.float32)).to(device) for part in numbers)
    return (*floats, torch.from_numpy(rows.campaign).to(device))


def _squared(out: Any, target: Any, relative_depth: Any, *, slope: bool) -> Any:
    """Mean squared error of ln F."""
    fitted = out[:, 0] + out[:, 1] * relative_depth if slope else out[:, 0]
    return (target - fitted).square().mean()


def _half_log(squared: Any) -> Any:
    """½·ln of a mean square, which may be 0."""
    return 0.5 * (squared + _CONSTANT**2).log()


def _copy(network: Any) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _unpack(layers: list[Any], heads: Any, losses: tuple[_Judged, ...], *, slope: bool, engagement: bool) -> Trained:
    def array(tensor: Any) -> Matrix:
        return np.asarray(tensor.detach().cpu().numpy(), np.float64)

    packed = [part for layer in layers for part in (array(layer.bias), array(layer.weight).T.ravel())]
    rows = np.column_stack([array(heads.bias), array(heads.weight)])
    nothing = np.zeros(rows.shape[1])
    return Trained(
        np.concatenate(packed),
        level=rows[0],
        slope=rows[1] if slope else nothing,
        engagement=rows[-1] if engagement else nothing,
        validation_losses=tuple(one.squared for one in losses),
        validation_log_losses=tuple(one.logs for one in losses if not np.isnan(one.logs)),
    )
