"""`disco.ab`: a file, an Arrow table and a data frame say the same; and it is what `disco ab` says."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import disco
from disco.evaluation.read_out import Verdict
from disco.records.errors import DiscoError, InputError


@pytest.fixture
def frame():
    rng = np.random.default_rng(5)
    arm = rng.choice(["control", "new"], 900)
    return pd.DataFrame(
        {
            "group": arm,
            "revenue": rng.lognormal(3, 0.5, 900) * np.where(arm == "new", 1.3, 1.0),
            "orders": rng.integers(1, 4, 900),
            "bought": rng.random(900) < 0.3,
            "last_year": rng.lognormal(3, 0.5, 900),
        }
    )


def test_a_file_a_table_and_a_frame_give_one_result(frame, tmp_path):
    asked = {"arm": "group", "metrics": ["revenue", "revenue/orders", "bought"], "before": "last_year"}
    table = pa.Table.from_pandas(frame)
    pq.write_table(table, tmp_path / "test.parquet")
    frame.to_csv(tmp_path / "test.csv", index=False)
    given = (frame, table, tmp_path / "test.parquet", str(tmp_path / "test.csv"))
    found = [disco.ab(data, **asked) for data in given]
    assert [one.metric for one in found[0].differences] == ["revenue", "revenue/orders", "bought"]
    assert found[0].differences[0].verdict is Verdict.HIGHER
    for other in found[1:]:
        assert other.customers == found[0].customers
        for one, same in zip(found[0].differences, other.differences, strict=True):
            assert same.difference.value == pytest.approx(one.difference.value)
            assert same.verdict is one.verdict


def test_no_success_in_either_arm_gives_an_interval_all_the_same():
    table = pa.table({"group": ["control", "new"] * 30, "bought": [0] * 60})
    found = disco.ab(table, arm="group", metrics="bought").differences[0].difference
    assert found.value == 0
    assert -1 < found.lower < 0 < found.upper < 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arm": "groups"}, "Did you mean group"),
        ({"metrics": []}, "at least one column"),
        ({"metrics": "revenue/"}, "COLUMN/COLUMN"),
        ({"metrics": "group"}, "a figure as well"),
        ({"data": 3}, "an int; expected a file, a data frame"),
        ({"data": "nowhere.csv"}, "no such file"),
        ({"control": "old"}, "control, new"),
        ({"level": 2}, "level"),
    ],
)
def test_what_cannot_be_compared_is_refused(frame, change, said):
    given = {"data": frame, "arm": "group", "metrics": "revenue"} | change
    with pytest.raises(DiscoError, match=said):
        disco.ab(given.pop("data"), **given)


def test_an_empty_cell_is_named_by_its_row(frame):
    frame.loc[4, "revenue"] = np.nan
    with pytest.raises(InputError, match="an empty cell in data row 5"):
        disco.ab(frame, arm="group", metrics="revenue")
