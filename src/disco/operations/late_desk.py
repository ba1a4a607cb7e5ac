"""Late arrivals at the speed of a checkout: from what is prepared, several customers in one short transaction.

A desk keeps in memory only what never changes: the plan's model, plans of other campaigns, the pool of codes, and a
tally that is named by the seal of what it counts. State, reserve, earlier decisions and what is prepared are read in
the transaction, so any number of processes may decide at once (docs/decisions/110-late-arrivals-at-a-checkout.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from disco.campaign import Belief
from disco.operations.audience import ShopData, codes_of_campaigns, refusal
from disco.operations.codes import CodePool, read_pool
from disco.operations.late import (
    LateDecision,
    LateTally,
    as_sent,
    keep_decisions,
    late_decisions,
    refusal_of_forgotten,
    refuse_other_network,
    refuse_when_over,
    sent_on,
)
from disco.operations.versions import deciding_belief
from disco.records.arrivals import Arrivals
from disco.records.decisions import Audience
from disco.records.errors import DiscoError, InputError, StateError
from disco.records.life import CampaignRecord
from disco.records.plan import Plan
from disco.records.ports import Clock
from disco.store import Store, Transaction

_LONGEST_ID = 200  # characters


class NotPreparedError(StateError):
    """The contexts of a campaign's late arrivals are not prepared yet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Means:
    """What decides, and never changes."""

    belief: Belief
    """The belief that decided the launch."""
    pool: CodePool | None
    """The codes bought elsewhere; None: codes are made."""

    @classmethod
    def of(cls, transaction: Transaction, data: ShopData, record: CampaignRecord, *, prior: Belief) -> "_Means":
        pool = read_pool(data, record.plan)
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
    means: _Means | None = None
    """Read when somebody is decided about for the first time."""
    tally: LateTally = field(default_factory=LateTally)
    """What late arrivals got, as far as it was read."""
    plans: dict[str, Plan] = field(default_factory=dict)
    """By campaign: the plans that the contact rule looks at; they never change, and new ones are added."""


def decide_at_desk(
    store: Store,
    data: ShopData,
    campaign: str,
    customers: Sequence[str],
    *,
    desk: LateDesk | None,
    prior: Belief,
    clock: Clock,
    secret: bytes | None = None,
    dry_run: bool = False,
) -> tuple[dict[str, LateDecision | DiscoError], LateDesk]:
    """By customer: the decision, the one that was made before where there is one, or why there is none.

    A customer whom the shop does not know has the population's context. desk: what the last call returned; None at
    first. DiscoError where nobody can be decided about: the campaign is over, or not prepared.
    """
    answers, desk = look_up(store, campaign, customers, desk=desk, clock=clock)
    fresh = [name for name in dict.fromkeys(customers) if name not in answers]
    if fresh:
        decided, desk = decide_new(
            store, data, fresh, desk=desk, prior=prior, clock=clock, secret=secret, dry_run=dry_run
        )
        answers |= decided
    return answers, desk


def look_up(
    store: Store, campaign: str, customers: Sequence[str], *, desk: LateDesk | None, clock: Clock
) -> tuple[dict[str, LateDecision | DiscoError], LateDesk]:
    """By customer: what was decided before, where it was; nothing is written. The rest: as `decide_at_desk`."""
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
    """By customer: the decision, or why there is none, for those whom `look_up` did not find; in one transaction."""
    with store.writing(desk.record.campaign, action="late", dry_run=dry_run) as transaction:
        transaction.decisions.read_ahead(desk.record.campaign, _usable(customers), deciding=True)
        record = transaction.plans.standing(desk.record)
        if record.plan_id != desk.record.plan_id:
            desk = LateDesk(record=record)
        refuse_when_over(record, clock, store.locale)
        answers: dict[str, LateDecision | DiscoError] = dict(_decided(transaction, record, customers))  # meanwhile
        answers |= _unusable(record, customers)
        means = desk.means or _Means.of(transaction, data, record, prior=prior)
        tally = desk.tally.up_to_date(transaction, record)
        desk = replace(desk, means=means, tally=tally)
        decided = _decide(transaction, record, answers, customers, desk=desk, means=means, clock=clock, secret=secret)
        if decided is not None:
            answers |= {str(one.customer_id): one for one in late_decisions(as_sent(record.plan, decided))}
            tally = tally.with_kept(transaction, record, decided)
    # what a rehearsal gave is not given
    return answers, desk if dry_run else replace(desk, tally=tally)


def _decide(
    transaction: Transaction,
    record: CampaignRecord,
    answers: dict[str, LateDecision | DiscoError],
    customers: Sequence[str],
    *,
    desk: LateDesk,
    means: _Means,
    clock: Clock,
    secret: bytes | None,
) -> pa.Table | None:
    """Write the decisions of those who may get one, with their codes; the others get their reason as an answer."""
    ids = [name for name in customers if name not in answers]
    forgotten = transaction.forgotten.among(ids, since=record.launched_at) if ids else frozenset()
    answers |= {name: refusal_of_forgotten(record, [name]) for name in forgotten}
    ids = [name for name in ids if name not in forgotten]
    if not ids:
        return None
    prepared = transaction.arrivals.of(record.campaign, pa.array(ids, pa.string()))
    if prepared is None:
        raise NotPreparedError(
            f"The contexts of campaign {record.campaign} are not prepared",
            fix=f"Run `disco contexts {record.campaign}`, or wait for the job `contexts`.",
        )
    refuse_other_network(transaction, record, prepared.network)
    day = sent_on(record, transaction.locale.day_of(clock.now()))
    sent = codes_of_campaigns(transaction, record.plan, pa.array(ids, pa.string()), day=day, plans=desk.plans)
    rows = prepared.customers.to_pylist()
    places = {str(row["customer_id"]): place for place, row in enumerate(rows)}
    for name in ids:
        row = rows[places[name]] if name in places else None
        key = row["left_out"] if row is not None else "include" if prepared.only_listed else None
        contact = record.plan.contact
        if key is None and contact is not None:
            own = 0 if row is None else row["own_codes"]
            key = "contact" if sent[name] + own >= contact.at_most else None
        if key is not None:
            answers[name] = refusal(record.plan, key, [name])
    ids = [name for name in ids if name not in answers]
    if not ids:
        return None
    audience, features = _audience(record, prepared, ids, places)
    return keep_decisions(
        transaction,
        record,
        audience,
        belief=means.belief,
        tally=desk.tally,
        features=features,
        pool=means.pool,
        secret=secret,
    )


def _audience(
    record: CampaignRecord, prepared: Arrivals, ids: Sequence[str], places: dict[str, int]
) -> tuple[Audience, pa.Table]:
    """These customers with their features; the population's context, and no features, where the shop has none."""
    at = pa.array([places.get(name) for name in ids], pa.int64())
    found = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
    customers = prepared.customers.take(at)
    context = np.zeros((len(ids), prepared.contexts.shape[1]))
    context[found] = prepared.contexts[at.drop_null().to_numpy()]
    plan, kind = record.plan, prepared.features.schema.field("customer_id").type
    names = pa.array(ids, pa.string())
    features = prepared.features.take(at)
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
