"""What it is worth to know who answers: campaigns decided with and without a rate of engagement per customer.

    ./run reproduce answers [--seeds 1,2,3,4] [--shapes concave,s-shaped] [--customers 50000]

Each shop has run campaigns A and B with codes assigned at random. A network is trained on its orders and codes, the
belief learns from both campaigns, and campaign C is decided for the customers with a purchase in the year before: with
filled caps (everybody gets a code) and with scarce ones. The truth judges what a decision is worth, compared with as
many codes per depth assigned at random, and how far off its forecast was. One line of JSON per shop.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product

import numpy as np

from disco.belief import BasketModel, Engagement, SmoothSpline
from disco.campaign import Belief, decide, learn
from disco.evaluation.accuracy import judge
from disco.features import FEATURES
from disco.features.rows import table_matrix
from disco.policy import Greedy, Policy, Thompson
from disco.records.arrays import Vector
from disco.records.decisions import Audience, Decisions, Offer
from disco.retailer import RetailerSettings, Truth
from disco.retailer.settings import Shape
from studies.arguments import shapes, whole_number, whole_numbers
from studies.environment import (
    ENGAGEMENT,
    PLAYED_CAMPAIGN,
    REVENUE_WEIGHT,
    SLOPE,
    ContextRecipe,
    StudyShop,
    open_shop,
)
from studies.ladder import FILLED, SCARCE, Beyond, Rung, Yardstick, caps_of, rungs_of_knowledge
from studies.readings import DEPTH_SCALE
from studies.stage import Law, Past, Stage

REGIMES = (FILLED, SCARCE)
POLICIES: tuple[Policy, ...] = (Thompson(exploration=1.0), Greedy())
RECIPES = (SLOPE, ENGAGEMENT)  # one rate per depth, and one per customer
KNOWLEDGE = (Rung.ORACLE, Rung.HABITS, Rung.FEATURES, Rung.CONTEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedAnswer:
    """One decision about campaign C."""

    heads: str  # of the network; without engagement everybody has the rate of the depth
    regime: str
    policy: str
    objective: float  # over random allocation with the same codes, a share
    revenue_error: float  # expected over true expected revenue of the codes decided, minus 1
    markdown_error: float  # the same of the markdown
    by_depth: tuple[float, ...]  # the same of the full price bought, by depth


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopAnswers:
    """What one shop shows."""

    shape: str
    seed: int
    customers: int  # with a purchase in the year before
    knowledge: dict[str, dict[str, float]]  # by regime and decision maker: objective over random
    judged: tuple[JudgedAnswer, ...]

    def line(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Played:
    """The customers of campaign C with a history, and the truth about them."""

    shop: StudyShop
    truth: Truth

    @classmethod
    def of(cls, shop: StudyShop) -> "_Played":
        campaign = shop.retailer.settings.campaign(PLAYED_CAMPAIGN)
        return cls(shop, shop.retailer.truth(shop.ids[shop.known], campaign.depths, channel=str(campaign.channel)))

    def audience(self, recipe: ContextRecipe, *, max_epochs: int) -> tuple[Audience, Belief]:
        """The customers as a network sees them, and what campaigns A and B taught under it."""
        shop = self.shop
        network = recipe.fit(shop.training, seed=shop.retailer.settings.seed, max_epochs=max_epochs)
        prior = Belief(
            basket=BasketModel(encoding=SmoothSpline(), depth_scale=DEPTH_SCALE),
            engagement=Engagement(),
            head=network.head_,
        )
        context = network.transform(shop.features.filter(shop.known), check_scale=False)
        audience = Audience(ids=shop.ids[shop.known], context=context, known=np.ones(len(context), np.bool_))
        return audience, learn(prior, [past.log(network).lesson for past in shop.campaigns])


def shop_answers(
    shop: StudyShop, *, recipes: Sequence[ContextRecipe] = RECIPES, max_epochs: int = 40, with_ladder: bool = True
) -> ShopAnswers:
    """Train, learn and decide with each recipe; with_ladder: also what those who know more would reach."""
    played, settings = _Played.of(shop), shop.retailer.settings
    seen = [(recipe, *played.audience(recipe, max_epochs=max_epochs)) for recipe in recipes]
    judged = [
        _judged(played, audience, belief, recipe=recipe, regime=regime, policy=policy)
        for recipe, audience, belief in seen
        for regime, policy in product(REGIMES, POLICIES)
    ]
    return ShopAnswers(
        shape=str(settings.curves.shape),
        seed=settings.seed,
        customers=int(shop.known.sum()),
        knowledge=_knowledge(played, [audience for _, audience, _ in seen]) if with_ladder else {},
        judged=tuple(judged),
    )


def _judged(
    played: _Played, audience: Audience, belief: Belief, *, recipe: ContextRecipe, regime: str, policy: Policy
) -> JudgedAnswer:
    truth, settings = played.truth, played.shop.retailer.settings
    caps = caps_of(regime, customers=len(audience), depths=len(truth.depths))
    decided = decide(
        audience,
        belief=belief,
        offer=Offer(depths=truth.depths, caps=caps, revenue_weight=REVENUE_WEIGHT),
        policy=policy,
        campaign=PLAYED_CAMPAIGN,
        seed=settings.seed,
    )
    found = judge(
        decided.choice,
        full_price=truth.expected_full_price,
        purchase_probability=truth.purchase_probability,
        depths=truth.depths,
        revenue_weight=REVENUE_WEIGHT,
    )
    revenue, markdown, by_depth = forecast_errors(decided, truth)
    return JudgedAnswer(
        heads=recipe.heads,
        regime=regime,
        policy=policy.name,
        objective=found.objective_uplift,
        revenue_error=revenue,
        markdown_error=markdown,
        by_depth=by_depth,
    )


def forecast_errors(decided: Decisions, truth: Truth) -> tuple[float, float, tuple[float, ...]]:
    """Expected over true expected, minus 1: revenue, markdown, and full price bought by depth (NaN without a code)."""
    rows = np.flatnonzero(decided.choice >= 0)
    place, depth = decided.choice[rows], np.asarray(truth.depths)[decided.choice[rows]]
    expected = decided.engagement[rows] * decided.expected_full_price[rows]
    true = (truth.purchase_probability * truth.expected_full_price)[rows, place]

    def error(weight: Vector) -> float:
        return float((expected @ weight) / (true @ weight) - 1) if weight.any() else float("nan")

    by_depth = tuple(error((place == column).astype(np.float64)) for column in range(len(truth.depths)))
    return error(1 - depth), error(depth), by_depth


def _knowledge(played: _Played, audiences: Sequence[Audience]) -> dict[str, dict[str, float]]:
    """The upper rows of the ladder of regret, for the last of the networks."""
    shop, truth = played.shop, played.truth
    residual_sd = shop.retailer.settings.baskets.campaign_residual_sd
    context = audiences[-1].context
    stage = Stage(
        name=f"{shop.retailer.settings.curves.shape} shop {shop.retailer.settings.seed}",
        seed=shop.retailer.settings.seed,
        context=context,
        law=Law(
            depths=truth.depths,
            log_full_price=np.log(truth.expected_full_price) - residual_sd**2 / 2,
            purchase_probability=truth.purchase_probability,
            residual_sd=residual_sd,
        ),
        past=Past(context=context[:0], depth=np.zeros(0), full_price=np.zeros(0)),
        depth_scale=DEPTH_SCALE,
    )
    yardsticks = {
        regime: Yardstick.of(
            stage,
            caps=caps_of(regime, customers=len(context), depths=len(truth.depths)),
            revenue_weight=REVENUE_WEIGHT,
        )
        for regime in REGIMES
    }
    beyond = Beyond.of(
        yardsticks[FILLED],
        spending=shop.retailer.spending_given_habits(shop.ids[shop.known], truth.depths),
        features=table_matrix(shop.features.filter(shop.known), tuple(feature.name for feature in FEATURES)),
        contexts=[audience.context for audience in audiences],
    )
    found = {regime: rungs_of_knowledge(yardstick, beyond) for regime, yardstick in yardsticks.items()}
    return {regime: {rung.value: rungs[rung] for rung in KNOWLEDGE} for regime, rungs in found.items()}


def run_study(
    *, seeds: Sequence[int], shapes: Sequence[Shape], customers: int, max_epochs: int = 40
) -> Iterator[ShopAnswers]:
    """Shop by shop."""
    for seed, shape in product(seeds, shapes):
        settings = RetailerSettings(customers=customers, seed=seed)
        settings = replace(settings, curves=replace(settings.curves, shape=shape))
        yield shop_answers(open_shop(settings), max_epochs=max_epochs)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run reproduce answers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=whole_numbers, default="1,2,3,4", help="of the simulated shops (%(default)s)")
    parser.add_argument(
        "--shapes", type=shapes, default="concave,s-shaped", help="of the response curves (%(default)s)"
    )
    parser.add_argument("--customers", type=whole_number(1), default=50_000, help="of each shop (%(default)s)")
    parser.add_argument(
        "--max-epochs", type=whole_number(1), default=40, help="passes over the orders at most (%(default)s)"
    )
    asked = parser.parse_args(arguments)
    for found in run_study(
        seeds=asked.seeds, shapes=asked.shapes, customers=asked.customers, max_epochs=asked.max_epochs
    ):
        sys.stdout.write(f"{found.line()}\n")
        sys.stdout.flush()
    return 0
