"""One set of faults over every reader of a table: `validate`, `ingest` and the feature builder give one verdict.

Every kind of fault that a column of that kind can have is planted into every column of every table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.features.conftest import MemoryTables
from tests.records.conftest import make_shop

from disco.features import build_features
from disco.operations.outcomes import known_columns, read_outcomes
from disco.records.errors import Problem, TableError
from disco.records.table_rules import TableSource, check_rows
from disco.records.tables import SCHEMAS, ColumnSchema, Kind, Relation
from disco.records.validation import validate

AS_OF = date(2026, 3, 1)
ROW = 3  # of a refund, in outcomes
FEATURE_TABLES = ("customers", "orders", "returns", "codes", "site")

CELLS: dict[Kind, list[tuple[str, Any]]] = {
    Kind.ID: [("unusable_id", "a\0b"), ("unusable_id", "ü" * 501)],
    Kind.MONEY: [
        ("not_finite", float("nan")),
        ("not_finite", float("inf")),
        ("not_finite", float("-inf")),
        ("negative_money", -0.01),
        ("too_large", 1.0001e13),
        ("wrong_type", "12,50"),
    ],
    Kind.DEPTH: [("not_finite", float("nan")), ("depth_range", -0.1), ("depth_range", 1.0), ("wrong_type", "a fifth")],
    Kind.COUNT: [("negative_count", -1.0), ("not_whole", 1.5), ("too_large", 2.0**31 + 1), ("wrong_type", "three")],
    Kind.MOMENT: [("date_range", datetime(1899, 12, 31)), ("date_range", datetime(9000, 1, 1)), ("wrong_type", "soon")],
    Kind.DAY: [("date_range", date(1899, 12, 31)), ("date_range", date(9000, 1, 1)), ("wrong_type", "soon")],
    Kind.CHOICE: [("unknown_choice", "gift")],
}


@dataclass(frozen=True)
class Fault:
    kind: str
    table: str
    column: str
    value: Any

    def planted(self) -> pa.Table:
        """A clean table with this fault in one row."""
        table = make_shop(orders=12)[self.table]
        at, of = table.schema.get_field_index(self.column), table.schema.field(self.column).type
        cells = table[self.column].to_pylist()
        if isinstance(self.value, str) and SCHEMAS[self.table].column(self.column).kind not in (Kind.ID, Kind.CHOICE):
            cells, of = [None if cell is None else str(cell) for cell in cells], pa.string()
        elif self.value is not None and (pa.types.is_integer(of) or pa.types.is_null(of)):
            of = pa.float64() if isinstance(self.value, float) else pa.string()
        cells[self.row] = self.value
        return table.set_column(at, self.column, pa.array(cells, of))

    @property
    def row(self) -> int:
        return min(ROW, make_shop(orders=12)[self.table].num_rows - 1)


OF_ROWS = {
    Relation.AT_MOST: ("paid_above_full_price", 1e6),
    Relation.NOT_BEFORE: ("redeemed_before_sent", datetime(2025, 1, 1)),
    Relation.NEEDED_UNLESS: ("missing_refers_to", None),
}


def cell_faults() -> Iterator[Fault]:
    for name, schema in SCHEMAS.items():
        for column in schema.columns:
            if not column.nullable:
                yield Fault("null", name, column.name, None)
            for kind, value in CELLS[column.kind]:
                yield Fault(kind, name, column.name, value)
            if column.positive:
                yield from (Fault("zero_amount", name, column.name, value) for value in (0.0, 0.004))
        for rule in schema.rows:
            if rule.relation is not Relation.SAID_WITH:  # about a column that is absent
                kind, value = OF_ROWS[rule.relation]
                yield Fault(kind, name, rule.column, value)


def validated(name: str, table: pa.Table) -> tuple[Problem, ...]:
    return validate([TableSource(name, table, f"table {name}")], as_of=None, relations=False).problems


def features_of(name: str, table: pa.Table) -> pa.Table:
    shop = {other: given for other, given in make_shop(orders=12).items() if other in FEATURE_TABLES}
    return build_features(MemoryTables(shop | {name: table}), as_of=AS_OF, threads=1)


def ingested(table: pa.Table) -> pa.Table:
    codes = pa.table({"code": pa.array([], pa.string()), "customer_id": pa.array([], pa.string())})
    days = {"start": date(2025, 1, 1), "end": AS_OF}
    known = known_columns(table)
    checked = check_rows("outcomes", known)
    return read_outcomes(known, checked, campaign="spring", decisions=codes, closed=False, **days)


@pytest.mark.parametrize("name", SCHEMAS)
def test_clean_tables_pass_every_reader(name: str) -> None:
    table = make_shop(orders=12)[name]
    assert validated(name, table) == ()
    if name == "outcomes":
        assert "rejected" not in ingested(table)["disposition"].to_pylist()
    else:
        assert features_of(name, table).num_rows > 0


@pytest.mark.parametrize("fault", list(cell_faults()), ids=lambda fault: f"{fault.table}-{fault.column}-{fault.kind}")
def test_a_bad_row_has_one_verdict(fault: Fault) -> None:
    table = fault.planted()
    (problem,) = validated(fault.table, table)
    assert (problem.kind, problem.column, problem.row) == (fault.kind, fault.column, fault.row + 1)
    if fault.table == "outcomes":
        rows = ingested(table)
        assert [row for row, fate in enumerate(rows["disposition"].to_pylist()) if fate == "rejected"] == [fault.row]
        assert rows["reason"][fault.row].as_py() == f"{problem.column}: expected {problem.expected}"
    else:
        with pytest.raises(TableError) as refused:
            features_of(fault.table, table)
        assert refused.value.problems == (problem,)


OLD = datetime(2019, 5, 6)  # long before the year that features look at


@pytest.mark.parametrize(
    ("table", "dated", "column", "value", "kind"),
    [
        ("orders", "ordered_at", "full_price", -1.0, "negative_money"),
        ("orders", "ordered_at", "items", None, "null"),
        ("orders", "ordered_at", "customer_id", "a\0b", "unusable_id"),
        ("orders", "ordered_at", "order_id", "x" * 1001, "unusable_id"),
        ("orders", "ordered_at", "code", "ü" * 501, "unusable_id"),
        ("returns", "returned_at", "value", float("nan"), "not_finite"),
        ("codes", "sent_at", "depth", 20.0, "depth_range"),
        ("codes", "sent_at", "campaign_id", None, "null"),
        ("site", "day", "views", -3.0, "negative_count"),
    ],
)
def test_a_bad_row_of_years_ago_has_the_same_verdict(
    table: str, dated: str, column: str, value: Any, kind: str
) -> None:
    fault = Fault(kind, table, column, value)
    planted = fault.planted()
    at, of = planted.schema.get_field_index(dated), planted.schema.field(dated).type
    dates = planted[dated].to_pylist()
    dates[fault.row] = OLD.date() if pa.types.is_date(of) else OLD
    planted = planted.set_column(at, dated, pa.array(dates, of))
    problems = validated(table, planted)
    assert kind in {problem.kind for problem in problems}
    with pytest.raises(TableError) as refused:
        features_of(table, planted)
    assert refused.value.problems == problems


def test_text_that_is_not_unicode_has_one_verdict() -> None:
    for name in FEATURE_TABLES:
        table = make_shop(orders=12)[name]
        for column in SCHEMAS[name].columns:
            if column.kind is not Kind.ID:
                continue
            at = table.schema.get_field_index(column.name)
            cells = [None if cell is None else str(cell).encode() for cell in table[column.name].to_pylist()]
            cells[0] = b"\xff\xfe"
            broken = table.set_column(at, column.name, pa.array(cells, pa.binary()).view(pa.string()))
            problems = validated(name, broken)
            assert [(problem.kind, problem.column, problem.row) for problem in problems] == [
                ("encoding", column.name, 1)
            ]
            with pytest.raises(TableError) as refused:
                features_of(name, broken)
            assert refused.value.problems == problems


@pytest.mark.parametrize("name", ["orders", "returns", "codes", "site"])
def test_ids_of_two_types_have_one_verdict(name: str) -> None:
    shop = {other: table for other, table in make_shop(orders=12).items() if other in FEATURE_TABLES}
    key = next(column.name for column in SCHEMAS[name].columns if column.refers_to)
    at = shop[name].schema.get_field_index(key)
    cells = pa.array(range(shop[name].num_rows))
    if pa.types.is_integer(shop[name].schema.field(key).type):
        cells = cells.cast(pa.string())
    shop[name] = shop[name].set_column(at, key, cells)
    sources = [TableSource(other, table, f"table {other}") for other, table in shop.items()]
    mixed = [problem for problem in validate(sources, as_of=AS_OF).problems if problem.kind == "mixed_ids"]
    with pytest.raises(TableError) as refused:
        build_features(MemoryTables(shop), as_of=AS_OF, threads=1)
    assert [problem for problem in refused.value.problems if problem.column == key] == [
        problem for problem in mixed if problem.column == key
    ]


def test_a_day_after_every_calendar_is_a_day_like_none() -> None:
    source = TableSource("customers", make_shop(orders=12)["customers"], "table customers")
    assert validate([source], as_of=date.max, relations=False).problems == ()


def _columns() -> list[tuple[str, ColumnSchema]]:
    return [(name, column) for name, schema in SCHEMAS.items() for column in schema.columns]


@pytest.mark.parametrize(("name", "column"), _columns(), ids=lambda part: getattr(part, "name", part))
@pytest.mark.parametrize("damage", ["missing_column", "duplicate_column", "wrong_type"])
def test_a_bad_column_has_one_verdict(name: str, column: ColumnSchema, damage: str) -> None:
    table = make_shop(orders=12)[name]
    at = table.schema.get_field_index(column.name)
    table = {
        "missing_column": lambda: table.remove_column(at),
        "duplicate_column": lambda: table.append_column(column.name, table[column.name]),
        "wrong_type": lambda: table.set_column(at, column.name, pa.array([True] * len(table))),
    }[damage]()
    problems = validated(name, table)
    if column.optional and damage == "missing_column" and name != "outcomes":
        assert problems == ()
        features_of(name, table)  # is not refused either
        return
    if column.optional and damage == "missing_column":
        assert {problem.kind for problem in problems} <= {"missing_refers_to", "missing_kind"}, "only refunds need it"
        rejected = ingested(table)["disposition"].to_pylist().count("rejected")
        assert rejected == sum(problem.rows for problem in problems)
        assert bool(rejected) == (column.name in ("refers_to", "kind"))
        return
    assert [(problem.kind, problem.column) for problem in problems] == [(damage, column.name)]
    with pytest.raises(TableError) as refused:
        ingested(table) if name == "outcomes" else features_of(name, table)
    assert [(problem.kind, problem.column) for problem in refused.value.problems] == [(damage, column.name)]
