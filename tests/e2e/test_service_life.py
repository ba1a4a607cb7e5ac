"""docs/service.md as it is printed: a whole campaign's life through `disco.Client` alone, on PostgreSQL."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import disco
from disco.entrypoints.python import Shop
from disco.office.keys.use_cases import create_key

PAGE = Path(__file__).parents[2] / "docs" / "service.md"
CUSTOMERS = 900
_ENTRY = "from disco.entrypoints.cli import command; command()"


@contextmanager
def server(shop: Path, log: Path) -> Iterator[dict[str, Any]]:
    """`disco serve` with its worker, until the end of the block; what it says at its start."""
    command = [sys.executable, "-c", _ENTRY, "serve", "--shop", str(shop), "--port", "0", "--json"]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        try:
            lines = ""
            while not lines.strip().endswith("}"):
                line = process.stdout.readline()
                assert line, log.read_text()
                lines += line
            yield json.loads(lines)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            process.stdout.close()
    assert code == 0, log.read_text()


def test_a_whole_life_through_the_client_on_postgresql(
    tmp_path: Path, new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, log = tmp_path / "shop", tmp_path / "log"
    shop.mkdir()
    (shop / "disco.yaml").write_text(f"database_url: {new_postgres_url()}\nthreads: 1\n")
    here = Shop.open(shop)
    with here.store(missing="create") as store:
        key = create_key(store, name="crm", role="admin", expires=None, clock=here.clock).key
    _simulated(tmp_path / "retailer")
    program = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    monkeypatch.chdir(tmp_path)
    with server(shop, log) as started:
        monkeypatch.setenv("DISCO_URL", started["url"])
        monkeypatch.setenv("DISCO_KEY", key)
        exec(compile(program, str(PAGE), "exec"), {})
        with disco.Client(started["url"], key=key) as client:
            jobs = {str(one.kind): str(one.state) for one in client.jobs().items}
    jobs.pop("contexts")  # of the launch: prepared beside everything else
    assert jobs == dict.fromkeys(("plan", "learn", "train", "validate"), "done")
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {line["status"] for line in lines if line.get("event") == "request"} <= {200, 201, 202, 404}
    text = log.read_text()
    assert key not in text
    assert "order-1" not in text
    # the trial server does not sync, which is named; nothing else is wrong
    assert {one.check for one in here.doctor().failed} <= {"durability"}


def _simulated(folder: Path) -> None:
    command = [
        sys.executable,
        "-c",
        _ENTRY,
        "simulate",
        "--customers",
        str(CUSTOMERS),
        "--seed",
        "7",
        "-o",
        str(folder),
    ]
    subprocess.run(command, check=True, capture_output=True, env=os.environ)
