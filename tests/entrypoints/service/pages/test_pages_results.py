"""The results of a campaign: the same words and tables as its report, the groups, and the verdict from day to day."""

import io
import re
from html import escape

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from disco.views.campaign_pages import campaign_report

HTMX = {"hx-request": "true"}


def test_the_page_shows_what_the_report_shows(second_reader: TestClient) -> None:
    page = second_reader.get("/campaigns/second/results").text
    report = campaign_report(second_reader.app.state.service.shop().results("second"))  # type: ignore[attr-defined]
    for section in report.sections:
        assert f"<h2>{section.heading}</h2>" in page
    assert f'<p class="lead" id="answer">{escape(report.lead)}</p>' in page.replace("\u00a0", " ").replace("\u2060", "")
    assert "Decided group against one code for everybody" in page
    assert "Incremental revenue per customer, compared with the holdout" not in page  # its orders end too early
    assert "The holdout cannot be read: orders end on " in page.replace("\u00a0", " ").replace("\u2060", "")
    assert "Engagement" in page
    assert page.index("Did deciding help?") < page.index("How the verdict came about")
    before, _, statistics = page.partition('<details class="science">')
    assert "p (Holm)" not in before
    assert "w × revenue" not in before
    assert "w × revenue" in statistics
    assert "p values of the comparisons" in statistics
    assert "Group sizes are as planned" in page
    assert 'hx-get="/campaigns/second/results/over-time"' in page
    assert "style=" not in page


def test_results_overview_and_list_say_that_the_forecast_was_missed(second_reader: TestClient) -> None:
    compared = second_reader.app.state.service.shop().results("second").against_forecast  # type: ignore[attr-defined]
    assert compared.missed

    def page(address: str) -> str:
        return second_reader.get(address).text.replace("\u00a0", " ").replace("\u2060", "")

    overview, listed = page("/campaigns/second"), page("/campaigns")
    answer = re.search(r'id="answer">(.*?)</p>', overview)
    assert answer is not None
    assert compared.brief in answer[1]
    assert f"<strong>Look at this</strong> {escape(compared.words)}" in overview
    assert f"{compared.brief[0].upper()}{compared.brief[1:]}" in listed
    assert escape(compared.words) in page("/campaigns/second/results")


def test_every_table_of_the_page_can_be_saved(second_reader: TestClient) -> None:
    page = second_reader.get("/campaigns/second/results").text
    names = set(re.findall(r"results\?table=([^&]+)&amp;format=parquet", page))
    assert {"1-1", "1-2", "2-1", "4-1", "groups"} <= names
    for name in names:
        saved = second_reader.get("/campaigns/second/results", params={"table": name, "format": "parquet"})
        assert pq.read_table(io.BytesIO(saved.content)).num_rows > 0
        assert (
            second_reader.get("/campaigns/second/results", params={"table": name, "format": "csv"}).text.count("\n") > 1
        )


def test_the_verdict_from_day_to_day_is_loaded_as_a_part(second_reader: TestClient) -> None:
    part = second_reader.get("/campaigns/second/results/over-time", headers=HTMX)
    assert part.status_code == 200
    assert "<html" not in part.text
    assert '<script type="application/json">' in part.text
    whole = second_reader.get("/campaigns/second/results/over-time")
    assert "<html" in whole.text
    rows = second_reader.get("/campaigns/second/results/over-time?table=over_time&format=csv").text.splitlines()
    assert len(rows) == 11
    assert rows[1].startswith("1 Oct 2025,")
    assert rows[-1].startswith("3 Nov 2025,")


def test_a_campaign_without_control_says_why_there_is_no_comparison(reader: TestClient) -> None:
    assert "There is no control group to compare with." in reader.get("/campaigns/first/results").text
    part = reader.get("/campaigns/first/results/over-time", headers=HTMX).text
    assert "the campaign has no control group" in part


def test_without_outcomes_the_page_says_what_to_do(client: TestClient) -> None:
    batch = client.get("/api/v1/campaigns/first").json()["batches"][0]["batch_id"]
    client.post(f"/api/v1/batches/{batch}/revert")
    page = client.get("/campaigns/first/results").text
    assert "No purchase was reported yet, so there are no results." in page
    assert 'href="/campaigns/first#outcomes">Send outcomes</a>' in page


def test_an_unknown_campaign_is_a_page_in_words(reader: TestClient) -> None:
    answer = reader.get("/campaigns/<script>alert(1)<%2Fscript>/results")
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text


def test_the_results_are_read_once_while_nothing_changes(
    second_reader: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_reader.get("/campaigns/second/results")

    def again(*_: object, **__: object) -> None:
        raise AssertionError("the results were read again")

    monkeypatch.setattr("disco.operations.read_out_cache.campaign_results", again)
    assert second_reader.get("/campaigns/second/results").status_code == 200
