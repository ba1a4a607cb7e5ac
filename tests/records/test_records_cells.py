"""Text cells: what people and databases write, and what cannot be read."""

from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disco.records.cells import parse_text
from disco.records.tables import Kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", datetime(2026, 3, 1)),
        ("2026-03-01 14:05", datetime(2026, 3, 1, 14, 5)),
        ("2026-03-01T14:05:09.25", datetime(2026, 3, 1, 14, 5, 9, 250_000)),
        ("2026-03-01 14:05:09.123456789", datetime(2026, 3, 1, 14, 5, 9, 123_456)),
        ("2026-03-01T14:05:09Z", datetime(2026, 3, 1, 14, 5, 9)),
        ("2026-03-01T14:05:09+02:00", datetime(2026, 3, 1, 12, 5, 9)),
        ("2026-03-01 14:05:09 +0200", datetime(2026, 3, 1, 12, 5, 9)),
        ("2026-03-01 14:05:09 UTC", datetime(2026, 3, 1, 14, 5, 9)),
        (" 2026-03-01 ", datetime(2026, 3, 1)),
    ],
)
def test_times_as_they_are_written(text: str, expected: datetime) -> None:
    # beside cells of other sorts, because a clean column takes another way
    parsed = parse_text(pa.array([text, "2025-01-01", "?", None]), Kind.MOMENT)
    assert parsed.values.to_pylist() == [expected, datetime(2025, 1, 1), None, None]
    assert parsed.unreadable.tolist() == [False, False, True, False]
    assert parse_text(pa.array([text]), Kind.MOMENT).values.to_pylist() == [expected]


@pytest.mark.parametrize("text", ["01/02/2026", "2026-02-30", "0000-00-00", "2026-13-01", "yesterday", "20260301T"])
def test_what_is_no_time(text: str) -> None:
    assert parse_text(pa.array(["2026-01-01", text]), Kind.DAY).unreadable.tolist() == [False, True]


@pytest.mark.parametrize("text", ["12,50", "£3", "1 000", "1_000", "twelve", "--1", "0x10"])
def test_what_is_no_number(text: str) -> None:
    assert parse_text(pa.array(["1.5", text]), Kind.MONEY).unreadable.tolist() == [False, True]


@given(st.lists(st.floats(), min_size=1))
def test_numbers_keep_every_bit_also_beside_rubbish(numbers: list[float]) -> None:
    parsed = parse_text(pa.array([*map(repr, numbers), "rubbish"]), Kind.MONEY)
    assert list(map(repr, parsed.values.to_pylist()[:-1])) == list(map(repr, numbers))
    assert parsed.unreadable.tolist() == [False] * len(numbers) + [True]


def test_ids_keep_zeros_and_spaces_and_broken_bytes_are_flagged() -> None:
    parsed = parse_text(pa.array([b"007", b" 7", b"", b"\xe9"]), Kind.ID)
    assert parsed.values.to_pylist() == ["007", " 7", None, None]
    assert parsed.not_unicode.tolist() == [False, False, False, True]


def test_zones_are_seen() -> None:
    cells = ["2026-03-01T10:00:00Z", "2026-03-01T10:00:00", "2026-03-01"]
    assert parse_text(pa.array(cells), Kind.MOMENT).zoned.tolist() == [True, False, False]
