"""Figure 2, middle: raw depth, distance, radial basis functions of several sizes and widths, and one-hot compared."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco.belief import BasketModel, DistanceToDepth, Encoding, LinearDepth, OneHotDepth, RadialBasis
from disco.evaluation.accuracy import accuracy, monotonicity
from disco.records.arrays import Matrix, Vector
from disco.records.decisions import Purchases
from disco.reports.charts import Axis, CurveChart, IntervalChart, IntervalRow, Line
from disco.reports.formats import Number, Percent, percent
from disco.reports.table import Column, Table
from disco.studies.cache import Arrays
from disco.studies.environment import PAST_CAMPAIGNS, Environment
from disco.studies.paper.item import Check, Item, above, below, near
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.readings import (
    AUTOMATIC,
    CENTRES,
    DEPTH_SCALE,
    MAIN_READING,
    READINGS,
    SCALED_DEPTHS,
    WIDE,
    curves,
    some_customers,
    true_curves,
)
from disco.studies.sample import Sample

KEY = "encodings"
SEVEN = tuple(0.125 * place for place in range(1, 8))
PLAIN: Mapping[str, Encoding] = {
    "raw depth": LinearDepth(),
    "distance to 0.5": DistanceToDepth(0.5),
    **{
        f"{len(at)} centres, γ = {width}": RadialBasis(at, gamma=width)
        for at in (CENTRES, SEVEN)
        for width in (2, 20, 50)
    },
}
ONE_HOT, CHOSEN, TRUTH = "one-hot", "3 centres, γ = 20", "truth (simulated)"
WAPE, SPEARMAN, SEEN, ALL = range(4)  # the figures of a scheme: accuracy, monotone shares at played and at all depths
_TEST_SHARE = 1 / 3
SampleOf = Callable[[str, int], Sample]


def measure(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """Per scheme: accuracy on purchases kept out, monotone shares, and the curve averaged over customers."""
    training, test = _split(environment)
    customers = some_customers(environment)
    played = np.unique(training.depth) / DEPTH_SCALE
    out: dict[str, NDArray[Any]] = {f"{TRUTH}: curve": true_curves(environment, customers).mean(axis=0)}
    for name, model in _schemes(played).items():
        fitted = model.update(training.context, training.depth, training.full_price)
        if name == _reading_name(AUTOMATIC.name):
            fitted = AUTOMATIC.settled(fitted)
        found = accuracy(fitted.predict(test.context, test.depth)[0], np.log(test.full_price))
        seen = curves(fitted, customers.context, played)[0]
        everywhere = seen if name == ONE_HOT else curves(fitted, customers.context)[0]
        shares = _monotone(seen, played), _monotone(everywhere, played if name == ONE_HOT else SCALED_DEPTHS)
        out[f"{name}: figures"] = np.array([found.wape, found.spearman, *shares])
        out[f"{name}: curve"] = everywhere.mean(axis=0)
    return out


def _schemes(played: Vector) -> dict[str, BasketModel]:
    plain = {**PLAIN, ONE_HOT: OneHotDepth(tuple(played.tolist()))}
    models = {name: BasketModel(encoding=encoding, depth_scale=DEPTH_SCALE) for name, encoding in plain.items()}
    return models | {_reading_name(reading): READINGS[reading].model() for reading in READINGS}


def _reading_name(reading: str) -> str:
    return f"reading: {reading}"


def _monotone(log_prices: Matrix, u: Vector) -> float:
    return monotonicity(np.exp(log_prices), u * DEPTH_SCALE).steps


def _split(environment: Environment) -> tuple[Purchases, Purchases]:
    """Purchases of the two training campaigns, a third of them kept out."""
    seen = [environment.campaigns[name].purchases for name in PAST_CAMPAIGNS]
    context, depth, full_price = (
        np.concatenate([getattr(each, name) for each in seen]) for name in ("context", "depth", "full_price")
    )
    out = np.random.default_rng(environment.seed).random(depth.size) < _TEST_SHARE
    training, test = (
        Purchases(context=context[rows], depth=depth[rows], full_price=full_price[rows]) for rows in (~out, out)
    )
    return training, test


def run(lab: Lab) -> Item:
    measured = lab.measure(measure)

    def cell(name: str, figure: int) -> Sample:
        return Sample.of([float(each[f"{name}: figures"][figure]) for each in measured])

    best = max(PLAIN, key=lambda name: cell(name, ALL).mean)
    return Item(
        key=KEY,
        title="Encodings compared: accuracy and monotone share (figure 2, middle)",
        paper="Raw depth, Euclidean distance and six sets of radial basis functions: all have WAPE 0.140 and Spearman "
        "0.475, but only some keep baskets growing with depth, those with seven centres among them; three centres "
        "with α = 20 is chosen because it is smaller. (One-hot is avoided there; we add it.)",
        checks=_checks(measured, cell),
        why="Accuracy hardly depends on the encoding because a purchase's depth explains much less of its basket than "
        "the customer does. Encodings differ where nothing was played: there prior and shape determine the curve. "
        f"Of the plain schemes, {best} keeps the largest share of the steps from one depth to the next from falling "
        f"({percent(cell(best, ALL).mean, decimals=0)}); {CHOSEN} keeps "
        f"{percent(cell(CHOSEN, ALL).mean, decimals=0)} over all depths and "
        f"{percent(cell(CHOSEN, SEEN).mean, decimals=0)} among the depths it was trained on. Campaigns A and B played "
        "scaled depths of 0.65 and more, as the paper's did.",
        charts=(_share_chart(cell), _curve_chart(measured)),
        tables=(_table(cell),),
    )


def _checks(measured: list[Arrays], cell: SampleOf) -> tuple[Check, ...]:
    def spread(figure: int, names: tuple[str, ...]) -> Sample:
        """The largest minus the smallest figure of the schemes, environment by environment."""
        return Sample.of([float(np.ptp([each[f"{name}: figures"][figure] for name in names])) for each in measured])

    everyone, unit = (*PLAIN, ONE_HOT), Number(decimals=3)
    shares = [
        above(
            "the encoding is nearly monotone over all depths",
            cell(_reading_name(reading), ALL),
            than=0.9,
            paper="near-monotone",
            unit=Percent(),
            reading=reading,
            clearly=False,
        )
        for reading in READINGS
    ]
    return (
        near("WAPE of the chosen encoding", cell(CHOSEN, WAPE), paper=0.140, within=0.01, unit=unit),
        near("its Spearman correlation", cell(CHOSEN, SPEARMAN), paper=0.475, within=0.04, unit=unit),
        _same("all schemes have one WAPE (range)", spread(WAPE, everyone), within=0.0015),
        _same("and one Spearman correlation (range)", spread(SPEARMAN, everyone), within=0.0075),
        above(
            "schemes differ in how monotone they are (range of shares)",
            spread(ALL, tuple(PLAIN)),
            than=0.1,
            paper="uneven",
            unit=Percent(),
            clearly=False,
        ),
        *shares,
    )


def _same(claim: str, spread: Sample, *, within: float) -> Check:
    return below(claim, spread, than=within, paper="0.000", unit=Number(decimals=4), clearly=False)


def _rows() -> tuple[str, ...]:
    return (*PLAIN, *(_reading_name(reading) for reading in READINGS if reading not in (MAIN_READING, WIDE.name)))


def _share_chart(cell: SampleOf) -> IntervalChart:
    kept = [name for name in _rows() if cell(name, ALL).mean > 0.9]
    return IntervalChart(
        title=f"Baskets keep growing in nine steps of ten under {len(kept)} of {len(_rows())} encodings",
        subtitle="Steps of u by 0.05, over all depths and 1,000 customers, at which the predicted basket does not fall",
        x=Axis("Monotone share", Percent(decimals=0)),
        interval="95% interval over environments",
        reference=0.9,
        rows=[
            IntervalRow(name, cell(name, ALL).estimate(share=True), muted=name.startswith("reading"))
            for name in _rows()
        ],
    )


def _curve_chart(measured: list[Arrays]) -> CurveChart:
    shown = ("raw depth", "distance to 0.5", CHOSEN, "7 centres, γ = 20", _reading_name("spline"), TRUTH)
    mean = {name: np.mean([each[f"{name}: curve"] for each in measured], axis=0) for name in shown}
    apart = {
        u: np.ptp([np.exp(curve[np.argmin(np.abs(SCALED_DEPTHS - u))]) for curve in mean.values()]) for u in (0.1, 0.8)
    }
    return CurveChart(
        title=f"Typical baskets lie £{apart[0.8]:,.0f} apart at u = 0.8, near the played depths, "
        f"and £{apart[0.1]:,.0f} at u = 0.1",
        subtitle="Typical full-price basket, 1,000 customers, £, mean of environments; trained on u of 0.65 and more",
        x=Axis("Scaled depth u", Number()),
        y=Axis("Full-price basket, £", Number(decimals=0)),
        lines=[
            Line(name, SCALED_DEPTHS, np.exp(curve), known=None if name == TRUTH else (0.65, 0.95), muted=name == TRUTH)
            for name, curve in mean.items()
        ],
        height_px=400,
    )


def _table(cell: SampleOf) -> Table:
    return Table(
        caption="Accuracy and monotone share by encoding",
        columns=(
            "Encoding",
            Column("WAPE", Number(decimals=3)),
            Column("Spearman", Number(decimals=3)),
            Column("Monotone, played depths", Percent()),
            Column("Monotone, all depths", Percent()),
        ),
        rows=[
            (
                name,
                *(cell(name, figure).estimate(share=True) for figure in (WAPE, SPEARMAN, SEEN)),
                None if name == ONE_HOT else cell(name, ALL).estimate(share=True),
            )
            for name in (*PLAIN, ONE_HOT, *_rows()[len(PLAIN) :])
        ],
        note="Purchases of A and B, two thirds to train, a third to test. Monotone: share of the steps from one depth "
        "to the next, over 1,000 customers, at which the predicted basket does not fall; all depths: u from 0.05 to 1. "
        "One-hot predicts at played depths only. Mean over environments with 95% intervals.",
    )
