"""Plays, cut into units, done over processes and read back."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from disco.studies.bandits.figures import Runs
from disco.studies.bandits.recipes import Player, Recipe
from disco.studies.bandits.simulation import Rules
from disco.studies.bandits.stage import Stage
from disco.studies.bandits.unit import Shelf, Unit
from disco.studies.bandits.work import Progress, run_units

REPEATS_PER_UNIT = 10  # a few seconds of work: what an interruption can cost
COLD, WARM = 0, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One policy, set up one way, on one stage."""

    stage: str  # key
    recipe: Recipe
    start: int | None  # codes of the past campaign: COLD, WARM (all), or a number
    player: Player
    rules: Rules
    repeats: int

    def units(self) -> list[Unit]:
        return [
            Unit(
                stage=self.stage,
                recipe=self.recipe,
                start=self.start,
                player=self.player,
                rules=self.rules,
                first=first,
                repeats=min(REPEATS_PER_UNIT, self.repeats - first),
            )
            for first in range(0, self.repeats, REPEATS_PER_UNIT)
        ]


def run_plays(
    wanted: Sequence[Play],
    *,
    stages: Sequence[Stage],
    shelf: Shelf,
    processes: int,
    progress: Progress = lambda done, total: None,
) -> dict[Play, Runs]:
    """Do what is not on the shelf yet, and read everything back."""
    for stage in stages:
        stage.save(shelf.stages)
    units = [unit for play in wanted for unit in play.units()]
    run_units(units, shelf=shelf, processes=processes, progress=progress)
    return {
        play: Runs(np.concatenate([shelf.read(unit) for unit in play.units()]), play.rules.revenue_weight)
        for play in wanted
    }
