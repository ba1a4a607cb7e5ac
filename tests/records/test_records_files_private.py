"""Modes of what we create, and leftovers of killed processes: removed when nobody holds them, and only ours."""

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from disco.records.errors import InputError
from disco.records.files import (
    new_file_mode,
    private_folder,
    sweep_temporary,
    sweep_unfinished,
    temporary_folder,
    unfinished_file,
    unfinished_folder,
    written_whole,
)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder of temporary files, for this test alone; processes that are started see it as well."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture(params=[0o022, 0o077, 0o000], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def killed(program: str) -> None:
    """Run a program until it says that it is ready, then kill it without a chance to clean up."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)


def test_new_folders_are_their_owners_alone_and_old_ones_are_left_as_they_are(tmp_path: Path, umask: int) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old").chmod(0o755)
    private_folder(tmp_path / "old" / "new" / "newer")
    private_folder(tmp_path / "old")
    assert [mode(tmp_path / name) for name in ("old", "old/new", "old/new/newer")] == [0o755, 0o700, 0o700]


def test_a_folder_shared_with_a_group_and_nobody_else_is_filled_for_that_group(tmp_path: Path, umask: int) -> None:
    shared, open_to_all = tmp_path / "shared", tmp_path / "open"
    for folder, its_mode in ((shared, 0o770), (open_to_all, 0o775)):
        folder.mkdir()
        folder.chmod(its_mode)
        private_folder(folder / "features")
    assert (new_file_mode(shared), mode(shared / "features"), new_file_mode(shared / "features")) == (
        0o660,
        0o770,
        0o660,
    )
    assert (new_file_mode(open_to_all), mode(open_to_all / "features")) == (0o600, 0o700)


def test_a_name_that_is_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        private_folder(tmp_path / "file")


def test_temporary_folders_lie_in_one_private_folder_and_go_away(temporary: Path, umask: int) -> None:
    with temporary_folder("spill") as one, temporary_folder("spill") as two:
        assert one != two
        assert one.parent == two.parent == temporary / f"disco-{os.geteuid()}"
        assert {mode(one), mode(two), mode(one.parent)} == {0o700}
        (one / "rows").write_text("a customer")
    assert list(one.parent.iterdir()) == []


def test_the_next_temporary_folder_sweeps_those_of_killed_processes(temporary: Path) -> None:
    killed(
        "from disco.records.files import temporary_folder\n"
        "with temporary_folder('spill') as folder:\n"
        "    (folder / 'rows').write_text('a customer')\n"
        "    print('ready', flush=True); input()"
    )
    root = temporary / f"disco-{os.geteuid()}"
    (left,) = root.glob("spill-*/rows")
    (root / "somebody's notes.txt").write_text("not ours")
    with temporary_folder("sql") as folder:
        assert not left.exists()
        assert sweep_temporary() == (), "what is in use stays"
        assert sorted(path.name for path in root.iterdir()) == [
            "somebody's notes.txt",
            folder.name,
            f"{folder.name}.lock",
        ]


def test_the_next_file_sweeps_unfinished_ones_of_killed_writers(tmp_path: Path) -> None:
    killed(
        "from pathlib import Path\n"
        "from disco.records.files import written_whole\n"
        f"with written_whole(Path({str(tmp_path / 'codes.csv')!r})) as partial:\n"
        "    partial.write_text('half a customer')\n"
        "    print('ready', flush=True); input()"
    )
    (left,) = tmp_path.glob(".disco-*.partial")
    theirs = [tmp_path / ".disco-notes.partial", tmp_path / ".other-abcdefgh.partial", tmp_path / "abcdefgh.partial"]
    for path in theirs:
        path.write_text("not ours")
    (tmp_path / ".disco-abcdefgh.partial").symlink_to(theirs[0])
    with unfinished_file(tmp_path) as in_use:
        assert not left.exists()
        with written_whole(tmp_path / "codes.csv") as partial:
            partial.write_text("whole")
        assert in_use.exists(), "another writer's file that is in use stays"
        assert sweep_unfinished(tmp_path) == ()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"codes.csv", ".disco-abcdefgh.partial", *(path.name for path in theirs)}


def test_the_next_folder_sweeps_unfinished_ones_of_killed_writers(tmp_path: Path, umask: int) -> None:
    killed(
        "from pathlib import Path\n"
        "from disco.records.files import unfinished_folder\n"
        f"with unfinished_folder(Path({str(tmp_path)!r})) as folder:\n"
        "    (folder / 'rows').write_text('half a customer')\n"
        "    print('ready', flush=True); input()"
    )
    (left,) = tmp_path.glob(".disco-*.partial/rows")
    theirs = tmp_path / ".disco-notes.partial"
    theirs.mkdir()
    with unfinished_folder(tmp_path) as in_use, unfinished_folder(tmp_path) as another:
        assert not left.parent.exists()
        assert mode(in_use) == mode(another) == 0o700
        assert sweep_unfinished(tmp_path) == (), "what is in use stays"
        (in_use / "rows").write_text("whole")
        in_use.rename(tmp_path / "done")
    assert sorted(path.name for path in tmp_path.iterdir()) == [theirs.name, "done"]
    assert (tmp_path / "done" / "rows").read_text() == "whole"


def test_folders_are_made_aside_in_one_way() -> None:
    """Whoever makes a folder with `tempfile` leaves it for ever when the process is killed."""
    source = Path(__file__).parents[2] / "src"
    makers = [path for path in source.rglob("*.py") if re.search(r"mkdtemp|TemporaryDirectory", path.read_text())]
    assert [path.name for path in makers] == ["files.py"]


def test_a_temporary_folder_that_somebody_planted_is_refused(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (temporary / f"disco-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="TMPDIR"), temporary_folder("spill"):
        raise AssertionError("the body must not run")
    assert list((tmp_path / "elsewhere").iterdir()) == []
