"""The allocation beside its peers, and against the one thing nobody can avoid: reading the matrix once.

    ./run bench allocation [--quick] [--part peers|ties|budgets|profiles|cliffs|conflicts]

All times are medians of repeated runs in this process; `reads` divides by the time of one `values.sum()`, measured in
turn with the solves. `solve` is the whole of `disco.allocate` less its certificate, which is timed apart; `together`
is both. Profiles are measured on all processors and on one thread.
"""

import argparse
import platform
import statistics
import time
import tracemalloc
from importlib.metadata import version

import numpy as np
from _allocation_budget import budget_rows, conflicts
from _allocation_cliffs import report
from _allocation_peers import PEERS, run_peer

import disco

PROFILES = ("equal", "below", "far below", "above", "scarce")
UNEQUAL = (
    *(f"unequal {seed}" for seed in range(3)),
    *(f"one tiny cap {cap}" for cap in (0, 1, 5, 100)),
    *(f"geometric {ratio}" for ratio in (2, 5, 10)),
)


def caps_of(profile: str, customers: int, depths: int) -> np.ndarray:
    """Most customers per depth. The deepest depths are the most popular, and in the unequal profiles the scarcest.

    unequal SEED: random shares over three orders of magnitude. one tiny cap CAP: the others equal. geometric RATIO.
    """
    kind, _, number = profile.rpartition(" ")
    if kind == "one tiny cap":
        caps = np.full(depths, customers // depths)
        caps[depths // 2] = int(number)
        return caps
    if kind in ("unequal", "geometric"):
        if kind == "unequal":
            shares = np.sort(10.0 ** np.random.default_rng(int(number)).uniform(-3.0, 0.0, depths))[::-1]
        else:
            shares = float(number) ** -np.arange(depths, dtype=float)
        return (0.9 * customers * shares / shares.sum()).astype(np.int64)
    even = {"below": 0.8, "far below": 0.1, "above": 1.6}
    if profile in even:
        return np.full(depths, int(even[profile] * customers / depths))
    if profile == "scarce":
        return np.array([int(0.9 * customers * 0.5 ** (k + 1)) for k in range(depths)])
    caps = np.full(depths, customers // depths)
    caps[0] += customers - caps.sum()
    return caps


def money(customers: int, depths: int, *, dtype: type = np.float64, proportional: bool = False):
    """Values and markdown of lognormal baskets; every customer answers to depth in its own way, or none does."""
    rng = np.random.default_rng(7)
    depth = np.linspace(0.05, 0.05 * depths, depths)
    basket = np.exp(3.65 + 0.5 * rng.standard_normal(customers, dtype=np.float32))
    slope = 0.7 * np.exp(0.35 * rng.standard_normal(customers, dtype=np.float32))
    values, costs = np.empty((depths, customers), dtype), np.empty((depths, customers), dtype)
    for k in range(depths):
        noise = 0.05 * rng.standard_normal(customers, dtype=np.float32)
        full_price = basket if proportional else basket * np.exp(slope * depth[k] + noise)
        engagement = 0.02 + 0.1 * depth[k]
        costs[k] = full_price * (depth[k] * engagement)
        values[k] = full_price * (3.0 * (1 - depth[k]) * engagement) - costs[k]
    return values.T, costs.T


def measure(values, caps, *, repeats: int, **arguments):
    """(solve seconds, spread, certificate seconds, one read, result), reads and solves taken in turn."""
    disco.allocate(values, caps, **arguments)
    solves, checks, reads = [], [], []
    for _ in range(repeats):
        start = time.perf_counter()
        values.sum()
        reads.append(time.perf_counter() - start)
        start = time.perf_counter()
        result = disco.allocate(values, caps, **arguments)
        whole = time.perf_counter() - start
        solves.append(whole - result.check_seconds)
        checks.append(result.check_seconds)
    solve = statistics.median(solves)
    quarters = statistics.quantiles(solves, n=4) if repeats > 1 else [solve] * 3
    return solve, (quarters[2] - quarters[0]) / 2 / solve, statistics.median(checks), statistics.median(reads), result


def against_peers(sizes: list[int], *, repeats: int) -> None:
    print("\n== against peers: K = 8, float64, caps below the customers; build + solve ==")
    for customers in sizes:
        values, _ = money(customers, 8)
        caps = caps_of("below", customers, 8)
        solve, spread, check, read, result = measure(values, caps, repeats=max(repeats, 2_000_000 // customers))
        print(
            f"{customers:>9,}  disco.allocate           {solve * 1e3:10.3f} ms ±{spread:4.0%}   "
            f"{solve / read:6.1f} reads   certificate {check * 1e3:.3f} ms   gap {result.gap:.0e}"
        )
        rows = np.ascontiguousarray(values)
        for name, _, largest in PEERS:
            if customers > largest:
                print(f"{'':>9}  {name:<24} left out: it would take minutes at this size")
                continue
            tries = 3 if customers <= 50_000 and "flow" in name else 1
            found = run_peer(name, rows, caps, tries)
            seconds = statistics.median(second for _, second in found)
            off = abs(found[0][0] - result.value) / abs(result.value)
            print(
                f"{'':>9}  {name:<24} {seconds * 1e3:10.1f} ms   {seconds / solve:8.0f} × slower, "
                f"{seconds / (solve + check):6.0f} × with the certificate   value off {off:.0e}"
            )


def profiles(customers: int, depths: int, dtype: type, *, repeats: int) -> None:
    values, _ = money(customers, depths, dtype=dtype)
    print(f"\n== {customers:,} × {depths} {np.dtype(dtype).name}: {values.nbytes / 1e6:,.0f} MB ==")
    for profile in (*PROFILES, *UNEQUAL):
        caps = caps_of(profile, customers, depths)
        alone, _, check_alone, _, _ = measure(values, caps, repeats=repeats, engine=disco.LocalEngine(threads=1))
        solve, spread, check, read, result = measure(values, caps, repeats=repeats)
        tracemalloc.start()
        disco.allocate(values, caps)
        extra = tracemalloc.get_traced_memory()[1] / values.nbytes
        tracemalloc.stop()
        ok = bool((result.counts <= caps).all())
        print(
            f"{profile:>16}  {solve * 1e3:9.2f} ms ±{spread:4.0%}  certificate {check * 1e3:8.2f} ms  "
            f"together {(solve + check) / read:6.1f} reads (one: {read * 1e3:.2f} ms), "
            f"on one thread {(alone + check_alone) / read:6.1f}  "
            f"gap {result.gap:.0e}  caps {'kept' if ok else 'BROKEN'}  peak memory +{extra:.0%} of the matrix"
        )


def ties(customers: int, *, repeats: int) -> None:
    print(f"\n== ties: whole numbers 0 to 9, {customers:,} × 8 ==")
    values = np.asfortranarray(np.random.default_rng(1).integers(0, 10, (customers, 8)).astype(np.float64))
    for profile in PROFILES:
        solve, spread, _, read, result = measure(values, caps_of(profile, customers, 8), repeats=repeats)
        print(f"{profile:>10}  {solve * 1e3:9.2f} ms ±{spread:4.0%}  {solve / read:6.1f} reads  gap {result.gap:.0e}")


def budgets(customers: int, *, repeats: int, proportional: bool) -> None:
    kind = "value and cost proportional to one basket" if proportional else "every customer its own response"
    print(f"\n== budget at 60 % of the free spend, {customers:,} × 8, {kind} ==")
    values, costs = money(customers, 8, proportional=proportional)
    budget_rows(values, costs, caps_of, PROFILES, measure, repeats=repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parts = ("peers", "ties", "budgets", "profiles", "cliffs", "conflicts")
    parser.add_argument("--part", choices=parts, help="one part only")
    arguments = parser.parse_args()
    quick, part = arguments.quick, arguments.part
    names = ("numpy", "numba", "ortools", "highspy", "scipy")
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in names))
    if part in (None, "peers"):
        against_peers([5_000, 50_000] if quick else [5_000, 50_000, 500_000], repeats=5)
    if part in (None, "ties"):
        ties(20_000 if quick else 200_000, repeats=5)
    if part in (None, "budgets"):
        budgets(50_000, repeats=1, proportional=False)
        for proportional in () if quick else (False, True):
            budgets(500_000, repeats=3, proportional=proportional)
    if part in (None, "profiles") and not quick:
        for customers in (5_000, 50_000, 500_000):
            profiles(customers, 8, np.float64, repeats=9)
        profiles(5_000_000, 8, np.float64, repeats=5)
        profiles(10_000_000, 10, np.float32, repeats=5)
    if part in (None, "cliffs"):
        report(money, measure, customers=100_000 if quick else 1_000_000, depths=8, repeats=3)
    if part in (None, "conflicts") and not quick:
        conflicts()


if __name__ == "__main__":
    main()
