"""Every route has its least role; what must not leave the service does not; what is too much is refused."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import ShopService, create_app, roles
from disco.entrypoints.service.routes import ROUTERS
from disco.office.keys.use_cases import create_key
from disco.office.people.use_cases import first_invitation
from disco.office.sign_in.use_cases import accept_invitation
from disco.records.errors import ServiceError
from disco.records.people import Role
from disco.web.limits import TokenBuckets
from disco.web.route import DiscoRoute
from disco.web.security import PUBLIC
from disco.web.shell import PageRoute

API = "/api/v1"
EVERY_ROUTE = sorted(
    (method, route.path_format)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in route.methods or ()
)
PAGES = {
    (method, route.path_format)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, PageRoute)
    for method in route.methods or ()
}


def test_every_route_has_its_least_role_and_none_can_be_made_without() -> None:
    assert set(EVERY_ROUTE) == set(roles())
    with pytest.raises(KeyError, match="x-disco-role"):
        DiscoRoute("/somewhere", lambda: None)


def called(client: TestClient, method: str, path: str, key: str | None) -> Any:
    """A call that is refused for its body or its names, if it is not refused for its caller."""
    filled = re.sub(r"\{[^}]*\}", "nothing-of-this-name", path)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    body = None if method in ("GET", "DELETE") else b"{"
    kind = {} if body is None else {"content-type": "application/json"}
    return client.request(method, filled, headers=headers | kind, content=body, follow_redirects=False)


@pytest.mark.parametrize(("method", "path"), EVERY_ROUTE)
def test_each_role_may_call_what_the_table_says(
    reader: TestClient, keys: dict[Role, str], method: str, path: str
) -> None:
    needed = roles()[method, path]
    reader.app.state.service.failures = TokenBuckets(rate=1.0, burst=30.0)  # type: ignore[attr-defined]
    stranger = TestClient(reader.app, base_url="http://localhost", raise_server_exceptions=False)
    nobody = called(stranger, method, path, None)
    is_page = (method, path) in PAGES
    if is_page and method == "GET" and needed != PUBLIC:
        assert (nobody.status_code, nobody.headers["location"].split("?")[0]) == (303, "/sign-in")
    else:
        assert (nobody.status_code == 401) is (needed != PUBLIC)
    assert nobody.status_code < 500 or path == "/readyz"
    for role, key in keys.items():
        if path.endswith("/events") or needed == PUBLIC:
            continue
        answer = called(stranger, method, path, key)
        allowed = role.allows(Role(needed))
        assert (answer.status_code != 403) is allowed, (role, answer.text)
        assert answer.status_code < 500, answer.text
        if not allowed and is_page:
            assert f"The role {role} may not do this" in answer.text
        elif not allowed:
            assert answer.json()["type"] == "urn:disco:problem:role"


def test_a_canary_never_reaches_logs_errors_of_others_or_figures(
    reader: TestClient, keys: dict[Role, str], logged: io.StringIO, served_shop: Path
) -> None:
    canary = "canary-7f3a9c"
    before = logged.tell()
    wrong = {"authorization": f"Bearer disco_{canary}_{canary}"}
    calls = [
        reader.get(f"{API}/campaigns/first/customers/{canary}"),
        reader.get(f"{API}/campaigns/{canary}/results"),
        reader.get(f"{API}/campaigns", params={"cursor": canary}),
        reader.get(f"/{canary}"),
        reader.get(f"{API}/campaigns", headers=wrong),
        reader.get(f"{API}/campaigns", headers={"cookie": f"disco_session={canary}", "authorization": ""}),
        reader.post(f"{API}/campaigns/first/late", json={"customer_id": canary}),
        reader.post(f"{API}/campaigns/first/outcomes", json=[{"customer_id": canary, "code": canary, "event_id": 1}]),
        reader.post(f"{API}/power", json={"baseline": canary, "sd": 1}),
        reader.post(f"{API}/power", content=canary, headers={"content-type": f"text/{canary}"}),
        reader.request(f"X{canary.upper()}", f"{API}/campaigns"),
        reader.get("/healthz", headers={"host": f"{canary}.example"}),
        reader.put(f"{API}/drafts/{canary}", json={"note": canary}, headers={"if-match": '"9"'}),
    ]
    assert all(400 <= one.status_code < 500 for one in calls), [one.status_code for one in calls]
    logged.seek(before)
    lines = [json.loads(line) for line in logged.read().splitlines()]
    assert len(lines) >= len(calls)
    assert canary not in json.dumps(lines).lower()
    secrets = [key.split("_", 2)[2] for key in keys.values()]  # a secret may have a _ itself
    assert not any(secret in json.dumps(lines) for secret in secrets)
    figures = reader.get("/metrics").text
    assert canary not in figures.lower()
    for wrong_key in calls[4:6]:
        assert canary not in wrong_key.text
    assert {line["route"] for line in lines} >= {f"{API}/campaigns/{{name}}/customers/{{customer_id}}", "(unknown)"}
    assert all(set(line) <= {
        "request_id", "method", "route", "status", "milliseconds", "caller", "role", "event", "level", "timestamp",
    } for line in lines), lines  # fmt: skip


def test_a_defect_is_a_problem_without_its_message(
    served_shop: Path, keys: dict[Role, str], logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("customer canary-55 and secret canary-66")

    monkeypatch.setattr("disco.entrypoints.python.Shop.campaigns", broken)
    before = logged.tell()
    with TestClient(create_app(Shop.open(served_shop)), base_url="http://localhost") as client:
        answer = client.get(f"{API}/campaigns", headers={"authorization": f"Bearer {keys[Role.VIEWER]}"})
    assert answer.status_code == 500
    problem = answer.json()
    assert problem["type"] == "urn:disco:problem:defect"
    logged.seek(before)
    text = logged.read()
    assert "canary" not in answer.text + text
    said = next(json.loads(line) for line in text.splitlines() if "unhandled exception" in line)
    assert said["exception"] == "RuntimeError"
    assert said["request_id"] in problem["detail"]
    assert any("broken" in place for place in said["places"])


def test_bodies_are_bounded_before_they_are_read(reader: TestClient) -> None:
    sent = 0

    def endless() -> Any:
        nonlocal sent
        while sent < 2 * 10**8:
            sent += 100_000
            yield b" " * 100_000

    answer = reader.post(f"{API}/power", content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:disco:problem:too-large"
    promised = {"content-type": "application/json", "content-length": str(10**12)}
    assert reader.post(f"{API}/power", content=b"{}", headers=promised).status_code == 413
    nobody = reader.post(f"{API}/power", content=b"{}", headers=promised | {"authorization": "Bearer x"})
    assert nobody.status_code == 401


def test_a_caller_who_asks_too_often_waits(served_shop: Path, keys: dict[Role, str], tmp_path: Path) -> None:
    shop = Shop.open(served_shop, service={"requests_per_second": 2.0})
    with TestClient(create_app(shop), base_url="http://localhost") as client:
        viewer, planner = ({"authorization": f"Bearer {keys[role]}"} for role in (Role.VIEWER, Role.PLANNER))
        answers = [client.get(f"{API}/keys", headers=viewer) for _ in range(8)]
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert client.get(f"{API}/keys", headers=planner).status_code == 403


def test_wrong_keys_from_one_address_are_slowed(served_shop: Path, keys: dict[Role, str]) -> None:
    app = create_app(Shop.open(served_shop))
    app.state.service.failures = TokenBuckets(rate=0.001, burst=3)
    with TestClient(app, base_url="http://localhost") as client:
        statuses = [
            client.get(f"{API}/campaigns", headers={"authorization": f"Bearer disco_{number}_x"}).status_code
            for number in range(5)
        ]
        assert statuses == [401, 401, 401, 429, 429]
        right = {"authorization": f"Bearer {keys[Role.VIEWER]}"}
        assert client.get(f"{API}/campaigns", headers=right).status_code == 200, "others share the address"
        wrong = {"name": "nobody", "password": "wrong password"}
        assert client.post("/sign-in", json=wrong).status_code == 429


def test_wrong_keys_keep_nobody_behind_the_address_from_signing_in(shop: Path) -> None:
    opened = Shop.open(shop)
    with opened.store(missing="create") as store:
        made = first_invitation(store, opened.clock)
        assert made is not None
        accept_invitation(store, made.token, password="correct horse battery", clock=opened.clock, name="Ada")
    app = create_app(opened)
    app.state.service.failures = TokenBuckets(rate=0.001, burst=1)
    with TestClient(app, base_url="http://localhost") as client:
        wrong = {"authorization": "Bearer disco_0_x"}
        assert [client.get(f"{API}/campaigns", headers=wrong).status_code for _ in range(3)] == [401, 429, 429]
        right = {"name": "Ada", "password": "correct horse battery"}
        assert client.post("/sign-in", json=right).status_code == 200


def test_the_key_of_one_caller_never_means_the_work_of_another(shop: Path) -> None:
    opened = Shop.open(shop)
    with opened.store(missing="create") as store:
        options = {"role": Role.PLANNER, "expires": None, "clock": opened.clock}
        keys = [create_key(store, name=name, **options).key for name in ("crm", "crm:x")]
    with TestClient(create_app(opened), base_url="http://localhost") as client:
        jobs = [
            client.post(
                f"{API}/check", json={}, headers={"authorization": f"Bearer {key}", "idempotency-key": idempotency}
            ).json()["job"]
            for key, idempotency in zip(keys, ("x:y", "y"), strict=True)
        ]
    assert jobs[0] != jobs[1]


def test_one_caller_cannot_hold_every_open_reply(reader: TestClient) -> None:
    service: ShopService = reader.app.state.service  # type: ignore[attr-defined]
    for _ in range(16):
        service.open_reply("key:a viewer")
    with pytest.raises(ServiceError, match="more requests") as refused:
        service.open_reply("key:a viewer")
    assert refused.value.status == 429
    service.open_reply("key:another")
    for _ in range(16):
        service.streams.give_back("key:a viewer")
    service.open_reply("key:a viewer")
    for holder in ("key:a viewer", "key:another"):
        service.streams.give_back(holder)


def test_requests_beyond_the_limit_are_told_to_come_again(reader: TestClient) -> None:
    service: ShopService = reader.app.state.service  # type: ignore[attr-defined]
    service.in_progress += 10_000
    try:
        answer = reader.get(f"{API}/campaigns")
        assert reader.get("/healthz").status_code == 200
    finally:
        service.in_progress -= 10_000
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["type"] == "urn:disco:problem:busy"
    assert reader.get(f"{API}/campaigns").status_code == 200


def test_a_bucket_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("disco.web.limits.time.monotonic", lambda: now)
    buckets = TokenBuckets(rate=2.0, burst=3.0)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0
    now += 0.5
    assert buckets.take("a") == 0
    assert buckets.take("a") > 0


def test_readiness_turns_false_and_back_by_itself(shop: Path) -> None:
    with TestClient(create_app(Shop.open(shop)), base_url="http://localhost") as client:
        assert client.get("/readyz").status_code == 200
        (shop / "artefacts").rename(shop / "away")
        (shop / "artefacts").write_text("in the way")
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:disco:problem:unavailable")
        (shop / "artefacts").unlink()
        (shop / "away").rename(shop / "artefacts")
        assert client.get("/readyz").status_code == 200
