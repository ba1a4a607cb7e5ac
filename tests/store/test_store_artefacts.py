"""Large tables as files named by their content: whole or not there, found by text, and shared by several machines."""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from store_samples import NETWORK, add_campaign, add_late, batch, decisions, outcomes, receive

from disco.records.errors import FileFormatError, InputError, StateError
from disco.store import Store, Transaction
from disco.store.artefacts import FolderArtefacts, index_of, rehearsal, rows_of

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


def test_the_bytes_are_compared_once_per_process_and_again_when_the_file_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = FolderArtefacts(tmp_path).put(TABLE, compressed=True)
    hashed: list[int] = []

    def counted(content: pa.Buffer) -> object:
        hashed.append(len(content))
        return hashlib.sha256(content)

    monkeypatch.setattr("disco.store.artefacts.sha256", counted)
    artefacts, file = FolderArtefacts(tmp_path), tmp_path / f"{name}.arrow"
    for _ in range(3):
        assert artefacts.get(name).equals(TABLE)
    assert hashed == [file.stat().st_size]
    stat, content = file.stat(), file.read_bytes()
    file.write_bytes(content[:300] + bytes([content[300] ^ 1]) + content[301:])
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # whoever hides the time of writing cannot hide the change
    with pytest.raises(FileFormatError, match="another content than its name says"):
        artefacts.get(name)


ARTEFACTS = ("decisions", "contexts", "features", "codes", "customer_index", "code_index")
QUESTIONS: dict[str, Callable[[Transaction], Any]] = {
    "all decisions": lambda transaction: transaction.decisions.of("spring"),
    "by code": lambda transaction: transaction.decisions.of("spring", codes=pa.array(["CODE-7"])),
    "by customer": lambda transaction: transaction.decisions.of("spring", customers=pa.array(["7"])),
    "codes in use": lambda transaction: transaction.decisions.codes_in_use(pa.array(["CODE-7"])),
    "contexts": lambda transaction: transaction.contexts.of("spring", NETWORK, np.array([7])),
    "features": lambda transaction: transaction.contexts.features("spring"),
}
READ = {
    "all decisions": {"decisions", "codes"},
    "by code": {"decisions", "codes", "code_index"},
    "by customer": {"decisions", "codes", "customer_index"},
    "codes in use": {"decisions", "codes", "code_index"},
    "contexts": {"contexts"},
    "features": {"features"},
}


@pytest.mark.parametrize("artefact", ARTEFACTS)
def test_a_flipped_byte_changes_no_answer(tmp_path: Path, artefact: str) -> None:
    """Whoever reads the table is refused; every other question has the answer it had."""
    file, ids = tmp_path / "disco.db", [str(number) for number in range(50)]
    store = Store.embedded(file)
    with store.writing("spring", action="test") as transaction:
        features = pa.table({"customer_id": ids, "x": np.arange(50.0)})
        add_campaign(transaction, decided=decisions(list(ids)), features=features)
    store.close()
    with contextlib.closing(sqlite3.connect(file)) as database:
        table = "plans" if artefact in ARTEFACTS[:3] else "campaigns"
        (name,) = database.execute(f"SELECT {artefact} FROM {table}").fetchone()
    damaged = tmp_path / "disco-artefacts" / f"{name}.arrow"
    content = damaged.read_bytes()
    answers = _answers(file)
    for place in np.random.default_rng(5).integers(0, len(content), 25).tolist():
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        for question, answer in _answers(file).items():
            refused = isinstance(answer, FileFormatError)
            assert refused == (artefact in READ[question]), question
            assert refused or answer == answers[question], question


def _answers(file: Path) -> dict[str, object]:
    """Every question, asked by a process that has not read anything yet."""
    found: dict[str, object] = {}
    store = Store.embedded(file)
    for question, ask in QUESTIONS.items():
        with store.reading() as transaction:
            try:
                answer = ask(transaction)
                found[question] = answer.tolist() if isinstance(answer, np.ndarray) else answer.to_pylist()
            except FileFormatError as error:
                found[question] = error
    store.close()
    return found


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="a folder that can be written"):
        FolderArtefacts(tmp_path / "file").put(TABLE)


def test_a_file_that_cannot_be_finished_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("disco.store.artefacts.os.fsync", full)
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

    monkeypatch.setattr("disco.store.artefacts.customer_keys", few_keys)
    column = pa.chunked_array([["aa", "b", "cc", "d", "ee", ""]])
    index = index_of(column)
    assert rows_of(index, column, pa.array(["cc", "d", "ff", "x"])).tolist() == [2, 3]
    with pytest.raises(StateError, match="cc twice"):
        index_of(pa.chunked_array([["aa", "cc", "b", "cc"]]))


def test_a_dry_run_leaves_neither_rows_nor_files(tmp_path: Path) -> None:
    store = Store.embedded(tmp_path / "disco.db")
    with store.writing("spring", action="test", dry_run=True) as transaction:
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
    one, other = Store(url, place), Store(url, place)
    with one.writing("spring", action="test") as transaction:
        add_campaign(transaction, decided=decisions(["1", "2"]), contexts=np.arange(6.0).reshape(2, 3))
    with other.writing("spring", action="test") as transaction:
        add_late(transaction, decisions(["3"]))
        receive(transaction, batch("b1"), outcomes("b1", ["1", "3"]))
    for store in (one, other):
        with store.reading() as transaction:
            assert transaction.decisions.of("spring", codes=pa.array(["CODE-3", "CODE-1"])).num_rows == 2
            assert transaction.contexts.of("spring", NETWORK).shape == (3, 3)
            assert transaction.ledger.outcomes("spring").num_rows == 2
    alone = Store(url, tmp_path / "elsewhere")
    with alone.reading() as transaction, pytest.raises(StateError, match=r"elsewhere.*missing.*artefacts"):
        transaction.decisions.of("spring")
