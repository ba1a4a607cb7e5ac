"""A grid of runs: every (stage, recipe, start, policy) asked for, cut into units, done over processes, read back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from disco.studies.bandits.figures import Runs
from disco.studies.bandits.recipes import PLAYERS, Player, Recipe
from disco.studies.bandits.simulation import Rules
from disco.studies.bandits.stage import Stage
from disco.studies.bandits.unit import Shelf, Unit
from disco.studies.bandits.work import Progress, run_units

REPEATS_PER_UNIT = 10  # a few seconds of work: what an interruption can cost
COLD, WARM = 0, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
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


def cells(
    stages: Sequence[Stage],
    *,
    recipes: Sequence[Recipe],
    starts: Sequence[int | None],
    rules: Rules,
    repeats: int,
    players: Mapping[str, Player] = PLAYERS,
) -> list[Cell]:
    """The full grid; a cell is a value, so asking for the same one again gives the same."""
    return [
        Cell(stage=stage.key, recipe=recipe, start=start, player=player, rules=rules, repeats=repeats)
        for stage in stages
        for recipe in recipes
        for start in starts
        for player in players.values()
    ]


def run_cells(
    wanted: Sequence[Cell],
    *,
    stages: Sequence[Stage],
    shelf: Shelf,
    processes: int,
    progress: Progress = lambda done, total: None,
) -> dict[Cell, Runs]:
    """Do what is not on the shelf yet, and read everything back."""
    for stage in stages:
        stage.save(shelf.stages)
    units = [unit for cell in wanted for unit in cell.units()]
    run_units(units, shelf=shelf, processes=processes, progress=progress)
    return {
        cell: Runs(np.concatenate([shelf.read(unit) for unit in cell.units()]), cell.rules.revenue_weight)
        for cell in wanted
    }
