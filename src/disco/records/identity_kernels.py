"""The compiled half of `identity`: hashes of whole columns, and numbers drawn from keys.

Apart from it because Numba takes longer to import than a short command takes to answer, and short commands hash at
most a handful of ids.
"""

import numpy as np

from disco.records.arrays import Integers, Keys, Vector
from disco.records.compiled import njit

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
# Arrow hands out read-only memory; a kernel declared for it takes writable arrays too
_READ_INTEGERS = "Array(int64, 1, 'C', True)"
_READ_BYTES = "Array(uint8, 1, 'C', True)"
_READ_KEYS = "Array(uint64, 1, 'C', True)"
_KEYS = "Array(uint64, 1, 'C')"


@njit("uint64(uint64)", inline="always", cache=True)
def mix(word: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every input bit reaches every output bit (splitmix64's finaliser)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(f"void({_READ_INTEGERS}, {_KEYS})", nogil=True, cache=True)
def keys_of_integers(ids: Integers, out: Keys) -> None:
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


@njit(f"void({_READ_INTEGERS}, {_READ_BYTES}, {_KEYS})", nogil=True, cache=True)
def keys_of_texts(offsets: Integers, text: "np.ndarray[tuple[int], np.dtype[np.uint8]]", out: Keys) -> None:
    for row in range(out.size):
        key = _FNV_OFFSET
        for place in range(offsets[row], offsets[row + 1]):
            key = (key ^ np.uint64(text[place])) * _FNV_PRIME
        out[row] = mix(key)


@njit(f"void({_READ_KEYS}, uint64, float64[::1])", nogil=True, cache=True)
def uniforms_of(keys: Keys, stream: np.uint64, out: Vector) -> None:
    for row in range(keys.size):
        out[row] = (mix(mix(keys[row] ^ stream)) >> np.uint64(11)) * 2.0**-53
