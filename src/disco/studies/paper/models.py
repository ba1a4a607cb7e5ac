"""The network against a random forest, gradient boosting and least squares, on the month after training."""

from dataclasses import astuple

import numpy as np

from disco.evaluation.accuracy import accuracy
from disco.features import TrainingSet
from disco.features.baselines import LEAST_SQUARES, LIGHT_GBM, NETWORK, RANDOM_FOREST, fit_models
from disco.reports.charts import Axis, BarChart, Bars
from disco.reports.formats import Number
from disco.reports.table import Column, Table
from disco.studies.cache import Arrays
from disco.studies.customers import TARGETS
from disco.studies.environment import LEVEL, Environment
from disco.studies.paper.item import Check, Item, above, below, near
from disco.studies.paper.lab import Lab, ReproductionSettings
from disco.studies.sample import Sample

KEY = "models"
MODELS = (NETWORK, RANDOM_FOREST, LIGHT_GBM, LEAST_SQUARES)
MOST_ORDERS = 70_000  # to train on, as many as in the calibration
WAPE, SPEARMAN, MAE, MSE, R2 = range(5)
_UNIT = Number(decimals=3)


def measure(environment: Environment, settings: ReproductionSettings) -> Arrays:
    """WAPE, Spearman, MAE, MSE and R² of each model."""
    training, test = _first(environment.orders("training"), MOST_ORDERS), environment.orders("test")
    network = LEVEL.network(seed=environment.seed, max_epochs=settings.max_epochs)
    models = fit_models(training, seed=environment.seed, effort=settings.effort, network=network)
    return {
        name: np.array(astuple(accuracy(predict(test.X), test.log_full_price))[1:]) for name, predict in models.items()
    }


def _first(orders: TrainingSet, most: int) -> TrainingSet:
    """Some of the orders, drawn at random and still in time order."""
    if len(orders) <= most:
        return orders
    rows = np.sort(np.random.default_rng(0).permutation(len(orders))[:most])
    return TrainingSet(
        orders.ids[rows],
        orders.X.take(rows),
        orders.log_full_price[rows],
        orders.depth[rows],
        orders.depth_derived[rows],
    )


def run(lab: Lab) -> Item:
    measured = lab.measure(measure)
    checks = _checks(measured)
    return Item(
        key=KEY,
        title="Context models: network, random forest, LightGBM, least squares (section 4.2)",
        paper="WAPE and Spearman of ln full price: network 0.153/0.409, random forest 0.153/0.409, LightGBM "
        "0.154/0.410, least squares 0.160/0.346. The network is as good as the trees and better than the line.",
        checks=checks,
        why="The simulated retailer was calibrated to these figures, on other seeds, so agreement is no evidence. "
        + (
            "The order of the models also holds in shops that the calibration did not use, so the calibration does not "
            "depend on its seeds."
            if all(check.holds for check in checks[-2:])
            else "The gap between the network and least squares is not clear in every shop: it needs more orders to "
            "train on, or more shops, to be seen."
        ),
        charts=(_chart(measured),),
        tables=(
            Table(
                caption="Accuracy of ln full price on the month after training",
                columns=("Model", *(Column(name, _UNIT) for name in ("WAPE", "Spearman", "MAE", "MSE", "R²"))),
                rows=[(name, *(_cell(measured, name, figure).estimate() for figure in range(5))) for name in MODELS],
                note=f"Up to {MOST_ORDERS:,} orders to train; mean with 95% interval over environments.",
            ),
        ),
    )


def _cell(measured: list[Arrays], name: str, figure: int) -> Sample:
    return Sample.of([float(each[name][figure]) for each in measured])


def _gap(measured: list[Arrays], name: str, minus: str, figure: int) -> Sample:
    return Sample.of([float(each[name][figure] - each[minus][figure]) for each in measured])


def _checks(measured: list[Arrays]) -> tuple[Check, ...]:
    accuracies = [
        near(f"{what} of the {name}", _cell(measured, name, figure), paper=target, within=within, unit=_UNIT)
        for name in MODELS
        for what, figure, target, within in (
            ("WAPE", WAPE, TARGETS[name].wape, 0.01),
            ("Spearman", SPEARMAN, TARGETS[name].spearman, 0.04),
        )
    ]
    equal = [
        near(
            f"network and {name} have one WAPE",
            _gap(measured, NETWORK, name, WAPE),
            paper=0.0,
            within=0.002,
            unit=_UNIT,
        )
        for name in (RANDOM_FOREST, LIGHT_GBM)
    ]
    return (
        *accuracies,
        *equal,
        below(
            "the network's WAPE is below least squares'",
            _gap(measured, NETWORK, LEAST_SQUARES, WAPE),
            than=0.0,
            paper="−0.007",
            unit=_UNIT,
        ),
        above(
            "its Spearman is above least squares'",
            _gap(measured, NETWORK, LEAST_SQUARES, SPEARMAN),
            than=0.0,
            paper="+0.063",
            unit=_UNIT,
        ),
    )


def _chart(measured: list[Arrays]) -> BarChart:
    cells = [_cell(measured, name, SPEARMAN) for name in MODELS]
    low, high = zip(*(cell.interval for cell in cells), strict=True)
    best_line = cells[MODELS.index(LEAST_SQUARES)].mean
    ahead = all(cell.mean > best_line for cell in cells[:3])
    return BarChart(
        title="Network and trees rank baskets alike, and better than least squares"
        if ahead
        else "Not every model ranks baskets better than least squares",
        subtitle="Spearman correlation of predicted and true ln full price, month after training",
        categories=list(MODELS),
        y=Axis("Spearman", Number()),
        interval="95% interval over environments",
        bars=[
            Bars("simulated", [cell.mean for cell in cells], low, high),
            Bars("the paper", [TARGETS[name].spearman for name in MODELS], muted=True),
        ],
    )
