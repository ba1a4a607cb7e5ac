"""Costly folders of tests: made once by however many processes, made again when an attempt ended early."""

from multiprocessing import get_context
from pathlib import Path

import made_once
import pytest


def make(folder: Path, notes: Path, text: str) -> None:
    with notes.open("a") as file:
        file.write(f"{text}\n")
    folder.mkdir()
    (folder / "text").write_text(text)
    if text == "fails":
        raise RuntimeError("after a part was written")


def copied(originals: Path, notes: Path, at: Path) -> None:
    made_once._ORIGINALS = originals
    made_once.copy_of(make, notes, "shop", at=at)


def test_processes_at_once_make_it_once_and_own_their_copies(tmp_path: Path) -> None:
    notes, fork = tmp_path / "notes", get_context("fork")
    copies = [tmp_path / f"copy {number}" for number in range(4)]
    processes = [fork.Process(target=copied, args=(tmp_path / "originals", notes, copy)) for copy in copies]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert notes.read_text() == "shop\n"
    (copies[0] / "text").write_text("changed")
    assert [(copy / "text").read_text() for copy in copies[1:]] == ["shop"] * 3


def test_an_attempt_that_failed_is_not_taken_for_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_once, "_ORIGINALS", tmp_path / "originals")
    notes = tmp_path / "notes"
    for _ in range(2):
        with pytest.raises(RuntimeError, match="after a part"):
            made_once.copy_of(make, notes, "fails", at=tmp_path / "copy")
    assert notes.read_text() == "fails\nfails\n"
    assert not (tmp_path / "copy").exists()


def test_other_arguments_settings_and_sources_make_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_once, "_ORIGINALS", tmp_path / "originals")
    notes = tmp_path / "notes"
    for text in ("one", "two", "one"):
        made_once.original_of(make, notes, text)
    monkeypatch.setenv("DISCO_CURRENCY", "CHF")
    made_once.original_of(make, notes, "one")
    monkeypatch.setattr(made_once, "_sources", lambda: "changed")
    assert (made_once.original_of(make, notes, "one") / "text").read_text() == "one"
    assert notes.read_text() == "one\ntwo\none\none\n"


def test_a_changed_template_is_another_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_once, "_ROOT", tmp_path)
    page = tmp_path / "src" / "disco" / "views" / "templates" / "page.html"
    page.parent.mkdir(parents=True)
    for name in ("constraints.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    monkeypatch.setattr(made_once, "__file__", str(tmp_path / "tests" / "support" / "made_once.py"))
    hashes = set()
    for text in ("one", "other"):
        page.write_text(text)
        hashes.add(made_once._sources.__wrapped__())
    assert len(hashes) == 2
