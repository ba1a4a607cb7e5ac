"""What the routes answer: the JSON of the command line, in pages, files by Accept, problems for everything else."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from disco.records.people import Role

API = "/api/v1"
Run = Callable[..., tuple[int, str, str]]


def test_health_readiness_and_figures(reader: TestClient) -> None:
    assert reader.get("/healthz").json() == {"status": "ok"}
    assert reader.get("/readyz").json() == {"status": "ready"}
    text = reader.get("/metrics").text
    assert 'disco_requests_total{method="GET",route="/readyz",status="200"}' in text


def test_the_json_of_a_use_case_is_that_of_the_command_line(reader: TestClient, served_shop: Path, disco: Run) -> None:
    pairs = {
        f"{API}/campaigns/first/results?as_of=2025-10-03": ("results", "first", "--as-of", "2025-10-03"),
        f"{API}/results?as_of=2025-10-03": ("results", "--as-of", "2025-10-03"),
        f"{API}/beliefs/active": ("belief",),
        f"{API}/beliefs/1": ("belief", "1"),
    }
    for path, command in pairs.items():
        code, out, err = disco(*command, "--shop", served_shop, "--json")
        assert code == 0, err
        assert reader.get(path).json() == json.loads(out), path
    _, out, _ = disco("campaigns", "--shop", served_shop, "--json")
    listed = json.loads(out)
    found = reader.get(f"{API}/campaigns").json()
    assert found == {"items": listed["campaigns"], "next": None, "active_version": 1}
    assert reader.get(f"{API}/campaigns/first").json() == listed["campaigns"][0]


@pytest.mark.parametrize("day", ["0001-01-01", "1899-12-31", "9000-01-01", "9999-12-31"])
def test_a_day_at_the_end_of_the_calendar_is_refused(reader: TestClient, day: str) -> None:
    for path in ("campaigns/first/results", "campaigns/first/report", "results", "report"):
        answer = reader.get(f"{API}/{path}", params={"as_of": day})
        assert answer.status_code == 422, answer.text[:300]
        assert "a day from 1900 to 8999" in answer.json()["detail"]
    assert reader.post(f"{API}/features", json={"as_of": day}).status_code == 422
    assert reader.post(f"{API}/check", json={"as_of": day}).status_code == 422


def test_the_sentence_of_an_error_is_that_of_the_command_line(
    reader: TestClient, served_shop: Path, disco: Run
) -> None:
    pairs = {
        f"{API}/campaigns/frist/results": (404, ("results", "frist")),
        f"{API}/campaigns/first/customers/nobody": (404, ("explain", "first", "nobody")),
        f"{API}/plans/abcdef": (404, ("plan", "show", "abcdef")),
        f"{API}/beliefs/77": (404, ("belief", "77")),
    }
    for path, (status, command) in pairs.items():
        _, _, err = disco(*command, "--shop", served_shop, "--json")
        answer = reader.get(path)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"] == json.loads(err)["message"], path


def test_an_explanation_of_a_customer(reader: TestClient, served_shop: Path) -> None:
    codes = pq.read_table(io.BytesIO(reader.get(f"{API}/campaigns/first/export").content))
    customer = codes["customer_id"][0].as_py()
    found = reader.get(f"{API}/campaigns/first/customers/{customer}").json()
    assert found["customer"] == customer
    assert found["words"]


def test_codes_come_as_parquet_or_csv_by_accept(reader: TestClient) -> None:
    path = f"{API}/campaigns/first/export"
    default = reader.get(path, headers={"accept": "*/*"})
    parquet = reader.get(path, headers={"accept": "application/vnd.apache.parquet"})
    csv = reader.get(path, headers={"accept": "text/csv"})
    counts = reader.get(path, headers={"accept": "application/json"}).json()
    assert default.content == parquet.content
    table = pq.read_table(io.BytesIO(parquet.content))
    assert table.num_rows == counts["codes"] == pacsv.read_csv(io.BytesIO(csv.content)).num_rows > 0
    assert csv.headers["content-type"].startswith("text/csv")
    refused = reader.get(path, headers={"accept": "image/png"})
    assert refused.status_code == 406
    assert refused.json()["type"] == "urn:disco:problem:not-acceptable"


def test_lists_come_in_pages(client: TestClient, shop: Path, disco: Run) -> None:
    code, _, err = disco("plan", shop / "second.yaml", "--shop", shop)
    assert code == 0, err
    every = client.get(f"{API}/plans").json()
    assert every["next"] is None
    assert len(every["items"]) >= 2
    walked, cursor = [], None
    while True:
        page = client.get(f"{API}/plans", params={"limit": 1} | ({} if cursor is None else {"cursor": cursor})).json()
        walked += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert walked == every["items"]
    times = [one["planned_at"] for one in every["items"]]
    assert times == sorted(times, reverse=True)
    shown = client.get(f"{API}/plans/{every['items'][0]['plan_id']}").json()
    assert shown["plan_id"] == every["items"][0]["plan_id"]
    for wrong in ("x", "bnVsbA", "WzEsMl0", "!!!", "WyJhIiwgImIiXQ"):
        assert client.get(f"{API}/plans", params={"cursor": wrong}).status_code == 422


def test_demand_has_a_curve_and_what_was_seen(reader: TestClient) -> None:
    found = reader.get(f"{API}/demand").json()
    belief = reader.get(f"{API}/beliefs/active").json()
    assert [one["depth"] for one in found["observed"]] == [one["depth"] for one in belief["depths"]]
    assert [one["purchases"] for one in found["observed"]] == [one["purchases"] for one in belief["depths"]]
    assert [one["depth"] for one in found["curve"]][:3] == [0.01, 0.02, 0.03]
    by_depth = {one["depth"]: one for one in found["curve"]}
    for one in belief["depths"]:
        at = by_depth[one["depth"]]
        assert at["basket"]["value"] == pytest.approx(one["basket"]["value"], rel=1e-9)
        assert at["engagement"]["value"] == pytest.approx(one["engagement"]["value"], rel=1e-9)
        assert at["basket"]["lower"] < at["basket"]["value"] < at["basket"]["upper"]
    assert reader.get(f"{API}/beliefs").json()["items"][0]["active"] is True


def test_power_and_ab_are_computed(reader: TestClient, disco: Run) -> None:
    asked = {"baseline": 5.0, "sd": 20.0, "uplift": 0.02}
    _, out, _ = disco("power", "--baseline", 5, "--sd", 20, "--uplift", "2%", "--json")
    assert reader.post(f"{API}/power", json=asked).json() == json.loads(out)
    assert reader.post(f"{API}/power", json={"baseline": 5.0, "sd": 20.0}).status_code == 422
    answer = reader.post(
        f"{API}/ab",
        json={
            "arm": ["decided"] * 3 + ["control"] * 3,
            "depth": [0.1] * 6,
            "full_price": [50, 70, None, 40, None, None],
        },
    ).json()
    assert answer["verdict"] == "undecided"
    assert answer["arms"]["decided"]["purchasers"] == 2
    assert reader.post(f"{API}/ab", json={"arm": ["a"], "depth": [], "full_price": [1]}).status_code == 422


def test_unknown_routes_methods_and_types_are_problems(reader: TestClient) -> None:
    answers = {
        "unknown-route": reader.get(f"{API}/nothing"),
        "unknown-method": reader.delete(f"{API}/campaigns"),
        "content-type": reader.post(f"{API}/power", content="a=1", headers={"content-type": "text/plain"}),
        "body": reader.post(f"{API}/power", content="{", headers={"content-type": "application/json"}),
        "request": reader.post(f"{API}/power", json={"baseline": "x", "sd": 1, "extra": 2}),
    }
    statuses = {"unknown-route": 404, "unknown-method": 405, "content-type": 415, "body": 400, "request": 422}
    for kind, answer in answers.items():
        assert answer.status_code == statuses[kind], answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["type"] == f"urn:disco:problem:{kind}"
        assert problem["status"] == answer.status_code
        assert problem["instance"] == f"urn:disco:request:{answer.headers['x-request-id']}"
    assert answers["unknown-method"].headers["allow"] == "GET"
    fields = {one["field"]: one for one in answers["request"].json()["errors"]}
    assert fields["baseline"]["expected"] == "a number"
    assert "extra" in fields


def test_every_reply_has_strict_headers(reader: TestClient) -> None:
    for path in ("/healthz", f"{API}/campaigns", f"{API}/nothing", "/docs", "/sign-in"):
        headers = reader.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy


def test_the_page_of_the_routes_needs_no_other_server(reader: TestClient) -> None:
    page = reader.get("/docs", headers={"authorization": ""})
    assert page.status_code == 200
    assert "http://" not in page.text.replace("http://www.w3.org", "")
    assert "https://" not in page.text
    for name in ("docs.js", "swagger-ui-bundle.js", "swagger-ui.css"):
        assert f"docs/{name}" in page.text
        assert reader.get(f"/docs/{name}").status_code == 200
    assert reader.get("/docs/../app.py").status_code == 404
    assert reader.get("/docs/%2e%2e%2fapp.py").status_code == 404


def test_nobody_without_a_key_and_nobody_beyond_their_role(reader: TestClient, keys: dict[Role, str]) -> None:
    for wrong in ("", "Bearer", "Bearer x", "Basic abc", f"Bearer {keys[Role.ADMIN]}x", "Bearer disco_é_x"):
        answer = reader.get(f"{API}/campaigns", headers={"authorization": wrong.encode()})
        assert answer.status_code == 401, wrong
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["type"] == "urn:disco:problem:authentication"
    viewer = {"authorization": f"Bearer {keys[Role.VIEWER]}"}
    refused = reader.get(f"{API}/campaigns/first/export", headers=viewer)
    assert refused.status_code == 403
    assert refused.json()["type"] == "urn:disco:problem:role"
    assert reader.get(f"{API}/campaigns", headers=viewer).status_code == 200


def test_another_name_of_the_host_is_refused(reader: TestClient) -> None:
    answer = reader.get("/healthz", headers={"host": "evil.example.com"})
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:disco:problem:host"
    for host in ("localhost:8080", "127.0.0.1", "[::1]:8080", "LOCALHOST"):
        assert reader.get("/healthz", headers={"host": host}).status_code == 200
