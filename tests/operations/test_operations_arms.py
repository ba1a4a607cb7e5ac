"""Arms and random allocation: shares, independence of the other customers, caps and budget."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from disco.operations.arms import assign_at_random, codes_in_proportion, share_offers, split
from disco.records.decisions import Arm, Offer
from disco.records.errors import InfeasibleError, InputError
from disco.records.money import read_currency

IDS = np.arange(20_000)


def everybody(costs):
    """The same costs per depth for every customer."""
    return np.tile(costs, (IDS.size, 1))


def arms(ids=IDS, **more):
    return split(ids, **{"control": 0.2, "holdout": 0.05, "seed": 1, "campaign": "c", **more})


def test_every_customer_is_in_exactly_one_arm_and_shares_are_kept():
    found = arms()
    assert (sum(flags.astype(int) for flags in found.values()) == 1).all()
    for arm, share in ((Arm.CONTROL, 0.2), (Arm.HOLDOUT, 0.05), (Arm.DECIDED, 0.75)):
        low, high = binom.ppf([0.0005, 0.9995], IDS.size, share)
        assert low <= found[arm].sum() <= high


def test_an_arm_belongs_to_the_customer_not_to_the_row_or_the_crowd():
    some = np.array([5, 17, 400])
    for arm, flags in arms().items():
        assert np.array_equal(arms(some)[arm], flags[some])


def test_another_campaign_or_seed_splits_anew():
    first = arms()[Arm.CONTROL]
    for other in (arms(campaign="d"), arms(seed=2)):
        overlap = (first & other[Arm.CONTROL]).sum()
        low, high = binom.ppf([0.0005, 0.9995], IDS.size, 0.2 * 0.2)
        assert low <= overlap <= high


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), min_size=1, max_size=5), st.integers(0, 50))
def test_random_codes_keep_caps_and_go_to_as_many_as_the_caps_allow(caps, customers):
    counts = codes_in_proportion(tuple(caps), customers=customers)
    limits = [customers if cap is None else cap for cap in caps]
    assert (counts <= limits).all()
    assert counts.sum() == min(customers, sum(limits))


def test_random_allocation_is_independent_of_the_customer():
    offer = Offer(depths=(0.1, 0.2), caps=(8000, 4000), revenue_weight=3.0)
    choice = assign_at_random(IDS, offer, seed=1, campaign="c")
    first_half = np.bincount(choice[:10_000] + 1, minlength=3)
    assert chisquare(first_half, np.array([8000, 8000, 4000]) / 2).pvalue > 1e-4
    order = np.random.default_rng(1).permutation(IDS.size)
    again = assign_at_random(IDS[order], offer, seed=1, campaign="c")
    assert np.array_equal(again, choice[order])


def test_over_its_budget_random_customers_go_without():
    offer = Offer(depths=(0.1, 0.2), caps=(8000, 4000), revenue_weight=3.0, budget=9000.0)
    costs = np.array([1.0, 2.0])
    choice = assign_at_random(IDS, offer, costs=everybody(costs), seed=1, campaign="c")
    counts = np.bincount(choice[choice >= 0], minlength=2)
    assert 8990 <= counts @ costs <= 9000
    assert abs(counts[0] / counts[1] - 2) < 0.15  # the mix of depths stays that of the caps


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 50), st.integers(0, 50))
def test_the_arms_parts_add_up_and_no_floor_exceeds_its_cap(one, other, test, control):
    offer = Offer(depths=(0.1, 0.2), caps=(max(one, other), None), revenue_weight=3.0, floors=(min(one, other), 0))
    parts = share_offers(offer, [test, control])
    assert sum(part.caps[0] for part in parts) == offer.caps[0]
    assert sum(part.floors[0] for part in parts) == offer.floors[0]
    assert all(part.floors[0] <= part.caps[0] and part.caps[1] is None for part in parts)
    for part, size in zip(parts, (test, control), strict=True):
        assert abs(part.caps[0] - offer.caps[0] * size / (test + control)) < 1


def test_each_arm_has_its_own_share_of_the_budget():
    offer = Offer(depths=(0.1,), caps=(101,), revenue_weight=3.0, budget=10.0)
    assert [part.budget for part in share_offers(offer, [8, 2])] == [8.0, 2.0]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4),
    st.integers(0, 60),
)
def test_random_codes_meet_the_floors_where_any_allocation_could(limits, customers):
    caps, floors = tuple(max(pair) for pair in limits), tuple(min(pair) for pair in limits)
    if sum(floors) > customers:
        with pytest.raises(InfeasibleError):
            codes_in_proportion(caps, customers=customers, floors=floors)
        return
    counts = codes_in_proportion(caps, customers=customers, floors=floors)
    assert (counts >= floors).all()
    assert (counts <= caps).all()
    assert counts.sum() == min(customers, sum(caps))


def test_a_budget_takes_no_code_that_a_floor_promises():
    offer = Offer(depths=(0.1, 0.2), caps=(8000, 4000), revenue_weight=3.0, floors=(0, 3000), budget=9000.0)
    choice = assign_at_random(IDS, offer, costs=everybody([1.0, 2.0]), seed=1, campaign="c")
    counts = np.bincount(choice[choice >= 0], minlength=2)
    assert counts[1] >= 3000
    assert 8990 <= counts @ [1.0, 2.0] <= 9000
    with pytest.raises(InfeasibleError, match="floors cost"):
        assign_at_random(IDS, replace(offer, budget=5000.0), costs=everybody([1.0, 2.0]), seed=1, campaign="c")
    with pytest.raises(InfeasibleError, match="floors cost ¥6,000, but this group's share of the budget is ¥5,000"):
        assign_at_random(
            IDS,
            replace(offer, budget=5000.0),
            costs=everybody([1.0, 2.0]),
            seed=1,
            campaign="c",
            currency=read_currency("JPY"),
        )


def spread_costs(rows, depths, *, seed):
    """Expected markdown per customer and depth; customers differ by a factor of five and more."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(0, 0.7, (rows, 1))) * np.asarray(depths) * 3


def test_codes_at_random_never_cost_more_than_the_budget():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows, depths = int(rng.integers(20, 400)), (0.1, 0.2, 0.4)
        costs = spread_costs(rows, depths, seed=seed)
        budget = float(rng.uniform(0.05, 0.9) * costs.mean(axis=0).sum() * rows / 3)
        offer = Offer(depths=depths, caps=(rows // 3, rows // 4, None), revenue_weight=3.0, budget=budget)
        choice = assign_at_random(np.arange(rows), offer, costs=costs, seed=seed, campaign="c")
        coded = np.flatnonzero(choice >= 0)
        assert coded.size
        assert costs[coded, choice[coded]].sum() <= budget
        free = assign_at_random(np.arange(rows), replace(offer, budget=None), seed=seed, campaign="c")
        assert (choice[coded] == free[coded]).all(), "the budget only takes codes away"


def test_a_budget_that_does_not_bind_changes_nothing():
    costs = spread_costs(IDS.size, (0.1, 0.2), seed=1)
    offer = Offer(depths=(0.1, 0.2), caps=(8000, 4000), revenue_weight=3.0)
    free = assign_at_random(IDS, offer, seed=1, campaign="c")
    bound = assign_at_random(IDS, replace(offer, budget=1e6), costs=costs, seed=1, campaign="c")
    assert np.array_equal(free, bound)
    with pytest.raises(InputError, match="a budget"):
        assign_at_random(IDS, replace(offer, budget=1e6), seed=1, campaign="c")


def test_under_a_budget_the_chance_of_a_code_hardly_depends_on_the_customer():
    """The bound of the docstring: (m/n)·(1 − δ_i) with |δ_i| ≤ |c_i − c̄|/B, over 3,000 draws of a small group."""
    rows, draws = 120, 3000
    costs = spread_costs(rows, (0.2,), seed=3)
    offer = Offer(depths=(0.2,), caps=(rows,), revenue_weight=3.0, budget=float(costs.sum() / 3))
    kept = np.zeros(rows)
    for seed in range(draws):
        kept += assign_at_random(np.arange(rows), offer, costs=costs, seed=seed, campaign="c") >= 0
    chance = kept / draws
    own, mean = costs[:, 0], costs.mean()
    noise = 4 * np.sqrt(chance * (1 - chance) / draws)
    assert (np.abs(chance / chance.mean() - 1) <= np.abs(own - mean) / offer.budget + noise / chance.mean()).all()
    # what a reader of the control group sees: the mean cost of its receivers against that of everybody
    moved = (chance @ own) / chance.sum() / mean - 1
    spread = own.std() / mean
    assert abs(moved) < spread**2 / (offer.budget / mean) + 4 * spread / np.sqrt(chance.mean() * rows * draws)
