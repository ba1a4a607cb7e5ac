"""The solver against brute force and HiGHS, on small instances of every kind the room promises."""

import itertools
import math
from functools import cache

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disco.allocation import Allocation, Segments, Status, allocate
from disco.allocation.highs import solve_with_highs
from disco.allocation.problem import read_problem


@st.composite
def instances(draw, *, customers=6, depths=3, budget=False):
    rows, columns = draw(st.integers(1, customers)), draw(st.integers(1, depths))
    shape = (rows, columns)
    whole = draw(st.booleans())  # whole numbers tie, reals do not
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 5, shape).astype(float) if whole else rng.normal(0.5, 1.0, shape)
    arguments = {}
    caps = [draw(st.one_of(st.none(), st.integers(0, rows))) for _ in range(columns)]
    if draw(st.booleans()):
        arguments["eligible"] = rng.random(shape) < draw(st.sampled_from([0.0, 0.5, 0.9]))
    if draw(st.booleans()):
        arguments["floors"] = [int(rng.integers(0, min(2, rows if cap is None else cap) + 1)) for cap in caps]
    if draw(st.booleans()):
        labels = rng.integers(0, 2, rows)
        arguments["segments"] = Segments(
            labels,
            {
                int(label): {
                    "caps": [None if rng.random() < 0.3 else int(rng.integers(1, rows + 1)) for _ in range(columns)],
                    "floors": [int(rng.random() < 0.2) for _ in range(columns)],
                }
                for label in np.unique(labels)
            },
        )
    if budget:
        arguments["costs"] = rng.integers(0, 4, shape).astype(float) if whole else rng.random(shape)
        top = float(arguments["costs"].max(axis=1).sum())
        arguments["budget"] = float(np.floor(top * rng.random())) if whole else top * rng.random()
    return values, caps, arguments


def brute_force(values, caps, *, eligible=None, floors=None, segments=None, costs=None, budget=None):
    """The best value over every allocation that meets the limits, -inf when there is none."""
    rows, columns = values.shape
    taken = _every_allocation(rows, columns)
    allowed = np.ones(len(taken), bool)
    if eligible is not None:
        allowed &= ~(taken & ~eligible).any((1, 2))
    _keep_counts(allowed, taken.sum(1), caps, floors)
    if segments is not None:
        for label, limits in segments.limits.items():
            inside = taken[:, segments.of_customer == label].sum(1)
            _keep_counts(allowed, inside, limits["caps"], limits["floors"])
    if budget is not None:
        spent = (taken * costs).sum((1, 2))
        for near in np.flatnonzero(abs(spent - budget) < 1e-9):  # it can be met to the last bit
            spent[near] = math.fsum(costs[taken[near]])
        allowed &= spent <= budget
    if not allowed.any():
        return -math.inf
    worth = np.where(allowed, (taken * values).sum((1, 2)), -math.inf)
    return max(math.fsum(values[taken[best]]) for best in np.flatnonzero(worth > worth.max() - 1e-9))


def _keep_counts(allowed, counts, caps, floors):
    for column, cap in enumerate(caps):
        allowed &= counts[:, column] <= (math.inf if cap is None else cap)
        allowed &= counts[:, column] >= (0 if floors is None else floors[column])


@cache
def _every_allocation(rows, columns):
    """Shape (allocations, rows, columns): who takes what."""
    choices = np.array(list(itertools.product(range(-1, columns), repeat=rows)))
    return choices[:, :, None] == np.arange(columns)


def _allowed(choice, values, caps, eligible, floors, segments, costs, budget):
    taken = [(i, k) for i, k in enumerate(choice) if k >= 0]
    if eligible is not None:
        yield all(eligible[i, k] for i, k in taken)
    for column in range(values.shape[1]):
        count = sum(k == column for _, k in taken)
        yield caps[column] is None or count <= caps[column]
        yield floors is None or count >= floors[column]
        if segments is not None:
            for label, limits in segments.limits.items():
                inside = sum(k == column and segments.of_customer[i] == label for i, k in taken)
                yield limits["caps"][column] is None or inside <= limits["caps"][column]
                yield inside >= limits["floors"][column]
    if budget is not None:
        yield math.fsum(costs[i, k] for i, k in taken) <= budget


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.booleans().flatmap(lambda budget: instances(customers=4, budget=budget)))
def test_brute_force_is_one_allocation_after_the_other(instance):
    values, caps, arguments = instance
    best = -math.inf
    for choice in itertools.product(range(-1, values.shape[1]), repeat=len(values)):
        if all(_allowed(choice, values, caps, **{**_NOTHING, **arguments})):
            best = max(best, math.fsum(values[i, k] for i, k in enumerate(choice) if k >= 0))
    assert brute_force(values, caps, **arguments) == best


def assert_within_limits(result: Allocation, values, caps, arguments):
    assert all(_allowed(result.choice.tolist(), values, caps, **{**_NOTHING, **arguments}))


_NOTHING = {"eligible": None, "floors": None, "segments": None, "costs": None, "budget": None}


def shuffled(arguments, order):
    moved = dict(arguments)
    for name in ("eligible", "costs"):
        if name in moved:
            moved[name] = moved[name][order]
    if "segments" in moved:
        moved["segments"] = Segments(moved["segments"].of_customer[order], moved["segments"].limits)
    return moved


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(instances(), st.randoms(use_true_random=False))
def test_optimal_feasible_and_canonical_on_small_instances(instance, random):
    values, caps, arguments = instance
    best = brute_force(values, caps, **arguments)
    result = allocate(values, caps, ids=np.arange(len(values)), **arguments)
    if best == -math.inf:
        assert result.status is Status.INFEASIBLE
        assert result.conflicts
        return
    assert result.status is Status.OPTIMAL
    assert abs(result.value - best) <= 1e-9
    assert_within_limits(result, values, caps, arguments)
    order = np.array(random.sample(range(len(values)), len(values)))
    other = allocate(values[order], caps, ids=order, **shuffled(arguments, order))
    assert (other.choice == result.choice[order]).all()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(instances(budget=True), st.randoms(use_true_random=False))
def test_budget_is_kept_and_the_optimum_reached_on_small_instances(instance, random):
    values, caps, arguments = instance
    best = brute_force(values, caps, **arguments)
    result = allocate(values, caps, ids=np.arange(len(values)), **arguments)
    if best == -math.inf:
        assert result.status is Status.INFEASIBLE
        return
    assert_within_limits(result, values, caps, arguments)
    assert result.value <= best + 1e-9 <= result.bound + 2e-9
    assert abs(result.value - best) <= max(1e-9, result.bound - result.value + 1e-9)
    order = np.array(random.sample(range(len(values)), len(values)))
    other = allocate(values[order], caps, ids=order, **shuffled(arguments, order))
    assert (other.choice == result.choice[order]).all()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(instances(customers=60, depths=6))
def test_equals_highs_on_instances_too_large_for_brute_force(instance):
    values, caps, arguments = instance
    result = allocate(values, caps, **arguments)
    reference = solve_with_highs(read_problem(values, caps, **arguments))
    assert (result.status is Status.INFEASIBLE) == (reference.status is Status.INFEASIBLE)
    if result.status is not Status.INFEASIBLE:
        assert abs(result.value - reference.value) <= 1e-9 * max(1.0, abs(reference.value))
        assert result.gap <= 1e-12


def test_by_hand():
    # 9 and 5 compete for one code of column 1: the customer whose second choice is worse gets it
    result = allocate([[3.0, 5.0], [2.0, 9.0], [4.0, 4.5]], [2, 1])
    assert result.choice.tolist() == [0, 1, 0]
    assert result.value == 16.0
    assert result.bound == 16.0
    assert result.gap == 0.0
    assert result.counts.tolist() == [2, 1]
    # one more code of column 1 would lift the first customer from 3 to 5
    assert result.prices.tolist() == [0.0, 2.0]


def test_no_code_beats_a_loss_and_an_idle_code():
    result = allocate([[-1.0, 0.0], [-2.0, -3.0]], [None, None])
    assert result.choice.tolist() == [-1, -1]
    assert result.value == 0.0
    assert result.gap == 0.0


def test_nobody_eligible_is_the_empty_allocation():
    result = allocate(np.ones((4, 3)), [1, 1, 1], eligible=np.zeros((4, 3), bool))
    assert result.status is Status.OPTIMAL
    assert result.choice.tolist() == [-1] * 4
    assert result.value == 0.0
