"""A plan's condition is SQL on one table of customers, and what is wrong with either is said in words."""

from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from disco.features import eligibility
from disco.features.eligibility import Question, rows_where
from disco.records.errors import InputError, TableError

CUSTOMERS = pa.table({"customer_id": [f"c{number:04d}" for number in range(3000)], "spend": np.arange(3000) / 10})


def _evaluate(customers: object, question: Question) -> pa.Table:
    with rows_where(customers, question) as rows:  # in this process: its limits are tested in tests/adapters
        return rows.read_all()


eligible_ids = partial(eligibility.eligible_ids, evaluate=_evaluate)


def test_a_condition_may_use_all_of_sql_on_its_own_table() -> None:
    assert len(eligible_ids(CUSTOMERS, "spend > (SELECT avg(spend) FROM customers)", name="t")) == 1500
    assert eligible_ids(CUSTOMERS, "customer_id LIKE '%0007'", name="t").to_pylist() == ["c0007"]


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


@pytest.mark.parametrize(
    ("condition", "needed"),
    [
        ("SPEND > 3", {"spend"}),
        ('"Spend" > 3', {"spend"}),
        ("true", set()),
        ("length(COLUMNS('re.*')) > 3", {"spend", "region"}),
        ("customers IS NOT NULL", {"spend", "region"}),
        ("EXISTS (FROM query_table('cust' || 'omers') t WHERE t IS NULL)", {"spend", "region"}),
    ],
)
def test_a_column_that_a_condition_may_depend_on_is_needed(condition: str, needed: set[str]) -> None:
    question = Question(
        condition=condition, columns={}, time_zone="UTC", most_seconds=9.0, most_cpu_seconds=9, most_bytes=1 << 30
    )
    assert {name for name in ("spend", "region") if question.needs(name)} == needed
    assert question.needs("customer_id")
