"""`./run drill install`: the wheel in two empty environments, made by the commands of docs/install.md.

The first environment runs the README's first campaign, the second one plans the next day's campaign on Spark. Every
command has to succeed; its seconds are printed, and the size of both environments.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from as_printed import blocks

ROOT = Path(__file__).parents[2]
PARTS = ("run", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src")  # of the clone that is built from


def main() -> int:
    """Run every step in a folder of its own, which is removed afterwards."""
    *installing, with_spark = [block.commands for block in blocks((ROOT / "docs" / "install.md").read_text())]
    _, _, text = (ROOT / "README.md").read_text().partition("\n## Use it\n")
    _, campaign = (block.commands for block in blocks(text.partition("\n## ")[0]))
    with tempfile.TemporaryDirectory(prefix="disco-install-") as place:
        clone, empty = Path(place) / "clone", Path(place) / "empty"
        clone.mkdir()
        empty.mkdir()
        for name in PARTS:
            source, copy = ROOT / name, clone / name
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy2(source, copy)
        for commands in installing:
            run_lines(commands, clone)
        run_lines(campaign, empty, first=clone / "env" / "bin")
        run_lines(with_spark, clone)
        plan = empty / "shop" / "spark.yaml"
        plan.write_text((empty / "shop" / "plan.yaml").read_text().replace("autumn-25", "autumn-26"))
        run_lines("disco plan shop/spark.yaml --shop shop --engine spark\n", empty, first=clone / "env-spark" / "bin")
        for name in ("env", "env-spark"):
            size = sum(file.lstat().st_size for file in (clone / name).rglob("*"))
            print(f"{name}: {size / 1e9:.2f} GB", flush=True)
    return 0


def run_lines(commands: str, folder: Path, *, first: Path | None = None) -> None:
    """Each line by itself; `first` is put in front of PATH. Nothing of this program's own environment is passed on."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment.pop("VIRTUAL_ENV", None)
    if first is not None:
        environment["PATH"] = f"{first}{os.pathsep}{environment['PATH']}"
    for line in commands.splitlines():
        command = shlex.join(shlex.split(line, comments=True))
        started = time.monotonic()
        done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
        print(f"{time.monotonic() - started:6.1f} s  {command}", flush=True)
        if done.returncode:
            raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        for words in done.stdout.splitlines()[-4:]:
            print(f"          {words:.150}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
