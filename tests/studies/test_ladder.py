"""Figures of bandit runs, the ladder of decision makers, and main effects: each against what is known otherwise."""

import numpy as np
import pytest
from scipy.stats import ttest_rel
from studies.explanation import FACTORS, SITUATIONS, _worth
from studies.ladder import (
    FILLED,
    LOSSES,
    SCARCE,
    Beyond,
    Rung,
    Yardstick,
    best_of_class,
    caps_of,
    given_context,
    rungs_of_knowledge,
    rungs_of_learning,
)
from studies.readings import SPLINE
from studies.simulation import gap
from studies.stage import Law, Past, Stage

from disco.belief import Engagement, EngagementCounts
from disco.campaign import Belief, Lesson, learn
from disco.policy import Thompson
from disco.records.decisions import Purchases
from disco.records.errors import InputError

DEPTHS = (0.1, 0.2, 0.3)


def stage_with(context: np.ndarray, log_full_price: np.ndarray, probability: np.ndarray) -> Stage:
    law = Law(depths=DEPTHS, log_full_price=log_full_price, purchase_probability=probability, residual_sd=0.4)
    nothing = Past(context=context[:0], depth=np.zeros(0), full_price=np.zeros(0))
    return Stage(name="test", seed=5, context=context, law=law, past=nothing, depth_scale=0.5)


@pytest.fixture(scope="module")
def visible() -> Stage:
    """All there is to know lies in the context, and ln F is linear in it and in depth: nothing can be lost above."""
    rng = np.random.default_rng(2)
    context = rng.normal(size=(2000, 2)).clip(-3, 3)
    u = np.asarray(DEPTHS) / 0.5
    return stage_with(
        context,
        3.5 + 0.3 * context[:, :1] + (0.6 + 0.3 * context[:, 1:]) * u,
        np.broadcast_to(0.3 + 0.1 * u, (2000, 3)),
    )


def belief_of(stage: Stage, *, rows: int) -> Belief:
    """Learned from that many codes at each depth."""
    rng = np.random.default_rng(3)
    belief = Belief(basket=SPLINE.model(depth_scale=0.5), engagement=Engagement())
    who, column = rng.integers(0, len(stage.context), rows), rng.integers(0, 3, rows)
    bought = rng.random(rows) < stage.law.purchase_probability[who, column]
    price = np.exp(stage.law.log_full_price[who, column] + 0.4 * rng.normal(size=rows))
    depth = np.asarray(DEPTHS)[column]
    seen = Purchases(context=stage.context[who][bought], depth=depth[bought], full_price=price[bought])
    return learn(belief, [Lesson.of("past", seen, EngagementCounts.of(depth, bought))])


def beyond_of(yardstick: Yardstick) -> Beyond:
    """Habits that tell everything, and features that are the context and a column that was never known."""
    law, context = yardstick.stage.law, yardstick.stage.context
    unknown = np.full(len(context), np.nan)
    return Beyond.of(
        yardstick,
        spending=law.purchase_probability * law.expected_full_price,
        features=np.column_stack([np.sign(context) * np.expm1(np.abs(context)), unknown]),
        contexts=[],
    )


def climbed(stage: Stage, belief: Belief, *, caps: tuple[int, ...] = (700, 700, 600)) -> dict[Rung, float]:
    yardstick = Yardstick.of(stage, caps=caps, revenue_weight=3.0)
    return {
        **rungs_of_knowledge(yardstick, beyond_of(yardstick)),
        **rungs_of_learning(yardstick, SPLINE, belief, Thompson()),
    }


def test_where_everything_is_visible_nothing_is_lost_before_learning(visible: Stage) -> None:
    found = climbed(visible, belief_of(visible, rows=3000))
    assert found[Rung.FREE] >= found[Rung.ORACLE] > 0.005
    assert found[Rung.HABITS] == pytest.approx(found[Rung.ORACLE], abs=1e-12)
    assert found[Rung.FEATURES] == pytest.approx(found[Rung.CONTEXT], abs=0.02 * found[Rung.ORACLE])
    for rung in (Rung.CONTEXT, Rung.SHARED, Rung.LINEAR):
        assert found[rung] == pytest.approx(found[Rung.ORACLE], abs=0.1 * found[Rung.ORACLE])
    assert found[Rung.LINEAR] == pytest.approx(found[Rung.ORACLE], abs=1e-9)  # the class holds the truth itself
    assert max(found[rung] for rung in Rung if rung is not Rung.FREE) <= found[Rung.ORACLE] + 1e-12


def test_more_evidence_loses_less_and_losses_add_up(visible: Stage) -> None:
    little, much = (climbed(visible, belief_of(visible, rows=rows)) for rows in (150, 60_000))
    upper, lower = LOSSES["estimation of baskets"]
    assert much[upper] - much[lower] < little[upper] - little[lower]
    assert much[Rung.DECIDED] > little[Rung.DECIDED]
    lost = sum(much[first] - much[second] for first, second in LOSSES.values())
    assert lost == pytest.approx(much[Rung.FREE] - much[Rung.DECIDED])


def test_a_context_that_says_nothing_costs_everything(visible: Stage) -> None:
    blind = stage_with(
        np.random.default_rng(9).normal(size=visible.context.shape).clip(-3, 3),
        visible.law.log_full_price,
        visible.law.purchase_probability,
    )
    yardstick = Yardstick.of(blind, caps=(700, 700, 600), revenue_weight=3.0)
    law = visible.law
    informed = Beyond.of(
        yardstick,
        spending=law.purchase_probability * law.expected_full_price,
        features=visible.context,
        contexts=[blind.context],
    )
    found = rungs_of_knowledge(yardstick, informed)
    assert found[Rung.ORACLE] > 0.005
    assert found[Rung.FEATURES] > 0.8 * found[Rung.ORACLE]
    assert abs(found[Rung.CONTEXT]) < 0.4 * found[Rung.ORACLE]


def test_scarce_codes_make_who_gets_one_matter_more(visible: Stage) -> None:
    """With codes for everybody only the depth is chosen; with codes for six in ten, the customer, too."""
    belief = belief_of(visible, rows=3000)
    filled, scarce = (
        climbed(visible, belief, caps=caps_of(regime, customers=2000, depths=3)) for regime in (FILLED, SCARCE)
    )
    for rung in (Rung.ORACLE, Rung.HABITS, Rung.FEATURES, Rung.CONTEXT, Rung.LEARNED):
        assert scarce[rung] > 3 * filled[rung] > 0
    with pytest.raises(InputError, match="each scarce cap is one depth's"):
        caps_of(SCARCE, customers=100, depths=4)


def test_the_context_tells_what_a_bend_hides_from_a_line() -> None:
    rng = np.random.default_rng(4)
    context = rng.normal(size=(4000, 2)).clip(-3, 3)
    truth = np.abs(context[:, :1]) + np.zeros(3)
    fitted = given_context(context, truth + 0.3 * rng.normal(size=truth.shape))
    assert np.corrcoef(fitted[:, 0], truth[:, 0])[0, 1] > 0.95


def test_the_best_of_the_class_is_weighted_least_squares(visible: Stage) -> None:
    """Against a plain regression on all rows of customers × depths, where the truth is not of the class."""
    rng = np.random.default_rng(6)
    bent = visible.law.log_full_price + 0.2 * np.abs(visible.context[:, :1]) + 0.1 * rng.normal(size=(2000, 3))
    law = Law(
        depths=DEPTHS,
        log_full_price=bent,
        purchase_probability=rng.uniform(0.1, 0.9, bent.shape),
        residual_sd=0.4,
    )
    model = SPLINE.model(depth_scale=0.5)
    x = np.column_stack([np.ones(2000), visible.context])
    psi = np.concatenate([np.einsum("ni,j->nij", x, a).reshape(2000, -1) for a in model.encoded(np.asarray(DEPTHS))])
    root = np.sqrt(law.purchase_probability.T.ravel())
    theta = np.linalg.lstsq(psi * root[:, None], bent.T.ravel() * root, rcond=None)[0]
    expected = (psi @ theta).reshape(3, 2000).T
    np.testing.assert_allclose(np.log(best_of_class(model, visible.context, law)), expected, atol=1e-6)


def test_the_gap_has_the_p_values_of_paired_t_tests() -> None:
    rng = np.random.default_rng(7)
    better = 50 + rng.normal(size=(40, 10))
    other = better * (1 - 0.002 - 0.001 * np.arange(10) / 10 + 0.002 * rng.normal(size=(40, 10)))
    found, below = gap(better, other), 1 - other / better
    first, last = below[:, :5].mean(axis=1), below[:, 5:].mean(axis=1)
    assert found.overall.mean == pytest.approx(below.mean())
    assert found.p_overall == pytest.approx(ttest_rel(below.mean(axis=1), np.zeros(40)).pvalue)
    assert found.p_halves == pytest.approx(ttest_rel(last, first).pvalue)
    assert found.last_half.mean > found.first_half.mean


def test_a_single_repeat_has_no_interval() -> None:
    found = gap(np.full((1, 4), 2.0), np.full((1, 4), 1.0))
    assert (found.overall.half_width, found.p_overall) == (None, None)


@pytest.mark.parametrize(("factor", "axis"), FACTORS.items())
def test_a_main_effect_is_the_mean_over_the_other_settings(factor: str, axis: int) -> None:
    """An additive table: each choice adds its own amount, whatever the others."""
    added = {1: 0.03, 2: 0.007, 3: -0.002}
    table = np.zeros((len(SITUATIONS), 2, 2, 2))
    for place in np.ndindex(*table.shape):
        table[place] = 0.1 * place[0] + sum(added[a] * place[a] for a in added)
    cell = _worth({"concave": [{"worth": table}]}, "concave", factor, SITUATIONS[2])
    assert cell.mean == pytest.approx(added[axis])
