"""docs/tutorial.md, run as it stands: bash executes the page, one warm process answers every `disco` in it.

Only the number of customers is smaller. What a block shows is compared word by word, with figures left open: they
belong to the page's own size. A block that shows nothing has only to succeed.
"""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from disco.entrypoints import cli

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
CUSTOMERS = "1500"
_ASK = """#!/usr/bin/env -S {python} -IS
import json, os, socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect({place!r})
door.sendall(json.dumps([os.getcwd(), sys.argv[1:]]).encode())
door.shutdown(socket.SHUT_WR)
code, out, err = json.loads(b"".join(iter(lambda: door.recv(65536), b"")))
sys.stdout.write(out), sys.stderr.write(err)
sys.exit(code)
"""


def blocks(page: str) -> list[tuple[str, str]]:
    """(commands, what they print) of each ```console block: `$ ` begins a command, `> ` goes on with it."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        lines = block.splitlines()
        commands = "\n".join(line[2:] for line in lines if line.startswith(("$ ", "> ")))
        found.append((commands, "\n".join(line for line in lines if not line.startswith(("$ ", "> ")))))
    return found


def words(text: str) -> list[str]:
    """What a text says, without its figures, hashes and how columns are spaced."""
    text = re.sub(r"\b[0-9a-f]{12,}\b", "HASH", text)
    return re.sub(r"[−+-]?£?[0-9][0-9.,]*(e-?[0-9]+)?( ?[km]\b| ?%)?", "#", text).split()


@pytest.fixture
def disco_on_path(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment in which `disco` is answered by this process."""
    place = str(tmp_path / "door")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "disco"
    command.write_text(_ASK.format(python=sys.executable, place=place))
    command.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen()
        threading.Thread(target=_answer, args=(door,), daemon=True).start()
        yield {
            **os.environ,
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            "CUSTOMERS": CUSTOMERS,
            "LC_ALL": "C.UTF-8",
        }


def _answer(door: socket.socket) -> None:
    while True:
        try:
            asked, _ = door.accept()
        except OSError:  # the test has ended
            return
        with asked, asked.makefile("rb") as request:
            folder, arguments = json.load(request)
            out, err = io.StringIO(), io.StringIO()
            code: object = 70
            os.chdir(folder)
            sys.argv = ["disco", *arguments]
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    cli.main()
                except SystemExit as ended:
                    code = ended.code or 0
                except BaseException as error:  # a traceback is a failure of the page, not of the door
                    err.write(f"{type(error).__name__}: {error}\n")
            asked.sendall(json.dumps([code, out.getvalue(), err.getvalue()]).encode())


def test_the_year_runs_as_written(
    tmp_path: Path, disco_on_path: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    page = blocks(PAGE.read_text())
    assert page
    script = "set -eu\n" + "\n".join(f"{commands}\necho '\x1e'" for commands, _ in page)
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=disco_on_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    printed = done.stdout.split("\x1e\n")[:-1]
    compared = 0
    for (commands, shown), got in zip(page, printed, strict=True):
        if shown.strip():
            assert words(got) == words(shown), commands
            compared += 1
    assert compared > 5
