"""Versions of belief as they are kept: a model file and engagement as JSON; and what names a belief."""

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from disco.belief import BasketModel, Engagement, EngagementCounts
from disco.campaign import Belief
from disco.records.errors import StateError
from disco.records.life import VersionRecord
from disco.records.ports import BELIEF, Store, Transaction
from disco.records.result import Result

_MOST = 2**31 - 1  # the largest number that both databases hold
_SETTINGS = ("prior_rate", "prior_codes", "drift")


def belief_hash(belief: Belief) -> str:
    """Equal hashes mean equal belief: settings, evidence and engagement counts."""
    return sha256(f"{belief.basket.hash}\x1f{engagement_text(belief.engagement)}".encode()).hexdigest()


def engagement_text(engagement: Engagement) -> str:
    """Canonical JSON; floats round-trip exactly."""
    content: dict[str, Any] = {name: getattr(engagement, name) for name in _SETTINGS}
    content["override"] = sorted(engagement.override.items())
    content["counts"] = {name: getattr(engagement.counts, name).tolist() for name in ("depths", "sent", "redeemed")}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def engagement_from(text: str) -> Engagement:
    read = json.loads(text)
    counts = read.pop("counts")
    override = dict(read.pop("override"))
    return Engagement(
        counts=EngagementCounts(
            np.array(counts["depths"], np.float64),
            *(np.array(counts[name], np.int64) for name in ("sent", "redeemed")),
        ),
        override=override,
        **read,
    )


def belief_of(record: VersionRecord) -> Belief:
    """The belief a version holds."""
    return Belief(
        basket=BasketModel.from_bytes(record.basket, name=f"version {record.number} of belief"),
        engagement=engagement_from(record.engagement),
    )


def active_belief(store: Store, *, prior: Belief) -> tuple[Belief, VersionRecord | None]:
    """The active version with its belief; the prior where nothing was learned."""
    with store.reading() as transaction:
        record = transaction.beliefs.version()
    return (prior, None) if record is None else (belief_of(record), record)


def belief_for(store: Store, *, prior: Belief, network: str) -> tuple[Belief, int | None]:
    """The belief that decides now, and its version (None: nothing was learned); for contexts of this network."""
    belief, version = active_belief(store, prior=prior)
    if version is not None and version.network != network:
        raise StateError(
            f"belief version {version.number}",
            found="learned with another context network than the shop has now",
            expected="the network it was learned with",
            fix="Run `disco learn --rebuild`, or put the old network back.",
        )
    return belief, None if version is None else version.number


def version_of(transaction: Transaction, number: int | None) -> VersionRecord:
    """The version of this number, or the active one; StateError where there is none."""
    asked_in_vain = number is not None and not 1 <= number <= _MOST
    record = None if asked_in_vain else transaction.beliefs.version(number)
    if record is None:
        made = transaction.beliefs.numbers()
        wrong = "The model has no active version" if number is None else f"The model has no version {number}"
        fix = f"There are versions {made[0]} to {made[-1]}." if made else "`disco learn CAMPAIGN` makes the first."
        raise StateError(wrong, fix=fix)
    return record


def belief_at(store: Store, number: int | None, *, prior: Belief) -> Belief:
    """The belief of a version; of None, the prior."""
    if number is None:
        return prior
    with store.reading() as transaction:
        return belief_of(version_of(transaction, number))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Activated(Result):
    """The version of the model that decides the next plan."""

    version: int
    """The number of the version."""
    dry_run: bool
    """Whether this was a rehearsal: nothing was written."""


def activate(store: Store, number: int, *, dry_run: bool = False) -> Activated:
    """Make an older (or newer) version the active one."""
    with store.writing(BELIEF, dry_run=dry_run) as transaction:
        transaction.beliefs.activate(version_of(transaction, number).number)
    return Activated(version=number, dry_run=dry_run)
