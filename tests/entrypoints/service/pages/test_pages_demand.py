"""Demand: curves with bands and what was seen, by segment; the choice stays in the address."""

import io

import pyarrow.parquet as pq
from fastapi.testclient import TestClient
from visitors import Browser


def test_the_page_answers_draws_and_marks_guesses(reader: TestClient) -> None:
    page = reader.get("/demand")
    assert page.status_code == 200
    answer = page.text.split('id="answer">')[1].split("</p>")[0]
    assert answer.startswith("For the average customer, ")
    assert page.text.count('<script type="application/json">') == 3
    guesses = any(point["extrapolated"] for point in reader.get("/api/v1/demand").json()["curve"])
    assert ("the dashed line is an extrapolation" in page.text) is guesses
    assert ('"type":"dashed"' in page.text) is guesses
    assert "style=" not in page.text


def test_a_segment_is_chosen_by_the_address(reader: TestClient) -> None:
    everybody = reader.get("/demand").text
    assert '<option value="" selected>The average customer</option>' in everybody
    chosen = "Spent most in the year before"
    assert f'<option value="{chosen}">' in everybody
    page = reader.get("/demand", params={"segment": chosen}).text
    assert f'<option value="{chosen}" selected>' in page
    assert "customers in “Spent most" in page
    params = {"segment": chosen, "table": "observed", "format": "parquet"}
    saved = pq.read_table(io.BytesIO(reader.get("/demand", params=params).content))
    assert sum(saved["Purchases"].to_pylist()) < sum(
        point["purchases"] for point in reader.get("/api/v1/demand").json()["observed"]
    )
    assert "segment=Spent%20most%20in%20the%20year%20before&amp;table=observed" in page


def test_an_unknown_segment_is_answered_beside_the_choice(reader: TestClient) -> None:
    page = reader.get("/demand", params={"segment": "<b>nobody</b>"})
    assert page.status_code == 422
    assert "<b>nobody" not in page.text
    assert 'id="segment-error"' in page.text
    assert "The average customer" in page.text  # the page is still there


def test_the_curve_is_that_of_the_api(reader: TestClient) -> None:
    table = pq.read_table(io.BytesIO(reader.get("/demand?table=curve&format=parquet").content))
    curve = reader.get("/api/v1/demand").json()["curve"]
    assert table["Basket (90%)"].to_pylist() == [point["basket"]["value"] for point in curve]
    assert table["Basket (90%), lower"].to_pylist() == [point["basket"]["lower"] for point in curve]


def test_before_anything_was_learned_the_page_says_what_to_do(newcomer: Browser) -> None:
    page = newcomer.get("/demand")
    assert page.status == 200
    assert "Demand is not known yet" in page.words
    assert "Launch a campaign that assigns codes at random" in page.words
