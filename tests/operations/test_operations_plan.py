"""Plans: immutable, named by their inputs, honest about what they expect; launched once, whole, and only unchanged."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from disco.operations.launch import inputs_now, launch
from disco.operations.learn import deciding_belief, learn_campaigns
from disco.operations.outcomes import ingest
from disco.operations.plan import PlanResult, keep, load
from disco.operations.plan_warnings import stability_indices
from disco.records.campaign_records import State
from disco.records.decisions import Arm
from disco.records.errors import FileFormatError, InfeasibleError, InputError, StateError


def by_depth(decisions, depth, arm=None):
    return sum(row["depth"] == depth and arm in (None, row["arm"]) for row in decisions.to_pylist())


def test_caps_hold_over_both_arms_and_the_holdout_gets_no_code(shop):
    decisions = shop.launch().decisions
    assert by_depth(decisions, 0.1) <= 60
    assert by_depth(decisions, 0.3) <= 20
    rows = decisions.to_pylist()
    assert {row["arm"] for row in rows if row["code"]} == {Arm.DECIDED, Arm.CONTROL}
    assert all((row["code"] is None) == (row["depth"] is None) for row in rows)


def test_what_was_launched_is_what_the_store_gives_back(shop):
    planned = shop.planned()
    launched = launch(shop.store, planned, clock=shop.clock)
    with shop.store.reading() as transaction:
        kept = transaction.decisions.of("spring")
        assert kept.select(launched.decisions.column_names).to_pylist() == launched.decisions.to_pylist()
        assert np.array_equal(transaction.contexts.of("spring", shop.network), planned.contexts)
        record = transaction.plans.campaign("spring")
    assert (record.plan, record.state, record.plan_id) == (planned.plan, State.LAUNCHED, planned.plan_id)


def test_text_ids_come_back_as_text(shop):
    ids = np.array([f"0{n}" for n in range(200)], object)
    shop.launch(audience=shop.people(ids=ids))
    with shop.store.reading() as transaction:
        assert transaction.decisions.of("spring")["customer_id"].to_pylist() == ids.tolist()


def test_a_plan_is_named_by_everything_it_rests_on(shop):
    first = shop.planned()
    assert shop.planned().plan_id == first.plan_id
    others = [
        shop.planned(shop.plan(seed=5)),
        shop.planned(shop.plan(depths={0.1: {"at_most": 61}, 0.3: {"at_most": 20}})),
        shop.planned(inputs={"features": "f2"}),
        shop.planned(belief=shop.prior),
    ]
    assert len({planned.plan_id for planned in (first, *others)}) == 5


def test_a_plan_comes_back_as_it_was_kept_and_a_changed_file_is_refused(shop, tmp_path):
    features = pa.table({"customer_id": np.arange(200), "x": np.arange(200.0)})
    planned = shop.planned(features=features, sources={"tables": "t1"})
    keep(shop.store, planned)
    files = sorted((tmp_path / "disco-artefacts").iterdir())
    keep(shop.store, planned)
    assert sorted((tmp_path / "disco-artefacts").iterdir()) == files
    assert len(files) == 3
    read = load(shop.store, planned.plan_id[:6])
    assert read.plan_id == planned.plan_id
    assert read.decisions.equals(planned.decisions)
    assert np.array_equal(read.contexts, planned.contexts)
    assert read.features.equals(planned.features)
    assert read.record() == planned.record()
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[:99] + bytes([content[99] ^ 1]) + content[100:])
        with pytest.raises(FileFormatError, match="file as written"):
            load(shop.store, planned.plan_id)
        file.unlink()
        with pytest.raises(StateError, match=rf"{file.name} is missing.*artefacts"):
            load(shop.store, planned.plan_id)
        file.write_bytes(content)
    assert load(shop.store, planned.plan_id).plan_id == planned.plan_id


def test_inputs_are_read_again_only_where_their_sources_changed(shop):
    planned = shop.planned(sources={"tables": "t1", "network": "n1"})
    reads = []

    def read():
        reads.append(1)
        return {"customers": "c2"}

    assert inputs_now(planned.summary.sources, {"network": "n1", "tables": "t1"}, read=read) == {}
    assert not reads
    for sources in ({"network": "n1", "tables": "t2"}, {"tables": "t1"}, None):
        assert inputs_now(planned.summary.sources, sources, read=read) == {"customers": "c2"}
    assert inputs_now({}, {}, read=read) == {"customers": "c2"}, "a plan without sources"
    assert len(reads) == 4


def test_launching_again_changes_nothing_and_another_plan_is_refused(shop):
    planned = shop.planned()
    first = launch(shop.store, planned, clock=shop.clock)
    again = launch(shop.store, planned, clock=shop.clock)
    assert (first.again, again.again) == (False, True)
    assert again.decisions["code"].to_pylist() == first.decisions["code"].to_pylist()
    with pytest.raises(StateError, match="another campaign name"):
        launch(shop.store, shop.planned(shop.plan(seed=9)), clock=shop.clock)


def test_an_input_that_changed_stops_the_launch_by_name(shop):
    planned = shop.planned(inputs={"network": shop.network})
    with pytest.raises(StateError, match="decided: customers"):
        launch(shop.store, planned, clock=shop.clock, inputs={"customers": "c2", "network": shop.network})
    with shop.store.reading() as transaction:
        assert transaction.plans.find_campaign("spring") is None
    assert not launch(shop.store, planned, clock=shop.clock, inputs={"network": shop.network}).again


def test_a_launch_that_fails_on_the_way_leaves_nothing(shop, monkeypatch):
    """Everything else is written by then."""

    def no_evidence(*_, **__):
        raise StateError("no evidence")

    monkeypatch.setattr("disco.operations.launch.CampaignEvidence.launched", no_evidence)
    with pytest.raises(StateError, match="no evidence"):
        launch(shop.store, shop.planned(), clock=shop.clock)
    with shop.store.reading() as transaction:
        assert transaction.plans.campaigns() == ()
        assert transaction.plans.of("spring") == ()


def test_a_rehearsed_launch_leaves_nothing(shop):
    said = launch(shop.store, shop.planned(), clock=shop.clock, dry_run=True)
    assert said.codes > 0
    with shop.store.reading() as transaction:
        assert transaction.plans.find_campaign("spring") is None


def test_the_reserve_of_caps_and_budget_stays_back(shop):
    planned = shop.planned(shop.plan(reserve={"share": "50%"}, control={"share": 0}, budget=300.0))
    assert sum(planned.arms[Arm.DECIDED].codes.values()) <= 40
    assert planned.solution.reserve == (30, 10)
    assert planned.solution.reserve_budget == pytest.approx(150.0)
    assert planned.total.markdown.value < 200


@pytest.mark.parametrize("number", range(12))
def test_the_expected_markdown_of_all_codes_keeps_the_budget(shop, number):
    """Control as well as decided, and random campaigns: by the expected markdown of those who get the codes."""
    rng = np.random.default_rng(number)
    budget = float(rng.uniform(20, 160))
    planned = shop.planned(
        shop.plan(
            seed=number,
            budget=budget,
            control={"share": float(rng.uniform(0.1, 0.8))},
            policy={"name": "random" if number % 4 == 0 else "thompson"},
            depths={0.1: {"at_most": 90}, 0.3: {"at_most": 70}},
        ),
        shop.people(seed=number),
        belief=shop.knowledge(spread=0.8),
    )
    columns = ("expected_full_price", "depth", "expected_engagement")
    full_price, depth, engagement = (planned.decisions[name].drop_null().to_numpy() for name in columns)
    cost = (full_price * depth * engagement).sum()
    assert 0.6 * budget < cost <= budget


def test_floors_are_kept_in_both_arms(shop):
    limits = {0.1: {"at_most": 60}, 0.3: {"at_least": 20, "at_most": 20}}
    planned = shop.planned(shop.plan(depths=limits))
    codes = [planned.arms[arm].codes[0.3] for arm in (Arm.DECIDED, Arm.CONTROL)]
    assert sum(codes) == 20
    assert min(codes) >= 4
    with pytest.raises(InfeasibleError):
        shop.planned(shop.plan(depths={0.1: {"at_least": 300}}))


@pytest.mark.parametrize(
    ("limits", "more", "words"),
    [
        ({"at_most": 10, "at_least": 20}, {}, "10% off: at least 20 codes, and at most 10"),
        ({"at_most": 100, "at_least": 100}, {"reserve": {"share": "2%"}}, "at most 100, of which 2 stay in reserve"),
        ({"at_least": 500}, {}, "all depths: at least 500 codes in total, but only 1.. customers outside the holdout"),
    ],
)
def test_limits_that_contradict_each_other_are_told_in_the_plans_own_numbers(shop, limits, more, words):
    with pytest.raises(InfeasibleError, match=words):
        shop.planned(shop.plan(depths={0.1: limits}, **more))


def test_a_plan_that_comes_too_late_is_warned_of(shop):
    assert not any("was launched" in words for words in shop.planned().summary.warnings)
    plan_id = shop.launch().plan_id
    assert not any("was launched" in words for words in shop.planned().summary.warnings)
    assert any(plan_id in words for words in shop.planned(shop.plan(seed=9)).summary.warnings)


def test_prices_are_told_in_revenue(shop):
    planned = shop.planned(shop.plan(budget=40))
    told, solution = PlanResult.of(planned, dry_run=True).as_dict(), planned.solution
    assert solution.budget_price > 0
    assert told["budget_price"] == pytest.approx(solution.budget_price / 3)
    assert list(told["prices"].values()) == pytest.approx([price / 3 for price in solution.prices])


def test_intervals_hold_the_mean_and_arms_add_up_to_the_total(shop):
    planned = shop.planned()
    arms = [planned.arms[arm].money for arm in (Arm.DECIDED, Arm.CONTROL)]
    for name in ("revenue", "markdown", "reward"):
        interval = getattr(planned.total, name)
        assert interval.lower < interval.value < interval.upper
        assert interval.value == pytest.approx(sum(getattr(arm, name).value for arm in arms))
    assert planned.arms[Arm.HOLDOUT].money is None


def test_nothing_is_expected_before_anything_was_learned_and_it_is_said(shop):
    planned = shop.planned(belief=shop.prior)
    assert planned.total is None
    assert planned.decisions["expected_full_price"].null_count == 200
    assert any("Nothing was learned" in warning for warning in planned.summary.warnings)
    random = shop.planned(shop.plan(policy={"name": "random"}), belief=shop.prior)
    assert random.summary.warnings == ()
    assert random.solution.prices is None
    paid = shop.planned(shop.plan(policy={"name": "random"}, budget=10), belief=shop.prior)
    assert any("the budget does not bind" in warning for warning in paid.summary.warnings)
    assert not any("budget" in warning for warning in shop.planned(shop.plan(budget=10)).summary.warnings)


def test_a_handful_of_the_same_customers_is_no_other_population(shop):
    shop.launch()
    for seed in range(20):
        few = shop.planned(shop.plan(campaign="summer", seed=seed), shop.people(rows=12, seed=seed))
        assert not any("differ" in warning for warning in few.summary.warnings)


def test_depths_never_played_and_other_customers_are_warned_of(shop):
    deep = shop.planned(shop.plan(depths={0.3: {}, 0.9: {}}))
    assert any("extrapolate" in warning and "90% off" in warning for warning in deep.summary.warnings)
    shop.launch()
    moved = shop.people(seed=3)
    moved = replace(moved, context=np.clip(moved.context + 1.5, -4, 4))
    said = shop.planned(shop.plan(campaign="summer"), moved).summary.warnings
    assert any("differ from those of the last campaign" in warning for warning in said)
    same = shop.planned(shop.plan(campaign="summer"), shop.people(seed=3)).summary.warnings
    assert not any("differ" in warning for warning in same)


def test_the_stability_index_is_symmetric_in_its_sign_and_zero_for_equal_samples():
    rng = np.random.default_rng(1)
    before, after = rng.normal(size=(5000, 2)), rng.normal((0.0, 1.0), size=(5000, 2))
    index = stability_indices(before, after)
    assert index[0] < 0.02
    assert index[1] > 0.5
    assert (stability_indices(before, before) == 0).all()


def test_codes_are_new_whoever_else_has_them(shop):
    """The same secret, campaign name and customers in another shop's order: here a pool repeats made codes."""
    first = shop.launch()
    used = [code for code in first.decisions["code"].to_pylist() if code]
    pooled = shop.planned(shop.plan(campaign="summer", codes={"pool": "codes.txt"}))
    fresh = [f"POOL{n:04d}" for n in range(100)]
    for pool, reason in (
        (fresh[:5], "unused codes"),
        ([*fresh, fresh[0]], "repeat"),
        ([*fresh, used[0]], "in use"),
        ([*fresh, " "], "empty"),
    ):
        with pytest.raises(InputError, match=reason):
            launch(shop.store, pooled, clock=shop.clock, pool=pool)
    with pytest.raises(StateError, match="no pool"):
        launch(shop.store, pooled, clock=shop.clock)
    given = launch(shop.store, pooled, clock=shop.clock, pool=fresh)
    assert [code for code in given.decisions["code"].to_pylist() if code] == fresh[: given.codes]


def test_a_prefix_beside_a_pool_is_not_used_and_that_is_said(shop):
    planned = shop.planned(shop.plan(codes={"prefix": "SPRING", "pool": "codes.txt"}))
    assert any("the prefix SPRING is not used" in words for words in planned.summary.warnings)
    assert not any("prefix" in words for words in shop.planned(shop.plan(codes={"pool": "codes.txt"})).summary.warnings)


def test_a_prefix_stands_before_every_code(shop):
    launched = shop.launch(shop.plan(codes={"prefix": "SPRING"}))
    assert all(row["code"].startswith("SPRING-") for row in shop.sent(launched))


def test_a_plan_says_whether_baskets_had_a_spread_of_their_own_at_each_depth(shop):
    """A plan of an earlier version had one spread for all depths, and is explained with it."""
    launched = shop.launch()
    receive = shop.outcomes(shop.sent(launched), full_price=np.exp(np.linspace(2, 5, len(shop.sent(launched)))))
    ingest(shop.store, "spring", receive, source="test", clock=shop.clock)
    learned = learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    plan = shop.plan(campaign="summer")
    planned = shop.planned(plan, belief=learned.belief, version=learned.version)
    launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    with shop.store.reading() as transaction:
        record = transaction.plans.campaign("summer")
        assert record.solution.spread_by_depth
        assert deciding_belief(transaction, record, prior=shop.prior).basket.depth_spread.depths.size
        earlier = replace(record, solution=replace(record.solution, spread_by_depth=False))
        assert not deciding_belief(transaction, earlier, prior=shop.prior).basket.depth_spread.depths.size
    assert not shop.planned(belief=shop.prior).solution.spread_by_depth
