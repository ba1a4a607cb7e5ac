"""Engagement per customer, from the launch to the next plan: codes are counted per bin of the score, exactly."""

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals

from disco.belief import EngagementCounts
from disco.operations.contexts import FeatureCache
from disco.operations.explain import explain
from disco.operations.forecast import past_forecasts
from disco.operations.forget import forget
from disco.operations.launch import launch
from disco.operations.learn import (
    CampaignEvidence,
    active_belief,
    belief_for,
    belief_of,
    engagement_text,
    learn_campaigns,
    rebuild,
    stored_evidence,
)
from disco.operations.outcomes import ingest, revert
from disco.operations.replay import add_propensities
from disco.operations.upkeep import RepairLog, audit, repair_campaigns
from disco.records.errors import FileFormatError, StateError
from disco.records.plan_summary import PlanSummary
from disco.records.score import EngagementHead, ScoreBins

RANDOM = {"name": "random"}


def receive(shop, rows, campaign="spring", **columns):
    table = shop.outcomes(rows, campaign_id=[campaign] * len(rows), **columns)
    return ingest(shop.store, campaign, table, source="test", clock=shop.clock)


def learn(shop, *campaigns):
    return learn_campaigns(shop.store, campaigns or ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)


def stored(shop, campaign="spring", network=None):
    with shop.store.reading() as transaction:
        return stored_evidence(transaction, campaign, network or shop.network)


def counted_by_hand(shop, launched, bought, *, contexts=None, head=None):
    """Matured codes of the random part, in the bins of the head."""
    contexts, head = shop.people().context if contexts is None else contexts, head or shop.head
    rows = [row for row in shop.sent(launched) if row["arm"] == "control"]
    used = {row["code"] for row in bought}
    return EngagementCounts.of(
        [row["depth"] for row in rows],
        np.array([row["code"] in used for row in rows]),
        score=head.scores(contexts[[row["customer_id"] for row in rows]]),
        bins=head.bins,
    )


@pytest.fixture
def launched(scored_shop):
    return scored_shop.launch()


# ---- evidence


def test_codes_are_counted_in_the_bin_of_their_own_customer(scored_shop, launched):
    bought = scored_shop.sent(launched)[:60]
    receive(scored_shop, bought)
    expected = counted_by_hand(scored_shop, launched, bought)
    assert stored(scored_shop).codes == expected
    assert np.count_nonzero(expected.sent) > 5, "several bins have codes"
    assert learn(scored_shop).belief.engagement.counts == expected
    assert all(finding.ok for finding in audit(scored_shop.store))


def test_the_margin_is_what_is_counted_without_a_head_byte_for_byte(make_shop, scored_shop, tmp_path, head):
    from disco.store import Store

    plain = make_shop(Store.embedded(tmp_path / "plain.sqlite"))
    kept = []
    for shop in (scored_shop, plain):
        launched = shop.launch(shop.plan(policy=RANDOM))
        receive(shop, shop.sent(launched)[:50])
        kept.append(stored(shop))
    plain.store.close()
    assert replace(kept[0], codes=kept[0].codes.margin, head=None).to_bytes() == kept[1].to_bytes()
    assert json.loads(kept[1].to_bytes()).keys() == {"format", "only_random", "baskets", "codes"}
    assert (json.loads(kept[1].to_bytes())["format"], json.loads(kept[0].to_bytes())["format"]) == (1, 2)


@pytest.mark.parametrize("control", ["25%", 0])
def test_any_order_split_repetition_and_revert_of_batches_gives_equal_bytes(scored_shop, make_shop, tmp_path, control):
    from disco.store import Store

    rng, plan = np.random.default_rng(8), {"control": {"share": control}}
    launched = scored_shop.launch(scored_shop.plan(**plan))
    sent = scored_shop.sent(launched)
    receive(scored_shop, sent, full_price=[10.0 + row["customer_id"] for row in sent])
    whole = stored(scored_shop).to_bytes()
    other = make_shop(Store.embedded(tmp_path / "other.sqlite"), scored_shop.head)
    again = other.sent(other.launch(other.plan(**plan)))
    parts = np.array_split(rng.permutation(len(again)), 7)
    for number, part in enumerate([*parts, parts[2], parts[5][:2]]):
        rows = [again[row] for row in part]
        batch = receive(other, rows, full_price=[10.0 + row["customer_id"] for row in rows])
        if number == 3:
            revert(other.store, batch.batch_id, clock=other.clock)
    assert stored(other).to_bytes() != whole, "a batch is missing"
    rows = [again[row] for row in parts[3]]
    receive(other, rows, full_price=[10.0 + row["customer_id"] for row in rows])
    assert stored(other).to_bytes() == whole
    assert to_text(learn(other)) == to_text(learn(scored_shop))
    other.store.close()


def to_text(learned):
    return engagement_text(learned.belief)


def test_late_arrivals_are_counted_in_their_bins(scored_shop):
    plan = scored_shop.plan(control={"share": 0}, holdout={"share": 0}, reserve={"share": "50%"})
    launched = scored_shop.launch(plan)
    late = scored_shop.people(rows=40, ids=np.arange(1000, 1040), seed=7)
    decided = decide_late_arrivals(
        scored_shop.store,
        "spring",
        late,
        network=scored_shop.network,
        prior=scored_shop.knowledge(),
        clock=scored_shop.clock,
    )
    coded = np.flatnonzero(decided["code"].is_valid().to_numpy())
    assert coded.size
    sent = scored_shop.sent(launched)
    contexts = np.concatenate([scored_shop.people().context[[row["customer_id"] for row in sent]], late.context[coded]])
    depths = [*(row["depth"] for row in sent), *decided["depth"].take(pa.array(coded)).to_pylist()]
    expected = EngagementCounts.of(
        depths,
        np.zeros(len(depths), np.bool_),
        score=scored_shop.head.scores(contexts),
        bins=scored_shop.head.bins,
    )
    assert stored(scored_shop).codes == expected
    assert all(finding.ok for finding in audit(scored_shop.store))


def test_evidence_and_versions_are_read_back_as_they_were_written(scored_shop, launched):
    receive(scored_shop, scored_shop.sent(launched)[:30])
    kept = stored(scored_shop)
    again = CampaignEvidence.from_bytes(kept.to_bytes(), name="spring")
    assert (again.codes, again.head, again.to_bytes()) == (kept.codes, kept.head, kept.to_bytes())
    learned = learn(scored_shop).belief
    with scored_shop.store.reading() as transaction:
        read = belief_of(transaction.beliefs.version())
    assert (read.head, read.engagement) == (scored_shop.head, learned.engagement)
    assert engagement_text(read) == engagement_text(learned)


def test_codes_of_forgotten_customers_stay_counted_without_a_score(scored_shop, launched, tmp_path):
    bought = scored_shop.sent(launched)[:60]
    receive(scored_shop, bought)
    before = stored(scored_shop).codes
    gone = [row for row in bought if row["arm"] == "control"][:3]
    forget(
        scored_shop.store,
        [str(row["customer_id"]) for row in gone],
        clock=scored_shop.clock,
        cache=FeatureCache(folder=tmp_path / "cache"),
        folders=[tmp_path],
        tables="data/",
    )
    after = stored(scored_shop).codes
    assert after.margin == before.margin
    assert after.redeemed[:, -1].sum() == before.redeemed[:, -1].sum() + len(gone)
    assert all(finding.ok for finding in audit(scored_shop.store))


@pytest.mark.parametrize("broken", ["head", "sent", "format"])
def test_evidence_that_cannot_be_read_is_named(scored_shop, launched, broken):
    content = json.loads(stored(scored_shop).to_bytes())
    if broken == "head":
        content["head"]["edges"] = content["head"]["edges"][:-1]
    elif broken == "sent":
        content["codes"]["sent"] = [row[:-1] for row in content["codes"]["sent"]]
    else:
        content["format"] = 3
    with pytest.raises(FileFormatError, match="evidence of campaign spring"):
        CampaignEvidence.from_bytes(json.dumps(content).encode(), name="spring")


def test_a_belief_without_a_head_is_stored_as_it_always_was(shop):
    launched = shop.launch()
    receive(shop, shop.sent(launched)[:40])
    text = engagement_text(learn(shop).belief)
    assert json.loads(text).keys() == {"counts", "drift", "override", "prior_codes", "prior_rate"}


def test_a_retrained_network_rebuilds_the_counts_from_the_ledger(scored_shop):
    """Equal to counting everything in the bins of the new head from the start."""
    shop = scored_shop
    launched = shop.launch(features=pa.table({"customer_id": np.arange(200)}))
    receive(shop, shop.sent(launched)[:30])
    first = learn(shop)
    turn = np.random.default_rng(9).normal(size=(2, 3))
    contexts = shop.on_grid(shop.people().context @ turn)
    other = EngagementHead([0.0, 0.3, 0.5, -0.2], ScoreBins([-0.3, 0.4], [-0.8, 0.0, 0.9]))
    settings = {
        "network": "second network",
        "contexts_of": lambda features: contexts[features["customer_id"].to_numpy()],
        "head": other,
        "prior": shop.prior,
        "as_of": shop.after,
        "clock": shop.clock,
    }
    rebuilt = rebuild(shop.store, **settings).belief
    expected = counted_by_hand(shop, launched, shop.sent(launched)[:30], contexts=contexts, head=other)
    assert (rebuilt.head, rebuilt.engagement.counts) == (other, expected)
    assert rebuilt.engagement.counts.margin == first.belief.engagement.counts.margin

    # what comes later moves the counts under both heads
    receive(shop, shop.sent(launched)[30:60])
    expected = counted_by_hand(shop, launched, shop.sent(launched)[:60], contexts=contexts, head=other)
    assert learn(shop).belief.engagement.counts == expected
    assert stored(shop).codes == counted_by_hand(shop, launched, shop.sent(launched)[:60])
    assert all(finding.ok for finding in audit(shop.store))


def test_doctor_finds_counts_in_other_bins_and_repairs_them(scored_shop, launched):
    receive(scored_shop, scored_shop.sent(launched)[:30])
    kept = stored(scored_shop)
    sent = kept.codes.sent.copy()
    sent[0] = np.roll(sent[0], 1)
    moved = replace(kept, codes=replace(kept.codes, sent=sent, redeemed=np.zeros_like(sent)))
    with scored_shop.store.writing("spring", action="test") as transaction:
        transaction.beliefs.put_evidence("spring", scored_shop.network, moved.to_bytes())
    assert [finding.check for finding in audit(scored_shop.store) if finding.failed] == ["evidence"]
    repair_campaigns(scored_shop.store, RepairLog())
    assert stored(scored_shop).to_bytes() == kept.to_bytes()
    assert all(finding.ok for finding in audit(scored_shop.store))


def test_evidence_of_another_head_is_refused_with_what_to_do(scored_shop, launched, make_shop, head):
    other = EngagementHead(head.weights, ScoreBins([0.0], [-0.5, 0.5]))
    second = make_shop(scored_shop.store, other)
    second.launch(second.plan(campaign="summer"))
    with pytest.raises(StateError, match=r"summer.*another engagement head.*doctor --repair"):
        learn(scored_shop, "spring", "summer")


def test_a_model_of_another_head_than_the_networks_does_not_decide(scored_shop, launched, head):
    receive(scored_shop, scored_shop.sent(launched)[:30])
    learn(scored_shop)
    named = {"prior": scored_shop.prior, "network": scored_shop.network}
    assert belief_for(scored_shop.store, head=head, **named)[0].head == head
    for other in (None, EngagementHead(head.weights, ScoreBins([0.0], [-0.5, 0.5]))):
        with pytest.raises(StateError, match=r"another engagement head.*doctor --repair"):
            belief_for(scored_shop.store, head=other, **named)


def test_before_anything_was_learned_the_prior_takes_the_head_of_the_network(scored_shop, head):
    belief, version = belief_for(scored_shop.store, prior=scored_shop.prior, network=scored_shop.network, head=head)
    assert (belief.head, version) == (head, None)


# ---- decisions


def test_what_is_expected_of_each_customer_is_their_own(scored_shop, head):
    people, belief = scored_shop.people(), replace(scored_shop.knowledge(), head=head)
    planned = scored_shop.planned(audience=people, belief=belief)
    own = belief.rates(people, np.asarray(planned.plan.offered))
    given = [row for row in planned.decisions.to_pylist() if row["depth"] is not None]
    expected = [own[row["customer_id"], planned.plan.offered.index(row["depth"])] for row in given]
    assert [row["expected_engagement"] for row in given] == pytest.approx(expected, rel=1e-12)
    assert len({round(rate, 6) for rate in expected}) > 50
    kept = PlanSummary.from_json(planned.record().summary.to_json())
    assert kept == planned.record().summary
    assert kept.solution.engagement_head == head


@pytest.mark.parametrize("budget", [None, 60.0])
def test_every_decision_is_explained_by_the_figures_that_made_it(scored_shop, budget):
    plan = scored_shop.plan() if budget is None else scored_shop.plan(budget=budget)
    launched = scored_shop.launch(plan)
    decided = [row for row in scored_shop.sent(launched) if row["arm"] == "decided"]
    assert decided
    for row in decided[:12]:
        said = explain(scored_shop.store, "spring", row["customer_id"], prior=scored_shop.knowledge())
        chosen = next(one for one in said.figures if one.depth == row["depth"])
        assert chosen.value == pytest.approx(row["value"], rel=1e-12)
        assert chosen.engagement == pytest.approx(row["expected_engagement"], rel=1e-12)
        assert not any("not those of the launch" in words for words in said.words)
        assert any(words.startswith("Their own chance to buy with a code") for words in said.words)


def test_late_arrivals_meet_the_same_values_as_at_the_launch(scored_shop):
    """Somebody with the id and context of a decided customer would be worth the same."""
    plan = scored_shop.plan(control={"share": 0}, holdout={"share": 0}, reserve={"share": "50%"})
    people, wanted = scored_shop.people(), np.arange(150, 200)
    whole = {row["customer_id"]: row for row in scored_shop.planned(plan, people).decisions.to_pylist()}
    scored_shop.launch(plan, people.take(np.arange(150)))
    late = decide_late_arrivals(
        scored_shop.store,
        "spring",
        people.take(wanted),
        network=scored_shop.network,
        prior=scored_shop.knowledge(),
        clock=scored_shop.clock,
    ).to_pylist()
    same = [row for row in late if row["depth"] is not None and row["depth"] == whole[row["customer_id"]]["depth"]]
    assert same
    for row in same:
        for name in ("value", "expected_full_price", "expected_engagement"):
            assert row[name] == pytest.approx(whole[row["customer_id"]][name], rel=1e-12)


def test_propensities_are_those_of_draws_of_engagement_too(scored_shop):
    launched = scored_shop.launch()
    found = add_propensities(scored_shop.store, "spring", prior=scored_shop.knowledge(), draws=30)
    assert found.decisions == launched.customers
    with scored_shop.store.reading() as transaction:
        kept = transaction.decisions.of("spring")
    assert kept["propensity"].null_count == 0


def learned_plan(shop, head, **more):
    """A plan decided with a version of the model, after a random campaign."""
    first = shop.launch(shop.plan(campaign="winter", policy=RANDOM), belief=shop.prior)
    receive(shop, shop.sent(first)[:60], "winter")
    learn(shop, "winter")
    belief, version = belief_for(shop.store, prior=shop.prior, network=shop.network, head=head)
    return shop.planned(shop.plan(**more), belief=belief, version=version)


def test_a_plan_under_a_version_is_launched_and_changed_chances_are_refused(scored_shop, head):
    planned = learned_plan(scored_shop, head)
    column = planned.decisions.schema.get_field_index("expected_engagement")
    lower = pa.array(
        [None if rate is None else rate / 2 for rate in planned.decisions["expected_engagement"].to_pylist()]
    )
    forged = replace(planned, decisions=planned.decisions.set_column(column, "expected_engagement", lower))
    with pytest.raises(StateError, match="other shares of receivers who buy"):
        launch(scored_shop.store, forged, clock=scored_shop.clock, prior=scored_shop.prior)
    assert not launch(scored_shop.store, planned, clock=scored_shop.clock, prior=scored_shop.prior).again


def test_a_plan_of_the_prior_is_launched_and_another_head_is_refused(scored_shop, head):
    planned = scored_shop.planned(scored_shop.plan(policy=RANDOM), belief=scored_shop.prior)
    other = EngagementHead(head.weights, ScoreBins([0.0], [-0.5, 0.5])).to_json()
    form = {name: tuple(part) for name, part in other.items()}
    forged = replace(planned, summary=replace(planned.summary, solution=replace(planned.solution, head=form)))
    with pytest.raises(StateError, match="since it was decided: model"):
        launch(scored_shop.store, forged, clock=scored_shop.clock, prior=scored_shop.prior)
    assert not launch(scored_shop.store, planned, clock=scored_shop.clock, prior=scored_shop.prior).again


def test_the_budget_counts_each_customers_own_chance_times_the_factor_of_the_depth(scored_shop, monkeypatch, head):
    from disco.operations.forecast import PastForecasts
    from disco.records.plan_summary import Calibration

    learned = Calibration(
        log_factor=0.0,
        log_sd=0.1,
        campaigns=3,
        log_factors={0.1: float(np.log(0.8)), 0.3: float(np.log(1.5))},
        log_covariance=((0.01, 0.0), (0.0, 0.01)),
    )
    monkeypatch.setattr(PastForecasts, "calibrations", lambda *_: {True: learned, False: learned})
    planned = scored_shop.planned(scored_shop.plan(budget=40.0))
    factors = dict(zip((0.1, 0.3), planned.solution.cost_factors, strict=True))
    assert factors == pytest.approx({0.1: 0.8, 0.3: 1.5})
    spent = sum(
        row["depth"] * row["expected_full_price"] * row["expected_engagement"] * factors[row["depth"]]
        for row in planned.decisions.to_pylist()
        if row["depth"] is not None
    )
    assert spent == pytest.approx(planned.total.markdown.value)
    assert 30 < spent <= 40.0


def test_forecasts_are_backtested_against_forecasts_of_the_same_kind(scored_shop, make_shop, head):
    shop = scored_shop
    planned = learned_plan(shop, head)
    launched = launch(shop.store, planned, clock=shop.clock, secret=shop.secret)
    receive(shop, shop.sent(launched)[:40])
    kinds = {
        personal: past_forecasts(shop.store, learned=["winter", "spring"], as_of=shop.after, personal=personal)
        .calibrations([0.1, 0.3])[True]
        .campaigns
        for personal in (True, False)
    }
    assert kinds == {True: 1, False: 0}


def test_the_name_of_a_belief_contains_its_head(scored_shop, launched, head):
    receive(scored_shop, scored_shop.sent(launched)[:30])
    learn(scored_shop)
    belief, _ = active_belief(scored_shop.store, prior=scored_shop.prior)
    other = replace(belief, head=EngagementHead(head.weights * 2, head.bins))
    texts = [engagement_text(one) for one in (belief, other)]
    assert len({sha256(text.encode()).hexdigest() for text in texts}) == 2
