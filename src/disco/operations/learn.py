"""What campaigns teach, and the versions of the model that are learned from it.

A campaign's evidence is kept beside its ledger, so a version is built in a moment from all lessons as they stand: a
batch that arrives later or is reverted counts in the next version.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.belief import BasketModel, Engagement, EngagementCounts, Evidence
from disco.belief.model_file import to_bytes
from disco.campaign import Belief, Lesson, learn
from disco.operations.outbox import tell
from disco.operations.purchases import NetPurchases, bought, counts_of, net_purchases
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.campaign_records import CampaignRecord
from disco.records.decisions import Arm, Purchases
from disco.records.diagnosis import REPAIR
from disco.records.errors import FileFormatError, NotFoundError, SealError, StateError
from disco.records.identity import places_in
from disco.records.jobs import Event
from disco.records.money import from_minor_units
from disco.records.people import Actor
from disco.records.plan import Plan
from disco.records.ports import Clock, Engine
from disco.records.result import NotInJson, Result
from disco.records.score import EngagementHead, ScoreBins
from disco.store import BELIEF, Store, Transaction
from disco.store.beliefs import VersionRecord

if TYPE_CHECKING:
    from disco.operations.site import Site


# ---- evidence of one campaign ----
#
# What one campaign teaches under one context network: its baskets as evidence, its codes sent and redeemed.
#
# Kept beside the ledger and changed in the same transaction, so learning reads a few kilobytes, not a million rows.
# `to_bytes` is a stored form: it changes only with a migration. `rebuilt_evidence` computes the evidence again from
# the ledger and must give the same bytes; `disco doctor` compares them.
#
# Where the network has an engagement head, codes are counted per depth and bin of the score, and the evidence holds
# the head (format 2): a purchase that arrives later is counted in the bin of its own stored context.

_FORMAT, _FORMAT_WITH_HEAD = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignEvidence:
    """What a campaign has taught so far, as it is stored."""

    baskets: Evidence  # ln(full price) of purchases by customers with a context of their own
    codes: EngagementCounts  # sent and redeemed so far, matured or not; none of a recalled campaign
    only_random: bool  # whether `codes` counts only those assigned at random (docs/decisions/002)
    head: EngagementHead | None = None  # of the network; with it, `codes` counts per bin of the score

    @classmethod
    def launched(
        cls, decisions: pa.Table, plan: Plan, *, contexts: Matrix, head: EngagementHead | None = None
    ) -> "CampaignEvidence":
        """Before any outcome: the codes that went out. contexts: (n, d1), of the decisions in their order."""
        coded = np.flatnonzero(decisions["code"].is_valid().to_numpy())
        sent = decisions.take(pa.array(coded))
        at_random = assigned_at_random(sent, plan)
        only_random = bool(at_random.any())
        counted = np.flatnonzero(at_random) if only_random else np.arange(coded.size)
        depth = sent["depth"].to_numpy()[counted]
        return cls(
            baskets=Evidence.empty(contexts.shape[1]),
            codes=_codes(depth, used=False, contexts=contexts[coded[counted]], head=head),
            only_random=only_random,
            head=head,
        )

    def with_late(self, depths: Vector, contexts: Matrix) -> "CampaignEvidence":
        """With codes of late arrivals, decided at the shadow prices: they count where none was assigned at random.

        depths, contexts: (codes,) and (codes, d1) of those who got a code.
        """
        if self.only_random:
            return self
        return replace(self, codes=self.codes + _codes(depths, used=False, contexts=contexts, head=self.head))

    def to_bytes(self) -> bytes:
        """Canonical: equal evidence has equal bytes."""
        baskets, codes = self.baskets, self.codes
        content = {
            "format": _FORMAT if self.head is None else _FORMAT_WITH_HEAD,
            **({} if self.head is None else {"head": self.head.to_json()}),
            "only_random": self.only_random,
            "baskets": {
                "context_size": baskets.context_size,
                **{name: getattr(baskets, name).tolist() for name in ("depths", "high", "low")},
                **({} if baskets.paid is None else {"paid": baskets.paid.tolist()}),
            },
            "codes": counts_form(codes),
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, name: str) -> "CampaignEvidence":
        try:
            read = json.loads(content)
            if read["format"] not in (_FORMAT, _FORMAT_WITH_HEAD):
                raise ValueError(f"format {read['format']}")
            head = EngagementHead.from_json(read["head"]) if read["format"] == _FORMAT_WITH_HEAD else None
            baskets, codes = read["baskets"], read["codes"]
            size = int(baskets["context_size"])
            rows = len(baskets["depths"])
            shape = (rows, (size + 2) * (size + 3) // 2)
            high, low = (np.array(baskets[part], np.int64).reshape(shape) for part in ("high", "low"))
            paid = np.array(baskets["paid"], np.int64).reshape(rows, 2) if "paid" in baskets else None
            return cls(
                baskets=Evidence.from_arrays(np.array(baskets["depths"], np.float64), high, low, paid),
                codes=read_counts(codes, None if head is None else head.bins),
                only_random=bool(read["only_random"]),
                head=head,
            )
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            raise FileFormatError(
                f"evidence of campaign {name}",
                found=f"content that cannot be read ({error})",
                expected="evidence as it was written",
                fix=REPAIR,
            ) from error

    def warnings(self, campaign: str) -> Iterator[str]:
        """A word where most purchases were by customers without a context of their own: they stay outside `baskets`."""
        bought, learned = int(self.codes.redeemed.sum()), self.baskets.total_rows
        if bought > 2 * learned:
            yield (
                f"At least {bought - learned:,} of {bought:,} purchases of {campaign} were by customers who had bought "
                "nothing in the year before its day. They count for who uses a code, and teach nothing about baskets."
            )

    @property
    def without_paid(self) -> "CampaignEvidence":
        """As earlier versions of the program kept it, without the money of the purchases."""
        return replace(self, baskets=self.baskets.without_paid())

    @property
    def hash(self) -> str:
        """Of what names the purchases and codes, which money does not."""
        return sha256(self.without_paid.to_bytes()).hexdigest()


def _codes(depth: Vector, *, used: bool, contexts: Matrix, head: EngagementHead | None) -> EngagementCounts:
    """(codes,) depths and (codes, d1) contexts → counts, per bin where there is a head."""
    flags = np.full(len(depth), used)
    if head is None:
        return EngagementCounts.of(depth, flags)
    return EngagementCounts.of(depth, flags, score=head.scores(contexts), bins=head.bins)


def assigned_at_random(decisions: pa.Table, plan: Plan) -> Flags:
    """Per decision: whether its depth was assigned independently of the customer.

    True for the control group, or for all of a random campaign; never for late arrivals.
    """
    on_time = np.ones(decisions.num_rows, np.bool_)
    if "late" in decisions.column_names:
        on_time = ~np.asarray(decisions["late"].to_numpy(), np.bool_)
    if plan.policy.name == "random":
        return on_time
    return on_time & np.asarray(pc.equal(decisions["arm"], str(Arm.CONTROL)).to_numpy(), np.bool_)


def stored_evidence(transaction: Transaction, campaign: str, network: str) -> CampaignEvidence | None:
    content = transaction.beliefs.evidence(campaign, network)
    return None if content is None else CampaignEvidence.from_bytes(content, name=campaign)


def head_of(transaction: Transaction, record: CampaignRecord, network: str) -> EngagementHead | None:
    """The engagement head of a network under which a campaign has contexts; None: the network has none.

    The plan names that of the launch. One that came later is named by a version that was learned with it, or, where a
    rebuild was interrupted, by the evidence that it wrote; what another program changed is not asked.
    """
    if network == record.network:
        return record.solution.engagement_head
    for number in reversed(transaction.beliefs.numbers()):
        with suppress(SealError):
            version = transaction.beliefs.version(number)
            if version is not None and version.network == network:
                return belief_of(version).head
    for other in transaction.plans.campaigns():
        with suppress(SealError):
            kept = stored_evidence(transaction, other.campaign, network)
            if kept is not None:
                return kept.head
    return None


def update_evidence(
    transaction: Transaction,
    record: CampaignRecord,
    *,
    before: NetPurchases,
    after: NetPurchases,
    decisions: pa.Table | None = None,
) -> None:
    """Move the stored evidence from the net purchases of some codes to others, under every network it is kept for.

    decisions: those that were read already, which may be about other codes.
    """
    old, new = (_bought(transaction, record, part, decisions) for part in _changes(before, after))
    if old is None and new is None:
        return
    for network in transaction.beliefs.networks(record.campaign):
        kept = stored_evidence(transaction, record.campaign, network)
        assert kept is not None
        (gained_baskets, gained_codes), (lost_baskets, lost_codes) = (
            _of_purchases(transaction, record, network, part, kept) for part in (new, old)
        )
        codes = kept.codes if record.recalled_at is not None else _redeemed(kept.codes, gained_codes, lost_codes)
        moved = replace(kept, baskets=kept.baskets - lost_baskets + gained_baskets, codes=codes)
        transaction.beliefs.put_evidence(record.campaign, network, moved.to_bytes())


def rebuilt_evidence(transaction: Transaction, record: CampaignRecord, network: str) -> CampaignEvidence:
    """The evidence from decisions, their contexts and the whole ledger in force."""
    return rebuilt_evidence_with(transaction, record, network, head_of(transaction, record, network))


def rebuilt_evidence_with(
    transaction: Transaction, record: CampaignRecord, network: str, head: EngagementHead | None
) -> CampaignEvidence:
    """`rebuilt_evidence` with the engagement head of a network that is new.

    A recall cuts short the time in which codes could be used. Those used before it would all count as redeemed and the
    others as nothing, which is a rate of 1, so a recalled campaign teaches baskets and no engagement at all.
    """
    decisions = transaction.decisions.of(record.campaign)
    applied = transaction.ledger.applied(record.campaign)
    contexts = transaction.contexts.of(record.campaign, network, decisions["row"].to_numpy())
    fresh = CampaignEvidence.launched(decisions, record.plan, contexts=contexts, head=head)
    coded = decisions.filter(decisions["code"].is_valid())
    bought = _bought(transaction, record, net_purchases(applied), coded)
    baskets, codes = _of_purchases(transaction, record, network, bought, fresh)
    if record.recalled_at is not None:
        return replace(fresh, baskets=baskets, codes=EngagementCounts())
    return replace(fresh, baskets=baskets, codes=_redeemed(fresh.codes, gained=codes))


def _changes(before: NetPurchases, after: NetPurchases) -> tuple[NetPurchases, NetPurchases]:
    """Only the codes whose net purchase differs."""
    place = pc.index_in(after.code, value_set=before.code)
    was = np.append(before.full_price_minor, -1)[_places(place)]
    changed = was != after.full_price_minor
    gone = ~np.isin(np.arange(len(before.code)), _places(place)[~changed])
    return before.take(gone), after.take(changed)


def _places(found: pa.Array) -> Integers:
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Bought:
    """Purchases of which something was kept, with the decisions about their codes in the same order."""

    decisions: pa.Table  # row, arm, late, depth, known
    full_price_minor: Integers


def _bought(
    transaction: Transaction, record: CampaignRecord, purchases: NetPurchases, decisions: pa.Table | None
) -> _Bought | None:
    """None where there is no code at all. decisions: in which their codes are looked for first."""
    if not len(purchases.code):
        return None
    kept = purchases.full_price_minor > 0
    codes = purchases.code if kept.all() else purchases.code.filter(pa.array(kept))
    place = None if decisions is None else places_in(codes, among=decisions["code"].combine_chunks())
    if decisions is None or place is None or place.null_count:
        decisions = transaction.decisions.of(record.campaign, codes=codes)
        place = places_in(codes, among=decisions["code"].combine_chunks())
    told = decisions.select(["row", "arm", "late", "depth", "known"])
    return _Bought(told.take(place), purchases.full_price_minor[kept])


def _of_purchases(
    transaction: Transaction, record: CampaignRecord, network: str, bought: _Bought | None, kept: CampaignEvidence
) -> tuple[Evidence, EngagementCounts]:
    """Evidence of these purchases; codes redeemed, counted as `kept` counts them (both counts are equal)."""
    if bought is None:
        contexts, none = np.zeros((0, kept.baskets.context_size)), np.zeros(0)
        return Evidence.of(contexts, none, none), _codes(none, used=True, contexts=contexts, head=kept.head)
    rows = bought.decisions
    depth, known = rows["depth"].to_numpy(), np.asarray(rows["known"].to_numpy(), np.bool_)
    contexts = transaction.contexts.of(record.campaign, network, rows["row"].to_numpy())
    price = from_minor_units(bought.full_price_minor, transaction.locale.currency)
    counted = assigned_at_random(rows, record.plan) if kept.only_random else np.ones(rows.num_rows, np.bool_)
    if known.all() and counted.all():
        return Evidence.of(contexts, depth, price), _codes(depth, used=True, contexts=contexts, head=kept.head)
    return (
        Evidence.of(contexts[known], depth[known], price[known]),
        _codes(depth[counted], used=True, contexts=contexts[counted], head=kept.head),
    )


def _redeemed(
    codes: EngagementCounts, gained: EngagementCounts, lost: EngagementCounts | None = None
) -> EngagementCounts:
    redeemed = codes.redeemed.copy()
    for part, sign in ((gained, 1), *(() if lost is None else ((lost, -1),))):
        redeemed[np.searchsorted(codes.depths, part.depths)] += sign * part.redeemed
    return replace(codes, redeemed=redeemed)


def purchases_of(store: Store, campaign: str, *, only_random: bool = False) -> Purchases:
    """The campaign's baskets with the context of each customer when decided; `only_random`: of random depths alone.

    Customers without a context of their own (no purchase in the year before) stay outside, as they do in the evidence.
    """
    with store.reading() as transaction:
        record, decisions = transaction.plans.campaign(campaign), transaction.decisions.of(campaign)
        full_price = bought(transaction, campaign, decisions)
        wanted = (full_price > 0) & np.asarray(decisions["known"].to_numpy(), np.bool_)
        if only_random:
            wanted &= assigned_at_random(decisions, record.plan)
        rows = np.flatnonzero(wanted)
        context = transaction.contexts.of(campaign, record.network, decisions["row"].to_numpy()[rows])
    return Purchases(context=context, depth=decisions["depth"].to_numpy()[rows], full_price=full_price[rows])


# ---- versions ----
#
# As they are kept: a model file and engagement as JSON; and what names a belief.

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
    if engagement.forgetting < 1.0:  # without it campaigns do not matter, and a version has its bytes of before
        content["forgetting"] = engagement.forgetting
        content["campaigns"] = [[name, counts_form(one)] for name, one in engagement.campaigns.items()]
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
    bins = None if head is None else head.bins
    counts, override = read_counts(read.pop("counts"), bins), dict(read.pop("override"))
    campaigns = {name: read_counts(form, bins) for name, form in read.pop("campaigns", ())}
    return Belief(
        basket=BasketModel.from_bytes(record.basket, name=f"version {record.number} of belief"),
        engagement=Engagement(counts=counts, campaigns=campaigns, override=override, **read),
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


def learned_before(transaction: Transaction, belief: Belief, version: VersionRecord) -> Belief:
    """What a version would believe under the network of `belief`: its campaigns as they stand now, with the codes that
    had matured when it was made."""
    network, made_on = belief.basket.context_schema, transaction.locale.day_of(version.made_at)
    assert network is not None  # for the type checker: a belief that was learned names its network
    campaigns = [one for one in version.campaigns if one in belief.basket.campaigns]
    lessons = lessons_of(transaction, campaigns, network, is_matured=lambda record: record.matures_on <= made_on)
    nothing = Belief(
        basket=replace(belief.basket, campaigns={}),
        engagement=belief.engagement.with_counts(EngagementCounts()),
        head=belief.head,
    )
    return learn(nothing, [stored.lesson for stored in lessons])


def deciding_belief(transaction: Transaction, record: CampaignRecord, *, prior: Belief) -> Belief:
    """The belief that decided a campaign, with its engagement head, so that prices and values belong together.

    Without a head it has the rates per depth that were used then: an earlier version of the program may have computed
    them in another way from the same counts. Such a version also knew one spread of baskets for all depths.
    """
    belief = prior if record.version is None else belief_of(version_of(transaction, record.version))
    solution, engagement, basket = record.solution, belief.engagement, belief.basket
    if solution.head is None:
        rates = dict(zip(solution.depths, solution.engagement, strict=True))
        engagement = replace(engagement.with_counts(engagement.counts.margin), override=rates)
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


# ---- learning ----
#
# Versions of the belief: load the lessons of the learned campaigns, call `learn`, keep what it returns.
#
# A campaign is learned by its name. Its evidence is kept beside its ledger (`CampaignEvidence`), so a version is
# built in a moment from all lessons as they stand: a batch that arrives later or is reverted counts in the next
# version.


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
        evidence = stored_evidence(transaction, record.campaign, network)
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
            actor=store.actor,
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
    from disco.features.snapshot import snapshot_of  # not needed by questions to the model

    without: list[str] = []  # campaigns whose features carry no snapshot

    def embed(transaction: Transaction, campaign: str) -> None:
        if network in transaction.beliefs.networks(campaign):
            return
        features = transaction.contexts.features(campaign)
        if is_centred and snapshot_of(features.schema) is None:
            without.append(campaign)
        record = transaction.plans.campaign(campaign)
        transaction.contexts.add(campaign, network, contexts_of(features))
        found = rebuilt_evidence_with(transaction, record, network, head)
        transaction.beliefs.put_evidence(campaign, network, found.to_bytes())

    if not dry_run:
        for campaign in active.campaigns:
            with store.writing(campaign, action="learn") as transaction:
                embed(transaction, campaign)
    with store.writing(BELIEF, action="learn", dry_run=dry_run) as transaction:
        for campaign in active.campaigns if dry_run else ():
            embed(transaction, campaign)
        made = _make_version(
            transaction,
            set(active.campaigns),
            network,
            prior,
            as_of=as_of,
            clock=clock,
            actor=store.actor,
            dry_run=dry_run,
        )
    if not without:
        return made
    warning = (
        f"An earlier version of the program kept the features of {', '.join(without)} without a snapshot of their day, "
        "so their contexts are not centred and the model may be off by what other campaigns had changed before. "
        "Compare the next campaign with its forecast (`disco results`); campaigns planned from now on are centred."
    )
    return replace(made, warnings=(*made.warnings, warning))


def rebuild_for_network(site: "Site", *, as_of: date, cluster: Engine | None = None, dry_run: bool = False) -> Learned:
    """`rebuild` under the shop's present network, from the features kept with every decision.

    cluster: embeds the customers in place of the site's engine, which has threads of this machine.
    """
    network = site.data.network()

    def contexts_of(features: pa.Table) -> Matrix:
        if cluster is not None:
            from disco.operations.contexts import embedded_rows

            return embedded_rows(cluster, network, features)
        return network.transform(features, engine=site.engine)

    return rebuild(
        site.store,
        network=site.data.network_hash(),
        contexts_of=contexts_of,
        head=network.head_,
        is_centred=network.embedding_.trained_means is not None,
        prior=site.prior,
        as_of=as_of,
        clock=site.clock,
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
        kept = stored_evidence(transaction, campaign, active.network)
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
    actor: Actor,
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
        told = {"version": number, "campaigns": sorted(record.campaigns)}
        tell(transaction, Event.MODEL_LEARNED, told, actor=actor, now=clock.now())
    return Learned(
        version=number,
        changed=not same,
        campaigns={stored.campaign: stored.evidence.baskets.total_rows for stored in lessons},
        matured=tuple(stored.campaign for stored in lessons if stored.matured),
        warnings=tuple(
            words
            for stored in lessons
            if stored.campaign in asked
            for words in stored.evidence.warnings(stored.campaign)
        )
        + tuple(
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
