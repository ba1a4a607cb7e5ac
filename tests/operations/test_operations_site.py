"""What a health check says about a shop's files: space by its size, permissions, leftovers of killed processes."""

import os
import shutil
import tempfile
from collections import namedtuple
from pathlib import Path

import pytest

from disco.operations.site import ShopFiles
from disco.records.diagnosis import Diagnosis, Outcome
from disco.records.files import temporary_folder, unfinished_file

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopFiles:
    """A shop of 60 MB, with the place of temporary files to itself."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    folder = tmp_path / "shop"
    (folder / "artefacts").mkdir(parents=True, mode=0o700)
    for name in ("disco.db", "artefacts/a.arrow"):
        with (folder / name).open("wb") as file:
            file.truncate(30_000_000)
        (folder / name).chmod(0o600)
    return ShopFiles(folder=folder, artefacts=folder / "artefacts", database=folder / "disco.db")


def found(files: ShopFiles, where: str) -> Diagnosis:
    (one,) = [check for check in files.checks() if where in (check.where, check.check)]
    return one


@pytest.mark.parametrize(
    ("free", "outcome"), [(15e6, "failed"), (17e6, "watch"), (59e6, "watch"), (61e6, "ok"), (5e9, "ok")]
)
def test_free_space_is_judged_by_the_size_of_the_shop(
    files: ShopFiles, monkeypatch: pytest.MonkeyPatch, free: float, outcome: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(int(1e12), 0, int(free)))
    assert found(files, "disk").outcome == outcome
    assert "60.0 MB" in found(files, "disk").found


def test_a_large_shop_needs_more_than_a_small_one(files: ShopFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    with (files.folder / "disco.db").open("wb") as file:
        file.truncate(10_000_000_000)  # a sparse file
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(int(1e12), 0, int(0.9e9)))
    assert found(files, "disk").failed


def test_a_shop_that_cannot_be_written_is_reported(files: ShopFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(files, "permission to write").ok
    # root may write anything, so the answer of the system is given here
    monkeypatch.setattr(os, "access", lambda place, _: Path(place).name != "disco.db")
    check = found(files, "permission to write")
    assert check.failed
    assert str(files.database) in check.found


def test_files_that_others_may_read_are_noted(files: ShopFiles) -> None:
    assert found(files, "permission to read").ok
    (files.folder / "artefacts" / "a.arrow").chmod(0o644)
    check = found(files, "permission to read")
    assert check.outcome is Outcome.WATCH
    assert "1 of 3" in check.found
    assert "chmod" in check.fix


def test_a_folder_that_is_shared_with_a_group_is_shared_on_purpose(files: ShopFiles) -> None:
    files.artefacts.chmod(0o2770)
    (files.artefacts / "a.arrow").chmod(0o660)
    assert found(files, "permission to read").ok
    (files.artefacts / "a.arrow").chmod(0o664)
    assert not found(files, "permission to read").ok


def test_leftovers_of_killed_processes_are_noted_and_swept(files: ShopFiles, tmp_path: Path) -> None:
    with unfinished_file(files.artefacts), temporary_folder("spill"):  # a command is at work
        assert [one for one in files.checks() if one.where == "temporary files"] == []
        assert files.sweep() == ()
    folder = tmp_path / "tmp" / f"disco-{os.geteuid()}"
    names = (
        files.folder / ".disco-abcdefgh.partial",
        files.artefacts / ".disco-abcdefgh.partial",
        folder / "x-abcdefgh",
    )
    for place in (*names[:2], files.folder / ".mine.partial", names[2] / "part"):
        place.parent.mkdir(exist_ok=True)
        place.touch()
    assert found(files, "temporary files").found.startswith("3 of killed processes")
    assert sorted(one.where for one in files.sweep()) == sorted(map(str, names))
    assert not any(place.exists() for place in names)
    assert (files.folder / ".mine.partial").exists()
    assert files.sweep() == ()
