"""Learn from some letters, decide about others: every row is decided by a belief that never saw its wave."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from offers import Offers

import disco
from disco.evaluation import decision_propensities
from disco.features.scaling import Scaling
from disco.records.arrays import Flags, Integers, Matrix
from disco.records.errors import InputError
from disco.records.identity import customer_keys, uniforms

CONTEXT_LIMIT = 4.0
RANDOM, THOMPSON, GREEDY, MOST_LOANS = "as dealt", "Thompson", "greedy", "greedy for loan value"


@dataclass(frozen=True, slots=True)
class Fold:
    """Which letters are learned from and which are judged."""

    name: str
    learned: Flags
    judged: Flags


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoldBelief:
    """What the learned letters taught: one basket model, and one engagement curve per risk band.

    Take-up differs so much between bands that one curve for all would be a curve of who got the deep offers.
    """

    basket: disco.BasketModel
    engagement: dict[str, disco.Engagement]
    context: Matrix  # of every letter, scaled as the learned ones


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """engagement, full_price (n, K): what was believed about each judged letter at each level · targets: by name, the
    probability (n, K) with which a policy gives a letter each level.
    """

    offers: Offers
    revenue_weight: float
    folds: tuple[Fold, ...]
    beliefs: tuple[FoldBelief, ...]
    engagement: Matrix
    full_price: Matrix
    targets: dict[str, Matrix]


def folds(offers: Offers) -> tuple[Fold, ...]:
    """Each wave judged by what the others taught; a lone wave is cut in two by a hash of the customer's id."""
    waves = offers.waves
    if len(waves) > 1:
        return tuple(Fold(f"wave {name}", offers.wave != name, offers.wave == name) for name in waves)
    first = uniforms(customer_keys(offers.ids), "loan offers, halves") < 0.5
    return (Fold("first half", ~first, first), Fold("second half", first, ~first))


def run_trial(offers: Offers, *, revenue_weight: float, seed: int) -> Trial:
    """Learn and decide, fold by fold."""
    parts = folds(offers)
    beliefs = tuple(learn(offers, part) for part in parts)
    size = (len(offers), len(offers.level_depths))
    engagement, full_price = np.zeros(size), np.zeros(size)
    targets = {RANDOM: offers.shares[offers.stratum]}
    for place, name in enumerate(offers.level_names):
        targets[name] = np.tile(np.eye(size[1])[place], (size[0], 1))
    targets |= {name: np.zeros(size) for name in (GREEDY, THOMPSON, MOST_LOANS)}
    for part, belief in zip(parts, beliefs, strict=True):
        for band, rows in _bands(offers, part.judged):
            engagement[rows] = belief.engagement[band].rates(offers.level_depths)
            full_price[rows] = belief.basket.expected_full_price(belief.context[rows], offers.level_depths)
            for name, chosen in _decided(offers, rows, belief, band, revenue_weight=revenue_weight, seed=seed):
                targets[name][rows] = chosen
    return Trial(
        offers=offers,
        revenue_weight=revenue_weight,
        folds=parts,
        beliefs=beliefs,
        engagement=engagement,
        full_price=full_price,
        targets=targets,
    )


def learn(offers: Offers, part: Fold) -> FoldBelief:
    """Loan sizes of the takers go into the basket model, letters and takers per level into engagement."""
    buyers = part.learned & offers.took
    if buyers.sum() < 2:
        found = f"{buyers.sum()} takers to learn from for {part.name}"
        raise InputError("column tookup", found=found, expected="at least two")
    context = Scaling.fit(offers.features[part.learned]).apply(offers.features).clip(-CONTEXT_LIMIT, CONTEXT_LIMIT)
    basket = disco.BasketModel(encoding=disco.SmoothSpline())
    dealt = np.asarray(offers.level_depths)[offers.level]
    return FoldBelief(
        basket=basket.update(context[buyers], offers.depth[buyers], offers.loan[buyers]),
        engagement={
            band: disco.Engagement(counts=disco.EngagementCounts.of(dealt[rows], offers.took[rows]))
            for band, rows in _bands(offers, part.learned)
        },
        context=context,
    )


def _bands(offers: Offers, among: Flags) -> Iterator[tuple[str, Integers]]:
    for band in np.unique(offers.risk):
        yield str(band), np.flatnonzero(among & (offers.risk == band))


def _decided(
    offers: Offers, rows: Integers, belief: FoldBelief, band: str, *, revenue_weight: float, seed: int
) -> Iterator[tuple[str, Matrix]]:
    """Policies that send the very letters of the experiment, as many per level and band, to other customers."""
    depths = offers.level_depths
    caps = np.bincount(offers.level[rows], minlength=len(depths)).tolist()
    audience = disco.Audience(ids=offers.ids[rows], context=belief.context[rows], known=np.ones(rows.size, bool))
    both = disco.Belief(basket=belief.basket, engagement=belief.engagement[band])
    offer = disco.Offer(depths=depths, caps=tuple(caps), revenue_weight=revenue_weight)
    name = f"loan offers, {band}"
    greedy = disco.decide(audience, belief=both, offer=offer, policy=disco.Greedy(), campaign=name, seed=seed)
    yield GREEDY, _certain(greedy.choice, len(depths))
    law = decision_propensities(
        audience, belief=both, offer=offer, policy=disco.Thompson(), campaign=name, seed=seed, draws=100
    )
    yield THOMPSON, law.frequencies()[:, :-1]  # the last column is "no letter"
    # a goal that is not DISCO's objective needs only other values: here expected loans, whatever the price
    loans = belief.basket.expected_full_price(audience.context, depths) * belief.engagement[band].rates(depths)
    yield MOST_LOANS, _certain(disco.allocate(loans, caps, depths=depths, ids=audience.ids).choice, len(depths))


def _certain(choice: Integers, levels: int) -> Matrix:
    """A decision as probabilities: 1 at the level chosen, 0 everywhere for no letter (−1)."""
    return np.vstack([np.eye(levels), np.zeros(levels)])[choice]
