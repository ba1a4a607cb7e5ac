"""The short form of `./run drill faults`, and proof that its checks can fail."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from faults_commands import Line, Yard, _wrong, commands, lines
from faults_life import State, Step, _halves, _words
from faults_report import Report
from warm_commands import Ended

_SHORT = Path(__file__).with_name("faults_short.py")


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the short form found, in a process of its own: it forks, which a process with threads should not."""
    places = os.pathsep.join([str(_SHORT.parent), str(_SHORT.parents[1] / "support")])
    done = subprocess.run(
        [sys.executable, str(_SHORT)],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _passed(report: dict[str, Any], *, least: int) -> None:
    if "missing" in report:
        if os.environ.get("CI") == "true":
            pytest.fail(report["missing"])
        pytest.skip(f"NOT TESTED: {report['missing']}")
    assert not report["failures"], "\n".join(report["failures"])
    assert report["cases"] >= least


def test_failing_writes_and_syncs_leave_nothing_half_written(told: dict[str, Any]) -> None:
    _passed(told["io"], least=6)


def test_a_full_disk_leaves_nothing_half_written(told: dict[str, Any]) -> None:
    _passed(told["full"], least=4)


def test_an_interrupted_command_says_one_line_and_leaves_nothing_half_written(told: dict[str, Any]) -> None:
    _passed(told["interrupt"], least=3)


def test_wrong_command_lines_end_in_a_sentence(told: dict[str, Any]) -> None:
    _passed(told["commands"], least=20)


def test_the_drill_sees_a_file_that_is_written_in_place(told: dict[str, Any]) -> None:
    assert any("neither the old nor the new file" in one for one in told["writes in place"]["failures"])


def test_the_drill_sees_a_failure_that_is_called_a_success(told: dict[str, Any]) -> None:
    assert any("exit 0, but not what a clean run leaves" in one for one in told["hides errors"]["failures"])


def _ended(code: int, err: str, *, timed_out: bool = False) -> Ended:
    return Ended(code=code, out="", err=err, seconds=1.0, peak_bytes=0, timed_out=timed_out)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (_ended(3, "error: a defect\n"), "exit 3"),
        (_ended(1, "Traceback (most recent call last)\n"), "a traceback"),
        (_ended(1, "codes.csv\n"), "without a sentence"),
        (_ended(1, "error: no space\nException ignored in: <x>\n"), "at the end of the process"),
        (_ended(-9, "", timed_out=True), "no end"),
    ],
)
def test_the_drill_sees_wrong_words(ended: Ended, words: str) -> None:
    assert any(words in one for one in _words(ended, (0, 1)))
    assert _words(_ended(1, "error: No space is left on the disk.\n"), (0, 1)) == []
    failed = Ended(code=1, out="failed   repair, campaign first: disk I/O error\n", err="", seconds=1.0, peak_bytes=0)
    assert _words(failed, (0, 1)) == []


def test_the_drill_sees_half_lost_and_left_files(tmp_path: Path) -> None:
    class At:
        step = Step("none", lambda shop: [])
        before = State({"kept": "a", "changed": "old"}, {"shop/disco.db": "rows"})
        after = State({"kept": "a", "changed": "new", "made": "x"}, {"shop/disco.db": "more rows"})

    def halves(state: State, *, tidy: bool = True) -> list[str]:
        return _halves(At, state, tidy=tidy)  # type: ignore[arg-type]

    assert halves(At.before) == halves(At.after) == []
    assert halves(State({"kept": "a", "changed": "ne"}, At.before.databases)) == [
        "changed is neither the old nor the new file"
    ]
    assert halves(State({"changed": "old"}, {})) == ["kept is lost", "shop/disco.db is lost"]
    left = State({**At.before.files, ".disco-1.partial": "?"}, At.before.databases)
    assert halves(left) == [".disco-1.partial was left behind"]
    assert halves(left, tidy=False) == []


def test_a_report_counts_and_keeps_reproductions() -> None:
    report = Report("io")
    report.case("a case", [])
    report.case("another", ["a traceback"], said="exit 1: …")
    report.missed("a third")
    assert report.failures == ["another\n    a traceback\n    exit 1: …"]
    assert report.line(2.0) == "io: 2 cases, 1 failed, 1 missed (2 s)"


def test_command_lines_are_seeded_and_come_from_the_real_tree() -> None:
    some = lines(60, seed=3, devices=True)
    assert some[:20] == lines(20, seed=3, devices=True)
    assert some != lines(60, seed=4, devices=True)
    names = {one.words[0] for one in commands()}
    assert {"plan", "launch", "train", "db"} <= names
    assert sum(bool(line.arguments) and line.arguments[0] in names for line in some) > 50
    assert not any("/dev/" in word for line in lines(300, seed=3, devices=False) for word in line.arguments)


def test_the_drill_sees_what_a_command_line_must_not_touch(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "shop" / "data").mkdir(parents=True)
    (kept / "tmp").mkdir()
    (kept / "shop" / "data" / "orders.parquet").write_text("orders")
    (kept / "shop" / "disco.yaml").write_text("{}")

    def judged(*arguments: str, writes: str) -> list[str]:
        yard = Yard(kept, tmp_path / "lane")
        yard.ready()
        (yard.world / writes).write_text("something else")
        return yard.judge(Line(1, arguments, ()), tmp_path)

    assert judged("export", "first", "-o", "codes.csv", writes="shop/codes.csv") == []
    assert judged("export", "first", "-o", "codes.csv", writes="shop/other.csv") == ["changed 'shop/other.csv'"]
    for own in ("shop/data/orders.parquet", "shop/disco.yaml"):
        assert judged("export", "first", "-o", own.removeprefix("shop/"), writes=own) == [f"changed {own!r}"]
    assert judged("export", "first", "-o", "codes.csv", writes="tmp/x") == ["left 'tmp/x' behind"]
    assert judged("export", "first", "-o", "codes.csv", writes="shop/codes.csv.manifest.json") == []
    assert judged("export", "first", "-o=a", writes="shop/=a") == []
    (kept / "shop" / "link").symlink_to("elsewhere.csv")
    assert judged("export", "first", "-o", "link", writes="shop/elsewhere.csv") == []
    assert judged("export", "first", "-o", "codes.csv", writes="shop/elsewhere.csv") == ["changed 'shop/elsewhere.csv'"]


def test_the_drill_sees_defects_hangs_and_memory() -> None:
    assert _wrong(_ended(2, "Usage: …"), own_bytes=0) == []
    assert _wrong(_ended(3, "error: a defect"), own_bytes=0) == ["exit 3"]
    assert _wrong(_ended(1, ""), own_bytes=0) == ["no word about what is wrong"]
    assert "no end" in _wrong(_ended(-9, "", timed_out=True), own_bytes=0)[0]
    large = Ended(code=0, out="done", err="", seconds=1.0, peak_bytes=5 * 2**30)
    assert _wrong(large, own_bytes=2**30) == ["4.0 GB of memory"]
