"""Do intervals of the next campaign keep their promise where levels move between campaigns?

Part of `./run bench engagement`. A history is some past campaigns and the next one; the intervals of the belief alone
and those with a campaign effect are counted beside each other.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from disco.belief import Engagement, EngagementCounts, ScoreBins
from disco.belief.calibration import EXPECTED, Backtest, _Seen, calibrate
from disco.belief.movement import MOVES, Movement, usual_moves

LEVEL, REACH = 0.9, 1.6448536269514722
DEPTHS = np.array([0.1, 0.2, 0.3, 0.4])
LOGITS = np.array([-2.94, -2.2, -1.59, -1.1])  # 5, 10, 17 and 25%
MOST_BACKTESTS = 6
PAST = (1, 2, 3, 6, 12)
FROM_PRIOR = -1.0


def expit(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


@dataclass
class Count:
    """Of many intervals: how many hold what came, and how wide they were."""

    inside: float = 0.0
    width: float = 0.0
    seen: int = 0

    def add(self, inside: np.ndarray, half_width: np.ndarray) -> None:
        self.inside += float(np.mean(inside))
        self.width += float(np.mean(half_width))
        self.seen += 1

    def __str__(self) -> str:
        return f"{self.inside / self.seen:6.1%} ±{self.width / self.seen:.3f}"


def moved_by(tau: float, generator: np.random.Generator) -> float:
    return float(generator.choice(MOVES, p=usual_moves(0.1))) if tau == FROM_PRIOR else tau


@dataclass(frozen=True)
class Shop:
    """How campaigns of a kind of shop differ."""

    move: float  # τ; FROM_PRIOR: drawn for each history
    largest: float = 1.0  # how much larger the largest campaign may be than the smallest
    by_depth: float = 0.0  # sd with which each depth moves by itself
    bins: int = 0

    def counts(self, generator: np.random.Generator, effect: float, bins: ScoreBins | None) -> EngagementCounts:
        size = self.largest ** generator.uniform(0, 1)
        codes = (generator.integers(500, 3001, DEPTHS.size) * size).astype(np.int64)
        level = LOGITS + effect + self.by_depth * generator.standard_normal(DEPTHS.size)
        if bins is None:
            return EngagementCounts(DEPTHS, codes, generator.binomial(codes, expit(level)))
        share = np.append(np.full(bins.count, 0.95 / bins.count), 0.05)
        sent = np.stack([generator.multinomial(n, share) for n in codes])
        rates = expit(level[:, None] + np.append(bins.centres, -1.0))
        return EngagementCounts(DEPTHS, sent, generator.binomial(sent, rates), bins)


SHOPS = {
    "levels stay": Shop(0.0),
    "move by 0.05": Shop(0.05),
    "move by 0.1": Shop(0.1),
    "move by 0.2": Shop(0.2),
    "move by 0.3": Shop(0.3),
    "drawn from the prior": Shop(FROM_PRIOR),
    "0.2, sizes up to 20 times": Shop(0.2, largest=20.0),
    "0.1, and each depth by 0.1": Shop(0.1, by_depth=0.1),
    "0.2, 16 bins; 1/10 of histories": Shop(0.2, bins=16),
}


def take_up(shop: Shop, past: int, histories: int, *, seed: int) -> tuple[Count, Count]:
    """Intervals of the next campaign's mean rate at each depth: of the belief, and with a campaign effect."""
    generator = np.random.default_rng([seed, past])
    bare, full = Count(), Count()
    histories = histories if not shop.bins else max(histories // 10, 1)  # a posterior over bins takes longer
    bins = ScoreBins.of(generator.normal(scale=0.8, size=3200), count=shop.bins) if shop.bins else None
    for _ in range(histories):
        effects = moved_by(shop.move, generator) * generator.standard_normal(past + 1)
        parts = [shop.counts(generator, effect, bins) for effect in effects[:-1]]
        engagement = Engagement(counts=sum(parts, EngagementCounts()))
        own = shop.by_depth * generator.standard_normal(DEPTHS.size)
        level = LOGITS + effects[-1] + own
        truth = expit(level)
        if bins is not None:
            shares = engagement.posterior.shares
            truth = expit(level[:, None] + np.append(bins.centres, -1.0)) @ shares
        movement = Movement.of_engagement(engagement, parts)
        for count, ends in (
            (bare, engagement.interval(DEPTHS, LEVEL)),
            (full, engagement.interval(DEPTHS, LEVEL, movement=movement)),
        ):
            low, high = ends
            count.add((low <= truth) & (truth <= high), (high - low) / 2 / engagement.rates(DEPTHS))
    return bare, full


def forecasts(omega: float, past: int, histories: int, *, seed: int) -> tuple[Count, Count]:
    """Intervals of ln(bought ÷ forecast) of all codes: with the usual difference between campaigns, and a learned one.

    A forecast is what the campaigns before it brought on average, off by a common error and one per depth, as the
    watchdog assumes them; 400 purchases are expected per depth. The first campaign has no forecast.
    """
    generator, usual = np.random.default_rng([seed, past, 7]), EXPECTED[True, True]
    bare, full, expected = Count(), Count(), np.full(DEPTHS.size, 400.0)
    for _ in range(histories):
        effect = omega * generator.standard_normal(past + 2)
        off = usual.common * generator.standard_normal() + usual.depth * generator.standard_normal(DEPTHS.size)
        lag = np.concatenate(([0.0], np.cumsum(effect)[:-1] / np.arange(1, past + 2)))
        bought = generator.poisson(expected * np.exp(off + (effect - lag)[:, None])).astype(float)
        seen = [
            Backtest(depths=DEPTHS, expected=expected, actual=row, basket=1.0) for row in bought[1:-1][-MOST_BACKTESTS:]
        ]
        found = calibrate(seen, DEPTHS.tolist(), decided=True, personal=True)
        prior = usual.common**2 + usual.depth**2 * np.eye(DEPTHS.size)
        before = _Seen.of(seen, DEPTHS).posterior(prior, usual, usual.campaign).covariance + usual.campaign**2
        share = expected * found.factors(DEPTHS.tolist())
        total, share = share.sum(), share / share.sum()
        for count, covariance in ((bare, before), (full, np.asarray(found.log_covariance))):
            half = REACH * np.sqrt(share @ covariance @ share + 1 / total)
            count.add(np.abs(np.log(bought[-1].sum() / total)) <= half, half)
    return bare, full


def rows(histories: int, *, seed: int) -> Iterator[str]:
    """The lines of the table of take-up."""
    yield f"\nThe next campaign, {histories:,} histories each: share inside its 90% interval ± half-width of that,"
    yield "first without and then with a campaign effect that is learned"
    yield f"take-up{'':24}{_heads()}"
    for name, shop in SHOPS.items():
        yield _row(name, lambda past, shop=shop: take_up(shop, past, histories, seed=seed))  # type: ignore[misc]


def forecast_rows(histories: int, *, seed: int) -> Iterator[str]:
    """The lines of the table of forecasts."""
    yield f"forecast of all codes{'':10}{_heads()}"
    for omega in (0.0, 0.03, 0.1, 0.2):
        yield _row(f"move by {omega:g}", lambda past, omega=omega: forecasts(omega, past, histories, seed=seed))  # type: ignore[misc]


def _heads() -> str:
    return "".join(f"{f'{past} past':>34}" for past in PAST)


def _row(name: str, study: Callable[[int], tuple[Count, Count]]) -> str:
    cells = []
    for past in PAST:
        bare, full = study(past)
        cells.append(f"{bare!s:>14} → {full!s:>14}")
    return f"{name:31}{''.join(f'{cell:>34}' for cell in cells)}"
