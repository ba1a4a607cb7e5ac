"""Learning: what the model knows, learning now, and going back to another version."""

import io
import json

import pyarrow.parquet as pq
from fastapi.testclient import TestClient
from visitors import Browser

from disco.entrypoints.python import Shop
from disco.records.people import Role

HTMX = {"hx-request": "true"}


def test_the_page_answers_first(reader: TestClient) -> None:
    page = reader.get("/learning")
    assert page.status_code == 200
    answer = page.text.split('id="answer">')[1].split("</p>")[0]
    purchases = reader.get("/api/v1/beliefs/active").json()["purchases"]
    assert answer.startswith(
        f"Version 1 of the model decides, learned from 1 campaign and {purchases:,} purchases; it knows"
    )
    assert "there is nothing to learn now" in page.text
    assert "100% of the codes of first were assigned at random" in page.text
    assert "style=" not in page.text


def test_forecasts_of_a_second_campaign_are_compared(second_reader: TestClient) -> None:
    table = pq.read_table(io.BytesIO(second_reader.get("/learning?table=forecasts&format=parquet").content))
    results = second_reader.get("/api/v1/campaigns/second/results").json()
    assert table["Campaign"].to_pylist() == ["second"]
    actual = sum(arm["summary"]["revenue"] for arm in results["arms"].values())
    assert abs(table["Actual revenue"][0].as_py() - actual) < 1e-6
    assert table["Forecast revenue (90%)"][0].as_py() == results["expected"]["revenue"]["value"]


def test_a_campaign_with_outcomes_can_be_learned(second_reader: TestClient) -> None:
    page = second_reader.get("/learning").text
    assert '<input type="checkbox" name="campaign" value="second" checked>' in page
    other = second_reader.get("/learning?campaign=first").text
    assert '<input type="checkbox" name="campaign" value="second">' in other


def test_learning_submits_one_job(client: TestClient) -> None:
    key = {"idempotency-key": "a key of this page", **HTMX}
    answers = [client.post("/learning/learn", data={"campaign": "first"}, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [204, 204]
    jobs = client.get("/api/v1/jobs?kind=learn").json()["items"]
    assert len(jobs) == 1
    assert answers[0].headers["hx-redirect"] == f"/jobs/{jobs[0]['id']}"
    assert client.get(f"/api/v1/jobs/{jobs[0]['id']}").json()["body"]["campaigns"] == ["first"]


def test_what_cannot_be_learned_is_answered_beside_the_choice(client: TestClient) -> None:
    nothing = client.post("/learning/learn", data={}, headers=HTMX)
    assert nothing.status_code == 422
    unknown = client.post("/learning/learn", data={"campaign": "<i>winter"}, headers=HTMX)
    assert unknown.status_code == 422
    assert "<i>winter" not in unknown.text
    assert client.get("/api/v1/jobs?kind=learn").json()["items"] == []


def test_another_version_is_activated_by_its_number(client: TestClient) -> None:
    shop: Shop = client.app.state.service.shop()  # type: ignore[attr-defined]
    batch = client.get("/api/v1/campaigns/first").json()["batches"][0]["batch_id"]
    shop.revert(batch)
    assert shop.learn("first").version == 2
    assert "Type the number of the version" in client.get("/learning").text
    for typed in ("", "3", "two", "²", "2", "9" * 5_000):
        refused = client.post("/learning/activate", data={"version": typed}, headers=HTMX)
        assert refused.status_code == 422, typed
        assert f'value="{typed}"' in refused.text
        assert 'id="version-error"' in refused.text
    done = client.post("/learning/activate", data={"version": "1"}, headers=HTMX)
    assert (done.status_code, done.headers["hx-redirect"]) == (204, "/learning")
    assert json.loads(done.headers["hx-trigger"])["said"] == "Version 1 of the model decides the next plan."
    assert "Version 1 of the model decides" in client.get("/learning").text


def test_viewers_learn_nothing_now(reader: TestClient, keys: dict[Role, str]) -> None:
    page = reader.get("/learning", headers={"authorization": f"Bearer {keys[Role.VIEWER]}"}).text
    assert "Learn now" not in page
    assert "Versions of the model" in page


def test_before_anything_was_learned_the_page_says_what_to_do(newcomer: Browser) -> None:
    page = newcomer.get("/learning")
    assert page.status == 200
    assert "The model has learned from no campaign yet." in page.words
    assert "Launch a campaign, send its outcomes, and learn from it here." in page.words
