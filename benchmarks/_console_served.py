"""The same wait over HTTP: a limit is sent to the planner's page of a served shop, and its numbers come back."""

import json
import re
import subprocess
import sys
import time
from html import unescape
from pathlib import Path

import httpx
import numpy as np

_ENTRY = "from disco.entrypoints.cli import command; command()"
_OPENED_WITHIN_S = 600.0
_FIELD = re.compile(r'<input(?=[^>]* name="([^"]+)")(?=[^>]* value="([^"]*)")[^>]*>')


def measure_served(shop: Path, *, draft: str, count: int) -> dict[str, float]:
    """Seconds from a cap that is sent until its numbers are there, and from then until its intervals are."""
    command = [sys.executable, "-c", _ENTRY, "serve", "--demo", "--shop", str(shop), "--port", "0", "--json"]
    log = (shop.parent / "server.log").open("ab")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server, log:
        try:
            assert server.stdout is not None
            said = ""
            while not said.strip().endswith("}"):
                said += server.stdout.readline()
            served = json.loads(said)
            with httpx.Client(base_url=served["url"], follow_redirects=True, timeout=_OPENED_WITHIN_S) as client:
                client.get(served["demo"]).raise_for_status()
                return _moved(client, f"/plan/{draft}", count=count)
        finally:
            server.terminate()
            server.wait(60)


def _moved(client: httpx.Client, address: str, *, count: int) -> dict[str, float]:
    page = client.get(address).text
    found = re.search(r'"X-CSRF-Token": "(\w+)"', unescape(page))
    assert found is not None
    client.headers.update({"x-csrf-token": found[1], "hx-request": "true"})
    fields = {name: unescape(value) for name, value in _FIELD.findall(page)}
    caps = [name for name in fields if name.endswith("at_most") and name.startswith("depths")]
    ended = time.monotonic() + _OPENED_WITHIN_S
    while "Codes by depth" not in client.get(f"{address}/numbers", params=_asked(fields)).text:  # customers are opened
        assert time.monotonic() < ended, "the customers were not opened in time"
        time.sleep(0.5)
    numbers, intervals = [], []
    for move in range(count + 1):
        fields[caps[0]] = f"{20 + move % 10}%"
        began = time.perf_counter()
        saved = client.post(address, data=fields).raise_for_status().text
        revision = re.search(r'name="revision" value="(\d+)"', saved)
        assert revision is not None, saved[:500]
        fields["revision"] = revision[1]
        shown = client.get(f"{address}/numbers", params=_asked(fields)).raise_for_status().text
        there = time.perf_counter()
        assert "Codes by depth" in shown, shown[:500]
        client.get(f"{address}/intervals", params={"revision": fields["revision"]}).raise_for_status()
        if move:  # the first one has nothing to begin with
            numbers.append(there - began)
            intervals.append(time.perf_counter() - there)
    times = {"": numbers, "intervals_": intervals}
    return {
        f"{name}{label}_s": float(np.quantile(each, share))
        for name, each in times.items()
        for label, share in (("p50", 0.5), ("p95", 0.95))
    }


def _asked(fields: dict[str, str]) -> dict[str, str]:
    return {name: fields.get(name, "") for name in ("revision", "page", "against")}
