"""Files appear whole or not at all, whatever happens on the way."""

import errno
import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from disco.records.errors import InputError
from disco.records.files import Protected, check_place, written_whole


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


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("far/real.txt")
    (tmp_path / "new.txt").symlink_to("far/new.txt")  # leads to no file yet
    for name in ("link.txt", "new.txt"):
        with written_whole(tmp_path / name) as partial:
            assert partial.parent == tmp_path / "far", "on the disk of the file, so that it can take its name"
            partial.write_text("new")
    assert os.readlink(tmp_path / "link.txt") == "far/real.txt"
    assert os.readlink(tmp_path / "new.txt") == "far/new.txt"
    assert {path.name: path.read_text() for path in (tmp_path / "far").iterdir()} == {
        "real.txt": "new",
        "new.txt": "new",
    }
    (tmp_path / "round.txt").symlink_to("round.txt")
    with pytest.raises(InputError, match="circle"), written_whole(tmp_path / "round.txt"):
        raise AssertionError("the body must not run")


def test_devices_fifos_and_sockets_are_written_through(tmp_path: Path) -> None:
    fifo, place, link = tmp_path / "fifo", tmp_path / "socket", tmp_path / "link"
    link.symlink_to("/dev/null")
    device = os.stat("/dev/null")
    for name in (Path("/dev/null"), link):
        with written_whole(name) as partial:
            partial.write_text("nothing")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert (os.stat("/dev/null").st_ino, os.readlink(link)) == (device.st_ino, "/dev/null")

    os.mkfifo(fifo)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(fifo.read_text)
        with written_whole(fifo) as partial:
            partial.write_text("through the fifo")
        assert read.result(timeout=30) == "through the fifo"
    assert fifo.is_fifo()

    with socket.socket(socket.AF_UNIX) as server, ThreadPoolExecutor() as pool:
        server.bind(str(place))
        server.listen()
        heard = pool.submit(lambda: server.accept()[0].makefile("rb").read())
        with written_whole(place) as partial:
            partial.write_text("through the socket")
        assert heard.result(timeout=30) == b"through the socket"
    assert place.is_socket()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "link", "socket"]


def test_a_fifo_gets_nothing_when_the_work_fails(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def stop_half_way() -> None:
        with written_whole(fifo) as partial:
            partial.write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):  # and nobody waits for a reader
        stop_half_way()
    assert fifo.is_fifo()


def test_standard_output_is_appended_to_wherever_it_goes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with written_whole(Path("/dev/stdout")) as partial:
        partial.write_text("said")
    assert capfd.readouterr().out == "said"
    log = tmp_path / "log"
    log.write_text("before, ")
    with log.open("a") as file:
        for name in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            with written_whole(Path(name)) as partial:
                partial.write_text("more, ")
    assert log.read_text() == "before, more, more, "


def test_temporary_names_are_private_and_never_shared(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with written_whole(path) as one, written_whole(path) as two:
        assert one != two
        for partial in (one, two):
            assert stat.S_IMODE(partial.stat().st_mode) == 0o600
            assert (partial.parent, partial.is_symlink()) == (tmp_path, False)
            partial.write_text(partial.name)
        first = one.name
    assert path.read_text() == first, "the last to finish has the name"
    assert [file.name for file in tmp_path.iterdir()] == ["out.txt"]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """The name that was once used, and any that could be guessed from the process."""
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / f".out.txt.{os.getpid()}.partial").symlink_to(victim)
    with written_whole(tmp_path / "out.txt") as partial:
        partial.write_text("new")
    assert victim.read_text() == "untouched"
    assert not (tmp_path / "out.txt").is_symlink()


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o000, 0o277])
def test_a_new_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with written_whole(tmp_path / "out.txt") as partial:
            partial.write_text("new")
        assert os.umask(mask) == mask, "the mask itself is left as it was"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o400])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """Who serves a report opens it once to others; the next report of the same name stays open to them."""
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "report.html").chmod(mode)
    with written_whole(tmp_path / "report.html") as partial:
        partial.write_text("new")
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == mode
    assert (tmp_path / "report.html").read_text() == "new"


def test_protected_files_are_refused_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a.txt").write_text("a")
    (tmp_path / "link").symlink_to("kept/a.txt")
    file = Protected(tmp_path / "kept" / "a.txt", "the letter a")
    folder = Protected(tmp_path / "kept", "the folder of letters", inside=True)
    for path in (tmp_path / "kept" / "a.txt", tmp_path / "kept" / ".." / "kept" / "a.txt", tmp_path / "link"):
        with pytest.raises(InputError) as refused:
            check_place(path, protected=[file])
        assert str(refused.value) == (
            f"{path} is the letter a, and an output must not replace it. Name another file for the output."
        )
    with pytest.raises(InputError, match="lies in the folder of letters"):
        check_place(tmp_path / "kept" / "new.txt", protected=[folder])
    check_place(tmp_path / "kept" / "b.txt", protected=[file])
    check_place(tmp_path / "kept2.txt", protected=[folder])
