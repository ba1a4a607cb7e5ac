"""Replay: every interval of `disco replay`, in five settings, against policies that were run in the world itself.

Logs are replayed with as many passes as by default. The truth is the mean of runs in which a policy decides batch by
batch, hears of each customer with probability 1/K as in a replay, and earns what the world expects of its decisions. It
uses `decide` and `learn` and nothing of the replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.replay import replay
from disco.policy import Greedy, Policy, Random, Thompson
from disco.records.decisions import Audience, Offer, Purchases

from .tally import Row, Tally
from .world import DEPTHS, GRID, TAILS, WEIGHT, World

BATCH, BATCHES = 1000, 2
CAPS = {0.2: 0.3, 0.3: 0.2}
EARLIER = 150  # rows of the log known before: enough to have a belief, far too few to be sure of it
POLICIES: tuple[Policy, ...] = (Thompson(), Greedy())


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a policy may do and learn."""

    name: str
    learning: bool = True
    caps: bool = False
    engagement: bool = False


SETTINGS = (
    Setting(name="fixed", learning=False),
    Setting(name="learning"),
    Setting(name="caps", caps=True),
    Setting(name="engagement", engagement=True),
    Setting(name="both", caps=True, engagement=True),
)


def start_of(world: World, setting: Setting) -> Belief:
    """What is known at the start: a short log, the same in every repetition."""
    log = world.log(np.random.default_rng(71), EARLIER)
    bought = log.bought
    model = BasketModel().update(log.context[bought], log.depth[bought], log.full_price[bought], campaign="early")
    known = {} if setting.engagement else dict.fromkeys(DEPTHS, 1.0)
    return Belief(basket=model, engagement=Engagement(override=known))


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Per customer; of a policy as it goes along."""

    revenue: float
    objective: float
    purchases: float


def truth(world: World, setting: Setting, policy: Policy, *, runs: int, seed: int = 9) -> Truth:
    """Means over `runs` of what the world expects of the decisions; outcomes are drawn for learning alone."""
    rng, totals = np.random.default_rng(seed), np.zeros(3)
    caps = tuple(int(CAPS[depth] * BATCH) if setting.caps and depth in CAPS else None for depth in DEPTHS)
    offer = Offer(depths=DEPTHS, caps=caps, revenue_weight=WEIGHT)
    start = start_of(world, setting)
    for run in range(runs):
        belief = start
        for number in range(BATCHES):
            x = world.customers(rng, BATCH)
            audience = Audience(ids=np.arange(BATCH), context=x, known=np.ones(BATCH, np.bool_))
            choice = decide(audience, belief=belief, offer=offer, policy=policy, campaign=f"{number}", seed=run).choice
            rows = np.flatnonzero(choice >= 0)
            at = rows, choice[rows]
            totals += [world.revenue(x)[at].sum(), world.objective(x)[at].sum(), world.rate(x)[at].sum()]
            if setting.learning and number + 1 < BATCHES:
                heard = rows[rng.random(rows.size) < 1 / len(DEPTHS)]
                price = world.outcomes(rng, x[heard], choice[heard])
                bought = ~np.isnan(price)
                depth = GRID[choice[heard]]
                seen = Purchases(context=x[heard][bought], depth=depth[bought], full_price=price[bought])
                counts = EngagementCounts.of(depth, bought) if setting.engagement else None
                belief = learn(belief, [Lesson.of("replay", seen, counts)])
    revenue, objective, purchases = totals / (runs * BATCH * BATCHES)
    return Truth(revenue=revenue, objective=objective, purchases=purchases)


def study(logs: int, *, settings: tuple[Setting, ...] = SETTINGS, runs: int = 300, seed: int = 1) -> Iterator[Row]:
    """Coverage of every figure of a replay of two policies; `runs` of the world make the truth."""
    for setting in settings:
        for tail, noise_sd in TAILS.items():
            yield from _case(World(noise_sd), setting, tail, logs=logs, runs=runs, seed=seed)


def _case(world: World, setting: Setting, tail: str, *, logs: int, runs: int, seed: int) -> list[Row]:
    names = [policy.name for policy in POLICIES]
    known = {policy.name: truth(world, setting, policy, runs=runs) for policy in (*POLICIES, Random())}
    unit = known["random"]
    pair = (names[0], names[1])
    tallies = {name: Tally("replay", f"{setting.name}, {tail}, {name}") for name in (*names, " less ".join(pair))}
    rng = np.random.default_rng(seed)
    start = start_of(world, setting)
    way_varies = setting.learning or setting.caps  # else resampled passes add nothing to any interval
    for number in range(logs):
        found = replay(
            world.log(rng, BATCH * BATCHES),
            POLICIES,
            belief=start,
            batch=BATCH,
            caps=CAPS if setting.caps else None,
            revenue_weight=WEIGHT,
            repeats=20 if way_varies else 0,
            seed=1000 * number + seed,
            learning=setting.learning,
            learn_engagement=setting.engagement,
        )
        for name in names:
            one, true, count = found.policies[name], known[name], tallies[name].covers
            basket = true.revenue / true.purchases
            count("average basket value", one.average_basket_value, basket)
            count("relative to random", one.relative_to_random, basket / (unit.revenue / unit.purchases))
            assert one.objective is not None  # for the type checker
            for figure, estimates, value in (
                ("revenue", one.revenue, true.revenue),
                ("objective", one.objective, true.objective),
            ):
                count(f"{figure} per customer, IPS", estimates.ips, value)
                count(f"{figure} per customer, SNIPS", estimates.snips, value)
                count(f"{figure} per customer, DR", estimates.dr, value)
            count("revenue against random", one.revenue_against_random, true.revenue - unit.revenue)
            count("objective against random", one.objective_against_random, true.objective - unit.objective)
        difference, (one_true, other_true) = found.difference(*pair), (known[name] for name in pair)
        count = tallies[" less ".join(pair)].covers
        count("revenue per customer, DR", difference.revenue, one_true.revenue - other_true.revenue)
        count("objective per customer, DR", difference.objective, one_true.objective - other_true.objective)
    return [row for tally in tallies.values() for row in tally.rows()]
