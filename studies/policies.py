"""Policies side by side, from a warm and from a cold start: the same page for both.

Policies play against simulated customers, and once more by replay on a log with depths assigned at random.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from disco.evaluation.replay import replay
from disco.records.arrays import Vector
from disco.views.charts import Axis, CurveChart, IntervalChart, IntervalRow, Line
from disco.views.formats import Count, Percent, estimate_text
from disco.views.table import Column, Table
from studies.cache import Arrays
from studies.environment import REVENUE_WEIGHT, Environment, equal_caps
from studies.item import Check, Claim, Facts, Item, Prose, Sample
from studies.lab import Lab, Measure, ReproductionSettings
from studies.readings import NARROW, READINGS, DepthReading
from studies.simulation import (
    COLD,
    EPSILON_GREEDY,
    GREEDY,
    PLAYERS,
    RANDOM,
    SIZES,
    THOMPSON,
    UCB,
    ULCC,
    WARM,
    Games,
    Request,
    RunColumn,
    Runs,
    basket_uplift,
    first_half,
    last_half,
    main_rules,
    objective_uplift,
    play,
    realised_uplift,
    starting_belief,
    trend,
)
from studies.stage import random_log_of, stage_of

SHARE = Percent(decimals=2, signed=True)
COMPARED = tuple(name for name in PLAYERS if name not in (RANDOM, ULCC))
REPLAYED = tuple(name for name in PLAYERS if name != RANDOM)
_POINTS = 20  # of a line over batches: each is the mean of as many batches as it takes
Figure = Callable[[Runs, Runs], Vector]


def run_warm(lab: Lab) -> Item:
    """Trained on earlier campaigns, then a hundred batches of five thousand customers."""
    return _compared(
        lab,
        key="warm",
        start=WARM,
        word="Warm",
        paper="A figure of basket value relative to Random (there without caps) over 100 batches, without "
        "figures in the text: TS-IP rises throughout and ends highest; Greedy-IP and ε-greedy-IP start well and "
        "decline; UCB-IP declines.",
        greedy_declines=True,
        measure=replayed_warm,
    )


def run_cold(lab: Lab) -> Item:
    """Nothing is known of the customers when the first batch is decided."""
    return _compared(
        lab,
        key="cold",
        start=COLD,
        word="Cold",
        paper="A figure of basket value relative to Random (there without caps) over 100 batches, without "
        "figures in the text: TS-IP needs some batches, then passes the greedy policies, goes on rising and ends "
        "highest; UCB-IP declines.",
        greedy_declines=False,
        measure=replayed_cold,
    )


def warm_uplift(lab: Lab) -> Sample:
    """TS-IP's basket value over Random's from a warm start, a share, one figure per environment."""
    request = Request(start=WARM, rules=main_rules(lab), policies=(RANDOM, THOMPSON))
    (games,) = play(lab, request, named="warm start")
    return games.over_environments(basket_uplift, THOMPSON, NARROW)


def _compared(
    lab: Lab,
    *,
    key: str,
    start: int | None,
    word: str,
    paper: str,
    greedy_declines: bool,
    measure: Measure,
) -> Item:
    """`word` is "Warm" or "Cold"; `measure` does the same by replay."""
    rules = main_rules(lab)
    games, alone = play(
        lab,
        Request(start=start, rules=rules, readings=tuple(READINGS.values())),
        Request(start=start, rules=replace(rules, revenue_weight=None)),
        named=f"{key} start",
    )
    logs = _replayed_over(lab, measure)
    return Item(
        key=key,
        title=f"Policies from a {key} start",
        paper=paper,
        checks=tuple(
            check
            for reading in READINGS.values()
            for check in checks_of(games, reading=reading, greedy_declines=greedy_declines)
        ),
        prose=PROSE,
        facts=_facts(games, alone),
        charts=(series_chart(games, start=word), uplift_chart(games, start=word)),
        tables=(
            policies_table(
                games, caption=f"{word} start, {REVENUE_WEIGHT:g} pounds of revenue per pound of markdown",
                objective="objective",
            ),
            repeats_table(games, caption=f"{word} start in one environment"),
            policies_table(alone, caption=f"{word} start, revenue alone", objective="revenue"),
            readings_table(games, caption=f"{word} start by encoding of the depths"),
            replay_table(logs, caption=f"{word} start by replay"),
        ),
    )  # fmt: skip


PROSE: Prose = (
    f"The policies maximise the objective, {REVENUE_WEIGHT:g} times revenue less markdown, counted per customer; the "
    "basket value is revenue per purchaser. TS-IP's objective is {objective} relative to Random's, its basket value "
    "{basket}; where only revenue counts, its basket value is {revenue}. Everybody gets a code and every depth is used "
    "equally often, so a policy can gain only by who gets which depth, and the three depths lie close together.",
    ("clear", "TS-IP minus Greedy-IP in the last half: {greedy}."),
    (
        "unclear",
        "TS-IP minus Greedy-IP in the last half: {greedy}: no difference that environments agree on. We think this is "
        "because full caps make every policy play every depth in every batch: a greedy policy goes on learning about "
        "all of them, which leaves little for deliberate exploration to find.",
    ),
    "UCB-IP's last half minus its first: {bound}.",
)


def _facts(games: Games, alone: Games) -> Facts:
    greedy = difference(games, last_half, THOMPSON, GREEDY, NARROW)
    return {
        "objective": words(games.over_environments(objective_uplift, THOMPSON, NARROW)),
        "basket": words(games.over_environments(basket_uplift, THOMPSON, NARROW)),
        "revenue": words(alone.over_environments(basket_uplift, THOMPSON, NARROW)),
        "greedy": words(greedy),
        "clear": greedy.is_clear,
        "unclear": not greedy.is_clear,
        "bound": words(games.over_environments(trend, UCB, NARROW)),
    }


# ---- by replay: on a log from the same law, where only matching rows are seen ----------------------------------------


def replayed_warm(environment: Environment, settings: ReproductionSettings) -> Arrays:
    return _replayed(environment, settings, start=WARM)


def replayed_cold(environment: Environment, settings: ReproductionSettings) -> Arrays:
    return _replayed(environment, settings, start=COLD)


def _replayed(environment: Environment, settings: ReproductionSettings, *, start: int | None) -> Arrays:
    """Basket value relative to Random's, in the order of `REPLAYED`: one pass over as many rows as a run has."""
    size, stage = SIZES[settings.size], stage_of(environment)
    depths = stage.law.depths
    caps = equal_caps(customers=size.batch, depths=len(depths))
    found = replay(
        random_log_of(stage, rows=size.batches * size.batch),
        [PLAYERS[name] for name in REPLAYED],
        belief=starting_belief(stage, NARROW, codes=start),
        batch=size.batch,
        caps=dict(zip(depths, caps, strict=True)),
        revenue_weight=REVENUE_WEIGHT,
        passes=1,
        repeats=0,
        seed=environment.seed,
        learn_engagement=True,
    )
    by_name = {
        result.policy: result.relative_to_random.value - 1
        for result in found.policies.values()
        if result.relative_to_random is not None
    }
    return {"uplift": np.array([by_name[repr(PLAYERS[name])] for name in REPLAYED])}


def _replayed_over(lab: Lab, measure: Measure) -> dict[str, Sample]:
    """By policy, over environments."""
    found = np.stack([each["uplift"] for each in lab.measure(measure)])
    return {name: Sample.of(found[:, place].tolist()) for place, name in enumerate(REPLAYED)}


# ---- claims, charts and tables -------------------------------------------------------------------------------------


def difference(games: Games, figure: Figure, policy: str, other: str, reading: DepthReading) -> Sample:
    """A policy's figure minus another's, environment by environment."""
    over = games.over_environments
    return over(figure, policy, reading).minus(over(figure, other, reading))


def checks_of(games: Games, *, reading: DepthReading, greedy_declines: bool) -> list[Check]:
    """The paper's claims at one reading; `greedy_declines`: the paper says so of the warm start alone."""
    over = games.over_environments
    rises, falls = partial(Claim, unit=SHARE, above=0.0), partial(Claim, unit=SHARE, below=0.0)
    declining = (UCB, GREEDY, EPSILON_GREEDY) if greedy_declines else (UCB,)
    claims = {
        rises("TS-IP beats Random", "above Random"): over(basket_uplift, THOMPSON, reading),
        rises("TS-IP improves over the batches", "steadily upward"): over(trend, THOMPSON, reading),
        **{
            rises(f"TS-IP ends above {other}", f"TS-IP above {other}"): difference(
                games, last_half, THOMPSON, other, reading
            )
            for other in (GREEDY, EPSILON_GREEDY, UCB)
        },
        **{falls(f"{name} declines", "falls over time"): over(trend, name, reading) for name in declining},
    }
    return [claim.check(sample, reading=reading.name) for claim, sample in claims.items()]


def series_chart(games: Games, *, start: str) -> CurveChart:
    """Basket value over Random's along the batches, in the environment that was played most often."""
    random = games.of(games.main, RANDOM)
    by_batch = {
        name: (games.of(games.main, name).basket_value_by_batch / random.basket_value_by_batch - 1).mean(axis=0)
        for name in COMPARED
    }
    parts = np.array_split(np.arange(random.figures.shape[1]), min(_POINTS, random.figures.shape[1]))
    middles = [float(part.mean() + 1) for part in parts]
    ends = {name: float(series[parts[-1]].mean()) for name, series in by_batch.items()}
    best, worst = max(ends, key=lambda name: ends[name]), min(ends, key=lambda name: ends[name])
    return CurveChart(
        title=f"{start} start in one environment: {best} ends highest, {100 * (ends[best] - ends[worst]):.2f} points "
        f"above {worst}",
        subtitle=f"Basket value relative to Random with the same caps; {games.main.name}, γ = 20, mean of "
        f"{len(random.figures)} repeats",
        x=Axis("Batch", Count()),
        y=Axis("Basket value relative to Random", SHARE),
        lines=[
            *(Line(name, middles, [float(series[part].mean()) for part in parts]) for name, series in by_batch.items()),
            Line(RANDOM, [middles[0], middles[-1]], [0.0, 0.0], muted=True),
        ],
    )


def uplift_chart(games: Games, *, start: str) -> IntervalChart:
    cells = {name: games.over_environments(basket_uplift, name, NARROW) for name in COMPARED}
    clear = [name for name, cell in cells.items() if cell.is_clear and cell.mean > 0]
    finding = f"{', '.join(clear)} clearly beat Random" if clear else "no policy is clearly above Random"
    return IntervalChart(
        title=f"{start} start over environments: {finding}",
        subtitle=f"Basket value over all batches relative to Random, {len(games.stages)} environments, γ = 20",
        x=Axis("Basket value relative to Random", SHARE),
        rows=[IntervalRow(name, cell.estimate()) for name, cell in cells.items()],
        interval="95% interval over environments",
    )


def policies_table(games: Games, *, caption: str, objective: str) -> Table:
    columns: tuple[tuple[str, Figure], ...] = (
        ("basket value", basket_uplift),
        (objective, objective_uplift),
        ("first half", first_half),
        ("last half", last_half),
    )
    return Table(
        caption=caption,
        columns=["policy", *(Column(heading, SHARE) for heading, _ in columns)],
        rows=[
            [name, *(games.over_environments(figure, name, NARROW).estimate() for _, figure in columns)]
            for name in COMPARED
        ],
        note="Relative to Random with the same caps. Basket value: expected revenue per expected purchaser of what was "
        "decided, by the truth. Halves of the batches: basket value. Means with 95% intervals over "
        f"{len(games.stages)} environments; {_played(games)}.",
    )


def _played(games: Games) -> str:
    """How much: batches, and repeats where they are fewest."""
    repeats, batches, _ = min((runs.figures.shape for runs in games.runs.values()), key=lambda shape: shape[0])
    customers = games.of(games.main, RANDOM).figures[..., RunColumn.CODES].max()
    return f"{repeats:,} or more runs in each, of {batches:,} batches with {customers:,.0f} codes"


def repeats_table(games: Games, *, caption: str) -> Table:
    """The environment that was played most often, with intervals over its repeats."""
    columns: tuple[tuple[str, Figure], ...] = (
        ("basket value", basket_uplift),
        ("as realised", realised_uplift),
        ("objective", objective_uplift),
        ("last half − first", trend),
    )
    random = games.of(games.main, RANDOM)

    def over_repeats(name: str, figure: Figure) -> Sample:
        return Sample.of(figure(games.of(games.main, name), random).tolist())

    return Table(
        caption=caption,
        columns=["policy", *(Column(heading, SHARE) for heading, _ in columns)],
        rows=[[name, *(over_repeats(name, figure).estimate() for _, figure in columns)] for name in COMPARED],
        note=f"{games.main.name.capitalize()} alone, 95% intervals over {len(random.figures)} repeats; they say "
        "nothing about another retailer. As realised: revenue per purchaser as the simulated customers bought.",
    )


def readings_table(games: Games, *, caption: str) -> Table:
    return Table(
        caption=caption,
        columns=["reading", *(Column(name, SHARE) for name in COMPARED), Column("TS-IP − Greedy-IP, last half", SHARE)],
        rows=[
            [
                reading.name,
                *(games.over_environments(basket_uplift, name, reading).estimate() for name in COMPARED),
                difference(games, last_half, THOMPSON, GREEDY, reading).estimate(),
            ]
            for reading in READINGS.values()
        ],
        note="Basket value relative to Random over all batches; 95% intervals over environments.",
    )


def replay_table(cells: Mapping[str, Sample], *, caption: str) -> Table:
    return Table(
        caption=caption,
        columns=["policy", Column("basket value", SHARE)],
        rows=[[name, cell.estimate()] for name, cell in cells.items()],
        note="One pass over a log as long as a run, its depths assigned at random; a policy sees the rows where it "
        "agrees with the log, about one in three. Relative to Random on the same log; 95% intervals over environments.",
    )


def words(cell: Sample) -> str:
    """A share with its interval, for a sentence."""
    return estimate_text(cell.estimate(), unit=SHARE)
