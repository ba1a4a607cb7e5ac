"""Does everything that is kept agree with everything else? Every cache is built again and compared, byte for byte."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from disco.belief import EngagementCounts
from disco.belief.model_file import to_bytes
from disco.campaign import Belief, learn
from disco.operations import campaign_evidence
from disco.operations.learning import StoredLesson, lessons_of, under_network
from disco.operations.ledger import outside_quarantine
from disco.operations.net_purchases import judge
from disco.operations.versions import belief_of, engagement_text
from disco.records.depths import depth_percent
from disco.records.diagnosis import Diagnosis
from disco.records.life import CampaignRecord, Disposition, VersionRecord
from disco.records.ports import Store, Transaction

_FIX = "Stop using this database. Restore the last backup, or report a defect."


def audit(store: Store, *, campaign: str | None = None) -> tuple[Diagnosis, ...]:
    """Look at every campaign, or at one, and at the active version; changes nothing."""
    findings: list[Diagnosis] = []
    with store.reading() as transaction:
        records = transaction.plans.campaigns() if campaign is None else (transaction.plans.campaign(campaign),)
        names = [record.campaign for record in records]
    for name in names:  # one view per campaign: a writer need not wait for all of them
        with store.reading() as transaction:
            record = transaction.plans.campaign(name)
            for look in (_artefacts, _decisions, _ledger, _evidence):
                findings += look(transaction, record)
    with store.reading() as transaction:
        active = transaction.beliefs.version()
        if active is not None:
            findings.append(_version(transaction, active))
    return tuple(findings)


def _artefacts(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    """Every large table of the campaign, byte for byte against the hash that names it."""
    damaged = transaction.plans.damaged(record.campaign)
    words = f"missing or damaged: {', '.join(damaged)}" if damaged else "every table is as it was written"
    yield _found("artefacts", f"campaign {record.campaign}", not damaged, words)


def _decisions(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    subject = f"campaign {record.campaign}"
    decisions = transaction.decisions.of(record.campaign)
    codes = pc.drop_null(decisions["code"])
    unique = len(pc.unique(codes)) == len(codes)
    yield _found("codes", subject, unique, f"{len(codes):,} codes, {'each once' if unique else 'some of them twice'}")
    on_time = int(pc.sum(pc.invert(decisions["late"])).as_py() or 0)
    given = Counter(pc.drop_null(decisions["depth"]).to_pylist())
    over = [
        f"{depth_percent(depth)}: {given[depth]:,} codes for a cap of {cap:,}"
        for depth, cap in zip(record.plan.offered, record.plan.caps(on_time), strict=True)
        if cap is not None and given[depth] > cap
    ]
    yield _found("caps", subject, not over, "; ".join(over) or "no depth was given more often than its cap")


def _ledger(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    """Dispositions as the rules give them for all rows in force; counts as the rows say."""
    subject = f"campaign {record.campaign}"
    rows = transaction.ledger.outcomes(record.campaign)
    judged = outside_quarantine(rows)
    expected = judge(judged)
    same = pc.and_(
        pc.equal(judged["disposition"], pa.chunked_array([expected.disposition])),
        pc.equal(pc.fill_null(judged["reason"], ""), pc.fill_null(expected.reason, "")),
    )
    wrong = judged.num_rows - int(pc.sum(same).as_py() or 0)
    words = f"{rows.num_rows:,} rows, {f'{wrong:,} misclassified' if wrong else 'none misclassified'}"
    yield _found("ledger", subject, not wrong, words)
    counted = transaction.ledger.counts(record.campaign)
    found = Counter(rows["disposition"].to_pylist())
    said: Counter[str] = Counter()
    for disposition, number in zip(counted["disposition"].to_pylist(), counted["rows"].to_pylist(), strict=True):
        said[disposition] += number
    agree = found == said and set(found) <= {str(disposition) for disposition in Disposition}
    words = (
        ", ".join(f"{disposition} {number:,}" for disposition, number in sorted(found.items())) or "nothing received"
    )
    yield _found("counts", subject, agree, words if agree else f"the ledger has {words}; counted {dict(said)}")


def _evidence(transaction: Transaction, record: CampaignRecord) -> Iterator[Diagnosis]:
    for network in transaction.beliefs.networks(record.campaign):
        again = campaign_evidence.rebuilt(transaction, record, network)
        same = again.to_bytes() == transaction.beliefs.evidence(record.campaign, network)
        words = f"{again.baskets.total_rows:,} purchases" + ("" if same else ": stored evidence and ledger differ")
        yield _found("evidence", f"campaign {record.campaign}, network {network[:12]}", same, words)


def _version(transaction: Transaction, active: VersionRecord) -> Diagnosis:
    """The active version against the evidence as it stands, where that is still what the version was made of."""
    subject = f"version {active.number} of the model"
    belief = belief_of(active)
    prior = Belief(
        basket=replace(belief.basket, campaigns={}),
        engagement=replace(belief.engagement, counts=EngagementCounts()),
    )
    lessons = tuple(
        _as_went_in(lesson, active.campaigns[lesson.campaign])
        for lesson in lessons_of(transaction, active.campaigns, active.network, is_matured=lambda _: True)
    )
    moved = sorted(lesson.campaign for lesson in lessons if lesson.hash != active.campaigns[lesson.campaign])
    if moved:
        words = f"new outcomes since it was made ({', '.join(moved)}); run `disco learn` to include them"
        return _found("version", subject, True, words)
    again = learn(under_network(prior, active.network), [stored.lesson for stored in lessons])
    same = (to_bytes(again.basket), engagement_text(again.engagement)) == (active.basket, active.engagement)
    words = (
        "equal when computed again from prior and evidence"
        if same
        else "differs from the model computed again from prior and evidence"
    )
    return _found("version", subject, same, words)


def _as_went_in(lesson: StoredLesson, known: str) -> StoredLesson:
    """With its codes, or without where the version was made before they had matured."""
    without = replace(lesson, matured=False)
    return without if without.hash == known else lesson


def _found(check: str, where: str, ok: bool, found: str) -> Diagnosis:
    return Diagnosis.of(
        check, where, ok, found, expected="the same result when computed again from the stored rows", fix=_FIX
    )
