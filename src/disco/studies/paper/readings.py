"""The readings of the paper's widths, and the spline beside them.

α = 20 with depths in [0, 1] makes every radial basis function nearly a constant, so the symbol must mean something else
than the formula says. Each claim is put to every reading: two widths as γ, the formula to the letter, the automatic
choice.
"""

from collections.abc import Mapping

from disco.belief import BasketModel, Encoding, RadialBasis, SmoothSpline
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
