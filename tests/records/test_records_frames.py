"""Data frames out of results, and what is said where pandas is absent."""

import pyarrow as pa
import pytest

from disco.records.errors import MissingPartError
from disco.records.frames import data_frame

TABLE = pa.table({"depth": [0.1, None]})


def test_a_table_becomes_a_data_frame():
    assert data_frame(TABLE)["depth"].isna().tolist() == [False, True]


def test_without_pandas_it_says_what_to_do():
    class Bare:  # as an Arrow table is where pandas is not installed
        def to_pandas(self):
            raise ModuleNotFoundError("No module named 'pandas'")

    with pytest.raises(MissingPartError, match="pip install pandas"):
        data_frame(Bare())
