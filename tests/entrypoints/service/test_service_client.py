"""`disco.Client`: the results and errors of `disco.Shop`, over HTTP."""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from json_page import forms

import disco
from disco.entrypoints.client import Client
from disco.entrypoints.service.documents import document
from disco.records.errors import InputError, NotFoundError, ServiceError, UnavailableError
from disco.records.people import Role

READ_OUT = date(2025, 10, 3)


@pytest.fixture
def remote(reader: TestClient, keys: dict[Role, str]) -> Iterator[Client]:
    with Client("http://localhost", key=keys[Role.ADMIN], transport=reader._transport) as one:
        yield one


def test_results_are_those_of_the_shop(remote: Client, served_shop: Path) -> None:
    here = disco.Shop.open(served_shop)
    customer = here.export("first").to_arrow()["customer_id"][0].as_py()
    pairs: list[tuple[Any, Any]] = [
        (remote.results("first", as_of=READ_OUT), here.results("first", as_of=READ_OUT)),
        (remote.all_results(as_of=READ_OUT), here.results(as_of=READ_OUT)),
        (remote.campaigns(), here.campaigns()),
        (remote.campaigns("first"), here.campaigns("first")),
        (remote.belief(), here.belief()),
        (remote.explain("first", customer), here.explain("first", customer)),
    ]
    for over_http, at_hand in pairs:
        assert type(over_http) is type(at_hand)
        assert over_http.as_dict() == at_hand.as_dict()
    assert remote.belief().to_arrow() == here.belief().to_arrow()
    assert remote.export("first").num_rows == here.export("first").codes
    assert remote.demand().version == 1
    assert remote.power(baseline=5, sd=20, uplift=0.02).customers > 0
    assert remote.ab_test(["decided", "control"] * 2, [0.1] * 4, [5, None, 6, 7])["level"] == 0.95
    (plan,) = remote.plans()
    assert remote.plan_show(plan.plan_id).campaign == "first"
    assert {one["name"] for one in remote.tables()} >= {"orders", "customers"}


def test_errors_are_those_of_the_shop(remote: Client, served_shop: Path) -> None:
    here = disco.Shop.open(served_shop)
    calls: list[tuple[Any, Any]] = [
        (lambda: remote.results("nothing"), lambda: here.results("nothing")),
        (lambda: remote.belief(99), lambda: here.belief(99)),
        (lambda: remote.plan_show("abcdef"), lambda: here.plan_show("abcdef")),
        (lambda: remote.revert("abcdef"), lambda: here.revert("abcdef")),
    ]
    for over_http, at_hand in calls:
        with pytest.raises(disco.errors.DiscoError) as there:
            over_http()
        with pytest.raises(disco.errors.DiscoError) as direct:
            at_hand()
        assert type(there.value) is type(direct.value) is NotFoundError
        assert str(there.value) == str(direct.value)
    with pytest.raises(InputError, match="no such file"):
        remote.ingest("first", "nothing.csv")
    with pytest.raises(InputError, match="a list of rows"):
        remote.ingest("first", 7)  # type: ignore[arg-type]
    with pytest.raises(ServiceError, match="request cannot be used"):
        remote.power(baseline=5, sd=20, wrong=1)


def test_a_wrong_key_is_an_authentication_error(reader: TestClient) -> None:
    with (
        Client("http://localhost", key="disco_x_y", transport=reader._transport) as remote,
        pytest.raises(disco.errors.AuthenticationError),
    ):
        remote.campaigns()


def answering(answers: list[httpx.Response | Exception], seen: list[httpx.Request]) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return httpx.MockTransport(answer)


def problem(status: int, kind: str, **headers: str) -> httpx.Response:
    form = {"type": f"urn:disco:problem:{kind}", "status": status, "detail": "A sentence.", "title": "", "instance": ""}
    return httpx.Response(status, json=form, headers=headers)


def test_a_write_is_repeated_with_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disco.entrypoints.client.time.sleep", lambda _: None)
    seen: list[httpx.Request] = []
    done = httpx.Response(200, json={"campaign": "x", "state": "paused"})
    answers: list[httpx.Response | Exception] = [
        httpx.ConnectError("down"),
        problem(503, "busy"),
        problem(409, "reply-in-progress"),
        problem(429, "rate", **{"retry-after": "1"}),
        done,
    ]
    with Client("http://localhost", key="k", transport=answering(answers, seen)) as remote:
        assert str(remote.pause("x").state) == "paused"
    assert len({one.headers["idempotency-key"] for one in seen}) == 1
    assert len(seen) == 5
    assert all(one.headers["authorization"] == "Bearer k" for one in seen)


def test_what_is_refused_is_not_repeated_and_silence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disco.entrypoints.client.time.sleep", lambda _: None)
    seen: list[httpx.Request] = []
    with (
        Client("http://localhost", transport=answering([problem(409, "state")], seen)) as remote,
        pytest.raises(disco.errors.StateError, match="A sentence"),
    ):
        remote.pause("x")
    assert len(seen) == 1
    nobody: list[httpx.Response | Exception] = [httpx.ReadTimeout("slow")] * 5
    with (
        Client("http://localhost", transport=answering(nobody, seen)) as remote,
        pytest.raises(UnavailableError, match="does not answer"),
    ):
        remote.campaigns()
    page = httpx.Response(502, text="<html>bad gateway</html>")
    with (
        Client("http://localhost", transport=answering([page] * 5, seen)) as remote,
        pytest.raises(ServiceError, match="answered 502"),
    ):
        remote.campaigns()


def test_names_are_parts_of_a_path_and_nothing_more() -> None:
    seen: list[httpx.Request] = []
    with (
        Client("http://localhost", transport=answering([problem(404, "not-found")] * 2, seen)) as remote,
    ):
        for name in ("../../people", "a?b#c/d"):
            with pytest.raises(NotFoundError):
                remote.results(name)
    assert [one.url.raw_path for one in seen] == [
        b"/api/v1/campaigns/..%2F..%2Fpeople/results",
        b"/api/v1/campaigns/a%3Fb%23c%2Fd/results",
    ]


@pytest.mark.parametrize("url", ["", "nothing", "ftp://x", 7])
def test_a_wrong_address_is_refused(url: Any) -> None:
    with pytest.raises(InputError, match="url: found"):
        Client(url)


def test_every_route_that_the_client_calls_is_in_the_document() -> None:
    paths = {re.sub(r"\{[^}]*\}", "{}", path) for path in document()["paths"]}
    called = set()
    for node in ast.walk(ast.parse(inspect.getsource(Client))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("_"):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    called.add(argument.value)
                elif isinstance(argument, ast.JoinedStr):
                    parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in argument.values]
                    called.add("".join(map(str, parts)))
    called -= {"GET", "POST", "PUT", "PATCH", "DELETE", "pause", "resume", "close", "campaigns/{}/{}"}
    unknown = {one for one in called if ("/" in one or one.isalpha()) and f"/api/v1/{one}" not in paths}
    assert unknown == set()
    assert len(called) > 20


def test_every_result_can_be_read_from_its_json() -> None:
    for kinds in forms().values():
        for kind in kinds:
            with pytest.raises(ValueError, match="validation error"):
                kind.from_dict({"nothing": 1})


def test_a_client_needs_no_server_library() -> None:
    import subprocess
    import sys

    program = "import sys, disco; disco.Client('http://localhost'); print('fastapi' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.lower()) is False
