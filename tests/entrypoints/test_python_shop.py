"""A shop's settings become the belief before any campaign; what does not fit together is refused by name."""

import json
import re
from datetime import UTC, date, datetime
from pathlib import Path

import pandas as pd
import pytest
import yaml

import disco
from disco.adapters.config import ShopSettings
from disco.belief import DistanceToDepth, LinearDepth, OneHotDepth, RadialBasis, SmoothSpline
from disco.entrypoints.python import Shop
from disco.records.errors import InputError, StateError
from disco.store import Store


def configured(folder: Path, **settings: object) -> Shop:
    return Shop(folder, ShopSettings.model_validate(settings))


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ({}, SmoothSpline()),
        ({"kind": "radial_basis"}, RadialBasis()),
        ({"kind": "radial_basis", "centres": [0.1, 0.9], "gamma": [2, 3]}, RadialBasis((0.1, 0.9), gamma=(2.0, 3.0))),
        ({"kind": "linear"}, LinearDepth()),
        ({"kind": "distance", "reference": 0.3}, DistanceToDepth(0.3)),
        ({"kind": "one_hot", "depths": [0.2, 0.4]}, OneHotDepth((0.2, 0.4))),
    ],
)
def test_every_encoding_can_be_chosen(tmp_path: Path, encoding: dict[str, object], expected: object) -> None:
    assert configured(tmp_path, model={"encoding": encoding}).prior().basket.encoding == expected


def test_what_changed_by_default_can_be_set_as_it_was(tmp_path: Path) -> None:
    now, before = Shop.open(tmp_path), Shop.open(tmp_path, exploration=1, habits=False, model={"smearing": False})
    assert (now.settings.exploration, now.settings.habits, now.prior().basket.smearing) == (0.1, True, True)
    assert (before.settings.exploration, before.settings.habits, before.prior().basket.smearing) == (1.0, False, False)
    plan = {
        "campaign": "spring",
        "customers": {"as_of": "2027-03-01"},
        "depths": {0.1: {}},
        "objective": {"revenue_weight": 3},
        "valid": {"from": "2027-03-08", "days": 14},
        "seed": 1,
    }
    assert [shop.read_plan(plan).policy.exploration for shop in (now, before)] == [0.1, 1.0]


def test_scale_forgetting_and_engagement_reach_the_belief(tmp_path: Path) -> None:
    belief = configured(
        tmp_path,
        model={"depth_scale": 0.4, "forgetting": 0.9, "monotone": True},
        engagement={"prior_rate": 0.3, "override": {0.2: 0.15}},
    ).prior()
    assert (belief.basket.depth_scale, belief.basket.forgetting, belief.basket.monotone) == (0.4, 0.9, True)
    assert belief.engagement.rates([0.2, 0.3]).tolist() == [0.15, pytest.approx(0.3)]
    assert (belief.engagement.forgetting, belief.learns_forgetting) == (0.9, False)
    learning = configured(tmp_path, model={"forgetting": "learned"}).prior()
    assert (learning.basket.forgetting, learning.learns_forgetting) == (1.0, True)


@pytest.mark.parametrize(
    ("encoding", "named"),
    [({"gamma": 2}, "gamma"), ({"kind": "linear", "reference": 0.1}, "reference"), ({"kind": "one_hot"}, "depths")],
)
def test_an_option_of_another_encoding_is_refused(tmp_path: Path, encoding: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        configured(tmp_path, model={"encoding": encoding}).prior()


@pytest.mark.parametrize("year", [1899, 9000, 9999])
def test_a_clock_at_the_ends_of_the_calendar_is_named(tmp_path: Path, year: int) -> None:
    shop = Shop.open(tmp_path, now=datetime(year, 12, 31, 23, 59, tzinfo=UTC))
    for ask in (shop.clock.today, shop.results, lambda: shop.create_key(name="x", role="viewer")):
        with pytest.raises(StateError, match=rf"The clock shows {year}-12-31, and only days from 1900 to 8999"):
            ask()


def test_a_missing_network_says_how_to_train_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="disco train context"):
        configured(tmp_path).data.network()


@pytest.mark.parametrize("name", ["absent", "file"])
def test_a_shop_is_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="expected a folder"):
        Shop.open(tmp_path / name)


def test_a_campaigns_life_from_python(shop: Path) -> None:
    """The same use cases as on the command line, with results instead of text."""
    here = disco.Shop.open(shop)
    rehearsed = here.plan(shop / "second.yaml", dry_run=True)
    planned = here.plan(yaml.safe_load((shop / "second.yaml").read_text()))
    assert planned.plan_id == rehearsed.plan_id
    assert (rehearsed.dry_run, planned.dry_run) == (True, False)
    assert len(planned.to_pandas()) == planned.customers
    launched = here.launch(planned.plan_id)
    codes = here.export("second").to_pandas()
    assert len(codes) == launched.codes > 0
    bought = codes.head(30)
    outcomes = pd.DataFrame(
        {
            "event_id": [f"e{row}" for row in range(len(bought))],
            "campaign_id": "second",
            "customer_id": bought["customer_id"],
            "code": bought["code_id"],
            "ordered_at": pd.Timestamp("2025-10-05"),
            "full_price": 40.0,
            "kind": "purchase",
        }
    )
    received = here.ingest("second", outcomes)
    assert (received.received, received.applied) == (30, 30)
    learned = here.learn("second", as_of=date(2025, 11, 4))
    assert learned.campaigns.keys() == {"first", "second"}
    found = here.results("second", as_of=date(2025, 11, 4))
    assert sum(arm.summary.purchasers for arm in found.arms.values()) == 30
    table = found.to_pandas().set_index("group")
    assert table.index.tolist() == ["decided", "control", "holdout"]
    assert table["purchasers"].sum() == 30
    assert table["revenue"].sum() == pytest.approx(found.revenue)
    assert {one.campaign for one in here.results(as_of=date(2025, 11, 4)).campaigns} == {"first", "second"}
    why = here.explain("second", codes["customer_id"][0])
    assert why.code == codes["code_id"][0]
    assert why.words
    assert here.belief().version == learned.version
    assert here.campaigns().to_pandas()["campaign"].tolist() == ["first", "second"]
    back = here.revert(received.batch_id)
    assert (back.purchases_before, back.purchases_after) == (30, 0)
    assert not [check for check in here.doctor().checks if check.failed]
    for result in (planned, launched, received, learned, found, why, back):
        assert len(repr(result)) < 1500
        json.dumps(result.as_dict(), allow_nan=False)


def test_campaigns_to_learn_come_one_by_one_or_in_a_list(shop: Path) -> None:
    here = disco.Shop.open(shop)
    alone, listed = here.learn("first", dry_run=True), here.learn(["first"], dry_run=True)
    assert listed.as_dict() == alone.as_dict()
    for wrong in (7, [7], None, [["first"]]):
        with pytest.raises(InputError, match=r"campaigns: found .*; expected names of campaigns"):
            here.learn(wrong, dry_run=True)  # type: ignore[arg-type]


def test_what_is_no_table_of_outcomes_is_refused_by_name(shop: Path) -> None:
    with pytest.raises(disco.errors.InputError, match="a list; expected a file"):
        disco.Shop.open(shop).ingest("first", [1, 2])  # type: ignore[arg-type]


def test_the_page_on_python_runs(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[2] / "docs" / "python.md"
    program = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    monkeypatch.chdir(shop.parent)
    exec(compile(program, str(page), "exec"), {})


def test_a_held_shop_opens_its_database_once(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    existing = Store.existing
    monkeypatch.setattr(
        Store, "existing", lambda url, *rest, **named: opened.append(url) or existing(url, *rest, **named)
    )
    with disco.Shop.open(shop).held() as held:
        assert held.campaigns().campaigns[0].campaign == "first"
        assert held.plan(shop / "second.yaml", dry_run=True).customers
        assert held.belief().version == 1
        assert len(opened) == 1
    assert disco.Shop.open(shop).campaigns().campaigns
    assert len(opened) == 2


def test_a_shop_that_is_held_gets_its_database(tmp_path: Path) -> None:
    with configured(tmp_path).held() as held:
        assert held.campaigns().campaigns == ()
    assert (tmp_path / "disco.db").is_file()
