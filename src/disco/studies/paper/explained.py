"""What is measured to explain the bandit results: one shop per environment and response shape.

The shops are the paper's in all but the shape of the response, which is this study's parameter; `CONCAVE` is the frozen
default. Each shop has customers, orders and campaigns of its own, and networks trained on its own orders.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from disco.policy import Greedy, Random, Thompson
from disco.records.arrays import Floats
from disco.retailer.settings import Shape
from disco.studies.bandits.figures import Runs, objective_uplift
from disco.studies.bandits.ladder import Rung, Yardstick, rungs_of_knowledge, rungs_of_learning
from disco.studies.bandits.recipes import NARROW, SPLINE, Player, Recipe
from disco.studies.bandits.simulation import Rules, simulate, starting_belief
from disco.studies.bandits.stage import Stage
from disco.studies.bandits.study import COLD, WARM
from disco.studies.customers.recipes import LEVEL, SLOPE
from disco.studies.customers.recipes import Recipe as ContextRecipe
from disco.studies.customers.shop import open_shop
from disco.studies.paper.cache import Arrays
from disco.studies.paper.environment import Environment
from disco.studies.paper.settings import REVENUE_WEIGHT, Extent, Settings, equal_caps
from disco.studies.paper.stages import PAST, PLAYED, stage_of_shop

SHAPES = (Shape.CONCAVE, Shape.S_SHAPED, Shape.THRESHOLD)
HEADS = {"level": LEVEL, "level+slope": SLOPE}
MODELS: tuple[Recipe, ...] = (NARROW, SPLINE)
POLICIES: tuple[Player, ...] = (Greedy(), Thompson())
PAST_SHARES = (0.03, 0.15, 1.0)  # of the codes of campaigns A and B
DIMENSIONS = (4, 6, 8)  # the paper: six, and much the same with two more or less
EXPLORATION = (0.0, 0.3, 1.0, 3.0)
FILLED, SLACK = "filled caps", "slack caps"
SITUATIONS = tuple(product(("warm", "cold"), (FILLED, SLACK)))
_CONTEXT, _LEARNED = list(Rung).index(Rung.CONTEXT), list(Rung).index(Rung.LEARNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much of it."""

    customers: int
    max_epochs: int
    batches: int
    batch: int
    repeats: int


AMOUNTS = {
    Extent.TINY: Amount(customers=1_200, max_epochs=2, batches=2, batch=200, repeats=1),
    Extent.QUICK: Amount(customers=4_000, max_epochs=5, batches=5, batch=2_000, repeats=1),
    Extent.FULL: Amount(customers=20_000, max_epochs=40, batches=100, batch=5_000, repeats=2),
}


def concave(environment: Environment, settings: Settings) -> Arrays:
    return _explained(environment, settings, Shape.CONCAVE)


def s_shaped(environment: Environment, settings: Settings) -> Arrays:
    return _explained(environment, settings, Shape.S_SHAPED)


def threshold(environment: Environment, settings: Settings) -> Arrays:
    return _explained(environment, settings, Shape.THRESHOLD)


def _explained(environment: Environment, settings: Settings, shape: Shape) -> Arrays:
    """Shares above random allocation, of the objective throughout.

    ladder (heads, models, rungs) · past (shares of the past,): LEARNED after that much of it · dimensions (sizes, 2):
    CONTEXT and LEARNED · exploration (warm and cold, scales of Thompson) · worth (situations, heads, models, policies).
    The middle three are those of the paper's head and γ = 20.
    """
    amount = AMOUNTS[settings.extent]
    retailer = replace(
        environment.retailer,
        customers=amount.customers,
        curves=replace(environment.retailer.curves, shape=shape),
    )
    shop = open_shop(retailer, dealt=(*PAST, PLAYED))

    def stage(context: ContextRecipe) -> Stage:
        network = context.fit(shop.training, seed=retailer.seed, max_epochs=amount.max_epochs)
        return stage_of_shop(shop, network)

    stages = [stage(head) for head in HEADS.values()]
    ladders = np.array([_ladder(each) for each in stages])
    sizes = {
        size: _ladder(stage(replace(LEVEL, dimensions=size)), models=(NARROW,))
        for size in DIMENSIONS
        if size != LEVEL.dimensions
    }
    sizes[LEVEL.dimensions] = ladders[0].tolist()
    return {
        "ladder": ladders,
        "past": np.array([_learned(stages[0], share=share) for share in PAST_SHARES]),
        "dimensions": np.array([[sizes[size][0][rung] for rung in (_CONTEXT, _LEARNED)] for size in DIMENSIONS]),
        "exploration": _exploration(stages[0], amount),
        "worth": np.array([_worth(stages, amount, start, caps) for start, caps in SITUATIONS]),
    }


def _yardstick(stage: Stage) -> Yardstick:
    caps = equal_caps(customers=len(stage.context), depths=len(stage.law.depths))
    return Yardstick.of(stage, caps=caps, revenue_weight=REVENUE_WEIGHT)


def _ladder(stage: Stage, *, models: tuple[Recipe, ...] = MODELS) -> list[list[float]]:
    """(models, rungs)."""
    yardstick = _yardstick(stage)
    known = rungs_of_knowledge(yardstick)
    rows = []
    for recipe in models:
        belief = starting_belief(stage, recipe, codes=WARM)
        found = {**known, **rungs_of_learning(yardstick, recipe, belief, Thompson())}
        rows.append([found[rung] for rung in Rung])
    return rows


def _learned(stage: Stage, *, share: float) -> float:
    belief = starting_belief(stage, NARROW, codes=int(share * stage.past.depth.size))
    return rungs_of_learning(_yardstick(stage), NARROW, belief, Thompson())[Rung.LEARNED]


def _rules(stage: Stage, amount: Amount, caps: str) -> Rules:
    depths = len(stage.law.depths)
    return Rules(
        batches=amount.batches,
        batch=amount.batch,
        caps=equal_caps(customers=amount.batch, depths=depths) if caps == FILLED else (None,) * depths,
        revenue_weight=REVENUE_WEIGHT,
    )


def _runs(stage: Stage, recipe: Recipe, player: Player, rules: Rules, *, start: str, repeats: int) -> Runs:
    belief = starting_belief(stage, recipe, codes=WARM if start == "warm" else COLD)
    runs = [simulate(stage, player, recipe=recipe, start=belief, rules=rules, repeat=each) for each in range(repeats)]
    return Runs(np.stack(runs), rules.revenue_weight)


def _exploration(stage: Stage, amount: Amount) -> Floats:
    rules = _rules(stage, amount, FILLED)
    found = np.empty((2, len(EXPLORATION)))
    for row, start in enumerate(("warm", "cold")):
        random = _runs(stage, NARROW, Random(), rules, start=start, repeats=amount.repeats)
        for column, scale in enumerate(EXPLORATION):
            player = Thompson(exploration=scale)
            runs = _runs(stage, NARROW, player, rules, start=start, repeats=amount.repeats)
            found[row, column] = objective_uplift(runs, random).mean()
    return found


def _worth(stages: list[Stage], amount: Amount, start: str, caps: str) -> Floats:
    """(heads, models, policies) of objective above Random in one situation, paired: the same customers throughout."""
    rules = _rules(stages[0], amount, caps)
    random = _runs(stages[0], NARROW, Random(), rules, start=start, repeats=amount.repeats)
    found = np.empty((len(stages), len(MODELS), len(POLICIES)))
    for place in np.ndindex(*found.shape):
        head, model, policy = place
        runs = _runs(stages[head], MODELS[model], POLICIES[policy], rules, start=start, repeats=amount.repeats)
        found[place] = objective_uplift(runs, random).mean()
    return found
