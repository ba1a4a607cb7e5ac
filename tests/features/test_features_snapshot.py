"""A day's snapshot: exact sums whatever the order, the mean at any unit, and contexts that are centred by it."""

import datetime as dt
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.features import ContextNetwork, Snapshot, build_features
from disco.features.files import write_features
from disco.features.kernel import INPUT_LIMIT
from disco.features.snapshot import UNITS, counted, moved_beyond_reason, snapshot_of, with_snapshot
from disco.features.training import last_layer
from disco.records.errors import FileFormatError, SchemaMismatchError

NAMES = ("orders_365d", "spend_365d", "slope")


def customers(rows: int, *, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    orders = rng.poisson(2.0, rows).astype(float)
    spend, slope = np.exp(rng.normal(4, 1, rows)), rng.normal(0.5, 1, rows)
    X = np.column_stack([orders, spend, slope])
    X[rng.random(rows) < 0.1, 2] = np.nan
    return X


def by_hand(X: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The mean of the curve over known values of customers with a purchase, one value at a time."""
    known = [row for row in X if row[0] > 0]
    means = []
    for place in range(X.shape[1]):
        values = [row[place] for row in known if not np.isnan(row[place])]
        means.append(np.mean([np.sign(x) * np.log1p(abs(x) * unit[place]) for x in values]))
    return np.array(means)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 300), max_size=4))
def test_any_order_and_any_chunks_give_the_same_snapshot(seed, cuts):
    X = customers(300, seed=seed)
    whole = Snapshot.of(X, NAMES)
    shuffled = np.random.default_rng(seed).permutation(X)
    parts = np.split(shuffled, sorted(cuts))
    added = Snapshot.of(parts[0], NAMES)
    for part in parts[1:]:
        added = added + Snapshot.of(part, NAMES)
    assert added == whole
    assert added.hash == whole.hash
    assert Snapshot.from_text(whole.to_text()) == whole


@pytest.mark.parametrize("factor", [1e-7, 1e-3, 0.3, 1.0, 7.0, 1e3, 1e7])
def test_the_mean_at_any_unit_is_that_of_the_curve(factor):
    X = customers(4000)
    unit = np.array([0.5, 0.02, 1.3]) * factor
    means = Snapshot.of(X, NAMES).means(NAMES, unit)
    assert means == pytest.approx(by_hand(X, unit), rel=0.01, abs=0.006)


def test_only_customers_with_a_purchase_in_the_year_count():
    X = customers(500)
    buyers = X[X[:, 0] > 0]
    assert Snapshot.of(X, NAMES) == Snapshot.of(buyers, NAMES)
    assert Snapshot.of(X, NAMES).customers == len(buyers)
    assert Snapshot.of(X[:, 1:], NAMES[1:]).customers == 500  # no feature tells who bought


def test_values_beyond_any_size_are_counted_at_the_edge():
    X = np.array([[1.0, 1e-300, -1e300], [1.0, 5e-324, 1e300]])
    day = Snapshot.of(X, NAMES)
    assert day.known.tolist() == [2, 2, 2]
    assert day.sums[2].tolist() == [0] * len(UNITS)
    assert np.isfinite(day.means(NAMES, np.ones(3))).all()


def test_a_feature_nobody_has_and_a_feature_that_is_not_there_have_no_mean():
    X = customers(200)
    X[:, 2] = np.nan
    means = Snapshot.of(X, NAMES).means((*NAMES, "other"), np.ones(4))
    assert np.isnan(means).tolist() == [False, False, True, True]


def test_snapshots_of_other_features_are_not_added():
    with pytest.raises(SchemaMismatchError, match="snapshot"):
        Snapshot.of(customers(5), NAMES) + Snapshot.of(customers(5), ("a", "b", "c"))


def test_the_shift_is_damped_for_small_shops_and_nothing_below_a_hundred_customers(network):
    unit, spread = np.array([0.5, 0.02, 1.3]), np.array([1.0, 2.0, 0.0])
    fitted = network.embedding_
    scaling = replace(fitted.scaling, unit=unit, spread=spread)
    embedding = replace(fitted, scaling=scaling, trained_means=np.array([1.0, 2.0, np.nan]))
    for rows in (99, 100, 1000):
        X = np.tile([[1.0, 50.0, 1.0]], (rows, 1))
        shift = embedding.shift(Snapshot.of(X, NAMES))
        undamped = np.array([1.0 - np.log1p(0.5), (2.0 - np.log1p(1.0)) * 2.0, 0.0])
        weight = 0.0 if rows < 100 else rows / (rows + 100)
        assert shift == pytest.approx(undamped * weight, abs=0.01)
        assert shift[2] == 0


def test_a_feature_that_moved_beyond_reason_is_named_with_what_to_do():
    assert moved_beyond_reason(np.array([2.9, -3.0]), ("a", "b")) == ()
    (note,) = moved_beyond_reason(np.array([0.1, -4.25, 3.5]), ("a", "b", "c"))
    assert "mean of b has moved by +4.2 standard deviations" in note
    assert "1 more" in note
    assert "disco check" in note


def test_what_campaigns_move_may_move_further():
    assert moved_beyond_reason(np.array([-5.9]), ("codes_redeemed_30d",)) == ()
    (note,) = moved_beyond_reason(np.array([-6.1]), ("codes_redeemed_30d",))
    assert "codes_redeemed_30d has moved by +6.1" in note


# ---- with a network -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network() -> ContextNetwork:
    rng = np.random.default_rng(3)
    X = customers(3000)
    X = X[X[:, 0] > 0]
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    table = table.cast(with_snapshot(table.schema, counted(table)))
    from disco import CodesSent

    depth = rng.choice([0.1, 0.2, 0.3], len(X))
    used = rng.random(len(X)) < 1 / (1 + np.exp(1 - np.log(X[:, 0])))
    codes = CodesSent(table, depth, used, np.full(len(X), "a"))
    return ContextNetwork(hidden=(8,), dimensions=3, max_epochs=3, seed=2).fit(
        table, np.log(X[:, 1]) + rng.normal(0, 0.3, len(X)), depth, codes=codes
    )


def reference(network: ContextNetwork, X: np.ndarray, day: Snapshot | None) -> np.ndarray:
    """The context by plain NumPy, without the kernel: scaled, shifted, clipped, layer by layer."""
    e = network.embedding_
    z = (np.sign(X) * np.log1p(np.abs(X) * e.scaling.unit) - e.scaling.centre) * e.scaling.spread
    if day is not None:
        n = day.customers
        moved = (e.trained_means - day.means(e.feature_names, e.scaling.unit)) * e.scaling.spread
        z = z + (moved * n / (n + 100) if n >= 100 else 0.0)
    z = np.where(np.isnan(X), 0.0, np.clip(z, -INPUT_LIMIT, INPUT_LIMIT))
    layer = last_layer(z, e.sizes, e.weights, e.leak)
    context = np.clip((layer - e.mean) * e.inverse_sd, -4, 4)
    return np.where((X[:, :1] > 0), context, 0.0)


def test_centred_contexts_agree_with_plain_numpy(network):
    X = customers(700, seed=8)
    X[:, 1] *= 3
    day = network.snapshot(X)
    centred, plain = network.transform(X, snapshot=day), network.transform(X)
    assert np.abs(centred - reference(network, X, day)).max() <= 2**-17 + 1e-7
    assert np.abs(plain - reference(network, X, None)).max() <= 2**-17 + 1e-7
    assert not np.array_equal(centred, plain)


def test_a_feature_that_moved_for_everybody_no_longer_moves_the_contexts(network):
    X = customers(5000, seed=9)
    X = X[X[:, 0] > 0]
    moved = X.copy()
    moved[:, 1] *= 2.5
    before, after = network.transform(X), network.transform(moved)
    centred = network.transform(moved, snapshot=network.snapshot(moved))
    there = network.transform(X, snapshot=network.snapshot(X))
    assert np.abs(after - before).mean() > 0.2
    # the curve is no exact logarithm, so that a factor is a little more than a shift
    assert np.abs(centred - there).mean() < 0.35 * np.abs(after - before).mean()


def test_a_table_brings_its_own_snapshot_and_parts_of_it_keep_that_of_the_whole(network):
    X = customers(900, seed=10)
    X[:, 1] *= 3
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    day = counted(table)
    carrying = table.cast(with_snapshot(table.schema, day))
    centred = network.transform(carrying)
    assert centred.tobytes() == network.transform(table, snapshot=day).tobytes()
    assert centred[5:9].tobytes() == network.transform(carrying[5:9]).tobytes()
    assert day == network.snapshot(X)


def test_networks_without_an_engagement_head_are_not_centred(network):
    X = customers(900, seed=10)
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    table = table.cast(with_snapshot(table.schema, counted(table)))
    buyers = X[:, 0] > 0
    old = ContextNetwork(heads="level", hidden=(8,), dimensions=3, max_epochs=2).fit(
        table.filter(pa.array(buyers)), np.log(X[buyers, 1])
    )
    assert old.embedding_.trained_means is None
    moved = table.set_column(1, NAMES[1], pa.array(X[:, 1] * 3))
    moved = moved.cast(with_snapshot(moved.schema, counted(moved)))
    assert old.transform(moved).tobytes() == old.transform(moved.replace_schema_metadata(None)).tobytes()


# ---- with feature tables --------------------------------------------------------------------------------------------


def test_feature_tables_and_files_carry_the_snapshot_of_all_their_customers(make_tables, memory_tables, tmp_path):
    day = dt.date(2025, 12, 1)
    tables = memory_tables(make_tables(customers=300, seed=4, start=dt.date(2025, 1, 1), days=330))
    table = build_features(tables, as_of=day)
    carried = snapshot_of(table.schema)
    assert carried == counted(table)
    assert carried.customers == int((table["orders_365d"].to_numpy() > 0).sum())
    bare = table.schema.with_metadata(
        {key: value for key, value in table.schema.metadata.items() if b"snap" not in key}
    )
    path = tmp_path / "features.parquet"
    assert write_features(path, bare, iter(table.cast(bare).to_batches(max_chunksize=77))) == 300
    assert pq.read_table(path).equals(table)
    assert snapshot_of(pq.read_schema(path)) == carried
    assert pq.read_schema(path).metadata == table.schema.metadata


def test_a_damaged_snapshot_is_refused():
    table = pa.table(dict(zip(NAMES, customers(200).T, strict=True)))
    schema = with_snapshot(table.schema, counted(table))
    kept = schema.metadata[b"disco.snapshot"]
    place = kept.index(b'"sums"') + 12
    other = kept[:place] + (b"1" if kept[place : place + 1] != b"1" else b"2") + kept[place + 1 :]
    with pytest.raises(FileFormatError, match="do not match their digest"):
        snapshot_of(schema.with_metadata({b"disco.snapshot": other}))
    text = counted(table).to_text()
    content = json.loads(text)
    for key, wrong in (("version", 2), ("sums", [[1]]), ("known", "x"), ("customers", 1.5), ("features", [1, 2, 3])):
        with pytest.raises(FileFormatError, match="snapshot"):
            Snapshot.from_text(json.dumps({**content, key: wrong}))
