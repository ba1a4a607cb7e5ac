"""Spark that cannot be started is refused in a sentence, before any work."""

import stat
import sys
from pathlib import Path

import pytest
from spark_cluster import require_spark

from disco.adapters.engines import LocalEngine, open_engine
from disco.adapters.engines.spark import SparkEngine, require_java
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
        open_engine("spark")


def test_pyspark_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingPartError, match=r"pip install 'disco\[spark\]'"):
        open_engine("spark")


@pytest.mark.parametrize("master", ["", "spark://", "spark://host", "spark://host:99999", "http://host:1", "local[x]"])
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
