"""A campaign's header and its overview: state in words, next step, pause and resume, outcomes, codes, close, recall."""

from datetime import date, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages.header import campaign_address, campaign_header, draft_header, header_of
from disco.operations.next_steps import CampaignProgress, NextStep
from disco.records.errors import NotFoundError
from disco.records.life import Phase


def at(phase: Phase, step: NextStep, closes: date = date(2027, 3, 9)) -> CampaignProgress:
    return CampaignProgress(
        campaign="spring",
        phase=phase,
        opens=date(2027, 3, 1),
        closes=closes,
        matures_on=date(2027, 3, 11),
        has_outcomes=True,
        learned=False,
        next_step=step,
    )


def test_the_state_in_words_has_the_day_that_matters() -> None:
    states = {
        Phase.SCHEDULED: "scheduled, starts 1 Mar 2027",
        Phase.RUNNING: "running until 8 Mar 2027",
        Phase.PAUSED: "paused until 8 Mar 2027",
        Phase.ENDED: "ended 8 Mar 2027",
        Phase.RECALLED: "recalled",
        Phase.CLOSED: "closed",
    }
    assert {phase: header_of(at(phase, NextStep.WATCH)).state for phase in Phase} == states
    until_noon = at(Phase.RUNNING, NextStep.WATCH, closes=datetime(2027, 3, 9, 12))
    assert header_of(until_noon).state == "running until 9 Mar 2027 12:00"


def test_each_next_step_leads_to_where_it_is_done() -> None:
    found = {step: header_of(at(Phase.RUNNING, step)).next_step for step in NextStep}
    assert {step: (link.text, link.address) for step, link in found.items() if link} == {
        NextStep.SEND_CODES: ("Send the codes", "/campaigns/spring#codes"),
        NextStep.SEND_OUTCOMES: ("Send outcomes", "/campaigns/spring#outcomes"),
        NextStep.WATCH: ("See the results so far", "/campaigns/spring/results"),
        NextStep.WAIT: ("Wait for the last outcomes, until 11 Mar 2027", "/campaigns/spring#outcomes"),
        NextStep.LEARN: ("Learn from it", "/learning?campaign=spring"),
        NextStep.PLAN: ("Plan the next campaign", "/plan"),
    }


def test_only_what_runs_can_be_paused_and_only_what_is_paused_resumed() -> None:
    headers = {phase: header_of(at(phase, NextStep.WATCH)) for phase in Phase}
    assert [phase for phase, one in headers.items() if one.pause] == [Phase.SCHEDULED, Phase.RUNNING]
    assert [phase for phase, one in headers.items() if one.resume] == [Phase.PAUSED]


def test_a_hostile_name_stays_one_part_of_the_address() -> None:
    assert campaign_address("a/../b?c#d", "results") == "/campaigns/a%2F..%2Fb%3Fc%23d/results"


def test_the_tabs_of_a_campaign_and_of_a_draft(served_shop: Path) -> None:
    found = campaign_header(Shop.open(served_shop), "first", here="results")
    assert [(tab.text, tab.address, tab.is_here) for tab in found.tabs] == [
        ("Overview", "/campaigns/first", False),
        ("Decisions", "/campaigns/first/decisions", False),
        ("Results", "/campaigns/first/results", True),
    ]
    assert found.state == "ended 30 Sep 2025"
    assert found.next_step is not None
    assert found.next_step.text == "Plan the next campaign"
    draft = draft_header("summer", here="planner", state="waits for approval")
    assert [(tab.address, tab.is_here) for tab in draft.tabs] == [
        ("/plan/summer", True),
        ("/plan/summer/frontier", False),
        ("/plan/summer/launch", False),
    ]
    with pytest.raises(NotFoundError):
        campaign_header(Shop.open(served_shop), "winter", here="overview")


def test_a_campaign_is_paused_and_resumed_from_its_header(client: TestClient, shop: Path) -> None:
    paused = client.post("/campaigns/first/pause", headers={"hx-request": "true"})
    assert (paused.status_code, paused.headers["hx-redirect"]) == (204, "/campaigns/first?done=paused")
    resumed = client.post("/campaigns/first/resume", follow_redirects=False)
    assert (resumed.status_code, resumed.headers["location"]) == (303, "/campaigns/first?done=resumed")
    assert [str(entry.action) for entry in Shop.open(shop).audit().entries if entry.subject == "first"][-2:] == [
        "pause",
        "resume",
    ]
    unknown = client.post("/campaigns/winter/pause", headers={"hx-request": "true"})
    assert unknown.status_code == 404
    assert unknown.headers["hx-retarget"] == "#note"
