"""A checkout's plain request is answered as the route answers it: same replies, problems, log and figures."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from disco.entrypoints.service import checkout
from disco.operations.late import LateDecision
from disco.records.errors import InputError, StateError
from disco.records.people import Role

PATH = "/api/v1/campaigns/first/late"


@pytest.fixture
def asked(reader: TestClient, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Campaign and customer of every question; `none` and `paused` are refused."""
    found: list[tuple[str, str]] = []

    async def ask(campaign: str, customer: str, actor: object = None) -> LateDecision:
        found.append((campaign, customer))
        if customer == "none":
            raise InputError("customer_id", found="none", expected="the id of a customer")
        if customer == "paused":
            raise StateError("The campaign is paused")
        if customer == "defect":
            raise ZeroDivisionError
        depth = None if customer == "holdout" else 0.1
        return LateDecision(customer_id=customer, depth=depth, code=None if depth is None else "ÄB-1", known=True)

    monkeypatch.setattr(reader.app.state.service.late, "ask", ask)
    reader.get("/me")  # the key is known for the next second
    return found


def _comparable(reply: Any) -> Any:
    body = reply.json()
    body.pop("instance", None)
    if "detail" in body:
        body["detail"] = body["detail"].replace(reply.headers["x-request-id"], "ID")
    headers = {name: value for name, value in reply.headers.items() if name != "x-request-id"}
    headers.pop("content-length")  # ids of requests have one length
    return reply.status_code, body, headers


REQUESTS: dict[str, dict[str, Any]] = {
    "text": {"json": {"customer_id": "c1"}},
    "number": {"json": {"customer_id": 17}},
    "no code": {"json": {"customer_id": "holdout"}},
    "unicode": {"json": {"customer_id": "Zoë"}},
    "refused": {"json": {"customer_id": "none"}},
    "conflict": {"json": {"customer_id": "paused"}},
    "defect": {"json": {"customer_id": "defect"}},
    "truth": {"json": {"customer_id": True}},
    "broken number": {"json": {"customer_id": 1.5}},
    "null": {"json": {"customer_id": None}},
    "more keys": {"json": {"customer_id": "c1", "more": 1}},
    "other key": {"json": {"customer": "c1"}},
    "list": {"json": ["c1"]},
    "not json": {"content": b"{", "headers": {"content-type": "application/json"}},
    "twice": {"content": b'{"customer_id": "a", "customer_id": "b"}', "headers": {"content-type": "application/json"}},
    "nul": {"content": b'{"customer_id": "a\\u0000"}', "headers": {"content-type": "application/json"}},
    "nan": {"content": b'{"customer_id": NaN}', "headers": {"content-type": "application/json"}},
    "empty": {"content": b"", "headers": {"content-type": "application/json"}},
    "no body": {},
    "other type": {"content": b'{"customer_id": "a"}', "headers": {"content-type": "text/plain"}},
    "charset": {"content": b'{"customer_id": "a"}', "headers": {"content-type": "application/json; charset=utf-8"}},
    "long": {"json": {"customer_id": "x" * 5000}},
    "too large": {"json": {"customer_id": "x" * 2_000_000}},
    "query": {"json": {"customer_id": "c1"}, "params": {"dry_run": "perhaps"}},
    "no key": {"json": {"customer_id": "c1"}, "headers": {"authorization": ""}},
    "wrong key": {"json": {"customer_id": "c1"}, "headers": {"authorization": "Bearer disco_0_1"}},
    "other host": {"json": {"customer_id": "c1"}, "headers": {"host": "example.com"}},
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_short_way_answers_as_the_route_does(reader, asked, name, monkeypatch):
    request = REQUESTS[name]
    short = _comparable(reader.post(PATH, **request))
    short_asked = list(asked)
    asked.clear()
    monkeypatch.setattr(checkout, "campaign_of", lambda scope: None)
    assert _comparable(reader.post(PATH, **request)) == short
    assert asked == short_asked


def test_a_plain_request_goes_the_short_way_and_counts_under_its_template(reader, asked, logged, monkeypatch):
    async def never(*_: object) -> None:
        raise AssertionError("The framework was asked")

    monkeypatch.setattr(reader.app.router, "app", never)
    monkeypatch.setattr(type(reader.app.router), "__call__", never)
    reply = reader.post(PATH, json={"customer_id": "c1"})
    assert reply.json() == {"customer_id": "c1", "depth": 0.1, "code": "ÄB-1", "known": True}
    line = json.loads(logged.getvalue().splitlines()[-1])
    assert (line["route"], line["status"], line["role"]) == ("/api/v1/campaigns/{name}/late", 200, "admin")
    assert "c1" not in logged.getvalue().splitlines()[-1].replace(line["request_id"], "")
    monkeypatch.undo()
    figures = reader.get("/metrics").text
    assert 'route="/api/v1/campaigns/{name}/late",status="200"' in figures


def test_the_short_way_has_the_role_and_the_rate_of_the_route(reader, asked, keys):
    viewer = {"authorization": f"Bearer {keys[Role.VIEWER]}"}
    assert reader.get("/me", headers=viewer).status_code == 200
    refused = reader.post(PATH, json={"customer_id": "c1"}, headers=viewer)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:disco:problem:role")
    buckets = reader.app.state.service.buckets
    before, buckets._burst = buckets._burst, 0.5
    try:
        reader.app.state.service.buckets._buckets.clear()
        refused = reader.post(PATH, json={"customer_id": "c1"})
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:disco:problem:rate")
        assert refused.headers["retry-after"] == "1"
    finally:
        buckets._burst = before
        buckets._buckets.clear()
    assert asked == []


@pytest.mark.parametrize("header", ["idempotency-key", "cookie"])
def test_a_request_that_says_more_goes_the_long_way(header):
    scope = {"headers": [(header.encode(), b"x")]}

    async def answered() -> object:
        return await checkout.answer(scope, receive, None, campaign="first", service=None)

    async def receive() -> None:
        raise AssertionError

    coroutine = answered()
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    assert done.value.value is receive
