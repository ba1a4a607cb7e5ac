"""What the codes of a plan are expected to bring, with 90% intervals that contain what earlier forecasts got wrong.

Each customer has a chance to buy of their own, at the depth they get. One draw has one θ, one spread per depth and one
draw of engagement for everybody, because errors of these do not average out, and a factor per depth from earlier
campaigns (`calibrate`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from disco.belief import draw_full_price_totals
from disco.belief.calibration import Backtest, backtest, calibrate
from disco.campaign import Belief
from disco.operations.learn import assigned_at_random
from disco.operations.purchases import bought
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.decisions import Arm, Audience
from disco.records.estimate import LEVEL, Estimate
from disco.records.identity import customer_keys, uniforms
from disco.records.plan_summary import Calibration, MoneyForecast
from disco.records.ports import Engine
from disco.store import Store, Transaction

_DRAWS = 200
_MOST_CUSTOMERS = 50_000  # a sample of this size adds 0.3% to intervals of several per cent


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
    drawn: Matrix | None = None  # (draws, depths), around it; equal rows have equal θ; None: nothing was drawn

    def __add__(self, other: "Totals") -> "Totals":
        drawn = None if self.drawn is None or other.drawn is None else self.drawn + other.drawn
        return Totals(expected=self.expected + other.expected, drawn=drawn)

    def money(self, depths: Vector) -> MoneyForecast:
        """Money is linear in full price, so revenue, markdown and any w·revenue − markdown agree with each other.

        Without draws, the same figures without intervals.
        """
        return MoneyForecast(
            revenue=self._estimate(1 - depths), markdown=self._estimate(depths), reward=self._estimate(1 - 2 * depths)
        )

    def objective(self, depths: Vector, *, revenue_weight: float) -> Estimate:
        """w·revenue − markdown."""
        return self._estimate(revenue_weight * (1 - depths) - depths)

    def drawn_markdown(self, depths: Vector) -> Vector:
        """(draws,)."""
        assert self.drawn is not None  # for the type checker: chances are asked of what was drawn
        return np.asarray(self.drawn @ depths)

    def _estimate(self, weights: Vector) -> Estimate:
        value = float(self.expected @ weights)
        return Estimate(value) if self.drawn is None else Estimate.around(value, self.drawn @ weights, level=LEVEL)


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
    engine: Engine | None = None,
) -> Totals:
    """What the codes of one arm are expected to bring, with draws around it.

    Arms add up: in equal draws they have the same θ, spread, engagement and effect of the campaign, while what their
    customers happen to buy is independent.

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
            if not here.any():
                continue
            if not (kept & here).any():
                kept = kept | here
            scale[column] = here.sum() / (kept & here).sum()
    drawn = draw_full_price_totals(
        belief.basket,
        audience.context[kept],
        choice[kept],
        depths,
        engagement=belief.engagement,
        score=belief.scores(audience.take(kept)),
        expected=expected / scale,
        draws=_DRAWS,
        seed=seed,
        group=None if arm is Arm.DECIDED else arm.salt,  # none: forecasts of decided codes keep their bytes
        engine=engine,
    )
    factors = correction.factors(depths.tolist())
    error = correction.draws(_DRAWS, depths.tolist(), seed, campaign, arm.salt, campaign=(seed, campaign))
    error *= factors / error.mean(axis=0)
    return Totals(expected=expected * factors, drawn=drawn * scale * error)


# ---- what earlier campaigns brought against their forecasts ----
#
# Which campaigns count, and what each of them says; the correction itself is `belief/calibration.py`.

_MOST_CAMPAIGNS = 6  # the latest; older ones say less about the next, and each is read from the store


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


def _on_time(decisions: pa.Table) -> Flags:
    return ~np.asarray(decisions["late"].to_numpy(), np.bool_)
