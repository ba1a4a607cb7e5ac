"""BasketModel: evidence per campaign, an encoding and a prior; everything else is derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from disco.belief import algebra
from disco.belief.encodings import Encoding, RadialBasis
from disco.belief.evidence import Evidence
from disco.belief.fit import encoded_depths, fit
from disco.belief.grid import read_array, read_context, read_depth_column, read_positive
from disco.belief.law import CurveLaw
from disco.belief.posterior import Posterior
from disco.belief.prior import Prior
from disco.records.arrays import Floats, Integers, Matrix, Vector
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.ports import Engine

_QUIETEST, _LOUDEST = 1e-9, 1e9  # of the noise's sd, so that neither its square nor the misfit over it overflows


@dataclass(frozen=True, slots=True, kw_only=True)
class BasketModel:
    """ln F = ψᵀθ + noise, ψ = [1, ψ1, ψ2, ψ1×ψ2], θ ~ N(V⁻¹B, σ²V⁻¹), V = V0 + Σψψᵀ, B = B0 + Σψ·lnF.

    A frozen value: `update` returns a new model. `prior_precision` None is the encoding's own prior, a number holds for
    every block but the constant, a `Prior` names each block. `constant_precision` None leaves the constant out (the
    paper's literal form). `noise_sd` None estimates σ. `forgetting` f weighs a campaign that is k campaigns old with
    fᵏ when the posterior is built; the stored integers stay exact. `monotone` projects every served curve onto
    non-decreasing ones over the depths offered.

    >>> model = BasketModel(encoding=RadialBasis(centres=(0.5,), gamma=2), noise_sd=0.5)
    >>> model = model.update([[0.0], [1.0]], [0.3, 0.3], [20.0, 30.0])
    >>> mean, sd = model.predict([[1.0]], [0.3])
    >>> mean.round(3).tolist(), sd.round(3).tolist()
    ([3.296], [0.43])
    """

    encoding: Encoding = field(default_factory=RadialBasis)
    prior_precision: float | Prior | None = None
    constant_precision: float | None = 1e-6
    noise_sd: float | None = None
    depth_scale: float = 1.0
    forgetting: float = 1.0
    monotone: bool = False
    context_schema: str | None = None
    reason: str = "chosen by hand"
    campaigns: Mapping[str, Evidence] = field(default_factory=dict)
    _derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.monotone, bool | np.bool_):
            raise InputError("monotone", found=repr(self.monotone), expected="True or False")
        object.__setattr__(self, "monotone", bool(self.monotone))
        if self.noise_sd is not None and not _QUIETEST <= read_positive(self.noise_sd, where="noise_sd") <= _LOUDEST:
            raise InputError("noise_sd", found=self.noise_sd, expected=f"from {_QUIETEST:g} to {_LOUDEST:g}")
        for name in ("constant_precision", "noise_sd", "depth_scale"):
            value = getattr(self, name)
            if value is not None or name == "depth_scale":
                object.__setattr__(self, name, read_positive(value, where=name))
        expected = "a factor per campaign in (0, 1]"
        object.__setattr__(self, "forgetting", read_positive(self.forgetting, where="forgetting", expected=expected))
        if self.forgetting > 1:
            raise InputError("forgetting", found=self.forgetting, expected=expected)
        if self.prior_precision is not None and not isinstance(self.prior_precision, Prior):
            expected = "None, a finite number above 0, or a Prior"
            given = read_positive(self.prior_precision, where="prior_precision", expected=expected)
            object.__setattr__(self, "prior_precision", given)
        if len({evidence.context_size for evidence in self.campaigns.values()}) > 1:
            raise SchemaMismatchError("model", found="campaigns with contexts of several sizes", expected="one size")
        for name in self.campaigns:
            if not isinstance(name, str):
                raise InputError("campaign", found=repr(name), expected="a name")
        object.__setattr__(self, "campaigns", MappingProxyType(dict(self.campaigns)))

    # ---- evidence in, evidence out -------------------------------------------------------------------------------

    def update(
        self,
        context: object,
        depth: object,
        full_price: object,
        *,
        campaign: str = "",
        context_schema: str | None = None,
        engine: Engine | None = None,
    ) -> BasketModel:
        """A model that has also seen these purchases: context (rows, d1), depth (rows,), full_price (rows,)."""
        self.require_schema(context_schema)
        contexts = read_array(context, where="context")
        if contexts.ndim == 2 and self.context_size is not None:
            read_context(contexts[:0], size=self.context_size)
        evidence = Evidence.of(contexts, depth, full_price, engine=engine)
        if not evidence.depths.size:
            return self
        return self.add(evidence, campaign=campaign)

    def add(self, evidence: Evidence, *, campaign: str = "") -> BasketModel:
        """A model with this evidence added to a campaign; no rows change nothing."""
        self._require_size(evidence)
        if not evidence.depths.size:
            return self
        self.encoding.features(evidence.depths / self.depth_scale)  # an encoding may refuse a depth it cannot know
        return self._with(campaign, self._of(campaign, evidence) + evidence)

    def remove(self, evidence: Evidence, *, campaign: str = "") -> BasketModel:
        """A model from which this evidence was taken out again, exactly."""
        self._require_size(evidence)
        return self._with(campaign, self._of(campaign, evidence) - evidence)

    def _of(self, campaign: str, like: Evidence) -> Evidence:
        return self.campaigns.get(campaign, Evidence.empty(like.context_size))

    def _with(self, campaign: str, evidence: Evidence) -> BasketModel:
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

    def _require_size(self, evidence: Evidence) -> None:
        if self.context_size not in (None, evidence.context_size):
            raise SchemaMismatchError(
                "evidence of another schema",
                found=f"contexts of {evidence.context_size} features",
                expected=f"the {self.context_size} this model has learned with",
            )

    def require_schema(self, context_schema: str | None) -> None:
        """Refuses contexts of another schema than the model's, where both are named."""
        if context_schema is not None and self.context_schema is not None and context_schema != self.context_schema:
            raise SchemaMismatchError(
                "context of another schema",
                found=context_schema,
                expected=self.context_schema,
                fix="Use the context network that belongs to this model.",
            )

    @property
    def context_size(self) -> int | None:
        """d1, or None before any evidence."""
        return next((evidence.context_size for evidence in self.campaigns.values()), None)

    @property
    def evidence(self) -> Evidence:
        """All campaigns together, each row counted once (no forgetting)."""
        if "evidence" not in self._derived:
            total = Evidence.empty(self.context_size or 0)
            for evidence in self.campaigns.values():
                total = total + evidence
            self._derived["evidence"] = total
        found: Evidence = self._derived["evidence"]
        return found

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
        return self.fitted(self.context_size or 0)[0]

    def fitted(self, context_size: int) -> tuple[Posterior, CurveLaw]:
        """Posterior and curve law, built once per model; `context_size` matters only before any evidence."""
        key = f"fit {context_size}"
        if key not in self._derived:
            self._derived[key] = fit(self, context_size)
        found: tuple[Posterior, CurveLaw] = self._derived[key]
        return found

    def encoded(self, depths: Vector) -> Matrix:
        """ã = [1, ψ2(depth / depth_scale)], shape (depths, 1+d2)."""
        return encoded_depths(self.encoding, depths / self.depth_scale)

    def predict(self, context: object, depth: object, *, context_schema: str | None = None) -> tuple[Vector, Vector]:
        """Mean and sd of E[ln F]: ψᵀV⁻¹B and σ√(ψᵀV⁻¹ψ) for context (rows, d1) and depth (rows,) or one depth.

        Before any evidence these are the prior's: mean 0 (or the prior mean's curve) and an sd dominated by the
        near-flat constant.
        """
        self.require_schema(context_schema)
        contexts = read_context(context, size=self.context_size)
        depths, which = np.unique(read_depth_column(depth, rows=len(contexts)), return_inverse=True)
        posterior, _ = self.fitted(contexts.shape[1])
        mean, factor = algebra.predict_rows(contexts, self.encoded(depths), which, posterior.mean, posterior.root)
        return mean, posterior.noise_sd * np.sqrt(factor)

    def expected_full_price(self, context: object, depths: object, *, engine: Engine | None = None) -> Floats:
        """Money, not rank: exp(ψᵀV⁻¹B + σ²/2), the mean basket under the posterior mean; (customers, depths)."""
        from disco.belief.serving import Offer

        offer = Offer(self, context, depths)
        return offer.means(shift=offer.law.noise_sd**2 / 2, engine=engine)

    def expected_at_choice(
        self, context: Matrix, depths: Vector, choice: Integers, *, engine: Engine | None = None
    ) -> Vector:
        """(n,) `expected_full_price` at the depth each customer was given, money; NaN where `choice` is -1, no code.

        context (n, d1) · depths (K,) · choice (n,): position in `depths`. Each depth is served on its own, so
        `monotone` has nothing to project here.
        """
        expected = np.full(len(choice), np.nan)
        for column in range(depths.size):
            rows = np.flatnonzero(choice == column)
            offered = depths[column : column + 1]
            expected[rows] = self.expected_full_price(context[rows], offered, engine=engine)[:, 0]
        return expected

    def effective_plays(self, context: object, depth: object) -> Vector:
        """N_eff = 1/(ψᵀV⁻¹ψ) − 1/(ψᵀV0⁻¹ψ): how many plays of this very ψ the evidence is worth. Shape (rows,)."""
        contexts = read_context(context, size=self.context_size)
        depths, which = np.unique(read_depth_column(depth, rows=len(contexts)), return_inverse=True)
        posterior, _ = self.fitted(contexts.shape[1])
        encoded = self.encoded(depths)
        before = np.diag(1.0 / np.sqrt(posterior.prior_precision))
        if self.constant_precision is None:
            before[0, 0] = 0.0
        before.flags.writeable = False  # as a posterior's arrays are: one compiled kernel for both
        now = algebra.predict_rows(contexts, encoded, which, posterior.mean, posterior.root)[1]
        then = algebra.predict_rows(contexts, encoded, which, posterior.mean, before)[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(now > 0, np.maximum(1.0 / now - 1.0 / then, 0.0), 0.0)  # rounding knows no negative plays

    # ---- identity and files --------------------------------------------------------------------------------------

    @property
    def hash(self) -> str:
        """SHA-256 of settings and evidence: equal hashes mean equal models."""
        from disco.belief.model_file import settings_text

        digest = sha256(settings_text(self).encode())
        for evidence in self.campaigns.values():
            digest.update(evidence.hash.encode())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        # the campaigns' order counts, as it does for forgetting; two mappings would be equal in any order
        return isinstance(other, BasketModel) and self.hash == other.hash

    def __hash__(self) -> int:
        return int(self.hash[:15], 16)

    def __reduce__(self) -> tuple[Any, ...]:
        from disco.belief.model_file import from_bytes, to_bytes

        return from_bytes, (to_bytes(self),)

    def save(self, path: str | Path) -> None:
        """Write a model file; see `disco.belief.model_file`."""
        from disco.belief.model_file import save

        save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> BasketModel:
        """Read a model file; any changed byte is refused."""
        from disco.belief.model_file import load

        return load(Path(path))

    def tuned(self) -> BasketModel:
        """The same evidence under the width and prior precisions with the highest marginal likelihood."""
        from disco.belief.tuning import tuned

        return tuned(self)
