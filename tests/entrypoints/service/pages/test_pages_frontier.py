"""The frontier of a draft: a picture, a list of the same points, and the point that is adopted."""

import html
import re
import time

import pytest
from planning_drafts import PLAN, drafted

from disco.records.money import GBP
from disco.views.formats import Money


def drawn(planning):
    for _ in range(2400):
        reply = planning.get("/plan/autumn/frontier/drawn")
        assert reply.status_code == 200
        if "<progress" not in reply.text:
            return reply.text
        time.sleep(0.05)
    raise AssertionError("the customers were not opened within two minutes")


POINT = re.compile(
    r'data-label="Codes">([^<]+)</td><td class="figure" data-label="Revenue">([^<]+)</td>'
    r'<td class="figure" data-label="Markdown">([^<]+)</td>\s*<td>(.*?)</td>',
    re.DOTALL,
)
HIDDEN = re.compile(r'name="weight" value="([^"]+)"><input type="hidden" name="budget" value="([^"]*)"')


def shown(planning):
    """Codes, revenue and markdown, as the planner states them."""
    found = planning.get("/plan/autumn/numbers.json").json()
    money = Money(GBP)
    codes = sum(sum(arm["codes"].values()) for arm in found["arms"].values())
    return (f"{codes:,}", *(money.text(found["total"][name]["value"]) for name in ("revenue", "markdown")))


def test_a_point_that_is_adopted_has_the_same_figures_in_the_planner(planning):
    limits = {"depths": {"0.1": {"at_most": 100}, "0.3": {"at_most": 100}}, "reserve": {"share": "10%"}}
    revision = drafted(planning, plan={**PLAN, **limits, "holdout": {"share": "10%"}})
    assert "Opening the customers" in planning.get("/plan/autumn/frontier").text
    points = POINT.findall(drawn(planning))
    (here,) = [point for point in points if "You are here" in point[3]]
    assert here[:3] == shown(planning)
    page = planning.get("/plan/autumn/frontier")
    assert re.search(r'class="chart" role="img"', page.text)
    others = [point for point in points if point is not here]
    assert len(others) > 3
    for *figures, form in others:
        weight, budget = HIDDEN.search(form).groups()
        point = {"revision": str(revision), "weight": weight, "budget": budget}
        reply = planning.post("/plan/autumn/frontier", data=point, headers={"hx-request": "true"})
        assert reply.headers["hx-redirect"] == "/plan/autumn"
        assert tuple(figures) == shown(planning), (weight, budget)
        plan = planning.get("/api/v1/drafts/autumn").json()["plan"]
        assert plan["objective"]["revenue_weight"] == float(weight)
        assert plan.get("budget") == (float(budget) if budget else None)
        assert plan["depths"] == limits["depths"]
        revision += 1
    again = planning.post("/plan/autumn/frontier", data={**point, "revision": str(revision - 1)})
    assert again.status_code == 412, "somebody else may have changed the draft"


def test_the_figures_can_be_saved(planning):
    drafted(planning)
    drawn(planning)
    reply = planning.get("/plan/autumn/frontier", params={"table": "budgets", "format": "csv"})
    assert reply.status_code == 200
    assert reply.text.startswith("Budget,")


def test_a_draft_that_cannot_be_used_says_why(planning):
    drafted(planning, plan={**PLAN, "depths": {"0.1": {"at_most": "x"}}})
    page = planning.get("/plan/autumn/frontier")
    assert page.status_code == 200
    assert "a whole number of customers" in html.unescape(page.text)


def test_a_point_that_is_no_number_is_refused(planning):
    revision = drafted(planning)
    reply = planning.post("/plan/autumn/frontier", data={"revision": str(revision), "weight": "much"})
    assert reply.status_code == 422


@pytest.mark.parametrize("typed", ["NaN", "1e999", "-1", "0", "1e300", "inf"])
@pytest.mark.parametrize("field", ["weight", "budget"])
def test_a_point_that_no_plan_can_have_is_refused_in_words(planning, field, typed):
    revision = drafted(planning)
    point = {"revision": str(revision), "weight": "3", "budget": "500", field: typed}
    reply = planning.post("/plan/autumn/frontier", data=point)
    assert reply.status_code == 422
    name = {"weight": "The weight of revenue", "budget": "The budget"}[field]
    words = f"{name}: found '{typed}'; expected a number above 0 and at most 1,000,000,000,000,000"
    assert words in html.unescape(reply.text)
    assert planning.get("/api/v1/drafts/autumn").json()["plan"] == PLAN


def test_a_revision_of_thousands_of_digits_is_no_revision(planning):
    drafted(planning)
    point = {"revision": "9" * 5_000, "weight": "3"}
    assert planning.post("/plan/autumn/frontier", data=point).status_code == 428


def test_a_frontier_that_failed_can_be_tried_again(planning, monkeypatch):
    drafted(planning, plan={**PLAN, "seed": 11})
    drawn(planning)

    def fail(*args):
        raise MemoryError

    drafted(planning, plan={**PLAN, "objective": {"revenue_weight": 4}})
    with monkeypatch.context() as patched:
        patched.setattr("disco.entrypoints.service.planner_desk.reachable", fail)
        failed = drawn(planning)
    assert "There is not enough memory" in failed
    assert '<a href="/plan/autumn/frontier">Try again</a>' in failed
    assert "Adopt a point" in drawn(planning)
