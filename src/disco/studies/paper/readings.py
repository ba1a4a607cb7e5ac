"""The readings of the paper's widths, and the spline beside them.

α = 20 with depths in [0, 1] makes every radial basis function nearly a constant, so the symbol must mean something else
than the formula says. Each claim is put to every reading: two widths as γ, the formula to the letter, the automatic
choice.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from disco.belief import BasketModel, Encoding, RadialBasis, SmoothSpline
from disco.records.arrays import Matrix, Vector
from disco.records.decisions import Audience
from disco.studies.paper.environment import Environment
from disco.studies.paper.item import MAIN_READING

CENTRES = (0.25, 0.5, 0.75)
DEPTH_SCALE = 0.5  # the encoding sees u = depth / 0.5, the paper's rescaled depth
AUTOMATIC, LITERAL, SPLINE = "automatic", "literal", "spline"

READINGS: Mapping[str, Encoding] = {
    MAIN_READING: RadialBasis(CENTRES, gamma=20),
    "γ = 2": RadialBasis(CENTRES, gamma=2),
    LITERAL: RadialBasis(CENTRES, alpha=20),
    AUTOMATIC: RadialBasis(CENTRES, gamma=20),  # its width and prior are chosen from the evidence, see `settled`
    SPLINE: SmoothSpline(),
}


def empty_model(reading: str) -> BasketModel:
    """A model of a reading before any evidence. To the letter, ψ has no constant and the prior is the identity."""
    return BasketModel(
        encoding=READINGS[reading],
        depth_scale=DEPTH_SCALE,
        constant_precision=None if reading == LITERAL else 1e-6,
    )


def settled(reading: str, model: BasketModel) -> BasketModel:
    """The model as the reading uses it after learning: the automatic one chooses width and prior by its evidence."""
    return model.tuned() if reading == AUTOMATIC else model


TRAINED_ON = ("A", "B")
SCALED_DEPTHS = np.linspace(0.05, 1.0, 20)  # u, the depth as the encoding and the paper's axes see it


def learned(environment: Environment, reading: str, *, campaigns: Sequence[str] = TRAINED_ON) -> BasketModel:
    """The model of a reading after these campaigns; the paper's is trained on two."""
    model = empty_model(reading)
    for name in campaigns:
        seen = environment.campaigns[name].purchases
        model = model.update(seen.context, seen.depth, seen.full_price, campaign=name)
    return settled(reading, model)


def curves(model: BasketModel, context: Matrix, u: Vector = SCALED_DEPTHS) -> tuple[Matrix, Matrix]:
    """Mean and sd of E[ln F] for every customer (rows) at every scaled depth (columns)."""
    depth = np.tile(u * model.depth_scale, len(context))
    mean, sd = model.predict(np.repeat(context, u.size, axis=0), depth)
    return mean.reshape(len(context), -1), sd.reshape(len(context), -1)


def some_customers(environment: Environment, *, most: int = 1000) -> Audience:
    """Customers of campaign C with a purchase in the year before, drawn at random."""
    log = environment.campaigns["C"]
    rows = np.flatnonzero(log.known)
    return log.audience.take(np.random.default_rng(environment.seed).permutation(rows)[:most])


def true_curves(environment: Environment, customers: Audience, u: Vector = SCALED_DEPTHS) -> Matrix:
    """The simulation's E[ln F] for the same rows and columns as `curves`."""
    truth = environment.truth(customers.ids, tuple((u * DEPTH_SCALE).tolist()))
    return np.log(truth.expected_full_price) - environment.retailer.baskets.campaign_residual_sd**2 / 2
