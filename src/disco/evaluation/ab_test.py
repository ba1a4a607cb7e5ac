"""`ab_test`: the read-out of a campaign with a test and a control arm, and perhaps a holdout without codes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import get_args

import numpy as np

from disco.evaluation.arms import ArmOutcomes, ArmSummary, Metric, Per, SampleRatio, read_arms, sample_ratio
from disco.evaluation.comparison import Adjusted, Comparison, Mean, compare, compare_adjusted
from disco.evaluation.figures import read_level, read_number, read_weight
from disco.evaluation.sequential import to_date
from disco.records.decisions import Arm
from disco.records.errors import InputError


class Verdict(StrEnum):
    """What may be said about the primary metric."""

    BETTER = "better"
    WORSE = "worse"
    UNDECIDED = "undecided"
    BLOCKED = "blocked"  # the assignment is broken, so no figure can be trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One metric between two arms.

    per customer: everybody assigned, with or without a code; the only one that randomisation protects · per recipient,
    per purchaser: ratios; who receives and who buys depends on the arm, so they describe rather than prove.
    adjusted: by pre-period figures, per customer only · to_date: always-valid, where a plan was given.
    """

    metric: Metric
    per: Per
    comparison: Comparison
    adjusted: Adjusted | None = None
    to_date: Comparison | None = None

    @property
    def decisive(self) -> Comparison:
        """Adjusted where possible: the same estimand, less noise."""
        return self.comparison if self.adjusted is None else self.adjusted.comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class AbTest:
    """Everything an A/B test says.

    findings: test against control · undifferentiated: per depth, test against the control customers who got that
    depth, a random part of control: what "everybody gets this code" would do · holm: its p-values of the primary
    metric, adjusted for the number of depths · incremental: test and control against the holdout, revenue with and
    without codes · sample_ratio is None where no shares were planned; then nothing was checked.
    """

    arms: Mapping[Arm, ArmSummary]
    sample_ratio: SampleRatio | None
    findings: tuple[Finding, ...]
    undifferentiated: Mapping[float, tuple[Finding, ...]]
    holm: Mapping[float, float]
    incremental: Mapping[Arm, Comparison]
    primary: Metric
    verdict: Verdict
    reason: str
    level: float
    final: bool

    def finding(self, metric: Metric, per: Per = "customer") -> Finding:
        """The finding on a metric; InputError where it was not measured."""
        for found in self.findings:
            if (found.metric, found.per) == (metric, per):
                return found
        raise InputError("finding", found=f"{metric} per {per}", expected="a metric of this test")


def ab_test(
    arm: object,
    depth: object,
    full_price: object,
    *,
    revenue_weight: float | None = None,
    before: object = None,
    other_revenue: object = None,
    shares: Mapping[str, float] | None = None,
    final: bool = True,
    planned_purchasers: int | None = None,
    level: float = 0.95,
) -> AbTest:
    """Read out an A/B test: one row per customer assigned, whether or not it got a code or bought.

    arm (n,): "test", "control", "holdout" · depth (n,): NaN = no code · full_price (n,): bought with the code, NaN =
    nothing · before (n,) or (n, p): figures known before the campaign, such as spend of the year before (CUPED) ·
    other_revenue (n,): what the customer paid without the code meanwhile; needed for a holdout · shares: planned share
    of each arm, for the sample-ratio check · final: the planned end has come. If not, the verdict uses the always-valid
    interval, which needs `planned_purchasers`, the purchases expected in test and control together by the end.

    The primary metric is the objective w·R − C per customer, or revenue without a `revenue_weight`.

    >>> result = ab_test(["test"] * 3 + ["control"] * 3, [0.1] * 6, [50, 70, np.nan, 40, np.nan, np.nan])
    >>> result.verdict.value, round(result.finding("revenue").comparison.difference.value, 2)
    ('undecided', 24.0)
    """
    if not isinstance(final, bool | np.bool_):
        raise InputError("final", found=repr(final), expected="True when the planned end has come, else False")
    if revenue_weight is not None:
        read_weight(revenue_weight)
    read_level(level)
    arms = read_arms(arm, depth, full_price, before=before, other_revenue=other_revenue)
    test, control = arms[Arm.TEST], arms[Arm.CONTROL]
    purchasers = int(test.purchased.sum() + control.purchased.sum())
    information = _information(purchasers, planned_purchasers, final=final)
    weighted: tuple[Metric, ...] = () if revenue_weight is None else ("objective",)
    metrics: tuple[Metric, ...] = ("revenue", "reward", *weighted, "engagement")
    findings = tuple(
        _finding(test, control, metric, per, weight=revenue_weight, information=information, level=level)
        for metric, per in product(metrics, get_args(Per))
        if _measurable(test, control, metric, per)
    )
    ratio = None
    if shares is not None:
        ratio = sample_ratio({name: len(rows) for name, rows in arms.items()}, shares)
    primary: Metric = "objective" if revenue_weight is not None else "revenue"
    undifferentiated = {
        float(value): tuple(
            _finding(test, group, metric, "customer", weight=revenue_weight, information=None, level=level)
            for metric in metrics
        )
        for value in np.unique(control.depth[control.received])
        if len(group := control.take(control.depth == value)) > 1
    }
    found = next(entry for entry in findings if (entry.metric, entry.per) == (primary, "customer"))
    verdict, reason = _verdict(found, ratio, final=final, level=level)
    return AbTest(
        arms={name: ArmSummary.of(rows) for name, rows in arms.items()},
        sample_ratio=ratio,
        findings=findings,
        undifferentiated=undifferentiated,
        holm=_holm(
            {
                value: next(entry.decisive.p_value for entry in entries if entry.metric == primary)
                for value, entries in undifferentiated.items()
            }
        ),
        incremental=_incremental(arms, level=level),
        primary=primary,
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


def _measurable(test: ArmOutcomes, control: ArmOutcomes, metric: Metric, per: Per) -> bool:
    if per == "customer":
        return True
    if metric == "engagement" and per == "purchaser":
        return False  # 1 by definition
    return all(bool((arm.received if per == "recipient" else arm.purchased).any()) for arm in (test, control))


def _finding(
    test: ArmOutcomes,
    control: ArmOutcomes,
    metric: Metric,
    per: Per,
    *,
    weight: float | None,
    information: float | None,
    level: float,
) -> Finding:
    figures = [arm.figure(metric, revenue_weight=weight) for arm in (test, control)]
    first, second = (Mean.of(figure, arm.divisor(per)) for figure, arm in zip(figures, (test, control), strict=True))
    found = compare(first, second, level=level)
    adjusted = None
    if per == "customer" and test.before is not None and control.before is not None:
        adjusted = compare_adjusted(figures[0], figures[1], before=(test.before, control.before), level=level)
    decisive = found if adjusted is None else adjusted.comparison
    running = None if information is None else to_date(decisive, information=information, level=level)
    return Finding(metric=metric, per=per, comparison=found, adjusted=adjusted, to_date=running)


def _verdict(found: Finding, ratio: SampleRatio | None, *, final: bool, level: float) -> tuple[Verdict, str]:
    if ratio is not None and not ratio.ok:
        counts = ", ".join(f"{name} {ratio.found[name]:,} for {ratio.expected[name]:,.0f}" for name in ratio.found)
        return Verdict.BLOCKED, (
            f"The arms do not have their planned shares ({counts}; p = {ratio.p_value:.1g}). Customers were lost or "
            f"assigned wrongly, so no figure can be trusted until that is found."
        )
    used = found.decisive if final or found.to_date is None else found.to_date
    difference = used.difference
    name = f"{found.metric} per customer" + ("" if final else " to date")
    if difference.lower > 0 or difference.upper < 0:
        side = Verdict.BETTER if difference.value > 0 else Verdict.WORSE
        return side, f"{name}: the {level:.0%} interval of the difference excludes 0 (p = {used.p_value:.2g})."
    return Verdict.UNDECIDED, f"{name}: the {level:.0%} interval of the difference includes 0 (p = {used.p_value:.2g})."


def _holm(p_values: Mapping[float, float]) -> dict[float, float]:
    """Holm's step-down adjustment: the chance of any false alarm among all of them stays below the level.

    >>> _holm({0.1: 0.01, 0.2: 0.04, 0.3: 0.03})
    {0.1: 0.03, 0.3: 0.06, 0.2: 0.06}
    """
    adjusted, running = {}, 0.0
    for place, (depth, p_value) in enumerate(sorted(p_values.items(), key=lambda entry: entry[1])):
        running = max(running, min(1.0, (len(p_values) - place) * p_value))
        adjusted[depth] = running
    return adjusted


def _incremental(arms: Mapping[Arm, ArmOutcomes], *, level: float) -> dict[Arm, Comparison]:
    """Revenue per customer with and without codes, against customers who got none."""
    if Arm.HOLDOUT not in arms:
        return {}
    totals = {}
    for name, rows in arms.items():
        if rows.other_revenue is None:
            raise InputError(
                "other_revenue",
                found="none, but a holdout",
                expected="what every customer paid without a code in the campaign's time",
                fix="Without it a holdout would always seem to spend nothing.",
            )
        totals[name] = Mean.of(rows.figure("revenue", revenue_weight=None) + rows.other_revenue)
    return {name: compare(totals[name], totals[Arm.HOLDOUT], level=level) for name in (Arm.TEST, Arm.CONTROL)}
