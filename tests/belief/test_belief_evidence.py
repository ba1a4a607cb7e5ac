"""Evidence and counts of codes are groups of exact integers: by hand, against plain counts, under any batching."""

import itertools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.belief import BasketModel, EngagementCounts, Evidence, OneHotDepth, RadialBasis, ScoreBins, evidence
from disco.records.errors import InputError, SchemaMismatchError


def some_rows(count: int, *, seed: int = 3, d1: int = 3, depths=(0.1, 0.25, 0.4)):
    generator = np.random.default_rng(seed)
    context = generator.normal(0, 1.5, (count, d1)).clip(-4, 4)
    return context, generator.choice(depths, count), np.exp(generator.normal(3.5, 0.8, count))


def python_sums(context, depth, full_price):
    """The definition, in Python's unbounded integers."""
    sums = {}
    for x, d, f in zip(context, depth, full_price, strict=True):
        z = [1, *(round(float(v) * 65536) for v in x), round(float(np.log(f)) * 65536)]
        entries = [a * b for a, b in itertools.combinations_with_replacement(z, 2)]
        sums[float(d)] = [s + e for s, e in zip(sums.get(float(d), [0] * len(entries)), entries, strict=True)]
    return sums


def test_by_hand():
    evidence = Evidence.of([[0.5], [-2.0]], [0.3, 0.3], [np.exp(1.0), np.exp(2.0)])
    unit = 65536
    # n, Σx, Σy, Σxx, Σxy, Σyy with x = ½, −2 and y = 1, 2, in grid units
    assert evidence.exact(0.3) == [2, -1.5 * unit, 3 * unit, 4.25 * unit**2, -3.5 * unit**2, 5 * unit**2]
    np.testing.assert_array_equal(evidence.sums()[0], [[2, -1.5, 3], [-1.5, 4.25, -3.5], [3, -3.5, 5]])


def test_other_rows_are_other_evidence_and_nothing_else_is_evidence():
    rows = some_rows(50)
    evidence = Evidence.of(*rows)
    assert evidence == Evidence.of(*rows)
    assert evidence != Evidence.of(*(column[:49] for column in rows))
    assert evidence != evidence.hash


def test_equals_pythons_integers():
    rows = some_rows(700)
    evidence = Evidence.of(*rows)
    expected = python_sums(*rows)
    assert evidence.depths.tolist() == sorted(expected)
    assert {depth: evidence.exact(depth) for depth in expected} == expected


def test_moments_are_those_of_the_rows():
    context, depth, price = some_rows(100_000)
    sums = Evidence.of(context, depth, price).sums().sum(axis=0)
    z = np.column_stack((np.ones(len(depth)), context, np.log(price)))
    # rounding to the grid moves a figure by at most 2⁻¹⁷
    np.testing.assert_allclose(sums / len(depth), z.T @ z / len(depth), atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 300),
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 300), max_size=6),
    d1=st.integers(0, 5),
)
def test_any_permutation_split_and_merge_gives_the_same_bytes(count, seed, cuts, d1):
    rows = some_rows(count, seed=seed, d1=d1, depths=(0.0, 0.1, 0.2, 0.9))
    whole = Evidence.of(*rows)
    order = np.random.default_rng(seed + 1).permutation(count)
    shuffled = [column[order] for column in rows]
    edges = [0, *sorted(min(cut, count) for cut in cuts), count]
    parts = [Evidence.of(*(column[a:b] for column in shuffled)) for a, b in itertools.pairwise(edges)]
    total = Evidence.empty(d1)
    for part in reversed(parts):
        total = total + part
    assert total == whole
    assert total.hash == whole.hash
    for part in parts:
        assert (whole + part) - part == whole
        assert whole - part + part == whole
        assert whole + part == part + whole
    assert whole - whole == Evidence.empty(d1)
    opposite = -whole
    assert opposite + whole == Evidence.empty(d1)
    assert -opposite == whole


def test_any_number_of_threads_gives_the_same_bytes():
    rows = some_rows(20_000)
    whole = Evidence.of(*rows)
    for threads in (1, 2, 7):
        edges = np.linspace(0, 20_000, threads + 1).astype(int)
        with ThreadPoolExecutor(threads) as pool:
            parts = list(
                pool.map(lambda cut: Evidence.of(*(c[cut[0] : cut[1]] for c in rows)), itertools.pairwise(edges))
            )
        total = sum(parts[1:], parts[0])
        assert total == whole
        assert total.hash == whole.hash


def test_no_overflow_at_a_billion_rows():
    # the largest figures there are: contexts at the edge of ±4, ln F just inside 32
    extreme = Evidence.of(np.full((1000, 2), -4.0), np.full(1000, 0.5), np.full(1000, np.exp(31.999)))
    one = extreme.exact(0.5)
    total = extreme
    for _ in range(24):
        total = total + total
    assert total.total_rows == 1000 * 2**24 > 10**9
    assert total.exact(0.5) == [entry * 2**24 for entry in one]
    assert max(map(abs, total.exact(0.5))) > 2**63  # beyond what an int64 could have held
    np.testing.assert_allclose(total.sums()[0, -1, -1], 1000 * 2**24 * 31.999**2, rtol=1e-4)


def test_too_many_rows_are_refused_not_wrapped():
    total = Evidence.of([[1.0]], [0.5], [20.0])
    for _ in range(59):
        total = total + total
    assert total.total_rows == 2**59
    with pytest.raises(InputError, match="fewer than 2⁶⁰"):
        total + total


def test_differences_without_rows_are_refused_not_wrapped():
    total = Evidence.of([[1.0]], [0.5], [20.0]) - Evidence.of([[2.0]], [0.5], [30.0])
    assert total.total_rows == 0
    one, doublings = total.exact(0.5), 0
    with pytest.raises(InputError, match="sums beyond"):  # noqa: PT012 - exact up to the refusal, whenever it comes
        for doublings in range(1, 200):
            total = total + total
            assert total.exact(0.5) == [entry * 2**doublings for entry in one]
    assert doublings > 60


def test_depths_without_end_are_refused_with_advice():
    many = np.linspace(0, 1, 2**17 + 1)
    with pytest.raises(InputError, match=r"131,073 distinct depths.*basis points"):
        Evidence.of(np.zeros((many.size, 1)), many, np.full(many.size, 20.0))
    assert Evidence.of(np.zeros((many.size - 1, 0)), many[1:], np.full(many.size - 1, 20.0)).depths.size == 2**17


def test_thousands_of_depths_stay_exact():
    depths = np.arange(5000) / 10_000  # basis points
    rows = some_rows(20_000, depths=depths)
    evidence = Evidence.of(*rows)
    assert evidence.depths.size == np.unique(rows[1]).size
    halves = Evidence.of(*(c[:9000] for c in rows)) + Evidence.of(*(c[9000:] for c in rows))
    assert halves == evidence
    assert BasketModel().add(evidence).posterior.rows == 20_000


def test_depths_are_kept_exactly_and_negative_zero_is_zero():
    evidence = Evidence.of(np.zeros((3, 1)), [0.1 + 0.2, 0.3, -0.0], [5.0, 5.0, 5.0])
    assert evidence.depths.tolist() == [0.0, 0.3, 0.1 + 0.2]
    assert not np.signbit(evidence.depths[0])


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("context", "depth", "full_price", "words"),
    [
        ([[NAN]], [0.1], [5.0], "context, row 1, column 1"),
        ([[INF]], [0.1], [5.0], "context"),
        ([[-INF]], [0.1], [5.0], "context"),
        ([[1e308]], [0.1], [5.0], "context"),
        ([[4.0001]], [0.1], [5.0], "within ±4"),
        ([[0.0]], [NAN], [5.0], "depth, row 1"),
        ([[0.0]], [INF], [5.0], "depth"),
        ([[0.0]], [1e308], [5.0], "depth"),
        ([[0.0]], [-0.1], [5.0], "depth"),
        ([[0.0]], [20], [5.0], "depth"),
        ([[0.0]], [0.1], [NAN], "full_price, row 1"),
        ([[0.0]], [0.1], [INF], "full_price"),
        ([[0.0]], [0.1], [-INF], "full_price"),
        ([[0.0]], [0.1], [1e308], "full_price"),
        ([[0.0]], [0.1], [1e-320], "full_price"),
        ([[0.0]], [0.1], [0.0], "full_price"),
        ([[0.0]], [0.1], [-3.0], "full_price"),
        ([[0.0], [1.0]], [0.1], [5.0], "as many"),
        ([0.0], [0.1], [5.0], "shape"),
        ([["a"]], [0.1], [5.0], "context"),
        ([[0.0]], None, [5.0], "depth"),
    ],
)
def test_bad_rows_are_refused_by_name_and_change_nothing(context, depth, full_price, words):
    model = BasketModel().update([[1.0]], [0.2], [30.0])
    before = model.hash, model.evidence.hash
    good = [[1.0]], [0.2], [30.0]
    with pytest.raises(InputError, match=words):
        model.update(context, depth, full_price)
    if np.shape(context) == (1, 1) and depth is not None:  # also when it comes after a good row
        with pytest.raises(InputError, match=words.replace("row 1", "row 2")):
            model.update(*(np.concatenate((g, b)) for g, b in zip(good, (context, depth, full_price), strict=True)))
    assert (model.hash, model.evidence.hash) == before


@pytest.mark.parametrize(
    ("context", "depth", "full_price", "words"),
    [
        ([["1"]], [0.1], [5.0], "context"),
        ([[0.0, 1.0], [0.0]], [0.1, 0.1], [5.0, 5.0], "context"),
        ([[1j]], [0.1], [5.0], "context"),
        (np.array([[1j]]), [0.1], [5.0], "context"),
        ([[0.0]], np.array([0.1 + 1j]), [5.0], "depth"),
        ([[0.0]], [0.1], np.array(["2027-01-01"], "datetime64[D]"), "full_price"),
        ([[0.0]], [0.1], np.ma.masked_array([5.0], [True]), "full_price: found masked"),
        (np.ma.masked_array([[0.0]], [[True]]), [0.1], [5.0], "context: found masked"),
        ([[0.0]], np.ma.masked_array([0.1], [True]), [5.0], "depth: found masked"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_by_name(context, depth, full_price, words):
    for model in (BasketModel(), BasketModel().update([[1.0]], [0.2], [30.0])):
        before = model.hash
        with pytest.raises(InputError, match=words):
            model.update(context, depth, full_price)
        assert model.hash == before


def test_any_container_of_numbers_gives_the_same_bytes():
    plain = Evidence.of([[0.5], [1.0]], [0.2, 0.7], [20.0, 30.5])
    tall = np.array([[0.5, 9], [9, 9], [1.0, 9]])
    assert Evidence.of(tall[::2, :1], np.array([0.2, 9, 0.7])[::2], np.array([20.0, 9, 30.5])[::2]) == plain
    exact = [Decimal("20"), Decimal("30.5")]
    assert Evidence.of(np.array([[0.5], [1.0]], object), [Decimal("0.2"), Decimal("0.7")], exact) == plain
    assert Evidence.of(np.ma.masked_array([[0.5], [1.0]]), [0.2, 0.7], [20.0, 30.5]) == plain


@pytest.mark.parametrize("short", [np.float32, np.float16])
def test_depths_in_fewer_bits_are_the_depths_they_were_written_as(short):
    depths = [0.1, 0.2, 0.35]
    rows = np.zeros((3, 1)), [20.0, 20.0, 20.0]
    assert Evidence.of(rows[0], np.array(depths, short), rows[1]).depths.tolist() == depths
    model = BasketModel(encoding=OneHotDepth(tuple(depths))).update(rows[0], np.array(depths, short), rows[1])
    assert (model.predict(rows[0], np.array(depths, short))[0] == model.predict(rows[0], depths)[0]).all()


def test_the_edges_themselves_are_accepted():
    evidence = Evidence.of([[4.0], [-4.0]], [0.0, 1.0], [np.exp(31.99), np.exp(-31.99)])
    assert evidence.total_rows == 2


def test_an_empty_batch_changes_nothing():
    model = BasketModel().update([[1.0]], [0.2], [30.0])
    assert model.update(np.empty((0, 1)), [], []) is model
    assert model.update([], [], []) is model
    assert BasketModel().update([], [], []).evidence.total_rows == 0


def test_another_schema_is_refused():
    model = BasketModel(context_schema="abc").update([[1.0, 2.0]], [0.2], [30.0])
    with pytest.raises(SchemaMismatchError, match="found 1 columns; expected the 2 columns"):
        model.update([[1.0]], [0.2], [30.0])
    with pytest.raises(SchemaMismatchError, match="found def; expected abc"):
        model.update([[1.0, 2.0]], [0.2], [30.0], context_schema="def")
    with pytest.raises(SchemaMismatchError):
        model.evidence + Evidence.empty(3)
    assert model.update([[1.0, 2.0]], [0.2], [30.0], context_schema="abc").evidence.total_rows == 2


def test_an_unknown_depth_for_one_hot_is_refused_at_the_door():
    model = BasketModel(encoding=OneHotDepth((0.1, 0.2))).update([[1.0]], [0.2], [30.0])
    before = model.evidence.hash
    with pytest.raises(InputError, match="one-hot"):
        model.update([[1.0]], [0.15], [30.0])
    assert model.evidence.hash == before


def test_removing_what_was_never_added_is_refused():
    model = BasketModel().update([[1.0]], [0.2], [30.0], campaign="A")
    with pytest.raises(InputError, match="never added"):
        model.remove(Evidence.of([[1.0], [1.0]], [0.2, 0.2], [30.0, 30.0]), campaign="A")
    with pytest.raises(InputError, match="never added"):
        model.remove(Evidence.of([[1.0]], [0.2], [30.0]), campaign="B")
    with pytest.raises(InputError, match="never added"):
        model.add(-Evidence.of([[1.0]], [0.2], [30.0]), campaign="B")


# ---- the grid costs no accuracy: the bound of docs/decisions/020 -----------------------------------------------------


def test_rounding_moves_a_prediction_by_far_less_than_its_sd():
    generator = np.random.default_rng(1)
    count = 30_000
    context = generator.normal(size=(count, 6)).clip(-4, 4)
    depth = generator.choice([0.65, 0.75, 0.85, 0.95], count)
    log_price = 3.65 + 0.3 * context[:, 0] + depth * (0.7 + 0.2 * context[:, 1]) + 0.72 * generator.normal(size=count)
    encoding = RadialBasis(gamma=20)

    def psi(context, depth):
        x, a = np.column_stack((np.ones(len(depth)), context)), encoding.features(depth)
        return (x[:, :, None] * np.column_stack((np.ones(len(depth)), a))[:, None, :]).reshape(len(depth), -1)

    v0 = np.ones(28)
    v0[0] = 1e-6
    p = psi(context, depth)
    v = np.diag(v0) + p.T @ p
    asked, at = generator.normal(size=(500, 6)).clip(-4, 4), generator.choice([0.3, 0.5, 0.75], 500)
    exact = psi(asked, at) @ np.linalg.solve(v, p.T @ log_price)
    mean, sd = (
        BasketModel(encoding=encoding, noise_sd=0.72).update(context, depth, np.exp(log_price)).predict(asked, at)
    )
    assert np.abs(mean - exact).max() < 1e-4
    assert (np.abs(mean - exact) / sd).max() < 0.01


# ---- codes: exact, a group, matured ones only, per depth and bin of the engagement score -----------------------------


BINS = ScoreBins([-0.5, 0.5], [-1.0, 0.0, 1.0])


def some_codes(count, *, seed=1):
    generator = np.random.default_rng(seed)
    score = generator.normal(size=count)
    score[generator.random(count) < 0.1] = np.nan
    return generator.choice([0.1, 0.2, 0.4], count), generator.random(count) < 0.3, score


@pytest.mark.parametrize("count", [500, 60_000])
def test_codes_are_counted_per_depth_and_bin(count):
    """Few codes are sorted and many are counted by the kernel: both against a plain count."""
    depth, redeemed, score = some_codes(count)
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
    depth, redeemed, score = some_codes(70_000)
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


def test_few_rows_need_no_compiler_and_have_the_bits_of_many():
    """The first update of a process is interpreted: it would wait for the compiler longer than for its answer."""
    context, depth, price = some_rows(300)
    script = (
        "import sys, json; import numpy as np; from disco.belief import BasketModel;"
        "rows = [np.array(part) for part in json.load(sys.stdin)];"
        "model = BasketModel().update(*rows);"
        "print(model.evidence.hash, 'numba' in sys.modules)"
    )
    rows = json.dumps([context.tolist(), depth.tolist(), price.tolist()])
    done = subprocess.run([sys.executable, "-c", script], input=rows, capture_output=True, text=True, check=True)
    assert Evidence.of(*some_rows(30_000)).total_rows == 30_000  # more than is interpreted: the kernel is compiled now
    assert done.stdout.split() == [Evidence.of(context, depth, price).hash, "False"]


def test_one_kernel_serves_writable_and_read_only_rows():
    rows = some_rows(30_000)
    whole = Evidence.of(*rows)
    for part in rows:
        part.flags.writeable = False
    assert Evidence.of(*rows) == whole
    assert len(evidence._tally.compiled().signatures) == 1


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
