"""The wheel holds the whole program and nothing else, and it works where nothing but the wheel is of DISCO.

Libraries are those of this environment, because to install them takes minutes: `./run drill install` does.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from disco.records import DISTRIBUTION, VERSION

ROOT = Path(__file__).parents[2]
CACHES = ("__pycache__", "*.egg-info")
INFO = f"disco_codes-{VERSION}.dist-info"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tree in which a kernel was compiled and a study has kept something."""
    tree, built = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns(*CACHES))
    for stray in ("__pycache__/kernel.nbi", "records/__pycache__/tables.pyc", "retailer/cache.npz"):
        (tree / "src" / "disco" / stray).parent.mkdir(exist_ok=True)
        (tree / "src" / "disco" / stray).write_bytes(b"stray")
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", built, tree)
    (file,) = built.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a new environment with the wheel, which sees the libraries of this one."""
    place = tmp_path_factory.mktemp("installed") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    pip("--python", place / "bin" / "python", "install", "--no-deps", "--no-index", "--no-compile", wheel)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


def pip(*arguments: object) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return message_from_bytes(archive.read(f"{INFO}/METADATA"))


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.startswith(f"{INFO}/")}
        licences = {name for name in archive.namelist() if name.startswith(f"{INFO}/licenses/")}
    source = ROOT / "src"
    files = (path for path in (source / "disco").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert held == {str(path.relative_to(source)) for path in files}
    assert {Path(name).name for name in licences} >= {"LICENSE", "LICENSE-d3", "LICENSE-htmx", "NOTICE"}


def test_the_wheel_says_what_it_is_and_what_it_needs(wheel):
    said = metadata(wheel)
    assert (said["Name"], said["Version"]) == (DISTRIBUTION, VERSION)
    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"].startswith("Apache-2.0")
    assert said["Author"]
    assert said["Keywords"]
    assert said.get_all("Classifier")
    assert said["Description-Content-Type"] == "text/markdown"
    needs = said.get_all("Requires-Dist")
    assert {'pandas; extra == "spark"', 'pyspark; extra == "spark"', "pyarrow", "torch"} <= set(needs)
    pinned = {plain(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {plain(re.split(r"[;\[]", need)[0]) for need in needs} <= pinned


def test_the_installed_program_makes_and_checks_a_shop(installed, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: object) -> str:
        done = subprocess.run(
            [*map(str, command)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        return done.stdout

    disco = installed / "disco"
    where = run(installed / "python", "-c", "import disco; print(disco.__file__)").strip()
    assert Path(where).is_relative_to(installed.parent)
    assert run(disco, "--version") == f"disco {VERSION}\n"
    assert "simulate" in run(disco, "--help")
    run(disco, "init", "shop")
    assert "No problems found" in run(disco, "validate", "shop/data")
    run(disco, "db", "upgrade", "--shop", "shop")
    run(disco, "keys", "create", "--role", "viewer", "--name", "crm", "--shop", "shop")


def test_what_a_message_says_to_run_takes_the_installed_program_and_no_other(installed):
    """Without an index: pip would have to look there if the installed program did not count."""
    said = pip("--python", installed / "python", "install", "--no-index", f"{DISTRIBUTION}[spark]")
    assert f"Requirement already satisfied: {DISTRIBUTION}[spark]" in said
    assert "Requirement already satisfied: pandas" in said
