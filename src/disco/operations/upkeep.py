"""Is everything in order: versions, settings, files, tables, network, database, and all that is kept of campaigns."""

import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from disco.belief import EngagementCounts
from disco.belief.model_file import to_bytes
from disco.campaign import Belief, learn
from disco.features import ContextNetwork, check_context
from disco.features.builder import day_after_last_order
from disco.features.files import read_sample
from disco.operations.arms import SHARING
from disco.operations.audience import ShopData
from disco.operations.contexts import FeatureCache
from disco.operations.guardrails import read_guardrails
from disco.operations.leaks import read_leaks
from disco.operations.learn import (
    CampaignEvidence,
    StoredLesson,
    belief_of,
    engagement_text,
    lessons_of,
    rebuilt_evidence,
    under_network,
    version_of,
)
from disco.operations.outcomes import batch_name, misjudged
from disco.operations.plan import limits_at_launch, plan_id, segment_sizes
from disco.operations.results import CampaignResults, load_orders, read_out
from disco.operations.site import ShopFiles
from disco.records import DISTRIBUTION, VERSION
from disco.records.campaign_records import CampaignRecord, Disposition
from disco.records.decisions import Arm, IngestCounts
from disco.records.depths import depth_percent
from disco.records.diagnosis import REPAIR, RESTORE, CheckUp, Diagnosis, Outcome, Repair, attempted
from disco.records.errors import DiscoError, SealError, StateError
from disco.records.estimate import LEVEL
from disco.records.plan_summary import Solution
from disco.records.result import Result, TableResult
from disco.records.wording import counted
from disco.store import Store, Transaction
from disco.store.rows import Sealed

Answer = TypeVar("Answer")
_LIBRARIES = ("numpy", "numba", "pyarrow", "duckdb", "sqlalchemy", "torch")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HealthCheck(Result):
    """A health check of the installation and of the shop."""

    ok: bool
    """Whether nothing failed."""
    checks: tuple[Diagnosis, ...]
    """Everything that was checked, in order; after the repair, where there was one."""
    repaired: tuple[Repair, ...] = ()
    """What `--repair` has changed."""

    @property
    def failed(self) -> tuple[Diagnosis, ...]:
        return tuple(check for check in self.checks if check.failed)

    @property
    def notes(self) -> tuple[Diagnosis, ...]:
        """What is usable, but weaker than it should be."""
        return tuple(check for check in self.checks if check.outcome is Outcome.WATCH)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DatabaseUpgrade(Result):
    """The database of campaigns brought to what this program knows."""

    database: str
    """Its URL, without a password."""
    before: str | None
    """Its revision before; null: it was empty."""
    after: str
    """Its revision now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseHealth:
    """What a health check asks of the database and its store."""

    store: Callable[[], AbstractContextManager[Store]]  # opens the campaigns
    vitals: Callable[[], Iterable[Diagnosis]]  # checks the database behind them, also where they cannot be opened
    restore_schema: Callable[[], Iterable[Repair]]  # creates missing indexes and tables that can be filled again


def health_check(
    files: ShopFiles, *, settings_file: Path, data: ShopData, database: DatabaseHealth | None, repair: bool = False
) -> HealthCheck:
    """Check everything; changes nothing but what `repair` builds again, before the checks.

    database: None where no plan was ever made, so that there is none yet.
    """
    log = _repaired(files, database) if repair else RepairLog()
    return _health_check(
        [
            *_programs(),
            Diagnosis.of("settings", str(settings_file), True, "can be read", expected=""),
            *attempted("files", str(files.folder), files.checks),
            *attempted("tables", "retailer's tables", lambda: [_tables(data)]),
            *attempted("network", "context network", lambda: [_network(data)]),
            *log.problems,
            *_database(database),
        ],
        tuple(log.done),
    )


@dataclass(frozen=True, slots=True)
class RepairLog:
    """What a repair has changed, and which of its parts could not be done; the others follow all the same."""

    done: list[Repair] = field(default_factory=list)
    problems: list[Diagnosis] = field(default_factory=list)

    def add(self, where: str, work: Callable[[], Iterable[Repair]]) -> None:
        """Do a part of it."""

        def look() -> tuple[Diagnosis, ...]:
            self.done.extend(work())
            return ()

        self.problems.extend(attempted("repair", where, look))


def _repaired(files: ShopFiles, database: DatabaseHealth | None) -> RepairLog:
    log = RepairLog()
    log.add("temporary files", files.sweep)
    if database is not None:
        log.add("tables and indexes", database.restore_schema)
        log.problems.extend(attempted("repair", "campaigns", partial(_campaigns_repaired, database, log)))
    return log


def _campaigns_repaired(database: DatabaseHealth, log: RepairLog) -> tuple[Diagnosis, ...]:
    with database.store() as opened:
        repair_campaigns(opened, log)
    return ()


def unreadable_settings(settings_file: Path, error: DiscoError) -> HealthCheck:
    """The health check of a shop whose settings cannot be read: nothing else about it can be checked."""
    return _health_check([*_programs(), Diagnosis.of_error("settings", str(settings_file), error)])


def _health_check(checks: list[Diagnosis], repaired: tuple[Repair, ...] = ()) -> HealthCheck:
    return HealthCheck(ok=not any(check.failed for check in checks), checks=tuple(checks), repaired=repaired)


def _programs() -> Iterator[Diagnosis]:
    found = f"disco {VERSION} on Python {platform.python_version()}, {platform.system()}"
    yield Diagnosis.of("program", "installation", True, found, expected="disco")
    there, absent = [], []
    for name in _LIBRARIES:
        try:
            there.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            absent.append(name)
    found = ", ".join(there) + (f"; absent: {', '.join(absent)}" if absent else "")
    fix = f"Install {DISTRIBUTION} again (docs/install.md)."
    yield Diagnosis.of("libraries", "installation", not absent, found, expected="all libraries", fix=fix)


def _tables(data: ShopData) -> Diagnosis:
    with data.tables() as tables:
        found = f"{', '.join(tables.names())} in {data.place}"
    return Diagnosis.of("tables", "retailer's tables", True, found, expected="")


def _network(data: ShopData) -> Diagnosis:
    embedding = data.network().embedding_
    found = f"{len(embedding.feature_names)} features to {embedding.dimensions} numbers"
    return Diagnosis.of("network", "context network", True, found, expected="")


def _database(database: DatabaseHealth | None) -> Iterator[Diagnosis]:
    if database is None:
        yield Diagnosis.of("database", "campaigns", True, "none yet; `disco plan` creates it", expected="a database")
        return
    yield from attempted("database", "connection", database.vitals, fix=RESTORE)

    def campaigns() -> tuple[Diagnosis, ...]:
        with database.store() as opened:
            return audit(opened)

    def journal() -> tuple[Diagnosis, ...]:
        with database.store() as opened:
            return tuple(check_journal(opened))

    yield from attempted("database", "campaigns", campaigns, fix=RESTORE)
    yield from attempted("journal", "audit journal", journal, fix=RESTORE)


# ---- audit of campaigns ----
#
# Does everything that is kept agree with everything else? Seals are compared, and caches are built again.
#
# A seal finds any cell that another program changed. The other checks compute what must hold, and so also find what
# was wrong when it was sealed. Each check stands alone: one that cannot be completed is a finding, and the next one
# follows.

_TRY = "Run `disco doctor --repair`; if this check still fails, restore the last backup (`disco restore`)."
_ARTEFACTS = (
    "Run `disco doctor --repair`, which can build indexes again. For other tables, restore the last backup into "
    "another folder (`disco restore FILE --shop FOLDER`) and copy the files of these names from its artefacts."
)
_AGAIN = "the same result when computed again from the stored rows"


def audit(store: Store, *, campaign: str | None = None) -> tuple[Diagnosis, ...]:
    """Look at every plan, campaign and version, or at one campaign; changes nothing."""
    if campaign is not None:
        return _campaign(store, campaign)
    findings: list[Diagnosis] = []
    names, unlisted = _asked(store, "campaigns", "table campaigns", lambda transaction: transaction.plans.names())
    findings += unlisted
    for name in names:
        findings += _campaign(store, name)
    findings += _attempt(store, "seals", "database", _seals)
    findings += _attempt(store, "plans", "all plans", _plans)
    findings += _versions(store, broken_seals=_has_broken_seals(findings))
    return tuple(findings)


def _attempt(
    store: Store,
    check: str,
    where: str,
    look: Callable[[Transaction], Iterator[Diagnosis]],
    *,
    broken_seals: bool = False,
) -> tuple[Diagnosis, ...]:
    """One look in one view of its own: after an error a database may answer nothing else in it.

    broken_seals: whether broken seals were reported before; a look that one of them stops is not a second finding.
    """

    def within() -> list[Diagnosis]:
        try:
            with store.reading() as transaction:
                return list(look(transaction))
        except SealError:
            if not broken_seals:
                raise
            return [_not_checked(check, where, "a seal is broken")]

    return attempted(check, where, within, fix=RESTORE)


def _asked(
    store: Store, check: str, where: str, ask: Callable[[Transaction], Iterable[Answer]], *, broken_seals: bool = False
) -> tuple[list[Answer], tuple[Diagnosis, ...]]:
    """What the database answers; nothing, with a finding, where it cannot. broken_seals: as for `_attempt`."""
    answers: list[Answer] = []

    def look(transaction: Transaction) -> Iterator[Diagnosis]:
        answers.extend(ask(transaction))
        yield from ()

    return answers, _attempt(store, check, where, look, broken_seals=broken_seals)


def _not_checked(check: str, where: str, because: str) -> Diagnosis:
    found, expected = f"not checked, because {because}", "rows and artefacts as they were written"
    return Diagnosis(check=check, where=where, outcome=Outcome.SKIPPED, found=found, expected=expected)


def _has_broken_seals(findings: Iterable[Diagnosis]) -> bool:
    return any(one.failed and one.check == "seals" for one in findings)


# ---- one campaign ----


def _campaign(store: Store, name: str) -> tuple[Diagnosis, ...]:
    subject = f"campaign {name}"
    findings = [*_attempt(store, "seals", subject, lambda transaction: _seals_of(transaction, name))]
    broken_seals = _has_broken_seals(findings)
    findings += _attempt(store, "artefacts", subject, lambda transaction: _artefacts(transaction, name))
    damaged = any(one.failed and one.check == "artefacts" for one in findings)
    records, unread = _asked(
        store, "plan", subject, lambda transaction: [transaction.plans.campaign(name)], broken_seals=broken_seals
    )
    findings += unread
    for record in records:  # without one nothing else about it can be computed
        for check, look in _OF_CAMPAIGNS.items():
            if damaged and check in _OF_ARTEFACTS:
                findings.append(_not_checked(check, subject, "artefacts are damaged"))
            else:
                findings += _attempt(store, check, subject, partial(look, record=record), broken_seals=broken_seals)
    return tuple(findings)


def _seals_of(transaction: Transaction, name: str) -> Iterator[Diagnosis]:
    broken = transaction.seals.broken_of(name)
    words = "; ".join(one.words for one in broken)
    # a repair can prove what became of the reserve and of reverted rows, but not of every row that these seals cover
    repairable = all(one.what in (Sealed.EVIDENCE, Sealed.STATE, Sealed.OUTCOMES) for one in broken)
    yield Diagnosis.of(
        "seals",
        f"campaign {name}",
        not broken,
        words or "nothing was changed by another program",
        expected="rows as disco wrote them",
        fix=_TRY if repairable else RESTORE,
    )


def _artefacts(transaction: Transaction, name: str) -> Iterator[Diagnosis]:
    """Every large table of the campaign, byte for byte against the hash that names it."""
    damaged = transaction.plans.damaged(name)
    words = f"missing or damaged: {', '.join(damaged)}" if damaged else "every table is as it was written"
    yield Diagnosis.of(
        "artefacts",
        f"campaign {name}",
        not damaged,
        words,
        expected="tables as they were written",
        fix=_ARTEFACTS,
    )


def _plan_of(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    """The campaign against its plan."""
    kept = transaction.plans.get(record.plan_id)
    summary, versions = kept.summary, transaction.beliefs.numbers()
    problems = [
        words
        for words, wrong in (
            (f"the plan is one of campaign {kept.plan.campaign}", kept.plan.campaign != record.campaign),
            ("another network than its plan's", record.network != summary.network),
            ("another version of the model than its plan's", record.version != summary.version),
            (f"no version {record.version} of the model, which decided it", record.version not in (None, *versions)),
        )
        if wrong
    ]
    yield _found("plan", record, not problems, "; ".join(problems) or f"as plan {record.plan_id} says")


def _decisions(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    """Codes, depths, arms and caps; the indexes by which one customer or code is found."""
    plan = record.plan
    decisions = transaction.decisions.of(record.campaign)
    codes = pc.drop_null(decisions["code"])
    unique = len(pc.unique(codes)) == len(codes)
    yield _found("codes", record, unique, f"{len(codes):,} codes, {'each once' if unique else 'some of them twice'}")

    coded, given = (decisions[name].is_valid() for name in ("code", "depth"))
    offered = pc.is_in(decisions["depth"], value_set=pa.array(plan.offered, pa.float64()))
    known_arm = pc.is_in(decisions["arm"], value_set=pa.array([str(arm) for arm in Arm]))
    held_out = pc.equal(decisions["arm"], str(Arm.HOLDOUT))
    problems = [
        f"{count:,} {words}"
        for words, rows in (
            ("codes without a depth, or depths without a code", pc.xor(coded, given)),
            ("codes of a depth that the plan does not offer", pc.and_(given, pc.invert(offered))),
            ("codes in the holdout", pc.and_(held_out, coded)),
            ("customers in no known group", pc.invert(known_arm)),
        )
        if (count := _count(rows))
    ]
    yield _found("decisions", record, not problems, "; ".join(problems) or "every code has a depth that was offered")

    at_launch = decisions.filter(pc.invert(decisions["late"]))
    customers = transaction.plans.get(record.plan_id).summary.customers
    if at_launch.num_rows != customers:
        words = f"{at_launch.num_rows:,} decisions at the launch; the plan has {customers:,}"
        yield _found("decisions", record, False, words)
    over = list(_over_caps(record, decisions, at_launch))
    yield _found("caps", record, not over, "; ".join(over) or "no depth was given more often than its cap")
    wrong = transaction.decisions.misplaced(record.campaign)
    words = ", ".join(wrong) or "every customer and every code is found where it stands"
    yield _found("index", record, not wrong, words, fix=REPAIR)


def _over_caps(record: CampaignRecord, decisions: pa.Table, at_launch: pa.Table) -> Iterator[str]:
    """Caps of the whole campaign, and of each group at the launch."""
    plan, eligible = record.plan, at_launch.num_rows
    given = Counter(pc.drop_null(decisions["depth"]).to_pylist())
    for depth, cap in zip(plan.offered, plan.caps(eligible), strict=True):
        if cap is not None and given[depth] > cap:
            yield f"{depth_percent(depth)}: {given[depth]:,} codes for a cap of {cap:,}"
    sizes, (_, parts) = segment_sizes(at_launch), limits_at_launch(plan, at_launch)
    labels = [None] * decisions.num_rows if plan.segments is None else decisions["segment"].to_pylist()
    by_segment = Counter(zip(labels, decisions["depth"].to_pylist(), strict=True))
    for label, limits in (plan.segment_limits(sizes) or {}).items():
        for depth, cap in zip(plan.offered, limits.caps, strict=True):
            if cap is not None and by_segment[label, depth] > cap:
                yield f"{label}, {depth_percent(depth)}: {by_segment[label, depth]:,} codes for a cap of {cap:,}"
    for arm, part in zip(SHARING, parts, strict=True):
        rows = at_launch.filter(pc.equal(at_launch["arm"], str(arm)))
        given = Counter(pc.drop_null(rows["depth"]).to_pylist())
        for depth, cap in zip(part.depths, part.caps, strict=True):
            if cap is not None and given[depth] > cap:
                yield f"{arm} group, {depth_percent(depth)}: {given[depth]:,} codes at the launch for a cap of {cap:,}"


def reserve_left(transaction: Transaction, campaign: str, solution: Solution) -> dict[float, int | None]:
    """What late arrivals may still take, per depth: what the plan held back less what they got."""
    late = transaction.decisions.of(campaign, only_late=True)
    given = Counter(pc.drop_null(late["depth"]).to_pylist())
    held_back = zip(solution.depths, solution.reserve, strict=True)
    return {depth: None if codes is None else codes - given[depth] for depth, codes in held_back}


def _audit_reserve(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    """Codes in reserve and given to late arrivals = cap − cap of the launch, for each depth."""
    kept = transaction.decisions.reserve(record.campaign)
    expected = reserve_left(transaction, record.campaign, record.solution)
    differences = [
        f"{depth_percent(depth)}: {kept.get(depth, 'nothing')} in reserve instead of {expected.get(depth, 'nothing')}"
        for depth in sorted({*kept, *expected})
        if depth not in kept or depth not in expected or kept[depth] != expected[depth]
    ]
    words = "; ".join(differences).replace("None", "no limit") or "what the plan held back, less the late codes"
    yield _found("reserve", record, not differences, words, fix=REPAIR)


def _batches(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    """Each batch is named by its campaign, its place among the batches, and its content."""
    batches = transaction.ledger.batches(record.campaign)
    wrong = [
        batch.batch_id
        for place, batch in enumerate(batches)
        if batch.batch_id != batch_name(record.campaign, place, batch.content_hash)
    ]
    words = f"{len(batches):,} batch{'es' if len(batches) != 1 else ''}" + (
        f"; other names than their content gives: {', '.join(wrong)}" if wrong else ""
    )
    yield _found("batches", record, not wrong, words)


def _ledger(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    """Dispositions as the rules give them for all rows in force; counts as the rows say."""
    rows = transaction.ledger.outcomes(record.campaign)
    wrong = misjudged(rows, recalled_at=record.recalled_at).num_rows
    words = f"{rows.num_rows:,} rows, {f'{wrong:,} misclassified' if wrong else 'none misclassified'}"
    yield _found("ledger", record, not wrong, words, fix=REPAIR)
    set_aside = rows.filter(rows["raw"].is_valid())
    unapplied = pa.array([str(one) for one in Disposition if one is not Disposition.APPLIED])
    reasoned = pc.and_(pc.is_in(set_aside["disposition"], value_set=unapplied), set_aside["reason"].is_valid())
    if unclear := _count(pc.invert(reasoned)):
        yield _found("ledger", record, False, f"{unclear:,} rows set aside without a reason or disposition of one")
    totals = transaction.ledger.counts(record.campaign)
    found = Counter(rows["disposition"].to_pylist())
    said: Counter[str] = Counter()
    for disposition, number in zip(totals["disposition"].to_pylist(), totals["rows"].to_pylist(), strict=True):
        said[disposition] += number
    agree = found == said and set(found) <= {str(disposition) for disposition in Disposition}
    words = (
        ", ".join(f"{disposition} {number:,}" for disposition, number in sorted(found.items())) or "nothing received"
    )
    counts = ", ".join(f"{disposition} {number:,}" for disposition, number in sorted(said.items())) or "nothing"
    yield _found("counts", record, agree, words if agree else f"the ledger has {words}; counted were {counts}")


def networks_of(transaction: Transaction, record: CampaignRecord) -> tuple[str, ...]:
    """The networks under which there must be evidence: that of the launch, and those it was embedded under later."""
    return tuple(sorted({record.network, *transaction.contexts.networks(record.campaign)}))


def _audit_evidence(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    kept, wanted = set(transaction.beliefs.networks(record.campaign)), networks_of(transaction, record)
    for network in sorted(kept - set(wanted)):
        yield _found("evidence", record, False, f"evidence under network {network[:12]}, which has no contexts")
    for network in wanted:
        again = rebuilt_evidence(transaction, record, network)
        words, same = f"{again.baskets.total_rows:,} purchases under network {network[:12]}", False
        if network not in kept:
            words += ": the evidence is missing"
        elif not (same := _is_kept(transaction.beliefs.evidence(record.campaign, network), again)):
            words += ": stored evidence and ledger differ"
        yield _found("evidence", record, same, words, fix=REPAIR)


def _is_kept(content: bytes | None, again: CampaignEvidence) -> bool:
    """Whether this is the evidence, perhaps as an earlier version of the program wrote it."""
    return content in (again.to_bytes(), again.without_paid.to_bytes())


# in their order; the first also says whether the campaign is that of its plan
_OF_CAMPAIGNS = {
    "plan": _plan_of,
    "decisions": _decisions,
    "reserve": _audit_reserve,
    "batches": _batches,
    "ledger": _ledger,
    "evidence": _audit_evidence,
}
_OF_ARTEFACTS = ("decisions", "reserve", "evidence")  # damaged files are not read


def _count(flags: "pa.Array | pa.ChunkedArray") -> int:
    return int(pc.sum(pc.fill_null(flags, False)).as_py() or 0)


# ---- plans, versions, and what belongs to no campaign ----


def _seals(transaction: Transaction) -> Iterator[Diagnosis]:
    broken = transaction.seals.broken()
    for one in broken:
        fix = RESTORE
        if one.what is Sealed.ACTIVE:
            fix = "`disco belief N` shows a version; `disco learn --activate N` makes it the active one."
        found, expected = one.found, "what disco wrote"
        yield Diagnosis.of("seals", one.subject, False, found, expected=expected, fix=fix)
    if not broken:
        yield Diagnosis.of("seals", "database", True, "nothing was changed by another program", expected="")


def _plans(transaction: Transaction) -> Iterator[Diagnosis]:
    """Every plan that was kept, launched or not: its id is the hash of its content."""
    problems, ids = [], transaction.plans.ids()
    for name in ids:
        found = attempted("plans", f"plan {name}", partial(_plan, transaction, name), fix=RESTORE)
        problems += [one for one in found if one.failed]
    yield from problems
    if not problems:
        yield Diagnosis.of(
            "plans", "all plans", True, f"{counted(len(ids), 'plan')}, each named by its content", expected=""
        )


def _plan(transaction: Transaction, name: str) -> Iterator[Diagnosis]:
    kept = transaction.plans.get(name)
    again = plan_id(kept.plan, kept.inputs)
    where = f"plan {name} of campaign {kept.plan.campaign}"
    words = f"its content has the id {again}"
    yield Diagnosis.of("plans", where, again == name, words, expected="a plan named by its content", fix=RESTORE)


def _versions(store: Store, *, broken_seals: bool) -> tuple[Diagnosis, ...]:
    numbers, findings = _asked(store, "version", "table versions", lambda transaction: transaction.beliefs.numbers())
    for number in numbers:
        subject, look = f"version {number} of the model", partial(_version, number=number)
        findings += _attempt(store, "version", subject, look, broken_seals=broken_seals)
    return findings


def _version(transaction: Transaction, *, number: int) -> Iterator[Diagnosis]:
    """A version against the evidence as it stands, where that is still what the version was made of."""
    kept = version_of(transaction, number)
    subject = f"version {kept.number} of the model"
    belief = belief_of(kept)
    prior = Belief(
        basket=replace(belief.basket, campaigns={}),
        engagement=belief.engagement.with_counts(EngagementCounts()),
    )
    if missing := sorted(set(kept.campaigns) - set(transaction.plans.names())):
        words = f"it was learned from campaigns that are not there: {', '.join(missing)}"
        yield Diagnosis.of("version", subject, False, words, expected=_AGAIN, fix=RESTORE)
        return
    lessons = tuple(
        _as_went_in(lesson, kept.campaigns[lesson.campaign])
        for lesson in lessons_of(transaction, kept.campaigns, kept.network, is_matured=lambda _: True)
    )
    if moved := sorted(lesson.campaign for lesson in lessons if lesson.hash != kept.campaigns[lesson.campaign]):
        words = f"new outcomes since it was made ({', '.join(moved)}); run `disco learn` to include them"
        yield Diagnosis.of("version", subject, True, words, expected=_AGAIN)
        return
    again = learn(under_network(prior, kept.network, belief.head), [stored.lesson for stored in lessons])
    same = (to_bytes(again.basket), engagement_text(again)) == (kept.basket, kept.engagement)
    words = (
        "equal when computed again from prior and evidence"
        if same
        else "differs from the model computed again from prior and evidence"
    )
    fix = "Run `disco learn` with one of its campaigns, which makes a new version."
    yield Diagnosis.of("version", subject, same, words, expected=_AGAIN, fix=fix)


def _as_went_in(lesson: StoredLesson, known: str) -> StoredLesson:
    """With its codes, or without where the version was made before they had matured."""
    without = replace(lesson, matured=False)
    return without if without.hash == known else lesson


def _found(check: str, record: CampaignRecord, ok: bool, found: str, *, fix: str = RESTORE) -> Diagnosis:
    return Diagnosis.of(check, f"campaign {record.campaign}", ok, found, expected=_AGAIN, fix=fix)


# ---- repair ----
#
# Builds again what the ledger and the plan can give: dispositions, evidence, reserve, indexes. One transaction each.
#
# Nothing is built from damaged rows. What is sealed must fit its seal after the repair, which proves that it is what
# it was; what cannot be proved is left as it is, and the health check that follows says so.


class _NotProved(Exception):  # noqa: N818 - no error: the way out of a transaction whose result is not taken
    pass


def repair_campaigns(store: Store, log: RepairLog) -> None:
    """Repair campaign by campaign, as far as each can be gone through."""
    names: list[str] = []

    def list_names() -> tuple[Repair, ...]:
        with store.reading() as transaction:
            names.extend(transaction.plans.names())
        return ()

    log.add("table campaigns", list_names)
    for name in names:
        log.add(f"campaign {name}", partial(_repair, store, name))


def _repair(store: Store, name: str) -> tuple[Repair, ...]:
    try:
        return _repair_campaign(store, name, with_reserve=True)
    except _NotProved:  # something else than the reserve was changed: everything but the reserve, then
        return _repair_campaign(store, name, with_reserve=False)


def _repair_campaign(store: Store, name: str, *, with_reserve: bool) -> tuple[Repair, ...]:
    with store.writing(name, action="repair") as transaction:
        done = tuple(_steps(transaction, name, with_reserve=with_reserve))
        transaction.journal.note(changed=[one.changed for one in done])
    return done


def _steps(transaction: Transaction, name: str, *, with_reserve: bool) -> Iterator[Repair]:
    where = f"campaign {name}"
    for index in transaction.decisions.restore_indexes(name):
        yield Repair(where=where, changed=f"The {index} was built again from the decisions.")
    if with_reserve:
        yield from _repair_reserve(transaction, name)
    if count := transaction.ledger.align_reverted(name):
        yield Repair(where=where, changed=f"{count:,} outcomes were marked as their batches are: reverted or in force.")
    if _broken(transaction, name) - {Sealed.EVIDENCE}:
        return  # the rows themselves are damaged, and nothing is built from them
    recalled_at = transaction.plans.campaign(name).recalled_at
    wrong = misjudged(transaction.ledger.outcomes(name), recalled_at=recalled_at)
    if wrong.num_rows:
        transaction.ledger.redispose(wrong)
        yield Repair(where=where, changed=f"{wrong.num_rows:,} outcomes were classified again by the rules.")
    if not transaction.plans.damaged(name):
        yield from _repair_evidence(transaction, name)


def _repair_reserve(transaction: Transaction, name: str) -> Iterator[Repair]:
    broken = _broken(transaction, name)
    if broken - {Sealed.EVIDENCE, Sealed.STATE, Sealed.BATCH, Sealed.OUTCOMES}:
        return  # plan or late arrivals are damaged, and the reserve follows from them
    done = Repair(
        where=f"campaign {name}", changed="The reserve was set to what the plan held back less the late codes."
    )
    if Sealed.STATE not in broken:
        expected = reserve_left(transaction, name, transaction.plans.campaign(name).solution)
        if transaction.decisions.reserve(name) != expected:
            transaction.decisions.set_reserve(name, expected)
            yield done
        return
    for plan in transaction.plans.of(name):  # the seal tells which of them was launched
        if transaction.decisions.restore_reserve(name, reserve_left(transaction, name, plan.summary.solution)):
            yield done
            return
    raise _NotProved


def _repair_evidence(transaction: Transaction, name: str) -> Iterator[Repair]:
    record = transaction.plans.campaign(name)
    broken = Sealed.EVIDENCE in _broken(transaction, name)
    kept = transaction.beliefs.networks(name)
    for network in networks_of(transaction, record):
        again = rebuilt_evidence(transaction, record, network)
        if broken or network not in kept or transaction.beliefs.evidence(name, network) != again.to_bytes():
            put = transaction.beliefs.restore_evidence if broken else transaction.beliefs.put_evidence
            put(name, network, again.to_bytes())
            words = f"The evidence under network {network[:12]} was built again from the ledger: "
            counts = f"{again.baskets.total_rows:,} purchases, {int(again.codes.redeemed.sum()):,} codes redeemed."
            yield Repair(where=f"campaign {name}", changed=words + counts)


def _broken(transaction: Transaction, name: str) -> set[Sealed]:
    """What of the campaign is not as it was sealed."""
    return {seal.what for seal in transaction.seals.broken_of(name)}


# ---- check of one campaign ----
#
# Can this campaign's figures be trusted? Its arms, its ledger, its prediction and what is kept of it.

WORTH_TRAINING = 3  # campaigns (docs/decisions/169-training-again.md)
WATCH_ASIDE, FAILED_ASIDE = 0.01, 0.1  # of the outcomes received


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckResult(TableResult):
    """Whether decisions may be built on these features with this network. As a table: one row per check."""

    failed: bool
    """Whether anything failed."""
    customers: int
    """Customers whose features were looked at."""
    counts: Mapping[Outcome, int]
    """Checks per outcome."""
    diagnoses: tuple[Diagnosis, ...]
    """What was found, the worst first."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""

    def to_arrow(self) -> pa.Table:
        names = [one.name for one in fields(Diagnosis)]
        columns = {name: [getattr(one, name) for one in self.diagnoses] for name in names}
        return pa.table({**columns, "outcome": [str(one.outcome) for one in self.diagnoses]})


def check_features(network: ContextNetwork, file: Path) -> CheckResult:
    """Check a file of features against the network that is to embed them."""
    features = read_sample(file)
    return _result(check_context(network, features), features.num_rows)


def check_launched(
    store: Store, data: ShopData, campaign: str, *, as_of: date, network: ContextNetwork | None = None
) -> CheckResult:
    """Check a launched campaign, and the features it was decided on."""
    about = check_campaign(store, campaign, as_of=as_of, orders=load_orders(data))
    with store.reading() as transaction:
        try:
            features = transaction.contexts.features(campaign)
        except StateError as error:  # the campaign can be looked at without them
            words = str(error).rstrip(".")
            about += CheckUp(
                (Diagnosis(check="features", where="as decided", outcome=Outcome.SKIPPED, found=words, expected=""),)
            )
            customers = transaction.plans.get(transaction.plans.campaign(campaign).plan_id).summary.customers
            return _result(about, customers)
    trained = data.network() if network is None else network
    return _result(about + check_context(trained, features), features.num_rows)


def check_shop(
    data: ShopData,
    *,
    cache: FeatureCache,
    as_of: date | None = None,
    network: ContextNetwork | None = None,
    store: Store | None = None,
    today: date | None = None,
) -> CheckResult:
    """Check the features of the shop's customers, as of a day; None: the day after the last order.

    store, today: to say also when the network is worth training again.
    """
    aged = () if store is None or today is None else _aged(store, data.network_hash(), today=today)
    trained = data.network() if network is None else network
    if as_of is None:
        with data.tables() as tables:
            as_of = day_after_last_order(tables)
    found, notes = cache.features_as_of(data, as_of, features=trained.catalogue_)
    features = found.read()
    return _result(check_context(trained, features) + CheckUp(aged), features.num_rows, notes)


def _aged(store: Store, network: str, *, today: date) -> tuple[Diagnosis, ...]:
    """A note where so many campaigns have matured under a network that it is worth training one with their codes."""
    with store.reading() as transaction:
        campaigns = transaction.plans.campaigns()
    over = [one for one in campaigns if one.network == network and one.recalled_at is None and one.matures_on <= today]
    if len(over) < WORTH_TRAINING:
        return ()
    found = f"{len(over)} campaigns have matured that were decided with it"
    fix = "Train again with their codes: `disco train context --only-better` says whether that helps, then "
    fix += "`disco learn --rebuild`."
    return (Diagnosis.note("age", "context network", found, expected=f"fewer than {WORTH_TRAINING}", fix=fix),)


def _result(found: CheckUp, customers: int, notes: Sequence[str] = ()) -> CheckResult:
    return CheckResult(
        failed=found.failed,
        customers=customers,
        counts=found.counts,
        diagnoses=found.worst_first(),
        warnings=tuple(notes),
    )


def check_campaign(store: Store, campaign: str, *, as_of: date, orders: pa.Table | None = None) -> CheckUp:
    """Every look at one campaign; changes nothing. orders: as in `read_out`."""
    with store.reading() as transaction:
        record = transaction.plans.campaign(campaign)
        summary = transaction.plans.get(record.plan_id).summary
        active = transaction.beliefs.version()
    results = read_out(store, campaign, as_of=as_of, orders=orders)
    found = [
        *_warnings(summary.warnings),
        _arms(results),
        _aside(results.counts),
        _prediction(results),
        _learned(campaign, None if active is None else list(active.campaigns)),
        *_guardrails(store, campaign),
        _leaks(store, campaign),
    ]
    return CheckUp((*found, *audit(store, campaign=campaign)))


def _leaks(store: Store, campaign: str) -> Diagnosis:
    found, expected = read_leaks(store, campaign), "uses by others than the owner that are mistakes"
    if not found.found:
        return Diagnosis.of("leaks", "codes used by others", True, found.words, expected=expected)
    fix = "Look for the codes on pages that share them; `disco recall` makes unused codes invalid."
    return Diagnosis.note("leaks", "codes used by others", found.words, expected=expected, fix=fix)


def _guardrails(store: Store, campaign: str) -> Iterator[Diagnosis]:
    for one in read_guardrails(store, campaign):
        fix = "Find out why before codes go to anybody else; `disco recall` makes those already sent invalid."
        where, expected = one.guardrail, "a figure within its limit, but for chance"
        if one.crossed and one.then == "tell":
            yield Diagnosis.note("guardrail", where, one.words, expected=expected, fix=fix)
        else:
            yield Diagnosis.of("guardrail", where, not one.crossed, one.words, expected=expected, fix=fix)


def _warnings(warnings: tuple[str, ...]) -> Iterator[Diagnosis]:
    for words in warnings:
        yield Diagnosis(
            check="plan", where="when it was decided", outcome=Outcome.WATCH, found=words, expected="no warning"
        )


def _arms(results: CampaignResults) -> Diagnosis:
    ratio = None if results.ab is None else results.ab.sample_ratio
    if ratio is None:
        outcome, words, fix = Outcome.SKIPPED, results.why_not or "no planned shares", ""
    else:
        outcome = Outcome.OK if ratio.ok else Outcome.FAILED
        words = ", ".join(f"{arm} {count:,}" for arm, count in ratio.found.items()) + f" (p = {ratio.p_value:.2g})"
        fix = "" if ratio.ok else "Find out where customers were lost before trusting any figure."
    expected = "the planned shares (p of 0.001 or more)"
    return Diagnosis(check="arms", where="sizes", outcome=outcome, found=words, expected=expected, fix=fix)


def _aside(counts: IngestCounts) -> Diagnosis:
    """Outcomes that fit no decision, or could not be read; duplicates and expired ones are nobody's fault."""
    share = (counts.unmatched + counts.rejected) / max(counts.received, 1)
    outcome = Outcome.OK if share <= WATCH_ASIDE else Outcome.WATCH if share <= FAILED_ASIDE else Outcome.FAILED
    return Diagnosis(
        check="outcomes",
        where="unmatched and rejected",
        outcome=outcome if counts.received else Outcome.SKIPPED,
        found=f"{share:.1%} of {counts.received:,}" if counts.received else "nothing received yet",
        expected=f"at most {WATCH_ASIDE:.0%} of them",
        fix="" if outcome is Outcome.OK else "`disco quarantine BATCH -o FILE` lists the rows with their reasons.",
        figure=share,
    )


def _prediction(results: CampaignResults) -> Diagnosis:
    """Revenue and markdown beside their forecasts, by the rule of `against_forecast`."""
    compared, fix = results.against_forecast, ""
    if compared is None:
        outcome, words = Outcome.SKIPPED, "nothing was forecast, or the campaign was recalled"
    else:
        outcome, words = Outcome.OK if compared.is_known else Outcome.SKIPPED, compared.words.rstrip(".")
        if compared.missed:
            outcome = Outcome.WATCH
            fix = "One in ten is outside by chance; several in a row mean that the model is wrong."
    return Diagnosis(
        check="prediction",
        where="revenue and cost of the codes",
        outcome=outcome,
        found=words,
        expected=f"inside the forecast's intervals, as {LEVEL:.0%} of campaigns should be",
        fix=fix,
    )


def _learned(campaign: str, learned: list[str] | None) -> Diagnosis:
    known = learned is not None and campaign in learned
    return Diagnosis(
        check="learning",
        where="active belief",
        outcome=Outcome.OK if known else Outcome.WATCH,
        found="has learned it" if known else "has not learned it",
        expected="a belief that knows this campaign",
        fix="" if known else f"Run `disco learn {campaign}`.",
    )


_KEEP_A_COPY = (
    "Keep a copy of the database as it is, find out who has written to it, and restore the last backup whose journal "
    "is whole (`disco restore`)."
)


def check_journal(store: Store) -> Iterator[Diagnosis]:
    """The journal's part of a health check."""
    with store.reading() as transaction:
        wrong, last = transaction.journal.first_break(), transaction.journal.last()
    entries = 0 if last is None else last[0]
    yield Diagnosis.of(
        "journal",
        "audit journal",
        wrong is None,
        f"{entries:,} entries in one chain" if wrong is None else f"entry {wrong.number:,}: {wrong.found}",
        expected="every entry as it was written",
        fix=_KEEP_A_COPY,
    )
