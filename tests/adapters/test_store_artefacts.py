"""Large tables as files named by their content: whole or not there, found by text, and shared by several machines."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from store_samples import NETWORK, add_campaign, add_late, batch, decisions, outcomes, receive

from disco.adapters.store import CampaignStore
from disco.adapters.store.artefacts import FolderArtefacts, index_of, rehearsal, rows_of
from disco.records.errors import FileFormatError, InputError, StateError

TABLE = pa.table({"x": pa.array([1.5, None, -0.0]), "name": ["a", "", "ключ 🔑"]})


@pytest.mark.parametrize("compressed", [True, False])
def test_a_table_comes_back_by_the_hash_of_its_bytes(tmp_path: Path, compressed: bool) -> None:
    artefacts = FolderArtefacts(tmp_path / "new")
    name = artefacts.put(TABLE, compressed=compressed)
    assert artefacts.put(pa.concat_tables([TABLE[:1], TABLE[1:]]), compressed=compressed) == name
    assert [file.name for file in (tmp_path / "new").iterdir()] == [f"{name}.arrow"]
    assert artefacts.get(name).equals(TABLE)
    assert artefacts.is_intact(name)
    other = artefacts.put(TABLE.slice(1), compressed=compressed)
    assert other != name
    assert artefacts.get(other).equals(TABLE.slice(1))


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    artefacts = FolderArtefacts(tmp_path)
    with pytest.raises(StateError, match=rf"{tmp_path}/.*missing.*setting `artefacts`"):
        artefacts.get("never-written")
    assert not artefacts.is_intact("never-written")
    file = tmp_path / f"{(name := artefacts.put(TABLE))}.arrow"
    file.write_bytes(file.read_bytes()[:-20])
    assert not artefacts.is_intact(name)
    with pytest.raises(FileFormatError, match=str(file)):
        artefacts.get(name)
    assert artefacts.put(TABLE) == name, "writing it again heals it"
    assert artefacts.is_intact(name)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="a folder that can be written"):
        FolderArtefacts(tmp_path / "file").put(TABLE)


def test_a_file_that_cannot_be_finished_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("disco.adapters.store.artefacts.os.fsync", full)
    with pytest.raises(InputError, match="No space left"):
        FolderArtefacts(tmp_path).put(TABLE)
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsal_reads_both_and_leaves_nothing(tmp_path: Path) -> None:
    artefacts = FolderArtefacts(tmp_path)
    name = artefacts.put(TABLE)
    with rehearsal(artefacts) as overlay:
        other = overlay.put(TABLE.slice(1))
        assert overlay.get(other).num_rows == 2
        assert overlay.get(name).num_rows == 3
        assert overlay.is_intact(other)
        assert overlay.is_intact(name)
    assert [file.name for file in tmp_path.iterdir()] == [f"{name}.arrow"]
    with pytest.raises(StateError):
        artefacts.get(other)


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
def test_rows_are_found_by_text(kind: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.permutation(5000)
    column = pa.chunked_array([pa.array(numbers.astype(str) if kind == pa.string() else numbers, kind)])
    if kind == pa.string():  # some rows have none
        column = pa.chunked_array([pa.array([None if n % 7 == 0 else str(n) for n in numbers], kind)])
    index = index_of(column)
    asked = rng.integers(-50, 5050, 300)
    expected = [
        row for row, n in enumerate(numbers.tolist()) if n in set(asked.tolist()) and column[row].as_py() is not None
    ]
    assert rows_of(index, column, pa.array(asked.astype(str))).tolist() == expected
    assert rows_of(index, column, pa.array([], pa.string())).size == 0
    assert rows_of(index_of(column[:0]), column[:0], pa.array(["1"])).size == 0


def test_texts_with_one_key_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def few_keys(column: pa.Array) -> np.ndarray:
        return np.array([len(str(text)) for text in column], np.uint64)

    monkeypatch.setattr("disco.adapters.store.artefacts.customer_keys", few_keys)
    column = pa.chunked_array([["aa", "b", "cc", "d", "ee", ""]])
    index = index_of(column)
    assert rows_of(index, column, pa.array(["cc", "d", "ff", "x"])).tolist() == [2, 3]
    with pytest.raises(StateError, match="cc twice"):
        index_of(pa.chunked_array([["aa", "cc", "b", "cc"]]))


def test_a_dry_run_leaves_neither_rows_nor_files(tmp_path: Path) -> None:
    store = CampaignStore.embedded(tmp_path / "disco.db")
    with store.writing("spring", dry_run=True) as transaction:
        add_campaign(transaction, decided=decisions(["1", "2"]))
        add_late(transaction, decisions(["3"]))
        assert transaction.decisions.of("spring").num_rows == 3
    with store.reading() as transaction:
        assert transaction.plans.campaigns() == ()
    assert not (tmp_path / "disco-artefacts").exists()


def test_two_machines_with_one_database_and_one_artefact_place_see_the_same_shop(
    new_postgres_url: Callable[[], str], tmp_path: Path
) -> None:
    url, place = new_postgres_url(), tmp_path / "shared"
    one, other = CampaignStore(url, place), CampaignStore(url, place)
    with one.writing("spring") as transaction:
        add_campaign(transaction, decided=decisions(["1", "2"]), contexts=np.arange(6.0).reshape(2, 3))
    with other.writing("spring") as transaction:
        add_late(transaction, decisions(["3"]))
        receive(transaction, batch("b1"), outcomes("b1", ["1", "3"]))
    for store in (one, other):
        with store.reading() as transaction:
            assert transaction.decisions.of("spring", codes=pa.array(["CODE-3", "CODE-1"])).num_rows == 2
            assert transaction.contexts.of("spring", NETWORK).shape == (3, 3)
            assert transaction.ledger.outcomes("spring").num_rows == 2
    alone = CampaignStore(url, tmp_path / "elsewhere")
    with alone.reading() as transaction, pytest.raises(StateError, match=r"elsewhere.*missing.*artefacts"):
        transaction.decisions.of("spring")
