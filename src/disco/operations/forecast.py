"""What a decided plan is expected to bring, with intervals that say how little may be known."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from disco.belief import draw_full_price_totals
from disco.campaign import Belief
from disco.operations.calibration import Calibration
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.decisions import Audience
from disco.records.identity import customer_keys, uniforms
from disco.records.result import DepthKey

LEVEL = 0.9
_DRAWS = 200
_MOST_CUSTOMERS = 50_000  # a sample of this size adds 0.3 % to intervals of several per cent


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Mean of the draws and their central 90%."""

    mean: float
    """The mean."""
    lower: float
    """Lower end of the 90% interval."""
    upper: float
    """Upper end of the 90% interval."""

    @classmethod
    def of(cls, draws: Vector) -> "Interval":
        lower, upper = np.quantile(draws, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        return cls(mean=float(draws.mean()), lower=float(lower), upper=float(upper))


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Expected totals of some customers, in currency units."""

    revenue: Interval
    """What customers pay, after the discount."""
    markdown: Interval
    """What the discounts cost."""
    reward: Interval
    """Revenue − markdown."""

    @classmethod
    def of(cls, totals: Matrix, depths: Vector) -> "Money":
        """From draws of full price per depth, shape (draws, depths)."""
        return cls(
            revenue=Interval.of(totals @ (1 - depths)),
            markdown=Interval.of(totals @ depths),
            reward=Interval.of(totals @ (1 - 2 * depths)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmForecast:
    """One group of customers of a plan."""

    customers: int
    """Number of customers."""
    codes: Mapping[DepthKey, int]
    """Codes per depth."""
    money: Money | None
    """What the codes are expected to bring; null before any purchase was learned."""
    correction: Calibration | None = None
    """What earlier campaigns brought against their forecasts; `money` contains it."""


def draw_totals(
    belief: Belief, audience: Audience, choice: Integers, depths: Vector, *, seed: int, campaign: str
) -> Matrix:
    """Draws of the full price bought per depth, (draws, depths); equal seeds share θ, so arms may be added up.

    A large campaign is drawn from a random part of its customers and scaled up, depth by depth.
    """
    coded = choice >= 0
    kept, scale = coded, np.ones(depths.size)
    if coded.sum() > _MOST_CUSTOMERS:
        u = uniforms(customer_keys(audience.ids), seed, campaign, "forecast")
        kept = coded & (u < _MOST_CUSTOMERS / coded.sum())
        for column in range(depths.size):
            here = choice == column
            if not (kept & here).any():
                kept = kept | here
            scale[column] = here.sum() / max((kept & here).sum(), 1)
    drawn = draw_full_price_totals(
        belief.basket,
        audience.context[kept],
        choice[kept],
        depths,
        engagement=belief.engagement,
        draws=_DRAWS,
        seed=seed,
    )
    return drawn * scale
