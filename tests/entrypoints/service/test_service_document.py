"""The OpenAPI document: kept in docs/, without breaking changes; vendored files are the recorded ones."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from api_changes import breaking_changes

import disco
from disco.entrypoints.service.documents import document, document_text

KEPT = Path(__file__).parents[3] / "docs" / "openapi.json"
VENDOR = Path(disco.__file__).parent / "web" / "vendor"


def test_the_kept_document_is_the_present_one() -> None:
    assert KEPT.read_text(encoding="utf-8") == document_text(), "run ./run docs"


def test_the_document_is_whole() -> None:
    text = json.dumps(document())
    schemas = document()["components"]["schemas"]
    for part in text.split('"$ref": "#/components/schemas/')[1:]:
        assert part.split('"')[0] in schemas
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert operation["responses"]["default"]["content"].keys() == {"application/problem+json"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("path", "is gone"),
        ("parameter", "no longer takes limit"),
        ("reply", "no longer has state"),
        ("request", "needs extra"),
        ("type", "was string and is integer"),
        ("status", "no longer answers 200"),
    ],
)
def test_a_breaking_change_is_named(change: str, said: str) -> None:
    before, after = document(), copy.deepcopy(document())
    campaigns: Any = after["paths"]["/api/v1/campaigns"]["get"]
    entry, asked = after["components"]["schemas"]["CampaignEntry"], after["components"]["schemas"]["PowerRequest"]
    if change == "path":
        del after["paths"]["/api/v1/demand"]
    elif change == "parameter":
        campaigns["parameters"] = [one for one in campaigns["parameters"] if one["name"] != "limit"]
    elif change == "reply":
        del entry["properties"]["state"]
    elif change == "request":
        asked["properties"]["extra"] = {"type": "number"}
        asked.setdefault("required", []).append("extra")
    elif change == "type":
        entry["properties"]["campaign"]["type"] = "integer"
    else:
        del campaigns["responses"]["200"]
    assert any(said in one for one in breaking_changes(before, after)), breaking_changes(before, after)


def test_additions_break_nobody() -> None:
    before, after = document(), copy.deepcopy(document())
    after["paths"]["/api/v1/new"] = {"get": {"responses": {}}}
    after["components"]["schemas"]["CampaignEntry"]["properties"]["more"] = {"type": "string"}
    after["components"]["schemas"]["PowerRequest"]["properties"]["more"] = {"type": "string"}
    assert breaking_changes(before, after) == []
    assert breaking_changes(before, before) == []


def test_every_vendored_file_has_the_recorded_hash() -> None:
    recorded = json.loads((VENDOR / "vendored.json").read_text(encoding="utf-8"))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.iterdir()
        if path.name not in ("README.md", "vendored.json")
    }
    assert found == recorded["sha256"]
    said = (VENDOR / "README.md").read_text(encoding="utf-8")
    files = {"Swagger UI": "swagger-ui-bundle.js", "htmx": "htmx.min.js"}
    for one, (name, file) in zip(recorded["components"], files.items(), strict=True):
        assert one["hashes"] == [{"alg": "SHA-256", "content": found[file]}]
        assert f"{name} {one['version']}" in said
