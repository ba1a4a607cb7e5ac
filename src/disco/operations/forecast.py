"""What a decided plan is expected to bring, with 90% intervals that contain what earlier forecasts got wrong.

A belief has one engagement rate per depth, learned from codes assigned at random. The customers whom a policy chooses
may buy more often than a random receiver, and a season may lift everybody. So, separately for codes that a policy
decided and for codes assigned at random,  ln(actual / expected) = c + ω·ε + noise,  with c ~ N(0, τ²) before anything
was seen, ω the usual difference between campaigns, and the noise of a campaign's own purchases. Decisions do not use
it: a factor common to all customers and depths changes no ranking.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from disco import objective
from disco.belief import draw_full_price_totals
from disco.campaign import Belief
from disco.operations.campaign_evidence import assigned_at_random
from disco.operations.purchases import bought
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.decisions import Arm, Audience
from disco.records.estimate import LEVEL, Estimate
from disco.records.identity import customer_keys, uniforms
from disco.records.plan_summary import Calibration, MoneyForecast
from disco.records.ports import Store, Transaction

_DRAWS = 200
_MOST_CUSTOMERS = 50_000  # a sample of this size adds 0.3% to intervals of several per cent
_DECIDED_SD, _RANDOM_SD = 0.2, 0.1  # τ: how far off a first forecast may well be
_BETWEEN_CAMPAIGNS_SD = 0.05  # ω
_MOST_CAMPAIGNS = 6  # the latest; older ones say less about the next, and each is read from the store


def expected_totals(full_price: Vector, engagement: Vector, choice: Integers, *, depths: int) -> Vector:
    """(depths,) Σ F_i·e_i over the customers who get each depth: the expectation that a budget counts.

    full_price, engagement (n,): of each customer at the depth they get, at the posterior mean; not read where `choice`
    is -1, no code.
    """
    coded = choice >= 0
    bought = full_price[coded] * engagement[coded]
    return np.asarray(np.bincount(choice[coded], weights=bought, minlength=depths), np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Totals:
    """Full price bought per depth with some codes, corrected by earlier campaigns. Totals of one campaign add up."""

    expected: Vector  # (depths,)
    drawn: Matrix  # (draws, depths), around it; equal rows have equal θ

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(expected=self.expected + other.expected, drawn=self.drawn + other.drawn)

    def money(self, depths: Vector) -> MoneyForecast:
        """Money is linear in full price, so revenue, markdown and any w·revenue − markdown agree with each other."""
        return MoneyForecast(
            revenue=self._estimate(1 - depths), markdown=self._estimate(depths), reward=self._estimate(1 - 2 * depths)
        )

    def _estimate(self, weights: Vector) -> Estimate:
        return Estimate.around(float(self.expected @ weights), self.drawn @ weights, level=LEVEL)


def draw_totals(
    belief: Belief,
    audience: Audience,
    choice: Integers,
    depths: Vector,
    *,
    full_price: Vector,
    engagement: Vector,
    correction: Calibration,
    arm: Arm,
    seed: int,
    campaign: str,
) -> Totals:
    """What the codes of one arm are expected to bring, with draws around it; equal seeds share θ, so arms add up.

    full_price, engagement (n,): as in `expected_totals`.

    The draws are scaled, depth by depth, to the expectation at the posterior mean. Left alone, their mean would be
    larger by E[exp(ψᵀθ)]/exp(ψᵀE[θ]), and off by the noise of a finite number of draws. But the correction contains
    that ratio already: it was learned from actual ÷ expected, with expected at the posterior mean. They are scaled and
    not shifted because every error but that of single purchases is a factor, and so nothing falls below 0.

    A large campaign is drawn from a random part of its customers and scaled up, depth by depth.
    """
    expected = expected_totals(full_price, engagement, choice, depths=depths.size)
    coded = choice >= 0
    kept, scale = coded, np.ones(depths.size)
    if coded.sum() > _MOST_CUSTOMERS:
        u = uniforms(customer_keys(audience.ids), seed, campaign, "forecast")
        kept = coded & (u < _MOST_CUSTOMERS / coded.sum())
        for column in range(depths.size):
            here = choice == column
            if not (kept & here).any():
                kept = kept | here
            scale[column] = here.sum() / max((kept & here).sum(), 1)
    drawn = draw_full_price_totals(
        belief.basket,
        audience.context[kept],
        choice[kept],
        depths,
        engagement=belief.engagement,
        expected=expected / scale,
        draws=_DRAWS,
        seed=seed,
    )
    error = correction.draws(_DRAWS, seed, campaign, arm.salt)
    error *= correction.factor / error.mean()
    return Totals(expected=expected * correction.factor, drawn=drawn * scale * error[:, None])


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """A forecast of an earlier campaign against what happened, for some of its codes."""

    expected: float
    """Expected revenue."""
    actual: float
    """Actual revenue."""
    noise_sd: float
    """Relative standard deviation of the actual revenue."""


def calibrate(past: Sequence[Backtest], *, decided: bool) -> Calibration:
    """The posterior of c, widened by the difference between campaigns.

    >>> calibrate([], decided=True)
    Calibration(log_factor=0.0, log_sd=0.206..., campaigns=0)
    >>> found = calibrate([Backtest(expected=100.0, actual=120.0, noise_sd=0.03)] * 4, decided=True)
    >>> round(found.factor, 2), found.log_sd < 0.1
    (1.2, True)
    """
    precision = (_DECIDED_SD if decided else _RANDOM_SD) ** -2
    weighted = 0.0
    for one in past:
        weight = 1 / (one.noise_sd**2 + _BETWEEN_CAMPAIGNS_SD**2)
        precision, weighted = precision + weight, weighted + weight * float(np.log(one.actual / one.expected))
    return Calibration(
        log_factor=weighted / precision,
        log_sd=float(np.sqrt(1 / precision + _BETWEEN_CAMPAIGNS_SD**2)),
        campaigns=len(past),
    )


def calibrations(store: Store, *, learned: Collection[str], as_of: date) -> Mapping[bool, Calibration]:
    """For codes that a policy decided (True) and for codes assigned at random (False).

    From campaigns that had ended by that day and have been learned, since their outcomes are taken to be complete. A
    recalled one was cut short, so its forecast cannot be compared.
    """
    past: dict[bool, list[Backtest]] = {True: [], False: []}
    with store.reading() as transaction:
        campaigns = [record for record in transaction.plans.campaigns() if record.campaign in learned]
        over = [one.campaign for one in campaigns if one.matures_on <= as_of and one.recalled_at is None]
        for campaign in over[-_MOST_CAMPAIGNS:]:
            for decided, seen in _backtest(transaction, campaign).items():
                past[decided].append(seen)
    return {decided: calibrate(seen, decided=decided) for decided, seen in past.items()}


def _backtest(transaction: Transaction, campaign: str) -> dict[bool, Backtest]:
    """What one campaign says; nothing where no revenue was expected, or there was none."""
    record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
    full_price = bought(transaction, campaign, decisions)
    depth = decisions["depth"].to_numpy()
    actual = np.asarray(objective.revenue(full_price, np.nan_to_num(depth)), np.float64)
    expected_price = decisions["expected_full_price"].to_numpy() * decisions["expected_engagement"].to_numpy()
    expected = np.asarray(objective.revenue(np.nan_to_num(expected_price), np.nan_to_num(depth)), np.float64)
    random = assigned_at_random(decisions, record.plan)
    by_policy = np.asarray(decisions["arm"].to_pylist(), object) == str(Arm.DECIDED)
    found = {}
    for decided, rows in ((True, by_policy & ~random), (False, random)):
        seen = _seen(expected, actual, rows & _on_time(decisions))
        if seen is not None:
            found[decided] = seen
    return found


def _seen(expected: Vector, actual: Vector, rows: Flags) -> Backtest | None:
    total, forecast = float(actual[rows].sum()), float(expected[rows].sum())
    if total <= 0 or forecast <= 0:
        return None
    return Backtest(expected=forecast, actual=total, noise_sd=float(np.sqrt((actual[rows] ** 2).sum())) / total)


def _on_time(decisions: pa.Table) -> Flags:
    return ~np.asarray(decisions["late"].to_numpy(), np.bool_)
