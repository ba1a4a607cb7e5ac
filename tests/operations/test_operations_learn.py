"""Belief is prior plus evidence: versions, maturity, undoing, another network; all of it can be made again."""

from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from disco import campaign
from disco.belief import EngagementCounts, Evidence
from disco.belief.model_file import to_bytes
from disco.features.snapshot import Snapshot, with_snapshot
from disco.operations.launch import launch
from disco.operations.learn import (
    CampaignEvidence,
    activate,
    active_belief,
    belief_at,
    learn_campaigns,
    purchases_of,
    rebuild,
    rebuild_for_network,
    under_network,
)
from disco.operations.learned import learned_belief
from disco.operations.outcomes import ingest, revert
from disco.operations.site import Site
from disco.operations.training import own_codes
from disco.operations.upkeep import audit
from disco.records.errors import StateError


def learn(shop, *campaigns, as_of=None, **more):
    return learn_campaigns(
        shop.store, campaigns or ["spring"], prior=shop.prior, as_of=as_of or shop.after, clock=shop.clock, **more
    )


def receive(shop, outcomes, campaign="spring"):
    return ingest(shop.store, campaign, outcomes, source="test", clock=shop.clock)


@pytest.fixture
def launched(shop):
    return shop.launch()


def of_campaign(shop, launched, campaign, rows=slice(None)):
    sent = shop.sent(launched)[rows]
    return shop.outcomes(sent, campaign_id=[campaign] * len(sent))


def test_what_is_learned_is_what_the_known_customers_bought(shop, launched):
    receive(shop, shop.outcomes(shop.sent(launched)))
    learned = learn(shop)
    known = [row for row in launched.decisions.to_pylist() if row["code"] and row["known"]]
    contexts = shop.people().context[[row["customer_id"] for row in known]]
    expected = Evidence.of(contexts, [row["depth"] for row in known], [50.25] * len(known))
    assert learned.belief.basket.evidence == expected
    assert (learned.version, learned.changed) == (1, True)


def test_a_version_is_what_learn_makes_of_the_same_purchases_bit_for_bit(shop, launched):
    receive(shop, shop.outcomes(shop.sent(launched)[:40]))
    learned = learn(shop).belief
    lesson = campaign.Lesson.of("spring", purchases_of(shop.store, "spring"), learned.engagement.counts)
    again = campaign.learn(under_network(shop.prior, shop.network), [lesson])
    assert to_bytes(again.basket) == to_bytes(learned.basket)
    assert again == learned


def test_learning_again_makes_a_version_only_when_something_is_new(shop, launched):
    receive(shop, shop.outcomes(shop.sent(launched)[:10]))
    assert learn(shop).version == 1
    again = learn(shop)
    assert (again.version, again.changed) == (1, False)
    receive(shop, shop.outcomes(shop.sent(launched)[10:20]))
    assert learn(shop).version == 2
    assert active_belief(shop.store, prior=shop.prior)[1].number == 2


def test_a_reverted_batch_is_out_of_the_next_version(shop, launched):
    receive(shop, shop.outcomes(shop.sent(launched)[:10]))
    first = learn(shop)
    poisoned = receive(shop, shop.outcomes(shop.sent(launched)[10:20], full_price=[5025.0] * 10))
    assert learn(shop).belief.basket != first.belief.basket
    revert(shop.store, poisoned.batch_id, clock=shop.clock)
    third = learn(shop)
    assert third.version == 3
    assert to_bytes(third.belief.basket) == to_bytes(first.belief.basket)


def test_an_older_version_can_be_made_active_again(shop, launched):
    receive(shop, shop.outcomes(shop.sent(launched)[:10]))
    first = learn(shop)
    receive(shop, shop.outcomes(shop.sent(launched)[10:20]))
    learn(shop)
    activate(shop.store, 1)
    belief, version = active_belief(shop.store, prior=shop.prior)
    assert (version.number, belief) == (1, first.belief)
    assert belief_at(shop.store, 2, prior=shop.prior) != belief
    assert belief_at(shop.store, None, prior=shop.prior) is shop.prior
    activate(shop.store, 2, dry_run=True)
    assert active_belief(shop.store, prior=shop.prior)[1].number == 1
    for rehearsed in (True, False):
        with pytest.raises(StateError, match="7"):
            activate(shop.store, 7, dry_run=rehearsed)


def test_engagement_counts_matured_codes_of_the_random_arm_only(shop, launched):
    receive(shop, shop.outcomes(shop.sent(launched)[:40]))
    young = learn(shop, as_of=date(2027, 3, 23))  # the last day of validity was the 21st, the grace ends on the 23rd
    assert (young.belief.engagement.counts.sent.size, young.matured) == (0, ())
    counts = learn(shop, as_of=date(2027, 3, 24)).belief.engagement.counts
    control = [row for row in shop.sent(launched) if row["arm"] == "control"]
    bought = {row["code"] for row in shop.sent(launched)[:40]}
    assert counts.sent.sum() == len(control)
    assert counts.redeemed.sum() == sum(row["code"] in bought for row in control)


@pytest.mark.parametrize(("learned", "said"), [(1, 1), (4, 0)])
def test_purchases_that_teach_nothing_about_baskets_are_warned_of(learned, said):
    baskets = Evidence.of(np.zeros((learned, 2)), np.full(learned, 0.1), np.full(learned, 20.0))
    evidence = CampaignEvidence(baskets=baskets, codes=EngagementCounts([0.1], [20], [5]), only_random=False)
    words = [*evidence.warnings("winter")]
    assert len(words) == said
    assert all("At least 4 of 5 purchases of winter" in one for one in words)


def test_a_campaign_that_seems_to_have_sold_nothing_is_warned_of_once_its_codes_count(shop, launched):
    running, over = learn(shop, as_of=date(2027, 3, 9)), learn(shop)
    assert (running.warnings, len(over.warnings)) == ((), 1)
    assert "has been applied, so the model counts all its codes as unused" in over.warnings[0]
    other = shop.launch(shop.plan(campaign="winter"))
    receive(shop, of_campaign(shop, other, "winter"), "winter")
    assert learn(shop, "winter").warnings == ()  # said once, to whoever asked for it
    receive(shop, shop.outcomes(shop.sent(launched)[:1]))
    assert learn(shop).warnings == ()


def test_without_a_random_part_all_codes_count(shop):
    launched = shop.launch(shop.plan(control={"share": 0}))
    receive(shop, shop.outcomes(shop.sent(launched)[:40]))
    counts = learn(shop).belief.engagement.counts
    assert (counts.sent.sum(), counts.redeemed.sum()) == (launched.codes, 40)


def test_campaigns_are_learned_by_their_first_day_whatever_the_order(shop, launched):
    plan = shop.plan(campaign="winter", valid={"from": date(2027, 3, 1), "days": 5}, policy={"name": "random"})
    winter = shop.launch(plan)
    receive(shop, shop.outcomes(shop.sent(launched)))
    early = of_campaign(shop, winter, "winter")
    moments = pa.array([date(2027, 3, 2)] * early.num_rows)
    receive(shop, early.set_column(4, "ordered_at", moments), "winter")
    learn(shop, "spring")
    both = learn(shop, "winter").belief.basket
    assert list(both.campaigns) == ["winter", "spring"]
    assert learn(shop, "spring", "winter").changed is False


def test_learning_survives_another_network(shop):
    """Evidence rebuilt under another network equals learning everything with it from the start."""
    launched = shop.launch(features=pa.table({"customer_id": np.arange(200)}))
    receive(shop, shop.outcomes(shop.sent(launched)[:30]))
    learn(shop)
    rng = np.random.default_rng(9)
    turn = rng.normal(size=(2, 3))

    def contexts_of(features):
        return shop.on_grid(shop.people().context[features["customer_id"].to_numpy()] @ turn)

    settings = {"network": "second network", "contexts_of": contexts_of, "prior": shop.prior, "as_of": shop.after}
    rehearsed = rebuild(shop.store, clock=shop.clock, dry_run=True, **settings)
    with shop.store.reading() as transaction:
        assert transaction.beliefs.version().number == 1
        assert transaction.beliefs.networks("spring") == (shop.network,)
    rebuilt = rebuild(shop.store, clock=shop.clock, **settings)
    assert replace(rehearsed, dry_run=False) == rebuilt
    assert rebuilt.belief.basket.context_schema == "second network"
    assert rebuilt.belief.basket.context_size == 3
    bought = [row for row in shop.sent(launched)[:30] if row["known"]]
    contexts = shop.on_grid(shop.people().context[[row["customer_id"] for row in bought]] @ turn)
    expected = Evidence.of(contexts, [row["depth"] for row in bought], [50.25] * len(bought))
    assert rebuilt.belief.basket.evidence == expected

    # what comes later moves the evidence under both
    receive(shop, shop.outcomes(shop.sent(launched)[30:50]))
    more = learn(shop)
    assert more.belief.basket.context_schema == "second network"
    assert more.belief.basket.evidence.total_rows == sum(row["known"] for row in shop.sent(launched)[:50])
    assert all(finding.ok for finding in audit(shop.store))


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_rebuild_warns_of_features_that_no_snapshot_can_centre(shop, dry_run):
    plain = pa.table({"customer_id": np.arange(200), "orders_365d": np.ones(200)})
    day = Snapshot.of(np.ones((200, 1)), ("orders_365d",))
    for name, schema in (("spring", plain.schema), ("summer", with_snapshot(plain.schema, day))):
        launched = shop.launch(shop.plan(campaign=name), features=plain.cast(schema))
        receive(shop, of_campaign(shop, launched, name, slice(10)), campaign=name)
        learn(shop, name)

    def rebuilt(number, **embedding):
        """Under a network of this number, which the shop has just trained."""
        network = SimpleNamespace(
            head_=None,
            embedding_=SimpleNamespace(**embedding),
            transform=lambda features, engine: shop.people().context,
        )
        data = SimpleNamespace(network=lambda: network, network_hash=lambda: f"network {number}")
        site = Site(store=shop.store, data=data, clock=shop.clock, prior=shop.prior, cache=None)
        return rebuild_for_network(site, as_of=shop.after, dry_run=dry_run).warnings

    (said,) = rebuilt(2, trained_means=np.zeros(1))
    assert "kept the features of spring without a snapshot of their day" in said
    assert "`disco results`" in said
    assert rebuilt(3, trained_means=None) == (), "such a network centres nothing"


def test_a_campaign_under_a_new_network_asks_for_a_rebuild(shop, launched):
    receive(shop, shop.outcomes(shop.sent(launched)[:30]))
    learn(shop)
    planned = shop.planned(shop.plan(campaign="summer"))
    planned = replace(planned, summary=replace(planned.summary, network="second network"))
    launch(shop.store, planned, clock=shop.clock)
    with pytest.raises(StateError, match="rebuild"):
        learn(shop, "summer")


def two_learned(shop, **settings):
    """A version from two campaigns whose codes have matured: a third of the first, half of the second were used."""
    prior = replace(shop.prior, basket=replace(shop.prior.basket, **settings))
    prior = replace(prior, engagement=replace(prior.engagement, **settings))
    for name, every in (("spring", 3), ("summer", 2)):
        launched = shop.launch(shop.plan(campaign=name))
        receive(shop, of_campaign(shop, launched, name, slice(None, None, every)), campaign=name)
    return learn_campaigns(shop.store, ["spring", "summer"], prior=prior, as_of=shop.after, clock=shop.clock)


def test_codes_are_forgotten_as_baskets_are_and_a_version_says_so(shop):
    learned = two_learned(shop, forgetting=0.5)
    engagement = learned.belief.engagement
    first, second = (engagement.campaigns[name] for name in ("spring", "summer"))
    assert engagement.counts == first + second
    belief, record = active_belief(shop.store, prior=shop.prior)
    assert belief.engagement == engagement
    assert (belief.engagement.posterior.mean == engagement.posterior.mean).all()
    plain = belief.engagement.with_counts(engagement.counts).rates([0.1, 0.3])
    assert (
        belief.engagement.rates([0.1, 0.3]) > plain
    ).all()  # the later campaign, of which more was used, counts more
    assert all(finding.ok for finding in audit(shop.store))
    assert learned_belief(shop.store).movement is not None
    assert "forgetting" in record.engagement


def test_without_forgetting_a_version_keeps_its_bytes(shop):
    two_learned(shop)
    _, record = active_belief(shop.store, prior=shop.prior)
    assert "campaigns" not in record.engagement
    assert "forgetting" not in record.engagement


def test_an_unknown_campaign_is_named(shop):
    with pytest.raises(StateError, match="winter"):
        learn_campaigns(shop.store, ["winter"], prior=shop.prior, as_of=shop.after, clock=shop.clock)


def test_ten_batches_with_the_sixth_poisoned_equal_nine_after_its_revert(shop):
    audience = shop.people(rows=2000)
    launched = shop.launch(shop.plan(depths={0.1: {"at_most": 900}, 0.3: {"at_most": 600}}), audience)
    sent = shop.sent(launched)
    cuts = np.array_split(np.arange(len(sent)), 10)
    poisoned = None
    for number, rows in enumerate(cuts):
        factor = 100.0 if number == 5 else 1.0
        found = receive(
            shop, shop.outcomes([sent[row] for row in rows], full_price=[20.0 * factor + row for row in rows])
        )
        poisoned = found if number == 5 else poisoned
    revert(shop.store, poisoned.batch_id, clock=shop.clock)
    belief = learn(shop).belief
    clean = [row for number, rows in enumerate(cuts) if number != 5 for row in rows if sent[row]["known"]]
    contexts = audience.context[[sent[row]["customer_id"] for row in clean]]
    expected = Evidence.of(contexts, [sent[row]["depth"] for row in clean], [20.0 + row for row in clean])
    assert belief.basket.evidence == expected
    assert all(finding.ok for finding in audit(shop.store))


@pytest.mark.parametrize("bought", [0, 20])
def test_an_earlier_day_never_takes_matured_codes_out_of_the_model(shop, launched, bought):
    receive(shop, shop.outcomes(shop.sent(launched)[:bought]))
    before = date(2027, 3, 10)
    assert learn(shop, as_of=before).matured == ()
    assert learn(shop, as_of=before).changed is False  # nothing had matured, so an early day takes nothing out
    assert learn(shop).matured == ("spring",)
    receive(shop, shop.outcomes(shop.sent(launched)[bought : bought + 5]))
    with pytest.raises(StateError, match=r"counts the codes of spring.*2027-03-10.*--activate"):
        learn(shop, as_of=before)
    assert active_belief(shop.store, prior=shop.prior)[1].number == 2
    activate(shop.store, 1)
    assert learn(shop, as_of=before).matured == ()  # asked for by hand: from a version made before


@pytest.mark.parametrize("number", [0, -1, 2, 2**31, 10**24])
def test_a_version_that_does_not_exist_is_refused_whatever_its_number(shop, launched, number):
    receive(shop, shop.outcomes(shop.sent(launched)[:5]))
    learn(shop)
    for asked in (lambda: activate(shop.store, number), lambda: learned_belief(shop.store, number)):
        with pytest.raises(StateError, match=f"no version {number}. There are versions 1 to 1"):
            asked()


def test_codes_of_own_campaigns_are_rows_for_training_once_they_have_matured(shop, launched):
    assert own_codes(shop.store, today=shop.after).num_rows == 0  # no outcome came: perhaps the file is missing
    sent = shop.sent(launched)
    receive(shop, shop.outcomes(sent[:10]))
    assert own_codes(shop.store, today=date(2027, 3, 20)).num_rows == 0
    rows = own_codes(shop.store, today=shop.after).to_pylist()
    used = {row["customer_id"] for row in rows if row["used"]}
    assert used == {str(row["customer_id"]) for row in sent[:10]}
    assert [(row["code_id"], row["depth"]) for row in rows] == [(row["code"], row["depth"]) for row in sent]
    assert {(row["campaign_id"], row["sent_at"].date()) for row in rows} == {("spring", date(2027, 3, 8))}
