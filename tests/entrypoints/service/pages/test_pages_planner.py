"""The planner's page: fields, numbers as `disco plan --json` states them, words beside fields, two operators."""

import re
import time
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from planning_drafts import PLAN, drafted

from disco.entrypoints.python import Shop
from disco.entrypoints.service.pages import plan_form as planner
from disco.entrypoints.service.planner_desk import SupersededError
from disco.office.drafts.use_cases import get_draft
from disco.office.jobs.use_cases import claim, finish, submit
from disco.office.keys.use_cases import create_key
from disco.operations.plan import make_plan
from disco.records.errors import DiscoError
from disco.records.jobs import JobKind
from disco.records.people import Role
from disco.records.plan import read_plan
from disco.web.reading import Form

OTHERS = {**PLAN["customers"], "eligible": "country <> 'GB'"}


def numbers(client: TestClient, revision: int, name: str = "autumn", *, page: str = "p") -> str:
    """The numbers, once the customers are open."""
    for _ in range(2400):  # compiled kernels may have to be made first
        reply = client.get(f"/plan/{name}/numbers", params={"revision": revision, "page": page})
        assert reply.status_code == 200, reply.text
        if 'id="opening"' not in reply.text:
            return reply.text
        time.sleep(0.05)
    raise AssertionError("the customers were not opened within two minutes")


def changed(client: TestClient, revision: int, fields: dict[str, str], name: str = "autumn") -> tuple[int, str]:
    """Send fields as the page does; the new revision and the reply."""
    reply = client.post(f"/plan/{name}", data={"revision": str(revision), "page": "p", **fields})
    assert reply.status_code == 200, reply.text
    return int(re.search(r'name="revision" value="(\d+)"', reply.text)[1]), reply.text


def error_beside(text: str, field: str) -> str:
    return re.search(rf'id="{field}-error"[^>]*>([^<]*)<', text)[1]


def test_the_page_says_at_once_that_customers_are_being_opened_and_then_shows_numbers(planning):
    revision = drafted(planning)
    page = planning.get("/plan/autumn")
    assert page.status_code == 200
    assert "Opening the customers" in page.text
    assert f"/plan/autumn/numbers?revision={revision}" in page.text
    shown = numbers(planning, revision)
    assert "expected revenue" in shown
    assert "hold" in shown
    again = planning.get("/plan/autumn").text
    assert "/plan/autumn/numbers?revision" not in again.split('id="saved"')[1].split("</div>")[0]
    assert "expected revenue" in again


def test_the_numbers_of_the_page_are_those_of_disco_plan(planning, planning_shop):
    revision = drafted(planning)
    numbers(planning, revision)
    for fields in (
        {},
        {"depths.0.3.at_most": "15"},
        {"budget.amount": "400", "depths.0.1.at_most": ""},
        {"budget.amount": "400", "budget.overspend_risk": "30%"},
        {"objective.revenue_weight": "1.5", "control.share": "", "holdout.share": "10%", "reserve.share": "10%"},
        {"policy.name": "random", "budget.amount": "", "budget.overspend_risk": "", "depths.0.3.at_least": ""},
    ):
        revision, _ = changed(planning, revision, fields)
        numbers(planning, revision)
        found = planning.get("/plan/autumn/numbers.json").json()
        with Shop.open(planning_shop).store() as store:
            plan = dict(get_draft(store, "autumn").plan)
        expected = Shop.open(planning_shop).plan(plan, dry_run=True).as_dict()
        for key in ("arms", "total", "prices", "budget_price", "ceiling", "binding", "customers", "overspend_chance"):
            assert found[key] == expected[key], (fields, key)
        shown = planning.get("/plan/autumn").text
        for depth, codes in expected["arms"]["decided"]["codes"].items():
            both = codes + expected["arms"].get("control", {"codes": {}})["codes"].get(depth, 0)
            assert re.search(rf">{both:,} codes?( of at most|,) ", shown), (fields, depth)


def test_the_chance_to_overspend_follows_every_edit_without_a_reload(planning):
    revision = drafted(planning, plan={**PLAN, "budget": 400})

    def chances(text):
        """In the headline, in the sentence about the budget, and whether it is warned of."""
        headline = re.search(r"budget \((…|[\w %]+) chance of more\)", text)[1]
        sentence = re.search(r"The chance that the codes cost more than the budget is (…|[\w %]+)\.", text)[1]
        return headline, sentence, "Set an overspend risk of 20%" in text

    def with_intervals(revision):
        assert chances(numbers(planning, revision)) == ("…", "…", False), "nothing of the limits before"
        return chances(planning.get("/plan/autumn/intervals", params={"revision": revision}).text)

    before = with_intervals(revision)
    expected = planning.get("/plan/autumn/numbers.json").json()["overspend_chance"]
    assert expected > 0.2, "the budget binds"
    assert before == (f"{expected:.0%}", f"{expected:.0%}", True)
    revision, _ = changed(planning, revision, {"budget.amount": "100,000"})
    assert with_intervals(revision) == ("less than 1%", "less than 1%", False)
    revision, _ = changed(planning, revision, {"budget.amount": "400", "budget.overspend_risk": "20%"})
    headline, _, is_warned = with_intervals(revision)
    assert int(headline.removesuffix("%")) <= 20
    assert not is_warned
    assert chances(planning.get("/plan/autumn").text)[0] == headline, "a reload says the same"


def test_limits_that_take_longer_to_solve_do_not_replace_the_figures_of_later_ones(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    desk, plan = planning.app.state.service.desk, read_plan(PLAN)
    with pytest.raises(SupersededError):
        desk.solve("autumn", revision - 1, plan, desk.find(plan), page="another", number=revision - 1)
    assert desk.shown("autumn").revision == revision


def test_a_first_budget_comes_with_a_bound_on_overspending_and_an_older_one_stays_without(planning, planning_shop):
    def risk(page):
        return re.search(r'name="budget.overspend_risk" type="text" value="([^"]*)"', page)[1]

    def budget():
        with Shop.open(planning_shop).store() as store:
            return get_draft(store, "autumn").plan.get("budget")

    revision = drafted(planning)
    shown = risk(planning.get("/plan/autumn").text)
    assert shown == "20%"
    revision, _ = changed(planning, revision, {"budget.amount": "", "budget.overspend_risk": shown, "valid.days": "12"})
    assert budget() is None, "no amount, no budget"
    revision, _ = changed(planning, revision, {"budget.amount": "400", "budget.overspend_risk": shown})
    assert budget() == {"amount": 400, "overspend_risk": "20%"}
    revision, _ = changed(planning, revision, {"budget.amount": "400", "budget.overspend_risk": ""})
    assert budget() == 400
    assert risk(planning.get("/plan/autumn").text) == ""


def test_a_depth_that_was_never_tried_begins_small_and_says_why(planning, planning_shop):
    revision = drafted(planning)
    numbers(planning, revision)
    for typed, key, cap in (("60%", "0.6", "2%"), ("15%", "0.15", "20%")):
        sent = {"revision": str(revision), "page": "p", "action": "add-depth", "new_depth": typed}
        reply = planning.post("/plan/autumn", data=sent)
        revision = int(re.search(r'name="revision" value="(\d+)"', reply.text)[1])
        with Shop.open(planning_shop).store() as store:
            assert get_draft(store, "autumn").plan["depths"][key] == {"at_most": cap}
    reply = numbers(planning, revision)
    badge = re.search(r'id="depths-0-6-at_most-found-experience"[^>]*>(.*?)</p>', reply)[1]
    assert "never tried: extrapolation" in badge
    assert "2% of customers" in badge
    known = re.search(r'id="depths-0-15-at_most-found-experience"[^>]*>(.*?)</p>', reply)[1]
    assert known == ""
    assert reply.count('class="filled guessed"') == 1
    assert "Never tried before, so the model extrapolates: 60% off" in reply
    found = planning.get("/plan/autumn/numbers.json").json()["experience"]["0.6"]
    assert (found["tried"], found["extrapolated"]) == (False, True)


def test_what_control_and_holdout_cost_is_what_a_plan_without_them_would_bring_more(planning, planning_shop):
    budget = {"amount": 400, "overspend_risk": "20%"}
    revision = drafted(planning, plan={**PLAN, "budget": budget, "holdout": {"share": "10%"}})
    numbers(planning, revision)
    found = planning.get("/plan/autumn/numbers.json").json()
    plan = {**PLAN, "budget": round(found["ceiling"], 10), "control": {"share": 0}}
    alone = Shop.open(planning_shop)
    with alone.site() as site:
        total = make_plan(site, read_plan(plan, exploration=alone.settings.exploration), dry_run=True).as_dict()[
            "total"
        ]
    for name in ("revenue", "markdown"):
        lost = total[name]["value"] - found["total"][name]["value"]
        assert found["groups_cost"][name] == pytest.approx(lost, abs=0.01)
    assert found["groups_cost"]["revenue"] > 0
    shown = planning.get("/plan/autumn").text
    assert "Price of control and holdout: about £" in shown


def test_intervals_follow_in_place(planning):
    revision = drafted(planning)
    first = numbers(planning, revision)
    assert "(…)" in first
    assert f"/plan/autumn/intervals?revision={revision}" in first
    money = planning.get("/plan/autumn/intervals", params={"revision": revision})
    assert money.status_code == 200
    assert "hx-get" not in money.text
    assert re.search(r"expected revenue £[\d.,]+k? \(£[\d.,]+k? to £[\d.,]+k?\)", money.text)
    revision, _ = changed(planning, revision, {"depths.0.3.at_most": "20"})
    second = numbers(planning, revision)
    assert re.search(r'class="interval waiting">£[\d.,]+k? to ', second), (
        "the old interval stays until the new is there"
    )
    stale = planning.get("/plan/autumn/intervals", params={"revision": revision - 1})
    assert stale.status_code == 204


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("depths.0.3.at_most", "many", "a whole number of customers"),
        ("depths.0.1.at_least", "-4", "a whole number of customers"),
        ("budget.amount", "£££", "a number"),
        ("budget.overspend_risk", "150%", "a chance above 0%"),
        ("objective.revenue_weight", "0", "greater than 0"),
        ("objective.revenue_weight", "", "A value is needed."),
        ("control.share", "120%", "a share from 0%"),
        ("reserve.share", "x<b>", "a share from 0%"),
        ("valid.from", "someday", "a day such as"),
        ("valid.days", "0", "greater than or equal to 1"),
        ("customers.as_of", "yesterday", "a day such as"),
        ("campaign", "no spaces please", "a name of letters"),
        ("contact.at_most", "0", ""),
        ("policy.name", "clever", ""),
    ],
)
def test_nonsense_is_answered_beside_its_field_and_kept(planning, field, typed, said):
    revision = drafted(planning)
    _, reply = changed(planning, revision, {field: typed})
    sentence = error_beside(reply, planner.field_id(field))
    assert sentence
    assert said.lower() in sentence.lower()
    page = planning.get("/plan/autumn").text
    assert sentence in page
    escaped = typed.replace("<", "&lt;").replace(">", "&gt;")
    if typed and field != "policy.name":
        assert f'value="{escaped}"' in page, "what was typed is there after a reload"
    waiting = planning.get("/plan/autumn/numbers", params={"revision": revision + 1}).text
    assert "wait until the fields" in waiting


def test_a_condition_that_cannot_be_used_is_answered_beside_it_and_the_last_numbers_stay(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    revision, _ = changed(planning, revision, {"customers.eligible": "contry = 'GB'"})
    reply = numbers(planning, revision)
    assert "contry" in error_beside(reply, "customers-eligible")
    assert "figures of the limits before" in reply
    assert "Try again" in reply
    revision, _ = changed(planning, revision, {"customers.eligible": "country = 'GB'"})
    assert "figures of the limits before" not in numbers(planning, revision)


def test_limits_that_contradict_each_other_are_said_in_words_and_the_last_numbers_stay(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    revision, _ = changed(planning, revision, {"depths.0.3.at_least": "30", "depths.0.3.at_most": "10"})
    reply = numbers(planning, revision)
    assert "These limits give no plan" in reply
    assert error_beside(reply, "depths-0-3-at_least")
    assert "figures of the limits before" in reply


def test_keys_without_a_field_are_kept_and_named(planning, planning_shop):
    more = {**PLAN, "codes": {"prefix": "AUT"}, "conditions": {"minimum_basket": 30}, "policy": {"exploration": 2.0}}
    revision = drafted(planning, plan=more)
    page = planning.get("/plan/autumn").text
    assert "codes" in page
    assert "policy.exploration" in page
    assert "seed" in page
    changed(planning, revision, {"depths.0.3.at_most": "12", "policy.name": "thompson"})
    with Shop.open(planning_shop).store() as store:
        plan = get_draft(store, "autumn").plan
    assert plan["codes"] == {"prefix": "AUT"}
    assert plan["conditions"] == {"minimum_basket": 30}
    assert plan["policy"] == {"exploration": 2.0, "name": "thompson"}
    assert plan["seed"] == 7
    assert plan["depths"]["0.3"] == {"at_most": 12, "at_least": 5}


def test_depths_and_limits_of_segments_are_added_and_removed(planning, planning_shop):
    revision = drafted(planning)

    def act(revision, status=200, **fields):
        reply = planning.post("/plan/autumn", data={"revision": str(revision), **fields})
        assert reply.status_code == status, reply.text
        assert reply.headers["hx-retarget"] == "#limits"
        return int(re.search(r'name="revision" value="(\d+)"', reply.text)[1]), reply.text

    revision, text = act(revision, action="add-depth", new_depth="25%")
    assert "25% off" in text
    revision, text = act(revision, 422, action="add-depth", new_depth="25")
    assert "not on offer yet" in error_beside(text, "new_depth")
    assert 'value="25"' in text
    revision, text = act(revision, 422, action="add-depth", new_depth="free")
    assert "a percentage" in error_beside(text, "new_depth")
    revision, text = act(revision, 422, action="add-segment", new_value="GB", new_value_depth="0.3")
    assert "the column" in error_beside(text, "segments-column")
    fields = {"segments.column": "country", "new_value": "GB", "new_value_depth": "0.3"}
    revision, text = act(revision, action="add-segment", **fields)
    assert "GB, 30% off" in text
    revision, _ = changed(planning, revision, {"segments.limits.GB.0.3.at_most": "9"})
    assert "9 codes" in numbers(planning, revision)
    revision, text = act(revision, action="remove-depth", key="0.3")
    assert "30% off" not in text
    with Shop.open(planning_shop).store() as store:
        plan = get_draft(store, "autumn").plan
    assert list(plan["depths"]) == ["0.1", "0.2", "0.25"]
    assert "limits" not in plan["segments"]


def test_two_operators_see_both_versions_and_nothing_is_written_over_silently(planning, planning_shop):
    revision = drafted(planning)
    with Shop.open(planning_shop).store() as store:
        anna = create_key(store, name="Anna", role=Role.PLANNER, expires=None, clock=Shop.open(planning_shop).clock).key
    theirs = {"authorization": f"Bearer {anna}"}
    data = {"revision": str(revision), "depths.0.2.at_most": "77"}
    assert planning.post("/plan/autumn", data=data, headers=theirs).status_code == 200
    mine = {"revision": str(revision), "page": "p", "depths.0.2.at_most": "50", "budget.amount": "900"}
    refused = planning.post("/plan/autumn", data=mine)
    assert refused.status_code == 412
    assert refused.headers["hx-retarget"] == "#conflict-place"
    assert "Anna changed this plan at" in refused.text
    assert re.search(r"20% off, at most</th><td>77</td><td>50</td>", refused.text)
    assert re.search(r"Budget for code cost</th><td>–</td><td>900</td>", refused.text)
    with Shop.open(planning_shop).store() as store:
        assert get_draft(store, "autumn").plan["depths"]["0.2"]["at_most"] == 77
    over = re.search(r'"revision": "(\d+)"', refused.text)[1]
    assert planning.post("/plan/autumn", data={**mine, "revision": over}).status_code == 200
    with Shop.open(planning_shop).store() as store:
        assert get_draft(store, "autumn").plan["depths"]["0.2"]["at_most"] == 50


def test_a_page_that_asked_anew_does_not_wait_for_what_it_asked_before(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    desk = planning.app.state.service.desk
    desk.ask("impatient", revision + 5)
    reply = planning.get("/plan/autumn/numbers", params={"revision": revision, "page": "impatient"})
    assert reply.status_code == 204
    assert planning.get("/plan/autumn/numbers", params={"revision": revision, "page": "other"}).status_code == 200


def test_buttons_of_a_page_ask_in_its_name_and_keep_what_it_is_compared_with(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    params = {"revision": revision, "page": "p", "against": "first"}
    shown = planning.get("/plan/autumn/numbers", params=params).text
    asked = re.search(r'hx-get="([^"]+)"[^>]*>Read the tables again<', shown)[1]
    assert asked.endswith("&amp;page=p&amp;against=first&amp;again=true")
    revision, _ = changed(planning, revision, {"customers.eligible": "contry = 'GB'"})
    assert "&amp;page=p&amp;against=&amp;again=true" in numbers(planning, revision).split("Try again")[0]


def test_a_question_without_a_page_never_stops_the_figures_as_json(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    assert planning.get("/plan/autumn/numbers", params={"revision": revision}).status_code == 200
    assert planning.get("/plan/autumn/numbers.json").status_code == 200


def test_intervals_of_three_drafts_that_were_solved_together_all_follow(planning):
    names = ("autumn", "second", "third")
    revisions = {name: drafted(planning, name) for name in names}
    for name in names:
        numbers(planning, revisions[name], name, page=f"of {name}")
    for name in names:
        money = planning.get(f"/plan/{name}/intervals", params={"revision": revisions[name]})
        assert money.status_code == 200, name
        assert 'class="interval waiting"' not in money.text


def test_a_failure_is_raised_anew_for_each_page_that_asks(planning):
    service = planning.app.state.service
    drafted(planning)
    plan = service.shop().read_plan({**PLAN, "customers": {**PLAN["customers"], "eligible": "contry = 'GB'"}})
    revision = drafted(planning, "failing", {**PLAN, "customers": {**PLAN["customers"], "eligible": "contry = 'GB'"}})
    numbers(planning, revision, "failing")
    raised = []
    for _ in range(2):
        with pytest.raises(DiscoError) as caught:
            service.desk.open(service.shop(), plan)
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert str(raised[0]) == str(raised[1])


@pytest.mark.parametrize(
    "limits", [{"budget": 0}, {"depths": {"0.1": {"at_most": 0}, "0.2": {"at_most": 0}}, "control": {"share": 0}}]
)
def test_limits_that_allow_no_code_are_called_so(planning, limits):
    depths = {"depths": {"0.1": {"at_most": 50}}, "control": {"share": 0}}
    revision = drafted(planning, "none", {**PLAN, **depths, **limits})
    shown = numbers(planning, revision, "none", page="of none")
    assert "0 codes. These limits allow no code." in shown
    assert "No purchase was learned" not in shown
    assert "No limit costs revenue" not in shown


def test_an_objective_of_any_size_is_written_in_few_digits(planning):
    revision = drafted(planning, "huge", {**PLAN, "objective": {"revenue_weight": 1e300}})
    numbers(planning, revision, "huge", page="of huge")
    shown = planning.get("/plan/huge/intervals", params={"revision": revision}).text
    assert "Objective (more than 1,000,000,000 × revenue − markdown)" in shown
    assert "<strong>more than £1,000,000bn</strong>" in shown
    assert "too large to state an interval" in shown
    assert not re.search(r"[\d,]{40}", shown)


def test_tables_are_read_again_when_asked(planning):
    revision = drafted(planning)
    first = numbers(planning, revision)
    assert "Read the tables again" in first
    reply = planning.get("/plan/autumn/numbers", params={"revision": revision, "again": "true"})
    assert 'id="opening"' in reply.text
    assert "expected revenue" in numbers(planning, revision)


def test_customers_who_were_valued_by_another_model_are_opened_again(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    desk = planning.app.state.service.desk
    opened = desk.find(planning.app.state.service.shop().read_plan(PLAN))
    desk.audiences.close(opened.key)
    desk.audiences.open(opened.key, lambda: replace(opened, version=opened.version + 1))
    page = planning.get("/plan/autumn").text
    assert f"/plan/autumn/numbers?revision={revision}" in page.split('id="saved"')[1].split("</div>")[0]
    assert "version 1 of the model" in numbers(planning, revision)


def test_customers_are_counted_while_they_are_opened(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    revision, _ = changed(planning, revision, {"customers.eligible": "country <> 'GB'"})
    shown = numbers(planning, revision)
    expected = len(planning.app.state.service.shop().plan({**PLAN, "customers": OTHERS}, dry_run=True).to_arrow())
    assert f'data-customers="{expected}"' in shown


def test_a_saved_plan_is_a_job_whose_plan_is_the_next_page(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    key = {"idempotency-key": "once"}
    reply = planning.post("/plan/autumn/save", data={"revision": str(revision)}, headers=key)
    assert reply.status_code == 200
    assert "Waiting for a worker" in reply.text
    again = planning.post("/plan/autumn/save", data={"revision": str(revision)}, headers=key)
    job = re.search(r"/saving/(\w+)", reply.text)[1]
    assert re.search(r"/saving/(\w+)", again.text)[1] == job
    assert planning.get(f"/api/v1/jobs/{job}").json()["kind"] == "plan"
    stale = planning.post("/plan/autumn/save", data={"revision": str(revision - 1)})
    assert stale.status_code == 412


def fields_of(client: TestClient, name: str = "autumn") -> dict[str, str]:
    """All fields of the limits, as the page sends them."""
    plan = client.get(f"/api/v1/drafts/{name}").json()["plan"]
    return {**planner.texts_of(plan), "page": "p", "against": ""}


def saved_plan(client: TestClient, text: str) -> dict[str, object]:
    """The plan of the job that a reply speaks of."""
    job = re.search(r"/saving/(\w+)", text)[1]
    return client.get(f"/api/v1/jobs/{job}").json()["body"]["plan"]


def test_saving_keeps_what_the_fields_say_also_where_the_draft_does_not_say_it_yet(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    typed = {**fields_of(planning), "budget.amount": "1,234"}
    reply = planning.post("/plan/autumn/save", data={**typed, "revision": str(revision)})
    assert reply.status_code == 200, reply.text
    assert saved_plan(planning, reply.text)["budget"] == {"amount": 1234, "overspend_risk": "20%"}
    assert planning.get("/api/v1/drafts/autumn").json()["plan"]["budget"] == {"amount": 1234, "overspend_risk": "20%"}
    assert re.search(rf'name="revision" value="{revision + 1}"', reply.text), "the page goes on from what was written"


def test_saving_goes_on_where_the_same_page_has_written_its_field_meanwhile(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    typed = {**fields_of(planning), "budget.amount": "1,300"}
    changed(planning, revision, typed)
    reply = planning.post("/plan/autumn/save", data={**typed, "revision": str(revision)})
    assert reply.status_code == 200, reply.text
    assert saved_plan(planning, reply.text)["budget"] == {"amount": 1300, "overspend_risk": "20%"}
    other = planning.post("/plan/autumn/save", data={**typed, "budget.amount": "9", "revision": str(revision)})
    assert other.status_code == 412, "another window has written something else"
    fewer = {name: text for name, text in typed.items() if not name.startswith("depths.0.3")}
    assert planning.post("/plan/autumn/save", data={**fewer, "revision": str(revision)}).status_code == 412


def test_saving_asks_when_somebody_else_has_written_the_draft(planning, planning_shop):
    revision = drafted(planning)
    numbers(planning, revision)
    with Shop.open(planning_shop).store() as store:
        key = create_key(store, name="Ida", role=Role.PLANNER, expires=None, clock=Shop.open(planning_shop).clock).key
    theirs = {"authorization": f"Bearer {key}"}
    data = {"revision": str(revision), "depths.0.2.at_most": "55"}
    assert planning.post("/plan/autumn", data=data, headers=theirs).status_code == 200
    refused = planning.post("/plan/autumn/save", data={**fields_of(planning), "revision": str(revision)})
    assert refused.status_code == 412
    assert "Ida changed this plan" in refused.text


def test_saving_answers_nonsense_beside_its_field_and_keeps_no_plan(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    typed = {**fields_of(planning), "budget.amount": "lots"}
    before = planning.get("/api/v1/jobs").json()["items"]
    reply = planning.post("/plan/autumn/save", data={**typed, "revision": str(revision)})
    assert reply.status_code == 422
    assert "a number" in error_beside(reply.text, "budget-amount")
    assert planning.get("/api/v1/jobs").json()["items"] == before


def test_a_key_of_a_plan_before_never_answers_for_other_limits(planning):
    revision = drafted(planning)
    numbers(planning, revision)
    key, fields = {"idempotency-key": "before"}, {**fields_of(planning), "revision": str(revision)}
    assert planning.post("/plan/autumn/save", data=fields, headers=key).status_code == 200
    other = planning.post("/plan/autumn/save", data={**fields, "budget.amount": "900"}, headers=key)
    assert other.status_code == 409
    assert "/saving/" not in other.text


def test_a_draft_is_for_planners_and_viewers_see_no_name_of_it(planning, planning_shop):
    revision = drafted(planning)
    numbers(planning, revision)
    with Shop.open(planning_shop).store() as store:
        key = create_key(store, name="Vera", role=Role.VIEWER, expires=None, clock=Shop.open(planning_shop).clock).key
    theirs = {"authorization": f"Bearer {key}"}
    assert "autumn" in planning.get("/plan").text
    seen = planning.get("/plan", headers=theirs).text
    assert "autumn" not in seen
    assert "draft" not in seen.lower(), "0 drafts would be untrue"
    for place in ("", "/numbers", "/intervals", "/frontier", "/launch"):
        assert planning.get(f"/plan/autumn{place}", headers=theirs).status_code == 403
    assert planning.post("/plan/autumn", data={"revision": str(revision)}, headers=theirs).status_code == 403


def test_a_draft_in_any_shape_can_be_shown(planning):
    revision = drafted(planning, "odd", {"depths": ["0.1"], "customers": "all", "budget": {"amount": [1]}, "x": None})
    page = planning.get("/plan/odd")
    assert page.status_code == 200
    assert "not complete" in page.text
    assert "wait until" in planning.get("/plan/odd/numbers", params={"revision": revision}).text


@pytest.mark.parametrize("limits", [True, [], "x", 5, *({"GB": one} for one in (True, [], [1], 0, "x", None, {}))])
def test_limits_of_segments_in_any_shape_can_be_added_to_and_removed(planning, limits):
    plan = {**PLAN, "segments": {"column": "country", "limits": limits}}
    fields = {"new_value": "GB", "new_value_depth": "0.3", "value": "GB", "key": "0.3"}
    revision = drafted(planning, "odd", plan)
    removed = planning.post("/plan/odd", data={"revision": str(revision), "action": "remove-segment", **fields})
    assert removed.status_code == 200
    revision = drafted(planning, "odd", plan)
    added = planning.post("/plan/odd", data={"revision": str(revision), "action": "add-segment", **fields})
    assert added.status_code == 200
    assert planning.get("/api/v1/drafts/odd").json()["plan"]["segments"]["limits"] == {"GB": {"0.3": {}}}


def test_a_job_that_saves_no_plan_is_not_there_for_a_planner(planning):
    drafted(planning)
    shop = planning.app.state.service.shop()
    with shop.store() as store:
        job = submit(store, JobKind.CHECK, {}, clock=shop.clock)
        while (claimed := claim(store, worker="w", clock=shop.clock)).id != job.id:
            pass
        finish(store, claimed, "{}", clock=shop.clock)
    reply = planning.get(f"/plan/autumn/saving/{job.id}")
    assert reply.status_code == 404
    assert "saves no plan" in reply.text


@pytest.mark.parametrize("page", ["", "/frontier", "/launch", "/numbers.json"])
def test_an_unknown_draft_is_answered_in_words_of_the_console(planning, page):
    reply = planning.get(f"/plan/nowhere{page}")
    assert reply.status_code == 404
    assert "There is no draft nowhere. It may have been deleted. The page Plans lists all drafts." in reply.text
    assert "GET" not in reply.text


def test_digits_of_other_scripts_are_no_numbers(planning):
    revision = drafted(planning)
    _, reply = changed(planning, revision, {"depths.0.3.at_most": "٣"})
    assert error_beside(reply, "depths-0-3-at_most")
    assert planning.get("/api/v1/drafts/autumn").json()["plan"]["depths"]["0.3"]["at_most"] == "٣"


def test_a_tiny_share_is_written_so_that_its_field_reads_it(planning):
    revision = drafted(planning)
    revision, _ = changed(planning, revision, {"control.share": "0.0000000001", "budget.amount": "0.00001"})
    shown = fields_of(planning)
    assert (shown["control.share"], shown["budget.amount"]) == ("0.00000001%", "0.00001")
    _, reply = changed(planning, revision, {"control.share": "0.00000001%"})
    assert not error_beside(reply, "control-share")


def test_a_text_that_is_too_long_is_refused_beside_its_field_and_stays_in_it(planning):
    revision = drafted(planning)
    typed = "country = 'GB' or " * 200 + "false"
    said = f"Found {len(typed):,} characters; expected at most 2,000. It was not saved."
    fields = {"customers.eligible": typed, "budget.amount": "900"}
    revision, reply = changed(planning, revision, fields)
    assert error_beside(reply, "customers-eligible") == said
    plan = planning.get("/api/v1/drafts/autumn").json()["plan"]
    assert (plan["customers"], plan["budget"]) == (PLAN["customers"], 900)
    data = {"revision": str(revision), **fields, "action": "add-depth", "new_depth": "25"}
    acted = planning.post("/plan/autumn", data=data)
    assert acted.status_code == 422
    assert error_beside(acted.text, "customers-eligible") == said
    assert "country = &#39;GB&#39; or " * 200 in acted.text
    revision = planning.get("/api/v1/drafts/autumn").json()["revision"]
    before = planning.get("/api/v1/jobs").json()["items"]
    saved = planning.post("/plan/autumn/save", data={**fields_of(planning), "revision": str(revision), **fields})
    assert saved.status_code == 422
    assert planning.get("/api/v1/jobs").json()["items"] == before


def test_a_form_keeps_that_a_holdout_is_lasting_and_the_page_says_so() -> None:
    draft = {"holdout": {"share": 0.05, "lasting": True}}
    changed = planner.written(draft, Form({"holdout.share": ("3%",)}))
    assert changed["holdout"] == {"share": "3%", "lasting": True}
    assert planner.other_keys(draft) == ()
    assert planner.holdout_words(draft, lasting=False) == "The same people in every campaign."
    assert planner.holdout_words({"holdout": {"share": 0.05}}, lasting=True) == "The same people in every campaign."
    assert planner.holdout_words({"holdout": {"lasting": False}}, lasting=True) == ""
