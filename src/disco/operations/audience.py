"""Who a plan is about: the eligible customers of its table, their features as of its date, their contexts.

Below: whom lists and the contact rule leave out, whether the tables reach the plan's day, and why a customer was not
part of a campaign.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.features import ContextNetwork
from disco.features.catalogue import YEAR_DAYS
from disco.features.eligibility import Question, eligible_customers, eligible_ids
from disco.features.files import FeatureFile
from disco.features.snapshot import Snapshot, moved_beyond_reason, snapshot_of
from disco.operations.codes import sent_codes
from disco.operations.contexts import (
    VALUE_BYTES,
    Contexts,
    FeatureCache,
    HashedTables,
    embedded_by,
    kept_or_embedded,
    key_of,
)
from disco.operations.site import Site
from disco.records import VERSION
from disco.records.arrays import Labels
from disco.records.arrow_tables import TableRows, columns_of, content_hash
from disco.records.campaign_records import CampaignRecord
from disco.records.cells import by_wall_clock, flags, microseconds
from disco.records.chunks import Report, tell
from disco.records.decisions import Audience
from disco.records.errors import DiscoError, InputError
from disco.records.files import Space
from disco.records.id_list import IdList, near_ids
from disco.records.locale import Locale
from disco.records.plan import ContactSection, Plan, is_channel
from disco.records.ports import Tables, locale_of
from disco.records.score import EngagementHead
from disco.records.table_rules import DAY_MICROSECONDS, readable, start_of_day
from disco.records.wording import counted
from disco.records.wording import date as day_text
from disco.store import Store, Transaction

_SEGMENT, _CHANNEL = "segments.column", "channel.column"
_MOST_SHOWN = 12  # values of a column in a message
_DECISION_BYTES = 128  # of disk: a decision with its context


class ShopData(HashedTables, Protocol):
    """What use cases ask of a shop's own tables and files."""

    @property
    def place(self) -> str:
        """Where the tables are, for messages."""

    @property
    def locale(self) -> Locale:
        """The currency and the time zone of the tables."""

    def customers(self, table: str) -> AbstractContextManager[tuple[str, Any]]:
        """A table of customers that a plan names, as Arrow, and what to call it."""

    def meeting(self, customers: Any, question: Question) -> pa.Table:
        """Who meets a plan's condition (`features.eligibility.Evaluate`)."""

    def file_hash(self, name: str, *, setting: str) -> str:
        """Of the content of a file that a plan names."""

    def id_list(self, name: str, *, setting: str) -> IdList:
        """A list of customer ids that a plan names."""

    def lines(self, name: str, *, setting: str, holds: str) -> list[str]:
        """The lines of a text file that a plan names."""

    def customers_hash(self, table: str) -> str:
        """Of the content of a table of customers that a plan names; empty for a table of the shop (`tables_hash`)."""

    def network(self) -> ContextNetwork: ...

    def network_hash(self) -> str:
        """The name of the network: equal networks have equal ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedAudience:
    """The customers of a plan with everything a decision about them rests on."""

    audience: Audience
    features: TableRows
    """One row per customer, in the audience's order; read from a file when they are asked for."""
    network: str
    """The name of the context network that embedded them."""
    head: EngagementHead | None = None
    """Of that network: scores from contexts. None: it has no engagement head."""
    inputs: dict[str, str]
    """Name → hash of the content, to be compared at the launch."""
    notes: tuple[str, ...]
    """What the operator should know about who was left out."""
    left_out: dict[str, int]
    """By key of the plan (include, exclude, contact): eligible customers who are left out for it."""


def load_audience(site: Site, plan: Plan, *, keeps: bool = False, report: Report | None = None) -> LoadedAudience:
    """Read customers, build (or find) their features, embed them. A pure function of the shop's files and `contacted`.

    Features are read a few rows or a column at a time: memory holds ids, contexts and labels.

    keeps: whether the plan will be kept with its tables, so that a disk too small for them is refused before the work.
    """
    data, cache, network, day = site.data, site.cache, site.data.network(), plan.customers.as_of
    tell(report, 0, None, "reading customers")
    rows = eligible_rows(data, plan)
    selection = Selection.of(data, plan, contacted=contacted(site.store, data, plan))
    eligible, left_out = selection.apply(rows["customer_id"].combine_chunks())
    if not len(eligible):
        raise _nobody(plan, left_out)
    each = len(network.embedding_.feature_names) * VALUE_BYTES + _DECISION_BYTES
    each += 8 * network.embedding_.dimensions  # contexts are kept for the next plan, too
    then = [Space(cache.folder, len(eligible) * each, "the plan")] if keeps else []
    everybody, snapshot, notes = features_of_day(data, network, day, cache=cache, then=then, report=report)
    notes = (*notes, *stale_features(everybody, day), *far_dates(plan))
    ids = everybody["customer_id"].cast(pa.large_string())
    features = everybody.filter(flags(pc.is_in(ids, value_set=eligible)))
    missing = len(eligible) - features.num_rows
    if missing:
        refuse_strangers(data, plan, eligible)
        notes += (f"{missing:,} eligible customers joined on or after {day} and are left out",)
    if not features.num_rows:
        raise InputError(
            "customers",
            found=f"nobody of the plan who joined before {day}",
            expected="at least one customer to decide about",
            fix="Look at the day (`customers.as_of`) and at the column joined_on.",
        )
    customers = pa.table({"customer_id": features["customer_id"]})
    segment, channel = labels_of(plan, rows, customers)
    refuse_unknown_segments(plan, _labels_there(segment))
    if channel is not None:
        _refuse_unknown_channels(data, plan, customers["customer_id"], channel)
    name = data.network_hash()

    def embed() -> Contexts:
        return embedded_by(cache.engine, network, features, snapshot, threads=site.engine, report=report)

    if everybody.content is not None:
        tell(report, 0, None, "reading kept contexts")
        key = key_of(features, everybody=everybody.content, network=name, snapshot=snapshot.hash)
        shape = features.num_rows, network.embedding_.dimensions
        context, known = kept_or_embedded(cache.contexts_folder, key, shape, embed, keep=cache.keep)
    else:
        context, known = embed()
    audience = Audience(
        ids=customers["customer_id"].to_numpy(), context=context, known=known, segment=segment, channel=channel
    )
    tell(report, 0, None, "hashing inputs")
    inputs = {
        "customers": content_hash(customers),
        "features": features.content or content_hash(features),
        "network": name,
        # only where contexts rest on it, so that plans with other networks keep their ids
        **({} if network.embedding_.trained_means is None else {"snapshot": snapshot.hash}),
        **label_inputs(audience),
        **selection.inputs,
    }
    return LoadedAudience(
        audience=audience,
        features=features,
        network=name,
        head=network.head_,
        inputs=inputs,
        notes=(*selection.notes, *notes),
        left_out=left_out,
    )


def eligible_rows(data: ShopData, plan: Plan) -> pa.Table:
    """customer_id, as text, and the plan's columns of the customers who meet its condition."""
    with data.customers(plan.customers.table) as (name, table):
        return eligible_customers(
            table,
            plan.customers.eligible,
            name=name,
            evaluate=data.meeting,
            columns=_plan_columns(plan),
            time_zone=data.locale.time_zone,
        )


def features_of_day(
    data: ShopData,
    network: ContextNetwork,
    day: date,
    *,
    cache: FeatureCache,
    then: Sequence[Space] = (),
    report: Report | None = None,
) -> tuple[FeatureFile, Snapshot, tuple[str, ...]]:
    """The network's features of every customer of the shop, their snapshot, and what to know about them.

    then, report: as for `FeatureCache.features_as_of`.
    """
    everybody, notes = cache.features_as_of(data, day, features=network.catalogue_, then=then, report=report)
    snapshot = snapshot_of(everybody.schema)
    assert snapshot is not None  # for the type checker: features of a whole shop carry one
    shift = network.embedding_.shift(snapshot)
    return everybody, snapshot, notes + moved_beyond_reason(shift, network.embedding_.feature_names)


def labels_of(plan: Plan, rows: pa.Table, customers: pa.Table) -> tuple[Labels | None, Labels | None]:
    """Segment and channel of each customer (n,), where the plan asks for them; empty text where they have none.

    rows: as `eligible_rows` gives them.
    """
    segment = None if plan.segments is None else _labels(rows, customers, _SEGMENT)
    return segment, None if plan.channel_column is None else _labels(rows, customers, _CHANNEL)


def _plan_columns(plan: Plan) -> dict[str, str]:
    """The columns of the table of customers that a plan names, by setting."""
    found = {} if plan.segments is None else {_SEGMENT: plan.segments.column}
    return found if plan.channel_column is None else {**found, _CHANNEL: plan.channel_column}


def _labels(rows: pa.Table, features: pa.Table, setting: str) -> Labels:
    """(n,) the value of a column for each customer of the features; empty text where they have none."""
    places = pc.index_in(
        features["customer_id"].cast(pa.large_string()), value_set=rows["customer_id"].combine_chunks()
    )
    values = pc.fill_null(rows[setting].combine_chunks().take(places.combine_chunks()), "")
    coded = values.dictionary_encode()  # customers share the texts of few labels
    labels: Labels = np.asarray(coded.dictionary.to_pylist(), object)[coded.indices.to_numpy()]
    return labels


def _labels_there(segment: Labels | None) -> set[str]:
    return set() if segment is None else set(segment.tolist())


def refuse_unknown_segments(plan: Plan, labels: Collection[str]) -> None:
    """Limits of a value that no eligible customer has are a typing error more often than an empty segment.

    labels: of the eligible customers.
    """
    there = set(labels) - {""}
    for label in () if plan.segments is None else plan.segments.limits:
        if label not in there:
            assert plan.segments is not None
            near = get_close_matches(label, there, n=1)
            some = ", ".join(sorted(there)[:_MOST_SHOWN]) + (", …" if len(there) > _MOST_SHOWN else "")
            raise InputError(
                "segments.limits",
                found=f"limits for {label}, which no eligible customer has in column {plan.segments.column}",
                expected=f"one of {some}" if there else "a column with values",
                fix=f"Did you mean {near[0]}?" if near else "Correct the value, or leave it out.",
            )


def _refuse_unknown_channels(data: ShopData, plan: Plan, ids: pa.ChunkedArray, channel: Labels) -> None:
    """A code without a channel could not be sent; the first is named with its row in the table."""
    unusable = [name for name in set(channel.tolist()) if not is_channel(name)]
    wrong = np.flatnonzero(np.isin(channel, unusable))
    if not wrong.size:
        return
    customer, value = str(ids[int(wrong[0])].as_py()), channel[wrong[0]]
    name, row = _place_of(data, plan, customer)
    more = f" (and for {counted(wrong.size - 1, 'more customer')})" if wrong.size > 1 else ""
    raise InputError(
        f"{name}, column {plan.channel_column}, row {row:,}",
        found=f"{value!r} for customer {customer}{more}" if value else f"no channel for customer {customer}{more}",
        expected="the name of a channel, such as sms, for every eligible customer",
        fix="Fill it in, or leave such customers out with `customers.eligible`.",
    )


def _place_of(data: ShopData, plan: Plan, customer: str) -> tuple[str, int]:
    """The table of a plan's customers, as it is called, and the row of one of them."""
    with data.customers(plan.customers.table) as (name, table):
        column = columns_of(table, ["customer_id"])[0]
        # a spreadsheet counts the header of a CSV file
        return name, pc.index(column.cast(pa.string()), customer).as_py() + (2 if name.lower().endswith(".csv") else 1)


def label_inputs(audience: Audience) -> dict[str, str]:
    """Hashes of the labels that a plan's limits rest on."""
    return label_hashes(pa.array(audience.ids), label_columns(audience))


def label_columns(audience: Audience) -> dict[str, pa.Array]:
    """Labels as they are kept with the decisions: null where a customer has none."""
    found = {}
    if audience.segment is not None:
        found["segment"] = pa.array(audience.segment, pa.string(), mask=audience.segment == "")
    if audience.channel is not None:
        found["channel"] = pa.array(audience.channel, pa.string(), mask=audience.channel == "")
    return found


def label_hashes(ids: pa.Array, columns: Mapping[str, pa.Array]) -> dict[str, str]:
    """By name of the column: the hash of who has which label."""
    return {name: content_hash(pa.table({"customer_id": ids, name: column})) for name, column in columns.items()}


def sources_of(data: ShopData, plan: Plan) -> dict[str, str] | None:
    """Hashes of everything `load_audience` reads for a plan; None where that is not known before it is read."""
    tables = data.tables_hash()
    if tables is None:
        return None
    return {
        "tables": tables,
        "customers": data.customers_hash(plan.customers.table),
        "network": data.network_hash(),
        "program": VERSION,
        **{key: data.file_hash(file, setting=key) for key, file in plan.lists.items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckedCustomers:
    """Who a plan is about, as far as that can be seen without features and the database."""

    ids: pa.Array
    """Text."""
    segment: Labels | None
    """(n,) labels, empty text for none; None: the plan has no segments."""
    notes: tuple[str, ...]
    """What to know about them."""


def check_audience(data: ShopData, plan: Plan) -> CheckedCustomers:
    """Look at what `load_audience` will read, without features or a network.

    InputError where a file is missing, the condition cannot be used, or nobody meets it.
    """
    rows = eligible_rows(data, plan)
    refuse_strangers(data, plan, rows["customer_id"].combine_chunks())
    selection = Selection.of(data, plan, contacted=None)
    ids, left_out = selection.apply(rows["customer_id"].combine_chunks())
    if not len(ids):
        raise _nobody(plan, left_out)
    listed = pa.table({"customer_id": ids})
    segment, channel = labels_of(plan, rows, listed)
    refuse_unknown_segments(plan, _labels_there(segment))
    if channel is not None:
        _refuse_unknown_channels(data, plan, listed["customer_id"], channel)
    with data.tables() as tables:
        notes = (*selection.notes, *stale_tables(tables, plan.customers.as_of), *far_dates(plan))
    return CheckedCustomers(ids=ids, segment=segment, notes=notes)


def _nobody(plan: Plan, left_out: Mapping[str, int]) -> InputError:
    """Which key of the plan left nobody; `left_out` in the order of the keys that were applied."""
    expected = "at least one customer to decide about"
    last = next((key for key in reversed(list(left_out)) if left_out[key]), None)
    if last is None:
        return InputError(
            "customers.eligible", found=f"no customer who meets {plan.customers.eligible!r}", expected=expected
        )
    gone = counted(left_out[last], "customer")
    if last == "include":
        found = f"none of the {gone} who meet `customers.eligible` on {plan.include}"
        return InputError("include", found=found, expected=expected, fix="Correct the list or the condition.")
    if last == "exclude" and plan.include is not None:
        found = f"every one of the {gone} on {plan.include} also on {plan.exclude}"
        return InputError("include and exclude", found=found, expected=expected, fix="Correct one of the two lists.")
    if last == "exclude":
        found = f"every one of the {gone} who meet `customers.eligible` on {plan.exclude}"
        return InputError("exclude", found=found, expected=expected, fix="Correct the list or the condition.")
    assert plan.contact is not None
    found = f"every one of the {gone} left at the limit of {plan.contact.words}"
    return InputError("contact", found=found, expected=expected, fix="Allow more codes, or wait.")


def refuse_strangers(data: ShopData, plan: Plan, eligible: pa.Array) -> None:
    """Customers of the plan's table whom the shop's own table does not have."""
    known = customer_ids(data)
    strangers = eligible.filter(pc.invert(pc.is_in(eligible, value_set=known)))
    if len(strangers):
        near = near_ids(strangers[:1], known)[0].as_py()
        _, row = _place_of(data, plan, str(strangers[0].as_py()))
        raise InputError(
            f"customers of {plan.customers.table}",
            found=f"{counted(len(strangers), 'unknown id')}, the first in row {row:,}",
            expected=f"customers of the table customers in {data.place}",
            fix=None if near is None else f"Did you mean {near!r}? Write ids alike in both tables.",
        )


# ---- who is left out ----
#
# Eligible customers who are missing from `include`, on `exclude`, or at the contact limit.
#
# All three narrow the condition `customers.eligible`, so a list never brings in somebody whom the condition keeps out
# (docs/decisions/099-lists-and-contacts.md).


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One reason to leave customers out."""

    key: str  # of the plan
    ids: pa.Array  # whom it names, as text
    keeps: bool  # whether those named stay, or go
    words: str  # why a customer is left out
    others: pa.Array = field(default_factory=lambda: pa.array([], pa.large_string()))  # on the list, and no customers

    def stay(self, customers: pa.Array) -> pa.Array:
        named = pc.is_in(customers, value_set=self.ids)
        return named if self.keeps else pc.invert(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a plan's lists and contact rule say, read once."""

    plan: Plan
    steps: tuple[_Step, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    """By key: the hash of the customers on a list."""
    notes: tuple[str, ...] = ()
    """What to know about the lists, such as ids that name no customer."""

    @classmethod
    def of(cls, data: "ShopData", plan: Plan, *, contacted: pa.Array | None) -> "Selection":
        """contacted: ids, as text, of customers who may get no further code; None: the plan has no contact rule."""
        steps: list[_Step] = []
        inputs: dict[str, str] = {}
        notes: list[str] = []
        everybody = customer_ids(data) if plan.include or plan.exclude else None
        for key, file in (("include", plan.include), ("exclude", plan.exclude)):
            if file is None or everybody is None:
                continue
            listed = data.id_list(file, setting=key).among(everybody)
            inputs[key] = content_hash(pa.table({"customer_id": listed.ids}))
            notes += listed.notes
            keeps, words = key == "include", reason(plan, key)
            steps.append(_Step(key=key, ids=listed.ids, keeps=keeps, words=words, others=listed.others))
        if plan.contact is not None and contacted is not None:
            steps.append(_Step(key="contact", ids=contacted, keeps=False, words=reason(plan, "contact")))
        return cls(plan=plan, steps=tuple(steps), inputs=inputs, notes=tuple(notes))

    def apply(self, eligible: pa.Array) -> tuple[pa.Array, dict[str, int]]:
        """The customers who stay, and by key how many are left out; each is counted once, by the first reason."""
        left_out = {}
        for step in self.steps:
            stay = eligible.filter(step.stay(eligible))
            left_out[step.key] = len(eligible) - len(stay)
            eligible = stay
        return eligible, left_out


CONDITION, CHANNEL = "customers.eligible", "channel"


def reason(plan: Plan, key: str) -> str:
    """Why a key of the plan leaves customers out."""
    if key == "contact" and plan.contact is not None:
        return f"at the limit of {plan.contact.words}"
    return f"not on the list {plan.include}" if key == "include" else f"on the list {plan.exclude}"


def refusal(plan: Plan, key: str, customers: Sequence[object]) -> InputError:
    """The error about late arrivals whom a key of the plan leaves out."""
    more = f" (and {len(customers) - 1:,} more)" if len(customers) > 1 else ""
    if key == CONDITION:
        return InputError(
            f"customer {customers[0]}",
            found=f"no row that meets the plan's condition{more}",
            expected=f"customers of {plan.customers.table} with {plan.customers.eligible}",
        )
    if key == CHANNEL:
        return InputError(
            f"customer {customers[0]}{more}",
            found=f"no usable channel in column {plan.channel_column}",
            expected="the name of a channel, such as sms",
            fix="Fill it in; for a service, run `disco contexts` again.",
        )
    return InputError(
        f"customer {customers[0]}{more}",
        found=f"somebody who is {reason(plan, key)}",
        expected=f"customers whom `{key}` of the plan does not leave out",
        fix="Leave them out.",
    )


def customer_ids(data: "ShopData") -> pa.Array:
    """The ids of the shop's own table of customers, as text."""
    with data.tables() as tables:
        return _ids_as_text(tables.scan("customers")).combine_chunks()


# ---- whether the tables are up to date ----
#
# Whether the tables reach the day at which a plan looks at its customers, and whether that day is near its codes.


QUIET_DAYS = 7
"""Days without a row that no shop has to explain."""
_QUIET_ROWS = 10  # as many rows would usually have come in the meantime: by chance none does once in 20,000
_FAR_DAYS = 31  # between what is known of customers and their codes
_SOURCES = (
    ("orders", "order", "days_since_last_order", "orders_365d"),
    ("site", "visit", "days_since_last_visit", "site_days_365d"),
)


def stale_features(features: TableRows, day: date) -> tuple[str, ...]:
    """What the features of all customers as of a day tell about the tables they were built from."""
    found: list[str] = []
    for table, noun, recency, count in _SOURCES:
        if recency in features.column_names and count in features.column_names:
            days, rows = pc.min(features[recency]).as_py(), pc.sum(features[count]).as_py()
            if rows is not None:  # else there is no such table, and this is said elsewhere
                found += _stale(table, noun, None if days is None else int(days), int(rows), day)
    return tuple(found)


def stale_tables(tables: Tables, day: date) -> tuple[str, ...]:
    """The same of the tables themselves, without features: of the last order before the day."""
    if "orders" not in tables.names():
        return ()
    locale = locale_of(tables)
    scan = readable("orders", tables.scan("orders"), locale=locale)
    moments = by_wall_clock(columns_of(scan, ["ordered_at"])[0], locale)
    days = microseconds(pc.drop_null(moments).combine_chunks()) // DAY_MICROSECONDS
    end = start_of_day(day) // DAY_MICROSECONDS
    year = days[(days < end) & (days >= end - YEAR_DAYS)]
    return tuple(_stale("orders", "order", int(end - year.max()) if year.size else None, int(year.size), day))


def far_dates(plan: Plan) -> tuple[str, ...]:
    """A plan that looks at its customers long before their codes are valid."""
    between = (plan.valid.start - plan.customers.as_of).days
    if between <= _FAR_DAYS:
        return ()
    return (
        f"Customers are known as of {plan.customers.as_of}, {counted(between, 'day')} before their codes are valid. "
        "What they do in between is not known: give a later `customers.as_of`.",
    )


def _stale(table: str, noun: str, days: int | None, rows: int, day: date) -> Iterator[str]:
    """days: since the last row of the year before the day; None: there is none. rows: of that year."""
    fix = "Export the tables again, or give an earlier `customers.as_of`."
    if days is None or not rows:
        yield f"The table {table} has no {noun} in the year before {day} (`customers.as_of`). {fix}"
    elif days > max(QUIET_DAYS, _QUIET_ROWS * YEAR_DAYS / rows):
        last = day - timedelta(days=days)
        yield (
            f"The last {noun} in the table {table} is of {last}, {counted(days, 'day')} before {day} "
            f"(`customers.as_of`). {fix}"
        )


# ---- how many codes customers were sent ----
#
# How many codes customers got lately, for a plan's contact rule: those of launched campaigns, and the shop's own.
#
# A code of a launch counts on the first day of its campaign's codes; whether it was used, recalled or its campaign
# closed makes no difference, because the message was sent. When a late arrival got a code is not kept, so it counts
# until the last day of its campaign. A row of the table `codes` counts on the day of `sent_at`, unless the same
# customer has the same code from a campaign.


_CODES = pa.schema([("customer_id", pa.large_string()), ("code", pa.large_string())])
_MOMENT = pa.timestamp("us")


def contacted(store: Store, data: ShopData, plan: Plan) -> pa.Array | None:
    """Ids, as text, of customers who may get no further code at the launch; None: the plan has no contact rule."""
    rule, last = plan.contact, plan.valid.start
    if rule is None:
        return None
    with store.reading() as transaction:
        ours = _of_campaigns(transaction, plan, rule, last=last)
    sent = pa.concat_tables([ours, _of_table(data, ours, rule, last=last)])
    counts = sent.group_by("customer_id").aggregate([([], "count_all")])
    return counts["customer_id"].filter(pc.greater_equal(counts["count_all"], rule.at_most)).combine_chunks()


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
        codes = columns_of(tables.scan("codes"), wanted)
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


# ---- why a customer was not part of a campaign ----
#
# Its plan read again, beside the customers table as it is now.


_LONGEST_SHOWN = 80  # characters of a cell


def not_a_member(record: CampaignRecord, customer: object, *, data: ShopData | None) -> InputError:
    """The error about a customer without a decision, with the reason where the shop's tables tell it."""
    said = f"{customer} was not part of campaign {record.campaign}"
    listed = "`disco export` lists the customers who got a code."
    if data is None:
        return InputError(said, fix=listed)
    try:
        reason, fix = _absence_reason(record, str(customer), data)
    except DiscoError as error:  # the tables are gone or cannot be read, which is another question
        unknown = f"The reason is not known, because its customers cannot be read ({error})"
        return InputError(f"{said}. {unknown}", fix=listed)
    return InputError(f"{said}: {reason}", fix=fix)


def _absence_reason(record: CampaignRecord, customer: str, data: ShopData) -> tuple[str, str | None]:
    """Why, and what to do about it."""
    plan = record.plan
    with data.customers(plan.customers.table) as (name, source):
        row = _row_of(source, customer)
        if row is None:
            return f"{name} has no such customer", _did_you_mean(source, customer)
        condition = plan.customers.eligible
        eligible = eligible_ids(source, condition, name=name, evaluate=data.meeting)
        is_eligible = pc.any(pc.equal(eligible, customer)).as_py()
    if not is_eligible:
        cells = _cells_in(condition, row)
        found = f" ({cells})" if cells else ""
        return f"they are not eligible{found}; the plan asks for {condition}", None
    for step in Selection.of(data, plan, contacted=None).steps:
        if not step.stay(pa.array([customer], pa.large_string()))[0].as_py():
            return f"they are {step.words}, which the plan names as `{step.key}`", None
    joined = _day(row.get("joined_on"))
    if joined is not None and joined >= plan.customers.as_of:
        late = f"`disco late {record.campaign} {customer}` decides about them."
        return f"they joined on {day_text(joined)}, and the plan is as of {day_text(plan.customers.as_of)}", late
    contact = "" if plan.contact is None else f", or they had reached the limit of {plan.contact.words}"
    return (
        f"they are eligible now, but were not in the tables when the plan was made{contact}",
        f"`disco late {record.campaign} {customer}` decides about them while the campaign runs.",
    )


def _row_of(source: Any, customer: str) -> dict[str, Any] | None:
    """The customer's row of a table or dataset; None where there is none."""
    ids = _ids_as_text(source)
    place = pc.index(ids, pa.scalar(customer, ids.type)).as_py()
    if place < 0:
        return None
    row: dict[str, Any] = source.take(pa.array([place])).to_pylist()[0]
    return row


def _ids_as_text(source: Any) -> pa.ChunkedArray:
    return columns_of(source, ["customer_id"])[0].cast(pa.large_string())


def _did_you_mean(source: Any, customer: str) -> str | None:
    """Ids that a spreadsheet or a typing hand has changed: blanks, a decimal point, other letters."""
    plain = customer.strip()
    for near in (plain, re.sub(r"\.0+$", "", plain), plain.upper(), plain.lower()):
        if near != customer and _row_of(source, near) is not None:
            return f"Did you mean {near}?"
    return None


def _cells_in(condition: str, row: dict[str, Any]) -> str:
    """The customer's cells of the columns that a condition names, as the condition would write them."""
    names = {word.lower() for word in re.findall(r"\w+", re.sub(r"'[^']*'", "", condition))}
    return ", ".join(f"{name} = {_cell(cell)}" for name, cell in row.items() if name.lower() in names)


def _cell(cell: object) -> str:
    text = "null" if cell is None else f"'{cell}'" if isinstance(cell, str | date) else str(cell)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _day(cell: object) -> date | None:
    if isinstance(cell, datetime):
        return cell.date()
    if isinstance(cell, date):
        return cell
    try:
        return date.fromisoformat(str(cell)[:10])
    except ValueError:
        return None
