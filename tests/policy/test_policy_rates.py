"""The engagement rates that policies act on: whose they are, their law, and what must not change them."""

import numpy as np
import pytest
from scipy.special import expit, logit

from disco.adapters.engines import LocalEngine
from disco.belief import Engagement, EngagementCounts
from disco.belief.engagement import make_rising
from disco.belief.engagement_posterior import attenuation
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence, rates_of_policy
from disco.records.chunks import CHUNK_ROWS
from disco.records.errors import InputError
from disco.records.score import ScoreBins

DEPTHS = np.array([0.1, 0.2, 0.3, 0.4])
EVERY = [Thompson(), Thompson(scope="round"), UpperConfidence(), EpsilonGreedy(epsilon=0.3), Greedy(), Random()]
every_policy = pytest.mark.parametrize("policy", EVERY, ids=repr)


def codes(count, seed=1):
    generator = np.random.default_rng(seed)
    score = np.round(generator.normal(0, 0.8, count) * 65536) / 65536
    score[::25] = np.nan
    depth = generator.choice(DEPTHS, count)
    chance = expit(-2.2 + 3 * (depth - 0.25) + np.nan_to_num(score))
    return score, depth, generator.random(count) < chance


def learned(count=6000, **settings):
    score, depth, used = codes(count)
    bins = ScoreBins.of(score, count=12)
    return Engagement(counts=EngagementCounts.of(depth, used, score=score, bins=bins), **settings)


ENGAGEMENT = learned()
SCORE = codes(3001, seed=2)[0]
IDS = np.random.default_rng(3).permutation(10**6)[:3001]


def served(policy, score=SCORE, depths=DEPTHS, *, engagement=ENGAGEMENT, ids=IDS, seed=1, campaign="spring", **more):
    return policy.rates(engagement, score, depths, ids=ids, seed=seed, campaign=campaign, **more)


# ---- what every policy promises --------------------------------------------------------------------------------------


@every_policy
def test_rates_are_shares_that_never_fall_with_depth(policy):
    rates = served(policy)
    assert rates.shape == (3001, 4)
    assert rates.flags.f_contiguous
    assert ((rates > 0) & (rates < 1)).all()
    assert (np.diff(rates, axis=1) >= 0).all()


@every_policy
def test_a_rate_depends_on_the_customer_and_not_on_their_order_or_chunk(policy):
    rows = CHUNK_ROWS + 700
    score, ids = codes(rows, seed=4)[0], np.arange(rows)
    whole = served(policy, score, ids=ids)
    order = np.random.default_rng(5).permutation(rows)
    shuffled = served(policy, score[order], ids=ids[order], engine=LocalEngine(threads=2))
    assert shuffled.tobytes(order="F") == np.asfortranarray(whole[order]).tobytes(order="F")
    few = order[:37]
    assert np.array_equal(served(policy, score[few], ids=ids[few]), whole[few])


@every_policy
def test_offering_depths_in_another_order_moves_their_columns(policy):
    np.testing.assert_array_equal(served(policy, depths=DEPTHS[::-1]), served(policy)[:, ::-1])


@pytest.mark.parametrize("policy", [Thompson(), Thompson(scope="round")], ids=repr)
def test_draws_change_with_seed_and_campaign(policy):
    base = served(policy)
    assert (served(policy, seed=2) != base).mean() > 0.9
    assert (served(policy, campaign="autumn") != base).mean() > 0.9


@every_policy
def test_as_many_ids_as_scores(policy):
    with pytest.raises(InputError, match="ids"):
        served(policy, SCORE[:-1])
    with pytest.raises(InputError, match="score"):
        served(policy, SCORE[:, None])


# ---- each by its formula ---------------------------------------------------------------------------------------------


def test_greedy_and_ucb_take_the_mean_rates():
    for policy in (Greedy(), UpperConfidence(exploration=3.0), Thompson(exploration=0.0)):
        np.testing.assert_array_equal(served(policy), ENGAGEMENT.rates_of(SCORE, DEPTHS))


def test_random_and_explorers_take_the_populations_rates():
    everybody = ENGAGEMENT.rates(DEPTHS)
    assert (served(Random()) == everybody).all()
    policy = EpsilonGreedy(epsilon=0.3)
    explores, rates = policy.explores(IDS, seed=1, campaign="spring"), served(policy)
    assert (rates[explores] == everybody).all()
    np.testing.assert_array_equal(rates[~explores], ENGAGEMENT.rates_of(SCORE, DEPTHS)[~explores])


def test_thompson_draws_have_the_laws_moments():
    """One customer under many seeds is as good as many customers of one score; depths far enough apart not to fall."""
    count, h = 40_000, 0.5
    wide = np.array([0.1, 0.4])
    engagement = learned(60_000)
    law = engagement.law(wide)
    column = int(engagement.counts.bins.places(np.array([h]))[0])
    for exploration in (0.5, 1.0):
        policy = Thompson(exploration=exploration)
        drawn = logit(served(policy, np.full(count, h), wide, engagement=engagement, ids=np.arange(count)))
        spread = exploration**2 * law.roots[column] @ law.roots[column].T
        middle = law.logits[column] + law.tilt * engagement.counts.bins.centres[column]
        kept = attenuation(middle, (1 - exploration**2) * (law.roots[column] ** 2).sum(axis=1))
        mean = kept * (law.logits[column] + law.tilt * h)
        sd = np.sqrt(np.diag(spread))
        assert (np.abs(drawn.mean(axis=0) - mean) < 5 * sd / np.sqrt(count)).all()
        expected = kept[:, None] * spread * kept
        assert (np.abs(np.cov(drawn.T) - expected) < 5 * np.outer(sd, sd) * np.sqrt(2 / count)).all()


@pytest.mark.parametrize("exploration", [0.3, 1.0])
def test_the_mean_of_draws_is_the_mean_rate(exploration):
    """Wide posteriors: the average over draws must still be the rate that greedy takes.

    Made rising, draws differ a little more between depths than means made rising.
    """
    few, policy = learned(400), Thompson(exploration=exploration)
    rates = np.mean([served(policy, engagement=few, seed=seed).mean(axis=0) for seed in range(40)], axis=0)
    expected = few.rates_of(SCORE, DEPTHS).mean(axis=0)
    np.testing.assert_allclose(rates, expected, rtol=0.08)
    assert rates.mean() == pytest.approx(expected.mean(), rel=0.02)


def test_one_draw_for_everybody_moves_all_alike():
    """By round, customers of one score and column have the same rates; by customer they differ."""
    score = np.full(500, 0.25)
    alike = served(Thompson(scope="round"), score, ids=np.arange(500))
    assert (alike == alike[0]).all()
    apart = served(Thompson(), score, ids=np.arange(500))
    assert np.unique(apart[:, 0]).size == 500
    seeds = np.array([served(Thompson(scope="round"), score[:1], ids=[1], seed=seed)[0] for seed in range(400)])
    np.testing.assert_allclose(seeds.mean(axis=0), ENGAGEMENT.rates_of(score[:1], DEPTHS)[0], rtol=0.05)
    np.testing.assert_allclose(seeds.std(axis=0), apart.std(axis=0), rtol=0.2)


def test_an_operators_rate_is_nobodys_draw():
    engagement = learned(override={0.3: 0.2, 0.1: 0.0})
    for exploration in (0.4, 1.0):
        rates = served(Thompson(exploration=exploration), engagement=engagement)
        np.testing.assert_allclose(rates[:, 2], engagement.rates_of(SCORE, DEPTHS)[:, 2], rtol=1e-9)
        assert (rates[:, 0] < 1e-300).all()


def test_a_policy_without_rates_gets_the_mean_ones():
    class Own:
        name = "own"
        deterministic = True

        def full_prices(self, model, context, depths, *, ids, seed, campaign, dtype=np.float64, engine=None):
            return np.ones((len(ids), len(depths)), order="F")

    found = rates_of_policy(Own(), ENGAGEMENT, SCORE, DEPTHS, ids=IDS, seed=1, campaign="c")
    np.testing.assert_array_equal(found, ENGAGEMENT.rates_of(SCORE, DEPTHS))
    drawn = rates_of_policy(Thompson(), ENGAGEMENT, SCORE, DEPTHS, ids=IDS, seed=1, campaign="spring")
    np.testing.assert_array_equal(drawn, served(Thompson()))


def test_without_bins_everybody_has_the_populations_rates():
    _, depth, used = codes(4000)
    plain = Engagement(counts=EngagementCounts.of(depth, used))
    for policy in (Greedy(), Random()):
        assert (served(policy, engagement=plain) == plain.rates(DEPTHS)).all()


# ---- never falling ---------------------------------------------------------------------------------------------------


def test_rising_rates_by_hand_and_as_near_as_can_be():
    """(largest before + smallest after)/2, and no other rising curve has a smaller largest difference."""
    rates = np.array([[0.1, 0.3], [0.4, 0.2], [0.2, 0.1], [0.5, 0.4]])
    done = rates.copy()
    make_rising(2, np.arange(4), done, np.empty((4, 2)))
    np.testing.assert_allclose(done[:, 0], [0.1, 0.3, 0.3, 0.5])
    np.testing.assert_allclose(done[:, 1], [0.2, 0.2, 0.2, 0.4])
    steps = np.linspace(0, 1, 11)
    grid = np.array([(a, b, c, d) for a in steps for b in steps for c in steps for d in steps if a <= b <= c <= d])
    best = np.abs(grid[:, :, None] - rates).max(axis=1).min(axis=0)
    np.testing.assert_allclose(np.abs(done - rates).max(axis=0), best, atol=1e-12)


def test_rates_that_rise_stay_as_they_are():
    rates = np.sort(np.random.default_rng(1).random((5, 40)), axis=0)
    done = rates.copy()
    make_rising(40, np.arange(5), done, np.empty((5, 40)))
    np.testing.assert_array_equal(done, rates)
