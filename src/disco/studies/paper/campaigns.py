"""Accuracy of the reward model campaign by campaign: A and B to learn from, C alike, D by e-mail at unseen depths."""

from dataclasses import astuple

import numpy as np

from disco.evaluation.accuracy import accuracy
from disco.reports.charts import Axis, IntervalChart, IntervalRow
from disco.reports.formats import Number, number
from disco.reports.table import Column, Table
from disco.studies.cache import Arrays
from disco.studies.environment import CAMPAIGNS, Environment
from disco.studies.paper.item import Check, Item, Row, below, near
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.readings import MAIN_READING, READINGS, learned
from disco.studies.sample import Sample

KEY = "campaigns"
PAPER = {"A": (0.140, 0.476), "B": (0.140, 0.447), "C": (0.139, 0.438), "D": (0.134, 0.461)}  # WAPE, Spearman
WITHIN = (0.01, 0.04)
WAPE, SPEARMAN = 0, 1
_UNIT = Number(decimals=3)


def measure(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """(campaigns, figures) for each reading: WAPE, Spearman, MAE, MSE, R², and the mean error of ln F."""
    out = {}
    for reading in READINGS:
        model = learned(environment, reading)
        rows = []
        for name in CAMPAIGNS:
            seen = environment.campaigns[name].purchases
            predicted, observed = model.predict(seen.context, seen.depth)[0], np.log(seen.full_price)
            rows.append([*astuple(accuracy(predicted, observed))[1:], float(np.mean(predicted - observed))])
        out[reading] = np.array(rows)
    return out


def run(lab: Lab) -> Item:
    measured = lab.measure(measure)
    bias = _cell(measured, MAIN_READING, "D", 5)
    good = [reading for reading in READINGS if _keeps_accuracy(measured, reading).holds]
    return Item(
        key=KEY,
        title="The reward model on campaigns A to D (section 4.2)",
        paper="Trained on A and B: WAPE and Spearman 0.140/0.476 and 0.140/0.447 there, 0.139/0.438 on the new "
        "campaign C, and 0.134/0.461 on D, which goes out by e-mail, is valid for a month and has only "
        "shallower, unseen depths.",
        checks=tuple(check for reading in READINGS for check in _checks(reading, measured)),
        why="On A, B and C all readings predict alike, because the depths were played. D uses depths below all of "
        f"them, where {MAIN_READING} is off by {number(bias.mean, signed=True)} in ln F on average. "
        + (
            f"D is as accurate as C (within 0.005 of WAPE) under: {', '.join(good)}. "
            if good
            else "No reading predicts D as accurately as C. "
        )
        + (
            ""
            if MAIN_READING in good
            else "That the paper's model extrapolated well may mean that its width was not as narrow as γ = 20, that "
            "it had learned from far more purchases, or that its customers respond to shallow codes as to deep ones."
        ),
        charts=(_chart(measured),),
        tables=tuple(_table(measured, title, figure) for title, figure in (("WAPE", WAPE), ("Spearman", SPEARMAN))),
    )


def _cell(measured: list[Arrays], reading: str, campaign: str, figure: int) -> Sample:
    return Sample.of([float(each[reading][CAMPAIGNS.index(campaign), figure]) for each in measured])


def _keeps_accuracy(measured: list[Arrays], reading: str) -> Check:
    c, d = CAMPAIGNS.index("C"), CAMPAIGNS.index("D")
    loss = Sample.of([float(each[reading][d, WAPE] - each[reading][c, WAPE]) for each in measured])
    return below(
        "D is predicted as well as C (WAPE of D less that of C)",
        loss,
        than=0.005,
        paper="−0.005",
        unit=_UNIT,
        reading=reading,
        clearly=False,
    )


def _checks(reading: str, measured: list[Arrays]) -> tuple[Check, ...]:
    return (
        *(
            near(
                f"{what} of {name}",
                _cell(measured, reading, name, figure),
                paper=PAPER[name][figure],
                within=WITHIN[figure],
                unit=_UNIT,
                reading=reading,
            )
            for name in CAMPAIGNS
            for what, figure in (("WAPE", WAPE), ("Spearman", SPEARMAN))
        ),
        _keeps_accuracy(measured, reading),
    )


def _chart(measured: list[Arrays]) -> IntervalChart:
    losses = {reading: _keeps_accuracy(measured, reading) for reading in READINGS}
    good = [reading for reading, check in losses.items() if check.holds]
    return IntervalChart(
        title=f"Campaign D is predicted as well as C under {len(good)} of {len(READINGS)} readings",
        subtitle="WAPE of D, at depths shallower than any that was learned from, less WAPE of C; the line: the paper's",
        x=Axis("WAPE of D less WAPE of C", Number(decimals=3, signed=True)),
        interval="95% interval over environments",
        reference=PAPER["D"][WAPE] - PAPER["C"][WAPE],
        rows=[IntervalRow(reading, check.ours.estimate()) for reading, check in losses.items()],
    )


def _table(measured: list[Arrays], title: str, figure: int) -> Table:
    rows: list[Row] = [("the paper", *(PAPER[name][figure] for name in CAMPAIGNS))]
    rows += [
        (reading, *(_cell(measured, reading, name, figure).estimate() for name in CAMPAIGNS)) for reading in READINGS
    ]
    return Table(
        caption=f"{title} by campaign",
        columns=("Reading", *(Column(f"Campaign {name}", _UNIT) for name in CAMPAIGNS)),
        rows=rows,
        note="Mean with 95% interval over environments; A and B were trained on.",
    )
