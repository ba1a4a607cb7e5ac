"""A disk of 16 MB, filled to several levels: every writing command, then space is freed and it runs again."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from faults_life import Moment, forked, verdict
from faults_report import Report
from own_mounts import mount_small_disk, unmount

DISK_BYTES = 16 * 2**20
LEVELS_BYTES = (0, 12_288, 81_920, 409_600)
"""Space left when the command starts: none, a journal's, a small file's, that of most of them."""


@dataclass(frozen=True, slots=True)
class Fill:
    """A command starts when this much space is left."""

    moment: Moment
    left_bytes: int


def strike(case: Fill, folder: Path, report: Report) -> None:
    """Run the command on the full disk, free the space, and judge what is left."""
    moment, disk = case.moment, folder / "disk"
    disk.mkdir(exist_ok=True)
    mount_small_disk(disk, size_bytes=DISK_BYTES)
    try:
        world = disk / "world"
        shutil.copytree(moment.kept, world)
        filler = disk / "filler"
        _fill(filler, left_bytes=case.left_bytes)
        ended = forked(moment, world, folder).wait()
        filler.unlink()
        problems = verdict(moment, world, ended, folder)
        report.case(
            f"full: disco {' '.join(moment.arguments)}: {case.left_bytes:,} bytes left",
            problems,
            said=f"exit {ended.code}: {ended.err.strip()[-400:]}",
        )
    finally:
        unmount(disk)


def _fill(filler: Path, *, left_bytes: int) -> None:
    """A file that leaves that much space."""
    descriptor = os.open(filler, os.O_CREAT | os.O_WRONLY)
    try:
        space = os.fstatvfs(descriptor)
        os.posix_fallocate(descriptor, 0, max(1, space.f_bavail * space.f_frsize - left_bytes))
    finally:
        os.close(descriptor)
