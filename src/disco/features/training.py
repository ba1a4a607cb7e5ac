"""Fitting the network with torch: Adam, mini-batches, dropout, early stopping on rows kept out.

The only module that imports torch, and only when called. It leaves torch's global state (seed, threads) as it found it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from disco.records.arrays import Matrix, Vector
from disco.records.errors import MissingPartError

if TYPE_CHECKING:
    import torch

Progress = Callable[[int, int], None]  # epochs done, epochs at most


@dataclass(frozen=True, slots=True, eq=False)
class ScaledRows:
    """Rows as the network sees them: scaled inputs (rows, features), ln full price, (depth − mean) / sd."""

    inputs: Matrix
    target: Vector
    relative_depth: Vector


class RowSource(Protocol):
    """Training rows in chunks, and the rows kept out for early stopping."""

    @property
    def validation(self) -> ScaledRows: ...

    def chunks(self, random: np.random.Generator) -> Iterator[ScaledRows]:
        """Every training row once, in an order that may be drawn from `random`."""


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
    source: RowSource,
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
