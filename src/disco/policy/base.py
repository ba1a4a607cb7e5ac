"""What every policy does."""

from numbers import Real
from typing import Any, ClassVar, Protocol, runtime_checkable

import numba as nb
import numpy as np
from numpy.typing import ArrayLike

from disco.belief.model import BasketModel
from disco.records.arrays import Floats, Keys
from disco.records.errors import InputError
from disco.records.identity import customer_keys, mix, name_key
from disco.records.ports import Engine


@runtime_checkable
class Policy(Protocol):
    """Turns belief into one full price per (customer, depth), in Fortran order, all finite and above 0.

    A customer's row is a pure function of (model, its context, depths, seed, campaign, its id).
    """

    name: ClassVar[str]

    def full_prices(
        self,
        model: BasketModel,
        context: ArrayLike,
        depths: ArrayLike,
        *,
        ids: object,
        seed: int,
        campaign: str,
        dtype: Any = np.float64,
        engine: Engine | None = None,
    ) -> Floats:
        """Shape (customers, depths)."""


def require_policy(policy: object, *, where: str = "policy") -> None:
    """Refuse a policy's name or class where the policy itself is needed."""
    if isinstance(policy, type) or not isinstance(policy, Policy):
        raise InputError(where, found=repr(policy), expected="a policy such as disco.Thompson(), not its name or class")


def stream_of(seed: int, campaign: str, purpose: str) -> int:
    """The 64-bit word that separates one use of randomness from every other."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise InputError("seed", found=repr(seed), expected="an integer")
    return name_key(int(seed), str(campaign), purpose)


def keys_of(ids: object, rows: int, *, engine: Engine | None = None) -> Keys:
    """One key per customer."""
    keys = customer_keys(ids, engine=engine)
    if keys.size != rows:
        raise InputError("ids", found=f"{keys.size} ids", expected=f"one for each of {rows} contexts")
    return keys


def read_figure(value: object, *, where: str, most: float = np.inf) -> float:
    """A finite number in [0, most]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= most or value == np.inf:
        expected = "a finite number, 0 or more" if most == np.inf else f"a number from 0 to {most:g}"
        raise InputError(where, found=repr(value), expected=expected)
    return float(value)


@nb.njit(cache=True, nogil=True)
def mixed(words: Keys) -> Keys:
    """`mix` over an array of words."""
    out = np.empty_like(words)
    for place in range(words.size):
        out[place] = mix(words[place])
    return out
