"""What every encoding promises."""

import numpy as np
import pytest

from disco.belief import BasketModel, DistanceToDepth, LinearDepth, OneHotDepth, RadialBasis, SmoothSpline
from disco.belief.model_file import to_bytes
from disco.testing import check_encoding

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


@every_encoding
def test_it_keeps_what_authors_of_encodings_are_asked_for(encoding):
    check_encoding(encoding, depths=LEVELS)


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
