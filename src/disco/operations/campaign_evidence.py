"""What one campaign teaches under one context network: its baskets as evidence, its codes sent and redeemed.

Kept beside the ledger and changed in the same transaction, so learning reads a few kilobytes, not a million rows.
`to_bytes` is a stored form: it changes only with a migration. `rebuilt` computes the evidence again from the ledger and
must give the same bytes; `disco doctor` compares them.

Where the network has an engagement head, codes are counted per depth and bin of the score, and the evidence holds the
head (format 2): a purchase that arrives later is counted in the bin of its own stored context.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.belief import EngagementCounts, Evidence
from disco.operations.net_purchases import NetPurchases, net_purchases
from disco.operations.versions import belief_of, counts_form, read_counts
from disco.records.arrays import Flags, Integers, Matrix, Vector
from disco.records.decisions import Arm
from disco.records.diagnosis import REPAIR
from disco.records.errors import FileFormatError, SealError
from disco.records.life import CampaignRecord
from disco.records.matching import places_in
from disco.records.money import from_minor_units
from disco.records.plan import Plan
from disco.records.score import EngagementHead
from disco.store import Transaction

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
            shape = (len(baskets["depths"]), (size + 2) * (size + 3) // 2)
            return cls(
                baskets=Evidence.from_arrays(
                    np.array(baskets["depths"], np.float64),
                    *(np.array(baskets[part], np.int64).reshape(shape) for part in ("high", "low")),
                ),
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

    @property
    def hash(self) -> str:
        return sha256(self.to_bytes()).hexdigest()


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


def stored(transaction: Transaction, campaign: str, network: str) -> CampaignEvidence | None:
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
            kept = stored(transaction, other.campaign, network)
            if kept is not None:
                return kept.head
    return None


def update(
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
        kept = stored(transaction, record.campaign, network)
        assert kept is not None
        (gained_baskets, gained_codes), (lost_baskets, lost_codes) = (
            _of_purchases(transaction, record, network, part, kept) for part in (new, old)
        )
        codes = kept.codes if record.recalled_at is not None else _redeemed(kept.codes, gained_codes, lost_codes)
        moved = replace(kept, baskets=kept.baskets - lost_baskets + gained_baskets, codes=codes)
        transaction.beliefs.put_evidence(record.campaign, network, moved.to_bytes())


def rebuilt(transaction: Transaction, record: CampaignRecord, network: str) -> CampaignEvidence:
    """The evidence from decisions, their contexts and the whole ledger in force."""
    return rebuilt_with(transaction, record, network, head_of(transaction, record, network))


def rebuilt_with(
    transaction: Transaction, record: CampaignRecord, network: str, head: EngagementHead | None
) -> CampaignEvidence:
    """`rebuilt` with the engagement head of a network that is new.

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
