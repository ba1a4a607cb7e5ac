"""What a belief says about the depths that were played, with intervals of the belief itself."""

from dataclasses import dataclass

import numpy as np

from disco.belief import demand_curve
from disco.campaign import Belief
from disco.operations.forecast import Interval

_DRAWS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCurve:
    """One depth. basket: full price of a purchase by a customer with the population's average context · codes: run
    out and dealt at random where there were any; engagement: the share of them that was used."""

    depth: float
    purchases: int
    basket: Interval
    codes: int
    engagement: Interval


def learned_curve(belief: Belief) -> tuple[LearnedCurve, ...]:
    """The depths seen in purchases, ascending; contexts are standardised, so the average customer's is 0."""
    evidence = belief.basket.evidence
    if not evidence.depths.size:
        return ()
    curve = demand_curve(belief.basket, np.zeros(evidence.context_size), evidence.depths, draws=_DRAWS)
    generator = np.random.Generator(np.random.Philox(key=0))
    rates = belief.engagement.draws(evidence.depths, count=_DRAWS, generator=generator)
    counts = belief.engagement.counts
    sent = dict(zip(counts.depths.tolist(), counts.sent.tolist(), strict=True))
    return tuple(
        LearnedCurve(
            depth=depth,
            purchases=int(evidence.rows[column]),
            basket=Interval(
                mean=float(curve.full_price.mean[column]),
                lower=float(curve.full_price.low[column]),
                upper=float(curve.full_price.high[column]),
            ),
            codes=sent.get(depth, 0),
            engagement=Interval.of(rates[:, column]),
        )
        for column, depth in enumerate(evidence.depths.tolist())
    )
