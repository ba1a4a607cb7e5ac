"""Where a launched campaign stands today, and what whoever runs it should do next."""

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from disco.operations.campaign_evidence import stored
from disco.operations.learning import StoredLesson
from disco.records.life import CampaignRecord, Phase, VersionRecord
from disco.store import Store, Transaction


class NextStep(StrEnum):
    """What to do next about a launched campaign."""

    SEND_CODES = "send the codes"  # they are not valid yet
    SEND_OUTCOMES = "send outcomes"  # codes are out, and no purchase has been reported
    WATCH = "watch the results"  # outcomes arrive, and codes are still valid
    WAIT = "wait for the last outcomes"  # codes have expired, and the last purchases may still be reported
    LEARN = "learn from it"  # all outcomes are in, and the model does not know them
    PLAN = "plan the next campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignProgress:
    """A launched campaign on a day."""

    campaign: str
    """The name of the campaign."""
    phase: Phase
    """Where it stands."""
    opens: date | datetime
    """The first day of its codes, or the moment they become valid."""
    closes: date | datetime
    """The day after their last, or the moment they expire."""
    matures_on: date
    """The day on which the last purchase has been reported."""
    has_outcomes: bool
    """Whether a batch of outcomes was received that is not reverted."""
    learned: bool
    """Whether the active version of the model knows all of it: its purchases as they stand, and its unused codes."""
    next_step: NextStep
    """What to do next."""


def campaign_progress(store: Store, campaign: str | None = None, *, today: date) -> tuple[CampaignProgress, ...]:
    """All launched campaigns by their first day, or one of them. Reads no row of a ledger."""
    with store.reading() as transaction:
        records = transaction.plans.campaigns() if campaign is None else (transaction.plans.campaign(campaign),)
        active = transaction.beliefs.version()
        return tuple(progress_of(transaction, record, active, today=today) for record in records)


def progress_of(
    transaction: Transaction, record: CampaignRecord, active: VersionRecord | None, *, today: date
) -> CampaignProgress:
    """Where a campaign that was read already stands. active: the version of the model that decides the next plan."""
    phase, matures_on = record.phase(today), record.matures_on
    has_outcomes = any(batch.reverted_at is None for batch in transaction.ledger.batches(record.campaign))
    learned = active is not None and _is_learned(transaction, record.campaign, active)
    return CampaignProgress(
        campaign=record.campaign,
        phase=phase,
        opens=record.plan.valid.opens,
        closes=record.plan.valid.closes,
        matures_on=matures_on,
        has_outcomes=has_outcomes,
        learned=learned,
        next_step=next_step(phase, matured=today >= matures_on, has_outcomes=has_outcomes, learned=learned),
    )


def _is_learned(transaction: Transaction, campaign: str, active: VersionRecord) -> bool:
    """Whether the version was made of what this campaign teaches now and, since its codes have matured, in full."""
    if campaign not in active.campaigns:
        return False
    evidence = stored(transaction, campaign, active.network)
    if evidence is None:
        return False
    return StoredLesson(campaign=campaign, evidence=evidence, matured=True).hash == active.campaigns[campaign]


def next_step(phase: Phase, *, matured: bool, has_outcomes: bool, learned: bool) -> NextStep:
    """What to do next.

    >>> next_step(Phase.ENDED, matured=True, has_outcomes=True, learned=False)
    <NextStep.LEARN: 'learn from it'>
    """
    if phase is Phase.SCHEDULED:
        return NextStep.SEND_CODES
    if learned or (phase is Phase.CLOSED and not has_outcomes):  # a closed campaign takes no outcomes any more
        return NextStep.PLAN
    if not has_outcomes:
        return NextStep.SEND_OUTCOMES
    if phase in (Phase.RUNNING, Phase.PAUSED):
        return NextStep.WATCH
    return NextStep.LEARN if matured or phase is Phase.CLOSED else NextStep.WAIT
