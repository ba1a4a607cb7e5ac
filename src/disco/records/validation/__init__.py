"""Finds every problem of a retailer's tables at once: nothing is dropped, nothing is mended silently."""

from disco.records.validation.source import Source, TableSource
from disco.records.validation.typed import typed_table
from disco.records.validation.validate import Report, validate

__all__ = ["Report", "Source", "TableSource", "typed_table", "validate"]
