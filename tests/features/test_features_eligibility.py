"""A plan's condition sees one table of customers and nothing else, and its work is bounded."""

import resource
import time
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from disco.features import eligibility
from disco.features.eligibility import eligible_ids
from disco.records.errors import InputError, TableError

CUSTOMERS = pa.table({"customer_id": [f"c{number:04d}" for number in range(3000)], "spend": np.arange(3000) / 10})


def test_a_condition_may_use_all_of_sql_on_its_own_table() -> None:
    assert len(eligible_ids(CUSTOMERS, "spend > (SELECT avg(spend) FROM customers)", name="t")) == 1500
    assert eligible_ids(CUSTOMERS, "customer_id LIKE '%0007'", name="t").to_pylist() == ["c0007"]


@pytest.mark.parametrize(
    "escape",
    [
        "customer_id IN (SELECT content FROM read_text('{file}'))",
        "customer_id IN (SELECT column0 FROM read_csv('{file}'))",
        "customer_id IN (SELECT column0 FROM '{file}')",
        "EXISTS (SELECT * FROM read_parquet('{file}'))",
        "EXISTS (SELECT * FROM glob('/etc/*'))",
        "EXISTS (SELECT * FROM read_blob('{file}'))",
        "EXISTS (SELECT * FROM sqlite_scan('{file}', 'x'))",
        "true); COPY customers TO '{file}.out'; SELECT (true",
        "true; ATTACH '{file}.db' AS other",
        "true; INSTALL httpfs; LOAD httpfs",
        "true; SET enable_external_access = true",
        "true; RESET lock_configuration",
        "true; PRAGMA disable_external_access",
        "EXISTS (SELECT * FROM secret)",  # a variable of the program: DuckDB would look for it
        "getenv('HOME') <> ''",
        "EXISTS (SELECT * FROM query('COPY customers TO ''{file}.out'''))",
    ],
)
def test_a_condition_reaches_no_file_no_setting_and_no_variable(tmp_path: Path, escape: str) -> None:
    secret = pa.table({"x": ["secret"]})
    file = tmp_path / "secret.txt"
    file.write_text("secret\n")
    with pytest.raises(InputError, match=r"customers\.eligible"):
        eligible_ids(CUSTOMERS, escape.replace("{file}", str(file)), name="t")
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]
    assert secret.num_rows == 1


ENDLESS = "(WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t) > 0"


def test_a_condition_that_does_not_end_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility, "CONDITION_SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(InputError, match=r"not done after 0\.3 s"):
        eligible_ids(CUSTOMERS, ENDLESS, name="t")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "greedy",
    [
        "length(repeat(customer_id, 2000000)) > 0",
        "len(range(100000000)) > 0",
        "(SELECT string_agg(repeat('x', 1000)) FROM range(1000000)) IS NOT NULL",
    ],
)
def test_a_condition_takes_only_so_much_memory(monkeypatch: pytest.MonkeyPatch, greedy: str) -> None:
    monkeypatch.setattr(eligibility, "CONDITION_BYTES", 96 << 20)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(InputError, match="more than 96 MB of memory"):
        eligible_ids(CUSTOMERS, greedy, name="t")
    assert resource.getrlimit(resource.RLIMIT_AS) == limits, "the process is free again"


def test_a_long_condition_is_cut_in_the_message() -> None:
    with pytest.raises(InputError) as refused:
        eligible_ids(CUSTOMERS, "nothing = '" + "x" * 1_000_000 + "'", name="t")
    assert len(str(refused.value)) < 800


def test_ids_that_no_command_takes_are_refused_with_their_row(tmp_path: Path) -> None:
    for bad in ("a\0b", "ü" * 501, None):
        ids = pa.array(["a", "b", bad])
        with pytest.raises(TableError, match="column customer_id, row 3"):
            eligible_ids(pa.table({"customer_id": ids}), "true", name="t")
    broken = pa.array([b"a", b"\xff"], pa.binary()).buffers()
    text = pa.StringArray.from_buffers(2, broken[1], broken[2], broken[0])
    with pytest.raises(TableError, match=r"row 2: found .*expected UTF-8 text"):
        eligible_ids(pa.table({"customer_id": text}), "true", name="t")


def test_columns_that_duckdb_lacks_are_left_out_and_named(tmp_path: Path) -> None:
    table = pa.table(
        {
            "customer_id": ["a", "b"],
            "score": pa.array(np.array([1.5, 2.5], np.float16)),
            "worth": pa.array([Decimal(1), Decimal(2)], pa.decimal256(60, 2)),
            "since": [date(2025, 1, 1), date(2026, 1, 1)],
        }
    )
    pq.write_table(table, tmp_path / "customers.parquet")
    for customers in (table, pads.dataset(tmp_path / "customers.parquet")):
        assert eligible_ids(customers, "since < DATE '2025-06-01'", name="t").to_pylist() == ["a"]
        with pytest.raises(InputError, match=r"not score, worth, whose type"):
            eligible_ids(customers, "score > 2", name="t")


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="column customer_id: found no such column"):
        eligible_ids(pa.table({}), "true", name="t")
