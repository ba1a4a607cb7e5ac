"""The planner of the console: from a limit that an operator moves to new numbers, by number of customers.

    ./run bench console [--customers 50000 200000 1000000] [--moves 30] [--json FILE]

Customers are arrays (contexts of six features, an engagement head, eight depths, 10% control, 5% holdout), opened once.
An operator then moves one limit at a time: a cap, the budget, the weight of revenue, the share of control. Each move is
solved at full size and timed as the page would wait for it: `solve` gives counts, prices and expected money,
`intervals` the 90% intervals after it. The network between browser and server is not in it.
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from disco.adapters.engines import LocalEngine
from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief
from disco.operations.backtests import PastForecasts
from disco.operations.deciding import Basis, Memo
from disco.operations.planner import OpenAudience, about, intervals, solve
from disco.records.currency import GBP
from disco.records.decisions import Audience
from disco.records.plan import Plan, read_plan
from disco.records.score import EngagementHead, ScoreBins

DEPTHS = (0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45)
CONTEXT = 6
TARGETS_S = {50_000: 0.3, 200_000: 0.3, 1_000_000: 2.0}


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


def plan_of(limits: dict[str, Any]) -> Plan:
    return read_plan(
        {
            "campaign": "bench",
            "customers": {"as_of": "2027-03-01"},
            "depths": {depth: limits["depths"][depth] for depth in DEPTHS},
            "objective": {"revenue_weight": limits["weight"]},
            "control": {"share": limits["control"]},
            "holdout": {"share": 0.05},
            "valid": {"from": "2027-03-08", "days": 14},
            **({} if limits["budget"] is None else {"budget": limits["budget"]}),
        }
    )


def opened(customers: int, plan: Plan) -> OpenAudience:
    rng = np.random.default_rng(1)
    context = rng.standard_normal((customers, CONTEXT)).clip(-4, 4)
    return OpenAudience(
        key="bench",
        about=about(plan),
        basis=Basis(
            audience=Audience(ids=np.arange(customers) + 10**9, context=context, known=True),
            belief=belief(rng),
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


def moves(limits: dict[str, Any], customers: int, spent: float, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What an operator moves, one limit after the other: mostly caps, first without a budget and then with one."""
    rng = np.random.default_rng(2)
    for number in range(count):
        depth = float(rng.choice(DEPTHS))
        cap = int(rng.uniform(0.02, 0.15) * customers)
        with_budget = number >= count // 2
        if (with_budget and limits["budget"] is None) or (with_budget and number % 5 == 0):
            kind, limits = "budget", {**limits, "budget": round(float(rng.uniform(0.4, 0.9)) * spent, 2)}
        elif number % 7 == 3:
            kind, limits = "weight", {**limits, "weight": float(rng.choice([2.0, 2.5, 3.0, 4.0]))}
        elif number % 11 == 5:
            kind, limits = "control", {**limits, "control": float(rng.choice([0.05, 0.1, 0.15]))}
        else:
            kind, limits = "cap", {**limits, "depths": {**limits["depths"], depth: {"at_most": cap}}}
        yield f"{kind}, {'with' if with_budget else 'without'} a budget", limits


def measure(customers: int, count: int) -> dict[str, Any]:
    limits: dict[str, Any] = {
        "depths": {depth: {"at_most": customers // 12} for depth in DEPTHS},
        "weight": 3.0,
        "control": 0.1,
        "budget": None,
    }
    plan = plan_of(limits)
    one = opened(customers, plan)
    began = time.perf_counter()
    first = solve(one, plan)
    opening = time.perf_counter() - began
    intervals(one, plan, first)
    assert first.total is not None
    budget = plan_of({**limits, "budget": first.total.markdown.value / 2})
    solve(one, budget)  # costs are part of opening an audience
    seconds: dict[str, list[float]] = {}
    for kind, tried in moves(limits, customers, first.total.markdown.value, count):
        plan = plan_of(tried)
        solved = solve(one, plan)
        money = intervals(one, plan, solved)
        for name, took in ((kind, solved.seconds), ("all moves", solved.seconds), ("intervals", money.seconds)):
            seconds.setdefault(name, []).append(took)
    kept = f"valued in {opening:.2f} s, kept in {one.nbytes / 1e6:,.0f} MB"
    print(f"{customers:,} customers × {len(DEPTHS)} depths ({kept})")
    found = {}
    for name, each in sorted(seconds.items()):
        p50, p95 = (float(np.quantile(each, share)) for share in (0.5, 0.95))
        found[name] = {"moves": len(each), "p50_ms": 1000 * p50, "p95_ms": 1000 * p95}
        print(f"  {name:<26}{len(each):4d} moves   p50 {1000 * p50:7.0f} ms   p95 {1000 * p95:7.0f} ms")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return {"customers": customers, "megabytes": one.nbytes / 1e6, "peak_gb": peak, "seconds": found}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run bench console", description=__doc__)
    parser.add_argument("--customers", type=int, nargs="+", default=list(TARGETS_S), help="default: %(default)s")
    parser.add_argument("--moves", type=int, default=30, help="per number of customers; default: %(default)s")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    asked = parser.parse_args()
    print(f"[load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors]")
    measure(5_000, 4)  # compiles
    found = [measure(customers, asked.moves) for customers in asked.customers]
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
