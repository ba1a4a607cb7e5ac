"""Evaluation against known truth: coverage of every printed interval, false alarms, propensities, A/A, power, cost.

    ./run bench evaluation [SECTION …] [--logs 100]     without a name: all, within ten minutes

Studies of intervals (replay, logged, tests, pooled, alarms, beliefs, forecast) repeat --logs times; 1,000 are the long
form. A log that is replayed needs many passes, so there are three of these for every ten. Of the other sections there
are ten repetitions per log, 5,000 at most; their bands are those within which a true rate is seen with probability
99.9 %. "references" compares with outside libraries, one data set per log.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import _experiments as experiments
import _offline as offline
import numpy as np
from interval_studies import beliefs, false_alarms, histories, logged, references, replays, selection, tests_of_arms
from interval_studies.tally import Row, table

from disco import objective
from disco.allocation import allocate
from disco.belief import BasketModel, Engagement
from disco.campaign import Belief, Lesson, learn
from disco.evaluation.log import random_log
from disco.evaluation.passes import UnconstrainedLearner, play, read_batch_limits
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
from disco.records.decisions import Purchases

MOST_REPETITIONS = 5000


def line(name: str, share: float, band: tuple[float, float], *, at_most: bool = False, note: str = "") -> None:
    low, high = (0.0 if at_most else band[0]), band[1]
    state = "inside" if low <= share <= high else "below" if share < low else "above"
    wanted = f"at most {high:.2%}" if at_most else f"{low:.2%} to {high:.2%}"
    print(f"  {name:44} {share:8.2%}   band {wanted:20} {state:7} {note}")


def calibration(repetitions: int) -> None:
    print(f"\nCoverage of 95 % intervals, fixed policies, {repetitions:,} logs each")
    band = offline.band(repetitions, 0.95)
    for rows in (1500, 3000):
        share = offline.replay_coverage(repetitions, rows=rows) / repetitions
        line(f"replay, {rows:,} rows", share, band)
    for rows in (3000, 8000):
        for name, covered in offline.off_policy_coverage(repetitions, rows=rows).items():
            note = "shares by stratum estimated, treated as known: conservative" if "strata" in name else ""
            line(f"{name}, {rows:,} rows", covered / repetitions, band, note=note)


def caps(repetitions: int) -> None:
    print("\nReplay of Thompson under caps on the simulated retailer, 3 batches of 1,500: coverage of 95 % intervals")
    shop = offline.Shop.simulate()
    for learning, retailer in ((False, shop), (True, shop.beginner())):
        case = offline.CappedCase(learning=learning)
        truth = retailer.true_value(case, runs=max(1, repetitions // 5))
        for logs, repeats in ((max(1, repetitions // 5), 0), (max(1, repetitions // 25), 6)):
            covered = offline.capped_replay_coverage(retailer, case, logs, repeats=repeats, truth=truth)
            kind = "delta method" if not repeats else f"{repeats} resampled passes"
            name = f"{'learning' if learning else 'as of the start'}, {kind}, {logs:,} logs"
            line(name, covered / logs, offline.band(logs, 0.95))


def propensity(repetitions: int) -> None:
    draws = max(1, repetitions // 5)
    said = f"{4 * draws:,} full re-solves: mean total variation, {draws:,} draws each"
    print(f"\nPropensities against frequencies over {said}")
    print(f"  {'customers':>10} {'noise floor':>12} {'re-solve':>10} {'prices':>10} {'prices above floor':>20}")
    for size in (50, 200, 1000, 5000):
        found = experiments.propensity_distances(size, reference=4 * draws, draws=draws)
        floor, solved, priced = found["noise floor"], found["re-solve"], found["prices"]
        print(f"  {size:>10,} {floor:12.4f} {solved:10.4f} {priced:10.4f} {priced - floor:20.4f}")


def aa(repetitions: int) -> None:
    print(f"\nA/A: rejections at 5 %, {repetitions:,} tests of 3,000 customers (30 % control, about 15 % buy)")
    for name, count in experiments.aa_rejections(repetitions).items():
        rate = 0.001 if name.startswith("sample ratio") else 0.05
        line(name, count / repetitions, offline.band(repetitions, rate))
    print(f"\nA/A looked at daily for 30 days: tests in which any look excluded 0, {repetitions:,} tests")
    for name, count in experiments.sequential_rejections(repetitions).items():
        note = "" if "always" in name else "why the other is needed"
        line(name, count / repetitions, offline.band(repetitions, 0.05), at_most=True, note=note)


def power(repetitions: int) -> None:
    print(f"\nPower: rejections in {repetitions:,} simulated tests of the size the calculator asks for")
    for case in experiments.POWER_CASES:
        for wanted in (0.5, 0.8):
            count, promised = experiments.power_rejections(case, repetitions, power=wanted)
            name = f"{case.name}, {case.uplift:.0%}, power {promised:.1%}"
            line(name, count / repetitions, offline.band(repetitions, promised))


def milliseconds(work: Callable[[], object], repeats: int = 30) -> float:
    """Of processor time: what one core needs, whatever else runs on the machine."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return 1000 * statistics.median(taken)


def batch(_repetitions: int) -> None:
    print("\nA replay batch of 5,000 customers × 8 depths under caps: ms of one core (medians); wanted: below 10")
    rng = np.random.default_rng(1)
    grid, rows, batches = np.linspace(0.05, 0.4, 8).round(2), 5000, 10
    everybody = np.arange(rows * batches)
    x, depth = rng.normal(size=(everybody.size, 6)).clip(-4, 4), rng.choice(grid, everybody.size)
    price = np.exp(3.6 + 0.3 * x[:, 0] + depth * (1 + 0.5 * x[:, 1]) + 0.7 * rng.normal(size=everybody.size))
    log = random_log(x, depth, price, check_balance=False)
    shares = (0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05)
    limits = read_batch_limits(
        dict(zip(grid.tolist(), shares, strict=True)), depths=log.depths, batch=rows, rows=len(log), revenue_weight=None
    )
    known = Engagement(override=dict.fromkeys(log.depths, 1.0))
    start = Belief(basket=BasketModel().update(x[:rows], depth[:rows], price[:rows]), engagement=known)
    context, ids = x[:rows], np.arange(rows)
    print(f"  {'policy':24} {'whole':>7} {'draw':>7} {'allocate':>9} {'update':>8} {'observe, rest':>14}")
    policies = (Thompson(), UpperConfidence(), EpsilonGreedy(), Greedy(), Random())
    for policy in (*policies, UnconstrainedLearner(policy=Thompson())):
        acting = policy.policy if isinstance(policy, UnconstrainedLearner) else policy
        settings = {"start": start, "limits": limits, "seed": 1, "learning": True, "learn_engagement": False}

        def drawn(acting=acting):
            prices = acting.full_prices(start.basket, context, grid, ids=ids, seed=1, campaign="b")
            return objective.values(prices, grid, np.ones(8), revenue_weight=1e9)

        worth = drawn()
        accepted = np.flatnonzero(allocate(worth, limits.caps, ids=ids).choice == log.place[:rows])
        seen = Purchases(context=x[accepted], depth=depth[accepted], full_price=price[accepted])
        draw = milliseconds(drawn)
        allocation = milliseconds(lambda worth=worth: allocate(worth, limits.caps, ids=ids))
        update = milliseconds(lambda seen=seen: learn(start, [Lesson.of("replay", seen)]).basket.fitted(6))
        total = milliseconds(lambda p=policy, s=settings: play(log, everybody, p, **s), repeats=9) / batches
        rest = total - draw - allocation - update
        print(f"  {policy.name:24} {total:7.2f} {draw:7.2f} {allocation:9.2f} {update:8.2f} {rest:14.2f}")
    print("  ulcc draws and allocates twice; the split shows one of each, the other is in the rest")


def outside(repetitions: int) -> None:
    print("\nOutside references on random figures: the largest relative difference")
    for text in references.lines(max(1, repetitions // 10)):
        print(text, flush=True)


SECTIONS: dict[str, Callable[[int], None]] = {
    "calibration": calibration,
    "caps": caps,
    "propensity": propensity,
    "aa": aa,
    "power": power,
    "batch": batch,
    "references": outside,
}
STUDIES: dict[str, Callable[[int], Iterator[Row]]] = {
    "replay": lambda logs: replays.study(max(1, logs * 3 // 10), runs=max(1, min(300, logs * 3 // 2))),
    "logged": logged.study,
    "tests": tests_of_arms.study,
    "pooled": histories.study,
    "alarms": false_alarms.study,
    "beliefs": beliefs.study,
    "forecast": selection.study,
}


def show(name: str, logs: int) -> None:
    print(f"\nHow often it happened: {name}")
    for text in table(STUDIES[name](logs)):
        print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*STUDIES, *SECTIONS]
    parser.add_argument("section", nargs="*", help=f"some of {', '.join(names)}; all without a name")
    parser.add_argument("--logs", type=int, default=100, help="repetitions of the studies (default: 100)")
    asked = parser.parse_args()
    unknown = sorted(set(asked.section) - set(names))
    if unknown or asked.logs < 1:
        found = f"section {', '.join(unknown)}" if unknown else f"--logs {asked.logs}"
        sys.exit(f"found {found}; expected some of {', '.join(names)}, and at least one log")
    for name in asked.section or names:
        start = time.perf_counter()
        if name in STUDIES:
            show(name, asked.logs)
        else:
            SECTIONS[name](min(10 * asked.logs, MOST_REPETITIONS))
        print(f"  ({name}: {time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
