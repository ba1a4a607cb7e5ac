"""A decided plan before its launch: who gets what by group, how two plans differ, and a plan to start the next from."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.campaign import Belief
from disco.operations.audience import ShopData
from disco.operations.forecast import draw_totals
from disco.operations.launching import plan_id_of
from disco.operations.plan_risks import plan_risks
from disco.operations.planned import Planned, read_planned
from disco.operations.versions import belief_at
from disco.records.arrays import Flags, Integers
from disco.records.currency import GBP
from disco.records.decisions import Arm, Audience
from disco.records.depths import depth_percent
from disco.records.errors import InputError
from disco.records.estimate import Estimate
from disco.records.plan import Plan
from disco.records.plan_summary import MoneyForecast
from disco.records.result import DepthKey, NotInJson, Result, TableResult
from disco.store import Store

MOST_VALUES = 50
"""Of a column to break down by; a column with more is an id or an amount."""
_SPEND = "spend_365d"
_DECILES = 10
_EMPTY = "(empty)"
_OTHERS = "(others)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGroup:
    """Some customers of a plan."""

    by: str
    """What the customers were divided by: depth, group, history, spend decile, or a column of the customers table."""
    value: str
    """Which part of them this is."""
    customers: int
    """Number of customers."""
    codes: Mapping[DepthKey, int]
    """Codes per depth."""
    revenue: Estimate | None
    """Expected revenue of their codes, with its 90% interval; null before any purchase was learned."""
    markdown: Estimate | None
    """What their discounts are expected to cost, with its 90% interval."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlanReview(TableResult):
    """A kept plan, broken down. As a table: one row per group of customers."""

    plan_id: str
    """The id of the plan."""
    campaign: str
    """The name of the campaign."""
    launched: bool
    """Whether the campaign was launched from this plan."""
    customers: int
    """Number of customers."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    left_out: Mapping[str, int]
    """Eligible customers who were not decided about, by the key that leaves them out: include, exclude, contact."""
    groups: tuple[PlanGroup, ...]
    """By depth, by group, by history (bought in the past year or not), by spend decile, by the columns of the
    plan's segments and channels, by the columns asked for."""
    notes: tuple[str, ...]
    """What could not be broken down, in sentences."""
    warnings: tuple[str, ...]
    """What to know before a launch."""
    planned: NotInJson[Planned]

    def to_arrow(self) -> pa.Table:
        rows = []
        for one in self.groups:
            codes = {f"codes_{depth:g}": count for depth, count in one.codes.items()}
            money = {"revenue": one.revenue, "markdown": one.markdown}
            figures = {
                name if part == "value" else f"{name}_{part}": None if figure is None else getattr(figure, part)
                for name, figure in money.items()
                for part in ("value", "lower", "upper")
            }
            rows.append({"by": one.by, "value": one.value, "customers": one.customers, **codes, **figures})
        return pa.Table.from_pylist(rows)


def find_plan(store: Store, name: str) -> Planned:
    """The kept plan of this id, its beginning, or the plan of this campaign."""
    with store.reading() as transaction:
        return read_planned(transaction, transaction.plans.get(plan_id_of(transaction, name)))


def review_plan(store: Store, data: ShopData, name: str, *, prior: Belief, by: tuple[str, ...] = ()) -> PlanReview:
    """Break a kept plan down. by: columns of the customers table that the plan names, as it is now."""
    planned = find_plan(store, name)
    with store.reading() as transaction:
        record = transaction.plans.find_campaign(planned.plan.campaign)
    belief = belief_at(store, planned.version, prior=prior, head=planned.solution.engagement_head)
    parts, notes = _parts(planned, data, by=by)
    return PlanReview(
        plan_id=planned.plan_id,
        campaign=planned.plan.campaign,
        launched=record is not None and record.plan_id == planned.plan_id,
        customers=planned.decisions.num_rows,
        currency=planned.currency,
        left_out=planned.left_out or {},
        groups=tuple(_group(planned, belief, kind, value, rows) for kind, value, rows in parts),
        notes=notes,
        warnings=(*plan_risks(planned.record()), *planned.warnings),
        planned=planned,
    )


def _parts(
    planned: Planned, data: ShopData, *, by: tuple[str, ...]
) -> tuple[list[tuple[str, str, Flags]], tuple[str, ...]]:
    """What, which, and (n,) whether a customer belongs to it."""
    decisions, notes = planned.decisions, []
    depth, known = decisions["depth"].to_numpy(), np.asarray(decisions["known"].to_numpy(), np.bool_)
    arm = np.asarray(decisions["arm"].to_pylist(), object)
    parts: list[tuple[str, str, Flags]] = [
        *(("depth", depth_percent(one), depth == one) for one in planned.plan.offered),
        ("depth", "no code", np.isnan(depth)),
        *(("group", str(one), arm == str(one)) for one in Arm if (arm == str(one)).any()),
        ("history", "bought in the past year", known),
        ("history", "new or without a purchase in the past year", ~known),
    ]
    if planned.features is not None and _SPEND in planned.features.column_names:
        parts += _deciles(np.nan_to_num(planned.features[_SPEND].to_numpy()), known)
    else:
        notes.append("The plan keeps no features, so there are no spend deciles.")
    for column, label in _labels_of(planned.plan).items():
        parts += _by_value(column, _few_values(planned.plan, pc.fill_null(decisions[label].combine_chunks(), _EMPTY)))
    for column in by:
        if column not in _labels_of(planned.plan):
            parts += _by_column(planned, data, column)
    return parts, tuple(notes)


def _labels_of(plan: Plan) -> dict[str, str]:
    """Columns of the customers table that the plan itself names → where their values are kept with the decisions."""
    found = {} if plan.channel_column is None else {plan.channel_column: "channel"}
    return found | ({} if plan.segments is None else {plan.segments.column: "segment"})


def _deciles(spend: Integers, known: Flags) -> Iterator[tuple[str, str, Flags]]:
    """Tenths of the customers who bought something in the year, by what they spent; ties by row."""
    rows = np.flatnonzero(known)
    place = np.empty(rows.size, np.int64)
    place[np.argsort(spend[rows], kind="stable")] = np.arange(rows.size)
    tenth = np.full(known.size, -1)
    tenth[rows] = place * _DECILES // max(rows.size, 1)
    for number in range(_DECILES):
        words = {0: " (least)", _DECILES - 1: " (most)"}.get(number, "")
        yield "spend decile", f"{number + 1}{words}", tenth == number


def _by_column(planned: Planned, data: ShopData, column: str) -> Iterator[tuple[str, str, Flags]]:
    with data.customers(planned.plan.customers.table) as (name, source):
        if column not in source.schema.names or column == "customer_id":
            others = ", ".join(one for one in source.schema.names if one != "customer_id")
            raise InputError("--by", found=f"no column {column} in {name}", expected=f"one of {others}")
        chosen = ["customer_id", column]
        table = source.select(chosen) if isinstance(source, pa.Table) else source.to_table(columns=chosen)
    ids = planned.decisions["customer_id"].cast(pa.string()).combine_chunks()
    place = pc.index_in(ids, value_set=table["customer_id"].cast(pa.string()).combine_chunks())
    texts = pc.fill_null(table[column].cast(pa.string()).combine_chunks().take(place), _EMPTY)
    if (count := len(pc.unique(texts))) > MOST_VALUES:
        found = f"{count:,} different values in column {column}"
        raise InputError("--by", found=found, expected=f"a column with at most {MOST_VALUES}, such as a country")
    yield from _by_value(column, texts)


def _few_values(plan: Plan, texts: pa.Array) -> pa.Array:
    """The values, of which those without limits of their own become one where there are many."""
    if plan.segments is None or len(pc.unique(texts)) <= MOST_VALUES:
        return texts
    return pc.if_else(pc.is_in(texts, value_set=pa.array(list(plan.segments.limits))), texts, _OTHERS)


def _by_value(column: str, texts: pa.Array) -> Iterator[tuple[str, str, Flags]]:
    of_row = np.asarray(texts.to_pylist(), object)
    for value in sorted(pc.unique(texts).to_pylist()):
        yield column, value, of_row == value


def _group(planned: Planned, belief: Belief, by: str, value: str, rows: Flags) -> PlanGroup:
    depths = np.asarray(planned.plan.offered)
    choice = _choice(planned)
    counts = np.bincount(choice[rows & (choice >= 0)], minlength=depths.size)
    money = _money(planned, belief, choice, rows) if counts.any() and belief.basket.campaigns else None
    return PlanGroup(
        by=by,
        value=value,
        customers=int(rows.sum()),
        codes=dict(zip(planned.plan.offered, counts.tolist(), strict=True)),
        revenue=None if money is None else money.revenue,
        markdown=None if money is None else money.markdown,
    )


def _choice(planned: Planned) -> Integers:
    """(n,) column of the depth, -1 without a code."""
    found = pc.index_in(planned.decisions["depth"].combine_chunks(), value_set=pa.array(planned.plan.offered))
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)


def _money(planned: Planned, belief: Belief, choice: Integers, rows: Flags) -> MoneyForecast | None:
    """As the plan forecast its groups: one θ per draw for everybody, times what earlier forecasts got wrong."""
    plan, depths = planned.plan, np.asarray(planned.plan.offered)
    full_price, engagement = (
        planned.decisions[name].to_numpy() for name in ("expected_full_price", "expected_engagement")
    )
    arm = np.asarray(planned.decisions["arm"].to_pylist(), object)
    audience = Audience(
        ids=planned.decisions["customer_id"].to_numpy(),
        context=planned.contexts,
        known=np.asarray(planned.decisions["known"].to_numpy(), np.bool_),
    )
    total = None
    for name, forecast in planned.arms.items():
        here = rows & (arm == str(name)) & (choice >= 0)
        if not here.any() or forecast.correction is None:
            continue
        own = draw_totals(
            belief,
            audience.take(here),
            choice[here],
            depths,
            full_price=full_price[here],
            engagement=engagement[here],
            correction=forecast.correction,
            arm=name,
            seed=plan.seed,
            campaign=plan.campaign,
        )
        total = own if total is None else total + own
    return None if total is None else total.money(depths)


# ---- two plans


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSetting:
    """A key whose value differs."""

    key: str
    """As it stands in a plan file, with dots between the levels."""
    before: str | None
    """In the first plan; null: not there."""
    after: str | None
    """In the second plan; null: not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCodes:
    """Customers of both plans who get another depth."""

    before: float | None
    """The depth in the first plan; null: no code."""
    after: float | None
    """The depth in the second plan; null: no code."""
    customers: int
    """Number of customers."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanDifference(TableResult):
    """What changes from one plan to another. As a table: one row per change of depth."""

    first: str
    """The id of the first plan."""
    second: str
    """The id of the second plan."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    settings: tuple[ChangedSetting, ...]
    """Settings that differ."""
    only_first: int
    """Customers of the first plan alone."""
    only_second: int
    """Customers of the second plan alone."""
    both: int
    """Customers of both plans."""
    same: int
    """Customers of both plans who get the same depth, or none in both."""
    changes: tuple[ChangedCodes, ...]
    """The others, by their depths."""
    revenue: tuple[Estimate | None, Estimate | None]
    """Expected revenue of all codes, first and second; null before any purchase was learned."""
    markdown: tuple[Estimate | None, Estimate | None]
    """What all discounts are expected to cost, first and second."""

    def to_arrow(self) -> pa.Table:
        names = [("before", pa.float64()), ("after", pa.float64()), ("customers", pa.int64())]
        return pa.Table.from_pylist([asdict(one) for one in self.changes], schema=pa.schema(names))


def compare_plans(first: Planned, second: Planned) -> PlanDifference:
    """What changes from the first plan to the second, in settings and for customers."""
    tables = [
        pa.table({"id": one.decisions["customer_id"].cast(pa.string()), "depth": one.decisions["depth"]})
        for one in (first, second)
    ]
    ids = [table["id"].combine_chunks() for table in tables]
    place = pc.index_in(ids[1], value_set=ids[0])
    common = place.is_valid()
    before = tables[0]["depth"].combine_chunks().take(place.filter(common)).fill_null(-1.0)
    after = tables[1]["depth"].combine_chunks().filter(common).fill_null(-1.0)
    moved = pa.table({"before": before, "after": after}).group_by(["before", "after"]).aggregate([([], "count_all")])
    pairs = sorted(
        ((row["before"], row["after"], row["count_all"]) for row in moved.to_pylist()),
        key=lambda row: (-row[2], row[0], row[1]),
    )
    both = len(before)
    totals = [one.total for one in (first, second)]
    return PlanDifference(
        first=first.plan_id,
        second=second.plan_id,
        currency=second.currency,
        settings=tuple(changed_settings(first.plan, second.plan)),
        only_first=len(ids[0]) - both,
        only_second=len(ids[1]) - both,
        both=both,
        same=sum(count for was, now, count in pairs if was == now),
        changes=tuple(
            ChangedCodes(before=_depth(was), after=_depth(now), customers=count)
            for was, now, count in pairs
            if was != now
        ),
        revenue=(_total(totals[0], "revenue"), _total(totals[1], "revenue")),
        markdown=(_total(totals[0], "markdown"), _total(totals[1], "markdown")),
    )


def _total(total: MoneyForecast | None, figure: str) -> Estimate | None:
    found: Estimate | None = None if total is None else getattr(total, figure)
    return found


def _depth(value: float) -> float | None:
    return None if value < 0 else value


def changed_settings(first: Plan, second: Plan) -> Iterator[ChangedSetting]:
    """Keys whose values differ, as a plan file has them."""
    was, now = (dict(_flat(content_of(one))) for one in (first, second))
    for key in [*was, *(key for key in now if key not in was)]:
        if was.get(key) != now.get(key):
            yield ChangedSetting(key=key, before=was.get(key), after=now.get(key))


def content_of(plan: Plan) -> dict[str, Any]:
    """A plan as the content of a file, in JSON's types, without what is as it would be anyway."""
    read: dict[str, Any] = json.loads(plan.model_dump_json(by_alias=True, exclude_defaults=True))
    if plan.holdout.share:  # a shop's setting would answer where a copy does not
        read["holdout"]["lasting"] = plan.holdout.lasting
    return read


def _flat(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, part in value.items():
            yield from _flat(part, f"{place}.{key}" if place else str(key))
    else:
        yield place, value if isinstance(value, str) else json.dumps(value)


# ---- the next plan


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanCopy(Result):
    """The plan of an earlier campaign, to be changed into the next one."""

    campaign: str
    """The campaign it was copied from."""
    plan_id: str
    """The id of its plan."""
    yaml: str
    """A plan file; lines marked `# change` hold the name and the dates of the earlier campaign."""


_TO_CHANGE = {
    "campaign": "a new name",
    "as_of": "the day whose features decide",
    "from": "the first day of the codes",
}


def copy_plan(store: Store, name: str) -> PlanCopy:
    """The plan file of a launched campaign, or of a kept plan."""
    import yaml

    with store.reading() as transaction:
        record = transaction.plans.get(plan_id_of(transaction, name))
    content = content_of(record.plan)
    content["depths"] = {float(depth): limits for depth, limits in content["depths"].items()}
    written = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=False)
    lines = []
    for line in written.splitlines():
        key = line.strip().partition(":")[0]
        if key in ("as_of", "from"):
            line = line.replace("'", "")  # a date, not text
        lines.append(f"{line}  # change: {_TO_CHANGE[key]}" if key in _TO_CHANGE else line)
    return PlanCopy(campaign=record.plan.campaign, plan_id=record.plan_id, yaml="\n".join([*lines, ""]))
