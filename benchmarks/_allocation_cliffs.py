"""Allocations that could be far slower than their neighbours: one table, many limits, each beside equal caps.

Every case has a bound: times equal caps for caps, floors and ties, seconds for segments, reads of the matrix for
budgets. A case beyond its bound is marked; nothing is asserted, for a busy machine measures itself.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import disco

# Customers fewer than the caps' sum reaches, or shares of the customers.
SUMS = ("20%", "60%", "100%", "1 fewer", "2 fewer", "3 fewer", "10 fewer", "50 fewer", "1 more", "1000 more", "120%")
SHAPES = (
    "equal", "rising", "falling", "geometric 2", "geometric 4", "one large", "one small", "one tiny", "two halves",
    *(f"random {seed}" for seed in range(3)), *(f"very unequal {seed}" for seed in range(3)),
)  # fmt: skip


class Case(NamedTuple):
    """One allocation, and what it may take."""

    kind: str
    name: str
    values: np.ndarray
    caps: np.ndarray
    limits: dict[str, Any]
    bound: float
    unit: str  # of the bound: "equal", "seconds" or "reads"


def shares(shape: str, depths: int) -> np.ndarray:
    """Of the codes, per depth; the deepest depths are the most popular."""
    kind, _, number = shape.rpartition(" ")
    rising = np.arange(1.0, depths + 1)
    given = {
        "equal": np.ones(depths),
        "rising": rising,
        "falling": rising[::-1],
        "one large": np.where(rising == depths // 2, 10.0, 1.0),
        "one small": np.where(rising == depths // 2, 0.1, 1.0),
        "one tiny": np.where(rising == depths, 1e-5, 1.0),
        "two halves": np.where(rising <= depths // 2, 3.0, 1.0),
    }
    if shape in given:
        return given[shape] / given[shape].sum()
    if kind == "geometric":
        weights = float(number) ** -rising
    else:
        draw = np.random.default_rng(int(number)).uniform(0.0, 1.0, depths)
        weights = 0.2 + draw if kind == "random" else 10.0 ** (-3.0 * draw)
    return weights / weights.sum()


def caps_to(shape: str, total: str, customers: int, depths: int) -> np.ndarray:
    """Caps of a shape that add up to a share of the customers, or to so many fewer or more than there are."""
    number, _, way = total.partition(" ")
    wanted = round(customers * float(number.rstrip("%")) / 100.0) if number.endswith("%") else customers
    wanted += {"fewer": -1, "more": 1}.get(way, 0) * (0 if number.endswith("%") else int(number))
    caps = np.floor(shares(shape, depths) * wanted).astype(np.int64)
    caps[int(caps.argmax())] += wanted - int(caps.sum())
    return caps


def cases(money: Callable[..., Any], customers: int, depths: int) -> Iterator[Case]:
    """All but budgets, whose costs are a second matrix."""
    values, _ = money(customers, depths)
    for shape in SHAPES:
        for total in SUMS:
            yield Case("caps", f"{shape}, {total}", values, caps_to(shape, total, customers, depths), {}, 2.0, "equal")
    even = caps_to("equal", "100%", customers, depths)
    unpopular = np.zeros(depths, np.int64)
    unpopular[: depths // 2] = customers // (2 * depths)
    for name, floors, caps in (
        ("all depths, 1% each", np.full(depths, customers // 100), even),
        ("the least popular", unpopular, even),
        ("the least popular, no caps", unpopular, np.full(depths, customers)),
        ("as many as the caps", even, even),
    ):
        yield Case("floors", name, values, caps, {"floors": floors}, 3.0, "equal")
    rng = np.random.default_rng(1)
    digits = np.asfortranarray(rng.integers(0, 10, (customers, depths)).astype(np.float64))
    quarters = np.asfortranarray(np.rint(4.0 * values) / 4.0)
    whole = np.asfortranarray(np.rint(10.0 * values))
    for name, tied in (("0 to 9", digits), ("quarters", quarters), ("tenths", whole)):
        for share in (100.0, 99.9, 80.0, 40.0, 20.0, 2.5 * depths / 8):
            caps = caps_to("equal", f"{share}%", customers, depths)
            yield Case("ties", f"{name}, caps for {share:g}%", tied, caps, {}, 10.0, "equal")
    for groups in (3, 20):
        labels = rng.integers(0, groups, customers)
        for name, tight in (("loose", 1.2), ("tight", 0.6), ("very tight", 0.2)):
            own = np.floor(even * tight / groups).astype(np.int64)
            limits = disco.Segments(labels, {group: {"caps": own} for group in range(groups)})
            yield Case("segments", f"{groups}, {name}", values, even, {"segments": limits}, 1.0, "seconds")


def budgets(money: Callable[..., Any], customers: int, depths: int) -> Iterator[Case]:
    """Budgets at shares of the free spend."""
    values, costs = money(customers, depths)
    for total in ("20%", "60%", "100%", "3 fewer"):
        caps = caps_to("equal", total, customers, depths)
        spent = disco.allocate(values, caps, costs=costs).cost
        for share in (0.3, 0.6, 0.9):
            limits = {"costs": costs, "budget": share * spent}
            yield Case("budget", f"caps for {total}, {share:.0%} of the spend", values, caps, limits, 150.0, "reads")


def report(
    money: Callable[..., Any], measure: Callable[..., Any], *, customers: int, depths: int, repeats: int
) -> None:
    """One line per case, and how many are beyond their bounds."""
    print(f"\n== no cliff: {customers:,} × {depths}, with certificate, × equal caps ==")
    values, _ = money(customers, depths)
    solve, spread, check, read, _ = measure(values, caps_to("equal", "100%", customers, depths), repeats=5 * repeats)
    equal = solve + check
    print(f"equal caps for all customers {equal * 1e3:.1f} ms ±{spread:.0%}, one read {read * 1e3:.2f} ms")
    beyond = []
    for case in (*cases(money, customers, depths), *budgets(money, customers, depths)):
        solve, _, check, read, found = measure(case.values, case.caps, repeats=repeats, **case.limits)
        taken = {"equal": (solve + check) / equal, "seconds": solve + check, "reads": (solve + check) / read}[case.unit]
        mark = "" if taken <= case.bound else "   BEYOND"
        beyond += [case.name] if mark else []
        times = f"{(solve + check) * 1e3:8.1f} ms {taken:7.2f} of {case.bound:g} {case.unit}"
        print(f"{case.kind:>9} {case.name:<42} {times:<40} gap {found.gap:.0e}{mark}", flush=True)
    print(f"beyond their bounds: {len(beyond)}{': ' if beyond else ''}{'; '.join(beyond)}")
