"""Data frames of any library in the place of files: as tables, as values, as features; and results handed on."""

from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from raw_exports import LINES, PAYMENTS, SHEET, order_lines, payments, workbook

import disco
from disco.adapters.tables import open_tables, validate_tables
from disco.adapters.tables.workbook import read_sheet
from disco.records.errors import InputError, LimitError, TableError
from disco.records.frames import as_arrow, without_ids

AS_OF = date(2026, 3, 1)


class Capsule:
    """A data frame of a library that nobody here knows, with Arrow's PyCapsule protocol alone."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


CUSTOMERS = pa.table({"customer_id": ["a", "b"], "joined_on": [date(2025, 1, 1)] * 2})
ORDERS = {
    "order_id": [1, 2],
    "customer_id": ["a", "b"],
    "ordered_at": ["2026-01-05", "2026-01-06"],
    "full_price": [9, 8],
}


@pytest.mark.parametrize(
    "frame",
    [
        CUSTOMERS,
        CUSTOMERS.to_pandas(),
        CUSTOMERS.to_pandas().set_index("customer_id"),
        Capsule(CUSTOMERS),
        CUSTOMERS.to_pydict(),
        duckdb.from_arrow(CUSTOMERS),
        CUSTOMERS.to_batches()[0],
    ],
    ids=["arrow", "pandas", "index", "capsule", "mapping", "duckdb", "batch"],
)
def test_tables_come_in_frames_of_any_library(frame: object) -> None:
    with open_tables({"customers": frame, "orders": ORDERS}) as tables:
        assert tables.names() == ("customers", "orders")
        assert validate_tables(tables, as_of=AS_OF).problems == ()
        features = disco.build_features(tables, as_of=AS_OF, features=["orders_365d"], threads=1)
    assert features.to_pydict() == {"customer_id": ["a", "b"], "orders_365d": [1.0, 1.0]}


def test_integer_ids_that_pandas_made_floats_are_integers_and_bad_rows_have_their_numbers() -> None:
    orders = pd.DataFrame(ORDERS | {"customer_id": [7.0, None]})
    customers = {"customer_id": [7], "joined_on": [date(2025, 1, 1)]}
    problems = validate_tables(open_tables({"customers": customers, "orders": orders}), as_of=AS_OF).problems
    assert [(one.kind, one.file, one.column, one.row) for one in problems] == [("null", "orders", "customer_id", 2)]


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ({"order": ORDERS}, "Did you mean orders"),
        ({}, "none"),
        ({"orders": 7}, r"table orders: found an int; expected a data frame \(pandas, Polars, DuckDB"),
        ({"orders": {"a": [1, 2], "b": [1]}}, "table orders: found a dict"),
    ],
)
def test_what_is_no_frame_or_no_table_is_refused_in_a_sentence(frames: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        open_tables(frames)


# ---- a new shop of frames, down to a first plan

PLAN = {
    "campaign": "first",
    "customers": {"table": "customers", "as_of": "2026-03-01"},
    "depths": {0.1: {"at_most": "40%"}, 0.2: {"at_most": 20}},
    "objective": {"revenue_weight": 3},
    "policy": {"name": "random"},
    "control": {"share": "20%"},
    "valid": {"from": "2026-03-02", "days": 14},
    "seed": 1,
}


def read_lines(folder: Path) -> pd.DataFrame:
    order_lines(folder, customers=250)
    return pd.read_csv(folder / "online.csv", encoding="cp1252")  # with ids as floats, because guests have none


def read_payments(folder: Path) -> Capsule:
    payments(folder, customers=250)
    file = folder / "zahlungen.csv"
    return Capsule(duckdb.read_csv(str(file), delimiter=";", all_varchar=True).to_arrow_table())


def read_workbook(folder: Path) -> pa.Table:
    workbook(folder, customers=250)
    table = read_sheet(folder / "sales.xlsx", file="sales.xlsx")[0]
    return table.set_column(3, "Total", table["Total"].cast(pa.float64()))


@pytest.mark.parametrize(
    ("export", "name", "settings"),
    [(read_lines, "online", LINES), (read_payments, "zahlungen", PAYMENTS), (read_workbook, "sales", SHEET)],
)
def test_a_raw_export_in_a_frame_reaches_a_first_plan_in_a_few_lines(tmp_path, export, name, settings) -> None:
    text = yaml.safe_dump(settings).replace(".csv", ".parquet").replace(".xlsx", ".parquet")
    frame = export(tmp_path)
    shop = disco.Shop.create(tmp_path / "shop", {name: frame}, **yaml.safe_load(text))
    assert shop.validate().clean
    trained = shop.train(heads="level", max_epochs=1)
    assert trained.heads == "level"
    assert trained.test is not None
    planned = shop.plan(PLAN)
    assert planned.customers == 250
    assert planned.arms["decided"].codes


def test_a_shop_of_frames_with_a_problem_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="not in customers"):
        disco.Shop.create(tmp_path / "shop", {"customers": CUSTOMERS, "orders": ORDERS | {"customer_id": ["a", "c"]}})
    assert not (tmp_path / "shop").exists()
    disco.Shop.create(tmp_path / "shop", {"customers": CUSTOMERS, "orders": ORDERS}, currency="EUR")
    with pytest.raises(InputError, match="nothing is overwritten"):
        disco.Shop.create(tmp_path / "shop", {"customers": CUSTOMERS})
    with pytest.raises(InputError, match="names of letters"):
        disco.Shop.create(tmp_path / "other", {"../customers": CUSTOMERS})


# ---- values, caps and results

VALUES = pd.DataFrame([[3.0, 5.0], [2.0, 9.0], [4.0, 4.5]], columns=["0.1", "0.2"], index=["x", "y", "z"])


def test_values_of_any_library_have_their_ids_and_results_are_handed_on() -> None:
    named = pa.Table.from_pandas(VALUES.reset_index(names="customer_id"), preserve_index=False)
    by_sql = duckdb.sql('SELECT customer_id, CAST("0.1" AS DECIMAL(9, 2)) AS "0.1", "0.2" FROM named')
    results = [disco.allocate(values, {0.2: "67%"}) for values in (VALUES, named, Capsule(named), by_sql)]
    expected = {"customer_id": ["x", "y", "z"], "choice": [1, 1, 0], "depth": [0.2, 0.2, 0.1]}
    assert [pa.table(result).to_pydict() for result in results] == [expected] * 4
    rows_only = VALUES.set_index(pd.Index([2, 0, 5]))  # of a frame that was filtered: no ids
    assert without_ids(rows_only)[1] is None


def test_caps_are_counts_or_shares_or_none_at_every_door() -> None:
    values = VALUES.to_numpy()
    assert disco.allocate(values).counts.tolist() == [0, 3]
    assert disco.allocate(values, ["34%", 1], floors=["34%", 0]).counts.tolist() == [1, 1]
    offer = disco.Offer(depths=(0.1, 0.2), caps={0.2: "34%"}, floors={0.1: 1}, revenue_weight=2)
    assert (offer.caps, offer.floors) == ((None, "34%"), (1, 0))
    audience = disco.Audience(ids=["a", "b", "c"], context=np.zeros((3, 1)), known=True)
    belief = disco.Belief(basket=disco.BasketModel(), engagement=disco.Engagement())
    decided = disco.decide(audience, belief=belief, offer=offer, policy=disco.Random(), campaign="c", seed=1)
    assert decided.counts.tolist()[1] <= 1
    for caps in (["101%", 1], ["many", 1], ["-3%", 1]):
        with pytest.raises(LimitError):
            disco.allocate(values, caps)
    with pytest.raises(LimitError, match=r"found depth 0\.3; expected one of 0\.1, 0\.2"):
        disco.Offer(depths=(0.1, 0.2), caps={0.3: 1}, revenue_weight=2)


def test_a_column_of_text_beside_the_depths_is_named() -> None:
    with pytest.raises(InputError, match=r"values: found no numbers in 'segment'; expected numbers .* `segments`"):
        disco.allocate(VALUES.assign(segment=["a", "b", "c"]), [1, 1])


def test_a_test_of_ones_own_comes_in_any_frame() -> None:
    rows = pa.table({"arm": ["new", "control"] * 40, "bought": [1, 0, 1, 1] * 20})
    for frame in (rows, rows.to_pandas(), Capsule(rows), duckdb.from_arrow(rows)):
        assert disco.ab(frame, arm="arm", metrics="bought").differences[0].difference.value == 0.5


def test_frames_are_told_apart() -> None:
    assert as_arrow(VALUES, where="x").column_names == ["0.1", "0.2"]
    assert as_arrow(VALUES.rename_axis("who"), where="x").column_names == ["who", "0.1", "0.2"]
