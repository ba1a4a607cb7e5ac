"""The catalogue is the only source of names, formulas and documentation."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from disco.features import FEATURES, Feature, schema_hash
from disco.features.catalogue import GROUPS, MEASURES
from disco.records.errors import InputError

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_there_are_exactly_76_features_in_four_groups():
    assert len(FEATURES) == len({feature.name for feature in FEATURES}) == 76
    assert set(Counter(feature.group for feature in FEATURES)) == set(GROUPS)
    assert all(feature.meaning and feature.unit for feature in FEATURES)


def test_every_measure_serves_a_feature():
    used = {name for feature in FEATURES for name in feature.measures}
    assert used == set(MEASURES)


def test_the_schema_hash_follows_formulas_and_units_but_not_the_order():
    assert schema_hash(FEATURES) == schema_hash(FEATURES[::-1])
    assert schema_hash(FEATURES) != schema_hash(FEATURES[1:])
    for change in ({"formula": "orders_90"}, {"unit": "dozens"}, {"name": "orders_of_the_year"}):
        assert schema_hash(FEATURES) != schema_hash([replace(FEATURES[0], **change), *FEATURES[1:]])
    assert schema_hash(FEATURES) == schema_hash([replace(FEATURES[0], meaning="said better"), *FEATURES[1:]])


@pytest.mark.parametrize(
    ("name", "group", "formula", "message"),
    [
        ("Robert'); DROP", "site", "saves", "feature name"),
        ("fine", "weather", "saves", "weather"),
        ("fine", "site", "rainfall / 2", "at least one measure"),
    ],
)
def test_a_feature_that_cannot_be_computed_is_refused_when_it_is_written(name, group, formula, message):
    with pytest.raises(InputError, match=message):
        Feature(name, group, formula, "something", "unit")


def test_the_page_of_features_names_every_one():
    page = (DOCS / "features.md").read_text(encoding="utf-8")
    assert all(f"`{feature.name}`" in page for feature in FEATURES)
