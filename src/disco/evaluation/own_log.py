"""Propensities of a campaign that `decide` decided, so that its own log can be evaluated later."""

import numpy as np

from disco import objective
from disco.allocation import Allocation, allocate
from disco.campaign import Belief
from disco.policy import Policy
from disco.policy.propensity import Propensities, propensities
from disco.records.arrays import Floats
from disco.records.decisions import Audience, Offer
from disco.records.ports import Engine


def decision_propensities(
    audience: Audience,
    *,
    belief: Belief,
    offer: Offer,
    policy: Policy,
    campaign: str,
    seed: int,
    draws: int = 200,
    engine: Engine | None = None,
) -> Propensities:
    """The law of every customer's depth, from the arguments of `decide`; `.played(decisions.choice)` is what to log.

    Done after the codes are out: it costs as much as `draws` decisions for small campaigns, as many draws without
    a solve for large ones.
    """
    depths = np.asarray(offer.depths, np.float64)
    rates = belief.engagement.rates(depths)
    costs = None
    if offer.budget is not None:
        expected = belief.basket.expected_full_price(audience.context, depths, engine=engine)
        costs = objective.expected_markdown(expected, depths, rates)

    def solve(worth: Floats) -> Allocation:
        allocation = allocate(
            worth,
            offer.caps,
            depths=offer.depths,
            floors=offer.floors,
            costs=costs,
            budget=offer.budget,
            ids=audience.ids,
            engine=engine,
        )
        allocation.require_feasible(where=f"campaign {campaign}")
        return allocation

    return propensities(
        policy,
        belief.basket,
        audience.context,
        depths,
        ids=audience.ids,
        seed=seed,
        campaign=campaign,
        worth=lambda prices: objective.values(prices, depths, rates, revenue_weight=offer.revenue_weight),
        solve=solve,
        costs=costs,
        draws=draws,
        engine=engine,
    )
