"""How likely was each depth? Propensities of a policy whose choices pass through an allocation with shared caps.

A customer's depth depends on everybody's draws, since all compete for the same caps. Two ways to its probability:
re-solve the whole campaign for every draw (exact up to the number of draws), or, when many independent draws make the
shadow prices nearly certain, take each customer's best depth at prices averaged over a few re-solves. The draw and what
comes after it are handed in: `worth` gives the values of a seed, `solve` turns values into a choice with prices.

Deciding needs none of this; it is computed after the codes are out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from disco.policy.policies import Policy, Thompson
from disco.records.arguments import read_count, read_number
from disco.records.arrays import Floats, Integers, Matrix, Vector
from disco.records.compiled import njit
from disco.records.errors import InputError
from disco.records.identity import name_key

Method = Literal["deterministic", "resolve", "prices"]
RESOLVE_AT_MOST = 20_000  # customers; beyond it a solve per draw costs more than it brings


class Solved(Protocol):
    """What a solve gives back: choice (n,), -1 = none, prices (K,), and the price of the budget where there is one."""

    @property
    def choice(self) -> Integers: ...

    @property
    def prices(self) -> Vector: ...

    @property
    def budget_price(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Propensities:
    """The law of every customer's depth, by draws of the policy.

    A deterministic policy (greedy, UCB, or no exploration) has one draw and says nothing about other depths.
    """

    counts: Integers  # (n, K+1) how often each depth, in the last column none, was the choice
    draws: int
    method: Method
    resolves: int  # solves of the whole campaign

    @property
    def deterministic(self) -> bool:
        return self.method == "deterministic"

    def frequencies(self) -> Matrix:
        """(n, K+1) count/draws."""
        return np.asarray(self.counts / self.draws)

    def played(self, choice: Integers, *, floor: float = 0.0) -> Vector:
        """(n,) p̂ = (count + 1)/(draws + 1) of the depth played (-1: none), at least `floor`; 1 when deterministic.

        The played depth is one more draw of the same law, hence the added ones; p̂ is never 0, and with c ~ Bin(D, p)
        E[1/p̂] = (1 − (1−p)^(D+1))/p: inverse weights are right unless p is of the order 1/D, and then too small.

        >>> found = Propensities(counts=np.array([[3, 5, 1]]), draws=9, method="resolve", resolves=9)
        >>> found.played(np.array([0])).tolist(), found.played(np.array([-1]), floor=0.5).tolist()
        ([0.4], [0.5])
        """
        read_number(floor, where="floor", expected="a probability below 1; 0 is none", least=0.0, below=1.0)
        choice, depths = np.asarray(choice), self.counts.shape[1] - 1
        if choice.shape != (len(self.counts),) or choice.dtype.kind not in "iu":
            found = f"{choice.dtype} of shape {choice.shape}"
            raise InputError("choice", found=found, expected=f"one position per customer, {len(self.counts)} of them")
        off = (choice < -1) | (choice >= depths)
        if off.any():
            row = int(off.argmax())
            raise InputError(f"choice, row {row + 1}", found=int(choice[row]), expected=f"-1 (none) to {depths - 1}")
        if self.deterministic:
            return np.ones(choice.size)
        at = np.where(choice < 0, self.counts.shape[1] - 1, choice)
        count = np.take_along_axis(self.counts, at[:, None], axis=1)[:, 0]
        return np.maximum((count + 1) / (self.draws + 1), floor)


def propensities(
    policy: Policy,
    *,
    seed: int,
    worth: Callable[[int], Floats],
    solve: Callable[[Floats], Solved],
    costs: Floats | None = None,
    draws: int = 200,
    price_resolves: int = 16,
    method: Literal["auto", "resolve", "prices"] = "auto",
) -> Propensities:
    """The law of every customer's depth under a policy and its limits, by `draws` fresh draws of the policy.

    seed: the one that decided; draws have seeds of their own, derived from it.
    worth: a seed → values (n, K) as the policy draws them. solve: values → a choice with prices.
    costs (n, K): what the budget sees, money, where `solve` has one.
    price_resolves: solves over which the method "prices" averages.
    method: "resolve" solves the campaign for every draw; "prices" takes each customer's best depth at averaged prices.
        "auto" re-solves for up to 20,000 customers, and always where one θ is shared by everybody (scope `round`),
        because the prices then move with it.
    """
    for name, count in (("draws", draws), ("price_resolves", price_resolves)):
        read_count(count, where=name)
    if method not in ("auto", "resolve", "prices"):
        raise InputError("method", found=repr(method), expected="'auto', 'resolve' or 'prices'")
    shared = isinstance(policy, Thompson) and policy.scope == "round"
    if shared and method == "prices":
        raise InputError(
            "method", found="'prices' with scope 'round'", expected="'resolve': one draw shared by all moves the prices"
        )

    def drawn(number: int) -> Floats:
        # seeds of their own, so that none of these draws is the one that decided
        again = name_key(seed, "propensity", number) >> 1
        return worth(again)

    first = drawn(0)
    counts = np.zeros((first.shape[0], first.shape[1] + 1), np.int64)
    if policy.deterministic:
        _count(solve(first).choice, counts)
        return Propensities(counts=counts, draws=1, method="deterministic", resolves=1)
    if method == "resolve" or (method == "auto" and (shared or len(first) <= RESOLVE_AT_MOST)):
        for number in range(draws):
            _count(solve(first if number == 0 else drawn(number)).choice, counts)
        return Propensities(counts=counts, draws=draws, method="resolve", resolves=draws)
    solved = [solve(drawn(draws + number)) for number in range(price_resolves)]
    prices = np.mean([one.prices for one in solved], axis=0)
    rate = float(np.mean([one.budget_price or 0.0 for one in solved]))
    if rate and costs is None:
        raise InputError("costs", found="none, but a budget that binds", expected="what the budget sees, (n, K)")
    charged = None if costs is None or not rate else rate * costs
    for number in range(draws):
        worths = first if number == 0 else drawn(number)
        _count_best((worths if charged is None else worths - charged).T, prices, counts)
    return Propensities(counts=counts, draws=draws, method="prices", resolves=price_resolves)


@njit(cache=True, nogil=True, patient=True)
def _count(choice: Integers, counts: Integers) -> None:
    last = counts.shape[1] - 1
    for row in range(choice.size):
        counts[row, choice[row] if choice[row] >= 0 else last] += 1


@njit(cache=True, nogil=True, patient=True)
def _count_best(values: Floats, prices: Vector, counts: Integers) -> None:
    """values (K, n): count each customer's best depth at these prices, or none where no depth is worth its price."""
    for row in range(values.shape[1]):
        best, at = 0.0, values.shape[0]
        for column in range(values.shape[0]):
            surplus = values[column, row] - prices[column]
            if surplus > best:
                best, at = surplus, column
        counts[row, at] += 1
