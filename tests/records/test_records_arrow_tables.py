"""Equal content gives equal hashes however it is laid out; any changed cell, name, order or null gives another."""

from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco.records.arrow_tables import content_hash

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["a", None, "bc"],
        "price": [1.5, None, -0.5],
        "paid": pa.array([Decimal("1.20"), None, Decimal("3.40")]),
        "day": [date(2026, 1, 1), None, date(2026, 1, 2)],
        "at": pa.array([datetime(2026, 1, 1, 8), None, None], pa.timestamp("us")),
        "known": [True, None, False],
        "nothing": pa.nulls(3),
    }
)


@given(st.lists(st.integers(0, 3), max_size=4))
def test_chunks_and_offsets_do_not_matter(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), 3]
    parts = [TABLE.slice(start, end - start) for start, end in pairwise(places)]
    assert content_hash(pa.concat_tables(parts)) == content_hash(TABLE)


@pytest.mark.parametrize(
    ("column", "other"),
    [("name", pa.large_string()), ("id", pa.int32()), ("name", pa.dictionary(pa.int32(), pa.string()))],
)
def test_the_width_of_a_type_does_not_matter(column: str, other: pa.DataType) -> None:
    place = TABLE.column_names.index(column)
    assert content_hash(TABLE.set_column(place, column, TABLE[column].cast(other))) == content_hash(TABLE)


def test_everything_else_matters() -> None:
    others = [
        TABLE.rename_columns(["key", *TABLE.column_names[1:]]),
        TABLE.take([1, 0, 2]),
        TABLE.slice(0, 2),
        TABLE.select(TABLE.column_names[::-1]),
        *(
            TABLE.set_column(
                place, name, pa.array([TABLE[name][0].as_py(), TABLE[name][0].as_py(), None], TABLE[name].type)
            )
            for place, name in enumerate(TABLE.column_names)
            if name != "nothing"
        ),
    ]
    hashes = [content_hash(other) for other in [TABLE, *others]]
    assert len(set(hashes)) == len(hashes)


def test_the_border_between_two_cells_matters() -> None:
    assert content_hash(pa.table({"x": ["ab", "c"]})) != content_hash(pa.table({"x": ["a", "bc"]}))
    assert content_hash(pa.table({"x": ["", None]})) != content_hash(pa.table({"x": [None, ""]}))


def test_an_empty_table_has_a_hash_of_its_columns() -> None:
    assert content_hash(TABLE[:0]) == content_hash(TABLE[1:1]) != content_hash(TABLE[:0].select(["id"]))
