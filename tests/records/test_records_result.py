"""Results have one JSON form: plain values, depths as labels in keys, null for what is unknown, and a short repr."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

import pyarrow as pa

from disco.records.decisions import Arm
from disco.records.result import DepthKey, NotInJson, Result, TableResult, adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    figure: float
    """A figure."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sample(TableResult):
    """A sample."""

    name: str
    """Its name."""
    codes: Mapping[DepthKey, int]
    """Codes per depth."""
    arms: Mapping[Arm, Part]
    """By arm."""
    unknown: float
    """Not known."""
    day: date
    """A day."""
    at: datetime
    """An instant."""
    rows: NotInJson[pa.Table]

    def to_arrow(self) -> pa.Table:
        return self.rows


SAMPLE = Sample(
    name="x" * 100,
    codes={0.1: 3, 0.00001: 4},
    arms={Arm.CONTROL: Part(figure=1.5)},
    unknown=float("nan"),
    day=date(2027, 3, 1),
    at=datetime(2027, 3, 1, 12, tzinfo=UTC),
    rows=pa.table({"a": [1, 2, 3]}),
)


def test_the_json_form() -> None:
    assert SAMPLE.as_dict() == {
        "name": "x" * 100,
        "codes": {"0.1": 3, "0.00001": 4},
        "arms": {"control": {"figure": 1.5}},
        "unknown": None,
        "day": "2027-03-01",
        "at": "2027-03-01T12:00:00Z",
    }
    assert json.loads(SAMPLE.to_json(indent=2)) == SAMPLE.as_dict()


def test_the_schema_has_the_text_beside_each_field() -> None:
    schema = adapter(Sample).json_schema(mode="serialization")
    assert schema["description"] == "A sample."
    assert schema["properties"]["codes"]["description"] == "Codes per depth."
    assert schema["$defs"]["Part"]["properties"]["figure"]["description"] == "A figure."
    assert "rows" not in schema["properties"]


def test_a_repr_fits_on_a_line_or_two_and_tables_come_out() -> None:
    assert repr(SAMPLE).startswith("Sample(name='xxx")
    assert len(repr(SAMPLE)) < 250
    assert "rows=<3 rows>" in repr(SAMPLE)
    assert SAMPLE.to_pandas()["a"].tolist() == [1, 2, 3]
    assert issubclass(Sample, Result)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Figures(Result):
    count: int
    """How many."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Larger(Figures):
    more: int
    """How many more."""


def test_fields_of_a_class_above_keep_their_documentation() -> None:
    fields = adapter(Larger).json_schema()["properties"]
    assert {name: field["description"] for name, field in fields.items()} == {
        "count": "How many.",
        "more": "How many more.",
    }
    assert Larger(count=1, more=2).as_dict() == {"count": 1, "more": 2}
