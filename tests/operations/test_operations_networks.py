"""A new network beside the one in use, on the campaigns of a small shop; and what training does with the verdict."""

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from service_shop import answered

from disco.entrypoints.python import Shop
from disco.features import ContextNetwork
from disco.operations import upkeep
from disco.operations.networks import NetworkComparison, NetworkScore


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop.open(answered(tmp_path_factory.mktemp("networks") / "shop"))
    shop.learn("second", as_of=date(2025, 11, 5))
    return shop


def noise(like: ContextNetwork) -> ContextNetwork:
    """A network of the same features that has learned nothing about anybody."""
    rng = np.random.default_rng(1)
    rows = rng.lognormal(size=(300, like.n_features_in_))
    names = like.feature_names_in_.tolist()
    table = pa.table({name: rows[:, place] for place, name in enumerate(names)})
    return ContextNetwork(heads="level", max_epochs=1, device="cpu").fit(table, rng.normal(4.0, 0.5, 300))


def score(log_loss: float, squared: float | None) -> NetworkScore:
    return NetworkScore(log_loss=log_loss, squared_error=squared, forecast_error=0.05)


def verdict(in_use: NetworkScore, new: NetworkScore) -> str:
    return NetworkComparison.of(["autumn"], [], in_use=in_use, new=new).verdict


def test_the_verdict_weighs_codes_and_baskets_together():
    assert verdict(score(0.4, 0.5), score(0.39, 0.5)) == "better"
    assert verdict(score(0.4, 0.5), score(0.4, 0.52)) == "worse"
    assert verdict(score(0.4, 0.5), score(0.404, 0.496)) == "no clear difference"
    assert verdict(score(0.4, None), score(0.39, 0.5)) == "better"


def test_a_network_that_knows_nothing_is_worse_and_the_same_one_is_no_different(shop: Shop):
    in_use = ContextNetwork.load(shop.folder / shop.settings.context)
    same = shop.against_network_in_use(in_use)
    assert same is not None
    assert same.campaigns == ("second",)
    assert (same.verdict, same.seen, same.in_use) == ("no clear difference", (), same.new)
    assert 0 < same.in_use.forecast_error < 0.5
    found = shop.against_network_in_use(noise(in_use), date(2100, 1, 1))
    assert found is not None
    assert (found.verdict, found.seen) == ("worse", ("second",))
    assert found.in_use == same.in_use
    assert "would have been worse on second" in found.sentence
    assert "which flatters it there" in found.sentence


def test_training_keeps_the_network_in_use_where_it_is_asked_to(shop: Shop):
    file = shop.folder / shop.settings.context
    before = file.read_bytes()
    trained = shop.train(only_better=True, heads="level", max_epochs=1, habits=False, device="cpu")
    assert trained.comparison is not None
    assert (trained.comparison.verdict, trained.written) == ("worse", False)
    assert file.read_bytes() == before


def test_without_campaigns_there_is_nothing_to_compare(tmp_path: Path):
    (tmp_path / "disco.yaml").write_text("data: data\n", encoding="utf-8")
    assert Shop.open(tmp_path).against_network_in_use(ContextNetwork()) is None


def test_the_check_of_a_shop_says_when_training_again_is_worth_it(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    assert not [one for one in shop.check().diagnoses if one.check == "age"]
    monkeypatch.setattr(upkeep, "WORTH_TRAINING", 2)
    (found,) = [one for one in shop.check().diagnoses if one.check == "age"]
    assert found.found.startswith("2 campaigns have matured")
    assert not found.failed
    assert "--only-better" in found.fix
