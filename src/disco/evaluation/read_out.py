"""The read-out of a test whose customers were assigned to arms at random.

Two doors, one way of reading. `ab_test` reads a campaign: a decided arm against control, a holdout without codes, or
both, in money. `experiment` reads any table of figures: every arm against one of them, as `disco ab` does. Both check
the arms and their shares alike, compare two arms by `compare_samples`, and say what may be said as a `Verdict`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtri

from disco import objective
from disco.evaluation.estimates import (
    AT_THE_END,
    Adjusted,
    Comparison,
    Look,
    Sample,
    compare_samples,
    compare_unvaried,
    holm,
    interval_in_words,
    quantile,
)
from disco.records.arguments import (
    column_labels,
    kind_of,
    read_column,
    read_count,
    read_labels,
    read_level,
    read_matrix,
    read_number,
    refuse_rows,
)
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.exact_sums import LOG_PRICE_LIMIT
from disco.records.frames import Frame, Tabular, as_arrow
from disco.records.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

Metric = Literal["revenue", "markdown", "reward", "objective", "engagement"]
Per = Literal["customer", "recipient", "purchaser"]
Kind = Literal["mean", "rate", "ratio"]
MOST_ARMS = 100  # each has intervals of its own, and every comparison more makes all of them wider
MISMATCH_P_VALUE = 1e-3  # a sample ratio this unlikely means a broken assignment, not bad luck
POWER = 0.8  # with which a difference that is stated as detectable would be shown
_LARGEST_PRICE = math.exp(LOG_PRICE_LIMIT)  # the same edge as everywhere: beyond it, it is no basket
_COLUMNS = ("arm", "depth", "full_price")
_LARGEST = 1e100  # of any other figure: its square must still be a number

# ---- what every read-out needs ---------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """What may be said about a metric of an arm.

    Of a campaign's revenue and objective, more is better. Whether a higher column of a table is better, its owner
    knows.
    """

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    UNDECIDED = "undecided"
    BLOCKED = "blocked"  # the assignment is broken, so no figure can be trusted


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


def _verdict(
    difference: Estimate, ratio: SampleRatio | None, *, shown: bool, words: tuple[Verdict, Verdict]
) -> Verdict:
    """Of one difference. shown: whether it is more than chance. words: for a difference above 0, and below."""
    if ratio is not None and not ratio.ok:
        return Verdict.BLOCKED
    if not shown:
        return Verdict.UNDECIDED
    return words[0] if difference.value > 0 else words[1]


def _read_names(arm: ArrayLike) -> tuple[NDArray[np.str_], set[str]]:
    """(n,) the name of each customer's arm, and every name; too many are refused before any of them is computed."""
    labels = read_labels(arm, where="arm").astype(str)
    names = set(np.unique(labels).tolist())
    if len(names) > MOST_ARMS:
        fix = "Is it the column of arms?"
        raise InputError("arm", found=f"{len(names):,} arms", expected=f"at most {MOST_ARMS}", fix=fix)
    return labels, names


def _require_two(name: str, customers: int) -> None:
    if customers < 2:
        raise InputError(
            f"arm {name}",
            found=counted(customers, "customer"),
            expected="at least two",
            fix="Leave out the arm's row, or bring more of its customers: one shows no spread.",
        )


def _read_before(before: ArrayLike | None, *, rows: int, unknown: bool) -> Matrix | None:
    """(n, p) figures known before the test.

    unknown: whether they may be missing. What is not known counts as 0 in its column, and has a column of its own that
    says so.
    """
    if before is None:
        return None
    figures = read_matrix(before, where="before", rows=rows)
    missing = np.isnan(figures)
    if not unknown and not (np.abs(figures) < _LARGEST).all():
        raise InputError("before", found="NaN or infinite figures", expected="finite figures, 0 for none")
    if not (np.abs(figures[~missing]) < _LARGEST).all():
        raise InputError("before", found="an infinite figure", expected="finite figures, or null where not known")
    flags = missing[:, missing.any(axis=0)].astype(np.float64)
    return np.column_stack([np.where(missing, 0.0, figures), flags]) if flags.size else figures


# ---- a campaign's arms -----------------------------------------------------------------------------------------------


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

    def take(self, rows: Flags) -> ArmOutcomes:
        columns = ((field.name, getattr(self, field.name)) for field in fields(self))
        taken: dict[str, Any] = {name: None if column is None else column[rows] for name, column in columns}
        return ArmOutcomes(**taken)

    def figure(self, metric: Metric, *, revenue_weight: float | None) -> Vector:
        """(n,) of a metric: R, C, R − C, w·R − C, or 1 for a purchase."""
        depth = np.nan_to_num(self.depth)
        if metric == "engagement":
            return self.purchased.astype(np.float64)
        if metric != "objective":
            formula = {"revenue": objective.revenue, "markdown": objective.markdown, "reward": objective.reward}[metric]
            return np.asarray(formula(self.full_price, depth), np.float64)
        if revenue_weight is None:
            raise InputError("objective", found="no revenue_weight", expected="the weight w of w·R − C")
        return self.full_price * objective.weights(depth, np.ones_like(depth), revenue_weight=revenue_weight)

    def counting(self, per: Per) -> Flags | None:
        """By whom the figure's sum is divided: everybody assigned (None), those with a code, those who bought."""
        return {"customer": None, "recipient": self.received, "purchaser": self.purchased}[per]

    def sample(self, metric: Metric, per: Per = "customer", *, revenue_weight: float | None) -> Sample:
        """The figures to compare; only those per customer can be adjusted by what was known before."""
        counting = self.counting(per)
        return Sample(
            figures=self.figure(metric, revenue_weight=revenue_weight),
            counts=None if counting is None else counting.astype(np.float64),
            before=self.before,
            is_rate=metric == "engagement" and counting is None,
        )

    def all_revenue(self) -> Sample:
        """What each customer paid, with and without a code."""
        if self.other_revenue is None:
            raise InputError(
                "other_revenue",
                found="none, but a holdout",
                expected="what every customer paid without a code in the campaign's time",
                fix="Without it a holdout would always seem to spend nothing.",
            )
        with_codes = self.figure("revenue", revenue_weight=None)
        return Sample(figures=with_codes + self.other_revenue, before=self.before)


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
    def of(cls, arm: ArmOutcomes) -> ArmSummary:
        return cls(
            customers=len(arm),
            recipients=int(arm.received.sum()),
            purchasers=int(arm.purchased.sum()),
            revenue=float(arm.figure("revenue", revenue_weight=None).sum()),
            markdown=float(arm.figure("markdown", revenue_weight=None).sum()),
        )


def _parts(found: set[str], *, decided: str | None, control: str, holdout: str) -> tuple[str, str | None, str | None]:
    """The names of the decided arm, of control and of the holdout among the arms found; one of the latter may be None.

    The decided arm may go unnamed where it is the only other one.
    """
    others = sorted(found - {control, holdout})
    if decided is None and len(others) == 1:
        decided = others[0]
    if decided in others and {control, holdout} & found:
        return decided, control if control in found else None, holdout if holdout in found else None
    compared = f"{decided!r}, and {control!r} or {holdout!r} to compare it with"
    raise InputError(
        "arm",
        found=", ".join(map(repr, sorted(found))),
        expected=f"one decided arm beside {control!r} and {holdout!r}" if decided is None else compared,
        fix="Name the arms, for example ab_test(…, decided='B', control='A').",
    )


def _read_customers(
    rows: int, depth: ArrayLike, full_price: ArrayLike, before: ArrayLike | None, other_revenue: ArrayLike | None
) -> ArmOutcomes:
    """Everybody assigned, whatever their arm: columns of one length."""
    depths = _figures(depth, rows, "depth", highest=1.0)
    prices = _figures(full_price, rows, "full_price")
    refuse_rows(
        np.isnan(depths) & (prices > 0),
        where="full_price, row {row}",
        found="a purchase with a code by a customer who got none",
        expected="null",
        fix="Put purchases without a code into other_revenue.",
    )
    known = _read_before(before, rows=rows, unknown=False)
    other = None if other_revenue is None else np.nan_to_num(_figures(other_revenue, rows, "other_revenue"))
    return ArmOutcomes(depth=depths, full_price=np.nan_to_num(prices), before=known, other_revenue=other)


def _figures(values: ArrayLike, rows: int, name: str, *, highest: float = _LARGEST_PRICE) -> Vector:
    column = read_column(values, where=name, rows=rows)
    bad = ~np.isnan(column) & ~((column >= 0) & (column < highest))
    expected = "a share in [0, 1), or null" if highest == 1 else "an amount of money, not negative, or null"
    refuse_rows(bad, where=f"{name}, row {{row}}", found=column, expected=expected)
    return column


# ---- a campaign ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One metric between two arms.

    Per customer counts everybody assigned, with or without a code; only this is protected by randomisation. Per
    recipient and per purchaser are ratios: who receives and who buys depends on the arm, so they describe rather than
    prove.
    """

    metric: Metric
    """revenue R, markdown C, reward R − C, objective w·R − C, or engagement (the share who bought)."""
    per: Per
    """customer, recipient or purchaser."""
    comparison: Comparison
    """As measured."""
    adjusted: Adjusted | None = None
    """By figures from before the campaign, per customer only; null without them."""
    to_date: Comparison | None = None
    """Valid at every look; null where no number of purchases was planned."""

    @property
    def decisive(self) -> Comparison:
        """Adjusted where possible: the same estimand, less noise."""
        return self.comparison if self.adjusted is None else self.adjusted.comparison

    def read(self, *, final: bool) -> Comparison:
        """What may be read: the decisive comparison at the end, and before it the one that is valid at every look."""
        return self.decisive if final or self.to_date is None else self.to_date


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AbTest(Tabular):
    """Everything an A/B test says. `summary()` puts it into words, `to_pandas()` into a table."""

    arms: Mapping[str, ArmSummary]  # by name, the decided arm first
    sample_ratio: SampleRatio | None  # None where no shares were planned; then nothing was checked
    findings: tuple[Finding, ...]  # decided against control; empty without a control arm
    undifferentiated: Mapping[float, tuple[Finding, ...]]
    """By depth: decided against the control customers who got that depth, a random part of control. It shows what the
    same code for everybody would do. Intervals and p-values of a metric are adjusted for the number of depths alike
    (Bonferroni): all intervals hold together at the level, and one excludes 0 exactly when its p-value is below
    1 − level."""
    incremental: Mapping[str, Comparison]  # each arm against the holdout: revenue per customer, with and without codes
    incremental_adjusted: Mapping[str, Adjusted]
    """`incremental`, adjusted by figures from before the campaign; empty without them."""
    deciding: Finding
    """On which the verdict rests: the primary metric against control, or all revenue against the holdout."""
    verdict: Verdict
    reason: str
    level: float
    final: bool

    @property
    def primary(self) -> Metric:
        """The metric on which the verdict rests."""
        return self.deciding.metric

    def incremental_of(self, arm: str) -> Comparison:
        """An arm against the holdout: adjusted where possible, which is the same estimand with less noise."""
        sharper = self.incremental_adjusted.get(arm)
        return self.incremental[arm] if sharper is None else sharper.comparison

    def finding(self, metric: Metric, per: Per = "customer") -> Finding:
        """The finding on a metric; InputError where it was not measured."""
        for finding in self.findings:
            if (finding.metric, finding.per) == (metric, per):
                return finding
        raise InputError("finding", found=f"{metric} per {per}", expected="a metric of this test")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {arm.customers:,}" for name, arm in self.arms.items())
        return f"AbTest({self.verdict}; customers: {sizes})"

    def summary(self) -> str:
        """The verdict, the arms and the findings per customer, as a few lines of text.

        Before the end, intervals against control are valid at every look; those against the holdout are for one look.
        """
        lines = [f"{self.verdict.capitalize()}. {self.reason}"]
        for name, arm in self.arms.items():
            lines.append(
                f"{name}: {arm.customers:,} customers, {arm.recipients:,} codes, {arm.purchasers:,} purchasers, "
                f"revenue {arm.revenue:,.2f}, markdown {arm.markdown:,.2f}"
            )
        lines += [
            f"{finding.metric} per customer: {_in_words(finding.read(final=self.final))}"
            for finding in self.findings
            if finding.per == "customer"
        ]
        looks = "" if self.final else "; this interval is for one look, at the end"
        lines += [
            f"all revenue, {name} against the holdout, per customer: {_in_words(self.incremental_of(name))}{looks}"
            for name in self.incremental
        ]
        return "\n".join(lines)

    def to_arrow(self) -> pa.Table:
        """One row per finding: decided against control; `relative` and its ends are null where control is not positive.

        The comparison is the one that may be read: at the end the decisive one, before it the one that is valid at
        every look. Both are adjusted by figures from before the campaign where there are any.
        """
        import pyarrow as pa

        rows = []
        for finding in self.findings:
            used = finding.read(final=self.final)
            row: list[object] = [finding.metric, finding.per, used.decided, used.control]
            for estimate in (used.difference, used.relative):
                row += [None] * 3 if estimate is None else [estimate.value, estimate.lower, estimate.upper]
            rows.append([*row, used.p_value, finding.adjusted is not None])
        words = [(name, pa.string()) for name in ("metric", "per")]
        ends = [f"{name}{end}" for name in ("difference", "relative") for end in ("", "_lower", "_upper")]
        numbers = [(name, pa.float64()) for name in ("decided", "control", *ends, "p_value")]
        schema = pa.schema([*words, *numbers, ("adjusted", pa.bool_())])
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def ab_test(
    arm: ArrayLike | Frame,
    depth: ArrayLike | None = None,
    full_price: ArrayLike | None = None,
    *,
    revenue_weight: float | None = None,
    before: ArrayLike | Sequence[str] | str | None = None,
    other_revenue: ArrayLike | None = None,
    shares: Mapping[str, float] | None = None,
    decided: str | None = None,
    control: str = "control",
    holdout: str = "holdout",
    final: bool = True,
    planned_purchasers: int | None = None,
    level: float = 0.95,
) -> AbTest:
    """Read out an A/B test: one row per customer assigned, whether or not they got a code or bought.

    arm (n,): the name of each customer's arm; or a table with the columns arm, depth and full_price, and other_revenue
        where there is one. `before` then names columns of it.
    depth (n,): of the customer's code, a share in [0, 1); NaN = no code.
    full_price (n,): bought with the code, money before the discount; NaN = nothing.
    revenue_weight: the weight w of w·R − C, then the primary metric. Without it that is revenue.
    before (n,) or (n, p): figures known before the campaign, such as spend of the year before (CUPED).
    other_revenue (n,): what the customer paid without the code in the campaign's time, money; a holdout needs it.
    shares: planned share of each arm, for the sample-ratio check.
    decided, control, holdout: names of the arms in the data. The decided arm may go unnamed where it is the only other
        one. Without a control arm the decided arm is compared with the holdout alone. Further arms are summed up, and
        counted in the sample ratio, but not compared.
    final: whether the planned end has come. If not, the verdict uses the always-valid interval, which needs
        `planned_purchasers`, the purchases expected in the compared arms together by the end.
    level: of all intervals.

    >>> result = ab_test(["decided"] * 3 + ["control"] * 3, [0.1] * 6, [50, 70, np.nan, 40, np.nan, np.nan])
    >>> result.verdict.value, round(result.finding("revenue").comparison.difference.value, 2)
    ('undecided', 24.0)
    """
    if isinstance(arm, Mapping) or column_labels(arm) is not None:
        if depth is not None or full_price is not None or other_revenue is not None:
            beside = "depth, full_price or other_revenue beside a table"
            raise InputError("ab_test", found=beside, expected="the table alone, with its columns")
        arm, depth, full_price, other_revenue, before = _columns_of(arm, before)
    if depth is None or full_price is None:
        expected = "depth and full_price, or a table with the columns arm, depth and full_price"
        raise InputError("ab_test", found=f"{kind_of(arm)} alone", expected=expected)
    if not isinstance(final, bool | np.bool_):
        raise InputError("final", found=repr(final), expected="True when the planned end has come, else False")
    if revenue_weight is not None:
        objective.read_revenue_weight(revenue_weight)
    read_level(level)
    labels, found = _read_names(arm)
    if not labels.size:
        raise InputError("arm", found="no rows", expected="one label per customer")
    parts = _parts(found, decided=decided, control=control, holdout=holdout)
    everybody = _read_customers(labels.size, depth, full_price, before, other_revenue)
    played = [name for name in parts if name is not None]
    arms = {name: everybody.take(labels == name) for name in (*played, *sorted(found - set(played)))}
    if parts[2] is not None and arms[parts[2]].received.any():
        raise InputError("holdout", found="customers with a code", expected="no codes in the holdout")
    for name in played:
        _require_two(name, len(arms[name]))
    sample = partial(ArmOutcomes.sample, revenue_weight=revenue_weight)
    ours, theirs, held_out = (None if name is None else arms[name] for name in parts)
    assert ours is not None  # for the type checker: the decided arm is always there
    purchasers = int(ours.purchased.sum()) + (0 if theirs is None else int(theirs.purchased.sum()))
    running = _look_to_date(purchasers, planned_purchasers, final=final)
    weighted: tuple[Metric, ...] = () if revenue_weight is None else ("objective",)
    metrics: tuple[Metric, ...] = ("revenue", "reward", *weighted, "engagement")
    findings: tuple[Finding, ...] = ()
    undifferentiated: dict[float, tuple[Finding, ...]] = {}
    if theirs is not None:
        findings = tuple(
            compare_arms(
                sample(ours, metric, per), sample(theirs, metric, per), metric, per, to_date=running, level=level
            )
            for metric, per in product(metrics, get_args(Per))
            if _measurable(ours, theirs, metric, per)
        )
        groups = {
            float(value): group
            for value in np.unique(theirs.depth[theirs.received])
            if len(group := theirs.take(theirs.depth == value)) > 1
        }
        # Holm's p-values would be smaller, but the intervals that go with them end at 0 where they exclude it
        one_of_several = Look(several=max(len(groups), 1))
        undifferentiated = {
            value: tuple(
                compare_arms(sample(ours, metric), sample(group, metric), metric, look=one_of_several, level=level)
                for metric in (*metrics, "markdown")
            )
            for value, group in groups.items()
        }
    against_holdout: dict[str, Finding] = {}
    if held_out is not None:
        to_compare, to_date = held_out.all_revenue(), None if findings else running
        against_holdout = {
            name: compare_arms(arms[name].all_revenue(), to_compare, "revenue", to_date=to_date, level=level)
            for name in parts[:2]
            if name is not None
        }
    primary: Metric = "revenue" if revenue_weight is None else "objective"
    per_customer = {finding.metric: finding for finding in findings if finding.per == "customer"}
    deciding = per_customer[primary] if findings else against_holdout[parts[0]]
    ratio = None if shares is None else sample_ratio({name: len(rows) for name, rows in arms.items()}, shares)
    used = deciding.read(final=final)
    outside = not used.difference.covers(0)
    verdict = _verdict(used.difference, ratio, shown=outside, words=(Verdict.BETTER, Verdict.WORSE))
    return AbTest(
        arms={name: ArmSummary.of(rows) for name, rows in arms.items()},
        sample_ratio=ratio,
        findings=findings,
        undifferentiated=undifferentiated,
        incremental={name: finding.comparison for name, finding in against_holdout.items()},
        incremental_adjusted={
            name: finding.adjusted for name, finding in against_holdout.items() if finding.adjusted is not None
        },
        deciding=deciding,
        verdict=verdict,
        reason=_reason(deciding, ratio, final=final, level=level),
        level=level,
        final=final,
    )


def _columns_of(frame: Any, before: Any) -> tuple[Any, Any, Any, Any, Any]:
    """arm, depth, full_price, other_revenue (None: no such column) and `before` of a table."""
    table = as_arrow(frame, where="ab_test")
    names = [before] if isinstance(before, str) else before
    named = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if absent := [name for name in (*_COLUMNS, *(names if named else ())) if name not in table.column_names]:
        fix = "Rename the columns, or use `disco.ab(frame, arm=…, metrics=…)`, which takes any names and figures."
        found = f"no column {', '.join(absent)} among {', '.join(map(str, table.column_names))}"
        raise InputError("ab_test", found=found[:200], expected="the columns arm, depth and full_price", fix=fix)
    arm, depth, full_price = (table[name].to_numpy() for name in _COLUMNS)
    other = table["other_revenue"].to_numpy() if "other_revenue" in table.column_names else None
    known = np.column_stack([table[name].to_numpy() for name in names]) if named and names else before
    return arm, depth, full_price, other, known


def _look_to_date(purchasers: int, planned: int | None, *, final: bool) -> Look | None:
    """The look of today, where a number of purchases was planned; None: there is none before the end."""
    if planned is None:
        if final:
            return None
        raise InputError(
            "planned_purchasers",
            found="none, while the test still runs",
            expected="the purchases expected by the end: looks before it need a plan",
        )
    expected = "a number of purchases, at least 1"
    planned_purchases = read_number(planned, where="planned_purchasers", expected=expected, above=1 - 1e-9)
    return Look(information=max(purchasers, 1) / planned_purchases)


def _measurable(decided: ArmOutcomes, control: ArmOutcomes, metric: Metric, per: Per) -> bool:
    if metric == "engagement" and per == "purchaser":
        return False  # 1 by definition
    counting = (decided.counting(per), control.counting(per))
    return all(customers is None or bool(customers.any()) for customers in counting)


def compare_arms(
    decided: Sample,
    control: Sample,
    metric: Metric,
    per: Per = "customer",
    *,
    level: float,
    look: Look = AT_THE_END,
    to_date: Look | None = None,
) -> Finding:
    """One metric between two arms; adjusted by figures from before the campaign where both arms have them.

    decided, control: the figures of the metric. look: how often the comparison is read. to_date: the look of today, for
    a second comparison that is valid at every look; None: without one.
    """
    comparison, adjusted = compare_samples(decided, control, level=level, look=look)
    running = None
    if to_date is not None:
        plain, sharper = compare_samples(decided, control, level=level, look=to_date)
        running = plain if sharper is None else sharper.comparison
    return Finding(metric=metric, per=per, comparison=comparison, adjusted=adjusted, to_date=running)


def _reason(deciding: Finding, ratio: SampleRatio | None, *, final: bool, level: float) -> str:
    if ratio is not None and not ratio.ok:
        counts = ", ".join(f"{name} {ratio.found[name]:,} for {ratio.expected[name]:,.0f}" for name in ratio.found)
        return (
            f"The arms do not have their planned shares ({counts}; p = {ratio.p_value:.1g}). Customers were lost or "
            f"assigned wrongly, so no figure can be trusted until that is found."
        )
    used = deciding.read(final=final)
    name = f"{deciding.metric.capitalize()} per customer" + ("" if final else " to date")
    verb = "includes" if used.difference.covers(0) else "excludes"
    return f"{name}: the {level:.0%} interval of the difference {verb} 0 (p = {used.p_value:.2g})."


def _in_words(used: Comparison) -> str:
    share = f", {used.relative.value:+.1%}" if used.relative and used.relative.bounded else ""
    return (
        f"{used.decided:,.3f} against {used.control:,.3f}{share}; difference {used.difference.value:+,.3f} "
        f"({interval_in_words(used.difference)}, p = {used.p_value:.2g})"
    )


# ---- any table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricColumns:
    """One figure per customer, or a ratio of two: Σ numerator / Σ denominator."""

    name: str
    numerator: Vector  # (n,)
    denominator: Vector | None = None  # (n,); None: every customer counts once

    @property
    def kind(self) -> Kind:
        """rate: a column of 0 and 1."""
        if self.denominator is not None:
            return "ratio"
        return "rate" if np.isin(self.numerator, (0.0, 1.0)).all() else "mean"

    def check(self, *, rows: int) -> None:
        """Refuse columns of other lengths, figures that are no numbers, and negative denominators."""
        where = f"{self.name}, row {{row}}"
        for column in (self.numerator, self.denominator):
            if column is not None:
                read_column(column, where=self.name, rows=rows)
                beyond = ~(np.abs(column) < _LARGEST)
                refuse_rows(beyond, where=where, found=column, expected="a finite number", fix="Write 0 for nothing.")
        if self.denominator is not None:
            negative = self.denominator < 0
            refuse_rows(negative, where=where, found=self.denominator, expected="a denominator of 0 or more")

    def sample(self, rows: NDArray[np.intp], before: Matrix | None) -> Sample | None:
        """The figures of some customers, (n,), whose mean is the metric; None: nothing counts, Σx is 0.

        Of a ratio r = Σy/Σx they are its linear terms r + (y − r·x)/x̄, which can be adjusted as any figure can.
        """
        figures: Vector = self.numerator[rows]
        if self.denominator is not None:
            counts = self.denominator[rows]
            total = float(counts.sum())
            if total == 0:
                return None
            ratio = float(figures.sum()) / total
            figures = np.asarray(ratio + (figures - ratio * counts) * (rows.size / total), np.float64)
        return Sample(figures, before=None if before is None else before[rows], is_rate=self.kind == "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmDifference:
    """One metric of one arm against control."""

    arm: str
    """The arm compared."""
    metric: str
    """The column, or `numerator/denominator`."""
    kind: Kind
    """mean, rate (a column of 0 and 1) or ratio (of two sums)."""
    value: float | None
    """The arm's figure as measured; null where a ratio divides by 0."""
    control: float | None
    """Control's figure as measured; null likewise."""
    difference: Estimate
    """The arm's figure less control's; adjusted by figures from before the test where there are any."""
    relative: Estimate | None
    """The difference as a share of control's figure; null where that is not positive or rests on few customers. The
    interval has no limits where control is not clearly above 0; else it excludes 0 exactly when the difference's does.
    """
    p_value: float
    """Of no difference, adjusted for the number of looks."""
    holm: float
    """The p-value adjusted for the number of comparisons as well (Holm). The verdict rests on it."""
    variance_reduction: float | None
    """Share of the variance that figures from before the test took away; null without an adjustment."""
    detectable: float | None
    """The difference that would be shown with a probability of 80% in a test of this size, with as many looks and
    comparisons; null: not known."""
    verdict: Verdict
    """higher, lower, undecided or blocked."""
    sentence: str = ""  # whoever makes a result of it says it
    """The verdict in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What a test of several arms says."""

    control: str
    """The arm that the others are compared with."""
    customers: Mapping[str, int]
    """By arm, control first."""
    sample_ratio: SampleRatio
    """Customers per arm against the planned shares; equal shares where none were stated."""
    differences: tuple[ArmDifference, ...]
    """By metric, then by arm."""
    level: float
    """Of the intervals, each of which holds at every one of the looks."""
    looks: int
    """How many times the test is looked at in all."""


def experiment(
    arm: ArrayLike,
    metrics: Sequence[MetricColumns],
    *,
    control: str = "control",
    before: ArrayLike | None = None,
    shares: Mapping[str, float] | None = None,
    looks: int = 1,
    level: float = 0.95,
) -> Experiment:
    """Compare every arm with control on every metric; one row per customer assigned.

    arm (n,): the name of each customer's arm. metrics: figures of the same customers.
    before (n,) or (n, p): known before the test (CUPED); NaN: not known, which is a figure of its own.
    shares: planned share of each arm; None: equal ones.
    looks: how many times the test is looked at in all. Each look then has the level L^(1/looks): by Šidák's inequality
        all of them hold together with probability L or more, however the looks are spaced.

    Means and ratios are compared by Welch's test, a ratio through its linear terms. A rate with fewer than ten
    successes or failures in an arm has one of each added to both arms first (Agresti and Caffo 2000), so that no
    interval shrinks to a point.

    >>> bought = MetricColumns(name="bought", numerator=np.repeat([1.0, 0.0, 1.0, 0.0], [300, 700, 200, 800]))
    >>> change = experiment(["new"] * 1000 + ["control"] * 1000, [bought]).differences[0]
    >>> change.verdict.value, round(change.difference.value, 3), round(change.difference.lower, 3)
    ('higher', 0.1, 0.062)
    """
    labels, names = _read_names(arm)
    look, level = Look(looks=read_count(looks, where="looks")), read_level(level)
    arms = _rows_by_arm(labels, names, control)
    known = _read_before(before, rows=labels.size, unknown=True)
    for metric in metrics:
        metric.check(rows=labels.size)
    customers = {name: int(rows.size) for name, rows in arms.items()}
    ratio = sample_ratio(customers, shares or dict.fromkeys(arms, 1.0))
    alone: list[ArmDifference] = []
    for metric in metrics:
        samples = {name: metric.sample(rows, known) for name, rows in arms.items()}
        unit = samples.pop(control)
        alone += [_difference(name, metric, own, unit, look, level=level) for name, own in samples.items()]
    together = holm({place: found.p_value for place, found in enumerate(alone)})
    # Holm's method asks this of the smallest p-value, and less of the others
    single = look.alone(level)
    stricter = quantile(1 - (1 - single) / max(len(alone), 1)) / quantile(single)
    return Experiment(
        control=control,
        customers=customers,
        sample_ratio=ratio,
        differences=tuple(
            _judged(found, ratio, holm=together[place], stricter=stricter) for place, found in enumerate(alone)
        ),
        level=level,
        looks=look.looks,
    )


def _rows_by_arm(labels: NDArray[np.str_], found: set[str], control: str) -> dict[str, NDArray[np.intp]]:
    """Rows by arm, control first."""
    names = sorted(found)
    if control not in names or len(names) < 2:
        listed = ", ".join(map(repr, names[:12])) + ("…" if len(names) > 12 else "")
        fix = None if control in names else "Name the arm to compare with as control."
        raise InputError("arm", found=listed or "no rows", expected=f"{control!r} and at least one other arm", fix=fix)
    arms = {name: np.flatnonzero(labels == name) for name in (control, *(name for name in names if name != control))}
    for name, rows in arms.items():
        _require_two(name, rows.size)
    return arms


def _difference(
    arm: str, metric: MetricColumns, sample: Sample | None, control: Sample | None, look: Look, *, level: float
) -> ArmDifference:
    """One metric of one arm against control, by itself: nothing is said before all comparisons are adjusted for."""
    values = [None if part is None else float(part.figures.mean()) for part in (sample, control)]
    used, reduction = compare_unvaried(0.0, 0.0, level=level), None  # where a ratio divides by 0
    if sample is not None and control is not None:
        used, adjusted = compare_samples(sample, control, level=level, look=look)
        if adjusted is not None:
            used, reduction = adjusted.comparison, adjusted.variance_reduction
    return ArmDifference(
        arm=arm,
        metric=metric.name,
        kind=metric.kind,
        value=values[0],
        control=values[1],
        difference=used.difference,
        relative=used.relative,
        p_value=used.p_value,
        holm=used.p_value,
        variance_reduction=reduction,
        detectable=None,
        verdict=Verdict.UNDECIDED,
    )


def _judged(found: ArmDifference, ratio: SampleRatio, *, holm: float, stricter: float) -> ArmDifference:
    """With a verdict. holm: the p-value adjusted for all comparisons. stricter: how much wider such intervals are."""
    level, error, ends = found.difference.level, found.difference.standard_error, found.difference.ends
    assert level is not None  # for the type checker: every comparison has one
    detectable = None
    if error and math.isfinite(error) and ends is not None:
        reach = (ends[1] - ends[0]) / 2 * stricter  # with the quantile of the test, Student's or the normal one
        detectable = reach + float(ndtri(POWER)) * error
    verdict = _verdict(found.difference, ratio, shown=holm < 1 - level, words=(Verdict.HIGHER, Verdict.LOWER))
    return replace(found, holm=holm, detectable=detectable, verdict=verdict)
