"""Conditions of plans, each evaluated in a process of its own that is killed when it takes too long.

A condition is SQL of whoever writes a plan, and DuckDB cannot interrupt a function within 2,048 rows. So it runs in a
child with limits of memory and processor time, and never in a server or worker. The rows go to the child in a temporary
file, and the answer comes back in another. Both are open files without a name, whose descriptors are sent over a
socket, so that neither side waits for the other to read. The child has nothing else: no socket or file of ours, and no
secret of the environment. It ends when the parent's end of the socket is closed, as also happens where that was killed.

One child stays idle for the next condition. Further ones are started while it is busy: `_AT_ONCE` in all, one for each
caller, so that nobody can keep others waiting by conditions of their own.
"""

import json
import math
import mmap
import os
import resource
import select
import signal
import socket
import subprocess  # nosec B404
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from disco.records.errors import ServiceError

if TYPE_CHECKING:
    import pyarrow as pa

    from disco.features.eligibility import Question

_AT_ONCE = 4  # children of this process that are busy
_IDLE = 1  # children that wait for the next condition
_LOOKS_S = 0.05  # between two looks at whether the work has been stopped
_PATIENCE_S = 2.0  # a condition that takes longer lets other work of this process go on
_START_S = 60.0  # for a child that is started; a second on an idle machine
_WAIT_S, _REQUEST_S = 5.0, 20.0  # for a child, and for the answer, in a request: a server must end within 30 s
_ROWS_PER_BATCH = 1 << 16
_REPLY_BYTES = 1 << 16
_LONGEST_REASON = 2_000  # characters
_BEGUN = b"."
_NO_MEMORY = 77  # exit code
_UNCOUNTED_BYTES = 512 << 20  # that a child may take beside what DuckDB counts, such as text made by repeat()
_NICE = 5  # requests and jobs come first
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONHOME")
_CHILD = "import sys; sys.path[:] = {path!r}; from disco.adapters.conditions import serve_conditions as serve; serve()"


class Turn:
    """A piece of work's hold of a lock that one of several may have; it leaves the lock while its condition is slow."""

    def __init__(self, lock: threading.Lock, *, is_held: bool = False) -> None:
        self._lock, self._is_held = lock, is_held

    def take(self, watch: Callable[[], None] | None = None) -> None:
        """Wait for the lock; what `watch` raises ends the waiting."""
        while not self._lock.acquire(timeout=_LOOKS_S):
            if watch is not None:
                watch()
        self._is_held = True

    def leave(self) -> None:
        """Let others have the lock; nothing where it is not held."""
        if self._is_held:
            self._is_held = False
            self._lock.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Evaluates the conditions of one caller."""

    caller: str = ""
    """A person or key. Conditions of one caller are evaluated one after the other, whatever others ask."""
    watch: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Called now and then; what it raises kills the child."""
    turn: Turn | None = field(default=None, repr=False, compare=False)
    """Left while a condition is slow."""

    def evaluate(self, customers: Any, question: "Question") -> "pa.Table":
        """The answer to a question about an Arrow table or dataset.

        RefusedConditionError where DuckDB refuses the condition, or where it is beyond its limits.
        """
        from disco.features.eligibility import RefusedConditionError

        is_aside, refusal = False, ""
        is_request = self.watch is None and self.caller != ""  # somebody waits for the reply, and nothing can stop it
        if is_request:
            question = replace(question, most_seconds=min(_REQUEST_S, question.most_seconds))

        def look() -> None:
            nonlocal is_aside
            if self.watch is not None:
                self.watch()
            if self.turn is not None and not is_aside and time.monotonic() - began > _PATIENCE_S:
                is_aside = True
                self.turn.leave()

        with TemporaryFile() as rows, TemporaryFile() as answer:
            _write_rows(customers, question, rows, self.watch)
            began = time.monotonic()
            try:
                with _CHILDREN.one(self.caller, look, wait_s=_WAIT_S if is_request else math.inf) as child:
                    child.ask(question, rows, answer, look)
            except RefusedConditionError as error:
                refusal = str(error)
            if is_aside and self.turn is not None:  # not where the work has been stopped
                self.turn.take(self.watch)
            if refusal:
                raise RefusedConditionError(refusal)
            return _read_answer(answer)


def _busy() -> ServiceError:
    fix = "Try again in a minute."
    return ServiceError("Too many conditions of plans are being evaluated", status=503, kind="busy", fix=fix)


# ---- the parent's side ----


def _write_rows(customers: Any, question: "Question", file: IO[bytes], watch: Callable[[], None] | None) -> None:
    """The question with the whole schema, and then the rows of the columns that the answer may depend on."""
    import pyarrow as pa

    schema = customers.schema.remove_metadata()
    names = [name for name in schema.names if question.needs(name)]
    with pa.ipc.new_stream(file, schema.with_metadata({"question": json.dumps(asdict(question))})):
        pass
    few = pa.schema([schema.field(name) for name in names])
    with pa.ipc.new_stream(file, few) as writer:
        if isinstance(customers, pa.Table):
            batches = iter(customers.select(names).to_batches(max_chunksize=_ROWS_PER_BATCH))
        else:
            ahead = {"batch_readahead": 2, "fragment_readahead": 1}  # memory holds a few batches
            batches = customers.to_batches(columns=names, batch_size=_ROWS_PER_BATCH, **ahead)
        for batch in batches:
            if watch is not None:
                watch()
            writer.write_batch(batch.replace_schema_metadata(None))
    file.flush()


def _read_answer(file: IO[bytes]) -> "pa.Table":
    import pyarrow as pa

    file.seek(0)
    return pa.ipc.open_stream(file).read_all()


class _Child:
    """A process that evaluates one condition after another."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        command = [sys.executable, "-c", _CHILD.format(path=[place or os.getcwd() for place in sys.path])]
        self.is_usable = False
        """Whether it can be asked again."""
        with theirs:
            self._process = subprocess.Popen(  # nosec B603
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )

    def ask(self, question: "Question", rows: IO[bytes], answer: IO[bytes], look: Callable[[], None]) -> None:
        """Have the answer written. look: what it raises ends the waiting.

        RefusedConditionError, after which a child is used again only where DuckDB said why.
        """
        from disco.features.eligibility import RefusedConditionError

        reply, begun, deadline = b"", False, time.monotonic() + _START_S
        with suppress(ConnectionError):
            socket.send_fds(self._socket, [b"?"], [rows.fileno(), answer.fileno()])
        while not reply.endswith(b"\n"):
            if select.select([self._socket], [], [], _LOOKS_S)[0]:
                part = self._received()
                if not part:
                    raise RefusedConditionError(self._why_ended(question)) if begun else _not_started()
                if not begun:
                    begun, deadline = True, time.monotonic() + question.most_seconds
                reply += part
            if time.monotonic() > deadline:
                raise RefusedConditionError(question.too_slow) if begun else _not_started()
            look()
        found: dict[str, str] = json.loads(reply.removeprefix(_BEGUN))
        if "defect" in found:
            raise RuntimeError(found["defect"])
        if "refusal" in found:
            self.is_usable = found["refusal"] != question.too_large  # what it took may be in pieces
            raise RefusedConditionError(found["refusal"])
        self.is_usable = True

    def _received(self) -> bytes:
        try:
            return self._socket.recv(_REPLY_BYTES)
        except ConnectionError:
            return b""

    def _why_ended(self, question: "Question") -> str:
        code = self._process.wait()
        if code == -signal.SIGXCPU:
            return question.too_much_work
        if code == _NO_MEMORY:
            return question.too_large
        # where it gets no memory, DuckDB may also abort or write to address 0, and the system may kill the process
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"{question.too_large}, or DuckDB failed on it ({ended})"

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()


def _not_started() -> ServiceError:
    words = "The process that evaluates conditions of plans could not be started"
    return ServiceError(words, status=503, kind="busy", fix="Look at the memory of this machine, and try again.")


class _Children:
    """The children of this process. Threads may share it."""

    def __init__(self) -> None:
        self._lock, self._callers, self._idle = threading.Lock(), list[str](), list[_Child]()

    @contextmanager
    def one(self, caller: str, look: Callable[[], None], *, wait_s: float) -> Iterator[_Child]:
        """A child for one condition. It is killed at the end, unless it can be used again."""
        end = time.monotonic() + wait_s
        while not self._has_begun(caller):
            look()
            if time.monotonic() > end:
                raise _busy()
            time.sleep(_LOOKS_S)
        child = None
        try:
            child = self._idle_one() or _Child()
            yield child
        finally:
            with self._lock:
                self._callers.remove(caller)
                is_kept = child is not None and child.is_usable and child.is_alive() and len(self._idle) < _IDLE
                if child is not None and is_kept:
                    self._idle.append(child)
            if child is not None and not is_kept:
                child.kill()

    def _has_begun(self, caller: str) -> bool:
        with self._lock:
            if len(self._callers) >= _AT_ONCE or (caller and caller in self._callers):
                return False
            self._callers.append(caller)
            return True

    def _idle_one(self) -> _Child | None:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        if child is not None and not child.is_alive():
            child.kill()
            return None
        if child is not None:
            child.is_usable = False  # until it has answered
        return child


_CHILDREN = _Children()


# ---- the child's side ----


def serve_conditions() -> None:
    """Evaluate the conditions that come over standard input, a socket, until that is closed."""
    import pyarrow as pa
    import pyarrow.dataset

    for number in (signal.SIGINT, signal.SIGTERM):  # the parent decides when it ends
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICE)
    with suppress(OSError):  # the first to go where the machine has no memory left
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with socket.socket(fileno=0) as parent:
        threading.Thread(target=_end_with, args=(parent.fileno(),), daemon=True).start()
        while True:
            asked, files, _, _ = socket.recv_fds(parent, 1, 2)
            if not asked:
                return
            with os.fdopen(files[0], "rb") as rows, os.fdopen(files[1], "wb") as answer:
                try:
                    reply = _reply(rows, answer, lambda: parent.sendall(_BEGUN))
                except MemoryError:
                    os._exit(_NO_MEMORY)
                except Exception as error:
                    reply = {"defect": f"{type(error).__name__}: {error}"[:_LONGEST_REASON]}
            parent.sendall(json.dumps(reply).encode() + b"\n")


def _end_with(parent: int) -> None:
    """End this process when the parent's end of the socket is closed, whatever DuckDB is doing."""
    waiting = select.poll()
    waiting.register(parent, getattr(select, "POLLRDHUP", 0))
    waiting.poll()
    os._exit(0)


def _reply(rows: IO[bytes], answer: IO[bytes], begun: Callable[[], None]) -> dict[str, str]:
    import pyarrow as pa

    from disco.features.eligibility import Question, RefusedConditionError, rows_where

    source = pa.BufferReader(pa.py_buffer(mmap.mmap(rows.fileno(), 0, prot=mmap.PROT_READ)))
    asked = pa.ipc.open_stream(source)
    asked.read_all()
    question = Question(**json.loads(asked.schema.metadata[b"question"]))
    whole, customers = asked.schema.remove_metadata(), pa.ipc.open_stream(source).read_all()
    begun()
    try:
        with (
            _limited(question),
            rows_where(customers, question, whole=whole) as batches,
            pa.ipc.new_stream(answer, batches.schema) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
    except RefusedConditionError as error:
        return {"refusal": str(error)[:_LONGEST_REASON]}
    return {}


@contextmanager
def _limited(question: "Question") -> Iterator[None]:
    """Bound the memory that this process may take from now on, and its processor time, where the system can."""
    memory = resource.getrlimit(resource.RLIMIT_AS)
    time_limit = resource.getrlimit(resource.RLIMIT_CPU)[1]
    used = resource.getrusage(resource.RUSAGE_SELF)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = math.ceil(used.ru_utime + used.ru_stime) + question.most_cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, time_limit))
    with suppress(OSError):  # without /proc, DuckDB's own limit is the only one
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + question.most_bytes + _UNCOUNTED_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most if memory[1] < 0 else min(most, memory[1]), memory[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, memory)
