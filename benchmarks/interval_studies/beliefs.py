"""What `disco belief` prints: the basket of an average customer, the share who buy, and the revenue of a code sent.

Its intervals are those of 90 %. Campaigns assign depths at random, and their levels stay; `./run bench engagement` has
levels that move, and the interval of the next campaign.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, learn
from disco.operations.learned import learned_curve
from disco.records.decisions import Purchases
from disco.records.depths import depth_percent

from .tally import Row, Tally
from .world import DEPTHS, GRID, TAILS, World

ROWS = 3000  # codes per campaign
LOWEST, HIGHEST = 0.88, 0.92


def truths(world: World) -> dict[float, dict[str, float]]:
    """By depth; the average customer is the one at the mean of the contexts."""
    basket = np.exp(world.log_price(np.zeros((1, 2)))[0] + world.noise_sd**2 / 2)
    rate = [world.expected(lambda x, at=at: world.rate(x)[:, at]) for at in range(len(DEPTHS))]
    return {
        depth: {
            "basket": float(basket[at]),
            "receivers who buy": rate[at],
            "revenue per code": float(rate[at] * basket[at] * (1 - depth)),
        }
        for at, depth in enumerate(DEPTHS)
    }


def study(beliefs: int, *, campaigns: tuple[int, ...] = (1, 4), seed: int = 8) -> Iterator[Row]:
    for tail, noise_sd in TAILS.items():
        world = World(noise_sd)
        true = truths(world)
        for count in campaigns:
            rng = np.random.default_rng(seed)
            case = f"{count} campaign{'s'[: count != 1]}, {tail}"
            tally = Tally("belief", case, lowest=LOWEST, highest=HIGHEST)
            for _ in range(beliefs):
                belief = learn(
                    Belief(basket=BasketModel(), engagement=Engagement()),
                    [_lesson(world, rng, f"campaign {number}") for number in range(count)],
                )
                for point in learned_curve(belief):
                    for name, found in (
                        ("basket", point.basket),
                        ("receivers who buy", point.engagement),
                        ("revenue per code", point.revenue_per_code),
                    ):
                        tally.covers(f"{name}, {depth_percent(point.depth)}", found, true[point.depth][name])
            yield from tally.rows()


def _lesson(world: World, rng: np.random.Generator, name: str) -> Lesson:
    x, place = world.customers(rng, ROWS), rng.integers(0, len(DEPTHS), ROWS)
    price = world.outcomes(rng, x, place)
    bought, depth = ~np.isnan(price), GRID[place]
    seen = Purchases(context=x[bought], depth=depth[bought], full_price=price[bought])
    return Lesson.of(name, seen, EngagementCounts.of(depth, bought))
