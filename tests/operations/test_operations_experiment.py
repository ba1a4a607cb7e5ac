"""What is said about a test of one's own: each verdict in words, from the table."""

import numpy as np
import pyarrow as pa

from disco.operations.experiment import read_experiment


def table_of(new, control, **columns):
    """Figures of both arms, the new one first."""
    arms = ["new"] * len(new) + ["control"] * len(control)
    return pa.table({"arm": arms, "figure": np.r_[new, control].astype(np.float64), **columns})


def sentence(table, metric="figure", **options):
    return read_experiment(table, arm="arm", metrics=[metric], **options).differences[0].sentence


def test_a_percentage_is_stated_where_control_is_clearly_above_zero():
    rng = np.random.default_rng(4)
    assert "figure: new is higher than control by " in sentence(table_of(rng.normal(6, 1, 90), rng.normal(5, 1, 90)))
    few = np.r_[20.0, 1.0, 30.0, np.zeros(57)]  # the difference is clear, and any percentage may be true
    assert "new is higher than control (" in sentence(table_of(np.r_[np.linspace(40, 80, 30), np.zeros(30)], few))


def test_an_adjusted_difference_is_called_so():
    """Figures as measured and an adjusted difference may have different signs."""
    rng = np.random.default_rng(3)
    known = rng.normal(size=200)
    figures = 10 + 3 * known + rng.normal(size=200)
    table = table_of(figures[:100], figures[100:], known=known)
    assert "; difference " in sentence(table)
    assert "; adjusted difference " in sentence(table, before=["known"])


def test_a_difference_that_only_many_comparisons_hide_is_said_to_be_so():
    rng = np.random.default_rng(6)
    first, second = rng.normal(size=500), rng.normal(size=500)
    second += first.mean() - second.mean() + 0.14  # p is about 0.03
    figures = np.r_[second, first]
    others = {f"m{number}": rng.permutation(figures) for number in range(9)}
    table = table_of(second, first, **others)
    found = read_experiment(table, arm="arm", metrics=["figure", *others]).differences[0]
    assert 0.01 < found.p_value < 0.05
    assert found.verdict == "undecided"
    assert "once all comparisons are adjusted for" in found.sentence


def test_what_cannot_be_told_is_said():
    same = table_of(np.full(5, 3.0), np.full(5, 3.0), orders=np.r_[np.zeros(5), np.ones(5)])
    assert "the figure does not vary" in sentence(same)
    assert "the denominator is 0" in sentence(same, "figure/orders")
    lost = table_of(np.arange(4000) % 3, np.arange(5000) % 3)
    assert "no verdict about new" in sentence(lost)


def test_a_column_of_nothing_but_zeros_may_be_an_amount():
    words = "read as a rate; of an amount nothing could be said"
    assert words in sentence(table_of(np.zeros(300), np.zeros(300)))
    third = pa.table({"arm": ["new", "control", "other"] * 100, "figure": np.tile([0.0, 0.0, 1.0], 100)})
    assert words not in sentence(third)


def test_an_end_near_zero_is_written_with_its_sign():
    rng = np.random.default_rng(3)
    first, second = rng.normal(5, 1, 400), rng.normal(5, 1, 400)
    edge = read_experiment(table_of(first, second), arm="arm", metrics=["figure"]).differences[0].difference
    # the lower end is now −0.0004
    assert "interval −0.0004 to +" in sentence(table_of(first - edge.lower - 0.0004, second))
