"""A small simulated shop after its first campaign, made by the commands themselves."""

import subprocess
import sys
from pathlib import Path

from two_campaigns import FIRST, SECOND

_ENTRY = "from disco.entrypoints.cli import command; command()"


def learned(shop: Path) -> Path:
    """A shop with one campaign: launched, answered, ingested and learned."""
    shop.mkdir(parents=True)
    (shop / "first.yaml").write_text(FIRST)
    (shop / "second.yaml").write_text(SECOND)
    data, codes, outcomes = shop / "data", shop / "codes.parquet", shop / "outcomes.parquet"
    network = shop / "context.safetensors"
    for words in (
        ("simulate", "--customers", "900", "--seed", "7", "-o", data),
        ("train", "context", "--tables", data, "--window-start", "2025-06-01", "--max-epochs", "2", "-o", network),
        ("plan", shop / "first.yaml", "--shop", shop),
        ("launch", "first", "--shop", shop),
        ("export", "first", "-o", codes, "--shop", shop),
        ("respond", data, codes, "-o", outcomes),
        ("ingest", "first", outcomes, "--shop", shop),
        ("learn", "first", "--as-of", "2025-10-03", "--shop", shop),
    ):
        subprocess.run([sys.executable, "-c", _ENTRY, *map(str, words)], check=True, capture_output=True)
    return shop
