"""The pipe: `decide` turns belief into codes, `learn` turns purchases into belief. The rest is rooms beside it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from disco import objective
from disco.allocation import Allocation, Status, allocate
from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.policy import Policy
from disco.records.arrays import Floats, Integers, Vector
from disco.records.decisions import Audience, Decisions, Offer, Purchases
from disco.records.errors import InfeasibleError, InputError
from disco.records.ports import Engine

CHUNK_ROWS = 65_536  # customers per chunk of an engine; never changes a result


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What is known so far: baskets (ln full price over context and depth) and engagement (who buys at all)."""

    basket: BasketModel
    engagement: Engagement


def decide(
    audience: Audience,
    *,
    belief: Belief,
    offer: Offer,
    policy: Policy,
    campaign: str,
    seed: int,
    engine: Engine | None = None,
) -> Decisions:
    """Choose one depth or none for every customer: sample full prices, value them, allocate exactly under the limits.

    A pure function of its arguments. A customer's figures depend on (seed, campaign, id) and its context alone, so
    neither row order nor chunking nor the engine changes a decision.
    """
    if not len(audience):
        raise InputError("audience", found="no customers", expected="at least one to decide about")
    depths = np.asarray(offer.depths, np.float64)
    rates = belief.engagement.rates(depths)

    def worth(rows: slice) -> Floats:
        full_prices = policy.full_prices(
            belief.basket, audience.context[rows], depths, ids=audience.ids[rows], seed=seed, campaign=campaign
        )
        return objective.values(full_prices, depths, rates, revenue_weight=offer.revenue_weight)

    def cost(rows: slice) -> Floats:
        return objective.expected_markdown(
            belief.basket.expected_full_price(audience.context[rows], depths), depths, rates
        )

    values = _gather(engine, worth, len(audience), depths.size)
    costs = _gather(engine, cost, len(audience), depths.size) if offer.budget is not None else None
    allocation = allocate(
        values,
        offer.caps,
        depths=offer.depths,
        floors=offer.floors,
        costs=costs,
        budget=offer.budget,
        ids=audience.ids,
    )
    require_feasible(allocation, campaign=campaign)

    chosen = allocation.choice >= 0
    value = np.zeros(len(audience))
    value[chosen] = values[chosen, allocation.choice[chosen]]
    return Decisions(
        campaign=campaign,
        ids=audience.ids,
        depths=offer.depths,
        choice=allocation.choice,
        value=value,
        expected_full_price=expected_at_choice(belief.basket, audience, depths, allocation.choice),
        engagement=rates,
        prices=allocation.prices,
        budget_price=allocation.budget_price or 0.0,
        status=allocation.status,
        bound=allocation.bound,
        gap=allocation.gap,
        policy=repr(policy),
        model_hash=belief.basket.hash,
        seed=seed,
    )


def learn(
    belief: Belief,
    purchases: Purchases,
    *,
    campaign: str,
    codes: EngagementCounts | None = None,
) -> Belief:
    """Belief after also seeing these purchases and matured codes; batches in any order give equal belief."""
    basket = belief.basket.update(purchases.context, purchases.depth, purchases.full_price, campaign=campaign)
    engagement = (
        belief.engagement if codes is None else replace(belief.engagement, counts=belief.engagement.counts + codes)
    )
    return Belief(basket=basket, engagement=engagement)


def require_feasible(allocation: Allocation, *, campaign: str) -> None:
    """Limits that contradict each other stop the campaign, with the reason."""
    if allocation.status is Status.INFEASIBLE:
        raise InfeasibleError(
            f"campaign {campaign}: the limits contradict each other",
            conflicts=[str(conflict) for conflict in allocation.conflicts],
            fix="Change one of the limits named above.",
        )


def expected_at_choice(basket: BasketModel, audience: Audience, depths: Vector, choice: Integers) -> Vector:
    """(n,) posterior-mean full price at each customer's chosen depth, money; NaN without a code."""
    expected = np.full(len(audience), np.nan)
    for column in range(depths.size):
        rows = np.flatnonzero(choice == column)
        expected[rows] = basket.expected_full_price(audience.context[rows], depths[column : column + 1])[:, 0]
    return expected


def _gather(engine: Engine | None, function: Callable[[slice], Floats], rows: int, columns: int) -> Floats:
    """The results of `function` over chunks of rows, laid side by side depth-major; without an engine, one chunk."""
    if engine is None:
        return function(slice(0, rows))
    out = np.empty((rows, columns), order="F")
    chunks = [slice(start, min(start + CHUNK_ROWS, rows)) for start in range(0, rows, CHUNK_ROWS)]
    for chunk, part in zip(chunks, engine.map(function, chunks), strict=True):
        out[chunk] = part
    return out
