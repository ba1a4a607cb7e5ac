"""The results of a campaign: each arm in money, the A/B test between them, and what a test of this size can show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.evaluation.estimates import Comparison, Look, PooledUplift, pool
from disco.evaluation.power import Design
from disco.evaluation.read_out import (
    AbTest,
    ArmOutcomes,
    ArmSummary,
    Finding,
    Metric,
    SampleRatio,
    Verdict,
    ab_test,
    compare_arms,
)
from disco.operations.arms import planned_shares, sending_costs
from disco.operations.codes import sent_codes
from disco.operations.purchases import (
    AgainstForecast,
    against_forecast,
    bought_with,
    counts_of,
    recalled_codes,
    revenue_beside,
    set_aside,
)
from disco.records.arrays import Flags, Vector
from disco.records.arrow_tables import columns_of
from disco.records.campaign_records import CampaignRecord, Phase
from disco.records.cells import by_wall_clock
from disco.records.decisions import Arm, IngestCounts
from disco.records.errors import InputError, StateError
from disco.records.estimate import Estimate
from disco.records.maturity import GRACE_DAYS
from disco.records.money import GBP, Currency
from disco.records.plan import Plan
from disco.records.plan_summary import MoneyForecast
from disco.records.ports import locale_of
from disco.records.result import DepthKey, NotInJson, TableResult
from disco.records.wording import chance, count, counted, money, number, percent, validity
from disco.records.wording import date as day_text
from disco.store import Store, Transaction

if TYPE_CHECKING:
    from disco.operations.audience import ShopData

_POWER = 0.8
_POOLED: tuple[Metric, ...] = ("objective", "revenue", "reward")
_ORDERS = ("customer_id", "ordered_at", "paid")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """What one group bought with its codes."""

    summary: ArmSummary
    """The group in sums."""
    codes: Mapping[DepthKey, int]
    """Codes per depth."""
    expected_revenue: float | None
    """Revenue the model expected of these codes, uncorrected; null where nothing was learned before."""
    expected_markdown: float | None
    """Markdown the model expected of these codes, uncorrected; null where nothing was learned before."""
    forecast: MoneyForecast | None = None
    """What the plan forecast for the group, with its 90% intervals; null where nothing was learned before."""
    contact_cost: float | None = None
    """What sending the codes cost, used or not; null where the plan names no `contact_cost`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRead:
    """A recall, as the outcomes stand."""

    recalled_at: datetime
    """The moment from which on no code is valid."""
    codes: int
    """Codes that were not used before it; they count neither as used nor as unused."""
    set_aside: int
    """Purchases ordered after it; they do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutReading:
    """How far the shop's orders tell what the holdout bought. Groups are compared over the same days only."""

    readable: bool
    """Whether the groups can be compared with the holdout."""
    whole: bool
    """Whether the orders cover all days that count; if not, purchases after the last order count in no group."""
    orders_until: date | None
    """The day of the last order; null: there is none."""
    words: str
    """What is missing, in sentences; empty where nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CampaignResults(TableResult):
    """A campaign as its outcomes stand: what each group bought, and the A/B test of decided against random codes.

    As a table: one row per group, and one of late arrivals where there are any.
    """

    campaign: str
    """The name of the campaign."""
    state: Phase
    """On the day of the read-out: scheduled, running, paused, recalled, ended (all codes have expired) or closed."""
    as_of: date
    """The day of the read-out; what was ordered after it does not count."""
    final: bool
    """Whether all codes have expired or were recalled, and the days of grace are over."""
    counts: IngestCounts
    """What became of the outcomes received."""
    recall: RecallRead | None
    """The recall of the campaign; null: it was not recalled."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    arms: Mapping[Arm, GroupResult]
    """The customers of the launch, by group: decided, control, holdout."""
    late: GroupResult | None
    """Customers who arrived after the launch; they are in no group of the test."""
    verdict: Verdict | None
    """The verdict of the A/B test; null where there is nothing to compare."""
    words: tuple[str, ...]
    """What may be said, and how far to trust it."""
    findings: tuple[Finding, ...]
    """Decided against control, one figure at a time."""
    undifferentiated: Mapping[DepthKey, tuple[Finding, ...]]
    """Decided against one depth for everybody, as the control customers who got that depth show it."""
    incremental: Mapping[Arm, Comparison]
    """All revenue, with and without codes, against the holdout; adjusted by what customers spent in the year before
    where the shop has their orders, and where a lasting holdout was not held out in that year already."""
    incremental_measured: Mapping[Arm, Comparison]
    """The same as measured, without the adjustment."""
    holdout: HoldoutReading | None
    """How far the orders of the shop let the holdout be read; null: the plan has no holdout."""
    extra_revenue: Estimate | None
    """Revenue of the decided group beyond what the other group (control, else the holdout) would have brought in its
    place: the difference per customer times the group's customers. Null where nothing may be compared."""
    sample_ratio: SampleRatio | None
    """Whether the groups have their planned sizes; null where no shares were planned."""
    detectable: float | None
    """The smallest relative change of revenue per customer that groups of this size detect with a chance of 80%."""
    expected: MoneyForecast | None
    """What the plan forecast for all codes, with 90% intervals; null where nothing was learned before, and for a
    recalled campaign, whose forecast was for the whole validity."""
    against_forecast: AgainstForecast | None
    """How the codes of the launch did against it; null likewise."""
    plan: NotInJson[Plan]
    ab: NotInJson[AbTest | None]
    why_not: NotInJson[str | None]
    """Why there is nothing to compare."""

    @classmethod
    def of(
        cls,
        record: CampaignRecord,
        *,
        as_of: date,
        final: bool,
        counts: IngestCounts,
        arms: Mapping[Arm, GroupResult],
        late: GroupResult | None,
        ab: AbTest | None,
        why_not: str | None,
        detectable: float | None,
        expected: MoneyForecast | None,
        currency: Currency = GBP,
        recall: RecallRead | None = None,
        holdout: HoldoutReading | None = None,
    ) -> "CampaignResults":
        sums = [group.summary for group in arms.values()]
        compared = against_forecast(
            record,
            expected,
            purchases=sum(one.purchasers for one in sums),
            revenue=sum(one.revenue for one in sums),
            markdown=sum(one.markdown for one in sums),
            today=as_of,
            currency=currency,
        )
        extra = None if ab is None else _extra_revenue(ab, customers=arms[Arm.DECIDED].summary.customers)
        words = [
            f"{_state(record, as_of=as_of, final=final)} {_ledger_words(counts)}",
            "" if compared is None else compared.words,
            _sending_words([*arms.values(), *([] if late is None else [late])], currency),
            "" if recall is None else _recall_words(recall),
            *_test_words(ab, why_not, detectable, currency),
            "" if extra is None else _why_more(extra, arms[Arm.DECIDED].summary, ab, currency),
            "" if holdout is None or holdout.words == why_not else holdout.words,
        ]
        return cls(
            campaign=record.campaign,
            state=record.phase(as_of),
            as_of=as_of,
            final=final,
            counts=counts,
            currency=currency.code,
            recall=recall,
            arms=arms,
            late=late,
            verdict=None if ab is None else ab.verdict,
            words=tuple(filter(None, words)),
            findings=() if ab is None else ab.findings,
            undifferentiated={} if ab is None else ab.undifferentiated,
            incremental={} if ab is None else {Arm(name): ab.incremental_of(name) for name in ab.incremental},
            incremental_measured={} if ab is None else {Arm(name): found for name, found in ab.incremental.items()},
            holdout=holdout,
            extra_revenue=extra,
            sample_ratio=None if ab is None else ab.sample_ratio,
            detectable=detectable,
            expected=expected,
            against_forecast=compared,
            plan=record.plan,
            ab=ab,
            why_not=why_not,
        )

    @property
    def revenue(self) -> float:
        """Revenue of all codes of the launch."""
        return sum(arm.summary.revenue for arm in self.arms.values())

    def to_arrow(self) -> pa.Table:
        groups = {str(arm): group for arm, group in self.arms.items()}
        if self.late is not None:
            groups["late"] = self.late
        return pa.Table.from_pylist(
            [
                {
                    "group": name,
                    "customers": group.summary.customers,
                    "codes": group.summary.recipients,
                    "purchasers": group.summary.purchasers,
                    "expected_revenue": None if group.forecast is None else group.forecast.revenue.value,
                    "revenue": group.summary.revenue,
                    "markdown": group.summary.markdown,
                }
                for name, group in groups.items()
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AllResults(TableResult):
    """All campaigns side by side. As a table: one row per campaign."""

    campaigns: tuple[CampaignResults, ...]
    """By their first day."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    against_control: Mapping[Metric, PooledUplift]
    """Decided against random codes over all final campaigns with a control group, by metric; empty without any."""
    against_holdout: PooledUplift | None
    """All revenue, with and without codes, against the holdout over all final campaigns with one; null without any."""

    @classmethod
    def of(cls, campaigns: Sequence[CampaignResults]) -> "AllResults":
        return cls(
            campaigns=tuple(campaigns),
            currency=campaigns[0].currency if campaigns else GBP.code,
            against_control={metric: found for metric in _POOLED if (found := _pooled_control(campaigns, metric))},
            against_holdout=_pooled_holdout(campaigns),
        )

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_pylist(
            [
                {
                    "campaign": one.campaign,
                    "policy": one.plan.policy.name,
                    "final": one.final,
                    "codes": sum(arm.summary.recipients for arm in one.arms.values()),
                    "purchasers": sum(arm.summary.purchasers for arm in one.arms.values()),
                    "expected_revenue": None if one.expected is None else one.expected.revenue.value,
                    "revenue": one.revenue,
                    "markdown": sum(arm.summary.markdown for arm in one.arms.values()),
                    "verdict": None if one.verdict is None else str(one.verdict),
                }
                for one in self.campaigns
            ]
        )


def all_results(store: Store, data: "ShopData", *, as_of: date) -> AllResults:
    """Read out every launched campaign."""
    with store.reading() as transaction:
        names = [record.campaign for record in transaction.plans.campaigns()]
    if not names:
        raise StateError("No campaign was launched yet, so there are no results", fix="Run `disco launch` first.")
    orders = load_orders(data)
    return AllResults.of([read_out(store, name, as_of=as_of, orders=orders) for name in names])


def _pooled_control(campaigns: Sequence[CampaignResults], metric: Metric) -> PooledUplift | None:
    """Only campaigns that are over: before its end, a campaign's interval is another one, valid at every look."""
    tests = [
        (one.ab.finding(metric).decisive, one.arms[Arm.DECIDED].summary.customers)
        for one in _trusted(campaigns)
        if one.ab is not None and one.ab.findings and not one.plan.policy.assigns_at_random
    ]
    return pool([found for found, _ in tests], [customers for _, customers in tests]) if tests else None


def _pooled_holdout(campaigns: Sequence[CampaignResults]) -> PooledUplift | None:
    tests = [
        (one.incremental[Arm.DECIDED], one.arms[Arm.DECIDED].summary.customers)
        for one in _trusted(campaigns)
        if Arm.DECIDED in one.incremental
        and not one.plan.policy.assigns_at_random
        and (one.holdout is None or one.holdout.whole)  # else it is the gain of some days
    ]
    return pool([found for found, _ in tests], [customers for _, customers in tests]) if tests else None


def _trusted(campaigns: Sequence[CampaignResults]) -> list[CampaignResults]:
    return [one for one in campaigns if one.final and one.verdict not in (None, Verdict.BLOCKED)]


def campaign_results(store: Store, data: "ShopData", campaign: str, *, as_of: date) -> CampaignResults:
    """Read out one campaign, with the shop's orders where it has them."""
    with store.reading() as transaction:
        transaction.plans.campaign(campaign)  # a wrong name is refused before the orders are read
    return read_out(store, campaign, as_of=as_of, orders=load_orders(data))


def load_orders(data: "ShopData") -> pa.Table | None:
    """What customers bought, with the column code where the shop's table has it; None without a table of orders."""
    with data.tables() as tables:
        if "orders" not in tables.names():
            return None
        orders = tables.scan("orders")
        paid = "paid" if "paid" in orders.schema.names else "full_price"
        names = [*_ORDERS, *(("code",) if "code" in orders.schema.names else ())]
        stored = [paid if name == "paid" else name for name in names]
        found = columns_of(orders, stored).rename_columns(names)
        local = by_wall_clock(found["ordered_at"], locale_of(tables))
        return found.set_column(names.index("ordered_at"), "ordered_at", local)


def read_out(store: Store, campaign: str, *, as_of: date, orders: pa.Table | None = None) -> CampaignResults:
    """Read a campaign out as its ledger stands, without what was ordered after the day `as_of`.

    orders: the retailer's orders (customer_id, ordered_at, paid, code). With them the test knows what customers spent
    in the year before, which takes noise away, and what they bought without a code, which a holdout needs. Without the
    column code, what was bought beside the codes is not known; the year before needs no codes.
    """
    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
        tomorrow = as_of + timedelta(days=1)
        applied = transaction.ledger.applied(campaign, before=store.locale.moment(tomorrow))
        counts = counts_of(transaction.ledger.counts(campaign))
        recall = _recall(transaction, record)
        summary = transaction.plans.get(record.plan_id).summary
        held_before = _held_out_before(transaction, record)
    arm = np.asarray(decisions["arm"].to_pylist(), object)
    late = np.asarray(decisions["late"].to_numpy(), np.bool_)
    over = record.matures_on <= as_of

    def full_price_before(day: date | datetime) -> Vector:
        moment = store.locale.moment(day)
        return bought_with(decisions["code"], applied, before=moment, currency=store.locale.currency)

    full_price = full_price_before(tomorrow)
    holdout, end, is_cut = _holdout_reading(record, orders, before=tomorrow)
    ab, why_not = _test(
        record,
        decisions,
        full_price,
        arm,
        ~late,
        orders,
        final=over,
        holdout=holdout,
        end=end,
        # refunds may come later than the purchase that counts
        price_to_end=np.where(full_price_before(end) > 0, full_price, 0.0) if is_cut else full_price,
        held_before=held_before,
    )
    detectable = None if ab is None or not ab.findings else _detectable(decisions, full_price, arm, ~late)
    is_whole = recall is None
    forecasts = {name: planned.money if is_whole else None for name, planned in summary.arms.items()}
    return CampaignResults.of(
        record,
        as_of=as_of,
        final=over,
        counts=counts,
        recall=recall,
        arms={
            name: _arm_result(record.plan, decisions, full_price, here, forecasts.get(name), is_whole=is_whole)
            for name in Arm
            if (here := (arm == name) & ~late).any()
        },
        late=_arm_result(record.plan, decisions, full_price, late, is_whole=is_whole) if late.any() else None,
        ab=ab,
        why_not=why_not,
        detectable=detectable,
        expected=summary.total if is_whole else None,
        currency=store.locale.currency,
        holdout=holdout,
    )


def _recall(transaction: Transaction, record: CampaignRecord) -> RecallRead | None:
    if record.recalled_at is None:
        return None
    found = recalled_codes(transaction, record.campaign)
    return RecallRead(
        recalled_at=record.recalled_at, codes=found.num_rows, set_aside=set_aside(transaction, record.campaign)
    )


def _test_words(ab: AbTest | None, why_not: str | None, detectable: float | None, currency: Currency) -> list[str]:
    """What may be said, and how far to trust it."""
    if ab is None:
        return [why_not or ""]
    said = []
    ratio = ab.sample_ratio
    if ratio is not None:
        fine = "as planned" if ratio.ok else "NOT as planned"
        said.append(f"Group sizes are {fine} ({chance(ratio.p_value)}).")
    said.append(f"Verdict: {ab.verdict}. {_reason(ab, currency)}")
    if detectable is not None:
        least = f"about {percent(detectable)} or more"
        said.append(f"With groups of this size, only changes in revenue of {least} are likely (80%) to be detected.")
    return said


def _extra_revenue(ab: AbTest, *, customers: int) -> Estimate | None:
    """The difference of revenue per customer, with its interval, for all customers of the decided group."""
    if ab.verdict is Verdict.BLOCKED:
        return None
    each = (ab.finding("revenue") if ab.findings else ab.deciding).read(final=ab.final).difference
    lower, upper = (None, None) if each.ends is None else (end * customers for end in each.ends)
    error = None if each.standard_error is None else each.standard_error * customers
    return Estimate(each.value * customers, lower, upper, each.level, error)


def _why_more(extra: Estimate, decided: ArmSummary, ab: AbTest | None, currency: Currency) -> str:
    """Why extra revenue may exceed all that was bought with codes; empty where it does not."""
    if ab is None or extra.value <= decided.revenue:
        return ""
    write = partial(money, currency=currency)
    beside = "" if ab.findings else " counts what they bought without codes as well, so it"
    return (
        f"The {write(extra.value)} of extra revenue is an estimate: {write(extra.value / decided.customers)} per "
        f"customer, scaled to the {count(decided.customers)} customers of the group. It{beside} can exceed the "
        f"{write(decided.revenue)} that they paid with codes."
    )


def _ledger_words(counts: IngestCounts) -> str:
    """What became of the outcomes, without what became of none."""
    if not counts.received:
        return "No outcomes were received."
    received = f"{counted(counts.received, 'outcome')} received"
    if counts.applied == counts.received:
        return f"{received}, {'and it counts' if counts.received == 1 else 'all counted'}."
    several = {
        "counted": counts.applied,
        "duplicate": counts.duplicate,
        "expired": counts.expired,
        "unmatched": counts.unmatched,
        "rejected": counts.rejected,
    }
    return f"{received}: {', '.join(f'{number:,} {name}' for name, number in several.items() if number)}."


def _recall_words(recall: RecallRead) -> str:
    aside = f"{counted(recall.set_aside, 'purchase')} after the recall {'was' if recall.set_aside == 1 else 'were'}"
    return (
        f"{counted(recall.codes, 'code')} had not been used by then and count neither as used nor as unused"
        + (f"; {aside} set aside." if recall.set_aside else ".")
        + " The forecast was for the whole validity, so it is not compared."
    )


def _sending_words(groups: Sequence[GroupResult], currency: Currency) -> str:
    """What sending the codes cost; empty where the plan says nothing about it."""
    costs = [group.contact_cost for group in groups if group.contact_cost is not None]
    codes = sum(sum(group.codes.values()) for group in groups)
    if not costs:
        return ""
    return f"Sending {counted(codes, 'code')} cost {money(sum(costs), currency=currency)}, used or not."


def _state(record: CampaignRecord, *, as_of: date, final: bool) -> str:
    name, phase = f"Campaign {record.campaign}", record.phase(as_of)
    if phase is Phase.CLOSED:
        return f"{name} is closed."
    if record.recalled_at is not None:
        return f"{name} was recalled on {day_text(record.recalled_at.date())}."
    if final:
        return f"{name} has ended: all codes have expired."
    if phase is Phase.ENDED:
        return f"{name} has ended: all codes have expired, outcomes may still arrive. Figures as of {day_text(as_of)}."
    if phase is Phase.SCHEDULED:
        return f"{name} starts on {day_text(record.plan.valid.start)}."
    running = "still running" if phase is Phase.RUNNING else str(phase)
    return f"{name} is {running}; figures as of {day_text(as_of)}."


def _reason(ab: AbTest, currency: Currency) -> str:
    """The figure on which the verdict rests; before the planned end it is the one that is valid at every look."""
    if ab.verdict is Verdict.BLOCKED:
        return ab.reason
    used, other = primary_comparison(ab)
    name = f"{ab.primary.capitalize()} per customer{'' if ab.final else ' to date'}"
    write = partial(money, currency=currency) if ab.primary in ("revenue", "reward") else number
    middle, lower, upper = (
        "no limit" if value is None or math.isinf(value) else write(value, signed=True)
        for value in (used.difference.value, used.difference.lower, used.difference.upper)
    )
    level = percent(ab.level, decimals=0)
    return f"{name}: {middle} ({lower} to {upper}) against {other} ({level} interval, {chance(used.p_value)})."


def primary_comparison(ab: AbTest) -> tuple[Comparison, str]:
    """The comparison on which the verdict rests, and the group compared with: control, or else the holdout."""
    found = ab.deciding
    return found.read(final=ab.final), "control" if ab.findings else "the holdout"


def _arm_result(
    plan: Plan,
    decisions: pa.Table,
    full_price: Vector,
    rows: Flags,
    forecast: MoneyForecast | None = None,
    *,
    is_whole: bool,
) -> GroupResult:
    """`is_whole`: whether the codes were valid as long as planned, so that expected figures can be compared."""
    part = decisions.filter(pa.array(rows))
    depth = part["depth"].to_numpy()
    outcomes = ArmOutcomes(depth=depth, full_price=full_price[rows], before=None, other_revenue=None)
    depths, codes = np.unique(depth[~np.isnan(depth)], return_counts=True)
    expected = np.nan_to_num(part["expected_full_price"].to_numpy() * part["expected_engagement"].to_numpy())
    has_forecast = is_whole and part["expected_full_price"].null_count < part.num_rows
    costs = sending_costs(plan, part)
    return GroupResult(
        summary=ArmSummary.of(outcomes),
        contact_cost=None if costs is None else float(costs[~np.isnan(depth)].sum()),
        codes=dict(zip(depths.tolist(), codes.tolist(), strict=True)),
        expected_revenue=float((expected * (1 - np.nan_to_num(depth))).sum()) if has_forecast else None,
        expected_markdown=float((expected * np.nan_to_num(depth)).sum()) if has_forecast else None,
        forecast=forecast,
    )


def _test(
    record: CampaignRecord,
    decisions: pa.Table,
    full_price: Vector,
    arm: np.ndarray,
    on_time: Flags,
    orders: pa.Table | None,
    *,
    final: bool,
    holdout: HoldoutReading | None,
    end: datetime,
    price_to_end: Vector,
    held_before: bool,
) -> tuple[AbTest | None, str | None]:
    """end: from when on nothing counts in the comparison with the holdout. price_to_end: `full_price` before it.

    held_before: see `_held_out_before`.
    """
    plan = record.plan
    shares = planned_shares(plan)
    if holdout is None or not holdout.readable:  # without its other purchases it would always seem to spend nothing
        shares.pop(Arm.HOLDOUT)
    rows = on_time & np.isin(arm, [str(name) for name, share in shares.items() if share > 0])
    sizes = {name: int((rows & (arm == name)).sum()) for name in Arm}
    compared = [name for name, size in sizes.items() if size >= 2]
    if Arm.DECIDED not in compared or len(compared) < 2:
        return None, _why_not(sizes, holdout)
    rows &= np.isin(arm, [str(name) for name in compared])
    expected = np.nan_to_num(decisions["expected_engagement"].to_numpy())[rows].sum()
    if not final and expected < 1:
        day = day_text(record.matures_on)
        return None, (
            "It is too early for a verdict: the plan forecast no purchases, so an interim test is not possible. "
            f"Run `disco results` again on or after {day}."
        )
    part = decisions.filter(pa.array(rows))
    other = None
    if orders is not None and Arm.HOLDOUT in compared:
        sent = sent_codes(plan, part) if plan.shared_codes else None
        other = revenue_beside(orders, part, (plan.valid.opens, end), sent=sent)
    is_alike = Arm.CONTROL in compared or not held_before
    tested = partial(
        ab_test,
        arm[rows],
        decisions["depth"].to_numpy()[rows],
        revenue_weight=plan.objective.revenue_weight,
        before=spent_before(orders, part, plan) if orders is not None and is_alike else None,
        other_revenue=other,
        shares={str(name): share for name, share in shares.items() if share > 0},
        final=final,
        planned_purchasers=None if final else round(float(expected)),
    )
    found = tested(np.where(full_price[rows] > 0, full_price[rows], np.nan))
    if other is not None and not np.array_equal(price_to_end[rows], full_price[rows]):
        covered = tested(np.where(price_to_end[rows] > 0, price_to_end[rows], np.nan))
        if not found.findings:
            return covered, None
        found = replace(found, incremental=covered.incremental, incremental_adjusted=covered.incremental_adjusted)
    return replace(found, incremental_adjusted={}) if held_before else found, None


def _held_out_before(transaction: Transaction, record: CampaignRecord) -> bool:
    """Whether the holdout got no codes of an earlier campaign either, in the year that a comparison is adjusted by.

    What the groups spent in that year then differs by what codes bring, and an adjustment by it would take away a part
    of the very difference that a lasting holdout is there to show.
    """
    first, last = map(_beginning, year_before(record.plan.customers.as_of))
    return record.plan.holdout.lasting and any(
        other.campaign != record.campaign
        and other.plan.holdout.lasting
        and _beginning(other.plan.valid.opens) < last
        and _beginning(other.plan.valid.closes) > first
        for other in transaction.plans.campaigns()
    )


def spent_before(orders: pa.Table, decisions: pa.Table, plan: Plan) -> Vector:
    """(n,) what each decision's customer paid in the year before; it needs no codes, since none was sent yet."""
    sent = sent_codes(plan, decisions) if plan.shared_codes else None
    return revenue_beside(orders, decisions, year_before(plan.customers.as_of), sent=sent)


def _why_not(sizes: Mapping[Arm, int], holdout: HoldoutReading | None) -> str:
    if sizes[Arm.CONTROL]:
        decided, control = sizes[Arm.DECIDED], sizes[Arm.CONTROL]
        return f"With {decided:,} customers decided and {control:,} in control there is nothing to compare."
    if holdout is not None and not holdout.readable:
        return holdout.words
    return "There is no control group to compare with."


def _holdout_reading(
    record: CampaignRecord, orders: pa.Table | None, *, before: date
) -> tuple[HoldoutReading | None, datetime, bool]:
    """How far the holdout can be read, from when on nothing counts in that comparison, and whether that is too early.

    before: the first day that does not count. Orders are taken to be complete up to the last one; orders without a time
    of day, up to the end of its day. A group with codes is known from the outcomes received, which may be newer: what
    came after the last order is counted in no group, or codes would seem to bring what nobody was asked about.
    """
    plan, recalled = record.plan, record.recalled_at is not None
    last_day = record.matures_on - timedelta(days=GRACE_DAYS) if recalled else plan.valid.closes
    opens, end = _beginning(plan.valid.opens), min(_beginning(last_day), _beginning(before))
    if plan.holdout.share == 0:
        return None, end, False
    unread = "The holdout cannot be read"
    fix = "Refresh the table orders, then read the results again."
    last = None if orders is None else pc.max(orders["ordered_at"].cast(pa.timestamp("us"), safe=False)).as_py()
    reading = partial(HoldoutReading, orders_until=None if last is None else last.date())
    if orders is None or last is None:
        which = "no table of orders" if orders is None else "no order in its table of orders"
        words = f"{unread}: the shop has {which}, which says what customers bought without codes."
        return reading(readable=False, whole=False, words=words), end, False
    ending = f"orders end on {day_text(last)}, and the codes are valid {validity(plan.valid.opens, plan.valid.closes)}"
    covered = last + (timedelta(days=1) if last.time() == time() else timedelta(microseconds=1))
    if covered <= opens < end:
        return reading(readable=False, whole=False, words=f"{unread}: {ending}. {fix}"), end, False
    if "code" not in orders.column_names:
        words = (
            f"{unread}: the table of orders has no column code, so what was bought with the campaign's codes cannot be "
            "told from the rest."
        )
        return reading(readable=False, whole=False, words=words), end, False
    whole = end <= opens or last.date() >= (end - timedelta(microseconds=1)).date()
    words = "" if whole else f"The comparison with the holdout ends with the orders: {ending}. {fix}"
    return reading(readable=True, whole=whole, words=words), max(opens, min(end, covered)), covered < end


def _beginning(day: date | datetime) -> datetime:
    return day if isinstance(day, datetime) else datetime.combine(day, time())


def year_before(day: date) -> tuple[date, date]:
    """Whose spend the test is adjusted by."""
    return day - timedelta(days=365), day


def _detectable(decisions: pa.Table, full_price: Vector, arm: np.ndarray, on_time: Flags) -> float | None:
    """From the control group's own revenue per customer."""
    depth = np.nan_to_num(decisions["depth"].to_numpy())
    revenue = (full_price * (1 - depth))[on_time & (arm == Arm.CONTROL)]
    test = int((on_time & (arm == Arm.DECIDED)).sum())
    customers = test + revenue.size
    try:
        design = Design(
            baseline=float(revenue.mean()), sd=float(revenue.std(ddof=1)), control_share=revenue.size / customers
        )
        return design.detectable_uplift(customers=customers, power=_POWER)
    except InputError:  # nobody bought, or everybody the same: there is no spread to plan with
        return None


# ---- results over time ----
#
# How the verdict of a campaign came about: decided against control as it stood on each of some days.
#
# Each point is what the results of that day say about the primary metric, made in one pass over the decisions. Before
# the end its interval is the one that is valid at every look, so a line of points may be watched from day to day.

MOST_DAYS = 10
_LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class UpliftOnDay:
    """Decided against control as it stood at the end of a day."""

    day: date
    """The day; what was ordered after it does not count."""
    purchases: int
    """Of both groups, to date."""
    comparison: Comparison
    """The primary metric per customer, adjusted by spend of the year before where that is known; before the end with an
    interval that is valid at every look."""
    final: bool
    """Whether all codes had expired, and the days of grace were over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsOverTime:
    """A campaign from its first day on."""

    campaign: str
    """The name of the campaign."""
    metric: Metric
    """The primary metric."""
    days: tuple[UpliftOnDay, ...]
    """Ascending; empty where there is no control group, or it is too early."""


def days_to_read(record: CampaignRecord, *, as_of: date, most: int = MOST_DAYS) -> tuple[date, ...]:
    """At most so many days, evenly spread, from the first one of the codes to the day on which all is known, or today.

    >>> from types import SimpleNamespace
    >>> codes = SimpleNamespace(start=date(2027, 3, 1))
    >>> spring = SimpleNamespace(plan=SimpleNamespace(valid=codes), matures_on=date(2027, 3, 16))
    >>> [day.day for day in days_to_read(spring, as_of=date(2027, 3, 20), most=4)]
    [1, 6, 11, 16]
    """
    first, last = record.plan.valid.start, min(as_of, record.matures_on)
    if last < first:
        return ()
    steps = np.linspace(0, (last - first).days, min(most, (last - first).days + 1))
    return tuple(first + timedelta(days=round(float(step))) for step in steps)


def results_over_time(
    store: Store, data: "ShopData", campaign: str, *, as_of: date, most: int = MOST_DAYS
) -> ResultsOverTime:
    """What `campaign_results` would have said on each of at most so many days."""
    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
        days = days_to_read(record, as_of=as_of, most=most)
        after = store.locale.moment((days[-1] if days else as_of) + timedelta(days=1))
        applied = transaction.ledger.applied(campaign, before=after)
    plan, locale = record.plan, store.locale
    on_time = pc.invert(decisions["late"])
    both = pc.is_in(decisions["arm"], value_set=pa.array([str(Arm.DECIDED), str(Arm.CONTROL)]))
    part = decisions.filter(pc.and_(both, on_time))
    groups = _groups(part, plan)
    if groups is None or not applied.num_rows:
        return ResultsOverTime(campaign=campaign, metric="objective", days=())
    planned = round(float(np.nan_to_num(part["expected_engagement"].to_numpy()).sum()))
    orders, depth = load_orders(data), part["depth"].to_numpy()
    spent = None if orders is None else spent_before(orders, part, plan)
    read = []
    for day in days:
        final = record.matures_on <= day
        if not final and planned < 1:
            continue  # an interim look needs a forecast of purchases
        tomorrow = locale.moment(day + timedelta(days=1))
        full_price = bought_with(part["code"], applied, before=tomorrow, currency=locale.currency)
        decided, control = (
            ArmOutcomes(
                depth=depth[rows],
                full_price=full_price[rows],
                before=None if spent is None else spent[rows][:, None],
                other_revenue=None,
            )
            for rows in groups
        )
        purchases = int(decided.purchased.sum()) + int(control.purchased.sum())
        weight = plan.objective.revenue_weight
        found = compare_arms(
            decided.sample("objective", revenue_weight=weight),
            control.sample("objective", revenue_weight=weight),
            "objective",
            to_date=None if final else Look(information=max(purchases, 1) / planned),
            level=_LEVEL,
        )
        seen = UpliftOnDay(day=day, purchases=purchases, comparison=found.read(final=final), final=final)
        read.append(seen)
    return ResultsOverTime(campaign=campaign, metric="objective", days=tuple(read))


def _groups(decisions: pa.Table, plan: Plan) -> tuple[Flags, Flags] | None:
    """(n,) who was decided about, and who is in control; None where there is nothing to compare."""
    decided = np.asarray(pc.equal(decisions["arm"], str(Arm.DECIDED)).to_numpy(), np.bool_)
    control = ~decided
    enough = plan.control.share > 0 and decided.sum() > 1 and control.sum() > 1
    return (decided, control) if enough else None
