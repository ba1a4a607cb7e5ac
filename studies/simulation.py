"""Policies at play: runs of decide and learn against the true law, what they earned, and the games the items share.

Customers come in batches, `decide` chooses, they answer by the true law, `learn` takes in what they bought. Codes
expire before the next batch comes, so every batch's codes count for engagement at once. A play is many runs of one
policy, kept in pieces. In the paper's games every customer of a batch gets a code and every depth is used equally
often, so no policy can win by a different mix of depths.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from types import MappingProxyType

import numpy as np
from scipy.stats import ttest_1samp

from disco import objective
from disco.belief import Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.passes import BatchLimits, UnconstrainedLearner
from disco.policy import EpsilonGreedy, Greedy, Policy, Random, Thompson, UpperConfidence
from disco.records.arrays import Floats, Integers, Matrix, Vector
from disco.records.decisions import Audience, Purchases
from disco.records.identity import name_key
from disco.retailer.settings import PAPER_CAMPAIGNS
from studies.cache import Piece, Progress, key_of, load_arrays, make_missing, save_arrays, source_version
from studies.environment import PLAYED_CAMPAIGN, REVENUE_WEIGHT, equal_caps
from studies.item import Sample
from studies.lab import Lab, RunSize
from studies.readings import NARROW, DepthReading
from studies.stage import Crowd, Law, Past, Stage, stage_of

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
    "studies/simulation.py",
    "studies/stage.py",
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
        THOMPSON: Thompson(exploration=1.0),
        UCB: UpperConfidence(),
        EPSILON_GREEDY: EpsilonGreedy(),
        GREEDY: Greedy(),
        ULCC: UnconstrainedLearner(policy=Thompson(exploration=1.0)),
    }
)

RETUNED_AFTER = (1, 10)  # batches after which an automatic model that started cold chooses its width and prior


# ---- what runs are measured by: what policies earned relative to Random, paired --------------------------------------


class RunColumn(IntEnum):
    """Columns of a run. `EXPECTED_…` is what the truth says of the same decisions, free of the luck of the answers."""

    CODES = 0
    PURCHASES = 1
    REVENUE = 2
    MARKDOWN = 3
    EXPECTED_PURCHASES = 4
    EXPECTED_REVENUE = 5
    EXPECTED_MARKDOWN = 6


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """All repeats of one policy: (repeats, batches, measures). `…_by_batch` are (repeats, batches)."""

    figures: Floats
    revenue_weight: float | None

    @property
    def basket_value(self) -> Vector:
        """(repeats,) expected revenue per expected purchaser over all batches, by the truth of what was decided."""
        totals = self.figures.sum(axis=1)
        return np.asarray(totals[:, RunColumn.EXPECTED_REVENUE] / totals[:, RunColumn.EXPECTED_PURCHASES])

    @property
    def realised_basket_value(self) -> Vector:
        """(repeats,) revenue per purchaser as the customers answered."""
        totals = self.figures.sum(axis=1)
        return np.asarray(totals[:, RunColumn.REVENUE] / totals[:, RunColumn.PURCHASES])

    @property
    def basket_value_by_batch(self) -> Floats:
        return np.asarray(
            self.figures[..., RunColumn.EXPECTED_REVENUE] / self.figures[..., RunColumn.EXPECTED_PURCHASES]
        )

    @property
    def objective_by_batch(self) -> Floats:
        """Expected w·R − C; revenue where it counts alone."""
        revenue, markdown = (
            self.figures[..., RunColumn.EXPECTED_REVENUE],
            self.figures[..., RunColumn.EXPECTED_MARKDOWN],
        )
        return np.asarray(revenue if self.revenue_weight is None else self.revenue_weight * revenue - markdown)

    @property
    def objective(self) -> Vector:
        return np.asarray(self.objective_by_batch.sum(axis=1))


def uplift(figures: Vector, baseline: Vector) -> Vector:
    """By which share figures are above the baseline, repeat by repeat: what is common to a repeat cancels.

    >>> uplift(np.array([101.0, 204.0]), np.array([100.0, 200.0])).round(3).tolist()
    [0.01, 0.02]
    """
    return np.asarray(figures / baseline - 1)


def basket_uplift(runs: Runs, random: Runs) -> Vector:
    """(repeats,) basket value over Random's."""
    return uplift(runs.basket_value, random.basket_value)


def realised_uplift(runs: Runs, random: Runs) -> Vector:
    return uplift(runs.realised_basket_value, random.realised_basket_value)


def objective_uplift(runs: Runs, random: Runs) -> Vector:
    return uplift(runs.objective, random.objective)


def halves(runs: Runs, random: Runs) -> tuple[Vector, Vector]:
    """(repeats,) basket value over Random's, mean of the first and of the last half of the batches."""
    by_batch = runs.basket_value_by_batch / random.basket_value_by_batch - 1
    middle = by_batch.shape[1] // 2
    return by_batch[:, :middle].mean(axis=1), by_batch[:, middle:].mean(axis=1)


def first_half(runs: Runs, random: Runs) -> Vector:
    return halves(runs, random)[0]


def last_half(runs: Runs, random: Runs) -> Vector:
    return halves(runs, random)[1]


def trend(runs: Runs, random: Runs) -> Vector:
    """(repeats,) by how much the last half is above the first."""
    first, last = halves(runs, random)
    return np.asarray(last - first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """By which share a policy is below another, over repeats."""

    overall: Sample
    first_half: Sample  # of the batches
    last_half: Sample
    p_overall: float | None  # t-test: is the overall gap 0? None without spread to judge by
    p_halves: float | None  # t-test: is the gap the same in both halves?


def gap(better: Floats, other: Floats) -> Gap:
    """Of basket values by batch, (repeats, batches) each, paired by repeat.

    >>> rng = np.random.default_rng(1)
    >>> noise = rng.normal(size=(50, 10))
    >>> found = gap(101 + noise, 100 + noise + 0.01 * rng.normal(size=(50, 10)))
    >>> round(found.overall.mean, 3), (found.p_overall or 0) < 0.001
    (0.01, True)
    """
    below = 1 - other / better
    middle = below.shape[1] // 2
    overall, first, last = below.mean(axis=1), below[:, :middle].mean(axis=1), below[:, middle:].mean(axis=1)
    return Gap(
        overall=Sample.of(overall.tolist()),
        first_half=Sample.of(first.tolist()),
        last_half=Sample.of(last.tolist()),
        p_overall=_p_value(overall),
        p_halves=_p_value(last - first),
    )


def _p_value(figures: Vector) -> float | None:
    """Two-sided, that the mean is 0."""
    if figures.size < 2 or not figures.std() > 0:
        return None
    return float(ttest_1samp(figures, 0.0).pvalue)


# ---- one run ---------------------------------------------------------------------------------------------------------


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


# ---- the games that items share: who plays on which stage, under which rules, how often ------------------------------

PLAYED_DEPTHS = next(len(campaign.depths) for campaign in PAPER_CAMPAIGNS if campaign.name == PLAYED_CAMPAIGN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSize:
    """How much is played: `main_repeats` in the first environment at the main reading, `repeats` everywhere else."""

    batches: int
    batch: int
    repeats: int
    main_repeats: int


SIZES = {
    RunSize.TINY: SimulationSize(batches=2, batch=300, repeats=1, main_repeats=2),
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
