"""Who has a purchase history: at least one order in the year. Everybody else gets the population's context."""

from typing import Any

import numpy as np

from disco.features.catalogue import HISTORY_FEATURE
from disco.features.rows import array_matrix, as_table, table_matrix
from disco.records.arrays import Flags, Matrix


def history_column(feature_names: tuple[str, ...]) -> int:
    """Which feature tells; −1 when none does, and then everybody counts as known."""
    return feature_names.index(HISTORY_FEATURE) if HISTORY_FEATURE in feature_names else -1


def known_rows(rows: Matrix, feature_names: tuple[str, ...]) -> Flags:
    """Which rows have a purchase history."""
    column = history_column(feature_names)
    return np.ones(len(rows), np.bool_) if column < 0 else np.asarray(rows[:, column] > 0)


def has_history(X: Any) -> Flags:
    """Per row of a feature table: did the customer buy in the year before the as-of date?

    Where False, `ContextNetwork.transform` gives the population's context (zeros), and a decision marks the customer.

    >>> import pyarrow as pa
    >>> has_history(pa.table({"orders_365d": [2.0, 0.0, None]})).tolist()
    [True, False, False]
    """
    table = as_table(X)
    matrix = array_matrix(X, (HISTORY_FEATURE,)) if table is None else table_matrix(table, (HISTORY_FEATURE,))
    return known_rows(matrix, (HISTORY_FEATURE,))
