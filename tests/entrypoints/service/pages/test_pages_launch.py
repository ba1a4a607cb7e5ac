"""The launch of a plan: a checklist, a dry run, another person's approval, and the campaign's name typed."""

import re
from datetime import date, timedelta

import pytest

from disco.entrypoints.python import Shop
from disco.office.approvals.use_cases import set_approval
from disco.office.keys.use_cases import create_key
from disco.records.people import ApprovalRule, Role

HTMX = {"hx-request": "true"}


def content(campaign, **more):
    start = date.today() + timedelta(days=3)
    return {
        "campaign": campaign,
        "customers": {"table": "customers", "eligible": "country = 'GB'", "as_of": "2025-10-01"},
        "depths": {"0.1": {"at_most": 50}, "0.3": {"at_most": 20}},
        "objective": {"revenue_weight": 3},
        "control": {"share": "20%"},
        "valid": {"from": start.isoformat(), "days": 14},
        **more,
    }


@pytest.fixture
def planned(planning, planning_shop):
    """Makes a kept plan in Paul's name, as a worker would, and returns its id."""

    def make(campaign, **more):
        service = planning.app.state.service
        actor = service.shop().by(paul(planning_shop))
        return actor.plan(content(campaign, **more)).plan_id

    return make


def paul(folder):
    from disco.records.people import Actor, ActorKind

    return Actor("Paul", ActorKind.KEY)


def key_of(folder, name, role):
    shop = Shop.open(folder)
    with shop.store() as store:
        return {
            "authorization": f"Bearer {create_key(store, name=name, role=role, expires=None, clock=shop.clock).key}"
        }


def test_a_draft_that_was_not_saved_says_what_to_do(planning):
    planning.put("/api/v1/drafts/unsaved", json=content("unsaved"))
    page = planning.get("/plan/unsaved/launch")
    assert page.status_code == 200
    assert "nothing to launch" in page.text
    assert 'href="/plan/unsaved"' in page.text


def test_the_checklist_the_dry_run_and_the_launch(planning, planned):
    plan_id = planned("lift")
    page = planning.get(f"/plans/{plan_id}/launch")
    assert page.status_code == 200
    for words in (
        "Decided for 531 customers",
        "those that the plan was decided on",
        "This shop asks for none",
        "control",
    ):
        assert words in page.text
    assert "What differs from" in page.text
    tried = planning.post(f"/plans/{plan_id}/launch/try")
    assert re.search(r"The launch would work: \d+ codes for 531 customers. Nothing was written", tried.text)
    assert planning.get("/api/v1/campaigns/lift").status_code == 404
    wrong = planning.post(f"/plans/{plan_id}/launch", data={"campaign": "lift?"}, headers=HTMX)
    assert wrong.status_code == 422
    assert "the name of the campaign, lift." in wrong.text
    assert 'value="lift?"' in wrong.text
    done = planning.post(f"/plans/{plan_id}/launch", data={"campaign": "lift"}, headers=HTMX)
    assert done.headers["hx-redirect"] == "/campaigns/lift"
    assert planning.get("/api/v1/campaigns/lift").status_code == 200
    after = planning.get(f"/plans/{plan_id}/launch").text
    assert "was launched from this plan" in after
    assert "Dry run" not in after


def test_a_draft_leads_to_the_newest_plan_of_its_campaign(planning, planned):
    planning.put("/api/v1/drafts/twice", json=content("twice"))
    planned("twice")
    newest = planned("twice", seed=9)
    reply = planning.get("/plan/twice/launch", follow_redirects=False)
    assert reply.status_code == 303
    assert reply.headers["location"] == f"/plans/{newest}/launch?draft=twice"
    assert 'href="/plan/twice"' in planning.get(reply.headers["location"]).text


def test_a_draft_that_was_changed_after_its_plan_was_saved_is_pointed_out(planning, planned):
    planning.put("/api/v1/drafts/other-name", json=content("moved"))
    planned("moved")
    changed = "The draft was changed after this plan was saved."
    assert changed not in planning.get("/plan/other-name/launch").text
    for plan in (content("moved", depths={"0.1": {"at_most": 5}}), content("moved", depths={"0.1": {"at_most": "x"}})):
        there = planning.get("/api/v1/drafts/other-name")
        planning.put("/api/v1/drafts/other-name", json=plan, headers={"if-match": there.headers["etag"]})
        page = planning.get("/plan/other-name/launch").text
        assert re.search(re.escape(changed) + r' <a href="/plan/other-name">To the planner</a>', page)
        assert "look at this" in page


def test_where_a_second_person_is_asked_for_only_another_approver_can_approve(planning, planned, planning_shop):
    shop = Shop.open(planning_shop)
    with shop.store() as store:
        set_approval(store, ApprovalRule.SECOND_PERSON, rule=shop.settings.approval)
    try:
        plan_id = planned("checked")
        own = planning.get(f"/plans/{plan_id}/launch").text
        assert "You made this plan" in own
        assert "waiting for approval" in own
        assert "1 point must be settled" in own
        assert "waiting for approval" in planning.get("/plan").text
        refused = planning.post(f"/plans/{plan_id}/approve", headers=HTMX)
        assert refused.status_code == 409
        assert "cannot approve it" in refused.text
        tried = planning.post(f"/plans/{plan_id}/launch/try").text
        assert "needs the approval of a second person" in tried
        vera, rita = key_of(planning_shop, "Vera", Role.VIEWER), key_of(planning_shop, "Rita", Role.APPROVER)
        looked = planning.get(f"/plans/{plan_id}/launch", headers=vera).text
        assert "Dry run" not in looked
        assert ">Approve<" not in looked
        assert ">Approve<" in planning.get(f"/plans/{plan_id}/launch", headers=rita).text
        done = planning.post(f"/plans/{plan_id}/approve", headers={**rita, **HTMX})
        assert done.headers["hx-redirect"] == f"/plans/{plan_id}/launch"
        assert "Approved by Rita" in planning.get(f"/plans/{plan_id}/launch").text
    finally:
        with shop.store() as store:
            set_approval(store, ApprovalRule.NONE, rule=shop.settings.approval)


def test_dates_that_are_over_and_a_missing_control_group_are_pointed_out(planning, planned):
    plan_id = planned("late", control={"share": 0}, valid={"from": "2025-10-06", "days": 14})
    page = planning.get(f"/plans/{plan_id}/launch").text
    assert "That is over" in page
    assert "neither a control group nor a holdout" in page


def test_a_likely_overspend_and_groups_that_cannot_be_compared_are_pointed_out_before_an_approval(planning, planned):
    depths = {"0.1": {"at_most": "30%"}, "0.6": {}}
    plan_id = planned("costly", depths=depths, budget=250, policy={"name": "greedy"})
    page = planning.get(f"/plans/{plan_id}/launch").text
    for name, words in (
        ("Budget", "The chance that the codes cost more than the budget is "),
        ("Groups", "of the control group get a code, and "),
        ("Groups", "give 60% off a cap"),
    ):
        line = re.search(rf'<li class="warning"><strong>{name}</strong>.*?</li>', page)[0]
        assert words in line
    assert re.search(r"codes are ready, with \d points to look at before you launch", page)
    known = planning.get(f"/api/v1/plans/{plan_id}").json()["warnings"]
    assert "The chance that" in known[0]
    assert "of the control group" in known[1]
    tried = planning.post(f"/plans/{plan_id}/launch/try").text
    assert known[0] in tried.replace("&#39;", "'")


def test_an_unknown_plan_is_answered_in_words(planning):
    assert planning.get("/plans/ffffffff/launch").status_code == 404
