"""Levels move between campaigns: how far is learned, and the next campaign's interval contains it."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from disco.belief import Engagement, EngagementCounts, ScoreBins
from disco.belief.movement import MOVES, Movement, code_levels, usual_moves
from disco.records.errors import InputError

DEPTHS = np.array([0.1, 0.2, 0.4])
FREE = 1e4  # variance of g_a in the reference: as good as unknown
LEVELS = np.array([[0.2, 0.1, 0.0], [-0.1, 0.0, -0.3], [0.0, 0.3, 0.25]])
INFORMATION = np.array([[400.0, 90.0, 0.0], [50.0, 0.0, 200.0], [0.0, 800.0, 30.0]])


def reference(levels, information, tau, *, depth):
    """ln likelihood up to a constant, and the law of the next level at a depth, from the joint normal law of all."""
    campaign, column = np.nonzero(information)
    same_depth, same_campaign = column[:, None] == column, campaign[:, None] == campaign
    seen = FREE * same_depth + tau**2 * same_campaign + np.diag(1 / information[campaign, column])
    y, with_next = levels[campaign, column], FREE * (column == depth)
    gain = np.linalg.solve(seen, with_next)
    mean, variance = gain @ y, FREE + tau**2 - gain @ with_next
    return multivariate_normal(cov=seen).logpdf(y), mean, variance


def test_it_is_the_conditional_of_the_joint_normal_law():
    found = Movement.of(DEPTHS, levels=LEVELS, information=INFORMATION)
    fits = np.array([reference(LEVELS, INFORMATION, tau, depth=0)[0] for tau in MOVES])
    weight = usual_moves(0.1) * np.exp(fits - fits.max())
    assert found.weight == pytest.approx(weight / weight.sum(), abs=1e-5)
    total = INFORMATION.sum(axis=0)
    pooled = (INFORMATION * LEVELS).sum(axis=0) / total
    for depth in range(3):
        for place, tau in enumerate(MOVES):
            _, mean, variance = reference(LEVELS, INFORMATION, tau, depth=depth)
            beyond = variance - 1 / total[depth] + (mean - pooled[depth]) ** 2  # 1/total is the belief's own
            assert found.added_variance(DEPTHS)[place, depth] == pytest.approx(beyond, rel=1e-4, abs=2e-5)


def test_it_is_what_a_grid_over_all_unknowns_says():
    """Two campaigns at one depth: sums over g, u_1 and u_2, without any algebra."""
    y, w = np.array([0.15, -0.2]), np.array([300.0, 120.0])
    found = Movement.of([0.1], levels=y[:, None], information=w[:, None])
    axis = np.linspace(-2.0, 2.0, 161)
    g, u1, u2 = np.meshgrid(axis, axis, axis, indexing="ij", sparse=True)
    fit = norm.logpdf(y[0], g + u1, w[0] ** -0.5) + norm.logpdf(y[1], g + u2, w[1] ** -0.5)
    evidence, beyond = [], []
    tried = np.flatnonzero((MOVES >= 0.12) & (MOVES <= 0.4))  # the grid is too coarse for less, too short for more
    for tau in MOVES[tried]:
        chance = np.exp(fit + norm.logpdf(u1, 0, tau) + norm.logpdf(u2, 0, tau))
        off = (w[0] * u1 + w[1] * u2) / w.sum()
        evidence.append(chance.sum())
        beyond.append(tau**2 + (chance * off**2).sum() / chance.sum())
    ratio = found.weight[tried] / usual_moves(0.1)[tried]
    assert ratio / ratio[0] == pytest.approx(np.array(evidence) / evidence[0], rel=1e-3)
    assert found.added_variance([0.1])[tried, 0] == pytest.approx(beyond, rel=1e-3)


def test_one_campaign_by_hand_is_the_prior_and_twice_its_variance():
    found = Movement.of([0.1], levels=[[0.7]], information=[[1e6]])
    assert found.weight == pytest.approx(usual_moves(0.1))
    assert found.added_variance([0.1, 0.9]) == pytest.approx(np.repeat(2 * MOVES[:, None] ** 2, 2, axis=1), abs=1e-12)
    assert found.rests_on_prior
    assert found.words("the share who buy").startswith("One past campaign: how far the share who buy moves")


def test_without_a_campaign_the_next_one_moves_by_the_prior_alone():
    found = Movement.of([], levels=np.zeros((0, 0)), information=np.zeros((0, 0)))
    assert found.added_variance([0.2])[:, 0] == pytest.approx(MOVES**2)
    assert found.words("the basket").startswith("No past campaign")
    drawn = found.shifts([0.2, 0.3], count=50, generator=np.random.default_rng(1))
    assert (drawn[:, 0] == drawn[:, 1]).all()


def test_campaigns_at_different_depths_cannot_be_compared():
    found = Movement.of([0.1, 0.2], levels=[[0.5, 0.0], [0.0, -0.5]], information=[[100.0, 0.0], [0.0, 100.0]])
    assert found.weight == pytest.approx(usual_moves(0.1))
    assert "2 past campaigns without a common depth" in found.words("the share who buy")


def test_what_is_common_to_all_campaigns_at_a_depth_does_not_matter():
    one = Movement.of(DEPTHS, levels=LEVELS, information=INFORMATION)
    other = Movement.of(DEPTHS, levels=LEVELS + np.array([5.0, -2.0, 0.3]), information=INFORMATION)
    assert one.weight == pytest.approx(other.weight)
    assert one.added_variance(DEPTHS) == pytest.approx(other.added_variance(DEPTHS))


def test_many_campaigns_find_the_movement_there_is():
    rng = np.random.default_rng(5)
    for tau in (0.04, 0.16, 0.32):
        levels = tau * rng.standard_normal((400, 1)) + 0.02 * rng.standard_normal((400, 2))
        found = Movement.of([0.1, 0.3], levels=levels, information=np.full((400, 2), 0.02**-2))
        assert found.typical == pytest.approx(tau, rel=0.25)
        assert found.reach([0.1], [0.0])[0] == pytest.approx(1.645 * tau, rel=0.1)


def test_draws_have_the_moments_and_the_quantiles_of_the_interval():
    found = Movement.of(DEPTHS, levels=LEVELS, information=INFORMATION)
    drawn = found.shifts(DEPTHS, count=200_000, generator=np.random.default_rng(2))
    assert drawn.mean(axis=0) == pytest.approx(0.0, abs=0.005)
    assert drawn.var(axis=0) == pytest.approx(found.weight @ found.added_variance(DEPTHS), rel=0.04)
    assert np.quantile(drawn, 0.95, axis=0) == pytest.approx(found.reach(DEPTHS, np.zeros(3)), rel=0.03)


@pytest.mark.parametrize("campaigns", [1, 2, 5])
def test_its_interval_covers_the_next_campaign_when_the_world_is_as_it_assumes(campaigns):
    """τ drawn from the prior, then the past and the next campaign: a 90% interval holds it nine times in ten."""
    rng, inside, rounds = np.random.default_rng(8), 0, 1500
    for _ in range(rounds):
        moved = MOVES[rng.choice(MOVES.size, p=usual_moves(0.1))] * rng.standard_normal(campaigns + 1)
        information = rng.uniform(50, 2000, (campaigns, 1))
        levels = moved[:-1, None] + rng.standard_normal((campaigns, 1)) / np.sqrt(information)
        pooled = float((information * levels).sum() / information.sum())
        found = Movement.of([0.1], levels=levels, information=information)
        inside += abs(moved[-1] - pooled) <= found.reach([0.1], [1 / information.sum()])[0]
    assert 0.875 < inside / rounds < 0.93  # a little above 0.9: the pooled mean is kept, and its distance widens


def test_levels_of_codes_are_their_logits_above_the_given_ones():
    sent = np.array([[[2e6, 0.0], [2e6, 2e6]]])
    rates = np.array([[[0.2, 0.1], [0.1, 0.3]]])
    logits = np.log(rates / (1 - rates))[0] - np.array([[0.4], [-0.2]])
    levels, information = code_levels(sent, sent * rates, logits)
    assert levels[0] == pytest.approx([0.4, -0.2], abs=1e-9)
    assert information[0] == pytest.approx([2e6 * 0.16, 2e6 * (0.09 + 0.21)])


def test_a_campaign_whose_codes_nobody_used_has_a_finite_level_that_says_little():
    level, information = code_levels(np.array([[[30.0]]]), np.zeros((1, 1, 1)), np.array([[-3.0]]))
    assert -8 < level[0, 0] < 0
    assert information[0, 0] < 1


def test_movement_of_engagement_is_found_whatever_the_bins_and_the_depths_of_a_campaign():
    rng, bins = np.random.default_rng(4), ScoreBins([0.0], [-0.7, 0.7])
    parts = []
    for campaign in range(12):
        depths = np.array([0.1, 0.2]) if campaign % 2 else np.array([0.2, 0.4])
        logits = -2.5 + 3 * depths[:, None] + np.array([-0.7, 0.7, 0.0]) + 0.3 * rng.standard_normal()
        sent = np.full((2, 3), 4000)
        parts.append(EngagementCounts(depths, sent, rng.binomial(sent, 1 / (1 + np.exp(-logits))), bins))
    engagement = Engagement(counts=sum(parts, EngagementCounts()))
    found = Movement.of_engagement(engagement, parts)
    assert 0.18 < found.typical < 0.45
    assert found.compared == found.campaigns == 12
    assert "Between 12 past campaigns the share who buy moved by about" in found.words("the share who buy")
    low, high = engagement.interval([0.1, 0.4], movement=found)
    least, most = engagement.interval([0.1, 0.4])
    assert (low < least).all()
    assert (high > most).all()
    assert ((engagement.rates([0.1, 0.4]) > low) & (engagement.rates([0.1, 0.4]) < high)).all()
    drawn = engagement.draws([0.1, 0.4], count=20_000, generator=rng, movement=found)
    assert np.quantile(drawn, 0.05, axis=0) == pytest.approx(low, rel=0.05)
    assert np.quantile(drawn, 0.95, axis=0) == pytest.approx(high, rel=0.05)


def test_counts_that_are_not_those_learned_are_refused():
    one = EngagementCounts([0.1], [100], [9])
    with pytest.raises(InputError, match="100 codes learned"):
        Movement.of_engagement(Engagement(counts=one), [one, one])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_an_information_that_cannot_be_is_refused(wrong):
    with pytest.raises(InputError):
        Movement.of([0.1], levels=[[0.0]], information=[[wrong]])
    with pytest.raises(InputError):
        Movement.of([0.1], levels=[[0.0, 1.0]], information=[[1.0]])


def test_what_a_campaign_is_of_a_belief_that_forgets():
    levels, information = [[0.1], [0.2], [0.3]], [[100.0], [100.0], [100.0]]
    found = Movement.of([0.1], levels=levels, information=information, forgetting=0.5)
    np.testing.assert_allclose(found.shares, [[1 / 7, 2 / 7, 4 / 7]])
    assert (Movement.of([0.1], levels=levels, information=information).shares == 1 / 3).all()
