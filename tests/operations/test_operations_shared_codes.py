"""One code for all who get a depth: who may use it, what counts, and what is shown."""

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals

from disco.operations.codes import codes_for, own_codes
from disco.operations.explain import explain
from disco.operations.export import export, export_codes
from disco.operations.learn import rebuilt_evidence, stored_evidence
from disco.operations.outcomes import ingest, quarantined_rows
from disco.operations.plan import plan_id
from disco.operations.purchases import bought, revenue_beside
from disco.operations.upkeep import audit
from disco.records.errors import InputError, PlanError

SHARED = {0.1: "SPRING10"}


def launched(shop, **more):
    return shop.launch(shop.plan(**{"codes": {"shared": SHARED}, **more}))


def sent_to(shop):
    """customer → (depth, the code they were sent)."""
    rows = export_codes(shop.store, "spring").to_pylist()
    return {row["customer_id"]: (row["depth"], row["code_id"]) for row in rows}


def purchases(shop, customers, codes, **columns):
    rows = [{"customer_id": one, "code": code} for one, code in zip(customers, codes, strict=True)]
    return shop.outcomes(rows, **columns)


def test_the_depth_has_one_code_and_other_depths_one_per_customer(shop):
    launched(shop)
    sent = sent_to(shop)
    assert {code for depth, code in sent.values() if depth == 0.1} == {"SPRING10"}
    single = [code for depth, code in sent.values() if depth == 0.3]
    assert len(set(single)) == len(single) > 0
    assert not [one for one in audit(shop.store) if one.failed]


def test_it_counts_only_for_customers_it_was_sent_to(shop):
    launched(shop)
    sent = sent_to(shop)
    have = [one for one, (depth, _) in sent.items() if depth == 0.1][:6]
    deeper = next(one for one, (depth, _) in sent.items() if depth == 0.3)
    without = next(one for one in range(200) if one not in sent)
    users = [*have, deeper, without, 9999]
    found = ingest(
        shop.store,
        "spring",
        purchases(shop, users, ["spring10", *["SPRING10"] * 8]),
        source="orders.csv",
        clock=shop.clock,
    )
    assert (found.received, found.applied, found.unmatched) == (9, 6, 3)
    assert [(one.reason, one.rows) for one in found.reasons] == [("a shared code that this customer was not sent", 3)]
    with shop.store.reading() as transaction:
        decisions = transaction.decisions.of("spring")
        full_price = bought(transaction, "spring", decisions)
        record = transaction.plans.campaign("spring")
        kept = stored_evidence(transaction, "spring", shop.network)
        assert kept.to_bytes() == rebuilt_evidence(transaction, record, shop.network).to_bytes()
    paid = dict(zip(decisions["customer_id"].to_pylist(), full_price.tolist(), strict=True))
    assert {one for one, price in paid.items() if price} == set(have)
    aside = quarantined_rows(shop.store, found).to_pylist()
    assert {row["code"] for row in aside} == {"SPRING10"}


def test_the_first_purchase_of_a_customer_counts(shop):
    launched(shop)
    one = next(one for one, (depth, _) in sent_to(shop).items() if depth == 0.1)
    days = pa.array([datetime(2027, 3, 11), datetime(2027, 3, 10), datetime(2027, 3, 12)], pa.timestamp("us"))
    table = purchases(
        shop, [one] * 3, ["SPRING10"] * 3, event_id=["a", "b", "c"], ordered_at=days, full_price=[30.0, 20.0, 10.0]
    )
    found = ingest(shop.store, "spring", table, source="x", clock=shop.clock)
    assert (found.applied, found.rejected) == (1, 2)
    assert {row["code"] for row in quarantined_rows(shop.store, found).to_pylist()} == {"SPRING10"}
    refund = purchases(shop, [one], ["SPRING10"], event_id=["r"], kind=["refund"], refers_to=["b"], full_price=[5.0])
    assert ingest(shop.store, "spring", refund, source="y", clock=shop.clock).applied == 1
    with shop.store.reading() as transaction:
        decisions = transaction.decisions.of("spring")
        assert bought(transaction, "spring", decisions).sum() == pytest.approx(15.0)


def test_two_campaigns_with_the_same_code_are_apart(shop):
    launched(shop)
    later = {"campaign": "summer", "customers": {"as_of": date(2027, 3, 8)}, "seed": 9}
    shop.launch(shop.plan(codes={"shared": SHARED}, **later))
    sent = {name: export_codes(shop.store, name).to_pylist() for name in ("spring", "summer")}
    have = {name: {row["customer_id"] for row in rows if row["depth"] == 0.1} for name, rows in sent.items()}
    only_summer = sorted(have["summer"] - have["spring"])[:4]
    first = ingest(shop.store, "spring", purchases(shop, only_summer, ["SPRING10"] * 4), source="x", clock=shop.clock)
    assert (first.applied, first.unmatched) == (0, 4)
    table = purchases(shop, only_summer, ["SPRING10"] * 4, campaign_id=["summer"] * 4)
    assert ingest(shop.store, "summer", table, source="x", clock=shop.clock).applied == 4


def test_late_arrivals_and_explanations_show_the_shared_code(shop):
    launched(shop, reserve={"share": "50%"}, holdout={"share": 0})
    late = decide_late_arrivals(
        shop.store,
        "spring",
        shop.people(40, ids=np.arange(1000, 1040)),
        network=shop.network,
        prior=shop.knowledge(),
        clock=shop.clock,
        secret=shop.secret,
    )
    theirs = [row["customer_id"] for row in late.to_pylist() if row["depth"] == 0.1]
    assert theirs
    told = explain(shop.store, "spring", theirs[0], prior=shop.knowledge())
    assert told.code == "SPRING10"
    assert "code SPRING10" in told.words[0]
    sent = sent_to(shop)
    assert {sent[one][1] for one in theirs} == {"SPRING10"}


def test_a_shop_gets_one_discount_without_a_limit_of_uses(shop):
    launched(shop, export={"template": "shopify"})
    rows = export(shop.store, "spring").to_arrow().to_pylist()
    (shared,) = [row for row in rows if row["Code"] == "SPRING10"]
    assert (shared["Limit Total Times"], shared["Value"]) == (None, "10")
    assert {row["Limit Total Times"] for row in rows if row["Code"] != "SPRING10"} == {"1"}
    assert len(rows) == 1 + sum(depth == 0.3 for depth, _ in sent_to(shop).values())


def test_a_pool_is_for_the_other_depths(shop):
    plan = shop.plan(codes={"shared": SHARED, "pool": "codes.txt"})
    pool = [f"POOL{row:04d}" for row in range(50)]
    with shop.store.reading() as transaction:
        codes = codes_for(transaction.decisions, plan, [1, 2, 3], [0.1, 0.3, 0.1], pool=pool, secret=shop.secret)
        assert codes.to_pylist()[1] == "POOL0000"
        assert not set(codes.to_pylist()[::2]) & set(pool)
        with pytest.raises(InputError, match="the shared code SPRING10"):
            codes_for(transaction.decisions, plan, [1], [0.1], pool=[*pool, "SPRING10"], secret=shop.secret)


def test_somebody_else_who_uses_it_bought_beside_the_campaign():
    decisions = pa.table({"customer_id": ["a", "b"], "code": pa.array(["KEPT", None]), "depth": [0.1, None]})
    orders = pa.table(
        {
            "customer_id": ["a", "a", "b"],
            "ordered_at": pa.array([datetime(2027, 3, 9)] * 3, pa.timestamp("us")),
            "paid": [1.0, 2.0, 4.0],
            "code": ["SPRING10", None, "SPRING10"],
        }
    )
    period, sent = (date(2027, 3, 8), date(2027, 3, 22)), pa.array(["SPRING10", None])
    assert revenue_beside(orders, decisions, period, sent=sent).tolist() == [2.0, 4.0]


def test_own_codes_by_hand():
    decisions = pa.table({"customer_id": [1, 2], "depth": [0.1, 0.3], "code": ["ONE", "TWO"]})
    customers = pa.array(["1", "2", "3", "2", None, "1", "1"])
    codes = pa.array(["SPRING10", "SPRING10", "SPRING10", "TWO", "SPRING10", " spring10", None])
    own, unsent = own_codes(SHARED, customers, codes, decisions)
    assert own.to_pylist() == ["ONE", "SPRING10", "SPRING10", "TWO", "SPRING10", "ONE", None]
    assert unsent.tolist() == [False, True, True, False, True, False, False]


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        ({0.2: "SPRING20"}, "shared codes of depths on offer (0.1, 0.3), not of 0.2"),
        ({0.1: "SAME", 0.3: "same"}, "another code for each depth"),
        ({0.1: "TEN PERCENT"}, "codes of up to 64 letters"),
        ({10: "SPRING10"}, "0.1"),
        ({}, "a code for each depth"),
        ("SPRING10", "a code for each depth"),
    ],
)
def test_shared_codes_that_cannot_be_read_are_named(shop, shared, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(codes={"shared": shared})
    assert words in str(refused.value)


def test_without_shared_codes_a_plan_keeps_its_bytes(shop):
    assert "shared" not in shop.plan().model_dump_json(by_alias=True)
    assert plan_id(shop.plan(), {"customers": "x"}) == "7c453c0a0a506d28"
