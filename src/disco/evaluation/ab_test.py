"""`ab_test`: the read-out of a campaign with a decided arm and a control arm, a holdout without codes, or both."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike

from disco.evaluation.arms import ArmOutcomes, ArmSummary, Metric, Per, SampleRatio, read_arms, sample_ratio
from disco.evaluation.estimates import (
    Adjusted,
    Comparison,
    Mean,
    compare,
    compare_adjusted,
    compare_few,
    compare_unvaried,
)
from disco.objective import read_revenue_weight
from disco.records.arguments import read_level, read_number
from disco.records.arrays import Vector
from disco.records.errors import InputError
from disco.records.frames import data_frame

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Verdict(StrEnum):
    """What may be said about the primary metric."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"
    BLOCKED = "blocked"  # the assignment is broken, so no figure can be trusted


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
class AbTest:
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
        for found in self.findings:
            if (found.metric, found.per) == (metric, per):
                return found
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
            f"{found.metric} per customer: {_in_words(found.read(final=self.final))}"
            for found in self.findings
            if found.per == "customer"
        ]
        looks = "" if self.final else "; this interval is for one look, at the end"
        lines += [
            f"all revenue, {name} against the holdout, per customer: {_in_words(self.incremental_of(name))}{looks}"
            for name in self.incremental
        ]
        return "\n".join(lines)

    def to_arrow(self) -> "pa.Table":
        """One row per finding: decided against control; `relative` and its ends are null where control is not positive.

        The comparison is the one that may be read: at the end the decisive one, before it the one that is valid at
        every look. Both are adjusted by figures from before the campaign where there are any.
        """
        import pyarrow as pa

        rows = []
        for found in self.findings:
            used = found.read(final=self.final)
            row: dict[str, object] = {
                "metric": found.metric,
                "per": found.per,
                "decided": used.decided,
                "control": used.control,
            }
            for name, estimate in (("difference", used.difference), ("relative", used.relative)):
                ends = (None, None, None) if estimate is None else (estimate.value, estimate.lower, estimate.upper)
                row |= dict(zip((name, f"{name}_lower", f"{name}_upper"), ends, strict=True))
            rows.append(row | {"p_value": used.p_value, "adjusted": found.adjusted is not None})
        return pa.Table.from_pylist(rows, schema=_columns())

    def to_pandas(self) -> "pd.DataFrame":
        """`to_arrow` as a data frame."""
        return data_frame(self.to_arrow())


def ab_test(
    arm: ArrayLike,
    depth: ArrayLike,
    full_price: ArrayLike,
    *,
    revenue_weight: float | None = None,
    before: ArrayLike | None = None,
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

    arm (n,): the name of each customer's arm.
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
    if not isinstance(final, bool | np.bool_):
        raise InputError("final", found=repr(final), expected="True when the planned end has come, else False")
    if revenue_weight is not None:
        read_revenue_weight(revenue_weight)
    read_level(level)
    names, arms = read_arms(
        arm,
        depth,
        full_price,
        before=before,
        other_revenue=other_revenue,
        decided=decided,
        control=control,
        holdout=holdout,
    )
    ours, theirs = arms[names.decided], None if names.control is None else arms[names.control]
    purchasers = int(ours.purchased.sum()) + (0 if theirs is None else int(theirs.purchased.sum()))
    information = _information(purchasers, planned_purchasers, final=final)
    weighted: tuple[Metric, ...] = () if revenue_weight is None else ("objective",)
    metrics: tuple[Metric, ...] = ("revenue", "reward", *weighted, "engagement")
    findings: tuple[Finding, ...] = ()
    undifferentiated: dict[float, tuple[Finding, ...]] = {}
    if theirs is not None:
        findings = tuple(
            compare_arms(ours, theirs, metric, per, weight=revenue_weight, information=information, level=level)
            for metric, per in product(metrics, get_args(Per))
            if _measurable(ours, theirs, metric, per)
        )
        groups = {
            float(value): group
            for value in np.unique(theirs.depth[theirs.received])
            if len(group := theirs.take(theirs.depth == value)) > 1
        }
        undifferentiated = {
            value: tuple(
                _one_of_several(ours, group, metric, weight=revenue_weight, several=len(groups), level=level)
                for metric in (*metrics, "markdown")
            )
            for value, group in groups.items()
        }
    compared = {name: rows for name, rows in arms.items() if name in (names.decided, names.control)}
    incremental, incremental_adjusted = (
        ({}, {}) if names.holdout is None else _incremental(compared, arms[names.holdout], level=level)
    )
    primary: Metric = "objective" if revenue_weight is not None and findings else "revenue"
    if findings:
        found = next(entry for entry in findings if (entry.metric, entry.per) == (primary, "customer"))
    else:
        alone, sharper, running = incremental[names.decided], incremental_adjusted.get(names.decided), None
        if information is not None:
            assert names.holdout is not None  # for the type checker: without control there is a holdout
            only = {names.decided: ours}
            plain, adjusted = _incremental(only, arms[names.holdout], level=level, information=information)
            running = adjusted[names.decided].comparison if adjusted else plain[names.decided]
        found = Finding(metric="revenue", per="customer", comparison=alone, adjusted=sharper, to_date=running)
    ratio = None if shares is None else sample_ratio({name: len(rows) for name, rows in arms.items()}, shares)
    verdict, reason = _verdict(found, ratio, final=final, level=level)
    return AbTest(
        arms={name: ArmSummary.of(rows) for name, rows in arms.items()},
        sample_ratio=ratio,
        findings=findings,
        undifferentiated=undifferentiated,
        incremental=incremental,
        incremental_adjusted=incremental_adjusted,
        deciding=found,
        verdict=verdict,
        reason=reason,
        level=level,
        final=final,
    )


def _information(purchasers: int, planned: int | None, *, final: bool) -> float | None:
    if planned is None:
        if final:
            return None
        raise InputError(
            "planned_purchasers",
            found="none, while the test still runs",
            expected="the purchases expected by the end: looks before it need a plan",
        )
    expected = "a number of purchases, at least 1"
    return max(purchasers, 1) / read_number(planned, where="planned_purchasers", expected=expected, above=1 - 1e-9)


def _measurable(decided: ArmOutcomes, control: ArmOutcomes, metric: Metric, per: Per) -> bool:
    if per == "customer":
        return True
    if metric == "engagement" and per == "purchaser":
        return False  # 1 by definition
    return all(bool((arm.received if per == "recipient" else arm.purchased).any()) for arm in (decided, control))


def compare_arms(
    decided: ArmOutcomes,
    control: ArmOutcomes,
    metric: Metric,
    per: Per,
    *,
    weight: float | None,
    information: float | None,
    level: float,
) -> Finding:
    """One metric between two arms; adjusted by figures from before the campaign where both arms have them.

    weight: the weight w of w·R − C, for the objective. information: the share of the planned purchases seen, for an
    interval that is valid at every look; None: without one.
    """
    figures = [arm.figure(metric, revenue_weight=weight) for arm in (decided, control)]
    first, second = (Mean.of(figure, arm.divisor(per)) for figure, arm in zip(figures, (decided, control), strict=True))

    def compared(seen: float | None) -> tuple[Comparison, Adjusted | None]:
        # few purchasers, or none: the normal law does not hold, and no purchase does not prove that there never is one
        few = None
        if metric == "engagement" and per == "customer":
            few = compare_few(figures[0], figures[1], level=level, information=seen)
        if few is None and first.variance + second.variance == 0:
            few = compare_unvaried(first.value, second.value, level=level)
        plain = few or compare(first, second, level=level, information=seen)
        if few is not None or per != "customer" or decided.before is None or control.before is None:
            return plain, None
        before = (decided.before, control.before)
        return plain, compare_adjusted(figures[0], figures[1], before=before, level=level, information=seen)

    found, adjusted = compared(None)
    running = None
    if information is not None:
        plain, sharper = compared(information)
        running = plain if sharper is None else sharper.comparison
    return Finding(metric=metric, per=per, comparison=found, adjusted=adjusted, to_date=running)


def _one_of_several(
    decided: ArmOutcomes, group: ArmOutcomes, metric: Metric, *, weight: float | None, several: int, level: float
) -> Finding:
    """One of several comparisons per customer that are read together, by Bonferroni's inequality.

    The interval has the level 1 − (1 − level)/several, so that all hold together at `level`, and the p-value is
    multiplied by `several`. Holm's p-values would be smaller, but the intervals that go with them end at 0 where they
    exclude it, and say nothing about the size.
    """
    alone = 1 - (1 - level) / several
    found = compare_arms(decided, group, metric, "customer", weight=weight, information=None, level=alone)

    def together(one: Comparison) -> Comparison:
        return replace(
            one,
            difference=replace(one.difference, level=level),
            relative=None if one.relative is None else replace(one.relative, level=level),
            p_value=min(1.0, several * one.p_value),
        )

    sharper = found.adjusted
    return replace(
        found,
        comparison=together(found.comparison),
        adjusted=None if sharper is None else replace(sharper, comparison=together(sharper.comparison)),
    )


def _verdict(found: Finding, ratio: SampleRatio | None, *, final: bool, level: float) -> tuple[Verdict, str]:
    if ratio is not None and not ratio.ok:
        counts = ", ".join(f"{name} {ratio.found[name]:,} for {ratio.expected[name]:,.0f}" for name in ratio.found)
        return Verdict.BLOCKED, (
            f"The arms do not have their planned shares ({counts}; p = {ratio.p_value:.1g}). Customers were lost or "
            f"assigned wrongly, so no figure can be trusted until that is found."
        )
    used = found.read(final=final)
    name = f"{found.metric.capitalize()} per customer" + ("" if final else " to date")
    if not used.difference.covers(0):
        side = Verdict.BETTER if used.difference.value > 0 else Verdict.WORSE
        return side, f"{name}: the {level:.0%} interval of the difference excludes 0 (p = {used.p_value:.2g})."
    return Verdict.UNDECIDED, f"{name}: the {level:.0%} interval of the difference includes 0 (p = {used.p_value:.2g})."


def _incremental(
    arms: Mapping[str, ArmOutcomes], holdout: ArmOutcomes, *, level: float, information: float | None = None
) -> tuple[dict[str, Comparison], dict[str, Adjusted]]:
    """Revenue per customer with and without codes, against customers who got none; as measured, and adjusted.

    information: as in `compare`.
    """

    def total(rows: ArmOutcomes) -> Vector:
        if rows.other_revenue is None:
            raise InputError(
                "other_revenue",
                found="none, but a holdout",
                expected="what every customer paid without a code in the campaign's time",
                fix="Without it a holdout would always seem to spend nothing.",
            )
        return rows.figure("revenue", revenue_weight=None) + rows.other_revenue

    without_codes = total(holdout)
    totals = {name: total(rows) for name, rows in arms.items()}
    plain = {
        name: _total(Mean.of(paid), Mean.of(without_codes), level=level, information=information)
        for name, paid in totals.items()
    }
    adjusted = {
        name: compare_adjusted(
            paid, without_codes, before=(rows.before, holdout.before), level=level, information=information
        )
        for (name, paid), rows in zip(totals.items(), arms.values(), strict=True)
        if rows.before is not None
        and holdout.before is not None
        and (plain[name].difference.standard_error or 0.0) < np.inf
    }
    return plain, adjusted


def _total(decided: Mean, holdout: Mean, *, level: float, information: float | None) -> Comparison:
    if decided.variance + holdout.variance == 0:  # nobody bought anything
        return compare_unvaried(decided.value, holdout.value, level=level)
    return compare(decided, holdout, level=level, information=information)


def _in_words(found: Comparison) -> str:
    share = f", {found.relative.value:+.1%}" if found.relative and found.relative.bounded else ""
    lower, upper = found.difference.ends or (-np.inf, np.inf)
    return (
        f"{found.decided:,.3f} against {found.control:,.3f}{share}; difference {found.difference.value:+,.3f} "
        f"({found.difference.level:.0%} interval {lower:+,.3f} to {upper:+,.3f}, p = {found.p_value:.2g})"
    )


def _columns() -> "pa.Schema":
    import pyarrow as pa

    words = [(name, pa.string()) for name in ("metric", "per")]
    numbers = ("decided", "control", "difference", "difference_lower", "difference_upper")
    more = ("relative", "relative_lower", "relative_upper", "p_value")
    return pa.schema([*words, *((name, pa.float64()) for name in (*numbers, *more)), ("adjusted", pa.bool_())])
