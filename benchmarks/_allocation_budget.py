"""Budgets in the benchmark of the allocation: reads of the matrix per solve, and the time that conflicts take."""

import time

import numpy as np

import disco


def budget_rows(values, costs, caps_of, profiles, measure, *, repeats: int) -> None:
    """One line per profile of caps: time, reads, gap and what is left unspent, at 60% of the free spend."""
    customers, depths = values.shape
    for profile in profiles:
        caps = caps_of(profile, customers, depths)
        free = disco.allocate(values, caps, costs=costs)
        budget = 0.6 * free.cost
        solve, spread, check, read, result = measure(values, caps, repeats=repeats, costs=costs, budget=budget)
        print(
            f"{profile:>10}  {solve * 1e3:9.1f} ms ±{spread:4.0%}  certificate {check * 1e3:6.1f} ms  "
            f"together {(solve + check) / read:5.0f} reads (one: {read * 1e3:.2f} ms)  gap {result.gap:.1e}  "
            f"unspent {1 - result.cost / budget:.1e}"
        )


def conflicts(customers: int = 100_000, depths: int = 8, segments: int = 20) -> None:
    """How long it takes to say why limits of segments cannot hold together."""
    print(f"\n== conflicts among {segments} segments, {customers:,} × {depths} ==")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, segments, customers)
    values = np.asfortranarray(rng.gamma(2.0, 5.0, (customers, depths)))
    costs = np.asfortranarray(rng.gamma(2.0, 2.0, (customers, depths)))
    even = {segment: {"caps": [2000] * depths, "floors": [100] * depths} for segment in range(segments)}
    crowded = {**even, 3: {"caps": [2000] * depths, "floors": [800] * depths}}
    eligible = rng.random((customers, depths)) < 0.8
    cases = {
        "counts": {"segments": disco.Segments(labels, crowded)},
        "counts, eligible": {"segments": disco.Segments(labels, crowded), "eligible": eligible},
        "budget": {"segments": disco.Segments(labels, even), "costs": costs, "budget": 500.0},
        "budget, nearly": {"segments": disco.Segments(labels, even), "costs": costs, "budget": 4_600.0},
    }
    for name, arguments in cases.items():
        start = time.perf_counter()
        found = disco.allocate(values, [12_000] * depths, **arguments)
        print(f"{name:>18}  {time.perf_counter() - start:6.2f} s  {found.conflicts[0].change}")
