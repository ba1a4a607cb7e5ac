"""A launch proves that a plan's tables are what was planned, whoever changed them and named them validly."""

import json
import sqlite3
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from disco.features.snapshot import counted, with_snapshot
from disco.operations.launch import launch, refuse_unproved
from disco.operations.learn import active_belief, learn_campaigns
from disco.operations.plan import Planned, keep, load
from disco.records.arrow_tables import content_hash
from disco.records.decisions import Arm
from disco.records.errors import DiscoError, StateError
from disco.store import Store, schema
from disco.store.artefacts import FolderArtefacts
from disco.store.rows import seal_of

CUSTOMERS = 400


class PlanInStore:
    """A plan that is kept, and whoever may write to its database and its artefacts."""

    def __init__(self, shop: Any, folder: Path, **more: Any) -> None:
        self.shop, self.file = shop, folder / "disco.sqlite"
        self.artefacts = FolderArtefacts(folder / "disco-artefacts")
        people = shop.people(rows=CUSTOMERS)
        features = pa.table({"customer_id": people.ids, "spend": np.arange(CUSTOMERS) * 1.5})
        limits = {0.1: {"at_most": 60}, 0.3: {"at_most": 20, "at_least": 8}, 0.4: {"at_most": 9}}
        self.planned: Planned = shop.planned(
            shop.plan(**{"depths": limits, "reserve": {"share": "10%"}, "budget": 500.0, **more}),
            people,
            features=features,
            inputs={"features": content_hash(features), "network": shop.network},
        )
        keep(shop.store, self.planned)

    def row(self) -> dict[str, str]:
        with sqlite3.connect(self.file) as database:
            return self.row_in(database)

    def row_in(self, database: sqlite3.Connection) -> dict[str, str]:
        database.row_factory = sqlite3.Row
        return dict(database.execute("SELECT * FROM plans").fetchone())

    def forge(self, *, summary: Callable[[dict[str, Any]], None] | None = None, **tables: pa.Table) -> None:
        """Put these tables in the place of the plan's own, named by their content, and seal the row anew."""
        names = {column: self.artefacts.put(table) for column, table in tables.items()}
        if summary is not None:
            content = json.loads(self.row()["summary"])
            summary(content)
            names["summary"] = json.dumps(content)
        self.write(names)

    def write(self, cells: Mapping[str, str | None]) -> None:
        with sqlite3.connect(self.file) as database:
            for column, content in cells.items():
                database.execute(f"UPDATE plans SET {column} = ?", (content,))
            database.execute("UPDATE plans SET seal = ?", (seal_of(schema.plans, self.row_in(database)),))
        database.close()

    def table(self, column: str) -> pa.Table:
        return self.artefacts.get(self.row()[column])

    def state(self) -> tuple[list[str], list[Path]]:
        with sqlite3.connect(self.file) as database:
            return list(database.iterdump()), sorted(self.artefacts.folder.iterdir())

    def launch(self, **more: Any) -> Any:
        plan = load(self.shop.store, self.planned.plan_id)
        return launch(self.shop.store, plan, clock=self.shop.clock, secret=self.shop.secret, **more)


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, values)


def with_arms(table: pa.Table, arms: list[str]) -> pa.Table:
    return with_column(table, "arm", pa.array(arms).dictionary_encode().cast(table["arm"].type))


def every_depth(plan: PlanInStore, depth: float) -> None:
    decisions = plan.table("decisions")
    coded = decisions["depth"].is_valid()
    plan.forge(decisions=with_column(decisions, "depth", pc.if_else(coded, depth, None)))


def friend(plan: PlanInStore) -> None:
    """An own account in the place of a customer with a code, in decisions and features, in the arm of its hash."""
    decisions, features = plan.table("decisions"), plan.table("features")
    row = int(np.flatnonzero(decisions["depth"].is_valid().to_numpy())[0])
    ids = decisions["customer_id"].to_pylist()
    ids[row] = next(
        other for other in range(10_000, 20_000) if plan.shop.arm_of(other) == decisions["arm"][row].as_py()
    )
    plan.forge(
        decisions=with_column(decisions, "customer_id", pa.array(ids)),
        features=with_column(features, "customer_id", pa.array(ids)),
    )


def another_arm(plan: PlanInStore) -> None:
    decisions = plan.table("decisions")
    plan.forge(decisions=with_arms(decisions, ["zz"] * decisions.num_rows))


def arms_swapped(plan: PlanInStore) -> None:
    decisions = plan.table("decisions")
    arms = decisions["arm"].to_pylist()
    one, other = arms.index("decided"), arms.index("control")
    arms[one], arms[other] = arms[other], arms[one]
    plan.forge(decisions=with_arms(decisions, arms))


def holdout_with_a_code(plan: PlanInStore) -> None:
    """In exchange for a code of another customer, so that all counts stay."""
    decisions = plan.table("decisions")
    depth, arms = decisions["depth"].to_pylist(), decisions["arm"].to_pylist()
    given = next(row for row, one in enumerate(depth) if one is not None and arms[row] == "decided")
    depth[arms.index("holdout")], depth[given] = depth[given], None
    plan.forge(decisions=with_column(decisions, "depth", pa.array(depth, pa.float64())))


def no_contexts(plan: PlanInStore) -> None:
    contexts = plan.table("contexts")
    plan.forge(contexts=with_column(contexts, "context", pa.nulls(contexts.num_rows, contexts["context"].type)))


def contexts_not_finite(plan: PlanInStore) -> None:
    size = plan.planned.contexts.shape[1]
    values = pa.array(np.full(plan.planned.contexts.size, np.nan))
    plan.forge(contexts=pa.table({"context": pa.FixedSizeListArray.from_arrays(values, size)}))


def contexts_of_fewer(plan: PlanInStore) -> None:
    plan.forge(contexts=plan.table("contexts").slice(0, 10))


def hundred_rows(plan: PlanInStore) -> None:
    def fewer(summary: dict[str, Any]) -> None:
        summary["customers"] = 100

    tables = {name: plan.table(name).slice(0, 100) for name in ("decisions", "contexts", "features")}
    plan.forge(summary=fewer, **tables)


def one_row_less(plan: PlanInStore) -> None:
    plan.forge(decisions=plan.table("decisions").slice(1))


def customer_twice(plan: PlanInStore) -> None:
    decisions = plan.table("decisions")
    ids = decisions["customer_id"].to_pylist()
    plan.forge(decisions=with_column(decisions, "customer_id", pa.array([ids[1], *ids[1:]])))


def other_columns(plan: PlanInStore) -> None:
    plan.forge(decisions=plan.table("decisions").drop_columns(["known"]))


def fewer_than_the_floor(plan: PlanInStore) -> None:
    def none_of_it(summary: dict[str, Any]) -> None:
        for arm in summary["arms"].values():
            arm["codes"]["0.3"] = 0

    decisions = plan.table("decisions")
    floor = pc.equal(decisions["depth"], 0.3)
    gone = {name: pc.if_else(floor, None, decisions[name]) for name in ("depth", "expected_full_price")}
    decisions = with_column(decisions, "depth", gone["depth"])
    decisions = with_column(decisions, "expected_full_price", gone["expected_full_price"])
    plan.forge(decisions=decisions, summary=none_of_it)


def a_group_takes_the_others_codes(plan: PlanInStore) -> None:
    """All codes of control go to the decided group; the whole keeps its caps, and the summary says the new numbers."""

    def moved(summary: dict[str, Any]) -> None:
        codes = {arm: summary["arms"][arm]["codes"] for arm in ("decided", "control")}
        for depth in codes["control"]:
            codes["decided"][depth] += codes["control"][depth]
            codes["control"][depth] = 0

    decisions = plan.table("decisions")
    depth, arms = decisions["depth"].to_pylist(), decisions["arm"].to_pylist()
    for row, arm in enumerate(arms):
        if arm == "control" and depth[row] is not None:
            to = next(other for other, one in enumerate(depth) if one is None and arms[other] == "decided")
            depth[to], depth[row] = depth[row], None
    plan.forge(decisions=with_column(decisions, "depth", pa.array(depth, pa.float64())), summary=moved)


def other_engagement(plan: PlanInStore) -> None:
    decisions = plan.table("decisions")
    plan.forge(
        decisions=with_column(decisions, "expected_engagement", pc.divide(decisions["expected_engagement"], 10.0))
    )


def dear_customers(plan: PlanInStore) -> None:
    """Ten times the money for the same codes: the budget is spent ten times."""
    decisions = plan.table("decisions")
    dearer = pc.multiply(decisions["expected_full_price"], 10.0)
    plan.forge(decisions=with_column(decisions, "expected_full_price", dearer))


def other_values(plan: PlanInStore) -> None:
    decisions = plan.table("decisions")
    plan.forge(decisions=with_column(decisions, "value", pc.multiply(decisions["value"], 2.0)))


def larger_reserve(plan: PlanInStore) -> None:
    def thousand_more(summary: dict[str, Any]) -> None:
        summary["solution"]["reserve"] = [1000 for _ in summary["solution"]["reserve"]]

    plan.forge(summary=thousand_more)


def other_features(plan: PlanInStore) -> None:
    features = plan.table("features")
    plan.forge(features=with_column(features, "spend", pa.array(np.full(features.num_rows, 1e6))))


def without_features(plan: PlanInStore) -> None:
    plan.write({"features": None})


FORGERIES = [
    (lambda plan: every_depth(plan, 0.4), "codes of 40% off, for a limit of 8"),
    (lambda plan: every_depth(plan, 0.77), "depths that are not offered, the first of 77% off"),
    (friend, "the customers are others than those planned"),
    (another_arm, "another group than their own for 400 customers, the first in 'zz'"),
    (arms_swapped, "another group than their own for 2 customers"),
    (holdout_with_a_code, "a depth for 1 customer of the holdout"),
    (no_contexts, "one context per decision"),
    (contexts_not_finite, "contexts that are not finite numbers"),
    (contexts_of_fewer, "10 contexts, for 400 decisions"),
    (hundred_rows, "the customers are others than those planned"),
    (one_row_less, "399 decisions, for 400 customers planned"),
    (customer_twice, "1 decision about a customer who has another one"),
    (other_columns, "with other columns"),
    (fewer_than_the_floor, "0 codes of 30% off, for a floor of 8"),
    (a_group_takes_the_others_codes, "in group decided, for a limit of"),
    (other_engagement, "other shares of receivers who buy"),
    (dear_customers, "an expected markdown of .* in group decided, for a budget of"),
    (other_values, "a value of .* planned"),
    (larger_reserve, "the reserve is another than the plan's"),
    (other_features, "the features are others than those planned"),
    (without_features, "the features are missing"),
]


@pytest.mark.parametrize(("forgery", "words"), FORGERIES)
def test_a_forged_plan_is_refused_and_nothing_is_written(shop, tmp_path, forgery, words):
    plan = PlanInStore(shop, tmp_path)
    forgery(plan)
    before = plan.state()
    with pytest.raises(DiscoError, match=words) as refused:
        plan.launch()
    assert refused.value.fix
    assert plan.state() == before
    keep(shop.store, plan.planned)  # as `disco plan` does, which the words above recommend
    assert plan.launch().customers == CUSTOMERS


@pytest.mark.parametrize("damage", ["row", "cut", "gone"])
def test_a_damaged_plan_is_whole_again_when_it_is_planned_again(shop, tmp_path, damage):
    plan = PlanInStore(shop, tmp_path)
    kept = plan.row()
    file = plan.artefacts.folder / f"{kept['decisions']}.arrow"
    if damage == "row":
        with sqlite3.connect(plan.file) as database:
            database.execute("UPDATE plans SET planned_at = planned_at + 1")
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.unlink()
    with pytest.raises(DiscoError):
        plan.launch()
    keep(shop.store, plan.planned)
    assert plan.row() == kept
    assert plan.launch().customers == CUSTOMERS


def test_planning_a_launched_plan_again_leaves_it_as_it_is(shop, tmp_path):
    plan = PlanInStore(shop, tmp_path)
    plan.launch()
    (plan.artefacts.folder / f"{plan.row()['features']}.arrow").unlink()
    before = plan.row(), set(plan.artefacts.sizes())
    keep(shop.store, plan.planned)
    assert (plan.row(), set(plan.artefacts.sizes())) == before


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"budget": None},
        {"policy": {"name": "random"}, "budget": 300.0},
        {"control": {"share": 0}, "holdout": {"share": 0}},
        {"reserve": {"share": 0}, "depths": {0.1: {}}},
    ],
)
def test_a_plan_as_it_was_kept_is_proved_and_launched(shop, tmp_path, more):
    plan = PlanInStore(shop, tmp_path, **more)
    assert plan.launch().customers == CUSTOMERS


def test_a_plan_before_anything_was_learned_is_proved_too(shop):
    for policy in ("random", "greedy"):
        campaign = shop.planned(shop.plan(campaign=policy, policy={"name": policy}, budget=5.0), belief=shop.prior)
        assert not launch(shop.store, campaign, clock=shop.clock).again


def test_a_plan_that_is_kept_is_launched_as_it_lies_in_the_store(shop, tmp_path):
    """Not as the caller holds it: the row of the plan names the tables that the campaign will have."""
    plan = PlanInStore(shop, tmp_path)
    decisions = plan.planned.decisions
    mine = replace(plan.planned, decisions=with_column(decisions, "value", pa.array(np.ones(CUSTOMERS))))
    launched = launch(shop.store, mine, clock=shop.clock)
    assert launched.decisions.drop_columns(["code"]).equals(decisions)


@pytest.mark.parametrize(
    ("name", "words"), [("program_version", r"program version \(planned with 0\.0\.9\)"), ("limits", "decided: limits")]
)
def test_a_plan_of_another_program_version_or_other_limits_is_refused(shop, name, words):
    planned = shop.planned()
    other = replace(planned, inputs={**planned.inputs, name: "0.0.9"})
    with pytest.raises(StateError, match=words):
        launch(shop.store, other, clock=shop.clock)
    with shop.store.reading() as transaction:
        assert transaction.plans.campaigns() == ()


class LearnedMeanwhile:
    """A store in which a model is learned at the moment when a campaign wants to write."""

    def __init__(self, store: Store, learn: Callable[[], object]) -> None:
        self._store, self._learn = store, learn

    def reading(self) -> Any:
        return self._store.reading()

    def writing(self, subject: str, *, action: str, dry_run: bool = False) -> Any:
        thread = threading.Thread(target=self._learn)
        thread.start()
        thread.join()
        return self._store.writing(subject, action=action, dry_run=dry_run)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_model_learned_before_the_transaction_stops_the_launch(database, make_shop, tmp_path, request):
    if database == "sqlite":
        store = Store.embedded(tmp_path / "disco.db")
    else:
        store = Store(request.getfixturevalue("new_postgres_url")(), tmp_path / "artefacts")
    shop = make_shop(store)
    shop.launch(shop.plan(policy={"name": "random"}), belief=shop.prior)

    def learn() -> None:
        learn_campaigns(store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)

    belief, _ = active_belief(store, prior=shop.prior)
    planned = shop.planned(shop.plan(campaign="summer"), belief=belief)
    with pytest.raises(StateError, match="since it was decided: model"):
        launch(LearnedMeanwhile(store, learn), planned, clock=shop.clock, prior=shop.prior)
    belief, version = active_belief(store, prior=shop.prior)
    assert version is not None
    planned = shop.planned(shop.plan(campaign="summer"), belief=belief, version=version.number)
    assert not launch(store, planned, clock=shop.clock, prior=shop.prior).again
    store.close()


def test_a_plan_that_names_another_version_than_it_was_decided_with_is_refused(shop):
    shop.launch(shop.plan(policy={"name": "random"}), belief=shop.prior)
    learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    belief, _ = active_belief(shop.store, prior=shop.prior)
    planned = shop.planned(shop.plan(campaign="summer"), belief=belief, version=7)
    with pytest.raises(StateError, match="model"):
        launch(shop.store, planned, clock=shop.clock, prior=shop.prior)


def test_the_holdout_is_never_in_the_codes_of_a_launch(shop, tmp_path):
    launched = PlanInStore(shop, tmp_path).launch()
    assert {row["arm"] for row in shop.sent(launched)} == {Arm.DECIDED, Arm.CONTROL}


def test_features_with_another_snapshot_than_planned_are_refused(shop: Any, tmp_path: Path) -> None:
    people = shop.people(rows=CUSTOMERS)
    features = pa.table({"customer_id": people.ids, "spend": np.arange(CUSTOMERS) * 1.5})
    day = counted(features)
    carrying = features.cast(with_snapshot(features.schema, day))
    inputs = {"features": content_hash(features), "network": shop.network, "snapshot": day.hash}
    planned: Planned = shop.planned(shop.plan(depths={0.1: {"at_most": 60}}), people, features=carrying, inputs=inputs)
    refuse_unproved(planned, customers=CUSTOMERS)
    other = features.cast(with_snapshot(features.schema, counted(features.slice(1))))
    for forged in (other, features):
        with pytest.raises(StateError, match="another snapshot than that planned"):
            refuse_unproved(replace(planned, features=forged), customers=CUSTOMERS)
