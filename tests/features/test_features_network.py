"""The context network: what it computes, that it learns what it should, and that a row's bits belong to the row."""

import datetime as dt
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.features import ContextNetwork, build_features, has_history, network, training_rows
from disco.features.kernel import scale_rows
from disco.features.training import Adam, DepthVariationWarning, NetworkWarning, last_layer
from disco.features.training_rows import order_rows
from disco.features.training_set import TrainingSet
from disco.records import chunks
from disco.records.errors import InputError, MissingPartError, SchemaMismatchError, StateError

QUICK = {"max_epochs": 3, "seed": 1}


def shop(rows: int, *, seed: int = 0):
    """Features with heavy tails and gaps, ln baskets with a level and an elasticity that differ between customers."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, 4))
    X = np.exp(z @ rng.normal(size=(4, 9)) * 0.6 + rng.normal(size=(rows, 9)) * 0.2)
    X[rng.random(X.shape) < 0.05] = np.nan
    depth = rng.choice([0.0, 0.1, 0.2, 0.3, 0.4], rows)
    level, slope = 3.8 + 0.5 * z[:, 0], 1.4 + 0.9 * z[:, 1]
    y = level + slope * (depth - 0.2) + rng.normal(0, 0.4, rows)
    return X, y, depth, level, slope


@pytest.fixture(scope="module")
def trained():
    X, y, depth, *_ = shop(6000)
    return ContextNetwork(heads="level+slope", max_epochs=25, seed=3).fit(X, y, depth)


def explained(design, target):
    design = np.column_stack([np.ones(len(target)), design])
    left = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    return 1 - left.var() / target.var()


def test_contexts_are_standardised_clipped_and_on_the_grid(trained):
    context = trained.transform(shop(6000)[0])
    assert context.shape == (6000, 6)
    assert context.mean(axis=0) == pytest.approx(np.zeros(6), abs=0.1)
    assert context.std(axis=0) == pytest.approx(np.ones(6), abs=0.1)
    assert np.abs(context).max() <= 4
    assert (context * 65536 == np.rint(context * 65536)).all()
    wild = trained.transform(shop(500, seed=9)[0] * 1e6)
    assert np.abs(wild).max() <= 4
    assert np.isfinite(wild).all()


def test_the_kernel_agrees_with_plain_matrix_products(trained):
    X = shop(500, seed=5)[0]
    e = trained.embedding_
    layer = last_layer(e.scaling.apply(X), e.sizes, e.weights, e.leak)
    expected = np.clip((layer - e.mean) * e.inverse_sd, -4, 4)
    assert np.abs(trained.transform(X) - expected).max() <= 2**-17 + 1e-9


def test_scaling_by_hand():
    X, y, *_ = shop(400)
    X[:, 0] = np.repeat([1.0, 3.0], 200)
    scaling = ContextNetwork(heads="level", **QUICK, validation_share=0).fit(X, y).embedding_.scaling
    # median |x| is 2, so x = 1 lies at ln 1.5 and x = 3 at ln 2.5; centre half-way, quartiles at the two values
    low, high = np.log(1.5), np.log(2.5)
    at = scaling.apply(X)[[0, 399], 0]
    assert at == pytest.approx([(low - high) / 2 / ((high - low) / 1.349), (high - low) / 2 / ((high - low) / 1.349)])
    assert (scaling.apply(np.full((1, 9), np.nan)) == 0).all()


@given(value=st.floats(-1e300, 1e300))
def test_the_kernels_logarithm_is_the_logarithm(value):
    unit, out = np.array([0.7]), np.empty((1, 1))
    scale_rows(np.array([[value]]), unit, np.zeros(1), np.array([1e-3]), out)  # 1e-3: far from the limit
    assert out[0, 0] == pytest.approx(1e-3 * np.sign(value) * np.log1p(abs(value) * 0.7), abs=3e-12)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_row_has_the_same_bits_in_any_chunk_and_order(data, trained):
    X = shop(300, seed=2)[0]
    whole = trained.embedding_.context(X)
    rows = data.draw(st.lists(st.integers(0, 299), min_size=1, max_size=100))
    assert (trained.embedding_.context(X[rows]) == whole[rows]).all()


def test_chunks_side_by_side_give_the_bits_of_one(trained, monkeypatch):
    X = shop(1000, seed=2)[0]
    whole = trained.transform(X)
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 77)
    assert (trained.transform(X) == whole).all()
    assert (trained.transform(pa.table({f"x{place}": X[:, place] for place in range(9)})) == whole).all()


def by_hand(e, X, shift):
    """ψ1 with one operation after another in the order the kernel promises; all rows at once, elementwise."""
    scaled = np.empty_like(X)
    for place in range(X.shape[1]):
        size = 1.0 + np.abs(X[:, place]) * e.scaling.unit[place]
        mantissa, exponent = np.frexp(size)
        mantissa, exponent = mantissa * 2.0, exponent - 1.0
        s = (mantissa - 1.0) / (mantissa + 1.0)
        q, series = s * s, np.full(len(X), 1 / 15)
        for odd in (13, 11, 9, 7, 5, 3, 1):
            series = 1 / odd + q * series
        curved = exponent * np.log(2.0) + 2.0 * s * series
        curved = np.where(X[:, place] >= 0, curved, -curved)
        value = (curved - e.scaling.centre[place]) * e.scaling.spread[place] + shift[place]
        scaled[:, place] = np.where(np.isnan(X[:, place]), 0.0, np.clip(value, -6.0, 6.0))
    layer, at = scaled, 0
    for incoming, outgoing in pairwise(e.sizes):
        sums = np.tile(e.weights[at : at + outgoing], (len(X), 1))
        for place in range(incoming):
            at += outgoing
            sums = sums + e.weights[at : at + outgoing] * layer[:, place, None]
        at += outgoing
        layer = np.where(sums > 0, sums, sums * e.leak)
    return np.rint(np.clip((layer - e.mean) * e.inverse_sd, -4, 4) * 65536) / 65536


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_context_is_summed_from_the_first_input_to_the_last(trained, order):
    # 9 inputs: two groups of four and one left over; 333 rows: five blocks and a part of one
    X, shift = shop(333, seed=5)[0], np.linspace(-0.3, 0.3, 9)
    X[::7, 3] *= -1e3
    expected = by_hand(trained.embedding_, X, shift)
    assert (trained.embedding_.context(np.array(X, order=order), shift) == expected).all()


def test_a_table_in_pieces_gives_the_bits_of_an_array(trained, monkeypatch):
    X = shop(1000, seed=2)[0]
    whole = trained.transform(X)
    nulls = [pa.array(X[:, place], from_pandas=True) for place in range(9)]  # gaps are null
    parts = [[column.slice(0, 130), column.slice(130, 1), column.slice(131)] for column in nulls]
    table = pa.table([pa.chunked_array(part) for part in parts], names=[f"x{place}" for place in range(9)])
    for rows in (1, 7, 100, 4096):
        monkeypatch.setattr(network, "PIECE_ROWS", rows)
        assert (trained.transform(table) == whole).all()
        assert (trained.transform(table.slice(123, 500)) == whole[123:623]).all()
    odd = table.set_column(2, "x2", pa.nulls(1000)).set_column(3, "x3", pa.array(range(1000), pa.int32()))
    X[:, 2], X[:, 3] = np.nan, np.arange(1000)
    assert (trained.transform(odd, check_scale=False) == trained.transform(X, check_scale=False)).all()
    assert trained.transform(table.slice(0, 0)).shape == (0, 6)


def test_an_infinite_value_is_named_by_its_row_in_the_table(trained, monkeypatch):
    X = shop(300, seed=2)[0]
    X[222, 4] = -np.inf
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 77)
    monkeypatch.setattr(network, "PIECE_ROWS", 10)
    for rows in (X, pa.table({f"x{place}": X[:, place] for place in range(9)})):
        with pytest.raises(InputError, match="column x4, row 223"):
            trained.transform(rows, check_scale=False)


def test_the_slope_head_carries_elasticity_that_the_level_head_loses():
    X, y, depth, level, slope = shop(8000)
    one = ContextNetwork(heads="level", max_epochs=25, seed=3).fit(X, y)
    two = ContextNetwork(heads="level+slope", max_epochs=25, seed=3).fit(X, y, depth)
    assert explained(one.transform(X), level) > 0.8
    assert explained(two.transform(X), level) > 0.8
    assert explained(two.transform(X), slope) > 0.75
    assert explained(two.transform(X), slope) > explained(one.transform(X), slope) + 0.1


def test_predictions_follow_the_depth_through_the_slope(trained):
    X = shop(100)[0]
    context = trained.transform(X)
    slopes = trained.embedding_.slopes(context)
    at = [trained.predict(X, depth) for depth in (0.1, 0.35)]
    assert at[1] - at[0] == pytest.approx(0.25 * slopes)
    assert slopes.mean() == pytest.approx(1.4, abs=0.25)
    assert trained.predict(X) == pytest.approx(trained.predict(X, np.full(100, trained.embedding_.mean_depth)))


def test_predictions_are_better_than_the_mean_and_depth_is_ignored_without_a_slope_head():
    X, y, depth, *_ = shop(5000)
    network = ContextNetwork(heads="level", max_epochs=15).fit(X[:4000], y[:4000])
    predicted = network.predict(X[4000:])
    assert np.mean((predicted - y[4000:]) ** 2) < 0.8 * np.var(y[4000:])
    assert (network.predict(X[4000:], depth[4000:]) == predicted).all()
    with pytest.raises(InputError, match="level"):
        network.embedding_.slopes(network.transform(X))


def test_equal_seeds_give_equal_networks_and_torch_is_left_as_it_was():
    import torch

    X, y, *_ = shop(800)
    torch.manual_seed(11)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    first = ContextNetwork(heads="level", **QUICK).fit(X, y)
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
    torch.manual_seed(99)
    second = ContextNetwork(heads="level", **QUICK).fit(X, y)
    assert (first.embedding_.weights == second.embedding_.weights).all()
    other = ContextNetwork(heads="level", **{**QUICK, "seed": 2}).fit(X, y)
    assert (first.embedding_.weights != other.embedding_.weights).any()


def test_the_steps_of_training_have_the_bits_of_torchs_adam():
    import torch

    generator = torch.Generator().manual_seed(5)

    def parameters():
        start = [torch.linspace(-1, 1, 6).reshape(2, 3), torch.full((4,), 0.5), torch.ones(1)]
        return [one.clone().requires_grad_() for one in start]

    ours, theirs = parameters(), parameters()
    steps = Adam(ours, rate=1e-3), torch.optim.Adam(theirs, lr=1e-3)
    for number in range(60):
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            gradient = torch.randn(one.shape, generator=generator) * 10.0**-place
            one.grad, other.grad = (gradient.clone(), gradient.clone()) if place < 2 or number % 3 else (None, None)
        for each in steps:
            each.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    steps[0].forget_gradients()
    assert all(one.grad is None for one in ours)


def test_a_gpu_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(MissingPartError, match="no usable GPU"):
        ContextNetwork(device="cuda").fit(*shop(300)[:2])


def test_training_stops_when_the_rows_kept_out_no_longer_improve():
    X, _, *_ = shop(600)
    noise = np.random.default_rng(0).normal(4, 1, 600)
    network = ContextNetwork(heads="level", max_epochs=200, patience=3, learning_rate=0.01).fit(X, noise)
    losses = network.validation_losses_
    assert len(losses) < 200
    assert min(losses) == losses[-4]
    told = []
    ContextNetwork(heads="level", max_epochs=5, validation_share=0).fit(
        X, noise, progress=lambda done, most: told.append((done, most))
    )
    assert told == [(epoch, 5) for epoch in range(1, 6)]


def test_customers_kept_out_are_kept_out_with_all_their_orders():
    X, y, depth, *_ = shop(1000)
    order = np.random.default_rng(3).permutation(np.repeat(np.arange(1000), 4))  # four orders each, mixed in time
    rows = order_rows(X[order], y[order], depth[order], validation_share=0.2).rows
    kept = rows.pieces[0]()

    def customers(part):
        return {features.tobytes() for features in part.features}

    assert customers(kept).isdisjoint(customers(rows.validation))
    assert len(customers(kept)) == pytest.approx(800, abs=60)
    assert len(rows.validation.target) == pytest.approx(400, abs=80)  # a fifth of the customers, the later half
    assert len(kept.target) == 4 * len(customers(kept))


def test_a_network_does_not_go_on_learning_customers_by_heart():
    """Several orders share a customer's own level, which the features do not tell: remembering it must not count."""
    rng = np.random.default_rng(5)
    X = rng.lognormal(size=(500, 9))
    order = rng.permutation(np.repeat(np.arange(500), 8))
    own = rng.normal(0, 1, 500)
    y = 4 + own[order] + rng.normal(0, 0.1, order.size)
    network = ContextNetwork(heads="level", max_epochs=60, dropout=0.0, learning_rate=0.01).fit(X[order], y)
    fresh = rng.lognormal(size=(2000, 9))
    assert network.predict(fresh).std() < 0.45  # near the mean, the best one can say of strangers
    assert len(network.validation_losses_) < 20


def named(X):
    return pa.table({f"f{place}": X[:, place] for place in range(X.shape[1])})


def test_columns_are_found_by_name():
    X, y, *_ = shop(600)
    table = named(X)
    network = ContextNetwork(heads="level", **QUICK).fit(table, y)
    assert network.feature_names_in_.tolist() == table.column_names
    assert network.n_features_in_ == 9
    expected = network.transform(table)
    assert (network.transform(table.select(table.column_names[::-1])) == expected).all()
    assert (network.transform(table.append_column("customer_id", pa.array(["a"] * 600))) == expected).all()
    assert (network.transform(X) == expected).all()
    assert (network.transform(table.to_pandas()) == expected).all()
    with pytest.raises(SchemaMismatchError, match="column f3"):
        network.transform(table.drop_columns(["f3"]))
    with pytest.raises(SchemaMismatchError, match=r"column f3.*f33"):
        network.transform(table.rename_columns(["f33" if name == "f3" else name for name in table.column_names]))
    with pytest.raises(SchemaMismatchError, match=r"column f2.*string"):
        network.transform(table.set_column(2, "f2", pa.array(["x"] * 600)))
    with pytest.raises(SchemaMismatchError, match="9 columns"):
        network.transform(X[:, :8])


def test_a_whole_column_of_integers_gives_the_same_bits_as_floats():
    X, y, *_ = shop(600)
    X[:, 4] = np.arange(600)
    table = named(X)
    network = ContextNetwork(heads="level", **QUICK).fit(table, y)
    whole = table.set_column(4, "f4", pa.array(np.arange(600, dtype=np.int32)))
    assert (network.transform(whole) == network.transform(table)).all()


def test_a_rescaled_column_is_named_and_few_rows_are_not_judged():
    X, y, *_ = shop(3000)
    network = ContextNetwork(heads="level", **QUICK).fit(named(X), y)
    for factor in (100, 1 / 100):
        pence = X.copy()
        pence[:, 6] *= factor
        with pytest.raises(SchemaMismatchError, match="column f6"):
            network.transform(named(pence))
        assert network.transform(named(pence), check_scale=False).shape == (3000, 6)
        assert network.transform(pence[:10]).shape == (10, 6)
    assert network.transform(named(X * 3)).shape == (3000, 6)


def test_features_of_another_catalogue_are_refused(make_tables, memory_tables):
    tables = memory_tables(make_tables(customers=300, seed=6, start=dt.date(2025, 6, 1), days=270))
    names = ["orders_365d", "spend_365d", "visits_30d"]
    table = build_features(tables, as_of=dt.date(2026, 3, 1), features=names)
    network = ContextNetwork(heads="level", **QUICK).fit(table, np.random.default_rng(0).normal(4, 1, table.num_rows))
    assert network.feature_names_in_.tolist() == names
    other = build_features(tables, as_of=dt.date(2026, 3, 1), features=[*names, "saves_365d"])
    with pytest.raises(SchemaMismatchError, match="feature schema"):
        network.transform(other)


def test_customers_without_a_purchase_get_the_population_context():
    X, y, *_ = shop(2000)
    table = named(X).append_column("orders_365d", pa.array(np.tile([0.0, 1.0, 2.0, 5.0], 500)))
    strangers = ~has_history(table)
    assert strangers.mean() == 0.25
    y[strangers] = 30.0  # absurd baskets that would ruin the level if they were learned from
    network = ContextNetwork(heads="level", **QUICK).fit(table, y)
    context = network.transform(table)
    assert (context[strangers] == 0).all()
    assert (context[~strangers] != 0).any(axis=1).all()
    assert network.predict(table)[strangers] == pytest.approx(y[~strangers].mean(), abs=0.5)
    unknown = table.set_column(9, "orders_365d", pa.nulls(2000, pa.float64()))
    assert (network.transform(unknown) == 0).all()


def test_it_is_a_step_of_a_scikit_learn_pipeline():
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    X, y, *_ = shop(400)
    alone = make_pipeline(ContextNetwork(heads="level", max_epochs=1)).fit(X, y)
    assert alone.transform(X).shape == (400, 6)
    assert (alone.predict(X) == ContextNetwork(heads="level", max_epochs=1).fit(X, y).predict(X)).all()
    with_regression = make_pipeline(ContextNetwork(heads="level", max_epochs=1), LinearRegression())
    search = GridSearchCV(with_regression, {"contextnetwork__dimensions": [2, 3]}, cv=2).fit(X, y)
    assert search.best_estimator_[0].embedding_.dimensions in (2, 3)


def test_it_can_be_cloned_and_searched_like_any_estimator():
    from sklearn.base import clone

    network = ContextNetwork(heads="level+slope", hidden=(8,), seed=4)
    twin = clone(network)
    assert twin.get_params() == network.get_params()
    assert twin.set_params(dropout=0.3).dropout == 0.3
    with pytest.raises(InputError, match="dropuot"):
        network.set_params(dropuot=0.3)
    with pytest.raises(StateError, match="fit"):
        network.transform(np.ones((3, 2)))


def test_other_sizes():
    X, y, *_ = shop(500)
    network = ContextNetwork(heads="level", hidden=(12, 10, 8), dimensions=4, **QUICK).fit(X, y)
    assert network.transform(X).shape == (500, 4)
    assert network.transform(X[:0]).shape == (0, 4)


def test_a_plain_relu_may_die_and_that_is_said():
    X, y, *_ = shop(500)
    with pytest.warns(NetworkWarning, match="constant"):
        network = ContextNetwork(heads="level", hidden=(2,), dimensions=40, leak=0.0, **QUICK).fit(X, y)
    dead = network.embedding_.inverse_sd == 0
    assert (network.transform(X)[:, dead] == 0).all()
    assert np.isfinite(network.predict(X)).all()


def test_too_little_or_confounded_depth_is_said():
    X, y, depth, *_ = shop(3000)
    with pytest.warns(DepthVariationWarning, match="hardly vary"):
        ContextNetwork(heads="level+slope", **QUICK).fit(X, y, np.where(depth > 0.35, 0.21, 0.2))
    followed = np.clip(0.2 + 0.1 * np.log(np.nan_to_num(X[:, 0], nan=1.0)), 0, 0.6)
    with pytest.warns(DepthVariationWarning, match="mixed up"):
        ContextNetwork(heads="level+slope", **QUICK).fit(X, y, followed)


def test_random_depths_are_no_reason_to_warn(recwarn):
    X, y, depth, *_ = shop(1000)
    ContextNetwork(heads="level+slope", **QUICK).fit(X, y, depth)
    assert not [warning for warning in recwarn if issubclass(warning.category, DepthVariationWarning)]


def test_a_parquet_file_in_chunks_learns_like_memory(tmp_path, monkeypatch):
    X, y, depth, level, slope = shop(6000)
    table = named(X).append_column("log_full_price", pa.array(y)).append_column("depth", pa.array(depth))
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=500)
    few = {"heads": "level+slope", "max_epochs": 3, "seed": 2}  # enough for every row to be used three times
    in_memory = ContextNetwork(**few).fit(tmp_path / "rows.parquet")
    assert (in_memory.embedding_.weights == ContextNetwork(**few).fit(named(X), y, depth).embedding_.weights).all()
    monkeypatch.setattr(training_rows, "IN_MEMORY_ROWS", 1000)
    monkeypatch.setattr(training_rows, "SAMPLE_ROWS", 2000)
    read = []
    real = training_rows._checked
    monkeypatch.setattr(training_rows, "_checked", lambda *args: read.append(real(*args)) or read[-1])
    one, again = (
        ContextNetwork(**few).fit(place) for place in (str(tmp_path / "rows.parquet"), tmp_path / "rows.parquet")
    )
    assert (one.embedding_.weights == again.embedding_.weights).all()
    streamed = ContextNetwork(**{**few, "max_epochs": 10}).fit(tmp_path / "rows.parquet")
    assert max(len(chunk.target) for chunk in read) == 500
    assert streamed.feature_names_in_.tolist() == in_memory.feature_names_in_.tolist()
    assert explained(streamed.transform(X), level) > 0.75
    assert explained(streamed.transform(X), slope) > 0.6


def test_a_file_without_targets_or_of_another_kind_is_named(tmp_path):
    with pytest.raises(InputError, match="nothing at"):
        ContextNetwork().fit(tmp_path / "absent.parquet")
    (tmp_path / "text.parquet").write_text("not parquet at all")
    with pytest.raises(InputError, match="Parquet"):
        ContextNetwork().fit(tmp_path / "text.parquet")
    pq.write_table(named(shop(200)[0]), tmp_path / "features.parquet")
    with pytest.raises(InputError, match="log_full_price"):
        ContextNetwork().fit(tmp_path / "features.parquet")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.array([np.nan] * 300)}, "y, row 1"),
        ({"y": np.full(300, 54.0)}, "natural logarithm"),
        ({"y": np.ones(299)}, "300 numbers"),
        ({"depth": np.full(300, 20.0)}, r"depth in \[0, 1\)"),
        ({"X": np.full((300, 2), np.inf)}, "column x0, row 1"),
        ({"X": np.array([["a"]] * 300)}, "numbers of shape"),
        ({"X": np.ones((20, 2)), "y": np.ones(20), "depth": np.zeros(20)}, "at least 100"),
        ({"y": None}, "ln full price"),
    ],
)
def test_bad_training_rows_are_refused_by_name(change, message):
    rng = np.random.default_rng(0)
    rows = {"X": rng.normal(size=(300, 2)), "y": rng.normal(4, 1, 300), "depth": np.zeros(300), **change}
    with pytest.raises(InputError, match=message):
        ContextNetwork(heads="level", **QUICK).fit(rows["X"], rows["y"], rows["depth"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"heads": "slope"},
        {"hidden": (0,)},
        {"dimensions": 0},
        {"leak": 1.0},
        {"dropout": 1.0},
        {"learning_rate": 0.0},
        {"batch_rows": 0},
        {"max_epochs": 0},
        {"patience": 0},
        {"validation_share": 1.0},
        {"device": "tpu"},
    ],
)
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        ContextNetwork(**wrong).fit(np.ones((300, 2)), np.ones(300), np.zeros(300))


def test_the_slope_head_needs_depths():
    with pytest.raises(InputError, match="depth"):
        ContextNetwork(heads="level+slope").fit(np.ones((300, 2)), np.ones(300))


def test_a_network_takes_a_training_set_as_it_is_and_the_target_by_both_names():
    X, y, depth, *_ = shop(300)
    rows = TrainingSet(
        ids=np.arange(300), X=named(X), log_full_price=y, depth=depth, depth_derived=np.zeros(300, np.bool_)
    )
    whole, by_hand, other = (ContextNetwork(heads="level+slope", **QUICK) for _ in range(3))
    whole.fit(rows)
    by_hand.fit(named(X), y, depth)
    other.fit(named(X), depth=depth, log_basket=y)
    assert whole.transform(named(X)).tolist() == by_hand.transform(named(X)).tolist()
    assert other.transform(named(X)).tolist() == by_hand.transform(named(X)).tolist()
    with pytest.raises(InputError, match="brings its own"):
        whole.fit(rows, y)
    with pytest.raises(InputError, match="one of the two names"):
        whole.fit(named(X), y, depth, log_basket=y)


def test_contexts_come_as_frames_where_set_output_says_so():
    X, y, *_ = shop(200)
    network = ContextNetwork(heads="level", **QUICK).fit(named(X), y)
    plain = network.transform(X)
    rows = named(X).to_pandas().set_index(pd.Index(np.arange(200) + 7))
    frame = network.set_output(transform="pandas").transform(rows)
    assert frame.columns.tolist() == network.get_feature_names_out().tolist()
    assert (frame.index[0], frame.to_numpy().tolist()) == (7, plain.tolist())
    assert network.predict(X).shape == (200,)
    assert network.set_output(transform="default").transform(X).tolist() == plain.tolist()
    with pytest.raises(InputError, match="polars"):
        network.set_output(transform="table")
