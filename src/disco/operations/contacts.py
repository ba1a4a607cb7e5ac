"""How many codes customers got lately, for a plan's contact rule: those of launched campaigns, and the shop's own.

A code of a launch counts on the first day of its campaign's codes; whether it was used, recalled or its campaign closed
makes no difference, because the message was sent. When a late arrival got a code is not kept, so it counts until the
last day of its campaign. A row of the table `codes` counts on the day of `sent_at`, unless the same customer has the
same code from a campaign.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from disco.operations.audience import ShopData
from disco.operations.codes import sent_codes
from disco.records.content import content_hash
from disco.records.plan import ContactSection, Plan
from disco.records.ports import locale_of
from disco.records.validation.cells import by_wall_clock
from disco.store import Store, Transaction

_CODES = pa.schema([("customer_id", pa.large_string()), ("code", pa.large_string())])
_MOMENT = pa.timestamp("us")


def contacted(
    store: Store, data: ShopData, plan: Plan, *, day: date | None = None, customers: pa.Array | None = None
) -> pa.Array | None:
    """Ids, as text, of customers who may get no further code; None: the plan has no contact rule.

    For late arrivals: `day` is that on which the code would be sent (default: the first day of the plan's codes),
    `customers` are their ids as text.
    """
    rule, last = plan.contact, day or plan.valid.start
    if rule is None:
        return None
    with store.reading() as transaction:
        ours = _of_campaigns(transaction, plan, rule, last=last, customers=customers)
    return _at_limit(pa.concat_tables([ours, _of_table(data, ours, rule, last=last)]), rule)


def contacted_by_campaigns(transaction: Transaction, plan: Plan, customers: pa.Array, *, day: date) -> pa.Array:
    """Of these customers (ids as text), those whom campaigns alone gave so many codes that they may get no further."""
    if plan.contact is None:
        return pa.array([], pa.large_string())
    sent = _of_campaigns(transaction, plan, plan.contact, last=day, customers=customers)
    return _at_limit(sent, plan.contact)


def codes_of_campaigns(
    transaction: Transaction, plan: Plan, customers: pa.Array, *, day: date, plans: dict[str, Plan]
) -> Counter[str]:
    """How many codes of other campaigns each of these customers (ids as text) got within the plan's contact rule.

    plans: by campaign, those that were read before; a plan never changes, and new ones are added.
    """
    if plan.contact is None:
        return Counter()
    sent = _of_campaigns(transaction, plan, plan.contact, last=day, customers=customers, plans=plans)
    return Counter(sent["customer_id"].to_pylist())


def codes_of_table(store: Store, data: ShopData, plan: Plan, *, day: date) -> Counter[str]:
    """The same of the shop's own table, for everybody: codes that no campaign gave."""
    if plan.contact is None:
        return Counter()
    with store.reading() as transaction:
        ours = _of_campaigns(transaction, plan, plan.contact, last=day)
    return Counter(_of_table(data, ours, plan.contact, last=day)["customer_id"].to_pylist())


def _at_limit(sent: pa.Table, rule: ContactSection) -> pa.Array:
    counts = sent.group_by("customer_id").aggregate([([], "count_all")])
    full = pc.greater_equal(counts["count_all"], rule.at_most)
    return counts["customer_id"].filter(full).combine_chunks()


def contact_inputs(transaction: Transaction, plan: Plan, customers: pa.Array) -> dict[str, str]:
    """The hash of how many codes of campaigns these customers of the plan got before, to be compared at the launch."""
    if plan.contact is None:
        return {}
    sent = _of_campaigns(transaction, plan, plan.contact, last=plan.valid.start)
    theirs = sent.filter(pc.is_in(sent["customer_id"], value_set=customers.cast(pa.large_string())))
    counts = theirs.group_by("customer_id").aggregate([([], "count_all")]).sort_by("customer_id")
    return {"contact": content_hash(counts.combine_chunks())}


def _of_campaigns(
    transaction: Transaction,
    plan: Plan,
    rule: ContactSection,
    *,
    last: date,
    customers: pa.Array | None = None,
    plans: dict[str, Plan] | None = None,
) -> pa.Table:
    """customer_id and code of the codes that other launched campaigns gave in the days before, the last included.

    customers: of these alone, found by the index of each campaign. plans: by campaign, those that are known.
    """
    first = last - timedelta(days=rule.days)
    known, parts = {} if plans is None else plans, [_CODES.empty_table()]
    for name in transaction.plans.names():
        other = known[name] if name in known else known.setdefault(name, transaction.plans.campaign(name).plan)
        if name == plan.campaign or other.valid.start > last or other.valid.end <= first:
            continue
        decisions = transaction.decisions.of(name, customers=customers, only_late=other.valid.start < first)
        decisions = decisions.filter(decisions["code"].is_valid())
        texts = (decisions["customer_id"].cast(pa.string()), sent_codes(other, decisions))
        parts.append(pa.table([text.cast(pa.large_string()) for text in texts], schema=_CODES))
    return pa.concat_tables(parts)


def _of_table(data: ShopData, ours: pa.Table, rule: ContactSection, *, last: date) -> pa.Table:
    """The same of the shop's table of codes, without those that a campaign gave."""
    wanted = ["customer_id", "code_id", "sent_at"]
    with data.tables() as tables:
        if "codes" not in tables.names():
            return _CODES.empty_table()
        source = tables.scan("codes")
        codes = source.select(wanted) if isinstance(source, pa.Table) else source.to_table(columns=wanted)
        sent = by_wall_clock(codes["sent_at"], locale_of(tables)).cast(_MOMENT, safe=False)
    start, end = (pa.scalar(day, pa.date32()).cast(_MOMENT) for day in _window(rule, last))
    codes = codes.filter(pc.and_(pc.greater_equal(sent, start), pc.less(sent, end)))
    found = pa.table([codes[name].cast(pa.large_string()) for name in ("customer_id", "code_id")], schema=_CODES)
    known = pc.is_in(_pairs(found), value_set=_pairs(ours).combine_chunks())
    return found.filter(pc.invert(known))


def _window(rule: ContactSection, last: date) -> Iterator[date]:
    """The first day that counts, and the first that does not."""
    yield last - timedelta(days=rule.days)
    yield last + timedelta(days=1)


def _pairs(codes: pa.Table) -> pa.ChunkedArray:
    joined = pc.binary_join_element_wise(codes["customer_id"], codes["code"], pa.scalar("\x1f", pa.large_string()))
    return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])
