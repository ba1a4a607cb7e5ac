"""Habits beside the learned context: straight lines of their features, mixed into the score by codes kept out."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from disco import CodesSent
from disco.features import ContextNetwork, habits
from disco.features.habits import BASKET, RATE, RECEIVED, REDEEMED, UNITS, mixture
from disco.features.training import EngagementWarning
from disco.features.training_rows import RawRows
from disco.records.errors import InputError

QUICK = {"max_epochs": 2, "seed": 1, "hidden": (8,), "dimensions": 3, "device": "cpu"}


def customers(rows: int = 1200, *, seed: int = 0) -> tuple[pa.Table, np.ndarray, np.ndarray, np.ndarray]:
    """Features of customers with a taste for codes of their own; ln F, depths, and whether a code was used."""
    rng = np.random.default_rng(seed)
    taste, spend = rng.normal(-1.5, 1.0, rows), rng.normal(4.0, 0.4, rows)
    received = rng.integers(1, 40, rows)
    redeemed = rng.binomial(received, 1 / (1 + np.exp(-taste)))
    features = pa.table(
        {
            "orders_365d": rng.integers(1, 9, rows).astype(float),
            RECEIVED: received.astype(float),
            REDEEMED: redeemed.astype(float),
            RATE: redeemed / received,
            BASKET: np.exp(spend + rng.normal(0, 0.2, rows)),
        }
    )
    depth = rng.choice([0.1, 0.2, 0.3], rows)
    return features, spend + rng.normal(0, 0.5, rows), depth, rng.random(rows) < 1 / (1 + np.exp(-taste))


def trained(*, with_codes: bool = True, **more: object) -> ContextNetwork:
    features, log_basket, depth, used = customers()
    codes = CodesSent(features, depth, used, np.full(len(used), "spring")) if with_codes else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ContextNetwork(**{**QUICK, "habits": True, **more}).fit(features, log_basket, depth, codes=codes)


def test_the_last_two_numbers_are_the_habits_and_the_others_stay(tmp_path: Path):
    features = customers(300, seed=5)[0]
    with_habits, without = trained(), trained(habits=False)
    context = with_habits.transform(features)
    assert context.shape == (300, 3 + UNITS)
    assert context[:, :3].tolist() == without.transform(features).tolist()
    received, redeemed, basket = (features[name].to_numpy() for name in (RECEIVED, REDEEMED, BASKET))
    assert np.corrcoef(context[:, 3], np.log((redeemed + 1) / (received + 6)))[0, 1] > 0.95
    assert np.corrcoef(context[:, 4], np.log(basket))[0, 1] > 0.95
    assert np.abs(context[:, 3:].mean(axis=0)).max() < 0.15
    assert np.abs(context[:, 3:].std(axis=0) - 1).max() < 0.2


def test_the_score_is_a_mixture_whose_weights_are_near_the_geometric_mean():
    network, alone = trained(), trained(habits=False)
    weights, learned = network.head_.weights, alone.head_.weights
    share = weights[1:4] / learned[1:4]
    assert share == pytest.approx(np.full(3, share[0]))
    assert 0.2 < share[0] < 0.8
    assert weights[4] > 0
    assert weights[5] == 0.0


def test_many_codes_decide_the_mixture_themselves(monkeypatch: pytest.MonkeyPatch):
    """Where the learned score is noise, codes take its weight away; a wide prior needs fewer of them."""
    features, _, depth, used = customers(4000, seed=3)
    received, redeemed = (features[name].to_numpy() for name in (RECEIVED, REDEEMED))
    noise = np.random.default_rng(0).normal(size=len(used))
    scores = np.column_stack((noise, np.log((redeemed + 1) / (received + 6))))
    codes = RawRows(scores, used.astype(float), depth, np.zeros(len(used), int))
    before = mixture(scores[:20], codes.at(slice(0, 20)), np.array([-1.5]))
    assert before == pytest.approx((0.5, 0.5), abs=0.15)
    monkeypatch.setattr(habits, "_PRIOR_SD", 10.0)
    known, usual = mixture(scores, codes, np.array([-1.5]))
    assert abs(known) < 0.15
    assert usual > 0.6
    assert mixture(scores[:0], codes.at(slice(0, 0)), np.array([-1.5])) == (0.5, 0.5)


def test_a_network_with_habits_comes_back_from_its_file_and_without_them_the_file_is_as_before(tmp_path: Path):
    features = customers(50, seed=7)[0]
    network = trained()
    network.save(tmp_path / "network")
    again = ContextNetwork.load(tmp_path / "network")
    assert (again.habits, again.hidden, again.dimensions) == (True, (8,), 3)
    assert again.transform(features).tolist() == network.transform(features).tolist()
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "network").read_bytes()
    trained(habits=False).save(tmp_path / "plain")
    assert b"habit" not in (tmp_path / "plain").read_bytes()


def test_without_enough_codes_the_score_is_the_habit_alone():
    features, log_basket, depth, _ = customers()
    network = ContextNetwork(**QUICK, habits=True)
    with pytest.warns(EngagementWarning, match="codes that each customer used before"):
        network.fit(features, log_basket, depth)
    assert np.flatnonzero(network.head_.weights).tolist() == [0, 4]
    assert trained(with_codes=False, heads="level+slope").head_ is None
    assert trained(with_codes=False, habits=False).head_ is None


def test_where_nobody_received_codes_before_the_learned_score_keeps_its_scale():
    features, log_basket, depth, used = customers()
    zeros = pa.array(np.zeros(features.num_rows))
    for name in (RECEIVED, REDEEMED, RATE):
        features = features.set_column(features.schema.get_field_index(name), name, zeros)
    codes = CodesSent(features, depth, used, np.full(len(used), "spring"))
    heads = [
        ContextNetwork(**QUICK, habits=habits).fit(features, log_basket, depth, codes=codes).head_
        for habits in (True, False)
    ]
    assert heads[0].weights[1:4].tolist() == heads[1].weights[1:4].tolist()
    assert heads[0].weights[4:].tolist() == [0.0, 0.0]


def test_large_shops_and_features_without_habits_train_as_before(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("disco.features.training.FEW_ROWS", 500)
    assert trained().transform(customers(5)[0]).shape == (5, 3)
    features, log_basket, depth, _ = customers()
    other = features.drop_columns([RATE])
    network = ContextNetwork(**QUICK, heads="level+slope", habits=True).fit(other, log_basket, depth)
    assert network.embedding_.habits == 0


def test_habits_is_true_or_false():
    with pytest.raises(InputError, match="habits"):
        ContextNetwork(habits=1).check_parameters()
