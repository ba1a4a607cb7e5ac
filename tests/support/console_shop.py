"""The demo's shop in small, for a browser to look around in, and a server over it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from made_once import copy_of
from running_shop import ENTRY, ended

from disco.entrypoints.demo.command import run_once

CUSTOMERS = 2_000
PAGES: Mapping[str, str] = {
    "sign-in": "/sign-in",
    "campaigns": "/campaigns",
    "campaign": "/campaigns/D",
    "campaign-running": "/campaigns/E",
    "decisions": "/campaigns/E/decisions",
    "customer": "/campaigns/E/customers?id=c0000017",
    "favoured": "/campaigns/E/favoured?by=country",
    "results": "/campaigns/D/results",
    "results-running": "/campaigns/E/results",
    "plans": "/plan",
    "planner": "/plan/F",
    "frontier": "/plan/F/frontier",
    "launch": "/plan/F/launch",
    "demand": "/demand",
    "learning": "/learning",
    "added": "/added",
    "access": "/access",
    "data": "/data",
    "table": "/data/orders",
    "jobs": "/jobs",
    "audit": "/audit",
    "people": "/people",
    "settings": "/settings",
}
"""Every page of the console on the demo's shop, by a name for its picture."""


def demo_shop(folder: Path, *, customers: int = CUSTOMERS, seed: int = 7) -> Path:
    """Campaigns A to D ended, E running, F drafted; made where it is absent."""
    if not (folder / "disco.yaml").is_file():
        copy_of(_make, customers, seed, at=folder)
    return folder


def _make(folder: Path, customers: int, seed: int) -> None:
    run_once(customers=customers, seed=seed, out=folder, progress=lambda step: None)


@contextmanager
def served_shop(folder: Path, log: Path, *options: str) -> Iterator[dict[str, Any]]:
    """`disco serve` in a process of its own, with its worker, on a free port; what it printed."""
    command = [sys.executable, "-c", ENTRY, "serve", "--shop", str(folder), "--port", "0", "--json", *options]
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        said = ""
        while not said.strip().endswith("}"):
            line = process.stdout.readline()
            assert line, log.read_text(encoding="utf-8")
            said += line
        yield json.loads(said)
    finally:
        ended(process)


def served_demo(folder: Path, log: Path) -> AbstractContextManager[dict[str, Any]]:
    """The same with `--demo`: its link (`demo`) signs an administrator in."""
    return served_shop(folder, log, "--demo")
