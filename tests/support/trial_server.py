"""A PostgreSQL server in a folder of its own, deleted afterwards: for tests, drills and benchmarks."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from disco.records.errors import DiscoError, MissingPartError

_USER = "postgres"  # the server refuses to run as root
_SECONDS = 120


class TrialServer:
    """Reached through a socket in its folder, never over the network."""

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._settings = settings

    def url(self, database: str) -> str:
        return f"postgresql://{_USER}@/{database}?host={self._folder}"

    def make(self) -> None:
        """A new cluster."""
        self._run("initdb", "--auth=trust", f"--username={_USER}", "--no-sync", "-D", str(self._data))

    def start(self) -> None:
        """Returns when the server answers; after a crash that is after its recovery."""
        options = [f"-k {self._folder}", "-h ''", *(f"-c {setting}" for setting in self._settings)]
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-l", log, "-w", "-o", " ".join(options), "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """End the server at once; its children notice and end too."""
        os.kill(self.process_id, signal.SIGKILL)

    @property
    def process_id(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split("\n", 1)[0])

    def execute(self, statement: str, *, database: str = "postgres") -> list[Any]:
        """One statement outside any transaction."""
        with self.session(database=database) as session:
            done = session.execute(statement.encode())
            return done.fetchall() if done.description else []

    @contextmanager
    def session(self, *, database: str = "postgres") -> Iterator[Any]:
        """A connection on which each statement is a transaction of its own; for many statements, where `execute` would
        connect for each."""
        import psycopg

        with psycopg.connect(f"host={self._folder} user={_USER} dbname={database}", autocommit=True) as session:
            yield session

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [find_postgres(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,  # the server would keep a pipe open
            stderr=subprocess.STDOUT,
            cwd="/",
            timeout=_SECONDS,
            check=False,
            text=True,
            **_other_user(),
        )
        if done.returncode:
            log = self._folder / "log"
            said = done.stdout or (log.read_text(errors="replace")[-500:] if log.exists() else "")
            raise DiscoError(f"PostgreSQL's {program} failed", found=f"exit {done.returncode}: {said}")


@contextmanager
def trial_server(*settings: str) -> Iterator[TrialServer]:
    """A running server with these settings (`name=value`); stopped and deleted at the end."""
    folder = Path(tempfile.mkdtemp(prefix="disco-postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _USER)
        server = TrialServer(folder, settings)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_postgres(program: str) -> str:
    """The path of one of PostgreSQL's programs; Debian keeps them off the PATH, in a folder per version."""
    there = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), key=lambda path: float(path.parts[4]))
    found = str(there[-1]) if there else shutil.which(program)
    if found is None or (os.geteuid() == 0 and not _has_user()):
        raise MissingPartError(
            "a PostgreSQL server",
            found=f"no {program}" if found is None else f"no user {_USER}",
            expected="PostgreSQL 13 or newer, installed",
            fix="On Debian: apt-get install postgresql.",
        )
    return found


def _has_user() -> bool:
    return any(entry.pw_name == _USER for entry in pwd.getpwall())


def _other_user() -> dict[str, Any]:
    return {"user": _USER, "group": pwd.getpwnam(_USER).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
