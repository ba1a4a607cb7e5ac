"""Versions of the belief: load the lessons of the learned campaigns, call `learn`, keep what it returns.

A campaign is learned by its name. Its evidence is kept beside its ledger (`campaign_evidence.py`), so a version is
built in a moment from all lessons as they stand: a batch that arrives later or is reverted counts in the next version.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from disco.belief import EngagementCounts, Evidence
from disco.belief.model_file import to_bytes
from disco.campaign import Belief, Lesson, learn
from disco.features.snapshot import snapshot_of
from disco.operations import campaign_evidence
from disco.operations.campaign_evidence import CampaignEvidence
from disco.operations.contexts import embedded_rows
from disco.operations.net_purchases import counts_of
from disco.operations.versions import belief_of, engagement_text
from disco.records.arrays import Matrix
from disco.records.errors import StateError
from disco.records.life import CampaignRecord, VersionRecord
from disco.records.ports import Clock, Engine
from disco.records.result import NotInJson, Result
from disco.records.score import EngagementHead
from disco.store import BELIEF, Store, Transaction

if TYPE_CHECKING:
    from disco.operations.audience import ShopData


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
        codes, baskets = self.evidence.codes, self.evidence.baskets
        return self.matured and bool(codes.sent.any()) and not (codes.redeemed.any() or baskets.total_rows)

    @property
    def hash(self) -> str:
        """Of what `lesson` holds, and of nothing else."""
        return replace(self.evidence, codes=self.lesson.codes).hash


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


def under_network(prior: Belief, network: str, head: EngagementHead | None = None) -> Belief:
    """The prior for contexts of this network: its model then refuses contexts of any other. head: of the network."""
    return replace(prior, basket=replace(prior.basket, context_schema=network), head=head)


def one_head(lessons: Sequence[StoredLesson], network: str) -> EngagementHead | None:
    """The engagement head by whose scores the codes of all these campaigns were counted; None: the network has none."""
    heads = {stored.evidence.head: stored.campaign for stored in reversed(lessons)}
    if len(heads) > 1:
        first, other = list(heads.values())[::-1][:2]
        raise StateError(
            f"campaign {other}",
            found=f"codes that were counted with another engagement head than those of {first}",
            expected=f"one head for all campaigns under network {network[:12]}",
            fix="Run `disco doctor --repair`, which counts them again, and then `disco learn`.",
        )
    return next(iter(heads), None)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Learned(Result):
    """The active version of the model after learning."""

    version: int
    """The number of the version."""
    changed: bool
    """Whether a new version was made."""
    campaigns: Mapping[str, int]
    """Purchases that each campaign adds."""
    matured: tuple[str, ...]
    """Campaigns that have matured, so that they count for engagement."""
    warnings: tuple[str, ...]
    """What to know, in sentences; the command has done its work all the same."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""
    belief: NotInJson[Belief]


def learn_campaigns(
    store: Store,
    campaigns: Sequence[str],
    *,
    prior: Belief,
    as_of: date,
    clock: Clock,
    dry_run: bool = False,
) -> Learned:
    """Add these campaigns to those learned before, take all of them as they stand now, make a version if it is new."""
    with store.writing(BELIEF, action="learn", dry_run=dry_run) as transaction:
        active = transaction.beliefs.version()
        network = _one_network(transaction, campaigns, active)
        wanted = {*campaigns, *(active.campaigns if active is not None else ())}
        return _make_version(
            transaction,
            wanted,
            network,
            prior,
            as_of=as_of,
            clock=clock,
            asked=set(campaigns),
            dry_run=dry_run,
        )


def rebuild(
    store: Store,
    *,
    network: str,
    contexts_of: Callable[[pa.Table], Matrix],
    prior: Belief,
    as_of: date,
    clock: Clock,
    head: EngagementHead | None = None,
    is_centred: bool = False,
    dry_run: bool = False,
) -> Learned:
    """Learn every learned campaign again under another context network; the ledger is the same, so nothing is lost.

    `contexts_of(features)`: contexts under `network` of customers with these features, in the same order. head: of
    the network, by whose scores codes are counted. is_centred: whether the network centres contexts on the snapshot
    that features carry; features without one are then warned of. A campaign that is embedded stays so, and one that is
    again changes nothing: whoever is interrupted goes on later.
    """
    with store.reading() as transaction:
        active = transaction.beliefs.version()
    if active is None:
        raise StateError("belief", found="no version", expected="campaigns learned before", fix="Run `disco learn`.")
    without: list[str] = []  # campaigns whose features carry no snapshot

    def embed(transaction: Transaction, campaign: str) -> None:
        if network in transaction.beliefs.networks(campaign):
            return
        features = transaction.contexts.features(campaign)
        if is_centred and snapshot_of(features.schema) is None:
            without.append(campaign)
        record = transaction.plans.campaign(campaign)
        transaction.contexts.add(campaign, network, contexts_of(features))
        found = campaign_evidence.rebuilt_with(transaction, record, network, head)
        transaction.beliefs.put_evidence(campaign, network, found.to_bytes())

    if not dry_run:
        for campaign in active.campaigns:
            with store.writing(campaign, action="learn") as transaction:
                embed(transaction, campaign)
    with store.writing(BELIEF, action="learn", dry_run=dry_run) as transaction:
        for campaign in active.campaigns if dry_run else ():
            embed(transaction, campaign)
        made = _make_version(
            transaction, set(active.campaigns), network, prior, as_of=as_of, clock=clock, dry_run=dry_run
        )
    if not without:
        return made
    warning = (
        f"An earlier version of the program kept the features of {', '.join(without)} without a snapshot of their day, "
        "so their contexts are not centred and the model may be off by what other campaigns had changed before. "
        "Compare the next campaign with its forecast (`disco results`); campaigns planned from now on are centred."
    )
    return replace(made, warnings=(*made.warnings, warning))


def rebuild_for_network(
    store: Store,
    data: "ShopData",
    *,
    prior: Belief,
    as_of: date,
    clock: Clock,
    engine: Engine | None = None,
    cluster: Engine | None = None,
    dry_run: bool = False,
) -> Learned:
    """`rebuild` under the shop's present network, from the features kept with every decision.

    cluster: embeds the customers in place of `engine`, which has threads of this machine.
    """
    network = data.network()

    def contexts_of(features: pa.Table) -> Matrix:
        if cluster is not None:
            return embedded_rows(cluster, network, features)
        return network.transform(features, engine=engine)

    return rebuild(
        store,
        network=data.network_hash(),
        contexts_of=contexts_of,
        head=network.head_,
        is_centred=network.embedding_.trained_means is not None,
        prior=prior,
        as_of=as_of,
        clock=clock,
        dry_run=dry_run,
    )


def _one_network(transaction: Transaction, campaigns: Sequence[str], active: VersionRecord | None) -> str:
    """The network that all campaigns to be learned have contexts of: the active version's, or the newest campaign's."""
    records = [transaction.plans.campaign(campaign) for campaign in campaigns]
    newest = max(records, key=lambda record: record.launched_at)
    if active is None or newest.network == active.network:
        return newest.network
    if all(active.network in transaction.beliefs.networks(campaign) for campaign in campaigns):
        return active.network
    raise StateError(
        f"campaign {newest.campaign}",
        found=f"contexts of network {newest.network[:12]}",
        expected=f"network {active.network[:12]}, under which the model has learned so far",
        fix="Run `disco learn --rebuild`: it embeds the earlier campaigns again with the new network.",
    )


def _refuse_earlier_day(
    transaction: Transaction, active: VersionRecord, not_matured: Iterable[str], *, as_of: date
) -> None:
    """StateError where codes that the active version counts would no longer count: time does not run backwards."""
    basket = belief_of(active).basket
    counted = []
    for campaign in set(not_matured) & set(active.campaigns):
        kept = campaign_evidence.stored(transaction, campaign, active.network)
        assert kept is not None  # it was learned under this network
        baskets = basket.campaigns.get(campaign, Evidence.empty(kept.baskets.context_size))
        without_codes = replace(kept, baskets=baskets, codes=EngagementCounts())
        if without_codes.hash != active.campaigns[campaign]:
            counted.append(campaign)
    if counted:
        raise StateError(
            f"Version {active.number} of the model counts the codes of {', '.join(sorted(counted))}, which have not "
            f"matured by {as_of}",
            fix="Correct the clock or --as-of. To learn as of an earlier day, first activate a version that was made "
            "before (`disco learn --activate N`).",
        )


def _make_version(
    transaction: Transaction,
    campaigns: set[str],
    network: str,
    prior: Belief,
    *,
    as_of: date,
    clock: Clock,
    dry_run: bool,
    asked: Collection[str] = (),
) -> Learned:
    """`asked`: the campaigns somebody wants to learn now, and would want to be warned of."""
    active = transaction.beliefs.version()
    lessons = lessons_of(transaction, campaigns, network, is_matured=lambda record: record.matures_on <= as_of)
    if active is not None:
        _refuse_earlier_day(transaction, active, [one.campaign for one in lessons if not one.matured], as_of=as_of)
    head = one_head(lessons, network)
    belief = learn(under_network(prior, network, head), [stored.lesson for stored in lessons])
    basket, engagement = to_bytes(belief.basket), engagement_text(belief)
    same = active is not None and (active.basket, active.engagement, active.network) == (basket, engagement, network)
    number = max(transaction.beliefs.numbers(), default=0) + 1
    if active is not None and same:
        number = active.number
    else:
        record = VersionRecord(
            number=number,
            basket=basket,
            engagement=engagement,
            network=network,
            campaigns={stored.campaign: stored.hash for stored in lessons},
            made_at=clock.now(),
        )
        transaction.beliefs.add_version(record, activate=True)
        transaction.journal.note(version=number, campaigns=sorted(record.campaigns))
    return Learned(
        version=number,
        changed=not same,
        campaigns={stored.campaign: stored.evidence.baskets.total_rows for stored in lessons},
        matured=tuple(stored.campaign for stored in lessons if stored.matured),
        warnings=tuple(
            f"No outcome of {stored.campaign} has been applied, so the model counts all its codes as unused. If "
            f"outcomes are missing, run `disco ingest {stored.campaign} FILE` and then "
            f"`disco learn {stored.campaign}` again."
            for stored in lessons
            if stored.campaign in asked
            and stored.all_unused
            and not counts_of(transaction.ledger.counts(stored.campaign)).applied
        ),
        dry_run=dry_run,
        belief=belief,
    )
