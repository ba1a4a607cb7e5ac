"""The frontier rises: a higher weight or a larger budget never brings less revenue, and budgets are kept."""

import re
from dataclasses import replace

import numpy as np
import pytest

from disco.belief import BasketModel, Engagement
from disco.campaign import Belief
from disco.operations.what_if import frontier
from disco.records.decisions import Audience, Offer
from disco.records.errors import StateError
from disco.views.charts import CurveChart
from disco.views.frontier import frontier_report, frontier_tables

rng = np.random.default_rng(5)
CONTEXT = rng.normal(size=(400, 2)).clip(-4, 4)
DEPTH = rng.choice([0.1, 0.2, 0.4], 400)
FULL_PRICE = np.exp(4 + 0.3 * CONTEXT[:, 0] + (0.5 + 0.4 * CONTEXT[:, 1]) * DEPTH + rng.normal(0, 0.3, 400))
BELIEF = Belief(basket=BasketModel(depth_scale=0.5).update(CONTEXT, DEPTH, FULL_PRICE), engagement=Engagement())
AUDIENCE = Audience(ids=np.arange(400), context=CONTEXT, known=np.ones(400, bool))
OFFER = Offer(depths=(0.1, 0.2, 0.4), caps=(100, 80, None), revenue_weight=1.0)


def test_markdown_and_revenue_rise_with_the_weight_and_with_the_budget() -> None:
    found = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=OFFER)
    for path in (found.by_weight, found.by_budget):
        assert len(path) > 3
        assert all(np.diff([point.markdown for point in path]) >= -1e-9)
        assert all(np.diff([point.revenue for point in path]) >= -1e-9)
    assert found.by_weight[0].markdown < found.by_weight[-1].markdown
    assert found.by_budget[0].revenue < found.by_budget[-1].revenue
    for point in found.by_budget:
        assert point.budget is not None
        assert point.markdown <= point.budget * (1 + 1e-12)


def test_one_point_by_hand() -> None:
    """One depth, one code: the customer with the largest expected basket gets it."""
    offer = Offer(depths=(0.2,), caps=(1,), revenue_weight=3.0)
    found = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=offer, revenue_weights=[3.0], budgets=[1e9])
    (point,) = found.by_weight
    best = BELIEF.basket.expected_full_price(CONTEXT, [0.2]).max() * BELIEF.engagement.rates([0.2])[0]
    assert (point.codes, point.revenue, point.markdown) == (1, pytest.approx(0.8 * best), pytest.approx(0.2 * best))


def test_a_budget_that_floors_contradict_is_marked() -> None:
    offer = Offer(depths=(0.2,), caps=(50,), floors=(50,), revenue_weight=3.0)
    found = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=offer, budgets=[0.01, 1e9])
    assert [point.feasible for point in found.by_budget] == [False, True]


def test_the_plans_own_budget_is_on_the_path() -> None:
    offer = Offer(depths=(0.1, 0.2), caps=(100, 80), revenue_weight=3.0, budget=12.5)
    found = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=offer)
    assert 12.5 in [point.budget for point in found.by_budget]


def test_without_evidence_there_is_none() -> None:
    with pytest.raises(StateError, match="random campaign"):
        frontier(AUDIENCE, campaign="spring", belief=Belief(basket=BasketModel(), engagement=Engagement()), offer=OFFER)


def test_the_present_plan_is_marked_on_the_path_it_lies_on() -> None:
    free = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=OFFER)
    (marked,) = [point for point in free.by_weight if point.present]
    assert marked == free.present
    assert not any(point.present for point in free.by_budget), "the plan has no budget"
    limited = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=replace(OFFER, budget=12.5))
    (marked,) = [point for point in limited.by_budget if point.present]
    assert (marked, marked.budget) == (limited.present, 12.5)
    for found in (free, limited):
        for table in frontier_tables(found):
            assert [row[-1] for row in table.text()].count("this plan") == 1
        (chart,) = frontier_report(found).sections[0].items
        assert isinstance(chart, CurveChart)
        assert "this plan" in [points.label for points in chart.points]


def test_the_headline_compares_the_plan_with_half_of_its_markdown() -> None:
    found = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=OFFER)
    lead = frontier_report(found).lead
    assert re.fullmatch(r"Revenue falls from £\S+ to £\S+ if markdown falls from £\S+ to £\S+\.", lead), lead
    assert len(lead.split()) <= 15
    alone = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=OFFER, budgets=[1e9])
    assert re.fullmatch(r"Up to £\S+ of revenue for £\S+ of markdown\.", frontier_report(alone).lead)


def test_another_cap_is_the_allocation_under_that_cap() -> None:
    caps: dict[int | None, int | None] = {0: 0, 40: 40, 80: 80, 160: 160}
    found = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=OFFER, cap_depth=0.2, caps=caps)
    assert [point.cap for point in found.by_cap] == list(caps)
    assert [point.present for point in found.by_cap] == [False, False, True, False]
    for point in found.by_cap:
        alone = frontier(
            AUDIENCE, campaign="spring", belief=BELIEF, offer=replace(OFFER, caps=(100, point.cap, None))
        ).present
        assert (point.codes, point.revenue, point.markdown) == (alone.codes, alone.revenue, alone.markdown)
    values = [OFFER.revenue_weight * point.revenue - point.markdown for point in found.by_cap]
    assert all(np.diff(values) >= -1e-9), "a wider limit never costs value"
    assert "Over the cap of 20% off, all else as in the plan" in [table.caption for table in frontier_tables(found)]


def test_a_budget_of_the_frontier_is_of_the_corrected_markdown() -> None:
    """Earlier campaigns cost a quarter more than expected, so the model's own markdown stays a fifth below."""
    offer = replace(OFFER, budget=12.5)
    plain = frontier(AUDIENCE, campaign="spring", belief=BELIEF, offer=replace(OFFER, budget=10.0)).present
    corrected = frontier(
        AUDIENCE, campaign="spring", belief=BELIEF, offer=offer, factors=np.full(len(offer.depths), 1.25)
    ).present
    assert corrected.markdown <= 12.5
    assert corrected.markdown == pytest.approx(1.25 * plain.markdown, rel=1e-3)
    assert corrected.revenue == pytest.approx(1.25 * plain.revenue, rel=1e-3)
