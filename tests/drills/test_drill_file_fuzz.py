"""The short form of the file fuzz of `./run drill faults`, and proof that its checks can fail."""

from pathlib import Path

import pytest
from file_fuzz import MEMORY_BYTES, Ended, contents, drill, faults


def test_damaged_and_odd_files_are_refused_in_words() -> None:
    done = drill(range(24), seed=1)  # the same files every time; the drill itself takes others
    assert not done.failures, "\n".join(done.failures)
    assert done.ends.total() == 24
    assert done.ends[1] > 6, "some files are refused"
    assert done.ends[0] > 1, "and some are read all the same"


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(3, "defect", 1, 0), "ended with 3"),
        (Ended(-11, "", 1, 0), "ended with -11"),
        (Ended(-9, "", 91, 0), "after 91 s"),
        (Ended(1, "Traceback (most recent call last):", 1, 0), "traceback"),
        (Ended(0, "done", 1, MEMORY_BYTES + 1), "took 3,072 MB"),
        (Ended(1, " ", 1, 0), "without a word"),
    ],
)
def test_the_checks_see_how_a_command_must_not_end(tmp_path: Path, ended: Ended, words: str) -> None:
    (tmp_path / "shop").mkdir()
    found = list(faults(ended, shop=tmp_path / "shop", before={}, scratch=tmp_path / "tmp"))
    assert [words in fault for fault in found] == [True]


def test_the_checks_see_what_a_command_must_not_leave(tmp_path: Path) -> None:
    shop, scratch = tmp_path / "shop", tmp_path / "tmp"
    shop.mkdir()
    scratch.mkdir()
    (shop / "table.parquet").write_bytes(b"whole")
    before = contents(shop)
    refused = Ended(1, "error: refused", 1, 0)
    assert not list(faults(refused, shop=shop, before=before, scratch=scratch))
    (shop / "table.parquet").write_bytes(b"other")
    (shop / ".disco-x.partial").touch()
    (scratch / "spill").touch()
    found = " ".join(faults(refused, shop=shop, before=before, scratch=scratch))
    assert all(words in found for words in ("partial file", "temporary files: spill", "was refused and changed"))
