"""Counts of codes: exact, a group, matured codes only, per depth and bin of the engagement score."""

import numpy as np
import pytest

from disco.belief import EngagementCounts, ScoreBins
from disco.records.errors import InputError, SchemaMismatchError

BINS = ScoreBins([-0.5, 0.5], [-1.0, 0.0, 1.0])


def rows(count, *, seed=1):
    generator = np.random.default_rng(seed)
    score = generator.normal(size=count)
    score[generator.random(count) < 0.1] = np.nan
    return generator.choice([0.1, 0.2, 0.4], count), generator.random(count) < 0.3, score


@pytest.mark.parametrize("count", [500, 60_000])
def test_codes_are_counted_per_depth_and_bin(count):
    """Few rows are sorted and many are counted by the kernel: both against a plain count."""
    depth, redeemed, score = rows(count)
    counts = EngagementCounts.of(depth, redeemed, score=score, bins=BINS)
    place = BINS.places(score)
    for j, a in enumerate([0.1, 0.2, 0.4]):
        for b in range(4):
            cell = (depth == a) & (place == b)
            assert (counts.sent[j, b], counts.redeemed[j, b]) == (cell.sum(), (cell & redeemed).sum())
    assert counts.margin == EngagementCounts.of(depth, redeemed)
    assert counts.margin.bins is None


def test_many_distinct_depths_are_counted_all_the_same():
    generator = np.random.default_rng(3)
    depth, redeemed = generator.integers(0, 500, 30_000) / 1000, generator.random(30_000) < 0.2
    counts = EngagementCounts.of(depth, redeemed)
    seen, sent = np.unique(depth, return_counts=True)
    assert (counts.depths.tolist(), counts.sent.tolist()) == (seen.tolist(), sent.tolist())
    assert counts.redeemed.sum() == redeemed.sum()


def test_any_split_and_order_of_codes_gives_equal_counts():
    depth, redeemed, score = rows(70_000)
    whole = EngagementCounts.of(depth, redeemed, score=score, bins=BINS)
    order = np.random.default_rng(2).permutation(70_000)
    total = EngagementCounts()
    for part in np.array_split(order, [10, 30_000, 69_000]):
        total = total + EngagementCounts.of(depth[part], redeemed[part], score=score[part], bins=BINS)
    assert total == whole
    assert hash(total) == hash(whole)
    assert total - whole == EngagementCounts(bins=BINS)


def test_without_scores_every_code_is_in_the_last_column():
    counts = EngagementCounts.of([0.1, 0.1], [True, False], bins=BINS)
    assert counts.sent.tolist() == [[0, 0, 0, 2]]


def test_matured_codes_keep_their_scores():
    counts = EngagementCounts.matured(
        [0.1, 0.1],
        np.array([True, False]),
        valid_until=["2027-03-10", "2027-03-19"],
        as_of="2027-03-20",
        score=[0.9, -0.9],
        bins=BINS,
    )
    assert counts.sent.tolist() == [[0, 0, 1, 0]]


def test_counts_of_other_bins_are_refused():
    with_bins = EngagementCounts.of([0.1], [True], score=[0.0], bins=BINS)
    other = EngagementCounts.of([0.1], [True], score=[0.0], bins=ScoreBins([0.0], [-1.0, 1.0]))
    for wrong in (other, with_bins.margin):
        with pytest.raises(SchemaMismatchError, match="other bins"):
            with_bins + wrong
        with pytest.raises(SchemaMismatchError, match="other bins"):
            wrong - with_bins
    assert with_bins != with_bins.margin


def test_empty_counts_take_the_bins_of_the_others():
    with_bins = EngagementCounts.of([0.1], [True], score=[0.0], bins=BINS)
    assert EngagementCounts() + with_bins == with_bins
    assert with_bins + EngagementCounts() == with_bins
    assert with_bins - EngagementCounts() == with_bins
    # counts of no codes say nothing about how others were counted
    without = EngagementCounts([0.1, 0.2], [10, 20], [1, 2])
    assert EngagementCounts(bins=BINS) + without == without
    assert without + EngagementCounts(bins=BINS) == without


def test_counts_cannot_be_changed_in_place():
    counts = EngagementCounts([0.1], [10], [1])
    for array in (counts.depths, counts.sent, counts.redeemed):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_only_matured_codes_count():
    counts = EngagementCounts.matured(
        [0.1, 0.1, 0.1, 0.2],
        np.array([True, False, True, False]),
        valid_until=["2027-03-10", "2027-03-10", "2027-03-19", "2027-03-20"],
        as_of="2027-03-20",
        grace_days=3,
    )
    assert (counts.depths.tolist(), counts.sent.tolist(), counts.redeemed.tolist()) == ([0.1], [2], [1])


def test_counting_in_mid_campaign_does_not_push_the_rate_down():
    generator = np.random.default_rng(5)
    sent = np.datetime64("2027-03-01") + generator.integers(0, 20, 20_000).astype("timedelta64[D]")
    redeemed_after = np.where(generator.random(20_000) < 0.2, generator.integers(0, 14, 20_000), 9999)
    now = np.datetime64("2027-03-25")
    seen = (sent + redeemed_after.astype("timedelta64[D]")) <= now
    depth = np.full(20_000, 0.3)
    until = sent + np.timedelta64(14, "D")
    matured = EngagementCounts.matured(depth, seen, valid_until=until, as_of=now, grace_days=1)
    naive = EngagementCounts.of(depth, seen)
    assert matured.redeemed[0] / matured.sent[0] == pytest.approx(0.2, abs=0.015)
    assert naive.redeemed[0] / naive.sent[0] < 0.19


def test_counts_are_a_group():
    a = EngagementCounts([0.1, 0.2], [5, 6], [1, 2])
    b = EngagementCounts([0.2, 0.4], [3, 4], [3, 0])
    assert (a + b) - b == a
    assert a + b == b + a
    assert hash(a + b) == hash(b + a)
    assert (a - a).depths.size == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: EngagementCounts([0.1], [5], [6]),
        lambda: EngagementCounts([0.1], [-5], [0]),
        lambda: EngagementCounts([0.1, 0.1], [5, 5], [1, 1]),
        lambda: EngagementCounts([np.nan], [5], [1]),
        lambda: EngagementCounts([0.1], [5.5], [1]),
        lambda: EngagementCounts([0.1], [5, 6], [1]),
        lambda: EngagementCounts.of([0.1], [0.5]),
        lambda: EngagementCounts([0.1], [1], [1]) - EngagementCounts([0.1], [2], [1]),
        lambda: EngagementCounts.matured([0.1], np.array([True]), valid_until=["NaT"], as_of="2027-01-01"),
        lambda: EngagementCounts.matured([0.1], np.array([True]), valid_until=["soon"], as_of="2027-01-01"),
        lambda: EngagementCounts.matured([0.1], np.array([True]), valid_until=["2027-01-01"], as_of="NaT"),
        lambda: EngagementCounts.matured([0.1], np.array([True]), valid_until=["2027-01-01"] * 2, as_of="2027-01-01"),
        lambda: EngagementCounts([0.1], [5], [1], BINS),
        lambda: EngagementCounts([0.1], [[5, 5]], [[1, 1]], BINS),
        lambda: EngagementCounts([0.1], [[5, 5]], [[1, 1]]),
        lambda: EngagementCounts([0.1], [5], [1], "bins"),
        lambda: EngagementCounts.of([0.1], [True], score=[0.5]),
        lambda: EngagementCounts.of([0.1], [True], score=[0.5, 0.6], bins=BINS),
    ],
)
def test_nonsense_is_refused(make):
    with pytest.raises(InputError):
        make()
