"""How far forecasts were off before, learned from campaigns that have run out, and added to the next one's interval.

A belief has one engagement rate per depth, learned from codes dealt at random. A policy chooses its customers, and
whom it chooses may buy more often than a random receiver; a season may lift everybody. So, for codes that a policy
decided and for codes dealt at random apart:  ln(came / expected) = c + ω·ε + noise, with c ~ N(0, τ²) before anything
was seen, ω the usual difference between campaigns and the noise of a campaign's own purchases. Nothing is decided by
it: a factor common to all customers and depths changes no ranking.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from disco import objective
from disco.operations.campaign_evidence import assigned_at_random
from disco.operations.learning import has_matured
from disco.operations.purchases import bought
from disco.records.arrays import Flags, Vector
from disco.records.decisions import Arm
from disco.records.plan_summary import Calibration
from disco.records.ports import Store, Transaction

_DECIDED_SD, _RANDOM_SD = 0.2, 0.1  # τ: how far off a first forecast may well be
_BETWEEN_CAMPAIGNS_SD = 0.05  # ω
_MOST_CAMPAIGNS = 6  # the latest; older ones say less about the next, and each is read from the store


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """Some codes of an earlier campaign: revenue expected and come, and the relative sd of what came."""

    expected: float
    came: float
    noise_sd: float


def calibrate(past: Sequence[Hindsight], *, decided: bool) -> Calibration:
    """The posterior of c, widened by the difference between campaigns.

    >>> calibrate([], decided=True)
    Calibration(log_factor=0.0, log_sd=0.206..., campaigns=0)
    >>> found = calibrate([Hindsight(expected=100.0, came=120.0, noise_sd=0.03)] * 4, decided=True)
    >>> round(found.factor, 2), found.log_sd < 0.1
    (1.2, True)
    """
    precision = (_DECIDED_SD if decided else _RANDOM_SD) ** -2
    weighted = 0.0
    for one in past:
        weight = 1 / (one.noise_sd**2 + _BETWEEN_CAMPAIGNS_SD**2)
        precision, weighted = precision + weight, weighted + weight * float(np.log(one.came / one.expected))
    return Calibration(
        log_factor=weighted / precision,
        log_sd=float(np.sqrt(1 / precision + _BETWEEN_CAMPAIGNS_SD**2)),
        campaigns=len(past),
    )


def calibrations(store: Store, *, learned: Collection[str], as_of: date) -> Mapping[bool, Calibration]:
    """For codes a policy decided (True) and for codes dealt at random (False).

    From campaigns that were over by that day and have been learned: whoever learns them holds their outcomes complete.
    """
    past: dict[bool, list[Hindsight]] = {True: [], False: []}
    with store.reading() as transaction:
        campaigns = [record for record in transaction.plans.campaigns() if record.campaign in learned]
        over = [record.campaign for record in campaigns if has_matured(record, as_of=as_of)]
        for campaign in over[-_MOST_CAMPAIGNS:]:
            for decided, seen in _hindsight(transaction, campaign).items():
                past[decided].append(seen)
    return {decided: calibrate(seen, decided=decided) for decided, seen in past.items()}


def _hindsight(transaction: Transaction, campaign: str) -> dict[bool, Hindsight]:
    """What can be learned from one campaign; nothing where nothing was expected, or nothing came."""
    record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
    full_price = bought(transaction, campaign, decisions)
    depth = decisions["depth"].to_numpy()
    came = np.asarray(objective.revenue(full_price, np.nan_to_num(depth)), np.float64)
    foreseen = decisions["expected_full_price"].to_numpy() * decisions["expected_engagement"].to_numpy()
    expected = np.asarray(objective.revenue(np.nan_to_num(foreseen), np.nan_to_num(depth)), np.float64)
    random = assigned_at_random(decisions, record.plan)
    test = np.asarray(decisions["arm"].to_pylist(), object) == str(Arm.DECIDED)
    found = {}
    for decided, rows in ((True, test & ~random), (False, random)):
        seen = _seen(expected, came, rows & _on_time(decisions))
        if seen is not None:
            found[decided] = seen
    return found


def _seen(expected: Vector, came: Vector, rows: Flags) -> Hindsight | None:
    total, foreseen = float(came[rows].sum()), float(expected[rows].sum())
    if total <= 0 or foreseen <= 0:
        return None
    return Hindsight(expected=foreseen, came=total, noise_sd=float(np.sqrt((came[rows] ** 2).sum())) / total)


def _on_time(decisions: pa.Table) -> Flags:
    return ~np.asarray(decisions["late"].to_numpy(), np.bool_)
