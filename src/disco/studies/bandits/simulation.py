"""One run: customers come in batches, `decide` chooses, they answer by the true law, `learn` takes in what they bought.

Codes expire before the next batch comes, so every batch's codes count for engagement at once. A play is many runs of
one policy, kept in pieces.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from disco import objective
from disco.belief import Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.passes import BatchLimits, UnconstrainedLearner
from disco.policy import EpsilonGreedy, Greedy, Policy, Random, Thompson, UpperConfidence
from disco.records.arrays import Floats, Integers, Matrix, Vector
from disco.records.decisions import Audience, Purchases
from disco.records.identity import name_key
from disco.studies.bandits.figures import RunColumn, Runs
from disco.studies.bandits.stage import Crowd, Law, Past, Stage
from disco.studies.cache import Piece, Progress, key_of, load_arrays, make_missing, save_arrays, source_version
from disco.studies.readings import DepthReading

Player = Policy | UnconstrainedLearner
COLD, WARM = 0, None  # where a play starts: codes of the past campaigns, None takes all
REPEATS_PER_PIECE = 10  # a few seconds of work

#: The source a run's figures follow from; reports, shells and other studies may change without touching them.
PLAY_ROOMS = (
    "belief",
    "policy",
    "allocation",
    "objective.py",
    "campaign.py",
    "records/decisions.py",
    "records/identity.py",
    "evaluation",
    "studies/readings.py",
    "studies/bandits/figures.py",
    "studies/bandits/simulation.py",
    "studies/bandits/stage.py",
)

RANDOM = "Random"
THOMPSON = "TS-IP"
UCB = "UCB-IP"
EPSILON_GREEDY = "ε-greedy-IP"
GREEDY = "Greedy-IP"
ULCC = "TS-ULCC"

#: The paper's policies, each with its defaults: nothing is tuned.
PLAYERS: Mapping[str, Player] = MappingProxyType(
    {
        RANDOM: Random(),
        THOMPSON: Thompson(),
        UCB: UpperConfidence(),
        EPSILON_GREEDY: EpsilonGreedy(),
        GREEDY: Greedy(),
        ULCC: UnconstrainedLearner(policy=Thompson()),
    }
)

RETUNED_AFTER = (1, 10)  # batches after which an automatic model that started cold chooses its width and prior


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


def starting_belief(stage: Stage, reading: DepthReading, *, codes: int | None) -> Belief:
    """Belief after the first `codes` of the past campaign: 0 is a cold start, None takes all."""
    belief = Belief(basket=reading.model(depth_scale=stage.depth_scale), engagement=Engagement())
    if codes == 0:
        return belief
    belief = _learned(belief, stage.past if codes is None else stage.past.first(codes), campaign="past")
    return replace(belief, basket=reading.settled(belief.basket))


def simulate(
    stage: Stage, player: Player, *, reading: DepthReading, start: Belief, rules: Rules, repeat: int
) -> Matrix:
    """(batches, columns) of one run. The crowds depend on (stage, repeat, batch) alone: runs are paired."""
    belief, law = start, stage.law
    cold = not start.basket.campaigns
    limits = rules.limits(law.depths)
    capped, free = limits.offer(rules.batch), limits.offer(rules.batch, capped=False)
    policy = player.policy if isinstance(player, UnconstrainedLearner) else player
    seed = name_key("bandit run", stage.seed, repeat)
    run = np.empty((rules.batches, len(RunColumn)))
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
        if reading.automatic and cold and number + 1 in RETUNED_AFTER:
            belief = replace(belief, basket=belief.basket.tuned())
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
    out = np.empty(len(RunColumn))
    out[RunColumn.CODES] = given.size
    out[RunColumn.PURCHASES] = paid.size
    out[RunColumn.REVENUE] = objective.revenue(paid, at).sum()
    out[RunColumn.MARKDOWN] = objective.markdown(paid, at).sum()
    out[RunColumn.EXPECTED_PURCHASES] = probability.sum()
    out[RunColumn.EXPECTED_REVENUE] = objective.revenue(expected, depth).sum()
    out[RunColumn.EXPECTED_MARKDOWN] = objective.markdown(expected, depth).sum()
    return out


# ---- plays: many runs of one policy, kept in pieces ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Repeats `first` to `first + repeats − 1` of one policy, set up one way, on one stage."""

    stage: str  # key
    reading: DepthReading
    start: int | None  # codes of the past campaigns: COLD, WARM (all), or a number
    player: Player
    rules: Rules
    repeats: int
    first: int = 0

    def pieces(self, folder: Path, *, step: str = "simulation") -> list[Piece]:
        """The files that hold its runs, a few repeats in each: what an interruption can cost."""
        return [
            Piece(
                path=folder / "plays" / f"{key_of(source_version(PLAY_ROOMS), part)}.npz",
                make=_make_play,
                arguments=(part, folder / "stages" / f"{self.stage}.npz"),
                rooms=PLAY_ROOMS,
                step=step,
            )
            for part in self.parts()
        ]

    def parts(self) -> list["Play"]:
        end = self.first + self.repeats
        starts = range(self.first, end, REPEATS_PER_PIECE)
        return [replace(self, first=first, repeats=min(REPEATS_PER_PIECE, end - first)) for first in starts]

    def run(self, stage: Stage) -> Floats:
        """(repeats, batches, columns)."""
        start = starting_belief(stage, self.reading, codes=self.start)
        return np.stack(
            [
                simulate(stage, self.player, reading=self.reading, start=start, rules=self.rules, repeat=repeat)
                for repeat in range(self.first, self.first + self.repeats)
            ]
        )


def run_plays(
    wanted: Sequence[Play],
    *,
    stages: Sequence[Stage],
    folder: Path,
    pool: Executor | None = None,
    progress: Progress = lambda step: None,
    step: str = "simulation",
) -> dict[Play, Runs]:
    """Run what is not in the folder yet, and read everything back."""
    for stage in stages:
        stage.save(folder / "stages")
    pieces = {play: play.pieces(folder, step=step) for play in wanted}
    make_missing([piece for parts in pieces.values() for piece in parts], pool=pool, progress=progress)
    return {
        play: Runs(np.concatenate([load_arrays(piece.path)["runs"] for piece in parts]), play.rules.revenue_weight)
        for play, parts in pieces.items()
    }


def _make_play(path: Path, play: Play, stage: Path) -> None:
    save_arrays(path, {"runs": play.run(_stage(stage))})


@lru_cache(maxsize=2)
def _stage(path: Path) -> Stage:
    return Stage.load(path)
