"""Small dense linear algebra, and curves made non-decreasing, in a fixed order of summation.

The matrices have a few dozen rows, so a plain loop beats a call into BLAS, and the bits depend neither on a library's
blocking nor on its number of threads.
"""

import math

import numpy as np

from disco.belief.elementary import exponential, logarithm
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.compiled import njit
from disco.records.exact_sums import GRID

_BLOCK = 64  # rows handled together, so that inner loops run on whole vectors


@njit(cache=True, nogil=True, patient=True)
def assemble(sums: Matrix, encoded: Matrix, weight: Vector) -> tuple[Matrix, Vector, float, float]:
    """Σ_a weight_a · (Σx̃x̃ᵀ) ⊗ (ããᵀ), Σ_a weight_a · (Σx̃y) ⊗ ã, Σy², n from Σzzᵀ per depth, z = (x̃, y).

    sums (D, p+1, p+1), encoded ã = [1, ψ2] (D, q) → gram (pq, pq), moment (pq,); entry i·q + j stands for x̃_i·ã_j.
    """
    depths, q = encoded.shape
    p = sums.shape[1] - 1
    gram = np.zeros((p * q, p * q))
    moment = np.zeros(p * q)
    square = 0.0
    rows = 0.0
    outer = np.empty((q, q))
    for a in range(depths):
        for j in range(q):
            for l in range(q):  # noqa: E741 - i, j, k, l are the indices of a Kronecker product
                outer[j, l] = weight[a] * encoded[a, j] * encoded[a, l]
        for i in range(p):
            for j in range(q):
                moment[i * q + j] += weight[a] * sums[a, i, p] * encoded[a, j]
                for k in range(p):
                    for l in range(q):  # noqa: E741
                        gram[i * q + j, k * q + l] += sums[a, i, k] * outer[j, l]
        square += weight[a] * sums[a, p, p]
        rows += weight[a] * sums[a, 0, 0]
    return gram, moment, square, rows


@njit(cache=True, nogil=True, patient=True)
def _inverse_root(precision: Matrix) -> tuple[Matrix, Matrix, float]:
    """`inverse_root`, with the diagonals of L and S (d, 2) in place of ln|V|."""
    d = precision.shape[0]
    scale = np.empty(d)
    for i in range(d):
        if not (0.0 < precision[i, i] < math.inf):
            return np.zeros((d, d)), np.ones((d, 2)), math.inf
        scale[i] = math.sqrt(precision[i, i])
    lower = np.zeros((d, d))
    norm = 0.0
    for i in range(d):
        row_sum = 0.0
        for j in range(d):
            row_sum += abs(precision[i, j]) / (scale[i] * scale[j])
        norm = max(norm, row_sum)
        for j in range(i + 1):
            total = precision[i, j] / (scale[i] * scale[j])
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i != j:
                lower[i, j] = total / lower[j, j]
            elif total > 0.0:
                lower[i, i] = math.sqrt(total)
            else:
                return np.zeros((d, d)), np.ones((d, 2)), math.inf
    diagonals = np.empty((d, 2))
    for i in range(d):
        diagonals[i, 0] = lower[i, i]
        diagonals[i, 1] = scale[i]
    root = np.zeros((d, d))  # L⁻¹ by forward substitution, a column at a time
    for j in range(d):
        root[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, d):
            total = 0.0
            for k in range(j, i):
                total -= lower[i, k] * root[k, j]
            root[i, j] = total / lower[i, i]
    inverse_norm = 0.0
    for i in range(d):
        row_sum = 0.0
        for j in range(d):
            entry = 0.0
            for k in range(max(i, j), d):
                entry += root[k, i] * root[k, j]
            row_sum += abs(entry)
        inverse_norm = max(inverse_norm, row_sum)
    for i in range(d):
        for j in range(i + 1):
            root[i, j] /= scale[j]
    return root, diagonals, norm * inverse_norm


def inverse_root(precision: Matrix) -> tuple[Matrix, float, float]:
    """R (lower triangular) with V⁻¹ = RᵀR, ln|V|, and the condition number of V after scaling to a unit diagonal.

    V = SLLᵀS with S = √diag(V), so units of measurement never matter; R = L⁻¹S⁻¹. A V that is not positive definite
    gives an infinite condition number. Logarithms are taken here and not in the kernel, where they would have other
    bits if it is compiled for a processor with vectors of them.
    """
    root, diagonals, condition = _inverse_root(precision)
    log_determinant = 0.0
    for lower, scale in diagonals.tolist():
        log_determinant += 2.0 * (math.log(lower) + math.log(scale))
    return root, log_determinant, condition


@njit(cache=True, nogil=True, patient=True)
def solve(root: Matrix, moment: Vector) -> Vector:
    """V⁻¹B = Rᵀ(RB)."""
    answer = np.zeros(moment.size)
    for i in range(moment.size):
        total = 0.0  # of RB
        for j in range(i + 1):
            total += root[i, j] * moment[j]
        for j in range(i + 1):
            answer[j] += root[i, j] * total
    return answer


@njit(cache=True, nogil=True, patient=True)
def inverse(root: Matrix) -> Matrix:
    """V⁻¹ = RᵀR."""
    d = root.shape[0]
    out = np.zeros((d, d))
    for k in range(d):
        for i in range(k + 1):
            for j in range(k + 1):
                out[i, j] += root[k, i] * root[k, j]
    return out


def product(left: Matrix, right: Matrix) -> Matrix:
    """left·right, or a stack of such products; for small matrices, since the terms of all entries are added in turn."""
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    out = np.zeros((*stack, left.shape[-2], right.shape[-1]))
    for k in range(left.shape[-1]):
        out += left[..., k, None] * right[..., k, None, :]
    return out


@njit(cache=True, nogil=True, patient=True)
def shifted(mean: Vector, root: Matrix, normals: Vector, beta: float) -> Vector:
    """mean + β·Rᵀz: a draw from N(mean, β²V⁻¹) when z is standard normal."""
    out = mean.copy()
    for k in range(mean.size):
        for j in range(k + 1):
            out[j] += beta * root[k, j] * normals[k]
    return out


@njit(cache=True, nogil=True, error_model="numpy", patient=True)
def half(covariance: Matrix) -> Matrix:
    """Lower triangular L with LLᵀ = covariance; a direction without variance gives a column of zeros."""
    d = covariance.shape[0]
    lower = np.zeros((d, d))
    for j in range(d):
        for i in range(j, d):
            total = covariance[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                lower[j, j] = math.sqrt(max(total, 0.0))
            else:
                lower[i, j] = total / lower[j, j] if lower[j, j] > 0.0 else 0.0
    return lower


@njit(cache=True, nogil=True, patient=True)
def predict_rows(
    context: Matrix, encoded: Matrix, which: Integers, mean: Vector, root: Matrix
) -> tuple[Vector, Vector]:
    """Per row ψᵀθ̂ and ψᵀV⁻¹ψ = |Rψ|², ψ = x̃ ⊗ ã on the grid; `which` names the row's entry of `encoded`."""
    rows, d1 = context.shape
    q = encoded.shape[1]
    d = mean.size
    psi, line = np.empty((d, _BLOCK)), np.empty(_BLOCK)
    centre, spread = np.zeros(rows), np.zeros(rows)
    for start in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - start)
        for i in range(d1 + 1):
            for b in range(size):
                x = 1.0 if i == 0 else np.rint(context[start + b, i - 1] * GRID) / GRID
                for j in range(q):
                    psi[i * q + j, b] = x * encoded[which[start + b], j]
        for i in range(d):
            for b in range(size):
                centre[start + b] += mean[i] * psi[i, b]
            line[:] = 0.0
            for j in range(i + 1):
                weight = root[i, j]
                for b in range(size):
                    line[b] += weight * psi[j, b]
            for b in range(size):
                spread[start + b] += line[b] * line[b]
    return centre, spread


# ---- the nearest non-decreasing curve --------------------------------------------------------------------------------


@njit(cache=True, nogil=True, patient=True)
def pool_adjacent(values: Vector, weights: Vector) -> Vector:
    """The non-decreasing sequence nearest to `values` in weighted least squares (pool adjacent violators).

    >>> pool_adjacent(np.array([1.0, 3.0, 2.0]), np.array([1.0, 1.0, 3.0])).tolist()
    [1.0, 2.25, 2.25]
    """
    level = np.empty(values.size)
    weight = np.empty(values.size)
    length = np.empty(values.size, np.int64)
    blocks = 0
    for place in range(values.size):
        level[blocks], weight[blocks], length[blocks] = values[place], weights[place], 1
        blocks += 1
        while blocks > 1 and level[blocks - 2] > level[blocks - 1]:
            total = weight[blocks - 2] + weight[blocks - 1]
            level[blocks - 2] += (level[blocks - 1] - level[blocks - 2]) * (weight[blocks - 1] / total)
            weight[blocks - 2] = total
            length[blocks - 2] += length[blocks - 1]
            blocks -= 1
    out = np.empty(values.size)
    place = 0
    for block in range(blocks):
        for _ in range(length[block]):
            out[place] = level[block]
            place += 1
    return out


@njit(cache=True, nogil=True, error_model="numpy", patient=True)
def make_monotone(prices: Matrix, order: Integers) -> None:
    """Project every customer's curve of ln(price) in place; prices (depths, customers), `order` sorts the depths."""
    depths, customers = prices.shape
    line = np.empty(depths)
    ones = np.ones(depths)
    for customer in range(customers):
        broken = False
        for place in range(depths - 1):
            broken |= prices[order[place], customer] > prices[order[place + 1], customer]
        if broken:
            for place in range(depths):
                line[place] = logarithm(prices[order[place], customer])
            line = pool_adjacent(line, ones)
            for place in range(depths):
                prices[order[place], customer] = exponential(line[place])
