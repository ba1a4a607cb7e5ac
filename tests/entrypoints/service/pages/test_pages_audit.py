"""The audit journal: newest first, page by page, checked as a whole, for those who may read it."""

from pathlib import Path

import pytest
from visitors import Browser, Visit, visiting

from disco.entrypoints.python import Shop
from disco.records.people import Role


def test_entries_are_listed_the_newest_first_page_by_page(tmp_path: Path) -> None:
    shop = Shop.open(tmp_path)
    with shop.store(missing="create"):
        pass
    for number in range(60):
        shop.create_key(name=f"key <b>{number}</b>", role=Role.VIEWER)
    with visiting(tmp_path) as browser:
        page = browser.get("/audit")
        assert "changes are on record; the last one was made by Ada on " in page.words
        assert "signed in" in page.words
        assert "(person)" not in page.words
        assert "key <b>59</b>" in page.words
        assert "<b>59" not in page.text
        assert "key <b>0</b>" not in page.words
        assert "Older entries" in page.words
        assert "Newer entries" not in page.words
        older = browser.get("/audit?before=14")
        assert "key <b>0</b>" in older.words
        assert "Older entries" not in older.words
        assert 'href="/audit' in older.text
        saved = browser.get("/audit?before=14&table=entries&format=csv").text.splitlines()
        assert len(saved) == 14
        assert saved[1].startswith("13,")
        assert browser.get("/audit?before=0").status == 422
        assert browser.get("/audit?before=x").status == 422
        assert "key <b>59</b>" in browser.get("/audit?before=99999999").words


def test_the_journal_is_checked(browser: Browser) -> None:
    part = {"hx-request": "true"}
    found = browser.get("/audit/verify", **part)
    assert "The journal is what was written:" in found.words
    last = found.words.rpartition("elsewhere: ")[2].split()[0]
    assert "with the hash that you gave" in browser.get(f"/audit/verify?contains={last}", **part).words
    lost = browser.get(f"/audit/verify?contains={'0' * 64}", **part)
    assert "is not as it was written" in lost.words
    assert 'class="note wrong"' in lost.text


@pytest.mark.parametrize("typed", ["nonsense", "0" * 63, "é" * 64, '"><script>'])
def test_what_is_no_hash_is_answered_beside_the_field(onlooker: Browser, typed: str) -> None:
    answer = onlooker.get(f"/audit/verify?contains={typed}", **{"hx-request": "true"})
    assert answer.status == 422
    assert "This is no hash of an entry." in answer.error("contains")
    assert "<script" not in answer.text
    if typed.isalnum():
        assert f'value="{typed}"' in answer.field("contains")


def test_planners_do_not_read_the_journal(shop: Path, visit: Visit) -> None:
    with visit(shop, Role.PLANNER) as planner:
        assert planner.get("/audit").status == 403
    with visit(shop, Role.APPROVER) as approver:
        assert approver.get("/audit").status == 200
