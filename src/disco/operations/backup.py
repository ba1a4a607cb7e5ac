"""A shop in one file, and back: tables of the database, artefacts, settings and context network.

The file is a tar archive, compressed by gzip, with
- `database/TABLE.arrow`: every table of the database, as one transaction saw them;
- `artefacts/SHA256.arrow`: every artefact that they mention;
- `disco.yaml` and `context.safetensors`, where the shop has them;
- `manifest.json`, the last one: format, revision of the database, and the SHA-256 and length of every other file.

A restore unpacks into a folder of its own and compares everything before it touches the shop. Names other than these,
links and devices are refused.
"""

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from disco.records.errors import FileFormatError, StateError
from disco.records.files import written_whole
from disco.records.result import Result
from disco.store import Store

FORMAT = "disco backup 1"
MANIFEST, SETTINGS, NETWORK, TABLES, ARTEFACTS = (
    "manifest.json",
    "disco.yaml",
    "context.safetensors",
    "database",
    "artefacts",
)
_NAME = re.compile(rf"{SETTINGS}|{NETWORK}|{TABLES}/[a-z_]{{1,40}}\.arrow|{ARTEFACTS}/[0-9a-f]{{64}}\.arrow")
_COMPRESSION = 1  # the largest parts are compressed already
_BLOCK_BYTES = 1 << 20
_MOST_MANIFEST_BYTES = 64 << 20
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BackedUp(Result):
    """A backup of a shop."""

    file: str
    """The file that was written."""
    bytes: int
    """Its length."""
    made_at: datetime
    """When, by the clock of the shop."""
    revision: str
    """The revision of the database."""
    campaigns: tuple[str, ...]
    """The campaigns it holds."""
    rows: Mapping[str, int]
    """Rows per table of the database."""
    artefacts: int
    """Artefacts it holds."""
    settings: bool
    """Whether it holds disco.yaml."""
    network: bool
    """Whether it holds the context network."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Restored(Result):
    """A shop that was restored from a backup."""

    shop: str
    """Its folder."""
    database: str
    """The URL of its database, without a password."""
    made_at: datetime
    """When the backup was made, by the clock of the shop."""
    campaigns: tuple[str, ...]
    """The campaigns that were restored."""
    rows: Mapping[str, int]
    """Rows per table of the database."""
    artefacts: int
    """Artefacts that were restored."""
    kept: tuple[str, ...]
    """Files that the shop had already, which stayed as they were: disco.yaml, the context network."""
    missing_tables: str | None
    """Where the retailer's tables have to be put, which no backup holds; null: there is something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup says about itself."""

    made_at: datetime
    revision: str
    campaigns: tuple[str, ...]
    rows: Mapping[str, int]
    files: Mapping[str, tuple[str, int]]  # name → SHA-256, length

    @property
    def artefacts(self) -> tuple[str, ...]:
        return tuple(name for name in self.files if name.startswith(f"{ARTEFACTS}/"))


def refuse_damaged_shop(store: Store) -> None:
    """StateError where a row is not as this program wrote it; reads all of them."""
    with store.reading() as transaction:
        broken = [*transaction.seals.broken()]
        for campaign in transaction.plans.names():
            broken += transaction.seals.broken_of(campaign)
        cut = transaction.journal.first_break()
    words = [one.words for one in broken]
    if cut is not None:
        words.append(f"entry {cut.number:,} of the audit journal: {cut.found}")
    if words:
        listed = "; ".join(words[:_MOST_NAMED])
        more = f"; and {len(words) - _MOST_NAMED:,} more" if len(words) > _MOST_NAMED else ""
        raise StateError(
            f"The shop is damaged, so no backup was written: {listed}{more}",
            fix="Run `disco doctor`; with --damaged it is backed up as it is.",
        )


def pack(
    file: Path,
    parts: Mapping[str, Path],
    *,
    made_at: datetime,
    revision: str,
    campaigns: tuple[str, ...],
    rows: Mapping[str, int],
) -> BackedUp:
    """Write a backup of these files, by their names in the archive; whole, or not at all."""
    files: dict[str, tuple[str, int]] = {}
    with written_whole(file) as unfinished:
        with tarfile.open(unfinished, "w:gz", compresslevel=_COMPRESSION) as archive:
            for name, path in sorted(parts.items()):
                files[name] = _add(archive, name, path)
            manifest = Manifest(made_at=made_at, revision=revision, campaigns=campaigns, rows=rows, files=files)
            content = json.dumps({"format": FORMAT, **asdict(manifest)}, default=str, indent=1).encode()
            archive.addfile(_entry(MANIFEST, len(content)), io.BytesIO(content))
        size = unfinished.stat().st_size
    return BackedUp(
        file=str(file),
        bytes=size,
        made_at=made_at,
        revision=revision,
        campaigns=campaigns,
        rows=rows,
        artefacts=len(manifest.artefacts),
        settings=SETTINGS in files,
        network=NETWORK in files,
    )


def _add(archive: tarfile.TarFile, name: str, path: Path) -> tuple[str, int]:
    try:
        with path.open("rb") as content:
            size = path.stat().st_size
            hashed = _Hashed(content)
            archive.addfile(_entry(name, size), hashed)
    except FileNotFoundError:
        fix = "Run `disco doctor`; if the shop was being changed, back it up again."
        raise StateError(f"{path} is missing, so the shop cannot be backed up", fix=fix) from None
    found = hashed.digest.hexdigest()
    if name.startswith(f"{ARTEFACTS}/") and name != f"{ARTEFACTS}/{found}.arrow":
        raise StateError(f"The artefact {path} is damaged, so the shop cannot be backed up", fix="Run `disco doctor`.")
    return found, size


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    return entry


class _Hashed:
    """A file that knows the hash of what was read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = sha256()

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self.digest.update(content)
        return content


def unpack(file: Path, folder: Path) -> Manifest:
    """Unpack a backup into an empty folder and compare every file with the manifest.

    Every file of the manifest is there afterwards, under its name, and no other. FileFormatError names what differs.
    """
    found: dict[str, tuple[str, int]] = {}
    content = None
    try:
        with gzip.open(file) as plain, tarfile.open(fileobj=plain, mode="r|") as archive:
            for entry in archive:
                if content is not None:
                    raise _damaged(file, f"{_shown(entry.name)} after the manifest")
                if not entry.isreg():
                    raise _damaged(file, f"{_shown(entry.name)}, which is no regular file")
                opened = archive.extractfile(entry)
                if opened is None:
                    raise _damaged(file, f"{_shown(entry.name)} without content")
                if entry.name == MANIFEST and entry.size <= _MOST_MANIFEST_BYTES:
                    content = opened.read()
                elif _NAME.fullmatch(entry.name) and entry.name not in found:
                    found[entry.name] = _write(opened, folder / entry.name)
                else:
                    raise _damaged(file, f"{_shown(entry.name)}, which no backup holds")
            while plain.read(_BLOCK_BYTES):  # to the end, where gzip compares its sum
                pass
    except FileNotFoundError:
        raise FileFormatError(str(file), found="no such file", expected="a backup by `disco backup`") from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(file, str(error)[:100]) from error
    if content is None:
        raise _damaged(file, "no manifest at its end")
    manifest = _manifest(file, content)
    for name in sorted(set(found) | set(manifest.files)):
        if found.get(name) != tuple(manifest.files.get(name, ())):
            what = "no" if name not in found else "another"
            raise _damaged(file, f"{what} {name} than the manifest says")
    return manifest


def _write(content: IO[bytes], path: Path) -> tuple[str, int]:
    path.parent.mkdir(exist_ok=True)
    digest, size = sha256(), 0
    with path.open("xb") as file:
        while block := content.read(_BLOCK_BYTES):
            digest.update(block)
            size += file.write(block)
    return digest.hexdigest(), size


def _manifest(file: Path, content: bytes) -> Manifest:
    try:
        said: dict[str, Any] = json.loads(content)
        if said.get("format") != FORMAT:
            raise _damaged(file, f"the format {str(said.get('format'))[:40]!r}")
        return Manifest(
            made_at=datetime.fromisoformat(said["made_at"]),
            revision=str(said["revision"]),
            campaigns=tuple(map(str, said["campaigns"])),
            rows={str(name): int(count) for name, count in said["rows"].items()},
            files={str(name): (str(one[0]), int(one[1])) for name, one in said["files"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise _damaged(file, "a manifest that cannot be read") from error


def _damaged(file: Path, found: str) -> FileFormatError:
    fix = "Nothing was changed. Use another backup."
    return FileFormatError(str(file), found=found, expected="a backup as `disco backup` wrote it", fix=fix)


def _shown(name: str) -> str:
    return ascii(name[:100])
