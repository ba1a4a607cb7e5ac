"""What a version has learned, by depth: baskets, who buys, and what a code sent is expected to bring."""

import numpy as np
import pytest

from disco.operations.learn import learn_campaigns
from disco.operations.learned import learned_belief
from disco.operations.outcomes import ingest


def learned(shop, *, shallow, deep):
    """A random campaign of which this share of the codes of 10% and of 30% was used."""
    plan = shop.plan(
        policy={"name": "random"}, depths={0.1: {"at_most": 400}, 0.3: {"at_most": 400}}, holdout={"share": 0}
    )
    launched = shop.launch(plan, shop.people(rows=800))
    rows = []
    for depth, share in ((0.1, shallow), (0.3, deep)):
        codes = [row for row in shop.sent(launched) if row["depth"] == depth]
        rows += codes[: round(share * len(codes))]
    prices = np.random.default_rng(1).lognormal(4, 0.5, len(rows)).round(2).tolist()
    ingest(shop.store, "spring", shop.outcomes(rows, full_price=prices), source="test", clock=shop.clock)
    learn_campaigns(shop.store, ["spring"], prior=shop.prior, as_of=shop.after, clock=shop.clock)
    return learned_belief(shop.store)


@pytest.mark.parametrize("kind", ["shop", "scored_shop"])
def test_a_code_brings_the_share_who_buy_times_the_basket_after_the_discount(request, kind):
    found = learned(request.getfixturevalue(kind), shallow=0.1, deep=0.25)
    assert [point.depth for point in found.depths] == [0.1, 0.3]
    for point in found.depths:
        expected = point.basket.value * (1 - point.depth) * point.engagement.value
        assert point.revenue_per_code.value == pytest.approx(expected)
        assert point.revenue_per_code.lower < expected < point.revenue_per_code.upper
        assert point.codes == 400
    assert found.warnings == ()
    assert found.to_arrow()["revenue_per_code_value"].to_pylist() == [
        point.revenue_per_code.value for point in found.depths
    ]


def test_intervals_of_who_buys_never_fall_with_depth(shop):
    points = learned(shop, shallow=0.2, deep=0.19).depths
    for end in ("lower", "value", "upper"):
        ends = [getattr(point.engagement, end) for point in points]
        assert ends == sorted(ends)


def test_a_deeper_code_that_is_used_less_often_is_warned_of(shop):
    (warning,) = learned(shop, shallow=0.5, deep=0.1).warnings
    assert "Codes of 30% off are used less often than codes of 10% off" in warning
    assert "customers instead of 4" in warning or "customers instead of 5" in warning


@pytest.mark.parametrize("kind", ["shop", "scored_shop"])
def test_the_next_campaign_is_less_certain_than_those_learned_from(request, kind):
    found = learned(request.getfixturevalue(kind), shallow=0.1, deep=0.25)
    assert found.movement.startswith(
        "One past campaign: how far the share who buy moves between campaigns is not known"
    )
    for point in found.depths:
        assert point.next_engagement.value == point.engagement.value
        assert point.next_engagement.lower < point.engagement.lower
        assert point.next_engagement.upper > point.engagement.upper
    assert found.to_arrow()["next_engagement_upper"].to_pylist() == [one.next_engagement.upper for one in found.depths]


def test_codes_that_were_counted_anew_since_say_nothing_about_an_earlier_version(shop):
    assert learned(shop, shallow=0.1, deep=0.25).movement is not None
    with shop.store.reading() as transaction:
        unused = next(row for row in transaction.decisions.of("spring").to_pylist()[::-1] if row["depth"] == 0.3)
    ingest(shop.store, "spring", shop.outcomes([unused], full_price=[20.0]), source="later", clock=shop.clock)
    found = learned_belief(shop.store)
    assert found.movement is None
    assert all(point.next_engagement is None for point in found.depths)
    assert found.to_arrow()["next_engagement_upper"].null_count == 2
