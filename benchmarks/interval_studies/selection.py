"""Forecasts of policies that learned from a log: the belief's own promise, and `forecast_policies`, beside the truth.

Contexts have features that mean nothing, so a belief learned from a short log sees differences between customers that
are not there, and chooses by them. The truth is what the world expects of the policy that learned from the whole log,
over many further customers; it uses `decide` and `learn` and nothing of the forecast. Random codes follow the
population's law, which is learned, too, so they have a truth of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, decide, learn
from disco.evaluation.forecasting import forecast_policies
from disco.evaluation.log import RandomLog, random_log
from disco.policy import Greedy, Policy, Random, Thompson
from disco.records.decisions import Audience, Offer, Purchases

from .replays import CAPS, SETTINGS, Setting
from .tally import Row, Tally
from .world import DEPTHS, GRID, TAILS, WEIGHT, World

ROWS, FOLDS, FURTHER = 1500, 5, 1500
BATCH = ROWS // FOLDS  # decided together under caps, as in the forecast
NOISE_FEATURES = 8


def study(logs: int, *, settings: tuple[Setting, ...] = SETTINGS, seed: int = 7) -> Iterator[Row]:
    """Every figure of a forecast. "fixed": random codes, which no belief about customers moves."""
    for setting in settings:
        for tail, noise_sd in TAILS.items():
            yield from _case(World(noise_sd), setting, tail, logs=logs, seed=seed)


def _case(world: World, setting: Setting, tail: str, *, logs: int, seed: int) -> list[Row]:
    policies: tuple[Policy, ...] = (Greedy(), Thompson()) if setting.learning else (Random(),)
    rng, names = np.random.default_rng(seed), [policy.name for policy in policies]
    tallies = {name: Tally("forecast", f"{setting.name}, {tail}, {name}") for name in names}
    beyond = {
        name: Tally("forecast", f"{setting.name}, {tail}, {name}", lowest=0.0, highest=0.55)
        for name in names
        if setting.learning
    }
    means: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    figures = (world.objective, world.revenue)
    levels = [world.expected(lambda x, figure=figure: figure(x).mean(axis=1)) for figure in figures]
    for number in range(logs):
        log = _log(world, rng)
        found = forecast_policies(
            log,
            policies,
            caps=CAPS if setting.caps else None,
            revenue_weight=WEIGHT,
            learn_engagement=setting.engagement,
            folds=FOLDS,
            passes=2,
            seed=number,
        )
        true = _truths(world, rng, log, setting, policies, levels, seed=number)
        unit = true["random"]
        for name in names:
            one, count = found[name], tallies[name].covers
            count("objective per customer", one.objective, true[name][0])
            count("revenue per customer", one.revenue, true[name][1])
            if not setting.learning:
                continue
            gain, forecast = true[name][0] - unit[0], one.objective_against_random
            assert forecast is not None  # for the type checker
            count("objective against random", forecast, gain)
            count("revenue against random", one.revenue_against_random, true[name][1] - unit[1])
            beyond[name].add("its value exceeds the truth", forecast.value > gain)
            beyond[name].add("the belief's own promise exceeds the truth", one.promised_against_random > gain)
            means[name].append((one.promised_against_random, forecast.value, gain))
    rows: list[Row] = []
    for name in names:
        first, *others = tallies[name].rows()
        if setting.learning:
            promise, value, gain = np.mean(means[name], axis=0)
            first = replace(first, note=f"means: promised {promise:+.2f}, forecast {value:+.2f}, true {gain:+.2f}")
            others += beyond[name].rows()
        rows += [first, *others]
    return rows


def _with_noise(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, rng.normal(size=(len(x), NOISE_FEATURES)).clip(-4, 4)])


def _log(world: World, rng: np.random.Generator) -> RandomLog:
    x, place = world.customers(rng, ROWS), rng.integers(0, 3, ROWS)
    return random_log(_with_noise(rng, x), GRID[place], world.outcomes(rng, x, place), check_balance=False)


def _truths(
    world: World,
    rng: np.random.Generator,
    log: RandomLog,
    setting: Setting,
    policies: tuple[Policy, ...],
    levels: list[float],
    *,
    seed: int,
) -> dict[str, tuple[float, float]]:
    """By policy that learned from the whole log: objective and revenue per customer that the world expects.

    levels: the exact means of both over customers and depths. What the further customers have by chance above them at
    all depths is taken off.
    """
    bought = log.bought
    seen = Purchases(context=log.context[bought], depth=log.depth[bought], full_price=log.full_price[bought])
    known = Belief(
        basket=BasketModel(), engagement=Engagement(override={} if setting.engagement else dict.fromkeys(DEPTHS, 1.0))
    )
    belief = learn(known, [Lesson.of("log", seen, EngagementCounts.of(log.depth, bought))])
    x = world.customers(rng, FURTHER)
    context = _with_noise(rng, x)
    size = BATCH if setting.caps else FURTHER
    caps = tuple(int(CAPS[depth] * size) if setting.caps and depth in CAPS else None for depth in DEPTHS)
    offer = Offer(depths=DEPTHS, caps=caps, revenue_weight=WEIGHT)
    found = {}
    for policy in (*policies, *([Random()] if setting.learning else [])):
        choice = np.concatenate(
            [
                decide(
                    Audience(ids=np.arange(first, first + size), context=part, known=np.ones(size, np.bool_)),
                    belief=belief,
                    offer=offer,
                    policy=policy,
                    campaign="next",
                    seed=seed,
                ).choice
                for first, part in ((first, context[first : first + size]) for first in range(0, FURTHER, size))
            ]
        )
        at = np.arange(FURTHER), np.maximum(choice, 0)
        values = [
            float((np.where(choice >= 0, worth[at], 0.0) - worth.mean(axis=1)).mean()) + level
            for worth, level in zip((world.objective(x), world.revenue(x)), levels, strict=True)
        ]
        found[policy.name] = values[0], values[1]
    if not setting.learning:
        found["random"] = found[policies[0].name]
    return found
