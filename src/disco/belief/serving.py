"""Belief as money: one full price per (customer, depth), in Fortran order (depth-major memory), chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from disco.belief import law as kernel
from disco.belief.inputs import read_depth_column
from disco.belief.isotonic import make_monotone
from disco.records.arrays import Floats, Keys, Matrix, Vector
from disco.records.chunks import stack_rows
from disco.records.errors import InputError
from disco.records.ports import Engine

if TYPE_CHECKING:
    from disco.belief.law import CurveLaw
    from disco.belief.model import BasketModel


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
    """Contexts and depths checked once, with what the kernels need: the law of a curve and ã of the depths offered."""

    __slots__ = ("context", "depths", "encoded", "law", "model")

    def __init__(self, model: BasketModel, context: ArrayLike, depths: ArrayLike) -> None:
        self.model = model
        self.context: Matrix = model.read_context(context)
        self.depths: Vector = read_depth_column(depths)
        self.encoded: Matrix = model.encoded(self.depths)
        self.law: CurveLaw = model.fitted(self.context.shape[1]).law

    def means(
        self,
        *,
        shift: float = 0.0,
        theta: Matrix | None = None,
        factor: Vector | None = None,
        dtype: Any = np.float64,
        engine: Engine | None = None,
    ) -> Floats:
        """exp(ψᵀθ + shift)·factor with θ the posterior mean, or one θ shared by all; factor (depths,), None: 1."""
        mean = self.law.mean if theta is None else np.ascontiguousarray(theta)
        return self._served(
            lambda rows, out: kernel.serve_means(self.context[rows], mean, self.encoded, shift, out),
            dtype,
            engine,
            factor,
        )

    def draws(
        self, keys: Keys, *, stream: int, exploration: float, dtype: Any = np.float64, engine: Engine | None = None
    ) -> Floats:
        """exp of one draw per customer, joint over their depths; a pure function of (stream, customer key)."""
        beta, word = exploration * self.law.noise_sd, np.uint64(stream)
        return self._served(
            lambda rows, out: kernel.serve_draws(
                self.context[rows], keys[rows], word, self.law.mean, self.law.quadratic, self.encoded, beta, out
            ),
            dtype,
            engine,
        )

    def bounds(self, *, exploration: float, dtype: Any = np.float64, engine: Engine | None = None) -> Floats:
        """exp(mean + exploration·σ̂·√(ψᵀV⁻¹ψ))."""
        beta = exploration * self.law.noise_sd
        return self._served(
            lambda rows, out: kernel.serve_bounds(
                self.context[rows], self.law.mean, self.law.quadratic, self.encoded, beta, out
            ),
            dtype,
            engine,
        )

    def _served(
        self,
        fill: Callable[[slice, Floats], None],
        dtype: Any,
        engine: Engine | None,
        factor: Vector | None = None,
    ) -> Floats:
        """(customers, depths) from a kernel that fills one chunk, depth-major; the projection comes before `factor`."""
        kind, order = read_dtype(dtype), np.argsort(self.depths, kind="stable")

        def chunk(rows: slice) -> Floats:
            out = np.empty((self.depths.size, rows.stop - rows.start), kind)
            fill(rows, out)
            if self.model.monotone:
                make_monotone(out, order)
            if factor is not None:
                out *= factor[:, None].astype(kind, copy=False)
            return out.T

        return stack_rows(chunk, len(self.context), engine=engine)
