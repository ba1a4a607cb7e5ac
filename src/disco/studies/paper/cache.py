"""What was computed once is kept: a file per piece of work, named by a hash of everything that decides its content.

The hash covers the settings and the source of the rooms that had a part in it, so a piece is never taken for that of
another code; a piece appears whole or not at all, so an interrupted run continues where it stopped.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from disco.records.errors import FileFormatError
from disco.records.files import written_whole

#: Rooms whose code decides what an environment is, and what is measured in one.
ENVIRONMENT_ROOMS = (
    "records/identity.py",
    "records/depths.py",
    "records/tables.py",
    "features",
    "retailer",
    "operations/arms.py",
    "studies/customers/shop.py",
    "studies/customers/recipes.py",
    "studies/paper/environment.py",
)
MEASURE_ROOMS = (
    *ENVIRONMENT_ROOMS,
    "belief",
    "policy",
    "allocation",
    "objective.py",
    "campaign.py",
    "evaluation",
    "studies/bandits",
    "studies/paper/readings.py",
    "studies/paper/simulations.py",
    "studies/paper/stages.py",
)

Arrays: TypeAlias = Mapping[str, NDArray[Any]]


def key_of(*parts: object) -> str:
    """A short name for a piece of work, from the text of whatever decides it.

    >>> key_of("environment", 11) == key_of("environment", 11), key_of("environment", 11) == key_of("environment", 12)
    (True, False)
    """
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()[:20]


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Named arrays as one .npz, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        np.savez(file, **dict[str, Any](arrays))


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Named arrays; a damaged file is named."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
        raise FileFormatError(
            str(path), found=f"a damaged piece ({error})", expected="an .npz", fix="Delete it; it is made again."
        ) from None


@contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """A folder beside `path` to fill; it becomes `path` when the body ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        if not path.exists():  # two runs may make the same piece: equal, so whoever comes first
            unfinished.rename(path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
