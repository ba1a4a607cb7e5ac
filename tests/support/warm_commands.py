"""`disco` commands in forked processes that find every library and kernel loaded: what they did, said and used."""

import atexit
import gc
import importlib
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from disco.entrypoints import cli

_POLL_SECONDS = 0.003


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may use; more than that is a finding."""

    wall_seconds: float = 300.0
    cpu_seconds: int | None = None
    address_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    """The exit status; -N: ended by signal N."""
    out: str
    err: str
    seconds: float
    peak_bytes: int
    """The most memory it held, what it shares with the process that forked it included."""
    timed_out: bool = False

    @property
    def shows_traceback(self) -> bool:
        return "Traceback (most recent call last)" in self.out + self.err


def warm() -> None:
    """Import all modules of disco and what they load lazily; call it once, before the first fork.

    OpenMP's threads do not survive a fork, so there must be none: OMP_NUM_THREADS is set before torch is there.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    import disco

    for module in pkgutil.walk_packages(disco.__path__, "disco."):
        if ".migrations" not in module.name:
            importlib.import_module(module.name)
    for name in ("torch", "duckdb", "pyarrow.parquet", "pyarrow.csv", "pyarrow.dataset", "pandas", "rich.progress"):
        importlib.import_module(name)


def run_here(arguments: Sequence[str], *, cwd: Path) -> int:
    """Run a command in this process, so that what it loads stays loaded; its exit status. Its output is not kept."""
    before, sys.argv = (os.getcwd(), sys.argv), ["disco", *arguments]
    os.chdir(cwd)
    with open(os.devnull, "w") as nowhere:
        streams, sys.stdout = sys.stdout, nowhere
        try:
            return _ended_as(cli.main)
        finally:
            sys.stdout = streams
            os.chdir(before[0])
            sys.argv = before[1]


BEFORE_THE_PROGRAM = 70
"""The exit code of a fork that ended before its command was called."""


class Forked:
    """A command that runs in a fork of this process, held before its first step until `go`."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        said: Path,
        environment: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        at_start: Callable[[], None] | None = None,
    ) -> None:
        """`said`: a folder for what it prints."""
        self._limits = limits or Limits()
        self._said = (said / "stdout", said / "stderr")
        ready, self._go = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with self._said[0].open("wb") as out, self._said[1].open("wb") as err:
            self.process_id = os.fork()
            if self.process_id == 0:
                os.close(self._go)
                self._child(arguments, cwd, environment or {}, ready, (out, err), at_start)
        os.close(ready)
        self._started: float | None = None

    def go(self) -> None:
        if self._started is None:
            self._started = time.monotonic()
            os.write(self._go, b"g")
            os.close(self._go)

    def interrupt(self) -> None:
        os.kill(self.process_id, signal.SIGINT)

    def poll(self) -> tuple[int, resource.struct_rusage] | None:
        found, status, used = os.wait4(self.process_id, os.WNOHANG)
        return (os.waitstatus_to_exitcode(status), used) if found else None

    def wait(self) -> Ended:
        self.go()
        assert self._started is not None
        end, timed_out = self._started + self._limits.wall_seconds, False
        while (found := self.poll()) is None:
            if time.monotonic() > end:
                os.kill(self.process_id, signal.SIGKILL)
                timed_out = True
            time.sleep(_POLL_SECONDS)
        code, used = found
        return Ended(
            code=code,
            out=self._said[0].read_text(errors="replace"),
            err=self._said[1].read_text(errors="replace"),
            seconds=time.monotonic() - self._started,
            peak_bytes=used.ru_maxrss * 1024,
            timed_out=timed_out or code == -signal.SIGXCPU,
        )

    def _child(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        ready: int,
        streams: tuple[IO[bytes], IO[bytes]],
        at_start: Callable[[], None] | None,
    ) -> None:
        """Never returns: from here on this is the command's process."""
        code = BEFORE_THE_PROGRAM
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for ours, theirs in ((nothing, 0), (streams[0].fileno(), 1), (streams[1].fileno(), 2)):
                os.dup2(ours, theirs)
            os.chdir(cwd)
            os.environ.update(environment)
            tempfile.tempdir = None  # the parent's choice was remembered; TMPDIR is another one now
            if self._limits.cpu_seconds is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (self._limits.cpu_seconds, self._limits.cpu_seconds + 5))
            if self._limits.address_bytes is not None:
                resource.setrlimit(resource.RLIMIT_AS, (self._limits.address_bytes, self._limits.address_bytes))
            if at_start is not None:
                at_start()
            gc.freeze()
            sys.argv = ["disco", *arguments]
            os.read(ready, 1)
            code = _last_words(_ended_as(cli.command))
        finally:
            os._exit(code)


def _ended_as(program: Callable[[], None]) -> int:
    """A program as the interpreter runs it: the exit status, with tracebacks on stderr."""
    try:
        program()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except BaseException as error:
        traceback.print_exc()
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _last_words(code: int) -> int:
    """What the interpreter does before it ends: threads joined, exit functions called, streams flushed."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120
    return code
