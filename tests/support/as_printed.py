"""Pages run as they are printed: a shell executes the blocks, and one warm process answers every `disco` in them.

A block of commands is fenced as `bash`, so that it can be pasted. What it prints is fenced as `text` and follows at
once; a `text` block after a sentence of its own is an example and is not compared.
"""

import contextlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from disco.entrypoints import cli

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
_FENCED = re.compile(r"^```bash\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
_END = "\x1e"


class Block(NamedTuple):
    commands: str
    shown: str
    """What the page says they print; empty where it shows nothing."""


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    return [Block(found[1], found[2] or "") for found in _FENCED.finditer(page)]


def words(text: str) -> list[str]:
    """What a text says, without what belongs to the page's own size: figures, hashes, how columns are spaced, and
    whether a figure lay inside its forecast or a new network was better."""
    text = re.sub(r"\b[0-9a-f]{12,}\b", "HASH", text)
    text = re.sub(r"[−+-]?£?[0-9][0-9.,]*(e-?[0-9]+)?( ?[km]\b| ?%)?", "#", text)
    missed = r"\b(revenue|code cost) # (above|below) forecast( and code cost # above forecast)?"
    verdict = "The new network would have been (better|worse)|There is no clear difference between the networks"
    return re.sub(verdict, "VERDICT", re.sub(missed, "inside", text)).split()


@contextlib.contextmanager
def disco_in(folder: Path) -> Iterator[None]:
    """Within it, FOLDER/disco is the command `disco`, answered by this process."""
    home, arguments = Path.cwd(), sys.argv
    place = folder / "disco"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        door = stack.enter_context(socket.socket(socket.AF_UNIX))
        address = f"\0disco-{os.getpid()}-{id(door)}"  # a path would be too long for a socket in a deep folder
        door.bind(address)
        door.listen()
        place.write_text(_ASK.format(python=sys.executable, place=address))
        place.chmod(0o755)
        stack.callback(os.chdir, home)
        stack.callback(setattr, sys, "argv", arguments)
        threading.Thread(target=_answer, args=(door,), daemon=True).start()
        yield


def run_blocks(page: list[Block], *, folder: Path, path: Path | None = None) -> list[str]:
    """What bash prints for each block, one shell for all of them; `path` is put in front of PATH."""
    script = "set -eu\n" + "".join(f"{block.commands}echo '{_END}'\n" for block in page)
    before = "" if path is None else f"{path}{os.pathsep}"
    environment = {**os.environ, "PATH": before + os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.split(f"{_END}\n")[:-1]


def _answer(door: socket.socket) -> None:
    while True:
        try:
            asked, _ = door.accept()
        except OSError:  # the pages have run
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
