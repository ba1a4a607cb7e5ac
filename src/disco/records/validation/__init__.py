"""Finds every problem of a retailer's tables at once: nothing is dropped, nothing is corrected silently."""

from disco.records.validation.checker import Source, TableSource, check_columns, check_rows, readable, typed_table
from disco.records.validation.validate import TablesReport, validate

__all__ = [
    "Source",
    "TableSource",
    "TablesReport",
    "check_columns",
    "check_rows",
    "readable",
    "typed_table",
    "validate",
]
