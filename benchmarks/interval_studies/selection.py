"""Forecasts of policies that learned from a log: the belief's own promise, and `forecast_policies`, beside the truth.

Contexts have features that mean nothing, so a belief learned from a short log sees differences between customers that
are not there, and chooses by them. The truth is what the world expects of the policy that learned from the whole log,
over many further customers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from disco.belief import BasketModel, Engagement
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.forecasting import forecast_policies
from disco.evaluation.log import RandomLog, random_log
from disco.policy import Greedy, Policy, Thompson
from disco.records.decisions import Audience, Offer, Purchases

from .tally import Row, Tally
from .world import DEPTHS, GRID, TAILS, WEIGHT, World

ROWS, FURTHER = 1500, 4000
NOISE_FEATURES = 8
POLICIES: tuple[Policy, ...] = (Greedy(), Thompson())


def study(logs: int, *, seed: int = 7) -> Iterator[Row]:
    for tail, noise_sd in TAILS.items():
        world, rng = World(noise_sd), np.random.default_rng(seed)
        tallies = {policy.name: Tally("forecast", f"{policy.name}, {tail}") for policy in POLICIES}
        beyond = {
            policy.name: Tally("forecast", f"{policy.name}, {tail}", lowest=0.0, highest=0.55) for policy in POLICIES
        }
        means: dict[str, list[tuple[float, float, float]]] = {policy.name: [] for policy in POLICIES}
        for number in range(logs):
            log = _log(world, rng)
            found = forecast_policies(log, POLICIES, revenue_weight=WEIGHT, passes=2, seed=number)
            for policy in POLICIES:
                true = _truth(world, rng, log, policy, seed=number)
                one, count, gain = found[policy.name], tallies[policy.name].covers, true["objective against random"]
                forecast, promise = one.objective_against_random, one.promised_against_random
                assert forecast is not None  # for the type checker
                count("objective against random", forecast, gain)
                count("revenue against random", one.revenue_against_random, true["revenue against random"])
                count("objective per customer", one.objective, true["objective per customer"])
                count("revenue per customer", one.revenue, true["revenue per customer"])
                beyond[policy.name].add("its value exceeds the truth", forecast.value > gain)
                beyond[policy.name].add("the belief's own promise exceeds the truth", promise > gain)
                means[policy.name].append((promise, forecast.value, gain))
        for name, figures in means.items():
            promise, value, gain = np.mean(figures, axis=0)
            note = f"means: promised {promise:+.2f}, forecast {value:+.2f}, true {gain:+.2f}"
            first, *others = (*tallies[name].rows(), *beyond[name].rows())
            yield from (replace(first, note=note), *others)


def _with_noise(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, rng.normal(size=(len(x), NOISE_FEATURES)).clip(-4, 4)])


def _log(world: World, rng: np.random.Generator) -> RandomLog:
    x, place = world.customers(rng, ROWS), rng.integers(0, 3, ROWS)
    return random_log(_with_noise(rng, x), GRID[place], world.outcomes(rng, x, place), check_balance=False)


def _truth(world: World, rng: np.random.Generator, log: RandomLog, policy: Policy, *, seed: int) -> dict[str, float]:
    """Of the policy that learned from the whole log: the world's expectation, alone and against random depths."""
    bought = log.bought
    seen = Purchases(context=log.context[bought], depth=log.depth[bought], full_price=log.full_price[bought])
    known = Belief(basket=BasketModel(), engagement=Engagement(override=dict.fromkeys(DEPTHS, 1.0)))
    belief = learn(known, [Lesson.of("log", seen)])
    x = world.customers(rng, FURTHER)
    audience = Audience(ids=np.arange(FURTHER), context=_with_noise(rng, x), known=np.ones(FURTHER, np.bool_))
    offer = Offer(depths=DEPTHS, caps=(None,) * 3, revenue_weight=WEIGHT)
    choice = decide(audience, belief=belief, offer=offer, policy=policy, campaign="next", seed=seed).choice
    given, found = np.flatnonzero(choice >= 0), {}
    for name, worth in (("objective", world.objective(x)), ("revenue", world.revenue(x))):
        value = float(worth[given, choice[given]].sum()) / FURTHER
        found |= {f"{name} per customer": value, f"{name} against random": value - float(worth.mean())}
    return found
