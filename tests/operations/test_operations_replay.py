"""Logs for a replay, as they come in files."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.operations.replay import read_log
from disco.records.errors import InputError


def test_a_log_in_a_file_is_named_by_its_file(tmp_path):
    path = tmp_path / "log.parquet"
    rows = {"customer_id": [1, 2, 3, 4], "x1": [0.0] * 4, "depth": [0.1, 0.2] * 2, "full_price": [9.0, None, -1.0, 8.0]}
    pq.write_table(pa.table(rows), path)
    with pytest.raises(InputError, match=r"log\.parquet, row 3, full_price: found -1\.0"):
        read_log(path, context=["x1"])
