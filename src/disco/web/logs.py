"""What the service says about itself: logs as JSON lines on standard error, and figures for Prometheus.

Both name what was asked for by the route's template, never by the path.

No id of a customer, no code, no key and no body is ever handed to the log. Of an unhandled exception the
kind and the places in the program are written, not its message, which may quote data (DISCO_DEBUG=1 adds it).
"""

import logging
import os
import sys
import traceback
from functools import lru_cache
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

stream: Any = None
"""Where the lines go; None: standard error."""
_PROCESSORS: tuple[Any, ...] = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.JSONRenderer(),
)


def forward_libraries() -> None:
    """Write warnings and errors of the libraries in the same form."""
    root = logging.getLogger()
    root.handlers, root.level = [_Forwarded()], logging.WARNING
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers, library.propagate = [], True


class _Forwarded(logging.Handler):
    """What a library logs, by its name and level; of an exception, its kind and places."""

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"library": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            facts |= places_of(record.exc_info[1])
            message = "a library reported an exception"
        else:
            message = str(record.msg)  # without its arguments: they may be data
        log().warning(message, **facts)


def log() -> Any:
    """The logger of the service."""
    return _logger(stream or sys.stderr)


@lru_cache(maxsize=1)
def _logger(place: Any) -> Any:
    return structlog.wrap_logger(structlog.WriteLogger(place), processors=_PROCESSORS).bind()


def places_of(error: BaseException) -> dict[str, Any]:
    """The kind of an exception and where in the program it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    facts: dict[str, Any] = {
        "exception": type(error).__name__,
        "places": [f"{frame.filename.rsplit('/', 2)[-2]}/{frame.name}:{frame.lineno}" for frame in frames[-8:]],
    }
    if os.environ.get("DISCO_DEBUG") == "1":
        facts["traceback"] = "".join(traceback.format_exception(error))
    return facts


# ---- figures ----

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The figures of one application; a registry of its own, so that two applications in one process stay apart."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._found: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        labels = ("method", "route", "status")
        self._requests = Counter(
            "disco_requests_total", "Requests that were answered.", labels, registry=self._registry
        )
        self._seconds = Histogram(
            "disco_request_seconds",
            "Seconds from the request to the end of its reply.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.in_progress = Gauge(
            "disco_requests_in_progress", "Requests that are being answered.", registry=self._registry
        )

    def answered(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. route: the template, or a word for what has none."""
        method = method if method in _METHODS else "OTHER"  # a caller may send any word
        counted, timed = self._of(method, route, status)
        counted.inc()
        timed.observe(seconds)

    def _of(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        """The figures of one kind of request, found once: looking them up takes longer than counting."""
        found = self._found.get((method, route, status))
        if found is None:
            found = self._requests.labels(method, route, str(status)), self._seconds.labels(method, route)
            self._found[method, route, status] = found
        return found

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
