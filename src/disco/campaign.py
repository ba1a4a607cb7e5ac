"""The loop: `decide` turns a belief into decisions, `learn` turns the lessons of campaigns into a belief.

Operations, replay, studies and Python users call these two functions; there is no other way from evidence to belief.
`Belief` is what both take, `Lesson` is what one campaign teaches. Everything else is a room beside this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from disco import objective
from disco.belief import BasketModel, Engagement, EngagementCounts, Evidence
from disco.belief.forgetting import forgetting_of_baskets, forgetting_of_codes
from disco.policy import Policy, rates_of_policy, require_policy
from disco.records.arguments import kind_of
from disco.records.arrays import Flags, Floats, Integers, Vector
from disco.records.chunks import stack_rows
from disco.records.decisions import Audience, Decisions, Offer, Purchases
from disco.records.errors import InputError, SchemaMismatchError
from disco.records.ports import Engine
from disco.records.score import EngagementHead


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Belief:
    """What is known so far: `Belief(basket=BasketModel(), engagement=Engagement())` before any campaign.

    basket: ln(full price) of a purchase, over context and depth.
    engagement: the share of receivers who buy, by depth and engagement score.
    head: what gives customers their engagement score; without it customers have one rate per depth, unless an audience
        brings scores.
    learns_forgetting: whether `learn` chooses how fast baskets and codes are forgotten, by what past campaigns say.
    """

    basket: BasketModel
    engagement: Engagement
    head: EngagementHead | None = None
    learns_forgetting: bool = False

    def __post_init__(self) -> None:
        _require(BasketModel, basket=self.basket)
        _require(Engagement, engagement=self.engagement)
        if self.head is None:
            return
        _require(EngagementHead, head=self.head)
        counts = self.engagement.counts
        if not counts.depths.size and counts.bins is None:  # nothing has matured: the head alone tells customers apart
            bare = self.engagement.with_counts(EngagementCounts(bins=self.head.bins))
            object.__setattr__(self, "engagement", bare)
        elif counts.bins not in (None, self.head.bins):
            raise SchemaMismatchError(
                "engagement head",
                found="codes counted in the bins of another network",
                expected="codes counted in the head's own bins",
                fix="Count the codes again with the network in use (`disco learn --rebuild`).",
            )

    def scores(self, audience: Audience, rows: slice = slice(None)) -> Vector | None:
        """Engagement scores of these customers, shape (rows,): those the audience brings, else the head's.

        None where customers are not told apart: codes were not counted by score, or there is no score.
        """
        if self.engagement.counts.bins is None:
            return None
        if audience.score is not None:
            return audience.score[rows]
        return None if self.head is None else self.head.scores(audience.context[rows])

    def rates(self, audience: Audience, depths: Vector, *, engine: Engine | None = None) -> Floats:
        """Each customer's own mean rate, (n, K); (K,) where customers are not told apart.

        depths: (K,) from 0 to 1.
        engine: what the customers are spread over; None is this thread.
        """
        score = self.scores(audience)
        if score is None:
            return self.engagement.rates(depths)
        return self.engagement.rates_of(score, depths, engine=engine)

    def rates_at_choice(
        self, audience: Audience, depths: Vector, choice: Integers, *, engine: Engine | None = None
    ) -> Vector:
        """(n,) each customer's own mean rate at the depth they were given; NaN where `choice` is -1, no code.

        depths: (K,) from 0 to 1.
        choice: (n,) position in `depths`.
        engine: what the customers are spread over; None is this thread.
        """

        def chunk(rows: slice) -> Vector:
            at, score = choice[rows], self.scores(audience, rows)
            rates = everybody if score is None else self.engagement.rates_of(score, depths)
            chosen = rates[at] if score is None else rates[np.arange(at.size), at]
            return np.where(at < 0, np.nan, chosen)

        everybody = self.engagement.rates(depths)

        return stack_rows(chunk, len(audience), engine=engine)

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
    def of(cls, campaign: str, purchases: Purchases, codes: EngagementCounts | None = None) -> Lesson:
        """The lesson of these purchases; without `codes` it teaches nothing about engagement."""
        _require(Purchases, purchases=purchases)
        return cls(
            campaign=campaign,
            baskets=Evidence.of(purchases.context, purchases.depth, purchases.full_price),
            codes=EngagementCounts() if codes is None else codes,
            context_names=purchases.context_names,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figures:
    """What `decide` computes before it looks at limits. Whoever decides the same customers again may keep it."""

    values: Floats  # (n, K) of `values_of`
    costs: Floats | None  # (n, K) of `expected_costs`; None: the offer has no budget

    @classmethod
    def of(
        cls,
        audience: Audience,
        *,
        belief: Belief,
        offer: Offer,
        policy: Policy,
        campaign: str,
        seed: int,
        engine: Engine | None = None,
    ) -> Figures:
        """The figures of an offer: of its limits, only whether it has a budget matters."""
        depths, weight = np.asarray(offer.depths, np.float64), offer.revenue_weight
        values = values_of(
            audience,
            belief=belief,
            depths=depths,
            revenue_weight=weight,
            policy=policy,
            seed=seed,
            campaign=campaign,
            engine=engine,
        )
        has_budget = offer.budget is not None
        costs = expected_costs(audience, belief=belief, offer=offer, engine=engine) if has_budget else None
        return cls(values=values, costs=costs)


def decide(
    audience: Audience,
    *,
    belief: Belief,
    offer: Offer,
    policy: Policy,
    campaign: str,
    seed: int,
    engine: Engine | None = None,
    figures: Figures | None = None,
    warm_prices: Vector | None = None,
) -> Decisions:
    """Choose one depth or none for every customer: sample full prices, value them, allocate exactly under the limits.

    A pure function of its arguments. A customer's figures depend on (seed, campaign, id) and their context alone, so
    neither row order nor chunking nor the engine changes a decision.

    figures: those of these very arguments, where they are known already.
    warm_prices: (K,) `Decisions.prices` of similar limits. They save time, and change no decision.
    """
    from disco.allocation import allocate_offer  # not needed by those who learn, or who show what was learned

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
    if figures is None:
        figures = Figures.of(
            audience, belief=belief, offer=offer, policy=policy, campaign=campaign, seed=seed, engine=engine
        )
    allocation = allocate_offer(
        figures.values,
        audience,
        offer,
        costs=figures.costs if offer.budget is not None else None,
        where=f"campaign {campaign}",
        warm_prices=warm_prices,
        engine=engine,
    )
    chosen = allocation.choice >= 0
    value = np.zeros(len(audience))
    value[chosen] = figures.values[chosen, allocation.choice[chosen]]
    return Decisions(
        campaign=campaign,
        ids=audience.ids,
        depths=offer.depths,
        choice=allocation.choice,
        value=value,
        expected_full_price=belief.basket.expected_at_choice(
            audience.context, depths, allocation.choice, engine=engine
        ),
        engagement=belief.rates_at_choice(audience, depths, allocation.choice, engine=engine),
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


def values_of(
    audience: Audience,
    *,
    belief: Belief,
    depths: Vector,
    revenue_weight: float,
    policy: Policy,
    seed: int,
    campaign: str,
    engine: Engine | None = None,
) -> Floats:
    """(n, K) what `decide` maximises: the policy's full prices and engagement rates, as w·R − C, less what a code costs
    to send (`Audience.contact_cost`), which is paid whether it is used or not. −∞: a depth that would cost more than
    is left for the customer (`allowed_depths`).

    Late arrivals are valued by it, and propensities with other seeds. A customer's row is a pure function of (belief,
    their context and score, depths, seed, campaign, their id).

    depths: (K,) on offer.
    revenue_weight: the weight w of w·R − C.
    engine: what the customers are spread over; None is this thread.
    """
    everybody = belief.engagement.rates(depths)

    def chunk(rows: slice) -> Floats:
        ids, score = audience.ids[rows], belief.scores(audience, rows)
        full_prices = policy.full_prices(
            belief.basket, audience.context[rows], depths, ids=ids, seed=seed, campaign=campaign
        )
        rates: Floats = everybody
        if score is not None:
            rates = rates_of_policy(policy, belief.engagement, score, depths, ids=ids, seed=seed, campaign=campaign)
        cost = None if audience.contact_cost is None else audience.contact_cost[rows]
        return objective.values(full_prices, depths, rates, revenue_weight=revenue_weight, contact_cost=cost)

    values = stack_rows(chunk, len(audience), engine=engine)
    allowed = allowed_depths(audience, belief=belief, depths=depths, engine=engine)
    if allowed is not None:
        values[~allowed] = -np.inf
    return values


def allowed_depths(audience: Audience, *, belief: Belief, depths: Vector, engine: Engine | None = None) -> Flags | None:
    """(n, K) whether a code's expected markdown, at the posterior mean, is at most what is left for the customer
    (`Audience.markdown_left`); None: there is no limit. Before any purchase was learned nothing is expected.
    """
    left = audience.markdown_left
    if left is None:
        return None
    if not belief.basket.campaigns:
        return np.repeat((left >= 0)[:, None], depths.size, axis=1)
    offer = Offer(depths=tuple(depths.tolist()), caps=(None,) * depths.size, revenue_weight=1.0)
    return np.asarray(expected_costs(audience, belief=belief, offer=offer, engine=engine) <= left[:, None])


def expected_costs(audience: Audience, *, belief: Belief, offer: Offer, engine: Engine | None = None) -> Floats:
    """(n, K) what the budget counts: markdown at the posterior mean × each customer's rate × `offer.cost_factors`."""
    depths = np.asarray(offer.depths, np.float64)
    everybody = belief.engagement.rates(depths)
    factors = None if offer.cost_factors is None else np.asarray(offer.cost_factors)

    def chunk(rows: slice) -> Floats:
        full_prices = belief.basket.expected_full_price(audience.context[rows], depths)
        score = belief.scores(audience, rows)
        rates = everybody if score is None else belief.engagement.rates_of(score, depths)
        costs = objective.expected_markdown(full_prices, depths, rates)
        return costs if factors is None else costs * factors

    return stack_rows(chunk, len(audience), engine=engine)


def learn(prior: Belief, lessons: Iterable[Lesson] | Lesson) -> Belief:
    """prior + Σ lessons, exactly: the same bits however the rows were cut into lessons.

    A campaign may have several lessons, such as one per batch of outcomes. Campaigns are kept in the order of their
    first lesson, which matters to forgetting alone. Codes counted in other bins of the engagement score than those of
    the prior are refused.

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
    basket, engagement = prior.basket, prior.engagement
    for lesson in given:
        basket = basket.add(lesson.baskets, campaign=lesson.campaign, context_names=lesson.context_names)
        engagement = engagement.with_codes(lesson.codes, campaign=lesson.campaign)
    if prior.learns_forgetting:
        basket = replace(basket, forgetting=forgetting_of_baskets(basket))
        engagement = replace(engagement, forgetting=forgetting_of_codes(engagement))
    return replace(prior, basket=basket, engagement=engagement)


def _require(kind: type, **given: object) -> None:
    """Refuse an argument of another kind by its name."""
    for name, value in given.items():
        if not isinstance(value, kind):
            expected, fix = f"a disco.{kind.__name__}", f"help(disco.{kind.__name__}) shows how to make one."
            raise InputError(name, found=kind_of(value), expected=expected, fix=fix)


def _require_campaign(name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError("campaign", found=repr(name), expected="the name of a campaign")
