"""The planner of the console: from a limit that an operator moves to new numbers, by number of customers.

    ./run bench console [--customers 50000 200000 1000000] [--moves 20] [--quick] [--json FILE]
    ./run bench console --served out/demo [--moves 20]

Customers are arrays (contexts of six features, an engagement head, eight depths, four regions, 10% control, 5%
holdout), opened once. An operator then moves one kind of limit after the other: a cap, the weight of revenue, the
budget with a cap, a cap down to 0 under a budget, a region's caps, these under a budget, and a budget within a risk to
overspend. Each move is solved at full size and timed as the page waits for it: `solve` gives counts, prices and
expected money, `intervals` the 90% intervals after it. The network between browser and server is not in it. Beside it
stand the processor time of the numbers, which does not grow where other programs run, and the least that any solve
could take: one read of the values of the decided group.

With --served, the same is timed over HTTP on a shop that `disco demo --customers 200000 -o SHOP` made: a cap of its
draft is sent to `disco serve`, as the page sends it, and the draft is saved before it is solved.
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from disco.adapters.engines import LocalEngine
from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief
from disco.operations.decide import Basis, Memo
from disco.operations.forecast import PastForecasts
from disco.operations.what_if import OpenAudience, about, intervals, solve
from disco.records.decisions import Arm, Audience
from disco.records.money import GBP
from disco.records.plan import Plan, read_plan
from disco.records.score import EngagementHead, ScoreBins

DEPTHS = (0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45)
REGIONS = ("North", "South", "East", "West")
CONTEXT = 6
CUSTOMERS = (50_000, 200_000, 1_000_000)
KINDS = ("cap", "weight", "budget", "budget, a cap of 0", "segments", "segments, budget", "budget within a risk")

Limits = dict[str, Any]
"""A plan's content."""
Ask = Callable[[Limits], tuple[float, float]]
"""Takes a plan's content; seconds until its numbers were there, and from then until its intervals were."""


def belief(rng: np.random.Generator) -> Belief:
    """Learned from 20,000 purchases whose baskets and chances differ by customer."""
    rows = 20_000
    context, depth = rng.standard_normal((rows, CONTEXT)).clip(-4, 4), rng.choice(DEPTHS, rows)
    full_price = np.exp(3.5 + 0.3 * context[:, 0] + 0.8 * depth + 0.4 * rng.standard_normal(rows)).round(2)
    bins = ScoreBins.of(rng.normal(0, 0.8, 4000), count=10)
    head = EngagementHead([-2.0, 0.5, -0.3, *[0.1] * (CONTEXT - 2)], bins)
    sent = np.full((len(DEPTHS), bins.count + 1), 2000)
    chance = (0.04 + 0.15 * np.asarray(DEPTHS))[:, None] * np.linspace(0.6, 1.4, bins.count + 1)
    counts = EngagementCounts(np.asarray(DEPTHS), sent, (sent * chance).astype(np.int64), bins)
    basket = BasketModel().update(context, depth, full_price, campaign="earlier")
    return Belief(basket=basket, engagement=Engagement(counts=counts), head=head)


def limits_of(customers: int) -> Limits:
    """The plan that an operator begins with: the same cap for every depth, codes for two thirds of the customers."""
    return {
        "campaign": "bench",
        "customers": {"as_of": "2027-03-01"},
        "depths": {depth: {"at_most": customers // 12} for depth in DEPTHS},
        "objective": {"revenue_weight": 3.0},
        "control": {"share": 0.1},
        "holdout": {"share": 0.05},
        "valid": {"from": "2027-03-08", "days": 14},
    }


def moves(kind: str, limits: Limits, *, customers: int, spent: float, count: int) -> Iterator[Limits]:
    """What an operator moves, each from where the last one left it.

    spent: the expected markdown without a budget.
    """
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(count):
        depth = float(rng.choice(DEPTHS))
        if kind == "weight":
            limits = {**limits, "objective": {"revenue_weight": round(float(rng.uniform(1.5, 4.0)), 2)}}
        elif kind == "budget, a cap of 0":
            start = limits_of(customers)["depths"]
            limits = {**limits, "depths": {**start, depth: {"at_most": 0}}, "budget": round(0.6 * spent, 2)}
        elif kind in ("cap", "budget"):
            cap = {"at_most": int(rng.uniform(0.02, 0.15) * customers)}
            limits = {**limits, "depths": {**limits["depths"], depth: cap}}
        if kind in ("budget", "segments, budget"):
            limits = {**limits, "budget": round(float(rng.uniform(0.4, 0.9)) * spent, 2)}
        elif kind == "budget within a risk":
            amount = round(float(rng.uniform(0.4, 0.9)) * spent, 2)
            limits = {**limits, "budget": {"amount": amount, "overspend_risk": "20%"}}
        if kind.startswith("segments"):
            regions = dict((limits.get("segments") or {"limits": {}})["limits"])
            region = str(rng.choice(REGIONS[:3]))
            own = {"at_most": int(rng.uniform(0.005, 0.03) * customers)}
            regions[region] = {**regions.get(region, {}), depth: own}
            limits = {**limits, "segments": {"column": "region", "limits": regions}}
        yield limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What an operator waits for, in seconds, move by move."""

    numbers: list[float]  # counts, prices and expected money
    intervals: list[float]  # after them


def measure(ask: Ask, kind: str, *, customers: int, spent: float, count: int) -> Waited:
    """The times of one kind of moves, after one of the kind that is not counted. `ask` may be a server."""
    each = [
        ask(limits) for limits in moves(kind, limits_of(customers), customers=customers, spent=spent, count=count + 1)
    ][1:]
    return Waited(numbers=[numbers for numbers, _ in each], intervals=[after for _, after in each])


# ---- the planner in this process ----


def opened(customers: int, plan: Plan, *, segments: bool = False) -> OpenAudience:
    rng = np.random.default_rng(1)
    context = rng.standard_normal((customers, CONTEXT)).clip(-4, 4)
    labels = np.array(REGIONS, object)[rng.integers(0, len(REGIONS), customers)] if segments else None
    return OpenAudience(
        key="bench",
        about=about(plan),
        basis=Basis(
            audience=Audience(ids=np.arange(customers) + 10**9, context=context, known=True, segment=labels),
            belief=belief(np.random.default_rng(2)),
            past=PastForecasts(decided=(), at_random=(), personal=True),
            currency=GBP,
            engine=LocalEngine(),
            memo=Memo(tables=True),
        ),
        network="bench",
        version=1,
        notes=(),
        left_out={},
        opened_at=datetime(2027, 3, 8, tzinfo=UTC),
    )


class InProcess:
    """Asks the planner of this process, and keeps the processor seconds of each answer: others may keep it waiting."""

    def __init__(self, one: OpenAudience) -> None:
        self.one = one
        self.busy: list[float] = []  # of the numbers, over all processors

    def __call__(self, limits: Limits) -> tuple[float, float]:
        plan, began = read_plan(limits), time.process_time()
        solved = solve(self.one, plan)
        self.busy.append(time.process_time() - began)
        return solved.seconds, intervals(self.one, plan, solved).seconds


def least_seconds(one: OpenAudience, plan: Plan) -> float:
    """One read of the values that a solve decides on."""
    values = one.basis.figures(plan, solve(one, plan).decided.parts[0]).values
    times = []
    for _ in range(5):
        began = time.perf_counter()
        values.max()
        times.append(time.perf_counter() - began)
    return min(times)


def run(customers: int, count: int) -> dict[str, Any]:
    limits = limits_of(customers)
    plan = read_plan(limits)
    plain = opened(customers, plan)
    began = time.perf_counter()
    first = solve(plain, plan)
    valued = time.perf_counter() - began
    assert first.total is not None
    spent = first.total.markdown.value
    least = least_seconds(plain, plan)
    regional = next(moves("segments", limits, customers=customers, spent=spent, count=1))
    by_region = opened(customers, read_plan(regional), segments=True)
    found: dict[str, Any] = {}
    print(
        f"{customers:,} customers × {len(DEPTHS)} depths, valued in {valued:.2f} s; one read of the values takes ",
        end="",
    )
    print(f"{1000 * least:.1f} ms")
    print(
        f"  {'moved':<22}{'moves':>6}{'numbers p50':>14}{'p95':>9}{'intervals p50':>16}{'p95':>9}{'processor p50':>15}"
    )
    for kind in KINDS:
        one = by_region if kind.startswith("segments") else plain
        ask = InProcess(one)
        waited = measure(ask, kind, customers=customers, spent=spent, count=count)
        times = [
            float(np.quantile(each, share)) for each in (waited.numbers, waited.intervals) for share in (0.5, 0.95)
        ]
        times.append(float(np.median(ask.busy[1:])))
        names = ("p50_s", "p95_s", "intervals_p50_s", "intervals_p95_s", "processor_s")
        found[kind] = dict(zip(names, times, strict=True))
        cells = zip(times, (11, 6, 13, 6, 12), strict=True)
        print(f"  {kind:<22}{count:>6}" + "".join(f"{1000 * took:>{width}.0f} ms" for took, width in cells))
    kept = plain.nbytes / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    members = len(plain.basis.members(plan, Arm.DECIDED))
    print(f"  {members:,} customers decided; kept in {kept:,.0f} MB; the process took {peak:,.0f} MB at most")
    return {"customers": customers, "megabytes": kept, "peak_megabytes": peak, "least_s": least, "moves": found}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench console", description=__doc__)
    parser.add_argument("--customers", type=int, nargs="+", default=list(CUSTOMERS), help="default: %(default)s")
    parser.add_argument("--moves", type=int, default=20, help="of each kind; default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="5,000 customers and two moves of each kind")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("--served", type=Path, metavar="SHOP", help="over HTTP, on the demo's shop in this folder")
    options = parser.parse_args()
    if options.served is not None:
        from _console_served import measure_served  # lies beside this file, which tests load by its path

        print(f"[load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors]")
        times = measure_served(options.served, draft="F", count=options.moves)
        said = (f"{name.removesuffix('_s').replace('_', ' ')} {1000 * took:.0f} ms" for name, took in times.items())
        print(f"over HTTP, from a moved cap to the numbers and from there to the intervals: {', '.join(said)}")
        return
    sizes, count = ([5_000], 2) if options.quick else (options.customers, options.moves)
    if not options.quick:
        run(20_000, 2)  # compiles
    found = []
    for customers in sizes:
        print(f"[load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors]")
        found.append(run(customers, count))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
