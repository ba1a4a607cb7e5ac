"""What is prepared for customers who arrive after a launch: contexts and reasons of all who have no decision yet.

It is made at the launch and again by the job `contexts`, so that an arrival is decided without a look at the shop's
tables (`late_desk`). The rules are those of `disco late`: the same condition, lists, features and labels
(docs/decisions/110-late-arrivals-at-a-checkout.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.features import has_history
from disco.operations.audience import (
    CHANNEL,
    CONDITION,
    Selection,
    ShopData,
    codes_of_table,
    customer_ids,
    eligible_rows,
    features_of_day,
    labels_of,
)
from disco.operations.contexts import FeatureCache
from disco.operations.late import is_over, sent_on
from disco.records.arrays import Flags
from disco.records.arrivals import ARRIVALS, Arrivals
from disco.records.errors import DiscoError, StateError
from disco.records.life import CampaignRecord
from disco.records.plan import is_channel
from disco.records.ports import Clock, Engine
from disco.records.result import Result
from disco.records.validation.cells import flags
from disco.store import Store

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


def prepare_arrivals(
    store: Store,
    data: ShopData,
    campaign: str | None = None,
    *,
    clock: Clock,
    cache: FeatureCache,
    engine: Engine | None = None,
) -> PreparedArrivals:
    """Prepare one campaign, or all that run and hold something in reserve, as of the clock's day.

    A campaign that is named and cannot be prepared is an error; of all, it is a warning.
    """
    with store.reading() as transaction:
        names = transaction.plans.names() if campaign is None else (campaign,)
        records = [transaction.plans.campaign(name) for name in names]
    if campaign is None:
        running = [one for one in records if not is_over(one, clock, store.locale)]
        records = [one for one in running if one.plan.reserve.share > 0]
    done: list[PreparedCampaign] = []
    warnings: list[str] = []
    for record in records:
        try:
            arrivals, notes = load_arrivals(store, data, record, clock=clock, cache=cache, engine=engine)
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
    store: Store,
    data: ShopData,
    record: CampaignRecord,
    *,
    clock: Clock,
    cache: FeatureCache,
    engine: Engine | None = None,
) -> tuple[Arrivals, tuple[str, ...]]:
    """Everybody without a decision as of the clock's day, as `audience.load_audience` reads them; and what to know."""
    plan, day, network = record.plan, store.locale.day_of(clock.now()), data.network()
    if data.network_hash() != record.network:
        raise StateError(
            f"campaign {record.campaign}",
            found="another context network than it was decided with",
            expected=f"network {record.network[:12]}",
            fix="Late arrivals need the network of the launch; after a retraining they wait for the next campaign.",
        )
    with store.reading() as transaction:
        decided = transaction.decisions.of(record.campaign)["customer_id"].cast(pa.large_string()).combine_chunks()
    rows = eligible_rows(data, plan)
    selection = Selection.of(data, plan, contacted=None)
    shop = customer_ids(data)
    shop = shop.filter(pc.invert(pc.is_in(shop, value_set=decided)))
    reasons = _reasons(shop, rows["customer_id"].combine_chunks(), selection)

    everybody, snapshot, notes = features_of_day(data, network, day, cache=cache)
    wanted = shop.filter(reasons.is_null())
    ids_there = everybody["customer_id"].cast(pa.large_string())
    features = everybody.filter(flags(pc.is_in(ids_there, value_set=wanted))).read()
    # judged by everybody, because customers who joined lately may spend otherwise as a whole
    network.transform(everybody.head(_JUDGED), snapshot=snapshot, engine=engine)
    known = has_history(features)
    embedded = features["customer_id"].cast(pa.large_string()).combine_chunks()

    # those with features first, then everybody else of the shop, then ids that only a list names
    rest = flags(pc.invert(pc.is_in(shop, value_set=embedded)))
    listed, of_list = _listed(selection)
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
        contexts=network.transform(features, snapshot=snapshot, check_scale=False, engine=engine),
        features=features,
        only_listed=plan.include is not None,
    )
    return arrivals, (*selection.notes, *notes)


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
