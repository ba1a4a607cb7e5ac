"""Spark that cannot be started is refused in a sentence, before any work."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from spark_cluster import QUICK_ARGUMENTS, require_spark

from disco.adapters.engines import LocalEngine
from disco.adapters.engines.spark import SparkEngine, require_java
from disco.entrypoints.python import Shop
from disco.records.errors import InputError, MissingPartError


def java_that_says(folder: Path, text: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_a_java_that_is_too_old(tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path, f'openjdk version "{version}" 2024-01-16')))
    with pytest.raises(MissingPartError, match=rf"Java is too old: found .*{version}.*; expected 17 or newer"):
        require_java()


def test_no_java(tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingPartError, match=r"Spark needs Java.*Install Java 17 or newer"):
        SparkEngine(master="local[3]")  # this process may have a session elsewhere


@pytest.mark.parametrize("library", ["pyspark", "pandas"])
def test_libraries_that_are_not_installed_are_named_with_the_command_that_adds_them(library):
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name == '{library}': raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from disco.entrypoints import cli\n"
        "sys.argv = ['disco', 'allocate', 'values.parquet', '--caps', 'c.yaml', '-o', 'out', '--engine', 'spark']\n"
        "cli.command()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.match(rf"(?i)error: Libraries for Spark are absent or too old \(.*\b{library}\b.*\)\. ", done.stderr)
    assert done.stderr.count("\n") == 1
    assert "Run `pip install 'disco-codes[spark]'`" in done.stderr


@pytest.mark.parametrize(
    "master", ["", "spark://", "spark://host", "spark://host:99999", "http://host:1", "local[x]", "local[0]"]
)
def test_what_is_no_master(master):
    require_spark()
    with pytest.raises(InputError, match="master: found"):
        SparkEngine(master=master or " ")


def test_a_master_that_cannot_be_reached():
    require_spark()
    with pytest.raises(InputError, match=r"The master spark://127.0.0.1:1 cannot be reached"):
        SparkEngine(master="spark://127.0.0.1:1")


def test_what_is_no_session():
    with pytest.raises(InputError, match="session: found a LocalEngine; expected a SparkSession"):
        SparkEngine(LocalEngine())


def in_a_new_process(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A session of its own: that of this process may run already."""
    command = [sys.executable, "-c", f"from disco.adapters.engines.spark import SparkEngine\n{program}"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_spark_writes_nothing_to_stderr_and_the_users_memory_holds():
    require_spark()
    done = in_a_new_process(
        "import os, pyarrow as pa\n"
        "engine = SparkEngine(master='local[1]')\n"
        "table = engine.table(pa.table({'n': [1, 2, 3]}))\n"
        "print(table.fold(lambda chunk: chunk.num_rows, lambda one, other: one + other))\n"
        "print(1024 <= int(os.environ['SPARK_DRIVER_MEMORY'].removesuffix('m')) <= 4096)\n"
        "print(engine.session._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20 < 700)\n",
        PYSPARK_SUBMIT_ARGS=f"--driver-memory 600m {QUICK_ARGUMENTS}",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\nTrue\nTrue\n", "")


def test_a_java_that_does_not_start_says_why():
    require_spark()
    done = in_a_new_process("SparkEngine(master='local[1]')", PYSPARK_SUBMIT_ARGS="--nonsense pyspark-shell")
    last = done.stderr.splitlines()[-1]
    assert "InputError: Java did not start Spark: found Error: Unrecognized option: --nonsense" in last
    assert "PYSPARK_SUBMIT_ARGS" in last


def test_a_master_without_spark(tmp_path):
    with pytest.raises(InputError, match=r"master: found 'local\[2\]'; expected none. Only the engine spark"):
        Shop.open(tmp_path, master="local[2]")
