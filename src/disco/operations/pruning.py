"""What is old and needed by nothing: removed on request, with what it frees. Learning stays possible without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from disco.operations.contexts import FeatureCache
from disco.operations.forgetting import refuse_damaged
from disco.records.ports import Clock
from disco.records.private import leftovers, sweep
from disco.records.result import Result
from disco.store import Store


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Pruned(Result):
    """What was old, and was removed."""

    before: datetime
    """What ended, or was made, before this moment is old."""
    campaigns: tuple[str, ...]
    """Campaigns that had ended before, of which something was removed."""
    raw: int
    """Rows set aside that lost the text they were received as; their reasons stay."""
    features: tuple[str, ...]
    """Campaigns that lost their retained features."""
    plans: tuple[str, ...]
    """Plans made before and never launched: removed."""
    jobs: int
    """Jobs that ended before, with their results: removed."""
    caches: int
    """Files of cached features written before: removed."""
    artefacts: int
    """Artefacts that nothing names any more: removed, whatever their age."""
    leftovers: int
    """Unfinished files and temporary folders of killed processes: removed, whatever their age."""
    freed_bytes: int
    """Bytes of the caches and artefacts; the database shrinks as well."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written. Artefacts that only this run would leave behind are not
    counted then."""


def prune(
    store: Store,
    *,
    days: int,
    clock: Clock,
    cache: FeatureCache,
    folders: Sequence[Path],
    features: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """Remove what is older than so many days.

    features: also the retained features of campaigns that ended before; no other network can embed them then. folders:
    where unfinished files of killed processes may lie.
    """
    before = clock.now() - timedelta(days=days)
    emptied: dict[str, int] = {}
    without_features = []
    with store.alone(action="prune", dry_run=dry_run) as transaction:
        plans = transaction.personal.plans_before(before)
        for plan_id in plans:
            transaction.personal.remove_plan(plan_id)
        jobs = transaction.jobs.remove_ended(before)
        for record in transaction.plans.campaigns():
            if transaction.locale.moment(record.plan.valid.end) > before:
                continue
            refuse_damaged(transaction, record.campaign, refused="Nothing was removed")
            if rows := transaction.personal.drop_raw(record.campaign):
                emptied[record.campaign] = rows
                transaction.seals.reseal_batches(record.campaign)
            if features and transaction.personal.drop_features(record.campaign):
                without_features.append(record.campaign)
                transaction.seals.reseal_plan(record.plan_id)
                transaction.seals.reseal_campaign(record.campaign)
        removed = {
            "plans": len(plans),
            "raw": sum(emptied.values()),
            "features": sorted(without_features),
            "jobs": jobs,
        }
        transaction.journal.note(before=before.isoformat(), **removed)
    caches = cache.purge(before=before, dry_run=dry_run)
    artefacts = store.remove_unnamed(dry_run=dry_run)
    places = {*folders, cache.folder}
    left = leftovers(places) if dry_run else sweep(places)
    if not dry_run:
        store.compact()
    return Pruned(
        before=before,
        campaigns=tuple(sorted({*emptied, *without_features})),
        raw=sum(emptied.values()),
        features=tuple(without_features),
        plans=plans,
        jobs=jobs,
        caches=len(caches),
        artefacts=len(artefacts),
        leftovers=len(left),
        freed_bytes=sum(caches.values()) + sum(artefacts.values()),
        dry_run=dry_run,
    )
