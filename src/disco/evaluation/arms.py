"""What the customers of an A/B test did, arm by arm: the figures to compare and what each is divided by."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from disco import objective
from disco.records.arguments import read_column, read_labels, read_matrix, read_number
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.errors import InputError
from disco.records.grid import LOG_PRICE_LIMIT

Metric = Literal["revenue", "markdown", "reward", "objective", "engagement"]
Per = Literal["customer", "recipient", "purchaser"]
MOST_ARMS = 100  # each has intervals of its own, and every comparison more makes all of them wider
MISMATCH_P_VALUE = 1e-3  # a sample ratio this unlikely means a broken assignment, not bad luck
_LARGEST_PRICE = math.exp(LOG_PRICE_LIMIT)  # the same edge as everywhere: beyond it, it is no basket
_LARGEST = 1e100  # of figures known before: their squares must still be numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmOutcomes:
    """Customers assigned to one arm, one entry per customer."""

    depth: Vector  # (n,) NaN = no code
    full_price: Vector  # (n,) bought with the code, money; 0 = nothing
    before: Matrix | None  # (n, p) known before the campaign
    other_revenue: Vector | None  # (n,) paid without the code in the campaign's time, money

    def __len__(self) -> int:
        return int(self.depth.size)

    @property
    def purchased(self) -> Flags:
        return np.asarray(self.full_price > 0)

    @property
    def received(self) -> Flags:
        return ~np.isnan(self.depth)

    def take(self, rows: Flags) -> "ArmOutcomes":
        return ArmOutcomes(
            depth=self.depth[rows],
            full_price=self.full_price[rows],
            before=None if self.before is None else self.before[rows],
            other_revenue=None if self.other_revenue is None else self.other_revenue[rows],
        )

    def figure(self, metric: Metric, *, revenue_weight: float | None) -> Vector:
        """(n,) of a metric: R, C, R − C, w·R − C, or 1 for a purchase."""
        depth = np.nan_to_num(self.depth)
        if metric == "engagement":
            return self.purchased.astype(np.float64)
        if metric == "revenue":
            return np.asarray(objective.revenue(self.full_price, depth), np.float64)
        if metric == "markdown":
            return np.asarray(objective.markdown(self.full_price, depth), np.float64)
        if metric == "reward":
            return np.asarray(objective.reward(self.full_price, depth), np.float64)
        if revenue_weight is None:
            raise InputError("objective", found="no revenue_weight", expected="the weight w of w·R − C")
        return self.full_price * objective.weights(depth, np.ones_like(depth), revenue_weight=revenue_weight)

    def divisor(self, per: Per) -> Vector | None:
        """What the figure's sum is divided by: everybody assigned (None), those with a code, those who bought."""
        if per == "customer":
            return None
        return (self.received if per == "recipient" else self.purchased).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """An arm in sums."""

    customers: int
    """Everybody assigned."""
    recipients: int
    """Customers with a code."""
    purchasers: int
    """Customers who bought with their code."""
    revenue: float
    """Paid with codes, in currency units."""
    markdown: float
    """Discount given, in currency units."""

    @classmethod
    def of(cls, arm: ArmOutcomes) -> "ArmSummary":
        depth = np.nan_to_num(arm.depth)
        return cls(
            customers=len(arm),
            recipients=int(arm.received.sum()),
            purchasers=int(arm.purchased.sum()),
            revenue=float(objective.revenue(arm.full_price, depth).sum()),
            markdown=float(objective.markdown(arm.full_price, depth).sum()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmNames:
    """Which arm of the data plays which part. The decided arm is there, and one of the other two at least."""

    decided: str
    control: str | None
    holdout: str | None

    @classmethod
    def among(cls, found: set[str], *, decided: str | None, control: str, holdout: str) -> "ArmNames":
        """The parts of the arms found; without a name for it, the decided arm is the only other one."""
        names = ", ".join(map(repr, sorted(found)))
        others = sorted(found - {control, holdout})
        if decided is None and len(others) != 1:
            raise InputError(
                "arm",
                found=names,
                expected=f"one decided arm beside {control!r} and {holdout!r}",
                fix="Name the arms, for example ab_test(…, decided='B', control='A').",
            )
        decided = others[0] if decided is None else decided
        if decided not in others or not {control, holdout} & found:
            raise InputError(
                "arm",
                found=names,
                expected=f"{decided!r}, and {control!r} or {holdout!r} to compare it with",
                fix="Name the arms, for example ab_test(…, decided='B', control='A').",
            )
        return cls(
            decided=decided,
            control=control if control in found else None,
            holdout=holdout if holdout in found else None,
        )


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """Customers per arm against the planned shares, by a χ² test."""

    found: Mapping[str, int]
    """Customers by arm."""
    expected: Mapping[str, float]
    """Customers that the planned shares would give, by arm."""
    p_value: float
    """Of the χ² test; below 0.001 the assignment is taken to be broken."""

    @property
    def ok(self) -> bool:
        """False below p = 0.001."""
        return self.p_value >= MISMATCH_P_VALUE


def sample_ratio(found: Mapping[str, int], shares: Mapping[str, float]) -> SampleRatio:
    """χ² = Σ(found − expected)²/expected with one degree of freedom less than arms.

    found: customers by arm. shares: planned share of each arm found, and of any that is empty; need not sum to 1.

    >>> sample_ratio({"decided": 5210, "control": 4790}, {"decided": 0.5, "control": 0.5}).ok
    False
    """
    wanted = f"a positive share for each of the arms found: {', '.join(found)}"
    if not isinstance(shares, Mapping) or not set(map(str, found)) <= set(map(str, shares)):
        said = f"shares of {', '.join(map(str, shares)) or 'no arm'}" if isinstance(shares, Mapping) else repr(shares)
        raise InputError("shares", found=said, expected=wanted)
    planned = {
        str(arm): read_number(share, where=f"share of {arm}", expected=wanted, above=0) for arm, share in shares.items()
    }
    counts = {arm: found.get(arm, 0) for arm in planned}  # an arm that lost everybody is the worst mismatch of all
    scale = sum(counts.values()) / sum(planned.values())
    expected = {arm: share * scale for arm, share in planned.items()}
    statistic = sum((counts[arm] - expected[arm]) ** 2 / expected[arm] for arm in counts)
    return SampleRatio(counts, expected, float(chdtrc(len(counts) - 1, statistic)) if len(counts) > 1 else 1.0)


def distinct_arms(labels: np.ndarray) -> set[str]:
    """The names of the arms; more than 100 are refused, before anything is computed for each of them."""
    found = set(np.unique(labels).tolist())
    if len(found) > MOST_ARMS:
        fix = "Is it the column of arms?"
        raise InputError("arm", found=f"{len(found):,} arms", expected=f"at most {MOST_ARMS}", fix=fix)
    return found


def read_arms(
    arm: ArrayLike,
    depth: ArrayLike,
    full_price: ArrayLike,
    *,
    before: ArrayLike | None,
    other_revenue: ArrayLike | None,
    decided: str | None,
    control: str,
    holdout: str,
) -> tuple[ArmNames, dict[str, ArmOutcomes]]:
    """Columns of one length, one row per customer assigned, as arms by name: decided, control, holdout, any others."""
    labels = read_labels(arm, where="arm").astype(str)
    if not labels.size:
        raise InputError("arm", found="no rows", expected="one label per customer")
    found = distinct_arms(labels)
    names = ArmNames.among(found, decided=decided, control=control, holdout=holdout)
    rows = labels.size
    depths = _figures(depth, rows, "depth", highest=1.0)
    prices = _figures(full_price, rows, "full_price")
    lost = np.isnan(depths) & (prices > 0)
    if lost.any():
        row = int(lost.argmax())
        raise InputError(
            f"full_price, row {row + 1}",
            found="a purchase with a code by a customer who got none",
            expected="null",
            fix="Put purchases without a code into other_revenue.",
        )
    known = None if before is None else read_matrix(before, where="before", rows=rows)
    if known is not None and not (np.abs(known) < _LARGEST).all():
        raise InputError("before", found="NaN or infinite figures", expected="finite figures, 0 for none")
    other = None if other_revenue is None else np.nan_to_num(_figures(other_revenue, rows, "other_revenue"))
    whole = ArmOutcomes(depth=depths, full_price=np.nan_to_num(prices), before=known, other_revenue=other)
    parts = [name for name in (names.decided, names.control, names.holdout) if name is not None]
    arms = {name: whole.take(labels == name) for name in (*parts, *sorted(found - set(parts)))}
    if names.holdout is not None and arms[names.holdout].received.any():
        raise InputError("holdout", found="customers with a code", expected="no codes in the holdout")
    return names, arms


def _figures(values: ArrayLike, rows: int, name: str, *, highest: float = _LARGEST_PRICE) -> Vector:
    column = read_column(values, where=name, rows=rows)
    bad = ~np.isnan(column) & ~((column >= 0) & (column < highest))
    if bad.any():
        row = int(bad.argmax())
        expected = "a share in [0, 1), or null" if highest == 1 else "an amount of money, not negative, or null"
        raise InputError(f"{name}, row {row + 1}", found=float(column[row]), expected=expected)
    return column
