"""Each customer's engagement rates, drawn: logit p = logits[column] + tilt·h + roots[column]·z, z standard normal.

As in `law.py`, kernels work on blocks with one line per quantity. The covariance belongs to the column (the bin of the
score), so customers of one column are put together first: their roots are then the same numbers for a whole block. A
customer's draw is a pure function of (stream, customer key) and their score; neither block nor chunk changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from disco.belief.elementary import customer_words, logistic, normal_pair
from disco.belief.engagement_posterior import attenuation
from disco.belief.law import BLOCK
from disco.records.arrays import Floats, Integers, Keys, Matrix, Vector
from disco.records.chunks import stack_rows
from disco.records.compiled import njit
from disco.records.ports import Engine

if TYPE_CHECKING:
    from disco.belief.engagement import EngagementLaw, SharedDraws

_SORTED = 8192  # rows that are put in order together: their rates stay in the processor's cache


class _Drawn(NamedTuple):
    """What the kernel needs. A column is a bin of the score, the last one customers without a score."""

    logits: Matrix  # (columns, K)
    tilt: float
    roots: Matrix  # (columns, K, rank)
    kept: Matrix  # (columns, K) attenuation: p = expit(kept·logit)
    order: Integers  # depths along which no rate falls


@dataclass(frozen=True, slots=True, eq=False)
class RateDraws:
    """Rates drawn with `exploration` times the posterior's sd.

    What is not drawn is averaged over: p = expit(κ·logit), κ that of `attenuation` for (1 − exploration²) times the
    variance of the logit, at the centre of the column. So the mean rate is nearly the same whatever the exploration.
    """

    law: EngagementLaw
    exploration: float

    def each(self, score: Vector, keys: Keys, *, stream: int, engine: Engine | None = None) -> Matrix:
        """(customers, K), Fortran order: one draw per customer, joint over their depths.

        score (customers,): NaN for those without one. keys (customers,). stream: separates uses of randomness.
        """
        roots = self.exploration * self.law.roots
        return self._served(score, keys, np.uint64(stream), self.law.logits, self.law.tilt, roots, engine)

    def shared(self, score: Vector, drawn: SharedDraws, *, engine: Engine | None = None) -> Matrix:
        """(customers, K), Fortran order: the first of these draws of the parameters, for everybody."""
        law = self.law
        logits = law.logits + self.exploration * (drawn.level[0] + drawn.bump[0][:, None] - law.logits)
        tilt = law.tilt + self.exploration * (float(drawn.tilt[0]) - law.tilt)
        none = np.zeros((*law.logits.shape, 0))
        return self._served(score, np.zeros(score.size, np.uint64), np.uint64(0), logits, tilt, none, engine)

    def _served(
        self,
        score: Vector,
        keys: Keys,
        stream: np.uint64,
        logits: Matrix,
        tilt: float,
        roots: Matrix,
        engine: Engine | None,
    ) -> Matrix:
        kept = _part_attenuation(self.law, self.exploration)
        arguments = _Drawn(np.ascontiguousarray(logits), tilt, np.ascontiguousarray(roots), kept, self.law.order)

        def chunk(rows: slice) -> Matrix:
            out = np.empty((logits.shape[1], rows.stop - rows.start))
            draw_rates(score[rows], self.law.places(score[rows]), keys[rows], stream, arguments, out)
            return out.T

        return stack_rows(chunk, score.size, engine=engine)


def _part_attenuation(law: EngagementLaw, exploration: float) -> Matrix:
    """(columns, K) κ of `RateDraws`; 1 where all of the variance is drawn."""
    left = max(1.0 - exploration * exploration, 0.0)
    if not left:
        return np.ones_like(law.logits)
    centres = np.zeros(1) if law.bins is None else np.append(law.bins.centres, 0.0)
    variance = left * (law.roots * law.roots).sum(axis=2)
    kept = attenuation(law.logits + (law.tilt * centres)[:, None], variance)
    return np.where(variance > 0.0, kept, 1.0)  # an operator's rate may be 0 or 1


@njit(cache=True, nogil=True)
def _by_column(place: Integers, first: int, size: int, begin: Integers, free: Integers, rows: Integers) -> None:
    """The rows from `first` on, sorted by their column (stable), and where each column begins."""
    columns = free.size
    for column in range(columns + 1):
        begin[column] = 0
    for row in range(first, first + size):
        begin[place[row] + 1] += 1
    for column in range(columns):
        begin[column + 1] += begin[column]
        free[column] = begin[column]
    for row in range(first, first + size):
        rows[free[place[row]]] = row
        free[place[row]] += 1


@njit(cache=True, nogil=True)
def make_rising(size: int, order: Integers, rates: Matrix, floor: Matrix) -> None:
    """Rates (K, BLOCK) become the nearest ones, by the largest difference, that never fall along `order`.

    That is halfway between the largest rate of a shallower depth and the smallest of a deeper one. It favours neither
    deep nor shallow depths, as a running maximum would, and needs no branch per customer, as pooling does.
    """
    count = order.size
    for b in range(size):
        floor[0, b] = rates[order[0], b]
    for k in range(1, count):
        a = order[k]
        for b in range(size):
            floor[k, b] = max(floor[k - 1, b], rates[a, b])
    for k in range(count - 2, -1, -1):
        a, deeper = order[k], order[k + 1]
        for b in range(size):
            rates[a, b] = min(rates[a, b], rates[deeper, b])
    for k in range(count):
        a = order[k]
        for b in range(size):
            rates[a, b] = 0.5 * (rates[a, b] + floor[k, b])


@njit(cache=True, nogil=True, error_model="numpy")
def draw_rates(score: Vector, place: Integers, keys: Keys, stream: np.uint64, drawn: _Drawn, out: Floats) -> None:
    """Rates of every customer into out (K, customers), joint over depths.

    score (customers,): NaN counts as 0. place (customers,): the column of each.
    """
    logits, tilt, roots, kept, order = drawn
    columns, depths, rank = roots.shape
    begin, free, rows = np.empty(columns + 1, np.int64), np.empty(columns, np.int64), np.empty(_SORTED, np.int64)
    key, words = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    offset, line = np.empty(BLOCK), np.empty(BLOCK)
    z, rates, floor = np.empty((rank + rank % 2, BLOCK)), np.empty((depths, BLOCK)), np.empty((depths, BLOCK))
    for first in range(0, score.size, _SORTED):
        _by_column(place, first, min(_SORTED, score.size - first), begin, free, rows)
        for column in range(columns):
            for start in range(begin[column], begin[column + 1], BLOCK):
                size = min(BLOCK, begin[column + 1] - start)
                for b in range(size):
                    row = rows[start + b]
                    key[b] = keys[row]
                    h = score[row]
                    offset[b] = tilt * h if h == h else 0.0
                customer_words(key, 0, size, stream, words)
                for pair in range(z.shape[0] // 2):
                    normal_pair(words, size, pair, z[2 * pair], z[2 * pair + 1])
                for a in range(depths):
                    for b in range(size):
                        line[b] = logits[column, a] + offset[b]
                    for r in range(rank):
                        step = roots[column, a, r]
                        if step == 0.0:  # half of a triangular root
                            continue
                        for b in range(size):
                            line[b] += step * z[r, b]
                    shrink = kept[column, a]
                    for b in range(size):
                        rates[a, b] = logistic(shrink * line[b])
                if order.size > 1:
                    make_rising(size, order, rates, floor)
                for a in range(depths):
                    for b in range(size):
                        out[a, rows[start + b]] = rates[a, b]


@njit(cache=True, nogil=True, error_model="numpy")
def shared_rates(score: Vector, place: Integers, level: Vector, tilt: float, bump: Vector, out: Matrix) -> None:
    """expit(level[a] + tilt·h + bump[column]) into out (K, customers); a score of NaN counts as 0."""
    for a in range(level.size):
        for row in range(score.size):
            h = score[row]
            out[a, row] = logistic(level[a] + bump[place[row]] + (tilt * h if h == h else 0.0))
