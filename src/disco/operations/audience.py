"""Who a plan is about: the eligible customers of its table, their features as of its date, their contexts."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.features import ContextNetwork, has_history
from disco.features.eligibility import Question, eligible_customers
from disco.features.files import FeatureFile
from disco.features.snapshot import Snapshot, moved_beyond_reason, snapshot_of
from disco.operations.embedding_chunks import embedded_by
from disco.operations.feature_cache import VALUE_BYTES, FeatureCache, HashedTables
from disco.operations.freshness import far_dates, stale_features, stale_tables
from disco.operations.kept_contexts import Contexts, kept_or_embedded, key_of
from disco.operations.selection import CONDITION, Selection, customer_ids, refusal
from disco.records.arrays import Labels
from disco.records.content import content_hash
from disco.records.decisions import Audience
from disco.records.errors import InputError
from disco.records.id_list import IdList
from disco.records.locale import Locale
from disco.records.plan import Plan, is_channel
from disco.records.ports import Engine
from disco.records.program import VERSION
from disco.records.progress import Report, tell
from disco.records.score import EngagementHead
from disco.records.space import Space
from disco.records.suggestions import near_ids
from disco.records.table_rows import TableRows, in_pieces
from disco.records.validation.cells import flags
from disco.records.wording import counted

_SEGMENT, _CHANNEL = "segments.column", "channel.column"
_MOST_SHOWN = 12  # values of a column in a message
_EMBEDDED_ROWS = 1 << 17  # at a time
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


def load_audience(
    data: ShopData,
    plan: Plan,
    *,
    cache: FeatureCache,
    engine: Engine | None = None,
    as_of: date | None = None,
    only: Sequence[str] | None = None,
    settled: pa.Array | None = None,
    contacted: pa.Array | None = None,
    keeps: bool = False,
    report: Report | None = None,
) -> LoadedAudience:
    """Read customers, build (or find) their features, embed them. A pure function of the shop's files and `contacted`.

    Features are read a few rows or a column at a time: memory holds ids, contexts and labels.

    For customers who arrive after the launch: `as_of` is the day they arrive, `only` their ids as text, `settled` those
    of them who have a decision already. contacted: ids of customers who may get no further code (`contacts.contacted`).
    keeps: whether the plan will be kept with its tables, so that a disk too small for them is refused before the work.
    """
    network, day = data.network(), as_of or plan.customers.as_of
    tell(report, 0, None, "reading customers")
    rows = eligible_rows(data, plan)
    eligible = rows["customer_id"].combine_chunks()
    selection = Selection.of(data, plan, contacted=contacted)
    left_out: dict[str, int] = {}
    if only is not None:
        asked = pa.array(only, pa.large_string())
        _refuse_ineligible(asked, eligible, plan)
        selection.refuse(asked if settled is None else asked.filter(pc.invert(pc.is_in(asked, value_set=settled))))
        eligible = asked
    else:
        eligible, left_out = selection.apply(eligible)
        if not len(eligible):
            raise _nobody(plan, left_out)
    each = len(network.embedding_.feature_names) * VALUE_BYTES + _DECISION_BYTES
    each += 8 * network.embedding_.dimensions  # contexts are kept for the next plan, too
    then = [Space(cache.folder, len(eligible) * each, "the plan")] if keeps else []
    everybody, snapshot, notes = features_of_day(data, network, day, cache=cache, then=then, report=report)
    if only is None:
        notes = (*notes, *stale_features(everybody, day), *far_dates(plan))
    ids = everybody["customer_id"].cast(pa.large_string())
    features = everybody.filter(flags(pc.is_in(ids, value_set=eligible)))
    missing = len(eligible) - features.num_rows
    if missing:
        _refuse_strangers(data, plan, eligible)
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
    if only is None:
        refuse_unknown_segments(plan, _labels_there(segment))
    if channel is not None:
        _refuse_unknown_channels(data, plan, customers["customer_id"], channel)
    name = data.network_hash()

    def embed() -> Contexts:
        if cache.engine is not None and features.path is not None:
            return embedded_by(cache.engine, network, features, snapshot, report=report)
        return _embedded(network, features, snapshot, engine=engine, report=report)

    if only is None and everybody.content is not None:
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
        features=features if only is None else features.read(),
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


def _embedded(
    network: ContextNetwork,
    features: FeatureFile,
    snapshot: Snapshot,
    *,
    engine: Engine | None,
    report: Report | None,
) -> Contexts:
    """(n, d1) contexts, and (n,) who has a history; a piece of the features is in memory at a time."""
    customers, at = features.num_rows, 0
    context, known = np.empty((customers, network.embedding_.dimensions)), np.empty(customers, np.bool_)
    for piece in in_pieces(features.to_batches(), _EMBEDDED_ROWS):
        tell(report, at, customers, "embedding customers")
        until = at + piece.num_rows
        # the scales are judged by the first customers, as if all were embedded at once
        context[at:until] = network.transform(piece, snapshot=snapshot, check_scale=not at, engine=engine)
        known[at:until] = has_history(piece)
        at = until
    return context, known


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
        column = table["customer_id"] if isinstance(table, pa.Table) else table.to_table(columns=["customer_id"])[0]
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


def _refuse_ineligible(asked: pa.Array, eligible: pa.Array, plan: Plan) -> None:
    others = asked.filter(pc.invert(pc.is_in(asked, value_set=eligible)))
    if len(others):
        raise refusal(plan, CONDITION, others.to_pylist())


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
    _refuse_strangers(data, plan, rows["customer_id"].combine_chunks())
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


def _refuse_strangers(data: ShopData, plan: Plan, eligible: pa.Array) -> None:
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
