"""What a decided plan is expected to bring, with intervals that say how little may be known."""

import numpy as np

from disco.belief import draw_full_price_totals
from disco.campaign import Belief
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.decisions import Audience
from disco.records.estimate import Estimate
from disco.records.identity import customer_keys, uniforms
from disco.records.plan_summary import MoneyForecast

LEVEL = 0.9
_DRAWS = 200
_MOST_CUSTOMERS = 50_000  # a sample of this size adds 0.3 % to intervals of several per cent


def money_of(totals: Matrix, depths: Vector) -> MoneyForecast:
    """From draws of full price per depth, shape (draws, depths)."""
    return MoneyForecast(
        revenue=Estimate.of_draws(totals @ (1 - depths), level=LEVEL),
        markdown=Estimate.of_draws(totals @ depths, level=LEVEL),
        reward=Estimate.of_draws(totals @ (1 - 2 * depths), level=LEVEL),
    )


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
