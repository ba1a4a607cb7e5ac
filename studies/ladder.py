"""Regret, rung by rung: decision makers who know less and less decide for the same customers under the same caps.

Every decision maker puts a value on each (customer, depth); the exact allocation follows; the truth judges. With W_a =
w(1−a) − a, e_a the share of buyers at depth a, and p, F the true purchase probability and full price:

    FREE      p·F·W without any caps          minus ORACLE   = what the caps themselves cost          (constraint)
    ORACLE    p·F·W                           minus HABITS   = what is private to each customer       (private)
    HABITS    E[p·F | z]·W                    minus FEATURES = what the raw tables do not show        (tables)
    FEATURES  E[p·F | f]·W                    minus CONTEXT  = what the context leaves out            (context)
    CONTEXT   E[p·F | x]·W                    minus SHARED   = what one rate for everybody costs      (engagement)
    SHARED    E[F | x, purchase]·W·e          minus LINEAR   = what ln F = ψᵀθ cannot follow          (model class)
    LINEAR    exp(ψᵀθ*)·W·e                   minus CURVES   = what finite data leave of θ* unknown   (baskets)
    CURVES    the belief's median, true e     minus LEARNED  = what they leave of e unknown           (rates)
    LEARNED   the belief's median, its rates  minus DECIDED  = what a policy pays for exploring       (exploration)
    DECIDED   the policy's figures

z are the latent habits of the simulated customers, f the 76 features, x the context. E[·| z] is exact. E[·| f] and
E[·| x] are estimated from the true figures of the other half of the customers (a line plus boosted trees, two folds),
so FEATURES and CONTEXT are lower bounds that more customers would raise. Features go in on a logarithmic scale, beside
the contexts that networks made of them: that adds no information and saves the trees the work. θ* is the least-squares
fit of the true E[ln F] over all purchasers of a log with depths assigned at random: infinitely many purchases of these
customers. Below CONTEXT rungs need not descend: nobody there maximises the truth itself, and an error may help.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from disco import objective
from disco.allocation import allocate
from disco.belief import BasketModel, Engagement
from disco.campaign import Belief, decide
from disco.policy import Greedy, Policy
from disco.records.arrays import Floats, Integers, Matrix, Vector
from disco.records.decisions import Audience, Offer
from disco.records.errors import InputError
from studies.environment import equal_caps
from studies.readings import DepthReading
from studies.stage import Law, Stage


class Rung(StrEnum):
    FREE = "no caps"
    ORACLE = "oracle"
    HABITS = "habits known exactly"
    FEATURES = "best on all 76 features"
    CONTEXT = "best given the context"
    SHARED = "one engagement rate per depth"
    LINEAR = "best model of the class"
    CURVES = "baskets learned, rates known"
    LEARNED = "baskets and rates learned"
    DECIDED = "as decided"


_TREES = {
    "num_leaves": 15,
    "learning_rate": 0.1,
    "min_data_in_leaf": 50,
    "max_bin": 63,
    "num_threads": 1,  # a second one spins on a busy machine
    "deterministic": True,
    "seed": 0,
    "verbosity": -1,
}

#: What is lost from one rung to the next.
LOSSES = {
    "constraint": (Rung.FREE, Rung.ORACLE),
    "private": (Rung.ORACLE, Rung.HABITS),
    "tables": (Rung.HABITS, Rung.FEATURES),
    "context": (Rung.FEATURES, Rung.CONTEXT),
    "engagement": (Rung.CONTEXT, Rung.SHARED),
    "model class": (Rung.SHARED, Rung.LINEAR),
    "estimation of baskets": (Rung.LINEAR, Rung.CURVES),
    "estimation of rates": (Rung.CURVES, Rung.LEARNED),
    "exploration": (Rung.LEARNED, Rung.DECIDED),
}


#: Codes per depth, shallow to deep, as shares of the customers: everybody gets one, or six in ten do.
FILLED, SCARCE = "filled caps", "scarce caps"
SCARCE_SHARES = (0.3, 0.2, 0.1)


def caps_of(regime: str, *, customers: int, depths: int) -> tuple[int, ...]:
    """The codes of each depth in a regime.

    >>> caps_of(FILLED, customers=1000, depths=3), caps_of(SCARCE, customers=1000, depths=3)
    ((334, 333, 333), (300, 200, 100))
    """
    if regime == FILLED:
        return equal_caps(customers=customers, depths=depths)
    if depths != len(SCARCE_SHARES):
        raise InputError("depths", found=depths, expected=f"{len(SCARCE_SHARES)}: each scarce cap is one depth's")
    return tuple(int(share * customers) for share in SCARCE_SHARES)


@dataclass(frozen=True, slots=True, eq=False)
class Yardstick:
    """Judges choices for a stage's whole population by the truth: as a share above random allocation.

    Random allocation gives each depth to as many customers as the oracle does, in expectation.
    """

    stage: Stage
    offer: Offer
    worth: Matrix  # (n, K) p·F·W: the expected objective
    random: float

    @classmethod
    def of(cls, stage: Stage, *, caps: tuple[int | None, ...], revenue_weight: float) -> "Yardstick":
        law = stage.law
        factor = objective.weights(np.asarray(law.depths), np.ones(len(caps)), revenue_weight=revenue_weight)
        worth = law.purchase_probability * law.expected_full_price * factor
        oracle = _allocated(worth, caps)
        given = np.bincount(oracle[oracle >= 0], minlength=len(caps))
        offer = Offer(depths=law.depths, caps=caps, revenue_weight=revenue_weight)
        return cls(stage, offer, worth, float(worth.mean(axis=0) @ given))

    def share(self, choice: Integers) -> float:
        rows = np.flatnonzero(choice >= 0)
        return float(self.worth[rows, choice[rows]].sum()) / self.random - 1

    @property
    def rates(self) -> Vector:
        """e: the true share of buyers at each depth."""
        return np.asarray(self.stage.law.purchase_probability.mean(axis=0))

    def valued(self, full_prices: Matrix) -> float:
        """The share reached by who values customers by these full prices and the true rates."""
        values = objective.values(
            np.asfortranarray(full_prices),
            np.asarray(self.offer.depths),
            self.rates,
            revenue_weight=self.offer.revenue_weight,
        )
        return self.share(_allocated(values, self.offer.caps))


@dataclass(frozen=True, slots=True, eq=False)
class Beyond:
    """(n, K) the expected objective of a stage's customers for those who know more than the context."""

    habits: Matrix  # E[p·F | z]·W
    features: Matrix  # E[p·F | f]·W

    @classmethod
    def of(cls, yardstick: Yardstick, *, spending: Matrix, features: Matrix, contexts: Sequence[Matrix]) -> "Beyond":
        """spending (n, K): E[p·F | z]. features (n, 76), NaN = unknown. contexts: (n, d1) each, made of the features.

        It is the same for every regime of caps: only worth is asked of the yardstick.
        """
        depths = np.asarray(yardstick.offer.depths)
        factor = objective.weights(depths, np.ones(depths.size), revenue_weight=yardstick.offer.revenue_weight)
        scaled = np.sign(features) * np.log1p(np.abs(features))
        seen = np.column_stack([np.where(np.isnan(scaled), -1.0, scaled), *contexts])
        return cls(habits=spending * factor, features=given_context(seen, yardstick.worth))


def rungs_of_knowledge(yardstick: Yardstick, beyond: Beyond) -> dict[Rung, float]:
    """FREE to SHARED: what no model has a part in."""
    stage, worth, caps = yardstick.stage, yardstick.worth, yardstick.offer.caps
    buyers = stage.law.purchase_probability.mean(axis=1)
    return {
        Rung.FREE: yardstick.share(_allocated(worth, (None,) * len(caps))),
        Rung.ORACLE: yardstick.share(_allocated(worth, caps)),
        Rung.HABITS: yardstick.share(_allocated(beyond.habits, caps)),
        Rung.FEATURES: yardstick.share(_allocated(beyond.features, caps)),
        Rung.CONTEXT: yardstick.share(_allocated(given_context(stage.context, worth), caps)),
        Rung.SHARED: yardstick.valued(given_context(stage.context, stage.law.expected_full_price, weight=buyers)),
    }


def rungs_of_learning(yardstick: Yardstick, reading: DepthReading, belief: Belief, policy: Policy) -> dict[Rung, float]:
    """LINEAR to DECIDED: one way to model baskets, and a belief that learned so."""
    stage = yardstick.stage
    model = reading.model(depth_scale=stage.depth_scale)
    known = Engagement(override=dict(zip(stage.law.depths, yardstick.rates.tolist(), strict=True)))
    return {
        Rung.LINEAR: yardstick.valued(best_of_class(model, stage.context, stage.law)),
        Rung.CURVES: _decided(yardstick, replace(belief, engagement=known), Greedy()),
        Rung.LEARNED: _decided(yardstick, belief, Greedy()),
        Rung.DECIDED: _decided(yardstick, belief, policy),
    }


def _decided(yardstick: Yardstick, belief: Belief, policy: Policy) -> float:
    """The share reached by what production decides for the whole population at once."""
    stage, customers = yardstick.stage, len(yardstick.stage.context)
    audience = Audience(ids=np.arange(customers), context=stage.context, known=np.ones(customers, np.bool_))
    act = decide(audience, belief=belief, offer=yardstick.offer, policy=policy, campaign="ladder", seed=stage.seed)
    return yardstick.share(act.choice)


def _allocated(values: Floats, caps: tuple[int | None, ...]) -> Integers:
    return allocate(np.asfortranarray(values), caps).choice


def best_of_class(model: BasketModel, context: Matrix, law: Law) -> Matrix:
    """(n, K) exp(ψᵀθ*), θ* = argmin Σ p(ln F − ψᵀθ)² over all customers and offered depths.

    ψ = x̃ ⊗ ã has (1+d1)(1+d2) entries, so the normal equations are sums of small Kronecker products, depth by depth.
    """
    x = np.column_stack([np.ones(len(context)), context])
    encoded = model.encoded(np.asarray(law.depths))
    size = x.shape[1] * encoded.shape[1]
    gram, moment = np.zeros((size, size)), np.zeros(size)
    for column, depth in enumerate(encoded):
        weighted = x * law.purchase_probability[:, column : column + 1]
        gram += np.kron(weighted.T @ x, np.outer(depth, depth))
        moment += np.kron(weighted.T @ law.log_full_price[:, column], depth)
    theta = np.linalg.lstsq(gram, moment, rcond=1e-12)[0].reshape(x.shape[1], encoded.shape[1])
    return np.asarray(np.exp(x @ theta @ encoded.T))


def given_context(context: Matrix, figures: Matrix, *, weight: Vector | None = None) -> Matrix:
    """(n, K) E[figures | context] by two folds. The rise from the first depth is fitted by itself: it decides who gets
    which depth, and is small beside the level."""
    rises = np.column_stack([figures[:, :1], figures[:, 1:] - figures[:, :1]])
    weights = np.ones(len(context)) if weight is None else weight
    fold = np.arange(len(context)) % 2 == 0
    fitted = np.empty_like(figures)
    for column in range(figures.shape[1]):
        for train in (fold, ~fold):
            predict = _fitted(context[train], rises[train, column], weights[train])
            fitted[~train, column] = predict(context[~train])
    return np.column_stack([fitted[:, :1], fitted[:, :1] + fitted[:, 1:]])


def _fitted(context: Matrix, target: Vector, weight: Vector) -> Callable[[Matrix], Vector]:
    """A weighted line, and boosted trees on what it leaves."""
    import lightgbm  # a second to load, and needed only here

    def design(rows: Matrix) -> Matrix:
        return np.column_stack([np.ones(len(rows)), rows])

    root = np.sqrt(weight)
    line = np.linalg.lstsq(design(context) * root[:, None], target * root, rcond=None)[0]
    left = target - design(context) @ line
    trees = lightgbm.train(_TREES, lightgbm.Dataset(context, left, weight=weight), num_boost_round=80)
    return lambda rows: np.asarray(design(rows) @ line + trees.predict(rows), np.float64)
