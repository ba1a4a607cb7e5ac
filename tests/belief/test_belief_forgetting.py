"""Forgetting: codes of older campaigns weigh less, and how much less is chosen by what past campaigns say."""

from dataclasses import replace

import numpy as np
import pytest

from disco import BasketModel, Engagement, EngagementCounts
from disco.belief.engagement_posterior import fit
from disco.belief.evidence import aged_counts
from disco.belief.forgetting import forgetting_of_baskets, forgetting_of_codes
from disco.errors import InputError
from disco.records.score import ScoreBins

BINS = ScoreBins([0.0], [-0.7, 0.7])
DEPTHS = np.array([0.1, 0.2, 0.3])


def counts(rates, *, codes=4000, bins=None):
    """Codes whose used share is exactly these rates, (depths,) or (depths, columns)."""
    used = np.rint(codes * np.asarray(rates)).astype(np.int64)
    return EngagementCounts(DEPTHS, np.full(used.shape, codes), used, bins)


def campaigns(*parts, **settings):
    engagement = Engagement(**settings)
    for number, part in enumerate(parts):
        engagement = engagement.with_codes(part, campaign=f"c{number}")
    return engagement


def test_codes_of_older_campaigns_weigh_less_by_hand():
    first, second, third = (counts(rates) for rates in ([0.1, 0.2, 0.3], [0.2, 0.2, 0.2], [0.3, 0.3, 0.3]))
    engagement = campaigns(first, second, third, forgetting=0.5)
    sent, used = aged_counts(engagement.counts, engagement.campaigns, 0.5)
    np.testing.assert_allclose(sent[:, 0], 4000 * 1.75)
    np.testing.assert_allclose(used[:, 0], 0.25 * first.redeemed + 0.5 * second.redeemed + third.redeemed)
    assert engagement.counts == first + second + third  # the integers stay
    known = fit(engagement.counts, prior_rate=0.1, prior_codes=20.0, weighted=(sent, used))
    assert (engagement.posterior.mean == known.mean).all()
    assert engagement.posterior.mean[0] > campaigns(first, second, third).posterior.mean[0]


def test_codes_that_belong_to_no_campaign_do_not_age():
    part = counts([0.1, 0.2, 0.3])
    loose = Engagement(counts=part, forgetting=0.5)
    assert (loose.posterior.mean == Engagement(counts=part).posterior.mean).all()


@pytest.mark.parametrize("bins", [None, BINS])
def test_any_split_of_a_campaign_gives_the_same_bits(bins):
    shape = (3,) if bins is None else (3, 3)
    parts = [counts(np.full(shape, rate), bins=bins) for rate in (0.1, 0.15, 0.2)]
    whole = campaigns(parts[0] + parts[1], parts[2], forgetting=0.7)
    split = campaigns(parts[0], forgetting=0.7).with_codes(parts[2], campaign="c1").with_codes(parts[1], campaign="c0")
    assert whole == split
    assert (whole.rates(DEPTHS) == split.rates(DEPTHS)).all()
    assert whole != replace(whole, campaigns=dict(reversed(whole.campaigns.items())))  # who is older matters


def test_without_forgetting_campaigns_change_no_bit():
    parts = [counts([0.1, 0.2, 0.3]), counts([0.3, 0.3, 0.4])]
    assert campaigns(*parts) == Engagement(counts=parts[0] + parts[1])
    assert (campaigns(*parts).rates(DEPTHS) == Engagement(counts=parts[0] + parts[1]).rates(DEPTHS)).all()


def test_nothing_is_forgotten_where_only_the_level_moves():
    steady = [counts([0.1, 0.15, 0.2])] * 8
    falling = [counts(0.85**place * np.array([0.1, 0.15, 0.2])) for place in range(8)]
    assert forgetting_of_codes(campaigns(*steady)) == 1.0
    assert forgetting_of_codes(campaigns(*falling)) == 1.0


def test_codes_are_forgotten_where_the_response_to_depth_changes():
    fading = [counts([0.15, 0.15 + 0.05 * 0.7**place, 0.15 + 0.15 * 0.7**place]) for place in range(9)]
    assert forgetting_of_codes(campaigns(*fading)) < 0.9
    assert forgetting_of_codes(campaigns(*fading[:3])) == 1.0  # three campaigns are too few to say so


def test_codes_are_forgotten_where_other_customers_answer():
    turning = [counts(np.outer(np.ones(3), [0.1 + 0.02 * at, 0.3 - 0.02 * at, 0.2]), bins=BINS) for at in range(8)]
    assert forgetting_of_codes(campaigns(*turning)) < 1.0


def baskets(slopes, *, level=0.0):
    rng = np.random.default_rng(5)
    model = BasketModel()
    for number, slope in enumerate(slopes):
        context, depth = rng.normal(size=(3000, 1)).clip(-4, 4), rng.choice(DEPTHS, 3000)
        log = 3.0 + level * number + slope * context[:, 0] + 0.5 * depth + rng.normal(scale=0.4, size=3000)
        model = model.update(context, depth, np.exp(log), campaign=f"c{number}")
    return model


def test_baskets_are_forgotten_where_customers_change_and_not_where_only_the_level_does():
    assert forgetting_of_baskets(baskets(np.linspace(0.5, -0.3, 8))) < 0.9
    assert forgetting_of_baskets(baskets([0.3] * 8, level=-0.05)) == 1.0
    assert forgetting_of_baskets(baskets([0.3, -0.3, 0.3])) == 1.0


@pytest.mark.parametrize("forgetting", [0, 1.01, np.nan, True, "half"])
def test_an_impossible_weight_is_refused(forgetting):
    with pytest.raises(InputError, match="engagement forgetting"):
        Engagement(forgetting=forgetting)
