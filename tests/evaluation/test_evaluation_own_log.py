"""A campaign's own log, with its propensities, tells what another policy would have earned."""

import numpy as np
import pytest

from disco.belief import BasketModel, Engagement
from disco.campaign import Belief, decide
from disco.evaluation import decision_propensities, off_policy
from disco.policy import EpsilonGreedy, Greedy, Thompson
from disco.records.decisions import Audience, Offer
from disco.records.errors import InfeasibleError, InputError


@pytest.fixture(scope="module")
def campaign(offline):
    rng = np.random.default_rng(1)
    x, place = offline.customers(rng, 300), rng.integers(0, 3, 300)
    price = offline.outcomes(rng, x, place)
    bought = ~np.isnan(price)
    basket = BasketModel().update(x[bought], offline.GRID[place[bought]], price[bought])
    audience = Audience(ids=np.arange(200), context=offline.customers(rng, 200), known=np.ones(200, np.bool_))
    return {
        "audience": audience,
        "belief": Belief(basket=basket, engagement=Engagement(override=dict.fromkeys(offline.DEPTHS, 1.0))),
        "offer": Offer(depths=offline.DEPTHS, caps=(80, 80, 60), revenue_weight=5.0),
    }


def law(campaign, policy, **changes):
    given = {**campaign, **changes}
    return decision_propensities(given.pop("audience"), **given, policy=policy, campaign="c", draws=300, seed=1)


def test_its_law_is_that_of_decide(campaign):
    found = law(campaign, Thompson())
    times = np.zeros((200, 4))
    for seed in range(300):
        given = dict(campaign)
        choice = decide(given.pop("audience"), **given, policy=Thompson(), campaign="c", seed=seed).choice
        times[np.arange(200), choice] += 1  # -1 is the last column
    frequencies = found.frequencies()
    noise = np.sqrt(2 / np.pi * frequencies * (1 - frequencies) * 2 / 300).sum(axis=1).mean() / 2
    assert np.abs(times / 300 - frequencies).sum(axis=1).mean() / 2 == pytest.approx(noise, rel=0.15)


def test_the_log_of_one_policy_judges_another(offline, campaign):
    """Logged by ε-greedy under caps, judged: a fixed law. The mean over many campaigns meets the truth."""
    policy, x = EpsilonGreedy(epsilon=0.6), campaign["audience"].context
    target = np.tile([0.5, 0.3, 0.2], (200, 1))
    truth = (target * offline.revenue_rate(x)).sum(axis=1).mean()
    found = law(campaign, policy)
    rng = np.random.default_rng(2)
    values = []
    for seed in range(300):
        given = dict(campaign)
        choice = decide(given.pop("audience"), **given, policy=policy, campaign="c", seed=seed).choice
        coded = choice >= 0
        price = np.nan_to_num(offline.outcomes(rng, x, np.maximum(choice, 0))) * (1 - offline.GRID[choice])
        estimate = off_policy(
            np.where(coded, price, 0.0),
            propensity=found.played(choice),
            target=np.where(coded, target[np.arange(200), choice], 0.0),
        )
        values.append(estimate.ips.value)
    error = np.std(values, ddof=1) / np.sqrt(300)
    assert abs(np.mean(values) - truth) < 4 * error + 0.02 * truth  # 300 draws: propensities are known to some per cent


def test_a_budget_has_its_price_in_the_law(campaign, monkeypatch):
    """At averaged prices the budget's price counts too: without it, the law would spend more than there is."""
    expected = campaign["belief"].basket.expected_full_price(
        campaign["audience"].context, np.asarray(campaign["offer"].depths)
    )
    costs = expected * np.asarray(campaign["offer"].depths)
    spent = (law(campaign, Thompson()).frequencies()[:, :3] * costs).sum()
    offer = Offer(depths=(0.1, 0.2, 0.3), caps=(80, 80, 60), revenue_weight=5.0, budget=spent / 2)
    resolved = law(campaign, Thompson(), offer=offer)
    monkeypatch.setattr("disco.policy.propensity.RESOLVE_AT_MOST", 10)
    priced = law(campaign, Thompson(), offer=offer)
    assert (resolved.method, priced.method) == ("resolve", "prices")
    for found in (resolved, priced):
        assert (found.frequencies()[:, :3] * costs).sum() == pytest.approx(spent / 2, rel=0.05)
    assert np.abs(resolved.frequencies() - priced.frequencies()).sum(axis=1).mean() / 2 < 0.08


def test_a_greedy_log_is_marked(campaign):
    assert law(campaign, Greedy()).deterministic


def test_a_log_without_its_propensities_is_refused():
    with pytest.raises(InputError, match="propensity"):
        off_policy(np.ones(3), propensity=np.zeros(3), target=np.ones(3))


def test_limits_that_contradict_each_other_have_no_law(campaign):
    impossible = Offer(depths=(0.1, 0.2, 0.3), caps=(80, 80, 60), floors=(70, 80, 60), revenue_weight=5.0)
    with pytest.raises(InfeasibleError, match="contradict"):
        law(campaign, Thompson(), offer=impossible)
