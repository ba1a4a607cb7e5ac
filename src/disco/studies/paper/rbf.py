"""Figure 1, left: the depth from 0 to 1 as three radial basis functions at 0.25, 0.50 and 0.75."""

from dataclasses import replace

import numpy as np

from disco.belief import RadialBasis
from disco.records.arrays import Matrix
from disco.reports.charts import Axis, CurveChart, Line
from disco.reports.formats import Number, Percent
from disco.reports.table import Column, Table
from disco.studies.cache import Arrays
from disco.studies.environment import Environment
from disco.studies.paper.item import Check, Item, above, below
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.readings import AUTOMATIC, CENTRES, MAIN_READING, READINGS, SPLINE, learned
from disco.studies.sample import Sample

KEY = "rbf"
GRID = np.linspace(0.0, 1.0, 101)
_SIMILARITY = Number(decimals=2)


def measure(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """ψ2 on the grid for each reading; the automatic one after campaigns A and B have chosen its width."""
    found = {name: reading.encoding.features(GRID) for name, reading in READINGS.items()}
    chosen = learned(environment, AUTOMATIC.name).encoding
    width = chosen.gamma if isinstance(chosen, RadialBasis) else None
    return {**found, AUTOMATIC.name: chosen.features(GRID), "width": np.atleast_1d(np.asarray(width, np.float64))}


def run(lab: Lab) -> Item:
    measured = lab.measure(measure)
    checks = [check for reading in READINGS if reading != SPLINE.name for check in _checks(reading, measured)]
    features: Matrix = measured[0][MAIN_READING]
    return Item(
        key=KEY,
        title="Radial basis functions of the depth (figure 1, left)",
        paper="Three smooth bumps at 0.25, 0.50 and 0.75 turn every depth from 0 to 1 into three numbers, each its "
        "similarity to one of the three places.",
        checks=tuple(checks),
        why="With α = 20 in the formula as printed, the three functions vary by less than two per cent over the "
        "whole range: they are nearly three constants, which cannot produce what the paper shows. Read as "
        "γ = 20, exp(−20(a − μ)²), they are the bumps that the paper describes, so γ = 20 is our main reading. γ = 2 "
        "is wide: the middle function never falls below a half. The automatic choice takes the width with the highest "
        "marginal likelihood on campaigns A and B, which may differ between shops. The spline is not a set of bumps "
        "and is shown for comparison.",
        charts=(
            _chart(features, f"Read as {MAIN_READING}, three bumps distinguish all depths"),
            _spline_chart(measured[0][SPLINE.name]),
        ),
        tables=(_widths(lab, measured),),
    )


def _checks(reading: str, measured: list[Arrays]) -> tuple[Check, ...]:
    bumps = [each[reading] for each in measured]
    falls = Sample.of([float(each.min(axis=0).max()) for each in bumps])
    covered = Sample.of([float(each.max(axis=1).min()) for each in bumps])
    apart = Sample.of([float(np.linalg.norm(np.diff(each[::5], axis=0), axis=1).min()) for each in bumps])
    claims = (
        (
            below,
            "similarity falls away from each place",
            falls,
            0.5,
            "bumps",
            "every function falls below {} somewhere",
        ),
        (
            above,
            "no depth is far from all places",
            covered,
            0.1,
            "whole range",
            "at every depth some function exceeds {}",
        ),
        (
            above,
            "depths 0.05 apart have different codes",
            apart,
            0.02,
            "distinct",
            "their codes differ by more than {}",
        ),
    )
    return tuple(
        replace(
            compare(claim, ours, than=than, paper=paper, unit=_SIMILARITY, reading=reading, clearly=False),
            rule=rule.format(than),
        )
        for compare, claim, ours, than, paper, rule in claims
    )


def _chart(features: Matrix, title: str) -> CurveChart:
    return CurveChart(
        title=title,
        subtitle="Value of each function over the scaled depth u, centres 0.25, 0.50 and 0.75",
        x=Axis("Scaled depth u", Number()),
        y=Axis("Similarity", Number()),
        from_zero=True,
        lines=[Line(f"at {centre:.2f}", GRID, features[:, place]) for place, centre in enumerate(CENTRES)],
    )


def _spline_chart(features: Matrix) -> CurveChart:
    names = ("slope", "first bend", "second bend")
    return CurveChart(
        title="The spline has a straight line and two bends instead",
        subtitle="Value of each function over the scaled depth u",
        x=Axis("Scaled depth u", Number()),
        y=Axis("Value", Number()),
        lines=[Line(name, GRID, features[:, place]) for place, name in enumerate(names)],
    )


def _widths(lab: Lab, measured: list[Arrays]) -> Table:
    return Table(
        caption="Width chosen from campaigns A and B",
        columns=("Environment", Column("γ, automatic", Number(decimals=1)), Column("Range of a function", Percent())),
        rows=[
            (str(seed), float(each["width"][0]), float(np.ptp(each[AUTOMATIC.name], axis=0).min()))
            for seed, each in zip(lab.settings.seeds, measured, strict=True)
        ],
        note="Range: from the smallest to the largest value over u in [0, 1], of the function that varies least.",
    )
