"""The list of plans: drafts, kept plans with their states, and how a new plan begins."""

from datetime import date, timedelta

import pytest


@pytest.fixture
def gone(planning):
    """Names of drafts to remove after a test."""
    names: list[str] = []
    yield names
    for name in names:
        there = planning.get(f"/api/v1/drafts/{name}")
        if there.status_code == 200:
            planning.delete(f"/api/v1/drafts/{name}", headers={"if-match": there.headers["etag"]})


def test_without_drafts_the_page_says_what_a_draft_is(planning):
    page = planning.get("/plan")
    assert page.status_code == 200
    assert "A draft is a plan that you are still trying out" in page.text
    assert 'href="/campaigns/first"' in page.text, "a launched plan leads to its campaign"


def test_a_new_plan_has_the_limits_of_the_last_campaign_and_begins_next_monday(planning, gone):
    gone.append("winter")
    reply = planning.post("/plan", data={"name": "winter"}, headers={"hx-request": "true"})
    assert reply.headers["hx-redirect"] == "/plan/winter"
    draft = planning.get("/api/v1/drafts/winter").json()
    plan = draft["plan"]
    assert plan["campaign"] == "winter"
    assert {float(depth): limits for depth, limits in plan["depths"].items()} == {
        depth: {"at_most": 0.3} for depth in (0.1, 0.2, 0.3)
    }
    assert plan["customers"]["eligible"] == "country = 'GB'"
    start = date.fromisoformat(plan["valid"]["from"])
    assert start.weekday() == 0
    assert timedelta(0) < start - date.today() <= timedelta(days=7)
    assert plan["valid"]["days"] == 14
    assert "policy" not in plan, "a model was learned, so depths are decided"
    assert (plan["control"], plan["holdout"]) == ({"share": "10%"}, {"share": "5%"}), "and measured"
    assert plan["customers"]["as_of"] <= plan["valid"]["from"]
    listed = planning.get("/plan").text
    assert "Paul, today at" in listed
    assert planning.get("/plan/winter").status_code == 200


def test_a_copy_keeps_everything_but_name_and_dates(planning, gone):
    gone.append("first-again")
    reply = planning.post("/plan", data={"name": "first-again", "copied": "first"}, headers={"hx-request": "true"})
    assert reply.headers["hx-redirect"] == "/plan/first-again?against=first"
    plan = planning.get("/api/v1/drafts/first-again").json()["plan"]
    assert plan["policy"] == {"name": "random"}
    assert plan["seed"] == 7
    assert plan["valid"]["days"] == 30
    assert plan["valid"]["from"] > "2025-10"


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "A name is needed"), ("no blanks", "a name of letters, digits"), ("<b>", "a name of letters, digits")],
)
def test_a_name_that_cannot_be_used_is_answered_beside_it(planning, name, said):
    reply = planning.post("/plan", data={"name": name})
    assert reply.status_code == 422
    assert said in reply.text
    assert 'aria-invalid="true"' in reply.text
    assert "<b>" not in reply.text


def test_a_name_that_is_taken_and_a_campaign_that_is_not_there_are_said(planning, gone):
    gone.append("taken")
    planning.post("/plan", data={"name": "taken"})
    again = planning.post("/plan", data={"name": "taken"})
    assert again.status_code == 422
    assert "A draft taken exists" in again.text
    unknown = planning.post("/plan", data={"name": "other", "copied": "nothing"})
    assert unknown.status_code == 422
    assert "copied-error" in unknown.text


def test_a_draft_is_deleted_by_whoever_saw_its_last_revision(planning, gone):
    gone.append("short")
    planning.post("/plan", data={"name": "short"})
    assert planning.post("/plan/short/delete", data={"revision": "99"}).status_code == 412
    reply = planning.post("/plan/short/delete", data={"revision": "1"}, headers={"hx-request": "true"})
    assert reply.headers["hx-redirect"] == "/plan"
    assert planning.get("/api/v1/drafts/short").status_code == 404


def test_a_revision_of_thousands_of_digits_deletes_nothing(planning, gone):
    gone.append("short")
    planning.post("/plan", data={"name": "short"})
    assert planning.post("/plan/short/delete", data={"revision": "9" * 5_000}).status_code == 428
    assert planning.get("/api/v1/drafts/short").status_code == 200
