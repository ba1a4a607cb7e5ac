"""Hostile input in every field, and requests made from the OpenAPI document: never a server error, nothing is run."""

import io
import json
import resource
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from fastapi.testclient import TestClient
from service_api_drill import CANARY, PAYLOADS, attack, attacks, generated

from disco.entrypoints.python import Shop
from disco.entrypoints.service.documents import document
from disco.entrypoints.worker import run_worker
from disco.features import eligibility

API = "/api/v1"


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_payloads_in_every_field_are_refused_or_kept_as_text(client: TestClient, shop: Path) -> None:
    kept = {path: path.read_bytes() for path in (shop / "data").iterdir()}
    before = peak_megabytes()
    sent = list(attacks(document(), per_field=4))
    assert len(sent) > 500
    assert len(PAYLOADS) > 50
    wrong = [said for one in sent if (said := attack(client, one)) is not None]
    assert wrong == []
    assert peak_megabytes() - before < 600
    assert not Path(f"/tmp/{CANARY}").exists()
    assert {path: path.read_bytes() for path in (shop / "data").iterdir()} == kept
    assert client.get(f"{API}/campaigns").json()["items"][0]["campaign"] == "first"


def test_requests_made_from_the_document_meet_no_server_error(client: TestClient) -> None:
    assert list(generated(client, document(), examples=2)) == []


def test_files_that_unpack_to_more_than_memory_are_refused(client: TestClient) -> None:
    sink = io.BytesIO()
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array(["x" * 200_000]))
    pq.write_table(pa.table({"order_id": text, "customer_id": text}), sink, compression="zstd")
    bomb = sink.getvalue()
    assert len(bomb) < 1_000_000
    before = peak_megabytes()
    headers = {"content-type": "application/vnd.apache.parquet"}
    for method, path in (("PUT", "tables/orders"), ("POST", "campaigns/first/outcomes"), ("POST", "ab")):
        answer = client.request(method, f"{API}/{path}", content=bomb, headers=headers)
        assert answer.status_code == 422, answer.text[:500]
        assert len(answer.content) < 100_000
    assert peak_megabytes() - before < 600


def test_an_arm_of_a_file_is_a_name_and_a_figure_a_number(client: TestClient) -> None:
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array(["x" * 100_000]))
    before = peak_megabytes()
    for arm, depth in ((long, [0.1] * 3000), (["decided"] * 3000, long), ([1] * 3000, [0.1] * 3000)):
        sink = io.BytesIO()
        pq.write_table(pa.table({"arm": arm, "depth": depth, "full_price": [1.0] * 3000}), sink)
        headers = {"content-type": "application/vnd.apache.parquet"}
        answer = client.post(f"{API}/ab", content=sink.getvalue(), headers=headers)
        assert answer.status_code == 422, answer.text[:300]
    assert peak_megabytes() - before < 300


@pytest.mark.parametrize(
    "condition",
    [
        "(SELECT count(*) FROM generate_series(1, 10000000) a, generate_series(1, 10000000) b) > 0",
        "(SELECT string_agg(repeat('x', 1000)) FROM range(10000000)) IS NOT NULL",
        "EXISTS (SELECT * FROM read_csv('/etc/passwd'))",
        "EXISTS (SELECT * FROM read_text('/etc/passwd'))",
        "true; SET memory_limit = '100GB'",
        "true; PRAGMA enable_external_access",
        "true); COPY customers TO '/tmp/disco-was-here'; SELECT (true",
        "true; ATTACH '/tmp/disco-was-here' AS other",
        "getenv('HOME') <> ''",
        "(SELECT value FROM duckdb_settings() WHERE name = 'memory_limit') <> '' AND 1 = (SELECT 1 FROM '/etc/passwd')",
    ],
)
def test_a_condition_of_a_plan_is_refused_in_a_sentence_within_its_limits(
    client: TestClient, shop: Path, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    monkeypatch.setattr(eligibility, "CONDITION_SECONDS", 1.0)
    monkeypatch.setattr(eligibility, "CONDITION_BYTES", 200 << 20)
    plan = yaml.safe_load((shop / "second.yaml").read_text())
    plan["customers"]["eligible"] = condition
    body = {"plan": json.loads(json.dumps(plan, default=str))}
    began, before = time.monotonic(), peak_megabytes()
    job = client.post(f"{API}/validate", json=body).json()["job"]
    run_worker(Shop.open(shop), until_idle=True, poll_s=0.05)
    found = client.get(f"{API}/jobs/{job}").json()
    assert (found["state"], found["problem"]["error"]) == ("failed", "InputError"), found
    assert "customers.eligible: found" in found["problem"]["message"]
    assert "root:" not in json.dumps(found)
    assert not Path(f"/tmp/{CANARY}").exists()
    assert peak_megabytes() - before < 600
    assert time.monotonic() - began < 60  # its second, and a busy machine's


def test_a_body_of_a_hundred_megabytes_is_refused_without_being_kept(client: TestClient) -> None:
    before = peak_megabytes()
    sent = 0

    def parts() -> object:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"1,2,3\n" * 166_667

    for path in ("tables/orders", "campaigns/first/outcomes"):
        sent = 0
        method = "PUT" if path.startswith("tables") else "POST"
        answer = client.request(method, f"{API}/{path}", content=parts(), headers={"content-type": "text/csv"})
        assert answer.status_code == 413
        assert answer.json()["type"] == "urn:disco:problem:too-large"
    assert peak_megabytes() - before < 400
