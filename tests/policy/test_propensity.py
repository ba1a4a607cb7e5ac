"""Propensities of a policy under caps: the estimate's own law, both methods against full re-solves, refusals."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom

from disco.allocation import allocate
from disco.belief import BasketModel
from disco.objective import values
from disco.policy import EpsilonGreedy, Greedy, Random, Thompson, UpperConfidence
from disco.policy.propensity import Propensities, propensities
from disco.records.errors import InputError

DEPTHS = np.array([0.1, 0.2, 0.4])


@dataclass(frozen=True)
class Campaign:
    rows: int
    shares: tuple[float, ...] = (0.4, 0.2, 0.1)

    @property
    def caps(self):
        return [int(share * self.rows) for share in self.shares]

    def law(self, policy, *, seed=1, **settings):
        rng = np.random.default_rng(1)
        x, depth = rng.normal(size=(600, 2)).clip(-4, 4), rng.choice(DEPTHS, 600)
        model = BasketModel().update(x, depth, np.exp(3.5 + depth * (1 + x[:, 0]) + 0.7 * rng.normal(size=600)))
        ids = np.arange(self.rows)
        context = rng.normal(size=(self.rows, 2)).clip(-4, 4)

        def worth(again):
            prices = policy.full_prices(model, context, DEPTHS, ids=ids, seed=again, campaign="c")
            return values(prices, DEPTHS, np.ones(3), revenue_weight=2.0)

        return propensities(
            policy,
            seed=seed,
            worth=worth,
            solve=lambda worth: allocate(worth, self.caps, ids=ids),
            **settings,
        )


def distance(one, other):
    return np.abs(one.frequencies() - other.frequencies()).sum(axis=1).mean() / 2


def floor(law, draws):
    """Mean total variation between frequencies of two independent sets of draws from this law."""
    p = law.frequencies()
    return np.sqrt(2 / np.pi * p * (1 - p) * (1 / draws + 1 / law.draws)).sum(axis=1).mean() / 2


# ---- the estimate ----------------------------------------------------------------------------------------------------


def test_inverse_weights_have_the_expectation_the_docstring_claims():
    """E[(D+1)/(c+1)] over c ~ Bin(D, p), summed exactly."""
    for draws, p in ((9, 0.3), (50, 0.04), (200, 0.9)):
        count = np.arange(draws + 1)
        inverse = binom.pmf(count, draws, p) @ ((draws + 1) / (count + 1))
        assert inverse == pytest.approx((1 - (1 - p) ** (draws + 1)) / p)


def test_played_by_hand():
    law = Propensities(counts=np.array([[4, 0, 6], [0, 10, 0]]), draws=10, method="resolve", resolves=10)
    assert law.played(np.array([0, 0])).tolist() == pytest.approx([5 / 11, 1 / 11])
    assert law.played(np.array([-1, 1])).tolist() == pytest.approx([7 / 11, 1.0])
    assert law.played(np.array([0, 0]), floor=0.2).tolist() == pytest.approx([5 / 11, 0.2])
    assert law.frequencies().sum(axis=1).tolist() == [1, 1]


def test_weights_by_played_propensities_recover_a_mean():
    """Log a decision per draw of the law, weigh it by 1/p̂ of fresh draws: every depth's weights average one."""
    campaign, runs = Campaign(rows=60), 400
    law = campaign.law(Thompson(), draws=runs, seed=2)
    total = np.zeros(4)
    for number in range(runs):
        one = campaign.law(Thompson(), draws=1, seed=1000 + number, method="resolve")
        choice = one.counts.argmax(axis=1)
        weight = 1 / law.played(np.where(choice == 3, -1, choice))
        total += np.bincount(choice, weights=weight, minlength=4)
    possible = (law.counts > 0).sum(axis=0)  # customers for whom a depth comes up at all
    assert total / runs == pytest.approx(possible, rel=0.12)


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", [Thompson(), Thompson(scope="round"), EpsilonGreedy(epsilon=0.5), Random()], ids=repr
)
def test_re_solving_is_at_the_noise_floor(policy):
    campaign = Campaign(rows=40)
    reference = campaign.law(policy, draws=1500, seed=1)
    assert reference.method == "resolve"
    found = distance(campaign.law(policy, draws=500, seed=2), reference)
    assert found == pytest.approx(floor(reference, 500), rel=0.25)


def test_averaged_prices_come_closer_as_campaigns_grow():
    excess = []
    for rows in (30, 2000):
        campaign = Campaign(rows=rows)
        reference = campaign.law(Thompson(), draws=400, seed=1, method="resolve")
        found = campaign.law(Thompson(), draws=400, seed=2, method="prices")
        assert (found.method, found.resolves) == ("prices", 16)
        excess.append(distance(found, reference) - floor(reference, 400))
    assert excess[1] < excess[0] / 3
    assert excess[1] < 0.005


def test_caps_hold_on_average_in_every_law():
    campaign = Campaign(rows=200)
    law = campaign.law(Thompson(), draws=100)
    assert (law.frequencies().sum(axis=0)[:3] <= np.array(campaign.caps) + 1e-9).all()


def test_large_campaigns_take_prices_unless_a_draw_is_shared(monkeypatch):
    monkeypatch.setattr("disco.policy.propensity.RESOLVE_AT_MOST", 50)
    campaign = Campaign(rows=60)
    assert campaign.law(Thompson(), draws=5).method == "prices"
    assert campaign.law(Thompson(scope="round"), draws=5).method == "resolve"
    assert Campaign(rows=50).law(Thompson(), draws=5).method == "resolve"


def test_draws_are_repeatable_and_not_those_of_the_decision():
    campaign = Campaign(rows=50)
    one, two, other = (campaign.law(Thompson(), draws=40, seed=seed) for seed in (1, 1, 2))
    assert (one.counts == two.counts).all()
    assert (one.counts != other.counts).any()


@pytest.mark.parametrize(
    "policy", [Greedy(), UpperConfidence(), Thompson(exploration=0.0), EpsilonGreedy(epsilon=0.0)], ids=repr
)
def test_deterministic_policies_are_marked(policy):
    law = Campaign(rows=30).law(policy, draws=100)
    assert policy.deterministic
    assert (law.deterministic, law.draws) == (True, 1)
    assert law.played(np.full(30, -1)).tolist() == [1.0] * 30


@pytest.mark.parametrize("policy", [Thompson(), Thompson(scope="round"), EpsilonGreedy(), Random()], ids=repr)
def test_policies_that_explore_are_not(policy):
    assert not policy.deterministic


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 0}, "draws: found 0"),
        ({"draws": "many"}, "draws: found 'many'"),
        ({"draws": 10.0}, "draws: found 10.0"),
        ({"method": "guess"}, "'auto'"),
        ({"price_resolves": 0}, "price_resolves: found 0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Campaign(rows=10).law(Thompson(), **settings)


def test_a_shared_draw_has_no_certain_prices():
    with pytest.raises(InputError, match="moves the prices"):
        Campaign(rows=10).law(Thompson(scope="round"), method="prices")


def test_bad_questions_are_refused():
    law = Propensities(counts=np.array([[4, 6]]), draws=10, method="resolve", resolves=10)
    with pytest.raises(InputError, match="floor"):
        law.played(np.array([0]), floor=1.5)
    with pytest.raises(InputError, match="floor: found 'low'"):
        law.played(np.array([0]), floor="low")
    with pytest.raises(InputError, match="choice, row 1: found 1"):
        law.played(np.array([1]))
    for choice in ([0, 0], [0.5], ["a"]):
        with pytest.raises(InputError, match="choice"):
            law.played(choice)
    assert law.played([0]).tolist() == [5 / 11]
