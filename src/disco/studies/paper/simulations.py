"""The bandit simulations as the paper's items share them: who plays on which stage, under which rules, how often.

Every customer of a batch gets a code and every depth is used equally often, so no policy can win by a different mix of
depths.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from disco.records.arrays import Vector
from disco.retailer.settings import PAPER_CAMPAIGNS
from disco.studies.bandits.figures import Runs
from disco.studies.bandits.recipes import NARROW, PLAYERS, RANDOM, Recipe
from disco.studies.bandits.simulation import Rules
from disco.studies.bandits.stage import Stage
from disco.studies.bandits.study import Play, run_plays
from disco.studies.bandits.unit import Shelf
from disco.studies.customers.figures import Cell
from disco.studies.paper.lab import Lab
from disco.studies.paper.settings import REVENUE_WEIGHT, Extent, equal_caps
from disco.studies.paper.stages import PLAYED, stage_of

PLAYED_DEPTHS = next(len(campaign.depths) for campaign in PAPER_CAMPAIGNS if campaign.name == PLAYED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is played: `main_repeats` in the first environment at the main reading, `repeats` everywhere else."""

    batches: int
    batch: int
    repeats: int
    main_repeats: int


SCALES = {
    Extent.TINY: Scale(batches=4, batch=300, repeats=2, main_repeats=3),
    Extent.QUICK: Scale(batches=12, batch=5000, repeats=1, main_repeats=4),
    Extent.FULL: Scale(batches=100, batch=5000, repeats=10, main_repeats=100),
}


def scale_of(lab: Lab) -> Scale:
    return SCALES[lab.settings.extent]


def main_rules(lab: Lab) -> Rules:
    """Every depth to a third of a batch, everybody one code, markdown weighed as in the other studies."""
    scale = scale_of(lab)
    caps = equal_caps(customers=scale.batch, depths=PLAYED_DEPTHS)
    return Rules(batches=scale.batches, batch=scale.batch, caps=caps, revenue_weight=REVENUE_WEIGHT)


@dataclass(frozen=True, slots=True, eq=False)
class Games:
    """What was played under one set of rules from one start: runs by (stage, recipe, policy)."""

    stages: tuple[Stage, ...]
    runs: Mapping[tuple[str, str, str], Runs]

    @property
    def main(self) -> Stage:
        return self.stages[0]

    def of(self, stage: Stage, policy: str, *, recipe: Recipe = NARROW) -> Runs:
        return self.runs[stage.name, recipe.name, policy]

    def over_environments(self, figure: Callable[[Runs, Runs], Vector | float], policy: str, recipe: Recipe) -> Cell:
        """The figure of a policy given Random's runs, averaged over repeats: one number per environment."""
        return Cell.of(
            [
                float(np.mean(figure(self.of(stage, policy, recipe=recipe), self.of(stage, RANDOM, recipe=recipe))))
                for stage in self.stages
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Games to play in every environment: from one start, under one set of rules."""

    start: int | None
    rules: Rules
    recipes: tuple[Recipe, ...] = (NARROW,)
    policies: tuple[str, ...] = tuple(PLAYERS)


def play(lab: Lab, *requests: Request, named: str) -> tuple[Games, ...]:
    """Play what is not on the shelf yet; the first environment under the main rules and reading is played most."""
    stages = tuple(stage_of(environment) for environment in lab.environments())
    keys = {stage.name: stage.key for stage in stages}
    wanted = [_plays(lab, request, keys) for request in requests]
    found = run_plays(
        [each for plays in wanted for each in plays.values()],
        stages=stages,
        shelf=Shelf(lab.folder / "bandits"),
        processes=lab.settings.processes,
        progress=lambda done, total: lab.progress(f"{named}: {done:,} of {total:,} pieces of simulation"),
    )
    return tuple(Games(stages, {key: found[each] for key, each in plays.items()}) for plays in wanted)


def _plays(lab: Lab, request: Request, keys: Mapping[str, str]) -> dict[tuple[str, str, str], Play]:
    """By (stage, recipe, policy); `keys` of the stages by name, the first of them the main one."""
    scale, main = scale_of(lab), next(iter(keys))
    plays = {}
    for stage, recipe, policy in product(keys, request.recipes, request.policies):
        is_main = stage == main and recipe is NARROW and request.rules == main_rules(lab)
        plays[stage, recipe.name, policy] = Play(
            stage=keys[stage],
            recipe=recipe,
            start=request.start,
            player=PLAYERS[policy],
            rules=request.rules,
            repeats=scale.main_repeats if is_main else scale.repeats,
        )
    return plays
