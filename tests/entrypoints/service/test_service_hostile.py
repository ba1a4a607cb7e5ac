"""Hostile input in every field, and requests made from the OpenAPI document: never a server error, nothing is run."""

import io
import resource
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from fastapi.testclient import TestClient
from service_api_drill import CANARY, PAYLOADS, attack, attacks, generated

from disco.entrypoints.service.documents import document

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
    assert list(generated(client, document(), examples=5)) == []


def test_files_that_unpack_to_more_than_memory_are_refused(client: TestClient) -> None:
    sink = io.BytesIO()
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array(["x" * 200_000]))
    pq.write_table(pa.table({"order_id": text, "customer_id": text}), sink, compression="zstd")
    bomb = sink.getvalue()
    assert len(bomb) < 1_000_000
    before = peak_megabytes()
    headers = {"content-type": "application/vnd.apache.parquet"}
    for method, path in (("PUT", "tables/orders"), ("POST", "campaigns/first/outcomes")):
        answer = client.request(method, f"{API}/{path}", content=bomb, headers=headers)
        assert answer.status_code == 422, answer.text[:500]
        assert len(answer.content) < 100_000
    assert peak_megabytes() - before < 600


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
