"""The two sources of chance.

One generator per fixed block of customers, for the ordinary life of the shop, and a counter per (seed, campaign,
customer), for answers to codes. Neither depends on how much is simulated at once, or on row order.
"""

import numpy as np

from disco.records.arrays import Keys, Vector
from disco.records.compiled import njit
from disco.records.identity import mix, name_key

BLOCK = 10_000  # customers per block: part of the meaning of a seed, so never a setting


def block_generator(seed: int, *, purpose: str, block: int, month: int = 0) -> np.random.Generator:
    """The generator of one purpose in one block and month.

    >>> draw = lambda month: block_generator(7, purpose="orders", block=3, month=month).random()
    >>> draw(1) == draw(1), draw(1) == draw(2)
    (True, False)
    """
    key = np.array([name_key("retailer", seed, purpose, month), block], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


@njit("void(uint64[::1], uint64[::1], float64[::1])", nogil=True, cache=True)
def _fill(keys: Keys, salts: Keys, out: Vector) -> None:
    for row in range(keys.size):
        word = mix(mix(keys[row] ^ salts[row]) + np.uint64(0x9E3779B97F4A7C15))
        out[row] = (np.float64(word >> np.uint64(11)) + 0.5) * 2.0**-53


def salts(seed: int, *, purpose: str, names: list[str]) -> Keys:
    """One salt per name, such as a campaign id."""
    return np.array([name_key("retailer", seed, purpose, name) for name in names], np.uint64)


def uniforms(keys: Keys, *, salts: Keys) -> Vector:
    """One number in (0, 1) per (key, salt): a pure function of the pair.

    >>> keys = np.array([1, 2, 1], np.uint64)
    >>> first = uniforms(keys, salts=np.full(3, 9, np.uint64))
    >>> bool(first[0] == first[2]), bool(first[0] == first[1])
    (True, False)
    """
    out = np.empty(keys.size)
    _fill(np.ascontiguousarray(keys), np.ascontiguousarray(salts), out)
    return out
