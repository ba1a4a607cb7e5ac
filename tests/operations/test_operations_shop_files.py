"""What a health check says about a shop's files: space by its size, permissions, remains of interrupted commands."""

import os
import shutil
import tempfile
import time
from collections import namedtuple
from pathlib import Path

import pytest

from disco.operations.shop_files import ShopFiles
from disco.records.diagnosis import Diagnosis, Outcome

Usage = namedtuple("Usage", "total used free")
OLD = time.time() - 2 * 24 * 3600


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


def test_remains_of_interrupted_commands_are_noted_and_swept(files: ShopFiles, tmp_path: Path) -> None:
    names = (
        "shop/.disco-abcdefgh.partial",
        "shop/artefacts/.abcdefgh.partial",
        "tmp/disco-spill-abcdefgh/part",
        "tmp/disco-sql-abcdefgh/part",
    )
    for name in (*names, "shop/.mine.partial", "tmp/disco-mybackup/precious"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [one.where for one in files.checks() if one.where == "temporary files"] == []  # a command may be at work
    assert files.sweep() == ()
    for place in tmp_path.rglob("*"):
        os.utime(place, (OLD, OLD))
    assert found(files, "temporary files").found.startswith("4 of interrupted commands")
    assert len(files.sweep()) == 4
    left = sorted(place.name for place in tmp_path.rglob("*") if place.is_file())
    assert left == [".mine.partial", "a.arrow", "disco.db", "precious"]
    assert files.sweep() == ()
