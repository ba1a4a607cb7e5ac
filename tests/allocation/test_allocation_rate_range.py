"""The budget solve of many customers: whom a pass settles, and the whole against HiGHS and against other routes."""

from dataclasses import replace

import numpy as np
import pytest

from disco import LocalEngine
from disco.allocation import Segments, Status, allocate, budget, lagrangian, rate_range, rules
from disco.allocation.highs import _run
from disco.allocation.lagrangian import Lagrangian, Priced, SettledRest
from disco.allocation.limits import UNLIMITED
from disco.allocation.problem import Rows, read_problem
from disco.allocation.rate_range import BudgetTable
from disco.allocation.rules import InBox, InRange, PriceBox, RateRange, choice_sums
from disco.records.errors import InputError
from disco.records.identity import customer_keys

KINDS = ("smooth", "proportional", "whole numbers", "heavy tails", "free cells", "floors", "segments", "eligible")


def instance(kind: str, rng: np.random.Generator, customers: int) -> dict:
    """The arguments of `allocate`, with caps over two orders of magnitude and a budget from tiny to nearly enough."""
    depths = int(rng.integers(2, 6))
    depth = np.linspace(0.05, 0.4, depths)
    basket = rng.gamma(3.0, 10.0, (customers, 1))
    if kind == "heavy tails":
        basket = np.exp(1.5 * rng.standard_normal((customers, 1)))
    if kind != "proportional":
        basket = basket * np.exp(
            rng.gamma(2.0, 0.3, (customers, 1)) * depth + 0.1 * rng.standard_normal((customers, depths))
        )
    costs = basket * depth
    values = 3.0 * basket * (1.0 - depth) * (0.2 + depth) - costs
    if kind == "whole numbers":
        values, costs = np.rint(values / 10.0), np.rint(costs)
    if kind == "free cells":
        costs = np.where(rng.random(costs.shape) < 0.3, 0.0, costs)
    caps = np.maximum(customers * 10.0 ** rng.uniform(-2.0, 0.0, depths), 1.0).astype(int)
    arguments = {"values": np.asfortranarray(values), "caps": caps, "costs": np.asfortranarray(costs)}
    if kind == "floors":
        arguments["floors"] = (0.3 * caps * rng.random(depths)).astype(int)
    if kind == "segments":
        labels = rng.integers(0, 3, customers)
        arguments["segments"] = Segments(labels, {g: {"caps": np.maximum(caps // 4, 1).tolist()} for g in range(2)})
    if kind == "eligible":
        arguments["eligible"] = rng.random(values.shape) < 0.8
    free = allocate(**{**arguments, "budget": 1e12}).cost
    share = rng.choice([1e-3, 0.2, 0.6, 0.95]) if kind != "floors" else rng.choice([0.6, 0.95])
    return {**arguments, "budget": float(share * free)}


def relaxed(arguments: dict) -> float | None:
    """The optimum of the linear relaxation, from HiGHS."""
    problem = read_problem(**arguments)
    found = _run(problem, integral=False)
    return None if found is None else float((found[0] * problem.values).sum())


@pytest.fixture
def small_samples(monkeypatch):
    """Tables of some hundred customers go the way of many."""
    monkeypatch.setattr(budget, "EXACT_RATE", 200)
    monkeypatch.setattr(budget, "CONTESTED_AT_ONCE", 150)
    monkeypatch.setattr(budget, "FIRST_SAMPLED", 300)
    monkeypatch.setattr(rate_range, "SAMPLED", 400)
    monkeypatch.setattr(rate_range, "FIRST_SAMPLED", 150)


@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_of_many_is_kept_and_within_the_relaxation(small_samples, kind):
    """Against HiGHS, and against a search among everybody: either is worth no more than what bounds the other."""
    for seed in range(12):
        arguments = instance(kind, np.random.default_rng([seed, KINDS.index(kind)]), 1200)
        result = allocate(**arguments)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(budget, "EXACT_RATE", 20_000)
            plain = allocate(**arguments)
        assert (result.status is Status.INFEASIBLE) == (plain.status is Status.INFEASIBLE)
        bound = relaxed(arguments) if seed < 4 else min(result.bound, plain.bound)
        if result.status is Status.INFEASIBLE:
            assert seed >= 4 or bound is None
            continue
        assert bound is not None
        assert result.cost <= arguments["budget"]
        assert (result.counts <= arguments["caps"]).all()
        scale = max(abs(bound), 1.0)
        assert max(result.value, plain.value) <= bound + 1e-7 * scale
        assert min(result.bound, plain.bound) >= bound - 1e-7 * scale
        # what is lost to whole codes is at most about what the dearest customer is worth
        assert bound - result.value <= arguments["values"].max() + 1e-3 * scale


@pytest.mark.parametrize("kind", ["smooth", "floors", "segments", "eligible", "heavy tails"])
def test_whoever_goes_through_the_passes_gets_what_a_search_among_everybody_gives(small_samples, kind):
    for seed in range(4):
        arguments = instance(kind, np.random.default_rng([seed, 77]), 3000)
        by_passes = allocate(**arguments)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(budget, "EXACT_RATE", 20_000)
            plain = allocate(**arguments)
        assert by_passes.status is not Status.INFEASIBLE
        # of a budget for a handful of customers, either search may leave a thousandth of the dearest one
        loss = max(5e-6 * abs(plain.value), 1e-3 * arguments["values"].max())
        assert by_passes.value >= plain.value - loss
        assert by_passes.bound - by_passes.value <= max(plain.bound - plain.value, loss)


def test_the_reference_of_a_settled_customer():
    """At random budget prices and prices in the range, brute force gives every settled customer the same place."""
    rng = np.random.default_rng(3)
    values, costs = rng.gamma(2.0, 5.0, (3, 4000)), rng.gamma(2.0, 1.0, (3, 4000))
    segment = rng.integers(0, 2, 4000)
    eligible = rng.random((3, 4000)) < 0.9
    boxes = tuple(
        PriceBox(rng.uniform(0, 6, (2, 3)), rng.uniform(0, 0.5, (2, 3)), none_width) for none_width in (0.2, 0.4)
    )
    ends = (0.8, 1.1)
    rows = Rows(np.empty(0, np.uint64), values, eligible, costs, segment)
    found = InRange(RateRange(ends, boxes), 1e-9, (2.0**20, 2.0**20)).settle(rows, slice(0, 4000), 4000)
    choice, counts, worth, spent = found.choice, found.counts, found.worth, found.spent
    settled = np.setdiff1d(np.arange(4000), found.rows)
    assert 0 < found.opened == found.rows.size < 4000
    taken = settled[choice[settled] >= 0]
    assert np.array_equal(
        counts, [[np.sum((choice[taken] == k) & (segment[taken] == g)) for k in range(3)] for g in range(2)]
    )
    assert worth == np.rint(values[choice[taken], taken] * 2.0**20).astype(np.int64).sum()
    assert spent == np.rint(costs[choice[taken], taken] * 2.0**20).astype(np.int64).sum()
    for _ in range(200):
        part = rng.random()
        rate = (1 - part) * ends[0] + part * ends[1]
        corner = [box.centre + rng.choice([-1, 1], (2, 3)) * box.width for box in boxes]
        shift = rng.uniform(-1, 1, 2)[:, None]  # one for each segment
        corner = [prices + shift * box.none_width for prices, box in zip(corner, boxes, strict=True)]
        prices = (1 - part) * corner[0] + part * corner[1]
        net = np.where(eligible, values - rate * costs - prices[segment].T, -np.inf)
        best = np.where(net.max(axis=0) > 0, net.argmax(axis=0), -1)
        assert np.array_equal(best[settled], choice[settled])


def test_the_reference_of_counts_at_two_budget_prices():
    rng = np.random.default_rng(4)
    values, costs = rng.gamma(2.0, 5.0, (3, 5000)), rng.gamma(2.0, 1.0, (3, 5000))
    prices, ends = rng.uniform(0, 6, (2, 1, 3)), (0.5, 1.5)
    points = tuple(
        rate_range.Point(rate, 0.0, 0.0, own[0], own, PriceBox(own, own, 0.0), own[0], 0.0, 0.0)
        for rate, own in zip(ends, prices, strict=True)
    )
    rows = Rows(np.empty(0, np.uint64), values, None, costs, None)
    counts, spent = np.zeros((2, 1, 3), np.int64), np.zeros(2, np.int64)
    for part in (slice(0, 2100), slice(2100, 5000)):
        wanted = rate_range._wants(points, 2.0**20, rows, part)
        counts, spent = counts + wanted.counts, spent + wanted.spent
    for end in range(2):
        net = values - ends[end] * costs - prices[end].T
        best = np.where(net.max(axis=0) > 0, net.argmax(axis=0), -1)
        taken = np.flatnonzero(best >= 0)
        assert np.array_equal(counts[end, 0], np.bincount(best[taken], minlength=3))
        assert spent[end] == np.rint(costs[best[taken], taken] * 2.0**20).astype(np.int64).sum()


@pytest.mark.parametrize("kind", ["smooth", "proportional", "segments"])
def test_row_order_and_threads_change_nobody_s_code_under_a_budget(kind):
    rng = np.random.default_rng(11)
    arguments = instance(kind, rng, 40_000)
    arguments["budget"] = 0.5 * allocate(**{**arguments, "budget": 1e12}).cost
    one = allocate(**arguments, ids=np.arange(40_000))
    order = rng.permutation(40_000)
    turned = {**arguments, "values": arguments["values"][order], "costs": arguments["costs"][order]}
    if kind == "segments":
        given = arguments["segments"]
        turned["segments"] = Segments(np.asarray(given.of_customer)[order], given.limits)
    other = allocate(**turned, ids=order, engine=LocalEngine(threads=2))
    assert np.array_equal(other.choice, one.choice[order])
    assert other.value == pytest.approx(one.value, rel=1e-14)


@pytest.mark.parametrize("unlucky", ["too sure of itself", "too many large baskets"])
def test_an_unlucky_sample_costs_time_and_nothing_else(monkeypatch, unlucky):
    arguments = instance("smooth", np.random.default_rng(5), 40_000)
    arguments["budget"] = 0.5 * allocate(**{**arguments, "budget": 1e12}).cost
    if unlucky == "too sure of itself":
        monkeypatch.setattr(budget, "SPREADS", (0.01, 0.02))
    else:
        sampled = rate_range.RateSample.__init__

        def skewed(self, *table, **more):
            sampled(self, *table, **more)
            self.rows = self.rows._replace(values=self.rows.values * 1.3, costs=self.rows.costs * 1.3)

        monkeypatch.setattr(rate_range.RateSample, "__init__", skewed)
    result = allocate(**arguments)
    assert result.cost <= arguments["budget"]
    assert result.gap <= 5e-7


def test_most_customers_are_settled_by_the_passes(monkeypatch):
    sizes = []
    contested_part = budget.contested_part

    def watched(table, **more):
        part = contested_part(table, **more)
        sizes.append((table.customers, None if part is None else part.problem.problem.customers))
        return part

    monkeypatch.setattr(budget, "contested_part", watched)
    arguments = instance("smooth", np.random.default_rng(6), 120_000)
    arguments["caps"] = np.full(arguments["values"].shape[1], 12_000)
    arguments["budget"] = 0.6 * allocate(**{**arguments, "budget": 1e12}).cost
    sizes.clear()
    result = allocate(**arguments)
    assert result.gap <= 1e-7
    first = [after for before, after in sizes if before == 120_000]
    assert first[0] is not None
    assert first[0] < 24_000


def test_unlimited_depths_stay_unlimited_among_the_contested(small_samples):
    arguments = instance("smooth", np.random.default_rng(8), 1200)
    caps = [None, *arguments["caps"].tolist()[1:]]
    result = allocate(**{**arguments, "caps": caps})
    assert result.cost <= arguments["budget"]
    assert result.counts[0] < UNLIMITED
    assert result.gap <= 1e-3


def test_two_sides_of_a_jump_meet_where_the_most_even_pair_says():
    problem = read_problem(np.ones((1, 1)), [1], costs=np.ones((1, 1)), budget=1.0)
    whole = Lagrangian(problem, warm=None)

    def at(rate: float, *, beyond: bool) -> Priced:
        """Spending falls by 20 per unit of λ and by 100 at λ = 3.5; d worth = λ · d spending."""
        spent, worth = 200.0 - 20.0 * rate, 10_000.0 - 10.0 * rate**2
        if beyond:
            spent, worth = spent - 100.0, worth - 350.0
        return Priced(rate, None, worth * whole.grid.unit, spent, beyond, 0.0)  # type: ignore[arg-type]

    above, below = [at(3.4, beyond=False), at(3.49, beyond=False)], [at(3.6, beyond=True)]
    assert abs(whole.crossing(above[-1], below[-1]) - 3.5) > 9e-4
    assert whole._meeting(above, below) == pytest.approx(3.5, abs=1e-12)


def test_a_bound_at_prices_where_the_settled_are_not_settled_does_not_count():
    rng = np.random.default_rng(2)
    problem = read_problem(rng.random((50, 2)), [10, 10], costs=rng.random((50, 2)), budget=4.0)
    whole = Lagrangian(problem, warm=None)
    ends = whole.at(0.50), whole.at(0.51)
    wide = tuple(PriceBox(end.solution.prices[None], np.full((1, 2), 1.0), 0.0) for end in ends)
    nowhere = tuple(box._replace(centre=box.centre + 5.0) for box in wide)
    bounds = []
    for boxes in (wide, nowhere):
        ranges = (RateRange((0.4, 0.6), boxes),)
        rest = SettledRest(whole.grid, lambda choice: True, np.arange(50), np.full(50, -1, np.int16), 0, 0, ranges)
        part = Lagrangian(problem, warm=None, rest=rest)
        over_budget, within_budget = part.at(0.50), part.at(0.51)
        bounds.append((part.between([over_budget], [within_budget]), within_budget))
    (drawn_on, _), (alone, within_budget) = bounds
    assert 0.5 <= drawn_on.rate < 0.51
    assert alone is within_budget


def test_an_end_of_a_range_is_asked_alone():
    scarce = PriceBox(np.array([[1.0]]), np.array([[np.inf]]), 0.0)
    known = PriceBox(np.array([[1.0]]), np.array([[0.1]]), 0.0)
    range_ = RateRange((1.0, 2.0), (known, scarce))
    assert range_.holds(1.0, np.array([[1.05]]))
    assert not range_.holds(1.0, np.array([[1.2]]))
    assert range_.holds(2.0, np.array([[9.0]]))


def test_wide_boxes_are_tried_where_prices_that_become_nothing_leave_too_many_open(small_samples, monkeypatch):
    tried = []
    contested_part = budget.contested_part

    def watched(table, **more):
        attempt = (more["spread"], more["to_nothing"])
        tried.extend([attempt] if attempt not in tried else [])
        part = None if more["to_nothing"] else contested_part(table, **more)
        if part is not None and len(tried) == 1:  # the first range is made to miss the budget
            at = part.problem.at
            monkeypatch.setattr(part.problem, "at", lambda rate: replace(at(rate), fits=True))
        return part

    monkeypatch.setattr(budget, "contested_part", watched)
    monkeypatch.setattr(budget, "become_nothing", lambda *ends: np.ones(1, np.bool_))
    problem = read_problem(**instance("smooth", np.random.default_rng([0, 77]), 3000))
    found = budget._among_contested(BudgetTable.of(Lagrangian(problem, warm=None)))
    assert tried == [(3.5, False), (3.5, True), (9.0, False)]
    assert found is not None
    assert found.solution.feasible


def test_an_infinite_value_outside_of_the_samples_is_refused_before_sums(monkeypatch):
    for module in (lagrangian, rate_range, rules):
        monkeypatch.setattr(module, "choice_sums", choice_sums.plain())  # as in a new environment
    rng = np.random.default_rng(0)
    values, costs = rng.lognormal(size=(21_000, 1)), rng.random((21_000, 1))
    last = customer_keys(np.arange(21_000)).argmax()
    values[last, 0] = np.inf
    with pytest.raises(InputError, match=f"values, row {last + 1}, column 0"):
        allocate(values, [10_000], costs=costs, budget=0.3 * costs.sum())


def test_single_precision_is_rounded_once_where_costs_nearly_cancel_values():
    """Worth 0.9 and 0.89: the difference of value and price, 999,999.9, is 999,999.875 in single precision."""
    rows = Rows(
        np.empty(0, np.uint64),
        np.array([[1e6], [0.89]], np.float32),
        None,
        np.array([[999_999], [0]], np.float32),
        None,
    )
    box = PriceBox(np.array([[0.1, 0.0]]), np.zeros((1, 2)), 0.0)
    for group in (None, np.zeros(1, np.int64)):
        some = rows._replace(group=group)
        at = box if group is None else box._replace(centre=np.tile(box.centre, (2, 1)), width=np.zeros((2, 2)))
        found = InBox(at, 1e-4, rate=1.0).settle(some, slice(0, 1), 1)
        assert found.opened or found.choice.tolist() == [0]
