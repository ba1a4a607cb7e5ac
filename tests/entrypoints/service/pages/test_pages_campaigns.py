"""The list of campaigns: figures, health and next steps; plans that wait and drafts; what a newcomer reads."""

import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from visitors import Browser, Visit

from disco.entrypoints.python import Shop
from disco.office.approvals.use_cases import set_approval
from disco.office.drafts.use_cases import put_draft
from disco.records.people import Role

HOSTILE = "<script>alert(1)</script>"


def test_a_newcomer_reads_what_to_do_first(newcomer: Browser) -> None:
    page = newcomer.get("/campaigns")
    assert "No campaign was launched yet." in page.words
    assert 'href="/plan"' in page.text
    assert "Look at the data" in page.words
    start = newcomer.get("/")
    assert (start.status, start.headers["location"]) == (303, "/campaigns")


def test_campaigns_have_their_figures_and_next_steps(onlooker: Browser) -> None:
    page = onlooker.get("/campaigns")
    assert "No campaign runs; 1 campaign is over." in page.words
    assert '<a href="/campaigns/first">first</a>' in page.text
    assert "1–30 Sep 2025" in page.words
    assert "no budget" not in page.words
    assert "No group to compare with" in page.words
    assert "Next step" in page.words
    assert page.text.count('<a href="/plan">Plan the next</a>') == 1


@pytest.mark.parametrize("table", ["campaigns", "waiting", "drafts"])
def test_tables_are_saved_as_files(onlooker: Browser, table: str) -> None:
    text = onlooker.get(f"/campaigns?table={table}&format=csv")
    assert text.headers["content-type"].startswith("text/csv")
    assert f"campaigns-{table}.csv" in text.headers["content-disposition"]
    parquet = onlooker.client.get(f"/campaigns?table={table}&format=parquet")
    names = pq.read_table(io.BytesIO(parquet.content)).column_names
    assert names == text.text.splitlines()[0].replace('"', "").split(",")
    if table == "campaigns":
        assert text.text.splitlines()[1].startswith("first,ended 30 Sep 2025,")
    assert onlooker.get(f"/campaigns?table={table}&format=xlsx").status == 422


def test_a_plan_waits_for_approval_and_a_draft_for_its_writer(shop: Path, visit: Visit) -> None:
    here = Shop.open(shop)
    plan = (shop / "second.yaml").read_text().replace("2025-10-01, days: 31", "2099-10-01, days: 31")
    (shop / "late.yaml").write_text(plan)
    here.plan(shop / "late.yaml")
    with here.store() as store:
        set_approval(store, "second_person", rule=here.settings.approval)
        put_draft(store, "second", {"campaign": "second"}, if_match=None, clock=here.clock)
        put_draft(store, HOSTILE, {"campaign": HOSTILE}, if_match=None, clock=here.clock)
    with visit(shop, Role.APPROVER) as approver:
        page = approver.get("/campaigns")
        assert "1 plan waits for approval." in page.words
        assert "the approval of a second person" in page.words
        assert '<a href="/plan/second/launch">Review and approve</a>' in page.text
        assert HOSTILE in page.words
        assert HOSTILE not in page.text
        assert "/plan/%3Cscript%3Ealert%281%29%3C%2Fscript%3E" in page.text


def test_who_only_looks_is_not_asked_to_plan(shop: Path, visit: Visit) -> None:
    with visit(shop, Role.VIEWER) as viewer:
        assert "Plan a campaign" not in viewer.get("/campaigns").words
