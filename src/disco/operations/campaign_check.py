"""Can this campaign's figures be trusted? Its arms, its ledger, its prediction and what is kept of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path

import pyarrow as pa

from disco.features import ContextNetwork, check_context
from disco.features.builder import day_after_last_order
from disco.features.files import read_sample
from disco.operations.audience import ShopData
from disco.operations.audit import audit
from disco.operations.contexts import FeatureCache
from disco.operations.results import CampaignResults, load_orders, read_out
from disco.records.decisions import IngestCounts
from disco.records.diagnosis import CheckUp, Diagnosis, Outcome
from disco.records.errors import StateError
from disco.records.estimate import LEVEL
from disco.records.result import TableResult
from disco.store import Store

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
    data: ShopData, *, cache: FeatureCache, as_of: date | None = None, network: ContextNetwork | None = None
) -> CheckResult:
    """Check the features of the shop's customers, as of a day; None: the day after the last order."""
    trained = data.network() if network is None else network
    if as_of is None:
        with data.tables() as tables:
            as_of = day_after_last_order(tables)
    found, notes = cache.features_as_of(data, as_of, features=trained.catalogue_)
    features = found.read()
    return _result(check_context(trained, features), features.num_rows, notes)


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
    ]
    return CheckUp((*found, *audit(store, campaign=campaign)))


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
