"""A trained context network as a frozen value: features in, context vector ψ1 out, the same bits for any chunk."""

from dataclasses import dataclass

import numpy as np

from disco.features.kernel import context_rows
from disco.features.rows import history_column
from disco.features.scaling import Scaling
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """Weights and scales of a trained network.

    ψ1(x) = clip((h(x) − `mean`)·`inverse_sd`, ±4) on the 2⁻¹⁶ grid, h the last hidden layer. The heads are linear in
    ψ1, constant first: level b(x) = `level`·[1, ψ1], slope s(x) = `slope`·[1, ψ1] per unit of depth,
    E[ln F] = b + s·(depth − `mean_depth`).
    """

    feature_names: tuple[str, ...]
    schema: str  # hash of the features it was trained on; empty: unknown
    own_features: str  # definitions of the features where they are not the whole catalogue (see `selection`)
    heads: str
    scaling: Scaling
    sizes: tuple[int, ...]  # features, hidden…, d1
    weights: Vector  # packed as `kernel.context_rows` reads them
    leak: float
    mean: Vector  # (d1,)
    inverse_sd: Vector  # (d1,); 0 for a unit that is constant over the training rows
    level: Vector  # (1 + d1,)
    slope: Vector  # (1 + d1,)
    mean_depth: float

    @property
    def dimensions(self) -> int:
        return self.sizes[-1]

    def context(self, rows: Matrix) -> Matrix:
        """ψ1 of raw features (rows, features), NaN = missing; shape (rows, d1)."""
        out = np.empty((rows.shape[0], self.dimensions))
        context_rows(
            np.ascontiguousarray(rows),
            self.scaling.unit,
            self.scaling.centre,
            self.scaling.spread,
            np.array(self.sizes, np.int64),
            self.weights,
            self.leak,
            self.mean,
            self.inverse_sd,
            history_column(self.feature_names),
            out,
        )
        return out

    def levels(self, context: Matrix) -> Vector:
        """b(x): the expected ln full price at the mean depth of the training orders."""
        return head(self.level, context)

    def slopes(self, context: Matrix) -> Vector:
        """s(x): how much ln full price grows per unit of depth."""
        if self.heads == "level":
            raise InputError("slope", found='heads="level"', expected='a network fitted with heads="level+slope"')
        return head(self.slope, context)


def head(weights: Vector, context: Matrix) -> Vector:
    """weights·[1, ψ1] per row, summed from the first unit to the last.

    >>> head(np.array([1.0, 2.0, -1.0]), np.array([[3.0, 4.0]])).tolist()
    [3.0]
    """
    total = np.full(context.shape[0], weights[0])
    for place in range(context.shape[1]):
        total += weights[place + 1] * context[:, place]
    return total
