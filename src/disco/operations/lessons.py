"""Belief as a pure function of a prior and of what each campaign taught."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta

from disco.belief import EngagementCounts
from disco.campaign import Belief
from disco.operations import campaign_evidence
from disco.operations.campaign_evidence import CampaignEvidence
from disco.records.errors import StateError
from disco.records.life import CampaignRecord
from disco.records.ports import Shelves

GRACE_DAYS = 2  # an order of the last day may be reported a little later


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What goes into a belief from one campaign: its baskets, and, once its codes have run out, its codes."""

    campaign: str
    taught: CampaignEvidence
    ripe: bool

    @property
    def codes(self) -> EngagementCounts:
        return self.taught.codes if self.ripe else EngagementCounts()

    @property
    def all_unused(self) -> bool:
        """Its codes count, and nothing was learned from any: a campaign nobody liked, or outcomes that nobody sent."""
        return self.ripe and not self.taught.codes.redeemed.any() and not self.taught.baskets.total_rows

    @property
    def hash(self) -> str:
        """Of what goes in, and of nothing else."""
        return replace(self.taught, codes=self.codes).hash


def ripe(record: CampaignRecord, *, as_of: date) -> bool:
    """Whether the codes have run out and the grace period is over: a running code that was not used yet is not a no."""
    return record.plan.valid.end + timedelta(days=GRACE_DAYS) <= as_of


def lessons_of(
    shelves: Shelves,
    campaigns: Iterable[str],
    network: str,
    *,
    is_ripe: Callable[[CampaignRecord, CampaignEvidence], bool],
) -> tuple[Lesson, ...]:
    """What these campaigns taught under a network, by their first day."""
    wanted, lessons = set(campaigns), []
    for record in shelves.campaigns():
        if record.campaign not in wanted:
            continue
        taught = campaign_evidence.stored(shelves, record.campaign, network)
        if taught is None:
            raise StateError(
                f"campaign {record.campaign}",
                found=f"no evidence under network {network[:12]}",
                expected="every learned campaign under one network",
                fix="Run `disco learn --rebuild`.",
            )
        lessons.append(Lesson(campaign=record.campaign, taught=taught, ripe=is_ripe(record, taught)))
    return tuple(lessons)


def belief_from(prior: Belief, lessons: Iterable[Lesson], *, network: str) -> Belief:
    """prior + Σ lessons."""
    basket, counts = replace(prior.basket, context_schema=network), prior.engagement.counts
    for lesson in lessons:
        basket = basket.add(lesson.taught.baskets, campaign=lesson.campaign)
        counts = counts + lesson.codes
    return Belief(basket=basket, engagement=replace(prior.engagement, counts=counts))
