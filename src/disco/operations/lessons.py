"""The lessons that a model has learned from: loaded from the evidence kept beside each campaign's ledger."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta

from disco.belief import EngagementCounts
from disco.campaign import Belief, Lesson
from disco.operations import campaign_evidence
from disco.operations.campaign_evidence import CampaignEvidence
from disco.records.errors import StateError
from disco.records.life import CampaignRecord
from disco.records.ports import Transaction

GRACE_DAYS = 2  # an order of the last day may be reported a little later


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLesson:
    """A campaign's evidence as its ledger stands now, and whether its codes have matured."""

    campaign: str
    evidence: CampaignEvidence
    matured: bool

    @property
    def lesson(self) -> Lesson:
        """What `learn` takes: the baskets, and the codes once they have matured."""
        codes = self.evidence.codes if self.matured else EngagementCounts()
        return Lesson(campaign=self.campaign, baskets=self.evidence.baskets, codes=codes)

    @property
    def all_unused(self) -> bool:
        """The codes have matured and not one was used: either nobody liked the campaign or its outcomes are missing."""
        return self.matured and not self.evidence.codes.redeemed.any() and not self.evidence.baskets.total_rows

    @property
    def hash(self) -> str:
        """Of what `lesson` holds, and of nothing else."""
        return replace(self.evidence, codes=self.lesson.codes).hash


def has_matured(record: CampaignRecord, *, as_of: date) -> bool:
    """Whether the codes have expired and the grace period is over; an unused code that is still valid says nothing."""
    return record.plan.valid.end + timedelta(days=GRACE_DAYS) <= as_of


def lessons_of(
    transaction: Transaction,
    campaigns: Iterable[str],
    network: str,
    *,
    is_matured: Callable[[CampaignRecord], bool],
) -> tuple[StoredLesson, ...]:
    """What these campaigns teach under a network, by their first day."""
    wanted, lessons = set(campaigns), []
    for record in transaction.plans.campaigns():
        if record.campaign not in wanted:
            continue
        evidence = campaign_evidence.stored(transaction, record.campaign, network)
        if evidence is None:
            raise StateError(
                f"campaign {record.campaign}",
                found=f"no evidence under network {network[:12]}",
                expected="every learned campaign under one network",
                fix="Run `disco learn --rebuild`.",
            )
        lessons.append(StoredLesson(campaign=record.campaign, evidence=evidence, matured=is_matured(record)))
    return tuple(lessons)


def under_network(prior: Belief, network: str) -> Belief:
    """The prior for contexts of this network: its model then refuses contexts of any other."""
    return replace(prior, basket=replace(prior.basket, context_schema=network))
