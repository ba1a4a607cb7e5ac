"""Four models of a basket's value, learned from one season and tested on the month after it."""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
from grocery import write_shop
from studies.baselines import LEAST_SQUARES, Effort, fit_models

import disco
from disco.evaluation.accuracy import Accuracy, accuracy
from disco.evaluation.estimates import ratio_estimate
from disco.features.catalogue import FEATURES
from disco.features.training_set import TrainingSet
from disco.records.estimate import Estimate

# Only orders are known here: no returns, no codes, no visits, and no day on which a household joined.
KNOWN = [f.name for f in FEATURES if f.group == "purchases" and f.name != "tenure_days"] + ["markdown_365d"]
OWN_MEAN = "household's own mean"

# Both sets look back eight months: with eleven for the test, every total would have grown by a third.
TRAINED, TESTED = (date(2017, 9, 1), date(2017, 12, 1)), (date(2017, 12, 1), date(2018, 1, 1))
HISTORY_BEGINS = {TRAINED: date(2017, 1, 1), TESTED: date(2017, 4, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """Accuracy on ln(full price); `wape` clustered by household, `against_line` its difference to least squares."""

    model: str
    accuracy: Accuracy
    wape: Estimate
    against_line: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Journey:
    """`context` (households, 6) of the tested households with the features they came from, `households`."""

    quick: bool  # fewer trees and epochs
    trained_orders: int
    tested_orders: int
    results: tuple[ModelResult, ...]
    households: pa.Table
    context: np.ndarray


def run_journey(orders: pa.Table, scratch: Path, *, quick: bool, seed: int = 1) -> Journey:
    training, test = (
        disco.training_set(
            write_shop(orders, scratch / name, since=HISTORY_BEGINS[window], until=window[1]),
            window_start=window[0],
            window_end=window[1],
            features=KNOWN,
        )
        for name, window in (("trained", TRAINED), ("tested", TESTED))
    )
    effort = Effort(boosting_rounds=30, forest_trees=10) if quick else Effort()
    network = disco.ContextNetwork(heads="level", seed=seed, max_epochs=4 if quick else 40)
    models = fit_models(training, seed=seed, effort=effort, network=network)
    predicted = {name: predict(test.X) for name, predict in models.items()}
    predicted[OWN_MEAN] = np.asarray(test.X["basket_log_mean_365d"].to_numpy())
    households = one_row_each(test)
    return Journey(
        quick=quick,
        trained_orders=len(training),
        tested_orders=len(test),
        results=tuple(compared(predicted, test)),
        households=households,
        context=network.transform(households),
    )


def compared(predicted: dict[str, np.ndarray], test: TrainingSet) -> list[ModelResult]:
    """A household's orders share its habits, so intervals count households, not orders."""
    observed, household = test.log_full_price, np.unique(test.ids, return_inverse=True)[1]
    error = {name: np.abs(values - observed) for name, values in predicted.items()}
    scale = np.abs(observed)
    return [
        ModelResult(
            model=name,
            accuracy=accuracy(values, observed),
            wape=ratio_estimate(error[name], scale, customers=household),
            against_line=None
            if name == LEAST_SQUARES
            else ratio_estimate(error[name] - error[LEAST_SQUARES], scale, customers=household),
        )
        for name, values in predicted.items()
    ]


def one_row_each(orders: TrainingSet) -> pa.Table:
    """The features of each household that ordered, once."""
    return orders.X.take(pa.array(np.unique(orders.ids, return_index=True)[1]))
