"""After retraining, past campaigns are forecast again with the network in use, from what was known when they began."""

import numpy as np
import pytest
from first_forecast import OVER, clock, first_forecast

from disco import Lesson, Purchases
from disco.belief import EngagementCounts
from disco.campaign import learn
from disco.operations.forecast import past_forecasts
from disco.operations.learn import learn_campaigns, rebuild, under_network
from disco.records.forecasting import ForecastRules, Level

MOVING = ForecastRules(level=Level.MOVING)


@pytest.fixture
def life(shop):
    return first_forecast(shop)


def learned(shop):
    return learn_campaigns(shop.store, ["spring", "summer"], prior=shop.prior, as_of=OVER, clock=clock(OVER)).belief


def rebuilt(shop, name, contexts_of):
    return rebuild(
        shop.store, network=name, contexts_of=contexts_of, prior=shop.prior, as_of=OVER, clock=clock(OVER)
    ).belief


def forecasts(shop, belief):
    found = past_forecasts(
        shop.store, learned=("spring", "summer"), as_of=OVER, personal=False, rules=MOVING, belief=belief
    )
    decided, at_random = found.decided[-1], found.at_random[-1]  # of summer
    return decided, at_random


def test_a_network_that_only_renames_contexts_gives_the_forecasts_of_the_plans(shop, life):
    before = forecasts(shop, learned(shop))
    mirrored = rebuilt(shop, "mirror", lambda rows: -shop.people().context[rows["customer_id"].to_numpy()])
    for one, other in zip(forecasts(shop, mirrored), before, strict=True):
        np.testing.assert_allclose(one.expected, other.expected, rtol=1e-9)
        assert (one.actual == other.actual).all()


def test_forecasts_of_a_network_that_sees_less_are_those_it_would_have_made_then(shop, life):
    """By hand: one belief from the first campaign's purchases alone, under the network that sees nothing."""
    spring, bought, paid = life
    before = forecasts(shop, learned(shop))
    blind = rebuilt(shop, "blind", lambda rows: np.zeros((rows.num_rows, 1)))
    known = [at for at, row in enumerate(bought) if row["known"]]
    purchases = Purchases(
        context=np.zeros((len(known), 1)), depth=[bought[at]["depth"] for at in known], full_price=paid[known]
    )
    sent = shop.sent(spring)
    codes = EngagementCounts.of([row["depth"] for row in sent], np.arange(len(sent)) % 3 == 0)
    then = learn(under_network(shop.prior, "blind"), Lesson.of("spring", purchases, codes))
    for one, other in zip(forecasts(shop, blind), before, strict=True):
        worth = then.basket.expected_full_price(np.zeros((1, 1)), one.depths)[0] * then.engagement.rates(one.depths)
        count = one.expected / worth
        np.testing.assert_allclose(count, np.rint(count), atol=1e-6)  # codes of each depth, all alike
        assert np.abs(one.expected / other.expected - 1).max() > 0.01
