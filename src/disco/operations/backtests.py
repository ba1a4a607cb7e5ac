"""What earlier campaigns brought against their forecasts: a factor per depth on the next one, with its uncertainty.

A watchdog: a belief that is right leaves it at 1. It catches what no belief contains, such as customers who have
changed, a season, or a policy that chooses better than the belief knows. Separately for codes that a policy decided and
for codes assigned at random, with one number per campaign and depth,

    E[actual_a] = expected_a · exp(c + d_a + ω·ε),    c ~ N(0, τ²),  d_a ~ N(0, τ_d²),  ε ~ N(0, 1),

where ε belongs to a campaign. What is bought varies like a Poisson number of purchases of one size, so a depth whose
codes nobody used says as much as it should. Revenue and markdown of a depth are fixed shares of its full price, so one
factor per depth serves both. The posterior is taken as normal at its mode (Laplace).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from disco.operations.campaign_evidence import assigned_at_random
from disco.operations.purchases import bought
from disco.records.arrays import Flags, Matrix, Vector
from disco.records.decisions import Arm
from disco.records.plan_summary import Calibration
from disco.records.ports import Store, Transaction

_MOST_CAMPAIGNS = 6  # the latest; older ones say less about the next, and each is read from the store
_STEPS = 12  # of Newton; the first is close already, and each doubles the digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How far off forecasts usually are, as standard deviations of logarithms."""

    common: float  # τ: at all depths alike
    depth: float  # τ_d: at one depth on top of that
    campaign: float  # ω: from one campaign to the next


# (by a policy, with engagement per customer): chosen on simulated years (docs/decisions/092-forecast-calibration.md)
_EXPECTED = {
    (True, True): Expected(common=0.05, depth=0.07, campaign=0.03),
    (False, True): Expected(common=0.05, depth=0.05, campaign=0.03),
    (True, False): Expected(common=0.2, depth=0.15, campaign=0.05),
    (False, False): Expected(common=0.1, depth=0.1, campaign=0.05),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backtest:
    """A forecast of an earlier campaign against what happened, for some of its codes."""

    depths: Vector
    """(D,) ascending."""
    expected: Vector
    """(D,) expected full price of what is bought, above 0."""
    actual: Vector
    """(D,) actual full price."""
    basket: float
    """ΣF²/ΣF over the purchases: actual/basket is about a Poisson number of purchases, whatever their amounts."""


def calibrate(past: Sequence[Backtest], depths: Sequence[float], *, decided: bool, personal: bool) -> Calibration:
    """The posterior of c + d_a at these depths, widened by the difference between campaigns.

    decided: codes that a policy decided. personal: forecasts with engagement per customer.

    >>> calibrate([], [0.1], decided=True, personal=False).log_sd
    0.206...
    >>> seen = Backtest(depths=np.array([0.1]), expected=np.array([1e6]), actual=np.array([1.2e6]), basket=50.0)
    >>> found = calibrate([seen] * 6, [0.1, 0.3], decided=True, personal=False)
    >>> found.factors([0.1, 0.3]).round(2).tolist()
    [1.2, 1.12]
    """
    usual, asked = _EXPECTED[decided, personal], np.asarray(depths, np.float64)
    known = np.unique(np.concatenate([asked, *(one.depths for one in past)]))
    prior = usual.common**2 + usual.depth**2 * np.eye(known.size)  # of c + d_a
    owner = np.repeat(np.arange(len(past)), [one.depths.size for one in past])
    column = np.searchsorted(known, np.concatenate([np.zeros(0), *(one.depths for one in past)]))
    expected, actual = (
        np.concatenate([np.zeros(0), *(getattr(one, name) / one.basket for one in past)])
        for name in ("expected", "actual")
    )
    shared = prior[np.ix_(column, column)] + usual.campaign**2 * (owner[:, None] == owner)
    # Newton for the mode: each step is a regression on ln(mean) + (actual − mean)/mean with the variance 1/mean
    seen, noise = np.log((actual + 0.5) / expected), 1 / expected
    for _ in range(_STEPS):
        line = shared @ np.linalg.solve(shared + np.diag(noise), seen)
        noise = 1 / (expected * np.exp(line))
        seen = line + actual * noise - 1
    gain = np.linalg.solve(shared + np.diag(noise), np.column_stack([seen, prior[column], np.ones(column.size)]))
    mean = prior[:, column] @ gain[:, 0]
    covariance = prior - prior[:, column] @ gain[:, 1:-1] + usual.campaign**2
    places = np.searchsorted(known, asked)
    common = usual.common**2 - usual.common**4 * float(gain[:, -1].sum()) + usual.campaign**2
    return Calibration(
        log_factor=usual.common**2 * float(gain[:, 0].sum()),
        log_sd=float(np.sqrt(common)),
        campaigns=len(past),
        log_factors=dict(zip(depths, mean[places].tolist(), strict=True)),
        log_covariance=_rows(covariance[np.ix_(places, places)]),
    )


def _rows(matrix: Matrix) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in ((matrix + matrix.T) / 2).tolist())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PastForecasts:
    """What earlier campaigns say about the next forecast, at any depths."""

    decided: tuple[Backtest, ...]
    """Of codes that a policy decided."""
    at_random: tuple[Backtest, ...]
    """Of codes assigned at random."""
    personal: bool
    """Whether these forecasts have engagement per customer."""

    def calibrations(self, depths: Sequence[float]) -> Mapping[bool, Calibration]:
        """For codes that a policy decided (True) and for codes assigned at random (False), at these depths."""
        return {
            decided: calibrate(past, depths, decided=decided, personal=self.personal)
            for decided, past in ((True, self.decided), (False, self.at_random))
        }


def past_forecasts(store: Store, *, learned: Collection[str], as_of: date, personal: bool) -> PastForecasts:
    """From campaigns that had ended by that day and have been learned, since their outcomes are taken to be complete.

    A recalled one was cut short, so its forecast cannot be compared. Forecasts with engagement per customer
    (`personal`) and with one rate per depth are wrong in other ways, so neither says anything about the other.
    """
    past: dict[bool, list[Backtest]] = {True: [], False: []}
    with store.reading() as transaction:
        campaigns = [record for record in transaction.plans.campaigns() if record.campaign in learned]
        over = [
            one.campaign
            for one in campaigns
            if one.matures_on <= as_of and one.recalled_at is None and (one.solution.head is not None) is personal
        ]
        for campaign in over[-_MOST_CAMPAIGNS:]:
            for decided, seen in _backtest(transaction, campaign).items():
                past[decided].append(seen)
    return PastForecasts(decided=tuple(past[True]), at_random=tuple(past[False]), personal=personal)


def _backtest(transaction: Transaction, campaign: str) -> dict[bool, Backtest]:
    """What one campaign says; nothing where no revenue was expected, or there was none."""
    record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
    actual = bought(transaction, campaign, decisions)
    expected = decisions["expected_full_price"].to_numpy() * decisions["expected_engagement"].to_numpy()
    random = assigned_at_random(decisions, record.plan)
    by_policy = np.asarray(decisions["arm"].to_pylist(), object) == str(Arm.DECIDED)
    found = {}
    for decided, rows in ((True, by_policy & ~random), (False, random)):
        here = rows & _on_time(decisions) & (np.nan_to_num(expected) > 0)
        seen = backtest(decisions["depth"].to_numpy()[here], expected[here], actual[here])
        if seen is not None:
            found[decided] = seen
    return found


def backtest(depth: Vector, expected: Vector, actual: Vector) -> Backtest | None:
    """From codes: the depth of each, the full price expected of it and the one bought (0: none), all (codes,)."""
    total = float(actual.sum())
    if total <= 0:
        return None
    depths, place = np.unique(depth, return_inverse=True)
    sums = [np.asarray(np.bincount(place, weights=one), np.float64) for one in (expected, actual)]
    return Backtest(depths=depths, expected=sums[0], actual=sums[1], basket=float((actual**2).sum()) / total)


def _on_time(decisions: pa.Table) -> Flags:
    return ~np.asarray(decisions["late"].to_numpy(), np.bool_)
