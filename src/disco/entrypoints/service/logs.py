"""Logs as JSON lines on standard error: what was asked for by the route's template, never by the path.

No id of a customer, no code, no key and no body is ever handed to the log. Of an exception that nobody expected the
kind and the places in the program are written, not its message, which may quote data (DISCO_DEBUG=1 adds it).
"""

import logging
import os
import sys
import traceback
from functools import lru_cache
from typing import Any

import structlog

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
