"""One channel per customer, from the plan to the export and to late arrivals."""

from dataclasses import replace

import numpy as np
import pytest
from arriving import decide_late_arrivals

from disco.operations.export import export_codes
from disco.operations.launch import launch
from disco.operations.plan import plan_id
from disco.records.errors import PlanError, StateError

CHANNELS = np.array(["sms", "e-mail", "push (app)"], object)


def people(shop, rows=300, ids=None, **labels):
    return replace(shop.people(rows, ids=ids), channel=CHANNELS[np.arange(rows) % 3], **labels)


def test_the_export_names_each_customers_channel(shop):
    plan = shop.plan(channel={"column": "channel"})
    launched = shop.launch(plan, people(shop))
    sent = export_codes(shop.store, "spring").to_pylist()
    assert len(sent) == launched.codes
    assert all(row["channel"] == CHANNELS[row["customer_id"] % 3] for row in sent)
    late = people(shop, 9, ids=np.arange(1000, 1009))
    decided = decide_late_arrivals(
        shop.store, "spring", late, network=shop.network, prior=shop.knowledge(), clock=shop.clock, secret=shop.secret
    )
    assert decided["channel"].to_pylist() == late.channel.tolist()
    with shop.store.reading() as transaction:
        assert not transaction.seals.broken()
        assert not transaction.seals.broken_of("spring")


def test_a_named_channel_is_that_of_all_codes(shop):
    shop.launch(shop.plan(channel="sms"))
    assert set(export_codes(shop.store, "spring")["channel"].to_pylist()) == {"sms"}


def test_a_channel_changes_no_decision_and_no_id(shop):
    plain = shop.planned(audience=shop.people(300))
    labelled = shop.planned(shop.plan(channel={"column": "channel"}), people(shop))
    assert labelled.decisions.drop_columns(["channel"]).equals(plain.decisions)
    assert plan_id(shop.plan(channel="on-site"), {"customers": "x"}) == plan_id(shop.plan(), {"customers": "x"})


def test_a_channel_that_was_changed_stops_the_launch(shop):
    planned = shop.planned(shop.plan(channel={"column": "channel"}), people(shop))
    place = planned.decisions.schema.get_field_index("channel")
    moved = planned.decisions["channel"].take(np.roll(np.arange(300), 1))
    changed = replace(planned, decisions=planned.decisions.set_column(place, "channel", moved))
    with pytest.raises(StateError, match="have another channel than planned"):
        launch(shop.store, changed, clock=shop.clock, secret=shop.secret)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        ("", "the name of a channel, such as sms"),
        (" sms", "the name of a channel, such as sms"),
        (3, "the name of a channel, such as sms"),
        (None, "the name of a channel, such as sms"),
        ({"colum": "channel"}, "Did you mean column?"),
        ({}, "Add `channel.column:` to the plan."),
    ],
)
def test_a_channel_that_cannot_be_read_is_named(shop, channel, words):
    with pytest.raises(PlanError) as refused:
        shop.plan(channel=channel)
    assert words in str(refused.value)
