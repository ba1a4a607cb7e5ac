"""Forecasts of past campaigns against what happened, customer by customer: calibration, and the posterior predictive.

Every figure is one that the plan stated, before any outcome was known, so nothing here was fitted to what it is
compared with. The forecasts are those of the model alone, without level and season: these are compared per campaign.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from disco.campaign import Belief
from disco.operations.learn import deciding_belief
from disco.operations.learned import ForecastOutcome, learning_progress
from disco.operations.purchases import bought
from disco.records.arrays import Vector
from disco.records.campaign_records import CampaignRecord
from disco.records.errors import StateError
from disco.records.estimate import LEVEL, Estimate
from disco.records.money import Currency
from disco.store import Store, Transaction

_MOST_CAMPAIGNS = 12
_GROUPS = 10
_LEAST_PER_GROUP = 20
SLOTS = 10
_Z = 1.6448536269514722  # of the 90% interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """Customers of like expectation: what was expected of them, and what happened."""

    rows: int
    expected: float
    actual: Estimate
    """With the interval that chance leaves around what happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictive:
    """Forecasts of campaigns that are over, against what happened."""

    campaigns: tuple[str, ...]
    """The latest, by their first day."""
    currency: Currency
    codes: tuple[Calibrated, ...]
    """Codes by the chance to be used that was expected of them, ascending, in groups of equal size."""
    baskets: tuple[Calibrated, ...]
    """Purchases by the basket that was expected of them, in currency units."""
    slots: tuple[float, ...]
    """Share of the purchases in each tenth of their own predicted law; a tenth each where the law is right."""
    purchases: int
    """Purchases by customers with a context of their own."""
    forecasts: tuple[ForecastOutcome, ...]
    """Revenue of each campaign, with the interval that its plan stated."""


def predictive(store: Store, *, prior: Belief, today: date, campaign: str | None = None) -> Predictive:
    """Compare forecasts with what happened. campaign: of this one alone; None: of the latest that are over."""
    progress = learning_progress(store, today=today)
    with store.reading() as transaction:
        records = [
            one
            for one in transaction.plans.campaigns()
            if one.version is not None
            and one.recalled_at is None
            and one.matures_on <= today
            and campaign in (None, one.campaign)
        ][-_MOST_CAMPAIGNS:]
        if not records:
            raise StateError(
                "There is no forecast to compare: no campaign is over that was planned after another was learned"
                if campaign is None
                else f"Campaign {campaign} has no forecast to compare: it is not over, was recalled, or came first",
                fix="Learn a campaign (`disco learn`), plan the next one, and come back when its codes have matured.",
            )
        seen = [_seen(transaction, one, prior) for one in records]
    chance, used, expected, paid, place = (np.concatenate([getattr(one, name) for one in seen]) for name in _COLUMNS)
    names = tuple(one.campaign for one in records)
    return Predictive(
        campaigns=names,
        currency=store.locale.currency,
        codes=_groups(chance, used, _GROUPS),
        baskets=_groups(expected, paid, _GROUPS),
        slots=tuple((np.histogram(place, SLOTS, (0.0, 1.0))[0] / max(place.size, 1)).tolist()),
        purchases=int(place.size),
        forecasts=tuple(one for one in progress.forecasts if one.campaign in names),
    )


_COLUMNS = ("chance", "used", "expected", "paid", "place")


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """Of one campaign."""

    chance: Vector  # (codes,) expected to be used
    used: Vector  # (codes,) 1: used
    expected: Vector  # (purchases,) the basket
    paid: Vector  # (purchases,) full price
    place: Vector  # (purchases,) in the predicted law of ln F: the share of it below


def _seen(transaction: Transaction, record: CampaignRecord, prior: Belief) -> _Seen:
    decisions = transaction.decisions.of(record.campaign)
    actual = bought(transaction, record.campaign, decisions)
    known = np.asarray(decisions["known"].to_numpy(), np.bool_)
    coded = decisions["code"].is_valid().to_numpy() & ~np.asarray(decisions["late"].to_numpy(), np.bool_)
    chance = np.nan_to_num(decisions["expected_engagement"].to_numpy())
    basket = np.nan_to_num(decisions["expected_full_price"].to_numpy())
    coded, buyers = coded & (chance > 0), coded & known & (actual > 0) & (basket > 0)
    model = deciding_belief(transaction, record, prior=prior).basket
    depth = decisions["depth"].to_numpy()[buyers]
    depths, column = np.unique(depth, return_inverse=True)
    z = np.zeros(0)
    if depths.size:
        middle = np.log(basket[buyers]) - np.log(model.money_factors(depths))[column]
        z = (np.log(actual[buyers]) - middle) / model.spread(depths)[column]
    return _Seen(chance[coded], (actual[coded] > 0).astype(np.float64), basket[buyers], actual[buyers], _below(z))


def _below(z: Vector) -> Vector:
    from scipy.special import ndtr  # a second to load, and needed only here

    return np.asarray(ndtr(z))


def _groups(expected: Vector, actual: Vector, most: int) -> tuple[Calibrated, ...]:
    """Groups of equal size by what was expected."""
    count = min(most, expected.size // _LEAST_PER_GROUP)
    order = np.argsort(expected, kind="stable")
    return tuple(_group(expected[rows], actual[rows]) for rows in (np.array_split(order, count) if count else ()))


def _group(expected: Vector, actual: Vector) -> Calibrated:
    mean, half = float(actual.mean()), float(_Z * actual.std() / np.sqrt(actual.size))
    estimate = Estimate(mean, max(mean - half, 0.0), mean + half, LEVEL)
    return Calibrated(rows=actual.size, expected=float(expected.mean()), actual=estimate)


def bias(groups: Sequence[Calibrated]) -> float:
    """Actual over expected of all together, minus 1."""
    actual, expected = (
        sum(one.rows * part for one, part in zip(groups, parts, strict=True))
        for parts in ([one.actual.value for one in groups], [one.expected for one in groups])
    )
    return actual / expected - 1.0
