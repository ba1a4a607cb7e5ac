"""A customer's whole demand curve is 1+d2 Gaussian numbers: c = Θᵀx̃ ~ N(Θ̂ᵀx̃, σ²C(x̃)), and ln F(a) = ãᵀc.

Kernels work on blocks of customers with one line per quantity (a structure of arrays), so that every inner loop runs
over customers on whole vectors; a customer's result never depends on its block. The array customers × depths ×
features never exists. `FullPrices` serves these curves as money, one full price per (customer, depth).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from disco.belief import algebra
from disco.belief.elementary import READ_KEYS, customer_words, exponentials, normal_pair
from disco.belief.inputs import read_depth_column, read_only
from disco.records.arrays import Floats, Keys, Matrix, Vector
from disco.records.chunks import stack_rows
from disco.records.compiled import njit
from disco.records.errors import InputError
from disco.records.exact_sums import GRID, LOG_PRICE_LIMIT
from disco.records.ports import Engine

if TYPE_CHECKING:
    from disco.belief.model import BasketModel

BLOCK = 128


class CurveLaw(NamedTuple):
    """Θ̂ and the coefficients of C: entry (j ≤ l) of C(x̃) is Σ_{i ≤ k} quadratic[(j,l), (i,k)]·x̃_i·x̃_k."""

    mean: Matrix  # Θ̂, (1+d1, 1+d2)
    root: Matrix  # R with RᵀR the covariance of θ without σ²: for one θ shared by everybody
    quadratic: Matrix  # ((1+d2)(2+d2)/2, (1+d1)(2+d1)/2), without σ²
    noise_sd: float

    @classmethod
    def of(cls, mean: Vector, root: Matrix, *, noise_sd: float, q: int) -> CurveLaw:
        p = mean.size // q
        blocks = algebra.inverse(root).reshape(p, q, p, q)  # [i, j, k, l]
        i, k = np.triu_indices(p)
        j, l = np.triu_indices(q)  # noqa: E741 - the indices of a Kronecker product
        both = blocks[i[None], j[:, None], k[None], l[:, None]] + blocks[k[None], j[:, None], i[None], l[:, None]]
        quadratic = np.ascontiguousarray(both * np.where(i == k, 0.5, 1.0))
        return cls(mean.reshape(p, q).copy(), root, quadratic, noise_sd)


def read_dtype(dtype: Any) -> Any:
    """float64, or float32 where a caller wants half the memory."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or kind not in (np.float64, np.float32):
        raise InputError("dtype", found=repr(dtype), expected="float64 or float32")
    return kind


class FullPrices:
    """Contexts and depths checked once, with what the kernels need: the law of a curve and ã of the depths offered.

    What it serves has the shape (customers, depths) in Fortran order (depth-major memory). Kernels compute in float64,
    chunk by chunk, and `dtype` is what is kept. engine: what the chunks are spread over; None is this thread.
    """

    __slots__ = ("context", "depths", "dtype", "encoded", "engine", "law", "model")

    def __init__(
        self,
        model: BasketModel,
        context: ArrayLike,
        depths: ArrayLike,
        *,
        dtype: DTypeLike = np.float64,
        engine: Engine | None = None,
    ) -> None:
        self.model, self.engine = model, engine
        self.context: Matrix = model.read_context(context)
        self.depths: Vector = read_depth_column(depths)
        self.encoded: Matrix = model.encoded(self.depths)
        self.law: CurveLaw = model.fitted(self.context.shape[1]).law
        self.dtype: Any = read_dtype(dtype)

    def means(self, *, shift: float = 0.0, theta: Matrix | None = None, factor: Vector | None = None) -> Floats:
        """exp(ψᵀθ + shift)·factor with θ the posterior mean, or one θ shared by all; factor (depths,), None: 1."""
        mean = self.law.mean if theta is None else np.ascontiguousarray(theta)
        return self.served(
            lambda rows, out: serve_means(self.context[rows], mean, self.encoded, shift, out), factor=factor
        )

    def draws(self, keys: Keys, *, stream: int, exploration: float) -> Floats:
        """exp of one draw per customer, joint over their depths; a pure function of (stream, customer key)."""
        law, words, word = self.law, read_only(keys), np.uint64(stream)
        beta = exploration * law.noise_sd
        return self.served(
            lambda rows, out: serve_draws(self.context[rows], words[rows], word, law, self.encoded, beta, out)
        )

    def bounds(self, *, exploration: float) -> Floats:
        """exp(mean + exploration·σ̂·√(ψᵀV⁻¹ψ))."""
        law, beta = self.law, exploration * self.law.noise_sd
        return self.served(lambda rows, out: serve_bounds(self.context[rows], law, self.encoded, beta, out))

    def served(
        self,
        fill: Callable[[slice, Matrix], None],
        *,
        customers: int | None = None,
        projected: bool = True,
        factor: Vector | None = None,
    ) -> Floats:
        """(customers, depths) from a kernel that fills one chunk, depth-major.

        projected: whether it is a belief about these customers, whose curves do not fall where `model.monotone` says
            so. The projection comes before `factor`.
        """
        monotone, order = self.model.monotone and projected, np.argsort(self.depths, kind="stable")

        def chunk(rows: slice) -> Floats:
            out = np.empty((self.depths.size, rows.stop - rows.start))
            fill(rows, out)
            prices = out.astype(self.dtype, copy=False)
            if monotone:
                out = prices.astype(np.float64, copy=False)
                algebra.make_monotone(out, order)
                prices = out.astype(self.dtype, copy=False)
            if factor is not None:
                prices *= factor[:, None].astype(self.dtype, copy=False)
            return prices.T

        return stack_rows(chunk, len(self.context) if customers is None else customers, engine=self.engine)


# ---- kernels ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _means(context: Matrix, start: int, size: int, mean: Matrix, x: Matrix, c: Matrix) -> None:
    """x̃ on the grid into x (p, BLOCK), Θ̂ᵀx̃ into c (q, BLOCK)."""
    p, q = mean.shape
    for b in range(size):
        x[0, b] = 1.0
        for i in range(1, p):
            x[i, b] = context[start + b, i - 1]
    for i in range(1, p):
        for b in range(size):
            x[i, b] = np.rint(x[i, b] * GRID) * (1.0 / GRID)
    for j in range(q):
        for b in range(size):
            c[j, b] = mean[0, j]
        for i in range(1, p):
            for b in range(size):
                c[j, b] += mean[i, j] * x[i, b]


@njit(cache=True, nogil=True)
def _covariances(size: int, quadratic: Matrix, x: Matrix, pairs: Matrix, cov: Matrix) -> None:
    """C(x̃) without σ², upper triangle by rows, into cov (q(q+1)/2, BLOCK)."""
    p = x.shape[0]
    count = quadratic.shape[1]
    place = 0
    for i in range(p):
        for k in range(i, p):
            for b in range(size):
                pairs[place, b] = x[i, b] * x[k, b]
            place += 1
    for entry in range(cov.shape[0]):
        for b in range(size):
            cov[entry, b] = 0.0
        done = 0
        while done + 4 <= count:  # four at a time: a line of sums is read and written once for four products
            w0, w1 = quadratic[entry, done], quadratic[entry, done + 1]
            w2, w3 = quadratic[entry, done + 2], quadratic[entry, done + 3]
            for b in range(size):
                cov[entry, b] += (w0 * pairs[done, b] + w1 * pairs[done + 1, b]) + (
                    w2 * pairs[done + 2, b] + w3 * pairs[done + 3, b]
                )
            done += 4
        while done < count:
            w0 = quadratic[entry, done]
            for b in range(size):
                cov[entry, b] += w0 * pairs[done, b]
            done += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _cholesky(size: int, q: int, cov: Matrix, inverse: Vector) -> None:
    """cov becomes U with UᵀU = C, per customer; a direction without variance gives a row of zeros."""
    for j in range(q):
        row = j * q - j * (j - 1) // 2 - j  # entry (j, l) lies at row + l
        for h in range(j):
            above = h * q - h * (h - 1) // 2 - h
            for l in range(j, q):  # noqa: E741
                for b in range(size):
                    cov[row + l, b] -= cov[above + j, b] * cov[above + l, b]
        for b in range(size):
            pivot = math.sqrt(max(cov[row + j, b], 0.0))
            cov[row + j, b] = pivot
            inverse[b] = 1.0 / pivot if pivot > 0.0 else 0.0
        for l in range(j + 1, q):  # noqa: E741
            for b in range(size):
                cov[row + l, b] *= inverse[b]


@njit(f"void({READ_KEYS}, int64, int64, uint64, uint64[::1], float64[:, ::1])", cache=True, nogil=True)
def normals(keys: Keys, start: int, size: int, stream: np.uint64, words: Keys, z: Matrix) -> None:
    """Standard normals as a pure function of (stream, customer key, index) into z (an even number of lines, BLOCK)."""
    customer_words(keys, start, size, stream, words)
    for pair in range(z.shape[0] // 2):
        normal_pair(words, size, pair, z[2 * pair], z[2 * pair + 1])


@njit(cache=True, nogil=True)
def _serve(a: int, size: int, start: int, encoded: Matrix, c: Matrix, line: Vector, out: Matrix) -> None:
    """exp(line + ãᵀc) of one depth into out (depths, customers); `line` (BLOCK,) is 0 where nothing is added."""
    for j in range(encoded.shape[1]):
        weight = encoded[a, j]
        for b in range(size):
            line[b] += weight * c[j, b]
    exponentials(line, size, LOG_PRICE_LIMIT)
    for b in range(size):
        out[a, start + b] = line[b]


@njit(cache=True, nogil=True, patient=True)
def serve_means(context: Matrix, mean: Matrix, encoded: Matrix, shift: float, out: Matrix) -> None:
    """exp(mean + shift): the posterior mean's curve; also one shared θ when `mean` is a draw of Θ."""
    p, q = mean.shape
    x, c, line = np.empty((p, BLOCK)), np.empty((q, BLOCK)), np.empty(BLOCK)
    for start in range(0, context.shape[0], BLOCK):
        size = min(BLOCK, context.shape[0] - start)
        _means(context, start, size, mean, x, c)
        for b in range(size):
            c[0, b] += shift
        for a in range(encoded.shape[0]):
            line[:] = 0.0
            _serve(a, size, start, encoded, c, line, out)


@njit(cache=True, nogil=True, patient=True, work=25e-6)
def serve_draws(
    context: Matrix, keys: Keys, stream: np.uint64, law: CurveLaw, encoded: Matrix, beta: float, out: Matrix
) -> None:
    """exp(ãᵀc) with c ~ N(Θ̂ᵀx̃, β²C) drawn per customer, joint over its depths."""
    mean, quadratic = law.mean, law.quadratic
    p, q = mean.shape
    x, c, line, words = np.empty((p, BLOCK)), np.empty((q, BLOCK)), np.empty(BLOCK), np.empty(BLOCK, np.uint64)
    pairs, cov = np.empty((quadratic.shape[1], BLOCK)), np.empty((quadratic.shape[0], BLOCK))
    z = np.empty((q + q % 2, BLOCK))
    for start in range(0, context.shape[0], BLOCK):
        size = min(BLOCK, context.shape[0] - start)
        _means(context, start, size, mean, x, c)
        _covariances(size, quadratic, x, pairs, cov)
        _cholesky(size, q, cov, line)
        normals(keys, start, size, stream, words, z)
        entry = 0
        for j in range(q):
            for l in range(j, q):  # noqa: E741
                for b in range(size):
                    c[l, b] += beta * cov[entry, b] * z[j, b]
                entry += 1
        for a in range(encoded.shape[0]):
            line[:] = 0.0
            _serve(a, size, start, encoded, c, line, out)


@njit(cache=True, nogil=True, patient=True, work=25e-6)
def serve_bounds(context: Matrix, law: CurveLaw, encoded: Matrix, beta: float, out: Matrix) -> None:
    """exp(ãᵀΘ̂ᵀx̃ + β√(ãᵀCã)): an upper confidence bound per customer and depth."""
    mean, quadratic = law.mean, law.quadratic
    p, q = mean.shape
    x, c, line = np.empty((p, BLOCK)), np.empty((q, BLOCK)), np.empty(BLOCK)
    pairs, cov = np.empty((quadratic.shape[1], BLOCK)), np.empty((quadratic.shape[0], BLOCK))
    for start in range(0, context.shape[0], BLOCK):
        size = min(BLOCK, context.shape[0] - start)
        _means(context, start, size, mean, x, c)
        _covariances(size, quadratic, x, pairs, cov)
        for a in range(encoded.shape[0]):
            line[:] = 0.0
            entry = 0
            for j in range(q):
                for l in range(j, q):  # noqa: E741
                    weight = encoded[a, j] * encoded[a, l] * (1.0 if j == l else 2.0)
                    for b in range(size):
                        line[b] += weight * cov[entry, b]
                    entry += 1
            for b in range(size):
                line[b] = beta * math.sqrt(max(line[b], 0.0))
            _serve(a, size, start, encoded, c, line, out)
