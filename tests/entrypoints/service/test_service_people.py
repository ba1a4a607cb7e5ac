"""People at the service: invitations, sessions, protection from other sites' pages, approvals."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app, roles
from disco.office.people.use_cases import first_invitation
from disco.records.people import Role

API = "/api/v1"
PASSWORD = "correct horse battery staple"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[TestClient]:
    """A browser in front of a new shop, without any key."""
    with TestClient(create_app(Shop.open(tmp_path)), base_url="http://localhost", raise_server_exceptions=False) as one:
        yield one


def first_admin(browser: TestClient) -> dict[str, str]:
    """The first administrator, signed in; the header that changes need."""
    shop = browser.app.state.service.shop()  # type: ignore[attr-defined]
    made = first_invitation(shop.held_store, shop.clock)
    assert made is not None
    body = {"token": made.token, "password": PASSWORD, "name": "Ada"}
    answer = browser.post("/invitations/accept", json=body)
    assert answer.status_code == 200, answer.text
    assert browser.post("/invitations/accept", json=body).status_code == 401
    return signed_in(browser, "Ada")


def signed_in(browser: TestClient, name: str) -> dict[str, str]:
    answer = browser.post("/sign-in", json={"name": name, "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    assert "token" not in answer.json() or answer.json().keys() >= {"csrf_token"}
    return {"x-csrf-token": answer.json()["csrf_token"]}


def test_the_first_administrator_signs_up_in_and_out(browser: TestClient) -> None:
    assert browser.get("/invitation").status_code == 200
    assert browser.get("/sign-in").status_code == 200
    assert "unsafe" not in browser.get("/sign-in").headers["content-security-policy"]
    assert browser.get(f"{API}/campaigns").status_code == 401
    csrf = first_admin(browser)
    cookies = {cookie.name: cookie for cookie in browser.cookies.jar}
    assert cookies["disco_session"].has_nonstandard_attr("HttpOnly")
    assert not cookies["disco_csrf"].has_nonstandard_attr("HttpOnly")
    assert browser.get(f"{API}/campaigns").status_code == 200
    me = browser.get("/me").json()
    assert (me["name"], me["kind"], me["role"]) == ("Ada", "person", "admin")
    assert me["csrf_token"] == csrf["x-csrf-token"]
    assert browser.post("/sign-out", headers=csrf).status_code == 200
    assert browser.get(f"{API}/campaigns").status_code == 401
    wrong = browser.post("/sign-in", json={"name": "Ada", "password": "wrong password"})
    nobody = browser.post("/sign-in", json={"name": "Nobody", "password": "wrong password"})
    assert wrong.status_code == nobody.status_code == 401
    assert wrong.json()["detail"] == nobody.json()["detail"]
    assert wrong.cookies == {}


def test_a_page_of_another_site_changes_nothing(browser: TestClient) -> None:
    csrf = first_admin(browser)
    path, body = f"{API}/keys", {"name": "x", "role": "viewer"}
    forged: list[dict[str, str]] = [
        {},
        {"x-csrf-token": "0" * 64},
        {"x-csrf-token": b"\xe4\xff"},
        csrf | {"origin": "https://evil.example"},
        csrf | {"origin": "null"},
        csrf | {"sec-fetch-site": "cross-site"},
        csrf | {"sec-fetch-site": "same-site"},
        csrf | {"origin": "http://localhost:9999"},
    ]
    for headers in forged:
        answer = browser.post(path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:disco:problem:cross-site"), headers
    for method, template in roles():
        if method != "GET" and template.startswith(API):
            answer = browser.request(method, template.replace("{", "").replace("}", ""), json={})
            assert answer.status_code == 403, template
    assert browser.get(path).json()["items"] == []
    assert browser.post(path, json=body, headers=csrf | {"origin": "http://localhost"}).status_code == 201
    login = {"name": "Ada", "password": PASSWORD}
    assert browser.post("/sign-in", json=login, headers={"origin": "https://evil.example"}).status_code == 403
    text = {"content-type": "text/plain"}
    assert browser.post("/sign-in", content='{"name": "Ada"}', headers=text).status_code == 415


def test_cookies_are_secure_behind_tls(tmp_path: Path) -> None:
    shop = Shop.open(tmp_path, service={"public_url": "https://disco.example.com"})
    with TestClient(create_app(shop), base_url="https://disco.example.com") as browser:
        csrf = first_admin(browser)
        cookies = {cookie.name: cookie for cookie in browser.cookies.jar}
        assert set(cookies) == {"__Host-disco_session", "disco_csrf"}
        assert all(cookie.secure for cookie in cookies.values())
        headers = csrf | {"origin": "https://disco.example.com"}
        assert browser.post(f"{API}/keys", json={"name": "x", "role": "viewer"}, headers=headers).status_code == 201


def test_people_are_invited_changed_and_disabled(browser: TestClient, tmp_path: Path) -> None:
    csrf = first_admin(browser)
    made = browser.post(f"{API}/people", json={"name": "Grace", "role": "planner"}, headers=csrf)
    assert made.status_code == 201, made.text
    assert made.json()["link"] == f"http://localhost/invitation#{made.json()['token']}"
    listed = browser.get(f"{API}/people").json()
    assert [one["name"] for one in listed["items"]] == ["Ada"]
    assert [one["name"] for one in listed["invitations"]] == ["Grace"]
    with TestClient(browser.app, base_url="http://localhost") as other:
        other.post("/invitations/accept", json={"token": made.json()["token"], "password": PASSWORD})
        theirs = signed_in(other, "Grace")
        assert other.get(f"{API}/people").status_code == 403
        assert other.post(f"{API}/keys", json={"name": "x", "role": "admin"}, headers=theirs).status_code == 403
        new = {"password": PASSWORD, "new_password": "another long password"}
        assert other.post("/me/password", json=new, headers=theirs).status_code == 200
        assert other.get("/me").status_code == 200
        changed = browser.patch(f"{API}/people/Grace", json={"disabled": True}, headers=csrf)
        assert changed.json()["disabled"] is True
        assert other.get("/me").status_code == 401
    last = browser.patch(f"{API}/people/Ada", json={"role": "viewer"}, headers=csrf)
    assert last.status_code == 409
    assert browser.patch(f"{API}/people/Nobody", json={}, headers=csrf).status_code == 404
    written = [(one["action"], one["actor"]) for one in browser.get(f"{API}/audit").json()["items"]]
    assert any(actor == "Ada" for _, actor in written)


def test_a_launch_without_approval_is_refused(client: TestClient, shop: Path, disco: Any) -> None:
    assert disco("plan", shop / "second.yaml", "--shop", shop)[0] == 0
    plan_id = client.get(f"{API}/plans").json()["items"][0]["plan_id"]
    assert client.patch(f"{API}/settings", json={"approval": "second_person"}).status_code == 200
    assert client.get(f"{API}/settings").json()["approval"] == "second_person"
    refused = client.post(f"{API}/campaigns/second/launch", json={"plan_id": plan_id})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:disco:problem:approval")
    _, _, err = disco("launch", plan_id, "--shop", shop, "--yes", "--json")
    assert refused.json()["detail"].split(" before ")[0] in err
    own = client.post(f"{API}/plans/{plan_id}/approve")  # a key of whoever made the plan
    assert (own.status_code, own.json()["type"]) == (409, "urn:disco:problem:approval")
    with TestClient(client.app, base_url="http://localhost") as browser:
        approved = browser.post(f"{API}/plans/{plan_id}/approve", headers=first_admin(browser))
    assert approved.status_code == 200, approved.text
    assert approved.json()["plan_id"] == plan_id
    assert client.get(f"{API}/plans/{plan_id}/approval").json()["approved"] is True
    assert client.post(f"{API}/campaigns/second/launch", json={"plan_id": plan_id}).status_code == 200
    assert client.patch(f"{API}/settings", json={"approval": "maybe"}).status_code == 422
    assert client.post(f"{API}/campaigns/other/launch", json={"plan_id": plan_id}).status_code == 422


def test_sessions_and_keys_have_the_same_roles() -> None:
    assert {needed for needed in roles().values() if needed != "public"} == set(Role)
