"""A campaign lives a random life on a real database: after every step counters, ledger and evidence agree.

At the end everything that is still in force is sent again to a twin campaign, shuffled, repeated and cut anew: it has
the same evidence, bit for bit. So has the campaign itself, had the reverted batches never come.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from stores import open_store

from disco.operations.launch import launch, pause, resume
from disco.operations.learn import learn_campaigns, rebuilt_evidence, stored_evidence
from disco.operations.outcomes import ingest, revert
from disco.operations.purchases import counts_of, judge
from disco.records.campaign_records import Disposition, State
from disco.records.errors import StateError

CUSTOMERS = 16
ACTIVE = 3  # few customers with few events each, so that rows meet: repeated, contradicted, given back, used twice


def mostly(usual, *rare):
    return st.sampled_from([usual] * 8 + list(rare))


@st.composite
def outcome(draw):
    customer, kind = (
        draw(st.integers(0, ACTIVE - 1)),
        draw(mostly("purchase", *["refund"] * 3, *["correction"] * 3, "gift")),
    )
    numbers = st.integers(0, 1)
    return {
        "event_id": draw(mostly(f"{kind[0]}{customer}-{draw(numbers)}", f"p{customer}-0", None)),
        "customer": customer,
        "owner": draw(mostly(True, False)),
        "hours": draw(st.sampled_from([0, 0, 1, 1, 2, 2, 400, -13])),
        "full_price": draw(mostly(draw(st.sampled_from([10.0, 20.0, 30.0])), -1.0, float("nan"))),
        "kind": kind,
        "refers_to": None if kind == "purchase" else f"{draw(mostly('p', 'r', 'r', 'c'))}{customer}-{draw(numbers)}",
        "names_code": kind == "purchase" or draw(st.booleans()),
    }


def table(rows, codes, campaign):
    start = datetime(2027, 3, 8, 12, tzinfo=UTC)
    return pa.table(
        {
            "event_id": pa.array([row["event_id"] for row in rows], pa.string()),
            "campaign_id": pa.array([campaign] * len(rows), pa.string()),
            "customer_id": pa.array([codes[row["customer"]][0] if row["owner"] else 999 for row in rows], pa.int64()),
            "code": pa.array([codes[row["customer"]][1] if row["names_code"] else None for row in rows], pa.string()),
            "ordered_at": pa.array([start + timedelta(hours=row["hours"]) for row in rows], pa.timestamp("us", "UTC")),
            "full_price": pa.array([row["full_price"] for row in rows], pa.float64()),
            "kind": pa.array([row["kind"] for row in rows], pa.string()),
            "refers_to": pa.array([row["refers_to"] for row in rows], pa.string()),
        }
    )


def redeemed(kept):
    """Codes redeemed by depth, in every bin; the twin has no late arrivals, whose codes are never used here."""
    rows = zip(kept.codes.depths.tolist(), kept.codes.redeemed.tolist(), strict=True)
    return {depth: counts for depth, counts in rows if np.any(counts)}


@pytest.fixture
def life(request, new_database_url, make_shop, head):
    stores = [open_store(new_database_url()) for _ in range(2)]
    shop, twin = (make_shop(store, head if request.param == "per customer" else None) for store in stores)
    numbers = count()

    class Life(RuleBasedStateMachine):
        @initialize(seed=st.integers(0, 3), random=st.booleans())
        def plan_and_launch(self, seed, random):
            self.campaign = f"c{next(numbers)}"
            self.plan = shop.plan(
                campaign=self.campaign,
                depths={0.1: {"at_most": 8}, 0.3: {"at_most": 4}},
                policy={"name": "random" if random else "thompson"},
                reserve={"share": "25%"},
                seed=seed,
            )
            self.audience = shop.people(rows=CUSTOMERS)
            launched = shop.launch(self.plan, self.audience)
            sent = [row for row in launched.decisions.to_pylist() if row["code"]][:ACTIVE]
            self.codes = [(row["customer_id"], row["code"]) for row in sent]
            self.batches = {}
            self.state = State.LAUNCHED
            assert launch(shop.store, shop.planned(self.plan, self.audience), clock=shop.clock).again

        @rule(rows=st.lists(outcome(), min_size=1, max_size=8))
        def ingest(self, rows):
            found = ingest(
                shop.store, self.campaign, table(rows, self.codes, self.campaign), source="life", clock=shop.clock
            )
            assert found.counts.received == len(rows)
            self.batches[found.batch_id] = rows

        @rule(rows=st.lists(outcome(), min_size=4, max_size=8))
        def ingest_more(self, rows):
            self.ingest(rows)

        @precondition(lambda self: self.batches)
        @rule(data=st.data())
        def revert(self, data):
            batch = data.draw(st.sampled_from(sorted(self.batches)))
            revert(shop.store, batch, clock=shop.clock)
            del self.batches[batch]
            with pytest.raises(StateError):
                revert(shop.store, batch, clock=shop.clock)

        @precondition(lambda self: self.batches)
        @rule(data=st.data())
        def ingest_again(self, data):
            self.ingest(self.batches[data.draw(st.sampled_from(sorted(self.batches)))])

        @rule(on=st.booleans())
        def pause(self, on):
            if on:
                pause(shop.store, self.campaign, clock=shop.clock)
            else:
                resume(shop.store, self.campaign)
            self.state = State.PAUSED if on else State.LAUNCHED

        @rule(customer=st.integers(100, 110))
        def arrive(self, customer):
            def decide():
                return decide_late_arrivals(
                    shop.store,
                    self.campaign,
                    shop.people(rows=1, ids=np.array([customer])),
                    network=shop.network,
                    prior=shop.knowledge(),
                    clock=shop.clock,
                )

            if self.state is State.PAUSED:
                with pytest.raises(StateError, match="paused"):
                    decide()
            else:
                assert decide()["code"].to_pylist() == decide()["code"].to_pylist()

        @rule()
        def learn(self):
            learned = learn_campaigns(shop.store, [self.campaign], prior=shop.prior, as_of=shop.after, clock=shop.clock)
            with shop.store.reading() as transaction:
                kept = stored_evidence(transaction, self.campaign, shop.network)
            assert learned.belief.basket.campaigns.get(self.campaign) == kept.baskets or not kept.baskets.depths.size

        @invariant()
        def counters_ledger_and_evidence_agree(self):
            with shop.store.reading() as transaction:
                rows = transaction.ledger.outcomes(self.campaign)
                record = transaction.plans.campaign(self.campaign)
                stored = transaction.beliefs.evidence(self.campaign, shop.network)
                assert rebuilt_evidence(transaction, record, shop.network).to_bytes() == stored
                decisions = transaction.decisions.of(self.campaign)
            found = Counter(rows["disposition"].to_pylist())
            with shop.store.reading() as transaction:
                counts = counts_of(transaction.ledger.counts(self.campaign))
            assert {str(name): getattr(counts, name) for name in Disposition} == {
                str(name): found[name] for name in Disposition
            }
            assert counts.received == sum(found.values()) == sum(map(len, self.batches.values()))
            judged = rows.filter(rows["raw"].is_null())
            assert judged["disposition"].to_pylist() == judge(judged).disposition.to_pylist()
            applied = [row["event_id"] for row in rows.to_pylist() if row["disposition"] == Disposition.APPLIED]
            assert len(set(applied)) == len(applied)
            given = Counter(decisions["depth"].to_pylist())
            assert given[0.1] <= 8
            assert given[0.3] <= 4

        def teardown(self):
            if not hasattr(self, "campaign"):
                return
            twin.launch(self.plan, self.audience)
            rows = [row for batch in self.batches.values() for row in batch]
            rng = np.random.default_rng(len(rows))
            sent = [*rows, *(row for row in rows if rng.random() < 0.5)]
            rng.shuffle(sent)
            while sent:
                size = int(rng.integers(1, 6))
                part, sent = sent[:size], sent[size:]
                ingest(
                    twin.store, self.campaign, table(part, self.codes, self.campaign), source="twin", clock=shop.clock
                )
            with shop.store.reading() as one, twin.store.reading() as other:
                kept = [stored_evidence(part, self.campaign, shop.network) for part in (one, other)]
            assert kept[0].baskets == kept[1].baskets
            assert redeemed(kept[0]) == redeemed(kept[1])

    yield Life
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    ("new_database_url", "life"), [("postgresql", "one rate"), ("sqlite", "per customer")], indirect=True
)
def test_after_every_step_of_a_campaigns_life_counters_ledger_and_evidence_agree(life):
    run_state_machine_as_test(
        life,
        settings=settings(
            max_examples=6, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
