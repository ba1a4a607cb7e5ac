"""The versions of the model, and what one of them expects over all depths beside what was seen."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from disco.belief.curves import demand_curve
from disco.operations.versions import belief_of, version_of
from disco.records.compiled import without_compiler
from disco.records.estimate import LEVEL, Estimate
from disco.records.ports import Store
from disco.records.result import Result

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
    """What that version of the model expects; None: the active one."""
    with store.reading() as transaction:
        record = version_of(transaction, version)
    belief, currency = belief_of(record), store.locale.currency.code
    evidence = belief.basket.evidence
    if not evidence.depths.size:
        return Demand(version=record.number, currency=currency, curve=(), observed=())
    deepest = min(float(evidence.depths.max()) + _BEYOND, 1 - _STEP)
    depths = np.round(np.arange(1, round(deepest / _STEP) + 1) * _STEP, 2)
    with without_compiler():  # one customer's curve
        curve = demand_curve(
            belief.basket,
            np.zeros(evidence.context_size),
            depths,
            engagement=belief.engagement,
            level=LEVEL,
            draws=_DRAWS,
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
    counts = belief.engagement.counts.margin
    codes = {
        depth: (sent, used)
        for depth, sent, used in zip(
            counts.depths.tolist(), counts.sent.tolist(), counts.redeemed.tolist(), strict=True
        )
    }
    mean_logs = evidence.sums()[:, 0, -1] / evidence.rows
    return Demand(
        version=record.number,
        currency=currency,
        curve=tuple(
            DemandPoint(depth=depth, basket=basket, engagement=rate, revenue_per_code=money, extrapolated=far)
            for depth, basket, rate, money, far in points
        ),
        observed=tuple(
            ObservedPoint(
                depth=depth,
                purchases=int(rows),
                basket=float(np.exp(log)),
                codes=codes.get(depth, (0, 0))[0],
                engagement=codes[depth][1] / codes[depth][0] if codes.get(depth, (0, 0))[0] else None,
            )
            for depth, rows, log in zip(evidence.depths.tolist(), evidence.rows.tolist(), mean_logs, strict=True)
        ),
    )
