"""One run: customers come in batches, `decide` chooses, they answer by the true law, `learn` takes in what they bought.

Codes are over before the next batch comes, so every batch's codes count for engagement at once.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial

import numpy as np

from disco import objective
from disco.belief import Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation import BatchLimits, UnconstrainedLearner
from disco.records.arrays import Integers, Matrix, Vector
from disco.records.decisions import Audience, Purchases
from disco.records.identity import name_key
from disco.studies.bandits.recipes import Player, Recipe
from disco.studies.bandits.stage import Crowd, Law, Past, Stage

RETUNED_AFTER = (1, 10)  # batches after which an automatic model that started cold chooses its width and prior


class Measure(IntEnum):
    """Columns of a run. `EXPECTED_…` is what the truth says of the same decisions, free of the luck of the answers."""

    CODES = 0
    PURCHASES = 1
    REVENUE = 2
    MARKDOWN = 3
    EXPECTED_PURCHASES = 4
    EXPECTED_REVENUE = 5
    EXPECTED_MARKDOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The game: batches, customers in each, codes per depth and batch (None = no limit), weight w (None = revenue
    alone, w → ∞)."""

    batches: int = 100
    batch: int = 5000
    caps: tuple[int | None, ...]
    revenue_weight: float | None

    def limits(self, depths: tuple[float, ...]) -> BatchLimits:
        return BatchLimits(depths=depths, caps=self.caps, batch=self.batch, revenue_weight=self.revenue_weight)


def starting_belief(stage: Stage, recipe: Recipe, *, codes: int | None) -> Belief:
    """Belief after the first `codes` of the past campaign: 0 is a cold start, None takes all."""
    belief = Belief(basket=recipe.model(depth_scale=stage.depth_scale), engagement=Engagement())
    if codes == 0:
        return belief
    belief = _learned(belief, stage.past if codes is None else stage.past.first(codes), campaign="past")
    return retuned(belief) if recipe.automatic else belief


def retuned(belief: Belief) -> Belief:
    return replace(belief, basket=belief.basket.tuned())


def simulate(stage: Stage, player: Player, *, recipe: Recipe, start: Belief, rules: Rules, repeat: int) -> Matrix:
    """(batches, measures) of one run. The crowds depend on (stage, repeat, batch) alone: runs are paired."""
    belief, law = start, stage.law
    cold = not start.basket.campaigns
    limits = rules.limits(law.depths)
    capped, free = limits.offer(rules.batch), limits.offer(rules.batch, capped=False)
    policy = player.policy if isinstance(player, UnconstrainedLearner) else player
    seed = name_key("bandit run", stage.seed, repeat)
    run = np.empty((rules.batches, len(Measure)))
    for number in range(rules.batches):
        crowd = Crowd.drawn(stage, size=rules.batch, repeat=repeat, batch=number)
        context = stage.context[crowd.rows]
        audience = Audience(
            ids=np.arange(number * rules.batch, (number + 1) * rules.batch),
            context=context,
            known=np.ones(rules.batch, np.bool_),
        )
        act = partial(decide, audience, belief=belief, policy=policy, campaign=f"batch {number}", seed=seed)
        choice = act(offer=capped).choice
        full_price = crowd.answers(law, choice)
        run[number] = _measured(law, crowd, choice, full_price)
        if isinstance(player, UnconstrainedLearner):  # what it earns was measured; what it learns is another matter
            choice = act(offer=free).choice
            full_price = crowd.answers(law, choice)
        given = choice >= 0
        seen = Past(
            context=context[given],
            depth=np.asarray(law.depths)[choice[given]],
            full_price=full_price[given],
        )
        belief = _learned(belief, seen, campaign="study")
        if recipe.automatic and cold and number + 1 in RETUNED_AFTER:
            belief = retuned(belief)
    return run


def _learned(belief: Belief, seen: Past, *, campaign: str) -> Belief:
    bought = ~np.isnan(seen.full_price)
    purchases = Purchases(context=seen.context[bought], depth=seen.depth[bought], full_price=seen.full_price[bought])
    return learn(belief, [Lesson.of(campaign, purchases, EngagementCounts.of(seen.depth, bought))])


def _measured(law: Law, crowd: Crowd, choice: Integers, full_price: Vector) -> Vector:
    given = np.flatnonzero(choice >= 0)
    rows, columns = crowd.rows[given], choice[given]
    depth = np.asarray(law.depths)[columns]
    bought = ~np.isnan(full_price[given])
    paid, at = full_price[given][bought], depth[bought]
    probability = law.purchase_probability[rows, columns]
    expected = probability * np.exp(law.log_full_price[rows, columns] + law.residual_sd**2 / 2)
    out = np.empty(len(Measure))
    out[Measure.CODES] = given.size
    out[Measure.PURCHASES] = paid.size
    out[Measure.REVENUE] = objective.revenue(paid, at).sum()
    out[Measure.MARKDOWN] = objective.markdown(paid, at).sum()
    out[Measure.EXPECTED_PURCHASES] = probability.sum()
    out[Measure.EXPECTED_REVENUE] = objective.revenue(expected, depth).sum()
    out[Measure.EXPECTED_MARKDOWN] = objective.markdown(expected, depth).sum()
    return out
