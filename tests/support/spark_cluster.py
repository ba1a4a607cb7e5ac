"""Spark for tests: this process's own, and a standalone cluster on loopback of one master and two workers."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from disco.adapters.engines.spark import SparkEngine, require_java
from disco.records.errors import MissingPartError

_PATIENCE_SECONDS = 120


def require_spark() -> None:
    """Skip the test loudly where there is no Java; with CI=true this fails."""
    try:
        require_java()
        import pyspark  # noqa: F401
    except (MissingPartError, ImportError) as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: {missing}")


_HERE = "local[2]"
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""A Java that lives for a minute spends most of its time compiling, unless it compiles quickly, and a fifth of its
start verifying the classes of Spark."""
_QUICK = {
    "spark.sql.shuffle.partitions": "4",  # after an exchange: data are few
    "spark.driver.extraJavaOptions": _QUICK_JAVA,
    "spark.executor.extraJavaOptions": _QUICK_JAVA,
    "spark.sql.codegen.wholeStage": "false",  # to interpret a few rows is quicker than to compile for them
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_shared: list[SparkEngine] = []  # at most one: this process's own Spark, for all files of tests


@contextmanager
def spark_engine(master: str = _HERE, *, quick: bool = True) -> Iterator[SparkEngine]:
    """An engine; that of a cluster ends with the block, that of this machine when another one is asked for.

    quick: starts fast and is slow later, as tests need it.
    """
    require_spark()
    if _shared and master == _HERE:
        yield _shared[0]
        return
    if _shared:
        _shared.pop().close()
    engine = _started(master, _QUICK if quick else {})
    if master == _HERE:
        _shared.append(engine)
        yield engine
        return
    try:
        yield engine
    finally:
        engine.close()


def _started(master: str, settings: dict[str, str]) -> SparkEngine:
    """Settings are those of the command that starts Java: a builder of ours would be another than that of the engine,
    and the first Java of a process stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", _arguments(settings))
        return SparkEngine(master=master)


def _arguments(settings: dict[str, str]) -> str:
    options = shlex.join([word for name, value in settings.items() for word in ("--conf", f"{name}={value}")])
    return f"{options} pyspark-shell"


QUICK_ARGUMENTS = _arguments(_QUICK)
"""PYSPARK_SUBMIT_ARGS of a process of its own, whose Java lives as briefly."""


@dataclass
class Cluster:
    """A running cluster."""

    master: str
    """Its URL."""
    folder: Path
    """Where logs are."""
    workers: list[Any]
    """Processes."""

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def executors(self, worker: int) -> list[int]:
        """Process ids of the executors that a worker started."""
        found = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.workers[worker].pid)], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in found.stdout.split()]

    def kill(self, worker: int) -> None:
        """End a worker and its executors at once, as a machine that loses its power does."""
        for pid in (*self.executors(worker), self.workers[worker].pid):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """A master and two workers of one core each, on free ports of loopback."""
    require_spark()
    import pyspark

    home = Path(pyspark.__path__[0])
    jars = home / "jars"
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),  # where workers find what executors run
        "SPARK_SCALA_VERSION": "2.13",  # as the start scripts of Spark say
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }

    def started(stack: ExitStack, name: str, *args: str) -> Any:
        log = stack.enter_context((folder / f"{name}.log").open("wb"))
        command = [str(require_java()), "-cp", f"{jars}/*", "-Xmx512m", *_QUICK_JAVA.split(), *args]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
        stack.callback(_end, process)
        return process

    with ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        started(stack, "master", "org.apache.spark.deploy.master.Master", *options)
        url = _awaited(folder / "master.log", r"Starting Spark master at (spark://\S+)")
        workers = []
        for number in range(2):
            own = [*options, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), url]
            workers.append(started(stack, f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *own))
        for number in range(2):
            _awaited(folder / f"worker-{number}.log", r"(Successfully registered with master)")
        yield Cluster(url, folder, workers)


def _awaited(log: Path, pattern: str) -> str:
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise TimeoutError(f"{log}: no {pattern} in {_PATIENCE_SECONDS} s:\n{log.read_text(errors='replace')}")


def _end(process: Any) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
