"""A plan's limits in customers and money, who is in which arm, and each arm's own share of caps and budget.

Arms own their parts of the limits, so that one arm never takes another's codes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from disco.records.arrays import Flags, Floats, Ids, Integers
from disco.records.decisions import Arm, Offer
from disco.records.depths import depth_percent
from disco.records.errors import InfeasibleError, InputError
from disco.records.identity import IdColumn, customer_keys, uniforms
from disco.records.plan import Plan


def group_name(arm: Arm, *, at_random: bool) -> str:
    """What people read: where all depths were assigned at random, nobody was decided."""
    return "at random" if at_random and arm is Arm.DECIDED else str(arm)


def split(ids: IdColumn, *, control: float, holdout: float, seed: int, campaign: str) -> dict[Arm, Flags]:
    """Assign every customer to an arm by its own counter; adding customers never moves another one."""
    u = uniforms(customer_keys(ids), seed, campaign, "arm")
    return {
        Arm.HOLDOUT: u < holdout,
        Arm.CONTROL: (u >= holdout) & (u < holdout + control),
        Arm.DECIDED: u >= holdout + control,
    }


def offer_of(plan: Plan, *, eligible: int) -> Offer:
    """The plan's limits in customers and money; what is reserved of caps and budget stays back for late arrivals."""
    floors = plan.floors(eligible)
    now = 1 - plan.reserve.share
    return Offer(
        depths=plan.offered,
        caps=tuple(None if cap is None else int(cap * now + 1e-9) for cap in plan.caps(eligible)),
        revenue_weight=plan.objective.revenue_weight,
        floors=floors if any(floors) else None,
        budget=None if plan.budget is None else plan.budget * now,
    )


def reserve_of(plan: Plan, offer: Offer, *, eligible: int) -> tuple[tuple[int | None, ...], float | None]:
    """Codes per depth (None: no limit) and money (None: no budget) that the offer leaves for late arrivals."""
    codes = tuple(
        None if cap is None or now is None else cap - now
        for cap, now in zip(plan.caps(eligible), offer.caps, strict=True)
    )
    return codes, None if plan.budget is None or offer.budget is None else plan.budget - offer.budget


def refuse_contradictions(plan: Plan, offer: Offer, *, eligible: int, customers: int) -> None:
    """Floors that no allocation can keep, said in the plan's own numbers: each arm will see only its part of them."""
    floors, caps = plan.floors(eligible), plan.caps(eligible)
    conflicts = [
        f"{depth_percent(depth)}: at least {floor:,} codes, and at most {cap:,}"
        + (f", of which {cap - now:,} stay in reserve" if cap - now else "")
        for depth, floor, cap, now in zip(plan.offered, floors, caps, offer.caps, strict=True)
        if cap is not None and now is not None and floor > now
    ]
    if sum(floors) > customers:
        total = f"at least {sum(floors):,} codes in total"
        conflicts.append(f"all depths: {total}, but only {customers:,} customers outside the holdout")
    if conflicts:
        raise InfeasibleError(
            f"campaign {plan.campaign}: the limits contradict each other",
            conflicts=conflicts,
            fix="Lower at_least, raise at_most, or reduce the reserve or the holdout.",
        )


def share_offers(offer: Offer, sizes: Sequence[int]) -> list[Offer]:
    """The parts of caps, floors and budget that belong to arms of these sizes; they add up to the whole.

    Codes are whole, so what is left after rounding down goes to the arms with the largest remainders. A floor's part
    never exceeds the cap's (for two arms; more are not made here).

    >>> whole = Offer(depths=(0.1,), caps=(11,), revenue_weight=3.0, budget=50.0)
    >>> [(part.caps, part.budget) for part in share_offers(whole, [1, 3])]
    [((3,), 12.5), ((8,), 37.5)]
    """
    everybody = sum(sizes)
    if not everybody:
        return [offer for _ in sizes]
    caps = [None if cap is None else _apportioned(cap, sizes) for cap in offer.caps]
    floors = None if offer.floors is None else [_apportioned(floor, sizes) for floor in offer.floors]
    return [
        replace(
            offer,
            caps=tuple(None if parts is None else parts[arm] for parts in caps),
            floors=None if floors is None else tuple(parts[arm] for parts in floors),
            budget=None if offer.budget is None else offer.budget * size / everybody,
        )
        for arm, size in enumerate(sizes)
    ]


def _apportioned(codes: int, sizes: Sequence[int]) -> list[int]:
    everybody = sum(sizes)
    parts = [codes * size // everybody for size in sizes]
    remainders = [codes * size % everybody for size in sizes]
    for arm in sorted(range(len(sizes)), key=lambda arm: -remainders[arm])[: codes - sum(parts)]:
        parts[arm] += 1
    return parts


def assign_at_random(ids: Ids, offer: Offer, *, costs: Floats | None = None, seed: int, campaign: str) -> Integers:
    """(n,) position of a depth per customer, -1 = none: random, in proportion to the caps, never beyond them.

    Floors come first. The customers are put in an order of their own random numbers and given the codes in blocks, so
    everybody has the same probability n_k/n of depth k, whoever they are.

    costs (n, K): expected markdown c_ik of customer i at depth k; only a budget B needs it. Then a second random
    order σ, with those who keep the floors first, decides who keeps a code. It is cut twice:

    1. after the most customers m₁ with Σ c̄_k(j) ≤ B over the first m₁ of σ, where c̄_k is the mean of c_ik over all
       customers and k(j) the depth of the j-th. The rule knows depths and no customers, so codes stay independent of
       who the customers are.
    2. after the most customers m₂ ≤ m₁ with Σ c_jk(j) ≤ B: their own expected markdown keeps the budget, always.

    The second cut depends on the customers. Customer i at place j of σ keeps the code when Σ of those before them is at
    most B − c_i, so an expensive one has fewer such places: (c_i − c̄)/c̄ of them, of M = B/c̄. The probability of
    keeping a code is therefore (m/n)·(1 − δ_i) with |δ_i| ≤ |c_i − c̄|/B, and about half of it because the second cut
    bites in about half of all draws. A mean over receivers moves by at most cv²/M of itself (cv: variation of the
    costs), against a standard error of cv/√M: at 100 codes and cv = 0.7 that is 0.5% against 7%, at 10,000 codes 0.005%
    against 0.7%. Shares of the group, which `disco propensities` keeps, are exact up to the same δ.
    """
    customers = len(ids)
    keys = customer_keys(ids)
    order = np.argsort(uniforms(keys, seed, campaign, "random"), kind="stable")
    floors = np.array(offer.floors or [0] * len(offer.depths), np.int64)
    counts = codes_in_proportion(offer.caps, customers=customers, floors=offer.floors)
    positions = np.arange(counts.size)
    given = np.concatenate([np.repeat(positions, floors), np.repeat(positions, counts - floors)])
    choice = np.full(customers, -1, np.int64)
    choice[order[: given.size]] = given
    if offer.budget is None:
        return choice
    if costs is None:
        raise InputError("costs", found="none", expected="the expected markdown per customer and depth: a budget")
    again = np.argsort(uniforms(keys, seed, campaign, "budget"), kind="stable")
    promised = np.zeros(customers, np.bool_)
    promised[order[: floors.sum()]] = True
    again = np.concatenate([again[promised[again]], again[~promised[again]]])
    coded = choice[again] >= 0
    own = np.where(coded, costs[again, choice[again]], 0.0)
    typical = np.append(costs.mean(axis=0), 0.0)[choice[again]]
    spent = np.maximum(np.cumsum(own), np.cumsum(typical))
    if floors.sum() and spent[floors.sum() - 1] > offer.budget:
        raise InfeasibleError(
            f"campaign {campaign}: the limits contradict each other",
            conflicts=[
                f"the floors cost {spent[floors.sum() - 1]:,.2f}, "
                f"but this group's share of the budget is {offer.budget:,.2f}"
            ],
            fix="Lower the floors or raise the budget.",
        )
    choice[again[spent > offer.budget]] = -1
    return choice


def codes_in_proportion(
    caps: tuple[int | None, ...], *, customers: int, floors: tuple[int, ...] | None = None
) -> Integers:
    """How many codes of each depth a random allocation gives out: the caps, scaled down where they exceed everybody,
    but never below the floors.

    >>> codes_in_proportion((30, 10), customers=20).tolist(), codes_in_proportion((3, None), customers=9).tolist()
    ([15, 5], [2, 7])
    >>> codes_in_proportion((30, 10), customers=20, floors=(0, 8)).tolist()
    [12, 8]
    """
    least = np.array(floors or [0] * len(caps), np.int64)
    wanted = np.array([customers if cap is None else cap for cap in caps], np.int64)
    conflicts = [
        f"at least {floor:,} codes of a depth, but at most {most:,}"
        for floor, most in zip(least.tolist(), wanted.tolist(), strict=True)
        if floor > most
    ]
    if least.sum() > customers:
        conflicts.append(f"at least {least.sum():,} codes, for {customers:,} customers")
    if conflicts:
        raise InfeasibleError("the limits contradict each other", conflicts=conflicts, fix="Lower the floors.")
    if wanted.sum() <= customers:
        return wanted
    exact, held = wanted * (customers / wanted.sum()), np.zeros(least.size, np.bool_)
    while (below := ~held & (exact < least)).any():  # depths held up by their floor leave less for the others
        held |= below
        exact = np.where(held, least, wanted * ((customers - least[held].sum()) / wanted[~held].sum()))
    counts: Integers = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: customers - counts.sum()]] += 1
    return counts
