"""The frontier of a draft: a picture, a list of the same points, and the point that is adopted."""

import html
import re
import time

from planning_drafts import PLAN, drafted


def drawn(planning):
    for _ in range(2400):
        reply = planning.get("/plan/autumn/frontier/drawn")
        assert reply.status_code == 200
        if "<progress" not in reply.text:
            return reply.text
        time.sleep(0.05)
    raise AssertionError("the customers were not opened within two minutes")


def test_the_points_of_the_picture_are_those_of_disco_frontier_and_can_be_adopted(planning, planning_shop):
    from disco.entrypoints.python import Shop

    revision = drafted(planning, plan={**PLAN, "depths": {"0.1": {"at_most": 100}, "0.3": {"at_most": 100}}})
    assert "Opening the customers" in planning.get("/plan/autumn/frontier").text
    text = drawn(planning)
    expected = Shop.open(planning_shop).frontier(planning.get("/api/v1/drafts/autumn").json()["plan"])
    places = {(float(x), float(y)) for x, y in re.findall(r'data-x="([^"]+)" data-y="([^"]+)"', text)}
    others = [point for point in (*expected.by_weight, *expected.by_budget) if point.feasible and not point.present]
    assert places == {(point.markdown, point.revenue) for point in others}
    assert "You are here" in text
    page = planning.get("/plan/autumn/frontier")
    assert re.search(r'class="chart" role="img"', page.text)
    weight, budget = re.findall(
        r'name="weight" value="([^"]+)"><input type="hidden" name="budget" value="(\d+)"', text
    )[0]
    point = {"revision": str(revision), "weight": weight, "budget": budget}
    reply = planning.post("/plan/autumn/frontier", data=point, headers={"hx-request": "true"})
    assert reply.headers["hx-redirect"] == "/plan/autumn"
    plan = planning.get("/api/v1/drafts/autumn").json()["plan"]
    assert plan["budget"] == int(budget)
    assert plan["objective"]["revenue_weight"] == float(weight)
    assert plan["depths"] == {"0.1": {"at_most": 100}, "0.3": {"at_most": 100}}
    again = planning.post("/plan/autumn/frontier", data=point)
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
