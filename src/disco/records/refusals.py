"""What was expected of a value in a plan or in the settings, in our own words instead of the library's."""

from typing import Any

_WORDS = {
    "string_type": "text",
    "string_too_short": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list, such as [a, b]",
    "list_type": "a list, such as [a, b]",
    "dict_type": "keys and values, such as {name: value}",
    "too_short": "at least one entry",
    "model_type": "keys and values, such as {name: value}",
    "model_attributes_type": "keys and values, such as {name: value}",
}
_DAY = "a day such as 2027-03-01"


def expected_of(detail: Any) -> str:
    """The words for one error of pydantic (an item of `ValidationError.errors()`).

    >>> expected_of({"type": "date_from_datetime_parsing", "msg": "Input should be a valid date or datetime, …"})
    'a day such as 2027-03-01'
    >>> expected_of({"type": "greater_than", "msg": "Input should be greater than 0"})
    'greater than 0'
    """
    kind = str(detail["type"])
    if kind.startswith("date"):
        return _DAY
    return _WORDS.get(kind) or str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
