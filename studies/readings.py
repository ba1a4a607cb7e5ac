"""How the paper's depth encoding can be read: each claim is put to every reading.

α = 20 with depths in [0, 1] makes every radial basis function nearly a constant, so the symbol must mean something else
than the formula says. There are two widths as γ, the formula to the letter, a width chosen from the evidence, and the
smoothing spline beside them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from disco.belief import BasketModel, Encoding, RadialBasis, SmoothSpline
from disco.records.arrays import Matrix, Vector
from disco.records.decisions import Audience
from studies.environment import PAST_CAMPAIGNS, PLAYED_CAMPAIGN, Environment

CENTRES = (0.25, 0.5, 0.75)
DEPTH_SCALE = 0.5  # the encoding sees u = depth / 0.5, the paper's rescaled depth
SCALED_DEPTHS = np.linspace(0.05, 1.0, 20)  # u, the depth as the encoding and the paper's axes see it


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthReading:
    """A depth encoding with its prior."""

    name: str
    encoding: Encoding
    constant_precision: float | None = 1e-6  # None: ψ has no constant
    automatic: bool = False  # width and prior are chosen by marginal likelihood after learning

    def model(self, *, depth_scale: float = DEPTH_SCALE) -> BasketModel:
        """Before any evidence."""
        return BasketModel(encoding=self.encoding, constant_precision=self.constant_precision, depth_scale=depth_scale)

    def settled(self, model: BasketModel) -> BasketModel:
        """The model as the reading uses it after learning."""
        return model.tuned() if self.automatic else model


NARROW = DepthReading(name="γ = 20", encoding=RadialBasis(CENTRES, gamma=20.0))
WIDE = DepthReading(name="γ = 2", encoding=RadialBasis(CENTRES, gamma=2.0))
# to the letter there is no constant, and the prior is the identity
LITERAL = DepthReading(name="literal", encoding=RadialBasis(CENTRES, alpha=20.0), constant_precision=None)
AUTOMATIC = DepthReading(name="automatic", encoding=RadialBasis(CENTRES, gamma=20.0), automatic=True)
SPLINE = DepthReading(name="spline", encoding=SmoothSpline())
READINGS: Mapping[str, DepthReading] = MappingProxyType(
    {reading.name: reading for reading in (NARROW, WIDE, LITERAL, AUTOMATIC, SPLINE)}
)
MAIN_READING = NARROW.name  # decides the verdicts; the others stand beside it


def learned(environment: Environment, reading: str, *, campaigns: Sequence[str] = PAST_CAMPAIGNS) -> BasketModel:
    """The model of a reading after these campaigns; the paper's is trained on two."""
    model = READINGS[reading].model()
    for name in campaigns:
        seen = environment.campaigns[name].purchases
        model = model.update(seen.context, seen.depth, seen.full_price, campaign=name)
    return READINGS[reading].settled(model)


def curves(model: BasketModel, context: Matrix, u: Vector = SCALED_DEPTHS) -> tuple[Matrix, Matrix]:
    """Mean and sd of E[ln F] for every customer (rows) at every scaled depth (columns)."""
    depth = np.tile(u * model.depth_scale, len(context))
    mean, sd = model.predict(np.repeat(context, u.size, axis=0), depth)
    return mean.reshape(len(context), -1), sd.reshape(len(context), -1)


def some_customers(environment: Environment, *, most: int = 1000) -> Audience:
    """Customers of campaign C with a purchase in the year before, drawn at random."""
    log = environment.campaigns[PLAYED_CAMPAIGN]
    rows = np.flatnonzero(log.known)
    return log.audience.take(np.random.default_rng(environment.seed).permutation(rows)[:most])


def true_curves(environment: Environment, customers: Audience, u: Vector = SCALED_DEPTHS) -> Matrix:
    """The simulation's E[ln F] for the same rows and columns as `curves`."""
    truth = environment.truth(customers.ids, tuple((u * DEPTH_SCALE).tolist()))
    return np.log(truth.expected_full_price) - environment.retailer.baskets.campaign_residual_sd**2 / 2
