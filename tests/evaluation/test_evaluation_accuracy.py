"""Accuracy figures by hand, against SciPy and scikit-learn, and at the edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import spearmanr
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from disco.evaluation import accuracy
from disco.records.errors import InputError

columns = arrays(np.float64, 12, elements=st.integers(-40, 40).map(lambda n: n / 8))


def test_by_hand():
    result = accuracy(np.array([1.0, 2.0, 2.0]), np.array([2.0, 4.0, 2.0]))
    assert (result.wape, result.mae, result.mse, result.rows) == (3 / 8, 1.0, 5 / 3, 3)
    assert result.r2 == pytest.approx(1 - (5 / 3) / (8 / 9))


@given(columns, columns)
@settings(max_examples=60)
def test_against_independent_references(predicted, observed):
    result = accuracy(predicted, observed)
    assert result.mae == pytest.approx(mean_absolute_error(observed, predicted))
    assert result.mse == pytest.approx(mean_squared_error(observed, predicted))
    if observed.std():
        assert result.r2 == pytest.approx(r2_score(observed, predicted))
        if predicted.std():
            assert result.spearman == pytest.approx(spearmanr(predicted, observed).statistic, abs=1e-12)


def test_a_constant_prediction_ranks_nothing():
    assert accuracy(np.ones(3), np.array([1.0, 2.0, 3.0])).spearman == 0


@pytest.mark.parametrize(
    ("predicted", "observed"), [([], []), ([1.0], [1.0, 2.0]), ([np.nan], [1.0]), ([1.0], [np.inf])]
)
def test_what_cannot_be_compared_is_refused(predicted, observed):
    with pytest.raises(InputError, match="accuracy"):
        accuracy(np.array(predicted), np.array(observed))
