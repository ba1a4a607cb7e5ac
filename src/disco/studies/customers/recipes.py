"""The contexts that are compared: plain ReLU or ours, one head or two, and how many dimensions."""

from dataclasses import dataclass

from disco.features import ContextNetwork, TrainingSet

PLAIN = 0.0  # the paper's ReLU


@dataclass(frozen=True, slots=True)
class Recipe:
    """`leak` None is our output layer's own.

    >>> Recipe("level", PLAIN).name
    'plain ReLU, level'
    """

    heads: str
    leak: float | None = None
    dimensions: int = 6

    @property
    def name(self) -> str:
        layer = "plain ReLU" if self.leak == PLAIN else "ours"
        return f"{layer}, {self.heads}" + (f", {self.dimensions} dimensions" if self.dimensions != 6 else "")

    def network(self, *, seed: int, max_epochs: int = 40) -> ContextNetwork:
        network = ContextNetwork(
            heads=self.heads, dimensions=self.dimensions, seed=seed, max_epochs=max_epochs, device="cpu"
        )
        return network if self.leak is None else network.set_params(leak=self.leak)

    def fit(self, training: TrainingSet, *, seed: int, max_epochs: int = 40) -> ContextNetwork:
        network = self.network(seed=seed, max_epochs=max_epochs)
        return network.fit(training.X, training.log_full_price, training.depth)


LEVEL, SLOPE = Recipe("level"), Recipe("level+slope")
PLAIN_LEVEL, PLAIN_SLOPE = Recipe("level", PLAIN), Recipe("level+slope", PLAIN)
MAIN = (PLAIN_LEVEL, LEVEL, PLAIN_SLOPE, SLOPE)
OTHER_DIMENSIONS = tuple(Recipe(heads, None, size) for size in (4, 8, 12) for heads in ("level", "level+slope"))
