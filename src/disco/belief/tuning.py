"""Choosing width and prior precisions by marginal likelihood: the evidence at hand says which belief would have
predicted it best. No row is read again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from disco.belief.encodings import Encoding, RadialBasis
from disco.belief.posterior import Sums, posterior_of, weighted_sums
from disco.belief.prior import Prior
from disco.records.errors import IllConditionedError

if TYPE_CHECKING:
    from disco.belief.model import BasketModel

#: Widths tried for radial basis functions, from nearly straight to bumps narrower than the usual steps of depth.
GAMMAS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_SMALLEST, _LARGEST = math.log(1e-3), math.log(1e5)  # of a precision
_STEP = 1.5  # first steps of the search, in logarithms


@dataclass(frozen=True, slots=True)
class _Candidate:
    encoding: Encoding
    prior: Prior
    log_evidence: float


def tuned(model: BasketModel) -> BasketModel:
    """The model under the best width and block precisions; `reason` says in words why. Without evidence: unchanged."""
    if not model.campaigns:
        return replace(model, reason="not tuned: there is no evidence yet")
    d1 = model.context_size or 0
    before = _log_evidence(model, model.encoding, model.prior, weighted_sums(model, model.encoding, d1), d1)
    candidates = [_best_prior(model, encoding, d1) for encoding in _widths(model.encoding)]
    best = max(candidates, key=lambda candidate: candidate.log_evidence)
    if not best.log_evidence > before:
        return replace(model, reason="kept as it was: no other setting explains the evidence better")
    return replace(
        model, encoding=best.encoding, prior_precision=best.prior, reason=_words(model, best, candidates, before)
    )


def _widths(encoding: Encoding) -> Sequence[Encoding]:
    if not isinstance(encoding, RadialBasis):
        return (encoding,)
    return (encoding, *(RadialBasis(encoding.centres, gamma=gamma) for gamma in GAMMAS if gamma != encoding.gamma))


def _best_prior(model: BasketModel, encoding: Encoding, d1: int) -> _Candidate:
    """Climb the marginal likelihood over the logarithms of the block precisions."""
    from scipy.optimize import minimize  # a second to load, and needed only here

    sums = weighted_sums(model, encoding, d1)
    start = model.prior if encoding.size == model.encoding.size else encoding.prior()
    values, prior_at = _blocks(start)

    def loss(logs: Sequence[float]) -> float:
        return -_log_evidence(model, encoding, prior_at(np.exp(logs).tolist()), sums, d1)

    start_at = np.clip(np.log(values), _SMALLEST, _LARGEST - _STEP)
    found = minimize(
        loss,
        start_at,
        method="Nelder-Mead",
        bounds=[(_SMALLEST, _LARGEST)] * len(values),
        options={
            "initial_simplex": np.vstack((start_at, start_at + _STEP * np.eye(len(values)))),
            "xatol": 0.02,
            "fatol": 1e-4,
            "maxfev": 400,
        },
    )
    return _Candidate(encoding, prior_at(np.exp(found.x).tolist()), -float(found.fun))


def _blocks(start: Prior) -> tuple[list[float], Callable[[list[float]], Prior]]:
    """What is re-estimated. An absolute prior keeps its population part (a judgement about curves) and re-estimates how
    much customers deviate; any other prior gets one precision per block."""
    if start.absolute and isinstance(start.interaction, tuple):
        slope, *bends = start.interaction

        def deviations(values: list[float]) -> Prior:
            return replace(start, context=values[0], interaction=(values[1], *(values[2] for _ in bends)))

        return [start.context, slope, bends[0]], deviations

    def each(values: list[float]) -> Prior:
        return replace(start, context=values[0], depth=values[1], interaction=values[2])

    return [start.context, float(np.mean(start.depth)), float(np.mean(start.interaction))], each


def _log_evidence(model: BasketModel, encoding: Encoding, prior: Prior, sums: Sums, d1: int) -> float:
    try:
        return posterior_of(model, sums, prior, d1=d1, d2=encoding.size).log_evidence
    except IllConditionedError:
        return -math.inf


def _words(model: BasketModel, best: _Candidate, candidates: Sequence[_Candidate], before: float) -> str:
    text = f"chosen by marginal likelihood on {model.evidence.total_rows:,} purchases: "
    if len(candidates) > 1:
        margin = best.log_evidence - max(c.log_evidence for c in candidates if c is not best)
        width = best.encoding.gamma if isinstance(best.encoding, RadialBasis) else None
        shape = f"gamma {width}" if width is not None else "the width as it was"
        text += f"of {len(candidates)} widths {shape} explains them best ({_odds(margin)} than under the next); "
    prior = best.prior
    unit = "ln F" if prior.absolute else "the noise"
    text += (
        f"a coefficient is expected within, in units of {unit}, ±{_sds(prior.context)} for the context, "
        f"±{_sds(prior.depth)} for the depth and ±{_sds(prior.interaction)} for both together; "
    )
    if math.isinf(before):
        return text + "the settings before had no solution to working accuracy"
    return text + f"so the purchases are {_odds(best.log_evidence - before)} than under the settings before"


def _odds(gain: float) -> str:
    """A difference of log-likelihoods in words."""
    return f"{math.exp(gain):.3g} times more likely" if gain < 7 else "more than 1,000 times more likely"


def _sds(precisions: float | tuple[float, ...]) -> str:
    return ", ".join(f"{precision**-0.5:.3g}" for precision in np.atleast_1d(precisions))
