"""What all pages share: the policy, the rail by role, refusals in words, files to save, and the doors."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from visitors import PASSWORD, Browser, Visit

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app, roles
from disco.records.people import Role
from disco.web.security import POLICY, PUBLIC
from disco.web.shell import asset

PAGES = sorted(
    path
    for (method, path), needed in roles().items()
    if method == "GET"
    and "{" not in path
    and not path.startswith("/api/")
    and path not in ("/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/me", "/sign-in/oidc")
    and path != "/sign-in/oidc/callback"
    and (needed != PUBLIC or path in ("/sign-in", "/invitation", "/docs"))
)


class Inline(HTMLParser):
    """Whatever the policy would refuse to run or to apply."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.found += [f"<{tag} {name}>" for name in names if name == "style" or name.startswith(("on", "hx-on"))]
        if tag == "style" or (tag == "script" and "src" not in names and names.get("type") != "application/json"):
            self.found.append(f"<{tag}>")
        for name in ("src", "href", "action"):
            if str(names.get(name, "")).startswith(("http:", "https:", "//", "javascript:")):
                self.found.append(f"<{tag} {name}={names[name]}>")


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_scripts_or_styles_in_it_or_asks_another_server(onlooker: Browser, path: str) -> None:
    page = onlooker.get(path)
    assert page.status == 200, page.words
    assert page.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    parser = Inline()
    parser.feed(page.text)
    assert parser.found == []


def test_whoever_is_not_signed_in_is_led_to_the_door_and_back(tmp_path: Path) -> None:
    with TestClient(create_app(Shop.open(tmp_path)), base_url="http://localhost", follow_redirects=False) as stranger:
        sent = stranger.get("/campaigns?state=running")
        assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in?then=/campaigns%3Fstate%3Drunning")
        assert 'data-then="/campaigns?state=running"' in stranger.get(sent.headers["location"]).text
        part = stranger.get("/campaigns", headers={"hx-request": "true", "hx-current-url": "http://localhost/jobs?a=1"})
        assert (part.status_code, part.headers["hx-redirect"]) == (401, "/sign-in?then=/jobs%3Fa%3D1")
        assert stranger.get("/").headers["location"] == "/sign-in?then=/"
        unreadable = stranger.get("/campaigns", headers={"hx-request": "true", "hx-current-url": "http://["})
        assert (unreadable.status_code, unreadable.headers["hx-redirect"]) == (401, "/sign-in?then=")


@pytest.mark.parametrize(
    "then", ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "javascript:alert(1)", ""]
)
def test_the_door_leads_to_no_other_site(tmp_path: Path, then: str) -> None:
    with TestClient(create_app(Shop.open(tmp_path)), base_url="http://localhost") as stranger:
        assert 'data-then="/campaigns"' in stranger.get("/sign-in", params={"then": then}).text


def test_the_rail_has_what_a_role_may_see(shop: Path, visit: Visit) -> None:
    with visit(shop, Role.VIEWER) as viewer:
        page = viewer.get("/campaigns")
        assert "Vera viewer" in page.words
        assert all(name in page.words for name in ("Campaigns", "Demand", "Data", "Jobs"))
        assert not any(f">{name}</a>" in page.text for name in ("Audit", "People and keys", "Settings"))
        assert 'href="/campaigns" aria-current="page"' in page.text


def test_refusals_are_pages_in_words_and_notes_on_a_page(onlooker: Browser) -> None:
    lost = onlooker.get("/nowhere")
    assert lost.status == 404
    assert "There is no page at this address" in lost.words
    assert "route" not in lost.words
    assert "Sign in" not in lost.words
    unknown = onlooker.get("/campaigns?table=nothing&format=csv")
    assert unknown.status == 404
    assert "The page has no table nothing" in unknown.words
    note = onlooker.get("/campaigns?table=nothing", **{"hx-request": "true"})
    assert (note.headers["hx-retarget"], note.headers["hx-reswap"]) == ("#note", "innerHTML")
    assert "<html" not in note.text


def test_files_are_kept_for_ever_under_the_name_of_their_content(onlooker: Browser) -> None:
    for name in ("console.css", "console.js", "charts.js", "echarts.js", "htmx.js"):
        answer = onlooker.get(asset(name))
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
    assert onlooker.get("/static/shell.py").status == 404


def test_a_server_that_cannot_be_reached_says_nothing_about_what_it_had_done(onlooker: Browser) -> None:
    """The reply may be what was lost, and not the change."""
    script = onlooker.get(asset("console.js")).text
    assert "The server cannot be reached. Try again." in script
    for claim in ("reached. Nothing was changed", "reached, so nothing was changed"):
        assert claim not in script


def test_a_page_of_another_site_changes_nothing_by_a_form(browser: Browser) -> None:
    answer = browser.client.post("/sign-out", headers={"hx-request": "true"})
    assert answer.status_code == 403
    assert browser.get("/campaigns").status == 200
    assert PASSWORD not in browser.get("/campaigns").text
