"""From a campaign's ledger to belief: its purchases as evidence, its matured codes as engagement."""

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.belief import EngagementCounts
from disco.campaign import Belief, learn
from disco.records.decisions import Arm, Purchases
from disco.records.errors import StateError
from disco.records.money import from_minor_units
from disco.records.ports import Store


def purchases_of(store: Store, campaign: str, *, only_random: bool = False) -> Purchases:
    """The campaign's baskets with the context each customer had when decided; `only_random`: where depth was dealt.

    Customers without a context of their own (no purchase in the year before) stay outside training, as in the paper.
    """
    decisions, ledger = store.decisions(campaign), store.ledger(campaign)
    if only_random:
        decisions = _dealt_at_random(store, campaign, decisions)
        ledger = ledger.filter(pc.is_in(ledger["code"], decisions["code"].combine_chunks()))
    rows = decisions.take(pc.index_in(ledger["code"].combine_chunks(), decisions["code"].combine_chunks()))
    known = rows["known"].to_numpy()
    context = np.stack(rows["context"].to_numpy()) if rows.num_rows else np.zeros((0, _context_size(decisions)))
    return Purchases(
        context=context[known],
        depth=rows["depth"].to_numpy()[known],
        full_price=from_minor_units(ledger["full_price_minor"].to_numpy())[known],
    )


def matured_codes(store: Store, campaign: str, *, as_of: date) -> EngagementCounts:
    """Codes of the campaign whose validity plus grace has passed, per depth: sent and redeemed.

    Where a part of the campaign was random (a control group, or all of it), only that part counts: a policy gives each
    depth to customers of its own choosing, and big spenders also buy more often, so its rates compare different people.
    """
    decisions, ledger = store.decisions(campaign), store.ledger(campaign)
    sent = decisions.filter(decisions["code"].is_valid())
    at_random = _dealt_at_random(store, campaign, sent)
    sent = at_random if at_random.num_rows else sent
    redeemed = pc.is_in(sent["code"], ledger["code"].combine_chunks())
    return EngagementCounts.matured(
        sent["depth"].to_numpy(),
        redeemed.to_numpy(),
        valid_until=np.datetime64(store.plan(campaign).valid.end),
        as_of=np.datetime64(as_of),
    )


def learn_campaign(store: Store, campaign: str, belief: Belief, *, as_of: date) -> Belief:
    """Belief after this campaign. The ledger is read whole, so a campaign is learned on a belief that lacks it."""
    if campaign in belief.basket.campaigns:
        raise StateError(
            f"campaign {campaign}",
            found="a belief that has learned it",
            expected="the belief before it",
            fix="Learning it twice would count its purchases twice: start from the belief without it.",
        )
    return learn(
        belief, purchases_of(store, campaign), campaign=campaign, codes=matured_codes(store, campaign, as_of=as_of)
    )


def _dealt_at_random(store: Store, campaign: str, decisions: pa.Table) -> pa.Table:
    """The decisions whose depth owes nothing to the customer: the control group, or all of a random campaign."""
    if store.plan(campaign).policy.name == "random":
        return decisions
    return decisions.filter(pc.equal(decisions["arm"], Arm.CONTROL))


def _context_size(decisions: pa.Table) -> int:
    return int(decisions.schema.field("context").type.list_size)
