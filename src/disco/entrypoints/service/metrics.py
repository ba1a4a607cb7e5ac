"""Figures for Prometheus, by route template: requests, their time, what is in progress, and what was refused."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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
