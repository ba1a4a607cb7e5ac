"""Depths: read once, named once, and the likely meaning of what is none."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco.records.depths import depth_advice, depth_label, depth_percent, read_depth, read_depths
from disco.records.errors import InputError


@pytest.mark.parametrize("value", ["0.20", "0.2", 0.2, Decimal("0.2"), np.float32(0.2), np.float64(0.2), " 0.2 "])
def test_one_depth_however_it_is_written(value: object) -> None:
    assert read_depth(value) == 0.2


@pytest.mark.parametrize(
    ("value", "meant"),
    [(20, "0.20"), ("20", "0.20"), ("20%", "0.20"), ("12.5 %", "0.125"), (99, "0.99"), (-0.3, "0.30"), (5, "0.05")],
)
def test_a_percentage_is_refused_with_the_share_it_means(value: object, meant: str) -> None:
    with pytest.raises(InputError, match=f"Did you mean {meant}\\?"):
        read_depth(value)


@pytest.mark.parametrize("value", [1, 1.0, 100, 250, "nan", float("nan"), float("inf"), "deep", "", None, True, [0.2]])
def test_what_is_no_depth_is_refused_without_a_guess(value: object) -> None:
    with pytest.raises(InputError) as caught:
        read_depth(value, where="plan.yaml, depths")
    assert "Did you mean" not in str(caught.value)
    assert "plan.yaml, depths" in str(caught.value)


@given(st.floats(0, 1, exclude_max=True))
def test_a_label_reads_back_as_the_same_depth(depth: float) -> None:
    label = depth_label(depth + 0.0)
    assert read_depth(label) == depth
    assert "e" not in label


@given(st.integers(2, 99))
def test_advice_for_every_whole_percentage_is_a_depth(percent: int) -> None:
    advice = depth_advice(percent)
    assert advice is not None
    assert read_depth(advice.removeprefix("Did you mean ").removesuffix("?")) == percent / 100


def test_negative_zero_is_zero() -> None:
    assert depth_label(read_depth(-0.0)) == "0"
    assert depth_percent(0.3) == "30% off"


def test_depths_are_distinct_and_keep_their_order() -> None:
    assert read_depths(["0.3", 0.1]) == (0.3, 0.1)
    with pytest.raises(InputError, match=r"0\.1 twice"):
        read_depths([0.1, "0.10"])
    with pytest.raises(InputError, match="at least one"):
        read_depths([])
