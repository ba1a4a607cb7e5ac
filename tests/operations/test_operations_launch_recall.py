"""A recall: unused codes become invalid and are listed, what was bought before counts, no code counts as unused."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from arriving import decide_late_arrivals

from disco.operations import launch as states
from disco.operations import outcomes
from disco.operations.explain import explain
from disco.operations.export import export
from disco.operations.forecast import past_forecasts
from disco.operations.launch import CLOCK_TOLERANCE, launch, recall
from disco.operations.learn import CampaignEvidence, learn_campaigns, rebuild, rebuilt_evidence
from disco.operations.outcomes import ingest, revert
from disco.operations.overview import list_campaigns
from disco.operations.results import AllResults, read_out
from disco.operations.upkeep import RepairLog, audit, repair_campaigns
from disco.records.campaign_records import Disposition, Phase
from disco.records.errors import InputError, ReportError, StateError
from disco.store import Store

MOMENT = datetime(2027, 3, 11, 15, tzinfo=UTC)

pytestmark = pytest.mark.usefixtures("kept_as")


@dataclass
class Clock:
    moment: datetime = MOMENT

    def now(self):
        return self.moment


@pytest.fixture
def launched(shop):
    return shop.launch()


def at(rows, *clock):
    return pa.array([datetime(*clock)] * rows, pa.timestamp("us"))


def receive(shop, rows, **columns):
    return ingest(shop.store, "spring", shop.outcomes(rows, **columns), source="test", clock=shop.clock)


def take_back(shop, **more):
    return recall(shop.store, "spring", clock=Clock(), **more)


def evidence(shop):
    with shop.store.reading() as transaction:
        record = transaction.plans.campaign("spring")
        stored = transaction.beliefs.evidence("spring", record.network)
        assert rebuilt_evidence(transaction, record, record.network).to_bytes() == stored
    return CampaignEvidence.from_bytes(stored, name="spring")


def test_the_codes_not_used_are_listed_and_those_used_before_count(shop, launched, tmp_path):
    sent = shop.sent(launched)
    receive(shop, sent[:5])
    done = take_back(shop, file=tmp_path / "recalled.csv")
    assert (done.codes, done.used, done.set_aside, done.again) == (len(sent) - 5, 5, 0, False)
    assert done.recalled_at == MOMENT
    assert set(done.to_arrow()["code_id"].to_pylist()) == {row["code"] for row in sent[5:]}
    written = pacsv.read_csv(tmp_path / "recalled.csv")
    assert written.column_names == ["code_id", "customer_id", "campaign_id", "depth"]
    assert written["code_id"].to_pylist() == done.to_arrow()["code_id"].to_pylist()
    assert list_campaigns(shop.store, today=date(2027, 3, 12)).campaigns[0].state is Phase.RECALLED
    assert all(finding.ok for finding in audit(shop.store))


def test_a_returned_purchase_was_a_use_so_its_code_is_not_recalled(shop, launched):
    sent = shop.sent(launched)
    receive(shop, sent[:1])
    back = shop.outcomes(sent[:1], event_id=["back"], kind=["refund"], refers_to=[f"e{sent[0]['customer_id']}"])
    ingest(shop.store, "spring", back, source="test", clock=shop.clock)
    assert sent[0]["code"] not in take_back(shop).to_arrow()["code_id"].to_pylist()


def test_no_code_of_a_recalled_campaign_counts_for_engagement_and_its_baskets_do(shop, launched):
    sent = shop.sent(launched)
    receive(shop, sent[:20])
    before = evidence(shop)
    assert before.codes.sent.sum() > before.codes.redeemed.sum() > 0
    take_back(shop)
    after = evidence(shop)
    assert after.codes.sent.sum() == after.codes.redeemed.sum() == 0
    assert after.baskets == before.baskets
    found = learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    assert found.belief.engagement.counts.sent.sum() == 0, "as if no code had been sent, not as if none were used"
    assert found.campaigns == {"spring": before.baskets.total_rows}


def test_a_recall_without_any_purchase_teaches_nothing_and_nobody_is_warned_of_unused_codes(shop, launched):
    take_back(shop)
    found = learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    assert (found.warnings, found.belief.engagement.counts.sent.sum()) == ((), 0)


def test_purchases_count_by_when_they_were_ordered_whenever_they_arrive(shop, launched):
    """Before or after the recall is what the order says: files may come in any order, before the recall or after it."""
    rows = shop.sent(launched)[:4]
    early, late = rows[:2], rows[2:]
    receive(shop, late, ordered_at=at(2, 2027, 3, 11, 15))
    receive(shop, early[:1], ordered_at=at(1, 2027, 3, 11, 14))
    assert take_back(shop).set_aside == 2, "received before the recall, dated after it"
    found = receive(shop, early[1:], ordered_at=at(1, 2027, 3, 11, 14), event_id=["arrived later"])
    assert found.counts.applied == 1
    found = receive(shop, late, ordered_at=at(2, 2027, 3, 12, 9), event_id=["x", "y"])
    assert (found.counts.expired, found.reasons[0].reason) == (2, "ordered after the code was recalled")
    assert evidence(shop).baskets.total_rows == sum(row["known"] for row in early)
    again = take_back(shop)
    assert (again.again, again.used, again.set_aside) == (True, 2, 4)
    assert early[1]["code"] not in again.to_arrow()["code_id"].to_pylist()
    assert all(finding.ok for finding in audit(shop.store))


def test_the_order_of_recall_and_outcomes_changes_no_byte_of_evidence(shop, make_shop, launched, tmp_path):
    from disco.store import Store

    rows = shop.sent(launched)[:30]
    hours = np.arange(30) * 5
    moments = np.datetime64("2027-03-08T01:00", "us") + hours.astype("timedelta64[h]")
    receive(shop, rows, ordered_at=pa.array(moments))
    take_back(shop)
    other = make_shop(Store.embedded(tmp_path / "other.sqlite"))
    other.launch()
    take_back(other)
    for part in (slice(0, 11), slice(11, 30)):
        receive(other, rows[part], ordered_at=pa.array(moments[part]))
    assert evidence(other).to_bytes() == evidence(shop).to_bytes()
    other.store.close()


def test_a_batch_that_is_reverted_after_a_recall_leaves_no_trace(shop, launched):
    rows = shop.sent(launched)[:6]
    take_back(shop)
    empty = evidence(shop).to_bytes()
    batch = receive(shop, rows)
    assert evidence(shop).baskets.total_rows == sum(row["known"] for row in rows)
    revert(shop.store, batch.batch_id, clock=shop.clock)
    assert evidence(shop).to_bytes() == empty


def test_a_refund_after_the_recall_still_takes_a_purchase_back(shop, launched):
    row = shop.sent(launched)[:1]
    receive(shop, row)
    take_back(shop)
    back = {"event_id": ["back"], "kind": ["refund"], "refers_to": [f"e{row[0]['customer_id']}"]}
    assert receive(shop, row, ordered_at=at(1, 2027, 3, 20), **back).counts.applied == 1
    assert evidence(shop).baskets.total_rows == 0


def test_again_changes_nothing_and_the_first_moment_stays(shop, launched):
    first = take_back(shop)
    again = recall(shop.store, "spring", clock=Clock(datetime(2027, 3, 15, tzinfo=UTC)))
    assert (again.again, again.recalled_at) == (True, first.recalled_at)


def test_a_rehearsal_changes_nothing(shop, launched, tmp_path):
    before = evidence(shop).to_bytes()
    done = take_back(shop, dry_run=True, file=tmp_path / "list.csv")
    assert (done.dry_run, done.codes, done.file) == (True, len(shop.sent(launched)), None)
    assert not list(tmp_path.glob("list.csv*"))
    assert evidence(shop).to_bytes() == before
    with shop.store.reading() as transaction:
        assert transaction.plans.campaign("spring").recalled_at is None


def test_a_recall_that_breaks_off_is_undone_as_a_whole(shop, launched, monkeypatch):
    receive(shop, shop.sent(launched)[:3], ordered_at=at(3, 2027, 3, 12))
    before = evidence(shop).to_bytes()

    def broken(*_arguments):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(outcomes, "rebuilt_evidence", broken)
        with pytest.raises(OSError, match="no space"):
            take_back(shop)
    assert evidence(shop).to_bytes() == before
    assert list_campaigns(shop.store, today=date(2027, 3, 12)).campaigns[0].recalled_at is None
    assert all(finding.ok for finding in audit(shop.store))


def test_a_list_that_cannot_be_written_says_that_the_recall_is_done(shop, launched, tmp_path, monkeypatch):
    def full(*_arguments):
        raise OSError("no space left")

    monkeypatch.setattr(states, "write_rows", full)
    words = r"spring is recalled.*could not be written \(no space left\).*recall spring"
    with pytest.raises(ReportError, match=words) as said:
        take_back(shop, file=tmp_path / "list.parquet")
    assert said.value.result.codes == len(shop.sent(launched))
    monkeypatch.undo()
    assert take_back(shop, file=tmp_path / "list.parquet").again
    assert pq.read_table(tmp_path / "list.parquet").num_rows == len(shop.sent(launched))


def test_nobody_gets_a_code_of_a_recalled_campaign_any_more(shop):
    shop.launch(shop.plan(reserve={"share": "50%"}))
    take_back(shop)
    with pytest.raises(StateError, match="was recalled on 2027-03-11, so nobody gets a code"):
        decide_late_arrivals(
            shop.store,
            "spring",
            shop.people(rows=5, ids=np.arange(1000, 1005)),
            network=shop.network,
            prior=shop.prior,
            clock=shop.clock,
        )
    with pytest.raises(StateError, match=r"must not be sent.*disco recall spring -o FILE"):
        export(shop.store, "spring")
    with pytest.raises(StateError, match="was recalled on 2027-03-11, and stays so"):
        states.pause(shop.store, "spring", clock=shop.clock)


def test_a_recalled_campaign_can_be_closed_and_a_closed_one_cannot_be_recalled(shop, launched):
    take_back(shop)
    assert str(states.close(shop.store, "spring").state) == "closed"
    assert take_back(shop).again
    shop.launch(shop.plan(campaign="summer"))
    states.close(shop.store, "summer")
    with pytest.raises(StateError, match="summer is closed, so it cannot be recalled"):
        recall(shop.store, "summer", clock=Clock())


def test_a_recall_in_the_future_is_refused(shop, launched):
    with pytest.raises(InputError, match=r"found 2027-03-12.*a moment that has passed"):
        take_back(shop, at=datetime(2027, 3, 12, tzinfo=UTC))


def test_the_list_is_parquet_or_csv(shop, launched, tmp_path):
    with pytest.raises(Exception, match=r"\.parquet or \.csv"):
        take_back(shop, file=tmp_path / "list.xlsx")


def test_a_repair_after_a_recall_gives_what_the_recall_gave(shop, launched):
    rows = shop.sent(launched)[:4]
    receive(shop, rows[:2])
    receive(shop, rows[2:], ordered_at=at(2, 2027, 3, 12))
    take_back(shop)
    kept = evidence(shop).to_bytes()
    with shop.store._database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE outcomes SET disposition = 'applied', reason = NULL WHERE row >= 0")
    assert not all(finding.ok for finding in audit(shop.store))
    log = RepairLog()
    repair_campaigns(shop.store, log)
    assert (len(log.done), log.problems) == (1, [])
    assert evidence(shop).to_bytes() == kept
    assert all(finding.ok for finding in audit(shop.store))


def test_a_changed_moment_is_found(shop, launched):
    take_back(shop)
    with shop.store._database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE campaigns SET recalled_at = NULL")
    with shop.store.reading() as transaction:
        found = [one.words for one in transaction.seals.broken_of("spring")]
    assert found == ["campaign spring is changed by something other than disco"]


def test_a_new_network_learns_baskets_of_a_recalled_campaign_and_no_codes(shop):
    features = pa.table({"customer_id": np.arange(200), "x": np.arange(200.0) / 200})
    launched = shop.launch(features=features)
    receive(shop, shop.sent(launched)[:20])
    learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    take_back(shop)
    found = rebuild(
        shop.store,
        network="second network",
        contexts_of=lambda table: shop.on_grid(table["x"].to_numpy()[:, None]),
        prior=shop.prior,
        as_of=shop.after,
        clock=shop.clock,
    )
    assert found.belief.engagement.counts.sent.sum() == 0
    assert found.campaigns["spring"] > 0


def test_a_recalled_campaign_says_nothing_about_how_good_forecasts_are(shop, launched):
    receive(shop, shop.sent(launched)[:20])

    def compared():
        return past_forecasts(shop.store, learned=["spring"], as_of=shop.after, personal=False).decided

    assert len(compared()) == 1
    take_back(shop)
    assert compared() == ()


def test_results_show_the_recall_and_compare_no_forecast(shop, launched):
    rows = shop.sent(launched)
    receive(shop, rows[:10])
    receive(shop, rows[10:12], ordered_at=at(2, 2027, 3, 12))
    planned = read_out(shop.store, "spring", as_of=date(2027, 3, 12))
    assert planned.expected is not None
    take_back(shop)
    found = read_out(shop.store, "spring", as_of=date(2027, 3, 14))
    assert (found.state, found.final, found.expected) == (Phase.RECALLED, True, None)
    assert found.recall.codes == len(rows) - 10
    assert found.recall.set_aside == 2
    assert sum(arm.summary.purchasers for arm in found.arms.values()) == 10
    assert all(arm.forecast is None and arm.expected_revenue is None for arm in found.arms.values())
    assert found.words[0].startswith("Campaign spring was recalled on 11 Mar 2027.")
    assert "2 purchases after the recall were set aside" in found.words[1]
    assert AllResults.of([found]).against_control["revenue"].campaigns == 1, "its groups were cut short alike"
    assert not read_out(shop.store, "spring", as_of=date(2027, 3, 13)).final, "outcomes may still arrive"


def test_an_explanation_says_that_the_campaign_was_recalled(shop, launched):
    take_back(shop)
    said = explain(shop.store, "spring", shop.sent(launched)[0]["customer_id"], prior=shop.knowledge())
    assert "which was recalled on 2027-03-11" in said.words[0]


def test_a_shared_code_is_listed_once_without_a_customer_however_many_have_used_it(shop):
    launched = shop.launch(shop.plan(codes={"shared": {0.1: "SPRING10"}}))
    sent = [row for row in shop.sent(launched) if row["depth"] == 0.1]
    single = {row["code"] for row in shop.sent(launched) if row["depth"] == 0.3}
    once = {"code_id": "SPRING10", "customer_id": None, "campaign_id": "spring", "depth": 0.1}
    receive(shop, sent[:3], code=["SPRING10"] * 3)
    receive(shop, sent[3:4], code=["SPRING10"], ordered_at=at(1, 2027, 3, 12))
    done = take_back(shop)
    assert (done.codes, done.used, done.set_aside) == (len(sent) - 3 + len(single), 3, 1)
    shared, *others = done.to_arrow().to_pylist()
    assert shared == once
    assert sorted(row["code_id"] for row in others) == sorted(single)
    # the shop accepts it from anybody, so it stays in the list when everybody it was sent to has used it
    receive(shop, sent[3:], code=["SPRING10"] * len(sent[3:]), event_id=[f"x{row['customer_id']}" for row in sent[3:]])
    assert take_back(shop).to_arrow().to_pylist()[0] == once


def test_a_shared_code_that_nobody_was_sent_is_not_listed(shop):
    shop.launch(shop.plan(codes={"shared": {0.3: "SPRING30"}}, depths={0.1: {"at_most": 50}, 0.3: {"at_most": 0}}))
    assert "SPRING30" not in take_back(shop).to_arrow()["code_id"].to_pylist()


# ---- time that goes backwards


def counted(shop):
    with shop.store.reading() as transaction:
        return transaction.ledger.outcomes("spring", dispositions=(Disposition.APPLIED,)).num_rows


def test_a_recall_before_the_launch_is_refused_and_sets_no_purchase_aside(shop, launched):
    receive(shop, shop.sent(launched)[:5])
    long_ago, before = datetime(1970, 1, 1, tzinfo=UTC), shop.clock.now() - CLOCK_TOLERANCE
    for at in (long_ago, before - timedelta(seconds=1)):
        with pytest.raises(InputError, match="expected a moment from 2027-03-08 15:00 UTC on"):
            take_back(shop, at=at)
    with pytest.raises(InputError, match="Correct the clock of this machine"):
        recall(shop.store, "spring", clock=Clock(long_ago))
    assert counted(shop) == 5
    assert take_back(shop, at=before, dry_run=True).recalled_at == before  # clocks of two machines may differ


def test_a_clock_before_the_last_entry_of_the_journal_recalls_nothing(tmp_path, make_shop):
    journal = Clock(MOMENT)
    store = Store(f"sqlite:///{tmp_path / 'own.db'}", tmp_path / "artefacts", clock=journal)
    shop = make_shop(store)
    receive(shop, shop.sent(shop.launch())[:5])
    behind = MOMENT - CLOCK_TOLERANCE
    with pytest.raises(StateError, match=r"the last entry of the journal is of 2027-03-11 15:00 UTC.*--as-of"):
        recall(store, "spring", clock=Clock(behind - timedelta(seconds=1)))
    assert counted(shop) == 5
    assert recall(store, "spring", clock=Clock(behind), dry_run=True).set_aside == 0
    # a day that somebody names may lie before the last entry: the clock says nothing about it
    assert recall(store, "spring", clock=Clock(), at=datetime(2027, 3, 9, tzinfo=UTC)).set_aside == 5
    store.close()


def test_codes_launched_after_their_time_are_recalled_by_their_own_dates(shop):
    """A simulated shop launches campaigns of the past."""
    now = datetime(2028, 1, 1, tzinfo=UTC)
    launch(shop.store, shop.planned(), clock=Clock(now), secret=shop.secret)
    with pytest.raises(InputError, match="expected a moment from 2027-03-08 00:00 UTC on"):
        recall(shop.store, "spring", clock=Clock(now), at=datetime(2027, 3, 7, tzinfo=UTC))
    recall(shop.store, "spring", clock=Clock(now), at=datetime(2027, 3, 9, tzinfo=UTC))
