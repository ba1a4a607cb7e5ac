"""Every command ends in an exit code and a sentence: wrong bytes, huge numbers, defects, full disks, Ctrl-C."""

import io
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError

from disco.entrypoints.cli import app as commands
from disco.records.errors import CertificateError, DiscoError

Run = Callable[..., tuple[int, str, str]]
PROGRAM = """
from disco.entrypoints import cli

heard = cli._Interruption.__enter__

def enter(interruption):
    heard(interruption)
    print("ready", flush=True)

cli._Interruption.__enter__ = enter
cli.command()
"""
POWER = ("power", "--baseline", "4.2", "--sd", "18")


def start(*arguments: object, **options: Any) -> "subprocess.Popen[bytes]":
    """`disco ARGUMENTS` as a process of its own; the first line of its output is `ready`."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    words = [one if isinstance(one, bytes) else str(one).encode() for one in arguments]
    return subprocess.Popen([sys.executable.encode(), b"-c", PROGRAM.encode(), *words], **options)


def ended(*arguments: object, **options: Any) -> SimpleNamespace:
    process = start(*arguments, **options)
    out, error = process.communicate(timeout=120)
    encoding = options.get("env", {}).get("PYTHONIOENCODING", "utf-8")
    shown = (out or b"").decode(encoding).removeprefix("ready\n"), (error or b"").decode(encoding)
    assert "Traceback" not in shown[0] + shown[1]
    assert "Exception ignored" not in shown[1]
    return SimpleNamespace(code=process.returncode, out=shown[0], err=shown[1])


# ---- arguments, settings and numbers that no command can use


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "words"),
    [
        (("campaigns", b"\xff"), {}, 2, "argument 2: found bytes that are not UTF-8"),
        (("explain", "c1", b"caf\xe9", "--json"), {}, 2, "argument 3: found bytes that are not UTF-8"),
        (("doctor",), {"DISCO_DATA": b"\xff"}, 2, "DISCO_DATA: found bytes that are not UTF-8"),
        (("campaigns",), {"DISCO_CODE_SECRET": b"s3cret\xff"}, 2, "DISCO_CODE_SECRET: found bytes"),
        (("campaigns",), {"DISCO_DATABASE_URL": "postgresql://[::1/x"}, 1, "database URL: found something that is no"),
        (("validate", ".", "--as-of", "9999-12-31"), {}, 2, "--as-of: found 9999-12-31; expected a day from 1900 to"),
        (("features", ".", "--as-of", "0001-01-01", "-o", "f.parquet"), {}, 2, "--as-of: found 0001-01-01"),
        (("train", "context", "--tables", ".", "--window-start", "9999-12-31"), {}, 2, "--window-start: found 9999"),
        (
            ("features", ".", "--as-of", "2025-06-01", "-o", "f.parquet", "--memory-limit", "1KB"),
            {},
            2,
            "at least 64MB",
        ),
        ((*POWER, "--uplift", "1%", "--control-share", "1e-308"), {}, 2, "--control-share: found 1e-308"),
        ((*POWER, "--customers", "9" * 400), {}, 2, "--customers: found 999"),
        (("campaigns", "--no\x1bsuch"), {}, 2, "No such option: --no\\x1bsuch"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(
    disco: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[Any, ...],
    environment: dict[str, Any],
    code: int,
    words: str,
) -> None:
    """In this process, with what Python makes of bytes that are no text."""
    monkeypatch.chdir(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, os.fsdecode(value))
    ended_with, out, error = disco(*map(os.fsdecode, arguments))
    message = json.loads(error)["message"] if "--json" in arguments else error
    assert (ended_with, out) == (code, "")
    assert words in message
    assert "s3cret" not in message


def test_bytes_that_are_no_text_are_refused_by_a_process_too(tmp_path: Path) -> None:
    for arguments, environment, words in (
        (("campaigns", b"\xff"), {}, "argument 2: found bytes that are not UTF-8"),
        (("doctor",), {"DISCO_DATA": b"\xff"}, "DISCO_DATA: found bytes that are not UTF-8"),
    ):
        done = ended(*arguments, cwd=tmp_path, env={**os.environ, **environment})
        assert (done.code, done.out) == (2, "")
        assert words in done.err


def test_a_row_that_is_neither_text_nor_whole_ends_in_a_sentence(shop: Path, tmp_path: Path) -> None:
    """PyArrow prints a traceback of its own where a row has too few cells and is no UTF-8."""
    header = b"event_id,campaign_id,customer_id,code,ordered_at,full_price,kind,refers_to\n"
    (tmp_path / "rows.csv").write_bytes(header + b"e1,first,\xc2x,,2025-09-02,5.00\n")
    done = ended("ingest", "first", tmp_path / "rows.csv", "--shop", shop)
    assert done.code == 1
    assert "rows.csv" in done.err


# ---- what nobody expected


def _not_a_number() -> ValidationError:
    try:
        TypeAdapter(int).validate_python("x")
    except ValidationError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    "error",
    [
        OverflowError("int too large"),
        RecursionError("too deep"),
        KeyError("sizes"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        pa.ArrowInvalid("bad offsets"),
        duckdb.InternalException("vector of type X"),
        sa.exc.MultipleResultsFound("two rows"),
        _not_a_number(),
        CertificateError("bound", found=1, expected=2),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_defect_ends_in_a_sentence_and_exit_3(disco: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(commands, "make_app", lambda _: fail)
    code, out, said = disco("campaigns")
    assert (code, out) == (3, "")
    assert "Traceback" not in said
    if not isinstance(error, DiscoError):
        assert said.startswith(f"error: This is a defect of disco or a damaged file ({type(error).__name__}: ")
        assert "DISCO_DEBUG=1" in said
    code, _, said = disco("campaigns", "--json")
    kind = "CertificateError" if isinstance(error, CertificateError) else "DefectError"
    assert (code, json.loads(said)["error"]) == (3, kind)
    monkeypatch.setenv("DISCO_DEBUG", "1")
    code, _, said = disco("campaigns")
    assert code == 3
    assert said.startswith("Traceback")


@pytest.mark.parametrize(
    "error", [MemoryError(), pa.ArrowMemoryError("realloc of size 8000000000 failed"), duckdb.OutOfMemoryException("x")]
)
def test_a_lack_of_memory_has_its_own_sentence(disco: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(commands, "make_app", lambda _: fail)
    code, _, said = disco("campaigns")
    assert code == 1
    assert "not enough memory" in said


# ---- terminals


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_every_encoding_of_a_terminal_is_served(
    disco: Run, monkeypatch: pytest.MonkeyPatch, shop: Path, encoding: str
) -> None:
    results = ("results", "first", "--as-of", "2025-10-03", "--shop", shop)
    shown = []
    for command in (("campaigns", "--shop", shop), results):
        sink = io.BytesIO()
        with io.TextIOWrapper(sink, encoding=encoding) as terminal, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            code, _, error = disco(*command)
            terminal.flush()
            shown.append(sink.getvalue().decode(encoding))
        assert code == 0, error
        assert "first" in shown[-1]
        assert "–" not in shown[-1] or encoding == "cp1252"  # Latin-1 has no such dash
    if encoding == "latin-1":  # once with a process of its own
        done = ended(*results, env={**os.environ, "PYTHONIOENCODING": encoding})
        assert (done.code, done.out) == (0, shown[-1])


DRIVING = "a\x1b[2J\x07\x7f\x9b31m\u202eb\rc"
WRITTEN_OUT = "a\\x1b[2J\\x07\\x7f\\x9b31m\\u202eb\\rc"


def on_a_terminal(*arguments: object, **options: Any) -> str:
    """What a terminal receives from the command."""
    ours, theirs = pty.openpty()
    process = start(*arguments, stdout=theirs, stderr=theirs, stdin=theirs, **options)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other side is closed
        pass
    finally:
        os.close(ours)
    process.wait(timeout=60)
    return shown.decode()


@pytest.fixture
def on_a_terminal_here(disco: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a terminal receives from a command that runs in this process."""

    def run(*arguments: object) -> str:
        ours, theirs = pty.openpty()
        shown: list[bytes] = []

        def read() -> None:
            with suppress(OSError):  # the other side is closed
                while part := os.read(ours, 4096):
                    shown.append(part)

        reader = Thread(target=read)
        reader.start()
        with open(theirs, "w", encoding="utf-8") as terminal, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", terminal)
            disco(*arguments)
        reader.join(timeout=60)
        os.close(ours)
        return b"".join(shown).decode()

    return run


def test_ids_and_file_names_cannot_drive_a_terminal(
    disco: Run, on_a_terminal_here: Callable[..., str], shop: Path, tmp_path: Path
) -> None:
    outcomes = tmp_path / f"{DRIVING.replace(chr(13), '')}.parquet"
    pq.write_table(pq.read_table(shop / "outcomes.parquet").slice(0, 1), outcomes)
    assert disco("ingest", "first", outcomes, "--shop", shop)[0] == 0
    for arguments, in_json in (
        (("explain", "first", DRIVING), False),
        (("late", "first", DRIVING, "--as-of", "2025-09-20"), False),
        (("ingest", "first", DRIVING), False),
        (("campaigns", "first"), False),
        (("campaigns", "first", "--json"), True),
    ):
        _, out, error = disco(*arguments, "--shop", shop)
        said = [out + error, on_a_terminal_here(*arguments, "--shop", shop)]
        if arguments[0] == "explain":  # once with a process of its own
            said.append(on_a_terminal(*arguments, "--shop", shop).removeprefix("ready\r\n"))
            assert said[2] == said[1]
        for shown in said:
            plain = shown.replace("\x1b[31m\x1b[1merror: \x1b[0m", "")  # our own colour
            assert not {"\x1b", "\x07", "\x7f", "\x9b", "\u202e"} & set(plain), (arguments, plain)
            assert in_json or WRITTEN_OUT.removesuffix("\\rc") in plain.replace("\r\n", ""), (arguments, plain)


# ---- done, and the report lost


def test_a_batch_is_named_when_only_its_quarantine_cannot_be_written(shop: Path, tmp_path: Path) -> None:
    rows = pq.read_table(shop / "outcomes.parquet").slice(0, 2)
    hostile = {"code": ["＝SUM(A1)", "\n=1"], "event_id": ["＋1", "\n2"]}
    for name, values in hostile.items():
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values))
    pq.write_table(rows, tmp_path / "rows.parquet")
    done = ended("ingest", "first", tmp_path / "rows.parquet", "--shop", shop, "--quarantine", "/dev/full", "--json")
    assert done.code == 4
    batch = json.loads(done.out)["batch_id"]
    message = json.loads(done.err)["message"]
    assert message.startswith(f"Batch {batch} of first is ingested. Only its quarantine could not be written")
    assert f"`disco quarantine {batch} -o FILE`" in message
    later = ended("quarantine", batch[:6], "-o", tmp_path / "q.csv", "--shop", shop, "--json")
    assert (later.code, json.loads(later.out)["rows"]) == (0, 2)
    written = pacsv.read_csv(tmp_path / "q.csv", parse_options=pacsv.ParseOptions(newlines_in_values=True)).to_pydict()
    assert written["code"] == ["'＝SUM(A1)", "'\n=1"]
    assert written["event_id"] == ["'＋1", "'\n2"]
    assert written["disposition"] == ["unmatched", "unmatched"]


def test_what_was_done_is_said_when_standard_output_is_full(
    disco: Run, monkeypatch: pytest.MonkeyPatch, shop: Path, tmp_path: Path
) -> None:
    def full(*arguments: object) -> SimpleNamespace:
        with open("/dev/full", "w") as sink, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", sink)
            code, _, error = disco(*arguments)
        return SimpleNamespace(code=code, err=error)

    def full_process(*arguments: object) -> SimpleNamespace:
        """The same in a process of its own, whose interpreter writes what is left when it ends."""
        with open("/dev/full", "wb") as sink:
            # `ready` of the test's own program is not wanted here
            words = [sys.executable, "-c", "from disco.entrypoints.cli import command; command()", *map(str, arguments)]
            done = subprocess.run(words, stdout=sink, stderr=subprocess.PIPE, text=True, timeout=120)
        assert "Exception ignored" not in done.stderr
        return SimpleNamespace(code=done.returncode, err=done.stderr)

    planned = full("plan", shop / "second.yaml", "--shop", shop)
    assert planned.code == 4
    assert "\nerror: Plan " in planned.err  # after the warnings of the plan
    for arguments, words in (
        (("launch", "second"), "second is launched. Only the report could not be written to standard output: No space"),
        (("pause", "second"), "second is paused. Only"),
        (("resume", "second"), "second is launched. Only"),
        (("ingest", "first", shop / "outcomes.parquet"), "of first is ingested, 0 rows applied. Only"),
        (("learn", "--activate", "1"), "Version 1 of the model is active. Only"),
        (("backup", "-o", tmp_path / "kept.tar.gz"), "kept.tar.gz is written. Only"),
        (("forget", "nobody"), "0 customers forgotten. Only"),
        (("prune", "--older-than", "9y"), "What is old was removed. Only"),
    ):
        done = (full_process if arguments[0] == "pause" else full)(*arguments, "--shop", shop)
        assert done.code == 4, done.err
        assert words in done.err
    reading = full("campaigns", "--shop", shop)
    assert (reading.code, reading.err) == (
        1, "error: standard output: found No space left on device; expected a place that can be written\n"
    )  # fmt: skip
    assert full("--help").code == full_process("--help").code == 1
    listed = json.loads(disco("campaigns", "--shop", shop, "--json")[1])["campaigns"]
    assert {one["campaign"]: one["state"] for one in listed} == {"first": "ended", "second": "ended"}


def test_outcomes_go_to_a_csv_file_and_a_full_disk_leaves_the_retailer_as_it_was(shop: Path, tmp_path: Path) -> None:
    codes = pq.read_table(shop / "codes.parquet")
    day = pa.scalar(0).cast(pa.timestamp("us"))
    later = pa.array([day.as_py().replace(year=2025, month=10, day=5)] * codes.num_rows, pa.timestamp("us"))
    codes = codes.set_column(codes.column_names.index("sent_at"), "sent_at", later).drop_columns(["expires_at"])
    pq.write_table(codes, tmp_path / "codes.parquet")
    before = {path.name: path.read_bytes() for path in (shop / "data").iterdir()}
    arguments = ("respond", shop / "data", tmp_path / "codes.parquet", "-o", tmp_path / "o.csv")
    small = len(before["returns.parquet"])  # room for the outcomes and a small table, not for the larger ones
    refused = ended(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (small, small)))
    assert refused.code == 1
    assert "File too large" in refused.err
    assert {path.name: path.read_bytes() for path in (shop / "data").iterdir()} == before
    assert ended(*arguments).code == 0
    assert (tmp_path / "o.csv").read_text().startswith('"event_id","campaign_id"')
    assert pacsv.read_csv(tmp_path / "o.csv").num_rows > 0


# ---- Ctrl-C


@pytest.mark.parametrize(
    ("work", "printed"),
    [
        ("try:\n  wait()\n except KeyboardInterrupt:\n  pass\n wait()\n print('went on')", b""),
        ("try:\n  wait()\n finally:\n  wait()\n  print('cleaned up')", b"cleaned up\n"),
    ],
    ids=["an interruption that was lost is repeated", "cleaning up is not interrupted"],
)
def test_an_interruption_is_repeated_until_the_command_ends(work: str, printed: bytes) -> None:
    program = f"""
import sys, time
from disco.entrypoints import cli
from disco.entrypoints.cli import app
cli._REPEATED_AFTER_S = 0.05
def wait():
 waits.append(1)
 if len(waits) == 1:
  print("ready", flush=True)
 time.sleep(60 if len(waits) == 1 or {not printed} else 0.3)
def run(interrupted):
 {work}
 return 0
waits = []
app.run = run
cli.command()
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=50)
    assert (process.returncode, out) == (130, printed)
    assert error.startswith(b"Interrupted.")


@pytest.mark.parametrize("seconds", [0, 0.2, 1.0])  # before, within and after most imports
def test_an_interruption_ends_in_one_line_and_exit_130(tmp_path: Path, seconds: float) -> None:
    process = start("demo", "-o", tmp_path / "out")
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, b"")
    assert error == b"Interrupted. What was committed before is kept; everything else was undone.\n"


def _seconds_of_children(process: int) -> float:
    """Processor time of all processes that a process has started."""
    ticks = 0
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # ended meanwhile
            for child in children.read_text().split():
                ticks += sum(map(int, Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def test_an_interruption_inside_duckdb_changes_nothing(shop: Path) -> None:
    counting = "(SELECT count(*) FROM range(300000) a, range(300000) b WHERE (a.range + b.range) % 7 = 3) > 0"
    slow = (shop / "second.yaml").read_text().replace("country = 'GB'", counting)
    (shop / "slow.yaml").write_text(slow)
    before = sorted(path.name for path in shop.rglob("*"))
    process = start("plan", shop / "slow.yaml", "--shop", shop)
    assert process.stdout is not None
    process.stdout.readline()
    until = time.monotonic() + 60
    while _seconds_of_children(process.pid) < 0.5:  # the condition is evaluated in a process of its own
        assert time.monotonic() < until, "the condition is never evaluated"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, b"")
    assert error.startswith(b"Interrupted.")
    assert sorted(path.name for path in shop.rglob("*")) == before


@pytest.mark.parametrize("moment", ["__enter__", "__exit__"])
def test_an_interruption_in_the_moment_before_or_after_is_one_line_too(moment: str) -> None:
    program = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
from disco.entrypoints import cli
def interrupted(*_):
    signal.raise_signal(signal.SIGINT)
cli._Interruption.{moment} = interrupted
cli.command()
"""
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (130, 1)
    assert done.stderr.startswith("Interrupted.")


def test_an_interruption_that_a_finalizer_swallows_is_repeated() -> None:
    program = """
import signal, sys, time
import disco.entrypoints.cli.app as commands
from disco.entrypoints.cli import command
class Late:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def app(**_):
    Late()
    time.sleep(30)
commands.make_app = lambda _: app
command()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (130, 1)
    assert done.stderr.startswith("Interrupted.")
