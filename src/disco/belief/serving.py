"""Belief as money: one full price per (customer, depth), in Fortran order (depth-major memory), chunk by chunk."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from disco.belief import law as kernel
from disco.belief.grid import read_context, read_depth_column
from disco.belief.isotonic import make_monotone
from disco.records.arrays import Floats, Keys, Matrix, Vector
from disco.records.errors import InputError

if TYPE_CHECKING:
    from disco.belief.law import CurveLaw
    from disco.belief.model import BasketModel

_ROWS_PER_CHUNK = 65_536


def read_dtype(dtype: Any) -> Any:
    """float64, or float32 where a caller wants half the memory."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or kind not in (np.float64, np.float32):
        raise InputError("dtype", found=repr(dtype), expected="float64 or float32")
    return kind


class Offer:
    """Contexts and depths checked once, with what the kernels need: the law of a curve and ã of the depths offered."""

    __slots__ = ("context", "depths", "encoded", "law", "model")

    def __init__(self, model: BasketModel, context: object, depths: object) -> None:
        self.model = model
        self.context: Matrix = read_context(context, size=model.context_size)
        self.depths: Vector = read_depth_column(depths)
        self.encoded: Matrix = model.encoded(self.depths)
        self.law: CurveLaw = model.fitted(self.context.shape[1])[1]

    def means(self, *, shift: float = 0.0, theta: Matrix | None = None, dtype: Any = np.float64) -> Floats:
        """exp(ψᵀθ + shift) with θ the posterior mean, or one θ shared by all."""
        mean = self.law.mean if theta is None else np.ascontiguousarray(theta)
        return self._chunks(
            lambda rows, out: kernel.serve_means(self.context[rows], mean, self.encoded, shift, out), dtype
        )

    def draws(self, keys: Keys, *, stream: int, exploration: float, dtype: Any = np.float64) -> Floats:
        """exp of one draw per customer, joint over its depths; a pure function of (stream, customer key)."""
        beta, word = exploration * self.law.noise_sd, np.uint64(stream)
        return self._chunks(
            lambda rows, out: kernel.serve_draws(
                self.context[rows], keys[rows], word, self.law.mean, self.law.quadratic, self.encoded, beta, out
            ),
            dtype,
        )

    def bounds(self, *, exploration: float, dtype: Any = np.float64) -> Floats:
        """exp(mean + exploration·σ̂·√(ψᵀV⁻¹ψ))."""
        beta = exploration * self.law.noise_sd
        return self._chunks(
            lambda rows, out: kernel.serve_bounds(
                self.context[rows], self.law.mean, self.law.quadratic, self.encoded, beta, out
            ),
            dtype,
        )

    def _chunks(self, fill: Callable[[slice, Floats], None], dtype: Any) -> Floats:
        rows = len(self.context)
        out = np.empty((self.depths.size, rows), read_dtype(dtype))

        def work(start: int) -> None:
            part = slice(start, min(start + _ROWS_PER_CHUNK, rows))
            fill(part, out[:, part])
            if self.model.monotone:
                make_monotone(out[:, part], np.argsort(self.depths, kind="stable"))

        starts = range(0, rows, _ROWS_PER_CHUNK)
        if len(starts) <= 1:
            for start in starts:
                work(start)
        else:
            with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
                list(pool.map(work, starts))
        return out.T
