"""What to do next about a campaign: by its dates, its outcomes, and what the model knows of it."""

from datetime import date, timedelta

import pytest

from disco.operations.launch import close, pause
from disco.operations.learn import learn_campaigns
from disco.operations.outcomes import ingest, revert
from disco.operations.overview import NextStep, campaign_progress
from disco.records.campaign_records import Phase
from disco.records.errors import NotFoundError

BEFORE, DURING, ENDED, MATURED = date(2027, 3, 7), date(2027, 3, 10), date(2027, 3, 22), date(2027, 3, 24)


def progress(shop, today):
    (found,) = campaign_progress(shop.store, "spring", today=today)
    return found


@pytest.fixture
def launched(shop):
    return shop.launch()


def receive(shop, rows, **columns):
    return ingest(shop.store, "spring", shop.outcomes(rows, **columns), source="test", clock=shop.clock)


def learn(shop, as_of):
    learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=as_of, clock=shop.clock)


def test_without_outcomes_codes_are_sent_and_then_outcomes(shop, launched):
    assert [progress(shop, day).next_step for day in (BEFORE, DURING, ENDED, MATURED)] == [
        NextStep.SEND_CODES,
        NextStep.SEND_OUTCOMES,
        NextStep.SEND_OUTCOMES,
        NextStep.SEND_OUTCOMES,
    ]
    found = progress(shop, DURING)
    assert (found.phase, found.has_outcomes, found.learned) == (Phase.RUNNING, False, False)
    assert (found.opens, found.closes, found.matures_on) == (date(2027, 3, 8), ENDED, MATURED)


def test_with_outcomes_results_are_watched_until_the_campaign_can_be_learned(shop, launched):
    receive(shop, shop.sent(launched)[:20])
    steps = [progress(shop, day).next_step for day in (DURING, ENDED, MATURED - timedelta(days=1), MATURED)]
    assert steps == [NextStep.WATCH, NextStep.WAIT, NextStep.WAIT, NextStep.LEARN]


def test_a_campaign_that_was_learned_before_its_codes_had_matured_is_learned_again(shop, launched):
    receive(shop, shop.sent(launched)[:20])
    learn(shop, DURING)
    assert progress(shop, MATURED).next_step is NextStep.LEARN
    learn(shop, MATURED)
    assert progress(shop, MATURED).learned
    assert progress(shop, MATURED).next_step is NextStep.PLAN


def test_outcomes_that_arrive_after_learning_ask_for_learning_again(shop, launched):
    receive(shop, shop.sent(launched)[:20])
    learn(shop, MATURED)
    late = receive(shop, shop.sent(launched)[20:30])
    assert progress(shop, MATURED).next_step is NextStep.LEARN
    revert(shop.store, late.batch_id, clock=shop.clock)
    assert progress(shop, MATURED).next_step is NextStep.PLAN


def test_a_reverted_batch_is_no_outcome(shop, launched):
    batch = receive(shop, shop.sent(launched)[:20]).batch_id
    revert(shop.store, batch, clock=shop.clock)
    assert progress(shop, DURING).next_step is NextStep.SEND_OUTCOMES


def test_a_pause_and_a_close(shop, launched):
    pause(shop.store, "spring", clock=shop.clock)
    assert (progress(shop, DURING).phase, progress(shop, DURING).next_step) == (Phase.PAUSED, NextStep.SEND_OUTCOMES)
    close(shop.store, "spring")
    assert progress(shop, DURING).next_step is NextStep.PLAN  # no outcome of it will count


def test_all_campaigns_by_their_first_day(shop, launched):
    shop.launch(shop.plan(campaign="autumn", valid={"from": date(2027, 3, 2), "days": 7}), inputs={"other": "1"})
    assert [one.campaign for one in campaign_progress(shop.store, today=DURING)] == ["autumn", "spring"]
    with pytest.raises(NotFoundError):
        campaign_progress(shop.store, "winter", today=DURING)
