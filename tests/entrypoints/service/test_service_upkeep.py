"""Routes that answer with files, keep the shop in order, or compute something: each as the command of that name."""

import io
import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from disco.entrypoints.client import Client
from disco.entrypoints.python import Shop
from disco.entrypoints.worker import run_worker
from disco.records.errors import InfeasibleError, InputError, NotFoundError
from disco.records.people import Role

API = "/api/v1"
Run = Callable[..., tuple[int, str, str]]
VALUES = {"customer_id": ["a", "b", "c"], "0.1": [1.0, 2.0, None], "0.2": [3.0, 1.0, 4.0]}


@pytest.fixture
def remote(client: TestClient) -> Iterator[Client]:
    """`disco.Client` of the shop of `client`, as an administrator."""
    key = client.headers["authorization"].removeprefix("Bearer ")
    with Client("http://localhost", key=key, transport=client._transport) as one:
        yield one


def test_a_backup_is_restored_and_passes_the_health_check(
    remote: Client, shop: Path, tmp_path: Path, disco: Run
) -> None:
    file = remote.backup(tmp_path / "shop.tar.gz")
    restored = tmp_path / "restored"
    assert disco("restore", file, "--shop", restored)[0] == 0
    (restored / "data").symlink_to(shop / "data")
    assert {one.check for one in Shop.open(restored).doctor().failed} <= {"durability"}
    assert Shop.open(restored).export("first").to_arrow() == Shop.open(shop).export("first").to_arrow()


def test_who_is_forgotten_is_gone_and_a_rehearsal_changes_nothing(remote: Client, shop: Path) -> None:
    here = Shop.open(shop)
    customer = here.export("first").to_arrow()["customer_id"][0].as_py()
    assert remote.forget([customer], dry_run=True).found == 1
    assert customer in here.export("first").to_arrow()["customer_id"].to_pylist()
    done = remote.forget([customer, "nobody"])
    assert (done.found, done.customers, done.unfinished) == (1, 2, ())
    assert customer not in here.export("first").to_arrow()["customer_id"].to_pylist()
    assert remote.verify_audit().ok


def test_what_is_kept_about_a_customer_is_that_of_the_shop(remote: Client, shop: Path, tmp_path: Path) -> None:
    here = Shop.open(shop)
    customer = here.export("first").to_arrow()["customer_id"][0].as_py()
    kept, file = remote.access(customer), tmp_path / "kept.json"
    assert kept.records
    assert kept.as_dict() == here.access(customer).as_dict()
    assert remote.access(customer, file).file == str(file)
    assert json.loads(file.read_text())["records"] == kept.as_dict()["records"]
    assert remote.access("nobody").records == ()


def test_what_is_old_is_removed(remote: Client, shop: Path) -> None:
    here, planned = Shop.open(shop), {**_plan(shop), "campaign": "never"}
    plan_id = here.plan(planned).plan_id
    assert remote.prune(days=10_000).plans == ()
    assert plan_id in {one.plan_id for one in remote.plans()}
    for wrong in ({"days": 0}, {"days": 10**6}, {}, {"days": 1, "more": 1}):
        assert remote._http.post(f"{API}/prune", json=wrong).status_code == 422


def _plan(shop: Path) -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = json.loads(json.dumps(yaml.safe_load((shop / "second.yaml").read_text()), default=str))
    return found


def test_plans_are_compared_and_copied_as_by_the_commands(remote: Client, shop: Path, disco: Run) -> None:
    here = Shop.open(shop)
    first, second = (here.plan({**_plan(shop), "seed": seed}).plan_id for seed in (1, 2))
    _, out, _ = disco("plan", "diff", first, second, "--shop", shop, "--json")
    assert remote.plan_diff(first, second).as_dict() == json.loads(out)
    _, out, _ = disco("plan", "copy", "first", "--shop", shop, "--json")
    assert remote.plan_copy("first").as_dict() == json.loads(out)
    with pytest.raises(NotFoundError):
        remote.plan_diff(first, "nothing")
    with pytest.raises(NotFoundError):
        remote.plan_diff("plan.yaml", second)  # a file of the server is not read


def test_rows_that_do_not_count_can_be_fetched(remote: Client, tmp_path: Path, shop: Path) -> None:
    row = {"event_id": "x1", "campaign_id": "first", "customer_id": "nobody", "code": "nothing"}
    row |= {"ordered_at": "2025-09-05T10:00:00", "full_price": "12", "kind": "purchase"}
    batch = remote.ingest("first", [row]).batch_id
    found = pacsv.read_csv(remote.quarantine(batch, tmp_path / "aside.csv"))
    assert found["event_id"].to_pylist() == ["x1"]
    Shop.open(shop).quarantine(batch, tmp_path / "own.csv")
    assert (tmp_path / "own.csv").read_bytes() == (tmp_path / "aside.csv").read_bytes()
    with pytest.raises(NotFoundError):
        remote.quarantine("abcdef", tmp_path / "none.csv")


def test_a_recall_lists_the_codes_to_make_invalid(remote: Client, tmp_path: Path) -> None:
    rehearsed = remote.recall("first", as_of=date(2025, 9, 10), dry_run=True)
    done = remote.recall("first", tmp_path / "recalled.csv", as_of=date(2025, 9, 10))
    assert rehearsed.codes == done.codes > 0
    assert pacsv.read_csv(tmp_path / "recalled.csv").num_rows == done.codes
    remote.recall("first", tmp_path / "recalled.parquet")
    assert pq.read_table(tmp_path / "recalled.parquet").num_rows == done.codes


def test_views_are_the_pages_of_the_command(remote: Client, shop: Path, tmp_path: Path, disco: Run) -> None:
    for campaign in ("first", None):
        page = remote.report(campaign, tmp_path / "page.html", as_of=date(2025, 10, 3)).read_text()
        words = ("first",) if campaign else ()
        own = tmp_path / "own.html"
        assert disco("results", *words, "--as-of", "2025-10-03", "--html", own, "--shop", shop)[0] == 0
        assert page == own.read_text()


def test_features_are_those_of_the_command(remote: Client, shop: Path, tmp_path: Path, disco: Run) -> None:
    own = tmp_path / "own.parquet"
    assert disco("features", shop / "data", "--as-of", "2025-09-01", "-o", own)[0] == 0
    found = remote.features(date(2025, 9, 1), tmp_path / "features.parquet")
    assert found.equals(pq.read_table(own))
    assert pq.read_table(tmp_path / "features.parquet").equals(found)
    narrow = remote.features(date(2025, 9, 1), catalogue={"drop": [found.column_names[-1]]})
    assert narrow.num_columns == found.num_columns - 1
    with pytest.raises(InputError):
        remote.features(date(1990, 1, 1))  # nobody
    asked = {"json": {"as_of": "2025-09-01"}, "headers": {"idempotency-key": "features-1"}}
    once, again = (remote._http.post(f"{API}/features", **asked) for _ in range(2))
    assert len(once.content) == len(again.content) > 0  # a stream is not kept as an empty reply


def test_the_journal_is_verified(remote: Client) -> None:
    found = remote.verify_audit()
    assert found.ok
    assert found.last is not None
    assert remote.verify_audit(contains=found.last).ok
    assert not remote.verify_audit(contains="0" * 64).ok


def test_the_solver_alone(remote: Client) -> None:
    found = remote.allocate(VALUES, {"0.2": 1})
    assert (found["depth"], found["value"]) == ([0.1, 0.1, 0.2], [1.0, 2.0, 4.0])
    assert found["customer_id"] == ["a", "b", "c"]
    assert found["summary"]["status"] == "OPTIMAL"
    costs = {**VALUES, "0.1": [1.0, 1.0, None], "0.2": [2.0, 2.0, 2.0]}
    assert remote.allocate(VALUES, {}, costs=costs, budget=3.0)["summary"]["cost"] <= 3.0
    with pytest.raises(InfeasibleError, match="No allocation meets all limits"):
        remote.allocate(VALUES, {}, floors={"0.1": 3})
    wrong: list[Any] = [
        {"customer_id": ["a"], "0.1": [1.0, 2.0]},
        {"customer_id": ["a", "a"], "0.1": [1.0, 2.0]},
        {"customer_id": ["a"], "1.7": [1.0]},
        {"customer_id": ["a"], "0.1": ["x"]},
        {"0.1": [1.0], "0.2": [1.0]},
        {"customer_id": [], "0.1": []},
    ]
    for values in wrong:
        answer = remote._http.post(f"{API}/allocate", json={"values": values, "caps": {}})
        assert answer.status_code == 422, (values, answer.text)
        assert "/tmp" not in answer.text


def test_an_ab_test_is_read_from_a_file_as_from_lists(client: TestClient) -> None:
    lists = {"arm": ["decided", "control"] * 20, "depth": [0.1] * 40, "full_price": [5.0, None, 6.0, 7.0] * 10}
    plain = client.post(f"{API}/ab", json=lists).json()
    table = pa.table(lists)
    for kind, write in (("application/vnd.apache.parquet", pq.write_table), ("text/csv", pacsv.write_csv)):
        sink = io.BytesIO()
        write(table, sink)
        answer = client.post(f"{API}/ab", content=sink.getvalue(), headers={"content-type": kind})
        assert answer.status_code == 200, answer.text
        assert answer.json() == plain
        narrow = client.post(f"{API}/ab?level=0.9", content=sink.getvalue(), headers={"content-type": kind})
        assert narrow.json()["level"] == 0.9
        broken = client.post(f"{API}/ab", content=b"PAR1 nothing", headers={"content-type": kind})
        assert broken.status_code == 422, broken.text
    assert client.post(f"{API}/ab", json={**lists, "level": "x"}).status_code == 422


def test_propensities_and_contexts_are_jobs(remote: Client, client: TestClient, shop: Path) -> None:
    jobs = [
        client.post(f"{API}/campaigns/first/propensities?draws=5").json()["job"],
        client.post(f"{API}/contexts", json={"campaign": "first"}).json()["job"],
    ]
    run_worker(Shop.open(shop), until_idle=True)
    done = remote.job(jobs[0])
    assert done.state == "done", done.problem
    assert done.result is not None
    assert done.result["decisions"] > 0
    assert remote.job(jobs[1]).is_final
    assert client.post(f"{API}/campaigns/first/propensities?draws=0").status_code == 422


def test_a_repair_needs_an_administrator(reader: TestClient, keys: dict[Role, str]) -> None:
    for role, status in ((Role.APPROVER, 403), (Role.ADMIN, 202)):
        headers = {"authorization": f"Bearer {keys[role]}"}
        assert reader.post(f"{API}/doctor", json={"repair": True}, headers=headers).status_code == status
        assert reader.post(f"{API}/doctor", json={"repair": False}, headers=headers).status_code == 202
