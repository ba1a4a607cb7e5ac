"""Belief from evidence: a version is the prior plus what the learned campaigns taught, and nothing else.

A campaign is learned by its name. What it taught lies beside its ledger (`campaign_evidence.py`), so a version is built
in a moment, again and again, and a batch that comes later or is reverted is in the next version of itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import pyarrow as pa

from disco.belief import EngagementCounts
from disco.belief.model_file import to_bytes
from disco.campaign import Belief
from disco.operations import campaign_evidence
from disco.operations.campaign_evidence import CampaignEvidence
from disco.operations.transaction import transaction
from disco.operations.versions import belief_of, engagement_text
from disco.records.arrays import Matrix
from disco.records.errors import StateError
from disco.records.life import CampaignRecord, VersionRecord
from disco.records.ports import Clock, Shelves, Store

GRACE_DAYS = 2  # an order of the last day may be reported a little later


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The active version after learning. changed: a new version was made · campaigns: purchases each adds · ripe:
    campaigns whose codes have run out, so that they count for engagement."""

    number: int
    belief: Belief
    changed: bool
    campaigns: Mapping[str, int]
    ripe: tuple[str, ...]


def learn_campaigns(
    store: Store,
    campaigns: Sequence[str],
    *,
    prior: Belief,
    as_of: date,
    clock: Clock,
    model: str = "main",
    dry_run: bool = False,
) -> Learned:
    """Add these campaigns to those learned before, take all of them as they stand now, make a version if it is new."""
    with transaction(store, model, dry_run=dry_run) as shelves:
        active = shelves.version(model)
        network = _one_network(shelves, campaigns, active)
        wanted = {*campaigns, *(active.campaigns if active is not None else ())}
        return _make_version(shelves, wanted, network, prior, as_of=as_of, clock=clock, model=model)


def learn_campaign(
    store: Store,
    campaign: str,
    *,
    prior: Belief,
    as_of: date,
    clock: Clock,
    model: str = "main",
    dry_run: bool = False,
) -> Learned:
    """`learn_campaigns` of one."""
    return learn_campaigns(store, [campaign], prior=prior, as_of=as_of, clock=clock, model=model, dry_run=dry_run)


def rebuild(
    store: Store,
    *,
    network: str,
    contexts_of: Callable[[CampaignRecord, pa.Table], Matrix],
    prior: Belief,
    as_of: date,
    clock: Clock,
    model: str = "main",
) -> Learned:
    """Learn every learned campaign again under another context network; the ledger is the same, so nothing is lost.

    `contexts_of(campaign, decisions)`: contexts of these decisions' customers under `network`, in the same order.
    """
    with store.reading() as shelves:
        active = shelves.version(model)
    if active is None:
        raise StateError(
            f"model {model}", found="no version", expected="campaigns learned before", fix="Run `disco learn`."
        )
    for campaign in active.campaigns:
        _embed_again(store, campaign, network, contexts_of)
    with store.writing(model) as shelves:
        return _make_version(shelves, set(active.campaigns), network, prior, as_of=as_of, clock=clock, model=model)


def _embed_again(
    store: Store, campaign: str, network: str, contexts_of: Callable[[CampaignRecord, pa.Table], Matrix]
) -> None:
    """Contexts and evidence of a campaign under a network it does not have yet, in one transaction."""
    with store.writing(campaign) as shelves:
        if network in shelves.networks(campaign):
            return
        record, decisions = shelves.campaign(campaign), shelves.decisions(campaign)
        contexts = contexts_of(record, decisions)
        if len(contexts) != decisions.num_rows:
            raise StateError(
                f"campaign {campaign}",
                found=f"features of {len(contexts):,} customers",
                expected=f"of all {decisions.num_rows:,} it decided",
                fix="Keep the plan's folder: the features there are what another network embeds.",
            )
        shelves.add_contexts(campaign, network, contexts, first_row=0)
        found = campaign_evidence.rebuilt(shelves, record, network)
        shelves.put_evidence(campaign, network, found.to_bytes())


def _one_network(shelves: Shelves, campaigns: Sequence[str], active: VersionRecord | None) -> str:
    """The network that all campaigns to be learned have contexts of: the active version's, or the newest campaign's."""
    records = [shelves.campaign(campaign) for campaign in campaigns]
    newest = max(records, key=lambda record: record.launched_at)
    if active is None or newest.network == active.network:
        return newest.network
    if all(active.network in shelves.networks(campaign) for campaign in campaigns):
        return active.network
    raise StateError(
        f"campaign {newest.campaign}",
        found=f"contexts of network {newest.network[:12]}",
        expected=f"network {active.network[:12]}, under which the model has learned so far",
        fix="Run `disco learn --rebuild`: it embeds the earlier campaigns again with the new network.",
    )


def _make_version(
    shelves: Shelves,
    campaigns: set[str],
    network: str,
    prior: Belief,
    *,
    as_of: date,
    clock: Clock,
    model: str,
) -> Learned:
    active = shelves.version(model)
    belief, taught, ripe = build_belief(shelves, campaigns, network, prior, as_of=as_of)
    hashes = {name: evidence.hash for name, evidence in taught.items()}
    basket, engagement = to_bytes(belief.basket), engagement_text(belief.engagement)
    purchases = {name: evidence.baskets.total_rows for name, evidence in taught.items()}
    if active is not None and (active.basket, active.engagement, active.network) == (basket, engagement, network):
        return Learned(number=active.number, belief=belief, changed=False, campaigns=purchases, ripe=ripe)
    record = VersionRecord(
        model=model,
        number=max((version.number for version in shelves.versions(model)), default=0) + 1,
        basket=basket,
        engagement=engagement,
        network=network,
        campaigns=hashes,
        made_at=clock.now(),
    )
    shelves.add_version(record, activate=True)
    return Learned(number=record.number, belief=belief_of(record), changed=True, campaigns=purchases, ripe=ripe)


def build_belief(
    shelves: Shelves, campaigns: set[str], network: str, prior: Belief, *, as_of: date
) -> tuple[Belief, dict[str, CampaignEvidence], tuple[str, ...]]:
    """Prior + evidence of these campaigns by their first day; what each taught; those whose codes have run out."""
    taught: dict[str, CampaignEvidence] = {}
    counts, ripe = prior.engagement.counts, []
    basket = replace(prior.basket, context_schema=network)
    for record in shelves.campaigns():
        if record.campaign not in campaigns:
            continue
        found = campaign_evidence.stored(shelves, record.campaign, network)
        if found is None:
            raise StateError(
                f"campaign {record.campaign}",
                found=f"no evidence under network {network[:12]}",
                expected="every learned campaign under one network",
                fix="Run `disco learn --rebuild`.",
            )
        taught[record.campaign] = found
        basket = basket.add(found.baskets, campaign=record.campaign)
        if record.plan.valid.end + timedelta(days=GRACE_DAYS) <= as_of:
            counts = counts + found.codes
            ripe.append(record.campaign)
    return Belief(basket=basket, engagement=replace(prior.engagement, counts=counts)), taught, tuple(ripe)


def ripe_codes(store: Store, campaign: str, *, as_of: date) -> EngagementCounts:
    """Codes of a campaign whose validity plus grace has passed, per depth: sent and redeemed; none before."""
    with store.reading() as shelves:
        record = shelves.campaign(campaign)
        found = campaign_evidence.stored(shelves, campaign, record.network)
    if found is None or record.plan.valid.end + timedelta(days=GRACE_DAYS) > as_of:
        return EngagementCounts()
    return found.codes
