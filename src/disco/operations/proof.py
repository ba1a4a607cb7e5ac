"""What a launch proves about a plan before it writes: customers, arms, depths, limits and money are the plan's own.

A plan lies in the store as a row and as tables named by their content. That the bytes are those of the names is proved
when they are read. Here everything else is: whoever changed a table, named it validly and put the name into the row
meets the plan's own numbers.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disco.campaign import Belief
from disco.features.snapshot import snapshot_of
from disco.operations.arms import ARMS, arms_of, offer_of, reserve_of, segment_reserve, share_offers
from disco.operations.audience import label_hashes
from disco.operations.plan import Planned, coded_rows, segment_sizes, segments_of
from disco.records.arrays import Flags, Integers, Vector
from disco.records.content import content_hash
from disco.records.currency import read_currency
from disco.records.decisions import Arm, Audience, Offer
from disco.records.depths import depth_percent
from disco.records.errors import StateError
from disco.records.kept import LABELS
from disco.records.plan import Plan
from disco.records.wording import counted, money

_ROUNDING = 1e-9  # relative; sums of the same figures in another order


def refuse_unproved(
    planned: Planned, *, customers: int, belief: Belief | None = None, secret: bytes | None = None
) -> None:
    """StateError where a plan's tables contradict the plan; `customers` is the number that its summary states.

    belief: of the version that decided; without one, chances to buy that differ between customers are only looked at.
    secret: of lasting holdouts.
    """
    arms, figures = partial(_arms, secret=secret), partial(_figures, belief=belief)
    for look in (_rows, _customers, arms, _depths, _limits, figures):  # each relies on those before it
        found = list(look(planned, customers))
        if found:
            raise StateError(
                f"Plan {planned.plan_id} cannot be launched, because its tables are not what was planned: "
                f"{'; '.join(found)}",
                fix="Run `disco plan` again, and `disco doctor` to see what else was changed.",
            )


def _rows(planned: Planned, customers: int) -> Iterator[str]:
    rows = planned.decisions.num_rows
    if rows != customers:
        yield f"{counted(rows, 'decision')}, for {counted(customers, 'customer')} planned"
    if planned.contexts.ndim != 2 or len(planned.contexts) != rows:
        yield f"{counted(len(planned.contexts), 'context')}, for {counted(rows, 'decision')}"
    elif not np.isfinite(planned.contexts).all():
        yield "contexts that are not finite numbers"
    if planned.features is None:
        if "features" in planned.inputs:
            yield "the features are missing"
    elif planned.features.num_rows != rows:
        yield f"features of {counted(planned.features.num_rows, 'customer')}, for {counted(rows, 'decision')}"
    for name in ("customer_id", "arm", "value", "known"):
        if planned.decisions[name].null_count:
            yield f"{counted(planned.decisions[name].null_count, 'decision')} without {name}"


def _customers(planned: Planned, _: int) -> Iterator[str]:
    """Each customer once, and exactly those whose hash the plan's id contains."""
    ids = planned.decisions.select(["customer_id"])
    distinct = pc.count_distinct(ids["customer_id"]).as_py()
    if distinct != ids.num_rows:
        yield f"{counted(ids.num_rows - distinct, 'decision')} about a customer who has another one"
    if content_hash(ids) != planned.inputs["customers"]:
        yield "the customers are others than those planned"
    labels = {name: planned.decisions[name] for name in LABELS.names if name in planned.decisions.column_names}
    for name, found in label_hashes(ids["customer_id"], labels).items():
        if found != planned.inputs.get(name):
            yield f"the customers have another {name} than planned"
    hashed = planned.inputs.get("features")
    if planned.features is not None and hashed is not None and content_hash(planned.features) != hashed:
        yield "the features are others than those planned"
    centred_on = planned.inputs.get("snapshot")
    if planned.features is not None and centred_on is not None:  # the hash of the content does not cover the metadata
        day = snapshot_of(planned.features.schema)
        if day is None or day.hash != centred_on:
            yield "the features carry another snapshot than that planned"


def _arms(planned: Planned, _: int, *, secret: bytes | None) -> Iterator[str]:
    """Groups as the split by hash gives them, and as the summary counts them."""
    found = _arm_numbers(planned.decisions)
    arms = arms_of(planned.plan, planned.decisions["customer_id"], secret=secret)
    wrong = found != np.select([arms[arm] for arm in ARMS], range(len(ARMS)))
    if wrong.any():
        first = planned.decisions["arm"].filter(pa.array(wrong))[0].as_py()
        yield f"another group than their own for {counted(int(wrong.sum()), 'customer')}, the first in {first!r}"
        return
    for number, arm in enumerate(ARMS):
        found_here, stated = int((found == number).sum()), planned.arms[arm].customers if arm in planned.arms else 0
        if found_here != stated:
            yield f"{counted(found_here, 'customer')} in group {arm}, for {stated:,} planned"


def _depths(planned: Planned, _: int) -> Iterator[str]:
    """Depths that are offered; none for the holdout."""
    depth = pc.drop_null(planned.decisions["depth"])
    others = depth.filter(pc.invert(pc.is_in(depth, value_set=pa.array(planned.plan.offered, pa.float64()))))
    if len(others):
        first = depth_percent(others[0].as_py())
        yield f"{counted(len(others), 'code')} of depths that are not offered, the first of {first}"
    coded = planned.decisions["depth"].is_valid().to_numpy()
    held = int((coded & (_arm_numbers(planned.decisions) == ARMS.index(Arm.HOLDOUT))).sum())
    if held:
        yield f"a depth for {counted(held, 'customer')} of the holdout"


def _limits(planned: Planned, _: int) -> Iterator[str]:
    """Caps and floors, of all codes and of each group's own part; codes as the summary counts them; the reserve."""
    plan, offer = planned.plan, _offer(planned)
    counts = _codes(planned)
    parts = dict(zip((Arm.DECIDED, Arm.CONTROL), _parts(planned, offer), strict=True))
    yield from _outside(plan, counts.sum(axis=0), offer.caps, offer.floors, "")
    for arm, part in parts.items():
        yield from _outside(plan, counts[ARMS.index(arm)], part.caps, part.floors, f" in group {arm}")
    segment = segments_of(planned.decisions)
    for label, limits in (offer.segments or {}).items():
        counts_here = _codes(
            planned, np.zeros(0, np.bool_) if segment is None else np.asarray(segment == label, np.bool_)
        )
        yield from _outside(plan, counts_here.sum(axis=0), limits.caps, limits.floors, f" in segment {label}")
        for arm, part in parts.items():
            if (own := (part.segments or {}).get(label)) is not None:
                where = f" in segment {label} of group {arm}"
                yield from _outside(plan, counts_here[ARMS.index(arm)], own.caps, own.floors, where)
    for arm, given in zip(ARMS, counts.tolist(), strict=True):
        stated = planned.arms[arm].codes if arm in planned.arms else {}
        if given != [stated.get(depth, 0) for depth in plan.offered]:
            yield f"group {arm} has other numbers of codes than those planned"
    solution = planned.solution
    reserve = reserve_of(plan, offer, eligible=planned.decisions.num_rows)
    if solution.depths != plan.offered or (solution.reserve, solution.reserve_budget) != reserve:
        yield "the reserve is another than the plan's"
    held_back = segment_reserve(plan, offer, segment_sizes=segment_sizes(planned.decisions))
    kept = None if solution.segments is None else {name: one.reserve for name, one in solution.segments.items()}
    if kept != held_back:
        yield "the reserve of a segment is another than the plan's"


def _outside(
    plan: Plan, given: Integers, caps: tuple[int | None, ...], floors: tuple[int, ...] | None, where: str
) -> Iterator[str]:
    least = floors or (0,) * len(plan.offered)
    for depth, count, cap, floor in zip(plan.offered, given.tolist(), caps, least, strict=True):
        if cap is not None and count > cap:
            yield f"{counted(count, 'code')} of {depth_percent(depth)}{where}, for a limit of {cap:,}"
        elif count < floor:
            yield f"{counted(count, 'code')} of {depth_percent(depth)}{where}, for a floor of {floor:,}"


def _figures(planned: Planned, _: int, *, belief: Belief | None) -> Iterator[str]:
    """Finite figures where there is a code; their sums are those of the solve, and within each group's budget."""
    plan, decisions, arm = planned.plan, planned.decisions, _arm_numbers(planned.decisions)
    value = decisions["value"].to_numpy()
    by_policy = (arm == ARMS.index(Arm.DECIDED)) & (not plan.policy.assigns_at_random)
    if not np.isfinite(value).all() or value[~by_policy].any():
        yield "values that no policy gave"
    elif not np.isclose(value[by_policy].sum(), planned.solution.value, rtol=_ROUNDING, atol=0.0):
        yield f"a value of {value[by_policy].sum():,.2f}, for {planned.solution.value:,.2f} planned"
    rows = np.zeros(0, np.int64) if planned.total is None else coded_rows(decisions)  # None: nothing was learned
    for name in ("expected_full_price", "expected_engagement"):
        if not np.array_equal(np.flatnonzero(decisions[name].is_valid().to_numpy()), rows):
            yield f"figures of {name} for other customers than those with a code"
            return
    depth, full_price, engagement = (
        decisions[name].take(pa.array(rows)).to_numpy()
        for name in ("depth", "expected_full_price", "expected_engagement")
    )
    if not _is_engagement(planned, rows, engagement, belief):
        yield "other shares of receivers who buy than those planned"
    if not (np.isfinite(full_price) & (full_price >= 0)).all():
        yield "expected full prices that are not amounts of money"
        return
    markdown = full_price * depth * engagement
    for name, part in zip((Arm.DECIDED, Arm.CONTROL), _parts(planned, _offer(planned)), strict=True):
        correction = planned.arms[name].correction if name in planned.arms else None
        factors = np.ones(len(plan.offered)) if correction is None else correction.factors(plan.offered)
        here = arm[rows] == ARMS.index(name)
        cost = float((markdown * factors[np.searchsorted(plan.offered, depth)])[here].sum())
        if part.budget is not None and cost > part.budget * (1 + _ROUNDING):
            spent, most = (
                money(amount, full=True, currency=read_currency(planned.currency)) for amount in (cost, part.budget)
            )
            yield f"an expected markdown of {spent} in group {name}, for a budget of {most}"


def _is_engagement(planned: Planned, rows: Integers, engagement: Vector, belief: Belief | None) -> bool:
    """Whether these are the chances to buy of the customers in these rows, at the depths they get."""
    solution, offered = planned.solution, np.asarray(planned.plan.offered)
    depth = planned.decisions["depth"].take(pa.array(rows)).to_numpy()
    choice = np.searchsorted(offered, depth).astype(np.int64)
    if solution.head is None:
        return bool(np.array_equal(engagement, np.asarray(solution.engagement)[choice]))
    if belief is None:
        return bool(((engagement >= 0) & (engagement <= 1)).all())
    members = Audience(
        ids=planned.decisions["customer_id"].take(pa.array(rows)).to_numpy(),
        context=planned.contexts[rows],
        known=np.ones(rows.size, np.bool_),
    )
    again = replace(belief, head=solution.engagement_head).rates_at_choice(members, offered, choice)
    return bool(np.allclose(engagement, again, rtol=_ROUNDING, atol=0.0))


def _arm_numbers(decisions: pa.Table) -> Integers:
    """(n,) position in ARMS; -1 for any other text."""
    place = pc.index_in(decisions["arm"], value_set=pa.array([str(arm) for arm in ARMS]))
    return np.asarray(pc.fill_null(place, -1).to_numpy(), np.int64)


def _codes(planned: Planned, of: Flags | None = None) -> Integers:
    """(arms, depths) codes, of all customers or of these."""
    rows, offered = coded_rows(planned.decisions), planned.plan.offered
    if of is not None:
        rows = rows[of[rows]] if of.size else rows[:0]
    column = np.searchsorted(offered, planned.decisions["depth"].take(pa.array(rows)).to_numpy())
    place = _arm_numbers(planned.decisions)[rows] * len(offered) + column
    return np.bincount(place, minlength=len(ARMS) * len(offered)).reshape(len(ARMS), len(offered))


def _parts(planned: Planned, offer: Offer) -> list[Offer]:
    """The parts of the limits that belong to the decided group and to control."""
    arm = _arm_numbers(planned.decisions)
    members = [arm == ARMS.index(name) for name in (Arm.DECIDED, Arm.CONTROL)]
    return share_offers(
        offer,
        [int(here.sum()) for here in members],
        segment_sizes=[segment_sizes(planned.decisions, here) for here in members],
    )


def _offer(planned: Planned) -> Offer:
    sizes = segment_sizes(planned.decisions)
    return offer_of(planned.plan, eligible=planned.decisions.num_rows, segment_sizes=sizes)
