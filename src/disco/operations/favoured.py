"""Who is favoured: which depths, codes and markdown the customers with each value of a column get, planned and actual.

Customers of the holdout are left out: they get no code whoever they are. A rule of a plan, `fairness`, warns of a gap
or refuses the plan where the average discount of some value's customers is beyond it, by more than chance.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.evaluation.favoured import LEAST_CUSTOMERS, GroupFigure, group_figures
from disco.operations.purchases import bought
from disco.records.arrays import Integers, Vector
from disco.records.arrow_tables import columns_of
from disco.records.decisions import Arm
from disco.records.errors import InputError, StateError
from disco.records.estimate import Estimate
from disco.records.plan import Plan
from disco.records.result import TableResult
from disco.records.wording import counted, percent
from disco.store import Store

if TYPE_CHECKING:
    from disco.operations.audience import ShopData
    from disco.operations.plan import Planned

MOST_VALUES = 50
"""Of a column; one with more is an id or an amount."""
EMPTY = "(empty)"
_KEY = "fairness.column"


@dataclass(frozen=True, slots=True, kw_only=True)
class FavouredGroup:
    """The customers with one value of a column, outside the holdout."""

    value: str
    """The value; (empty) where they have none."""
    customers: int
    """Number of customers."""
    depth: GroupFigure
    """The average discount, where no code counts as 0."""
    codes: GroupFigure
    """The share who get a code."""
    markdown: GroupFigure | None
    """Expected markdown per customer, as planned; null before any purchase was learned."""
    actual: GroupFigure | None
    """Markdown per customer that purchases brought so far; null before the launch."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Favoured(TableResult):
    """Who gets which codes, by the values of one column. As a table: one row per value."""

    campaign: str
    """The name of the campaign."""
    plan_id: str
    """The id of the plan."""
    column: str
    """The column of the customers table."""
    currency: str
    """The currency of all money here, by its code of ISO 4217."""
    groups: tuple[FavouredGroup, ...]
    """One entry per value, in their order."""
    headline: str
    """The answer in one sentence."""
    words: tuple[str, ...]
    """Every gap that is more than chance, and which values cannot be judged."""

    def to_arrow(self) -> pa.Table:
        rows = []
        for one in self.groups:
            row: dict[str, object] = {"value": one.value, "customers": one.customers}
            for name in ("depth", "codes", "markdown", "actual"):
                figure: GroupFigure | None = getattr(one, name)
                gap = None if figure is None else figure.gap
                row[name] = None if figure is None else figure.mean.value
                row |= {f"{name}_gap": None if gap is None else gap.value}
                row |= {f"{name}_gap_{end}": None if gap is None else getattr(gap, end) for end in ("lower", "upper")}
            rows.append(row)
        return pa.Table.from_pylist(rows)


def who_is_favoured(store: Store, data: "ShopData", name: str, *, by: str) -> Favoured:
    """Of a plan, by its id, or of a launched campaign, by its name; by: a column of the customers table."""
    from disco.operations.launch import plan_id_of  # which plans with; a plan asks this module for its rule

    with store.reading() as transaction:
        record = transaction.plans.get(plan_id_of(transaction, name))
        campaign = transaction.plans.find_campaign(record.plan.campaign)
        launched = campaign is not None and campaign.plan_id == record.plan_id
        if launched:
            decisions = transaction.decisions.of(record.plan.campaign)
            decisions = decisions.filter(pc.invert(decisions["late"]))
            paid = bought(transaction, record.plan.campaign, decisions)
        else:
            decisions, paid = transaction.plans.tables(record.plan_id).decisions, None
    column, labels = labels_by(data, record.plan, decisions, by, key="--by")
    reached = np.asarray(pc.not_equal(decisions["arm"], str(Arm.HOLDOUT)).to_numpy(), np.bool_)
    values, group = _numbered(labels.filter(pa.array(reached)), column, key="--by")
    depth = _depths(decisions)
    expected = None
    if record.summary.total is not None:
        price, rate = (
            pc.fill_null(decisions[one], 0.0).to_numpy() for one in ("expected_full_price", "expected_engagement")
        )
        expected = price * rate * depth
    figures = {
        "depth": depth,
        "codes": (depth > 0).astype(np.float64),
        "markdown": expected,
        "actual": None if paid is None else paid * depth,
    }
    found = {
        figure: None if each is None else group_figures(each[reached], group, count=len(values))
        for figure, each in figures.items()
    }
    sizes = np.bincount(group, minlength=len(values)).tolist()
    groups = tuple(
        FavouredGroup(
            value=value,
            customers=sizes[number],
            **{figure: None if several is None else several[number] for figure, several in found.items()},  # type: ignore[arg-type]
        )
        for number, value in enumerate(values)
    )
    headline, words = _sentences(column, groups, mean=float(depth[reached].mean()), launched=launched)
    return Favoured(
        campaign=record.plan.campaign,
        plan_id=record.plan_id,
        column=column,
        currency=store.locale.currency.code,
        groups=groups,
        headline=headline,
        words=words,
    )


def _depths(decisions: pa.Table) -> Vector:
    """(n,) the discount of each customer; 0 without a code."""
    return np.asarray(pc.fill_null(decisions["depth"], 0.0).to_numpy(), np.float64)


def labels_by(data: "ShopData", plan: Plan, decisions: pa.Table, by: str, *, key: str) -> tuple[str, pa.Array]:
    """The column as the table spells it, and (n,) each customer's value in it as text."""
    with data.customers(plan.customers.table) as (name, source):
        names = [one for one in source.schema.names if one != "customer_id"]
        spelled = {one.lower(): one for one in names}
        if by.lower() not in spelled:
            near = get_close_matches(by, names, n=1)
            fix = f"Did you mean {near[0]}?" if near else None
            raise InputError(key, found=f"no column {by} in {name}", expected=f"one of {', '.join(names)}", fix=fix)
        column = spelled[by.lower()]
        table = columns_of(source, ["customer_id", column])
    ids = decisions["customer_id"].cast(pa.large_string()).combine_chunks()
    place = pc.index_in(ids, value_set=table["customer_id"].cast(pa.large_string()).combine_chunks())
    try:
        texts = table[column].cast(pa.string()).combine_chunks().take(place)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists, records, bytes that are no text
        found = f"column {column} of type {table.schema.field(column).type}"
        raise InputError(key, found=found, expected="a column of texts, numbers or dates, such as a country") from None
    return column, pc.fill_null(texts, EMPTY)


def few_values(labels: pa.Array, column: str, *, key: str) -> list[str]:
    """The values in their order; InputError where there are more than a reader can compare."""
    values = sorted(pc.unique(labels).to_pylist())
    if len(values) > MOST_VALUES:
        found = f"{len(values):,} different values in column {column}"
        raise InputError(key, found=found, expected=f"a column with at most {MOST_VALUES}, such as a country")
    return values


def _numbered(labels: pa.Array, column: str, *, key: str) -> tuple[list[str], Integers]:
    """The values in their order, and (n,) the place of each customer's."""
    values = few_values(labels, column, key=key)
    place = pc.index_in(labels, value_set=pa.array(values, labels.type))
    return values, np.asarray(place.to_numpy(zero_copy_only=False), np.int64)


def _sentences(
    column: str, groups: tuple[FavouredGroup, ...], *, mean: float, launched: bool
) -> tuple[str, tuple[str, ...]]:
    gaps = [one for one in groups if one.depth.differs]
    small = [one for one in groups if one.depth.gap is None]
    words = [
        f"{column} = {one.value}: an average discount of {percent(one.depth.mean.value)}, {_gap_words(one.depth.gap)}."
        for one in gaps
        if one.depth.gap is not None
    ]
    figures = [("share with a code", "codes"), *([("markdown so far", "actual")] if launched else [])]
    for noun, name in figures:
        differing = [one.value for one in groups if (figure := getattr(one, name)) is not None and figure.differs]
        if differing:
            words.append(f"The {noun} differs by more than chance for {column} = {', '.join(differing)}.")
    if small:
        listed = ", ".join(f"{one.value} ({one.customers:,})" for one in small)
        words.append(f"Not judged, because fewer than {LEAST_CUSTOMERS} customers have the value or another: {listed}.")
    seen = [one.depth.gap for one in groups if one.depth.gap is not None]
    if len(groups) == 1:
        return f"All customers have the same {column}, so there is nobody to compare them with.", ()
    if not seen:
        return f"No two values of {column} have enough customers to compare.", tuple(words)
    if gaps:
        return f"The average discount depends on {column}, by more than chance.", tuple(words)
    widest = max((one.upper or 0.0) - one.value for one in seen)
    return (
        f"No gap is seen between the values of {column}: the average discount is {percent(mean)}, and a gap of "
        f"{100 * widest:.2f} percentage points or more would be seen.",
        tuple(words),
    )


def _gap_words(gap: Estimate) -> str:
    lower, upper = gap.ends or (gap.value, gap.value)
    direction = "above" if gap.value > 0 else "below"
    low, high = sorted((abs(lower), abs(upper)))
    return (
        f"{100 * abs(gap.value):.2f} percentage points {direction} that of all others "
        f"({100 * low:.2f} to {100 * high:.2f})"
    )


# ---- the rule of a plan ----


def refuse_fairness(data: "ShopData", plan: Plan) -> None:
    """InputError where the rule names a column that the customers do not have."""
    if plan.fairness is not None:
        labels_by(
            data, plan, pa.table({"customer_id": pa.array([], pa.large_string())}), plan.fairness.column, key=_KEY
        )


def fairness_warnings(data: "ShopData", planned: "Planned") -> tuple[str, ...]:
    """What the plan's rule finds, in sentences; StateError where it refuses.

    A gap is beyond the rule where its whole interval is: so a rule is not broken by chance.
    """
    rule, decisions = planned.plan.fairness, planned.decisions
    if rule is None:
        return ()
    column, labels = labels_by(data, planned.plan, decisions, rule.column, key=_KEY)
    reached = np.asarray(pc.not_equal(decisions["arm"], str(Arm.HOLDOUT)).to_numpy(), np.bool_)
    values, group = _numbered(labels.filter(pa.array(reached)), column, key=_KEY)
    depth = _depths(decisions)[reached]
    most = rule.at_most * float(depth.mean())
    beyond, unseen, found = [], [], group_figures(depth, group, count=len(values))
    for value, figure in zip(values, found, strict=True):
        gap = figure.gap
        if gap is None or gap.ends is None:
            unseen.append(f"{value} ({counted(int((group == values.index(value)).sum()), 'customer')})")
        elif gap.ends[0] > most or gap.ends[1] < -most:
            beyond.append(f"{value} {percent(figure.mean.value)}, {_gap_words(gap)}")
    words = []
    if beyond:
        words.append(
            f"The average discount differs by {column} beyond the limit of {percent(rule.at_most)} of the average "
            f"({100 * most:.2f} percentage points): {'; '.join(beyond)}."
        )
        if rule.then == "refuse":
            fix = "Limit the depths by `segments` of this column, or raise fairness.at_most."
            raise StateError(f"Campaign {planned.plan.campaign}: {words[0].removesuffix('.')}", fix=fix)
    seen = [gap.standard_error or 0.0 for one in found if (gap := one.gap) is not None]
    reach = max(((one.gap.upper or 0.0) - one.gap.value for one in found if one.gap is not None), default=0.0)
    if seen and reach > most:
        words.append(
            f"Fairness by {column}: with these customers only gaps of {100 * (most + reach):.2f} percentage points or "
            f"more are seen, and the limit is {100 * most:.2f}."
        )
    if unseen:
        words.append(f"Fairness by {column} cannot judge {', '.join(unseen)}: {LEAST_CUSTOMERS} are needed.")
    return tuple(words)
