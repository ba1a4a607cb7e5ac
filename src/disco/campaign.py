"""The loop: `decide` turns a belief into decisions, `learn` turns the lessons of campaigns into a belief.

Operations, replay, studies and Python users call these two functions; there is no other way from evidence to belief.
`Belief` is what both take, `Lesson` is what one campaign teaches. Everything else is a room beside this file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from disco import objective
from disco.belief import BasketModel, Engagement, EngagementCounts, Evidence
from disco.policy import Policy, require_policy
from disco.records.arguments import kind_of
from disco.records.arrays import Floats
from disco.records.chunks import stack_rows
from disco.records.decisions import Audience, Decisions, Offer, Purchases
from disco.records.errors import InputError
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Belief:
    """What is known so far: `Belief(basket=BasketModel(), engagement=Engagement())` before any campaign.

    basket: ln(full price) of a purchase, over context and depth.
    engagement: the share of receivers who buy, by depth.
    """

    basket: BasketModel
    engagement: Engagement

    def __repr__(self) -> str:
        """
        >>> Belief(basket=BasketModel(), engagement=Engagement())
        Belief(purchases: 0, campaigns: 0, codes sent: 0, model: 47d2a72a)
        """
        purchases, campaigns = self.basket.evidence.total_rows, len(self.basket.campaigns)
        sent, name = int(self.engagement.counts.sent.sum()), self.basket.hash[:8]
        return f"Belief(purchases: {purchases:,}, campaigns: {campaigns:,}, codes sent: {sent:,}, model: {name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one campaign teaches, in exact integers; `Lesson.of` makes one from purchases.

    campaign: its name.
    baskets: purchases with a code: ln(full price) over context and depth.
    codes: codes sent and redeemed; empty until they have matured.
    context_names: of the columns of the purchases' contexts, where they are known.
    """

    campaign: str
    baskets: Evidence
    codes: EngagementCounts
    context_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _require_campaign(self.campaign)
        _require(Evidence, baskets=self.baskets)
        _require(EngagementCounts, codes=self.codes)

    @classmethod
    def of(cls, campaign: str, purchases: Purchases, codes: EngagementCounts | None = None) -> "Lesson":
        """The lesson of these purchases; without `codes` it teaches nothing about engagement."""
        _require(Purchases, purchases=purchases)
        return cls(
            campaign=campaign,
            baskets=Evidence.of(purchases.context, purchases.depth, purchases.full_price),
            codes=EngagementCounts() if codes is None else codes,
            context_names=purchases.context_names,
        )


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

    A pure function of its arguments. A customer's figures depend on (seed, campaign, id) and their context alone, so
    neither row order nor chunking nor the engine changes a decision.
    """
    from disco.allocation import Segments, allocate  # not needed by those who learn, or who show what was learned

    _require(Audience, audience=audience)
    _require(Belief, belief=belief)
    _require(Offer, offer=offer)
    require_policy(policy)
    _require_campaign(campaign)
    belief.basket.require_columns(audience.context_names)
    if not len(audience):
        raise InputError("audience", found="no customers", expected="at least one to decide about")
    if offer.segments is not None and audience.segment is None:
        raise InputError("audience, segment", found="no labels", expected="one per customer: the offer has segments")
    depths = np.asarray(offer.depths, np.float64)
    rates, factor = belief.engagement.rates(depths), belief.basket.spread_factor(depths)

    def worth(rows: slice) -> Floats:
        full_prices = policy.full_prices(
            belief.basket, audience.context[rows], depths, ids=audience.ids[rows], seed=seed, campaign=campaign
        )
        return objective.values(full_prices, depths, rates, revenue_weight=offer.revenue_weight, factor=factor)

    def cost(rows: slice) -> Floats:
        return objective.expected_markdown(
            belief.basket.expected_full_price(audience.context[rows], depths), depths, rates
        )

    values = stack_rows(worth, len(audience), engine=engine)
    costs = stack_rows(cost, len(audience), engine=engine) if offer.budget is not None else None
    allocation = allocate(
        values,
        offer.caps,
        depths=offer.depths,
        floors=offer.floors,
        costs=costs,
        budget=offer.budget,
        segments=Segments.of(audience, offer),
        ids=audience.ids,
        engine=engine,
    )
    allocation.require_feasible(where=f"campaign {campaign}")

    chosen = allocation.choice >= 0
    value = np.zeros(len(audience))
    value[chosen] = values[chosen, allocation.choice[chosen]]
    return Decisions(
        campaign=campaign,
        ids=audience.ids,
        depths=offer.depths,
        choice=allocation.choice,
        value=value,
        expected_full_price=belief.basket.expected_at_choice(
            audience.context, depths, allocation.choice, engine=engine
        ),
        engagement=rates,
        prices=allocation.prices,
        budget_price=allocation.budget_price or 0.0,
        status=allocation.status,
        bound=allocation.bound,
        gap=allocation.gap,
        policy=repr(policy),
        model_hash=belief.basket.hash,
        seed=seed,
        segment_prices=None
        if allocation.segment_prices is None
        else {
            str(label): tuple(prices)
            for label, prices in zip(allocation.segment_labels, allocation.segment_prices.tolist(), strict=True)
            if label in (offer.segments or {})
        },
    )


def learn(prior: Belief, lessons: Iterable[Lesson] | Lesson) -> Belief:
    """prior + Σ lessons, exactly: the same bits however the rows were cut into lessons.

    A campaign may have several lessons, such as one per batch of outcomes. The basket model keeps campaigns in the
    order of their first lesson, which matters to `BasketModel.forgetting` alone.

    >>> seen = Purchases(context=[[0.5], [1.0]], depth=[0.1, 0.2], full_price=[20.0, 30.0])
    >>> prior = Belief(basket=BasketModel(), engagement=Engagement())
    >>> belief = learn(prior, [Lesson.of("spring", seen, EngagementCounts([0.1, 0.2], [10, 10], [1, 1]))])
    >>> belief.basket.evidence.total_rows, belief.engagement.counts.sent.tolist()
    (2, [10, 10])
    """
    _require(Belief, prior=prior)
    given = list(lessons) if isinstance(lessons, Iterable) else [lessons]
    others = [kind_of(one) for one in given if not isinstance(one, Lesson)]
    if others:
        found = f"{kind_of(lessons)} with {others[0]}" if isinstance(lessons, list | tuple) else kind_of(lessons)
        raise InputError("lessons", found=found, expected="lessons, such as [disco.Lesson.of(campaign, purchases)]")
    basket, counts = prior.basket, prior.engagement.counts
    for lesson in given:
        basket = basket.add(lesson.baskets, campaign=lesson.campaign, context_names=lesson.context_names)
        counts = counts + lesson.codes
    return Belief(basket=basket, engagement=replace(prior.engagement, counts=counts))


def _require(kind: type, **given: object) -> None:
    """Refuse an argument of another kind by its name."""
    for name, value in given.items():
        if not isinstance(value, kind):
            expected, fix = f"a disco.{kind.__name__}", f"help(disco.{kind.__name__}) shows how to make one."
            raise InputError(name, found=kind_of(value), expected=expected, fix=fix)


def _require_campaign(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError("campaign", found=repr(name), expected="the name of a campaign")
