"""A campaign's life on a real SQLite file: launch once, ingest each outcome once, learn what the ledger says."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from disco.adapters.store import SqlStore, sql
from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief
from disco.operations import ingest, launch, learn_campaign, matured_codes, purchases_of
from disco.records.decisions import Arm, Audience
from disco.records.errors import InputError, StateError
from disco.records.plan import read_plan

AFTER = date(2027, 4, 1)


def plan(**more):
    return read_plan(
        {
            "campaign": "spring",
            "customers": {"as_of": date(2027, 3, 1)},
            "depths": {0.1: {"at_most": 60}, 0.3: {"at_most": 20}},
            "objective": {"revenue_weight": 3},
            "control": {"share": "25%"},
            "holdout": {"share": "10%"},
            "valid": {"from": date(2027, 3, 8), "days": 14},
            "seed": 4,
            **more,
        }
    )


def people(rows=200, ids=None):
    rng = np.random.default_rng(1)
    context = np.round(rng.normal(size=(rows, 2)).clip(-4, 4) * 65536) / 65536
    known = np.arange(rows) % 10 != 0
    return Audience(ids=np.arange(rows) if ids is None else ids, context=context, known=known)


def knowledge():
    rng = np.random.default_rng(2)
    context = np.round(rng.normal(size=(500, 2)).clip(-4, 4) * 65536) / 65536
    basket = BasketModel().update(context, rng.choice([0.1, 0.3], 500), np.exp(rng.normal(4, 0.5, 500)), campaign="old")
    return Belief(basket=basket, engagement=Engagement())


@pytest.fixture
def store(tmp_path):
    return SqlStore.embedded(tmp_path / "disco.sqlite")


@pytest.fixture
def launched(store):
    return launch(plan(), people(), belief=knowledge(), store=store, secret=b"s" * 32)


def outcomes(launched, rows=slice(None), **more):
    sent = launched.decisions.filter(launched.decisions["code"].is_valid()).to_pylist()[rows]
    columns = {
        "event_id": [f"e{row['customer_id']}" for row in sent],
        "campaign_id": ["spring"] * len(sent),
        "customer_id": [row["customer_id"] for row in sent],
        "code": [row["code"] for row in sent],
        "ordered_at": pa.array([datetime(2027, 3, 9, 12)] * len(sent), pa.timestamp("us")),
        "full_price": [50.25] * len(sent),
        "kind": ["purchase"] * len(sent),
        "refers_to": pa.array([None] * len(sent), pa.string()),
    }
    return pa.table({**columns, **more})


def test_what_was_launched_is_what_the_store_gives_back(store, launched):
    kept = store.decisions("spring")
    assert kept.select(launched.decisions.column_names).equals(launched.decisions)
    assert store.plan("spring") == launched.plan


def test_text_ids_come_back_as_text(store):
    ids = np.array([f"0{n}" for n in range(200)], object)
    result = launch(plan(), people(ids=ids), belief=knowledge(), store=store, secret=b"s" * 32)
    assert (
        store.decisions("spring")["customer_id"].to_pylist()
        == ids.tolist()
        == result.decisions["customer_id"].to_pylist()
    )


def test_caps_hold_over_both_arms_and_the_holdout_gets_no_code(launched):
    table = launched.decisions.to_pylist()
    assert sum(row["depth"] == 0.1 for row in table) <= 60
    assert sum(row["depth"] == 0.3 for row in table) <= 20
    assert {row["arm"] for row in table if row["code"]} == {Arm.TEST, Arm.CONTROL}
    assert all((row["code"] is None) == (row["depth"] is None) for row in table)


def test_a_campaign_is_launched_once_and_a_refused_launch_leaves_nothing(store, launched):
    with pytest.raises(StateError, match="launched before"):
        launch(plan(seed=9), people(), belief=knowledge(), store=store, secret=b"t" * 32)
    assert store.decisions("spring").num_rows == 200


def test_every_outcome_counts_once_however_often_it_comes(store, launched):
    batch = outcomes(launched)
    first = ingest(store, "spring", batch)
    assert (first.received, first.applied) == (batch.num_rows, batch.num_rows)
    again = ingest(store, "spring", pa.concat_tables([batch, batch]))
    assert (again.applied, again.duplicate) == (0, 2 * batch.num_rows)
    assert store.ledger("spring").num_rows == batch.num_rows
    assert set(store.ledger("spring")["full_price_minor"].to_pylist()) == {5025}


@pytest.mark.parametrize(
    "wrong",
    [
        {"campaign_id": ["autumn"]},
        {"kind": ["refund"]},
        {"code": ["XXXX-XXXX-XXXX-XXXX"]},
        {"customer_id": [-1]},
        {"ordered_at": [datetime(2027, 3, 22)]},
        {"ordered_at": [datetime(2027, 3, 7, 23)]},
        {"full_price": [0.0]},
        {"full_price": [float("nan")]},
        {"full_price": [-3.0]},
    ],
    ids=str,
)
def test_an_outcome_that_matches_no_decision_is_set_aside(store, launched, wrong):
    counts = ingest(store, "spring", outcomes(launched, slice(0, 1), **wrong))
    assert (counts.received, counts.applied, counts.rejected) == (1, 0, 1)
    assert store.ledger("spring").num_rows == 0


def test_outcomes_without_a_column_are_refused_by_name(store, launched):
    with pytest.raises(InputError, match="full_price"):
        ingest(store, "spring", outcomes(launched).drop_columns(["full_price"]))


def test_learning_takes_the_context_of_the_decision_and_leaves_unknown_customers_out(store, launched):
    ingest(store, "spring", outcomes(launched))
    bought = purchases_of(store, "spring")
    known = {row["customer_id"]: row for row in launched.decisions.to_pylist() if row["code"] and row["known"]}
    assert len(bought) == len(known)
    assert sorted(map(tuple, bought.context.tolist())) == sorted(tuple(row["context"]) for row in known.values())
    after = learn_campaign(store, "spring", knowledge(), as_of=AFTER)
    assert after.basket.evidence.total_rows == 500 + len(known)


def test_engagement_counts_matured_codes_of_the_random_arm_only(store, launched):
    ingest(store, "spring", outcomes(launched, slice(0, 40)))
    assert matured_codes(store, "spring", as_of=date(2027, 3, 20)) == EngagementCounts()
    counts = matured_codes(store, "spring", as_of=AFTER)
    control = [row for row in launched.decisions.to_pylist() if row["arm"] == Arm.CONTROL and row["code"]]
    assert counts.sent.sum() == len(control)
    bought = set(store.ledger("spring")["code"].to_pylist())
    assert counts.redeemed.sum() == sum(row["code"] in bought for row in control)


def test_an_unknown_campaign_is_named(store):
    with pytest.raises(StateError, match="winter"):
        store.decisions("winter")


def test_a_campaign_is_learned_once(store, launched):
    ingest(store, "spring", outcomes(launched))
    after = learn_campaign(store, "spring", knowledge(), as_of=AFTER)
    with pytest.raises(StateError, match="twice"):
        learn_campaign(store, "spring", after, as_of=AFTER)


def test_the_reserve_of_each_cap_stays_back(store):
    result = launch(
        plan(reserve={"share": "50%"}, control={"share": 0}, holdout={"share": 0}),
        people(),
        belief=knowledge(),
        store=store,
        secret=b"s" * 32,
    )
    assert result.test is not None
    assert result.test.counts.tolist() == [30, 10]  # half of the caps 60 and 20, which 200 customers fill


def one_outcome(launched, **columns):
    """The first outcome with some columns replaced by Arrow arrays of their own type."""
    table = outcomes(launched, slice(0, 1))
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    return table


@pytest.mark.parametrize("kind", ["string", "dictionary", "decimal", "days"])
def test_an_outcome_counts_whatever_types_its_file_has(store, launched, kind):
    plain = one_outcome(launched)
    changed = {
        "string": {"customer_id": plain["customer_id"].cast(pa.string())},  # from a CSV: "17" is 17
        "dictionary": {name: plain[name].dictionary_encode() for name in ("code", "kind", "campaign_id")},
        "decimal": {"full_price": pa.array([Decimal("50.25")])},
        "days": {"ordered_at": pa.array([date(2027, 3, 9)])},
    }[kind]
    assert ingest(store, "spring", one_outcome(launched, **changed)).applied == 1
    assert ingest(store, "spring", plain).duplicate == 1
    assert store.ledger("spring")["full_price_minor"].to_pylist() == [5025]


def test_a_time_with_a_zone_is_kept_in_utc_and_judged_there(store, launched):
    def at(*clock):
        moment = datetime(*clock, tzinfo=UTC)
        return pa.array([moment], pa.timestamp("us", "America/New_York"))

    # 02:00 UTC on the first day is still the evening before in New York
    assert ingest(store, "spring", one_outcome(launched, ordered_at=at(2027, 3, 8, 2))).applied == 1
    assert store.ledger("spring")["ordered_at"].to_pylist() == [datetime(2027, 3, 8, 2)]
    late = one_outcome(launched, ordered_at=at(2027, 3, 22, 1), event_id=pa.array(["late"]))
    assert ingest(store, "spring", late).rejected == 1


@pytest.mark.parametrize(
    "empty", ["event_id", "campaign_id", "customer_id", "code", "ordered_at", "full_price", "kind"]
)
@pytest.mark.parametrize("typed", [True, False], ids=["typed", "untyped"])
def test_an_outcome_with_an_empty_cell_is_set_aside(store, launched, empty, typed):
    kind = outcomes(launched).schema.field(empty).type if typed else pa.null()
    counts = ingest(store, "spring", one_outcome(launched, **{empty: pa.nulls(1, kind)}))
    assert (counts.received, counts.applied, counts.rejected) == (1, 0, 1)


@pytest.mark.parametrize("price", [0.004, 1e20])
def test_an_amount_that_no_ledger_can_hold_is_set_aside_and_learning_goes_on(store, launched, price):
    """The ledger holds whole pennies: less would be a basket of nothing, of which there is no logarithm."""
    assert ingest(store, "spring", one_outcome(launched, full_price=pa.array([price]))).rejected == 1
    learn_campaign(store, "spring", knowledge(), as_of=AFTER)


@pytest.mark.parametrize(
    ("column", "values"),
    [("ordered_at", pa.array(["yesterday"])), ("full_price", pa.array(["fifty"])), ("customer_id", pa.array([1.5]))],
)
def test_a_column_of_another_type_is_refused_by_name(store, launched, column, values):
    with pytest.raises(InputError, match=column):
        ingest(store, "spring", one_outcome(launched, **{column: values}))


def test_a_mended_row_counts_though_its_first_try_was_set_aside(store, launched):
    wrong = one_outcome(launched, full_price=pa.array([-1.0]))
    counts = ingest(store, "spring", pa.concat_tables([wrong, one_outcome(launched), one_outcome(launched)]))
    assert (counts.rejected, counts.applied, counts.duplicate) == (1, 1, 1)


def test_a_launch_that_fails_on_the_way_leaves_nothing(store, launched, monkeypatch):
    """The last row repeats a code of another campaign: nine batches are in by then."""
    monkeypatch.setattr(sql, "_BATCH", 20)
    table = launched.decisions
    code = next(code for code in table["code"].to_pylist() if code)
    codes = pa.array([None] * (table.num_rows - 1) + [code], pa.string())
    table = table.set_column(table.column_names.index("code"), "code", codes)
    with pytest.raises(StateError, match="Nothing was written"):
        store.launch(plan(campaign="summer"), table)
    with pytest.raises(StateError, match="no such campaign"):
        store.decisions("summer")
    assert store.decisions("spring").num_rows == 200


def test_of_two_ingests_at_once_the_second_adds_nothing(store, launched, monkeypatch):
    """The other ingest commits after this one has looked which events are known."""
    batch = outcomes(launched)
    ingest(store, "spring", batch.slice(batch.num_rows - 1))
    monkeypatch.setattr(store, "known_events", lambda events: frozenset())
    monkeypatch.setattr(sql, "_BATCH", 5)
    with pytest.raises(StateError, match="Try again"):
        ingest(store, "spring", batch)
    monkeypatch.undo()
    assert store.ledger("spring").num_rows == 1
    counts = ingest(store, "spring", batch)
    assert (counts.applied, counts.duplicate) == (batch.num_rows - 1, 1)
