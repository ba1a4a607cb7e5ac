"""`experiment`: any number of named arms against one of them, from a file of one's own: means, rates and ratios."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from disco.evaluation.arms import SampleRatio, distinct_arms, sample_ratio
from disco.evaluation.estimates import Comparison, Mean, compare, compare_adjusted, compare_few, holm, quantile
from disco.records.arguments import read_column, read_count, read_labels, read_level, read_matrix
from disco.records.arrays import Matrix, Vector
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.wording import counted, number, p_value, percent

POWER = 0.8  # with which a difference that is stated as detectable would be shown
_LARGEST = 1e100  # of a figure: its square must still be a number

Kind = Literal["mean", "rate", "ratio"]


class Direction(StrEnum):
    """What may be said about one metric of one arm. Whether higher is better, the metric's owner knows."""

    HIGHER = "higher"
    LOWER = "lower"
    UNDECIDED = "undecided"
    BLOCKED = "blocked"  # the arms do not have their shares, so no figure can be trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricColumns:
    """One figure per customer, or a ratio of two: Σ numerator / Σ denominator."""

    name: str
    numerator: Vector  # (n,)
    denominator: Vector | None = None  # (n,); None: every customer counts once

    @property
    def kind(self) -> Kind:
        if self.denominator is not None:
            return "ratio"
        return "rate" if np.isin(self.numerator, (0.0, 1.0)).all() else "mean"


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
    verdict: Direction
    """higher, lower, undecided or blocked."""
    sentence: str
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
    >>> found = experiment(["new"] * 1000 + ["control"] * 1000, [bought]).differences[0]
    >>> found.verdict.value, round(found.difference.value, 3), round(found.difference.lower, 3)
    ('higher', 0.1, 0.062)
    """
    labels = read_labels(arm, where="arm").astype(str)
    looks, level = read_count(looks, where="looks"), read_level(level)
    arms = _arms(labels, control)
    known = None if before is None else _with_unknown(read_matrix(before, where="before", rows=labels.size))
    for metric in metrics:
        _check(metric, rows=labels.size)
    ratio = sample_ratio({name: int(rows.size) for name, rows in arms.items()}, shares or dict.fromkeys(arms, 1.0))
    at_each_look = level ** (1 / looks)
    found = [
        (name, metric, _compared(metric, rows, arms[control], known, level=at_each_look))
        for metric in metrics
        for name, rows in arms.items()
        if name != control
    ]
    # Holm's method asks this of the smallest p-value, and less of the others
    stricter = quantile(1 - (1 - at_each_look) / max(len(found), 1)) / quantile(at_each_look)
    p_values = [_at_any_look(one.p_value, looks) for *_, one in found]
    together = holm(dict(enumerate(p_values)))
    return Experiment(
        control=control,
        customers={name: int(rows.size) for name, rows in arms.items()},
        sample_ratio=ratio,
        differences=tuple(
            _difference(
                name,
                metric,
                one,
                control=control,
                p_value=p_values[at],
                holm=together[at],
                ok=ratio.ok,
                level=level,
                stricter=stricter,
            )
            for at, (name, metric, one) in enumerate(found)
        ),
        level=level,
        looks=looks,
    )


def _at_any_look(p_value: float, looks: int) -> float:
    """1 − (1 − p)^looks, also for p-values far below the rounding of 1.

    >>> _at_any_look(1e-20, 5), _at_any_look(1.0, 5)
    (5e-20, 1.0)
    """
    return 1.0 if p_value >= 1 else -math.expm1(looks * math.log1p(-p_value))


def _arms(labels: np.ndarray, control: str) -> dict[str, np.ndarray]:
    """Rows by arm, control first."""
    names = sorted(distinct_arms(labels))
    if control not in names or len(names) < 2:
        there = ", ".join(map(repr, names[:12])) + ("…" if len(names) > 12 else "")
        fix = None if control in names else "Name the arm to compare with as control."
        raise InputError("arm", found=there or "no rows", expected=f"{control!r} and at least one other arm", fix=fix)
    arms = {name: np.flatnonzero(labels == name) for name in (control, *(name for name in names if name != control))}
    for name, rows in arms.items():
        if rows.size < 2:
            raise InputError(
                f"arm {name}",
                found=counted(rows.size, "customer"),
                expected="at least two",
                fix="Leave out the arm's row, or bring more of its customers: one shows no spread.",
            )
    return arms


def _with_unknown(before: Matrix) -> Matrix:
    """What is not known counts as 0 in its column, and has a column of its own that says so."""
    unknown = np.isnan(before)
    if not (np.abs(before[~unknown]) < _LARGEST).all():
        raise InputError("before", found="an infinite figure", expected="finite figures, or null where not known")
    flags = unknown[:, unknown.any(axis=0)].astype(np.float64)
    return np.column_stack([np.where(unknown, 0.0, before), flags])


def _check(metric: MetricColumns, *, rows: int) -> None:
    for column in (metric.numerator, metric.denominator):
        if column is None:
            continue
        read_column(column, where=metric.name, rows=rows)
        if not (np.abs(column) < _LARGEST).all():
            row = int(np.argmin(np.abs(column) < _LARGEST))
            raise InputError(
                f"{metric.name}, row {row + 1}",
                found=column[row],
                expected="a finite number",
                fix="Write 0 for nothing.",
            )
    if metric.denominator is not None and (metric.denominator < 0).any():
        row = int(np.argmax(metric.denominator < 0))
        raise InputError(
            f"{metric.name}, row {row + 1}", found=metric.denominator[row], expected="a denominator of 0 or more"
        )


@dataclass(frozen=True, slots=True)
class _Compared:
    value: float | None
    control: float | None
    difference: Estimate
    relative: Estimate | None
    p_value: float
    variance_reduction: float | None = None


def _compared(
    metric: MetricColumns, rows: np.ndarray, control: np.ndarray, before: Matrix | None, *, level: float
) -> _Compared:
    first, second = (_terms(metric, part) for part in (rows, control))
    if first is None or second is None or (np.ptp(first) == 0 and np.ptp(second) == 0 and metric.kind != "rate"):
        return _unknown(first, second, level=level)
    rates = compare_few(first, second, level=level) if metric.kind == "rate" else None
    if rates is not None:
        return _Compared(rates.decided, rates.control, rates.difference, rates.relative, rates.p_value)
    plain, reduction = compare(Mean.of(first), Mean.of(second), level=level), None
    used: Comparison = plain
    if before is not None:
        adjusted = compare_adjusted(first, second, before=(before[rows], before[control]), level=level)
        used, reduction = adjusted.comparison, adjusted.variance_reduction
    return _Compared(plain.decided, plain.control, used.difference, used.relative, used.p_value, reduction)


def _terms(metric: MetricColumns, rows: np.ndarray) -> Vector | None:
    """(n,) figures whose mean is the metric; of a ratio r = Σy/Σx they are r + (y − r·x)/x̄. None: Σx is 0."""
    figures: Vector = metric.numerator[rows]
    if metric.denominator is None:
        return figures
    counts = metric.denominator[rows]
    total = float(counts.sum())
    if total == 0:
        return None
    ratio = float(figures.sum()) / total
    return np.asarray(ratio + (figures - ratio * counts) * (rows.size / total), np.float64)


def _unknown(first: Vector | None, second: Vector | None, *, level: float) -> _Compared:
    """Nothing varies, or nothing counts: nothing can be said."""
    value, control = (None if part is None else float(part.mean()) for part in (first, second))
    difference = 0.0 if value is None or control is None else value - control
    return _Compared(value, control, Estimate(difference, -math.inf, math.inf, level), None, 1.0)


# ---- in words --------------------------------------------------------------------------------------------------------


def _difference(
    arm: str,
    metric: MetricColumns,
    found: _Compared,
    *,
    control: str,
    p_value: float,
    holm: float,
    ok: bool,
    level: float,
    stricter: float,
) -> ArmDifference:
    """ok: whether the arms have their shares. p_value, holm: adjusted for looks, and for comparisons as well.

    stricter: by how much wider an interval is that counts all comparisons as well as all looks.
    """
    if not ok:
        verdict = Direction.BLOCKED
    elif holm < 1 - level:
        verdict = Direction.HIGHER if found.difference.value > 0 else Direction.LOWER
    else:
        verdict = Direction.UNDECIDED
    error = found.difference.standard_error
    ends, detectable = found.difference.ends, None
    if error and math.isfinite(error) and ends is not None:
        reach = (ends[1] - ends[0]) / 2 * stricter  # with the quantile of the test, Student's or the normal one
        detectable = reach + float(ndtri(POWER)) * error
    return ArmDifference(
        arm=arm,
        metric=metric.name,
        kind=metric.kind,
        value=found.value,
        control=found.control,
        difference=replace(found.difference, level=level),
        relative=None if found.relative is None else replace(found.relative, level=level),
        p_value=p_value,
        holm=holm,
        variance_reduction=found.variance_reduction,
        detectable=detectable,
        verdict=verdict,
        sentence=_sentence(
            arm,
            metric,
            found,
            verdict,
            control=control,
            p_value=p_value,
            holm=holm,
            detectable=detectable,
            level=level,
        ),
    )


def _sentence(
    arm: str,
    metric: MetricColumns,
    found: _Compared,
    verdict: Direction,
    *,
    control: str,
    p_value: float,
    holm: float,
    detectable: float | None,
    level: float,
) -> str:
    if verdict is Direction.BLOCKED:
        return f"{metric.name}: no verdict about {arm}, because the arms do not have their planned shares."
    if found.value is None or found.control is None:
        return f"{metric.name}: nothing can be said about {arm}, because the denominator is 0 in all of an arm's rows."
    lower, upper = found.difference.ends or (-math.inf, math.inf)
    if math.isinf(lower):
        return f"{metric.name}: nothing can be said about {arm}, because the figure does not vary within the arms."
    size = max(abs(found.value), abs(found.control), abs(lower), abs(upper))
    decimals = 2 if size >= 1 else min(8, 2 - math.floor(math.log10(size))) if size > 0 else 2
    nearest = min((abs(end) for end in (lower, upper) if end), default=size)
    if nearest < size / 20:  # an end near 0 says by its sign whether 0 is inside, so it must not be written as 0
        decimals = max(decimals, min(8, -math.floor(math.log10(nearest))))

    def shown(value: float) -> str:
        if metric.kind == "rate":
            return percent(value, decimals=max(1, decimals - 2))
        return number(value, decimals=decimals)

    def change(value: float, *, signed: bool = True) -> str:
        if metric.kind == "rate":
            return f"{number(100 * value, decimals=max(1, decimals - 2), signed=signed)} points"
        return number(value, decimals=decimals, signed=signed)

    figures = f"{shown(found.value)} against {shown(found.control)}"
    ends = f"{change(lower)} to {change(upper)}"
    kind = "difference" if found.variance_reduction is None else "adjusted difference"
    interval = f"{kind} {change(found.difference.value)}, {level:.0%} interval {ends}"
    share = f" by {percent(abs(found.relative.value))}" if found.relative and found.relative.bounded else ""
    said = f"p {_p_text(p_value)}" + (f", for all comparisons p {_p_text(holm)}" if holm != p_value else "")
    if verdict is Direction.UNDECIDED:
        would = ""
        if detectable is not None:
            least = change(detectable, signed=False)
            would = f" A difference of {least} would be shown with a probability of {POWER:.0%}."
        shows = f"no difference between {arm} and {control} was shown"
        if not found.difference.covers(0):  # alone it would have been
            shows += " once all comparisons are adjusted for"
        if metric.kind == "rate" and not metric.numerator.any():
            would += " All figures are 0 and were read as a rate; of an amount nothing could be said."
        return f"{metric.name}: {shows} ({figures}; {interval}; {said}).{would}"
    return f"{metric.name}: {arm} is {verdict.value} than {control}{share} ({figures}; {interval}; {said})."


def _p_text(value: float) -> str:
    text = p_value(value)
    return text if text.startswith("<") else f"= {text}"
