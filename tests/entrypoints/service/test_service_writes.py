"""Requests that write: once per idempotency key, revisions of drafts, outcomes, jobs, keys and settings."""

import io
import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import yaml
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service.routes import jobs as job_routes
from disco.office.jobs.use_cases import claim, fail, finish
from disco.records.errors import InputError, UnavailableError
from disco.web import once as replies

API = "/api/v1"


def test_the_same_key_and_body_get_the_same_reply_and_another_body_is_refused(client: TestClient) -> None:
    body, key = {"name": "a shop", "role": "viewer"}, {"idempotency-key": "k-1"}
    first = client.post(f"{API}/keys", json=body, headers=key)
    again = client.post(f"{API}/keys", json=body, headers=key)
    assert first.status_code == again.status_code == 201
    assert first.content == again.content
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["content-type"] == first.headers["content-type"]
    other = client.post(f"{API}/keys", json=body | {"role": "admin"}, headers=key)
    assert (other.status_code, other.json()["type"]) == (409, "urn:disco:problem:reply-conflict")
    elsewhere = client.post(f"{API}/power", json={"baseline": 1, "sd": 1, "uplift": 0.1}, headers=key)
    assert elsewhere.status_code == 409
    assert sum(one["name"] == "a shop" for one in client.get(f"{API}/keys").json()["items"]) == 1
    for wrong in ("", "ä".encode("latin-1"), "x" * 300):
        answer = client.post(f"{API}/keys", json=body, headers={"idempotency-key": wrong})
        assert answer.status_code == 422, answer.text


@pytest.mark.parametrize(
    ("path", "body", "secret"),
    [
        ("keys", {"name": "crm", "role": "viewer"}, "key"),
        ("people", {"name": "Ben", "role": "viewer"}, "token"),
        ("webhooks", {"url": "https://example.com/", "events": ["plan.ready"]}, "secret"),
    ],
)
def test_a_secret_in_a_kept_reply_is_read_by_its_caller_alone(
    client: TestClient, shop: Path, path: str, body: dict[str, Any], secret: str
) -> None:
    key = {"idempotency-key": "k-3"}
    first = client.post(f"{API}/{path}", json=body, headers=key)
    assert first.status_code == 201, first.text
    again = client.post(f"{API}/{path}", json=body, headers=key)
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    with closing(sqlite3.connect(shop / "disco.db")) as connection:
        ((kept,),) = connection.execute("SELECT body FROM replies").fetchall()
    assert first.json()[secret][-24:].encode() not in kept  # its random part, which may contain underscores
    namesake = client.post(f"{API}/keys", json={"name": "of a admin", "role": "admin"}).json()["key"]
    other = client.post(f"{API}/{path}", json=body, headers=key | {"authorization": f"Bearer {namesake}"})
    assert (other.status_code, other.json()["type"]) == (409, "urn:disco:problem:reply-conflict")


def test_a_refusal_is_not_kept_for_its_key(client: TestClient) -> None:
    path, headers = f"{API}/drafts/summer", {"idempotency-key": "k-2", "if-match": '"1"'}
    assert client.put(path, json={"seed": 1}, headers=headers).status_code == 412
    assert client.put(path, json={"seed": 0}).status_code == 200
    assert client.put(path, json={"seed": 1}, headers=headers).status_code == 200
    assert client.get(path).json()["plan"] == {"seed": 1}
    other = client.put(path, json={"seed": 1}, headers=headers | {"if-match": '"2"'})
    assert other.json()["type"] == "urn:disco:problem:reply-conflict", "another revision is another request"


class Away:
    """Stands for a function that the database keeps from working the first few times."""

    def __init__(self, works: Any, *, times: int) -> None:
        self._works, self.times = works, times

    def __call__(self, *given: Any, **named: Any) -> Any:
        if self.times:
            self.times -= 1
            raise UnavailableError("The database is away")
        return self._works(*given, **named)


def test_a_reply_is_sent_and_kept_though_the_database_goes_away_after_the_work(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "_AGAIN_S", 0.01)
    monkeypatch.setattr(replies, "finish_reply", away := Away(replies.finish_reply, times=3))
    body, key = {"name": "kept later", "role": "viewer"}, {"idempotency-key": "k-4"}
    first = client.post(f"{API}/keys", json=body, headers=key)
    assert first.status_code == 201
    again = _when_settled(lambda: client.post(f"{API}/keys", json=body, headers=key))
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert away.times == 0


def test_a_refusal_can_be_repeated_though_the_database_was_away_meanwhile(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "_AGAIN_S", 0.01)
    monkeypatch.setattr(replies, "drop_reply", Away(replies.drop_reply, times=3))
    path, key = f"{API}/drafts/autumn", {"idempotency-key": "k-5", "if-match": '"1"'}
    assert client.put(path, json={"seed": 1}, headers=key).status_code == 412
    assert client.put(path, json={"seed": 0}).status_code == 200
    assert _when_settled(lambda: client.put(path, json={"seed": 1}, headers=key)).status_code == 200


def _when_settled(ask: Any) -> Any:
    """The reply once the one before it is kept or dropped: well before its reservation ends by itself."""
    end = time.monotonic() + 20
    while (answer := ask()).status_code == 409:
        assert answer.json()["type"] == "urn:disco:problem:reply-in-progress"
        assert time.monotonic() < end
    return answer


def test_the_same_request_at_the_same_time_is_done_once(client: TestClient) -> None:
    def ask(_: int) -> int:
        body = {"name": "at once", "role": "viewer"}
        return client.post(f"{API}/keys", json=body, headers={"idempotency-key": "k-3"}).status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(ask, range(12)))
    assert set(statuses) <= {201, 409, 503}
    assert 201 in statuses
    assert sum(one["name"] == "at once" for one in client.get(f"{API}/keys").json()["items"]) == 1


def test_a_draft_is_changed_only_by_who_saw_its_revision(client: TestClient) -> None:
    path, plan = f"{API}/drafts/spring", {"campaign": "spring", "depths": {"0.1": {"at_most": 5}}}
    assert client.get(path).status_code == 404
    made = client.put(path, json=plan)
    assert (made.status_code, made.headers["etag"]) == (200, '"1"')
    assert client.put(path, json=plan).status_code == 428
    changed = client.put(path, json=plan | {"seed": 1}, headers={"if-match": made.headers["etag"]})
    assert changed.headers["etag"] == '"2"'
    late = client.put(path, json=plan, headers={"if-match": '"1"'})
    assert (late.status_code, late.json()["type"]) == (412, "urn:disco:problem:revision")
    assert client.get(path).json()["plan"] == plan | {"seed": 1}
    assert [one["name"] for one in client.get(f"{API}/drafts").json()["items"]] == ["spring"]
    assert client.delete(path).status_code == 428
    assert client.delete(path, headers={"if-match": '"x"'}).status_code == 422
    assert client.delete(path, headers={"if-match": '"2"'}).status_code == 200
    assert client.get(path).status_code == 404


def outcomes_of(client: TestClient, count: int) -> list[dict[str, Any]]:
    codes = pq.read_table(io.BytesIO(client.get(f"{API}/campaigns/first/export").content)).slice(0, count).to_pylist()
    return [
        {
            "event_id": f"svc-{number}",
            "campaign_id": "first",
            "customer_id": one["customer_id"],
            "code": one["code_id"],
            "ordered_at": "2025-09-05T10:00:00",
            "full_price": 20 + number,
            "kind": "purchase",
        }
        for number, one in enumerate(codes)
    ]


def test_outcomes_count_once_as_json_csv_or_parquet(client: TestClient) -> None:
    rows, path = outcomes_of(client, 30), f"{API}/campaigns/first/outcomes"
    rehearsed = client.post(path, params={"dry_run": True}, json=rows)
    assert rehearsed.json()["dry_run"] is True
    first = client.post(path, json=rows, params={"source": "till"})
    assert first.status_code == 200, first.text
    assert first.json()["received"] == 30
    table = pa.Table.from_pylist([one | {"full_price": float(one["full_price"])} for one in rows])
    csv, parquet = io.BytesIO(), io.BytesIO()
    pacsv.write_csv(table, csv)
    pq.write_table(table, parquet)
    for content, kind in ((csv, "text/csv"), (parquet, "application/vnd.apache.parquet")):
        again = client.post(path, content=content.getvalue(), headers={"content-type": kind})
        assert again.status_code == 200, again.text
        assert again.json()["duplicate"] == again.json()["received"] == 30
    batches = client.get(f"{API}/campaigns/first").json()["batches"]
    assert "till" in [one["source"] for one in batches]
    back = client.post(f"{API}/batches/{first.json()['batch_id']}/revert")
    assert back.status_code == 200
    assert back.json()["counts"]["received"] == 30
    key = {"idempotency-key": "outcomes-1"}
    assert client.post(path, json=rows, headers=key).content == client.post(path, json=rows, headers=key).content
    assert client.post(path, json=rows[:1], headers=key).status_code == 409


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "{}",
        "null",
        '[{"event_id": 1, "extra": 2}]',
        '[{"full_price": NaN}]',
        '[{"full_price": [1]}]',
        '[{"customer_id": {"$gt": ""}}]',
        "[1]",
    ],
)
def test_outcomes_that_are_no_rows_are_refused(reader: TestClient, body: str) -> None:
    headers = {"content-type": "application/json"}
    answer = reader.post(f"{API}/campaigns/first/outcomes", content=body, headers=headers)
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_long_work_is_a_job(client: TestClient, shop: Path) -> None:
    plan = yaml.safe_load((shop / "second.yaml").read_text())
    plan["depths"] = {str(depth): limit for depth, limit in plan["depths"].items()}
    plan["customers"]["as_of"] = str(plan["customers"]["as_of"])
    plan["valid"]["from"] = str(plan["valid"]["from"])
    key = {"idempotency-key": "plan-1"}
    asked = client.post(f"{API}/plans", json=plan, headers=key)
    assert asked.status_code == 202, asked.text
    job_id = asked.json()["job"]
    assert asked.headers["location"] == f"{API}/jobs/{job_id}"
    assert client.post(f"{API}/plans", json=plan, headers=key).json() == {"job": job_id}
    job = client.get(asked.headers["location"]).json()
    assert (job["kind"], job["state"], job["body"]["plan"]) == ("plan", "queued", plan)
    wrong = client.post(f"{API}/plans", json=plan | {"depths": {}})
    assert (wrong.status_code, wrong.json()["type"]) == (422, "urn:disco:problem:plan")
    rehearsal = client.post(f"{API}/plans", params={"dry_run": True}, json=plan).json()["job"]
    assert client.get(f"{API}/jobs/{rehearsal}").json()["body"]["dry_run"] is True
    for name, body in {
        "learn": {"campaigns": ["first"]},
        "check": {},
        "doctor": {},
        "validate": {},
        "train": {"window_start": "2025-06-01"},
        "frontier": {"plan": plan},
        "replay": {"log": "log.parquet", "context": ["x"], "policies": ["random"]},
    }.items():
        answer = client.post(f"{API}/{name}", json=body)
        assert answer.status_code == 202, answer.text
    assert client.post(f"{API}/learn", json={}).status_code == 400
    listed = client.get(f"{API}/jobs", params={"limit": 3}).json()
    assert len(listed["items"]) == 3
    rest = client.get(f"{API}/jobs", params={"cursor": listed["next"]}).json()
    assert len(rest["items"]) == 6
    stopped = client.post(f"{API}/jobs/{job_id}/cancel").json()
    assert stopped["state"] == "cancelled"
    assert client.get(f"{API}/jobs", params={"state": "cancelled"}).json()["items"][0]["id"] == job_id
    assert client.get(f"{API}/jobs/nothing").status_code == 404


def test_events_end_with_the_final_state(client: TestClient, shop: Path) -> None:
    done, failed = (client.post(f"{API}/{name}", json={}).json()["job"] for name in ("check", "doctor"))
    here = Shop.open(shop)
    with here.store() as store:
        first, second = (claim(store, worker="w", clock=here.clock) for _ in range(2))
        assert first is not None
        assert second is not None
        finish(store, first, json.dumps({"answer": 1}), clock=here.clock)
        fail(store, second, InputError("plan", found="x", expected="y"), clock=here.clock)
    for job_id, state in ((done, "done"), (failed, "failed")):
        answer = client.get(f"{API}/jobs/{job_id}/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        event, data = answer.text.strip().split("\n")
        assert event == "event: end"
        assert json.loads(data.removeprefix("data: "))["state"] == state
    assert client.get(f"{API}/jobs/{done}").json()["result"] == {"answer": 1}
    assert client.get(f"{API}/jobs/nothing/events").status_code == 404


def test_events_go_on_when_the_database_is_away_for_a_while(
    client: TestClient, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = client.post(f"{API}/doctor", json={}).json()["job"]
    monkeypatch.setattr(job_routes, "_LOOKS_S", 0.01)
    looks = Away(job_routes.get_job, times=0)

    def look(*given: Any) -> Any:
        found = looks(*given)
        if found.state == "queued":
            looks.times = 3
            client.post(f"{API}/jobs/{job_id}/cancel")
        return found

    monkeypatch.setattr(job_routes, "get_job", look)
    answer = client.get(f"{API}/jobs/{job_id}/events")
    assert answer.text.count("event: end") == 1
    assert '"state": "cancelled"' in answer.text
    assert looks.times == 0


def test_schedules_are_made_listed_and_removed(client: TestClient) -> None:
    path, wanted = f"{API}/schedules", {"kind": "check", "body": {}, "rule": "every monday at 06:00"}
    made = client.post(path, json=wanted)
    assert made.status_code == 201, made.text
    assert made.json()["next_at"] is not None
    assert [one["id"] for one in client.get(path).json()["items"]] == [made.json()["id"]]
    for wrong in ({"rule": "sometimes"}, {"kind": "webhook"}, {"kind": "launch"}, {"body": {"other": 1}}):
        assert client.post(path, json=wanted | wrong).status_code in (400, 422), wrong
    assert client.delete(f"{path}/{made.json()['id']}").status_code == 200
    assert client.delete(f"{path}/{made.json()['id']}").status_code == 404


def test_webhooks_show_their_secret_once(client: TestClient) -> None:
    path, wanted = f"{API}/webhooks", {"url": "https://example.com/disco", "events": ["plan.ready"]}
    made = client.post(path, json=wanted)
    assert made.status_code == 201, made.text
    assert made.json()["secret"] not in client.get(path).text
    (one,) = client.get(path).json()["items"]
    assert one["url"] == wanted["url"]
    for wrong in ({"url": "file:///etc/passwd"}, {"events": []}, {"events": ["everything"]}, {"url": "x"}):
        assert client.post(path, json=wanted | wrong).status_code == 422, wrong
    assert client.delete(f"{path}/{one['id']}").status_code == 200
    assert client.delete(f"{path}/{one['id']}").status_code == 404


def test_the_journal_names_the_key_that_wrote(client: TestClient) -> None:
    client.put(f"{API}/drafts/journal", json={"seed": 1})
    last = client.get(f"{API}/audit").json()["items"][-1]
    assert (last["actor"], last["kind"], last["action"]) == ("of a admin", "key", "write draft")
    page = client.get(f"{API}/audit", params={"cursor": 0, "limit": 2}).json()
    assert [one["number"] for one in page["items"]] == [1, 2]
    after = client.get(f"{API}/audit", params={"cursor": page["next"], "limit": 2}).json()
    assert after["items"][0]["number"] == 3


def test_the_journal_says_what_was_asked_for(client: TestClient) -> None:
    client.put(f"{API}/drafts/spring", json={"seed": 1})
    job = client.post(f"{API}/check", json={}).json()["job"]
    client.post(f"{API}/jobs/{job}/cancel")
    schedule = client.post(f"{API}/schedules", json={"kind": "doctor", "rule": "daily at 6:00"}).json()["id"]
    url = "https://example.com/hook?token=c4n4ry"
    webhook = client.post(f"{API}/webhooks", json={"url": url, "events": ["plan.ready"]}).json()["webhook"]["id"]
    for path in (f"schedules/{schedule}", f"webhooks/{webhook}", "drafts/spring"):
        assert client.delete(f"{API}/{path}", headers={"if-match": '"1"'}).status_code == 200
    answer = client.get(f"{API}/audit", params={"limit": 8})
    assert [one["detail"] for one in answer.json()["items"]] == [
        {"draft": "spring", "revision": 1, "changed": ["seed nothing → 1"]},
        {"job_id": job, "kind": "check"},
        {"job_id": job, "kind": "check"},
        {"schedule_id": schedule, "kind": "doctor", "rule": "daily at 06:00"},
        {"webhook_id": webhook, "events": ["plan.ready"]},
        {"schedule_id": schedule},
        {"webhook_id": webhook},
        {"draft": "spring", "revision": 2},
    ]
    assert "c4n4ry" not in answer.text


def test_the_journal_names_files_that_a_caller_changed(client: TestClient, shop: Path) -> None:
    table = (shop / "data" / "site.parquet").read_bytes()
    kind = {"content-type": "application/vnd.apache.parquet"}
    assert client.put(f"{API}/tables/site", content=table, headers=kind).status_code == 200
    assert client.put(f"{API}/tables/site/columns", json={"visits": "visits"}).status_code == 200
    assert client.patch(f"{API}/settings", json={"model": {"forgetting": 0.5}}).status_code == 200
    assert client.patch(f"{API}/settings", json={"currency": "?"}).status_code == 422
    found = client.get(f"{API}/audit", params={"limit": 3}).json()["items"]
    assert [(one["actor"], one["action"], one["detail"]["file"]) for one in found] == [
        ("of a admin", "replace table", "site.parquet"),
        ("of a admin", "change settings", "disco.yaml"),
        ("of a admin", "change settings", "disco.yaml"),
    ]
    assert [found[0]["detail"]["sha256"], found[2]["detail"]["sha256"]] == [
        sha256(content).hexdigest() for content in (table, (shop / "disco.yaml").read_bytes())
    ]
    assert found[2]["detail"]["settings"] == ["model"]
    assert all(one["before"] != one["after"] for one in found)


@pytest.mark.parametrize("wrong", [{"currency": "EUR"}, {"time_zone": "Europe/Berlin"}])
def test_what_launched_campaigns_rely_on_stays_and_so_does_the_service(
    client: TestClient, shop: Path, wrong: dict[str, str]
) -> None:
    refused = client.patch(f"{API}/settings", json=wrong)
    assert refused.status_code == 409, refused.text
    assert "cannot change once a campaign was launched" in refused.json()["detail"]
    assert client.get(f"{API}/campaigns").status_code == 200
    assert not (shop / "disco.yaml").exists()


def test_settings_are_changed_all_or_none(client: TestClient, shop: Path) -> None:
    refused = client.patch(f"{API}/settings", json={"model": {"forgetting": 0.5}, "approval": "nobody"})
    assert refused.status_code == 422
    assert not (shop / "disco.yaml").exists()


def test_a_revoked_key_is_refused_at_once(client: TestClient) -> None:
    made = client.post(f"{API}/keys", json={"name": "x", "role": "viewer", "expires_days": 1}).json()
    mine = {"authorization": f"Bearer {made['key']}"}
    assert client.get(f"{API}/campaigns", headers=mine).status_code == 200
    assert client.get(f"{API}/keys", headers=mine).status_code == 403
    assert client.delete(f"{API}/keys/{made['id']}").status_code == 200
    assert client.get(f"{API}/campaigns", headers=mine).status_code == 401
    listed = client.get(f"{API}/keys").text
    assert made["key"] not in listed
    assert made["key"].split("_", 2)[2] not in listed


def test_settings_are_shown_without_passwords_and_changed_where_they_may_be(
    client: TestClient, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = client.get(f"{API}/settings").json()
    assert found["currency"] == "GBP"
    changed = client.patch(f"{API}/settings", json={"model": {"forgetting": 0.5}})
    assert changed.status_code == 200, changed.text
    assert client.get(f"{API}/settings").json()["model"]["forgetting"] == 0.5
    assert Shop.open(shop).settings.model.forgetting == 0.5
    for wrong in (
        {"database_url": "sqlite:////etc/x"},
        {"data": "/etc"},
        {"model": {"forgeting": 1}},
        {"currency": "?"},
    ):
        assert client.patch(f"{API}/settings", json=wrong).status_code == 422, wrong
    (shop / "disco.yaml").write_text("data: postgresql://reader:hunter2@db/warehouse\n")
    text = client.get(f"{API}/settings").text
    assert "hunter2" not in text
    assert "warehouse" in text


def test_settings_that_cannot_be_used_leave_the_ones_before_in_use(client: TestClient, shop: Path) -> None:
    (shop / "disco.yaml").write_text("model: {forgetting: 0.25}\n")
    assert client.get(f"{API}/settings").json()["model"]["forgetting"] == 0.25
    (shop / "disco.yaml").write_text("model: {forgetting: 7}\n")
    assert client.get(f"{API}/settings").json()["model"]["forgetting"] == 0.25
