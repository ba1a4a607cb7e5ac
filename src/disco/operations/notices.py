"""Events that no use case causes: outcomes that are late, and results that are ready. A worker looks now and then.

Each is told once. A campaign whose last purchases were due longer ago than a week is left alone, because jobs by which
it is known what was told may have been pruned.
"""

from datetime import timedelta

from disco.operations.outbox import tell
from disco.records.campaign_records import CampaignRecord, Phase
from disco.records.jobs import Event
from disco.records.ports import Clock
from disco.records.wording import date as day_text
from disco.store import JOBS, Store, Transaction

LATE_AFTER = timedelta(days=3)
"""Without outcomes, while codes of a campaign can be used or its last purchases are due."""
_TOLD_WITHIN = timedelta(days=7)


def tell_of_due(store: Store, *, clock: Clock) -> int:
    """Tell of what is due now; how many events were found. Nothing is written where nobody is told."""
    with store.reading() as transaction:
        if not any({Event.OUTCOMES_LATE, Event.RESULTS_READY} & set(one.events) for one in transaction.webhooks.all()):
            return 0
        found = _due(transaction, clock)
    if not found:
        return 0
    with store.writing(JOBS, action="tell webhooks") as transaction:
        for event, data, once in found:
            tell(transaction, event, data, actor=store.actor, now=clock.now(), once=once)
    return len(found)


def _due(transaction: Transaction, clock: Clock) -> list[tuple[Event, dict[str, str], str]]:
    now, found = clock.now(), []
    today = transaction.locale.day_of(now)
    for record in transaction.plans.campaigns():
        name, ready = record.campaign, record.matures_on
        if ready <= today < ready + _TOLD_WITHIN:
            words = f"All purchases of campaign {name} should have been reported; `disco results {name}` is final."
            found.append((Event.RESULTS_READY, {"campaign": name, "words": words}, f"results:{name}"))
        elif (late := _late(transaction, record, clock)) is not None:
            found.append(late)
    return found


def _late(transaction: Transaction, record: CampaignRecord, clock: Clock) -> tuple[Event, dict[str, str], str] | None:
    now, name = clock.now(), record.campaign
    today = transaction.locale.day_of(now)
    if record.phase(today) not in (Phase.RUNNING, Phase.PAUSED, Phase.ENDED) or today >= record.matures_on:
        return None
    batches = [one for one in transaction.ledger.batches(name) if one.reverted_at is None]
    last = max((one.received_at for one in batches), default=None)
    since = max([transaction.locale.moment(record.plan.valid.opens), *([] if last is None else [last])])
    if now - since < LATE_AFTER:
        return None
    since_words = day_text(transaction.locale.day_of(since))
    words = (
        f"No outcomes of campaign {name} were received since its codes became valid on {since_words}."
        if last is None
        else f"The last outcomes of campaign {name} were received on {since_words}."
    )
    return Event.OUTCOMES_LATE, {"campaign": name, "words": words}, f"late:{name}:{since.isoformat()}"
