"""A campaign's header and its overview: state in words, next step, pause and resume, outcomes, codes, close, recall."""

import io
import json
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages.campaign import health_of
from disco.operations.overview import CampaignProgress, NextStep, campaign_overview
from disco.records.campaign_records import Disposition, Phase
from disco.records.errors import NotFoundError
from disco.records.people import Role
from disco.web.header import campaign_address, campaign_header, draft_header, header_of


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
    assert (paused.status_code, paused.headers["hx-redirect"]) == (204, "/campaigns/first")
    assert "Campaign first is paused" in json.loads(paused.headers["hx-trigger"])["said"]
    resumed = client.post("/campaigns/first/resume", follow_redirects=False)
    assert (resumed.status_code, resumed.headers["location"]) == (303, "/campaigns/first")
    assert [str(entry.action) for entry in Shop.open(shop).audit().entries if entry.subject == "first"][-2:] == [
        "pause",
        "resume",
    ]
    unknown = client.post("/campaigns/winter/pause", headers={"hx-request": "true"})
    assert unknown.status_code == 404
    assert unknown.headers["hx-retarget"] == "#note"


def test_the_overview_answers_first(reader: TestClient) -> None:
    page = reader.get("/campaigns/first")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    listed = reader.get("/api/v1/campaigns/first").json()
    answer = page.text.split('id="answer">')[1].split("</p>")[0]
    assert answer.startswith(
        f"Ended 30\u00a0Sep 2025: {listed['codes']:,} codes, {listed['outcomes']['applied']:,} purchases"
    )
    assert "There is no group to compare with" in page.text
    assert f"All {listed['outcomes']['applied']:,} outcomes fit a code." in page.text
    assert page.text.index('id="codes"') < page.text.index('id="outcomes"')  # codes are sent before outcomes come
    assert "style=" not in page.text
    assert 'aria-current="page">Overview' in page.text


def test_what_needs_a_look_is_said_in_words(reader: TestClient) -> None:
    with Shop.open(reader.app.state.service.shop().folder).store() as store:  # type: ignore[attr-defined]
        found = campaign_overview(store, "first", today=date(2026, 1, 1))
    outcomes = dict(found.entry.outcomes) | {Disposition.UNMATCHED: 30}
    received = sum(outcomes.values())
    ill = replace(
        found,
        entry=replace(found.entry, outcomes=outcomes),
        budget=1.0,
        warnings=("Rarely tried before, so the model extrapolates: 15% off (as if 215 purchases were known).",),
    )
    lines = {line.brief: line.text for line in health_of(ill) if not line.ok}
    assert lines[f"30 of {received:,} outcomes fit no code"].startswith(f"30 of {received:,} outcomes fit no code or")
    assert lines["over budget"] == "The codes have cost more than the budget."
    assert lines["15% off was rarely tried before"] == (
        "The plan had little experience of 15% off (as if 215 purchases were known), "
        "so its forecast extrapolates there."
    )


def test_the_figures_of_the_overview_are_those_of_the_results(reader: TestClient) -> None:
    results = reader.get("/api/v1/campaigns/first/results").json()
    summary = results["arms"]["decided"]["summary"]
    with Shop.open(reader.app.state.service.shop().folder).store() as store:  # type: ignore[attr-defined]
        found = campaign_overview(store, "first", today=date(2026, 1, 1))
    assert found.sales.purchases == summary["purchasers"]
    assert found.sales.revenue == pytest.approx(summary["revenue"])
    assert found.sales.markdown == pytest.approx(summary["markdown"])


def test_tables_of_the_overview_are_saved_as_files(reader: TestClient) -> None:
    rows = reader.get("/campaigns/first?table=batches&format=csv").text.splitlines()
    assert rows[0] == "Received,Source,Count,Set aside,State"
    assert len(rows) == 2
    table = pq.read_table(io.BytesIO(reader.get("/campaigns/first?table=outcomes&format=parquet").content))
    assert table["Outcome"].to_pylist() == ["Counted", "Duplicate", "Expired", "Unmatched", "Rejected"]
    assert reader.get("/campaigns/first?table=nothing").status_code == 404


def test_codes_are_saved_as_csv_or_parquet(reader: TestClient) -> None:
    csv = reader.get("/campaigns/first/codes?format=csv")
    assert csv.headers["content-disposition"] == 'attachment; filename="first-codes.csv"'
    table = pq.read_table(io.BytesIO(reader.get("/campaigns/first/codes?format=parquet").content))
    assert table.num_rows == reader.get("/api/v1/campaigns/first").json()["codes"]
    assert len(csv.text.splitlines()) == table.num_rows + 1
    assert reader.get("/campaigns/first/codes?format=xls").status_code == 422


def test_a_campaign_is_closed_only_by_its_name(client: TestClient) -> None:
    for typed, words in (("", "Type first first."), ("frist", "This is not the campaign&#39;s name.")):
        refused = client.post("/campaigns/first/close", data={"close_name": typed})
        assert refused.status_code == 422
        assert words in refused.text
        assert f'value="{typed}"' in refused.text
        assert "<html" not in refused.text  # the forms alone, which htmx puts in their place
    assert client.get("/api/v1/campaigns/first").json()["state"] == "ended"
    done = client.post("/campaigns/first/close", data={"close_name": "first"}, headers={"hx-request": "true"})
    assert (done.status_code, done.headers["hx-redirect"]) == (204, "/campaigns/first")
    page = client.get("/campaigns/first").text
    assert "Close the campaign" not in page
    assert "data-upload" not in page


def test_codes_are_recalled_only_by_the_campaigns_name(client: TestClient) -> None:
    assert client.get("/campaigns/first/recalled").status_code == 404  # looking recalls nothing
    assert client.post("/campaigns/first/recall", data={"recall_name": "First"}).status_code == 422
    assert client.get("/api/v1/campaigns/first").json()["recalled_at"] is None
    done = client.post("/campaigns/first/recall", data={"recall_name": " first "}, follow_redirects=False)
    assert done.status_code == 303
    page = client.get("/campaigns/first").text
    assert "Recalled" in page.split('id="answer">')[1]
    assert "/campaigns/first/recalled?format=csv" in page
    assert client.get("/campaigns/first/recalled?format=csv").text.count("\n") > 1


def test_a_batch_is_taken_out_from_the_page(client: TestClient) -> None:
    batch = client.get("/api/v1/campaigns/first").json()["batches"][0]["batch_id"]
    address = f"/campaigns/first/batches/{batch}/revert"
    assert f'hx-post="{address}"' in client.get("/campaigns/first").text
    done = client.post(address, headers={"hx-request": "true"})
    assert done.headers["hx-redirect"] == "/campaigns/first#outcomes"
    page = client.get("/campaigns/first").text
    assert "no purchase was reported yet" in page
    assert 'Next: <a href="/campaigns/first#outcomes">Send outcomes</a>' in page
    again = client.post(address, headers={"hx-request": "true"})
    assert (again.status_code, again.headers["hx-retarget"]) == (409, "#note")


def test_viewers_see_figures_and_no_buttons(served_shop: Path, reader: TestClient, keys: dict[Role, str]) -> None:
    page = reader.get("/campaigns/first", headers={"authorization": f"Bearer {keys[Role.VIEWER]}"}).text
    assert "<button" not in page.split('<main id="content">')[1]
    assert "Planners can save them" in page
