"""The season of a shop's campaigns, as forecasts use it: which campaigns a model learned from, and when they were."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from disco.belief.season import LEAST_DAYS, LEAST_ORDERS, CampaignSeason, NamedDays, SeasonIndex
from disco.operations.learn import stored_evidence
from disco.records.campaign_records import CampaignRecord
from disco.records.forecasting import DailyHistory, ForecastRules, SeasonSource
from disco.records.plan import Plan
from disco.store import Transaction

if TYPE_CHECKING:
    from disco.campaign import Belief
    from disco.operations.site import Site

_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShopSeason:
    """What is known of the season as of a plan's day."""

    index: SeasonIndex
    words: str
    """Where it comes from, or why there is none, in a sentence."""

    @classmethod
    def of(cls, history: DailyHistory | None, rules: ForecastRules) -> "ShopSeason":
        """history: of the shop's tables; None: it is not asked for."""
        named = [_named(one.first, one.last, one.factor) for one in rules.calendar]
        given = "; the calendar is used" if named else ""
        if history is None:
            return cls(index=SeasonIndex.of_calendar(named), words="Season: from the calendar alone.")
        days, orders = _days_with_orders(history), int(history.orders.sum())
        if days < LEAST_DAYS or orders < LEAST_ORDERS:
            found = f"orders reach back {days:,} days" if days < LEAST_DAYS else f"there are {orders:,} orders"
            words = (
                f"Season: none from orders, because {found}, and {LEAST_DAYS} days with {LEAST_ORDERS:,} orders are "
                f"needed{given}."
            )
            return cls(index=SeasonIndex.of_calendar(named), words=words)
        index = SeasonIndex.fit(history, named)
        follow = f"codes follow {max(index.follow, 0):.0%} of the season of orders"
        return cls(index=index, words=f"Season: {follow}, by {days / 365.25:.1f} years of them{given}.")

    def campaign(self, plan: Plan) -> CampaignSeason:
        return self.index.of((plan.valid.start - _EPOCH).days, plan.valid.days)


def _days_with_orders(history: DailyHistory) -> int:
    """From the first day with an order to the end."""
    return int(history.orders.size - np.argmax(history.orders > 0)) if history.orders.any() else 0


def _named(first: date, last: date, factor: float | None) -> NamedDays:
    return NamedDays(first=(first - _EPOCH).days, last=(last - _EPOCH).days, factor=factor)


def shop_season(site: "Site", plan: Plan, belief: "Belief") -> ShopSeason | None:
    """As of the day on which a plan sees its customers; None: no season is asked for, or there is no forecast."""
    if not site.rules.knows_seasons or not belief.basket.campaigns:
        return None
    if site.rules.season is SeasonSource.NONE:
        return ShopSeason.of(None, site.rules)
    from disco.features.daily import daily_history

    with site.store.reading() as transaction:
        own = [record.campaign for record in transaction.plans.campaigns()]
    with site.data.tables() as tables:
        history = daily_history(tables, as_of=plan.customers.as_of, own=own, threads=site.cache.threads)
    return ShopSeason.of(history, site.rules)


class Lessons:
    """The campaigns of a shop with their seasons, and how many codes each has taught about."""

    def __init__(self, transaction: Transaction, season: ShopSeason, *, forgetting: float = 1.0) -> None:
        """forgetting: by which older codes count less in the model."""
        self._transaction, self._season, self._forgetting = transaction, season, forgetting
        self._used: dict[str, float] = {}

    @cached_property
    def _records(self) -> dict[str, CampaignRecord]:
        return {record.campaign: record for record in self._transaction.plans.campaigns()}

    def relative(self, plan: Plan, learned: Collection[str], *, until: date) -> tuple[float, float]:
        """(mean, variance) of ln of a plan's season, relative to those of the campaigns that a model learned from.

        until: when it learned, so that codes that had not matured say nothing.
        """
        known = [self._records[name] for name in learned if name in self._records]
        known = [record for record in known if record.matures_on <= until]
        seasons: Sequence[CampaignSeason] = [self._season.campaign(record.plan) for record in known]
        return self._season.campaign(plan).against(seasons, self._weights([record.campaign for record in known]))

    def before(self, record: CampaignRecord) -> float:
        """The same of a campaign that is over, by the version of the model that planned it: the mean."""
        version = None if record.version is None else self._transaction.beliefs.version(record.version)
        if version is None:
            return 0.0
        made_on = self._transaction.locale.day_of(version.made_at)
        return self.relative(record.plan, version.campaigns, until=made_on)[0]

    def _weights(self, campaigns: Sequence[str]) -> list[float]:
        """What each is of what the model learned: codes used, and less with each later one that taught any."""
        uses = {name: self._uses(name) for name in campaigns}
        taught = [name for name, one in self._records.items() if name in uses and one.recalled_at is None]
        ages = {name: age for age, name in enumerate(reversed(taught))}
        return [uses[name] * self._forgetting ** ages.get(name, 0) for name in campaigns]

    def _uses(self, campaign: str) -> float:
        """Codes of a campaign that were used, among those that engagement is learned from."""
        if campaign not in self._used:
            networks = self._transaction.beliefs.networks(campaign)
            kept = stored_evidence(self._transaction, campaign, networks[0]) if networks else None
            self._used[campaign] = 0.0 if kept is None else float(kept.codes.redeemed.sum())
        return self._used[campaign]
