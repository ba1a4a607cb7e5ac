"""IPS, SNIPS, DR: by hand, against plain loops, by unbiasedness and by coverage over repeated logs."""

import numpy as np
import pytest

from disco.belief import BasketModel, Engagement
from disco.campaign import Belief, decide
from disco.evaluation.off_policy import off_policy, off_policy_difference, target_probabilities
from disco.operations.replay import decision_propensities
from disco.policy import EpsilonGreedy, Greedy, Thompson
from disco.records.decisions import Audience, Offer
from disco.records.errors import InfeasibleError, InputError


def test_by_hand():
    found = off_policy(
        np.array([4.0, 6.0, 1.0]),
        propensity=np.array([0.5, 0.25, 0.8]),
        target=np.array([0.25, 0.5, 0.0]),
        predicted_logged=np.array([3.0, 5.0, 9.0]),
        predicted_target=np.array([2.0, 4.0, 6.0]),
    )
    # weights 0.5, 2, 0
    assert found.ips.value == pytest.approx((2 + 12) / 3)
    assert found.snips.value == pytest.approx(14 / 2.5)
    assert found.dr.value == pytest.approx((2 + 0.5 + 4 + 2 + 6) / 3)
    assert found.effective_rows == pytest.approx(2.5**2 / 4.25)
    assert found.largest_weight == 2


def test_errors_against_plain_loops():
    rng = np.random.default_rng(1)
    figure, propensity, target = rng.gamma(2, 5, 40), rng.uniform(0.2, 0.9, 40), rng.uniform(0, 1, 40)
    found = off_policy(figure, propensity=propensity, target=target)
    terms = [t / p * y for y, p, t in zip(figure, propensity, target, strict=True)]
    assert found.ips.standard_error == pytest.approx(np.std(terms, ddof=1) / np.sqrt(40))
    weights = [t / p for p, t in zip(propensity, target, strict=True)]
    value = sum(terms) / sum(weights)
    linear = sum((w * (y - value)) ** 2 for w, y in zip(weights, figure, strict=True))
    assert found.snips.standard_error == pytest.approx(np.sqrt(40 / 39 * linear) / sum(weights))
    assert found.dr is None


def test_without_knowledge_doubly_robust_is_ips_and_with_a_perfect_model_it_is_certain():
    rng = np.random.default_rng(2)
    figure, propensity, target = rng.gamma(2, 5, 30), rng.uniform(0.2, 0.9, 30), rng.uniform(0, 1, 30)
    log = {"propensity": propensity, "target": target}
    nothing = off_policy(figure, **log, predicted_logged=np.zeros(30), predicted_target=np.zeros(30))
    assert nothing.dr.value == pytest.approx(nothing.ips.value)
    perfect = off_policy(figure, **log, predicted_logged=figure, predicted_target=np.full(30, 7.0))
    assert (perfect.dr.value, perfect.dr.standard_error) == (pytest.approx(7.0), pytest.approx(0.0, abs=1e-12))


def test_a_target_that_never_matches_has_no_snips():
    found = off_policy(np.ones(3), propensity=np.full(3, 0.5), target=np.zeros(3))
    assert (found.ips.value, found.snips, found.effective_rows) == (0.0, None, 0.0)


def test_ips_and_doubly_robust_are_unbiased(offline):
    """The mean over many small logs lies within four of its own standard errors of the truth, also with a wrong q."""
    truth = offline.expectation(lambda x: (offline.target_policy(x) * offline.revenue_rate(x)).sum(axis=1))
    rng = np.random.default_rng(3)
    values = []
    for _ in range(600):
        x = offline.customers(rng, 100)
        law, target = offline.logging_policy(x), offline.target_policy(x)
        place = (rng.random((100, 1)) > law.cumsum(axis=1)[:, :2]).sum(axis=1)
        found = off_policy(
            np.nan_to_num(offline.outcomes(rng, x, place)) * (1 - offline.GRID[place]),
            propensity=offline.at_choice(law, place),
            target=target_probabilities(target, law, place),
            predicted_logged=np.full(100, 50.0),
            predicted_target=np.full(100, 50.0),
        )
        values.append((found.ips.value, found.dr.value))
    mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(600)
    assert (np.abs(mean - truth) < 4 * error).all()


def test_intervals_cover_the_truth_at_their_rate(offline):
    runs = 400
    low, high = offline.band(runs, 0.95)
    for name, covered in offline.off_policy_coverage(runs, rows=2000).items():
        # shares estimated within strata are treated as known: conservative, so no upper limit there
        assert low <= covered / runs <= (1.0 if "strata" in name else high), name


GOOD = {"propensity": np.full(3, 0.5), "target": np.ones(3)}


@pytest.mark.parametrize(
    ("figure", "change", "message"),
    [
        ([1.0], {}, "lengths"),
        ([1.0, np.nan, 2.0], {}, "figure, row 2"),
        ([1.0, 2.0, 2.0], {"propensity": np.array([0.5, 0.0, 0.5])}, "propensity, row 2: found 0"),
        ([1.0, 2.0, 2.0], {"propensity": np.array([0.5, 0.4, 1.5])}, "propensity, row 3"),
        ([1.0, 2.0, 2.0], {"target": np.array([0.5, -0.4, 1.0])}, "target, row 2"),
        ([1.0, 2.0, 2.0], {"predicted_target": np.ones(3)}, "both of predicted_logged"),
    ],
)
def test_bad_input_is_refused_by_name(figure, change, message):
    with pytest.raises(InputError, match=message):
        off_policy(np.array(figure), **{**GOOD, **change})


@pytest.mark.parametrize(
    ("target", "logging", "message"),
    [
        ([[0.5, 0.5]], [[1.0, 0.0]], "propensity 0 at position 1"),
        ([[0.5, 0.5]], [[0.5, 0.4]], "logging propensities, row 1.*sum to one"),
        ([[0.9, 0.5]], [[0.5, 0.5]], "target propensities, row 1"),
        ([[1.5, -0.5]], [[0.5, 0.5]], "target propensities, row 1"),
    ],
)
def test_laws_that_no_log_can_tell_are_refused(target, logging, message):
    with pytest.raises(InputError, match=message):
        target_probabilities(np.array(target), np.array(logging), np.array([0]))


def test_a_target_may_give_no_code():
    found = target_probabilities(np.array([[0.2, 0.0]]), np.array([[0.5, 0.5]]), np.array([0]))
    assert found.tolist() == [0.2]


# ---- a campaign's own log --------------------------------------------------------------------------------------------


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


# ---- two policies ----------------------------------------------------------------------------------------------------


def two_policies(rows=400, seed=8):
    rng = np.random.default_rng(seed)
    p, y = rng.uniform(0.2, 0.9, rows), rng.lognormal(3, 1, rows)
    first, second = (rng.random(rows) < share for share in (0.6, 0.5))
    logged, ours, theirs = (rng.normal(20, 5, rows) for _ in range(3))
    return {"figure": y, "propensity": p, "target": first * 1.0}, second * 1.0, (logged, ours, theirs)


def test_the_difference_of_two_policies_is_that_of_their_values_with_paired_errors():
    log, other, (logged, ours, theirs) = two_policies()
    found = off_policy_difference(
        **log, other=other, predicted_logged=logged, predicted_target=ours, predicted_other=theirs
    )
    one = off_policy(**log, predicted_logged=logged, predicted_target=ours)
    two = off_policy(**{**log, "target": other}, predicted_logged=logged, predicted_target=theirs)
    for name in ("ips", "snips", "dr"):
        apart = getattr(one, name).value - getattr(two, name).value
        assert getattr(found, name).value == pytest.approx(apart)
    w1, w2 = log["target"] / log["propensity"], other / log["propensity"]
    terms = {
        "ips": (w1 - w2) * log["figure"],
        "dr": ours - theirs + (w1 - w2) * (log["figure"] - logged),
        "snips": w1 * (log["figure"] - one.snips.value) / w1.mean()
        - w2 * (log["figure"] - two.snips.value) / w2.mean(),
    }
    for name, each in terms.items():
        assert getattr(found, name).standard_error == pytest.approx(each.std(ddof=1) / np.sqrt(each.size))


def test_policies_that_agree_differ_by_exactly_nothing_and_their_order_by_the_sign():
    log, other, _ = two_policies()
    same = off_policy_difference(**log, other=log["target"])
    assert (same.ips.value, same.ips.lower, same.ips.upper) == (0, 0, 0)
    one = off_policy_difference(**log, other=other)
    back = off_policy_difference(**{**log, "target": other}, other=log["target"])
    for name in ("ips", "snips"):
        ahead, behind = getattr(one, name), getattr(back, name)
        assert (ahead.value, ahead.lower, ahead.upper) == pytest.approx((-behind.value, -behind.upper, -behind.lower))


def test_nobody_bought_gives_no_interval_of_one_point():
    log = {"figure": np.zeros(50), "propensity": np.full(50, 0.5), "target": np.tile([1.0, 0.0], 25)}
    found = off_policy(**log, predicted_logged=np.zeros(50), predicted_target=np.zeros(50))
    for estimate in (found.ips, found.snips, found.dr):
        assert (estimate.value, estimate.lower, estimate.upper) == (0, -np.inf, np.inf)
    both = off_policy_difference(**log, other=np.tile([0.0, 1.0], 25))
    assert both.ips.covers(5.0)


def test_predictions_come_all_together_and_probabilities_are_checked():
    log, other, (logged, *_) = two_policies()
    with pytest.raises(InputError, match="predicted_logged alone"):
        off_policy_difference(**log, other=other, predicted_logged=logged)
    with pytest.raises(InputError, match="other, row 1"):
        off_policy_difference(**log, other=other + 2)
