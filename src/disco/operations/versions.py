"""Versions of belief as they are kept: a model file and engagement as JSON; and what names a belief."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief
from disco.records.errors import NotFoundError, StateError
from disco.records.life import CampaignRecord, VersionRecord
from disco.records.result import Result
from disco.records.score import EngagementHead, ScoreBins
from disco.store import BELIEF, Store, Transaction

_MOST = 2**31 - 1  # the largest number that both databases hold
_SETTINGS = ("prior_rate", "prior_codes", "drift")


def belief_hash(belief: Belief) -> str:
    """Equal hashes mean equal belief: settings, evidence, engagement counts and head."""
    return sha256(f"{belief.basket.hash}\x1f{engagement_text(belief)}".encode()).hexdigest()


def engagement_text(belief: Belief) -> str:
    """Engagement and its head as canonical JSON; floats round-trip exactly. Without a head it has no such key."""
    engagement = belief.engagement
    content: dict[str, Any] = {name: getattr(engagement, name) for name in _SETTINGS}
    content["override"] = sorted(engagement.override.items())
    content["counts"] = counts_form(engagement.counts)
    if belief.head is not None:
        content["head"] = belief.head.to_json()
    elif (bins := engagement.counts.bins) is not None:  # scores given by hand
        content["bins"] = {"edges": bins.edges.tolist(), "centres": bins.centres.tolist()}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def counts_form(counts: EngagementCounts) -> dict[str, list[Any]]:
    """Counts as they are stored: lists of one number per depth, or of one list per depth where there are bins."""
    return {name: getattr(counts, name).tolist() for name in ("depths", "sent", "redeemed")}


def read_counts(form: Mapping[str, Any], bins: ScoreBins | None) -> EngagementCounts:
    """What `counts_form` wrote; bins: of the head, where there is one."""
    depths = np.array(form["depths"], np.float64)
    sent, redeemed = (np.array(form[name], np.int64) for name in ("sent", "redeemed"))
    if bins is None:
        return EngagementCounts(depths, sent, redeemed)
    shape = (depths.size, bins.count + 1)
    return EngagementCounts(depths, sent.reshape(shape), redeemed.reshape(shape), bins)


def belief_of(record: VersionRecord) -> Belief:
    """The belief a version holds."""
    read = json.loads(record.engagement)
    head = EngagementHead.from_json(read.pop("head")) if "head" in read else None
    counts, override = read_counts(read.pop("counts"), None if head is None else head.bins), dict(read.pop("override"))
    return Belief(
        basket=BasketModel.from_bytes(record.basket, name=f"version {record.number} of belief"),
        engagement=Engagement(counts=counts, override=override, **read),
        head=head,
    )


def active_belief(store: Store, *, prior: Belief) -> tuple[Belief, VersionRecord | None]:
    """The active version with its belief; the prior where nothing was learned."""
    with store.reading() as transaction:
        record = transaction.beliefs.version()
    return (prior, None) if record is None else (belief_of(record), record)


def belief_for(store: Store, *, prior: Belief, network: str, head: EngagementHead | None) -> tuple[Belief, int | None]:
    """The belief that decides now, and its version (None: nothing was learned); for contexts of this network.

    head: of the network; before anything was learned, the prior takes it.
    """
    belief, version = active_belief(store, prior=replace(prior, head=head))
    if version is not None and version.network != network:
        raise StateError(
            f"belief version {version.number}",
            found="learned with another context network than the shop has now",
            expected="the network it was learned with",
            fix="Run `disco learn --rebuild`, or put the old network back.",
        )
    if belief.head != head:
        raise StateError(
            f"belief version {version.number if version else 0}",
            found="learned with another engagement head than the context network has",
            expected="the head of the network",
            fix="Run `disco doctor --repair`, which counts the codes of every campaign again, and then `disco learn`.",
        )
    return belief, None if version is None else version.number


def version_of(transaction: Transaction, number: int | None) -> VersionRecord:
    """The version of this number, or the active one; NotFoundError where there is none."""
    asked_in_vain = number is not None and not 1 <= number <= _MOST
    record = None if asked_in_vain else transaction.beliefs.version(number)
    if record is None:
        made = transaction.beliefs.numbers()
        wrong = "The model has no active version" if number is None else f"The model has no version {number}"
        fix = f"There are versions {made[0]} to {made[-1]}." if made else "`disco learn CAMPAIGN` makes the first."
        raise NotFoundError(wrong, fix=fix)
    return record


def belief_at(store: Store, number: int | None, *, prior: Belief, head: EngagementHead | None = None) -> Belief:
    """The belief of a version; of None, the prior with this head."""
    if number is None:
        return prior if head is None else replace(prior, head=head)
    with store.reading() as transaction:
        return belief_of(version_of(transaction, number))


def deciding_belief(transaction: Transaction, record: CampaignRecord, *, prior: Belief) -> Belief:
    """The belief that decided a campaign, with its engagement head, so that prices and values belong together.

    Without a head it has the rates per depth that were used then: an earlier version of the program may have computed
    them in another way from the same counts. Such a version also knew one spread of baskets for all depths.
    """
    belief = prior if record.version is None else belief_of(version_of(transaction, record.version))
    solution, engagement, basket = record.solution, belief.engagement, belief.basket
    if solution.head is None:
        rates = dict(zip(solution.depths, solution.engagement, strict=True))
        engagement = replace(engagement, counts=engagement.counts.margin, override=rates)
    if basket.campaigns and not solution.spread_by_depth:
        basket = replace(basket, noise_sd=basket.posterior.noise_sd)
    return Belief(basket=basket, engagement=engagement, head=solution.engagement_head)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Activated(Result):
    """The version of the model that decides the next plan."""

    version: int
    """The number of the version."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""


def activate(store: Store, number: int, *, dry_run: bool = False) -> Activated:
    """Make an older (or newer) version the active one."""
    with store.writing(BELIEF, action="activate", dry_run=dry_run) as transaction:
        transaction.beliefs.activate(version_of(transaction, number).number)
        transaction.journal.note(version=number)
    return Activated(version=number, dry_run=dry_run)
