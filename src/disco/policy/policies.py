"""The policies: belief → one full price and one engagement rate per (customer, depth), by five formulas.

What they share stands first: a request is read and checked once, and a policy only says what to serve for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from disco.belief.algebra import half, product, shifted
from disco.belief.elementary import exponentials, stream_normals
from disco.belief.engagement import CustomerRates, Engagement
from disco.belief.inputs import read_only
from disco.belief.law import BLOCK, FullPrices, normals
from disco.belief.model import BasketModel
from disco.records.arguments import read_non_negative, read_seed, read_share
from disco.records.arrays import Flags, Floats, Keys, Matrix, Vector
from disco.records.compiled import njit
from disco.records.errors import InputError
from disco.records.exact_sums import LOG_PRICE_LIMIT
from disco.records.identity import customer_keys, mix, name_key
from disco.records.ports import Engine

Scope = Literal["customer", "round"]


@runtime_checkable
class Policy(Protocol):
    """Turns belief into one full price per (customer, depth).

    A customer's row is a pure function of (model, their context, depths, seed, campaign, their id). A policy may also
    have a method `rates`, as those of this file have; customers of one without it have their mean rates.
    """

    name: ClassVar[str]

    @property
    def deterministic(self) -> bool:
        """Whether the figures are the same whatever the seed; a log of such a policy cannot be reweighed."""

    def full_prices(
        self,
        model: BasketModel,
        context: ArrayLike,
        depths: ArrayLike,
        *,
        ids: ArrayLike,
        seed: int,
        campaign: str,
        dtype: DTypeLike = np.float64,
        engine: Engine | None = None,
    ) -> Floats:
        """Full prices, money, shape (customers, depths) in Fortran order, all finite and above 0.

        context (customers, d1): within ±4.
        depths (depths,): shares in [0, 1].
        ids (customers,): integers or text, to which the random draws belong.
        seed, campaign: name the draws, together with the ids.
        dtype: float64, or float32 for half the memory.
        engine: where the rows are computed; never changes a result.
        """


@runtime_checkable
class RatesPolicy(Protocol):
    """A policy that also says which engagement rates it acts on."""

    def rates(
        self,
        engagement: Engagement,
        score: ArrayLike,
        depths: ArrayLike,
        *,
        ids: ArrayLike,
        seed: int,
        campaign: str,
        engine: Engine | None = None,
    ) -> Floats:
        """Rates between 0 and 1, shape (customers, depths) in Fortran order.

        score (customers,): engagement scores, NaN for customers without one.
        The others: as in `Policy.full_prices`.
        """


def require_policy(policy: object, *, where: str = "policy") -> None:
    """Refuse a policy's name or class where the policy itself is needed."""
    if isinstance(policy, type) or not isinstance(policy, Policy):
        raise InputError(
            where,
            found=repr(policy),
            expected="a policy object, not its name or class",
            fix="Pass one such as disco.Thompson().",
        )


def rates_of_policy(
    policy: Policy,
    engagement: Engagement,
    score: Vector,
    depths: Vector,
    *,
    ids: ArrayLike,
    seed: int,
    campaign: str,
    engine: Engine | None = None,
) -> Floats:
    """(n, K) the engagement rates that a policy acts on; the mean rates where it has no method `rates`."""
    if isinstance(policy, RatesPolicy):
        return policy.rates(engagement, score, depths, ids=ids, seed=seed, campaign=campaign, engine=engine)
    return engagement.rates_of(score, depths, engine=engine)


# ---- what all five share ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Request:
    """Whose figures are wanted, and what names their draws, checked: the same for full prices and for rates."""

    keys: Keys  # (customers,)
    seed: int
    campaign: str

    @classmethod
    def of(cls, ids: ArrayLike, *, rows: int, each: str, seed: int, campaign: str, engine: Engine | None) -> _Request:
        keys = customer_keys(ids, engine=engine)
        if keys.size != rows:
            raise InputError("ids", found=f"{keys.size} ids", expected=f"one for each of {rows} {each}")
        return cls(keys, read_seed(seed), str(campaign))

    def stream(self, purpose: str) -> int:
        """The 64-bit word that separates one use of randomness from every other."""
        return name_key(self.seed, self.campaign, purpose)


class _Served(ABC):
    """A policy that answers requests."""

    __slots__ = ()
    name: ClassVar[str]

    @property
    @abstractmethod
    def deterministic(self) -> bool: ...

    @abstractmethod
    def _serve(self, offer: FullPrices, request: _Request) -> Floats: ...

    def _rates(self, rates: CustomerRates, request: _Request) -> Matrix:
        """The mean rates, unless a policy says otherwise."""
        return rates.means()

    def full_prices(
        self,
        model: BasketModel,
        context: ArrayLike,
        depths: ArrayLike,
        *,
        ids: ArrayLike,
        seed: int,
        campaign: str,
        dtype: DTypeLike = np.float64,
        engine: Engine | None = None,
    ) -> Floats:
        offer = FullPrices(model, context, depths, dtype=dtype, engine=engine)
        rows, each = len(offer.context), "contexts"
        request = _Request.of(ids, rows=rows, each=each, seed=seed, campaign=campaign, engine=engine)
        return self._serve(offer, request)

    full_prices.__doc__ = Policy.full_prices.__doc__

    def rates(
        self,
        engagement: Engagement,
        score: ArrayLike,
        depths: ArrayLike,
        *,
        ids: ArrayLike,
        seed: int,
        campaign: str,
        engine: Engine | None = None,
    ) -> Floats:
        wanted = CustomerRates(engagement, score, depths, engine=engine)
        rows, each = wanted.score.size, "scores"
        request = _Request.of(ids, rows=rows, each=each, seed=seed, campaign=campaign, engine=engine)
        return np.asfortranarray(self._rates(wanted, request))

    rates.__doc__ = RatesPolicy.rates.__doc__


# ---- the five --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Thompson(_Served):
    """Thompson sampling (TS-IP): act on a draw from the posterior, so that a depth is tried as often as it may be best.

    F̃ = exp(ψᵀθ̃) with θ̃ ~ N(V⁻¹B, (exploration·σ̂)²V⁻¹). Draws at two depths are never independent: they come from one
    curve.

    >>> draw = Thompson(exploration=0.5).full_prices
    >>> model = BasketModel(noise_sd=0.5).update([[0.5], [1.0]], [0.1, 0.2], [20.0, 30.0])
    >>> both = draw(model, [[0.5], [1.0]], [0.1, 0.2], ids=["ann", "bob"], seed=1, campaign="c")
    >>> bob = draw(model, [[1.0]], [0.1, 0.2], ids=["bob"], seed=1, campaign="c")
    >>> bool((both[1] == bob[0]).all())
    True
    """

    name: ClassVar[str] = "thompson"
    exploration: float = 1.0  # scales the draw's sd
    scope: Scope = "customer"  # one θ̃ per customer, shared by their depths; or one per (seed, campaign), for everybody

    def __post_init__(self) -> None:
        object.__setattr__(self, "exploration", read_non_negative(self.exploration, where="Thompson exploration"))
        if self.scope not in ("customer", "round"):
            raise InputError("Thompson scope", found=repr(self.scope), expected="'customer' or 'round'")

    @property
    def deterministic(self) -> bool:
        """Whether nothing is drawn: with no exploration the figures are the same whatever the seed."""
        return self.exploration == 0

    def _serve(self, offer: FullPrices, request: _Request) -> Floats:
        stream = request.stream(f"{self.name} {self.scope}")
        if self.scope == "round":
            law = offer.law
            drawn = stream_normals(np.uint64(stream), law.mean.size)
            theta = shifted(law.mean.ravel(), law.root, drawn, self.exploration * law.noise_sd)
            return offer.means(theta=theta.reshape(law.mean.shape))
        return offer.draws(request.keys, stream=stream, exploration=self.exploration)

    def _rates(self, rates: CustomerRates, request: _Request) -> Matrix:
        """Draws of logit p, joint over a customer's depths, with `exploration` times its sd; 0: the mean rates."""
        stream = request.stream(f"{self.name} {self.scope} engagement")
        if self.exploration == 0:
            return rates.means()
        if self.scope == "round":
            return rates.shared_draw(stream=stream, exploration=self.exploration)
        return rates.draws(request.keys, stream=stream, exploration=self.exploration)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperConfidence(_Served):
    """Upper confidence bound (UCB-IP): be optimistic where little is known.

    F̃ = exp(ψᵀV⁻¹B + c·σ̂·√(ψᵀV⁻¹ψ)), c = `exploration`.

    >>> model = BasketModel(noise_sd=0.5).update([[0.5]], [0.1], [20.0])
    >>> high = UpperConfidence(exploration=2.0).full_prices(model, [[0.5]], [0.1], ids=[7], seed=1, campaign="c")
    >>> mean, sd = model.predict([[0.5]], [0.1])
    >>> bool(np.isclose(high[0, 0], np.exp(mean + 2.0 * sd)[0]))
    True
    """

    name: ClassVar[str] = "ucb"
    exploration: float = 1.0  # the bound's distance from the mean, in posterior sds

    def __post_init__(self) -> None:
        given = read_non_negative(self.exploration, where="UpperConfidence exploration")
        object.__setattr__(self, "exploration", given)

    @property
    def deterministic(self) -> bool:
        """Always: the figures are the same whatever the seed."""
        return True

    def _serve(self, offer: FullPrices, request: _Request) -> Floats:
        return offer.bounds(exploration=self.exploration)


@dataclass(frozen=True, slots=True)
class Greedy(_Served):
    """Act on what is known, without exploration.

    F̃ = exp(ψᵀV⁻¹B), the median basket under the posterior mean.

    >>> Greedy().full_prices(BasketModel(), [[0.5]], [0.1, 0.2], ids=[7], seed=1, campaign="c").tolist()
    [[1.0, 1.0]]
    """

    name: ClassVar[str] = "greedy"

    @property
    def deterministic(self) -> bool:
        """Always: the figures are the same whatever the seed."""
        return True

    def _serve(self, offer: FullPrices, request: _Request) -> Floats:
        return offer.means()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonGreedy(_Served):
    """As `Greedy`, but an ε-share of customers, chosen by counter, gets figures from the population's law.

    The allocation comes after, so explorers compete for the same caps as everybody.

    >>> policy = EpsilonGreedy(epsilon=0.25)
    >>> ids = np.arange(4000)
    >>> share = policy.explores(ids, seed=1, campaign="c").mean()
    >>> bool(abs(share - 0.25) < 0.03)
    True
    """

    name: ClassVar[str] = "epsilon_greedy"
    epsilon: float = 0.1  # share of the customers

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", read_share(self.epsilon, where="EpsilonGreedy epsilon"))

    @property
    def deterministic(self) -> bool:
        """Whether nothing is drawn: with epsilon 0 the figures are the same whatever the seed."""
        return self.epsilon == 0

    def explores(self, ids: ArrayLike, *, seed: int, campaign: str) -> Flags:
        """(customers,) which of them explore in this campaign."""
        return self._explores(customer_keys(ids), name_key(read_seed(seed), str(campaign), _EXPLORES))

    def _explores(self, keys: Keys, stream: int) -> Flags:
        return np.asarray((_mixed(keys ^ np.uint64(stream)) >> np.uint64(11)) * 2.0**-53 < self.epsilon)

    def _serve(self, offer: FullPrices, request: _Request) -> Floats:
        prices = offer.means()
        rows = np.flatnonzero(self._explores(request.keys, request.stream(_EXPLORES)))
        prices[rows] = _population_prices(offer, request.keys[rows], stream=request.stream(self.name))
        return prices

    def _rates(self, rates: CustomerRates, request: _Request) -> Matrix:
        """The mean rates; those who explore have the population's."""
        served = rates.means()
        served[self._explores(request.keys, request.stream(_EXPLORES))] = rates.population()
        return served


@dataclass(frozen=True, slots=True)
class Random(_Served):
    """What the same caps give when nothing about the customer is used.

    F̃ drawn from the population's law, independent of the customer's own context. It is not a belief about the customer,
    so `model.monotone` does not touch it.

    >>> draw = Random().full_prices
    >>> one = draw(BasketModel(), [[0.5]], [0.1, 0.2], ids=[7], seed=1, campaign="c")
    >>> other = draw(BasketModel(), [[-2.0]], [0.1, 0.2], ids=[7], seed=1, campaign="c")
    >>> bool((one == other).all())
    True
    """

    name: ClassVar[str] = "random"

    @property
    def deterministic(self) -> bool:
        """Never: the figures depend on the seed."""
        return False

    def _serve(self, offer: FullPrices, request: _Request) -> Floats:
        return _population_prices(offer, request.keys, stream=request.stream(self.name))

    def _rates(self, rates: CustomerRates, request: _Request) -> Matrix:
        """The population's rates for everybody."""
        return np.repeat(rates.population()[None, :], request.keys.size, axis=0)


# ---- the population's law --------------------------------------------------------------------------------------------

_EXPLORES = "epsilon_greedy explores"  # salts draws: its bytes stay


def _population_prices(offer: FullPrices, keys: Keys, *, stream: int) -> Floats:
    """(customers, depths) full prices of somebody drawn from the population, for the customers of these keys.

    ln F̃(a) = ãᵀΘ̂ᵀX̃ + σ̂·ε_a: X̃ a context from the population seen in the evidence (its mean and covariance; standard
    normal before any), shared by the customer's depths, ε_a the noise of a basket, one per depth. Nothing of the
    customer but their key goes in, so any customer may get any depth.
    """
    words, word = read_only(keys), np.uint64(stream)
    level, loading = _population(offer)

    def fill(rows: slice, out: Matrix) -> None:
        _draw(words[rows], word, level, loading, offer.law.noise_sd, out)

    return offer.served(fill, customers=keys.size, projected=False)


def _population(offer: FullPrices) -> tuple[Vector, Matrix]:
    """The law of ãᵀΘ̂ᵀX̃ over the population of purchasers, at each depth offered: mean + loading·z, z ~ N(0, I_q)."""
    model, d1 = offer.model, offer.context.shape[1]
    sums = model.evidence.sums().sum(axis=0) if model.campaigns else np.zeros((d1 + 2, d1 + 2))
    n = sums[0, 0]
    mean = sums[0, 1 : d1 + 1] / n if n else np.zeros(d1)
    covariance = sums[1 : d1 + 1, 1 : d1 + 1] / n - np.outer(mean, mean) if n else np.eye(d1)
    theta = offer.law.mean
    centre = theta[:1] + product(mean[None, :], theta[1:])
    between = product(theta[1:].T, product(covariance, theta[1:]))
    return product(offer.encoded, centre.T)[:, 0], product(offer.encoded, half(between))


@njit(cache=True, nogil=True, patient=True)
def _draw(keys: Keys, stream: np.uint64, level: Vector, loading: Matrix, noise_sd: float, out: Matrix) -> None:
    depths, q = loading.shape
    count = q + depths
    z, words, line = np.empty((count + count % 2, BLOCK)), np.empty(BLOCK, np.uint64), np.empty(BLOCK)
    for start in range(0, keys.size, BLOCK):
        size = min(BLOCK, keys.size - start)
        normals(keys, start, size, stream, words, z)
        for a in range(depths):
            for b in range(size):
                line[b] = level[a] + noise_sd * z[q + a, b]
            for j in range(q):
                weight = loading[a, j]
                for b in range(size):
                    line[b] += weight * z[j, b]
            exponentials(line, size, LOG_PRICE_LIMIT)
            for b in range(size):
                out[a, start + b] = line[b]


@njit(cache=True, nogil=True, patient=True)
def _mixed(words: Keys) -> Keys:
    """`mix` over an array of words."""
    out = np.empty_like(words)
    for place in range(words.size):
        out[place] = mix(words[place])
    return out
