"""Customers who arrive after the launch: decided one by one at the solve's prices, from what was kept back for them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.allocation import decide_late
from disco.campaign import Belief, expected_costs, values_of
from disco.operations import campaign_evidence
from disco.operations.arms import arms_of, holdout_secret
from disco.operations.audience import ShopData, contacted, contacted_by_campaigns, load_audience
from disco.operations.codes import CodePool, codes_for, read_pool, sent_codes
from disco.operations.contexts import FeatureCache
from disco.operations.plan import coded_rows, decision_table, with_codes
from disco.operations.versions import deciding_belief
from disco.policy import policy_of
from disco.records.arrays import Floats, Integers, Matrix, Vector
from disco.records.decisions import Arm, Audience
from disco.records.errors import StateError
from disco.records.identity import customer_keys, uniforms
from disco.records.life import CampaignRecord, State
from disco.records.locale import Locale
from disco.records.plan import Plan
from disco.records.plan_summary import Solution
from disco.records.ports import Clock, Engine
from disco.records.result import NotInJson, TableResult
from disco.store import Store, Transaction

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
    store: Store,
    data: ShopData,
    campaign: str,
    customers: Sequence[str],
    *,
    prior: Belief,
    clock: Clock,
    cache: FeatureCache,
    engine: Engine | None = None,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> LateArrivals:
    """Decide about these customers, who arrive on the clock's day."""
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        settled = transaction.decisions.of(campaign, customers=pa.array(customers, pa.string()))["customer_id"]
    refuse_when_over(record, clock, store.locale)  # before features are built; asked again when it is written
    today = store.locale.day_of(clock.now())
    loaded = load_audience(
        data,
        record.plan,
        cache=cache,
        engine=engine,
        as_of=today,
        only=customers,
        settled=settled.cast(pa.string()).cast(pa.large_string()).combine_chunks(),
        contacted=contacted(
            store, data, record.plan, day=sent_on(record, today), customers=pa.array(customers, pa.string())
        ),
    )
    decided = decide_late_arrivals(
        store,
        campaign,
        loaded.audience,
        network=loaded.network,
        prior=prior,
        clock=clock,
        pool=read_pool(data, record.plan),
        secret=secret,
        features=loaded.features,
        dry_run=dry_run,
    )
    decided = as_sent(record.plan, decided)
    return LateArrivals(
        campaign=campaign,
        decisions=late_decisions(decided),
        warnings=loaded.notes,
        dry_run=dry_run,
        rows=decided,
    )


def as_sent(plan: Plan, decided: pa.Table) -> pa.Table:
    """Decisions with the codes that customers see."""
    return decided.set_column(decided.schema.get_field_index("code"), "code", sent_codes(plan, decided))


def late_decisions(decided: pa.Table) -> tuple[LateDecision, ...]:
    """Decisions, with codes as they are sent, one by one."""
    names = [one.name for one in fields(LateDecision)]
    return tuple(LateDecision(**row) for row in decided.select(names).to_pylist())


def decide_late_arrivals(
    store: Store,
    campaign: str,
    audience: Audience,
    *,
    network: str,
    prior: Belief,
    clock: Clock,
    features: pa.Table | None = None,
    pool: Sequence[str] | None = None,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> pa.Table:
    """The decisions of these customers, in their order; who was decided before gets that decision again.

    Whoever falls into the holdout gets no code; everybody else the depth that is worth most above its price, as long as
    the reserve has one. In a random campaign the depth is drawn among those that are left. `network` embedded them;
    their `features`, one row per customer in the same order, are kept for another network.
    """
    ids = pa.array(audience.ids).cast(pa.string())
    with store.writing(campaign, action="late", dry_run=dry_run) as transaction:
        record = transaction.plans.campaign(campaign)
        refuse_when_over(record, clock, transaction.locale)
        _refuse_forgotten(transaction, record, ids)
        refuse_other_network(transaction, record, network)
        decided = transaction.decisions.of(campaign, customers=ids)
        fresh = pc.invert(pc.is_in(ids, value_set=decided["customer_id"].cast(pa.string()).combine_chunks()))
        rows = np.flatnonzero(fresh.to_numpy(zero_copy_only=False))
        _refuse_contacted(transaction, record, ids.filter(fresh), today=transaction.locale.day_of(clock.now()))
        if rows.size:
            keep_decisions(
                transaction,
                record,
                audience.take(rows),
                belief=deciding_belief(transaction, record, prior=prior),
                tally=LateTally().up_to_date(transaction, record),
                features=None if features is None else features.take(pa.array(rows)),
                pool=pool,
                secret=secret,
            )
            decided = transaction.decisions.of(campaign, customers=ids)
    return decided.take(pc.index_in(ids, value_set=decided["customer_id"].cast(pa.string()).combine_chunks()))


def keep_decisions(
    transaction: Transaction,
    record: CampaignRecord,
    audience: Audience,
    *,
    belief: Belief,
    tally: "LateTally",
    features: pa.Table | None,
    pool: "Sequence[str] | CodePool | None",
    secret: bytes | None,
) -> pa.Table:
    """Decide about customers who have no decision and may get a code, and write everything that is kept of it: their
    decisions, with their own codes."""
    table = _decisions(transaction, record, audience, belief, tally)
    coded = table.take(pa.array(coded_rows(table)))
    given, depths = coded["customer_id"].to_pylist(), coded["depth"].to_pylist()
    codes = codes_for(transaction.decisions, record.plan, given, depths, pool=pool, secret=secret, late=True)
    decided = with_codes(table, codes)
    transaction.decisions.add_late(
        record.campaign,
        decided,
        contexts=audience.context,
        features=features,
        pooled=pool is not None,
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


def _refuse_contacted(transaction: Transaction, record: CampaignRecord, ids: pa.Array, *, today: date) -> None:
    """Somebody may have got a code from another campaign since they were looked at."""
    full = contacted_by_campaigns(transaction, record.plan, ids, day=sent_on(record, today))
    if len(full):
        raise StateError(
            f"customer {full[0]}",
            found="as many codes as `contact` of the plan allows",
            expected="somebody who may get another code",
            fix="Leave them out.",
        )


def refuse_other_network(transaction: Transaction, record: CampaignRecord, network: str) -> None:
    if network != record.network or transaction.beliefs.networks(record.campaign) != (record.network,):
        raise StateError(
            f"campaign {record.campaign}",
            found="another context network than it was decided with",
            expected=f"network {record.network[:12]}",
            fix="Late arrivals need the network of the launch; after a retraining they wait for the next campaign.",
        )


def _refuse_forgotten(transaction: Transaction, record: CampaignRecord, ids: pa.Array) -> None:
    """They may hold a code of this campaign under another name, and must not get a second one."""
    forgotten = sorted(transaction.forgotten.among(ids.to_pylist(), since=record.launched_at))
    if forgotten:
        raise refusal_of_forgotten(record, forgotten)


def refusal_of_forgotten(record: CampaignRecord, forgotten: Sequence[str]) -> StateError:
    """The error about customers who were forgotten."""
    more = f" (and {len(forgotten) - 1:,} more)" if forgotten[1:] else ""
    return StateError(
        f"Customer {forgotten[0]}{more} was forgotten after campaign {record.campaign} was launched, so they get "
        "no code of it",
        fix="Leave them out; campaigns that are launched from now on may include them.",
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
        column = decide_late(
            worth.values[row],
            prices,
            remaining,
            costs=worth.costs[row],
            budget_price=solution.budget_price,
            remaining_budget=budget,
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
            drawn = [uniforms(keys, plan.seed, plan.campaign, "late", column) for column in range(depths.size)]
            return cls(np.column_stack(drawn), costs, np.zeros(depths.size), at_random=True)
        values = values_of(
            audience,
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
    kept = campaign_evidence.stored(transaction, record.campaign, record.network)
    if rows.size and kept is not None:
        more = kept.with_late(table["depth"].take(pa.array(rows)).to_numpy(), contexts[rows])
        transaction.beliefs.put_evidence(record.campaign, record.network, more.to_bytes())


def late_so_far(store: Store, campaign: str) -> tuple[LateDecision, ...]:
    """Everybody who arrived after the launch, in the order of their decisions."""
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        decided = transaction.decisions.of(campaign, only_late=True)
    return late_decisions(as_sent(record.plan, decided))
