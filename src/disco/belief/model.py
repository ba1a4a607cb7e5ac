"""BasketModel: evidence per campaign, an encoding and a prior; everything else is derived from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from disco.belief import algebra, model_file
from disco.belief.elementary import exp_array
from disco.belief.encodings import Encoding, Prior, RadialBasis
from disco.belief.evidence import Evidence
from disco.belief.inputs import read_context, read_depth_column, read_forgetting, read_names, require_names
from disco.belief.law import FullPrices
from disco.belief.posterior import (
    DepthSpread,
    Fitted,
    Posterior,
    Sums,
    encoded_depths,
    fit,
    money_root,
    posterior_of,
    weighted_sums,
)
from disco.belief.smearing import Smearing, smearing_of
from disco.records.arguments import column_names, read_array, read_positive
from disco.records.arrays import Floats, Integers, Matrix, Vector
from disco.records.errors import IllConditionedError, InputError, SchemaMismatchError
from disco.records.exact_sums import LOG_PRICE_LIMIT
from disco.records.ports import Engine

_LEAST, _MOST = 1e-9, 1e9  # of the noise's sd and of the depth scale, so that no square or quotient of them overflows


@dataclass(frozen=True, kw_only=True)
class BasketModel:
    """ln F = ψᵀθ + noise, ψ = [1, ψ1, ψ2, ψ1×ψ2], θ ~ N(V⁻¹B, σ²V⁻¹), V = V0 + Σψψᵀ, B = B0 + Σψ·lnF.

    F is the full price of a basket (money before the discount), ψ1 the customer's context, ψ2 the encoded depth. A
    model is a frozen value: `update` returns a new one. Posterior and curves are derived from evidence and settings
    when first asked for.

    >>> model = BasketModel(encoding=RadialBasis(centres=(0.5,), gamma=2), noise_sd=0.5)
    >>> model = model.update([[0.0], [1.0]], [0.3, 0.3], [20.0, 30.0])
    >>> mean, sd = model.predict([[1.0]], [0.3])
    >>> mean.round(3).tolist(), sd.round(3).tolist()
    ([3.296], [0.43])
    """

    #: How a depth becomes ψ2.
    encoding: Encoding = field(default_factory=RadialBasis)
    #: Precision of θ before any evidence, in units of 1/σ²: None is the encoding's own prior, a number holds for every
    #: block but the constant, a `Prior` names each block.
    prior_precision: float | Prior | None = None
    #: Precision of the constant; None leaves the constant out (the paper's literal form).
    constant_precision: float | None = 1e-6
    #: σ, the sd of ln F around its mean; None estimates it.
    noise_sd: float | None = None
    #: The depth that the encoding sees as 1.
    depth_scale: float = 1.0
    #: f in (0, 1]: a campaign that is k campaigns old weighs fᵏ in the posterior. The stored integers stay exact.
    forgetting: float = 1.0
    #: Whether every served curve is projected onto those that do not fall with depth.
    monotone: bool = False
    #: Whether money is multiplied by what purchases brought over what a normal law of ln F says (`smearing`).
    smearing: bool = False
    #: The name of the contexts' schema, where it is known: contexts of another one are refused.
    context_schema: str | None = None
    #: Why these settings were chosen, in words.
    reason: str = "chosen by hand"
    #: Evidence by campaign, the oldest first.
    campaigns: Mapping[str, Evidence] = field(default_factory=dict)
    #: Names of the context's columns, remembered from the first table with names; no part of hash and equality.
    context_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.encoding, type) or not isinstance(self.encoding, Encoding):
            raise InputError(
                "encoding",
                found=repr(self.encoding),
                expected="an encoding object, not its name or class",
                fix="Pass one such as disco.RadialBasis().",
            )
        for name in ("monotone", "smearing"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InputError(name, found=repr(getattr(self, name)), expected="True or False")
            object.__setattr__(self, name, bool(getattr(self, name)))
        for name in ("constant_precision", "noise_sd", "depth_scale"):
            value = getattr(self, name)
            if value is not None or name == "depth_scale":
                object.__setattr__(self, name, read_positive(value, where=name))
        for name in ("noise_sd", "depth_scale"):
            if not _LEAST <= (getattr(self, name) or 1.0) <= _MOST:
                raise InputError(name, found=getattr(self, name), expected=f"from {_LEAST:g} to {_MOST:g}")
        object.__setattr__(self, "forgetting", read_forgetting(self.forgetting, where="forgetting"))
        if self.prior_precision is not None and not isinstance(self.prior_precision, Prior):
            expected = "None, a finite number above 0, or a Prior"
            given = read_positive(self.prior_precision, where="prior_precision", expected=expected)
            object.__setattr__(self, "prior_precision", given)
        if len({evidence.context_size for evidence in self.campaigns.values()}) > 1:
            raise SchemaMismatchError("model", found="campaigns with contexts of several sizes", expected="one size")
        texts = [("campaign", name) for name in self.campaigns]
        for name, text in (*texts, ("context_schema", self.context_schema or ""), ("reason", self.reason)):
            if not isinstance(text, str):
                raise InputError(name, found=repr(text), expected="text")
        object.__setattr__(self, "campaigns", MappingProxyType(dict(self.campaigns)))
        if self.context_names is not None:
            object.__setattr__(self, "context_names", read_names(self.context_names, size=self.context_size))

    # ---- evidence in, evidence out -------------------------------------------------------------------------------

    def update(
        self,
        context: ArrayLike,
        depth: ArrayLike,
        full_price: ArrayLike,
        *,
        campaign: str = "",
        context_schema: str | None = None,
        engine: Engine | None = None,
    ) -> BasketModel:
        """A model that has also seen these purchases. Customers who did not buy are no rows here.

        context: (rows, d1) numbers within ±4, such as `ContextNetwork.transform` gives; a table with named columns must
            have the names, in the order, that the model has learned with.
        depth: (rows,) share of the price taken off, from 0 to 1.
        full_price: (rows,) money before the discount, above 0.
        campaign: the name under which the evidence is kept.
        context_schema: the schema of these contexts, to be compared with the model's.
        engine: what the rows are spread over; None is this thread.
        """
        self.require_schema(context_schema)
        names = column_names(context)
        self.require_columns(names)
        contexts = read_array(context, where="context")
        if contexts.ndim == 2 and self.context_size is not None:
            read_context(contexts[:0], size=self.context_size)
        evidence = Evidence.of(contexts, depth, full_price, engine=engine)
        if not evidence.depths.size:  # an empty list has no columns to compare
            return self
        return self.add(evidence, campaign=campaign, context_names=names)

    def fit(self, context: ArrayLike, depth: ArrayLike, full_price: ArrayLike) -> BasketModel:
        """A model with these settings that has seen these purchases and no others; arguments are those of `update`."""
        return replace(self, campaigns={}, context_names=None).update(context, depth, full_price)

    def add(
        self, evidence: Evidence, *, campaign: str = "", context_names: tuple[str, ...] | None = None
    ) -> BasketModel:
        """A model with this evidence added to a campaign; no rows change nothing.

        context_names: of the columns of its contexts, where they are known; they must be those learned with.
        """
        self.require_columns(context_names)
        added = self._with(campaign, evidence)
        if not evidence.depths.size:
            return self
        self.encoding.features(evidence.depths / self.depth_scale)  # an encoding may refuse a depth it cannot know
        return added if context_names is None else replace(added, context_names=context_names)

    def remove(self, evidence: Evidence, *, campaign: str = "") -> BasketModel:
        """A model from which this evidence was taken out again, exactly."""
        return self._with(campaign, -evidence)

    def _with(self, campaign: str, change: Evidence) -> BasketModel:
        """The model with this change to the evidence of a campaign."""
        if self.context_size not in (None, change.context_size):
            raise SchemaMismatchError(
                "evidence of another schema",
                found=f"contexts of {change.context_size} features",
                expected=f"the {self.context_size} this model has learned with",
            )
        evidence = self.campaigns.get(campaign, Evidence.empty(change.context_size)) + change
        if (evidence.rows <= 0).any():
            raise InputError(
                f"evidence to remove from campaign {campaign!r}",
                found="rows that were never added",
                expected="evidence added before",
            )
        campaigns = {**self.campaigns, campaign: evidence}
        if not evidence.depths.size:
            del campaigns[campaign]
        return replace(self, campaigns=campaigns)

    def require_schema(self, context_schema: str | None) -> None:
        """Refuses contexts of another schema than the model's, where both are named."""
        if context_schema is not None and self.context_schema is not None and context_schema != self.context_schema:
            raise SchemaMismatchError(
                "context of another schema",
                found=context_schema,
                expected=self.context_schema,
                fix="Use the context network that belongs to this model.",
            )

    def require_columns(self, context_names: tuple[str, ...] | None) -> None:
        """Refuses contexts whose columns have other names, or another order, than the model's, where both are named."""
        require_names(context_names, self.context_names)

    @property
    def context_size(self) -> int | None:
        """d1, or None before any evidence."""
        return next((evidence.context_size for evidence in self.campaigns.values()), None)

    @cached_property
    def evidence(self) -> Evidence:
        """All campaigns together, each row counted once (no forgetting)."""
        total = Evidence.empty(self.context_size or 0)
        for evidence in self.campaigns.values():
            total = total + evidence
        return total

    # ---- belief ------------------------------------------------------------------------------------------------

    @property
    def prior(self) -> Prior:
        """The prior in force, block by block."""
        given = self.prior_precision
        if given is None:
            return self.encoding.prior()
        return given if isinstance(given, Prior) else Prior(context=given, depth=given, interaction=given)

    @property
    def posterior(self) -> Posterior:
        """The posterior of θ in the order x̃ ⊗ ã, x̃ = [1, ψ1], ã = [1, ψ2]."""
        return self.fitted(self.context_size or 0).posterior

    def fitted(self, context_size: int) -> Fitted:
        """Posterior and curve law. With evidence they are built once; `context_size` matters only before any."""
        return self._fitted if self.campaigns else fit(self, context_size)

    @cached_property
    def _fitted(self) -> Fitted:
        return fit(self, self.context_size or 0)

    @cached_property
    def depth_spread(self) -> DepthSpread:
        """The spread of ln F by depth. With σ given, or before any evidence, it is the same at all depths."""
        if self.noise_sd is not None or not self.campaigns:
            return DepthSpread.fixed(self.posterior.noise_sd**2)
        return DepthSpread.of(self, self.posterior)

    @cached_property
    def _money_root(self) -> Matrix:
        return money_root(self, self.posterior)

    def spread(self, depths: ArrayLike) -> Vector:
        """(K,) σ_a, the sd of ln F around its mean at each depth.

        depths: (K,) from 0 to 1.
        """
        return np.asarray(np.sqrt(self.depth_spread.variances(read_depth_column(depths))))

    @cached_property
    def money_smearing(self) -> Smearing:
        """What a law that is not normal leaves of exp(μ + σ_a²/2); 1 without `smearing`, or before any evidence."""
        return smearing_of(self) if self.smearing and self.campaigns else Smearing.none()

    def money_factors(self, depths: ArrayLike) -> Vector:
        """(K,) exp(σ_a²/2)·s_a, the mean basket over the median one at each depth.

        Money contains it; policies rank by medians, exp(ψᵀθ), without it.
        """
        return np.asarray(np.exp(self.spread(depths) ** 2 / 2) * self.money_smearing.factors(read_depth_column(depths)))

    def _spread_factor(self, depths: ArrayLike) -> Vector | None:
        """(K,) exp((σ_a² − σ²)/2)·s_a: by how much more than the common σ says the mean basket exceeds the median one.

        None: not at all.
        """
        asked, factor = read_depth_column(depths), None
        if self.depth_spread.depths.size:
            more = self.depth_spread.variances(asked) - self.posterior.noise_sd**2
            factor = exp_array(np.clip(0.5 * more, -LOG_PRICE_LIMIT, LOG_PRICE_LIMIT))
        if self.money_smearing.depths.size:
            smeared = self.money_smearing.factors(asked)
            factor = smeared if factor is None else factor * smeared
        return factor

    def theta_draws(self, count: int, generator: np.random.Generator, *, context_size: int | None = None) -> Matrix:
        """(count, d) draws of θ for intervals of money: N(V⁻¹B, V⁻¹(Σσ_a²ψψᵀ + σ²V0)V⁻¹)."""
        if not self.depth_spread.depths.size:
            return self.fitted(context_size or 0).posterior.draws(count, generator)
        mean = self.posterior.mean
        return np.asarray(mean + generator.standard_normal((count, mean.size)) @ self._money_root)

    def read_context(self, context: ArrayLike) -> Matrix:
        """Contexts as (rows, d1) numbers within ±4, of the size and the names that this model has learned with."""
        self.require_columns(column_names(context))
        return read_context(context, size=self.context_size)

    def encoded(self, depths: Vector) -> Matrix:
        """ã = [1, ψ2(depth / depth_scale)], shape (depths, 1+d2)."""
        return encoded_depths(self.encoding, depths / self.depth_scale)

    def predict(
        self, context: ArrayLike, depth: ArrayLike, *, context_schema: str | None = None
    ) -> tuple[Vector, Vector]:
        """Mean and sd of E[ln F], each of shape (rows,): ψᵀV⁻¹B and σ√(ψᵀV⁻¹ψ).

        context: (rows, d1) numbers within ±4.
        depth: (rows,) from 0 to 1, or one depth for all rows.

        Before any evidence these are the prior's: mean 0 (or the prior mean's curve) and an sd dominated by the
        near-flat constant.
        """
        self.require_schema(context_schema)
        contexts, encoded, which = self._rows(context, depth)
        posterior = self.fitted(contexts.shape[1]).posterior
        mean, factor = algebra.predict_rows(contexts, encoded, which, posterior.mean, posterior.root)
        return mean, posterior.noise_sd * np.sqrt(factor)

    def _rows(self, context: ArrayLike, depth: ArrayLike) -> tuple[Matrix, Matrix, Integers]:
        """Contexts, ã of the distinct depths, and which of them each row has."""
        contexts = self.read_context(context)
        depths, which = np.unique(read_depth_column(depth, rows=len(contexts)), return_inverse=True)
        return contexts, self.encoded(depths), which

    def expected_full_price(self, context: ArrayLike, depths: ArrayLike, *, engine: Engine | None = None) -> Floats:
        """Money, not rank: exp(ψᵀV⁻¹B + σ_a²/2)·s_a, the mean basket under the posterior mean, (customers, depths).

        `monotone` projects the medians; where the spread falls with depth, the mean basket may.

        context: (customers, d1) numbers within ±4.
        depths: (depths,) each offered to every customer.
        engine: what the customers are spread over; None is this thread.
        """
        served = FullPrices(self, context, depths, engine=engine)
        return served.means(shift=served.law.noise_sd**2 / 2, factor=self._spread_factor(served.depths))

    def expected_at_choice(
        self, context: Matrix, depths: Vector, choice: Integers, *, engine: Engine | None = None
    ) -> Vector:
        """(n,) `expected_full_price` at the depth each customer was given, money; NaN where `choice` is -1, no code.

        With `monotone` it is the projected price, so that the sum over customers is what a budget counts.

        context: (n, d1) numbers within ±4.
        depths: (K,) from 0 to 1.
        choice: (n,) position in `depths`.
        engine: what the customers are spread over; None is this thread.
        """
        expected = np.full(len(choice), np.nan)
        # a projected price depends on the other depths; any other is asked for at one depth alone
        for first, last in [(0, depths.size)] if self.monotone else [(k, k + 1) for k in range(depths.size)]:
            rows = np.flatnonzero((choice >= first) & (choice < last))
            prices = self.expected_full_price(context[rows], depths[first:last], engine=engine)
            expected[rows] = prices[np.arange(rows.size), choice[rows] - first]
        return expected

    def effective_plays(self, context: ArrayLike, depth: ArrayLike) -> Vector:
        """N_eff = 1/(ψᵀV⁻¹ψ) − 1/(ψᵀV0⁻¹ψ): how many plays of this very ψ the evidence is worth. Shape (rows,)."""
        contexts, encoded, which = self._rows(context, depth)
        posterior = self.fitted(contexts.shape[1]).posterior
        before = np.diag(1.0 / np.sqrt(posterior.prior_precision))
        if self.constant_precision is None:
            before[0, 0] = 0.0
        before.flags.writeable = False  # as a posterior's arrays are: one compiled kernel for both
        now = algebra.predict_rows(contexts, encoded, which, posterior.mean, posterior.root)[1]
        then = algebra.predict_rows(contexts, encoded, which, posterior.mean, before)[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(now > 0, np.maximum(1.0 / now - 1.0 / then, 0.0), 0.0)  # rounding knows no negative plays

    # ---- identity and files --------------------------------------------------------------------------------------

    @cached_property
    def hash(self) -> str:
        """SHA-256 of settings and evidence: equal hashes mean equal models."""
        digest = sha256(model_file.settings_text(self).encode())
        for evidence in self.campaigns.values():
            digest.update(evidence.hash.encode())
            if self.smearing and evidence.paid is not None:
                digest.update(evidence.paid.astype("<i8").tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        # the campaigns' order counts, as it does for forgetting; two mappings would be equal in any order
        return isinstance(other, BasketModel) and self.hash == other.hash

    def __hash__(self) -> int:
        return int(self.hash[:15], 16)

    def __reduce__(self) -> tuple[Any, ...]:
        return BasketModel.from_bytes, (model_file.to_bytes(self),)

    @classmethod
    def from_bytes(cls, content: bytes, *, name: str = "model file") -> BasketModel:
        """The model in the content of a model file; any changed byte is refused."""
        return model_file.from_bytes(content, make=cls, name=name)

    def save(self, path: str | Path) -> None:
        """Write a model file; see `disco.belief.model_file`."""
        model_file.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> BasketModel:
        """Read a model file; any changed byte is refused."""
        return model_file.load(Path(path), make=cls)

    def tuned(self) -> BasketModel:
        """The same evidence under the width and prior precisions with the highest marginal likelihood.

        `reason` says in words why they were chosen. Without evidence the settings stay as they are.
        """
        if not self.campaigns:
            return replace(self, reason="not tuned: there is no evidence yet")
        d1 = self.context_size or 0
        before = _log_evidence(self, self.encoding, self.prior, weighted_sums(self, self.encoding, d1), d1)
        candidates = [_best_prior(self, encoding, d1) for encoding in _widths(self.encoding)]
        best = max(candidates, key=lambda candidate: candidate.log_evidence)
        if not best.log_evidence > before:
            return replace(self, reason="kept as it was: no other setting explains the evidence better")
        reason = _words(self, best, candidates, before)
        return replace(self, encoding=best.encoding, prior_precision=best.prior, reason=reason)


# ---- settings by marginal likelihood ---------------------------------------------------------------------------------

#: Widths tried for radial basis functions, from nearly straight to bumps narrower than the usual steps of depth.
GAMMAS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_SMALLEST, _LARGEST = math.log(1e-3), math.log(1e5)  # of a precision
_STEP = 1.5  # first steps of the search, in logarithms


@dataclass(frozen=True, slots=True)
class _Candidate:
    encoding: Encoding
    prior: Prior
    log_evidence: float


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
