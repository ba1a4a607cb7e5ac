"""A database that is upgraded, or older, while servers and workers run: they say so and write nothing."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from disco.entrypoints.python import Shop
from disco.entrypoints.service.app import create_app
from disco.entrypoints.worker import run_worker
from disco.office.jobs import use_cases as jobs
from disco.office.keys.use_cases import create_key
from disco.records.errors import UpgradeError
from disco.records.jobs import JobKind, JobState
from disco.store.schema import REVISION
from disco.store.store import open_database, upgrade

API = "/api/v1"
NEWER, OLDER = "9999", "older"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr("disco.store.store.KNOWN_REVISIONS", (OLDER, REVISION))
    (tmp_path / "disco.yaml").write_text(f"database_url: {database_url}\n")
    return Shop.open(tmp_path)


@pytest.fixture
def server(shop: Shop) -> Iterator[TestClient]:
    with shop.store(missing="create") as store:
        key = create_key(store, name="x", role="admin", expires=None, clock=shop.clock).key
    with TestClient(create_app(shop), base_url="http://localhost", raise_server_exceptions=False) as client:
        client.headers["authorization"] = f"Bearer {key}"
        yield client


def revise(shop: Shop, revision: str) -> None:
    """Let the database say that it is at another revision, as after an upgrade by another program."""
    database = open_database(shop.database_url)
    with database.alone() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :to"), {"to": revision})
    database.engine.dispose()


@pytest.mark.parametrize(("revision", "said"), [(NEWER, "made by a newer disco"), (OLDER, "disco db upgrade")])
def test_a_running_server_reads_on_and_writes_nothing_at_another_revision(
    server: TestClient, shop: Shop, revision: str, said: str
) -> None:
    made = {"name": "another", "role": "viewer"}
    assert server.get("/readyz").status_code == 200
    before = server.get(f"{API}/audit").json()["items"]
    revise(shop, revision)
    unready = server.get("/readyz")
    assert unready.status_code == 503
    assert said in unready.json()["detail"]
    assert server.get("/healthz").status_code == 200
    assert server.get(f"{API}/campaigns").status_code == 200
    writes = [
        server.post(f"{API}/keys", json=made),
        server.post(f"{API}/keys", json=made, headers={"idempotency-key": "once"}),
        server.put(f"{API}/drafts/spring", json={"campaign": "spring"}),
        server.post(f"{API}/doctor", json={}),
        server.post(f"{API}/schedules", json={"rule": "daily at 06:00", "kind": "doctor", "body": {}}),
    ]
    for answer in writes:
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:disco:problem:upgrade"), answer.text
        assert said in answer.json()["detail"]
        assert answer.headers["retry-after"]
    assert server.get(f"{API}/audit").json()["items"] == before
    revise(shop, REVISION)
    assert server.get("/readyz").status_code == 200
    assert server.post(f"{API}/keys", json=made, headers={"idempotency-key": "once"}).status_code == 201


def test_a_worker_at_another_revision_ends_and_leaves_its_jobs_to_others(shop: Shop) -> None:
    with shop.store(missing="create") as store:
        job = jobs.submit(store, JobKind.DOCTOR, {}, clock=shop.clock)
    held: list[BaseException] = []

    def work() -> None:
        try:
            run_worker(shop, poll_s=0.05, stop=stop)
        except UpgradeError as error:
            held.append(error)

    stop = threading.Event()
    worker = threading.Thread(target=work)
    revise(shop, REVISION)
    with shop.held() as open_shop:  # opened before the upgrade, as a server's is
        store = open_shop.held_store
        assert store is not None
        revise(shop, NEWER)
        with pytest.raises(UpgradeError, match="newer disco"):
            jobs.claim(store, worker="old", clock=shop.clock)
    worker.start()
    worker.join(60)
    stop.set()
    assert len(held) == 1
    revise(shop, REVISION)
    with shop.store() as store:
        assert jobs.get_job(store, job.id).state is JobState.QUEUED
    run_worker(shop, until_idle=True)
    with shop.store() as store:
        assert jobs.get_job(store, job.id).state is not JobState.QUEUED


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_program_does_not_start_on_a_database_of_another_revision(disco: Run, shop: Shop, command: str) -> None:
    with shop.store(missing="create"):
        pass
    revise(shop, OLDER)
    port = ("--port", "0") if command == "serve" else ()
    code, _, said = disco(command, "--shop", shop.folder, *port)
    assert code == 1
    assert f"is at revision {OLDER}; this program needs {REVISION}" in said
    assert "disco db upgrade" in said


def test_an_upgrade_waits_for_writers_and_writers_wait_for_an_upgrade(shop: Shop) -> None:
    """So no transaction of an earlier program writes one half before and the other half after."""
    with shop.store(missing="create") as store:
        order: list[str] = []

        def upgraded() -> None:
            database = open_database(shop.database_url)
            upgrade(database)
            order.append("upgrade")
            database.engine.dispose()

        other = threading.Thread(target=upgraded)
        with store.writing("first", action="test"):
            other.start()
            other.join(0.5)
            assert other.is_alive()
            order.append("writer")
        other.join(60)
        assert order == ["writer", "upgrade"]
