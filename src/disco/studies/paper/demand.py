"""Figure 2, right: predicted demand curves of a thousand customers, and of three of them."""

import numpy as np

from disco.evaluation.accuracy import monotonicity
from disco.reports.charts import Axis, CurveChart, Line
from disco.reports.formats import Number, Percent, percent
from disco.reports.table import Column, Table
from disco.studies.cache import Arrays
from disco.studies.environment import Environment
from disco.studies.paper.item import Check, Item, above
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.readings import (
    DEPTH_SCALE,
    MAIN_READING,
    READINGS,
    SCALED_DEPTHS,
    curves,
    learned,
    some_customers,
    true_curves,
)
from disco.studies.sample import Sample

KEY = "demand"
PLAYED_FROM = 0.65  # scaled: the shallowest depth of campaigns A and B
TRUTH = "truth (simulated)"
_INDIVIDUALS = 3
_DEEP = SCALED_DEPTHS >= PLAYED_FROM - 1e-9


def measure(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Per reading: the average curve, its spread over customers, three customers' curves, and monotone shares."""
    customers = some_customers(environment)
    out = {TRUTH: true_curves(environment, customers).mean(axis=0)}
    for reading in READINGS:
        found = curves(learned(environment, reading), customers.context)[0]
        depths = SCALED_DEPTHS * DEPTH_SCALE
        everywhere = monotonicity(np.exp(found), depths)
        deep = monotonicity(np.exp(found[:, _DEEP]), depths[_DEEP])
        out[reading] = found.mean(axis=0)
        out[f"{reading}: error"] = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        out[f"{reading}: three"] = found[:_INDIVIDUALS]
        out[f"{reading}: shares"] = np.array([everywhere.steps, everywhere.curves, deep.steps])
    return out


def run(lab: Lab) -> Item:
    measured = lab.measure(measure)

    def share(reading: str, place: int) -> Sample:
        return Sample.of([float(each[f"{reading}: shares"][place]) for each in measured])

    best = max(READINGS, key=lambda reading: share(reading, 0).mean)
    return Item(
        key=KEY,
        title="Demand curves of a thousand customers and of three (figure 2, right)",
        paper="Predicted full-price baskets rise with depth, on average and for three customers, and over more than "
        "90% of the customer × depth space.",
        checks=tuple(check for reading in READINGS for check in _checks(reading, measured)),
        why=f"Over depths that were played, {MAIN_READING} keeps {_words(share(MAIN_READING, 2))} of the steps from "
        f"falling; over all depths {_words(share(MAIN_READING, 0))}. Below the played depths only the prior acts on a "
        f"narrow bump, and it pulls the curve to the constant. {best[0].upper()}{best[1:]} "
        f"keeps {_words(share(best, 0))}. The spline's prior expects baskets to grow with depth; with it, monotone "
        "curves are partly an assumption. A served curve can also be projected onto monotone ones (`monotone=True`), "
        "which none of these figures use.",
        charts=(_individuals(measured), _averages(measured)),
        tables=(
            Table(
                caption="Share of steps at which the predicted basket does not fall",
                columns=(
                    "Reading",
                    Column("All depths", Percent()),
                    Column("Played depths, u ≥ 0.65", Percent()),
                    Column("Whole curves that never fall", Percent()),
                ),
                rows=[
                    (reading, *(share(reading, place).estimate(share=True) for place in (0, 2, 1)))
                    for reading in READINGS
                ],
                note="1,000 customers per environment, steps of u by 0.05; mean with 95% interval over environments.",
            ),
        ),
    )


def _words(share: Sample) -> str:
    return percent(share.mean, decimals=0)


def _checks(reading: str, measured: list[Arrays]) -> tuple[Check, ...]:
    shares = Sample.of([float(each[f"{reading}: shares"][0]) for each in measured])
    average = Sample.of([float((np.diff(each[reading]) >= 0).mean()) for each in measured])
    unit = Percent()
    return (
        above(
            "baskets do not fall over the customer × depth space",
            shares,
            than=0.9,
            paper="more than 90%",
            unit=unit,
            reading=reading,
            clearly=False,
        ),
        above(
            "the average curve rises at every step",
            average,
            than=0.999,
            paper="monotone",
            unit=unit,
            reading=reading,
            clearly=False,
        ),
    )


def _individuals(measured: list[Arrays]) -> CurveChart:
    first = measured[0]
    mean, error = first[MAIN_READING], 1.96 * first[f"{MAIN_READING}: error"]
    rises = "rises" if (np.diff(mean[_DEEP]) >= 0).all() else "does not rise everywhere"
    return CurveChart(
        title=f"Among the depths that were played, the average curve {rises}; single customers differ",
        subtitle=f"Predicted typical full-price basket, {MAIN_READING}, first environment, £",
        x=Axis("Scaled depth u", Number()),
        y=Axis("Full-price basket, £", Number(decimals=0)),
        interval="95% interval of the mean",
        lines=[
            Line(
                "mean of 1,000",
                SCALED_DEPTHS,
                np.exp(mean),
                np.exp(mean - error),
                np.exp(mean + error),
                known=(PLAYED_FROM, 0.95),
            ),
            *(
                Line(f"customer {place}", SCALED_DEPTHS, np.exp(curve), known=(PLAYED_FROM, 0.95))
                for place, curve in enumerate(first[f"{MAIN_READING}: three"], start=1)
            ),
        ],
        height_px=380,
    )


def _averages(measured: list[Arrays]) -> CurveChart:
    mean = {name: np.exp(np.mean([each[name] for each in measured], axis=0)) for name in (*READINGS, TRUTH)}
    away = {name: float(np.abs(np.log(mean[name] / mean[TRUTH]))[~_DEEP].max()) for name in READINGS}
    closest = min(away, key=lambda name: away[name])
    return CurveChart(
        title=f"Below the played depths, {closest} stays closest to the truth",
        subtitle="Predicted typical full-price basket, mean of 1,000 customers and all environments, £",
        x=Axis("Scaled depth u", Number()),
        y=Axis("Full-price basket, £", Number(decimals=0)),
        lines=[
            Line(
                name,
                SCALED_DEPTHS,
                curve,
                known=None if name == TRUTH else (PLAYED_FROM, 0.95),
                muted=name == TRUTH,
            )
            for name, curve in mean.items()
        ],
        height_px=400,
    )
