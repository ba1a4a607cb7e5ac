"""Settings: changed field by field, secrets never shown; webhooks and schedules, switched and removed."""

import json
import re
from pathlib import Path

import pytest
from visitors import Browser, Visit, visiting

from disco.records.people import Role

FIELDS = {
    "approval": "none",
    "currency": "GBP",
    "time_zone": "UTC",
    "threads": "",
    "csv.delimiter": "",
    "csv.decimal": "",
    "csv.dates": "",
    "csv.encoding": "",
    "model.forgetting": "1",
    "engagement.prior_rate": "0.1",
    "engagement.prior_codes": "20",
}


def test_settings_are_changed_in_the_file_and_the_database(newcomer: Browser, tmp_path: Path) -> None:
    page = newcomer.get("/settings")
    assert "Money is in GBP, days begin in UTC, and a launch needs no approval" in page.words
    wanted = {"approval": "second_person", "currency": "EUR", "csv.decimal": ",", "engagement.prior_rate": "0.2"}
    done = newcomer.send("/settings", **(FIELDS | wanted))
    assert (done.status, done.headers["hx-redirect"]) == (204, "/settings")
    assert "saved" in done.said
    page = newcomer.get("/settings")
    assert "Money is in EUR" in page.words
    assert "a launch needs a second person" in page.words
    assert 'value=","' in page.field("csv.decimal")
    written = (tmp_path / "disco.yaml").read_text()
    assert "EUR" in written
    assert "prior_rate: 0.2" in written
    assert "threads" not in written
    back = newcomer.send("/settings", **(FIELDS | {"currency": "EUR", "csv.decimal": ""}))
    assert back.status == 204
    assert "csv" not in (tmp_path / "disco.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("currency", "money"),
        ("currency", "x" * 5000),
        ("time_zone", "Mars/Olympus"),
        ("threads", "-1"),
        ("threads", "many"),
        ("csv.decimal", "x"),
        ("csv.encoding", "<script>"),
        ("csv.dates", "yesterday"),
        ("model.forgetting", "2"),
        ("model.forgetting", "nan"),
        ("engagement.prior_rate", "0"),
        ("engagement.prior_codes", "1e999"),
        ("approval", "everybody"),
    ],
)
def test_nonsense_is_answered_beside_its_field(newcomer: Browser, tmp_path: Path, name: str, text: str) -> None:
    answer = newcomer.send("/settings", **(FIELDS | {name: text}))
    assert answer.status == 422
    assert "expected" in answer.error(name)
    if name != "approval" and text.isascii() and "<" not in text:
        assert f'value="{text}"' in answer.field(name)
    assert "<script>" not in answer.text
    assert not (tmp_path / "disco.yaml").exists()


def test_no_secret_is_shown(tmp_path: Path) -> None:
    with visiting(tmp_path) as browser:
        made = browser.send("/webhooks", url="https://example.com/hook?key=hidden", events="plan.ready", key="k")
        secret = re.search(r'id="secret">([^<]+)<', made.text)
        assert secret is not None
        page = browser.get("/settings")
        assert secret[1] not in page.text
        assert "https://example.com/hook" in page.words
        saved = browser.get("/settings?table=settings&format=csv").text
        assert "database_url,sqlite:///disco.db" in saved


def test_a_webhook_is_switched_and_removed(newcomer: Browser) -> None:
    assert "There is no webhook yet." in newcomer.get("/settings").words
    made = newcomer.send("/webhooks", url="https://example.com/hook", events="plan.ready")
    item = re.search(r"/webhooks/(\w+)/switch", made.text)
    assert item is not None
    paused = newcomer.send(f"/webhooks/{item[1]}/switch", active="no")
    assert "is paused" in paused.said
    assert "plan.ready paused" in paused.words
    assert "active again" in newcomer.send(f"/webhooks/{item[1]}/switch", active="yes").said
    assert "There is no webhook yet." in newcomer.send(f"/webhooks/{item[1]}/remove").words
    assert newcomer.send(f"/webhooks/{item[1]}/switch", active="yes").status == 404


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"url": "nonsense", "events": "plan.ready"}, "url"),
        ({"url": "file:///etc/passwd", "events": "plan.ready"}, "url"),
        ({"url": "", "events": "plan.ready"}, "url"),
        ({"url": "https://example.com/", "events": "moon.full"}, "events"),
        ({"url": "https://example.com/"}, "events"),
    ],
)
def test_a_wrong_webhook_is_answered_beside_the_field(newcomer: Browser, fields: dict[str, str], wrong: str) -> None:
    answer = newcomer.send("/webhooks", **fields)
    assert answer.status == 422
    assert f'id="{wrong}-error"' in answer.text
    assert f'value="{fields["url"]}"' in answer.field("url")


def test_a_schedule_is_paused_resumed_and_removed(newcomer: Browser) -> None:
    assert "There is no schedule yet." in newcomer.get("/settings").words
    assert "no schedule is active" in newcomer.get("/settings").words
    assert "CSV delimiter" in newcomer.get("/settings").words
    made = newcomer.send("/schedules", kind="validate", rule="every monday at 6:00", body="")
    assert "Check the tables: every monday at 06:00." in json.loads(made.said)["said"]
    item = re.search(r"/schedules/(\w+)/switch", made.text)
    assert item is not None
    paused = newcomer.send(f"/schedules/{item[1]}/switch", paused="yes")
    assert "every monday at 06:00 paused" in paused.words
    assert "goes on" in newcomer.send(f"/schedules/{item[1]}/switch", paused="no").said
    assert "There is no schedule yet." in newcomer.send(f"/schedules/{item[1]}/remove").words


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"kind": "dance", "rule": "daily at 06:00"}, "kind"),
        ({"kind": "validate", "rule": "now and then"}, "rule"),
        ({"kind": "validate", "rule": "at 2001-01-01 09:00"}, "rule"),
        ({"kind": "validate", "rule": "daily at 06:00", "body": "{"}, "body"),
        ({"kind": "validate", "rule": "daily at 06:00", "body": "[1]"}, "body"),
        ({"kind": "validate", "rule": "daily at 06:00", "body": '{"unknown": 1}'}, "body"),
        ({"kind": "learn", "rule": "daily at 06:00", "body": ""}, "body"),
    ],
)
def test_a_wrong_schedule_is_answered_beside_the_field(newcomer: Browser, fields: dict[str, str], wrong: str) -> None:
    answer = newcomer.send("/schedules", **fields)
    assert answer.status == 422, answer.words
    assert answer.error(wrong)
    assert f'value="{fields["rule"]}"' in answer.field("rule")


def test_a_planner_sees_settings_and_changes_none(tmp_path: Path, visit: Visit) -> None:
    with visiting(tmp_path) as admin:
        admin.send("/webhooks", url="https://example.com/hook?key=hidden", events="plan.ready")
    with visit(tmp_path, Role.PLANNER) as planner:
        page = planner.get("/settings")
        assert "All settings, without secrets" in page.words
        assert "Save" not in page.words.replace("Save as", "")
        assert "hidden" not in page.text
        assert "hidden" not in planner.get("/settings?table=webhooks&format=csv").text
        assert planner.send("/settings", currency="EUR").status == 403
        assert planner.send("/schedules", kind="validate", rule="daily at 06:00").status == 403
