"""Files appear whole or not at all, whatever happens on the way."""

import errno
from pathlib import Path

import pytest

from disco.records.errors import InputError
from disco.records.files import written_whole


def test_a_file_appears_only_when_all_went_well(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"

    def stop_half_way() -> None:
        with written_whole(path) as partial:
            partial.write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        stop_half_way()
    assert not list(tmp_path.iterdir())
    with written_whole(path) as partial:
        partial.write_text("whole")
        assert not path.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]
    assert path.read_text() == "whole"


def test_places_that_can_hold_no_file(tmp_path: Path) -> None:
    for place, words in ((tmp_path, "a folder"), (Path(), "a folder"), (tmp_path / "no" / "x", "no folder")):
        with pytest.raises(InputError, match=words), written_whole(place):
            raise AssertionError("the body must not run")


def test_a_full_disk_is_said_with_the_files_name_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"out\.txt: found No space left"), written_whole(path) as partial:
        partial.write_text("new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


def test_trouble_with_another_file_is_not_blamed_on_the_result(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="input"), written_whole(tmp_path / "out.txt"):
        (tmp_path / "input.txt").read_text()
    with pytest.raises(OSError, match="no page header"), written_whole(tmp_path / "out.txt"):
        raise OSError("no page header")  # a damaged Parquet file says so without an errno
