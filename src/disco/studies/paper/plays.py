"""Figure 1, middle: effective plays at each scaled depth u, after 1,000 plays each at u = 0.4, 0.6 and 0.8.

u = depth / 0.5.
"""

from dataclasses import replace

import numpy as np

from disco.belief import BasketModel
from disco.records.arrays import Vector
from disco.reports.charts import Axis, CurveChart, Line, Points
from disco.reports.formats import Count, Number
from disco.reports.table import Column, Table
from disco.studies.cache import Arrays
from disco.studies.environment import Environment
from disco.studies.paper.item import Check, Item, above, below
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.readings import MAIN_READING, READINGS, learned, some_customers
from disco.studies.sample import Sample

KEY = "plays"
PLAYED, PLAYS = (0.4, 0.6, 0.8), 1000
GRID = np.linspace(0.02, 1.0, 50)  # holds the played depths, the middles between them and the far end
_BETWEEN, _FAR = (0.5, 0.7), 0.1
_BETWEEN_CLAIM = "unplayed depths between them count as played"
_FAR_CLAIM = "a depth far away (0.1) counts far less, as a share of the played"
ALONE = f"{MAIN_READING}, ψ2 alone"  # without context or constant, so three played depths determine all three functions
LINES = (MAIN_READING, ALONE, *(reading for reading in READINGS if reading != MAIN_READING))


def measure(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Effective plays over the grid for one fixed customer, under each reading's encoding, prior and noise."""
    (context,) = some_customers(environment, most=1).context
    found = {reading: _effective_plays(learned(environment, reading), context) for reading in READINGS}
    alone = replace(learned(environment, MAIN_READING), constant_precision=None)
    return {**found, ALONE: _effective_plays(alone, context[:0])}


def _effective_plays(model: BasketModel, context: Vector) -> Vector:
    empty = replace(model, campaigns={}, noise_sd=model.posterior.noise_sd)
    rows = len(PLAYED) * PLAYS
    depths = np.repeat(PLAYED, PLAYS) * model.depth_scale
    # the prices do not matter: effective plays depend only on ψψᵀ
    played = empty.update(np.tile(context, (rows, 1)), depths, np.full(rows, 50.0))
    return played.effective_plays(np.tile(context, (GRID.size, 1)), GRID * model.depth_scale)


def run(lab: Lab) -> Item:
    measured = lab.measure(measure)
    checks = [check for reading in LINES for check in _checks(reading, measured)]
    between = {check.reading: check for check in checks if check.claim == _BETWEEN_CLAIM}
    far = {check.reading: check for check in checks if check.claim == _FAR_CLAIM}
    local = [reading for reading in LINES if between[reading].holds and far[reading].holds]
    return Item(
        key=KEY,
        title="Effective plays after 1,000 plays at 0.4, 0.6 and 0.8 (figure 1, middle)",
        paper="For a fixed context, depths near those played count as played too. (That this fades with distance is "
        "our reading.)",
        checks=tuple(checks),
        why="Plays of a depth are counted as 1/(ψᵀV⁻¹ψ) − 1/(ψᵀV0⁻¹ψ): how many plays of this very depth would leave "
        "the same uncertainty. For one customer the model has four unknowns, a level and three functions. Three played "
        "depths leave one of them undetermined; at a narrow width the depths between depend on it. With the three "
        "functions alone, as the paper's fixed context may be meant, nothing is undetermined and those depths count as "
        "played; but plays then grow again at both ends, where all functions vanish and the prior alone remains. "
        "How far a play reaches depends on the width: "
        + (f"it is local under {', '.join(local)}. " if local else "it is local under no reading. ")
        + "With wide functions a play anywhere informs every depth; the spline has a prior for its slope and bends, "
        "and loses information steadily with distance.",
        charts=(_chart(measured),),
        tables=(_table(measured),),
    )


def _at(plays: Vector, u: float) -> float:
    return float(plays[np.abs(GRID - u).argmin()])


def _checks(reading: str, measured: list[Arrays]) -> tuple[Check, ...]:
    plays = [each[reading] for each in measured]
    played = Sample.of([min(_at(each, u) for u in PLAYED) for each in plays])
    between = Sample.of([min(_at(each, u) for u in _BETWEEN) for each in plays])
    far = Sample.of([_at(each, _FAR) / min(_at(each, u) for u in PLAYED) for each in plays])
    return (
        above(
            "played depths count at least the plays they had",
            played,
            than=0.95 * PLAYS,
            paper="about 1,000",
            unit=Count(),
            reading=reading,
            clearly=False,
        ),
        above(
            _BETWEEN_CLAIM,
            between,
            than=0.5 * PLAYS,
            paper="shared",
            unit=Count(),
            reading=reading,
            clearly=False,
        ),
        below(
            _FAR_CLAIM,
            far,
            than=0.5,
            paper="fades",
            unit=Number(),
            reading=reading,
            clearly=False,
        ),
    )


def _chart(measured: list[Arrays]) -> CurveChart:
    mean = {reading: np.mean([each[reading] for each in measured], axis=0) for reading in LINES}
    shared = sum(min(_at(plays, u) for u in _BETWEEN) > 0.5 * PLAYS for plays in mean.values())
    ceiling = 3.5 * PLAYS
    capped = [reading for reading in LINES if mean[reading].max() > ceiling]
    note = f"; cut at {ceiling:,.0f}" if capped else ""
    return CurveChart(
        title=f"Depths between the played ones count as played under {shared} of {len(LINES)} encodings",
        subtitle=f"Effective plays after {PLAYS:,} plays at each dot, one context, mean of environments{note}",
        x=Axis("Scaled depth u", Number()),
        y=Axis("Effective plays", Count()),
        from_zero=True,
        lines=[
            Line(reading, GRID, np.minimum(mean[reading], ceiling), muted=reading != MAIN_READING and reading in capped)
            for reading in LINES
        ],
        points=[Points("played", PLAYED, [PLAYS] * len(PLAYED))],
        height_px=380,
    )


def _table(measured: list[Arrays]) -> Table:
    shown = (0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    return Table(
        caption="Effective plays by depth",
        columns=("Reading", *(Column(f"u = {u:g}", Count()) for u in shown)),
        rows=[
            (reading, *(Sample.of([_at(each[reading], u) for each in measured]).estimate().value for u in shown))
            for reading in LINES
        ],
        note="Mean over environments; 0.4, 0.6 and 0.8 were played 1,000 times each.",
    )
