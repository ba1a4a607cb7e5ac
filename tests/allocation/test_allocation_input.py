"""Bad input is named, never repaired and never a surprise."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from disco.allocation import Segments, allocate, frontier
from disco.records.errors import InputError, LimitError

VALUES = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 2.5]])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rows", [3, 300, 20_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_not_a_finite_number_names_its_row(bad, rows, dtype):
    values = np.asfortranarray(np.random.default_rng(0).normal(1, 1, (rows, 2)).astype(dtype))
    values[rows // 2, 1] = bad
    with pytest.raises(InputError, match=f"row {rows // 2 + 1}, column 1"):
        allocate(values, [rows, rows])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("matrix", ["values", "costs"])
@pytest.mark.parametrize("rows", [25_000, 100_000])
def test_with_a_budget_for_many_customers_too(bad, matrix, rows):
    rng, depths = np.random.default_rng(0), np.array([0.1, 0.2, 0.3])
    basket = rng.gamma(3.0, 10.0, (rows, 1))
    costs = basket * depths
    values = 3.0 * basket * (1 - depths) * (0.2 + depths) * rng.uniform(0.8, 1.2, costs.shape) - costs
    money = float(costs[:, 1].sum() * 0.2)
    (values if matrix == "values" else costs)[rows // 2, 1] = bad
    with pytest.raises(InputError, match=f"{matrix}, row {rows // 2 + 1}, column 1"):
        allocate(values, [rows // 4] * 3, costs=costs, budget=money)


def test_more_depths_than_choices_can_name_are_refused():
    with pytest.raises(InputError, match="32,768 columns"):
        allocate(np.zeros((1, 2**15)), None)


def test_bad_costs_are_named():
    with pytest.raises(InputError, match="costs, row 2"):
        allocate(VALUES, [1, 1], costs=[[1, 1], [np.nan, 1], [1, 1]], budget=1)
    with pytest.raises(InputError, match="at least 0"):
        allocate(VALUES, [1, 1], costs=-VALUES, budget=1)
    with pytest.raises(InputError, match="shape"):
        allocate(VALUES, [1, 1], costs=VALUES[:, :1], budget=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"caps": [-1, 2]}, "cap of column 0"),
        ({"caps": [1.5, 2]}, "whole number"),
        ({"caps": [1]}, "one per column"),
        ({"caps": [float("nan"), 2]}, "whole number"),
        ({"caps": [True, 2]}, "whole number"),
        ({"caps": np.array([True, False])}, "found True"),
        ({"caps": {"0.1": 3}}, "depths"),
        ({"caps": {"0.3": 3}, "depths": [0.1, 0.2]}, "depth 0.3"),
        ({"caps": [1, 1], "budget": 5.0}, "without costs"),
        ({"caps": [1, 1], "budget": -1.0, "costs": VALUES}, "budget"),
        ({"caps": [1, 1], "budget": float("inf"), "costs": VALUES}, "budget"),
        ({"caps": [1, 1], "segments": {"a": 1}}, "Segments"),
        ({"caps": [1, 1], "segments": Segments(["a", "b"], {})}, "one label"),
        ({"caps": [1, 1], "segments": Segments(["a", "b", "b"], {"c": {"caps": [1, 1]}})}, "'c'"),
        ({"caps": [1, 1], "segments": Segments(["a", "b", "b"], {"b": {"cap": [1, 1]}})}, "caps"),
        ({"caps": [1, 1], "segments": Segments(["1", "b", "b"], {1: {"caps": [0, 0]}, "1": {"caps": [5, 5]}})}, "two"),
    ],
)
def test_limits_that_cannot_be_read_are_named(arguments, words):
    caps = arguments.pop("caps")
    with pytest.raises(LimitError, match=words):
        allocate(VALUES, caps, **arguments)


def test_one_limit_stands_for_every_depth():
    for one, each in ((1, [1, 1]), (np.int64(1), [1, 1]), ("34%", ["34%", "34%"])):
        assert allocate(VALUES, one).choice.tolist() == allocate(VALUES, each).choice.tolist()
    assert allocate(VALUES, 2, floors=1).counts.min() == 1
    for wrong in (1.5, -1, "many", True):
        with pytest.raises(LimitError, match="caps: found"):
            allocate(VALUES, wrong)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ids": [1, 2, 1]}, "rows 1 and 3"),
        ({"ids": ["x", "y", "y"]}, "rows 2 and 3"),
        ({"ids": [1, 2]}, "2 ids"),
        ({"eligible": np.ones((2, 3), bool)}, "eligible"),
        ({"eligible": np.ones((3, 2))}, "Booleans"),
        ({"depths": [0.1]}, "1 depths"),
        ({"warm_prices": [1.0]}, "warm_prices"),
        ({"warm_prices": "x"}, "warm_prices"),
        ({"ids": [7, 8, 7]}, "found 7 more than once"),
        ({"ids": [7, None, None]}, "2 nulls, first in row 2"),
        ({"ids": [7, 2**70, 8]}, "Store these ids as text"),
    ],
)
def test_other_arguments_are_checked(arguments, words):
    with pytest.raises(InputError, match=words):
        allocate(VALUES, [1, 1], **arguments)


@pytest.mark.parametrize(
    "values",
    [np.empty((0, 2)), np.empty((2, 0)), np.ones(3), [["a", "b"]], [[1.0, 2.0], [3.0]], np.ma.masked_less(VALUES, 2)],
)
def test_tables_without_customers_depths_or_numbers_are_refused(values):
    with pytest.raises(InputError):
        allocate(values, [1, 1])


@pytest.mark.parametrize("rows", [3, 300])
def test_values_whose_sum_is_no_float_are_refused(rows):
    with pytest.raises(InputError, match="Divide all values by the same number"):
        allocate(np.full((rows, 1), 1.7e308), [rows])


def test_ids_as_text_and_as_numbers_are_the_same_customers():
    values = np.ones((6, 2))
    by_number = allocate(values, [2, 2], ids=[5, 4, 3, 2, 1, 0])
    by_text = allocate(values, [2, 2], ids=["5", "4", "3", "2", "1", "0"])
    assert (by_number.choice == by_text.choice).all()


TABLE = pd.DataFrame(VALUES, columns=[0.1, 0.2])


def test_a_table_names_its_depths_by_its_columns():
    expected = allocate(VALUES, [2, 1])
    for values in (TABLE, TABLE.rename(columns=str), pa.table({"0.10": VALUES[:, 0], "0.2": VALUES[:, 1]})):
        for caps in ({0.1: 2, 0.2: 1}, {"0.10": 2, "0.2": 1}, pd.Series({0.1: 2, 0.2: 1}), [2, 1], pd.Series([2, 1])):
            found = allocate(values, caps)
            assert found.choice.tolist() == expected.choice.tolist()
            assert found.depths == (0.1, 0.2)


def test_a_series_of_caps_may_leave_a_depth_open():
    assert allocate(TABLE, pd.Series({0.1: 1.0, 0.2: np.nan})).counts.tolist() == [1, 2]
    assert allocate(TABLE, pd.Series([1, None])).counts.tolist() == [1, 2]
    with pytest.raises(LimitError, match=r"depth 0.3"):
        allocate(TABLE, pd.Series({0.3: 1}))


def test_an_index_of_texts_holds_ids_and_one_of_numbers_does_not():
    ties, caps = np.ones((3, 2)), [1, 1]
    by_row, by_id = allocate(ties, caps), allocate(ties, caps, ids=["x", "y", "z"])
    for index, expected in (([7, 5, 6], by_row), (["x", "y", "z"], by_id)):
        moved = pd.DataFrame(ties, columns=[0.1, 0.2], index=index)
        assert allocate(moved, caps).choice.tolist() == expected.choice.tolist()


def test_columns_that_contradict_are_refused_by_name():
    with pytest.raises(InputError, match=r"columns of values: found 'x'.*Name the columns by their depths"):
        allocate(pd.DataFrame(VALUES, columns=["x", "y"]), [1, 1])
    with pytest.raises(InputError, match=r"depths: found 0.2, 0.1; expected the columns of values: 0.1, 0.2"):
        allocate(TABLE, [1, 1], depths=[0.2, 0.1])
    with pytest.raises(InputError, match=r"columns of costs: found 0.2, 0.1"):
        allocate(TABLE, [1, 1], costs=TABLE[[0.2, 0.1]], budget=1.0)
    with pytest.raises(InputError, match="columns of eligible"):
        allocate(TABLE, [1, 1], eligible=pd.DataFrame(np.ones((3, 2), bool), columns=[0.1, 0.3]))
    with pytest.raises(InputError, match="columns of markdown"):
        frontier(TABLE, TABLE[[0.2, 0.1]], [1, 1])


def test_names_given_beside_a_table_without_depths_are_used():
    named = allocate(pd.DataFrame(VALUES, columns=["small", "large"]), {0.1: 2, 0.2: 1}, depths=[0.1, 0.2])
    assert named.choice.tolist() == allocate(VALUES, [2, 1]).choice.tolist()
    assert allocate(pd.DataFrame(VALUES), [2, 1]).depths is None


def test_a_result_is_short_to_read_and_goes_to_pandas():
    found = allocate(TABLE, {0.1: 1, 0.2: 1})
    assert repr(found) == "Allocation(OPTIMAL, value 5.5, gap 0, 2 of 3 customers: 1 at 0.1, 1 at 0.2)"
    table = found.to_pandas(ids=["a", "b", "c"])
    assert table.columns.tolist() == ["customer_id", "choice", "depth"]
    assert table["choice"].tolist() == found.choice.tolist()
    assert table["depth"].isna().tolist() == (found.choice < 0).tolist()
    assert table["depth"].tolist()[1] == 0.1
    assert allocate(VALUES, [1, 1]).to_pandas().columns.tolist() == ["choice"]
    assert "column 1" in repr(allocate(VALUES, [1, 1]))
    assert repr(allocate(VALUES, [None, None], floors=[3, 3])).startswith("Allocation(INFEASIBLE, ")


@pytest.mark.parametrize(
    "table",
    [
        TABLE.assign(customer_id=["x", "y", "z"]),
        TABLE.set_index(pd.Index(["x", "y", "z"], name="customer_id")),
        pa.table({"0.1": VALUES[:, 0], "customer_id": ["x", "y", "z"], "0.2": VALUES[:, 1]}),
    ],
    ids=["column", "index", "arrow"],
)
def test_customer_ids_of_a_table_are_ids_and_never_a_depth(table):
    given = allocate(VALUES, [2, 1], ids=["x", "y", "z"], depths=[0.1, 0.2])
    found = allocate(table, {0.1: 2, 0.2: 1})
    assert found.depths == (0.1, 0.2)
    assert found.choice.tolist() == given.choice.tolist()
    assert found.to_pandas().to_dict("list") == given.to_pandas().to_dict("list")
    assert found.to_pandas()["customer_id"].tolist() == ["x", "y", "z"]
    points = frontier(table, table, {0.1: 2, 0.2: 1}, revenue_weights=[3.0])
    assert points[0].allocation.counts.sum() == 3


def test_numeric_customer_ids_of_a_table_are_ids_and_never_a_depth():
    found = allocate(TABLE.assign(customer_id=[1, 2, 3]), {0.1: 2, 0.2: 1})
    assert found.depths == (0.1, 0.2)
    assert found.to_pandas()["customer_id"].tolist() == [1, 2, 3]


def test_customer_ids_that_contradict_are_refused():
    table = TABLE.assign(customer_id=["x", "y", "z"])
    with pytest.raises(InputError, match="other ids in `values`; expected the same customers in the same order"):
        allocate(table, [2, 1], ids=["z", "y", "x"])
    with pytest.raises(InputError, match="other ids in `costs`"):
        allocate(table, [2, 1], costs=table.assign(customer_id=["y", "x", "z"]), budget=10.0)
    with pytest.raises(InputError, match="'x' more than once"):
        allocate(TABLE.assign(customer_id=["x", "x", "z"]), [2, 1])


def test_an_allocation_without_ids_is_a_table_as_well():
    found = allocate(VALUES, [2, 1])
    assert found.to_pandas().columns.tolist() == ["choice"]
    assert found.to_pandas(ids=[7, 8, 9])["customer_id"].tolist() == [7, 8, 9]
    with pytest.raises(InputError, match="ids: found 2 ids; expected one for each of 3 customers"):
        found.to_pandas(ids=[7, 8])
