"""Customer ids as 64-bit keys: the root of every random draw and every tie-break.

The key of an id is a hash of its decimal or UTF-8 text, so the integer 17 and the text "17" are one customer, whether
the table came as Parquet or CSV, and no key depends on the row, the chunk or who else is present.
"""

import numba as nb
import numpy as np
import pyarrow as pa

from disco.records.arrays import Ids, Integers, Keys
from disco.records.errors import InputError

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


@nb.njit("uint64(uint64)", inline="always", cache=True)
def mix(word: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every input bit reaches every output bit (splitmix64's finaliser)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@nb.njit("void(int64[::1], uint64[::1])", nogil=True, cache=True)
def _keys_of_integers(ids: Integers, out: Keys) -> None:
    digits = np.empty(20, np.uint8)
    for row in range(ids.size):
        left = ids[row]
        key = _FNV_OFFSET
        magnitude = np.uint64(left)
        if left < 0:
            key = (key ^ np.uint64(45)) * _FNV_PRIME  # '-'
            magnitude = ~magnitude + np.uint64(1)
        count = 0
        while True:
            digits[count] = np.uint8(magnitude % np.uint64(10) + np.uint64(48))
            magnitude //= np.uint64(10)
            count += 1
            if magnitude == 0:
                break
        for place in range(count - 1, -1, -1):
            key = (key ^ np.uint64(digits[place])) * _FNV_PRIME
        out[row] = mix(key)


@nb.njit("void(int64[::1], uint8[::1], uint64[::1])", nogil=True, cache=True)
def _keys_of_texts(offsets: Integers, text: "np.ndarray[tuple[int], np.dtype[np.uint8]]", out: Keys) -> None:
    for row in range(out.size):
        key = _FNV_OFFSET
        for place in range(offsets[row], offsets[row + 1]):
            key = (key ^ np.uint64(text[place])) * _FNV_PRIME
        out[row] = mix(key)


def read_ids(ids: object, *, where: str = "customer_id") -> Ids:
    """Ids as a one-dimensional int64 array or an object array of text; anything else is refused by name."""
    if isinstance(ids, pa.ChunkedArray | pa.Array):
        if ids.null_count:
            raise InputError(where, found=f"{ids.null_count} nulls", expected="an id in every row")
        ids = ids.to_numpy(zero_copy_only=False) if isinstance(ids, pa.Array) else ids.to_numpy()
    array = np.asarray(ids)
    if array.ndim != 1:
        raise InputError(where, found=f"an array of shape {array.shape}", expected="one id per customer")
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
            raise InputError(where, found=int(array.max()), expected="integers below 2⁶³, or text")
        return array.astype(np.int64, copy=False)
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind == "O":
        kinds = {type(value) for value in array.tolist()}
        if kinds <= {str}:
            return array
        if kinds <= {int}:
            return array.astype(np.int64)
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(where, found=f"ids of type {names}", expected="all integers or all text")
    raise InputError(where, found=f"ids of type {array.dtype}", expected="integers or text")


def customer_keys(ids: object) -> Keys:
    """One 64-bit key per id.

    >>> bool((customer_keys([17, -3]) == customer_keys(["17", "-3"])).all())
    True
    """
    array = read_ids(ids)
    keys = np.empty(array.size, np.uint64)
    if array.dtype.kind == "i":
        _keys_of_integers(np.ascontiguousarray(array), keys)
        return keys
    text = pa.array(array, pa.large_string())
    if text.null_count:
        raise InputError("customer_id", found="a null", expected="an id in every row")
    _, offsets, data = text.buffers()
    start = np.frombuffer(offsets, np.int64, array.size + 1, text.offset * 8)
    _keys_of_texts(start, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), keys)
    return keys


def name_key(*names: object) -> int:
    """A 64-bit key for a tuple of names and numbers, such as (seed, campaign, purpose).

    >>> name_key("ab", "c") != name_key("a", "bc")
    True
    """
    from hashlib import blake2b

    text = "\x1f".join(f"{type(name).__name__}:{name}" for name in names)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
