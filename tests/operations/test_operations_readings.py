"""What a campaign says afterwards: results, explanations, propensities, codes for export, the audit."""

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from disco.evaluation.read_out import Verdict, ab_test
from disco.operations.explain import explain
from disco.operations.export import csv_safe, export_codes
from disco.operations.learn import learn_campaigns
from disco.operations.outcomes import ingest
from disco.operations.replay import add_propensities
from disco.operations.results import AllResults, read_out
from disco.operations.upkeep import audit
from disco.records.decisions import Arm
from disco.records.errors import InputError


@pytest.fixture
def launched(shop):
    return shop.launch(shop.plan(holdout={"share": "20%"}))


@pytest.fixture
def answered(shop, launched):
    """Two of three customers bought, for amounts of their own."""
    rows = [row for number, row in enumerate(shop.sent(launched)) if number % 3]
    prices = [30.0 + row["customer_id"] % 17 for row in rows]
    ingest(shop.store, "spring", shop.outcomes(rows, full_price=prices), source="test", clock=shop.clock)
    return {row["code"]: price for row, price in zip(rows, prices, strict=True)}


def test_results_are_the_test_of_what_the_ledger_says(shop, launched, answered):
    found = read_out(shop.store, "spring", as_of=shop.after)
    rows = [row for row in launched.decisions.to_pylist() if row["arm"] != "holdout"]
    expected = ab_test(
        [row["arm"] for row in rows],
        [np.nan if row["depth"] is None else row["depth"] for row in rows],
        [answered.get(row["code"], np.nan) for row in rows],
        revenue_weight=3.0,
        shares={"decided": 0.55, "control": 0.25},
    )
    assert found.final
    assert found.ab.finding("revenue") == expected.finding("revenue")
    assert found.ab.verdict == expected.verdict
    for arm in (Arm.DECIDED, Arm.CONTROL):
        revenue = sum(answered.get(row["code"], 0.0) * (1 - (row["depth"] or 0)) for row in rows if row["arm"] == arm)
        assert found.arms[arm].summary.revenue == pytest.approx(revenue)
        assert sum(found.arms[arm].codes.values()) == sum(row["arm"] == arm and bool(row["code"]) for row in rows)
        assert found.arms[arm].expected_revenue > 0
    assert found.counts.applied == len(answered)
    assert 0 < found.detectable < 5
    assert found.arms[Arm.HOLDOUT].summary.recipients == 0


def test_with_the_orders_the_holdout_is_read_and_the_year_before_takes_noise_away(shop, launched, answered):
    ids = np.arange(200)
    code = launched.decisions["code"].to_pylist()
    orders = pa.table(
        {
            "customer_id": pa.array([*ids, *ids, *ids]),
            "ordered_at": pa.array(
                [datetime(2026, 10, 1)] * 200 + [datetime(2027, 3, 10)] * 200 + [datetime(2027, 3, 9, 12)] * 200
            ),
            "paid": pa.array([*(20.0 + ids % 5), *([7.0] * 200), *([answered.get(c, 1.0) for c in code])]),
            "code": pa.array([None] * 400 + code, pa.string()),
        }
    ).filter(pa.array([*([True] * 400), *(c in answered for c in code)]))
    found = read_out(shop.store, "spring", as_of=shop.after, orders=orders)
    holdout = found.ab.incremental[Arm.DECIDED]
    assert holdout.control == pytest.approx(7.0)
    assert holdout.decided > 7.0
    assert found.ab.finding("revenue").adjusted is not None
    assert found.ab.sample_ratio.ok


def test_a_campaign_that_still_runs_is_read_with_an_interval_that_allows_it(shop, launched, answered):
    found = read_out(shop.store, "spring", as_of=date(2027, 3, 15))
    assert not found.final
    assert found.ab.finding("objective").to_date is not None


def test_what_was_ordered_after_the_day_of_the_read_out_does_not_count(shop, launched):
    """Neither purchases nor refunds nor corrections nor orders without a code; the day itself does."""
    first, second, third, fourth = shop.sent(launched)[:4]
    day, evening, after = datetime(2027, 3, 9, 12), datetime(2027, 3, 10, 23, 59), datetime(2027, 3, 11, 0, 0)
    rows = [
        # event, whose, when, amount, kind, refers to
        ("p1", first, day, 50.0, "purchase", None),
        ("r1", first, after, 50.0, "refund", "p1"),
        ("p2", second, evening, 30.0, "purchase", None),
        ("c2", second, after, 90.0, "correction", "p2"),
        ("p3", third, after, 70.0, "purchase", None),
        ("r3", third, day, 10.0, "refund", "p3"),  # by its date before the purchase that it gives back
        ("c3", third, day, 20.0, "correction", "r3"),
        ("p4", fourth, day, 40.0, "purchase", None),
        ("r4", fourth, evening, 15.0, "refund", "p4"),
    ]
    names = ("event_id", "row", "ordered_at", "full_price", "kind", "refers_to")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    given = shop.outcomes(
        columns.pop("row"),
        **{**columns, "ordered_at": pa.array(columns["ordered_at"], pa.timestamp("us")),
           "refers_to": pa.array(columns["refers_to"], pa.string())},
    )  # fmt: skip
    assert ingest(shop.store, "spring", given, source="test", clock=shop.clock).counts.applied == len(rows)
    holdout = next(row for row in launched.decisions.to_pylist() if row["arm"] == "holdout")
    orders = pa.table(
        {
            "customer_id": [holdout["customer_id"]] * 2,
            "ordered_at": pa.array([evening, after]),
            "paid": [8.0, 800.0],
            "code": pa.nulls(2, pa.string()),
        }
    )

    def spent(as_of):
        found = read_out(shop.store, "spring", as_of=as_of, orders=orders)
        paid = sum(arm.summary.revenue + arm.summary.markdown for arm in found.arms.values())
        return paid, found.ab.incremental[Arm.DECIDED].control * found.arms[Arm.HOLDOUT].summary.customers

    assert spent(date(2027, 3, 8)) == (0.0, 0.0)
    assert spent(date(2027, 3, 9)) == pytest.approx((50 + 40, 0))
    assert spent(date(2027, 3, 10)) == pytest.approx((50 + 30 + 40 - 15, 8))
    assert spent(date(2027, 3, 11)) == pytest.approx((90 + 70 - 20 + 40 - 15, 808))
    assert spent(shop.after) == spent(date(2027, 3, 11))


def test_without_a_control_group_there_is_no_test_and_it_is_said(shop):
    shop.launch(shop.plan(policy={"name": "random"}, control={"share": 0}, holdout={"share": 0}))
    found = read_out(shop.store, "spring", as_of=shop.after)
    assert (found.ab, found.why_not) == (None, "There is no control group to compare with.")
    assert found.arms[Arm.DECIDED].summary.customers == 200


def test_a_holdout_without_a_control_group_is_compared_once_the_orders_are_there(shop):
    launched = shop.launch(shop.plan(control={"share": 0}, holdout={"share": "20%"}))
    rows = shop.sent(launched)
    ingest(shop.store, "spring", shop.outcomes(rows, full_price=[50.0] * len(rows)), source="test", clock=shop.clock)
    alone = read_out(shop.store, "spring", as_of=shop.after)
    assert alone.ab is None
    assert alone.why_not.startswith("The holdout cannot be read: the shop has no table of orders")
    assert alone.words[-1] == alone.why_not  # once
    ids = np.arange(200)
    orders = pa.table(
        {
            "customer_id": ids,
            "ordered_at": [datetime(2027, 3, 10)] * 200,
            "paid": 5.0 + ids % 3,
            "code": pa.nulls(200, pa.string()),
        }
    )
    found = read_out(shop.store, "spring", as_of=shop.after, orders=orders)
    decided = [row for row in launched.decisions.to_pylist() if row["arm"] == "decided"]
    with_codes = sum(50.0 * (1 - row["depth"]) for row in rows) / len(decided)
    compared = found.incremental[Arm.DECIDED]
    assert compared.decided == pytest.approx(with_codes + np.mean([5.0 + row["customer_id"] % 3 for row in decided]))
    assert (found.findings, found.verdict, found.detectable) == ((), Verdict.BETTER, None)
    assert any("against the holdout" in words for words in found.words)


def orders_of(decisions, days, *, paid=7.0):
    """Everybody buys without a code at noon of each day, for amounts that differ."""
    ids = decisions["customer_id"].to_pylist()
    rows = [(customer, datetime(2027, *day, 12), paid + customer % 3, None) for customer in ids for day in days]
    columns = [list(column) for column in zip(*rows, strict=True)]
    types = (pa.int64(), pa.timestamp("us"), pa.float64(), pa.string())
    names = ("customer_id", "ordered_at", "paid", "code")
    return pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, types, strict=True)})


def test_orders_that_end_before_the_campaign_say_that_the_holdout_cannot_be_read(shop, launched, answered):
    stale = orders_of(launched.decisions, [(1, 20), (2, 3)])
    found = read_out(shop.store, "spring", as_of=shop.after, orders=stale)
    words = (
        "The holdout cannot be read: orders end on 3 Feb 2027, and the codes are valid 8–21 Mar 2027. Refresh the "
        "table orders, then read the results again."
    )
    assert (found.holdout.readable, found.holdout.orders_until) == (False, date(2027, 2, 3))
    assert found.words[-1] == found.holdout.words == words
    assert (found.incremental, bool(found.findings)) == ({}, True)
    # the figures against control are adjusted by the same orders with and without the column of codes
    bare = read_out(shop.store, "spring", as_of=shop.after, orders=stale.drop_columns(["code"]))
    assert bare.findings == found.findings
    assert bare.holdout.words == words
    current = orders_of(launched.decisions, [(2, 3), (3, 21)]).drop_columns(["code"])
    without_codes = read_out(shop.store, "spring", as_of=shop.after, orders=current)
    assert without_codes.words[-1].startswith("The holdout cannot be read: the table of orders has no column code")


def test_a_holdout_is_read_over_the_days_that_the_orders_cover_in_every_group(shop, launched):
    """Codes used on 9 and 15 March; orders that end on the 10th know nothing of the second."""
    rows = shop.sent(launched)
    days = [datetime(2027, 3, 9, 9) if number % 2 else datetime(2027, 3, 15, 9) for number in range(len(rows))]
    given = shop.outcomes(rows, full_price=[100.0] * len(rows), ordered_at=pa.array(days, pa.timestamp("us")))
    ingest(shop.store, "spring", given, source="test", clock=shop.clock)

    def read(days):
        return read_out(shop.store, "spring", as_of=shop.after, orders=orders_of(launched.decisions, days))

    partly, whole = read([(3, 8), (3, 10)]), read([(3, 8), (3, 10), (3, 21)])
    decided = [row for row in launched.decisions.to_pylist() if row["arm"] == "decided"]
    early = {row["code"] for number, row in enumerate(rows) if number % 2}
    every = {row["code"] for row in rows}
    for found, codes, orders in ((partly, early, 2), (whole, every, 3)):
        paid = sum(100 * (1 - row["depth"]) for row in decided if row["code"] in codes)
        beside = sum(orders * (7.0 + row["customer_id"] % 3) for row in decided)
        assert found.ab.incremental["decided"].decided == pytest.approx((paid + beside) / len(decided))
    assert partly.findings == whole.findings  # codes against codes need no orders of these days
    assert (partly.holdout.readable, partly.holdout.whole, whole.holdout.words) == (True, False, "")
    assert partly.words[-1].startswith(
        "The comparison with the holdout ends with the orders: orders end on 10 Mar 2027, and the codes are valid"
    )
    assert AllResults.of([partly]).against_holdout is None  # some days of a campaign are not the campaign
    assert AllResults.of([whole]).against_holdout is not None


def test_extra_revenue_beyond_what_was_bought_with_codes_is_explained(shop):
    """Codes bring purchases without a code, too: then more was earned than was paid with codes."""
    launched = shop.launch(shop.plan(control={"share": 0}, holdout={"share": "30%"}))
    rows = shop.sent(launched)
    ingest(shop.store, "spring", shop.outcomes(rows, full_price=[5.0] * len(rows)), source="test", clock=shop.clock)
    orders = orders_of(launched.decisions, [(3, 21)])
    more = [30.0 if arm == "decided" else 0.0 for arm in launched.decisions["arm"].to_pylist()]
    orders = orders.set_column(2, "paid", pa.array(np.asarray(orders["paid"]) + np.asarray(more)))
    found = read_out(shop.store, "spring", as_of=shop.after, orders=orders)
    summary = found.arms[Arm.DECIDED].summary
    assert found.extra_revenue.value > summary.revenue
    (why,) = (words for words in found.words if "extra revenue is an estimate" in words)
    assert f"per customer, scaled to the {summary.customers} customers of the group." in why
    assert "It counts what they bought without codes as well, so it can exceed the £" in why


def test_one_customer_in_control_is_nothing_to_compare_with(shop):
    plan = shop.plan(control={"share": "50%"}, holdout={"share": 0})
    people = next(
        people
        for first in range(100)
        if (people := shop.people(rows=2, ids=[first, first + 1]))
        and len(shop.planned(plan, people, inputs={"first": str(first)}).arms) == 2
    )
    shop.launch(plan, people)
    assert read_out(shop.store, "spring", as_of=shop.after).why_not.startswith("With 1 customers decided and 1 in")


def belief_of(shop):
    return {"prior": shop.knowledge()}


def test_an_explanation_makes_the_figures_of_the_decision_again(shop, launched):
    for row in launched.decisions.to_pylist()[:60]:
        said = explain(shop.store, "spring", row["customer_id"], **belief_of(shop))
        assert (said.depth, said.code, said.arm) == (row["depth"], row["code"], row["arm"])
        if said.arm is not Arm.DECIDED:
            assert said.figures == ()
            continue
        chosen = next((figure for figure in said.figures if figure.depth == row["depth"]), None)
        if chosen is not None:
            assert chosen.value == pytest.approx(row["value"], rel=1e-12)
            assert f"{row['depth']:.0%}" + " off" in said.words[0]
            assert any(
                "was second" in word or "above its shadow price" in word or "more than" in word for word in said.words
            )
        else:
            assert said.runner_up.surplus <= 1e-9
            assert any("worth its shadow price" in word for word in said.words)


def test_an_explanation_says_how_chance_and_the_budget_had_their_part(shop):
    plan = shop.plan(budget=40)
    decisions = shop.launch(plan).decisions.to_pylist()

    def words(arm, coded):
        row = next(row for row in decisions if row["arm"] == arm and (row["code"] is not None) == coded)
        return " ".join(explain(shop.store, "spring", row["customer_id"], **belief_of(shop)).words)

    assert "not enough codes for everybody" in words("control", False)
    assert "not enough codes" not in words("control", True)
    assert "They were in the decided group: the policy thompson chose their depth" in words("decided", True)
    assert "a code and of the budget it takes" in words("decided", True)


def test_an_explanation_says_when_the_belief_is_no_longer_the_one_that_decided(shop, launched):
    row = next(row for row in shop.sent(launched) if row["arm"] == "decided")
    said = explain(shop.store, "spring", row["customer_id"], prior=shop.prior)
    assert any("not those of the launch" in word for word in said.words)
    with pytest.raises(InputError, match="12345 was not part of campaign spring"):
        explain(shop.store, "spring", 12345, **belief_of(shop))


def test_propensities_are_the_chances_of_what_was_played(shop, launched):
    assert add_propensities(shop.store, "spring", draws=50, **belief_of(shop)).decisions == 200
    with shop.store.reading() as transaction:
        rows = transaction.decisions.of("spring").to_pylist()
    control = [row for row in rows if row["arm"] == "control"]
    for depth in (None, 0.1, 0.3):
        alike = [row for row in control if row["depth"] == depth]
        assert {row["propensity"] for row in alike} <= {len(alike) / len(control)}
    test = [row for row in rows if row["arm"] == "decided"]
    assert all(1 / 51 <= row["propensity"] <= 1 and row["propensity_draws"] == 50 for row in test)
    assert {row["propensity"] for row in rows if row["arm"] == "holdout"} == {1.0}
    # E[1/p] over what was played is the number of things that may be played, at most two depths and none
    assert 1.0 < np.mean([1 / row["propensity"] for row in test]) < 3.5
    said = explain(shop.store, "spring", test[0]["customer_id"], **belief_of(shop))
    assert "50 draws" in said.words[-1]


def test_exported_codes_are_what_was_decided(shop, launched):
    table = export_codes(shop.store, "spring")
    assert table.column_names == [
        "code_id", "customer_id", "campaign_id", "depth", "sent_at", "expires_at", "channel"
    ]  # fmt: skip
    assert table.num_rows == launched.codes
    assert table.schema.field("customer_id").type == pa.int64()
    first = table.to_pylist()[0]
    assert (first["sent_at"], first["expires_at"]) == (datetime(2027, 3, 8), datetime(2027, 3, 22))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_exported_text_is_a_formula(start):
    risky = f"{start}cmd"
    assert csv_safe(pa.table({"customer_id": [risky, None, "x"]}))["customer_id"].to_pylist() == [
        f"'{risky}",
        None,
        "x",
    ]


def test_the_audit_finds_what_was_changed_behind_its_back(shop, launched, answered):
    learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    assert all(finding.ok for finding in audit(shop.store))
    with shop.store.writing("spring", action="test") as transaction:
        stored = transaction.beliefs.evidence("spring", shop.network)
        transaction.beliefs.put_evidence(
            "spring", shop.network, stored.replace(b'"redeemed":[', b'"redeemed":[0'.replace(b"0", b""))
        )
        rows = transaction.ledger.outcomes("spring").slice(0, 1).select(["batch_id", "row"])
        changes = pa.table({**rows.to_pydict(), "disposition": ["rejected"], "reason": ["a whim"]})
        transaction.ledger.redispose(changes)
    failed = {finding.check for finding in audit(shop.store) if not finding.ok}
    assert failed == {"ledger", "evidence"}
