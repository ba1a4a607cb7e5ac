"""A customer is forgotten: another name in the place of their id, and nothing left that was known about them.

Everything of the past that names them is rewritten in one transaction: decisions, late arrivals, outcomes, contexts and
features of every campaign. A forgotten customer counts from then on as one who bought nothing in the year before the
campaign (features unknown, the context of the population), so evidence is what the ledger gives without their baskets,
and every rule of the ledger, of learning and of the health check holds as before (docs/decisions/096-forgetting.md).

Old artefacts, caches and the database's unused pages are removed after the commit. Whoever is interrupted there runs
the same command again: it finds nobody, and removes what is left.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from disco.operations import campaign_evidence
from disco.operations.contexts import FeatureCache
from disco.operations.ledger import misjudged
from disco.records.errors import DiscoError, InputError, StateError
from disco.records.forgotten import Renaming, as_integer, as_text, is_forgotten, names_in_condition, new_name
from disco.records.life import CampaignRecord, Traces
from disco.records.ports import Clock
from disco.records.private import sweep
from disco.records.result import Result
from disco.records.wording import counted
from disco.store import Store, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenIn:
    """What one campaign held of the customers."""

    campaign: str
    """The name of the campaign."""
    decisions: int
    """Decisions that have another name now, and neither context nor features."""
    outcomes: int
    """Rows of outcomes that have another name now."""
    raw: int
    """Rows set aside that mentioned them and have lost their text."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Forgotten(Result):
    """Customers who were forgotten, and what was changed for it."""

    customers: int
    """Customers who were asked for."""
    found: int
    """Those of whom something was kept; the others were not known, or are forgotten already."""
    campaigns: tuple[ForgottenIn, ...]
    """Campaigns that held something of them."""
    plans: tuple[str, ...]
    """Plans that were not launched and decided about them, or named them in their condition: removed."""
    texts: int
    """Jobs, schedules, drafts and batches of outcomes whose texts named them, and have another name there now."""
    files: int
    """Artefacts, cached features and leftovers of killed processes that were removed."""
    unfinished: tuple[str, ...]
    """What could not be removed after the commit, in sentences; the same command again removes it."""
    elsewhere: tuple[str, ...]
    """Where their data may still lie, beyond the reach of this command, in sentences."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""


def forget(
    store: Store,
    customers: Sequence[str],
    *,
    clock: Clock,
    cache: FeatureCache,
    folders: Sequence[Path],
    tables: str,
    dry_run: bool = False,
) -> Forgotten:
    """Forget these customers, all of them or none.

    folders: where unfinished files of killed processes may lie. tables: the place of the retailer's own tables.
    """
    wanted = list(dict.fromkeys(customers))
    _refuse_names(wanted)
    with store.alone(action="forget", dry_run=dry_run) as transaction:
        plans = transaction.personal.plans_with(wanted)
        planned = frozenset().union(*plans.values())
        for plan_id in plans:
            transaction.personal.remove_plan(plan_id)
        names = dict(zip(wanted, _free_names(transaction, len(wanted)), strict=True))
        for campaign in transaction.plans.names():
            refuse_damaged(transaction, campaign, refused="Nobody was forgotten")
        written = Renaming({customer: _forms(name)[customer.isdigit()] for customer, name in names.items()})
        texts = transaction.personal.rename_texts(written)
        changed: dict[str, Traces] = {}
        for campaign in transaction.plans.names():
            traces = _forget_in(transaction, campaign, names)
            if traces.decisions or traces.outcomes or traces.raw:
                changed[campaign] = traces
        found = frozenset().union(*(traces.customers for traces in changed.values()))
        transaction.forgotten.add(sorted(found), at=clock.now())
        # results of jobs may quote rows of tables, and kept replies are what customers' questions were answered
        transaction.jobs.drop_results()
        transaction.replies.remove()
        transaction.journal.note(customers=len(wanted), found=len(found | planned | written.renamed), plans=len(plans))
        records = transaction.plans.campaigns()
        named = [record.campaign for record in records if _is_named(record, wanted)]
        left = transaction.personal.texts_left(written)
        lists = sorted({file for record in records for file in record.plan.lists.values()})
    files, unfinished = (0, ()) if dry_run else _clean(store, cache, folders)
    return Forgotten(
        customers=len(wanted),
        found=len(found | planned | written.renamed),
        campaigns=tuple(
            ForgottenIn(campaign=name, decisions=traces.decisions, outcomes=traces.outcomes, raw=traces.raw)
            for name, traces in changed.items()
        ),
        plans=tuple(plans),
        texts=texts,
        files=files,
        unfinished=unfinished,
        elsewhere=_elsewhere(tables, named, left, lists),
        dry_run=dry_run,
    )


def _refuse_names(customers: Sequence[str]) -> None:
    if not customers or not all(customers):
        raise InputError("customers", found="an empty id", expected="the id of a customer")
    names = pa.array(customers).filter(pa.array(is_forgotten(pa.array(customers))))
    if len(names):
        raise InputError(f"{names[0]} is the name of a customer who was forgotten before", fix="Nothing is left to do.")


def _free_names(transaction: Transaction, count: int) -> list[int]:
    """Names that no customer has yet, in either form."""
    free: dict[int, None] = {}
    while len(free) < count:
        drawn = {text: name for name in (new_name() for _ in range(count)) for text in _forms(name)}
        taken = {drawn[text] for text in transaction.personal.taken(drawn)}
        free.update(dict.fromkeys(name for name in drawn.values() if name not in taken))
    return list(free)[:count]


def _forms(name: int) -> tuple[str, str]:
    return as_text(name), str(as_integer(name))


def _forget_in(transaction: Transaction, campaign: str, names: dict[str, int]) -> Traces:
    record = transaction.plans.campaign(campaign)
    of_campaign = {
        customer: str(as_integer(name)) if record.integer_ids else as_text(name) for customer, name in names.items()
    }
    traces = transaction.personal.replace(campaign, of_campaign)
    transaction.seals.reseal_plan(record.plan_id)
    transaction.seals.reseal_batches(campaign)
    transaction.seals.reseal_campaign(campaign)
    if traces.outcomes:  # of rows of one event that contradict each other the least is believed, by customer too
        wrong = misjudged(transaction.ledger.outcomes(campaign), recalled_at=record.recalled_at)
        if wrong.num_rows:
            transaction.ledger.redispose(wrong)
    if traces.decisions:
        for network in transaction.beliefs.networks(campaign):
            again = campaign_evidence.rebuilt(transaction, record, network)
            transaction.beliefs.put_evidence(campaign, network, again.to_bytes())
    return traces


def refuse_damaged(transaction: Transaction, campaign: str, *, refused: str) -> None:
    """Sealing a campaign again would hide what was damaged before. refused: what was not done, as a sentence."""
    if broken := transaction.seals.broken_of(campaign):
        first = broken[0]
        raise StateError(f"{refused}, because {first.words}", fix="Run `disco doctor --repair` first.")


def _is_named(record: CampaignRecord, customers: Sequence[str]) -> bool:
    return any(names_in_condition(record.plan.customers.eligible, customer) for customer in customers)


def _clean(store: Store, cache: FeatureCache, folders: Sequence[Path]) -> tuple[int, tuple[str, ...]]:
    """Remove what the commit left: files removed, and what could not be done."""
    removed, problems = 0, []
    steps: dict[str, Callable[[], Collection[object]]] = {
        "Old artefacts": store.remove_unnamed,
        "Cached features": cache.purge,
        "Leftovers of killed processes": lambda: sweep((*folders, cache.folder)),
    }
    for what, step in steps.items():
        try:
            removed += len(step())
        except (DiscoError, OSError) as error:
            problems.append(f"{what} could not be removed: {error}")
    try:
        store.compact()
    except DiscoError as error:
        problems.append(f"Unused pages of the database could not be removed: {error}")
    return removed, tuple(problems)


_MOST_KEYS = 20  # of rows in a sentence


def _elsewhere(
    tables: str,
    named: Sequence[str],
    left: Mapping[str, Sequence[str]],
    lists: Sequence[str],
) -> tuple[str, ...]:
    """left: rows of the database that still name them, table and column → keys."""
    said = [
        f"Your own tables in {tables}, and the systems they come from.",
        "Exported codes, quarantine files and feature files: where they were written is not kept.",
        "Files of outcomes that you keep after ingesting them.",
        "Backups, and copies of the shop's folder.",
    ]
    if named:
        said.append(f"The condition of the plan of {', '.join(named)} names them, and so does its plan file.")
    for place, keys in left.items():
        shown = ", ".join(keys[:_MOST_KEYS]) + (", …" if len(keys) > _MOST_KEYS else "")
        if place.startswith("journal."):
            said.append(f"Entries of the audit journal, which cannot be changed: {shown}.")
        elif place != "plans.plan" or not named:
            said.append(f"The database, {place}: {counted(len(keys), 'row')} ({shown}).")
    if lists:
        said.append(f"Lists of customers that plans name: {', '.join(lists)}.")
    return tuple(said)
