"""Features in a file: read a column or a few rows at a time, they are the table that was written."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disco.features import files
from disco.features.files import FeatureFile, write_features
from disco.records.arrow_tables import content_hash
from disco.store.artefacts import FolderArtefacts

ROWS = 2000


@pytest.fixture
def table() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "customer_id": [f"c{row:04d}" for row in range(ROWS)],
            "orders_365d": pa.array(rng.poisson(2, ROWS).astype(float)),
            "spend_365d": pa.array(rng.lognormal(size=ROWS), mask=rng.random(ROWS) < 0.3),
        }
    )


def written(path: Path, table: pa.Table, rows: int) -> FeatureFile:
    write_features(path, table.schema, iter(table.to_batches(max_chunksize=rows)))
    return FeatureFile.open(path)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_ROW_GROUP", 128)


def test_a_file_has_the_same_bytes_however_its_rows_came(table: pa.Table, tmp_path: Path) -> None:
    found = {}
    for rows in (1, 100, 128, 300, ROWS):
        kept = written(tmp_path / f"{rows}.parquet", table, rows)
        assert kept.file.num_row_groups == 16
        found[(tmp_path / f"{rows}.parquet").read_bytes()] = rows
    assert len(found) == 1


@pytest.mark.parametrize("chosen", ["all", "some", "few", "nobody"])
def test_features_in_a_file_are_the_table(table: pa.Table, tmp_path: Path, chosen: str) -> None:
    kept = written(tmp_path / "features.parquet", table, ROWS)
    rows = {
        "all": np.ones(ROWS, np.bool_),
        "some": np.arange(ROWS) % 3 != 0,
        "few": np.isin(np.arange(ROWS), [5, 900]),
        "nobody": np.zeros(ROWS, np.bool_),
    }[chosen]
    some, expected = kept.filter(rows), table.filter(pa.array(rows))
    assert some.num_rows == expected.num_rows
    assert some.column_names == expected.column_names
    assert some.read().replace_schema_metadata(None).equals(expected)
    assert some["spend_365d"].to_pylist() == expected["spend_365d"].to_pylist()
    assert content_hash(some) == content_hash(expected)
    assert some.head(10).replace_schema_metadata(None).equals(expected[:10])
    again = some.filter(np.arange(some.num_rows) % 2 == 0)
    assert content_hash(again) == content_hash(expected.filter(pa.array(np.arange(some.num_rows) % 2 == 0)))


def test_a_file_can_be_read_after_its_name_is_gone(table: pa.Table, tmp_path: Path) -> None:
    kept = written(tmp_path / "features.parquet", table, ROWS)
    (tmp_path / "features.parquet").unlink()
    assert kept.read().replace_schema_metadata(None).equals(table)


def test_the_artefact_of_features_in_a_file_is_that_of_the_table(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from disco.store import artefacts

    # as in production a multiple of 512, so that Arrow pads no buffer with what follows
    monkeypatch.setattr(artefacts, "_ROWS_PER_COMPRESSED_BATCH", 512)
    kept = written(tmp_path / "features.parquet", table, ROWS).filter(np.arange(ROWS) % 3 != 0)
    there = FolderArtefacts(tmp_path / "artefacts")
    name = there.put(kept, compressed=True)
    assert there.get(name).equals(kept.read(), check_metadata=True)
    assert name == there.put(kept.read(), compressed=True)


def test_features_that_an_earlier_version_kept_are_read(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "old.parquet")
    assert FeatureFile.open(tmp_path / "old.parquet").read().equals(table)
