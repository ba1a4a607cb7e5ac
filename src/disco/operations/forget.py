"""What is kept about customers: shown (`access`), removed for good (`forget`), and what is old removed (`prune`).

`access` and `forget` walk one list of places (`PLACES`), so that `access` shows everything that names the customer and
that `forget` removes or rewrites, and nothing that stays. `forget` also removes what is not shown because it names
others or nobody: all results of jobs, kept replies and cached features.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.operations.contexts import FeatureCache
from disco.operations.outcomes import count_again
from disco.records.arrays import Integers
from disco.records.errors import DiscoError, InputError, StateError
from disco.records.files import leftovers, sweep, written_whole
from disco.records.ports import Clock
from disco.records.result import Result
from disco.records.wording import counted
from disco.store import Store, Transaction
from disco.store.personal import (
    Renaming,
    Traces,
    as_integer,
    as_text,
    is_forgotten,
    mentions,
    names_in_condition,
    new_name,
)

# ---- forget ----
#
# A customer is forgotten: another name in the place of their id, and nothing left that was known about them.
#
# Everything of the past that names them is rewritten in one transaction: decisions, late arrivals, outcomes, contexts
# and features of every campaign. A forgotten customer counts from then on as one who bought nothing in the year
# before the campaign (features unknown, the context of the population), so evidence is what the ledger gives without
# their baskets, and every rule of the ledger, of learning and of the health check holds as before
# (docs/decisions/096-forgetting.md).
#
# Old artefacts, caches and the database's unused pages are removed after the commit. Whoever is interrupted there
# runs the same command again: it finds nobody, and removes what is left.


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
        removal = _Removal(names=dict(zip(wanted, _free_names(transaction, len(wanted)), strict=True)))
        for campaign in transaction.plans.names():
            refuse_damaged(transaction, campaign, refused="Nobody was forgotten")
        for place in PLACES:
            place.remove(transaction, removal)
        transaction.forgotten.add(sorted(removal.in_campaigns), at=clock.now())
        transaction.journal.note(customers=len(wanted), found=len(removal.found), plans=len(removal.plans))
        elsewhere = _elsewhere(transaction, removal.written, tables=tables)
    files, unfinished = (0, ()) if dry_run else _clean(store, cache, folders)
    return Forgotten(
        customers=len(wanted),
        found=len(removal.found),
        campaigns=tuple(
            ForgottenIn(campaign=name, decisions=traces.decisions, outcomes=traces.outcomes, raw=traces.raw)
            for name, traces in removal.campaigns.items()
        ),
        plans=tuple(removal.plans),
        texts=removal.texts,
        files=files,
        unfinished=unfinished,
        elsewhere=elsewhere,
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


def _renaming(names: Mapping[str, int]) -> Renaming:
    """Customer → number of a name, as texts have it."""
    return Renaming({customer: _forms(name)[customer.isdigit()] for customer, name in names.items()})


def _forget_in(transaction: Transaction, campaign: str, names: Mapping[str, int]) -> Traces:
    record = transaction.plans.campaign(campaign)
    of_campaign = {
        customer: str(as_integer(name)) if record.integer_ids else as_text(name) for customer, name in names.items()
    }
    traces = transaction.personal.replace(campaign, of_campaign)
    transaction.ledger.seal_rows(campaign)
    if traces.decisions or traces.outcomes:
        # of rows of one event that contradict each other the least is believed, by customer too
        count_again(transaction, record)
    return traces


def refuse_damaged(transaction: Transaction, campaign: str, *, refused: str) -> None:
    """Sealing a campaign again would hide what was damaged before. refused: what was not done, as a sentence."""
    if broken := transaction.seals.broken_of(campaign):
        first = broken[0]
        raise StateError(f"{refused}, because {first.words}", fix="Run `disco doctor --repair` first.")


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
    transaction: Transaction, names: Renaming, *, tables: str, removed_plans: Collection[str] = ()
) -> tuple[str, ...]:
    """Where data of these customers may still lie once they are forgotten, in sentences; with rows of the database that
    name them. removed_plans: plans that are removed with them."""
    records = transaction.plans.campaigns()
    named = [
        record.campaign
        for record in records
        if any(names_in_condition(text, customer) for text in record.plan.sql for customer in names.customers)
    ]
    lists = sorted({file for record in records for file in record.plan.lists.values()})
    sentences = [
        f"Your own tables in {tables}, and the systems they come from.",
        "Exported codes, quarantine files and feature files: where they were written is not kept.",
        "Files of outcomes that you keep after ingesting them.",
        "Backups, and copies of the shop's folder.",
    ]
    if named:
        sentences.append(f"The condition of the plan of {', '.join(named)} names them, and so does its plan file.")
    for place, keys in transaction.personal.texts_left(names, removed_plans=removed_plans).items():
        listed = ", ".join(keys[:_MOST_KEYS]) + (", …" if len(keys) > _MOST_KEYS else "")
        if place.startswith("journal."):
            sentences.append(f"Entries of the audit journal, which cannot be changed: {listed}.")
        elif place != "plans.plan" or not named:
            sentences.append(f"The database, {place}: {counted(len(keys), 'row')} ({listed}).")
    if lists:
        sentences.append(f"Lists of customers that plans name: {', '.join(lists)}.")
    return tuple(sentences)


# ---- access ----


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalRecord:
    """One thing that is kept about a customer."""

    place: str
    """plan, text, decision, context, features, prepared, outcome, or set aside."""
    where: str
    """The campaign, the id of the plan, or the table, column and key of the row."""
    content: Mapping[str, Any]
    """What is kept, by the names of its columns; empty where only the condition of a plan names them."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PersonalData(Result):
    """Everything that is kept about a customer: what `disco forget` removes."""

    customer: str
    """The id that was asked for."""
    records: tuple[PersonalRecord, ...]
    """What is kept, place by place; empty: nothing."""
    elsewhere: tuple[str, ...]
    """Where their data may lie beyond that, in sentences: `disco forget` does not reach it."""
    file: str | None
    """The JSON file it was written to."""


def access(store: Store, customer: str, *, tables: str, file: Path | None = None) -> PersonalData:
    """Everything that is kept about a customer; with `file` also written there as JSON. Changes nothing.

    tables: the place of the retailer's own tables.
    """
    _refuse_names([customer])
    with store.reading() as transaction:
        records = tuple(record for place in PLACES for record in place.show(transaction, customer))
        plans = {record.where for record in records if record.place == "plan"}
        elsewhere = _elsewhere(transaction, _renaming({customer: 0}), tables=tables, removed_plans=plans)
    kept = PersonalData(
        customer=customer, records=records, elsewhere=elsewhere, file=None if file is None else str(file)
    )
    if file is not None:
        with written_whole(file) as unfinished:
            unfinished.write_text(kept.to_json(indent=2) + "\n", encoding="utf-8")
    return kept


# ---- the places, for both ----


@dataclass(slots=True, kw_only=True)
class _Removal:
    """Who is forgotten, and what was found of them so far."""

    names: Mapping[str, int]
    """Customer → the number of their new name."""
    plans: dict[str, frozenset[str]] = field(default_factory=dict)
    campaigns: dict[str, Traces] = field(default_factory=dict)
    texts: int = 0
    written: Renaming = field(init=False)

    def __post_init__(self) -> None:
        self.written = _renaming(self.names)

    @property
    def in_campaigns(self) -> frozenset[str]:
        return frozenset().union(*(traces.customers for traces in self.campaigns.values()))

    @property
    def found(self) -> frozenset[str]:
        """Those of whom something was kept."""
        return frozenset().union(self.in_campaigns, *self.plans.values(), self.written.renamed)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in which customers stand."""

    name: str
    show: Callable[[Transaction, str], Iterator[PersonalRecord]]
    """What it holds of one customer."""
    remove: Callable[[Transaction, _Removal], None]
    """Removes what it holds of some, or puts another name there."""


def _plans(transaction: Transaction, customer: str) -> Iterator[PersonalRecord]:
    """Plans that were not launched and decide about them, or name them in their condition."""
    for plan_id in transaction.personal.plans_with([customer]):
        tables = transaction.plans.tables(plan_id)
        ids = tables.decisions["customer_id"].cast(pa.string()).combine_chunks()
        rows = pa.array(np.flatnonzero(pc.equal(ids, customer).to_numpy(zero_copy_only=False)))
        content: dict[str, Any] = {}  # where only the condition names them
        if len(rows):
            content = {**_rows(tables.decisions.take(rows))[0], "context": tables.contexts[rows[0].as_py()].tolist()}
        if len(rows) and tables.features is not None:
            features = {name: tables.features[name].take(rows) for name in tables.features.column_names}
            content["features"] = _rows(pa.table(features))[0]
        yield PersonalRecord(place="plan", where=plan_id, content=content)


def _remove_plans(transaction: Transaction, removal: _Removal) -> None:
    removal.plans = transaction.personal.plans_with(list(removal.names))
    for plan_id in removal.plans:
        transaction.personal.remove_plan(plan_id)


def _texts(transaction: Transaction, customer: str) -> Iterator[PersonalRecord]:
    """Texts of jobs, schedules, drafts and batches in which another name would stand, and results of jobs and replies
    that name them."""
    for place, key, text in transaction.personal.texts_of(_renaming({customer: 0})):
        yield PersonalRecord(place="text", where=f"{place} {key}", content={place.partition(".")[2]: text})


def _remove_texts(transaction: Transaction, removal: _Removal) -> None:
    removal.texts = transaction.personal.rename_texts(removal.written)
    # results of jobs may quote rows of tables, and kept replies are what customers' questions were answered
    transaction.jobs.drop_results()
    transaction.replies.remove()


def _campaigns(transaction: Transaction, customer: str) -> Iterator[PersonalRecord]:
    """Decisions, contexts, features, what is prepared for them, outcomes, and rows set aside that mention them."""
    asked = pa.array([customer], pa.string())
    for campaign in transaction.plans.names():
        decisions = transaction.decisions.of(campaign, customers=asked)
        parts = {"decision": _rows(decisions), **_of_decision(transaction, campaign, decisions["row"].to_numpy())}
        prepared = transaction.arrivals.of(campaign, asked)
        if prepared is not None and prepared.customers.num_rows:
            parts["prepared"] = [
                {**row, "context": context, "features": features}
                for row, context, features in zip(
                    _rows(prepared.customers), prepared.contexts.tolist(), _rows(prepared.features), strict=True
                )
            ]
        parts |= _of_ledger(transaction, campaign, customer)
        for place, rows in parts.items():
            for row in rows:
                yield PersonalRecord(place=place, where=campaign, content=row)


def _of_decision(transaction: Transaction, campaign: str, rows: Integers) -> dict[str, list[dict[str, Any]]]:
    """Contexts under every network, and the retained features, of these decisions."""
    if not rows.size:
        return {}
    contexts = [
        {"network": network, "context": context}
        for network in transaction.contexts.networks(campaign)
        for context in transaction.contexts.of(campaign, network, rows).tolist()
    ]
    features: list[dict[str, Any]] = []
    with suppress(StateError):  # none were kept
        features = _rows(transaction.contexts.features(campaign).take(pa.array(rows)))
    return {"context": contexts, "features": features}


def _of_ledger(transaction: Transaction, campaign: str, customer: str) -> dict[str, list[dict[str, Any]]]:
    """Their outcomes, and rows set aside that mention them; those of reverted batches are kept, too."""
    parts: dict[str, list[dict[str, Any]]] = {"outcome": [], "set aside": []}
    for batch in transaction.ledger.batches(campaign):
        rows = transaction.ledger.outcomes(campaign, batch_id=batch.batch_id)
        theirs = pc.fill_null(pc.equal(rows["customer_id"], customer), False)
        parts["outcome"] += _rows(rows.filter(theirs))
        others = rows.filter(pc.and_(pc.invert(theirs), rows["raw"].is_valid()))
        parts["set aside"] += [row for row in _rows(others) if mentions(row["raw"], [customer])]
    return parts


def _remove_from_campaigns(transaction: Transaction, removal: _Removal) -> None:
    for campaign in transaction.plans.names():
        traces = _forget_in(transaction, campaign, removal.names)
        if traces.decisions or traces.outcomes or traces.raw:
            removal.campaigns[campaign] = traces


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as JSON has them: moments as text."""
    return [
        {name: value.isoformat() if isinstance(value, date) else value for name, value in row.items()}
        for row in table.to_pylist()
    ]


PLACES = (
    Place("plans that were not launched", _plans, _remove_plans),
    Place("texts that people wrote", _texts, _remove_texts),
    Place("campaigns", _campaigns, _remove_from_campaigns),
)
"""Everything that is kept about single customers, in the order in which it is removed."""


# ---- prune ----
#
# What is old and needed by nothing: removed on request, with what it frees. Learning stays possible without it.


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
                transaction.ledger.seal_rows(record.campaign)
            if features and transaction.personal.drop_features(record.campaign):
                without_features.append(record.campaign)
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
