"""Least squares, LightGBM and a random forest on the same features and the same split as the network."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from disco.features.catalogue import FEATURES, GROUPS
from disco.features.network import ContextNetwork
from disco.features.rows import table_matrix
from disco.features.training_set import TrainingSet
from disco.records.arrays import Matrix, Vector

Metric = Callable[[Vector, Vector], float]  # (predicted, observed), both ln full price
Predict = Callable[[pa.Table], Vector]
LEAST_SQUARES, LIGHT_GBM, RANDOM_FOREST, NETWORK = "least squares", "LightGBM", "random forest", "network"


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard the trees try; the defaults suit some ten thousand to a few hundred thousand rows."""

    boosting_rounds: int = 200
    forest_trees: int = 100
    leaf_rows: int = 20
    threads: int = 2


def fit_models(
    training: TrainingSet, *, seed: int = 0, effort: Effort | None = None, network: ContextNetwork | None = None
) -> dict[str, Predict]:
    """The four models of the paper's comparison, fitted to ln full price; each predicts from a table of features."""
    effort = effort or Effort()
    names = tuple(training.X.column_names)
    rows, target = table_matrix(training.X, names), training.log_full_price
    context = (network or ContextNetwork(heads="level", seed=seed)).fit(training.X, target, training.depth)
    by_rows = {
        LEAST_SQUARES: _least_squares(rows, target),
        LIGHT_GBM: _boosting(rows, target, seed=seed, effort=effort),
        RANDOM_FOREST: _forest(rows, target, seed=seed, effort=effort),
    }

    def by_name(predict: Callable[[Matrix], Vector]) -> Predict:
        return lambda table: predict(table_matrix(table, names))

    return {name: by_name(predict) for name, predict in by_rows.items()} | {NETWORK: context.predict}


def comparison(models: Mapping[str, Predict], test: TrainingSet, *, metrics: Mapping[str, Metric]) -> pa.Table:
    """One row per model: `model`, then one column per metric on the orders of `test`."""
    predicted = {name: predict(test.X) for name, predict in models.items()}
    columns = {
        name: [metric(values, test.log_full_price) for values in predicted.values()] for name, metric in metrics.items()
    }
    return pa.table({"model": list(predicted), **columns})


def group_importance(predict: Predict, test: TrainingSet, *, metric: Metric, seed: int = 0) -> dict[str, float]:
    """How much a metric changes when a group's features are shuffled, together, between the orders.

    A group that says nothing about the basket has 0; for an error metric, important groups are positive.
    """
    known = metric(predict(test.X), test.log_full_price)
    order = np.random.default_rng(seed).permutation(len(test))
    changes = {}
    for group in GROUPS:
        members = {feature.name for feature in FEATURES if feature.group == group}
        shuffled = test.X
        for place, name in enumerate(test.X.column_names):
            if name in members:
                shuffled = shuffled.set_column(place, name, test.X[name].take(pa.array(order)))
        changes[group] = metric(predict(shuffled), test.log_full_price) - known
    return changes


def _least_squares(rows: Matrix, target: Vector) -> Callable[[Matrix], Vector]:
    """Ordinary least squares on the features as they are, unknown values at their median."""
    unknown = np.isnan(rows).all(axis=0)
    middle = np.where(unknown, 0.0, np.nanmedian(np.where(unknown, 0.0, rows), axis=0))
    filled = np.where(np.isnan(rows), middle, rows)
    mean, sd = filled.mean(axis=0), filled.std(axis=0)
    spread = np.where(sd > 0, 1 / np.where(sd > 0, sd, 1.0), 0.0)

    def design(raw: Matrix) -> Matrix:
        return np.column_stack([np.ones(len(raw)), (np.where(np.isnan(raw), middle, raw) - mean) * spread])

    weights = np.linalg.lstsq(design(rows), target, rcond=None)[0]
    return lambda raw: np.asarray(design(raw) @ weights)


def _boosting(rows: Matrix, target: Vector, *, seed: int, effort: Effort) -> Callable[[Matrix], Vector]:
    import lightgbm

    settings = {
        "objective": "regression",
        "learning_rate": 0.05,
        "num_leaves": 31,
        "min_data_in_leaf": effort.leaf_rows,
        "num_threads": effort.threads,
        "deterministic": True,
        "force_row_wise": True,
        "seed": seed,
        "verbose": -1,
    }
    booster = lightgbm.train(settings, lightgbm.Dataset(rows, target), num_boost_round=effort.boosting_rounds)
    return lambda raw: np.asarray(booster.predict(raw))


def _forest(rows: Matrix, target: Vector, *, seed: int, effort: Effort) -> Callable[[Matrix], Vector]:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        n_estimators=effort.forest_trees,
        min_samples_leaf=effort.leaf_rows,
        max_features=1 / 3,
        n_jobs=effort.threads,
        random_state=seed,
    ).fit(rows, target)
    return lambda raw: np.asarray(forest.predict(raw))
