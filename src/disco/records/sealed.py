"""Sealed files: safetensors with one header of JSON. No pickle, and equal content gives equal bytes.

A file has tensors and, under one name in its metadata, a JSON object: one entry, because the library writes several in
any order. The object holds a digest of everything, which is compared when the file is read. A digest detects damage,
not forgery: whoever can write a file can also compute its digest, so readers check every length and value as well.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from disco.records.errors import DiscoError, FileFormatError

Made = TypeVar("Made")
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
    except (SafetensorError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise refused(damaged, shortened(error)) from error
    except RecursionError as error:
        raise refused(damaged, "a header that cannot be read") from error
    if set(metadata) != {entry}:
        raise refused(damaged, f"the parts {shortened(', '.join(sorted(tensors)))}")
    try:
        header = json.loads(metadata[entry])
    except (ValueError, TypeError, RecursionError) as error:
        raise refused(damaged, "a header that cannot be read") from error
    if not isinstance(header, dict):
        raise refused(damaged, "a header that cannot be read")
    return header, tensors


def digest_of(header: str, tensors: Tensors) -> str:
    """SHA-256 of a header and of every tensor with its name, type and shape."""
    digest = sha256(header.encode())
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"{name}:{tensor.dtype.str}:{tensor.shape}".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def read_as(damaged: FileFormatError, make: Callable[[], Made]) -> Made:
    """What `make` builds from a file's content; whatever is wrong with the content is refused as `damaged`, by name."""
    try:
        return make()
    except DiscoError as error:
        if isinstance(error, FileFormatError) and error.what == damaged.what:  # says it all already
            raise
        what = damaged.what if error.found is None else f"{damaged.what}, {shortened(error.what)}"
        found = error.what if error.found is None else error.found
        expected = damaged.expected if error.expected is None else error.expected
        raise FileFormatError(what, found=shortened(found), expected=shortened(expected), fix=damaged.fix) from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        found = f"content that cannot be read ({shortened(f'{type(error).__name__}: {error}')})"
        raise refused(damaged, found) from error


def shortened(said: object, most: int = 120) -> str:
    """Text from a file as a message may show it: without control characters, and not long."""
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(said)[: most + 1])
    return text if len(text) <= most else f"{text[: most - 1]}…"


def refused(damaged: FileFormatError, found: str) -> FileFormatError:
    """`damaged`, with what was found."""
    return FileFormatError(damaged.what, found=found, expected=damaged.expected, fix=damaged.fix)
