"""A plan's limits in customers and money, who is in which arm, and each arm's own share of caps and budget.

Arms own their parts of the limits, so that one arm never takes another's codes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.records.arrays import Flags, Floats, Ids, Integers, Labels, Vector
from disco.records.decisions import Arm, Offer, SegmentLimits
from disco.records.depths import depth_percent
from disco.records.errors import InfeasibleError, InputError, StateError
from disco.records.identity import IdColumn, customer_keys, secret_uniforms, uniforms
from disco.records.money import GBP, Currency
from disco.records.plan import Plan
from disco.records.wording import money
from disco.store import Transaction


def group_name(arm: Arm, *, at_random: bool) -> str:
    """What people read: where all depths were assigned at random, nobody was decided."""
    return "at random" if at_random and arm is Arm.DECIDED else str(arm)


ARMS = (Arm.DECIDED, Arm.CONTROL, Arm.HOLDOUT)
"""In the order in which they are shown and stored."""
SHARING = (Arm.DECIDED, Arm.CONTROL)
"""Those who share a plan's limits; the holdout gets no code."""


def planned_shares(plan: Plan) -> dict[Arm, float]:
    """By group: its share of the customers of a plan."""
    control, holdout = plan.control.share, plan.holdout.share
    return {Arm.DECIDED: 1 - control - holdout, Arm.CONTROL: control, Arm.HOLDOUT: holdout}


def sending_costs(plan: Plan, decisions: pa.Table) -> Vector | None:
    """(n,) what a code to each customer costs, by the channels that were kept; None: the plan names no cost."""
    if plan.contact_cost is None:
        return None
    column = None if plan.channel_column is None else decisions["channel"]
    channel = None if column is None else np.asarray(pc.fill_null(column, "").to_pylist(), object)
    return plan.contact_costs(channel, customers=decisions.num_rows)


HOLDOUT_INPUT = "holdout"
"""What a plan with a lasting holdout calls the fingerprint of the shop's secret among its inputs."""


def split(
    ids: IdColumn, *, control: float, holdout: float, seed: int, campaign: str, secret: bytes | None = None
) -> dict[Arm, Flags]:
    """Assign every customer to an arm by its own counter; adding customers never moves another one.

    secret: of a lasting holdout. It depends on the secret and the customer alone, so it is the same in every campaign,
    and a larger share holds everybody of a smaller one. Control is drawn for each campaign among the others, with a
    chance that makes it its share of everybody.
    """
    u = uniforms(customer_keys(ids), seed, campaign, "arm")
    if secret is None:
        held, random = u < holdout, (u >= holdout) & (u < holdout + control)
    else:
        held = secret_uniforms(ids, secret, purpose="holdout") < holdout
        random = ~held & (u < control / (1 - holdout))
    return {Arm.HOLDOUT: held, Arm.CONTROL: random, Arm.DECIDED: ~(held | random)}


def arms_of(plan: Plan, ids: IdColumn, *, secret: bytes | None, late: bool = False) -> dict[Arm, Flags]:
    """Who is in which arm of a plan: the one answer, at the plan, at its launch and for late arrivals.

    secret: the shop's, of lasting holdouts; other plans do not use it. late: after the launch nobody is in control.
    """
    if plan.holdout.lasting and secret is None:
        raise StateError("A lasting holdout was drawn without the shop's secret")
    return split(
        ids,
        control=0.0 if late else plan.control.share,
        holdout=plan.holdout.share,
        seed=plan.seed,
        campaign=plan.campaign,
        secret=secret if plan.holdout.lasting else None,
    )


def holdout_secret(transaction: Transaction, plan: Plan) -> bytes | None:
    """The shop's secret where the plan has a lasting holdout; no other plan needs it."""
    return transaction.decisions.holdout_secret() if plan.holdout.lasting else None


def holdout_inputs(plan: Plan, secret: bytes | None) -> dict[str, str]:
    """The fingerprint of the secret that draws a lasting holdout: the plan's id names the draw and not the secret."""
    if not plan.holdout.lasting or secret is None:
        return {}
    return {HOLDOUT_INPUT: blake2b(digest_size=16, key=secret, person=b"fingerprint").hexdigest()}


def offer_of(plan: Plan, *, eligible: int, segment_sizes: Mapping[str, int] | None = None) -> Offer:
    """The plan's limits in customers and money; what is reserved of caps and budget stays back for late arrivals.

    segment_sizes: eligible customers by label, where the plan has segments.
    """
    floors = plan.floors(eligible)
    now = 1 - plan.reserve.share
    segments = plan.segment_limits(segment_sizes or {})
    return Offer(
        depths=plan.offered,
        caps=_at_launch(plan.caps(eligible), now),
        revenue_weight=plan.objective.revenue_weight,
        floors=floors if any(floors) else None,
        budget=None if plan.budget_amount is None else plan.budget_amount * now,
        segments=None
        if segments is None
        else {label: replace(limits, caps=_at_launch(limits.caps, now)) for label, limits in segments.items()},
    )


def _at_launch(caps: tuple[int | None, ...], share: float) -> tuple[int | None, ...]:
    return tuple(None if cap is None else int(cap * share + 1e-9) for cap in caps)


def reserve_of(plan: Plan, offer: Offer, *, eligible: int) -> tuple[tuple[int | None, ...], float | None]:
    """Codes per depth (None: no limit) and money (None: no budget) that the offer leaves for late arrivals."""
    codes = tuple(
        None if cap is None or now is None else cap - now
        for cap, now in zip(plan.caps(eligible), offer.caps, strict=True)
    )
    whole = plan.budget_amount
    return codes, None if whole is None or offer.budget is None else whole - offer.budget


def segment_reserve(
    plan: Plan, offer: Offer, *, segment_sizes: Mapping[str, int]
) -> dict[str, tuple[int | None, ...]] | None:
    """Codes per depth (None: no limit) that late arrivals of each segment may get."""
    limits = plan.segment_limits(segment_sizes)
    if limits is None or offer.segments is None:
        return None
    return {
        label: tuple(
            None if cap is None or now is None else cap - now
            for cap, now in zip(limits[label].caps, offer.segments[label].caps, strict=True)
        )
        for label in limits
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Who of some customers is in which arm, and what limits need to know about them."""

    arms: dict[Arm, Flags]  # (n,) each
    sizes: dict[Arm, int]  # customers
    segment_sizes: Mapping[str, int]  # customers by label; empty without segments
    arm_segments: dict[Arm, Mapping[str, int]]  # the same of each arm

    @classmethod
    def of(cls, plan: Plan, ids: Ids | pa.Array, *, segment: Labels | None, secret: bytes | None) -> "Groups":
        """Of the limits of a plan none matters: control, holdout, seed and name decide.

        segment (n,): labels, where the plan has segments. secret: of lasting holdouts.
        """
        arms = arms_of(plan, ids, secret=secret)
        return cls(
            arms=arms,
            sizes={arm: int(rows.sum()) for arm, rows in arms.items()},
            segment_sizes={} if segment is None else dict(Counter(segment.tolist())),
            arm_segments={
                arm: {} if segment is None else dict(Counter(segment[rows].tolist())) for arm, rows in arms.items()
            },
        )

    @property
    def eligible(self) -> int:
        """All customers."""
        return sum(self.sizes.values())

    @property
    def reached(self) -> int:
        """Customers outside the holdout."""
        return self.eligible - self.sizes[Arm.HOLDOUT]

    def offer(self, plan: Plan) -> Offer:
        """The plan's limits for these customers.

        InfeasibleError where floors contradict caps or the number of customers: no solve is needed to see it.
        """
        offer = offer_of(plan, eligible=self.eligible, segment_sizes=self.segment_sizes)
        _refuse_contradictions(
            plan,
            offer,
            eligible=self.eligible,
            customers=self.reached,
            segment_sizes=self.segment_sizes,
            reachable={
                label: size - self.arm_segments[Arm.HOLDOUT].get(label, 0) for label, size in self.segment_sizes.items()
            },
        )
        return offer


def refuse_floors_above_caps(plan: Plan) -> None:
    """InfeasibleError where a floor exceeds the cap beside it, however many customers there are."""
    parts = {"": plan.depths} if plan.segments is None else {"": plan.depths, **plan.segments.limits}
    conflicts = [
        f"{depth_percent(depth)}{f' in {label}' if label else ''}: at least {_limit(limits.at_least)}, and at most "
        f"{_limit(limits.at_most)}"
        for label, sections in parts.items()
        for depth, limits in sections.items()
        if limits.at_least is not None
        and limits.at_most is not None
        # a share and a number can be compared only when the customers are known
        and isinstance(limits.at_least, float) == isinstance(limits.at_most, float)
        and limits.at_least > limits.at_most
    ]
    if conflicts:
        raise _contradiction(plan, conflicts)


def _limit(limit: float) -> str:
    return f"{100 * limit:g}% of the customers" if isinstance(limit, float) else f"{limit:,} codes"


def _contradiction(plan: Plan, conflicts: Sequence[str]) -> InfeasibleError:
    return InfeasibleError(
        f"campaign {plan.campaign}: the limits contradict each other",
        conflicts=conflicts,
        fix="Lower at_least, raise at_most, or reduce the reserve or the holdout.",
    )


def _refuse_contradictions(
    plan: Plan,
    offer: Offer,
    *,
    eligible: int,
    customers: int,
    segment_sizes: Mapping[str, int],
    reachable: Mapping[str, int],
) -> None:
    """Floors that no allocation can keep, said in the plan's own numbers: each arm will see only its part of them.

    customers, reachable: those outside the holdout, in all and by label; segment_sizes: all of them by label.
    """
    floors, caps = plan.floors(eligible), plan.caps(eligible)
    conflicts = list(_above_caps(plan, floors, caps, offer.caps, ""))
    if sum(floors) > customers:
        total = f"at least {sum(floors):,} codes in total"
        conflicts.append(f"all depths: {total}, but only {customers:,} customers outside the holdout")
    parts = plan.segment_limits(segment_sizes) or {}
    for label, part in parts.items():
        there = reachable.get(label, 0)
        assert offer.segments is not None
        conflicts += _above_caps(plan, part.floors, part.caps, offer.segments[label].caps, f" in {label}")
        if sum(part.floors) > there:
            total = f"at least {sum(part.floors):,} codes in {label}"
            conflicts.append(f"all depths: {total}, but only {there:,} customers of it outside the holdout")
    if parts:
        for column, (depth, cap, now) in enumerate(zip(plan.offered, caps, offer.caps, strict=True)):
            total_floor = sum(part.floors[column] for part in parts.values())
            if cap is not None and now is not None and total_floor > now:
                stays = f", of which {cap - now:,} stay in reserve" if cap - now else ""
                conflicts.append(
                    f"{depth_percent(depth)}: at least {total_floor:,} codes in all segments together, "
                    f"and at most {cap:,}{stays}"
                )
    if conflicts:
        raise _contradiction(plan, conflicts)


def _above_caps(
    plan: Plan,
    floors: tuple[int, ...],
    caps: tuple[int | None, ...],
    at_launch: tuple[int | None, ...],
    where: str,
) -> Iterator[str]:
    for depth, floor, cap, now in zip(plan.offered, floors, caps, at_launch, strict=True):
        if cap is not None and now is not None and floor > now:
            stays = f", of which {cap - now:,} stay in reserve" if cap - now else ""
            yield f"{depth_percent(depth)}{where}: at least {floor:,} codes, and at most {cap:,}{stays}"


def share_offers(
    offer: Offer, sizes: Sequence[int], *, segment_sizes: Sequence[Mapping[str, int]] | None = None
) -> list[Offer]:
    """The parts of caps, floors and budget that belong to arms of these sizes; they add up to the whole.

    Codes are whole, so what is left after rounding down goes to the arms with the largest remainders. A floor's part
    never exceeds the cap's (for two arms; more are not made here). A segment's limits are shared by the sizes of the
    segment in each arm (`segment_sizes`, by label); an arm whose segments must get more codes of a depth than its part
    of the cap gets them from the other arm's part.

    >>> whole = Offer(depths=(0.1,), caps=(11,), revenue_weight=3.0, budget=50.0)
    >>> [(part.caps, part.budget) for part in share_offers(whole, [1, 3])]
    [((3,), 12.5), ((8,), 37.5)]
    """
    everybody = sum(sizes)
    if not everybody:
        return [offer for _ in sizes]
    caps = [None if cap is None else _apportioned(cap, sizes) for cap in offer.caps]
    floors = None if offer.floors is None else [_apportioned(floor, sizes) for floor in offer.floors]
    segments = _share_segments(offer, segment_sizes)
    if segments is not None:
        caps = [
            None if parts is None else _at_least(parts, [_floor(arm, column) for arm in segments])
            for column, parts in enumerate(caps)
        ]
    return [
        replace(
            offer,
            caps=tuple(None if parts is None else parts[arm] for parts in caps),
            floors=None if floors is None else tuple(parts[arm] for parts in floors),
            budget=None if offer.budget is None else offer.budget * size / everybody,
            segments=None if segments is None else segments[arm],
        )
        for arm, size in enumerate(sizes)
    ]


def _share_segments(offer: Offer, sizes: Sequence[Mapping[str, int]] | None) -> list[dict[str, SegmentLimits]] | None:
    if offer.segments is None or sizes is None:
        return None
    parts: list[dict[str, SegmentLimits]] = [{} for _ in sizes]
    for label, limits in offer.segments.items():
        members = [size.get(label, 0) for size in sizes]
        if not sum(members):
            continue
        caps = [None if cap is None else _apportioned(cap, members) for cap in limits.caps]
        floors = [_apportioned(floor, members) for floor in limits.floors]
        for arm, part in enumerate(parts):
            part[label] = SegmentLimits(
                caps=tuple(None if codes is None else codes[arm] for codes in caps),
                floors=tuple(codes[arm] for codes in floors),
            )
    return parts


def _floor(segments: Mapping[str, SegmentLimits], column: int) -> int:
    return sum(limits.floors[column] for limits in segments.values())


def _at_least(parts: list[int], least: list[int]) -> list[int]:
    """The parts, moved between two arms so that each has at least so many; as they are where that cannot be."""
    short = [max(low - part, 0) for part, low in zip(parts, least, strict=True)]
    if sum(least) > sum(parts) or not any(short) or len(parts) != 2:
        return parts
    return [part + gets - gives for part, gets, gives in zip(parts, short, reversed(short), strict=True)]


def _apportioned(codes: int, sizes: Sequence[int]) -> list[int]:
    everybody = sum(sizes)
    parts = [codes * size // everybody for size in sizes]
    remainders = [codes * size % everybody for size in sizes]
    for arm in sorted(range(len(sizes)), key=lambda arm: -remainders[arm])[: codes - sum(parts)]:
        parts[arm] += 1
    return parts


def assign_at_random(
    ids: Ids,
    offer: Offer,
    *,
    segment: Labels | None = None,
    costs: Floats | None = None,
    seed: int,
    campaign: str,
    currency: Currency = GBP,
) -> Integers:
    """(n,) position of a depth per customer, -1 = none: random, in proportion to the caps, never beyond them.

    Floors come first. The customers are put in an order of their own random numbers and given the codes in blocks, so
    everybody has the same probability n_k/n of depth k, whoever they are. Where the offer limits segments (`segment`:
    (n,) labels), that holds within each of them, with n_k as near to the share of all customers as its limits allow.

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
    if offer.segments is None or segment is None:
        floors = np.array(offer.floors or [0] * len(offer.depths), np.int64)
        counts = codes_in_proportion(offer.caps, customers=customers, floors=offer.floors)
        groups = [(order, counts, floors)]
    else:
        groups = _by_segment(order, segment, offer)
    choice = np.full(customers, -1, np.int64)
    promised = np.zeros(customers, np.bool_)
    for members, counts, floors in groups:
        positions = np.arange(counts.size)
        given = np.concatenate([np.repeat(positions, floors), np.repeat(positions, counts - floors)])
        choice[members[: given.size]] = given
        promised[members[: floors.sum()]] = True
    if offer.budget is None:
        return choice
    if costs is None:
        raise InputError("costs", found="none", expected="the expected markdown per customer and depth: a budget")
    again = np.argsort(uniforms(keys, seed, campaign, "budget"), kind="stable")
    again = np.concatenate([again[promised[again]], again[~promised[again]]])
    coded = choice[again] >= 0
    own = np.where(coded, costs[again, choice[again]], 0.0)
    typical = np.append(costs.mean(axis=0), 0.0)[choice[again]]
    spent = np.maximum(np.cumsum(own), np.cumsum(typical))
    held = int(promised.sum())
    if held and spent[held - 1] > offer.budget:
        cost, share = (money(float(one), full=True, currency=currency) for one in (spent[held - 1], offer.budget))
        raise InfeasibleError(
            f"campaign {campaign}: the limits contradict each other",
            conflicts=[f"the floors cost {cost}, but this group's share of the budget is {share}"],
            fix="Lower the floors or raise the budget.",
        )
    choice[again[spent > offer.budget]] = -1
    return choice


def _by_segment(order: Integers, segment: Labels, offer: Offer) -> list[tuple[Integers, Integers, Integers]]:
    """By segment: its members in their random order, its codes per depth, and how many of them keep a floor."""
    labels = sorted(offer.segments or {})
    place = {label: row for row, label in enumerate(labels)}
    of_customer = segment.tolist()
    rows_there = {label: place.get(label, len(labels)) for label in set(of_customer)}
    row_of = np.fromiter(map(rows_there.__getitem__, of_customer), np.int64, len(segment))
    sizes = np.bincount(row_of, minlength=len(labels) + 1)
    limits = [(offer.segments or {})[label] for label in labels]
    columns, unlimited = len(offer.depths), int(sizes.sum())
    caps = np.full((sizes.size, columns), unlimited)
    floors = np.zeros((sizes.size, columns), np.int64)
    for row, one in enumerate(limits):
        caps[row] = [unlimited if cap is None else min(cap, unlimited) for cap in one.caps]
        floors[row] = one.floors
    counts = _segment_counts(offer, sizes, caps, floors)
    promised = floors.copy()
    for column, floor in enumerate(offer.floors or (0,) * columns):
        # the rest of a floor of all customers, shared by the codes that segments have beyond their own floors
        spare = counts[:, column] - promised[:, column]
        rest = floor - int(promised[:, column].sum())
        if rest > 0:
            promised[:, column] += _apportioned(rest, spare.tolist())
    members = [order[row_of[order] == row] for row in range(sizes.size)]
    return list(zip(members, counts, promised, strict=True))


def _segment_counts(offer: Offer, sizes: Integers, caps: Integers, floors: Integers) -> Integers:
    """(segments, depths) codes within all limits, as near as possible to each segment's share of what everybody gets.

    n minimises  2·Σ_k |Σ_s n_sk − c_k| + Σ_sk |n_sk − t_sk|,  where c are the codes without segments and t_sk the share
    of c_k by the size of segment s. It is a flow with whole bounds, so the solution of the linear program is whole.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack, identity, kron, vstack

    groups, columns = caps.shape
    wanted = codes_in_proportion(offer.caps, customers=int(sizes.sum()), floors=offer.floors)
    target = np.stack([_apportioned(count, sizes.tolist()) for count in wanted.tolist()], axis=1)
    cells = groups * columns
    of_group = kron(identity(groups), np.ones((1, columns)))  # Σ_k n_sk
    of_depth = kron(np.ones((1, groups)), identity(columns))  # Σ_s n_sk
    # n − over + under = target, for cells and for depths; then the bounds of segments and of all
    cell_parts = hstack([identity(cells), -identity(cells), identity(cells), coo_array((cells, 2 * columns))])
    depth_parts = hstack([of_depth, coo_array((columns, 2 * cells)), -identity(columns), identity(columns)])
    equal = np.concatenate([target.ravel(), wanted])
    nothing = coo_array((groups, 2 * cells + 2 * columns))
    none = coo_array((columns, 2 * cells + 2 * columns))
    everybody = int(sizes.sum())
    most = np.array([everybody if cap is None else cap for cap in offer.caps])
    least = np.array(offer.floors or [0] * columns)
    above = vstack([hstack([of_group, nothing]), hstack([of_depth, none]), hstack([-of_depth, none])])
    within = list(zip(floors.ravel().tolist(), caps.ravel().tolist(), strict=True))
    found = linprog(
        np.concatenate([np.zeros(cells), np.ones(2 * cells), np.full(2 * columns, 2.0)]),
        A_eq=vstack([cell_parts, depth_parts]).tocsr(),
        b_eq=equal,
        A_ub=above.tocsr(),
        b_ub=np.concatenate([sizes, most, -least]),
        bounds=[*within, *[(0, None)] * (2 * (cells + columns))],
        method="highs-ds",
    )
    if found.status != 0:
        raise InfeasibleError("the limits of the segments contradict each other", conflicts=(), fix="Lower the floors.")
    return np.asarray(np.rint(found.x[:cells]), np.int64).reshape(groups, columns)


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
