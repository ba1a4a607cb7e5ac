"""Evidence is a group of exact integers: by hand, against Python's integers, and under any batching."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco.belief import BasketModel, Evidence, OneHotDepth
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
