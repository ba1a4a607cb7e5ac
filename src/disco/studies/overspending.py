"""How often campaigns with a budget overspend: simulated campaigns decided with an `overspend_risk`.

    python -m disco.studies.overspending [--campaigns 200] [--risks 0.1,0.3] [--seeds 1,2,3,4] [--customers 20000]

Each campaign is a world of its own on the customers of a simulated shop: codes at depths assigned at random teach a
belief from nothing, other customers are decided under a budget that allows about half of what they would cost, and they
answer by the true law. What may be planned of the budget is found as `disco plan` finds it, from the belief's draws of
the markdown; the correction by earlier campaigns, which could only widen them, has no part in it. A shop's network is
trained once, on its own orders and codes.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product

import numpy as np
from scipy.stats import binom

from disco.belief import BasketModel, Engagement, EngagementCounts, SmoothSpline, draw_full_price_totals
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.passes import generator
from disco.operations.overspending import chance_above, first_share, largest_share
from disco.policy import Thompson
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.decisions import Audience, Decisions, Offer, Purchases
from disco.records.identity import name_key
from disco.records.score import EngagementHead
from disco.retailer import RetailerSettings
from disco.retailer.settings import Shape
from disco.studies.bandits.stage import Law
from disco.studies.environment import ENGAGEMENT, REVENUE_WEIGHT, ContextRecipe, StudyShop, open_shop
from disco.studies.readings import DEPTH_SCALE

DEPTHS = (0.1, 0.2, 0.3, 0.4)
BUDGET_SHARE = 0.5  # of the markdown expected of the same customers without a budget
RISKS = (0.1, 0.3)
DRAWS = 200  # of what a campaign costs, as many as a plan makes


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Customers of a shop as its network sees them, and the law by which they answer."""

    name: str
    context: Matrix
    head: EngagementHead | None
    law: Law

    @classmethod
    def of(cls, shop: StudyShop, *, recipe: ContextRecipe = ENGAGEMENT, max_epochs: int = 40) -> "Market":
        settings = shop.retailer.settings
        network = recipe.fit(shop.training, seed=settings.seed, max_epochs=max_epochs)
        truth = shop.retailer.truth(shop.ids[shop.known], DEPTHS)
        residual_sd = settings.baskets.campaign_residual_sd
        return cls(
            name=f"{settings.curves.shape} shop {settings.seed}",
            context=network.transform(shop.features.filter(shop.known), check_scale=False),
            head=network.head_,
            law=Law(
                depths=DEPTHS,
                log_full_price=np.log(truth.expected_full_price) - residual_sd**2 / 2,
                purchase_probability=truth.purchase_probability,
                residual_sd=residual_sd,
            ),
        )

    def answers(self, rows: Integers, choice: Integers, draws: np.random.Generator) -> Vector:
        """(n,) full price bought, money; NaN where no code was given or nothing bought."""
        decision, residual = draws.random(rows.size), draws.standard_normal(rows.size)
        place = choice.clip(0)
        full_price = np.exp(self.law.log_full_price[rows, place] + self.law.residual_sd * residual)
        bought = (choice >= 0) & (decision < self.law.purchase_probability[rows, place])
        return np.where(bought, full_price, np.nan)

    def audience(self, rows: Integers) -> Audience:
        return Audience(ids=rows, context=self.context[rows], known=np.ones(rows.size, np.bool_))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """One campaign at one risk."""

    shop: str
    number: int
    risk: float
    budget: float
    planned_share: float  # of the budget
    chance: float  # to overspend, as the plan says it
    markdown: float  # as customers answered

    @property
    def is_over(self) -> bool:
        return self.markdown > self.budget


def campaigns_of(market: Market, *, number: int, risks: Sequence[float], codes: int, customers: int) -> Iterator[Spent]:
    """One world: learn from `codes` codes, decide for `customers` other ones at every risk, answered alike."""
    draws = generator("overspending", market.name, number)
    order = draws.permutation(len(market.context))
    past, rows = order[:codes], order[codes : codes + customers]
    belief = _learned(market, past, draws)
    audience, seed = market.audience(rows), name_key("overspending campaign", market.name, number)
    answered = draws.integers(0, 2**63)

    def decided(budget: float | None) -> tuple[Decisions, Vector]:
        """The decisions under a budget, and draws of what they cost."""
        offer = Offer(depths=DEPTHS, caps=(None,) * len(DEPTHS), revenue_weight=REVENUE_WEIGHT, budget=budget)
        made = decide(audience, belief=belief, offer=offer, policy=Thompson(), campaign="budget", seed=seed)
        totals = draw_full_price_totals(
            belief.basket,
            audience.context,
            made.choice,
            DEPTHS,
            engagement=belief.engagement,
            score=belief.scores(audience),
            draws=DRAWS,
            seed=seed,
        )
        return made, totals @ np.asarray(DEPTHS)

    budget = BUDGET_SHARE * float(decided(None)[1].mean())
    whole, cost = decided(budget)
    for risk in risks:
        made, share, chance = whole, 1.0, chance_above(cost, budget)
        if chance > risk:

            def tried(part: float) -> tuple[tuple[Decisions, float], float]:
                attempt, drawn = decided(part * budget)
                above = chance_above(drawn, budget)
                return (attempt, above), above

            found = largest_share(tried, risk=risk, first=first_share(cost, risk=risk))
            assert found.attempt is not None  # without floors, a budget near 0 always can be kept
            (made, chance), share = found.attempt, found.share
        full_price = market.answers(rows, made.choice, np.random.default_rng(answered))
        yield Spent(
            shop=market.name,
            number=number,
            risk=risk,
            budget=budget,
            planned_share=share,
            chance=chance,
            markdown=float(np.nansum(full_price * np.append(DEPTHS, 0.0)[made.choice])),
        )


def _learned(market: Market, rows: Integers, draws: np.random.Generator) -> Belief:
    choice = draws.integers(0, len(DEPTHS), rows.size)
    full_price, depth = market.answers(rows, choice, draws), np.asarray(DEPTHS)[choice]
    bought = ~np.isnan(full_price)
    scores, bins = None, None
    if market.head is not None:
        scores, bins = market.head.scores(market.context[rows]), market.head.bins
    seen = Purchases(context=market.context[rows[bought]], depth=depth[bought], full_price=full_price[bought])
    prior = Belief(
        basket=BasketModel(encoding=SmoothSpline(), depth_scale=DEPTH_SCALE),
        engagement=Engagement(),
        head=market.head,
    )
    return learn(prior, [Lesson.of("past", seen, EngagementCounts.of(depth, bought, score=scores, bins=bins))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Overspent:
    """Campaigns with one risk."""

    risk: float
    campaigns: int
    over: int
    most: int  # that chance alone explains in 99 of 100 such studies, if each overspends with that risk

    @classmethod
    def of(cls, spent: Sequence[Spent], risk: float) -> "Overspent":
        """
        >>> Overspent.of([], 0.1).most
        0
        """
        over = [one.is_over for one in spent if one.risk == risk]
        return cls(
            risk=risk, campaigns=len(over), over=sum(over), most=int(binom.ppf(0.995, len(over), risk)) if over else 0
        )

    @property
    def holds(self) -> bool:
        return self.over <= self.most


def run_study(
    markets: Sequence[Market], *, campaigns: int, risks: Sequence[float] = RISKS, codes: int, customers: int
) -> list[Spent]:
    """As many campaigns, market by market in turn."""
    return [
        one
        for number in range(campaigns)
        for one in campaigns_of(
            markets[number % len(markets)], number=number, risks=risks, codes=codes, customers=customers
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m disco.studies.overspending", description="How often campaigns with a budget overspend."
    )
    parser.add_argument("--campaigns", type=int, default=200, help="to simulate (%(default)s)")
    parser.add_argument("--risks", default="0.1,0.3", help="the chances allowed (%(default)s)")
    parser.add_argument("--seeds", default="1,2,3,4", help="of the shops; each in two shapes (%(default)s)")
    parser.add_argument("--customers", type=int, default=20_000, help="of each shop (%(default)s)")
    parser.add_argument("--codes", type=int, default=6_000, help="that each belief learns from (%(default)s)")
    parser.add_argument("--decided", type=int, default=4_000, help="customers of each campaign (%(default)s)")
    asked = parser.parse_args(arguments)
    risks = [float(risk) for risk in asked.risks.split(",")]
    markets = []
    for seed, shape in product(map(int, asked.seeds.split(",")), (Shape.CONCAVE, Shape.S_SHAPED)):
        settings = RetailerSettings(customers=asked.customers, seed=seed)
        settings = replace(settings, curves=replace(settings.curves, shape=shape))
        markets.append(Market.of(open_shop(settings, campaigns=())))
    spent = run_study(markets, campaigns=asked.campaigns, risks=risks, codes=asked.codes, customers=asked.decided)
    for risk in risks:
        found = Overspent.of(spent, risk)
        sys.stdout.write(json.dumps({**asdict(found), "holds": found.holds}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
