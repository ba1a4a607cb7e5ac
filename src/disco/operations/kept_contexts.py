"""Contexts that were embedded before: the same features, customers and network give the same ones, so they are kept.

Embedding reads every feature of every customer. The second plan of a day, and a planner that is opened again, need the
same contexts and read six numbers per customer instead. A file is named `KEY-HASH.parquet`: the key of what the
contexts come from, and the hash of its bytes. A file with other bytes is not used.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from disco.features.files import FeatureFile
from disco.records.arrays import Flags, Matrix
from disco.records.content import NAME_LENGTH, bytes_hash
from disco.records.files import written_whole
from disco.records.private import private_folder

_FORM = 1  # of the file and of the computation; another one is embedded again
_KNOWN = "known"

Contexts = tuple[Matrix, Flags]  # (n, d1), and (n,) who has a history


def key_of(features: FeatureFile, *, everybody: str, network: str, snapshot: str) -> str:
    """What contexts come from. everybody: the hash of the features of all customers, of which these are some."""
    digest = sha256(f"{_FORM} {everybody} {network} {snapshot} ".encode())
    if features.rows is not None:
        digest.update(np.packbits(features.rows).tobytes())
    return digest.hexdigest()[:NAME_LENGTH]


def kept_or_embedded(
    folder: Path, key: str, shape: tuple[int, int], embed: Callable[[], Contexts], *, keep: bool
) -> Contexts:
    """The contexts of this key from the folder, or else embedded and, where asked for, kept there."""
    there = sorted(folder.glob(f"{key}-*.parquet"))
    for path in there:
        found = _read(path, shape)
        if found is not None:
            return found
    contexts = embed()
    if keep:
        for path in there:
            path.unlink(missing_ok=True)
        _write(folder, key, contexts)
    return contexts


def _write(folder: Path, key: str, contexts: Contexts) -> None:
    matrix, known = contexts
    columns = {f"context_{number}": matrix[:, number] for number in range(matrix.shape[1])}
    table, name = pa.table({**columns, _KNOWN: known}), f"{key}.parquet"
    private_folder(folder)
    with written_whole(folder / name, name=lambda: name) as unfinished:
        # contexts are noise to a compressor
        pq.write_table(table, unfinished, compression="none", use_dictionary=False)
        name = f"{key}-{bytes_hash(unfinished)}.parquet"


def _read(path: Path, shape: tuple[int, int]) -> Contexts | None:
    """None where the file is not the one that was written."""
    rows, dimensions = shape
    try:
        if bytes_hash(path) != path.stem.partition("-")[2]:
            return None
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):  # removed meanwhile, or unreadable
        return None
    if (table.num_rows, table.num_columns) != (rows, dimensions + 1):
        return None
    matrix = np.empty(shape)
    for number in range(dimensions):
        matrix[:, number] = table[number].to_numpy()
    return matrix, table[_KNOWN].to_numpy()
