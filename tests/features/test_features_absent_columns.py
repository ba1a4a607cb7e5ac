"""Orders without the columns that may be absent: what they would have told is unknown, and nothing else changes."""

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest

from disco.features import build_features, training_set
from disco.records.table_rules import TableSource
from disco.records.validation import validate

AS_OF = date(2026, 3, 1)
CUSTOMERS = pa.table({"customer_id": ["1", "2"], "joined_on": [date(2025, 1, 1)] * 2})
ORDERS = pa.table(
    {
        "order_id": ["a", "b", "c"],
        "customer_id": ["1", "1", "2"],
        "ordered_at": [datetime(2025, 7, 1, 19), datetime(2025, 8, 1, 9), datetime(2026, 1, 1, 9)],
        "full_price": [20.0, 30.0, 40.0],
        "paid": [20.0, 24.0, 40.0],
        "items": [1, 2, 3],
        "code": pa.array([None, "x", None], pa.string()),
    }
)


class Memory:
    def __init__(self, **tables: pa.Table) -> None:
        self.tables = tables

    def names(self) -> tuple[str, ...]:
        return tuple(self.tables)

    def scan(self, name: str) -> pa.Table:
        return self.tables[name]


@pytest.mark.filterwarnings("ignore::disco.features.builder.MissingTableWarning")
def test_features_of_an_absent_column_are_unknown_and_the_others_are_the_same() -> None:
    whole = build_features(Memory(customers=CUSTOMERS, orders=ORDERS), as_of=AS_OF)
    bare = Memory(customers=CUSTOMERS, orders=ORDERS.drop_columns(["paid", "items", "code"]))
    found = build_features(bare, as_of=AS_OF)
    lost = {name for name in whole.column_names if found[name].null_count == 2 and whole[name].null_count < 2}
    assert {"paid_365d", "items_365d", "markdown_365d"} <= lost
    assert "full_price_365d" not in lost
    kept = [name for name in whole.column_names if name not in lost]
    assert found.select(kept).equals(whole.select(kept))
    assert len(lost) < 20


def test_tables_without_these_columns_have_no_problem() -> None:
    bare = ORDERS.drop_columns(["paid", "items", "code"])
    sources = [TableSource("customers", CUSTOMERS, "customers"), TableSource("orders", bare, "orders")]
    assert validate(sources, as_of=AS_OF).problems == ()
    empty = ORDERS.set_column(4, "paid", pa.array([None, 1.0, 2.0]))
    found = validate([sources[0], TableSource("orders", empty, "orders")], as_of=AS_OF)
    assert [(problem.kind, problem.column) for problem in found.problems] == [("null", "paid")]


@pytest.mark.filterwarnings("ignore::disco.features.builder.MissingTableWarning")
def test_a_network_can_be_trained_from_such_orders() -> None:
    bare = Memory(customers=CUSTOMERS, orders=ORDERS.drop_columns(["paid", "items", "code"]))
    rows = training_set(bare, window_start=date(2025, 7, 15), window_end=date(2025, 9, 15))
    assert rows.depth.tolist() == [0.0]
    plain = {"order_id": "d", "customer_id": "1", "ordered_at": datetime(2025, 8, 2), "full_price": 50.0, "items": 1}
    unpaid = ORDERS.drop_columns(["paid"])
    more = pa.concat_tables([unpaid, pa.Table.from_pylist([plain], unpaid.schema)])
    rows = training_set(
        Memory(customers=CUSTOMERS, orders=more), window_start=date(2025, 7, 15), window_end=date(2025, 9, 15)
    )
    assert rows.depth.tolist() == [0.0]  # without the order whose code has neither a depth nor a price paid
    assert np.exp(rows.log_full_price).round(2).tolist() == [50.0]
