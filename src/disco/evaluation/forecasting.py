"""`forecast_policies`: what policies that learn from a log will earn afterwards, with an interval that knows selection.

A policy chooses the depths that its belief values most, and where the belief errs it errs most often upwards: what the
belief itself promises for its own choices is too much (the optimiser's curse). The cure is to choose by some customers
and to value by others. Customers are split into folds. For each fold a belief is learned from all other folds and
decides for this one, and its choices are valued by the outcomes of this fold, doubly robust:

    value = mean over rows of  q(x, a) + 1{a was played}/p · (y − q(x, a)),

with a the policy's choice and q the belief's expectation, both made without the row. The outcomes of a fold say nothing
about how it was chosen for, so the value is unbiased for a policy that learned from (folds − 1)/folds of the log, a
little less than it will know. Given the beliefs, rows of different customers are independent, so the spread of the
terms by customer is the error (cross-fitting; Chernozhukov et al. 2018). Terms of heavy-tailed baskets are skewed, and
a belief's few accepted rows make them more so: intervals of values reach further on that side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, learn
from disco.evaluation.estimates import interval_in_words, unlimited
from disco.evaluation.log import RandomLog, require_log
from disco.evaluation.passes import (
    FigureOverPasses,
    PassResult,
    PassRules,
    Valued,
    generator,
    less,
    play,
    players_by_name,
    read_batch_limits,
    starting_belief,
)
from disco.policy import Policy, Random
from disco.records.arguments import read_count, read_level, read_seed
from disco.records.arrays import Flags, Integers
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.ports import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyForecast:
    """What a policy will earn per customer, once it has learned from the log."""

    policy: str
    revenue: Estimate  # money
    revenue_against_random: Estimate  # less that of random depths under the same caps, for the same customers
    objective: Estimate | None  # w·R − C; None where revenue alone counts
    objective_against_random: Estimate | None
    promised_against_random: float
    """What a belief learned from the whole log expects of its own choices, less what it expects of random ones: of the
    objective, or of revenue where that alone counts. Selection makes it too large."""

    def __repr__(self) -> str:
        name, found = "objective", self.objective_against_random
        if found is None:
            name, found = "revenue", self.revenue_against_random
        return (
            f"PolicyForecast({self.policy}: {name} per customer {found.value:+,.3f} against random "
            f"({interval_in_words(found)}; promised {self.promised_against_random:+,.3f})"
        )


def forecast_policies(
    log: RandomLog,
    policies: Policy | Iterable[Policy],
    *,
    belief: BasketModel | None = None,
    caps: Mapping[float, int | float | None] | None = None,
    batch: int | None = None,
    revenue_weight: float | None = None,
    learn_engagement: bool = False,
    folds: int = 5,
    passes: int = 4,
    seed: int = 0,
    level: float = 0.95,
    engine: Engine | None = None,
) -> dict[str, PolicyForecast]:
    """The value per customer of policies that learned from a log, for further customers of its population; by name.

    log: of `random_log`. policies: one, or several with different names.
    belief: the model before the log; None: the standard one, without evidence.
    caps: most customers per depth and batch, as in `replay`. batch: customers decided together; None: a whole fold.
    revenue_weight: the weight w of w·R − C; None: revenue alone.
    learn_engagement: whether the share of buyers at each depth is learned, too; else it counts as 1 at every depth.
    folds: parts into which customers are split. passes: draws of the policies over which figures are averaged.
    seed: equal seeds give equal results. level: of the intervals. engine: where decisions are computed.

    >>> from disco.evaluation.log import random_log
    >>> from disco.policy import Greedy
    >>> rng = np.random.default_rng(1)
    >>> log = random_log(rng.normal(size=(600, 3)), rng.choice([0.1, 0.3], 600), rng.lognormal(3, 0.5, 600))
    >>> found = forecast_policies(log, Greedy())["greedy"]
    >>> gain = 0.1 * float(np.exp(3 + 0.5**2 / 2))  # baskets are alike at both depths, so 10% is best for everybody
    >>> found.revenue_against_random.covers(gain)
    True
    """
    chosen: dict[str, Policy] = players_by_name(policies, learners=False)
    require_log(log)
    if belief is not None and not isinstance(belief, BasketModel):
        raise InputError("belief", found=f"{belief!r:.60}", expected="a BasketModel or None")
    read_count(folds, where="folds", least=2)
    read_count(passes, where="passes")
    read_seed(seed)
    read_level(level)
    fold = _folds(log, folds, seed)
    smallest = int(np.bincount(fold, minlength=folds).min())
    limits = read_batch_limits(
        caps,
        depths=log.depths,
        batch=smallest if batch is None else batch,
        rows=smallest,
        revenue_weight=revenue_weight,
    )
    start = starting_belief(belief, log, learn_engagement=learn_engagement)
    beliefs = [_learned(start, log, fold != part) for part in range(folds)]
    whole = _learned(start, log, np.ones(len(log), np.bool_))
    figures: dict[str, defaultdict[str, FigureOverPasses]] = {name: defaultdict(FigureOverPasses) for name in chosen}
    promised: dict[str, list[float]] = {name: [] for name in chosen}
    headline = [*limits.weights][-1]

    parts = [(known, np.flatnonzero(fold == part)) for part, known in enumerate(beliefs)]
    everybody = np.arange(len(log))
    counted = {id(known): Engagement(counts=known.engagement.counts) for known in (*beliefs, whole)}  # fitted once each

    by_fold = PassRules(limits=limits, learning=False, learn_engagement=False, engine=engine)
    together = replace(by_fold, limits=limits.of_size(len(log)))

    def plays(policy: Policy, known: Belief, rows: Integers, rules: PassRules, number: int) -> PassResult:
        return play(log, rows, policy, rules, start=known, seed=int(seed) + number, counted=counted[id(known)])

    def plays_all(policy: Policy, number: int) -> tuple[list[Valued], float]:
        """By fold the figures of one pass, and what the belief learned from the whole log promises."""
        values = [plays(policy, known, rows, by_fold, number).valued(limits) for known, rows in parts]
        return values, plays(policy, whole, everybody, together, number).promised(limits)[headline]

    fixed = {name: plays_all(policy, 0) for name, policy in chosen.items() if policy.deterministic}  # alike in all
    sizes = np.bincount(fold, minlength=folds)
    for number in range(passes):
        units, unit = plays_all(Random(), number)
        for name, policy in chosen.items():
            values, promise = fixed.get(name) or plays_all(policy, number)
            for figure, (value, terms) in _together(values, units, sizes).items():
                figures[name][figure].add(value, terms)
            promised[name].append(promise - unit)
    return {
        name: _forecast(repr(policy), figures[name], promised[name], level=level) for name, policy in chosen.items()
    }


def _folds(log: RandomLog, folds: int, seed: int) -> Integers:
    """(n,) the fold of each row: customers at random, each with all their rows, in parts of equal size."""
    customers = int(log.customer.max()) + 1
    if customers < 2 * folds:
        raise InputError(
            "log",
            found=f"{customers:,} customers for {folds} folds",
            expected="at least two customers per fold",
            fix="Bring a longer log, or fewer folds.",
        )
    order = generator("folds", seed).permutation(customers)
    part = np.empty(customers, np.int64)
    part[order] = np.arange(customers) % folds
    return part[log.customer]


def _learned(start: Belief, log: RandomLog, rows: Flags) -> Belief:
    """Codes are counted in any case: an override decides with its own rates, and expectations use those counted."""
    codes = EngagementCounts.of(log.depth[rows], log.bought[rows])
    return learn(start, [Lesson.of("log", log.purchases(np.flatnonzero(rows)), codes)])


def _together(values: list[Valued], units: list[Valued], sizes: Integers) -> Valued:
    """Figures over all folds, alone and less those of random depths, with linear terms by customer.

    values, units: by fold, of the policy and of random depths. sizes: rows by fold; a fold counts with them.
    """
    shares = sizes / sizes.sum()
    against = [less(own, other) for own, other in zip(values, units, strict=True)]
    together: Valued = {}
    for suffix, folds in (("", values), (" against", against)):
        for name in values[0]:
            parts = [fold[name] for fold in folds]
            terms = np.sum([share * part for share, (_, part) in zip(shares, parts, strict=True)], axis=0)
            together[f"{name}{suffix}"] = float(shares @ [part for part, _ in parts]), np.asarray(terms, np.float64)
    return together


def _forecast(
    policy: str, figures: dict[str, FigureOverPasses], promised: list[float], *, level: float
) -> PolicyForecast:
    def estimate(name: str) -> Estimate:
        # a difference has tails on both sides, and its sample's skewness is that of the largest term
        found = figures[name].estimate(np.array([]), level=level, skewed="against" not in name)
        assert found is not None  # for the type checker: it is there in every pass
        # nobody bought, which shows no spread
        return unlimited(found.value, level=level) if found.standard_error == 0 else found

    weighted = "objective" in figures
    return PolicyForecast(
        policy=policy,
        revenue=estimate("revenue"),
        revenue_against_random=estimate("revenue against"),
        objective=estimate("objective") if weighted else None,
        objective_against_random=estimate("objective against") if weighted else None,
        promised_against_random=float(np.mean(promised)),
    )
