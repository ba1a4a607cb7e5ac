"""A shop's own choice of features: dropped, added, refused by name, and carried by tables and networks."""

import datetime as dt

import numpy as np
import pytest

from disco.features import FEATURES, ContextNetwork, Feature, build_features, schema_hash, training_set
from disco.features.catalogue import FEATURES_KEY, from_text, read_selection, select, to_text, written_in
from disco.records.errors import FileFormatError, InputError

OWN = {
    "name": "orders_per_item",
    "group": "purchases",
    "formula": "orders_365 / items_365",
    "meaning": "orders per item bought",
    "unit": "ratio",
}
START = dt.date(2025, 1, 1)


@pytest.fixture(scope="module")
def tables(memory_tables, make_tables):
    return memory_tables(make_tables(customers=400, seed=2, start=dt.date(2024, 1, 1), days=480))


def test_what_is_dropped_and_added_is_what_is_built(tables):
    chosen = read_selection({"drop": ["saves_365d", "visits_7d"], "add": [OWN]}, where="features.yaml")
    table = build_features(tables, as_of=START, features=chosen)
    assert len(table.column_names) == 1 + 76 - 2 + 1
    assert "saves_365d" not in table.column_names
    ratio = table["orders_per_item"].to_numpy()
    orders, items = table["orders_365d"].to_numpy(), table["items_365d"].to_numpy()
    assert np.array_equal(ratio[items > 0], orders[items > 0] / items[items > 0])
    assert np.isnan(ratio[items == 0]).all()  # 0 / 0: unknown, not infinite
    assert (items == 0).any()
    assert schema_hash(chosen) != schema_hash(FEATURES)
    assert from_text(written_in(table.schema, FEATURES_KEY)) == chosen


def test_nothing_chosen_is_the_catalogue(tables):
    assert read_selection(None, where="x") == select() == FEATURES
    assert to_text(FEATURES) == ""
    assert from_text("") == FEATURES
    assert from_text(written_in(build_features(tables, as_of=START).schema, FEATURES_KEY)) == FEATURES


def test_the_text_brings_the_features_back():
    chosen = select(drop=["saves_365d"], add=[Feature(**OWN)])
    assert from_text(to_text(chosen)) == chosen
    for damaged in ("{", "[1]", '[{"name": "x"}]', "5"):
        with pytest.raises((FileFormatError, InputError)):
            from_text(damaged)


def test_a_network_knows_how_its_features_are_made(tables, tmp_path):
    chosen = select(drop=["visits_7d"], add=[Feature(**OWN)])
    rows = training_set(tables, window_start=START, window_end=dt.date(2025, 4, 1), features=chosen)
    ContextNetwork(heads="level", max_epochs=1).fit(rows.X, rows.log_full_price).save(tmp_path / "network")
    network = ContextNetwork.load(tmp_path / "network")
    assert network.catalogue_ == chosen
    built = build_features(tables, as_of=dt.date(2025, 4, 1), features=network.catalogue_)
    assert network.transform(built).shape == (400, 6)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ([], "`drop`, a list of names"),
        ({"remove": ["saves_365d"]}, "`drop`, a list of names"),
        ({"drop": "saves_365d"}, "a list under `drop`"),
        ({"drop": ["nothing"]}, "found 'nothing'"),
        ({"drop": ["saves_365d", "saves_365d"]}, "each once"),
        ({"drop": ["orders_365d"]}, "tells who has a history"),
        ({"add": [{**OWN, "name": "spend_90d"}]}, "each once"),
        ({"add": [{**OWN, "unit": 5}]}, "all text"),
        ({"add": ["orders"]}, "a feature with name"),
        ({"add": [{**OWN, "group": "weather"}]}, "group 'weather'"),
        ({"add": [{**OWN, "formula": "2 + 2"}]}, "at least one measure"),
    ],
)
def test_a_choice_that_cannot_be_read_is_refused_by_name(content, named):
    with pytest.raises(InputError, match=named):
        read_selection(content, where="features.yaml")


@pytest.mark.parametrize(
    "formula",
    [
        "orders_365 + (SELECT count(*) FROM raw_orders)",
        "orders_365 + length(read_text('/etc/hostname'))",
        "orders_365; DROP TABLE measured",
        "orders_365 -- 5",
        "orders_365 /* 5",
        "orders_365 / raw_orders.paid",
        "orders_365 + random()",
        'orders_365 + "visits_365"',
        "orders_365 || '1'",
    ],
)
def test_a_formula_sees_nothing_but_one_customers_measures(formula):
    """A sub-query could look past the as-of date, a file of a network could read the disk."""
    with pytest.raises(InputError, match="in its formula"):
        Feature("odd", "purchases", formula, "odd", "")
