"""Real processes that start at the same moment: forked from a server that has imported everything once."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

_SECONDS = 120


def context() -> Any:
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["small_life_warm", "many_processes"])
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # Python 3.11's server looks nowhere else, and says nothing
    return processes


def at_once(step: Callable[..., object], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """`step(*arguments)` in a process per item, all let go together; each result, or the text of its error."""
    processes = context()
    barrier, results = processes.Barrier(len(arguments)), processes.SimpleQueue()
    workers = [
        processes.Process(target=_work, args=(step, place, given, barrier, results))
        for place, given in enumerate(arguments)
    ]
    for worker in workers:
        worker.start()
    found: dict[int, Any] = dict(results.get() for _ in workers)
    for worker in workers:
        worker.join(_SECONDS)
    return [found[place] for place in range(len(arguments))]


def ended(step: Callable[..., object], *arguments: Any, **more: Any) -> int:
    """`step` in a process of its own; its exit code, -N where signal N ended it."""
    process = context().Process(target=step, args=arguments, kwargs=more)
    process.start()
    process.join(_SECONDS)
    assert process.exitcode is not None
    code: int = process.exitcode
    return code


def _work(step: Callable[..., object], place: int, given: tuple[Any, ...], barrier: Any, results: Any) -> None:
    barrier.wait(_SECONDS)
    try:
        results.put((place, step(*given)))
    except Exception as error:  # the test shows it
        results.put((place, f"{type(error).__name__}: {error}"))
