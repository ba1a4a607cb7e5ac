"""Guardrails of a campaign: sound outcomes cross none, planted ones pause it once, and a person resumes it."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from arriving import decide_late_arrivals
from small_life import NETWORK, SECRET, FixedClock, nothing_known, people
from visitors import visiting

from disco.entrypoints.python import Shop
from disco.entrypoints.worker import run_worker
from disco.office.jobs.use_cases import list_jobs, submit
from disco.office.webhooks.use_cases import add_webhook
from disco.operations.guardrails import GuardrailReading, guardrails_now, read_guardrails
from disco.operations.launch import Launched, launch
from disco.operations.learn import active_belief, learn_campaigns
from disco.operations.notices import tell_of_due
from disco.operations.outcomes import ingest as receive
from disco.operations.plan import plan_campaign
from disco.operations.upkeep import check_campaign
from disco.records.campaign_records import State
from disco.records.errors import PlanError
from disco.records.jobs import Event
from disco.records.plan import Plan, read_plan
from disco.records.wording import money
from disco.store import Store

PEOPLE, DAYS = 900, 14
STARTS = {"earlier": date(2025, 3, 3), "watched": date(2025, 4, 7)}
NOW = datetime(2025, 4, 12, 9, tzinfo=UTC)
RAILS = {
    "spend": {"above": "20%", "below": "-50%", "then": "pause"},
    "budget_used": {"above": "80%", "then": "tell"},
    "average_basket": {"below": "-15%", "then": "pause"},
    "refunds": {"above": "10%", "then": "tell"},
    "sample_ratio": {"then": "pause"},
}


def content(campaign: str, **more: object) -> dict[str, object]:
    start = STARTS[campaign]
    return {
        "campaign": campaign,
        "customers": {"as_of": start},
        "depths": {0.1: {"at_most": "50%"}, 0.3: {"at_most": "50%"}},
        "objective": {"revenue_weight": 3},
        "policy": {"name": "random"},
        "valid": {"from": start, "days": DAYS},
        "seed": 4,
        **more,
    }


def launched(store: Store, campaign: str, **more: object) -> Launched:
    belief, version = active_belief(store, prior=nothing_known())
    clock = FixedClock(datetime.combine(STARTS[campaign], datetime.min.time(), UTC))
    planned = plan_campaign(
        store,
        read_plan(content(campaign, **more)),
        people(range(PEOPLE)),
        belief=belief,
        version=None if version is None else version.number,
        network=NETWORK,
        inputs={},
        clock=clock,
    )
    return launch(store, planned, clock=clock, secret=SECRET)


def outcomes(
    decisions: pa.Table, campaign: str, *, share: float = 0.4, factor: float = 1.0, refunds: float = 0.05
) -> pa.Table:
    """So many receivers buy, in the first five days as often as in the rest."""
    rng = np.random.default_rng(8)
    coded = decisions.filter(decisions["code"].is_valid()).to_pylist()
    rows = []
    for number, decision in enumerate(coded):
        late, early = rng.random(2)
        if early >= share:
            continue
        days = 5 * late * 2 if late < 0.5 else 5 + (DAYS - 5) * (2 * late - 1)
        at = datetime.combine(STARTS[campaign], datetime.min.time()) + timedelta(days=min(days, DAYS - 0.1))
        row = {
            "event_id": f"{campaign}-{number}",
            "campaign_id": campaign,
            "customer_id": decision["customer_id"],
            "code": decision["code"],
            "ordered_at": at,
            "full_price": round(float(np.exp(rng.normal(3.6, 0.4))) * factor, 2),
            "kind": "purchase",
            "refers_to": None,
        }
        rows.append(row)
        if rng.random() < refunds:
            later = {"kind": "refund", "refers_to": row["event_id"], "ordered_at": at + timedelta(days=1)}
            rows.append({**row, **later, "event_id": f"{campaign}-{number}-back"})
    return pa.Table.from_pylist(rows)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Learned from one campaign; the other one runs."""
    return made(tmp_path_factory.mktemp("guardrails") / "shop", RAILS)


def made(folder: Path, rails: dict[str, object], **more: object) -> Shop:
    (folder / "data").mkdir(parents=True)
    (folder / "disco.yaml").write_text("data: data\n", encoding="utf-8")
    shop = Shop.open(folder, now=NOW)
    with shop.store(missing="create") as store:
        first = launched(store, "earlier")
    shop.ingest("earlier", outcomes(first.decisions, "earlier"))
    with shop.store() as store:
        learn_campaigns(store, ["earlier"], prior=nothing_known(), as_of=date(2025, 4, 1), clock=FixedClock())
        launched(store, "watched", budget=100_000, guardrails=rails, **more)
    return shop


def of_watched(shop: Shop, **more: float) -> pa.Table:
    """What has come in the first five days."""
    with shop.store() as store, store.reading() as transaction:
        decisions = transaction.decisions.of("watched")
    rows = outcomes(decisions, "watched", **more)
    return rows.filter(pa.compute.less(rows["ordered_at"], datetime(2025, 4, 12)))


def readings(shop: Shop) -> dict[str, GuardrailReading]:
    with shop.store() as store:
        return {one.guardrail: one for one in read_guardrails(store, "watched")}


def test_sound_outcomes_cross_nothing(shop: Shop) -> None:
    done = shop.ingest("watched", of_watched(shop))
    assert not done.warnings
    found = readings(shop)
    assert list(found) == list(RAILS)
    assert not any(one.crossed for one in found.values())
    assert "was due by then (limit +20% and −50%)" in found["spend"].words
    assert shop.campaigns("watched").campaigns[0].state == "running"
    shop.revert(done.batch_id)


@pytest.mark.parametrize(
    ("fault", "crossed"),
    [
        ({"factor": 100.0}, {"spend", "budget_used"}),
        ({"factor": 0.6}, {"average_basket"}),
        ({"share": 0.1}, {"spend"}),
        ({"refunds": 0.6}, {"refunds"}),
    ],
)
def test_a_planted_fault_crosses_its_guardrail(shop: Shop, fault: dict[str, float], crossed: set[str]) -> None:
    done = shop.ingest("watched", of_watched(shop, **fault))
    try:
        found = {name for name, one in readings(shop).items() if one.crossed}
        assert crossed <= found <= {*crossed, "spend"}
    finally:
        shop.revert(done.batch_id)
        if shop.campaigns("watched").campaigns[0].state == "paused":
            shop.resume("watched")


def test_a_crossed_guardrail_pauses_once_says_why_and_a_person_resumes(tmp_path: Path) -> None:
    shop = made(tmp_path / "shop", RAILS)
    with shop.store() as store:
        add_webhook(store, url="https://example.com/x", events=list(Event), clock=shop.clock)
    rows = of_watched(shop, factor=100.0)
    most = rows.num_rows * 4 // 5
    done = shop.ingest("watched", rows.slice(0, most))
    said = " ".join(done.warnings)
    assert "Spend: markdown of" in said
    assert "crossed with the purchase of" in said
    assert "Campaign watched is paused: nobody who arrives from now on gets a code. The 900 codes already" in said
    assert "`disco resume watched`" in said
    assert shop.campaigns("watched").campaigns[0].state == "paused"
    entry = next(one for one in reversed(shop.audit(limit=20).entries) if one.action == "guardrail")
    assert set(entry.detail["crossed"]) == {"spend", "budget_used"}
    assert entry.detail["reason"] == said
    with shop.store() as store:
        events = [job.body["event"] for job in list_jobs(store).items]
    assert {"campaign.paused", "guardrail.crossed", "budget.used"} <= set(events)

    with visiting(shop.folder) as browser:
        page = browser.get("/campaigns/watched")
        assert "Paused by a guardrail" in page.text
        assert "A person ends the pause with" in page.words
        assert "They look at all outcomes; the last came on 12 Apr 2025" in page.words
        saved = browser.get("/campaigns/watched?table=guardrails&format=csv").text.splitlines()
    assert [row.split(",")[1] for row in saved[1:]].count("crossed") == 2

    shop.resume("watched")
    assert not shop.ingest("watched", rows.slice(most)).warnings  # whoever resumed has seen it
    assert shop.campaigns("watched").campaigns[0].state == "running"
    with shop.store() as store:
        checked = check_campaign(store, "watched", as_of=date(2025, 4, 12))
    assert "spend" in [one.where for one in checked if one.failed]
    assert "budget_used" not in [one.where for one in checked if one.failed]  # it only tells


def test_a_guardrail_that_only_tells_pauses_nothing(tmp_path: Path) -> None:
    shop = made(tmp_path / "shop", {"spend": {"above": "20%", "then": "tell"}})
    assert "Spend:" in shop.ingest("watched", of_watched(shop, factor=100.0)).warnings[0]
    with shop.store() as store, store.reading() as transaction:
        assert transaction.plans.campaign("watched").state is State.LAUNCHED


@pytest.mark.parametrize(
    ("rails", "expected"),
    [
        ({"spend": {"then": "pause"}}, "a limit for spend, such as `spend: {above: 20%, then: pause}`"),
        ({"spend": {"above": "20%"}}, r"guardrails\.spend\.then"),
        ({"spend": {"above": "20%", "then": "stop"}}, "expected tell or pause"),
        ({"average_basket": {"below": "15%", "then": "tell"}}, "between -100% and 0%"),
        ({"refunds": {"below": "-5%", "then": "tell"}}, "a limit `above` for refunds"),
        ({"sample_ratio": {"above": "5%", "then": "tell"}}, "sample_ratio without a limit"),
        ({"budget_used": {"above": "80%", "then": "tell"}}, "a budget, where guardrails.budget_used watches"),
        ({"spnd": {"above": "20%", "then": "tell"}}, "Did you mean spend?"),
        ({}, "one of spend, budget_used"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_words(rails: dict[str, object], expected: str) -> None:
    with pytest.raises(PlanError, match=expected):
        read_plan(content("watched", guardrails=rails))


def test_a_plan_without_the_key_keeps_its_bytes() -> None:
    plain = read_plan(content("watched"))
    assert "guardrails" not in plain.model_dump_json(by_alias=True)
    kept = read_plan(content("watched", budget=5, guardrails=RAILS))
    assert Plan.model_validate_json(kept.model_dump_json(by_alias=True)) == kept


def test_a_job_that_checks_the_campaign_looks_at_its_guardrails(tmp_path: Path) -> None:
    shop = made(tmp_path / "shop", RAILS)
    with shop.store() as store:
        receive(store, "watched", of_watched(shop, factor=100.0), source="test", clock=shop.clock)
        submit(store, "check", {"campaign": "watched"}, clock=shop.clock)
    assert shop.campaigns("watched").campaigns[0].state == "running"
    run_worker(shop, until_idle=True)
    assert shop.campaigns("watched").campaigns[0].state == "paused"
    with shop.store() as store:
        found = guardrails_now(store, "watched")
    assert found.paused.startswith("Spend: markdown of")
    assert found.last_outcomes == NOW
    shop.resume("watched")
    with shop.store() as store:
        assert guardrails_now(store, "watched").paused == ""


def test_late_arrivals_count(tmp_path: Path) -> None:
    shop = made(tmp_path / "shop", RAILS, reserve={"share": "10%"})
    with shop.store() as store:
        belief, _ = active_belief(store, prior=nothing_known())
        before = readings(shop)["spend"].words
        late = decide_late_arrivals(
            store, "watched", people(range(5000, 5040)), network=NETWORK, prior=belief, clock=shop.clock, secret=SECRET
        )
        coded = late.filter(late["code"].is_valid())
        assert coded.num_rows > 20
        assert readings(shop)["spend"].words != before  # more is expected
        rows = outcomes(coded, "watched", share=1.0, refunds=0.0)
        day = pa.array([datetime(2025, 4, 11)] * rows.num_rows, pa.timestamp("us"))
        rows = rows.set_column(rows.schema.get_field_index("ordered_at"), "ordered_at", day)
        receive(store, "watched", rows, source="test", clock=shop.clock)
    price = np.array([row["full_price"] for row in rows.to_pylist()])
    spent = float((price * coded["depth"].to_numpy()).sum())
    assert f"Budget: {money(spent)} of £100k is used" in readings(shop)["budget_used"].words


def test_late_outcomes_and_final_results_are_told_once(tmp_path: Path) -> None:
    shop = made(tmp_path / "shop", RAILS)
    with shop.store() as store:
        assert tell_of_due(store, clock=shop.clock) == 0  # nobody is told
        add_webhook(store, url="https://example.com/x", events=list(Event), clock=shop.clock)
        for _ in range(2):
            assert tell_of_due(store, clock=shop.clock) == 1
        receive(store, "watched", of_watched(shop), source="test", clock=shop.clock)
        assert tell_of_due(store, clock=shop.clock) == 0
        over = FixedClock(datetime(2025, 4, 25, 9, tzinfo=UTC))
        for _ in range(2):
            assert tell_of_due(store, clock=over) == 1
        told = [(job.body["event"], job.body["data"]["words"]) for job in list_jobs(store).items][::-1]
    ends = {"outcomes.late": "since its codes became valid on 7 Apr 2025.", "results.ready": "watched` is final."}
    assert [event for event, _ in told] == list(ends)
    assert [words for event, words in told if not words.endswith(ends[event])] == []
