"""Policies side by side, warm or cold: the claims of the paper's figure, checked at every reading of the depths."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from disco.records.arrays import Vector
from disco.reports import Axis, Column, Count, CurveChart, Estimate, IntervalChart, IntervalRow, Line, Percent, Table
from disco.reports.formats import estimate_text
from disco.studies.bandits import figures
from disco.studies.bandits.figures import Runs, over_repeats
from disco.studies.bandits.recipes import (
    EPSILON_GREEDY,
    GREEDY,
    NARROW,
    PLAYERS,
    RANDOM,
    RECIPES,
    THOMPSON,
    UCB,
    ULCC,
    Recipe,
)
from disco.studies.bandits.simulation import Measure
from disco.studies.customers.figures import Cell
from disco.studies.paper.item import Check, above, below, estimate_of
from disco.studies.paper.simulations import Games

SHARE = Percent(decimals=2, signed=True)
COMPARED = tuple(name for name in PLAYERS if name not in (RANDOM, ULCC))
_POINTS = 20  # of a line over batches: each is the mean of as many batches as it takes
Figure = Callable[[Runs, Runs], Vector]


def difference(games: Games, figure: Figure, policy: str, other: str, recipe: Recipe) -> Cell:
    """A policy's figure minus another's, environment by environment."""
    pairs = zip(
        games.over_environments(figure, policy, recipe).values,
        games.over_environments(figure, other, recipe).values,
        strict=True,
    )
    return Cell.of([first - second for first, second in pairs])


def checks_of(games: Games, *, recipe: Recipe, greedy_declines: bool) -> list[Check]:
    """The paper's claims at one reading; `greedy_declines`: the paper says so of the warm start alone."""
    over = games.over_environments
    rises = partial(above, than=0.0, unit=SHARE, reading=recipe.name)
    falls = partial(below, than=0.0, unit=SHARE, reading=recipe.name)
    checks = [
        rises("TS-IP beats Random", over(figures.basket_uplift, THOMPSON, recipe), paper="above Random"),
        rises("TS-IP improves over the batches", over(figures.trend, THOMPSON, recipe), paper="steadily upward"),
        *(
            rises(
                f"TS-IP ends above {other}",
                difference(games, figures.last_half, THOMPSON, other, recipe),
                paper=f"TS-IP above {other}",
            )
            for other in (GREEDY, EPSILON_GREEDY, UCB)
        ),
    ]
    declining = (UCB, GREEDY, EPSILON_GREEDY) if greedy_declines else (UCB,)
    return checks + [
        falls(f"{name} declines", over(figures.trend, name, recipe), paper="falls over time") for name in declining
    ]


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
        subtitle=f"Basket value against Random with the same caps; {games.main.name}, γ = 20, mean of "
        f"{len(random.figures)} repeats",
        x=Axis("Batch", Count()),
        y=Axis("Basket value against Random", SHARE),
        lines=[
            *(Line(name, middles, [float(series[part].mean()) for part in parts]) for name, series in by_batch.items()),
            Line(RANDOM, [middles[0], middles[-1]], [0.0, 0.0], muted=True),
        ],
    )


def uplift_chart(games: Games, *, start: str) -> IntervalChart:
    cells = {name: games.over_environments(figures.basket_uplift, name, NARROW) for name in COMPARED}
    clear = [name for name, cell in cells.items() if cell.half_width is not None and cell.mean > cell.half_width]
    finding = f"{', '.join(clear)} clearly beat Random" if clear else "no policy is clearly above Random"
    return IntervalChart(
        title=f"{start} start over environments: {finding}",
        subtitle=f"Basket value over all batches against Random, {len(games.stages)} environments, γ = 20",
        x=Axis("Basket value against Random", SHARE),
        rows=[IntervalRow(name, estimate_of(cell)) for name, cell in cells.items()],
        interval="95 % interval over environments",
    )


def policies_table(games: Games, *, caption: str, objective: str) -> Table:
    columns: tuple[tuple[str, Figure], ...] = (
        ("basket value", figures.basket_uplift),
        (objective, figures.objective_uplift),
        ("first half", figures.first_half),
        ("last half", figures.last_half),
    )
    return Table(
        caption=caption,
        columns=["policy", *(Column(heading, SHARE) for heading, _ in columns)],
        rows=[
            [name, *(estimate_of(games.over_environments(figure, name, NARROW)) for _, figure in columns)]
            for name in COMPARED
        ],
        note="Against Random with the same caps. Basket value: expected revenue per expected purchaser of what was "
        "decided, by the truth. Halves of the batches: basket value. Means with 95 % intervals over "
        f"{len(games.stages)} environments; {_played(games)}.",
    )


def _played(games: Games) -> str:
    """How much: batches, and repeats where they are fewest."""
    repeats, batches, _ = min((runs.figures.shape for runs in games.runs.values()), key=lambda shape: shape[0])
    customers = games.of(games.main, RANDOM).figures[..., Measure.CODES].max()
    return f"{repeats:,} or more runs in each, of {batches:,} batches with {customers:,.0f} codes"


def repeats_table(games: Games, *, caption: str) -> Table:
    """The environment that was played most often, with intervals over its repeats."""
    columns: tuple[tuple[str, Figure], ...] = (
        ("basket value", figures.basket_uplift),
        ("as realised", figures.realised_uplift),
        ("objective", figures.objective_uplift),
        ("last half − first", figures.trend),
    )
    random = games.of(games.main, RANDOM)
    return Table(
        caption=caption,
        columns=["policy", *(Column(heading, SHARE) for heading, _ in columns)],
        rows=[
            [name, *(_estimate(figure(games.of(games.main, name), random)) for _, figure in columns)]
            for name in COMPARED
        ],
        note=f"{games.main.name.capitalize()} alone, 95 % intervals over {len(random.figures)} repeats; they say "
        "nothing about another retailer. As realised: revenue per purchaser as the simulated customers answered.",
    )


def readings_table(games: Games, *, caption: str) -> Table:
    return Table(
        caption=caption,
        columns=["reading", *(Column(name, SHARE) for name in COMPARED), Column("TS-IP − Greedy-IP, last half", SHARE)],
        rows=[
            [
                recipe.name,
                *(estimate_of(games.over_environments(figures.basket_uplift, name, recipe)) for name in COMPARED),
                estimate_of(difference(games, figures.last_half, THOMPSON, GREEDY, recipe)),
            ]
            for recipe in RECIPES
        ],
        note="Basket value against Random over all batches; 95 % intervals over environments.",
    )


def replay_table(cells: Mapping[str, Cell], *, caption: str) -> Table:
    return Table(
        caption=caption,
        columns=["policy", Column("basket value", SHARE)],
        rows=[[name, estimate_of(cell)] for name, cell in cells.items()],
        note="One pass over a log as long as a run, its depths dealt at random; a policy sees the rows where it agrees "
        "with the log, about one in three. Relative to Random on the same log; 95 % intervals over environments.",
    )


def _estimate(values: Vector) -> Estimate:
    found = over_repeats(values)
    return Estimate(found.value) if values.size < 2 else Estimate(found.value, found.lower, found.upper)


def words(cell: Cell) -> str:
    """A share with its interval, for a sentence."""
    return estimate_text(estimate_of(cell), unit=SHARE)
