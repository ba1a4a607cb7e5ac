"""Who uses a code: what the engagement head learns, from which codes, and what happens without enough of them."""

import datetime as dt
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco import CodesSent
from disco.features import ContextNetwork, training, training_rows, training_set
from disco.features.builder import FeatureRequest
from disco.features.training import EngagementWarning
from disco.features.training_rows import order_rows, read_codes
from disco.features.training_set import late_codes, opened_training, unsent_codes
from disco.records.errors import InputError, SchemaMismatchError, StateError, TableError
from disco.records.maturity import Maturity

QUICK = {"max_epochs": 3, "seed": 1, "hidden": (16,), "dimensions": 4, "device": "cpu"}


def shop(rows: int = 4000, *, seed: int = 0):
    """Orders whose basket follows one direction of the features, and codes whose use follows another."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, 3))
    X = np.exp(z @ rng.normal(size=(3, 7)) * 0.6 + rng.normal(size=(rows, 7)) * 0.2)
    depth = rng.choice([0.1, 0.2, 0.3, 0.4], rows)
    y = 3.8 + 0.5 * z[:, 0] + (1 + 0.5 * z[:, 1]) * (depth - 0.25) + rng.normal(0, 0.4, rows)
    campaign = np.where(rng.random(rows) < 0.5, "spring", "summer")
    logit = -1.0 + 1.2 * z[:, 2] + 2.0 * (depth - 0.25) + np.where(campaign == "spring", 1.0, 0.0)
    used = rng.random(rows) < 1 / (1 + np.exp(-logit))
    return X, y, depth, CodesSent(X, depth, used, campaign), z[:, 2]


@pytest.fixture(scope="module")
def trained():
    X, y, depth, codes, _ = shop()
    return ContextNetwork(max_epochs=20, seed=3, device="cpu").fit(X, y, depth, codes=codes)


def test_the_score_orders_customers_by_their_use_of_codes(trained):
    X, _, _, _, truth = shop()
    score = trained.engagement_score(X)
    assert np.corrcoef(score, truth)[0, 1] > 0.85
    slope = np.polyfit(truth, score, 1)[0]
    assert 0.8 < slope < 1.6  # on the logit's scale: 1.2 per unit


def test_the_score_is_centred_over_the_training_codes_and_the_bins_hold_equally_many(trained):
    scores = trained.engagement_score(shop()[0])
    assert abs(scores.mean()) < 0.02
    places = trained.head_.bins.places(scores)
    assert trained.head_.bins.count == 32
    assert np.bincount(places, minlength=33)[32] == 0
    assert np.bincount(places, minlength=33)[:32] == pytest.approx(np.full(32, 4000 / 32), rel=0.35)


def test_the_score_is_a_function_of_the_context_alone(trained):
    X = shop(300, seed=8)[0]
    assert trained.engagement_score(X).tobytes() == trained.head_.scores(trained.transform(X)).tobytes()
    assert (trained.engagement_score(X) * 65536 % 1 == 0).all()


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    X, y, depth, codes, _ = shop(1500)
    first, second = (ContextNetwork(**QUICK).fit(X, y, depth, codes=codes) for _ in range(2))
    assert first.embedding_.weights.tobytes() == second.embedding_.weights.tobytes()
    assert first.head_ == second.head_
    assert first.validation_losses_ == second.validation_losses_
    assert first.validation_log_losses_ == second.validation_log_losses_
    other = ContextNetwork(**{**QUICK, "seed": 2}).fit(X, y, depth, codes=codes)
    assert other.head_ != first.head_


def test_other_heads_do_not_look_at_codes():
    X, y, depth, codes, _ = shop(800)
    for heads in ("level", "level+slope"):
        with_codes = ContextNetwork(heads=heads, **QUICK).fit(X, y, depth, codes=codes)
        without = ContextNetwork(heads=heads, **QUICK).fit(X, y, depth)
        assert with_codes.embedding_.weights.tobytes() == without.embedding_.weights.tobytes()
        assert with_codes.head_ is None
        with pytest.raises(StateError, match="no engagement head"):
            with_codes.engagement_score(X)


def test_validation_losses_are_squared_errors_and_the_log_losses_lie_beside_them(trained):
    assert len(trained.validation_losses_) == len(trained.validation_log_losses_) > 0
    assert min(trained.validation_losses_) == pytest.approx(0.16, abs=0.05)  # the noise of ln F, 0.4²
    used = shop()[3].used.mean()
    base = -(used * np.log(used) + (1 - used) * np.log(1 - used))
    assert min(trained.validation_log_losses_) < 0.95 * base


def test_without_codes_of_customers_kept_out_there_is_no_log_loss():
    X, y, depth, codes, _ = shop(1500)
    network = ContextNetwork(**QUICK, validation_share=0.02)
    kept_out = read_codes(
        codes, tuple(f"x{place}" for place in range(7)), schema="", validation_share=0.02
    ).rows.validation
    seen = ~(X[:, None] == kept_out.features).all(axis=2).any(axis=1)
    few = CodesSent(X[seen], codes.depth[seen], codes.used[seen], codes.campaign[seen])
    network.fit(X, y, depth, codes=few)
    assert network.head_ is not None
    assert len(network.validation_losses_) == 3
    assert network.validation_log_losses_ == ()


def test_weights_are_averaged_over_the_steps_and_the_steps_go_on_from_their_own():
    import torch

    weights = torch.nn.Parameter(torch.zeros(2))
    average = training._Average([weights])
    for step in range(1, 20_001):
        with torch.no_grad():
            weights.fill_(step)
        average.add()
        if step in (1000, 20_000):
            now = step - 91 if step == 1000 else step - 499  # steps since the middle of the average
            with average.in_place():
                assert weights.tolist() == pytest.approx([now, now], abs=1)
            assert weights.tolist() == [step, step]


def test_a_part_that_is_not_finite_is_refused():
    right = {name: np.ones(3) for name in ("weights", "level", "slope", "engagement")}
    training.Trained(**right, validation_losses=(1.0,), validation_log_losses=())
    for name in right:
        wrong = {**right, name: np.array([1.0, np.nan, 1.0])}
        with pytest.raises(InputError, match="not finite"):
            training.Trained(**wrong, validation_losses=(1.0,), validation_log_losses=())


def test_without_codes_it_warns_and_gives_the_network_of_level_and_slope():
    X, y, depth, _, _ = shop(800)
    with pytest.warns(EngagementWarning, match=r'no codes, so .*heads="level\+slope"'):
        network = ContextNetwork(**QUICK).fit(X, y, depth)
    same = ContextNetwork(heads="level+slope", **QUICK).fit(X, y, depth)
    assert network.embedding_.heads == "level+slope"
    assert network.embedding_.weights.tobytes() == same.embedding_.weights.tobytes()
    with pytest.warns(EngagementWarning, match='heads="level"'):
        level = ContextNetwork(**QUICK).fit(X, y)
    assert (
        level.embedding_.weights.tobytes()
        == ContextNetwork(heads="level", **QUICK).fit(X, y).embedding_.weights.tobytes()
    )


@pytest.mark.parametrize(("rows", "used"), [(499, 100), (900, 49), (900, 851)])
def test_too_few_codes_give_a_warning_with_what_is_needed(rows, used):
    X, y, depth, _, _ = shop(900)
    codes = CodesSent(X[:rows], depth[:rows], np.arange(rows) < used, np.full(rows, "a"))
    with pytest.warns(EngagementWarning, match=f"{rows} matured codes .*{used} of them used.*at least 500"):
        assert ContextNetwork(**QUICK).fit(X, y, depth, codes=codes).head_ is None


def test_codes_without_the_depths_of_the_orders_are_refused():
    X, y, _, codes, _ = shop(800)
    with pytest.raises(InputError, match="depth of each order"):
        ContextNetwork(**QUICK).fit(X, y, codes=codes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"used": np.ones(6, bool)}, "only codes that were used"),
        ({"used": np.zeros(6, bool)}, "no code that was used"),
        ({"used": np.array([1, 0, 1, 0, 1, 0])}, "Booleans"),
        ({"used": [True, False, None, True, False, True]}, "null"),
        ({"used": pa.array([True, False, None, True, False, True])}, "null"),
        ({"used": np.ones(5, bool)}, "6 Booleans"),
        ({"depth": [0.1, 0.2, np.nan, 0.1, 0.1, 0.1]}, "depth, row 3"),
        ({"depth": [0.1, 0.2, 1.0, 0.1, 0.1, 0.1]}, "depth, row 3"),
        ({"depth": [0.1, 0.2]}, "depth"),
        ({"campaign": ["a", "a", None, "b", "b", "b"]}, "campaign, row 3"),
        ({"campaign": ["a"]}, "campaign"),
        ({"X": np.full((6, 2), np.inf)}, "finite"),
        ({"X": np.full((6, 2), "a")}, "numbers"),
    ],
)
def test_codes_that_are_no_codes_are_refused_by_name(change, message):
    right = {
        "X": np.ones((6, 2)),
        "depth": np.full(6, 0.2),
        "used": np.array([True, False, True, False, True, False]),
        "campaign": ["a", "a", "a", "b", "b", "b"],
    }
    CodesSent(**right)
    with pytest.raises(InputError, match=message):
        CodesSent(**{**right, **change})


def test_codes_need_the_columns_of_the_orders():
    X, y, depth, codes, _ = shop(800)
    names = [f"f{place}" for place in range(7)]
    table = pa.table(dict(zip(names, X.T, strict=True)))
    named = ContextNetwork(**QUICK).fit(
        table, y, depth, codes=CodesSent(table.select(names[::-1]), depth, codes.used, codes.campaign)
    )
    plain = ContextNetwork(**QUICK).fit(X, y, depth, codes=codes)
    assert named.head_ == plain.head_  # found by name, in any order
    with pytest.raises(SchemaMismatchError, match="f0"):
        ContextNetwork(**QUICK).fit(
            table, y, depth, codes=CodesSent(table.drop_columns(["f0"]), depth, codes.used, codes.campaign)
        )
    with pytest.raises(SchemaMismatchError, match="7 columns"):
        ContextNetwork(**QUICK).fit(X, y, depth, codes=CodesSent(X[:, 1:], depth, codes.used, codes.campaign))
    with pytest.raises(InputError, match="CodesSent"):
        ContextNetwork(**QUICK).fit(X, y, depth, codes=[1, 2])


def test_customers_kept_out_are_the_same_for_orders_and_codes():
    X, _, depth, codes, _ = shop(900)
    names = tuple(f"x{place}" for place in range(7))
    rows = read_codes(codes, names, schema="", validation_share=0.3)
    kept_out = {row.tobytes() for row in rows.rows.validation.features}
    trained_on = {row.tobytes() for row in rows.rows.pieces[0]().features}
    assert 0.2 < len(kept_out) / 900 < 0.4
    assert not kept_out & trained_on
    orders = order_rows(X, np.ones(900), depth, validation_share=0.3).rows
    assert not kept_out & {row.tobytes() for row in orders.pieces[0]().features}


def test_small_campaigns_share_a_constant_and_large_ones_begin_at_their_own_rate():
    rng = np.random.default_rng(2)
    campaign = np.array(["large"] * 400 + [f"small {place % 20}" for place in range(300)])
    used = np.concatenate([np.arange(400) < 200, rng.random(300) < 0.1])
    codes = CodesSent(rng.normal(size=(700, 2)), np.full(700, 0.2), used, campaign)
    rows = read_codes(codes, ("x0", "x1"), schema="", validation_share=0.0)
    assert rows.constants.size == 2
    assert rows.constants[1] == pytest.approx(0.0, abs=1e-9)
    small = used[400:].sum()
    assert rows.constants[0] == pytest.approx(np.log((small + 1) / (301 - small)))
    assert set(rows.rows.pieces[0]().campaign[:400].tolist()) == {1}
    assert set(rows.rows.pieces[0]().campaign[400:].tolist()) == {0}


def test_codes_are_read_from_parquet_in_memory_and_streamed_alike(tmp_path, monkeypatch):
    X, y, depth, codes, _ = shop(2000)
    X[::9, 0] = 0.0  # no purchase in the year: such codes teach nothing, and their campaigns' constants neither
    names = ["orders_365d", *(f"f{place}" for place in range(1, 7))]
    table = pa.table(dict(zip(names, X.T, strict=True)))
    orders = table.append_column("log_full_price", pa.array(y)).append_column("depth", pa.array(depth))
    pq.write_table(orders, tmp_path / "rows.parquet")
    sent = table.append_column("depth", pa.array(depth)).append_column("code_used", pa.array(codes.used))
    sent = sent.append_column("code_campaign", pa.array(codes.campaign.tolist()))
    pq.write_table(sent, tmp_path / "codes.parquet", row_group_size=500)
    in_memory = ContextNetwork(**QUICK).fit(tmp_path / "rows.parquet", codes=tmp_path / "codes.parquet")
    assert (
        in_memory.head_
        == ContextNetwork(**QUICK).fit(table, y, depth, codes=CodesSent(table, depth, codes.used, codes.campaign)).head_
    )
    monkeypatch.setattr(training_rows, "IN_MEMORY_ROWS", 100)
    streamed = read_codes(tmp_path / "codes.parquet", tuple(names), schema="", validation_share=0.15)
    monkeypatch.undo()
    whole = read_codes(tmp_path / "codes.parquet", tuple(names), schema="", validation_share=0.15)
    assert len(streamed.rows.pieces) == 4
    assert not streamed.rows.in_memory
    assert (streamed.sent, streamed.used) == (whole.sent, whole.used)
    assert streamed.constants.tobytes() == whole.constants.tobytes()
    assert streamed.rows.validation.features.tobytes() == whole.rows.validation.features.tobytes()
    rows = np.concatenate([piece().features for piece in streamed.rows.pieces])
    assert rows.tobytes() == whole.rows.pieces[0]().features.tobytes()
    monkeypatch.setattr(training_rows, "IN_MEMORY_ROWS", 100)
    network = ContextNetwork(**QUICK).fit(tmp_path / "rows.parquet", codes=str(tmp_path / "codes.parquet"))
    assert network.head_ is not None
    pq.write_table(sent.drop_columns(["code_used"]), tmp_path / "wrong.parquet")
    with pytest.raises(InputError, match="a column code_used"):
        ContextNetwork(**QUICK).fit(tmp_path / "rows.parquet", codes=tmp_path / "wrong.parquet")


# ---- from tables ----------------------------------------------------------------------------------------------------

START, END = dt.date(2025, 10, 1), dt.date(2025, 12, 1)


@pytest.fixture(scope="module")
def tables(make_tables):
    return make_tables(customers=400, seed=6, start=dt.date(2025, 1, 1), days=350)


def expected_codes(tables, *, days: int = 7, end: dt.date = END):
    """By hand: codes of the window, of customers with an order in the year before, that have had their days."""
    orders, codes = tables["orders"].to_pylist(), tables["codes"].to_pylist()
    first = dt.datetime.combine(START, dt.time())
    known = {row["customer_id"] for row in orders if first - dt.timedelta(days=365) <= row["ordered_at"] < first}
    moments = [row["ordered_at"] for row in orders] + [row["sent_at"] for row in codes]
    moments += [row["redeemed_at"] for row in codes if row["redeemed_at"]]
    known_until = dt.datetime.combine(max(moments).date() + dt.timedelta(days=1), dt.time())
    found = []
    for row in sorted(codes, key=lambda row: (row["sent_at"], row["code_id"])):
        in_window = first <= row["sent_at"] < dt.datetime.combine(end, dt.time())
        if in_window and row["customer_id"] in known and row["sent_at"] < known_until - dt.timedelta(days=days):
            used = row["redeemed_at"] is not None and row["redeemed_at"] < row["sent_at"] + dt.timedelta(days=days)
            found.append((row["customer_id"], row["depth"], used, row["campaign_id"]))
    return found


@pytest.mark.parametrize("days", [35, 5])
def test_codes_of_the_window_that_have_matured(tables, memory_tables, days):
    rows = training_set(memory_tables(tables), window_start=START, window_end=END, maturity=Maturity(days))
    expected = expected_codes(tables, days=days)
    assert len(expected) > 100
    assert len(rows.codes) == len(expected)
    assert rows.codes.used.tolist() == [used for _, _, used, _ in expected]
    assert rows.codes.depth == pytest.approx([depth for _, depth, _, _ in expected])
    assert rows.codes.campaign.tolist() == [campaign for *_, campaign in expected]
    assert rows.codes.X.column_names == rows.X.column_names
    assert rows.codes.X.schema.metadata == rows.X.schema.metadata


def test_codes_that_have_not_matured_by_the_newest_day_are_left_out(tables, memory_tables):
    late = dt.date(2025, 12, 31)
    rows = training_set(memory_tables(tables), window_start=START, window_end=late, maturity=Maturity(35))
    assert len(rows.codes) == len(expected_codes(tables, days=35, end=late))
    sent = [row["sent_at"] for row in tables["codes"].to_pylist()]
    assert len(rows.codes) < sum(moment >= dt.datetime.combine(START, dt.time()) for moment in sent)


def test_codes_of_the_shops_own_campaigns_mature_when_their_campaign_has_ended(tables, memory_tables):
    """Three labels: a campaign of the shop, a recalled one, and one of another system."""
    codes = tables["codes"]
    labels = [("it's spring", "recalled", "elsewhere")[row % 3] for row in range(codes.num_rows)]
    place = codes.schema.get_field_index("campaign_id")
    named = {**tables, "codes": codes.set_column(place, "campaign_id", pa.array(labels))}
    end = dt.date(2025, 11, 20)
    maturity = Maturity(own={"it's spring": end, "recalled": None, "of last year": END})
    rows = training_set(memory_tables(named), window_start=START, window_end=END, maturity=maturity)
    since = dt.datetime.combine(START, dt.time())
    orders = tables["orders"].to_pylist()
    known = {row["customer_id"] for row in orders if since - dt.timedelta(days=365) <= row["ordered_at"] < since}
    expected = []
    for row in sorted(named["codes"].to_pylist(), key=lambda row: (row["sent_at"], row["code_id"])):
        label, sent = row["campaign_id"], row["sent_at"]
        is_own = label == "it's spring" and sent.date() < end
        is_used = row["redeemed_at"] is not None
        until = dt.datetime.combine(end, dt.time()) if is_own else sent + dt.timedelta(days=7)
        if START <= sent.date() < END and row["customer_id"] in known and label != "recalled":
            expected.append((label, is_used and row["redeemed_at"] < until))
    assert list(zip(rows.codes.campaign.tolist(), rows.codes.used.tolist(), strict=True)) == expected
    assert {label for label, _ in expected} == {"it's spring", "elsewhere"}
    not_over = Maturity(own={"it's spring": dt.date(2026, 6, 1)})  # nobody knows yet who uses these
    rows = training_set(memory_tables(named), window_start=START, window_end=END, maturity=not_over)
    assert "it's spring" not in set(rows.codes.campaign.tolist())


def test_a_number_of_days_stands_for_both_rules(tables, memory_tables):
    """The setting gives the rows of the rule before, whichever campaigns the shop knows."""
    label = tables["codes"].to_pylist()[-1]["campaign_id"]
    maturity = Maturity(35, own={label: START})
    assert maturity == Maturity(35)
    rows = training_set(memory_tables(tables), window_start=START, window_end=END, maturity=maturity)
    assert rows.codes.used.tolist() == [used for _, _, used, _ in expected_codes(tables, days=35)]
    with pytest.raises(InputError, match="maturity_days"):
        Maturity(0)


def test_codes_that_were_used_after_they_counted_as_unused_are_said(tables, memory_tables):
    with opened_training(memory_tables(tables), FeatureRequest(as_of=START), window_end=END) as training:
        used, late = training.late_use(Maturity(1))
    moments = [(row["sent_at"], row["redeemed_at"]) for row in tables["codes"].to_pylist() if row["redeemed_at"]]
    in_window = [(sent, done) for sent, done in moments if START <= sent.date() < END]
    assert (used, late) == (len(in_window), sum(done >= sent + dt.timedelta(days=1) for sent, done in in_window))
    assert late_codes(0, 0, Maturity()) == ()
    assert late_codes(100, 5, Maturity()) == ()
    (note,) = late_codes(100, 6, Maturity())
    assert "6 of the 100 codes" in note
    assert "later than 7 days" in note
    assert "maturity_days" in note


def test_a_shop_without_codes_has_none_to_learn_from(tables, memory_tables):
    without = {name: table for name, table in tables.items() if name != "codes"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert training_set(memory_tables(without), window_start=START, window_end=END).codes is None
    empty = {**tables, "codes": tables["codes"].slice(0, 0)}
    assert training_set(memory_tables(empty), window_start=START, window_end=END).codes is None
    with opened_training(memory_tables(without), FeatureRequest(as_of=START), window_end=END) as training:
        schema, batches = training.codes()
        assert pa.Table.from_batches(batches, schema).num_rows == 0
        assert {"code_used", "code_campaign", "orders_365d"} <= set(schema.names)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("redeemed_at", dt.datetime(2025, 1, 2), "redeemed_at"),  # before it was sent
        ("sent_at", None, "sent_at"),
        ("depth", 1.5, "depth"),
        ("campaign_id", None, "campaign_id"),
    ],
)
def test_codes_with_impossible_rows_are_refused(tables, memory_tables, column, value, message):
    rows = tables["codes"].to_pylist()
    place = next(place for place, row in enumerate(rows) if START <= row["sent_at"].date() < END)
    rows[place][column] = value
    broken = {**tables, "codes": pa.Table.from_pylist(rows, schema=tables["codes"].schema)}
    with pytest.raises((InputError, TableError), match=message):
        training_set(memory_tables(broken), window_start=START, window_end=END)


def test_used_codes_that_were_never_sent_are_said():
    assert unsent_codes(0, 0) == ()
    assert unsent_codes(1000, 50) == ()
    (note,) = unsent_codes(1000, 51)
    assert "51 of the 1,000 orders with a code" in note
    assert "row for every code that was sent" in note
