"""Streams of outcomes of simulated campaigns, sound and with planted faults, under guardrails that always look.

    ./run drill guardrails [--streams 2000] [--seed 1]

A stream is a campaign of two weeks with about 4,000 purchases: most come early, baskets are lognormal, 8% of them are
given back some days later, and the forecast of a sound campaign is off by 6% (one sd). One earlier campaign as large
says when purchases and refunds are due. Guardrails have limits of +20% and −50% on spend, −15% on baskets and 10% on
refunds.

Faults, and the damage of each in money, had nobody stopped it: amounts in pence instead of pounds (a hundredfold
spend), orders that come twice (twice the spend), engagement at a third of the forecast (two thirds of the revenue
missing), refunds of three times the sound rate (the money given back). Found in time: a guardrail is crossed before a
quarter of the damage is done.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from disco.evaluation.guardrails import Due, Sequence, basket_beyond, refunds_above, spend_above, spend_below

PURCHASES, DEPTH, SPREAD, FORECAST_SD, REFUNDS = 4000, 0.2, 0.7, 0.06, 0.08
FAULTS = ("pence", "doubled", "a third", "refunds")


@dataclass(frozen=True)
class Stream:
    time: np.ndarray  # share of the campaign's time, of each purchase
    price: np.ndarray
    expected: np.ndarray  # basket
    refunded_at: np.ndarray  # infinite: never
    forecast: float  # of the markdown
    due: Due  # of purchases
    refunds_due: Due


def stream(rng: np.random.Generator, *, fault: str = "") -> Stream:
    rate = np.exp(rng.normal(0, FORECAST_SD)) * {"a third": 1 / 3}.get(fault, 1.0)
    count = rng.poisson(PURCHASES * rate)
    time = np.sort(_times(rng, count))
    expected = rng.lognormal(3.6, 0.4, count)
    price = expected * rng.lognormal(-(SPREAD**2) / 2, SPREAD, count) * {"pence": 100.0}.get(fault, 1.0)
    if fault == "doubled":
        time, price, expected = (np.repeat(one, 2) for one in (time, price, expected))
    mean, earlier = np.exp(3.6 + 0.4**2 / 2), np.sort(_times(rng, PURCHASES))
    return Stream(
        time=time,
        price=price,
        expected=expected,
        refunded_at=_refunds(rng, time, 3 * REFUNDS if fault == "refunds" else REFUNDS),
        forecast=PURCHASES * mean * DEPTH,
        due=Due(earlier),
        refunds_due=_due(_refunds(rng, earlier, REFUNDS)),
    )


def _refunds(rng: np.random.Generator, bought_at: np.ndarray, share: float) -> np.ndarray:
    """When each purchase is given back: some days later; infinite: never."""
    delay = 0.02 + rng.exponential(0.15, bought_at.size)
    return np.where(rng.random(bought_at.size) < share, bought_at + delay, np.inf)


def _due(refunded_at: np.ndarray) -> Due:
    return Due(np.sort(refunded_at[refunded_at < np.inf]))


def _times(rng: np.random.Generator, count: int) -> np.ndarray:
    """Most purchases come early."""
    return -0.4 * np.log1p(-rng.random(count) * -np.expm1(-1 / 0.4))


def crossings(one: Stream) -> dict[str, float]:
    """By guardrail, the share of the time at which it is crossed; infinite: never."""
    markdown = one.price * DEPTH
    law = {"forecast": one.forecast, "due": one.due}
    back = one.refunded_at <= 1
    at = np.concatenate([one.time, one.refunded_at[back]])
    order = np.argsort(at, kind="stable")
    bought = np.concatenate([one.price, np.zeros(back.sum())])[order]
    refunded = np.concatenate([np.zeros(one.price.size), one.price[back]])[order]
    ratio = one.price / one.expected

    def when(sequence: Sequence, times: np.ndarray) -> float:
        place = sequence.crossing()
        return np.inf if place is None else float(times[place])

    return {
        "spend above": when(spend_above(markdown, one.time, limit=0.2, **law), one.time),
        "spend below": when(spend_below(markdown, one.time, limit=-0.5, **law), one.time),
        "basket": when(basket_beyond(ratio, limit=-0.15, planned=PURCHASES), one.time),
        "refunds": when(
            refunds_above(
                bought, refunded, at[order], limit=0.1, planned=PURCHASES, due=one.due, refunds_due=one.refunds_due
            ),
            at[order],
        ),
    }


def damage_by(one: Stream, fault: str, time: float) -> float:
    """The share of a fault's damage that is done by a share of the time."""
    if fault == "refunds":  # money given back
        back = one.refunded_at <= 1
        whole = one.price[back].sum()
        return float(one.price[back & (one.refunded_at <= time)].sum() / whole)
    # in proportion to purchases: each is paid too much, comes twice, or stands for two that are missing
    return float(one.price[one.time <= time].sum() / one.price.sum())


def false_alarms(streams: int, *, seed: int) -> float:
    rng = np.random.default_rng(seed)
    return float(np.mean([min(crossings(stream(rng)).values()) < np.inf for _ in range(streams)]))


def found_in_time(fault: str, streams: int, *, seed: int) -> float:
    rng, found = np.random.default_rng(seed), 0
    for _ in range(streams):
        one = stream(rng, fault=fault)
        when = min(crossings(one).values())
        found += when < np.inf and damage_by(one, fault, when) < 0.25
    return found / streams


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run drill guardrails")
    parser.add_argument(
        "--streams", type=int, default=2000, help="sound ones; a quarter as many per fault (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    alarms = false_alarms(asked.streams, seed=asked.seed)
    print(f"{asked.streams:,} sound campaigns: {alarms:.1%} paused")
    found = {fault: found_in_time(fault, asked.streams // 4, seed=asked.seed + 1) for fault in FAULTS}
    for fault, share in found.items():
        print(f"{fault}: {share:.1%} paused before a quarter of the damage")
    return 0 if alarms <= 0.05 and min(found.values()) >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
