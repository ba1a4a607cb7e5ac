"""Customers who arrive after the launch: at the solve's prices, from the reserve, never beyond it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals

from disco.operations import late
from disco.operations import launch as states
from disco.operations.launch import launch
from disco.operations.learn import stored_evidence
from disco.operations.outcomes import ingest
from disco.operations.upkeep import audit
from disco.records.errors import StateError
from disco.store import Store


def newcomers(shop, count, first=1000):
    return shop.people(rows=count, ids=np.arange(first, first + count), seed=8)


def decide(shop, audience, **more):
    settings = {"network": shop.network, "prior": shop.knowledge(), "clock": shop.clock, **more}
    return decide_late_arrivals(shop.store, "spring", audience, **settings)


def with_reserve(shop, **more):
    return shop.launch(shop.plan(reserve={"share": "50%"}, holdout={"share": "10%"}, **more))


def test_no_more_codes_than_were_kept_back(shop):
    with_reserve(shop)
    decided = decide(shop, newcomers(shop, 600))
    given = decided["depth"].to_pylist()
    assert given.count(0.1) == 30
    assert given.count(0.3) == 10
    assert given.count(None) == 560
    assert all(finding.ok for finding in audit(shop.store))


def test_who_was_decided_before_gets_the_same_again(shop):
    launched = with_reserve(shop)
    first = decide(shop, newcomers(shop, 20))
    with shop.store.reading() as transaction:
        left = transaction.decisions.reserve("spring")
    again = decide(shop, shop.people(rows=25, ids=np.array([*range(1019, 999, -1), 0, 1, 2, 3, 4])))
    assert again["code"].to_pylist()[:20] == first["code"].to_pylist()[::-1]
    assert again["code"].to_pylist()[20:] == launched.decisions["code"].to_pylist()[:5]
    with shop.store.reading() as transaction:
        assert transaction.decisions.reserve("spring") == left


def test_features_are_kept_with_the_decisions_of_those_decided_now(shop):
    def features(rows):
        return pa.table({"customer_id": 1000 + np.arange(rows), "x": np.arange(rows) / 3})

    planned = shop.planned(
        shop.plan(reserve={"share": "50%"}), features=pa.table({"customer_id": np.arange(200), "x": np.arange(200.0)})
    )
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    decide(shop, newcomers(shop, 8), features=features(8), dry_run=True)
    decide(shop, newcomers(shop, 5), features=features(5))
    decide(shop, newcomers(shop, 8), features=features(8))
    with shop.store.reading() as transaction:
        kept = transaction.contexts.features("spring")
        assert kept.num_rows == 208
        assert kept.slice(200).to_pylist() == features(8).to_pylist()
    states.pause(shop.store, "spring", clock=shop.clock)
    with pytest.raises(StateError, match="paused"):
        decide(shop, newcomers(shop, 9), features=features(9))


def test_a_late_customer_gets_what_the_solve_would_have_given(shop):
    """A twin of somebody decided in the launch: same id is impossible, so the prices are asked with its figures."""
    with_reserve(shop, control={"share": 0})
    with shop.store.reading() as transaction:
        record, decisions = transaction.plans.campaign("spring"), transaction.decisions.of("spring").to_pylist()
    worth = late._Worth.of(record, record.solution, shop.people(), shop.knowledge())
    surplus = worth.values - worth.prices
    rows = [row for row in decisions if row["arm"] == "decided"]
    best = surplus.argmax(axis=1)
    agree = [
        (surplus[row["row"]].max() <= 0) == (row["depth"] is None)
        and (row["depth"] is None or (0.1, 0.3)[best[row["row"]]] == row["depth"])
        for row in rows
    ]
    assert np.mean(agree) > 0.98


def test_the_holdout_gets_none_of_the_late_codes(shop):
    with_reserve(shop)
    decided = decide(shop, newcomers(shop, 60)).to_pylist()
    held = [row for row in decided if row["arm"] == "holdout"]
    assert held
    assert all(row["code"] is None for row in held)
    assert all(row["late"] for row in decided)


def test_the_budget_kept_back_is_the_most_that_late_codes_may_cost(shop):
    with_reserve(shop, budget=60.0)
    decided = [row for row in decide(shop, newcomers(shop, 80)).to_pylist() if row["code"]]
    assert decided
    cost = sum(row["expected_full_price"] * row["depth"] * row["expected_engagement"] for row in decided)
    assert cost <= 30.0
    again = [row for row in decide(shop, newcomers(shop, 80, first=5000)).to_pylist() if row["code"]]
    cost += sum(row["expected_full_price"] * row["depth"] * row["expected_engagement"] for row in again)
    assert cost <= 30.0


def test_late_purchases_are_evidence_like_any_other(shop):
    with_reserve(shop)
    sent = [row for row in decide(shop, newcomers(shop, 60)).to_pylist() if row["code"]]
    found = ingest(shop.store, "spring", shop.outcomes(sent), source="test", clock=shop.clock)
    assert found.counts.applied == len(sent)
    with shop.store.reading() as transaction:
        kept = stored_evidence(transaction, "spring", shop.network)
    assert kept.baskets.total_rows == sum(row["known"] for row in sent)
    assert all(finding.ok for finding in audit(shop.store))


def test_late_codes_count_for_engagement_where_nothing_was_random(shop):
    launched = with_reserve(shop, control={"share": 0})
    sent = [row for row in decide(shop, newcomers(shop, 60)).to_pylist() if row["code"]]
    with shop.store.reading() as transaction:
        kept = stored_evidence(transaction, "spring", shop.network)
    assert kept.codes.sent.sum() == launched.codes + len(sent)
    assert all(finding.ok for finding in audit(shop.store))


def test_a_random_campaign_deals_at_random_to_late_customers_too(shop):
    with_reserve(shop, policy={"name": "random"}, control={"share": 0})
    decided = decide(shop, newcomers(shop, 100), prior=shop.prior)
    given = decided["depth"].to_pylist()
    assert (given.count(0.1), given.count(0.3)) == (30, 10)


def test_pool_codes_are_handed_out_late_too(shop):
    pool = [f"POOL{n:03d}" for n in range(120)]
    planned = shop.planned(shop.plan(reserve={"share": "50%"}, codes={"pool": "codes.txt"}))
    launched = launch(shop.store, planned, clock=shop.clock, pool=pool)
    decided = decide(shop, newcomers(shop, 10), pool=pool)
    codes = [code for code in decided["code"].to_pylist() if code]
    assert codes == pool[launched.codes : launched.codes + len(codes)]


@dataclass
class After:
    def now(self):
        return datetime(2027, 3, 22, tzinfo=UTC)


def test_a_paused_closed_or_past_campaign_and_another_network_are_refused(shop):
    with_reserve(shop)
    with pytest.raises(StateError, match="over since 2027-03-22"):
        decide(shop, newcomers(shop, 1), clock=After())
    with pytest.raises(StateError, match="another context network"):
        decide(shop, newcomers(shop, 1), network="other")
    states.pause(shop.store, "spring", clock=shop.clock)
    with pytest.raises(StateError, match="paused"):
        decide(shop, newcomers(shop, 1))
    states.resume(shop.store, "spring")
    assert isinstance(decide(shop, newcomers(shop, 1)), pa.Table)
    states.close(shop.store, "spring")
    with pytest.raises(StateError, match="closed"):
        decide(shop, newcomers(shop, 2))


def test_it_makes_no_difference_how_many_are_decided_in_one_transaction(shop, make_shop, tmp_path):
    other = make_shop(Store.embedded(tmp_path / "other.sqlite"))
    segments = {"column": "region", "limits": {"North": {0.1: {"at_most": "20%"}}}}
    for one in (shop, other):
        everybody = replace(one.people(), segment=np.where(np.arange(200) % 3, "South", "North").astype(object))
        one.launch(one.plan(reserve={"share": "50%"}, budget=60.0, segments=segments), everybody)
    people = newcomers(shop, 90)
    people = replace(people, segment=np.where(np.arange(90) % 2, "South", "North").astype(object))
    together = decide(shop, people, secret=shop.secret)
    alone = [decide(other, people.take(np.array([row])), secret=shop.secret) for row in range(90)]
    assert together.equals(pa.concat_tables(alone).combine_chunks())
    codes = together.filter(together["code"].is_valid())
    assert 0 < codes.num_rows < 40  # the budget ended before the reserve
    other.store.close()


def test_a_tally_that_is_kept_counts_only_who_came_since(shop):
    segments = {"column": "region", "limits": {"North": {0.1: {"at_most": "20%"}}}}
    everybody = replace(shop.people(), segment=np.where(np.arange(200) % 3, "South", "North").astype(object))
    shop.launch(shop.plan(reserve={"share": "50%"}, budget=60.0, segments=segments), everybody)
    kept = late.LateTally()
    for first in (1000, 1010, 1020):
        people = newcomers(shop, 10, first)
        decide(shop, replace(people, segment=np.array(["North"] * 10, object)))
        with shop.store.reading() as transaction:
            record = transaction.plans.campaign("spring")
            kept = kept.up_to_date(transaction, record)
            assert kept == late.LateTally().up_to_date(transaction, record)
            assert kept.up_to_date(transaction, record) is kept
    assert kept.next_row == 230
    assert kept.spent > 0
    assert sum(kept.given.values()) == sum(kept.given["North", depth] for depth in (0.1, 0.3))
