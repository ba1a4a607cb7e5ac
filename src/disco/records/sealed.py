"""Sealed files: safetensors with one header of JSON. No pickle, and equal content gives equal bytes.

A file has tensors and, under one name in its metadata, a JSON object: one entry, because the library writes several in
any order. The object holds a digest of everything, which is compared when the file is read.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco.records.errors import FileFormatError

Tensors = Mapping[str, NDArray[Any]]


def sealed_bytes(entry: str, header: str, tensors: Tensors) -> bytes:
    """The content of a file.

    entry: name of the header in the metadata, by which a reader knows the format; header: a JSON object as text.
    """
    from safetensors.numpy import save

    plain = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    return bytes(save(plain, metadata={entry: header}))


def read_sealed(content: bytes, *, entry: str, damaged: FileFormatError) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, tensors) of a file's content; `damaged` is raised, saying what was found, where there are none.

    >>> content = sealed_bytes("note", '{"kind": "example"}', {"x": np.arange(2)})
    >>> header, tensors = read_sealed(content, entry="note", damaged=FileFormatError("a note"))
    >>> header, tensors["x"].tolist()
    ({'kind': 'example'}, [0, 1])
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    except (SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise _saying(damaged, str(error)) from error
    if entry not in metadata:
        raise _saying(damaged, f"the parts {', '.join(sorted(tensors))}")
    try:
        header = json.loads(metadata[entry])
    except (ValueError, TypeError, RecursionError) as error:
        raise _saying(damaged, "a header that cannot be read") from error
    if not isinstance(header, dict):
        raise _saying(damaged, "a header that cannot be read")
    return header, tensors


def digest_of(header: str, tensors: Tensors) -> str:
    """SHA-256 of a header and of every tensor with its name, type and shape."""
    digest = sha256(header.encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"{name}:{tensor.dtype.str}:{tensor.shape}".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def _saying(damaged: FileFormatError, found: str) -> FileFormatError:
    return FileFormatError(damaged.what, found=found, expected=damaged.expected, fix=damaged.fix)
