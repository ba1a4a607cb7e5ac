"""Importing this lives a small life once, so that processes forked afterwards find every library and kernel loaded."""

from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg  # noqa: F401 - loaded for those who follow
import pyarrow.parquet  # noqa: F401
from small_life import ingest_small, late_code, launch_small, outcomes_of

from disco.entrypoints import python  # noqa: F401
from disco.features import builder  # noqa: F401
from disco.store import Store

with TemporaryDirectory(prefix="disco-warm-") as folder:
    store = Store.embedded(Path(folder, "warm.db"))
    launch_small(store, customers=40, reserve=4)
    ingest_small(store, outcomes_of(store))
    late_code(store, 10_000)
    store.close()
