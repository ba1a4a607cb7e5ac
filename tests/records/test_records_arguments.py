"""Arguments are read or refused by name; estimates have both ends or none."""

import numpy as np
import pytest

from disco.records.arguments import (
    read_array,
    read_column,
    read_count,
    read_level,
    read_matrix,
    read_non_negative,
    read_number,
    read_numbers,
    read_positive,
    read_seed,
    read_share,
)
from disco.records.errors import InputError
from disco.records.estimate import Estimate

NO_NUMBERS = [True, np.True_, "3", None, float("nan"), float("inf"), 10**400, [1.0], 1j]


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("read", [read_number, read_positive, read_non_negative, read_share])
def test_what_is_no_finite_number_is_refused_by_name(read, value):
    with pytest.raises(InputError, match=r"^the_name: found"):
        read(value, where="the_name")


@pytest.mark.parametrize(
    ("read", "inside", "outside"),
    [
        (read_positive, 1e-300, 0.0),
        (read_non_negative, 0.0, -1e-300),
        (read_share, 1.0, 1.0000001),
        (read_share, 0, -0.1),
    ],
)
def test_ends_of_a_range_belong_to_it_or_not(read, inside, outside):
    assert read(inside, where="x") == float(inside)
    with pytest.raises(InputError):
        read(outside, where="x")


@pytest.mark.parametrize("level", [0, 1, -0.5, 95])
def test_a_level_lies_strictly_between_0_and_1(level):
    with pytest.raises(InputError, match="level"):
        read_level(level)


@pytest.mark.parametrize("value", [True, 1.0, "1", 0, -1, None])
def test_a_count_is_a_whole_number_of_at_least_one(value):
    with pytest.raises(InputError, match="draws"):
        read_count(value, where="draws")
    assert read_count(np.int32(1), where="draws") == 1
    assert read_seed(-7) == -7


def test_arrays_keep_nan_and_refuse_text_dates_and_masks():
    assert np.isnan(read_array([1.0, None], where="x")[1])
    for wrong in (["1"], np.array(["2020-01-01"], "datetime64[D]"), [[1, 2], [3]], np.ma.masked_array([1.0], [True])):
        with pytest.raises(InputError, match=r"^x: found"):
            read_array(wrong, where="x")
    with pytest.raises(InputError, match="for each of 3 rows"):
        read_column([1.0, 2.0], where="x", rows=3)
    assert read_matrix([1.0, 2.0], where="x", rows=2).shape == (2, 1)
    with pytest.raises(InputError, match="not empty"):
        read_matrix(np.empty((0, 2)), where="x")
    with pytest.raises(InputError, match="above 0"):
        read_numbers([1.0, 0.0], where="widths", positive=True)


def test_an_estimate_has_both_ends_in_order_or_none():
    assert Estimate(1.0).ends is None
    assert not Estimate(1.0).covers(1.0)
    assert Estimate(1.0, -np.inf, np.inf, 0.95).covers(5.0)
    for wrong in ((1.0, 0.0, None), (1.0, 2.0, 1.0), (float("nan"), None, None)):
        with pytest.raises(InputError, match="estimate"):
            Estimate(*wrong)
    drawn = Estimate.around(50.0, np.arange(101.0), level=0.9)
    assert (drawn.value, drawn.level) == (50.0, 0.9)
    assert drawn.ends == pytest.approx((5.0, 95.0))
