"""The compiled half of `codes`: HMAC-SHA256 of a whole column of messages that begin alike, as the letters of codes.

SHA-256 as FIPS 180-4 states it, in the names of its standard. Apart from `codes`, because Numba takes longer to import
than a code takes to make.
"""

from typing import TypeAlias

import numpy as np

from disco.records.arrays import Integers
from disco.records.compiled import njit

Octets: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint8]]"
Words: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint32]]"

BLOCK = 64
"""Bytes that SHA-256 takes at once."""
_OCTETS, _WORDS, _READ_OCTETS = "Array(uint8, 1, 'C')", "Array(uint32, 1, 'C')", "Array(uint8, 1, 'C', True)"
_READ_OFFSETS = "Array(int64, 1, 'C', True)"


def _roots(power: float, count: int) -> Words:
    """The first 32 bits of the fractional parts of square (1/2) or cube roots (1/3) of the first primes."""
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, int(n**0.5) + 1))][:count]
    shift = round(32 / power)  # floor(root · 2³²) = floor of the root of n · 2^shift
    found = []
    for prime in primes:
        root = round((prime << shift) ** power)
        while root ** round(1 / power) > prime << shift:
            root -= 1
        while (root + 1) ** round(1 / power) <= prime << shift:
            root += 1
        found.append(root & 0xFFFFFFFF)
    return np.array(found, np.uint32)


START = _roots(1 / 2, 8)
"""(8,) the state of SHA-256 before the first block."""
K = _roots(1 / 3, 64)
"""(64,) the constants of its rounds."""


@njit("uint32(uint32, uint32)", inline="always", cache=True)
def _turn(word: np.uint32, by: np.uint32) -> np.uint32:
    return np.uint32((word >> by) | (word << (np.uint32(32) - by)))


@njit(f"void({_WORDS}, {_OCTETS}, {_WORDS}, {_WORDS})", cache=True)
def compress(state: Words, block: Octets, schedule: Words, constants: Words) -> None:
    """Take one block of 64 bytes into the state; `schedule` (64,) is room to work in."""
    for t in range(16):
        schedule[t] = np.uint32(
            (np.uint32(block[4 * t]) << np.uint32(24))
            | (np.uint32(block[4 * t + 1]) << np.uint32(16))
            | (np.uint32(block[4 * t + 2]) << np.uint32(8))
            | np.uint32(block[4 * t + 3])
        )
    for t in range(16, 64):
        early, late = schedule[t - 15], schedule[t - 2]
        s0 = _turn(early, np.uint32(7)) ^ _turn(early, np.uint32(18)) ^ (early >> np.uint32(3))
        s1 = _turn(late, np.uint32(17)) ^ _turn(late, np.uint32(19)) ^ (late >> np.uint32(10))
        schedule[t] = np.uint32(s1 + schedule[t - 7] + s0 + schedule[t - 16])
    a, b, c, d = state[0], state[1], state[2], state[3]
    e, f, g, h = state[4], state[5], state[6], state[7]
    for t in range(64):
        s1 = _turn(e, np.uint32(6)) ^ _turn(e, np.uint32(11)) ^ _turn(e, np.uint32(25))
        t1 = np.uint32(h + s1 + ((e & f) ^ (~e & g)) + constants[t] + schedule[t])
        s0 = _turn(a, np.uint32(2)) ^ _turn(a, np.uint32(13)) ^ _turn(a, np.uint32(22))
        t2 = np.uint32(s0 + ((a & b) ^ (a & c) ^ (b & c)))
        h, g, f, e = g, f, e, np.uint32(d + t1)
        d, c, b, a = c, b, a, np.uint32(t1 + t2)
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h


@njit(
    f"void({_READ_OCTETS}, {_READ_OCTETS}, {_READ_OFFSETS}, {_READ_OCTETS}, {_READ_OCTETS}, "
    f"{_WORDS}, {_WORDS}, {_OCTETS})",
    nogil=True,
    cache=True,
)
def write_codes(
    key: Octets,
    beginning: Octets,
    offsets: Integers,
    texts: Octets,
    alphabet: Octets,
    start: Words,
    constants: Words,
    out: Octets,
) -> None:
    """The code of each text: the first 80 bits of HMAC-SHA256(key, beginning + text), in dashed groups of letters.

    key (64,): the secret, filled up with zeros. offsets (n + 1,), texts: as Arrow holds text. out (n · 19,): letters.
    """
    schedule, block, state = np.empty(64, np.uint32), np.empty(64, np.uint8), np.empty(8, np.uint32)
    inner, outer = start.copy(), start.copy()
    for place in range(64):
        block[place] = key[place] ^ np.uint8(0x36)
    compress(inner, block, schedule, constants)
    for place in range(64):
        block[place] = key[place] ^ np.uint8(0x5C)
    compress(outer, block, schedule, constants)
    at = 0
    for row in range(offsets.size - 1):
        for word in range(8):
            state[word] = inner[word]
        length = beginning.size + offsets[row + 1] - offsets[row]
        blocks = (length + 9 + 63) // 64  # a 1 bit and the length follow the message
        for number in range(blocks):
            for place in range(64):
                byte = number * 64 + place
                if byte < beginning.size:
                    block[place] = beginning[byte]
                elif byte < length:
                    block[place] = texts[offsets[row] + byte - beginning.size]
                else:
                    block[place] = np.uint8(0x80) if byte == length else np.uint8(0)
            if number == blocks - 1:
                _end(block, 64 + length)
            compress(state, block, schedule, constants)
        for word in range(8):
            for byte in range(4):
                block[4 * word + byte] = np.uint8((state[word] >> np.uint32(24 - 8 * byte)) & np.uint32(0xFF))
        block[32] = 0x80
        for place in range(33, 64):
            block[place] = 0
        _end(block, 64 + 32)
        for word in range(8):
            state[word] = outer[word]
        compress(state, block, schedule, constants)
        for letter in range(16):
            if letter and letter % 4 == 0:
                out[at] = 45  # a dash
                at += 1
            value = np.uint32(0)
            for bit in range(5 * letter, 5 * letter + 5):
                value = np.uint32(
                    (value << np.uint32(1)) | ((state[bit // 32] >> np.uint32(31 - bit % 32)) & np.uint32(1))
                )
            out[at] = alphabet[value]
            at += 1


@njit(f"void({_OCTETS}, int64)", inline="always", cache=True)
def _end(block: Octets, length: int) -> None:
    """Write the length of all that was hashed, in bits, into the last eight bytes."""
    bits = np.uint64(length) * np.uint64(8)
    for place in range(8):
        block[63 - place] = np.uint8((bits >> np.uint64(8 * place)) & np.uint64(0xFF))
