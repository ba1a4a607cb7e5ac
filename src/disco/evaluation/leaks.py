"""Do codes leak? Uses of a campaign's codes by customers who do not own them, against what is usual, and in bursts.

A few such uses are mistakes: a household orders under another name, a shop writes the wrong customer. With k of n uses
by others, and k₀ of n₀ in earlier campaigns, the next k is beta-binomial with a = ½ + k₀ and b = 99½ + n₀ − k₀: one in
two hundred before anything is known. A burst is a time of one hour with j of m uses by others, where each use is
another's with the campaign's own share k/n; the least probability counts k times, because k times are looked at.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc, betaln, gammaln

from disco.records.arrays import Flags, Integers

RISK = 0.01
"""With which each of the two is claimed where there is no leak."""
_PRIOR_OTHERS, _PRIOR_OWNERS = 0.5, 99.5
_BURST = 3_600_000_000  # microseconds
_LEAST_IN_BURST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakTest:
    """What the uses of codes say."""

    share_p: float
    """The chance of so many uses by others where nothing leaks."""
    burst_p: float
    """The chance of so many within an hour, for this share of uses by others."""
    burst: int | None
    """The place of the burst's first use; None: no hour has several."""
    burst_size: int
    """Uses by others in it."""

    @property
    def found(self) -> bool:
        return min(self.share_p, self.burst_p) < RISK


def leak_test(at: Integers, by_other: Flags, *, earlier: tuple[int, int] = (0, 0)) -> LeakTest:
    """at: microseconds of each use, ascending, (n,). by_other: whether another than the owner used the code, (n,).
    earlier: uses by others and all uses, of earlier campaigns.

    >>> at = np.arange(200) * 10**10
    >>> leak_test(at, np.arange(200) < 1).found, leak_test(at, np.arange(200) % 10 == 0).found
    (False, True)
    """
    n, k = at.size, int(by_other.sum())
    others, uses = earlier
    share_p = _beta_binomial_tail(k, n, others + _PRIOR_OTHERS, uses - others + _PRIOR_OWNERS)
    least, place, size = 1.0, None, 0
    so_far = np.concatenate([[0], np.cumsum(by_other)])
    for start in np.flatnonzero(by_other).tolist():
        end = int(np.searchsorted(at, at[start] + _BURST))
        j = int(so_far[end] - so_far[start])
        p = float(bdtrc(j - 1, end - start, k / n)) * k
        if j >= _LEAST_IN_BURST and p < least:
            least, place, size = p, start, j
    return LeakTest(share_p=share_p, burst_p=least, burst=place, burst_size=size)


def _beta_binomial_tail(k: int, n: int, a: float, b: float) -> float:
    """P(X ≥ k) of n uses."""
    if k == 0:
        return 1.0
    x = np.arange(k, n + 1)
    ways = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    return float(min(np.exp(ways + betaln(x + a, n - x + b) - betaln(a, b)).sum(), 1.0))
