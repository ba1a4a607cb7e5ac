"""The `disco` command. Nothing heavy is imported until a command needs it, and Ctrl-C is heard from the start."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

_PAUSE_S = 0.01
_REPEATED_AFTER_S = 3.0  # so long after Ctrl-C, work that goes on has lost it
_INTERRUPTED = 128 + signal.SIGINT  # as shells count; output.py is not imported yet
_OBJECTS_BETWEEN_COLLECTIONS = 200_000  # more than imports make, which are no garbage


def command() -> None:
    """`disco` as a process of its own."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # or it reads the metadata of all installed packages
    sys.meta_path.insert(0, _PandasWhenNeeded())
    try:
        main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is over; the interpreter shuts down in peace


def main() -> None:
    """Run the command line and end in an exit code, with at most a few sentences on stderr (docs/cli.md).

    0: done. 1: refused, or a check failed. 2: wrong usage. 3: a defect of ours. 4: done, but the report could not be
    written. 130: interrupted by Ctrl-C.
    """
    interruption = _Interruption()
    try:
        with interruption:
            try:
                from disco.entrypoints.cli.app import run

                code = run(lambda: interruption.happened)
            except BaseException:
                if not interruption.happened:
                    raise
                code = _INTERRUPTED
    except KeyboardInterrupt:  # heard by Python itself, in the moment before or after
        interruption.happened, code = True, _INTERRUPTED
    if interruption.happened and code:
        sys.stderr.write("Interrupted. What was committed before is kept; everything else was undone.\n")
        code = _INTERRUPTED
    sys.exit(code)


class _PandasWhenNeeded:
    """A finder of modules that refuses the first imports of pandas in a process, and no others.

    PyArrow imports pandas, which takes half a second, at its first conversion of a list, in case it is given a Series.
    No command gives it one. PyArrow tries twice and then does without; where pandas is needed, as for `to_pandas()`, it
    tries again. PySpark tries once and gives up, so it is never refused.
    """

    def __init__(self) -> None:
        self._refusals_left = 2

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas" and "pyspark" not in sys.modules:
            self._refusals_left -= 1
            if not self._refusals_left:
                sys.meta_path.remove(self)
            raise ModuleNotFoundError("pandas is not needed yet", name=fullname)
        return None


class _Interruption:
    """Ctrl-C during a command.

    Libraries turn the exception into others (DuckDB: into a RuntimeError), so that it happened is remembered here. C
    code may lose it altogether, as an import within an extension does. So it is repeated while the command goes on,
    except where an exception is being handled, because that is the cleaning up.
    """

    def __init__(self) -> None:
        self.happened = False
        self._before: tuple[Any, Any] | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
            signal.signal(signal.SIGALRM, self._repeat)
            self._before = signal.signal(signal.SIGINT, self._interrupt), sys.unraisablehook
            sys.unraisablehook = self._lost

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            handler, sys.unraisablehook = self._before
            signal.signal(signal.SIGINT, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.happened:  # for the second time: end at once; every write survives a sudden end
            os._exit(_INTERRUPTED)
        self.happened = True
        signal.setitimer(signal.ITIMER_REAL, _REPEATED_AFTER_S, _REPEATED_AFTER_S)
        raise KeyboardInterrupt

    def _repeat(self, number: int, frame: FrameType | None) -> None:
        if sys.exc_info()[0] is None:
            raise KeyboardInterrupt

    def _lost(self, lost: Any) -> None:
        """An exception that a finalizer could not raise; the interruption is repeated when the finalizer is over."""
        if self.happened and issubclass(lost.exc_type, KeyboardInterrupt):
            self.happened = False
            again = threading.Timer(_PAUSE_S, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
        elif self._before is not None:
            self._before[1](lost)
