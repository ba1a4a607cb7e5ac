"""What codes added, per person: against least squares by hand, by coverage, and where nothing can be said."""

import numpy as np
import pytest

from disco.evaluation.added import LEAST_HELD, added, difference, outlook
from disco.records.errors import InputError


def people(rng: np.random.Generator, count: int, share: float, effect: float):
    """Sums of two years: usual spend lasts between them, and codes add more for those who spend more."""
    held = rng.random(count) < share
    usual = rng.gamma(1.5, 40.0, count)
    before = usual * rng.lognormal(-0.18, 0.6, count)
    halves = [usual * rng.lognormal(-0.18, 0.6, count) + effect * usual / 60 * ~held for _ in range(2)]
    return held, before[:, None], halves, float((2 * effect * usual / 60)[~held].sum())


def test_the_difference_is_that_of_two_regressions_at_the_common_mean():
    rng = np.random.default_rng(1)
    held, before, (first, _), _ = people(rng, 3000, 0.1, 8.0)
    found = added(first, held, before=before)
    at_the_mean = []
    for rows in (~held, held):
        design = np.column_stack([np.ones(rows.sum()), before[rows]])
        coefficients = np.linalg.lstsq(design, first[rows], rcond=None)[0]
        at_the_mean.append(coefficients @ [1.0, before.mean()])
    assert found.per_customer.value == pytest.approx(at_the_mean[0] - at_the_mean[1])
    plain = added(first, held)
    assert plain.per_customer.value == pytest.approx(first[~held].mean() - first[held].mean())
    by_hand = np.sqrt(first[~held].var(ddof=1) / (~held).sum() + first[held].var(ddof=1) / held.sum())
    assert plain.per_customer.standard_error == pytest.approx(by_hand, rel=1e-3)
    assert found.per_customer.standard_error < 0.9 * by_hand  # what was known before takes noise away
    assert found.total.value == pytest.approx(found.per_customer.value * (~held).sum())
    assert found.relative == pytest.approx(found.per_customer.value / first[held].mean())


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_interval_covers_what_codes_added_to_these_very_people(share):
    rng, inside = np.random.default_rng(2), 0
    for _ in range(300):
        held, before, halves, truth = people(rng, 1500, share, 6.0)
        inside += added(sum(halves), held, before=before).total.covers(truth)
    assert 255 <= inside <= 300  # 90% of 300, three standard errors down; intervals may be a little wide


def test_a_group_too_small_for_a_regression_is_not_adjusted():
    rng = np.random.default_rng(3)
    held = np.arange(2000) < 50
    before = rng.normal(size=(2000, 3))
    figures = before @ [3.0, 1.0, -2.0] + 10.0
    value, terms = difference(figures, held, before=before)
    assert np.abs(terms[held]).max() > 0.01  # as measured
    assert np.abs(terms[~held]).max() < 1e-12  # explained
    assert np.isfinite(value)


def test_what_share_and_time_do():
    rng = np.random.default_rng(4)
    held = rng.random(40_000) < 0.1
    lasting = rng.gamma(2.0, 10.0, held.size)
    fresh = [lasting + rng.normal(0, 30, held.size) for _ in range(2)]
    found = {(one.share, one.days): one.detectable for one in looked(fresh, held)}
    between, within = 4 * lasting.var(), 2 * 30.0**2
    fall = np.sqrt((between + within / 2) / (between + within))
    assert found[0.1, 200] == pytest.approx(fall * found[0.1, 100], rel=0.01)
    assert found[0.05, 100] == pytest.approx(found[0.1, 100] * np.sqrt(0.1 * 0.9 / 0.05 / 0.95))
    only_lasting = {(one.share, one.days): one.detectable for one in looked([lasting, lasting], held)}
    assert only_lasting[0.1, 200] == pytest.approx(only_lasting[0.1, 100])  # time does not help against people
    assert outlook((np.zeros(200), np.zeros(200)), np.arange(200) < 50, days=9, shares=(0.1,), times=(1.0,)) == ()


def looked(halves, held):
    return outlook(tuple(halves), held, days=100, shares=(0.05, 0.1), times=(1.0, 2.0))


def test_too_few_people_held_out_are_refused_with_their_number():
    held = np.arange(2000) < LEAST_HELD - 1
    with pytest.raises(InputError, match=r"29 of 2,000 people held out \(1\.45%\)"):
        added(np.ones(2000), held)
