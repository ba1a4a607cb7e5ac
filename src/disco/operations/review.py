"""A decided plan before its launch: who gets what by group, how two plans differ, what to check, what to begin with."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.campaign import Belief
from disco.features.builder import day_after_last_order
from disco.operations.approvals import PlanApproval, plan_approval
from disco.operations.audience import ShopData, sources_of
from disco.operations.favoured import EMPTY, MOST_VALUES, few_values, labels_by
from disco.operations.forecast import draw_totals
from disco.operations.launch import plan_id_of
from disco.operations.learn import belief_at
from disco.operations.overview import SPEND, ranks_of_spend
from disco.operations.plan import Planned, chosen_columns, read_planned
from disco.operations.plan_warnings import (
    CONTROL_SHARE,
    HOLDOUT_SHARE,
    DepthExperience,
    group_warning,
    overspend_warning,
    overspend_words,
    plan_risks,
)
from disco.operations.site import Site
from disco.records.arrays import Flags, Integers
from disco.records.campaign_records import PlanRecord
from disco.records.decisions import Arm, Audience
from disco.records.depths import depth_percent
from disco.records.errors import PlanError
from disco.records.estimate import Estimate
from disco.records.jobs import Draft
from disco.records.money import GBP
from disco.records.people import ApprovalRule
from disco.records.plan import Plan, read_plan
from disco.records.plan_summary import MoneyForecast
from disco.records.result import DepthKey, NotInJson, Result, TableResult
from disco.records.wording import counted, money, validity
from disco.records.wording import date as day_text
from disco.store import Store

_DECILES = 10
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


def review_plan(site: Site, name: str, *, by: tuple[str, ...] = ()) -> PlanReview:
    """Break a kept plan down. by: columns of the customers table that the plan names, as it is now."""
    planned = find_plan(site.store, name)
    with site.store.reading() as transaction:
        record = transaction.plans.find_campaign(planned.plan.campaign)
    belief = belief_at(site.store, planned.version, prior=site.prior, head=planned.solution.engagement_head)
    parts, notes = _parts(planned, site.data, by=by)
    return PlanReview(
        plan_id=planned.plan_id,
        campaign=planned.plan.campaign,
        launched=record is not None and record.plan_id == planned.plan_id,
        customers=planned.decisions.num_rows,
        currency=planned.currency,
        left_out=planned.summary.left_out or {},
        groups=tuple(_group(planned, belief, kind, value, rows) for kind, value, rows in parts),
        notes=notes,
        warnings=(*plan_risks(planned.record()), *planned.summary.warnings),
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
    if planned.features is not None and SPEND in planned.features.column_names:
        tenth = ranks_of_spend(planned.features[SPEND].to_numpy(), known, parts=_DECILES)
        for number in range(_DECILES):
            words = {0: " (least)", _DECILES - 1: " (most)"}.get(number, "")
            parts.append(("spend decile", f"{number + 1}{words}", tenth == number))
    else:
        notes.append("The plan keeps no features, so there are no spend deciles.")
    for column, label in _labels_of(planned.plan).items():
        parts += _by_value(column, _few_values(planned.plan, pc.fill_null(decisions[label].combine_chunks(), EMPTY)))
    for column in by:
        if column not in _labels_of(planned.plan):
            parts += _by_column(planned, data, column)
    return parts, tuple(notes)


def _labels_of(plan: Plan) -> dict[str, str]:
    """Columns of the customers table that the plan itself names → where their values are kept with the decisions."""
    found = {} if plan.channel_column is None else {plan.channel_column: "channel"}
    return found | ({} if plan.segments is None else {plan.segments.column: "segment"})


def _by_column(planned: Planned, data: ShopData, column: str) -> Iterator[tuple[str, str, Flags]]:
    column, texts = labels_by(data, planned.plan, planned.decisions, column, key="--by")
    few_values(texts, column, key="--by")
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
    choice = chosen_columns(planned.decisions, planned.plan)
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


# ---- the list before a launch ----
#
# What to look at before a launch: each check with its state and a sentence. A launch itself checks more, and again.


class CheckState(StrEnum):
    OK = "ok"
    WARNING = "warning"  # the launch is possible, and somebody should have thought about it
    WRONG = "wrong"  # the launch would be refused


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCheck:
    """One point of the list."""

    name: str
    """What is checked."""
    state: CheckState
    """ok, warning or wrong."""
    sentence: str
    """What was found."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LaunchChecks(Result):
    """The list for one plan."""

    plan_id: str
    """The id of the plan."""
    campaign: str
    """The campaign of the plan."""
    launched: bool
    """Whether its campaign was launched from this plan."""
    checks: tuple[LaunchCheck, ...]
    """In the order of the list."""

    @property
    def refused(self) -> tuple[LaunchCheck, ...]:
        """What a launch would be refused for."""
        return tuple(one for one in self.checks if one.state is CheckState.WRONG)

    @property
    def warnings(self) -> tuple[LaunchCheck, ...]:
        """What somebody should have thought about."""
        return tuple(one for one in self.checks if one.state is CheckState.WARNING)


def launch_checks(site: Site, plan_id: str, *, rule: ApprovalRule, draft: Draft | None = None) -> LaunchChecks:
    """rule: what the settings ask for before a launch. draft: that the plan was saved from."""
    store, today = site.store, site.store.locale.day_of(site.clock.now())
    with store.reading() as transaction:
        record = transaction.plans.get(plan_id)
        launched = transaction.plans.find_campaign(record.plan.campaign)
        active = transaction.beliefs.version()
    approval = plan_approval(store, record.plan_id, rule=rule)
    is_launched = launched is not None and launched.plan_id == record.plan_id
    found = [_kept(record, approval, store)]
    if launched is not None and not is_launched:
        sentence = f"{record.plan.campaign} was launched with another plan. Give this plan another name."
        found.append(LaunchCheck(name="Name", state=CheckState.WRONG, sentence=sentence))
    if not is_launched:
        found += _draft(record, draft)
        found += [_tables(record, site.data), _model(record, None if active is None else active.number)]
    found += [*_approval(approval), _dates(record, today), *_budget(record, store), *_groups(record, store)]
    found += [LaunchCheck(name="To know", state=CheckState.WARNING, sentence=one) for one in record.summary.warnings]
    return LaunchChecks(
        plan_id=record.plan_id, campaign=record.plan.campaign, launched=is_launched, checks=tuple(found)
    )


def _kept(record: PlanRecord, approval: PlanApproval, store: Store) -> LaunchCheck:
    made = f" by {', '.join(approval.made_by)}" if approval.made_by else ""
    when, customers = store.locale.local(record.planned_at), counted(record.summary.customers, "customer")
    sentence = f"Decided for {customers} on {day_text(when)} at {when:%H:%M}{made}."
    return LaunchCheck(name="Plan", state=CheckState.OK, sentence=sentence)


def _draft(record: PlanRecord, draft: Draft | None) -> Iterator[LaunchCheck]:
    if draft is None:
        return
    lasting, exploration = record.plan.holdout.lasting, record.plan.policy.exploration  # as settings of the shop had it
    try:
        drafted = read_plan(draft.plan, lasting_holdout=lasting, exploration=exploration)
        is_same = not any(changed_settings(record.plan, drafted))
    except PlanError:
        is_same = False  # a plan that was saved can be read, so the draft has been changed
    if not is_same:
        sentence = "The draft was changed after this plan was saved."
        yield LaunchCheck(name="Draft", state=CheckState.WARNING, sentence=sentence)


def _tables(record: PlanRecord, data: ShopData) -> LaunchCheck:
    kept, now = record.summary.sources, sources_of(data, record.plan)
    if now is None or not kept:
        sentence = "The tables are in a database. The launch reads them again and compares."
        return LaunchCheck(name="Tables", state=CheckState.OK, sentence=sentence)
    changed = sorted(name for name in {*kept, *now} if kept.get(name) != now.get(name))
    if not changed:
        sentence = "The tables are those that the plan was decided on."
        return LaunchCheck(name="Tables", state=CheckState.OK, sentence=sentence)
    sentence = (
        f"Changed since the plan was decided: {', '.join(changed)}. The launch is refused where a decision rests on "
        "it; a dry run says whether one does."
    )
    return LaunchCheck(name="Tables", state=CheckState.WARNING, sentence=sentence)


def _model(record: PlanRecord, active: int | None) -> LaunchCheck:
    decided = record.summary.version
    if decided == active or decided is None:
        words = "Nothing was learned yet." if active is None else "The model is the one that decided the plan."
        state = CheckState.OK
        if decided is None and active is not None:
            state, words = CheckState.WARNING, f"Version {active} of the model was learned since. Plan again to use it."
        return LaunchCheck(name="Model", state=state, sentence=words)
    now = "none" if active is None else f"version {active}"
    sentence = f"Version {decided} of the model decided the plan, and {now} is active now. Plan again."
    return LaunchCheck(name="Model", state=CheckState.WARNING, sentence=sentence)


def _approval(found: PlanApproval) -> Iterator[LaunchCheck]:
    by = ", ".join(one.by for one in found.approvals)
    if found.approved:
        yield LaunchCheck(name="Approval", state=CheckState.OK, sentence=f"Approved by {by}.")
    elif found.required:
        sentence = "A second person has to approve the plan. Whoever made it cannot."
        yield LaunchCheck(name="Approval", state=CheckState.WRONG, sentence=sentence)
    else:
        yield LaunchCheck(name="Approval", state=CheckState.OK, sentence="This shop asks for none.")


def _dates(record: PlanRecord, today: date) -> LaunchCheck:
    valid = record.plan.valid
    words = f"Codes are valid {validity(valid.opens, valid.closes)}."
    if valid.end <= today:
        return LaunchCheck(name="Dates", state=CheckState.WARNING, sentence=f"{words} That is over.")
    if valid.start < today:
        return LaunchCheck(name="Dates", state=CheckState.WARNING, sentence=f"{words} They have begun already.")
    return LaunchCheck(name="Dates", state=CheckState.OK, sentence=words)


def _budget(record: PlanRecord, store: Store) -> Iterator[LaunchCheck]:
    plan, summary = record.plan, record.summary
    if plan.budget_amount is None:
        if summary.total is not None:
            cost = money(summary.total.markdown.value, currency=store.locale.currency)
            yield LaunchCheck(name="Budget", state=CheckState.OK, sentence=f"No budget. The codes cost about {cost}.")
        return
    budget = money(plan.budget_amount, currency=store.locale.currency)
    if summary.total is None:
        sentence = f"The budget of {budget} does not bind, because nothing was learned yet."
        yield LaunchCheck(name="Budget", state=CheckState.WARNING, sentence=sentence)
        return
    cost, chance = money(summary.total.markdown.value, currency=store.locale.currency), summary.overspend_chance
    warning = overspend_warning(plan, chance)
    more = warning or ("" if chance is None else overspend_words(plan, chance))
    state = CheckState.WARNING if warning else CheckState.OK
    sentence = f"The codes cost about {cost} of {budget}. {more}".rstrip()
    yield LaunchCheck(name="Budget", state=state, sentence=sentence)


def _groups(record: PlanRecord, store: Store) -> Iterator[LaunchCheck]:
    arms = record.summary.arms
    named = {Arm.CONTROL: "control", Arm.HOLDOUT: "holdout"}
    sizes = [f"{words} {arms[arm].customers:,}" for arm, words in named.items() if arm in arms]
    price = record.summary.solution.budget_price
    warning = group_warning(record.plan, arms, budget_price=price, currency=store.locale.currency)
    if sizes or warning:
        compared = f"Customers to compare with: {', '.join(sizes)}. " if sizes else ""
        state = CheckState.WARNING if warning else CheckState.OK
        yield LaunchCheck(name="Groups", state=state, sentence=f"{compared}{warning}".rstrip())


# ---- the plans that are kept ----
#
# The newest first, and the one that a new plan is compared with.


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanEntry(Result):
    """A kept plan in brief."""

    plan_id: str
    """The id of the plan."""
    campaign: str
    """The name of the campaign."""
    planned_at: datetime
    """When it was decided."""
    valid_from: date | datetime
    """The first day of its codes; with a time of day where the plan has one."""
    customers: int
    """Number of customers."""
    codes: int
    """Number of codes."""
    launched: bool
    """Whether its campaign was launched from this plan."""


def list_plans(
    store: Store, *, limit: int, before: tuple[datetime, str] | None = None
) -> tuple[tuple[PlanEntry, ...], tuple[datetime, str] | None]:
    """Some plans, and where the next ones begin; None: these are the last.

    before: where to begin, as an earlier call returned it; None: with the newest.
    """
    with store.reading() as transaction:
        records = transaction.plans.recent(limit + 1, before=before)
        launched = {record.plan_id for record in transaction.plans.campaigns()}
    shown = records[:limit]
    entries = tuple(
        PlanEntry(
            plan_id=record.plan_id,
            campaign=record.plan.campaign,
            planned_at=store.locale.local(record.planned_at),
            valid_from=record.plan.valid.opens,
            customers=record.summary.customers,
            codes=sum(sum(arm.codes.values()) for arm in record.summary.arms.values()),
            launched=record.plan_id in launched,
        )
        for record in shown
    )
    more = len(records) > limit
    return entries, (shown[-1].planned_at, shown[-1].plan_id) if more else None


def plan_to_compare(store: Store, campaign: str, *, against: str = "", other_than: str = "") -> PlanRecord | None:
    """The kept plan that a new one is compared with: the newest of the same campaign; else that of the last launch.

    against: instead of both, the id of a plan, its beginning, or a campaign. other_than: the id of the plan itself,
    where it is kept.
    """
    with store.reading() as transaction:
        if against:
            return transaction.plans.get(plan_id_of(transaction, against))
        own = [record for record in transaction.plans.of(campaign) if record.plan_id != other_than]
        if own:
            return max(own, key=lambda record: record.planned_at)
        launched = [record for record in transaction.plans.campaigns() if record.plan_id != other_than]
        if not launched:
            return None
        return transaction.plans.get(max(launched, key=lambda record: record.launched_at).plan_id)


# ---- the first draft of a plan ----
#
# Sensible limits and dates for a new campaign, or those of an earlier one.


_DEPTHS = ("0.1", "0.2", "0.3")  # where no campaign says which
_SHARE = "20%"
FIRST_SHARE = "2%"
"""Of the customers, for a depth that is hardly known: enough to learn from, and little to lose."""
_WEIGHT = 3
_DAYS = 14


def new_plan(site: Site, *, campaign: str) -> dict[str, Any]:
    """The content of a plan file: depths, limits, groups and weight of the last campaign, two weeks from next Monday.

    Before the first campaign depths are assigned at random, because nobody knows yet what a depth brings. Afterwards
    a control group shows what deciding is worth; a holdout always shows what codes are worth.
    """
    with site.store.reading() as transaction:
        launched, is_learned = transaction.plans.campaigns(), transaction.beliefs.version() is not None
    content: dict[str, Any] = {
        "campaign": campaign,
        "customers": {"table": "customers", "eligible": "true"},
        "depths": {depth: {"at_most": _SHARE} for depth in _DEPTHS},
        "objective": {"revenue_weight": _WEIGHT},
        "holdout": {"share": HOLDOUT_SHARE},
    }
    content |= {"control": {"share": CONTROL_SHARE}} if is_learned else {"policy": {"name": "random"}}
    if launched:
        last = content_of(max(launched, key=lambda record: record.launched_at).plan)
        content["customers"] = {key: text for key, text in last["customers"].items() if key != "as_of"}
        kept = ("depths", "objective", "control", "holdout", "channel")
        content |= {key: last[key] for key in kept if key in last}
        if not content["holdout"].get("lasting"):  # a shop that has turned it on since means its new plans
            content["holdout"] = {"share": content["holdout"]["share"]}
    return _dated(content, site, days=_DAYS)


def first_cap(experience: DepthExperience | None, *, is_learned: bool) -> str:
    """The share of customers that a depth begins with which is added to a plan.

    experience: of the depth; None: not known. is_learned: whether any campaign was; before, no depth is known better
    than another.
    """
    if not is_learned:
        return _SHARE
    return FIRST_SHARE if experience is None or experience.extrapolated else _SHARE


def next_plan(site: Site, name: str, *, campaign: str) -> dict[str, Any]:
    """The content of a plan file: the plan of an earlier campaign (or a kept plan) with a new name and new dates."""
    with site.store.reading() as transaction:
        plan = transaction.plans.get(plan_id_of(transaction, name)).plan
    return _dated(content_of(plan) | {"campaign": campaign}, site, days=plan.valid.days)


def _dated(content: dict[str, Any], site: Site, *, days: int) -> dict[str, Any]:
    """Valid from the next Monday; decided by the newest features that the tables can give."""
    today = site.store.locale.day_of(site.clock.now())
    with site.data.tables() as tables:
        newest = day_after_last_order(tables)
    monday = today + timedelta(days=7 - today.weekday())
    content["customers"] = {**content.get("customers", {}), "as_of": min(newest, today).isoformat()}
    content["valid"] = {"from": monday.isoformat(), "days": days}
    return content
