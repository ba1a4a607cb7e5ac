"""Ways to die: at a random moment or at the n-th call of a kind; the process, its session in the server, the server."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from disco.records.errors import DiscoError, MissingPartError

_SECONDS = 60


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
    Kill("sqlite", "process", "fsync"),  # of an artefact and of its folder, in a launch
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


@contextmanager
def traced(process_id: int, call: str, log: Path, *, die_at: int | None = None) -> Iterator[None]:
    """Trace the calls of a running process; at its `die_at`-th the process is killed before the call is made."""
    inject = [f"--inject={call}:signal=SIGKILL:when={die_at}"] if die_at else []
    command = ["strace", "-p", str(process_id), f"--trace={call}", "-o", str(log), *inject]
    try:
        tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        fix = "On Debian: apt-get install strace."
        raise MissingPartError("crash drill", found="no strace", expected="strace", fix=fix) from error
    assert tracer.stderr is not None
    try:
        said = tracer.stderr.readline()  # "Process N attached": from here on nothing is missed
        if "attached" not in said:
            raise DiscoError("crash drill", found=said.strip(), expected="a process that may be traced")
        yield
    finally:
        try:
            tracer.wait(2)
        except subprocess.TimeoutExpired:
            tracer.send_signal(signal.SIGINT)  # lets the process go on
            tracer.wait(_SECONDS)
        tracer.stderr.close()


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
