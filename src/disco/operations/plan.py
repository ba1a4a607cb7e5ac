"""Plans: validated, decided with their customers, named by the hash of their inputs, and kept."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.campaign import Belief
from disco.operations.arms import (
    ARMS,
    SHARING,
    Groups,
    holdout_inputs,
    offer_of,
    refuse_floors_above_caps,
    share_offers,
)
from disco.operations.audience import (
    ShopData,
    check_audience,
    contact_inputs,
    label_columns,
    label_inputs,
    load_audience,
    sources_of,
)
from disco.operations.codes import read_pool, refuse_too_few, usable_codes
from disco.operations.customer_limit import customer_limit_inputs, customer_limit_words
from disco.operations.decide import Basis, binding_limits, decide_groups, forecast, overspend_chance, solution_of
from disco.operations.disclosure import disclosure_words
from disco.operations.export import refuse_export
from disco.operations.favoured import fairness_warnings, refuse_fairness
from disco.operations.learn import belief_for, belief_hash
from disco.operations.outbox import tell as announce
from disco.operations.plan_warnings import (
    audience_warnings,
    hour_warnings,
    key_warnings,
    launched_before,
    plan_risks,
    pool_warnings,
    shared_elsewhere,
    size_warnings,
)
from disco.operations.season import ShopSeason, shop_season
from disco.operations.site import Site
from disco.records import VERSION
from disco.records.arrays import Flags, Integers, Labels, Matrix, Vector
from disco.records.arrow_tables import TableRows, content_hash
from disco.records.campaign_records import PlanRecord
from disco.records.chunks import Report, Stages, tell
from disco.records.decisions import Arm, Audience, Offer
from disco.records.errors import Problem, StateError
from disco.records.forecasting import USUAL_RULES, ForecastRules
from disco.records.jobs import Event
from disco.records.locale import LOCALE_INPUT, Locale
from disco.records.money import Currency
from disco.records.people import Actor
from disco.records.plan import Plan
from disco.records.plan_summary import ArmForecast, MoneyForecast, PlanFigures, PlanSummary, Solution
from disco.records.ports import Clock, Engine
from disco.records.result import NotInJson, Result, TableResult
from disco.records.wording import counted, money
from disco.store import Store, Transaction
from disco.store.plans import PlanTables

# ---- a decided plan ----
#
# Who gets what, at which prices, with which expectation; named by the hash of its inputs, and kept.


_ID_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned:
    """A plan with its customers: what `record()` and `tables()` keep of it."""

    plan: Plan
    inputs: Mapping[str, str]  # name → hash of everything the decisions depend on
    decisions: pa.Table  # the columns of `schema.PLANNED`, one row per customer
    contexts: Matrix  # (n, d1), of the same rows
    features: TableRows | None  # retained so that another network can embed the customers again
    summary: PlanSummary
    planned_at: datetime

    @property
    def plan_id(self) -> str:
        return plan_id(self.plan, self.inputs)

    @property
    def network(self) -> str:
        """The name of the context network."""
        return self.summary.network

    @property
    def version(self) -> int | None:
        """Of the belief that decided; None: nothing was learned."""
        return self.summary.version

    @property
    def solution(self) -> Solution:
        return self.summary.solution

    @property
    def arms(self) -> Mapping[Arm, ArmForecast]:
        return self.summary.arms

    @property
    def total(self) -> MoneyForecast | None:
        """What all codes together are expected to bring."""
        return self.summary.total

    @property
    def currency(self) -> str:
        """The code of the currency it was decided in."""
        return Locale.of_fingerprint(self.inputs.get(LOCALE_INPUT, "")).currency.code

    def record(self) -> PlanRecord:
        return PlanRecord(
            plan_id=self.plan_id,
            plan=self.plan,
            inputs=self.inputs,
            summary=self.summary,
            planned_at=self.planned_at,
        )

    def tables(self) -> PlanTables:
        return PlanTables(decisions=self.decisions, contexts=self.contexts, features=self.features)


def plan_id(plan: Plan, inputs: Mapping[str, str]) -> str:
    """The hash of the plan and of every input: equal inputs decide the same, so they have the same name."""
    content = {"plan": json.loads(plan.model_dump_json(by_alias=True)), "inputs": dict(inputs)}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_ID_LENGTH]


def keep(store: Store, planned: Planned) -> None:
    """Keep a plan with its tables. The same plan again changes nothing, unless what was kept of it is damaged."""
    with store.writing(planned.plan.campaign, action="plan") as transaction:
        is_new = planned.plan_id not in transaction.plans.ids()
        keep_within(transaction, planned, by=store.actor, renew=True)
        if is_new:
            campaign, customers = planned.plan.campaign, planned.decisions.num_rows
            told = {"plan_id": planned.plan_id, "campaign": campaign, "customers": customers}
            announce(transaction, Event.PLAN_READY, told, actor=store.actor, now=planned.planned_at)


def keep_within(transaction: Transaction, planned: Planned, *, by: Actor, renew: bool = False) -> None:
    """Keep a plan, and who made it: they cannot approve it.

    renew: also where it is there and damaged.
    """
    added = transaction.plans.add(planned.record(), planned.tables(), renew=renew)
    if added or not transaction.approvals.makers(planned.plan_id):
        transaction.approvals.add_maker(planned.plan_id, by, at=planned.planned_at)
        transaction.journal.note(plan_id=planned.plan_id, customers=planned.decisions.num_rows)


def load(store: Store, name: str) -> Planned:
    """The plan with this id, or the only one whose id begins so, as it was kept."""
    with store.reading() as transaction:
        return read_planned(transaction, transaction.plans.get(name))


def read_planned(transaction: Transaction, record: PlanRecord) -> Planned:
    """A plan that is kept, with its tables."""
    if plan_id(record.plan, record.inputs) != record.plan_id:
        raise StateError(
            f"plan {record.plan_id}",
            found="another content than its name says",
            expected="a plan as it was kept",
            fix="Run `disco plan` again.",
        )
    tables = transaction.plans.tables(record.plan_id)
    return Planned(
        plan=record.plan,
        inputs=record.inputs,
        decisions=tables.decisions,
        contexts=tables.contexts,
        features=tables.features,
        summary=record.summary,
        planned_at=record.planned_at,
    )


# ---- what a plan depends on besides customers, features and network; a launch compares all of it


def inputs_of_locale(locale: Locale) -> dict[str, str]:
    """Nothing in pounds and UTC."""
    return {LOCALE_INPUT: said} if (said := locale.fingerprint()) else {}


def inputs_of_belief(belief: Belief) -> dict[str, str]:
    return {"belief": belief_hash(belief), "evidence": belief.basket.evidence.hash}


def inputs_of_program(plan: Plan, *, customers: int, segment_sizes: Mapping[str, int] | None = None) -> dict[str, str]:
    """The limits in customers and money as this version reads them from the plan, and the version itself."""
    offer = offer_of(plan, eligible=customers, segment_sizes=segment_sizes)
    limits = repr(offer) + ("" if offer.segments is None else repr(sorted(offer.segments.items())))
    return {"limits": sha256(limits.encode()).hexdigest(), "program_version": VERSION}


# ---- decisions as a table, without codes at first ----


def decision_table(
    audience: Audience,
    *,
    arms: dict[Arm, Flags],
    depths: tuple[float, ...],
    choice: Integers,
    value: Vector,
    expected_full_price: Vector,
    engagement: Vector,
    belief: Belief,
) -> pa.Table:
    """One row per customer; before any purchase was learned nothing is expected, so those columns are null.

    expected_full_price, engagement (n,): money and the chance to buy at the chosen depth; they are not read without a
    code, nor before any purchase.
    """
    offered = np.asarray(depths)
    none = choice < 0
    expected, rates, unknown = np.zeros(len(audience)), np.zeros(len(audience)), np.ones(len(audience), np.bool_)
    if belief.basket.campaigns:
        expected, rates, unknown = np.nan_to_num(expected_full_price), np.nan_to_num(engagement), none
    arm = np.select([arms[name] for name in ARMS], range(len(ARMS)))
    return pa.table(
        {
            "customer_id": pa.array(audience.ids),
            "arm": pa.array([str(name) for name in ARMS]).take(pa.array(arm)),
            "depth": pa.array(np.append(offered, 0.0)[choice], mask=none),
            "value": pa.array(value),
            "known": pa.array(audience.known),
            "expected_full_price": pa.array(expected, mask=unknown),
            "expected_engagement": pa.array(rates, mask=unknown),
            **label_columns(audience),
        }
    )


def segments_of(decisions: pa.Table) -> Labels | None:
    """(n,) the labels that were kept, empty text for none; None: the plan has no segments."""
    if "segment" not in decisions.column_names or decisions["segment"].null_count == decisions.num_rows:
        return None
    return np.asarray(pc.fill_null(decisions["segment"], "").to_pylist(), object)


def segment_sizes(decisions: pa.Table, rows: Flags | None = None) -> dict[str, int]:
    """Customers by label, of all decisions or of these rows."""
    segment = segments_of(decisions)
    return {} if segment is None else dict(Counter((segment if rows is None else segment[rows]).tolist()))


def limits_at_launch(plan: Plan, decisions: pa.Table) -> tuple[Offer, list[Offer]]:
    """A plan's limits for these decisions, which are all of its launch; and the parts that belong to `SHARING`."""
    offer = offer_of(plan, eligible=decisions.num_rows, segment_sizes=segment_sizes(decisions))
    members = [np.asarray(pc.equal(decisions["arm"], str(arm)).to_numpy(), np.bool_) for arm in SHARING]
    parts = share_offers(
        offer,
        [int(here.sum()) for here in members],
        segment_sizes=[segment_sizes(decisions, here) for here in members],
    )
    return offer, parts


def chosen_columns(decisions: pa.Table, plan: Plan) -> Integers:
    """(n,) position of each decision's depth among those offered, -1 = no code."""
    depth = np.nan_to_num(decisions["depth"].to_numpy(), nan=-1.0)
    order = np.searchsorted(plan.offered, depth)
    return np.where(depth < 0, -1, order).astype(np.int64)


def coded_rows(decisions: pa.Table) -> Integers:
    """The rows that have a depth, and so a code."""
    return np.flatnonzero(decisions["depth"].is_valid().to_numpy())


def with_codes(decisions: pa.Table, codes: pa.Array) -> pa.Table:
    """The decisions with these codes at the rows that have a depth, null elsewhere."""
    places = np.full(decisions.num_rows, -1, np.int64)
    rows = coded_rows(decisions)
    places[rows] = np.arange(rows.size)
    return decisions.append_column("code", codes.take(pa.array(places, mask=places < 0)))


# ---- from a plan and its customers to decisions ----
#
# Split the arms, decide each by its rule, say what to expect.


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanResult(PlanFigures, TableResult):
    """A decided plan: who would get what, what that is expected to bring, and what each limit costs.

    As a table: one row per customer.
    """

    plan_id: str
    """The hash of everything the decisions rest on; `disco launch` takes it."""
    left_out: Mapping[str, int]
    """Eligible customers who were not decided about, by the key that leaves them out: include, exclude, contact."""
    network: str
    """The hash of the context network."""
    overspend_chance: float | None
    """The chance that the codes cost more than the budget (without the reserve); null without a budget or forecast."""
    season: str | None = None
    """Where the season of the forecasts comes from, or why there is none; null where none is asked for."""
    warnings: tuple[str, ...]
    """What to know before a launch."""
    inputs: Mapping[str, str]
    """Name → hash of everything the decisions rest on; a launch compares them."""
    planned_at: datetime
    """When it was decided."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each stage of the work took, in their order; nothing else depends on it."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""
    planned: NotInJson[Planned]

    @classmethod
    def of(cls, planned: Planned, *, dry_run: bool, seconds: Mapping[str, float] | None = None) -> "PlanResult":
        plan, summary = planned.plan, planned.summary
        return cls(
            **summary.solution.figures(budget=plan.budget_amount, revenue_weight=plan.objective.revenue_weight),
            plan_id=planned.plan_id,
            campaign=plan.campaign,
            customers=summary.customers,
            left_out=summary.left_out or {},
            currency=planned.currency,
            version=summary.version,
            network=summary.network,
            arms=summary.arms,
            total=summary.total,
            overspend_chance=summary.overspend_chance,
            binding=summary.binding,
            season=summary.season,
            warnings=(*plan_risks(planned.record()), *summary.warnings),
            inputs=planned.inputs,
            planned_at=planned.planned_at,
            seconds=seconds or {},
            dry_run=dry_run,
            planned=planned,
        )

    def to_arrow(self) -> pa.Table:
        """customer_id, arm, depth (null: no code), value, known, expected_full_price, expected_engagement."""
        return self.planned.decisions


def make_plan(site: Site, plan: Plan, *, dry_run: bool = False, report: Report | None = None) -> PlanResult:
    """Load the plan's customers, decide every one of them with the active model, and keep the plan.

    A dry run does the same and keeps nothing. report: is told how far the work is.
    """
    store, data, stages = site.store, site.data, Stages(report)
    stages(0, None, "reading customers")
    refuse_export(data, plan)
    refuse_fairness(data, plan)
    pool = read_pool(data, plan)
    loaded = load_audience(site, plan, keeps=not dry_run, report=stages)
    belief, version = belief_for(store, prior=site.prior, network=loaded.network, head=loaded.head)
    planned = plan_campaign(
        store,
        plan,
        loaded.audience,
        belief=belief,
        version=version,
        network=loaded.network,
        inputs=loaded.inputs,
        clock=site.clock,
        features=loaded.features,
        notes=loaded.notes,
        sources=sources_of(data, plan),
        left_out=loaded.left_out,
        engine=site.engine,
        rules=site.rules,
        season=shop_season(site, plan, belief),
        report=stages,
    )
    more = (
        *disclosure_words(data, planned),
        *fairness_warnings(data, planned),
        *hour_warnings(plan, store.locale),
        *size_warnings(plan, planned.summary.arms, loaded.features),
        *pool_warnings(store, planned, pool),
        *shared_elsewhere(store, planned),
    )
    planned = replace(planned, summary=replace(planned.summary, warnings=(*planned.summary.warnings, *more)))
    if not dry_run:
        stages(0, None, "keeping the plan")
        keep(store, planned)
    return PlanResult.of(planned, dry_run=dry_run, seconds=stages.seconds())


def plan_campaign(
    store: Store,
    plan: Plan,
    audience: Audience,
    *,
    belief: Belief,
    version: int | None,
    network: str,
    inputs: Mapping[str, str],
    clock: Clock,
    features: TableRows | None = None,
    notes: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    left_out: Mapping[str, int] | None = None,
    engine: Engine | None = None,
    rules: ForecastRules = USUAL_RULES,
    season: ShopSeason | None = None,
    report: Report | None = None,
) -> Planned:
    """Decide every customer of the audience. Writes nothing.

    inputs: hashes of what the audience was made of, by name; those of belief, limits and program are added. notes:
    shown among the warnings. sources: hashes of the files the inputs come from; equal ones spare a rebuild at launch.
    left_out: by key of the plan, eligible customers who are not in the audience.
    """
    basis = Basis.of(store, plan, audience, belief, engine=engine, rules=rules, season=season)
    tell(report, 0, None, "deciding")
    decided = decide_groups(basis, plan)
    tell(report, 0, None, "forecasting")
    found = forecast(basis, plan, decided)
    tell(report, 0, None, "looking for warnings")
    inputs = {
        **_audience_inputs(audience, inputs),
        **inputs,
        **inputs_of_belief(belief),
        **inputs_of_locale(store.locale),
        **inputs_of_program(plan, customers=len(audience), segment_sizes=decided.groups.segment_sizes),
        **_given_before(store, plan, audience),
        **holdout_inputs(plan, basis.secret),
    }
    return Planned(
        plan=plan,
        inputs=inputs,
        decisions=decision_table(
            audience,
            arms=decided.groups.arms,
            depths=plan.offered,
            choice=decided.choice,
            value=decided.value,
            expected_full_price=decided.expected_full_price,
            engagement=decided.engagement,
            belief=belief,
        ),
        contexts=audience.context,
        features=features,
        summary=PlanSummary(
            customers=len(audience),
            network=network,
            version=version,
            solution=solution_of(basis, plan, decided),
            arms=found.arms,
            total=None if found.total is None else found.total.money(np.asarray(plan.offered)),
            binding=binding_limits(basis, decided),
            warnings=(
                *notes,
                *launched_before(store, plan, plan_id(plan, inputs)),
                *key_warnings(plan),
                *(() if found.total is None else basis.past.waiting_words),
                *_sending_words(found.arms, store.locale.currency),
                *customer_limit_words(plan, basis.audience, belief, store.locale.currency),
                *audience_warnings(
                    belief,
                    audience,
                    np.asarray(plan.offered),
                    needs_belief=not plan.policy.assigns_at_random,
                    has_budget=plan.budget_amount is not None,
                    last_contexts=_last_contexts(store, plan.campaign, network),
                ),
            ),
            sources=sources or {},
            overspend_chance=overspend_chance(plan, decided, found.total),
            season=None if found.total is None else basis.past.season_words,
            left_out=left_out or None,
        ),
        planned_at=clock.now(),
    )


def _sending_words(arms: Mapping[Arm, ArmForecast], currency: Currency) -> tuple[str, ...]:
    """What sending the codes costs, where the plan names it."""
    costs = [group.contact_cost for group in arms.values() if group.contact_cost is not None]
    if not costs:
        return ()
    codes = sum(sum(group.codes.values()) for group in arms.values())
    cost = money(sum(costs), currency=currency)
    return (f"Sending {counted(codes, 'code')} costs {cost}, used or not. It is no markdown: no budget counts it.",)


def _audience_inputs(audience: Audience, there: Mapping[str, str]) -> dict[str, str]:
    """Hashes of the customers and their labels; those that are there need no second reading of all customers."""
    labels = {"segment": audience.segment, "channel": audience.channel}
    names = ("customers", *(name for name, given in labels.items() if given is not None))
    if all(name in there for name in names):
        return {name: there[name] for name in names}
    return {"customers": content_hash(pa.table({"customer_id": audience.ids})), **label_inputs(audience)}


def _given_before(store: Store, plan: Plan, audience: Audience) -> dict[str, str]:
    customers = pa.array(audience.ids).cast(pa.string())
    with store.reading() as transaction:
        contacts = contact_inputs(transaction, plan, customers)
        return {**contacts, **customer_limit_inputs(transaction, plan, customers)}


def _last_contexts(store: Store, campaign: str, network: str) -> Matrix | None:
    """Contexts of the known customers of the last other campaign under the same network."""
    with store.reading() as transaction:
        earlier = [
            record
            for record in transaction.plans.campaigns()
            if record.campaign != campaign and record.network == network
        ]
        if not earlier:
            return None
        last = max(earlier, key=lambda record: record.launched_at).campaign
        known = np.asarray(transaction.decisions.of(last)["known"].to_numpy(), np.bool_)
        return transaction.contexts.of(last, network, np.flatnonzero(known))


# ---- the verdict on tables and plans ----


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TablesVerdict(Result):
    """What is wrong with a retailer's tables."""

    clean: bool
    """Whether no problem was found."""
    as_of: date
    """The last day that dates may name."""
    rows: Mapping[str, int]
    """Rows of each table that was read."""
    count: int
    """Problems found."""
    problems: tuple[Problem, ...]
    """Every problem; a problem of several rows is named once, with its first row and their number."""
    notes: tuple[str, ...]
    """What was found in the files without being told: delimiters, encodings, names of columns."""
    warnings: tuple[str, ...]
    """What may be a mistake although every rule is kept."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanVerdict(Result):
    """A campaign plan that can be used; one that cannot is an error with every problem."""

    clean: bool
    """Whether no problem was found."""
    campaign: str
    """The name of the campaign."""
    depths: tuple[float, ...]
    """The depths offered."""
    valid_from: date
    """The first day of the codes."""
    valid_before: date
    """The day after their last."""
    eligible: int | None
    """Customers who meet its condition; null where no shop was there to look at."""
    warnings: tuple[str, ...]
    """What to know before it is planned."""

    @classmethod
    def of(cls, plan: Plan, *, eligible: int | None = None, warnings: tuple[str, ...] = ()) -> "PlanVerdict":
        return cls(
            clean=True,
            campaign=plan.campaign,
            depths=plan.offered,
            valid_from=plan.valid.start,
            valid_before=plan.valid.end,
            eligible=eligible,
            warnings=warnings,
        )


def validate_plan(data: ShopData, plan: Plan) -> PlanVerdict:
    """Also look at what the plan names: the table of customers, the condition, lists, limits, the pool of codes.

    Everything that can be seen without the database and without a solve. Customers who joined too late or were
    contacted too often are still among those counted here.
    """
    refuse_export(data, plan)
    refuse_fairness(data, plan)
    customers = check_audience(data, plan)
    # without the database its secret is not known; any other draws as many people, and only their number counts here
    groups = Groups.of(plan, customers.ids, segment=customers.segment, secret=b"any")
    offer = groups.offer(plan)
    warnings = (*customers.notes, *key_warnings(plan), *hour_warnings(plan, data.locale))
    pool = read_pool(data, plan)
    if pool is not None:
        codes = usable_codes(pool, shared=plan.shared_codes.values())
        least, most = _codes_at_launch(plan, offer, reached=groups.reached)
        refuse_too_few(len(codes), needed=least)
        if len(codes) < most:
            warnings += (f"The pool has {counted(len(codes), 'code')}; up to {most:,} may be needed at the launch.",)
    return PlanVerdict.of(plan, eligible=len(customers.ids), warnings=warnings)


def validate_plan_alone(plan: Plan) -> PlanVerdict:
    """The same where no shop is there to look at: what the plan says by itself."""
    refuse_floors_above_caps(plan)
    return PlanVerdict.of(plan, warnings=tuple(key_warnings(plan)))


def _codes_at_launch(plan: Plan, offer: Offer, *, reached: int) -> tuple[int, int]:
    """The fewest and the most codes of a pool that a launch needs; reached: customers outside the holdout."""
    own = np.array([depth not in plan.shared_codes for depth in offer.depths])
    caps = np.array([reached if cap is None else cap for cap in offer.caps])
    floors = np.array(offer.floors or np.zeros(own.size, np.int64))
    of_segments = np.array([limits.floors for limits in (offer.segments or {}).values()]).reshape(-1, own.size)
    floors = np.maximum(floors, of_segments.sum(axis=0))
    least, most = int(floors[own].sum()), min(int(caps[own].sum()), reached)
    counts = all(isinstance(section.at_most, int) for section in plan.depths.values())
    if plan.policy.assigns_at_random and offer.budget is None and offer.segments is None and counts:
        least = most if caps.sum() <= reached else least  # nothing keeps codes back
    return least, most
