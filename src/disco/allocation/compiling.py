"""Says when a first call spends its time compiling. Kernels are cached on disk, so it happens once per machine."""

import logging
import time
from typing import Any

from numba.core import event

PATIENCE_SECONDS = 1.0


class CompileNotice(event.Listener):
    """Adds up what compilation takes and says so once, as soon as it has passed a second."""

    def __init__(self) -> None:
        self.depth, self.started, self.seconds, self.told = 0, 0.0, 0.0, False

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.started = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        passed = self.seconds + time.perf_counter() - self.started
        if passed > PATIENCE_SECONDS and not self.told:
            self.told = True
            text = "compiling the allocation for this machine (%.0f s so far); the next start finds it cached"
            logging.getLogger("disco.allocation").warning(text, passed)
        if self.depth == 0:
            self.seconds = passed


NOTICE = CompileNotice()


def listen() -> Any:
    """A context in which compilation is noticed."""
    return event.install_listener("numba:compile", NOTICE)
