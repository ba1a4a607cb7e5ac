"""What a use case returns: a frozen value with one JSON form, which `--json` prints and a service can send.

A result is a frozen dataclass that inherits from `Result`. What a field means stands as a docstring below the field:
docs/json.md is made from it, and so is the schema of a service. Money is in currency units, shares are numbers from 0
to 1, days and instants are ISO 8601, a depth is a number as a value (0.1) and a label as a key ("0.1"). What is unknown
is null: JSON has no NaN.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from pydantic import ConfigDict, Field, PlainSerializer

from disco.records.depths import depth_label
from disco.records.frames import Tabular

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Value = TypeVar("Value")

DepthKey = Annotated[float, PlainSerializer(depth_label, return_type=str, when_used="json")]
"""A depth as the key of a mapping: "0.1" in JSON."""


class _Opaque:
    """A type that is not looked into."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.with_default_schema(core_schema.any_schema(), default=None)  # None where JSON is read


NotInJson = Annotated[Value, _Opaque(), Field(exclude=True)]
"""A field for callers in Python alone, such as a table of all customers."""

_MOST_SHOWN = 60  # characters of a value in a repr


class Result:
    """The base of every use case's result."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        use_attribute_docstrings=True,
        arbitrary_types_allowed=True,
        defer_build=True,  # a service has 150 routes, and to look for the docstrings of all took a third of its start
    )

    def to_json(self, *, indent: int | None = None) -> str:
        """The JSON form, as docs/json.md describes it."""
        return json.dumps(self.as_dict(), indent=indent, allow_nan=False)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form as a dictionary: text, numbers, booleans, None, lists and dictionaries only."""
        kind: object = type(self)
        read: dict[str, Any] = json.loads(adapter(kind).dump_json(self, by_alias=True))
        return read

    @classmethod
    def from_dict(cls, form: Mapping[str, Any]) -> Self:
        """The result of its JSON form; what JSON does not carry (tables, models) is None."""
        kind: object = cls
        read: Self = adapter(kind).validate_python(form)
        return read

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        """The schema, with the docstrings of fields that stand in a class above: Pydantic reads those of one class."""
        found = handler(schema)
        fields_here = handler.resolve_ref_schema(found).get("properties", {})
        for above in cls.__mro__[1:]:
            if is_dataclass(above):
                for name, documented in adapter(above).json_schema(mode="serialization")["properties"].items():
                    if name in fields_here and "description" in documented:
                        fields_here[name].setdefault("description", documented["description"])
        return found

    def __repr__(self) -> str:
        shown = (f"{field.name}={_short(getattr(self, field.name))}" for field in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


class TableResult(Tabular, Result):
    """A result that is also a table."""

    __slots__ = ()


@cache
def adapter(kind: Any) -> "TypeAdapter[Any]":
    """Reads a result type's fields once; also gives its JSON schema."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _short(value: object) -> str:
    """A value in a few characters: numbers and names as they are, collections by their size."""
    if isinstance(value, str):
        return repr(value) if len(value) <= _MOST_SHOWN else repr(value[:_MOST_SHOWN] + "…")
    if value is None or isinstance(value, bool | int | float | date):
        return str(value)
    if isinstance(value, Mapping):
        names = ", ".join(map(str, value))
        return f"{{{names}}}" if len(names) <= _MOST_SHOWN else f"<{len(value)} entries>"
    if isinstance(value, tuple | list):
        return f"<{len(value)} entries>" if value else "()"
    if hasattr(value, "num_rows"):
        return f"<{value.num_rows:,} rows>"
    return f"<{type(value).__name__}>"
