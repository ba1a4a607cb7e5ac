"""Parts of others that we ship are, byte for byte, the ones that were recorded."""

import hashlib
import json
from pathlib import Path

import disco.views

VENDOR = Path(disco.views.__file__).parent / "vendor"
RECORDED = json.loads((VENDOR / "vendored.json").read_text(encoding="utf-8"))
OURS = {"README.md", "vendored.json"}


def test_every_vendored_file_has_the_recorded_hash() -> None:
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir() if path.name not in OURS
    }
    assert found == RECORDED["sha256"]


def test_the_components_are_those_of_the_readme_with_the_hash_of_their_file() -> None:
    (echarts,) = RECORDED["components"]
    assert echarts["hashes"] == [{"alg": "SHA-256", "content": RECORDED["sha256"]["echarts.common.min.js"]}]
    assert f"ECharts {echarts['version']}" in (VENDOR / "README.md").read_text(encoding="utf-8")
    assert echarts["version"] in (VENDOR / "echarts.common.min.js").read_text(encoding="utf-8")
