"""The versions of the model, and what one of them expects over all depths of some customers, beside what was seen."""

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
import pyarrow as pa

from disco.belief.curves import demand_curve
from disco.campaign import Belief
from disco.operations.learn import belief_of, version_of
from disco.operations.overview import SPEND, divisions_of, parts_of, ranks_of_spend
from disco.operations.purchases import bought
from disco.records.arrays import Floats, Integers, Vector
from disco.records.campaign_records import CampaignRecord
from disco.records.compiled import without_compiler
from disco.records.errors import InputError, StateError
from disco.records.estimate import LEVEL, Estimate
from disco.records.result import Result
from disco.records.score import EngagementHead
from disco.store import Store, Transaction
from disco.store.beliefs import VersionRecord

_STEP = 0.01
_BEYOND = 0.05  # how far the curve goes beyond the deepest discount that was played
_DRAWS = 500


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VersionEntry(Result):
    """A version of the model in brief."""

    version: int
    """The number of the version."""
    made_at: datetime
    """When it was made."""
    campaigns: tuple[str, ...]
    """The campaigns it was learned from."""
    active: bool
    """Whether it decides the next plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandPoint:
    """What the model expects of the average customer at one depth."""

    depth: float
    """The depth: 0.1 is 10% off."""
    basket: Estimate
    """Basket before the discount of somebody who buys, in currency units."""
    engagement: Estimate
    """The share of receivers who buy."""
    revenue_per_code: Estimate
    """Expected revenue of a code sent, used or not."""
    extrapolated: bool
    """Whether hardly any purchase is near this depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPoint:
    """What was seen at one depth that was played."""

    depth: float
    """The depth."""
    purchases: int
    """Purchases with such a code."""
    basket: float
    """Geometric mean of their baskets before the discount, whoever bought."""
    mean_basket: float
    """Arithmetic mean of the same baskets, which the curve is about: exp(m + s²/2) of the mean and variance of their
    logarithms."""
    codes: int
    """Expired codes."""
    engagement: float | None
    """The share of them that was used; null: none has expired."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Demand(Result):
    """Demand over depths as a version of the model sees it, with the points it was learned from."""

    version: int
    """The number of the version."""
    currency: str
    """The currency of all money here, by its code of ISO 4217."""
    curve: tuple[DemandPoint, ...]
    """In steps of 1% from 1% off to a little beyond the deepest discount that was played; empty before any purchase."""
    observed: tuple[ObservedPoint, ...]
    """One entry per depth that was bought with, ascending."""


def list_versions(store: Store) -> tuple[VersionEntry, ...]:
    """All versions of the model, the newest first."""
    with store.reading() as transaction:
        active = transaction.beliefs.version()
        records = transaction.beliefs.versions()
    return tuple(
        VersionEntry(
            version=record.number,
            made_at=store.locale.local(record.made_at),
            campaigns=tuple(record.campaigns),
            active=active is not None and record.number == active.number,
        )
        for record in reversed(records)
    )


def demand(store: Store, version: int | None = None) -> Demand:
    """What that version of the model expects of the average customer; None: the active one."""
    with store.reading() as transaction:
        record = version_of(transaction, version)
    return _demand(record, currency=store.locale.currency.code)


def _demand(record: VersionRecord, *, currency: str) -> Demand:
    """Of the average customer, whose context is 0."""
    belief = belief_of(record)
    context = np.zeros(belief.basket.evidence.context_size)
    return Demand(
        version=record.number,
        currency=currency,
        curve=_curve(belief, context, head=None),
        observed=_observed(belief),
    )


def _curve(belief: Belief, context: Floats, *, head: EngagementHead | None) -> tuple[DemandPoint, ...]:
    """context: (d1,) of a customer, or (customers, d1) of whom it is the average."""
    evidence, draws = belief.basket.evidence, _DRAWS if context.ndim == 1 else _PART_DRAWS
    if not evidence.depths.size:
        return ()
    deepest = min(float(evidence.depths.max()) + _BEYOND, 1 - _STEP)
    depths = np.round(np.arange(1, round(deepest / _STEP) + 1) * _STEP, 2)
    with without_compiler() if context.ndim == 1 else nullcontext():  # one customer is not worth a compilation
        curve = demand_curve(
            belief.basket, context, depths, engagement=belief.engagement, head=head, level=LEVEL, draws=draws
        )
    assert curve.engagement is not None
    assert curve.revenue_per_code is not None
    points = zip(
        depths.tolist(),
        curve.full_price.estimates(),
        curve.engagement.estimates(),
        curve.revenue_per_code.estimates(),
        curve.extrapolated.tolist(),
        strict=True,
    )
    return tuple(
        DemandPoint(depth=depth, basket=basket, engagement=rate, revenue_per_code=money, extrapolated=far)
        for depth, basket, rate, money, far in points
    )


def _observed(belief: Belief) -> tuple[ObservedPoint, ...]:
    """What the version was learned from, by depth."""
    evidence, counts = belief.basket.evidence, belief.engagement.counts.margin
    if not evidence.depths.size:
        return ()
    codes = {
        depth: (sent, used)
        for depth, sent, used in zip(
            counts.depths.tolist(), counts.sent.tolist(), counts.redeemed.tolist(), strict=True
        )
    }
    sums = evidence.sums()
    means, squares = sums[:, 0, -1] / evidence.rows, sums[:, -1, -1] / evidence.rows
    return tuple(
        ObservedPoint(
            depth=depth,
            purchases=int(rows),
            basket=float(np.exp(log)),
            mean_basket=float(np.exp(log + max(square - log**2, 0.0) / 2)),
            codes=codes.get(depth, (0, 0))[0],
            engagement=codes[depth][1] / codes[depth][0] if codes.get(depth, (0, 0))[0] else None,
        )
        for depth, rows, log, square in zip(
            evidence.depths.tolist(), evidence.rows.tolist(), means, squares, strict=True
        )
    )


# ---- parts of the customers

_THIRDS = (
    "Spent least in the year before",
    "Spent about the middle in the year before",
    "Spent most in the year before",
)
_MOST_SAMPLED = 2000  # customers of a part, evenly over its rows: their average curve stands for it
_MOST_PARTS = 30
_PART_DRAWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDemand:
    """Demand of a part of the customers of the latest campaign."""

    demand: Demand
    """Its curve, and what was seen: of the part in that campaign, or, for all customers, in all campaigns learned."""
    part: str | None
    """Which part; None: the average customer."""
    customers: int
    """Number of customers in the part; 0 for the average customer."""
    campaign: str
    """Whose customers are divided."""
    parts: tuple[str, ...]
    """Those to choose from: segments of the plan, channels, history, thirds by spend."""


def demand_of_part(store: Store, part: str | None = None, *, today: date) -> PartDemand:
    """What the active version expects of a part of the customers; None: of the average customer."""
    with store.reading() as transaction:
        record = version_of(transaction, None)
        last = divided_campaign(transaction, record)
        decisions = transaction.decisions.of(last.campaign)
        labels = _labels(transaction, last, decisions)
        parts = tuple(dict.fromkeys(name for column in labels for name in column.parts))[:_MOST_PARTS]
        if part is None:
            whole = _demand(record, currency=store.locale.currency.code)
            return PartDemand(demand=whole, part=None, customers=0, campaign=last.campaign, parts=parts)
        rows = next((column.rows(part) for column in labels if part in column.parts), None)
        if rows is None or part not in parts:
            raise _no_part(part, parts)
        sample = rows[np.linspace(0, rows.size - 1, min(rows.size, _MOST_SAMPLED)).astype(np.int64)]
        contexts = transaction.contexts.of(last.campaign, record.network, sample)
        full_price = bought(transaction, last.campaign, decisions)[rows]
    belief, depth = belief_of(record), decisions["depth"].to_numpy()[rows]
    return PartDemand(
        demand=Demand(
            version=record.number,
            currency=store.locale.currency.code,
            curve=_curve(belief, contexts, head=belief.head),
            observed=seen_in(depth, full_price, matured=last.matures_on <= today),
        ),
        part=part,
        customers=int(rows.size),
        campaign=last.campaign,
        parts=parts,
    )


def divided_campaign(transaction: Transaction, version: VersionRecord) -> CampaignRecord:
    """The latest campaign whose customers a version of the model can be asked about; one that it learned at least."""
    return next(
        one
        for one in reversed(transaction.plans.campaigns())
        if version.network in transaction.contexts.networks(one.campaign)
    )


def seen_in(depth: Vector, full_price: Vector, *, matured: bool) -> tuple[ObservedPoint, ...]:
    """What some customers bought, by the depth of their code.

    depth: (n,) NaN where there is no code. full_price: (n,) bought with it, 0 where nothing was. matured: whether a
    code that was not used counts as unused.
    """
    found = []
    for one in np.unique(depth[~np.isnan(depth)]).tolist():
        here = full_price[depth == one]
        baskets = here[here > 0]
        if baskets.size:
            found.append(
                ObservedPoint(
                    depth=one,
                    purchases=int(baskets.size),
                    basket=float(np.exp(np.log(baskets).mean())),
                    mean_basket=float(baskets.mean()),
                    codes=int(here.size) if matured else 0,
                    engagement=baskets.size / here.size if matured else None,
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Labels:
    """One way to divide customers."""

    parts: tuple[str, ...]
    place: Integers  # (n,) which part each customer belongs to; -1: none of them

    def rows(self, part: str) -> Integers:
        return np.flatnonzero(self.place == self.parts.index(part))


def _labels(transaction: Transaction, record: CampaignRecord, decisions: pa.Table) -> list[_Labels]:
    """By segment, by channel, by history, by thirds of spend; as far as they are kept."""
    found = []
    for division in divisions_of(record.plan):
        texts = parts_of(decisions, division).combine_chunks().dictionary_encode()
        found.append(_Labels(parts=tuple(texts.dictionary.to_pylist()), place=texts.indices.to_numpy()))
    try:
        features = transaction.contexts.features(record.campaign)
    except StateError:  # none were kept
        return found
    if SPEND in features.column_names:
        known = np.asarray(decisions["known"].to_numpy(), np.bool_)
        place = ranks_of_spend(features[SPEND].to_numpy(), known, parts=len(_THIRDS))
        found.append(_Labels(parts=_THIRDS, place=place))
    return found


def _no_part(part: str, parts: tuple[str, ...]) -> InputError:
    return InputError("segment", found=repr(part[:80]), expected=" or ".join(parts))
