"""What every encoding promises."""

import json

import numpy as np
import pytest

from disco.belief import BasketModel, DistanceToDepth, LinearDepth, OneHotDepth, RadialBasis, SmoothSpline
from disco.belief.model_file import to_bytes

LEVELS = (0.0, 0.1, 0.3, 0.55, 1.0)
EVERY = [
    RadialBasis(),
    RadialBasis((0.1, 0.9), gamma=(2.0, 30.0)),
    RadialBasis((0.5,), alpha=20),
    SmoothSpline(),
    LinearDepth(),
    DistanceToDepth(reference=0.4),
    OneHotDepth(LEVELS),
]
every_encoding = pytest.mark.parametrize("encoding", EVERY, ids=repr)
U = np.array(LEVELS)


@every_encoding
def test_features_are_finite_and_of_the_size_it_says(encoding):
    features = encoding.features(U)
    assert features.shape == (5, encoding.size)
    assert features.dtype == np.float64
    assert np.isfinite(features).all()
    assert encoding.features(U[:0]).shape == (0, encoding.size)


@every_encoding
def test_a_depths_features_depend_on_nothing_else(encoding):
    whole = encoding.features(U)
    alone = np.vstack([encoding.features(U[[place]]) for place in range(5)])
    np.testing.assert_array_equal(whole, alone)
    np.testing.assert_array_equal(encoding.features(U[::-1]), whole[::-1])


@every_encoding
def test_features_never_change_the_question(encoding):
    u = U.copy()
    encoding.features(u)[:] = 7.0
    np.testing.assert_array_equal(u, U)


@every_encoding
def test_it_is_a_value_with_a_name_and_json_settings(encoding):
    settings = json.loads(json.dumps(encoding.settings()))
    again = type(encoding)(**{k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()})
    assert again == encoding
    assert hash(again) == hash(encoding)
    assert encoding.kind


@every_encoding
def test_its_prior_fits_its_size(encoding):
    precision = encoding.prior().precision(6, encoding.size, constant=1e-6)
    assert precision.shape == (7 * (1 + encoding.size),)
    assert (precision > 0).all()


@every_encoding
def test_a_model_with_it_learns_predicts_tunes_and_survives_its_file(encoding):
    generator = np.random.default_rng(1)
    context, depth = generator.normal(size=(300, 2)).clip(-4, 4), generator.choice(LEVELS, 300)
    model = BasketModel(encoding=encoding).update(context, depth, np.exp(3.5 + 0.5 * generator.normal(size=300)))
    mean, sd = model.predict(context, depth)
    assert mean.mean() == pytest.approx(3.5, abs=0.2)
    assert (sd > 0).all()
    tuned = model.tuned()
    assert tuned.posterior.log_evidence >= model.posterior.log_evidence
    assert BasketModel.from_bytes(to_bytes(tuned)) == tuned
