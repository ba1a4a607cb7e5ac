"""Files and SQLite databases that are not forced to the disk: tests lose no power.

What a crash leaves is tested by the drills, whose processes sync as they do in production.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from disco.store import sqlite


@contextmanager
def quick_disks() -> Iterator[None]:
    """Until the end of the context, in this process."""
    unsynced = tuple("synchronous = OFF" if "synchronous" in one else one for one in sqlite._PRAGMAS)
    assert unsynced != sqlite._PRAGMAS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "_PRAGMAS", unsynced)
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
