"""Who is in which arm, and each arm's own share of caps and budget, so that one arm never takes another's codes."""

import numpy as np

from disco.records.arrays import Flags, Ids, Integers, Vector
from disco.records.decisions import Arm, Offer
from disco.records.identity import customer_keys, uniforms


def split(ids: Ids, *, control: float, holdout: float, seed: int, campaign: str) -> dict[Arm, Flags]:
    """Assign every customer to an arm by its own counter; adding customers never moves another one."""
    u = uniforms(customer_keys(ids), seed, campaign, "arm")
    return {
        Arm.HOLDOUT: u < holdout,
        Arm.CONTROL: (u >= holdout) & (u < holdout + control),
        Arm.TEST: u >= holdout + control,
    }


def share_offer(offer: Offer, *, customers: int, of: int) -> Offer:
    """The part of caps, floors and budget that belongs to `customers` of `of` who may get codes.

    >>> share_offer(Offer(depths=(0.1,), caps=(100,), revenue_weight=3.0, budget=50.0), customers=1, of=4)
    Offer(depths=(0.1,), caps=(25,), revenue_weight=3.0, floors=None, budget=12.5)
    """
    if not of:
        return offer
    return Offer(
        depths=offer.depths,
        caps=tuple(None if cap is None else cap * customers // of for cap in offer.caps),
        revenue_weight=offer.revenue_weight,
        floors=None if offer.floors is None else tuple(floor * customers // of for floor in offer.floors),
        budget=None if offer.budget is None else offer.budget * customers / of,
    )


def assign_at_random(ids: Ids, offer: Offer, *, costs: Vector, seed: int, campaign: str) -> Integers:
    """(n,) position of a depth per customer, -1 = none: random, in proportion to the caps, never beyond them.

    `costs` (K,): expected markdown of one code at each depth; over the budget, random customers go without a code.
    The customers are put in an order of their own random numbers and dealt the codes in blocks.
    """
    customers = len(ids)
    keys = customer_keys(ids)
    order = np.argsort(uniforms(keys, seed, campaign, "random"), kind="stable")
    counts = codes_in_proportion(offer.caps, customers=customers)
    choice = np.full(customers, -1, np.int64)
    choice[order[: counts.sum()]] = np.repeat(np.arange(counts.size), counts)
    if offer.budget is not None:
        again = np.argsort(uniforms(keys, seed, campaign, "budget"), kind="stable")
        spent = np.cumsum(np.append(costs, 0.0)[choice[again]])
        choice[again[spent > offer.budget]] = -1
    return choice


def codes_in_proportion(caps: tuple[int | None, ...], *, customers: int) -> Integers:
    """How many codes of each depth a random allocation gives out: the caps, scaled down where they exceed everybody.

    >>> codes_in_proportion((30, 10), customers=20).tolist(), codes_in_proportion((3, None), customers=9).tolist()
    ([15, 5], [2, 7])
    """
    wanted = np.array([customers if cap is None else cap for cap in caps], np.int64)
    if wanted.sum() <= customers:
        return wanted
    exact = wanted * (customers / wanted.sum())
    counts: Integers = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: customers - counts.sum()]] += 1
    return counts
