"""A lasting holdout: the same people in every campaign, by the shop's secret and their ids alone."""

import json
from dataclasses import replace
from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals
from scipy.stats import binom
from small_life import NETWORK, SECRET, FixedClock, nothing_known, people
from stores import on_both_databases, open_store

from disco.adapters.shop_data import FolderShopData
from disco.operations.arms import arms_of, split
from disco.operations.contexts import FeatureCache
from disco.operations.explain import explain
from disco.operations.launch import launch, refuse_unproved
from disco.operations.plan import keep, load, plan_campaign, plan_id
from disco.operations.results import read_out
from disco.operations.review import content_of, new_plan
from disco.operations.site import Site
from disco.records.decisions import Arm
from disco.records.errors import StateError
from disco.records.plan import Plan, read_plan

IDS = np.arange(20_000)
KEY, OTHER = b"k" * 32, b"o" * 32


def held(ids=IDS, *, holdout=0.05, secret=KEY, **more):
    arms = split(ids, **{"control": 0.2, "holdout": holdout, "seed": 1, "campaign": "c", "secret": secret, **more})
    assert (sum(flags.astype(int) for flags in arms.values()) == 1).all()
    return arms[Arm.HOLDOUT]


def within(count, customers, share):
    low, high = binom.ppf([0.0005, 0.9995], customers, share)
    return low <= count <= high


def plan(campaign="drill", *, lasting=True, share="20%", **more):
    content = {
        "campaign": campaign,
        "customers": {"as_of": "2027-03-01"},
        "depths": {0.1: {"at_most": "30%"}, 0.3: {"at_most": "20%"}},
        "objective": {"revenue_weight": 3},
        "policy": {"name": "random"},
        "control": {"share": "10%"},
        "holdout": {"share": share, "lasting": lasting},
        "reserve": {"share": "20%"},
        "valid": {"from": "2027-03-08", "days": 14},
        "seed": 4,
    }
    return read_plan({**content, **more})


def planned(store, wanted, customers=range(300)):
    return plan_campaign(
        store,
        wanted,
        people(customers),
        belief=nothing_known(),
        version=None,
        network=NETWORK,
        inputs={},
        clock=FixedClock(),
    )


def held_ids(decisions):
    return set(decisions.filter(pa.compute.equal(decisions["arm"], "holdout"))["customer_id"].to_pylist())


def secret_of(store):
    with store.reading() as transaction:
        return transaction.decisions.holdout_secret()


# ---- the draw


def test_the_same_people_are_held_out_whatever_the_seed_the_campaign_and_the_crowd():
    first = held()
    assert within(first.sum(), IDS.size, 0.05)
    for other in (held(seed=2), held(campaign="d"), held(control=0.0), held(list(map(str, IDS)))):
        assert np.array_equal(first, other)
    some = IDS[::7]
    assert np.array_equal(held(some), first[some])


def test_a_larger_share_holds_everybody_of_a_smaller_one():
    shares = [held(holdout=share) for share in (0.01, 0.03, 0.05, 0.5)]
    for smaller, larger in pairwise(shares):
        assert not (smaller & ~larger).any()
        assert smaller.sum() < larger.sum()


def test_control_is_its_share_of_everybody_and_drawn_anew_for_every_campaign():
    draws = {"control": 0.2, "holdout": 0.05, "seed": 1, "secret": KEY}
    first, other = (split(IDS, campaign=name, **draws)[Arm.CONTROL] for name in ("c", "d"))
    assert within(first.sum(), IDS.size, 0.2)
    rest = IDS.size - held().sum()
    assert within((first & other).sum(), rest, (0.2 / 0.95) ** 2)


def test_another_secret_holds_other_people():
    assert within((held() & held(secret=OTHER)).sum(), IDS.size, 0.05**2)


def test_who_is_held_out_of_one_purpose_says_nothing_about_the_campaigns_own_draw():
    drawn_anew = split(IDS, control=0.2, holdout=0.05, seed=1, campaign="c")[Arm.HOLDOUT]
    assert within((held() & drawn_anew).sum(), IDS.size, 0.05**2)


def test_a_lasting_holdout_is_never_drawn_without_the_secret():
    with pytest.raises(StateError, match="without the shop's secret"):
        arms_of(plan(), IDS, secret=None)


# ---- the plan


def test_a_plan_says_it_or_the_shop_does():
    content = json.loads(plan().model_dump_json(by_alias=True))
    assert content["holdout"] == {"share": 0.2, "lasting": True}
    del content["holdout"]["lasting"]
    assert not read_plan(content).holdout.lasting
    assert read_plan(content, lasting_holdout=True).holdout.lasting
    explicit = {**content, "holdout": {"share": 0.2, "lasting": False}}
    assert not read_plan(explicit, lasting_holdout=True).holdout.lasting
    assert not read_plan({**content, "holdout": {}}, lasting_holdout=True).holdout.lasting  # nobody is held out


def test_a_copy_of_a_plan_says_which_of_the_two_it_is():
    for lasting in (True, False):
        copied = content_of(plan(lasting=lasting))
        assert copied["holdout"]["lasting"] is lasting
        assert read_plan(copied, lasting_holdout=True) == plan(lasting=lasting)


@pytest.mark.parametrize("lasting", [True, False])
def test_a_new_plan_leaves_it_to_the_shop_unless_the_last_campaign_was_lasting(shop, tmp_path, lasting):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "orders.csv").write_text(
        "order_id,customer_id,ordered_at,full_price\n1,1,2027-02-01T12:00:00,20.00\n"
    )
    data = FolderShopData(folder=tmp_path, place=str(tmp_path / "data"), queries=None, network_file=tmp_path / "x")
    launch(shop.store, planned(shop.store, plan(lasting=lasting)), clock=FixedClock(), secret=SECRET)
    cache = FeatureCache(folder=tmp_path / "features")
    site = Site(store=shop.store, data=data, clock=FixedClock(), prior=shop.knowledge(), cache=cache)
    content = new_plan(site, campaign="next")
    assert content["holdout"]["share"] == 0.2
    assert read_plan(content, lasting_holdout=True).holdout.lasting
    assert read_plan(content).holdout.lasting is lasting


def test_plans_without_the_key_keep_their_bytes():
    text = plan(lasting=False).model_dump_json(by_alias=True)
    assert "lasting" not in text
    assert Plan.model_validate_json(text).model_dump_json(by_alias=True) == text
    assert plan_id(plan(lasting=False), {"customers": "x"}) == "53630dc5af0fa8c9"  # as before there was such a key


# ---- a campaign's life


@on_both_databases
def test_two_campaigns_and_late_arrivals_hold_out_the_same_people(store_url):
    store = open_store(store_url)
    secret = secret_of(store)
    first = launch(store, planned(store, plan()), clock=FixedClock(), secret=SECRET)
    other = plan("other", seed=9, share="30%", control={"share": "40%"})
    second = launch(store, planned(store, other, range(100, 400)), clock=FixedClock(), secret=SECRET)
    both = set(range(100, 300))
    assert held_ids(first.decisions) & both <= held_ids(second.decisions)
    expected = held(people(range(100, 400)).ids, holdout=0.3, secret=secret)
    assert held_ids(second.decisions) == set((np.flatnonzero(expected) + 100).tolist())

    late = people(range(300, 330))
    arrived = decide_late_arrivals(
        store, "drill", late, network=NETWORK, prior=nothing_known(), clock=FixedClock(), secret=SECRET
    )
    assert held_ids(arrived) == set((np.flatnonzero(held(late.ids, holdout=0.2, secret=secret)) + 300).tolist())
    one = str(next(iter(held_ids(first.decisions))))
    words = " ".join(explain(store, "drill", one, prior=nothing_known()).reasons)
    assert "lasting holdout, the same people in every campaign" in words


def test_both_databases_draw_the_same_under_one_secret(tmp_path, new_postgres_url):
    stores = [open_store(url) for url in (f"sqlite:///{tmp_path / 'one.db'}", new_postgres_url())]
    assert len({secret_of(store) for store in stores}) == 2  # two shops hold out different people
    drawn = [held_ids(planned(store, plan()).decisions) for store in stores]
    assert drawn[0] != drawn[1]
    for store, found in zip(stores, drawn, strict=True):
        assert found == set(np.flatnonzero(held(IDS[:300], holdout=0.2, secret=secret_of(store))).tolist())


def test_the_plan_names_its_draw_and_a_launch_proves_it(shop, tmp_path):
    store = shop.store
    made = planned(store, plan())
    text = made.record().summary.to_json() + json.dumps(dict(made.inputs))
    assert secret_of(store).hex() not in text
    keep(store, made)
    read = load(store, made.plan_id)
    refuse_unproved(read, customers=300, secret=secret_of(store))
    with pytest.raises(StateError, match="another group than their own"):
        refuse_unproved(read, customers=300, secret=OTHER)

    elsewhere = open_store(f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises(StateError, match="these changed since it was decided: secret of the lasting holdout"):
        launch(elsewhere, made, clock=FixedClock(), secret=SECRET)
    forged = replace(made, inputs={**made.inputs, "holdout": planned(elsewhere, plan()).inputs["holdout"]})
    with pytest.raises(StateError, match="another group than their own"):
        launch(elsewhere, forged, clock=FixedClock(), secret=SECRET)
    assert launch(store, read, clock=FixedClock(), secret=SECRET).customers == 300


@pytest.mark.parametrize("control", ["20%", "0%"])
def test_spend_that_earlier_codes_brought_does_not_adjust_the_comparison_with_the_holdout(shop, control):
    store, arms = shop.store, {"control": {"share": control}, "reserve": {"share": 0}}
    later = {"customers": {"as_of": "2027-06-01"}, "valid": {"from": "2027-06-08", "days": 14}}
    for name, more in (("first", {}), ("second", later)):
        launched = launch(store, planned(store, plan(name, **arms, **more)), clock=FixedClock(), secret=SECRET)
    held_out, rng = held_ids(launched.decisions), np.random.default_rng(5)
    usual = rng.uniform(20, 60, 300)
    rows = [  # each order varies a little: where earlier spend explains all of it, nothing is adjusted
        (customer, when, rng.normal(spent, 1) + 30 * (customer not in held_out) * (when > datetime(2027, 1, 1)), None)
        for customer, spent in enumerate(usual)
        for when in (datetime(2026, 8, 1), datetime(2027, 3, 12), datetime(2027, 6, 12), datetime(2027, 6, 21))
    ]
    columns = [list(column) for column in zip(*rows, strict=True)]
    columns[3] = pa.array(columns[3], pa.string())
    orders = pa.table(dict(zip(("customer_id", "ordered_at", "paid", "code"), columns, strict=True)))
    first, second = (read_out(store, name, as_of=date(2027, 9, 1), orders=orders) for name in ("first", "second"))
    assert first.ab.incremental_adjusted  # everybody was treated alike before the first
    assert first.incremental[Arm.DECIDED].difference.value == pytest.approx(30, abs=1)
    assert not second.ab.incremental_adjusted
    assert second.incremental == second.incremental_measured
    assert second.incremental[Arm.DECIDED].difference.value == pytest.approx(60, abs=12)  # 30 after an adjustment
