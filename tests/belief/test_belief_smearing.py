"""Money where ln F is not normal: the sums it rests on, the factor by hand, and what stays as it was without it."""

import numpy as np
import pytest

from disco.belief import BasketModel, Evidence, LinearDepth, demand_curve, draw_full_price_totals
from disco.belief.engagement import Engagement
from disco.belief.model_file import from_bytes, to_bytes
from disco.belief.smearing import COMMON_SD, DEPTH_SD, Smearing
from disco.records.errors import InputError

DEPTHS = np.array([0.1, 0.3])


def purchases(rows: int, *, skew: float = 1.0, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contexts, depths and prices whose residual of ln F is a centred gamma: skewed to the right, or to the left."""
    rng = np.random.default_rng(seed)
    context, depth = rng.normal(size=(rows, 2)).clip(-4, 4), rng.choice(DEPTHS, rows)
    residual = skew * 0.6 * (rng.gamma(2.0, 1.0, rows) - 2.0) / np.sqrt(2.0)
    return context, depth, np.exp(3.5 + context @ [0.2, -0.1] + depth + residual).round(2)


def learned(rows: int = 4000, *, smearing: bool = True, **more: float) -> BasketModel:
    return BasketModel(encoding=LinearDepth(), smearing=smearing).update(*purchases(rows, **more))


def test_money_is_summed_exactly_whatever_the_parts():
    context, depth, price = purchases(500)
    whole = Evidence.of(context, depth, price)
    parts = [Evidence.of(context[rows], depth[rows], price[rows]) for rows in (slice(0, 130), slice(130, 500))]
    assert (parts[1] + parts[0]).paid.tolist() == whole.paid.tolist()
    assert (whole - parts[1]).paid.tolist() == parts[0].paid.tolist()
    assert (whole - parts[0] - parts[1]).paid.shape == (0, 2)
    units = [sum(int(np.rint(one * 2**16)) for one in price[depth == at]) for at in DEPTHS]
    assert [high * 2**40 + low for high, low in whole.paid.tolist()] == units
    assert whole.full_prices() == pytest.approx([price[depth == at].sum() for at in DEPTHS], rel=1e-6)


def test_evidence_that_does_not_know_its_money_stays_evidence():
    known = Evidence.of(*purchases(50))
    unknown = known.without_paid()
    assert unknown == known
    assert unknown.hash == known.hash
    assert (known + unknown).paid is None
    assert (known + Evidence.empty(2)).paid.tolist() == known.paid.tolist()
    model = BasketModel(smearing=True).add(unknown)
    assert model.money_smearing.factors(DEPTHS).tolist() == [1.0, 1.0]


def test_stored_money_that_no_purchases_have_is_refused():
    evidence = Evidence.of(*purchases(50))
    arrays = evidence.depths, evidence.high, evidence.low
    for paid in (evidence.paid // 2, evidence.paid[:1], -evidence.paid, evidence.paid.astype(float)):
        with pytest.raises(InputError, match="paid"):
            Evidence.from_arrays(*arrays, paid)


def test_the_factor_shrinks_by_the_two_level_rule():
    """By an independent reference: the conditional mean of (c, d) given ln r, from the joint normal."""
    ratios, chance = np.array([0.2, 0.1]), np.array([0.003, 0.05])
    found = Smearing.of(DEPTHS, ratios, chance)
    joint = np.full((2, 2), COMMON_SD**2) + DEPTH_SD**2 * np.eye(2)
    mean = joint @ np.linalg.solve(joint + np.diag(chance), ratios)
    assert np.log(found.factors(DEPTHS)) == pytest.approx(mean)
    ends = np.log(found.factors(np.array([0.0, 0.2, 0.9])))
    assert ends == pytest.approx([found.common, mean.mean(), found.common])


@pytest.mark.parametrize("skew", [1.0, -1.0])
def test_money_is_what_was_paid_where_the_law_is_skewed(skew):
    context, depth, price = purchases(20_000, skew=skew)
    for smearing, off in ((True, 0.003), (False, 0.03)):
        model = BasketModel(encoding=LinearDepth(), smearing=smearing).update(context, depth, price)
        expected = model.expected_full_price(context, DEPTHS)[np.arange(price.size), np.searchsorted(DEPTHS, depth)]
        error = abs(expected.sum() / price.sum() - 1)
        assert (error < off) == smearing
        curve = demand_curve(model, context[:1], DEPTHS, draws=50)
        assert curve.full_price.mean == pytest.approx(model.expected_full_price(context[:1], DEPTHS)[0], rel=1e-6)


def test_few_purchases_change_money_little():
    assert abs(np.log(learned(4).money_smearing.factors(DEPTHS))).max() < 0.12


def test_without_it_the_model_keeps_its_bytes_and_with_it_only_money_changes():
    without, with_it = learned(smearing=False), learned()
    unknowing = BasketModel(encoding=LinearDepth()).add(without.evidence.without_paid())
    assert without.hash == unknowing.hash
    assert to_bytes(without) == to_bytes(unknowing)
    assert with_it.hash != without.hash
    context = purchases(5)[0]
    assert with_it.predict(context, 0.1)[0].tolist() == without.predict(context, 0.1)[0].tolist()
    ratio = with_it.expected_full_price(context, DEPTHS) / without.expected_full_price(context, DEPTHS)
    assert ratio == pytest.approx(np.tile(with_it.money_smearing.factors(DEPTHS), (5, 1)))


def test_a_file_brings_it_back_and_undoing_purchases_undoes_it():
    model = learned()
    again = from_bytes(to_bytes(model), make=BasketModel)
    assert again == model
    assert again.money_smearing.factors(DEPTHS).tolist() == model.money_smearing.factors(DEPTHS).tolist()
    more = Evidence.of(*purchases(700, seed=2))
    assert model.add(more).remove(more) == model


def test_draws_of_totals_contain_it():
    context, depth, _ = purchases(3000)
    choice = np.searchsorted(DEPTHS, depth)
    engagement = Engagement(override={0.1: 0.2, 0.3: 0.2})
    totals = [
        draw_full_price_totals(learned(smearing=on), context, choice, DEPTHS, engagement=engagement, draws=60)
        for on in (True, False)
    ]
    factors = learned().money_smearing.factors(DEPTHS)
    assert totals[0].mean(axis=0) / totals[1].mean(axis=0) == pytest.approx(factors, rel=1e-6)
