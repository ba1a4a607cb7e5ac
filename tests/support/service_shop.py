"""A small simulated shop after its first campaign, made by the commands themselves, in this process."""

import contextlib
import io
import sys
from pathlib import Path

from made_once import copy_of
from two_campaigns import FIRST, SECOND

from disco.entrypoints import cli


def learned(shop: Path) -> Path:
    """A shop with one campaign, which was random: launched, answered, ingested and learned."""
    return copy_of(_make, at=shop)


def _make(shop: Path) -> None:
    shop.mkdir(parents=True)
    (shop / "first.yaml").write_text(FIRST)
    (shop / "second.yaml").write_text(SECOND)
    data, codes, outcomes = shop / "data", shop / "codes.parquet", shop / "outcomes.parquet"
    network = shop / "context.safetensors"
    done("simulate", "--customers", 900, "--seed", 7, "-o", data)
    done("train", "context", "--tables", data, "--window-start", "2025-06-01", "--max-epochs", 2, "-o", network)
    done("plan", shop / "first.yaml", "--shop", shop)
    done("launch", "first", "--shop", shop)
    done("export", "first", "-o", codes, "--shop", shop)
    done("respond", data, codes, "-o", outcomes)
    done("ingest", "first", outcomes, "--shop", shop)
    done("learn", "first", "--as-of", "2025-10-03", "--shop", shop)


def answered(shop: Path) -> Path:
    """The same after its second campaign, decided with control and holdout, was answered and ingested."""
    return copy_of(_make_answered, at=shop)


def _make_answered(shop: Path) -> None:
    learned(shop)
    codes, outcomes = shop / "codes.parquet", shop / "second.parquet"
    done("plan", shop / "second.yaml", "--shop", shop)
    done("launch", "second", "--shop", shop)
    done("export", "second", "-o", codes, "--shop", shop)
    done("respond", shop / "data", codes, "-o", outcomes)
    done("ingest", "second", outcomes, "--shop", shop)


def done(*arguments: object) -> None:
    """Run a `disco` command that succeeds, in this process."""
    before, sys.argv = sys.argv, ["disco", *map(str, arguments)]
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            cli.main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(shown.getvalue()) from None
    finally:
        sys.argv = before
