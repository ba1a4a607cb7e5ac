"""Do intervals of engagement keep their promise? `./run bench engagement [--repeats 5000] [--setting NAME]`.

Per setting: truths are fixed or drawn, codes are drawn from them, the posterior is fitted, and the share of 90%
intervals that contain the truth is counted, per depth for the population's rate and per customer for their own. Then
the next campaign is predicted where levels stay and where they move (`_campaign_effects.py`); `--only` asks for a part.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import _campaign_effects
import numpy as np

from disco.belief import Engagement, EngagementCounts, ScoreBins

LEVEL, REACH = 0.9, 1.6448536269514722
Truth = Callable[[np.ndarray], np.ndarray]


def expit(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def logit(p: np.ndarray) -> np.ndarray:
    return np.log(p / (1.0 - p))


@dataclass(frozen=True)
class Setting:
    """One kind of shop."""

    played: tuple[float, ...]
    asked: tuple[float, ...]
    least: int  # codes per depth, drawn between the two
    most: int
    curve: Callable[[np.random.Generator], Truth]  # the true logit over depth at score 0
    bins: int = 0
    tilt: tuple[float, float] = (1.0, 1.0)  # β between
    bump: float = 0.0  # sd of f


def through(depths: tuple[float, ...], rates: tuple[float, ...], *, moved: float = 0.3) -> Callable[..., Truth]:
    """Straight lines of the logit through these rates, moved up or down as a whole and each a little."""

    def make(generator: np.random.Generator) -> Truth:
        level = logit(np.array(rates)) + moved * generator.normal()
        return lambda a: np.interp(a, depths, level)

    return make


def s_shaped(generator: np.random.Generator) -> Truth:
    middle, low, rise = generator.uniform(0.15, 0.35), generator.uniform(-3.2, -2.4), generator.uniform(0.8, 2.0)
    return lambda a: low + rise * expit((np.asarray(a) - middle) / 0.04)


def line(generator: np.random.Generator) -> Truth:
    low, slope = generator.uniform(-3.0, -2.2), generator.uniform(2.0, 8.0)
    return lambda a: low + slope * (np.asarray(a) - 0.1)


FOUR = (0.1, 0.2, 0.3, 0.4)
SETTINGS = {
    "ordinary": Setting(FOUR, FOUR, 500, 3000, through(FOUR, (0.05, 0.1, 0.17, 0.25))),
    "strong response": Setting(FOUR, FOUR, 150, 1500, through(FOUR, (0.03, 0.12, 0.3, 0.4))),
    "a jump after the shallowest": Setting(FOUR, FOUR, 150, 150, through(FOUR, (0.03, 0.3, 0.35, 0.4), moved=0.1)),
    "few codes": Setting(FOUR, FOUR, 20, 150, through(FOUR, (0.05, 0.1, 0.17, 0.25))),
    "flat": Setting(FOUR, FOUR, 100, 1000, through(FOUR, (0.1, 0.1, 0.1, 0.1))),
    "S-shaped": Setting(FOUR, FOUR, 300, 3000, s_shaped),
    "many bins": Setting(FOUR, FOUR, 2000, 20_000, line, bins=32, tilt=(0.6, 1.4), bump=0.15),
    "many bins, few codes": Setting(FOUR, FOUR, 150, 1000, line, bins=32, tilt=(0.6, 1.4), bump=0.15),
    "unplayed depths": Setting((0.1, 0.2, 0.4), (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5), 500, 3000, line),
    "unplayed depths, S-shaped": Setting((0.1, 0.2, 0.4), (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5), 500, 3000, s_shaped),
}


def study(setting: Setting, repeats: int, *, seed: int) -> tuple[np.ndarray, float | None]:
    """Coverage of the population's rate per depth asked, and of customers' own rates at played depths."""
    generator = np.random.default_rng(seed)
    played, asked = np.array(setting.played), np.array(setting.asked)
    hits, own, customers = np.zeros(asked.size), 0, 0
    for _ in range(repeats):
        truth = setting.curve(generator)
        codes = generator.integers(setting.least, setting.most + 1, played.size)
        if not setting.bins:
            used = generator.binomial(codes, expit(truth(played)))
            low, high = Engagement(counts=EngagementCounts(played, codes, used)).interval(asked, LEVEL)
            hits += (low <= expit(truth(asked))) & (expit(truth(asked)) <= high)
            continue
        bins = ScoreBins.of(generator.normal(scale=0.8, size=3200), count=setting.bins)
        offset = np.append(
            generator.uniform(*setting.tilt) * bins.centres + setting.bump * generator.normal(size=bins.count),
            generator.normal(-1.0, 0.5),
        )
        share = np.append(np.full(bins.count, 0.95 / bins.count), 0.05)
        sent = np.stack([generator.multinomial(n, share) for n in codes])
        used = generator.binomial(sent, expit(truth(played)[:, None] + offset))
        engagement = Engagement(counts=EngagementCounts(played, sent, used, bins))
        low, high = engagement.interval(asked, LEVEL)
        weight = sent.sum(axis=0) / sent.sum()
        rate = expit(truth(asked)[:, None] + offset) @ weight
        hits += (low <= rate) & (rate <= high)
        law = engagement.law(played)
        sd = np.sqrt((law.roots**2).sum(axis=2))
        middle = law.logits + law.tilt * np.append(bins.centres, 0.0)[:, None]
        true = offset[:, None] + truth(played)
        own += int((np.abs(true - middle) <= REACH * sd).sum())
        customers += true.size
    return hits / repeats, own / customers if customers else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--setting", choices=SETTINGS, action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("rates", "take-up", "forecasts"))
    given = parser.parse_args()
    if given.only in (None, "rates"):
        rates(given)
    if given.only in (None, "take-up") and not given.setting:
        for line in _campaign_effects.rows(given.repeats, seed=given.seed):
            print(line, flush=True)
    if given.only in (None, "forecasts") and not given.setting:
        for line in _campaign_effects.forecast_rows(given.repeats, seed=given.seed):
            print(line, flush=True)


def rates(given: argparse.Namespace) -> None:
    """The share of intervals that contain the rate they are about, per setting."""
    print(f"90% intervals, {given.repeats:,} posteriors per setting: share that contains the truth")
    for name in given.setting or SETTINGS:
        start = time.perf_counter()
        shares, own = study(SETTINGS[name], given.repeats, seed=given.seed)
        per_depth = "  ".join(f"{a:g}: {share:.1%}" for a, share in zip(SETTINGS[name].asked, shares, strict=True))
        personal = "" if own is None else f"  personal rates {own:.1%}"
        print(f"{name:28} mean {shares.mean():.1%}  {per_depth}{personal}  ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
