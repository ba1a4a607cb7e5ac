"""Steps that end their own process in the middle of their work, as a signal from outside would."""

import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from small_life import FixedClock
from stores import open_store

from disco.entrypoints.python import Shop
from disco.operations import forget as forget_module
from disco.operations.contexts import FeatureCache

INTERRUPTED = 130


def plan_step(folder: Path, plan: Mapping[str, Any], *, stage: str, number: int, temporary: Path) -> None:
    """A plan in buckets of seven customers, until the signal of this number comes at a stage."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
    os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None

    class Small(Shop):
        def cache(self, *, keep: bool = True, builds: bool = True) -> FeatureCache:
            return replace(super().cache(keep=keep, builds=builds), bucket_customers=7)

    def report(done: int, total: int, now: str) -> None:
        if now == stage:
            os.kill(os.getpid(), number)

    try:
        Small.open(folder).plan(plan, report=report)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def forget_step(url: str, folder: Path, customers: Sequence[str]) -> None:
    """Forget customers, and be killed between the commit and the removal of old files."""

    def killed(*_: object) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("killed")

    forget_module._clean = killed  # type: ignore[assignment]
    cache = FeatureCache(folder=folder / "cache")
    forget_module.forget(open_store(url), customers, clock=FixedClock(), cache=cache, folders=[folder], tables="data/")
