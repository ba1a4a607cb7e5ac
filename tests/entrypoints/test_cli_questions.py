"""Questions to a shop that are answered at once: what only planning, learning and pages need is not even imported.

Time is not asserted here; `./run bench questions` measures it.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

Run = Callable[..., tuple[int, str, str]]
HEAVY = {"numba", "torch", "duckdb", "sklearn", "lightgbm", "highspy", "jinja2", "scipy.optimize", "scipy.stats"} | {
    "pandas.core",  # an import that is refused is listed, too, but only with its own name
    *("alembic", "psycopg", "sqlalchemy.dialects.postgresql", "sqlalchemy.orm", "rich", "matplotlib"),
    *("disco.allocation", "disco.features", "disco.views.charts", "disco.views.page", "disco.entrypoints.cli.shop"),
}
TABLES = {"disco.adapters.tables", "pyarrow.parquet", "pyarrow.dataset", "pyarrow.csv"} | {
    f"disco.records.{name}" for name in ("validation", "table_rules", "cells")
}
_DISCO = "from disco.entrypoints.cli import command; command()"


def imported(*arguments: object) -> tuple[set[str], str]:
    """What `disco ARGUMENTS`, as a process of its own, imports and prints."""
    asked = [sys.executable, "-X", "importtime", "-c", _DISCO, *map(str, arguments)]
    done = subprocess.run(asked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return set(re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE)), done.stdout


def test_short_questions_import_nothing_heavy(disco: Run, shop: Path) -> None:
    for step in (("plan", shop / "second.yaml"), ("launch", "second"), ("export", "second", "-o", shop / "c.parquet")):
        assert disco(*step, "--shop", shop)[0] == 0
    customers = pq.read_table(shop / "c.parquet")["customer_id"].to_pylist()
    explained = [disco("explain", "second", customer, "--shop", shop)[1] for customer in customers[:20]]
    decided = next(place for place, text in enumerate(explained) if "Baskets the policy used" in text)
    questions = {
        ("campaigns",): HEAVY | TABLES | {"scipy", "disco.belief", "disco.evaluation"},
        ("explain", "second", customers[decided]): HEAVY | TABLES | {"scipy", "disco.evaluation"},
        ("belief",): HEAVY | TABLES | {"disco.evaluation"},
        ("results", "second", "--as-of", "2025-10-20"): HEAVY | {"disco.belief"},  # orders are read from a table
    }
    for question, unneeded in questions.items():
        modules, shown = imported(*question, "--shop", shop)
        assert "disco.entrypoints.cli.app" in modules
        assert unneeded.isdisjoint(modules), (question, unneeded & modules)
        assert shown == disco(*question, "--shop", shop)[1]  # computed by compiled code, in this process
    assert shown


def test_pandas_is_refused_to_pyarrows_first_conversion_and_to_nothing_else() -> None:
    script = """
import sys
from disco.entrypoints.cli import _PandasWhenNeeded
sys.meta_path.insert(0, _PandasWhenNeeded())
import pyarrow as pa
table = pa.table({"x": [1, 2]})
assert "pandas" not in sys.modules
assert table.to_pandas()["x"].tolist() == [1, 2]
import pandas as pd
assert pa.table({"x": pd.Series([1.5])})["x"].to_pylist() == [1.5]
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pandas_is_not_refused_to_pyspark() -> None:
    script = """
import sys
sys.modules["pyspark"] = type(sys)("pyspark")  # it is there, whether it is installed or not
from disco.entrypoints.cli import _PandasWhenNeeded
sys.meta_path.insert(0, _PandasWhenNeeded())
import pandas
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
