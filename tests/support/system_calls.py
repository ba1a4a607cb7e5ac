"""System calls of a running process, traced by strace; one of them may be made to fail."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from disco.records.errors import DiscoError, MissingPartError

_SECONDS = 60.0


@contextmanager
def straced(process_id: int, *options: str, log: Path, drill: str) -> Iterator[None]:
    """Trace the process until it ends, or until the block does; `options` of strace say which calls, and what fails."""
    command = ["strace", "-p", str(process_id), "-o", str(log), *options]
    try:
        tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        fix = "On Debian: apt-get install strace."
        raise MissingPartError(drill, found="no strace", expected="strace", fix=fix) from error
    assert tracer.stderr is not None
    try:
        said = tracer.stderr.readline()  # "Process N attached": from here on nothing is missed
        if "attached" not in said:
            raise DiscoError(drill, found=said.strip(), expected="a process that may be traced")
        yield
    finally:
        try:
            tracer.wait(2)
        except subprocess.TimeoutExpired:
            tracer.send_signal(signal.SIGINT)  # lets the process go on
            tracer.wait(_SECONDS)
        tracer.stderr.close()
