"""Customers who arrive after the launch: decided one by one at the solve's prices, from what was kept back for them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.allocation import decide_late
from disco.campaign import Belief, allowed_depths, expected_costs, values_of
from disco.features import has_history
from disco.operations.arms import arms_of, holdout_secret
from disco.operations.audience import (
    CHANNEL,
    CONDITION,
    Selection,
    ShopData,
    codes_of_campaigns,
    codes_of_table,
    customer_ids,
    eligible_rows,
    features_of_day,
    labels_of,
    refusal,
    refuse_strangers,
)
from disco.operations.codes import CodePool, codes_for, read_pool, sent_codes
from disco.operations.customer_limit import markdown_left
from disco.operations.learn import deciding_belief, stored_evidence
from disco.operations.plan import coded_rows, decision_table, with_codes
from disco.operations.site import Site
from disco.policy import policy_of
from disco.records.arrays import Flags, Floats, Integers, Matrix, Vector
from disco.records.campaign_records import CampaignRecord, State
from disco.records.cells import flags
from disco.records.decisions import Arm, Audience
from disco.records.errors import DiscoError, InputError, StateError
from disco.records.identity import customer_keys, uniforms
from disco.records.locale import Locale
from disco.records.plan import Plan, is_channel
from disco.records.plan_summary import Solution
from disco.records.ports import Clock
from disco.records.result import NotInJson, Result, TableResult
from disco.store import Store, Transaction
from disco.store.contexts import ARRIVALS, Arrivals

_UNLIMITED = 2**40
_MOST_NOTED = 20  # customers whose pseudonyms an entry of the journal names


@dataclass(frozen=True, slots=True, kw_only=True)
class LateDecision:
    """The decision about one customer who arrived after the launch."""

    customer_id: str | int
    """The customer."""
    depth: float | None
    """Null: no code."""
    code: str | None
    """The code; null: none."""
    known: bool
    """Whether their context is from their own year of purchases, and not the population's."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LateArrivals(TableResult):
    """Decisions about customers who arrived after the launch, in the order asked for. As a table: one row each."""

    campaign: str
    """The name of the campaign."""
    decisions: tuple[LateDecision, ...]
    """One entry per customer."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""
    rows: NotInJson[pa.Table]

    def to_arrow(self) -> pa.Table:
        return self.rows


def late_arrivals(
    site: Site, campaign: str, customers: Sequence[str], *, secret: bytes | None = None, dry_run: bool = False
) -> LateArrivals:
    """Decide about these customers, who arrive on the clock's day; all of them or none.

    What a server prepares for everybody is made for these customers alone, and then they are decided about as there.
    """
    asked = pa.array(customers, pa.string())
    with site.store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        settled = transaction.decisions.of(campaign, customers=asked)["customer_id"]
    refuse_when_over(record, site.clock, site.store.locale)  # before features are built; asked again when it is written
    fresh = asked.filter(pc.invert(pc.is_in(asked, value_set=settled.cast(pa.string()).combine_chunks())))
    prepared, notes = load_arrivals(site, record, only=fresh) if len(fresh) else (None, ())
    rows = decide_arrivals(
        site.store,
        campaign,
        customers,
        prepared,
        prior=site.prior,
        clock=site.clock,
        pool=read_pool(site.data, record.plan),
        secret=secret,
        dry_run=dry_run,
    )
    rows = as_sent(record.plan, rows)
    return LateArrivals(campaign=campaign, decisions=late_decisions(rows), warnings=notes, dry_run=dry_run, rows=rows)


def as_sent(plan: Plan, decided: pa.Table) -> pa.Table:
    """Decisions with the codes that customers see."""
    return decided.set_column(decided.schema.get_field_index("code"), "code", sent_codes(plan, decided))


def late_decisions(decided: pa.Table) -> tuple[LateDecision, ...]:
    """Decisions, with codes as they are sent, one by one."""
    names = [one.name for one in fields(LateDecision)]
    return tuple(LateDecision(**row) for row in decided.select(names).to_pylist())


def decide_arrivals(
    store: Store,
    campaign: str,
    customers: Sequence[str],
    prepared: Arrivals | None,
    *,
    prior: Belief,
    clock: Clock,
    pool: Sequence[str] | None = None,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> pa.Table:
    """The decisions of these customers, in their order; who was decided before gets that decision again.

    All of them or none: an error names the customers who may get no code for the first reason there is. prepared: of
    those who have no decision yet; None: there are none. pool: codes bought elsewhere, where the plan names a pool.
    """
    ids = pa.array(customers, pa.string())
    with store.writing(campaign, action="late", dry_run=dry_run) as transaction:
        record = transaction.plans.campaign(campaign)
        refuse_when_over(record, clock, transaction.locale)
        decided = transaction.decisions.of(campaign, customers=ids)
        settled = set(decided["customer_id"].cast(pa.string()).to_pylist())
        fresh = [name for name in customers if name not in settled]
        if fresh and prepared is not None:
            reasons = _reasons_against(transaction, record, fresh, prepared, clock=clock, others=CONDITION)
            for key in _KEYS:
                if named := [name for name in fresh if reasons.get(name) == key]:
                    raise _refusal(record, key, named)
            model = _DecisionModel.of(transaction, record, prior=prior, pool=pool)
            tally = LateTally().up_to_date(transaction, record)
            _keep(transaction, record, fresh, prepared, model=model, tally=tally, secret=secret, clock=clock)
            decided = transaction.decisions.of(campaign, customers=ids)
    return decided.take(pc.index_in(ids, value_set=decided["customer_id"].cast(pa.string()).combine_chunks()))


# why somebody gets no code, in the order in which a command names them
_FORGOTTEN = "forgotten"
_KEYS = (CONDITION, "include", "exclude", "contact", CHANNEL, _FORGOTTEN)


def _refusal(record: CampaignRecord, key: str, customers: Sequence[str]) -> DiscoError:
    """The error about late arrivals who get no code for this reason."""
    if key != _FORGOTTEN:
        return refusal(record.plan, key, customers)
    more = f" (and {len(customers) - 1:,} more)" if customers[1:] else ""
    return StateError(
        f"Customer {customers[0]}{more} was forgotten after campaign {record.campaign} was launched, so they get "
        "no code of it",
        fix="Leave them out; campaigns that are launched from now on may include them.",
    )


def _reasons_against(
    transaction: Transaction,
    record: CampaignRecord,
    customers: Sequence[str],
    prepared: Arrivals,
    *,
    clock: Clock,
    others: str | None,
    plans: dict[str, Plan] | None = None,
) -> dict[str, str]:
    """By customer who gets no code: the reason. Whoever was forgotten may hold a code under another name.

    others: the reason of those who are not among the prepared ones; None: they may get one. plans: as in `LateDesk`.
    """
    reasons = dict.fromkeys(transaction.forgotten.among(customers, since=record.launched_at), _FORGOTTEN)
    day = sent_on(record, transaction.locale.day_of(clock.now()))
    asked = pa.array(customers, pa.string())
    sent = codes_of_campaigns(transaction, record.plan, asked, day=day, plans={} if plans is None else plans)
    rows = {str(row["customer_id"]): row for row in prepared.customers.to_pylist()}
    for name in customers:
        row = rows.get(name)
        key = others if row is None else row["left_out"]
        contact = record.plan.contact
        if key is None and contact is not None:
            own = 0 if row is None else row["own_codes"]
            key = "contact" if sent[name] + own >= contact.at_most else None
        if key is not None:
            reasons.setdefault(name, key)
    return reasons


def _keep(
    transaction: Transaction,
    record: CampaignRecord,
    customers: Sequence[str],
    prepared: Arrivals,
    *,
    model: "_DecisionModel",
    tally: "LateTally",
    secret: bytes | None,
    clock: Clock,
) -> pa.Table:
    """Decide about customers who have no decision and may get a code, and write everything that is kept of it: their
    decisions, with their own codes."""
    refuse_other_network(transaction, record, prepared.network)
    audience, features = _audience(record, prepared, customers)
    day = sent_on(record, transaction.locale.day_of(clock.now()))
    audience = replace(audience, markdown_left=markdown_left(transaction, record.plan, audience.ids, day=day))
    table = _decisions(transaction, record, audience, model.belief, tally)
    coded = table.take(pa.array(coded_rows(table)))
    given, depths = coded["customer_id"].to_pylist(), coded["depth"].to_pylist()
    codes = codes_for(transaction.decisions, record.plan, given, depths, pool=model.pool, secret=secret, late=True)
    decided = with_codes(table, codes)
    transaction.decisions.add_late(
        record.campaign,
        decided,
        contexts=audience.context,
        features=features,
        pooled=model.pool is not None,
    )
    _count_codes(transaction, record, table, audience.context)
    some = table["customer_id"].slice(0, _MOST_NOTED).cast(pa.string()).to_pylist()
    known = transaction.journal.pseudonyms(some)
    transaction.journal.note(customers=table.num_rows, codes=len(codes), pseudonyms=known)
    return decided


def is_over(record: CampaignRecord, clock: Clock, locale: Locale) -> bool:
    """Whether nobody gets a code of a campaign any more, or at the moment."""
    ended = clock.now() >= locale.moment(record.plan.valid.closes)
    return ended or record.recalled_at is not None or record.state is not State.LAUNCHED


def refuse_when_over(record: CampaignRecord, clock: Clock, locale: Locale) -> None:
    if record.recalled_at is not None:
        words = f"Campaign {record.campaign} was recalled on {record.recalled_at:%Y-%m-%d}, so nobody gets a code of it"
        raise StateError(words, fix="Leave them for the next campaign.")
    over = clock.now() >= locale.moment(record.plan.valid.closes)
    if record.state is not State.LAUNCHED or over:
        found = str(record.state) if record.state is not State.LAUNCHED else f"over since {record.plan.valid.closes}"
        raise StateError(f"campaign {record.campaign}", found=found, expected="a launched campaign that still runs")


def sent_on(record: CampaignRecord, today: date) -> date:
    """The day on which somebody who arrives today, by the clock of the shop, is sent a code."""
    return max(today, record.plan.valid.start)


def refuse_other_network(transaction: Transaction, record: CampaignRecord, network: str) -> None:
    if network != record.network or transaction.beliefs.networks(record.campaign) != (record.network,):
        raise _other_network(record)


def _other_network(record: CampaignRecord) -> StateError:
    return StateError(
        f"campaign {record.campaign}",
        found="another context network than it was decided with",
        expected=f"network {record.network[:12]}",
        fix="Late arrivals need the network of the launch; after a retraining they wait for the next campaign.",
    )


def _decisions(
    transaction: Transaction, record: CampaignRecord, audience: Audience, belief: Belief, tally: "LateTally"
) -> pa.Table:
    """One after the other, each from what those before left; the codes are taken from the reserve."""
    plan, solution = record.plan, record.solution
    depths = np.asarray(solution.depths)
    worth = _Worth.of(record, solution, audience, belief)
    # what is kept of a code given: a row's and a depth's figures depend on no other (but `monotone`, in both alike)
    full_prices = belief.basket.expected_full_price(audience.context, depths)
    rates = np.broadcast_to(belief.rates(audience, depths), full_prices.shape)
    arms = arms_of(plan, audience.ids, secret=holdout_secret(transaction, plan), late=True)
    budget, by_segment = tally.budget_left(solution), tally.segments_left(solution)
    left = transaction.decisions.reserve(plan.campaign)
    in_reserve = [_UNLIMITED if (codes := left[depth]) is None else codes for depth in solution.depths]
    choice = np.full(len(audience), -1, np.int64)
    for row in np.flatnonzero(~arms[Arm.HOLDOUT]).tolist():
        remaining, prices = in_reserve, worth.prices
        label = "" if audience.segment is None else str(audience.segment[row])
        if label in by_segment:
            remaining = [min(pair) for pair in zip(remaining, by_segment[label], strict=True)]
            own = (solution.segments or {})[label].prices
            prices = prices if own is None else prices + np.asarray(own)
        allowed = worth.values[row] > -np.inf
        column = decide_late(
            np.where(allowed, worth.values[row], 0.0),
            prices,
            remaining,
            costs=worth.costs[row],
            budget_price=solution.budget_price,
            remaining_budget=budget,
            eligible=allowed,
            customer_id=audience.ids[row],
        )
        if column >= 0:
            choice[row] = column
            in_reserve[column] -= 1
            if label in by_segment:
                by_segment[label][column] -= 1
            if budget is not None:
                # the figure that a tally of the kept decision gives, to the last bit, so that it makes no difference
                # how many customers are decided in one transaction; before any purchase nothing is kept
                kept = _kept_cost(full_prices[row, column], rates[row, column], solution, column)
                budget -= kept if belief.basket.campaigns else worth.costs[row, column]
    for column in np.unique(choice[choice >= 0]).tolist():
        count = int((choice == column).sum())
        if not transaction.decisions.take_code(plan.campaign, solution.depths[column], count=count):
            raise StateError(f"The reserve of campaign {plan.campaign} changed while customers were decided about")
    return decision_table(
        audience,
        arms=arms,
        depths=solution.depths,
        choice=choice,
        value=worth.at(choice),
        expected_full_price=np.asarray(full_prices[np.arange(choice.size), choice], np.float64),
        engagement=np.asarray(rates[np.arange(choice.size), choice], np.float64),
        belief=belief,
    )


def _kept_cost(full_price: float | None, rate: float | None, solution: Solution, column: int) -> float:
    factor = 1.0 if solution.cost_factors is None else solution.cost_factors[column]
    return float(full_price or 0.0) * float(rate or 0.0) * solution.depths[column] * factor


@dataclass(frozen=True, slots=True, eq=False)
class _Worth:
    """Values and expected markdown as the budget counts it per (customer, depth), prices per depth."""

    values: Floats
    costs: Floats
    prices: Floats
    at_random: bool  # the values are random numbers and worth nothing in money

    @classmethod
    def of(cls, record: CampaignRecord, solution: Solution, audience: Audience, belief: Belief) -> "_Worth":
        """As the campaign was decided; where depths were assigned at random, random values without prices."""
        plan, depths = record.plan, np.asarray(solution.depths)
        offer = solution.offer(revenue_weight=plan.objective.revenue_weight)
        costs = expected_costs(audience, belief=belief, offer=offer)
        if solution.prices is None:
            keys = customer_keys(audience.ids)
            drawn = np.column_stack(
                [uniforms(keys, plan.seed, plan.campaign, "late", column) for column in range(depths.size)]
            )
            allowed = allowed_depths(audience, belief=belief, depths=depths)
            return cls(
                drawn if allowed is None else np.where(allowed, drawn, -np.inf),
                costs,
                np.zeros(depths.size),
                at_random=True,
            )
        sending = plan.contact_costs(audience.channel, customers=len(audience))
        values = values_of(
            replace(audience, contact_cost=sending),
            belief=belief,
            depths=depths,
            revenue_weight=offer.revenue_weight,
            policy=policy_of(plan),
            seed=plan.seed,
            campaign=plan.campaign,
        )
        return cls(values, costs, np.asarray(solution.prices), at_random=False)

    def at(self, choice: Integers) -> Vector:
        """The value of what was chosen; 0 without a code, and where depths are assigned at random."""
        chosen = self.values[np.arange(choice.size), choice]
        return np.where((choice < 0) | self.at_random, 0.0, chosen).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTally:
    """What late arrivals of a campaign got so far, as far as its budget and its segments' limits ask for it.

    It follows from the kept decisions alone. Whoever keeps one reads only what was added since (`up_to_date`).
    """

    seal: str | None = None
    """Names the late arrivals that are counted (`SqlDecisions.late_seal`)."""
    next_row: int = 0
    """Decisions from this row on are not counted."""
    given: Mapping[tuple[str | None, float], int] = field(default_factory=dict)
    """Codes by label and depth."""
    spent: float = 0.0
    """Expected markdown, in the model's own units: added one after the other, in the order of the decisions."""

    def up_to_date(self, transaction: Transaction, record: CampaignRecord) -> "LateTally":
        """With everybody who is decided now."""
        solution = record.solution
        if solution.reserve_budget is None and solution.segments is None:
            return self  # nobody asks
        seal = transaction.decisions.late_seal(record.campaign)
        if seal == self.seal:
            return self
        late = transaction.decisions.of(record.campaign, only_late=True, from_row=self.next_row)
        rows = late["row"].to_pylist()
        return self._with(late, solution, seal=seal, next_row=rows[-1] + 1 if rows else self.next_row)

    def with_kept(self, transaction: Transaction, record: CampaignRecord, decided: pa.Table) -> "LateTally":
        """After these customers, and nobody else, were decided about in the transaction."""
        solution = record.solution
        if solution.reserve_budget is None and solution.segments is None:
            return self
        seal, next_row = transaction.decisions.late_seal(record.campaign), self.next_row + decided.num_rows
        # only the rows of the database tell the number of the first one
        return self._with(decided, solution, seal=seal, next_row=next_row) if self.next_row else self

    def _with(self, late: pa.Table, solution: Solution, *, seal: str | None, next_row: int) -> "LateTally":
        given, spent = Counter(self.given), self.spent
        late = late.filter(late["code"].is_valid())
        labels = late["segment"].to_pylist() if "segment" in late.column_names else [None] * late.num_rows
        names = ("depth", "expected_full_price", "expected_engagement")
        for label, depth, price, rate in zip(labels, *(late[name].to_pylist() for name in names), strict=True):
            given[label, depth] += 1
            spent += _kept_cost(price, rate, solution, solution.depths.index(depth))
        return LateTally(seal=seal, next_row=next_row, given=given, spent=spent)

    def segments_left(self, solution: Solution) -> dict[str, list[int]]:
        """By label: codes per depth that late arrivals of the segment may still get."""
        return {
            label: [
                _UNLIMITED if codes is None else codes - self.given.get((label, depth), 0)
                for depth, codes in zip(solution.depths, segment.reserve, strict=True)
            ]
            for label, segment in (solution.segments or {}).items()
        }

    def budget_left(self, solution: Solution) -> float | None:
        """Expected markdown that late arrivals may still cost, in the model's own units; None: there is no budget."""
        if solution.reserve_budget is None:
            return None
        return float(solution.reserve_budget / solution.budget_factor - self.spent)


def _count_codes(transaction: Transaction, record: CampaignRecord, table: pa.Table, contexts: Matrix) -> None:
    rows = coded_rows(table)
    kept = stored_evidence(transaction, record.campaign, record.network)
    if rows.size and kept is not None:
        more = kept.with_late(table["depth"].take(pa.array(rows)).to_numpy(), contexts[rows])
        transaction.beliefs.put_evidence(record.campaign, record.network, more.to_bytes())


def late_so_far(store: Store, campaign: str) -> tuple[LateDecision, ...]:
    """Everybody who arrived after the launch, in the order of their decisions."""
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        decided = transaction.decisions.of(campaign, only_late=True)
    return late_decisions(as_sent(record.plan, decided))


# ---- at the speed of a checkout ----
#
# From what is prepared, several customers in one short transaction.
#
# A desk keeps in memory only what never changes: the plan's model, plans of other campaigns, the pool of codes, and a
# tally that is named by the seal of what it counts. State, reserve, earlier decisions and what is prepared are read
# in the transaction, so any number of processes may decide at once
# (docs/decisions/110-late-arrivals-at-a-checkout.md).

_LONGEST_ID = 200  # characters


class NotPreparedError(StateError):
    """The contexts of a campaign's late arrivals are not prepared yet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _DecisionModel:
    """What decides, and never changes."""

    belief: Belief
    """The belief that decided the launch."""
    pool: CodePool | None
    """The codes bought elsewhere; None: codes are made."""

    @classmethod
    def of(
        cls, transaction: Transaction, record: CampaignRecord, *, prior: Belief, pool: Sequence[str] | None
    ) -> "_DecisionModel":
        shared = record.plan.shared_codes.values()
        return cls(
            belief=deciding_belief(transaction, record, prior=prior),
            pool=None if pool is None else CodePool(pool, shared=shared),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LateDesk:
    """What is kept of one campaign between transactions."""

    record: CampaignRecord
    """The campaign as it was read first. Its plan never changes; its state is read in every transaction."""
    model: _DecisionModel | None = None
    """Read when somebody is decided about for the first time."""
    tally: LateTally = field(default_factory=LateTally)
    """What late arrivals got, as far as it was read."""
    plans: dict[str, Plan] = field(default_factory=dict)
    """By campaign: the plans that the contact rule looks at; they never change, and new ones are added."""


def look_up(
    store: Store, campaign: str, customers: Sequence[str], *, desk: LateDesk | None, clock: Clock
) -> tuple[dict[str, LateDecision | DiscoError], LateDesk]:
    """By customer: what was decided before, where it was; nothing is written.

    desk: what the last call about this campaign returned; None at first. DiscoError where nobody can be decided about,
    because the campaign is over.
    """
    with store.reading() as transaction:
        plans = transaction.plans
        transaction.decisions.read_ahead(campaign, _usable(customers), deciding=False)
        record = plans.campaign(campaign) if desk is None else plans.standing(desk.record)
        refuse_when_over(record, clock, store.locale)
        answers: dict[str, LateDecision | DiscoError] = dict(_decided(transaction, record, customers))
    if desk is None or desk.record.plan_id != record.plan_id:
        desk = LateDesk(record=record)
    return answers, desk


def decide_new(
    store: Store,
    data: ShopData,
    customers: Sequence[str],
    *,
    desk: LateDesk,
    prior: Belief,
    clock: Clock,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> tuple[dict[str, LateDecision | DiscoError], LateDesk]:
    """By customer: the decision, or why there is none, for those whom `look_up` did not find; in one transaction.

    A customer whom the shop does not know has the population's context. desk: what `look_up` returned, or the last
    call. DiscoError where nobody can be decided about: the campaign is over, or not prepared.
    """
    with store.writing(desk.record.campaign, action="late", dry_run=dry_run) as transaction:
        transaction.decisions.read_ahead(desk.record.campaign, _usable(customers), deciding=True)
        record = transaction.plans.standing(desk.record)
        if record.plan_id != desk.record.plan_id:
            desk = LateDesk(record=record)
        refuse_when_over(record, clock, store.locale)
        answers: dict[str, LateDecision | DiscoError] = dict(_decided(transaction, record, customers))  # meanwhile
        answers |= _unusable(record, customers)
        model = desk.model
        if model is None:
            model = _DecisionModel.of(transaction, record, prior=prior, pool=read_pool(data, record.plan))
        tally = desk.tally.up_to_date(transaction, record)
        desk = replace(desk, model=model, tally=tally)
        fresh = [name for name in customers if name not in answers]
        if fresh:
            prepared = _prepared(transaction, record, fresh)
            others = "include" if prepared.only_listed else None
            reasons = _reasons_against(
                transaction, record, fresh, prepared, clock=clock, others=others, plans=desk.plans
            )
            answers |= {name: _refusal(record, key, [name]) for name, key in reasons.items()}
            if fresh := [name for name in fresh if name not in reasons]:
                decided = _keep(
                    transaction, record, fresh, prepared, model=model, tally=tally, secret=secret, clock=clock
                )
                answers |= {str(one.customer_id): one for one in late_decisions(as_sent(record.plan, decided))}
                tally = tally.with_kept(transaction, record, decided)
    # what a rehearsal gave is not given
    return answers, desk if dry_run else replace(desk, tally=tally)


def _prepared(transaction: Transaction, record: CampaignRecord, customers: Sequence[str]) -> Arrivals:
    prepared = transaction.arrivals.of(record.campaign, pa.array(customers, pa.string()))
    if prepared is None:
        raise NotPreparedError(
            f"The contexts of campaign {record.campaign} are not prepared",
            fix=f"Run `disco contexts {record.campaign}`, or wait for the job `contexts`.",
        )
    return prepared


def _audience(record: CampaignRecord, prepared: Arrivals, ids: Sequence[str]) -> tuple[Audience, pa.Table]:
    """These customers with their features; the population's context, and no features, where the shop has none."""
    there = prepared.customers["customer_id"].cast(pa.string()).combine_chunks()
    at = pc.index_in(pa.array(ids, pa.string()), value_set=there).cast(pa.int64())
    found = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
    customers, own = prepared.customers.take(at), prepared.take(at.drop_null().to_numpy())
    context = np.zeros((len(ids), prepared.contexts.shape[1]))
    context[found] = own.contexts
    place = np.full(len(ids), -1, np.int64)
    place[found] = np.arange(found.size)
    plan, kind = record.plan, prepared.features.schema.field("customer_id").type
    names = pa.array(ids, pa.string())
    features = own.features.take(pa.array(place, mask=place < 0))
    features = features.set_column(features.schema.get_field_index("customer_id"), "customer_id", names.cast(kind))
    labels = {
        name: np.array([label or "" for label in customers[name].to_pylist()], object)
        for name in ("segment", "channel")
    }
    audience = Audience(
        ids=names.cast(pa.int64()).to_numpy() if record.integer_ids else np.array(ids, object),
        context=context,
        known=np.array([bool(known) for known in customers["known"].to_pylist()], np.bool_),
        segment=None if plan.segments is None else labels["segment"],
        channel=None if plan.channel_column is None else labels["channel"],
    )
    return audience, features


def _decided(transaction: Transaction, record: CampaignRecord, customers: Sequence[str]) -> dict[str, LateDecision]:
    if not customers:
        return {}
    shared = record.plan.shared_codes
    return {
        name: LateDecision(
            customer_id=int(name) if record.integer_ids else name,
            depth=told.depth,
            code=told.code if told.code is None or told.depth is None else shared.get(told.depth, told.code),
            known=told.known,
        )
        for name, told in transaction.decisions.told(record.campaign, _usable(customers)).items()
    }


def _usable(customers: Sequence[str]) -> list[str]:
    """Those whom a database can be asked about."""
    return [name for name in customers if "\0" not in name]


def _unusable(record: CampaignRecord, customers: Sequence[str]) -> dict[str, DiscoError]:
    """Ids that no customer of this campaign can have. A shop without this id in its tables would get a code for it."""
    found: dict[str, DiscoError] = {}
    for name in customers:
        if not name.strip() or len(name) > _LONGEST_ID or not name.isprintable():
            expected = f"the id of a customer: 1 to {_LONGEST_ID} printable characters"
            found[name] = InputError("customer_id", found=repr(name[:40]), expected=expected)
        elif record.integer_ids and not _is_integer(name):
            expected = "a whole number: the ids of this shop's customers are"
            found[name] = InputError("customer_id", found=repr(name[:40]), expected=expected)
    return found


def _is_integer(text: str) -> bool:
    try:
        return str(int(text)) == text and abs(int(text)) < 2**63
    except ValueError:
        return False


# ---- what is prepared ----
#
# For customers who arrive after a launch: contexts and reasons of all who have no decision yet.
#
# It is made at the launch and again by the job `contexts`, so that an arrival is decided without a look at the shop's
# tables (`decide_at_desk`). The rules are those of `disco late`: the same condition, lists, features and labels
# (docs/decisions/110-late-arrivals-at-a-checkout.md).

_JUDGED = 4_096  # customers by whom it is judged whether features are in the units of the network's training


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCampaign:
    """A campaign whose late arrivals can be decided at once."""

    campaign: str
    """The name of the campaign."""
    as_of: date
    """The features of its customers are those of this day."""
    customers: int
    """Customers of the shop without a decision who may get a code."""
    with_features: int
    """Those of them whose own features are prepared; the others have the population's context."""
    left_out: int
    """Customers of the shop without a decision whom the plan leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PreparedArrivals(Result):
    """The campaigns whose late arrivals were prepared."""

    campaigns: tuple[PreparedCampaign, ...]
    """One entry per running campaign."""
    warnings: tuple[str, ...]
    """What to know, in sentences; such as a campaign that could not be prepared."""


def prepare_arrivals(site: Site, campaign: str | None = None) -> PreparedArrivals:
    """Prepare one campaign, or all that run and hold something in reserve, as of the clock's day.

    A campaign that is named and cannot be prepared is an error; of all, it is a warning.
    """
    store = site.store
    with store.reading() as transaction:
        names = transaction.plans.names() if campaign is None else (campaign,)
        records = [transaction.plans.campaign(name) for name in names]
    if campaign is None:
        running = [one for one in records if not is_over(one, site.clock, store.locale)]
        records = [one for one in running if one.plan.reserve.share > 0]
    done: list[PreparedCampaign] = []
    warnings: list[str] = []
    for record in records:
        try:
            arrivals, notes = load_arrivals(site, record)
        except DiscoError as error:
            if campaign is not None:
                raise
            warnings.append(f"Campaign {record.campaign} was not prepared: {error}")
            continue
        # a subject of its own: late arrivals are decided meanwhile, with what was prepared before
        with store.writing(f"arrivals {record.campaign}", action="contexts") as transaction:
            transaction.arrivals.put(record.campaign, arrivals)
        warnings += notes
        may = int(arrivals.customers["left_out"].null_count)
        done.append(
            PreparedCampaign(
                campaign=record.campaign,
                as_of=arrivals.day,
                customers=may,
                with_features=len(arrivals.contexts),
                left_out=arrivals.customers.num_rows - may,
            )
        )
    return PreparedArrivals(campaigns=tuple(done), warnings=tuple(dict.fromkeys(warnings)))


def load_arrivals(
    site: Site, record: CampaignRecord, *, only: pa.Array | None = None
) -> tuple[Arrivals, tuple[str, ...]]:
    """Customers without a decision as of the clock's day, as `audience.load_audience` reads them; and what to know.

    only: the ids, as text, of those who are wanted; None: everybody.
    """
    store, data, plan = site.store, site.data, record.plan
    day, network = store.locale.day_of(site.clock.now()), data.network()
    if data.network_hash() != record.network:
        raise _other_network(record)
    rows = eligible_rows(data, plan)
    selection = Selection.of(data, plan, contacted=None)
    shop = only.cast(pa.large_string()) if only is not None else _without_decision(store, data, record)
    reasons = _reasons(shop, rows["customer_id"].combine_chunks(), selection)
    if only is not None:
        refuse_strangers(data, plan, shop.filter(reasons.is_null()))

    everybody, snapshot, notes = features_of_day(data, network, day, cache=site.cache)
    wanted = shop.filter(reasons.is_null())
    ids_there = everybody["customer_id"].cast(pa.large_string())
    features = everybody.filter(flags(pc.is_in(ids_there, value_set=wanted))).read()
    # judged by everybody, because customers who joined lately may spend otherwise as a whole
    network.transform(everybody.head(_JUDGED), snapshot=snapshot, engine=site.engine)
    known = has_history(features)
    embedded = features["customer_id"].cast(pa.large_string()).combine_chunks()

    # those with features first, then everybody else of the shop, then ids that only a list names
    rest = flags(pc.invert(pc.is_in(shop, value_set=embedded)))
    listed, of_list = _listed(selection) if only is None else (shop[:0], reasons[:0])
    ids = pa.concat_arrays([embedded, shop.filter(pa.array(rest)), listed])
    left_out = pa.concat_arrays([pa.nulls(len(embedded), pa.string()), reasons.filter(pa.array(rest)), of_list])
    segment, channel = labels_of(plan, rows, pa.table({"customer_id": ids}))
    if channel is not None:
        unusable = ~np.array([is_channel(name) for name in channel.tolist()], np.bool_)
        unusable[len(ids) - len(listed) :] = False  # whom the shop does not know gets the code where they are
        left_out = pc.if_else(pc.and_(left_out.is_null(), pa.array(unusable)), CHANNEL, left_out)
    own = codes_of_table(store, data, plan, day=sent_on(record, day))
    columns = {
        "customer_id": ids,
        "left_out": left_out,
        "known": pa.array(np.concatenate([known, np.zeros(len(ids) - known.size, np.bool_)])),
        "segment": _label_column(segment, len(ids)),
        "channel": _label_column(channel, len(ids)),
        "own_codes": pa.array([own[name] for name in ids.to_pylist()] if own else np.zeros(len(ids)), pa.int32()),
    }
    customers = pa.table([columns[name] for name in ARRIVALS.names], names=ARRIVALS.names)
    arrivals = Arrivals(
        day=day,
        network=record.network,
        customers=_typed(customers, integers=record.integer_ids),
        contexts=network.transform(features, snapshot=snapshot, check_scale=False, engine=site.engine),
        features=features,
        only_listed=plan.include is not None,
    )
    return arrivals, (*selection.notes, *notes)


def _without_decision(store: Store, data: ShopData, record: CampaignRecord) -> pa.Array:
    """The ids of the shop's customers who have no decision in the campaign, as text."""
    with store.reading() as transaction:
        decided = transaction.decisions.of(record.campaign)["customer_id"].cast(pa.large_string()).combine_chunks()
    shop = customer_ids(data)
    return shop.filter(pc.invert(pc.is_in(shop, value_set=decided)))


def _reasons(shop: pa.Array, eligible: pa.Array, selection: Selection) -> pa.Array:
    """(n,) the key of the plan that leaves a customer out, by the first reason; null: none does."""
    reasons = pc.if_else(pc.is_in(shop, value_set=eligible), pa.scalar(None, pa.string()), CONDITION)
    for step in selection.steps:
        reasons = pc.if_else(pc.and_(reasons.is_null(), pc.invert(step.stay(shop))), step.key, reasons)
    return reasons


def _listed(selection: Selection) -> tuple[pa.Array, pa.Array]:
    """Ids on a list that are no customers of the shop: those on `include` may get a code, those on `exclude` not."""
    reasons: dict[str, str | None] = {}
    for step in selection.steps:
        for name in step.others.to_pylist():
            reasons[name] = None if step.keeps else step.key
    return pa.array(list(reasons), pa.large_string()), pa.array(list(reasons.values()), pa.string())


def _label_column(
    labels: "Sequence[str] | np.ndarray[tuple[int], np.dtype[np.object_]] | None", count: int
) -> pa.Array:
    if labels is None:
        return pa.nulls(count, pa.string())
    return pa.array([label or None for label in labels], pa.string())


def _typed(customers: pa.Table, *, integers: bool) -> pa.Table:
    """Ids as the campaign has them. A text on a list that is no number can be nobody's id where ids are numbers."""
    if not integers:
        return customers
    numbers: Flags = flags(pc.match_substring_regex(customers["customer_id"], r"^(0|-?[1-9][0-9]{0,17})$"))
    kept = customers.filter(pa.array(numbers))
    return kept.set_column(0, "customer_id", kept["customer_id"].cast(pa.int64()))
