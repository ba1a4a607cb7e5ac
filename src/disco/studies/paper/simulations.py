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
from disco.studies.bandits.simulation import PLAYERS, RANDOM, Play, Rules, run_plays
from disco.studies.bandits.stage import Stage, stage_of
from disco.studies.environment import PLAYED_CAMPAIGN, REVENUE_WEIGHT, equal_caps
from disco.studies.paper.lab import Lab, RunSize
from disco.studies.readings import NARROW, DepthReading
from disco.studies.sample import Sample

PLAYED_DEPTHS = next(len(campaign.depths) for campaign in PAPER_CAMPAIGNS if campaign.name == PLAYED_CAMPAIGN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSize:
    """How much is played: `main_repeats` in the first environment at the main reading, `repeats` everywhere else."""

    batches: int
    batch: int
    repeats: int
    main_repeats: int


SIZES = {
    RunSize.TINY: SimulationSize(batches=4, batch=300, repeats=1, main_repeats=2),
    RunSize.QUICK: SimulationSize(batches=12, batch=5000, repeats=1, main_repeats=4),
    RunSize.FULL: SimulationSize(batches=100, batch=5000, repeats=10, main_repeats=100),
}


def size_of(lab: Lab) -> SimulationSize:
    return SIZES[lab.settings.size]


def main_rules(lab: Lab) -> Rules:
    """Every depth to a third of a batch, everybody one code, markdown weighed as in the other studies."""
    size = size_of(lab)
    caps = equal_caps(customers=size.batch, depths=PLAYED_DEPTHS)
    return Rules(batches=size.batches, batch=size.batch, caps=caps, revenue_weight=REVENUE_WEIGHT)


@dataclass(frozen=True, slots=True, eq=False)
class Games:
    """What was played under one set of rules from one start: runs by (stage, reading, policy)."""

    stages: tuple[Stage, ...]
    runs: Mapping[tuple[str, str, str], Runs]

    @property
    def main(self) -> Stage:
        return self.stages[0]

    def of(self, stage: Stage, policy: str, *, reading: DepthReading = NARROW) -> Runs:
        return self.runs[stage.name, reading.name, policy]

    def over_environments(
        self, figure: Callable[[Runs, Runs], Vector | float], policy: str, reading: DepthReading
    ) -> Sample:
        """The figure of a policy given Random's runs, averaged over repeats: one number per environment."""
        return Sample.of(
            [
                float(np.mean(figure(self.of(stage, policy, reading=reading), self.of(stage, RANDOM, reading=reading))))
                for stage in self.stages
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Games to play in every environment: from one start, under one set of rules."""

    start: int | None
    rules: Rules
    readings: tuple[DepthReading, ...] = (NARROW,)
    policies: tuple[str, ...] = tuple(PLAYERS)


def play(lab: Lab, *requests: Request, named: str) -> tuple[Games, ...]:
    """Play what is not kept yet; the first environment under the main rules and reading is played most."""
    stages = tuple(stage_of(environment) for environment in lab.environments())
    keys = {stage.name: stage.key for stage in stages}
    wanted = [_plays(lab, request, keys) for request in requests]
    found = run_plays(
        [each for plays in wanted for each in plays.values()],
        stages=stages,
        folder=lab.folder / "bandits",
        pool=lab.pool,
        progress=lab.progress,
        step=named,
    )
    return tuple(Games(stages, {key: found[each] for key, each in plays.items()}) for plays in wanted)


def _plays(lab: Lab, request: Request, keys: Mapping[str, str]) -> dict[tuple[str, str, str], Play]:
    """By (stage, reading, policy); `keys` of the stages by name, the first of them the main one."""
    size, main = size_of(lab), next(iter(keys))
    plays = {}
    for stage, reading, policy in product(keys, request.readings, request.policies):
        is_main = stage == main and reading is NARROW and request.rules == main_rules(lab)
        plays[stage, reading.name, policy] = Play(
            stage=keys[stage],
            reading=reading,
            start=request.start,
            player=PLAYERS[policy],
            rules=request.rules,
            repeats=size.main_repeats if is_main else size.repeats,
        )
    return plays
