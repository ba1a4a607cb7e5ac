"""`./run release VERSION`: a release in dist/: sdist, wheel, the list of parts (SBOM), the notes and their sums.

It writes the version into the tree and cuts the changelog. Nothing is committed, tagged or sent: whoever releases looks
at it first. If a step fails, the tree is as it was.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
NAMED_IN = ("src/disco/records/__init__.py", "docs/install.md")
"""Files that name the version."""
_UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


class RefusedError(Exception):
    """Why there is no release, and what to do."""


def refuse_version(version: str, current: str) -> None:
    """A release has a number of three parts above the last one."""
    if not _VERSION.fullmatch(version):
        raise RefusedError(f"version: found {version}; expected MAJOR.MINOR.PATCH, such as 1.0.0")
    found, last = (tuple(map(int, text.split("."))) for text in (version, current))
    if found <= last:
        raise RefusedError(f"version: found {version}; expected one above {current}, that of the tree")


def cut(changelog: str, version: str, day: date) -> tuple[str, str]:
    """(the changelog with what was unreleased below the version, that part by itself)."""
    before, found, rest = changelog.partition(_UNRELEASED)
    part, heading, earlier = rest.partition("\n## ")
    if not found or not part.strip():
        raise RefusedError(f"{CHANGELOG}: found nothing below '## Unreleased'; expected what this release changes")
    notes = part.strip() + "\n"
    title = f"## {version} · {day.isoformat()}\n\n"
    return f"{before}{_UNRELEASED}\n{title}{notes}{heading}{earlier}", notes


def main() -> int:
    if len(sys.argv) != 2:
        raise RefusedError(f"version: found {sys.argv[1:]}; expected one, such as ./run release 1.0.0")
    version, current = sys.argv[1], _VERSION.search((ROOT / NAMED_IN[0]).read_text(encoding="utf-8"))
    assert current is not None
    refuse_version(version, current[0])
    if changed := _output("git", "status", "--porcelain"):
        raise RefusedError(f"the tree: found changes that are not committed; commit them first:\n{changed}")
    files = [ROOT / name for name in (*NAMED_IN, CHANGELOG)]
    before = [file.read_text(encoding="utf-8") for file in files]
    *named, changelog = before
    after, notes = cut(changelog, version, date.today())
    try:
        for file, text in zip(files, [*(text.replace(current[0], version) for text in named), after], strict=True):
            file.write_text(text, encoding="utf-8")
        build(version, notes)
    except BaseException:
        for file, text in zip(files, before, strict=True):
            file.write_text(text, encoding="utf-8")
        raise
    print(
        f"Version {version} is in dist/ and in the tree. To release it:\n"
        "  ./run test && ./run drill install && ./run drill image\n"
        f"  git commit --all --message 'Release {version}' && git tag --sign v{version}\n"
        "Otherwise: git checkout ."
    )
    return 0


def build(version: str, notes: str) -> None:
    """Fill dist/. The wheel is built from the sdist, so what is missing there is noticed."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # what an earlier version left there would get into the wheel
    dist.mkdir()
    _output(sys.executable, "-c", "from setuptools.build_meta import build_sdist; build_sdist('dist')")
    sdist = dist / f"disco_codes-{version}.tar.gz"
    _output(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(dist), str(sdist))
    wheel = dist / f"disco_codes-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        there = set(packed.namelist())
    tracked = _output("git", "ls-files", "src/disco").split()
    if missing := [name for name in tracked if name.removeprefix("src/") not in there]:
        raise RefusedError(f"the wheel: found no {', '.join(missing[:5])}; expected every file of src/disco")
    _output("sh", "run", "sbom")
    bill = json.loads((ROOT / "out" / "sbom.json").read_text(encoding="utf-8"))
    bill["metadata"]["component"]["version"] = version  # the environment has the version before it
    (dist / "sbom.json").write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    (dist / "NOTES.md").write_text(notes, encoding="utf-8")
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RefusedError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RefusedError as refusal:
        sys.exit(f"release: {refusal}")
