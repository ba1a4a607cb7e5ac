"""Figure 1, right: the model's uncertainty over depth, trained on more and more purchases at depths above 0.6 alone."""

import numpy as np

from disco.records.arrays import Matrix
from disco.records.decisions import Purchases
from disco.reports.charts import Axis, CurveChart, Line
from disco.reports.formats import Count, Number, percent
from disco.reports.table import Column, Table
from disco.studies.cache import Arrays
from disco.studies.environment import PAST_CAMPAIGNS, Environment
from disco.studies.paper.item import Check, Item, above, below
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.readings import (
    DEPTH_SCALE,
    MAIN_READING,
    READINGS,
    SCALED_DEPTHS,
    SPLINE,
    curves,
    some_customers,
)
from disco.studies.sample import Sample

KEY = "uncertainty"
SEEN_FROM = 0.6  # scaled: every purchase to learn from was deeper
VOLUMES = (200, 500, 2_000, 10_000, 50_000)
_UNSEEN = SCALED_DEPTHS < SEEN_FROM - 1e-9
_SEEN = SCALED_DEPTHS > SEEN_FROM + 1e-9


def measure(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """(volumes, depths) mean sd of E[ln F] over a thousand customers, for each reading."""
    seen = _deep_purchases(environment)
    order = np.random.default_rng(environment.seed).permutation(len(seen))
    context = some_customers(environment).context
    return {
        "volumes": np.array(_volumes(len(seen))),
        **{reading: _sds(reading, seen, order, context) for reading in READINGS},
    }


def _volumes(most: int) -> list[int]:
    return [volume for volume in VOLUMES if volume <= most]


def _deep_purchases(environment: Environment) -> Purchases:
    parts = [environment.campaigns[name].purchases for name in PAST_CAMPAIGNS]
    context, depth, full_price = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("context", "depth", "full_price")
    )
    deep = depth > SEEN_FROM * DEPTH_SCALE
    return Purchases(context=context[deep], depth=depth[deep], full_price=full_price[deep])


def _sds(reading: str, seen: Purchases, order: np.ndarray, context: Matrix) -> Matrix:
    rows = []
    for volume in _volumes(len(seen)):
        first = order[:volume]
        model = READINGS[reading].model().update(seen.context[first], seen.depth[first], seen.full_price[first])
        rows.append(curves(READINGS[reading].settled(model), context)[1].mean(axis=0))
    return np.array(rows)


def run(lab: Lab) -> Item:
    found = lab.measure(measure)
    common = min(each["volumes"].size for each in found)  # a shop with fewer purchases has fewer volumes
    measured: list[Arrays] = [{name: rows[:common] for name, rows in each.items()} for each in found]
    checks = tuple(check for reading in READINGS for check in _checks(reading, measured))
    edge = Sample.of([float(each[MAIN_READING][-1, 0] / each[MAIN_READING][-1, _UNSEEN].max()) for each in measured])
    falls_back = edge.mean < 0.95
    return Item(
        key=KEY,
        title="Uncertainty over depth and data volume (figure 1, right)",
        paper="Trained on depths above 0.6 alone, the model stays less certain below 0.6 at every volume, and still "
        "becomes more certain there as data grow.",
        checks=checks,
        why="Ours is the sd of ln full price; the paper's is that of sampled baskets. "
        "Depths below 0.6 are informed only through functions that also cover the played depths, so their "
        "uncertainty shrinks more slowly. "
        + (
            f"Under {MAIN_READING} the uncertainty falls again towards depth 0 (to {percent(edge.mean, decimals=0)} of "
            "its peak). There all three bumps vanish and only the constant remains, whose uncertainty is small. With "
            "narrow bumps uncertainty alone is therefore a poor sign of extrapolation; the spline's uncertainty keeps "
            "growing with distance, and its effective plays keep falling."
            if falls_back
            else f"Under {MAIN_READING} the uncertainty does not fall towards depth 0."
        ),
        charts=(_volume_chart(measured), _reading_chart(measured)),
        tables=(_table(measured),),
    )


def _checks(reading: str, measured: list[Arrays]) -> tuple[Check, ...]:
    sds = [each[reading] for each in measured]
    ratio = Sample.of([float((each[:, _UNSEEN].mean(axis=1) / each[:, _SEEN].mean(axis=1)).min()) for each in sds])
    shrinks = Sample.of([float(each[-1, _UNSEEN].mean() / each[0, _UNSEEN].mean()) for each in sds])
    known = Sample.of([float(each[-1, _SEEN].mean() / each[0, _SEEN].mean()) for each in sds])
    unit = Number()
    return (
        above(
            "sd below 0.6 exceeds that above 0.6 at every volume (smallest ratio)",
            ratio,
            than=1.0,
            paper="more uncertain",
            unit=unit,
            reading=reading,
        ),
        below(
            "sd below 0.6 shrinks from the smallest to the largest volume (ratio)",
            shrinks,
            than=1.0,
            paper="shrinks",
            unit=unit,
            reading=reading,
        ),
        below("sd above 0.6 shrinks too (ratio)", known, than=1.0, paper="shrinks", unit=unit, reading=reading),
    )


def _volume_chart(measured: list[Arrays]) -> CurveChart:
    volumes = measured[0]["volumes"].tolist()
    mean = np.mean([each[MAIN_READING] for each in measured], axis=0)
    shrinks = [float(mean[-1, part].mean() / mean[0, part].mean()) for part in (_UNSEEN, _SEEN)]
    return CurveChart(
        title="More data reduce uncertainty, least where no depth was played"
        if shrinks[0] > shrinks[1]
        else "More data reduce uncertainty, where depths were played and where not",
        subtitle=f"Sd of the predicted ln(full price), mean of 1,000 customers, {MAIN_READING}; trained on u above 0.6",
        x=Axis("Scaled depth u", Number()),
        y=Axis("Standard deviation", Number()),
        from_zero=True,
        lines=[
            Line(f"{volume:,} purchases", SCALED_DEPTHS, row, known=(SEEN_FROM, 1.0))
            for volume, row in zip(volumes, mean, strict=True)
        ],
        height_px=380,
    )


def _reading_chart(measured: list[Arrays]) -> CurveChart:
    last = {reading: np.mean([each[reading][-1] for each in measured], axis=0) for reading in READINGS}
    steady = bool((np.diff(last[SPLINE.name][_UNSEEN]) < 0).all())
    return CurveChart(
        title="The spline's uncertainty grows steadily with distance from the played depths"
        if steady
        else "Uncertainty at unseen depths depends on the encoding",
        subtitle="Sd of the predicted ln(full price) at the largest volume, mean of 1,000 customers",
        x=Axis("Scaled depth u", Number()),
        y=Axis("Standard deviation", Number()),
        from_zero=True,
        lines=[Line(reading, SCALED_DEPTHS, sd, known=(SEEN_FROM, 1.0)) for reading, sd in last.items()],
        height_px=380,
    )


def _table(measured: list[Arrays]) -> Table:
    def cell(reading: str, volume: int, part: np.ndarray) -> Sample:
        return Sample.of([float(each[reading][volume, part].mean()) for each in measured])

    volumes = measured[0]["volumes"].tolist()
    return Table(
        caption="Mean sd of ln(full price) below and above 0.6",
        columns=(
            "Reading",
            Column("Purchases", Count()),
            Column("Below 0.6", Number(decimals=3)),
            Column("Above 0.6", Number(decimals=3)),
        ),
        rows=[
            (
                reading,
                volumes[place],
                cell(reading, place, _UNSEEN).estimate(),
                cell(reading, place, _SEEN).estimate(),
            )
            for reading in READINGS
            for place in (0, len(volumes) - 1)
        ],
        note="Mean over environments with 95% intervals.",
    )
