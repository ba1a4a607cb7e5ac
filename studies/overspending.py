"""How often campaigns with a budget overspend: simulated campaigns decided with an `overspend_risk`.

    ./run reproduce overspending [--campaigns 200] [--risks 0.1,0.3] [--seeds 1,2,3,4] [--customers 20000]

Each campaign is a world of its own on the customers of a simulated shop. Codes at depths assigned at random teach a
belief from nothing. Then `plan_campaign`, which `disco plan` calls, decides about other customers under a budget that
allows about half of what they would cost, with a control group and without earlier campaigns to correct the forecast
by. They answer by the true law. A shop's network is trained once, on its own orders and codes.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import product

import numpy as np
from scipy.stats import binom

from disco.belief import BasketModel, Engagement, EngagementCounts, SmoothSpline
from disco.campaign import Belief, Lesson, learn
from disco.evaluation.passes import generator
from disco.operations.plan import Planned, plan_campaign
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.decisions import Audience, Purchases
from disco.records.files import temporary_folder
from disco.records.plan import Plan, read_plan
from disco.records.score import EngagementHead
from disco.retailer import RetailerSettings
from disco.retailer.settings import Shape
from disco.store import Store
from studies.arguments import chances, whole_number, whole_numbers
from studies.environment import ENGAGEMENT, REVENUE_WEIGHT, ContextRecipe, StudyShop, open_shop
from studies.readings import DEPTH_SCALE
from studies.stage import Law

DEPTHS = (0.1, 0.2, 0.3, 0.4)
BUDGET_SHARE = 0.5  # of the markdown expected of the same customers without a budget
CONTROL_SHARE = 0.1
RISKS = (0.1, 0.3)
_MOMENT = datetime(2026, 3, 2, tzinfo=UTC)  # when all plans are made: nothing here depends on it


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
    expected: float  # markdown, as the plan says it
    markdown: float  # as customers answered

    @property
    def is_over(self) -> bool:
        return self.markdown > self.budget


def campaigns_of(
    market: Market, store: Store, *, number: int, risks: Sequence[float], codes: int, customers: int
) -> Iterator[Spent]:
    """One world: learn from `codes` codes, decide for `customers` other ones at every risk, answered alike.

    store: without campaigns; nothing is written to it.
    """
    draws = generator("overspending", market.name, number)
    order = draws.permutation(len(market.context))
    past, rows = order[:codes], order[codes : codes + customers]
    belief, audience = _learned(market, past, draws), market.audience(rows)
    answered = draws.integers(0, 2**63)

    def planned(budget: dict[str, float] | None) -> Planned:
        return plan_campaign(
            store,
            _plan(budget, seed=number),
            audience,
            belief=belief,
            version=None,
            network=market.name,
            inputs={},
            clock=_Clock(),
        )

    free = planned(None).total
    assert free is not None  # something was learned
    budget = BUDGET_SHARE * free.markdown.value
    for risk in risks:
        made = planned({"amount": budget, "overspend_risk": risk})
        assert made.summary.overspend_chance is not None
        assert made.total is not None
        depth = np.nan_to_num(made.decisions["depth"].to_numpy())  # 0: no code
        choice = np.where(depth > 0, np.searchsorted(DEPTHS, depth), -1)
        full_price = market.answers(rows, choice, np.random.default_rng(answered))
        yield Spent(
            shop=market.name,
            number=number,
            risk=risk,
            budget=budget,
            planned_share=made.solution.budget_share,
            chance=made.summary.overspend_chance,
            expected=made.total.markdown.value,
            markdown=float(np.nansum(full_price * depth)),
        )


@dataclass(frozen=True, slots=True)
class _Clock:
    def now(self) -> datetime:
        return _MOMENT


def _plan(budget: dict[str, float] | None, *, seed: int) -> Plan:
    return read_plan(
        {
            "campaign": "budget",
            "customers": {"as_of": _MOMENT.date()},
            "depths": {depth: {} for depth in DEPTHS},
            "objective": {"revenue_weight": REVENUE_WEIGHT},
            "budget": budget,
            "control": {"share": CONTROL_SHARE},
            "valid": {"from": _MOMENT.date(), "days": 14},
            "seed": seed,
        }
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
    most: int  # upper end of the central 99% band of `over`, if each overspends with that risk
    actual_over_expected: float  # markdown of all of them; NaN without campaigns

    @classmethod
    def of(cls, spent: Sequence[Spent], risk: float) -> "Overspent":
        """
        >>> Overspent.of([], 0.1).most
        0
        """
        seen = [one for one in spent if one.risk == risk]
        expected = sum(one.expected for one in seen)
        return cls(
            risk=risk,
            campaigns=len(seen),
            over=sum(one.is_over for one in seen),
            most=int(binom.ppf(0.995, len(seen), risk)) if seen else 0,
            actual_over_expected=sum(one.markdown for one in seen) / expected if expected else np.nan,
        )

    @property
    def holds(self) -> bool:
        return self.over <= self.most


def run_study(
    markets: Sequence[Market], *, campaigns: int, risks: Sequence[float] = RISKS, codes: int, customers: int
) -> list[Spent]:
    """As many campaigns, market by market in turn."""
    with temporary_folder("study") as folder:
        store = Store.embedded(folder / "disco.sqlite")
        try:
            return [
                one
                for number in range(campaigns)
                for one in campaigns_of(
                    markets[number % len(markets)], store, number=number, risks=risks, codes=codes, customers=customers
                )
            ]
        finally:
            store.close()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./run reproduce overspending", description="How often campaigns with a budget overspend."
    )
    parser.add_argument("--campaigns", type=whole_number(1), default=200, help="to simulate (%(default)s)")
    parser.add_argument("--risks", type=chances, default="0.1,0.3", help="the chances allowed (%(default)s)")
    parser.add_argument(
        "--seeds", type=whole_numbers, default="1,2,3,4", help="of the shops; each in two shapes (%(default)s)"
    )
    parser.add_argument("--customers", type=whole_number(1), default=20_000, help="of each shop (%(default)s)")
    parser.add_argument(
        "--codes", type=whole_number(1), default=6_000, help="that each belief learns from (%(default)s)"
    )
    parser.add_argument(
        "--decided", type=whole_number(1), default=4_000, help="customers of each campaign (%(default)s)"
    )
    asked = parser.parse_args(arguments)
    markets = []
    for seed, shape in product(asked.seeds, (Shape.CONCAVE, Shape.S_SHAPED)):
        settings = RetailerSettings(customers=asked.customers, seed=seed)
        settings = replace(settings, curves=replace(settings.curves, shape=shape))
        markets.append(Market.of(open_shop(settings, campaigns=())))
    spent = run_study(markets, campaigns=asked.campaigns, risks=asked.risks, codes=asked.codes, customers=asked.decided)
    for risk in asked.risks:
        found = Overspent.of(spent, risk)
        sys.stdout.write(json.dumps({**asdict(found), "holds": found.holds}) + "\n")
    return 0
