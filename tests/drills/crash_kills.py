"""Ways to die: at a random moment or at the n-th call of a kind; the process, its session in the server, the server."""

import os
import re
import signal
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from system_calls import straced


@dataclass(frozen=True, slots=True)
class Kill:
    """`victim` dies by SIGKILL: at a random moment, or on entering `call`."""

    database: Literal["sqlite", "postgresql"]
    victim: Literal["process", "session", "server"]
    call: str | None = None

    def __str__(self) -> str:
        return f"{self.database}: {self.victim}, {f'at {self.call}' if self.call else 'at a random moment'}"


KILLS = (
    Kill("sqlite", "process"),
    Kill("sqlite", "process", "fsync"),  # of an artefact and of its folder: launches and large batches
    Kill("sqlite", "process", "rename"),  # an artefact gets its name
    Kill("sqlite", "process", "pwrite64"),  # pages of the journal and the file
    Kill("sqlite", "process", "fdatasync"),  # of both, and of the folder after the journal is gone
    Kill("sqlite", "process", "unlink"),  # of the journal: the commit itself
    Kill("postgresql", "process"),
    Kill("postgresql", "process", "sendto"),  # every message to the server, the commit among them
    Kill("postgresql", "session"),
    Kill("postgresql", "session", "pwrite64"),  # pages and the write-ahead log
    Kill("postgresql", "session", "fdatasync"),  # of the log: the commit itself
    Kill("postgresql", "server"),
)


def traced(process_id: int, call: str, log: Path, *, die_at: int | None = None) -> AbstractContextManager[None]:
    """Trace the calls of a running process; at its `die_at`-th the process is killed before the call is made."""
    inject = [f"--inject={call}:signal=SIGKILL:when={die_at}"] if die_at else []
    return straced(process_id, f"--trace={call}", *inject, log=log, drill="crash drill")


def killed_at(log: Path, call: str) -> bool:
    """Whether the trace shows that the process died at that call."""
    text = log.read_text(errors="replace")
    return bool(re.search(rf"{call}\(.*", text)) and "killed by SIGKILL" in text


def kill_after(process_id: int, seconds: float) -> bool:
    """SIGKILL after a while; whether there was still somebody to kill."""
    time.sleep(seconds)
    try:
        os.kill(process_id, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
