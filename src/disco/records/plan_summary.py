"""What a plan decided and expects, as it is kept and shown: the solve, and a forecast per arm."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from disco.records.arrays import Matrix, Vector
from disco.records.decisions import Arm, Offer
from disco.records.estimate import Estimate
from disco.records.identity import name_key
from disco.records.money import GBP
from disco.records.result import DepthKey, Result, adapter
from disco.records.score import EngagementHead


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyForecast:
    """Expected totals of some customers, in currency units."""

    revenue: Estimate
    """What customers pay with their codes."""
    markdown: Estimate
    """What the discount takes from the full price."""
    reward: Estimate
    """revenue − markdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far off earlier forecasts were: ln(actual / expected) of the next campaign is normal, at each depth."""

    log_factor: float
    """Natural logarithm of the factor on the forecast that is common to all depths."""
    log_sd: float
    """Its standard deviation."""
    campaigns: int
    """Earlier campaigns it was learned from."""
    log_factors: Mapping[DepthKey, float] = field(default_factory=dict)
    """Natural logarithm of the factor by depth; empty in plans made by earlier versions: the common one for all."""
    log_covariance: tuple[tuple[float, ...], ...] = ()
    """Of these logarithms, in the order of the depths."""
    campaign_log_sd: float = 0.0
    """Of what moves all codes of the next campaign alike, learned from how far earlier campaigns moved; the covariance
    contains it. 0 in plans made by earlier versions, which did not keep it apart."""
    level_step: float | None = None
    """How far the common factor moves from one campaign to the next, as a standard deviation of its logarithm; null
    where it is taken as fixed."""
    log_season: float | None = None
    """Natural logarithm of the campaign's season, relative to those of the campaigns that the model learned from; the
    factors contain it. Null where no season is known."""

    def in_season(self, mean: float, variance: float) -> "Calibration":
        """The same for a campaign in another season than those the model learned from: ln of the factor has this mean
        and variance, for all its codes alike."""
        return replace(
            self,
            log_factor=self.log_factor + mean,
            log_sd=math.hypot(self.log_sd, math.sqrt(variance)),
            log_factors={depth: log + mean for depth, log in self.log_factors.items()},
            log_covariance=tuple(tuple(one + variance for one in row) for row in self.log_covariance),
            campaign_log_sd=math.hypot(self.campaign_log_sd, math.sqrt(variance)),
            log_season=mean,
        )

    def level_words(self) -> str:
        """Where the level of campaigns stands and how far it moves, in a sentence; empty where it is taken as fixed."""
        if self.level_step is None or not self.campaigns:
            return ""
        level = math.exp(self.log_factor - (self.log_season or 0.0))
        return (
            f"Level: the next campaign is expected to bring {level:.0%} of what the model says; "
            f"it moves by about {self.level_step:.0%} from one campaign to the next."
        )

    def season_words(self) -> str:
        """How the campaign's season compares with those of earlier ones, in a sentence; empty where none is known."""
        if self.log_season is None:
            return ""
        return (
            f"In its season codes are expected to be used {math.exp(self.log_season):.2f} times as often as in the "
            "campaigns that the model learned from."
        )

    def factors(self, depths: Sequence[float]) -> Vector:
        """(K,) on the forecast of each depth, to six digits: the budget counts with them, so the last digits of a
        mathematical library must not matter."""
        logs = np.array([self.log_factors.get(depth, self.log_factor) for depth in depths], np.float64)
        return np.asarray(np.round(np.exp(logs), 6))

    def draws(
        self, count: int, depths: Sequence[float], *names: object, campaign: Sequence[object] | None = None
    ) -> Matrix:
        """(count, K) factors whose mean is that of `factors`; a function of the names alone.

        campaign: names of the campaign, without those of a group of its customers. Draws of its groups then have what
        moves the whole campaign in common. None: nothing is in common with other draws.
        """
        generator = np.random.Generator(np.random.Philox(key=name_key(*names, "calibration")))
        if not self.log_factors:
            common = self.log_factor - self.log_sd**2 / 2 + self.log_sd * generator.standard_normal(count)
            return np.repeat(np.exp(common)[:, None], len(depths), axis=1)
        places = [list(self.log_factors).index(depth) for depth in depths]
        covariance = np.asarray(self.log_covariance)[np.ix_(places, places)]
        mean = np.asarray(list(self.log_factors.values()))[places] - covariance.diagonal() / 2
        whole: Matrix | float = 0.0
        if campaign is not None and self.campaign_log_sd:
            covariance = covariance - self.campaign_log_sd**2
            shared = np.random.Generator(np.random.Philox(key=name_key(*campaign, "campaign effect")))
            whole = self.campaign_log_sd * shared.standard_normal((count, 1))
        own = generator.standard_normal((count, len(depths))) @ np.linalg.cholesky(covariance).T
        return np.asarray(np.exp(mean + own + whole))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmForecast:
    """One group of customers of a plan."""

    customers: int
    """Number of customers."""
    codes: Mapping[DepthKey, int]
    """Codes per depth."""
    money: MoneyForecast | None
    """What the codes are expected to bring; null before any purchase was learned."""
    correction: Calibration | None = None
    """What earlier campaigns brought against their forecasts; `money` contains it."""
    contact_cost: float | None = None
    """What sending the codes costs, in currency units; null where the plan names no `contact_cost`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSolution:
    """Limits for a part of the customers, after the solve."""

    prices: tuple[float, ...] | None  # per depth, on top of those of all; None: assigned at random
    reserve: tuple[int | None, ...]  # codes per depth held back for late arrivals of the segment; None: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """How the decided arm was solved. Late arrivals are decided at these prices."""

    depths: tuple[float, ...]
    prices: tuple[float, ...] | None  # shadow price per depth, in units of the objective; None: assigned at random
    budget_price: float
    engagement: tuple[float, ...]  # the population's rate per depth; without `head`, everybody's
    status: str
    value: float
    bound: float
    gap: float
    policy: str
    reserve: tuple[int | None, ...]  # codes per depth held back for late arrivals; None: no limit
    reserve_budget: float | None  # expected markdown held back for them; None: no budget
    segments: Mapping[str, SegmentSolution] | None = None  # by value of the plan's column
    budget_factor: float = 1.0
    """The plan's money per unit of the model's, for the decided arm: 1/`budget_share`, and in plans made by earlier
    versions what earlier campaigns cost per unit expected divided by it."""
    cost_factors: tuple[float, ...] | None = None
    """What a code of each depth is counted for in the budget, per unit of expected markdown; None: 1."""
    budget_share: float = 1.0  # of the budget that is planned, so that the chance to overspend stays at or below a risk
    spread_by_depth: bool = False  # whether baskets had a spread of their own at each depth, or one for all
    head: Mapping[str, tuple[float, ...]] | None = None
    """The engagement head of the network, as `EngagementHead.to_json` writes it; None: all have `engagement`."""

    def offer(self, *, revenue_weight: float) -> Offer:
        """The depths without limits, with costs as the budget of the solve counted them."""
        free = (None,) * len(self.depths)
        return Offer(depths=self.depths, caps=free, revenue_weight=revenue_weight, cost_factors=self.cost_factors)

    def revenue_prices(self, revenue_weight: float) -> dict[float, float] | None:
        """What one more code of a depth is worth in revenue, so divided by its weight; None: assigned at random."""
        return None if self.prices is None else self._in_revenue(self.prices, revenue_weight)

    def segment_revenue_prices(self, revenue_weight: float) -> dict[str, dict[float, float]] | None:
        """By segment, on top of `revenue_prices`; None: no segments, or assigned at random."""
        if self.segments is None or self.prices is None:
            return None
        return {
            label: self._in_revenue(part.prices, revenue_weight)
            for label, part in self.segments.items()
            if part.prices is not None
        }

    def _in_revenue(self, prices: tuple[float, ...], revenue_weight: float) -> dict[float, float]:
        return {depth: price / revenue_weight for depth, price in zip(self.depths, prices, strict=True)}

    def revenue_budget_price(self, revenue_weight: float) -> float:
        """What one more unit of the plan's budget is worth in revenue."""
        return self.budget_price / self.budget_factor / revenue_weight

    def figures(self, *, budget: float | None, revenue_weight: float) -> dict[str, Any]:
        """Those of `PlanFigures` that follow from the solve, by name. budget: of the plan."""
        return {
            "ceiling": self.ceiling(budget),
            "prices": self.revenue_prices(revenue_weight),
            "budget_price": self.revenue_budget_price(revenue_weight),
            "status": self.status,
            "value": self.value,
            "bound": self.bound,
            "gap": self.gap,
            "reserve": dict(zip(self.depths, self.reserve, strict=True)),
        }

    def ceiling(self, budget: float | None) -> float | None:
        """The expected markdown that all codes may reach under a plan's budget; None without one."""
        return None if budget is None else budget * self.budget_share

    @property
    def engagement_head(self) -> EngagementHead | None:
        return None if self.head is None else EngagementHead.from_json(self.head)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanFigures(Result):
    """What limits lead to: the figures that a plan states, and that the planner shows before there is one."""

    campaign: str
    """The name of the campaign."""
    customers: int
    """Customers who were decided about."""
    currency: str = GBP.code
    """The currency of all money here, by its code of ISO 4217."""
    version: int | None
    """The version of the model that decided; null where nothing was learned yet."""
    arms: Mapping[Arm, ArmForecast]
    """By group: decided, control, holdout."""
    total: MoneyForecast | None
    """What all codes together are expected to bring; null before any purchase was learned."""
    ceiling: float | None
    """The expected markdown that all codes may reach, the reserve included; below the budget where `overspend_risk`
    asks for it; null without a budget."""
    prices: Mapping[DepthKey, float] | None
    """What one more code of a depth is worth, in revenue; null where depths were assigned at random."""
    budget_price: float
    """What one more unit of budget is worth, in revenue; 0 without a budget or where it does not bind."""
    status: str
    """How the solve ended."""
    value: float
    """The objective w·revenue − markdown of the decided group, at the policy's figures."""
    bound: float
    """No allocation under these limits is worth more."""
    gap: float
    """(bound − value) relative to the bound; 0 is proved optimal."""
    reserve: Mapping[DepthKey, int | None]
    """Codes per depth kept back for late arrivals; null: no limit."""
    binding: tuple[str, ...]
    """The limits that cost something, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """What a plan decided and expects, without its customers. Kept as JSON (`to_json`), which reads back equal."""

    customers: int
    network: str  # names the context network
    version: int | None  # of the belief that decided; None: nothing was learned
    solution: Solution
    arms: Mapping[Arm, ArmForecast]
    total: MoneyForecast | None  # of all codes together
    binding: tuple[str, ...]  # limits that cost something, in words
    warnings: tuple[str, ...]
    sources: Mapping[str, str]  # file or table → hash when the plan was made; equal hashes spare a second reading
    overspend_chance: float | None = None  # that the codes cost more than the budget; None: no budget, or no forecast
    season: str | None = None  # where the season of the forecasts comes from, or why there is none; None: not asked for
    left_out: Mapping[str, int] | None = None  # by key (include, exclude, contact): eligible customers without decision

    def to_json(self) -> str:
        text: bytes = adapter(PlanSummary).dump_json(self)
        return text.decode()

    @classmethod
    def from_json(cls, text: str) -> "PlanSummary":
        read: PlanSummary = adapter(PlanSummary).validate_json(text)
        return read
