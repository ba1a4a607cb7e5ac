"""Mounts that only this process and its children see, and that are gone with them. Linux, as root."""

import ctypes
import os
from pathlib import Path

from disco.records.errors import MissingPartError

_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_NEVER_READ_ONLY = ("/proc", "/sys")  # the kernel's own; nothing of a user's lies there


def leave_shared_mounts() -> None:
    """From here on, mounts of this process are its own; MissingPartError when the system does not allow that."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MissingPartError(
            "mounts of its own", found=reason, expected="the right to mount", fix="Run the drill as root."
        )
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)


def mount_small_disk(folder: Path, *, size_bytes: int) -> None:
    """An empty file system of that size at the folder."""
    _mount("tmpfs", str(folder), "tmpfs", 0, f"size={size_bytes},mode=0700")


def unmount(folder: Path) -> None:
    if ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(folder), 2) != 0:
        raise OSError(ctypes.get_errno(), f"unmount of {folder}")


def make_read_only_except(*folders: Path) -> None:
    """Every file system becomes read-only, but for what lies in these folders."""
    for folder in folders:
        _mount(str(folder), str(folder), "", _BIND)
    kept = {str(folder) for folder in folders}
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    places = [line.split()[1].encode().decode("unicode_escape") for line in mounts]
    for place in places:
        if place not in kept and not place.startswith(_NEVER_READ_ONLY):
            _mount("none", place, "", _BIND | _REMOUNT | _READ_ONLY)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount of {target}: {os.strerror(ctypes.get_errno())}")
