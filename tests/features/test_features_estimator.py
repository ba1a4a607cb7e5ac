"""scikit-learn's own checks of estimators, on the context network; each check that it does not pass has its reason."""

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from disco.features import ContextNetwork, training
from disco.records.errors import StateError

_OWN_WORDS = "refused, in other words than scikit-learn's"
_SCHEMA = "refused as SchemaMismatchError, which is no ValueError"
_LN_PRICE = "y is the logarithm of an amount of money, so figures beyond 32 are refused"
EXPECTED = {
    "check_n_features_in_after_fitting": _SCHEMA,
    "check_transformer_general": _SCHEMA,
    "check_complex_data": _OWN_WORDS,
    "check_dtype_object": _OWN_WORDS,
    "check_estimators_empty_data_messages": _OWN_WORDS,
    "check_fit2d_1sample": _OWN_WORDS,
    "check_fit2d_predict1d": _OWN_WORDS,
    "check_requires_y_none": _OWN_WORDS,
    "check_supervised_y_2d": "a column of figures is refused, where scikit-learn warns",
    "check_regressor_data_not_an_array": _LN_PRICE,
    "check_regressors_train": "a network does not fit 200 rows in one pass",
}


def test_the_network_passes_the_checks_of_scikit_learn_or_says_why_not(monkeypatch):
    monkeypatch.setattr(training, "FEWEST_ROWS", 2)  # the checks bring ten to two hundred rows
    network = ContextNetwork(heads="level", hidden=(4,), dimensions=2, max_epochs=1)
    found = check_estimator(network, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED)
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert failed == {}
    assert {one["check_name"] for one in found if one["status"] == "xfail"} == set(EXPECTED)
    assert sum(one["status"] == "passed" for one in found) >= 40


def test_before_a_fit_it_is_not_fitted_in_both_vocabularies():
    for kind in (StateError, NotFittedError):
        with pytest.raises(kind, match=r"Call `fit` first"):
            ContextNetwork().predict([[1.0]])
    assert not hasattr(ContextNetwork(), "n_features_in_")
