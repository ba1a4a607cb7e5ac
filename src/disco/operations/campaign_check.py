"""Can this campaign's figures be trusted? Its arms, its ledger, its prediction and what is kept of it."""

import json
from collections.abc import Iterator
from datetime import date

from disco.operations.audit import Finding, audit
from disco.operations.forecast import LEVEL
from disco.operations.planned import money_from_summary
from disco.operations.results import CampaignResults, read_out
from disco.records.decisions import IngestCounts
from disco.records.diagnosis import CheckUp, Diagnosis, Outcome
from disco.records.ports import Store

WATCH_ASIDE, FAILED_ASIDE = 0.01, 0.1  # of the outcomes received


def check_campaign(store: Store, campaign: str, *, as_of: date, model: str = "main") -> CheckUp:
    """Every look at one campaign; changes nothing."""
    with store.reading() as shelves:
        record = shelves.campaign(campaign)
        summary = json.loads(shelves.plan(record.plan_id).summary)["summary"]
        active = shelves.version(model)
    results = read_out(store, campaign, as_of=as_of)
    foreseen = money_from_summary(summary["total"])
    found = [
        *_warnings(summary["warnings"]),
        _arms(results),
        _aside(results.counts),
        _prediction(results, None if foreseen is None else (foreseen.revenue.lower, foreseen.revenue.upper)),
        _learned(campaign, None if active is None else list(active.campaigns)),
    ]
    kept = audit(store, model=model, campaign=campaign)
    return CheckUp((*found, *(_kept(finding) for finding in kept)))


def _kept(finding: Finding) -> Diagnosis:
    return Diagnosis(
        check=finding.check,
        where=finding.subject,
        outcome=Outcome.OK if finding.ok else Outcome.FAILED,
        found=finding.words,
        expected="what the rules give from what was received",
        fix="" if finding.ok else "Stop; restore a copy of the database, or report a defect.",
    )


def _warnings(warnings: list[str]) -> Iterator[Diagnosis]:
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
    """Outcomes that fit no decision, or could not be read; duplicates and late ones are nobody's fault."""
    share = (counts.unmatched + counts.rejected) / max(counts.received, 1)
    outcome = Outcome.OK if share <= WATCH_ASIDE else Outcome.WATCH if share <= FAILED_ASIDE else Outcome.FAILED
    return Diagnosis(
        check="outcomes",
        where="unmatched and rejected",
        outcome=outcome if counts.received else Outcome.SKIPPED,
        found=f"{share:.1%} of {counts.received:,}" if counts.received else "nothing received yet",
        expected=f"at most {WATCH_ASIDE:.0%} of them",
        fix="" if outcome is Outcome.OK else "`disco ingest --quarantine FILE` lists the rows with their reasons.",
        figure=share,
    )


def _prediction(results: CampaignResults, interval: tuple[float, float] | None) -> Diagnosis:
    fix = ""
    if interval is None or not results.final:
        outcome, expected = Outcome.SKIPPED, "a prediction, and its end"
        words = "nothing was predicted" if interval is None else "codes have not run out"
    else:
        came = sum(arm.summary.revenue for arm in results.arms.values())
        inside = interval[0] <= came <= interval[1]
        outcome, words = Outcome.OK if inside else Outcome.WATCH, f"{came:,.0f}"
        expected = f"{interval[0]:,.0f} to {interval[1]:,.0f}; {LEVEL:.0%} of campaigns should be inside"
        fix = "" if inside else "One in ten is outside by chance; several in a row mean that the belief is wrong."
    where = "revenue of the codes"
    return Diagnosis(check="prediction", where=where, outcome=outcome, found=words, expected=expected, fix=fix)


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
