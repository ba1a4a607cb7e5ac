"""Finds every problem of a retailer's tables at once: nothing is dropped, nothing is corrected silently."""

from disco.records.validation.checker import (
    Source,
    TableSource,
    check_column,
    check_columns,
    check_rows,
    readable,
    typed_table,
    with_columns,
)
from disco.records.validation.validate import TablesReport, mixed_ids, validate

__all__ = [
    "Source",
    "TableSource",
    "TablesReport",
    "check_column",
    "check_columns",
    "check_rows",
    "mixed_ids",
    "readable",
    "typed_table",
    "validate",
    "with_columns",
]
