"""What the codes of a plan are expected to bring, with 90% intervals that contain what earlier forecasts got wrong.

Each customer has a chance to buy of their own, at the depth they get. One draw has one θ, one spread per depth and one
draw of engagement for everybody, because errors of these do not average out, and a factor per depth from earlier
campaigns (`backtests`).
"""

from dataclasses import dataclass

import numpy as np

from disco.belief import draw_full_price_totals
from disco.campaign import Belief
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.decisions import Arm, Audience
from disco.records.estimate import LEVEL, Estimate
from disco.records.identity import customer_keys, uniforms
from disco.records.plan_summary import Calibration, MoneyForecast
from disco.records.ports import Engine

_DRAWS = 200
_MOST_CUSTOMERS = 50_000  # a sample of this size adds 0.3% to intervals of several per cent


def expected_totals(full_price: Vector, engagement: Vector, choice: Integers, *, depths: int) -> Vector:
    """(depths,) Σ F_i·e_i over the customers who get each depth: the expectation that a budget counts.

    full_price, engagement (n,): of each customer at the depth they get, at the posterior mean; not read where `choice`
    is -1, no code.
    """
    coded = choice >= 0
    bought = full_price[coded] * engagement[coded]
    return np.asarray(np.bincount(choice[coded], weights=bought, minlength=depths), np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Totals:
    """Full price bought per depth with some codes, corrected by earlier campaigns. Totals of one campaign add up."""

    expected: Vector  # (depths,)
    drawn: Matrix | None = None  # (draws, depths), around it; equal rows have equal θ; None: nothing was drawn

    def __add__(self, other: "Totals") -> "Totals":
        drawn = None if self.drawn is None or other.drawn is None else self.drawn + other.drawn
        return Totals(expected=self.expected + other.expected, drawn=drawn)

    def money(self, depths: Vector) -> MoneyForecast:
        """Money is linear in full price, so revenue, markdown and any w·revenue − markdown agree with each other.

        Without draws, the same figures without intervals.
        """
        return MoneyForecast(
            revenue=self._estimate(1 - depths), markdown=self._estimate(depths), reward=self._estimate(1 - 2 * depths)
        )

    def objective(self, depths: Vector, *, revenue_weight: float) -> Estimate:
        """w·revenue − markdown."""
        return self._estimate(revenue_weight * (1 - depths) - depths)

    def drawn_markdown(self, depths: Vector) -> Vector:
        """(draws,)."""
        assert self.drawn is not None  # for the type checker: chances are asked of what was drawn
        return np.asarray(self.drawn @ depths)

    def _estimate(self, weights: Vector) -> Estimate:
        value = float(self.expected @ weights)
        return Estimate(value) if self.drawn is None else Estimate.around(value, self.drawn @ weights, level=LEVEL)


def draw_totals(
    belief: Belief,
    audience: Audience,
    choice: Integers,
    depths: Vector,
    *,
    full_price: Vector,
    engagement: Vector,
    correction: Calibration,
    arm: Arm,
    seed: int,
    campaign: str,
    engine: Engine | None = None,
) -> Totals:
    """What the codes of one arm are expected to bring, with draws around it.

    Arms add up: in equal draws they have the same θ, spread, engagement and effect of the campaign, while what their
    customers happen to buy is independent.

    full_price, engagement (n,): as in `expected_totals`.

    The draws are scaled, depth by depth, to the expectation at the posterior mean. Left alone, their mean would be
    larger by E[exp(ψᵀθ)]/exp(ψᵀE[θ]), and off by the noise of a finite number of draws. But the correction contains
    that ratio already: it was learned from actual ÷ expected, with expected at the posterior mean. They are scaled and
    not shifted because every error but that of single purchases is a factor, and so nothing falls below 0.

    A large campaign is drawn from a random part of its customers and scaled up, depth by depth.
    """
    expected = expected_totals(full_price, engagement, choice, depths=depths.size)
    coded = choice >= 0
    kept, scale = coded, np.ones(depths.size)
    if coded.sum() > _MOST_CUSTOMERS:
        u = uniforms(customer_keys(audience.ids), seed, campaign, "forecast")
        kept = coded & (u < _MOST_CUSTOMERS / coded.sum())
        for column in range(depths.size):
            here = choice == column
            if not here.any():
                continue
            if not (kept & here).any():
                kept = kept | here
            scale[column] = here.sum() / (kept & here).sum()
    drawn = draw_full_price_totals(
        belief.basket,
        audience.context[kept],
        choice[kept],
        depths,
        engagement=belief.engagement,
        score=belief.scores(audience.take(kept)),
        expected=expected / scale,
        draws=_DRAWS,
        seed=seed,
        group=None if arm is Arm.DECIDED else arm.salt,  # none: forecasts of decided codes keep their bytes
        engine=engine,
    )
    factors = correction.factors(depths.tolist())
    error = correction.draws(_DRAWS, depths.tolist(), seed, campaign, arm.salt, campaign=(seed, campaign))
    error *= factors / error.mean(axis=0)
    return Totals(expected=expected * factors, drawn=drawn * scale * error)
