"""Experiments: what a table of one's own shows, and how many customers a test needs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.evaluation.power import Design
from disco.evaluation.read_out import POWER, ArmDifference, MetricColumns, SampleRatio, Verdict, experiment
from disco.records.errors import InputError
from disco.records.result import Result
from disco.records.wording import chance, counted, number, percent

# ---- what it shows ----
#
# The read-out of a test from a table of one's own: named arms, figures, and what was known before.


_CONTROL = "control"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExperimentResult(Result):
    """What a test of several arms says."""

    control: str
    """The arm that the others are compared with."""
    customers: Mapping[str, int]
    """By arm, control first."""
    sample_ratio: SampleRatio
    """Customers per arm against the planned shares; equal shares where none were stated."""
    sample_ratio_ok: bool
    """Whether the arms have their shares (p ≥ 0.001). If not, every verdict is `blocked`."""
    differences: tuple[ArmDifference, ...]
    """By metric, then by arm: each against control."""
    level: float
    """Of the intervals."""
    looks: int
    """How many times the test is looked at in all; every interval and p-value holds at each of them."""
    warnings: tuple[str, ...]
    """What to know, in sentences."""


def parse_metric(text: str) -> tuple[str, str | None]:
    """`COLUMN`, or `COLUMN/COLUMN` for a ratio of two sums.

    >>> parse_metric("revenue/orders"), parse_metric("bought")
    (('revenue', 'orders'), ('bought', None))
    """
    numerator, slash, denominator = (part.strip() for part in text.partition("/"))
    if not numerator or (slash and not denominator) or "/" in denominator:
        raise InputError("metric", found=repr(text), expected="COLUMN, or COLUMN/COLUMN for a ratio of two sums")
    return numerator, denominator or None


def read_experiment(
    table: pa.Table,
    *,
    arm: str,
    metrics: Sequence[str],
    control: str | None = None,
    before: Sequence[str] = (),
    shares: Mapping[str, float] | None = None,
    looks: int = 1,
    level: float = 0.95,
    source: str = "the table",
) -> ExperimentResult:
    """Compare every arm of a table with control: one row per customer assigned.

    arm: the column of arms. metrics: columns of figures, or `numerator/denominator`. before: columns known before the
    test. control: the arm to compare with; None: the one called control. shares: planned share of each arm; None:
    equal ones. looks: how many times the test is looked at in all. source: what to call the table in messages.
    """
    pairs = [parse_metric(text) for text in metrics]
    if not pairs:
        raise InputError("metric", found="none", expected="at least one column of figures")
    if len(set(pairs)) != len(pairs):
        raise InputError("metric", found=", ".join(metrics), expected="each metric once")
    _refuse_shared(arm, pairs, before)
    labels = table[arm].combine_chunks()
    _refuse_repeated(table, source)
    names = pc.unique(labels).to_pylist()
    used = _control(control, names, source)
    columns = [
        MetricColumns(
            name=numerator if denominator is None else f"{numerator}/{denominator}",
            numerator=_numbers(table, numerator, source),
            denominator=None if denominator is None else _numbers(table, denominator, source),
        )
        for numerator, denominator in pairs
    ]
    known = np.column_stack([np.asarray(table[name], np.float64) for name in before]) if before else None
    found = experiment(
        np.asarray(labels.to_pylist(), object),
        columns,
        control=used,
        before=known,
        shares=shares,
        looks=looks,
        level=level,
    )
    zeros = {metric.name for metric in columns if not metric.numerator.any()}
    return ExperimentResult(
        control=used,
        customers=found.customers,
        sample_ratio=found.sample_ratio,
        sample_ratio_ok=found.sample_ratio.ok,
        differences=tuple(
            replace(difference, sentence=verdict_in_words(difference, used, all_zero=difference.metric in zeros))
            for difference in found.differences
        ),
        level=level,
        looks=looks,
        warnings=_warnings(found.sample_ratio, stated=shares is not None),
    )


def verdict_in_words(found: ArmDifference, control: str, *, all_zero: bool) -> str:
    """What may be said about one difference. all_zero: whether every figure of the metric is 0, in all arms."""
    arm, name = found.arm, found.metric
    if found.verdict is Verdict.BLOCKED:
        return f"{name}: no verdict about {arm}, because the arms do not have their planned shares."
    if found.value is None or found.control is None:
        return f"{name}: nothing can be said about {arm}, because the denominator is 0 in all of an arm's rows."
    lower, upper = found.difference.ends or (-math.inf, math.inf)
    if math.isinf(lower):
        return f"{name}: nothing can be said about {arm}, because the figure does not vary within the arms."
    size = max(abs(found.value), abs(found.control), abs(lower), abs(upper))
    decimals = 2 if size >= 1 else min(8, 2 - math.floor(math.log10(size))) if size > 0 else 2
    nearest = min((abs(end) for end in (lower, upper) if end), default=size)
    if nearest < size / 20:  # an end near 0 says by its sign whether 0 is inside, so it must not be written as 0
        decimals = max(decimals, min(8, -math.floor(math.log10(nearest))))
    is_rate, points = found.kind == "rate", max(1, decimals - 2)

    def shown(value: float) -> str:
        return percent(value, decimals=points) if is_rate else number(value, decimals=decimals)

    def change(value: float, *, signed: bool = True) -> str:
        if is_rate:
            return f"{number(100 * value, decimals=points, signed=signed)} points"
        return number(value, decimals=decimals, signed=signed)

    kind = "difference" if found.variance_reduction is None else "adjusted difference"
    chances = chance(found.p_value)
    if found.holm != found.p_value:
        chances += f", for all comparisons {chance(found.holm)}"
    evidence = (
        f"{shown(found.value)} against {shown(found.control)}; {kind} {change(found.difference.value)}, "
        f"{found.difference.level:.0%} interval {change(lower)} to {change(upper)}; {chances}"
    )
    if found.verdict is not Verdict.UNDECIDED:
        share = f" by {percent(abs(found.relative.value))}" if found.relative and found.relative.bounded else ""
        return f"{name}: {arm} is {found.verdict} than {control}{share} ({evidence})."
    text = f"{name}: no difference between {arm} and {control} was shown"
    if not found.difference.covers(0):  # alone it would have been
        text += " once all comparisons are adjusted for"
    text += f" ({evidence})."
    if found.detectable is not None:
        least = change(found.detectable, signed=False)
        text += f" A difference of {least} would be shown with a probability of {POWER:.0%}."
    if is_rate and all_zero:
        text += " All figures are 0 and were read as a rate; of an amount nothing could be said."
    return text


def _warnings(ratio: SampleRatio, *, stated: bool) -> tuple[str, ...]:
    if ratio.ok:
        return ()
    counts = ", ".join(f"{name} {ratio.found[name]:,} (expected {ratio.expected[name]:,.0f})" for name in ratio.found)
    kind = "their planned shares" if stated else "equal shares"
    fix = (
        "Customers were lost or assigned wrongly; find out why before any figure is used."
        if stated
        else "If other shares were planned, state them with --shares; if not, customers were lost or assigned wrongly."
    )
    return (f"The arms do not have {kind}: {counts}; {chance(ratio.p_value)}. {fix}",)


def _control(control: str | None, names: list[str], source: str) -> str:
    there = ", ".join(sorted(names)[:12]) + ("…" if len(names) > 12 else "")
    if control is not None:
        if control in names:
            return control
        raise InputError("control", found=repr(control), expected=f"an arm of {source}: {there}")
    if not names:
        raise InputError(source, found="no rows", expected="one row per customer of the test")
    named = [name for name in names if name.strip().casefold() == _CONTROL]
    if len(named) == 1:
        return named[0]
    fix = "Say which arm the others are compared with: --control NAME."
    raise InputError("control", found=f"the arms {there}", expected="one arm called control", fix=fix)


def _refuse_shared(arm: str, pairs: Sequence[tuple[str, str | None]], before: Sequence[str]) -> None:
    """A figure that is also said to be known before would explain itself."""
    figures = {name for pair in pairs for name in pair if name is not None}
    if arm in figures or arm in before:
        raise InputError("arm", found=f"{arm}, which is a figure as well", expected="a column of its own")
    if both := sorted(figures & set(before)):
        raise InputError(
            "before", found=f"{both[0]}, which is a metric as well", expected="a column known before the test"
        )


def _refuse_repeated(table: pa.Table, source: str) -> None:
    """Customers were assigned, so customers are what varies: two rows of one customer are not two observations."""
    if "customer_id" not in table.column_names:
        return
    ids = table["customer_id"].combine_chunks()
    counts = pc.value_counts(ids)
    repeated = pc.greater(counts.field("counts"), 1)
    several = pc.sum(repeated).as_py() or 0
    if several:
        first = counts.field("values").filter(repeated)[0].as_py()
        raise InputError(
            f"{source}, column customer_id",
            found=f"{counted(several, 'customer')} in more than one row, the first {first!r}",
            expected="one row per customer",
            fix="Sum the figures per customer first.",
        )


def _numbers(table: pa.Table, name: str, source: str) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    column = np.asarray(table[name], np.float64)
    wrong = ~np.isfinite(column)
    if wrong.any():
        row = int(np.argmax(wrong))
        empty = table[name].null_count > 0 and not table[name][row].is_valid
        found = "an empty cell" if empty else str(column[row])
        more = f" (and {wrong.sum() - 1:,} more)" if wrong.sum() > 1 else ""
        fix = "Write 0 for a customer who did nothing."
        raise InputError(
            f"{source}, column {name}",
            found=f"{found} in data row {row + 1:,}{more}",
            expected="a number in every row",
            fix=fix,
        )
    return column


# ---- how many customers it needs ----
#
# How many customers an A/B test needs, or what a given number of customers can show.


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PowerResult(Result):
    """The design of an A/B test of decided codes against control."""

    control_share: float
    """Control's share of the customers."""
    level: float
    """1 − α of the two-sided test."""
    figure: str
    """What is tested, in words: an amount per customer, an amount of which only purchasers have one, or a rate."""
    is_rate: bool
    """Whether the figure is a rate, the share of customers who do something."""
    baseline: float
    """Mean of the figure in control, per customer assigned; of a rate, the rate."""
    sd: float
    """Its standard deviation between customers in control."""
    uplift: float
    """Relative difference: given, or the smallest that can be detected."""
    power: float
    """Chance of detecting the uplift: given, or what these customers give."""
    customers: int
    """Customers of both groups together: given, or needed."""
    control: int
    """Customers in control."""
    decided: int
    """Customers in the decided group."""
    purchasers: int | None
    """About how many of the customers buy, where `engagement` was given."""


def power(
    *,
    baseline: float | None = None,
    sd: float | None = None,
    rate: float | None = None,
    uplift: float | None = None,
    customers: int | None = None,
    power: float = 0.8,
    control_share: float = 0.5,
    level: float = 0.95,
    engagement: float | None = None,
    explained: float = 0.0,
) -> PowerResult:
    """With `uplift`: the customers needed. With `customers`: the smallest uplift they show. With both: the chance.

    baseline, sd: of the figure in control, per customer; per purchaser where `engagement` (the share that buys) is
    given. rate: instead of both, the share of control who do something, such as buying. explained: share of the
    variance that pre-period figures explain (CUPED).
    """
    if rate is not None:
        if baseline is not None or sd is not None or engagement is not None:
            raise InputError("rate", found="a rate and an amount", expected="a rate alone, or baseline and sd")
        design = Design.of_rate(rate, control_share=control_share, level=level)
        figure = f"a rate of {percent(rate)} in control"
    elif baseline is None or sd is None:
        raise InputError("baseline", found="none", expected="baseline and sd of an amount, or a rate")
    elif engagement is None:
        design = Design(baseline=baseline, sd=sd, control_share=control_share, level=level)
        figure = f"an amount per customer, mean {baseline:,.4g} and sd {sd:,.4g} in control, customers without it as 0"
    else:
        buyers = f"the {percent(engagement)} of control who buy"
        figure = f"an amount per customer, of {baseline:,.4g} (sd {sd:,.4g}) for {buyers} and 0 for all others"
        design = Design.of_purchases(
            baseline=baseline, sd=sd, engagement=engagement, control_share=control_share, level=level
        )
    design = replace(design, explained=explained)
    if explained:
        figure += f", less the {percent(explained)} of its variance that figures from before explain"
    if uplift is not None and customers is not None:
        power = design.power(uplift, customers=customers)
    elif uplift is not None:
        customers = design.customers(uplift, power=power)
    elif customers is not None:
        uplift = design.detectable_uplift(customers=customers, power=power)
    else:
        raise InputError("power needs an uplift, a number of customers, or both")
    control = round(customers * control_share)
    return PowerResult(
        control_share=control_share,
        level=level,
        figure=figure,
        is_rate=design.is_rate,
        baseline=design.baseline,
        sd=design.sd,
        uplift=uplift,
        power=power,
        customers=customers,
        control=control,
        decided=customers - control,
        purchasers=None if engagement is None else round(customers * engagement),
    )
