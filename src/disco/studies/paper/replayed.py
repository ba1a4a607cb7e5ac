"""The policies once more, by replay: on a log dealt at random from the same law, where only matching rows are seen."""

from collections.abc import Callable

import numpy as np

from disco.evaluation import replay
from disco.studies.bandits.recipes import NARROW, PLAYERS, RANDOM
from disco.studies.bandits.simulation import starting_belief
from disco.studies.bandits.stage import dealt_at_random
from disco.studies.bandits.study import COLD, WARM
from disco.studies.customers.figures import Cell
from disco.studies.paper.cache import Arrays
from disco.studies.paper.environment import Environment
from disco.studies.paper.lab import Lab
from disco.studies.paper.settings import REVENUE_WEIGHT, Settings, equal_caps
from disco.studies.paper.simulations import SCALES
from disco.studies.paper.stages import stage_of

REPLAYED = tuple(name for name in PLAYERS if name != RANDOM)


def replayed_warm(environment: Environment, settings: Settings) -> Arrays:
    return _replayed(environment, settings, start=WARM)


def replayed_cold(environment: Environment, settings: Settings) -> Arrays:
    return _replayed(environment, settings, start=COLD)


def _replayed(environment: Environment, settings: Settings, *, start: int | None) -> Arrays:
    """Basket value relative to Random's, in the order of `REPLAYED`: one pass over as many rows as a run has."""
    scale, stage = SCALES[settings.extent], stage_of(environment)
    depths = stage.law.depths
    caps = equal_caps(customers=scale.batch, depths=len(depths))
    found = replay(
        dealt_at_random(stage, rows=scale.batches * scale.batch),
        [PLAYERS[name] for name in REPLAYED],
        belief=starting_belief(stage, NARROW, codes=start),
        batch=scale.batch,
        caps=dict(zip(depths, caps, strict=True)),
        revenue_weight=REVENUE_WEIGHT,
        repeats=0,
        seed=environment.seed,
        learn_engagement=True,
    )
    by_name = {result.policy: result.relative_to_random.value - 1 for result in found.policies.values()}
    return {"uplift": np.array([by_name[repr(PLAYERS[name])] for name in REPLAYED])}


def replayed(lab: Lab, measure: Callable[[Environment, Settings], Arrays]) -> dict[str, Cell]:
    """By policy, over environments."""
    found = np.stack([each["uplift"] for each in lab.measure(measure)])
    return {name: Cell.of(found[:, place].tolist()) for place, name in enumerate(REPLAYED)}
