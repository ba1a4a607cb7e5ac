"""The engagement score h of a customer: one number that says who uses a code, and the bins in which codes count.

h = wᵀ[1, ψ1], rounded to multiples of 2⁻¹⁶. It is linear in the context, so that whoever has contexts and the head has
scores, and nothing more is kept per customer. The edges of the bins are frozen with the head: counts of codes per bin
are integers that may be added and subtracted for as long as the head is in use. Networks train a head, and the belief
about engagement uses it; both rooms share it through this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from disco.records.arguments import read_array, read_column, read_count
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.compiled import njit
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.exact_sums import GRID

_BLOCK = 512  # scores whose places are found together


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBins:
    """Bins of the engagement score; bin b holds edges[b−1] ≤ h < edges[b], the outer ones are open.

    >>> bins = ScoreBins([-0.5, 0.5], [-1.0, 0.0, 1.0])
    >>> bins.places([-3.0, -0.5, 0.7, float("nan")]).tolist()  # the last has no score
    [0, 1, 2, 3]
    """

    edges: Vector  # (bins−1,), strictly ascending
    centres: Vector  # (bins,), the score that stands for a bin: the mean of the scores from which the bins were made

    def __post_init__(self) -> None:
        edges, centres = read_column(self.edges, where="edges"), read_column(self.centres, where="centres")
        if centres.size != edges.size + 1:
            found = f"{edges.size} edges and {centres.size} centres"
            raise InputError("bins of engagement scores", found=found, expected="one centre more than edges")
        if not (np.isfinite(edges).all() and np.isfinite(centres).all()):
            raise InputError("bins of engagement scores", found="NaN or infinity", expected="finite numbers")
        if not ((np.diff(edges) > 0).all() and (centres[:-1] <= edges).all() and (edges <= centres[1:]).all()):
            expected = "ascending edges with each centre between those of its bin"
            raise InputError("bins of engagement scores", found="another order", expected=expected)
        for name, array in (("edges", edges), ("centres", centres)):
            kept = array + 0.0  # a copy, without −0.0
            kept.flags.writeable = False
            object.__setattr__(self, name, kept)

    @classmethod
    def of(cls, scores: ArrayLike, *, count: int = 32) -> ScoreBins:
        """At most `count` bins with about as many of these scores each; NaN (no score) is left out.

        Equal scores are never in two bins, so that few distinct scores make fewer bins.
        """
        given = read_column(scores, where="scores")
        known = np.sort(given[~np.isnan(given)])
        if not known.size or not np.isfinite(known).all():
            raise InputError("scores", found="none, or infinite ones", expected="at least one finite score")
        wanted = read_count(count, where="count")
        # edges are scores that occur, so that no bin is empty
        edges = np.unique(known[(np.arange(1, wanted) * known.size) // wanted])
        edges = edges[edges > known[0]]
        starts = np.concatenate(([0], np.searchsorted(known, edges)))
        # exact sums of integers, so that the order of the scores does not matter
        units = np.add.reduceat(np.rint(known * GRID).astype(np.int64), starts)
        means = units / np.diff(np.append(starts, known.size))
        inner = np.append(edges, np.inf), np.concatenate(([-np.inf], edges))
        return cls(edges, np.clip(np.rint(means) / GRID, inner[1], inner[0]))

    @property
    def count(self) -> int:
        """How many bins there are, not counting the place of those without a score."""
        return int(self.centres.size)

    def places(self, score: ArrayLike) -> Integers:
        """The bin of each score, shape (customers,); NaN (no score) has the place `count`."""
        column = read_column(score, where="score")
        out = np.empty(column.size, np.int64)
        score_places(column, self.edges, out)
        return out

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreBins) and self._bytes() == other._bytes()

    def __hash__(self) -> int:
        return hash(self._bytes())

    def _bytes(self) -> tuple[bytes, bytes]:
        return self.edges.tobytes(), self.centres.tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class EngagementHead:
    """What turns contexts into engagement scores, with the bins that belong to them.

    >>> head = EngagementHead([0.5, 1.0, -1.0], ScoreBins([0.0], [-1.0, 1.0]))
    >>> head.scores([[1.0, 0.25], [0.0, 0.0]]).tolist()
    [1.25, nan]
    """

    weights: Vector  # (1+d1,): the constant, then one weight per column of the context
    bins: ScoreBins

    def __post_init__(self) -> None:
        weights = read_column(self.weights, where="weights of the engagement head") + 0.0
        if weights.size < 2 or not np.isfinite(weights).all():
            expected = "a constant and one finite weight per column of the context"
            raise InputError("weights of the engagement head", found=f"{weights.size} numbers", expected=expected)
        if not isinstance(self.bins, ScoreBins):
            raise InputError("bins of the engagement head", found=repr(self.bins)[:60], expected="ScoreBins")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    def scores(self, context: ArrayLike) -> Vector:
        """h of each customer, shape (customers,), on the grid of 2⁻¹⁶.

        A context of zeros is the population's: such customers have no score (NaN).

        context: (customers, d1), finite.
        """
        rows = read_array(context, where="context")
        if rows.ndim != 2 or rows.shape[1] != self.weights.size - 1:
            raise SchemaMismatchError(
                "context of another schema",
                found=f"an array of shape {rows.shape}",
                expected=f"the {self.weights.size - 1} columns this engagement head was trained with",
                fix="Use the context network that belongs to this head.",
            )
        if rows.size and not np.isfinite(rows.min() + rows.max()):
            raise InputError("context", found="NaN or infinity", expected="finite values")
        out = np.empty(len(rows))
        score_rows(rows, self.weights, out)
        return out

    def to_json(self) -> dict[str, list[float]]:
        """Plain lists; `from_json` gives an equal head."""
        return {
            "weights": self.weights.tolist(),
            "edges": self.bins.edges.tolist(),
            "centres": self.bins.centres.tolist(),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> EngagementHead:
        """The head that `to_json` wrote."""
        keys = ("weights", "edges", "centres")
        if not isinstance(form, Mapping) or set(form) != set(keys):
            found = ", ".join(map(str, form)) if isinstance(form, Mapping) else repr(form)[:60]
            raise InputError("engagement head", found=found or "nothing", expected=", ".join(keys))
        weights, edges, centres = (read_column(form[key], where=f"engagement head, {key}") for key in keys)
        return cls(weights, ScoreBins(edges, centres))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, EngagementHead)
            and self.weights.tobytes() == other.weights.tobytes()
            and self.bins == other.bins
        )

    def __hash__(self) -> int:
        return hash((self.weights.tobytes(), self.bins))


@njit(cache=True, nogil=True, patient=True)
def score_rows(context: Matrix, weights: Vector, out: Vector) -> None:
    """w₀ + Σ wᵢ·xᵢ in this order, x on the grid, the sum rounded to it; NaN for a row of zeros."""
    for row in range(context.shape[0]):
        total = weights[0]
        known = False
        for column in range(context.shape[1]):
            x = np.rint(context[row, column] * GRID) * (1.0 / GRID)
            known |= x != 0.0
            total += weights[1 + column] * x
        out[row] = np.rint(total * GRID) * (1.0 / GRID) if known else np.nan


@njit(cache=True, nogil=True, patient=True)
def score_places(score: Vector, edges: Vector, out: Integers) -> None:
    """How many edges are at most the score; NaN has the place after the last bin.

    Every edge is compared with a block of scores on whole vectors: for a few dozen edges faster than a search, whose
    branches no processor foresees.
    """
    line, count = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, score.size, _BLOCK):
        size = min(_BLOCK, score.size - start)
        for b in range(size):
            line[b] = score[start + b]
            count[b] = 0.0
        for edge in edges:
            for b in range(size):
                count[b] += 1.0 if line[b] >= edge else 0.0
        for b in range(size):
            out[start + b] = np.int64(count[b]) if line[b] == line[b] else edges.size + 1
